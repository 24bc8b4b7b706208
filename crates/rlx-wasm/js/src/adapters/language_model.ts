/**
 * The Prompt API (`LanguageModel`) of the web, on a model of the page's, where the browser has none.
 *
 * ```js
 * import { install } from 'rlx-wasm/language-model';
 * install({ model: 'model.gguf' });
 * const session = await LanguageModel.create({ initialPrompts: [{ role: 'system', content: 'Be short.' }] });
 * for await (const text of session.promptStreaming('What does Vec::push do?')) print(text);
 * ```
 *
 * It follows webmachinelearning/prompt-api: index.bs at 07c4a52, and for overflow, `samplingMode` and the members for
 * extensions (`params`, `temperature`, `topK`, the former names) the explainer at 04f5d0a. What it does not do (images,
 * audio, calls that the page runs itself, `prefix`, thinking) is a `NotSupportedError`.
 */

import type { LoadOptions } from '../types.js';
import type { ChatEngine, Settings } from './engine.js';
import { notSupported, quotaExceeded, toFault, toMessages } from './language_model_input.js';
import type { LanguageModelMessage } from './language_model_input.js';
import { countTokens, LanguageModel } from './language_model_session.js';
import type { Sampling, SamplingMode, SharedEngine } from './language_model_session.js';
import { Source } from './language_model_source.js';
import { toTools } from './language_model_tools.js';
import type { LanguageModelTool } from './language_model_tools.js';

export type { LanguageModelMessage, LanguageModelPrompt } from './language_model_input.js';
export type { LanguageModel, LanguageModelPromptOptions, SamplingMode } from './language_model_session.js';
export type { LanguageModelTool } from './language_model_tools.js';

export interface LanguageModelExpected {
  type: 'text' | 'image' | 'audio' | 'tool-call' | 'tool-response';
  /** Language tags. Which languages a model knows is not known, so any are taken. */
  languages?: readonly string[];
}

/** What a session must be able to do. */
export interface LanguageModelCreateCoreOptions {
  /** Above 2 is 2. */
  temperature?: number;
  /** 1 or more; above `params().maxTopK` is that. */
  topK?: number;
  /** Not together with `temperature` or `topK`. Default `balanced`: the model's own sampling. */
  samplingMode?: SamplingMode;
  expectedInputs?: readonly LanguageModelExpected[];
  expectedOutputs?: readonly LanguageModelExpected[];
  /** Functions that the model may call while it answers. A model whose template takes none is a `NotSupportedError` of the prompt. */
  tools?: readonly LanguageModelTool[];
  /** Not supported yet, but for `none`. */
  thinking?: { effort?: string; includeThoughts?: boolean };
}

export interface LanguageModelCreateOptions extends LanguageModelCreateCoreOptions {
  initialPrompts?: readonly LanguageModelMessage[];
  /** Ends the creation, and later the session. */
  signal?: AbortSignal;
  /** Is given an `EventTarget` that tells the load's progress by `downloadprogress`: `loaded`, from 0 to 1. */
  monitor?: (monitor: EventTarget) => void;
}

/** Values to begin with. A session that asks for none samples as its model's file says. */
export interface LanguageModelParams {
  defaultTopK: number;
  maxTopK: number;
  defaultTemperature: number;
  maxTemperature: number;
}

export interface LanguageModelStatic {
  create(options?: LanguageModelCreateOptions): Promise<LanguageModel>;
  availability(options?: LanguageModelCreateCoreOptions): Promise<'unavailable' | 'downloadable' | 'downloading' | 'available'>;
  params(): Promise<LanguageModelParams>;
}

/** What to load; or an engine of the page's own, which stays the page's. */
export type LanguageModelSource = Omit<LoadOptions, 'signal'> | { engine: ChatEngine };

const PARAMS: LanguageModelParams = { defaultTopK: 40, maxTopK: 128, defaultTemperature: 0.7, maxTemperature: 2 };

const MODES: { [mode in SamplingMode]: Settings } = {
  'most-predictable': { temperature: 0 },
  predictable: { temperature: 0.3 },
  'slightly-predictable': { temperature: 0.5 },
  balanced: {},
  'slightly-creative': { temperature: 0.9 },
  creative: { temperature: 1.1 },
  'most-creative': { temperature: 1.4 },
};

/**
 * Puts `LanguageModel` on `globalThis`. Where there is one already nothing is done, and the result is false. The model
 * is loaded with the first session, and freed a minute after the last.
 */
export function install(source: LanguageModelSource): boolean {
  if ('LanguageModel' in globalThis) return false;
  Object.defineProperty(globalThis, 'LanguageModel', { value: languageModel(source), writable: true, configurable: true });
  return true;
}

