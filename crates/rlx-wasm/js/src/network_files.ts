/** Checks the options of `load` of all classes but `Engine`, and lists the files to read. */

import type { FileItem } from './options.js';
import { usage } from './error.js';
import { textOf } from './folder.js';
import type { Folder, ModelFiles, TextFile } from './folder.js';
import { isFile, modelItems } from './options.js';
import type { ImageGeneratorOptions } from './generator_types.js';
import type { ImageFeaturesOptions } from './image_types.js';
import type { SegmenterOptions } from './segment_types.js';
import type { EmbedderOptions, NetworkOptions, SessionOptions } from './session_types.js';
import type { TranscriberOptions } from './sound_types.js';

/** The files of a network: of a model, or of a graph. */
export interface NetworkFiles extends ModelFiles {
  graph?: string | undefined;
}

function fileOf(value: unknown, at: string): FileItem {
  if (!isFile(value)) throw usage(`${at} must be an address or a Blob`, at);
  return value;
}

/** Checks the options that all networks have in common; `keys` are the others. */
function checkNetworkOptions(options: Omit<NetworkOptions, 'integrity'>, keys: readonly string[]): void {
  if (typeof options !== 'object' || options === null) throw usage('load takes an object of options', '');
  const known = ['device', 'gpu', 'cache', 'makeRoom', 'integrity', 'tuning', 'activations', 'wasm', 'fetch', 'headers', 'onProgress', 'onNotice', 'signal', ...keys];
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) throw usage(`${key} is not an option of load`, key);
  }
  oneOf(options.device, ['auto', 'webgpu', 'cpu'], 'device');
  oneOf(options.activations, ['f32', 'int8'], 'activations');
}

function oneOf(value: unknown, values: readonly string[], key: string): void {
  if (value !== undefined && !values.includes(value as string)) {
    throw usage(`${key} is ${String(value)}, it must be ${values.join(' or ')}`, key);
  }
}

/** The files of a session, from checked options. */
export function sessionFiles(options: SessionOptions): NetworkFiles {
  checkNetworkOptions(options, ['model', 'config', 'contextLength', 'graph', 'weights']);
  const { model, config, contextLength, graph, weights } = options;
  if (contextLength !== undefined && !(Number.isInteger(contextLength) && contextLength >= 1 && contextLength < 2 ** 32)) {
    throw usage(`contextLength is ${String(contextLength)}, it must be a whole number from 1`, 'contextLength');
  }
  if ((model === undefined) === (graph === undefined)) throw usage('load takes a model or a graph, and one of them', 'model');
  if (graph !== undefined) {
    if (typeof graph !== 'string') throw usage('graph must be a graph\'s text', 'graph', 'fetch the file and give its text');
    if (config !== undefined) throw usage('config is of a model, and not of a graph', 'config');
    if (contextLength !== undefined) throw usage('contextLength is of a model; a graph says its own', 'contextLength');
    return { graph, texts: () => [], items: weights === undefined ? [] : modelItems(weights, 'weights') };
  }
  if (weights !== undefined) throw usage('weights are of a graph; a model has its own', 'weights');
  const given = config === undefined ? undefined : { name: 'config.json', from: fileOf(config, 'config') };
  const texts: NetworkFiles['texts'] = (folder) => {
    const text = given ?? (folder && textOf(folder, 'config.json'));
    return text ? [text] : [];
  };
  return { items: modelItems(model, 'model'), texts };
}

/** The files of an embedder, from checked options. */
export function embedderFiles(options: EmbedderOptions): NetworkFiles {
  checkNetworkOptions(options, ['model', 'config', 'tokenizer', 'pooling', 'normalise', 'maxTokens']);
  const { model, config, tokenizer, pooling, normalise, maxTokens } = options;
  oneOf(pooling, ['mean', 'cls', 'last', 'max'], 'pooling');
  if (normalise !== undefined && typeof normalise !== 'boolean') throw usage(`normalise is ${String(normalise)}, it must be true or false`, 'normalise');
  if (maxTokens !== undefined && !(Number.isSafeInteger(maxTokens) && maxTokens >= 2)) {
    throw usage(`maxTokens is ${String(maxTokens)}, it must be a whole number from 2 on`, 'maxTokens');
  }
  const given = givenTexts([['config', 'config.json', config], ['tokenizer', 'tokenizer', tokenizer]]);
  const texts: NetworkFiles['texts'] = (folder) => {
    if (!folder) return given;
    const found = [...given];
    if (config === undefined) found.push(textOf(folder, 'config.json'));
    if (tokenizer === undefined) found.push(textOf(folder, 'tokenizer.json', textOf(folder, 'vocab.txt', 'none')));
    for (const name of ['1_Pooling/config.json', 'modules.json', 'sentence_bert_config.json']) found.push(textOf(folder, name, 'none'));
    return found;
  };
  return { items: modelItems(model, 'model'), texts };
}

/** The texts that options give: each option, what the module calls its file, and its value. */
function givenTexts(options: readonly (readonly [string, string, unknown])[]): TextFile[] {
  return options.flatMap(([option, name, value]) => (value === undefined ? [] : [{ name, from: fileOf(value, option) }]));
}

