// A browser that tells of finished work late and all at once: steps in flight grow to cover it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

const MODEL = '/fixtures/gguf/llama.gguf';

let server, browser, page;
before(async () => {
  server = await startServer({ mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures') } });
  browser = await launch();
  ({ page } = await openPage(browser, `${server.url}/pages/empty.html`));
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('reads that answer only when all are done, a task each, have ever more of them in flight', { timeout: 120_000 }, async () => {
  const seen = await page.evaluate(async (model) => {
    const { Engine } = await import('/dist/index.js');
    const reads = { late: false, asked: 0, most: 0, done: [] };
    /** Gives what is done when nothing else is on its way: without a clock, the latest a browser could. */
    const told = (resolve) => {
      reads.done.push(resolve);
      if (reads.late && reads.done.length < reads.asked) return;
      for (const give of reads.done.splice(0)) {
        setTimeout(() => {
          reads.asked -= 1;
          give();
        });
      }
    };
    const gpu = {
      wgslLanguageFeatures: navigator.gpu.wgslLanguageFeatures,
      async requestAdapter(options) {
        const adapter = await navigator.gpu.requestAdapter(options);
        const requestDevice = adapter.requestDevice.bind(adapter);
        adapter.requestDevice = async (descriptor) => {
          const device = await requestDevice(descriptor);
          const createBuffer = device.createBuffer.bind(device);
          device.createBuffer = (about) => {
            const buffer = createBuffer(about);
            const mapAsync = buffer.mapAsync.bind(buffer);
            buffer.mapAsync = async (...args) => {
              reads.asked += 1;
              reads.most = Math.max(reads.most, reads.asked);
              await mapAsync(...args);
              await new Promise(told);
            };
            return buffer;
          };
          return device;
        };
        return adapter;
      },
    };
    const engine = await Engine.load({ model, device: 'webgpu', cache: false, gpu });
    const answers = [];
    for (const late of [false, true]) {
      Object.assign(reads, { late, most: 0 });
      const messages = [{ role: 'user', content: 'Hello' }];
      const { choices, usage } = await engine.chat.completions.create({ messages, temperature: 0, max_tokens: 100 });
      answers.push({ text: choices[0].message.content, tokens: usage.completion_tokens, most: reads.most });
    }
    engine.dispose();
    return answers;
  }, MODEL);
  const [prompt, late] = seen;
  assert.equal(late.text, prompt.text);
  assert.ok(late.tokens > 60, JSON.stringify(seen));
  // 4, 8, 16, 32: what is submitted while a burst is given out is more of the next.
  assert.ok(late.most >= 16, JSON.stringify(seen));
});
