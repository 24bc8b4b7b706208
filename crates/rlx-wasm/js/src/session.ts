/** `Session`: a network on a device, with its entries. */

import type { Running } from './bring.js';
import { usage } from './error.js';
import { Live } from './live.js';
import { heard } from './listeners.js';
import { bringNetwork } from './network.js';
import { sessionFiles } from './network_files.js';
import { DeviceTensor } from './device_tensor.js';
import type {
  BufferInput, ElementType, RunOptions, SessionEntry, SessionInfo, SessionOptions, TensorInput, TensorOutput,
} from './session_types.js';
import { toBuffer, toData, toRaw } from './tensors.js';
import type { WasmOutput, WasmSession } from './wasm_session.js';

/** Checks an input, and returns the function that gives it to the module when the run's turn comes. */
function giver(live: Live, name: string, tensor: TensorInput | BufferInput | DeviceTensor, wanted: ElementType | undefined): (wasm: WasmSession) => void {
  if (tensor instanceof DeviceTensor) {
    DeviceTensor.in(live, name, tensor);
    return (wasm) => wasm.inputKept(name, DeviceTensor.in(live, name, tensor));
  }
  if (typeof tensor === 'object' && tensor !== null && 'buffer' in tensor && !ArrayBuffer.isView(tensor)) {
    if (!live.gpuDevice) throw usage(`input ${name} is a GPUBuffer, and the session runs on the CPU`, name, 'read it, and give a typed array');
    const { type, dims, buffer } = toBuffer(name, tensor, wanted);
    return (wasm) => wasm.inputBuffer(name, type, dims, buffer);
  }
  const { type, dims, bytes } = toRaw(name, tensor as TensorInput, wanted);
  return (wasm) => wasm.input(name, type, dims, bytes);
}

export class Session {
  /** The entries that can run, with the types of their inputs and outputs. */
  readonly entries: readonly SessionEntry[];
  readonly #live: Live;

  private constructor(running: Running<WasmSession>) {
    this.entries = JSON.parse(running.wasm.entries()) as SessionEntry[];
    this.#live = new Live(running, 'session');
  }

  /**
   * Loads a network: a model that is no language model, or a graph's text with its weights. This fetches the wasm
   * module's build for such networks.
   *
   * Rejects with an `RlxError`: `usage` (an option), `bad_graph` (the text, with line and column), `unsupported` (a
   * language model, an operator that the device does not run), else as `Engine.load`.
   */
  static async load(options: SessionOptions): Promise<Session> {
    const files = sessionFiles(options);
    return new Session(await bringNetwork(heard(options), files));
  }

  /**
   * Runs an entry. Inputs may have any sizes that fit the entry's symbols; the first run with new sizes compiles a
   * program for them. Runs happen one after another, in the order of the calls.
   *
   * An input is a typed array, a `GPUBuffer` of the page (WebGPU), or an output that was kept on the device. Outputs
   * that `keep` names are returned as `DeviceTensor`, without a copy in the page's memory.
   *
   * Ids in a typed array that a table is read by, such as a text's tokens, must be rows of the table. Those in a
   * buffer or on the device are not checked: for an id outside of the table its nearest row is read.
   *
   * Rejects with an `RlxError`: `usage` (an entry, a name, a type, sizes, an id: with what was given and what is
   * wanted), `out_of_memory`, `device_lost`, `cancelled` (the signal), `disposed`. The session stays usable, unless
   * the device is lost.
   */
  async run<Kept extends string = never>(
    entry: string,
    inputs: { [name: string]: TensorInput | BufferInput | DeviceTensor },
    { signal, keep = [] }: RunOptions<Kept> = {},
  ): Promise<{ [name in Kept]: DeviceTensor } & { [name: string]: TensorOutput }> {
    const live = this.#live;
    live.check();
    if (typeof inputs !== 'object' || inputs === null) throw usage('run takes an entry\'s name and an object of tensors', 'inputs');
    if (!Array.isArray(keep)) throw usage('keep is no array of outputs\' names', 'keep');
    const wanted = this.entries.find(({ name }) => name === entry)?.inputs;
    const gives = Object.entries(inputs).map(([name, tensor]) => giver(live, name, tensor, wanted?.find((w) => w.name === name)?.type));
    return live.call(signal, async (wasm) => {
      for (const give of gives) give(wasm);
      wasm.start(String(entry), keep.map(String));
      const outputs = JSON.parse(await wasm.outputs()) as WasmOutput[];
      return Object.fromEntries(outputs.map((output, i) => {
        const { name, type, dims, kept } = output;
        return [name, kept === undefined ? { data: toData(type, wasm.output(i)), dims, type } : DeviceTensor.of(live, output)];
      })) as { [name in Kept]: DeviceTensor } & { [name: string]: TensorOutput };
    });
  }

  /** The session's GPU device, for the page's own buffers and pipelines; null on the CPU. It outlives the session. */
  get gpuDevice(): GPUDevice | null {
    this.#live.check();
    return this.#live.gpuDevice;
  }

  /** The device and the network. */
  info(): SessionInfo {
    return this.#live.info();
  }

  /** Frees the network's memory. Runs that wait or are in progress end with code `disposed`. Calling it again does nothing. */
  dispose(): void {
    this.#live.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
