/** An output that stays on the device. */

import type { Live } from './live.js';
import { toData } from './tensors.js';
import type { ElementType, TensorData } from './session_types.js';
import { usage } from './error.js';
import type { WasmOutput } from './wasm_session.js';

/** A tensor in the memory of a session's device: an input of the session's other runs. `dispose` frees it; so does the session's. */
export class DeviceTensor {
  readonly type: ElementType;
  /** Sizes, outermost first; none of a scalar. */
  readonly dims: readonly number[];
  readonly #live: Live;
  readonly #kept: number;
  #over = false;

  private constructor(live: Live, { type, dims, kept }: WasmOutput) {
    this.type = type;
    this.dims = dims;
    this.#live = live;
    this.#kept = kept!;
  }

  /**
   * The buffer it lies in, from its start; null on the CPU. Its size may be larger than the elements'. It can be bound
   * as storage and copied, on `Session.gpuDevice`; it is destroyed by `dispose`.
   */
  get buffer(): GPUBuffer | null {
    return this.#live.bufferOf(this.#number());
  }

  /** Reads its elements. Rejects as `Session.run`. */
  async data({ signal }: { signal?: AbortSignal } = {}): Promise<TensorData> {
    const kept = this.#number();
    return this.#live.call(signal, async (wasm) => {
      wasm.read(kept);
      await wasm.outputs();
      return toData(this.type, wasm.output(0));
    });
  }

  /** Frees its memory, when runs that were given it have ended. Doing it twice does nothing. */
  dispose(): void {
    if (this.#over) return;
    this.#over = true;
    this.#live.freeKept(this.#kept);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** @internal An output that a run left on the device. */
  static of(live: Live, output: WasmOutput): DeviceTensor {
    return new DeviceTensor(live, output);
  }

  /** @internal Its number in that session's module. */
  static in(live: Live, name: string, tensor: DeviceTensor): number {
    if (tensor.#live !== live) throw usage(`input ${name} stays in the memory of another session`, name, 'read it with data(), and give its elements');
    return tensor.#number(name);
  }

  #number(name = 'data'): number {
    this.#live.check();
    if (this.#over) throw usage(`${name}: the tensor was disposed`, name);
    return this.#kept;
  }
}