/** The class that `install` puts on `globalThis`. */
export function languageModel(given: LanguageModelSource): LanguageModelStatic {
  const source = new Source(loader(given));
  const share = async (signal: AbortSignal, tell: (share: number) => void = () => {}): Promise<SharedEngine> =>
    ({ engine: await source.acquire(signal, tell), release: () => source.release(), share });
  const named = class extends LanguageModel {
    static async create(options: LanguageModelCreateOptions = {}): Promise<LanguageModel> {
      const { signal = new AbortController().signal, monitor, initialPrompts } = options;
      const sampling = toSampling(options);
      const missing = unsupported(options);
      if (missing !== undefined) throw notSupported(missing);
      const tools = toTools(options.tools ?? []);
      const initial = initialPrompts?.length ? toMessages(initialPrompts, false) : [];
      const tell = progress(monitor);
      try {
        const shared = await share(signal, tell);
        try {
          tell(1);
          const usage = await countTokens(shared.engine, initial, tools);
          const { contextLength } = shared.engine.info();
          if (usage > contextLength) throw quotaExceeded(usage, contextLength);
          signal.throwIfAborted();
          const session = new named({ ...shared, sampling, tools, initial, rest: [], usage });
          signal.addEventListener('abort', () => session.endWith(signal.reason), { once: true });
          return session;
        } catch (error) {
          shared.release();
          throw error;
        }
      } catch (error) {
        throw toFault(error, signal);
      }
    }

    static async availability(options: LanguageModelCreateCoreOptions = {}) {
      toSampling(options);
      toTools(options.tools ?? []);
      return unsupported(options) === undefined ? source.state : 'unavailable';
    }

    static async params(): Promise<LanguageModelParams> {
      return { ...PARAMS };
    }
  };
  Object.defineProperty(named, 'name', { value: 'LanguageModel' });
  return named;
}

function loader(source: LanguageModelSource): ConstructorParameters<typeof Source>[0] {
  if ('engine' in source) {
    const { engine } = source;
    return async () => ({ chat: engine.chat, info: () => engine.info(), countTokens: (input) => engine.countTokens(input), dispose() {} });
  }
  return async ({ signal, onProgress }) => {
    // A page that makes no session loads nothing of the engine.
    const { Engine } = await import('../engine.js');
    return Engine.load({
      ...source,
      ...(signal && { signal }),
      onProgress: (progress) => {
        onProgress?.(progress);
        source.onProgress?.(progress);
      },
    });
  };
}

/** What of the options no session here can do. Throws for language tags that are none. */
function unsupported({ expectedInputs = [], expectedOutputs = [], thinking }: LanguageModelCreateCoreOptions): string | undefined {
  for (const { type, languages = [] } of [...expectedInputs, ...expectedOutputs]) {
    Intl.getCanonicalLocales([...languages]);
    if (type !== 'text') return `content of type ${String(type)}`;
  }
  return thinking && ((thinking.effort ?? 'none') !== 'none' || thinking.includeThoughts) ? 'thinking' : undefined;
}

function toSampling({ temperature, topK, samplingMode }: LanguageModelCreateCoreOptions): Sampling {
  if (temperature === undefined && topK === undefined) {
    const mode = samplingMode ?? 'balanced';
    if (!Object.hasOwn(MODES, mode)) throw new TypeError(`samplingMode is ${mode}, it must be ${Object.keys(MODES).join(' or ')}`);
    return { mode, settings: MODES[mode] };
  }
  if (samplingMode !== undefined) throw new TypeError('samplingMode does not go with temperature or topK');
  const settings: { temperature?: number; top_k?: number } = {};
  if (temperature !== undefined) {
    if (!(temperature >= 0)) throw new RangeError(`temperature is ${temperature}, it must be 0 or more`);
    settings.temperature = Math.min(temperature, PARAMS.maxTemperature);
  }
  if (topK !== undefined) {
    if (!(topK >= 1)) throw new RangeError(`topK is ${topK}, it must be 1 or more`);
    settings.top_k = Math.min(Math.trunc(topK), PARAMS.maxTopK);
  }
  return { temperature: settings.temperature, topK: settings.top_k, mode: null, settings };
}

/** Tells a monitor of the progress: first 0, then what is more than before. */
function progress(monitor: LanguageModelCreateOptions['monitor']): (share: number) => void {
  if (!monitor) return () => {};
  const target = new EventTarget();
  monitor(target);
  let last = -1;
  const tell = (loaded: number) => {
    if (loaded <= last) return;
    last = loaded;
    target.dispatchEvent(new ProgressEvent('downloadprogress', { lengthComputable: true, loaded, total: 1 }));
  };
  return (share) => {
    tell(0);
    tell(share);
  };
}
