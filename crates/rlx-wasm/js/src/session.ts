/** `Session`: a network on a device, and what it can be asked. */

import type { Running } from './bring.js';
import { usage } from './error.js';
import { Live } from './live.js';
import { heard } from './listeners.js';
import { bringNetwork } from './network.js';
import { sessionFiles } from './network_files.js';
import type {
  ElementType, RunOptions, SessionEntry, SessionInfo, SessionOptions, TensorInput, TensorOutput,
} from './session_types.js';
import { toData, toRaw } from './tensors.js';
import type { WasmSession } from './wasm_session.js';

export class Session {
  /** What can be asked, with the types of inputs and outputs. */
  readonly entries: readonly SessionEntry[];
  readonly #live: Live;

  private constructor(running: Running<WasmSession>) {
    this.entries = JSON.parse(running.wasm.entries()) as SessionEntry[];
    this.#live = new Live(running, 'session');
  }

  /**
   * Loads a network: a model that is no language model, or a graph's text with its weights. The wasm module's
   * build for such networks is fetched now.
   *
   * Rejects with an `RlxError`: `usage` (an option), `bad_graph` (the text, with line and column), `unsupported` (a
   * language model, an operator that the device has not), else as `Engine.load`.
   */
  static async load(options: SessionOptions): Promise<Session> {
    const files = sessionFiles(options);
    return new Session(await bringNetwork(heard(options), files));
  }

  /**
   * Runs an entry. Inputs may have any sizes that fit the entry's symbols; a program for new sizes is made when they
   * come, and kept. Runs are made one after another, in the order they were asked for. Tensors are in the page's
   * memory: a `GPUBuffer` is neither taken nor given.
   *
   * Rejects with an `RlxError`: `usage` (an entry, a name, a type, sizes: with what was given and what is wanted),
   * `out_of_memory`, `device_lost`, `cancelled` (the signal), `disposed`. The session can be used on, unless the
   * device is lost.
   */
  async run(entry: string, inputs: { [name: string]: TensorInput }, { signal }: RunOptions = {}): Promise<{ [name: string]: TensorOutput }> {
    this.#live.check();
    if (typeof inputs !== 'object' || inputs === null) throw usage('run takes an entry\'s name and an object of tensors', 'inputs');
    const wanted = this.entries.find(({ name }) => name === entry)?.inputs;
    const given = Object.entries(inputs).map(([name, tensor]) => toRaw(name, tensor, wanted?.find((w) => w.name === name)?.type));
    return this.#live.call(signal, async (wasm) => {
      for (const { name, type, dims, bytes } of given) wasm.input(name, type, dims, bytes);
      wasm.start(String(entry));
      const outputs = JSON.parse(await wasm.outputs()) as { name: string; type: ElementType; dims: number[] }[];
      return Object.fromEntries(outputs.map(({ name, type, dims }, i) => [name, { data: toData(type, wasm.output(i)), dims, type }]));
    });
  }

  /** What runs, and where. */
  info(): SessionInfo {
    return this.#live.info();
  }

  /** Frees the network's memory. Runs that wait or are under way end with code `disposed`. Doing it twice does nothing. */
  dispose(): void {
    this.#live.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
