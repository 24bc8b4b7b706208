/** What an image generator makes of options, which models it loads and when, and how it ends; the real one is in tests/browser/draw.test.mjs. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RlxError } from '../src/error.js';
import { folderIn, folderOf } from '../src/folder.js';
import { GeneratedImage } from '../src/generated_image.js';
import { ImageGenerator } from '../src/image_generator.js';
import type { GenerateImageOptions, ImageGeneratorOptions, ImageStep, PipelineModel } from '../src/index.js';
import { pipelineFiles } from '../src/network_files.js';
import type { FileItem } from '../src/options.js';
import type { Pipeline } from '../src/pipeline.js';
import { FakeSession } from './fakes.js';

const fault = (code: string, what: RegExp) => (error: unknown) => {
  assert.ok(error instanceof RlxError, String(error));
  assert.equal(error.code, code);
  assert.match(error.what, what);
  return true;
};

function open(put?: (abort: AbortController) => Promise<void>) {
  const wasm = new FakeSession();
  const pipeline = {
    running: { wasm, host: null },
    about: JSON.parse(wasm.openPipeline()) as unknown,
    async put(model: PipelineModel, abort: AbortController, onProgress?: (progress: object) => void) {
      await put?.(abort);
      wasm.loadPart(model);
      onProgress?.({ phase: 'ready', loadedBytes: 3, from: 'cache' });
    },
  };
  return { wasm, generator: new ImageGenerator(pipeline as unknown as Pipeline) };
}

const pause = (ms = 0) => new Promise((resolve) => setTimeout(resolve, ms));

test('a pipeline has small files in folders, of which a tokenizer has some', () => {
  const { texts, items } = pipelineFiles({ model: 'https://a/b/' });
  const rows = texts(folderOf(items as FileItem[])).map(({ name, from, else: without }) => [name, String(from), typeof without === 'object' ? without.name : without]);
  assert.deepEqual(rows[0], ['model_index.json', 'https://a/b/model_index.json', undefined]);
  assert.deepEqual(rows.filter(([, , without]) => without === undefined).map(([name]) => name), [
    'model_index.json', 'scheduler/scheduler_config.json', 'text_encoder/config.json', 'transformer/config.json', 'vae/config.json',
  ]);
  assert.deepEqual(rows.find(([name]) => name === 'tokenizer/tokenizer.json')?.[2], 'tokenizer/tokenizer.model');
  const names = ['model_index.json', 'vae/config.json', 'vae/x.safetensors', 'vaes/y'];
  const inside = folderIn({ name: 'm/', names, file: (name) => (names.includes(name) ? new File([], name) : undefined) }, 'vae');
  assert.deepEqual([inside.name, inside.names], ['m/vae/', ['config.json', 'x.safetensors']]);
  assert.equal((inside.file('x.safetensors') as File).name, 'vae/x.safetensors');
  assert.equal(inside.file('y'), undefined);
});

test('options of a generator that are wrong are usage', async () => {
  const wrong: [unknown, RegExp][] = [
    [{}, /model must be/], [null, /object of options/], [{ model: 'https://a/', config: 'https://b' }, /config is not an option of load/],
    [{ model: 'https://a/', resident: 1 }, /resident is 1/], [{ model: new ReadableStream() }, /a stream is read once/],
    [{ model: 'https://a/', integrity: 'x' }, /files of the same names/],
  ];
  for (const [options, what] of wrong) assert.throws(() => pipelineFiles(options as ImageGeneratorOptions), fault('usage', what));
  const { wasm, generator } = open();
  const calls: [unknown, RegExp][] = [
    [null, /options are no object/], [{ size: 8 }, /size is not an option/], [{ width: 0 }, /width is 0, it must be a whole number from 1/],
    [{ height: 8.5 }, /height is 8.5/], [{ steps: '4' }, /steps is 4/], [{ seed: -1 }, /seed is -1/], [{ guidance: 0.5 }, /guidance is 0.5, it must be a number from 1/],
    [{ guidance: Infinity }, /guidance is Infinity/], [{ preview: 1 }, /preview is 1/],
  ];
  for (const [options, what] of calls) await assert.rejects(generator.generate('x', options as GenerateImageOptions), fault('usage', what));
  await assert.rejects(generator.generate(3 as unknown as string), fault('usage', /takes a text/));
  assert.deepEqual(wasm.log, []);
  // What only the module knows is said by it, and the next image is made.
  await assert.rejects(generator.generate('x', { width: 6 }), fault('usage', /6 pixels/));
  assert.ok(await generator.generate('x', { width: 8 }));
});

test('models are loaded as an image needs them; steps are told, with previews if they are asked for', async () => {
  const { wasm, generator } = open();
  assert.deepEqual([generator.sizeStep, generator.usualSteps, generator.guided], [4, 2, false]);
  const steps: ImageStep[] = [];
  const loads: string[] = [];
  const image = await generator.generate('a fox', { seed: 5, preview: true, onStep: (step) => steps.push(step), onLoad: ({ model, loadedBytes }) => loads.push(`${model} ${loadedBytes}`) });
  assert.deepEqual(wasm.log, [
    'imagine a fox {"width":512,"height":512,"seed":5,"preview":true}', 'load text_encoder', 'imagined 0', 'load transformer', 'imagined 1', 'imagined 2', 'load vae', 'imagined 3',
  ]);
  assert.deepEqual(loads, ['text_encoder 3', 'transformer 3', 'vae 3']);
  assert.deepEqual(steps.map(({ step, steps, preview }) => [step, steps, preview && [...preview.data]]), [[1, 2, [1, 1, 2, 255]], [2, 2, undefined]]);
  assert.ok(image instanceof GeneratedImage);
  assert.deepEqual([image.width, image.height, ...image.data], [1, 1, 3, 1, 2, 255]);
  assert.throws(() => image.toImageData(), fault('unsupported', /no ImageData/));
  await assert.rejects(image.toBlob(), fault('unsupported', /no ImageData/));
});

test('a signal ends an image before the next step, and the next image is made', async () => {
  const { wasm, generator } = open();
  const abort = new AbortController();
  const making = generator.generate('a fox', { steps: 9, signal: abort.signal, onStep: ({ step }) => step === 2 && abort.abort() });
  const next = generator.generate('a hen', { steps: 1 });
  await assert.rejects(making, fault('cancelled', /./));
  await next;
  const [first, second] = wasm.log.join('|').split('|imagine a hen');
  assert.ok(first!.includes('imagined 2') && !first!.includes('imagined 3'), first);
  assert.ok(second!.includes('imagined 2'), second);
});

test('a signal, and the end of the generator, end the load of a model', async () => {
  const ended: string[] = [];
  const { generator } = open((abort) => new Promise((_, reject) => {
    abort.signal.addEventListener('abort', () => {
      ended.push('load');
      reject(new RlxError('cancelled', 'the load was cancelled'));
    });
  }));
  const abort = new AbortController();
  const making = generator.generate('a fox', { signal: abort.signal });
  await pause(1);
  abort.abort();
  await assert.rejects(making, fault('cancelled', /./));
  const other = generator.generate('a fox');
  await pause(1);
  generator.dispose();
  await assert.rejects(other, fault('disposed', /the image generator was disposed/));
  assert.deepEqual(ended, ['load', 'load']);
  await assert.rejects(generator.generate('a fox'), fault('disposed', /the image generator was disposed/));
});
