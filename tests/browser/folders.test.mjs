// Language models from transformers' folders: an address, addresses, files; in one file of weights or several. The
// answers are the recorded ones. LLaDA 2, which comes in no other form, fills its blocks as it was recorded.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { folder, recorded, textOf } from '../support/folders.mjs';
import { launch, mounts, openPage, startServer } from './harness.mjs';

const [llama, blocks] = ['llama32', 'llada2'].map(recorded);
const BLOCK = 8;
/** What `folder` makes, by the address that it has here. */
const folders = { '/llama/': folder('llama32'), '/sharded/': folder('llama32', { shards: 3 }), '/llada/': folder('llada2', { shards: 2 }) };
const files = {};
for (const [path, of] of Object.entries(folders)) for (const [name, bytes] of Object.entries(of)) files[path + name] = bytes;

let server, browser, page, logs;
before(async () => {
  server = await startServer({ mounts, files });
  browser = await launch({ webgpu: false });
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async () => {
    const { Embedder, Engine, Session } = await import('/dist/index.js');
    const fetchFiles = (paths) => Promise.all(paths.map(async (path) => new File([await (await fetch(path)).blob()], path.split('/').at(-1))));
    /** Loads, answers, disposes; what came, or the error. */
    const attempt = async (model, { request, ...options } = {}) => {
      try {
        const engine = await Engine.load({ model, device: 'cpu', cache: false, wasm: '/dist/rlx.wasm', ...options });
        const parts = [];
        let usage;
        for await (const chunk of await engine.chat.completions.create({ temperature: 0, ...request, stream: true })) {
          if (chunk.choices[0].delta.content) parts.push(chunk.choices[0].delta.content);
          usage ??= chunk.usage;
        }
        const info = engine.info();
        engine.dispose();
        return { parts, usage, info };
      } catch ({ code, what, at, hint }) {
        return { error: { code, what, at, hint } };
      }
    };
    globalThis.t = { Embedder, Session, attempt, fetchFiles };
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});
afterEach(() => {
  for (const path of Object.keys(server.behave)) delete server.behave[path];
});

/** In the page; a failure says what the page wrote. `kind`: how the files are given. */
async function attempt(model, options, kind = 'addresses') {
  try {
    return await page.evaluate(async ({ model, options, kind }) =>
      t.attempt(kind === 'files' ? await t.fetchFiles(model) : model, options), { model, options, kind });
  } catch (error) {
    throw new Error(`${error.message}\n${logs.join('\n')}`, { cause: error });
  }
}

const asking = (ids, more) => ({ messages: [{ role: 'user', content: textOf(ids) }], ...more });
const listed = (path, without = []) => Object.keys(folders[path]).filter((name) => !without.includes(name)).map((name) => path + name);
const greedy = { request: asking(llama('in.prompt_ids'), { max_tokens: 16 }) };

for (const [what, model, kind] of [
  ['an address', '/llama/'], ['addresses', listed('/llama/')], ['files', listed('/llama/').reverse(), 'files'],
  ['the address of one in several files', '/sharded/'], ['several files', listed('/sharded/').reverse(), 'files'],
  ['several files without their index', listed('/sharded/', ['model.safetensors.index.json']), 'files'],
]) {
  test(`a Llama's folder as ${what} answers as recorded`, async () => {
    const { error, parts, usage, info } = await attempt(model, greedy, kind);
    assert.equal(error, undefined);
    assert.equal(parts.join(''), textOf(llama('out.greedy')));
    assert.deepEqual({ ...usage, extra: null }, { prompt_tokens: 13, completion_tokens: 16, total_tokens: 29, extra: null });
    assert.deepEqual(info.model, { name: 'llama', architecture: 'llama', contextLength: 256, tools: null, reasoning: false });
  });
}

test('progress counts the bytes of all files of weights', async () => {
  const told = await page.evaluate(async (request) => {
    const told = [];
    await t.attempt('/sharded/', { request, onProgress: (progress) => told.push(progress) });
    return told;
  }, greedy.request);
  const bytes = Object.entries(folders['/sharded/']).filter(([name]) => name.endsWith('.safetensors')).reduce((sum, [, { length }]) => sum + length, 0);
  assert.deepEqual([...new Set(told.map(({ phase }) => phase))], ['headers', 'compile', 'weights', 'ready']);
  assert.deepEqual(told.at(-1), { phase: 'ready', loadedBytes: bytes, totalBytes: bytes, from: 'network' });
});

test('a folder is kept for the next visit, and is whole without a server: also what it lacks', async () => {
  const { page, context } = await openPage(browser, `${server.url}/pages/empty.html`);
  const visit = () => page.evaluate(async ({ model, request }) => {
    const { Engine } = await import('/dist/index.js');
    const [from, notices] = [new Set(), []];
    const engine = await Engine.load({
      model, device: 'cpu', wasm: '/dist/rlx.wasm',
      onProgress: (progress) => from.add(progress.from), onNotice: ({ code }) => notices.push(code),
    });
    const answer = await engine.chat.completions.create({ ...request, temperature: 0 });
    engine.dispose();
    return { text: answer.choices[0].message.content, from: [...from], notices };
  }, { model: '/sharded/', request: greedy.request });
  const text = textOf(llama('out.greedy'));
  assert.deepEqual(await visit(), { text, from: ['network'], notices: [] });
  server.requests.length = 0;
  assert.deepEqual(await visit(), { text, from: ['cache'], notices: [] });
  const gets = server.requests.filter(({ method, path }) => method === 'GET' && path.startsWith('/sharded/'));
  const missing = ['additional_chat_templates/tool_use.jinja', 'model.safetensors'];
  assert.deepEqual(gets.map(({ path }) => path).sort(), missing.map((name) => `/sharded/${name}`), 'only what is not there is asked for again');
  for (const name of [...Object.keys(folders['/sharded/']), ...missing]) server.behave[`/sharded/${name}`] = { status: 503 };
  assert.deepEqual(await visit(), { text, from: ['cache'], notices: ['offline'] });
  await context.close();
});

const RUNS = [
  ['sample', 'out.sampled', { steps: 5, threshold: 0.55, max_post_steps: 0 }],
  ['edit', 'out.edit_sampled', { threshold: 0.5, editing_threshold: 0.3, max_post_steps: 2 }],
];
const filling = (how) => ({ request: asking(blocks('in.prompt_ids'), { max_tokens: 27, ...how }), blockLength: BLOCK, contextLength: 64 });

/** How many masks each recorded pass replaced. */
function fixedBy(run) {
  const canvases = blocks(`${run}.x`);
  const passes = blocks(`${run}.block`).length;
  const width = canvases.length / (passes + 1);
  return Array.from({ length: passes }, (_, i) => {
    const [before, behind] = [i, i + 1].map((n) => canvases.slice(n * width, (n + 1) * width));
    return before.filter((id, at) => id === 260 && behind[at] !== 260).length;
  });
}

for (const [run, name, how] of RUNS) {
  test(`LLaDA 2 fills blocks as recorded, ${run}: text comes a block at a time, and passes are counted`, async () => {
    const { error, parts, usage, info } = await attempt('/llada/', filling(how));
    assert.equal(error, undefined);
    const prompt = blocks('in.prompt_ids');
    const answer = blocks(name).slice(prompt.length);
    // The prompt's last five tokens begin the first block.
    assert.deepEqual(parts, [0, 3, 11, 19].map((at, i, all) => textOf(answer.slice(at, all[i + 1]))));
    assert.equal(usage.completion_tokens, 27);
    assert.deepEqual(usage.tokens_per_pass, fixedBy(run));
    assert.deepEqual(info.model, { name: 'llada2_moe', architecture: 'llada2_moe', contextLength: 256, tools: null, reasoning: false });
  });
}

test('what blocks cannot have is refused', async () => {
  const refused = async (model, options) => (await attempt(model, { ...filling(), ...options })).error;
  assert.match((await refused('/llama/')).what, /a model of family llama32 fills no blocks/);
  assert.match((await refused('/llada/', { blockLength: 12 })).what, /blocks of 12 positions: a prompt's chunk of 128 rows is no whole number of them/);
  assert.match((await refused('/llada/', { blockLength: 1.5 })).what, /blockLength is 1.5, it must be a whole number/);
  assert.match((await refused('/llada/', filling({ overflow: 'slide' }))).what, /a model that fills blocks has no context that slides/);
  assert.match((await refused('/llada/', filling({ top_k: 3 }))).what, /fills blocks samples by temperature, min_p and seed alone/);
});

test('what a folder lacks is told by name', async () => {
  const hint = 'check the address';
  const missing = async (name, path = '/llama/') => {
    server.behave[path + name] = { status: 404 };
    return (await attempt(path, greedy)).error;
  };
  assert.deepEqual((await attempt('/none/', greedy)).error, { code: 'io', what: 'the server answered 404 Not Found', at: `${server.url}/none/config.json`, hint });
  const shard = await missing('model-00002-of-00003.safetensors', '/sharded/');
  assert.deepEqual(shard, { code: 'io', what: 'the server answered 404 Not Found', at: `${server.url}/sharded/model-00002-of-00003.safetensors`, hint });
  const tokenizer = await missing('tokenizer.json');
  assert.deepEqual([tokenizer.code, tokenizer.what], ['io', 'the folder has neither tokenizer.json nor tokenizer.model']);
  const weights = await missing('model.safetensors');
  assert.deepEqual(weights, {
    code: 'io', what: 'there is no model.safetensors and no model.safetensors.index.json', at: `${server.url}/llama/`,
    hint: 'pytorch_model.bin is not read: convert the model to safetensors or GGUF',
  });
  const lists = {
    'config.json': /there is no config.json/, 'model-00001-of-00003.safetensors': /there is no model-00001-of-00003.safetensors/,
    'tokenizer.json': /neither tokenizer.json nor tokenizer.model/,
  };
  for (const path of Object.keys(server.behave)) delete server.behave[path];
  for (const [name, what] of Object.entries(lists)) {
    const { error } = await attempt(listed('/sharded/', [name]), greedy, 'files');
    assert.equal(error.code, 'io', name);
    assert.match(error.what, what);
  }
  // Without the index nothing says that a shard is missing, but a tensor is.
  const { error } = await attempt(listed('/sharded/', ['model-00001-of-00003.safetensors', 'model.safetensors.index.json']), greedy, 'files');
  assert.match(`${error.code} ${error.what}`, /^bad_file tensor model\.\S+ is missing/);
});

test('what is no folder of a language model is refused by name', async () => {
  const made = (changes) => page.evaluate(async ({ paths, changes, request }) => {
    const files = (await t.fetchFiles(paths)).filter(({ name }) => changes[name] !== null);
    const changed = (name) => typeof changes[name] === 'string' && new File([Uint8Array.from(atob(changes[name]), (c) => c.charCodeAt(0))], name);
    const all = [...files.filter(({ name }) => !(name in changes)), ...Object.keys(changes).map(changed).filter(Boolean)];
    return (await t.attempt(all, { request })).error;
  }, { paths: listed('/llama/'), changes, request: greedy.request });
  const base64 = (text) => Buffer.from(text, 'latin1').toString('base64');
  const config = (changes) => base64(JSON.stringify({ ...JSON.parse(folders['/llama/']['config.json']), ...changes }));
  const index = (name) => base64(JSON.stringify({ weight_map: { a: name } }));
  const cases = [
    [{ 'config.json': config({ model_type: 'mamba' }) }, /^unsupported unknown model_type mamba/],
    [{ 'config.json': base64('{') }, /^bad_file /],
    [{ 'tokenizer.json': base64('{"model": {"type": "WordLevel"}, "pre_tokenizer": {"type": "ByteLevel"}}') }, /^unsupported a model of type WordLevel/],
    [{ 'tokenizer_config.json': base64('<!DOCTYPE html>') }, /^bad_file .*tokenizer_config.json/],
    [{ 'generation_config.json': base64('\xff') }, /^bad_file the JSON is not UTF-8/],
    [{ 'model.safetensors': base64('PK\x03\x04 a zip archive') }, /^bad_file neither a GGUF nor a safetensors file: it looks like a zip archive, perhaps a PyTorch checkpoint/],
    [{ 'model.safetensors': base64('\x10\0\0\0\0\0\0\0{') }, /^bad_file .*the end of the file at byte 9/],
    [{ 'model.safetensors': null, 'model.safetensors.index.json': index('../model.safetensors') }, /^bad_file "..\/model.safetensors" is no name of a safetensors file in the folder/],
    [{ 'model.safetensors': null, 'model.safetensors.index.json': index('https://a/model.safetensors') }, /^bad_file .* is no name of a safetensors file in the folder/],
    [{ 'model.safetensors': null, 'pytorch_model.bin': base64('PK') }, /^io there is no model.safetensors .*pytorch_model.bin is not read/],
    [{ 'model.safetensors': null, 'a.gguf': base64('GGUF\x03\0\0\0') }, /^bad_file the file ends inside its header|^bad_file /],
  ];
  for (const [changes, expected] of cases) {
    const { code, what, at, hint } = await made(changes);
    assert.match(`${code} ${what} (${at}); ${hint}`, expected, JSON.stringify(changes));
  }
  const twice = await page.evaluate(async ({ paths, request }) => {
    const files = await t.fetchFiles(paths);
    const shard = files.find(({ name }) => name.startsWith('model-00001'));
    const all = files.filter(({ name }) => !name.endsWith('index.json'));
    return (await t.attempt([...all, new File([shard], 'again.safetensors')], { request })).error;
  }, { paths: listed('/sharded/'), request: greedy.request });
  assert.match(`${twice.code} ${twice.what}`, /^bad_file tensor \S+ is in two of the model's files/);
  const alone = await attempt(['/llama/model.safetensors'], greedy);
  assert.match(`${alone.error.code} ${alone.error.what}`, /^usage a safetensors file does not say what model it has/);
});

test('a session takes a folder in several files too: its logits are the recorded next tokens', async () => {
  const best = await page.evaluate(async ({ paths, prompt }) => {
    const found = [];
    for (const model of ['/sharded/', await t.fetchFiles(paths)]) {
      const session = await t.Session.load({ model, device: 'cpu', cache: false, contextLength: 64, wasm: '/dist/rlx-graphs.wasm' });
      const { logits } = await session.run('logits', { ids: { data: Uint32Array.from(prompt), dims: [prompt.length] } });
      session.dispose();
      const last = Array.from(logits.data.subarray(-logits.dims.at(-1)));
      found.push(last.indexOf(Math.max(...last)));
    }
    return found;
  }, { paths: listed('/sharded/'), prompt: llama('in.prompt_ids') });
  const [next] = llama('out.greedy');
  assert.deepEqual(best, [next, next]);
});
