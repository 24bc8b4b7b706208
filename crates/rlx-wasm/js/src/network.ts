/** Loads a network to a device, for `Session.load` and `Embedder.load`. */

import { bringTo } from './bring.js';
import type { Bringing, Running } from './bring.js';
import { RlxError } from './error.js';
import { loadGraphs } from './graphs_module.js';
import { load } from './loader.js';
import type { ShardReader } from './shard.js';
import { isMissing } from './source.js';
import type { NetworkFiles, TextFile } from './network_files.js';
import type { NetworkOptions } from './session_types.js';
import type { WasmSession, WasmSessionOptions } from './wasm_session.js';

/** Most bytes of a configuration or a tokenizer. */
const TEXT_BYTES = 64 << 20;

/** A network on a device. */
export function bringNetwork(options: NetworkOptions, files: NetworkFiles, embed: WasmSessionOptions['embed'] = null): Promise<Running<WasmSession>> {
  return bringTo(options, {
    module: () => loadGraphs(options.wasmUrl),
    options: { embed } satisfies WasmSessionOptions,
    load: async (wasm, bringing) => {
      if (files.graph !== undefined) wasm.text('graph', 'graph', new TextEncoder().encode(files.graph));
      await Promise.all(files.texts.map((text) => give(wasm, text, bringing)));
      const { host, abort, open } = bringing;
      const shards = await Promise.all(files.weights.map(open));
      await load(shards, { engine: wasm, host, abort, onProgress: options.onProgress });
    },
  });
}

/** Gives the module a text, or its substitute. */
async function give(wasm: WasmSession, text: TextFile, bringing: Bringing): Promise<void> {
  try {
    const reader = await bringing.open(text.from);
    const bytes = await readText(reader);
    wasm.text(text.name, reader.source.name, bytes);
  } catch (error) {
    if (text.else === undefined || !isMissing(error)) throw error;
    if (text.else !== 'none') await give(wasm, text.else, bringing);
  }
}

/** A whole small file. */
async function readText(reader: ShardReader): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  try {
    for (;;) {
      const chunk = await reader.read();
      if (chunk === null) break;
      parts.push(chunk.slice() as Uint8Array<ArrayBuffer>);
      if (reader.position > TEXT_BYTES) {
        throw new RlxError('bad_file', `the file has more than ${TEXT_BYTES} bytes, a text of a model has not`, { at: reader.source.name });
      }
    }
  } finally {
    await reader.close();
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}
