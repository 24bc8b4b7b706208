/** `ImageGenerator`: makes images of prompts. */

import { cancelled, throwIfAborted, usage } from './error.js';
import { GeneratedImage } from './generated_image.js';
import type { GenerateImageOptions, ImageGeneratorOptions } from './generator_types.js';
import { Live } from './live.js';
import { heard, listening } from './listeners.js';
import { Pipeline } from './pipeline.js';
import { platform } from './platform.js';
import type { SessionInfo } from './session_types.js';
import type { WasmImagined } from './wasm_session.js';

/** Pixels along an edge where nobody says how many: larger images need more memory than many GPUs have. */
const USUAL_SIZE = 512;

/** The options of `generate`: numbers, their least, and whether they are whole. */
const NUMBERS = { width: [1, true], height: [1, true], steps: [1, true], seed: [0, true], guidance: [1, false] } as const;
const OTHERS = ['preview', 'onStep', 'onLoad', 'signal'];

/** A pipeline that makes images of prompts: FLUX.2 klein. */
export class ImageGenerator {
  /** Pixels that widths and heights of images are multiples of. */
  readonly sizeStep: number;
  /** Steps where a call does not say how many: few for a distilled pipeline. */
  readonly usualSteps: number;
  /** Whether images are guided: a distilled pipeline needs no guidance, and takes none. */
  readonly guided: boolean;
  readonly #pipeline: Pipeline;
  readonly #live: Live;
  /** Ends the loads of the image that is being made. */
  #abort: AbortController | undefined;

  /** @internal */
  constructor(pipeline: Pipeline) {
    const { scale, steps, distilled } = pipeline.about;
    [this.sizeStep, this.usualSteps, this.guided] = [scale, steps, !distilled];
    this.#pipeline = pipeline;
    this.#live = new Live(pipeline.running, 'image generator');
  }

  /**
   * Loads a pipeline: `onProgress` counts the bytes of all of its models. Each is put on the device once, one after the
   * other, so that one that does not fit is known now. This fetches the wasm module's build for such networks.
   *
   * Rejects with an `RlxError`: `usage` (an option), `unsupported` (another pipeline, or a model of another kind),
   * `bad_file` (a file, or models that do not belong together), else as `Engine.load`.
   */
  static async load(options: ImageGeneratorOptions): Promise<ImageGenerator> {
    return new ImageGenerator(await Pipeline.load(heard(options)));
  }

  /**
   * Makes an image of a prompt. Models that are not on the device are put there as the image needs them, from the
   * browser's storage if they are kept; with `cache: false` they are downloaded again. Images are made one after
   * another, in the order of the calls; between steps the page gets its turn.
   *
   * Rejects with an `RlxError`: `usage` (an option, a size), `bad_file` (a tokenizer of another pipeline), `io` (a model
   * that cannot be read again), `out_of_memory`, `device_lost`, `cancelled`, `disposed`.
   */
  async generate(prompt: string, options: GenerateImageOptions = {}): Promise<GeneratedImage> {
    this.#live.check();
    if (typeof prompt !== 'string') throw usage('generate takes a text', 'prompt');
    checkOptions(options);
    const { signal, onStep, onLoad, width = USUAL_SIZE, height = USUAL_SIZE, ...others } = options;
    const [tellStep, tellLoad] = [onStep && listening(onStep), onLoad && listening(onLoad)];
    throwIfAborted(signal);
    return this.#live.call(signal, async (wasm) => {
      const abort = (this.#abort = new AbortController());
      const stop = () => abort.abort();
      signal?.addEventListener('abort', stop, { once: true });
      try {
        wasm.imagine(prompt, JSON.stringify({ width, height, ...others }));
        for (;;) {
          for (const model of wasm.neededParts()) {
            await this.#pipeline.put(model, abort, tellLoad && ((progress) => tellLoad({ ...progress, model })));
          }
          if (abort.signal.aborted) throw cancelled();
          const { step, steps, over, width, height } = JSON.parse(await wasm.imagined()) as WasmImagined;
          const image = width === undefined ? undefined : imageOf(wasm.picture(), width, height!);
          if (over) return image!;
          if (step !== undefined && !abort.signal.aborted) tellStep?.({ step, steps: steps!, ...(image && { preview: image }) });
          await platform.yieldToPage();
        }
      } finally {
        signal?.removeEventListener('abort', stop);
      }
    });
  }

  /** The device and the model that makes the image; `weightBytes` are those of all models. */
  info(): SessionInfo {
    return this.#live.info();
  }

  /** Frees the models' memory. Calls that wait or run end with code `disposed`. Calling it again does nothing. */
  dispose(): void {
    this.#abort?.abort();
    this.#live.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

function checkOptions(options: GenerateImageOptions): void {
  if (typeof options !== 'object' || options === null) throw usage('the options are no object', 'options');
  for (const key of Object.keys(options)) {
    if (!(key in NUMBERS) && !OTHERS.includes(key)) throw usage(`${key} is not an option of this call`, key);
  }
  for (const [key, [least, whole]] of Object.entries(NUMBERS)) {
    const value: unknown = options[key as keyof typeof NUMBERS];
    const fits = typeof value === 'number' && value >= least && (whole ? Number.isSafeInteger(value) : Number.isFinite(value));
    if (value !== undefined && !fits) throw usage(`${key} is ${String(value)}, it must be a ${whole ? 'whole ' : ''}number from ${least}`, key);
  }
  const { preview } = options;
  if (preview !== undefined && typeof preview !== 'boolean') throw usage(`preview is ${String(preview)}, it must be true or false`, 'preview');
}

function imageOf({ buffer, byteOffset, byteLength }: Uint8Array, width: number, height: number): GeneratedImage {
  return new GeneratedImage(width, height, new Uint8ClampedArray(buffer as ArrayBuffer, byteOffset, byteLength));
}
