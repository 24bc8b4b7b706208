/**
 * Language models from GGUF shards, vectors of texts and images, the text of sounds, masks of things in images, images
 * of prompts, and any other network, on WebGPU or the CPU.
 *
 * ```js
 * const engine = await Engine.load({ model: ['a-00001-of-00002.gguf', 'a-00002-of-00002.gguf'] });
 * const chunks = await engine.chat.completions.create({
 *   messages: [{ role: 'user', content: 'What does Vec::push do?' }], stream: true,
 * });
 * for await (const chunk of chunks) print(chunk.choices[0].delta.content ?? '');
 * ```
 */

export { DeviceTensor } from './device_tensor.js';
export { Embedder } from './embedder.js';
export { Engine } from './engine.js';
export { ImageFeatures } from './image_features.js';
export { ImageGenerator } from './image_generator.js';
export { RlxError } from './error.js';
export { Segmenter } from './segmenter.js';
export { Session } from './session.js';
export { Transcriber } from './transcriber.js';
export type * from './generator_types.js';
export type * from './image_types.js';
export type * from './models_types.js';
export type * from './openai/types.js';
export type * from './report_types.js';
export type * from './segment_types.js';
export type * from './session_types.js';
export type * from './sound_types.js';
export type * from './types.js';
