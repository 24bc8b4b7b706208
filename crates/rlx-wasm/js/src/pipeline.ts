/** A pipeline of several models, of which the one that is needed is put on the device. */

import { bringTo, opener } from './bring.js';
import type { Bringing, Running } from './bring.js';
import { folderIn, giveTexts, openWeights } from './folder.js';
import type { Folder } from './folder.js';
import type { ImageGeneratorOptions, PipelineModel } from './generator_types.js';
import { loadGraphs } from './graphs_module.js';
import { Integrity } from './integrity.js';
import './lazy_here.js';
import { inParallel, load } from './loader.js';
import { usage } from './error.js';
import { pipelineFiles } from './network_files.js';
import type { ShardReader } from './shard.js';
import type { LoadProgress } from './types.js';
import { noPurpose } from './wasm_session.js';
import type { WasmPipeline, WasmSession, WasmSessionOptions } from './wasm_session.js';

/** The models, in the order in which a load puts them on the device: the first that an image needs is the last. */
const MODELS: readonly PipelineModel[] = ['vae', 'transformer', 'text_encoder'];

/** What the files of a model's weights are called, the likeliest first: diffusers' names, and transformers'. */
const WEIGHTS: { readonly [model in PipelineModel]: readonly string[] } = {
  text_encoder: ['model', 'diffusion_pytorch_model'],
  transformer: ['diffusion_pytorch_model', 'model'],
  vae: ['diffusion_pytorch_model', 'model'],
};

export class Pipeline {
  private constructor(
    private readonly options: ImageGeneratorOptions,
    private readonly folder: Folder,
    readonly running: Running<WasmSession>,
    readonly about: WasmPipeline,
  ) {}

  /**
   * Opens a pipeline, and puts every model on the device once: what is damaged or does not fit is known afterwards, and
   * every file is in the browser's storage.
   */
  static async load(options: ImageGeneratorOptions): Promise<Pipeline> {
    const files = pipelineFiles(options);
    const { resident = false, onProgress } = options;
    let opened: { folder: Folder; about: WasmPipeline } | undefined;
    const running = await bringTo<WasmSession>(options, {
      module: () => loadGraphs(options.wasm),
      files,
      options: { ...noPurpose, imagine: true, resident } satisfies WasmSessionOptions,
      load: async (wasm, { host, abort, model: { files: folder, texts }, open }) => {
        if (Array.isArray(folder)) throw usage('the model is no folder', 'model', 'give the address of a pipeline\'s folder, with / at its end');
        giveTexts(wasm, texts);
        opened = { folder, about: JSON.parse(wasm.openPipeline(folder.name)) as WasmPipeline };
        const shards = await Promise.all(MODELS.map((model) => openWeights(wasm, folderIn(folder, model), open, WEIGHTS[model])));
        const all = shards.flat();
        const left = new Set(all);
        try {
          // A file that is not there is missed before any is downloaded, and the bytes of all are known.
          await inParallel(all, abort, async (shard) => {
            await shard.open();
            await shard.pause();
          });
          for (const [i, model] of MODELS.entries()) {
            wasm.loadPart(model);
            shards[i]!.forEach((shard) => left.delete(shard)); // it closes them
            await load(shards[i]!, { engine: wasm, host, abort, onProgress: onProgress && ofAll(all, shards[i]!, model === MODELS.at(-1), onProgress) });
          }
        } finally {
          await Promise.all([...left].map((shard) => shard.close()));
        }
      },
    });
    return new Pipeline(options, opened!.folder, running, opened!.about);
  }

  /** Puts a model on the device. */
  async put(model: PipelineModel, abort: AbortController, onProgress: ((progress: LoadProgress) => void) | undefined): Promise<void> {
    const { wasm, host } = this.running;
    const open: Bringing['open'] = opener(this.options, pipelineFiles(this.options).items, new Integrity({}), abort.signal);
    wasm.loadPart(model);
    const shards = await openWeights(wasm, folderIn(this.folder, model), open, WEIGHTS[model]);
    await load(shards, { engine: wasm, host, abort, onProgress });
  }
}

/** Tells of some shards' progress as that of all: those before them are read. */
function ofAll(all: readonly ShardReader[], of: readonly ShardReader[], last: boolean, tell: (progress: LoadProgress) => void): (progress: LoadProgress) => void {
  return ({ totalBytes: _, ...progress }) => {
    if (progress.phase === 'ready' && !last) return;
    const others = all.filter((shard) => !of.includes(shard));
    const loadedBytes = others.reduce((sum, shard) => sum + shard.position, progress.loadedBytes);
    const sizes = all.map((shard) => shard.expectedBytes);
    const known = sizes.every((bytes) => bytes !== undefined);
    tell({ ...progress, loadedBytes, ...(known && { totalBytes: sizes.reduce((sum, bytes) => sum + bytes, 0) }) });
  };
}
