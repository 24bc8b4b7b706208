// Answers of a form in Chromium: in the engine's worker, on the CPU and through WebGPU.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

let server, browser, page, requests;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') } });
  browser = await launch();
  ({ page } = await openPage(browser, `${server.url}/pages/empty.html`));
  requests = [];
  page.context().on('request', (request) => requests.push(new URL(request.url()).pathname));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const SCHEMA = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 10 }, tags: { type: 'array', items: { enum: ['a', 'b'] }, maxItems: 3 }, n: { type: 'integer', minimum: 0, maximum: 99 } },
  required: ['name', 'tags', 'n'],
  additionalProperties: false,
};

/** Answers of the schema, and one without a form, on a device; `before` is what had been fetched when the first form was asked. */
const answers = (device) => page.evaluate(async ({ device, schema }) => {
  const { Engine } = await import('/dist/index.js');
  const engine = await Engine.load({ model: '/fixtures/rustdoc-2m/rustdoc-2m-q8_0.gguf', device, kv: 'f32', activations: 'f32', cache: false });
  const messages = [{ role: 'user', content: 'What is a Vec?' }];
  const ask = async (more) => {
    const { choices } = await engine.chat.completions.create({ messages, max_tokens: 200, temperature: 0, ...more });
    return choices.map(({ message, finish_reason }) => ({ text: message.content, finish_reason }));
  };
  const form = { response_format: { type: 'json_schema', json_schema: { name: 'it', schema } } };
  const [free] = await ask({ max_tokens: 8 });
  const held = [...await ask(form), ...await ask({ ...form, temperature: 1.5, seed: 7, n: 3 }), ...await ask({ ...form, temperature: 1, frequency_penalty: 1, seed: 3 })];
  const [again] = await ask({ max_tokens: 8 });
  const wrong = await ask({ grammar: 'root = 1' }).catch(({ code, at }) => ({ code, at }));
  const ran = engine.info().device;
  await engine.dispose();
  return { ran, free, held, again, wrong };
}, { device, schema: SCHEMA });

test('the CPU and WebGPU give the same answers of a schema; the module is fetched when a form is asked for', async () => {
  await page.evaluate(async () => {
    const { Engine } = await import('/dist/index.js');
    const engine = await Engine.load({ model: '/fixtures/rustdoc-2m/rustdoc-2m-q8_0.gguf', device: 'cpu', cache: false });
    await engine.chat.completions.create({ messages: [{ role: 'user', content: 'What?' }], max_tokens: 3 });
    await engine.dispose();
  });
  assert.ok(requests.some((path) => /\/rlx(-relaxed)?\.wasm$/.test(path)), String(requests));
  assert.ok(!requests.some((path) => path.includes('grammar') || path.includes('held')), 'nobody asked for a form');
  const cpu = await answers('cpu');
  assert.equal(requests.filter((path) => path.endsWith('/rlx-grammar.wasm')).length, 1);
  const webgpu = await answers('webgpu');
  assert.deepEqual([cpu.ran, webgpu.ran], ['cpu', 'webgpu']);
  for (const { text, finish_reason } of cpu.held) {
    assert.equal(finish_reason, 'stop', text);
    assert.deepEqual(Object.keys(JSON.parse(text)).sort(), ['n', 'name', 'tags']);
  }
  assert.deepEqual(webgpu.held, cpu.held);
  for (const { free, again, wrong } of [cpu, webgpu]) {
    assert.deepEqual(again, free, 'a form is of its call alone');
    assert.deepEqual(wrong, { code: 'usage', at: 'line 1 of the grammar' });
  }
});
