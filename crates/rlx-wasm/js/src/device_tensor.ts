/** An output that stays on the device. */

import type { Live } from './live.js';
import { toData } from './tensors.js';
import type { ElementType, TensorData } from './session_types.js';
import { usage } from './error.js';
import type { WasmOutput } from './wasm_session.js';

/** A tensor in the memory of a session's device, for other runs of the session. Its `dispose` or the session's frees it. */
export class DeviceTensor {
  readonly type: ElementType;
  /** Sizes, outermost first; empty for a scalar. */
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
   * Its buffer, with the elements at the start; null on the CPU. The buffer may be larger than the elements. It can be
   * bound as storage and copied, on `Session.gpuDevice`; `dispose` destroys it.
   */
  get buffer(): GPUBuffer | null {
    return this.#live.bufferOf(this.#number());
  }

  /** Reads its elements. Rejects like `Session.run`. */
  async data({ signal }: { signal?: AbortSignal } = {}): Promise<TensorData> {
    const kept = this.#number();
    return this.#live.call(signal, async (wasm) => {
      wasm.read(kept);
      await wasm.outputs();
      return toData(this.type, wasm.output(0));
    });
  }

  /** Frees its memory, once runs that use it have ended. Calling it again does nothing. */
  dispose(): void {
    if (this.#over) return;
    this.#over = true;
    this.#live.freeKept(this.#kept);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** @internal An output that a run kept on the device. */
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