/** The files of a model of images, from checked options. */
export function imageFiles(options: ImageFeaturesOptions): NetworkFiles {
  checkNetworkOptions(options, ['model', 'config', 'preprocessor']);
  return imageModelFiles(options, [], (folder) => textOf(folder, 'preprocessor_config.json', 'none'));
}

/** The files of a model that finds things in images, from checked options. */
export function segmenterFiles(options: SegmenterOptions): NetworkFiles {
  checkNetworkOptions(options, ['model', 'config', 'preprocessor', 'tokenizer']);
  const given = givenTexts([['tokenizer', 'tokenizer.json', options.tokenizer]]);
  const files = imageModelFiles(options, given, (folder) => textOf(folder, 'preprocessor_config.json', textOf(folder, 'processor_config.json', 'none')));
  // Most models know no words: the module says so, once it has seen the configuration.
  const words = (folder: Folder): TextFile[] => (given.length > 0 ? [] : [textOf(folder, 'tokenizer.json', 'none')]);
  return { ...files, texts: (folder) => [...files.texts(folder), ...(folder ? words(folder) : [])] };
}

/** The files of a model of images: the texts that options give, and those of its folder that no option gives. */
function imageModelFiles({ model, config, preprocessor }: ImageFeaturesOptions, others: readonly TextFile[], preparing: (folder: Folder) => TextFile): NetworkFiles {
  const given = [...givenTexts([['config', 'config.json', config], ['preprocessor', 'preprocessor_config.json', preprocessor]]), ...others];
  const texts: NetworkFiles['texts'] = (folder) => {
    if (!folder) return given;
    const found = [...given];
    if (config === undefined) found.push(textOf(folder, 'config.json'));
    if (preprocessor === undefined) found.push(preparing(folder));
    return found;
  };
  return { items: modelItems(model, 'model'), texts };
}

/** The small files of a pipeline that none lacks, and those of which it has some. */
const PIPELINE_FILES = ['model_index.json', 'scheduler/scheduler_config.json', 'text_encoder/config.json', 'transformer/config.json', 'vae/config.json'];
const PIPELINE_TOKENIZER = ['tokenizer_config.json', 'generation_config.json', 'additional_chat_templates/tool_use.jinja'];

/** The files of a pipeline, from checked options. */
export function pipelineFiles(options: ImageGeneratorOptions): NetworkFiles {
  checkNetworkOptions(options, ['model', 'resident']);
  const { model, resident } = options;
  if (resident !== undefined && typeof resident !== 'boolean') throw usage(`resident is ${String(resident)}, it must be true or false`, 'resident');
  if ('integrity' in options && options.integrity !== undefined) throw usage('integrity is not an option of a pipeline, whose models have files of the same names', 'integrity');
  const items = modelItems(model, 'model');
  if (items.some((item) => item instanceof ReadableStream)) throw usage('a stream is read once, and the models of a pipeline are read again', 'model', 'give files or addresses');
  const texts: NetworkFiles['texts'] = (folder) => {
    if (!folder) return [];
    const tokenizer = (name: string, without: TextFile['else'] = 'none') => textOf(folder, `tokenizer/${name}`, without);
    return [
      ...PIPELINE_FILES.map((name) => textOf(folder, name)),
      tokenizer('tokenizer.json', tokenizer('tokenizer.model')),
      ...PIPELINE_TOKENIZER.map((name) => tokenizer(name)),
      tokenizer('chat_template.jinja', tokenizer('chat_template.json')),
    ];
  };
  return { items, texts };
}

/** The files of a model that hears, by the options that give them: what they are called in its folder. */
const SOUND_FILES = {
  config: 'config.json',
  vocab: 'vocab.json',
  preprocessor: 'preprocessor_config.json',
  tokenizerConfig: 'tokenizer_config.json',
  specialTokens: 'special_tokens_map.json',
  addedTokens: 'added_tokens.json',
} as const;

/** The files of a model that hears, from checked options. */
export function transcriberFiles(options: TranscriberOptions): NetworkFiles {
  const keys = Object.keys(SOUND_FILES) as (keyof typeof SOUND_FILES)[];
  checkNetworkOptions(options, ['model', 'pieceSeconds', ...keys]);
  const { model, pieceSeconds } = options;
  if (pieceSeconds !== undefined && !(typeof pieceSeconds === 'number' && Number.isFinite(pieceSeconds) && pieceSeconds > 0)) {
    throw usage(`pieceSeconds is ${String(pieceSeconds)}, it must be a number above 0`, 'pieceSeconds');
  }
  const given = keys.filter((key) => options[key] !== undefined);
  const texts: NetworkFiles['texts'] = (folder) => {
    const found: TextFile[] = given.map((key) => ({ name: SOUND_FILES[key], from: fileOf(options[key], key) }));
    if (!folder) return found;
    for (const key of keys.filter((key) => !given.includes(key))) {
      const name = SOUND_FILES[key];
      // A model of another kind has no vocabulary: the module says so, once it has seen the configuration.
      const without = key === 'config' ? undefined : key === 'preprocessor' ? textOf(folder, 'processor_config.json', 'none') : 'none';
      found.push(textOf(folder, name, without));
    }
    return found;
  };
  texts(undefined); // what is no file is refused at once
  return { items: modelItems(model, 'model'), texts };
}
