// Models whose header says what is not so: counts, lengths, sizes of tensors and values of keys. An estimate and a load
// say the same typed error within bounds of time and memory, and the store has what it had.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { string, u32, u64 } from '../support/gguf_parts.mjs';
import { launch, mounts, openPage, root, startServer } from './harness.mjs';

const MIB = 1 << 20;
const GOOD = '/good.gguf';
/** Of one estimate or load, on a busy machine: an honest one takes 0.3 s and 33 MB. */
const BOUND_MS = 5000;
const BOUND_BYTES = 64 * MIB;

const good = readFileSync(join(root, 'tests/fixtures/gguf/llama.gguf'));
/** The file with other bytes at a place. */
function changed(at, bytes) {
  const file = Buffer.from(good);
  bytes.copy(file, at);
  return file;
}
/** Where the bytes behind a string begin: a key's type, or how many dimensions a tensor has. */
function behind(text) {
  const name = string(text);
  const at = good.indexOf(name);
  assert.ok(at > 0, text);
  return at + name.length;
}
const key = (name, value) => changed(behind(name) + 4, value);
const dims = (name, ...sizes) => changed(behind(name) + 4, Buffer.concat(sizes.map(u64)));
/** The place of a tensor's data: behind two dimensions and the type. */
const offset = (name, value) => changed(behind(name) + 4 + 16 + 4, u64(value));
const HUGE = 2n ** 60n;

/** What is said of a file whose length is not told, if only its end shows the lie. */
const ENDS = /^bad_file the file ends inside its header, after 318528 bytes$/;
/** Each with the errors of a file whose length is told, and not. */
const LIES = {
  'the count of tensors': [changed(8, u64(HUGE)), /^bad_file tensor count 1152921504606846976/],
  'the count of keys': [changed(16, u64(HUGE)), /^bad_file .*key.* 1152921504606846976/],
  'the length of a text': [key('general.architecture', u64(HUGE)), /^bad_file .*1152921504606846976/, ENDS],
  'the length of the vocabulary': [changed(behind('tokenizer.ggml.tokens') + 8, u64(HUGE)), /^bad_file .*1152921504606846976/, ENDS],
  'a tensor of more bytes than there are numbers for': [dims('token_embd.weight', 2n ** 40n, 2n ** 40n), /^bad_file .*token_embd.weight/],
  'a tensor larger than the file': [dims('token_embd.weight', 2n ** 20n, 2n ** 16n), /^bad_file .*token_embd.weight/, /^bad_file the data of blk.0.attn_norm.weight overlaps the data of token_embd.weight$/],
  'a tensor behind the end of the file': [offset('token_embd.weight', 2n ** 40n), /^bad_file .*token_embd.weight/, /^bad_file the file ends at byte 318528, its tensors need \d+ or more$/],
  'four thousand million layers': [key('llama.block_count', u32(0xffff_ffff)), /^(bad_file|unsupported) /],
  'no layer': [key('llama.block_count', u32(0)), /^(bad_file|unsupported) /],
  'a width that the tensors lack': [key('llama.embedding_length', u32(0x4000_0000)), /^(bad_file|unsupported) /],
  'a hidden width that the tensors lack': [key('llama.feed_forward_length', u32(0x7fff_ffff)), /^(bad_file|unsupported) /],
  'no head': [key('llama.attention.head_count', u32(0)), /^(bad_file|unsupported) /],
  'four thousand million heads': [key('llama.attention.head_count', u32(0xffff_ffff)), /^(bad_file|unsupported) /],
};

