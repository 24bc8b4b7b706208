// Images of prompts in a page are the command line's; a signal ends one within a step; models come from the browser's
// storage again, or stay on the device; files that do not belong together are errors by name.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { caller, launch, mounts, openPage, rlxBinary, root, startServer } from './harness.mjs';

const KLEIN = join(root, 'tests/fixtures/flux2_klein');
const PROMPT = 'Ein Fuchs über dem Bach';
const OPTIONS = { width: 28, height: 20, steps: 3, seed: 7 };
const read = (path) => readFileSync(join(KLEIN, path));
const changed = (path, change) => Buffer.from(JSON.stringify({ ...JSON.parse(read(path)), ...change }));
const weights = read('transformer/diffusion_pytorch_model.safetensors');

/** Pipelines in which one file is another: its path, its bytes, and the error. */
const BROKEN = {
  other: { file: 'model_index.json', bytes: changed('model_index.json', { _class_name: 'FluxPipeline' }), code: 'unsupported', what: /class `FluxPipeline`/, at: /other\/model_index.json/ },
  noise: { file: 'model_index.json', bytes: Buffer.from('{"a":'), code: 'bad_file', what: /./, at: /noise\/model_index.json/ },
  rows: { file: 'transformer/config.json', bytes: changed('transformer/config.json', { joint_attention_dim: 32 }), code: 'bad_file', what: /reads rows of 32/, at: /\/rows\// },
  side: { file: 'tokenizer/tokenizer_config.json', bytes: changed('tokenizer/tokenizer_config.json', { padding_side: 'left' }), code: 'unsupported', what: /padding_side `left`/, at: /tokenizer_config.json/ },
  header: { file: 'vae/diffusion_pytorch_model.safetensors', bytes: Buffer.alloc(64, 0xff), code: 'bad_file', what: /./, at: /header\/vae\/diffusion/ },
  short: { file: 'transformer/diffusion_pytorch_model.safetensors', bytes: weights.subarray(0, weights.length - 100), code: 'bad_file', what: /./, at: /short\/transformer\/diffusion/ },
};

let server, browser, page, logs, folder, native;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rlx-draw-'));
  const out = join(folder, 'a.png');
  const args = ['imagine', '--model', KLEIN, '--device', 'cpu', '--size', `${OPTIONS.width}x${OPTIONS.height}`, '--steps', String(OPTIONS.steps), '--seed', String(OPTIONS.seed), '--out', out, PROMPT];
  execFileSync(rlxBinary(), args);
  const broken = Object.entries(BROKEN).map(([name, { file, bytes }]) => [`/${name}/${file}`, bytes]);
  const own = Object.fromEntries(Object.keys(BROKEN).map((name) => [`/${name}/`, KLEIN]));
  server = await startServer({ mounts: { ...mounts, ...own, '/klein/': KLEIN, '/fixtures/': join(root, 'tests/fixtures') }, files: { '/native.png': readFileSync(out), ...Object.fromEntries(broken) } });
  browser = await launch();
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`, { oneDevice: true }));
  await page.evaluate(async () => {
    const { ImageGenerator, ImageFeatures } = await import('/dist/index.js');
    const fault = (work) => work().then(() => null, ({ code, what, at, hint }) => ({ code, what, at, hint }));
    const pixels = async (blob) => {
      const bitmap = await createImageBitmap(blob);
      const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
      context.drawImage(bitmap, 0, 0);
      return [bitmap.width, bitmap.height, ...context.getImageData(0, 0, bitmap.width, bitmap.height).data];
    };
    globalThis.t = { ImageGenerator, ImageFeatures, fault, pixels };
  });
  native = await page.evaluate(async () => t.pixels(await (await fetch('/native.png')).blob()));
});
after(async () => {
  await browser?.close();
  await server?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

const inPage = caller(() => ({ page, logs }));

/** No byte is off by more than one. */
function near(got, want) {
  assert.deepEqual(got.slice(0, 2), want.slice(0, 2));
  const off = got.filter((x, i) => x !== want[i]);
  assert.ok(got.every((x, i) => Math.abs(x - want[i]) <= 1), 'a byte is off by more than one');
  assert.ok(off.length <= want.length / 50, `${off.length} of ${want.length} bytes are off by one`);
}

test('an image is the command line\'s, with a preview of every step but the last', async (t) => {
  const { image, png, previews, steps, loads, progress, about, info, same } = await inPage(async ({ prompt, options }) => {
    const progress = [];
    const generator = await globalThis.t.ImageGenerator.load({ model: '/klein/', device: 'webgpu', onProgress: (told) => progress.push(told) });
    const about = { sizeStep: generator.sizeStep, usualSteps: generator.usualSteps, guided: generator.guided };
    const [steps, previews, loads] = [[], [], []];
    const image = await generator.generate(prompt, {
      ...options, preview: true,
      onStep: ({ step, steps: all, preview }) => {
        steps.push([step, all]);
        if (preview) previews.push([preview.width, preview.height, ...preview.data]);
      },
      onLoad: ({ model, phase }) => phase === 'ready' && loads.push(model),
    });
    const again = await generator.generate(prompt, { ...options, onLoad: ({ model, phase, from }) => phase === 'ready' && loads.push(`${model} ${from}`) });
    const info = generator.info();
    const png = await globalThis.t.pixels(await image.toBlob());
    generator.dispose();
    return { image: [image.width, image.height, ...image.data], png, previews, steps, loads, progress, about, info, same: again.data.join() === image.data.join() };
  }, { prompt: PROMPT, options: OPTIONS });
  assert.deepEqual(about, { sizeStep: 4, usualSteps: 4, guided: false });
  near(image, native);
  t.diagnostic(`${image.filter((x, i) => x !== native[i]).length} of ${image.length} bytes are off by one`);
  assert.deepEqual(png, image);
  assert.equal(same, true);
  assert.deepEqual(steps, [[1, 3], [2, 3], [3, 3]]);
  assert.equal(previews.length, 2);
  for (const preview of previews) {
    assert.deepEqual(preview.slice(0, 2), [28, 20]);
    assert.notDeepEqual(preview, image);
  }
  // The first image finds the reader of prompts on the device.
  assert.deepEqual(loads, ['transformer', 'vae', 'text_encoder cache', 'transformer cache', 'vae cache']);
  const all = ['text_encoder/model.safetensors', 'transformer/diffusion_pytorch_model.safetensors', 'vae/diffusion_pytorch_model.safetensors'].reduce((sum, path) => sum + read(path).length, 0);
  assert.deepEqual(progress.filter(({ phase }) => phase === 'ready').map(({ loadedBytes, totalBytes }) => [loadedBytes, totalBytes]), [[all, all]]);
  assert.ok(progress.every(({ loadedBytes }, i) => i === 0 || loadedBytes >= progress[i - 1].loadedBytes), 'bytes never become fewer');
  assert.equal(info.device, 'webgpu');
  assert.equal(info.model.family, 'flux2');
  assert.ok(info.weightBytes > 100_000, String(info.weightBytes));
});

test('the CPU of a page makes the same image', async () => {
  const { image, info, steps } = await inPage(async ({ prompt, options }) => {
    const generator = await t.ImageGenerator.load({ model: '/klein/', device: 'cpu' });
    const steps = [];
    const image = await generator.generate(prompt, { ...options, onStep: ({ step }) => steps.push(step) });
    const info = generator.info();
    generator.dispose();
    return { image: [image.width, image.height, ...image.data], info, steps };
  }, { prompt: PROMPT, options: OPTIONS });
  near(image, native);
  assert.equal(info.device, 'cpu');
  assert.deepEqual(steps, Array.from({ length: OPTIONS.steps }, (_, i) => i + 1));
});

test('a folder of files, models that stay on the device, and an image that another model takes', async () => {
  const found = await inPage(async ({ prompt, options }) => {
    const names = [
      'model_index.json', 'scheduler/scheduler_config.json', 'tokenizer/tokenizer.json', 'tokenizer/tokenizer_config.json', 'tokenizer/chat_template.jinja',
      ...['text_encoder', 'transformer', 'vae'].flatMap((part) => [`${part}/config.json`, `${part}/${part === 'text_encoder' ? 'model' : 'diffusion_pytorch_model'}.safetensors`]),
    ];
    const files = await Promise.all(names.map(async (name) => {
      const file = new File([await (await fetch(`/klein/${name}`)).blob()], name.split('/').at(-1));
      return Object.defineProperty(file, 'webkitRelativePath', { value: `klein/${name}` });
    }));
    const generator = await t.ImageGenerator.load({ model: files, device: 'webgpu', resident: true });
    const loads = [];
    const onLoad = ({ model }) => loads.push(model);
    const first = await generator.generate(prompt, { ...options, onLoad });
    const [second, other] = await Promise.all([generator.generate(prompt, { ...options, onLoad }), generator.generate(prompt, { ...options, seed: 8, onLoad })]);
    generator.dispose();
    const features = await t.ImageFeatures.load({ model: '/fixtures/vit/', device: 'cpu' });
    const taken = (await features.embed([first])).length;
    features.dispose();
    return { image: [first.width, first.height, ...first.data], same: first.data.join() === second.data.join(), differ: first.data.join() !== other.data.join(), loads, taken };
  }, { prompt: PROMPT, options: OPTIONS });
  near(found.image, native);
  assert.deepEqual([found.same, found.differ, found.loads, found.taken], [true, true, [], 1]);
});

test('a signal ends an image within a step; the next one is made, and a generator that is gone says so', async () => {
  const found = await inPage(async ({ prompt, options }) => {
    const generator = await t.ImageGenerator.load({ model: '/klein/', device: 'webgpu' });
    const abort = new AbortController();
    const steps = [];
    const faults = [];
    faults.push(await t.fault(() => generator.generate(prompt, { ...options, steps: 900, signal: abort.signal, onStep: ({ step }) => {
      steps.push(step);
      if (step === 2) abort.abort();
    } })));
    const heard = steps.length;
    const image = await generator.generate(prompt, options);
    faults.push(await t.fault(() => generator.generate(prompt, { ...options, width: 30 })));
    faults.push(await t.fault(() => generator.generate(prompt, { ...options, guidance: 3 })));
    faults.push(await t.fault(() => generator.generate(prompt, { ...options, steps: 1001 })));
    const late = t.fault(() => generator.generate(prompt, { ...options, steps: 900 }));
    await new Promise((resolve) => setTimeout(resolve, 50));
    generator.dispose();
    faults.push(await late);
    const loading = new AbortController();
    setTimeout(() => loading.abort(), 5);
    faults.push(await t.fault(() => t.ImageGenerator.load({ model: '/klein/', device: 'webgpu', signal: loading.signal })));
    return { heard, later: steps.length, image: [image.width, image.height, ...image.data], faults };
  }, { prompt: PROMPT, options: OPTIONS });
  assert.deepEqual([found.heard, found.later], [2, 2]);
  near(found.image, native);
  assert.deepEqual(found.faults.map((fault) => fault?.code), ['cancelled', 'usage', 'usage', 'usage', 'disposed', 'cancelled']);
  assert.match(found.faults[1].what, /30 x 20 pixels is not possible/);
  assert.match(found.faults[1].hint, /multiples of 4/);
  assert.match(found.faults[2].what, /takes no guidance/);
  assert.match(found.faults[3].what, /1001 steps/);
});

test('pipelines that are broken, and what is none, are errors by name', async () => {
  const models = [...Object.keys(BROKEN).map((name) => `/${name}/`), '/nothing/', '/klein/vae/', '/klein/model_index.json'];
  const faults = await inPage(async (models) => {
    const found = [];
    for (const model of models) found.push(await t.fault(() => t.ImageGenerator.load({ model, device: 'webgpu' })));
    return found;
  }, models);
  for (const [i, { code, what, at }] of Object.values(BROKEN).entries()) {
    assert.equal(faults[i]?.code, code, `${models[i]}: ${JSON.stringify(faults[i])}`);
    assert.match(faults[i].what, what);
    assert.match(faults[i].at, at);
  }
  assert.deepEqual(faults.slice(-3).map((fault) => fault?.code), ['io', 'io', 'io'], JSON.stringify(faults.slice(-3)));
});