let server, browser;
before(async () => {
  const files = Object.fromEntries(Object.values(LIES).map(([file], i) => [`/lie/${i}.gguf`, file]));
  server = await startServer({ mounts, files: { ...files, [GOOD]: good, '/long.gguf': key('llama.context_length', u32(0xffff_ffff)) } });
  browser = await launch({ webgpu: false });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** A page with a model in its store, and `t` to try others. */
async function open() {
  const opened = await openPage(browser, `${server.url}/pages/empty.html`);
  await opened.page.evaluate(async (good) => {
    const { Engine } = await import('/dist/index.js');
    const stored = async () => {
      const names = [];
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('rlx-shards-1');
      for await (const [name, handle] of folder.entries()) names.push(`${name} ${(await handle.getFile()).size}`);
      return names.sort();
    };
    const wasm = () => rlxMemories.reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
    const ask = async (engine) => (await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 8 })).choices[0].message.content;
    /** How something ended, and what it took. */
    const measured = async (work) => {
      const [start, bytes] = [performance.now(), wasm()];
      const end = await work().then((value) => value, ({ code, what, at }) => ({ code, what, at }));
      return { ...end, ms: performance.now() - start, bytes: wasm() - bytes };
    };
    const load = async (options) => {
      const engine = await Engine.load({ device: 'cpu', ...options });
      try {
        return { text: await ask(engine) };
      } finally {
        await engine[Symbol.asyncDispose]();
      }
    };
    globalThis.t = { Engine, stored, measured, load };
    t.want = (await load({ model: good })).text;
  }, GOOD);
  return opened;
}

for (const worker of [true, false]) {
  test(`a header that lies is refused within bounds, loaded in ${worker ? 'a worker' : "the page's thread"}`, async (t) => {
    const { page, context, logs } = await open();
    const attempt = (model) => page.evaluate(async ({ model, worker }) => {
      const before = await t.stored();
      const estimated = await t.measured(() => t.Engine.estimate({ model, device: 'cpu' }));
      const between = await t.stored();
      const loaded = await t.measured(() => t.load({ model, worker }));
      return { estimated, loaded, stored: [before, between, await t.stored()] };
    }, { model, worker });
    for (const [i, [name, [, told, untold = told]]] of Object.entries(LIES).entries()) {
      for (const length of [true, false]) {
        await t.test(`${name}${length ? '' : ', of a file whose length is not told'}`, async () => {
          const model = `/lie/${i}.gguf`;
          server.behave[model] = { length };
          const { estimated, loaded, stored: [before, between, after] } = await attempt(model);
          const ends = [loaded];
          // A place behind an end that nobody knows is found out by reading.
          if (length || estimated.code) ends.push(estimated);
          else assert.ok(estimated.fits && name === 'a tensor behind the end of the file', JSON.stringify(estimated));
          for (const { code, what, at, ms, bytes } of ends) {
            assert.match(`${code} ${what}`, length ? told : untold);
            assert.match(at, /\/lie\/\d+\.gguf/);
            assert.ok(ms < BOUND_MS && bytes <= BOUND_BYTES, `${ms} ms, ${bytes} bytes`);
          }
          assert.deepEqual(between, before, 'the store after the estimate');
          assert.deepEqual(after, before, 'the store after the load');
        });
      }
    }
    const same = await page.evaluate(async ({ model, worker }) => (await t.load({ model, worker })).text === t.want, { model: GOOD, worker });
    assert.ok(same, 'the next load works');
    for (let i = 0; i < 100 && page.workers().length > 0; i += 1) await page.waitForTimeout(20);
    assert.equal(page.workers().length, 0);
    assert.deepEqual(logs.filter((line) => line.startsWith('uncaught')), []);
    await context.close();
  });
}

test('a context that is claimed beyond all memory is refused by its estimate and by its load alike', async () => {
  const { page, context } = await open();
  const { usual, most, loaded } = await page.evaluate(async (model) => {
    const { fits, contextLength } = await t.Engine.estimate({ model, device: 'cpu' });
    const options = { model, device: 'cpu', contextLength: 16777216 };
    const most = await t.measured(async () => {
      const { fits, refusal, memoryBytes, availableBytes } = await t.Engine.estimate(options);
      return { fits, code: refusal?.code, what: refusal?.what, beyond: memoryBytes > availableBytes };
    });
    return { usual: { fits, contextLength }, most, loaded: await t.measured(() => t.load(options)) };
  }, '/long.gguf');
  assert.deepEqual(usual, { fits: true, contextLength: 4096 });
  assert.deepEqual([most.fits, most.code, most.beyond], [false, 'out_of_memory', true]);
  assert.deepEqual([loaded.code, loaded.what], [most.code, most.what]);
  for (const end of [most, loaded]) assert.ok(end.ms < BOUND_MS && end.bytes <= BOUND_BYTES, JSON.stringify(end));
  await context.close();
});
