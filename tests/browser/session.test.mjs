// Networks that are no language models: `Session` and `Embedder` on the CPU and on WebGPU, and a page for chat that fetches
// nothing of them.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { bertFolder } from '../support/random_weights.mjs';
import { WIDE, caller, launch, mounts, openPage, root, startServer } from './harness.mjs';

const DEVICES = ['cpu', 'webgpu'];
const ENCODERS = [['bert', 'bert'], ['nomic_bert', 'nomic-bert']];
/** All twelve block graphs; those of language models give the logits of a text. */
const GRAPHS = readdirSync(join(root, 'tests/fixtures/graphs')).map((name) => name.replace('.hir', ''));

/** Sizes of a batch and its rows: on the CPU it grows and comes back. A GPU in software takes seconds for a program. */
const SIZES = { cpu: [[1, 5], [2, 9], [1, 5], [1, 9]], webgpu: [[1, 9]] };
const CHAT = [1, 2, 3].map((i) => `/models/rustdoc-29m/rustdoc-29m-q4_k_m-0000${i}-of-00003.gguf`);

const fixture = (path) => readFileSync(join(root, 'tests/fixtures', path), 'utf8');
const recorded = ([folder, name]) => JSON.parse(fixture(`${folder}/${name}.json`)).texts;

const files = {};
let server, browser, page, logs;
before(async () => {
  const { texts, weights } = bertFolder(5);
  for (const [name, text] of Object.entries(texts)) files[`/folder/${name}`] = Buffer.from(text);
  files['/folder/model.safetensors'] = Buffer.from(await weights.arrayBuffer());
  server = await startServer({ files, mounts: { ...mounts, '/fixtures/': join(root, 'tests/fixtures'), '/models/': join(root, 'models') } });
  browser = await launch();
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`, { oneDevice: true }));
  await page.evaluate(async () => {
    const { Embedder, RlxError, Session } = await import('/dist/index.js');
    const { randomNumbers, randomWeights, safetensors } = await import('/support/random_weights.mjs');
    const numbers = (rows) => rows.map((row) => Array.from(row));
    /** The error of what should fail. */
    const fault = (work) => Promise.resolve().then(work).then(() => null, (error) => {
      const { code, what, at, hint, name } = error;
      return { typed: error instanceof RlxError, code, what, at, hint, name };
    });
    /** Inputs of sizes for every entry of a graph, the same from the same seed. */
    const inputsOf = ({ inputs }, sizes, seed) => {
      const next = randomNumbers(seed);
      const tops = { ids: 33, types: 2, positions: 9 };
      return Object.fromEntries(inputs.map(({ name, type, shape }) => {
        const dims = shape.map((n) => sizes[n] ?? n);
        const length = dims.reduce((n, d) => n * d, 1);
        const data = type === 'u32' ? Uint32Array.from({ length }, () => Math.abs(Math.round(next() * 1000)) % tops[name])
          : name === 'mask' ? Float32Array.from({ length }, (_, i) => (i === length - 1 ? 0 : 1))
          : Float32Array.from({ length }, next);
        return [name, { data, dims }];
      }));
    };
    globalThis.t = { embedders: {}, Embedder, Session, fault, inputsOf, numbers, randomWeights, safetensors };
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** Runs in the page; a failure says what the page wrote. */
const inPage = caller(() => ({ page, logs }));

/** The largest difference, of the largest number. */
function apart(a, b) {
  assert.equal(a.length, b.length);
  assert.ok(a.every(Number.isFinite), 'numbers');
  const most = Math.max(...b.map(Math.abs));
  return Math.max(...a.map((x, i) => Math.abs(x - b[i]))) / most;
}

for (const [encoder, device] of ENCODERS.flatMap((encoder) => DEVICES.map((device) => [encoder, device]))) {
  const [folder, name] = encoder;
  test(`${name} on ${device}: vectors are transformers', a text's the same alone and among others`, async () => {
    const truth = recorded(encoder);
    // A GPU in software takes seconds for a program: each length there is one.
    const some = device === 'cpu' ? truth : truth.filter(({ ids }) => ids.length <= 24);
    const { alone, all, info, width, maxTokens, none } = await inPage(async ({ model, device, texts }) => {
      const embedder = await t.Embedder.load({ model, device, pooling: 'mean', normalise: false });
      const all = t.numbers(await embedder.embed(texts));
      const alone = [];
      for (const text of texts) alone.push(...t.numbers(await embedder.embed([text])));
      const { width, maxTokens } = embedder;
      const info = embedder.info();
      const none = await embedder.embed([]);
      t.embedders[`${model} ${device}`] = embedder;
      return { all, alone, width, maxTokens, info, none };
    }, { model: `/fixtures/${folder}/${name}.gguf`, device, texts: some.map(({ text }) => text) });
    some.forEach(({ text, mean_hf }, i) => {
      assert.ok(apart(all[i], mean_hf) <= 1e-4, `${JSON.stringify(text)}: ${apart(all[i], mean_hf)}`);
      assert.ok(apart(alone[i], all[i]) <= 1e-5, `${JSON.stringify(text)} alone: ${apart(alone[i], all[i])}`);
    });
    assert.equal(width, 64);
    assert.equal(info.device, device);
    assert.equal(info.fallbackReason, null);
    assert.equal(info.model.width, 64);
    assert.equal(info.model.contextLength, maxTokens);
    assert.ok(info.weightBytes > 100_000 && info.programs >= 1 && info.programs <= 8, JSON.stringify(info));
    assert.deepEqual(none, []);
  });
}

for (const device of DEVICES) {
  test(`200 sentences on ${device}: progress; aborting ends a call, not the next; calls have turns; dispose ends all`, async (t) => {
    const { many, aborted, before, batches, order, after, disposed, late } = await inPage(async ({ model, device, lengths }) => {
      const embedder = t.embedders[`${model} ${device}`];
      const sentences = Array.from({ length: 200 }, (_, i) => `${String.fromCharCode(97 + i % 26)} ${'borrow checker '.repeat(i % lengths)}`);
      const told = [];
      const start = performance.now();
      const rows = t.numbers(await embedder.embed(sentences, { onProgress: (progress) => told.push(progress) }));
      const ms = performance.now() - start;
      const again = t.numbers(await embedder.embed([sentences[7], sentences[190]]));
      const many = { ms, told, rows: rows.length, pair: [rows[7], rows[190]], again };

      const abort = new AbortController();
      let batches = 0;
      const aborted = await t.fault(() => embedder.embed(sentences, { signal: abort.signal, onProgress: () => { batches += 1; abort.abort(); } }));
      const before = await t.fault(() => embedder.embed(sentences, { signal: AbortSignal.abort() }));
      const order = [];
      const wait = new AbortController();
      const calls = [0, 1, 2].map((i) => embedder.embed([sentences[7], sentences[190]], i === 1 ? { signal: wait.signal } : {})
        .then(() => order.push(i), ({ code }) => order.push(code)));
      wait.abort();
      await Promise.all(calls);
      const after = t.numbers(await embedder.embed([sentences[7], sentences[190]]));
      const running = t.fault(() => embedder.embed(sentences));
      const next = t.fault(() => embedder.embed(['x']));
      await new Promise((resolve) => setTimeout(resolve));
      embedder.dispose();
      embedder.dispose();
      const late = await t.fault(() => embedder.info());
      return { many, aborted, before, batches, order, after, disposed: [await running, await next], late };
    }, { model: '/fixtures/bert/bert.gguf', device, lengths: device === 'cpu' ? 9 : 1 });
    assert.equal(many.rows, 200);
    assert.ok(many.told.length > 3, `${many.told.length} batches`);
    assert.deepEqual(many.told.at(-1), { done: 200, total: 200, truncated: 0 });
    assert.ok(many.told.every(({ done }, i) => i === 0 || done > many.told[i - 1].done));
    many.pair.forEach((row, i) => {
      assert.ok(apart(row, many.again[i]) <= 1e-5, 'of many');
    });
    assert.equal(aborted?.code, 'cancelled');
    assert.equal(aborted.name, 'AbortError');
    assert.equal(batches, 1, 'batches before the abort was heeded');
    assert.equal(before?.code, 'cancelled');
    assert.deepEqual(order, ['cancelled', 0, 2]);
    assert.deepEqual(many.again, after);
    for (const error of [...disposed, late]) assert.equal(error?.code, 'disposed');
    t.diagnostic(`200 sentences in ${many.ms.toFixed(0)} ms, ${many.told.length} batches`);
  });
}

test('texts that are too long are cut, and that is told', async () => {
  const { vector, cut, progress } = await inPage(async (model) => {
    const embedder = await t.Embedder.load({ model, device: 'cpu', maxTokens: 8, pooling: 'cls' });
    const progress = [];
    const [vector, cut] = t.numbers(await embedder.embed(['a b c d e f', 'a b c d e f g h i'], { onProgress: (p) => progress.push(p) }));
    embedder.dispose();
    return { vector, cut, progress };
  }, '/fixtures/bert/bert.gguf');
  assert.deepEqual(progress, [{ done: 2, total: 2, truncated: 1 }]);
  assert.ok(apart(cut, vector) <= 1e-5, 'the first eight tokens are the same');
  assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-5, 'vectors are normalised where nothing says otherwise');
});

test('a folder is loaded by its address, with what its small files say; its files may be given one by one', async () => {
  const { words } = bertFolder(5);
  const ids = ['[CLS]', 'the', 'borrow', 'check', '##er', 'is', 'happy', '[SEP]'].map((word) => words.indexOf(word));
  server.requests.length = 0;
  const { folder, given, chosen, rows, width, maxTokens } = await inPage(async ({ url, ids }) => {
    const text = 'The borrow checker is happy. The borrow checker is happy.';
    const embed = async (options) => {
      const embedder = await t.Embedder.load({ device: 'cpu', ...options });
      const [vector] = t.numbers(await embedder.embed([text]));
      embedder.dispose();
      return { vector, width: embedder.width, maxTokens: embedder.maxTokens };
    };
    const { vector: folder, width, maxTokens } = await embed({ model: url });
    const blob = async (name) => (await fetch(url + name)).blob();
    const [model, config, tokenizer] = await Promise.all(['model.safetensors', 'config.json', 'vocab.txt'].map(blob));
    // Without the small files pooling is the mean; all of it is said instead.
    const given = await embed({ model, config, tokenizer, maxTokens: 8, pooling: 'cls', normalise: true });
    const chosen = await embed({ model: url, pooling: 'mean', normalise: false, maxTokens: 20 });
    const session = await t.Session.load({ model: url, device: 'cpu' });
    const dims = [1, ids.length];
    const data = Uint32Array.from(ids);
    const zeros = new Uint32Array(ids.length);
    const { hidden } = await session.run('encode', { input_ids: { data, dims }, token_type_ids: { data: zeros, dims }, attention_mask: { data: zeros.slice().fill(1), dims } });
    session.dispose();
    return { folder, given: given.vector, chosen, rows: [...hidden.data], width, maxTokens };
  }, { url: `${server.url}/folder/`, ids });
  assert.deepEqual([width, maxTokens, chosen.maxTokens], [16, 8, 20]);
  const length = Math.hypot(...rows.slice(0, 16));
  assert.ok(apart(folder, rows.slice(0, 16).map((x) => x / length)) <= 1e-5, 'the first row, normalised: as the files say');
  assert.deepEqual(given, folder);
  assert.ok(apart(chosen.vector, folder) > 0.01, 'what is asked for is taken before what the files say');
  const asked = server.requests.map(({ path }) => path).filter((path) => path.startsWith('/folder/'));
  assert.ok(asked.includes('/folder/tokenizer.json') && asked.includes('/folder/vocab.txt'), 'the one and, where it is not there, the other');
});

test('graphs with random weights: the CPU and WebGPU agree', { skip: WIDE }, async (t) => {
  assert.equal(GRAPHS.length, 12);
  for (const name of GRAPHS) {
    const start = performance.now();
    const results = await inPage(async ({ graph, sizes, devices }) => {
      const weights = t.randomWeights(graph, 7);
      const results = [];
      for (const device of devices) {
        const session = await t.Session.load({ graph, weights, device });
        const [entry] = session.entries;
        const runs = [];
        for (const [batch, seq] of sizes[device]) {
          runs.push(await session.run(entry.name, t.inputsOf(entry, { BATCH: batch, SEQ: seq, T: seq }, 3)));
        }
        const outputs = runs.map((run) => Object.entries(run).map(([name, { data, dims, type }]) => ({ name, data: [...data], dims, type, array: data.constructor.name })));
        results.push({ entries: session.entries, outputs, info: session.info() });
        session.dispose();
      }
      return results;
    }, { graph: fixture(`graphs/${name}.hir`), sizes: SIZES, devices: DEVICES });
    const [cpu, webgpu] = results;
    assert.equal(cpu.info.device, 'cpu');
    assert.equal(webgpu.info.device, 'webgpu');
    assert.equal(cpu.info.model, null);
    assert.deepEqual(cpu.entries, webgpu.entries);
    assert.equal(cpu.entries[0].name, name);
    // Programs of sizes that come back are still there.
    const symbols = new Set(cpu.entries[0].inputs.flatMap(({ shape }) => shape.filter((n) => typeof n === 'string')));
    assert.equal(cpu.info.programs, [1, 2, 3][symbols.size]);
    assert.equal(webgpu.info.programs, 1);
    let most = 0;
    cpu.outputs.at(-1).forEach((output, j) => {
      const other = webgpu.outputs[0][j];
      assert.equal(output.array, 'Float32Array');
      assert.equal(output.type, 'f32');
      assert.equal(output.name, cpu.entries[0].outputs[j].name);
      assert.equal(output.dims.reduce((n, d) => n * d, 1), output.data.length);
      assert.deepEqual(output.dims, other.dims);
      most = Math.max(most, apart(output.data, other.data));
    });
    assert.deepEqual(cpu.outputs[0], cpu.outputs[2], 'the same inputs again');
    assert.ok(most <= 2e-4, `${name}: ${most} apart`);
    t.diagnostic(`${name}: ${most.toExponential(1)} apart, ${(performance.now() - start).toFixed(0)} ms`);
  }
});

test('a session of a model runs encode with ids, and one of two runs at once waits for the other', async () => {
  const [{ ids, mean_hf }] = recorded(ENCODERS[0]).slice(1);
  const { entries, rows, order, cancelled } = await inPage(async (ids) => {
    const session = await t.Session.load({ model: '/fixtures/bert/bert.gguf', device: 'cpu' });
    const dims = [1, ids.length];
    const inputs = {
      input_ids: { data: Uint32Array.from(ids), dims },
      attention_mask: { data: new Uint32Array(ids.length).fill(1), dims },
      token_type_ids: { data: new Uint32Array(ids.length), dims },
    };
    const order = [];
    const runs = [1, 2].map((n) => session.run('encode', inputs).then((outputs) => { order.push(n); return outputs; }));
    const abort = new AbortController();
    const given = t.fault(() => session.run('encode', inputs, { signal: abort.signal }));
    abort.abort();
    const [{ hidden }] = await Promise.all(runs);
    return { entries: session.entries, rows: { dims: hidden.dims, data: [...hidden.data] }, order, cancelled: await given };
  }, ids);
  assert.deepEqual(entries.map(({ name }) => name), ['encode']);
  assert.ok(entries[0].inputs.every(({ type, shape }) => type === 'u32' && shape.every((n) => typeof n === 'string')));
  assert.deepEqual(order, [1, 2]);
  assert.equal(cancelled?.code, 'cancelled');
  assert.deepEqual(rows.dims.slice(-2), [ids.length, 64]);
  const mean = mean_hf.map((_, i) => ids.reduce((sum, _, row) => sum + rows.data[row * 64 + i], 0) / ids.length);
  assert.ok(apart(mean, mean_hf) <= 1e-4, `${apart(mean, mean_hf)}`);
});

for (const device of DEVICES) {
  test(`a language model in a session on ${device}: the logits behind each id of a text, the last row the recorded one`, async () => {
    const { prompt_ids, logits } = JSON.parse(fixture('llama_linear/llama_linear.json'));
    const ids = prompt_ids;
    const { entries, rows, dims, long } = await inPage(async ({ device, ids }) => {
      const session = await t.Session.load({ model: '/fixtures/llama_linear/llama_linear.gguf', device, contextLength: ids.length });
      const text = (list) => ({ ids: { data: Uint32Array.from(list), dims: [list.length] } });
      const { logits } = await session.run('logits', text(ids));
      const long = await t.fault(() => session.run('logits', text([...ids, 1])));
      const answer = { entries: session.entries, rows: [...logits.data], dims: logits.dims, long };
      session.dispose();
      return answer;
    }, { device, ids });
    assert.deepEqual(entries, [{
      name: 'logits', inputs: [{ name: 'ids', type: 'u32', shape: ['SEQ'] }], outputs: [{ name: 'logits', type: 'f32', shape: ['SEQ', logits.length] }],
    }]);
    assert.deepEqual(dims, [ids.length, logits.length]);
    const last = rows.slice(-logits.length);
    assert.ok(apart(last, logits) <= 2e-5, `${apart(last, logits)}`);
    assert.equal(long?.code, 'usage');
    assert.match(long.what, /the caches have 108 positions/);
  });
}

test('the README\'s graph of operators: rows of any number, times a weight', async () => {
  const [, graph] = /const graph = `([^`]+)`/.exec(readFileSync(join(root, 'README.md'), 'utf8'));
  const { entries, y, three } = await inPage(async (graph) => {
    const weights = t.safetensors([{ name: 'w', dims: [3, 4], data: Float32Array.from({ length: 12 }, (_, i) => i) }]);
    const session = await t.Session.load({ graph, weights, device: 'cpu' });
    const run = async (data, dims) => {
      const { y } = await session.run('layer', { x: { data, dims } });
      return { ...y, data: [...y.data], array: y.data.constructor.name };
    };
    const answer = { entries: session.entries, y: await run(Float32Array.of(1, 2, 3, 4), [1, 4]), three: await run(new Float32Array(12).fill(1), [3, 4]) };
    session.dispose();
    return answer;
  }, graph);
  assert.deepEqual(entries, [{
    name: 'layer', inputs: [{ name: 'x', type: 'f32', shape: ['SEQ', 4] }], outputs: [{ name: 'y', type: 'f32', shape: ['SEQ', 3] }],
  }]);
  assert.deepEqual(y, { type: 'f32', dims: [1, 3], data: [20, 60, 100], array: 'Float32Array' });
  assert.deepEqual(three.data, [6, 22, 38, 6, 22, 38, 6, 22, 38]);
});

for (const device of DEVICES) {
  test(`outputs stay on ${device}: they are inputs of other runs, and are read when they are asked for`, async () => {
    const graph = `func @twice {
  input %x : tensor<SEQx4xf32>
  %0 = zip %x, %x {f = add} -> tensor<SEQx4xf32> // y
  %1 = zip %0, %x {f = mul} -> tensor<SEQx4xf32> // z
  return y = %0, z = %1
}
`;
    const answer = await inPage(async ({ graph, device }) => {
      const session = await t.Session.load({ graph, device });
      const x = { data: Float32Array.of(1, 2, 3, 4), dims: [1, 4] };
      const first = await session.run('twice', { x }, { keep: ['y'] });
      const second = await session.run('twice', { x: first.y }, { keep: ['y', 'z'] });
      // A larger program, with a larger arena, while they stay.
      await session.run('twice', { x: { data: new Float32Array(4096), dims: [1024, 4] } });
      const rows = await Promise.all([first.y, second.y, second.z].map(async (tensor) => [...await tensor.data()]));
      const z = [...first.z.data];
      const buffers = [];
      const gpu = session.gpuDevice;
      if (gpu) {
        const { buffer } = second.y;
        // The page's own buffer in, the output's buffer out: copied by the page, on the session's device.
        const mine = gpu.createBuffer({ size: 32, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
        const encoder = gpu.createCommandEncoder();
        encoder.copyBufferToBuffer(buffer, 0, mine, 16, 16);
        encoder.copyBufferToBuffer(buffer, 0, mine, 0, 16);
        gpu.queue.submit([encoder.finish()]);
        const { y } = await session.run('twice', { x: { buffer: mine, dims: [2, 4] } });
        buffers.push(y.dims, [...y.data]);
        const again = await session.run('twice', { x: { buffer: mine, dims: [1, 4] } });
        buffers.push([...again.y.data], mine.size);
        const small = gpu.createBuffer({ size: 16, usage: GPUBufferUsage.COPY_SRC });
        buffers.push(await t.fault(() => session.run('twice', { x: { buffer: small, dims: [2, 4] } })));
        mine.destroy();
      } else {
        buffers.push(first.y.buffer, await t.fault(() => session.run('twice', { x: { buffer: {}, dims: [1, 4] } })));
      }
      const other = await t.Session.load({ graph, device });
      const foreign = await t.fault(() => other.run('twice', { x: first.y }));
      other.dispose();
      const unknown = await t.fault(() => session.run('twice', { x }, { keep: ['w'] }));
      first.y.dispose();
      const freed = await t.fault(() => session.run('twice', { x: first.y }));
      const left = [...await second.z.data()];
      session.dispose();
      const over = await t.fault(() => second.z.data());
      return { rows, z, buffers, foreign, unknown, freed, left, over };
    }, { graph, device });
    assert.deepEqual(answer.rows, [[2, 4, 6, 8], [4, 8, 12, 16], [8, 32, 72, 128]]);
    assert.deepEqual(answer.z, [2, 8, 18, 32], 'what was not kept is read');
    if (device === 'webgpu') {
      const twice = [8, 16, 24, 32];
      const fault = answer.buffers.pop();
      assert.deepEqual(answer.buffers, [[2, 4], [...twice, ...twice], twice, 32]);
      assert.match(fault.what, /the buffer of input x has 16 bytes/);
    } else {
      assert.equal(answer.buffers[0], null);
      assert.match(answer.buffers[1].what, /the session runs on the CPU/);
    }
    assert.match(answer.foreign.what, /memory of another session/);
    assert.deepEqual([answer.unknown.code, answer.unknown.hint], ['usage', 'outputs: y, z']);
    assert.match(answer.freed.what, /was disposed/);
    assert.deepEqual(answer.left, [8, 32, 72, 128]);
    assert.equal(answer.over.code, 'disposed');
  });
}

test('a run that is aborted on its way rejects at once, and runs of other sizes follow', async () => {
  const { order, fault, followed, ms } = await inPage(async () => {
    const session = await t.Session.load({ model: '/fixtures/bert/bert.gguf', device: 'cpu' });
    const inputs = (dims) => Object.fromEntries(session.entries[0].inputs.map(({ name }) => [name, { data: new Uint32Array(dims[0] * dims[1]).fill(1), dims }]));
    await session.run('encode', inputs([1, 4]));
    const abort = new AbortController();
    const order = [];
    const long = inputs([64, 128]);
    const start = performance.now();
    const run = session.run('encode', long, { signal: abort.signal });
    const first = t.fault(() => run).finally(() => order.push('first'));
    const second = session.run('encode', inputs([2, 8])).finally(() => order.push('second'));
    await new Promise((resolve) => setTimeout(resolve, 20));
    abort.abort();
    const fault = await first;
    const ms = [performance.now() - start];
    const followed = Object.values(await second)[0].dims;
    ms.push(performance.now() - start);
    await session.run('encode', inputs([3, 5]));
    session.dispose();
    return { order, fault, followed, ms };
  });
  assert.equal(fault?.code, 'cancelled');
  assert.deepEqual(order, ['first', 'second']);
  assert.equal(followed[0], 2);
  assert.ok(ms[0] < ms[1], `${ms}`);
});

test('what is wrong is told, with what was given and what is wanted', async () => {
  const faults = await inPage(async ({ graph, llama, chat }) => {
    const weights = t.randomWeights(graph, 7);
    const bert = '/fixtures/bert/bert.gguf';
    const load = (options) => t.fault(() => t.Session.load({ device: 'cpu', ...options }));
    const session = await t.Session.load({ graph, weights, device: 'cpu' });
    const good = t.inputsOf(session.entries[0], { BATCH: 1, SEQ: 4 }, 1);
    const run = (inputs, entry = 'nomic_bert') => t.fault(() => session.run(entry, inputs));
    const { mask, ids } = good;
    const faults = {
      entry: await run(good, 'decode'),
      missing: await run({ ids }),
      unknown: await run({ ...good, extra: mask }),
      type: await run({ mask, ids: { data: new Float32Array(4), dims: [1, 4] } }),
      rank: await run({ mask, ids: { data: new Uint32Array(4), dims: [4] } }),
      bytes: await run({ mask, ids: { data: new Uint32Array(3), dims: [1, 4] } }),
      contradiction: await run({ mask, ids: { data: new Uint32Array(5), dims: [1, 5] } }),
      noArray: await run({ mask, ids: [1, 2, 3, 4] }),
      badDims: await run({ mask, ids: { data: new Uint32Array(4), dims: [1, 4.5] } }),
      lied: await run({ mask, ids: { data: new Uint32Array(4), dims: [1, 4], type: 'f32' } }),
      still: await run(good),
      llama: await load({ graph: llama }),
      contextOfGraph: await load({ graph, contextLength: 9 }),
      badContext: await load({ model: chat, contextLength: 0.5 }),
      longContext: await load({ model: chat, contextLength: 1 << 30 }),
      text: await load({ graph: 'module @x {\n  input %x : tensor<' }),
      program: await load({ graph: 'program @x' }),
      noWeights: await load({ graph }),
      otherType: await load({ graph, weights: t.safetensors([{ name: 'x', dims: [1], data: new Float32Array(1) }]) }),
      hostile: await load({ graph, weights: new Blob([new Uint8Array(64).fill(255)]) }),
      short: await load({ graph, weights: weights.slice(0, weights.size - 4) }),
      empty: await load({ graph, weights: new Blob([]) }),
      noConfig: await load({ model: weights }),
      badConfig: await load({ model: weights, config: new Blob(['{"model_type": "bert"']) }),
      notFound: await load({ model: '/fixtures/none.gguf' }),
      noFolder: await load({ model: '/fixtures/none/' }),
      both: await load({ model: bert, graph }),
      option: await load({ graph, kv: 'f16' }),
      tooMany: await t.fault(() => t.Embedder.load({ model: bert, device: 'cpu', maxTokens: 100_000 })),
      noEncoder: await t.fault(() => t.Embedder.load({ model: chat, device: 'cpu' })),
      noTokenizer: await t.fault(() => t.Embedder.load({ model: weights, config: new Blob(['{}']), device: 'cpu' })),
      noTexts: await t.Embedder.load({ model: bert, device: 'cpu' }).then((e) => t.fault(() => e.embed('a text'))),
      aborted: await load({ graph, weights, signal: AbortSignal.abort() }),
    };
    session.dispose();
    faults.disposed = await run(good);
    return faults;
  }, { graph: fixture('graphs/nomic_bert.hir'), llama: fixture('graphs/llama.hir'), chat: CHAT });
  const expected = {
    entry: ['usage', /no entry decode/], missing: ['usage', /input mask is missing/], unknown: ['usage', /no input extra/],
    type: ['usage', /ids is tensor<BATCHxSEQxu32>, and was given as f32 \[1, 4\]/], rank: ['usage', /u32 \[4\]/], bytes: ['usage', /has 12 bytes, not 16/],
    contradiction: ['usage', /was given as \[1, [45]\]/], noArray: ['usage', /no tensor/], badDims: ['usage', /dims of input ids/],
    lied: ['usage', /said to be f32/], still: null,
    llama: ['bad_file', /is missing/], contextOfGraph: ['usage', /of a model/], badContext: ['usage', /whole number/],
    longContext: ['usage', /a context of 1073741824 tokens/], text: ['bad_graph', /./],
    program: ['bad_graph', /./], noWeights: ['bad_file', /./], otherType: ['bad_file', /./], hostile: ['bad_file', /neither a GGUF nor a safetensors file/],
    short: ['bad_file', /ends/], empty: ['bad_file', /ends inside its header/], noConfig: ['usage', /does not say what model/],
    badConfig: ['bad_file', /./], notFound: ['io', /404/], noFolder: ['io', /404/], both: ['usage', /one of them/],
    option: ['usage', /kv is not an option/], tooMany: ['usage', /this model takes 2 to/], noEncoder: ['unsupported', /generates text/],
    noTokenizer: ['bad_file', /./], noTexts: ['usage', /array of texts/], aborted: ['cancelled', /./], disposed: ['disposed', /./],
  };
  for (const [name, fault] of Object.entries(faults)) {
    const [code, what] = expected[name] ?? [];
    assert.equal(fault?.code, code, `${name}: ${JSON.stringify(fault)}`);
    if (!fault) continue;
    assert.match(fault.what, what, name);
    assert.ok(fault.typed, name);
  }
  assert.deepEqual(Object.keys(faults).sort(), Object.keys(expected).sort());
});

test('a browser with relaxed SIMD takes the build with it, another the build without, and vectors are transformers\'', async () => {
  const [{ text, mean_hf }] = recorded(ENCODERS[0]);
  for (const [relaxedSimd, build] of [[true, 'rlx-graphs-relaxed.wasm'], [false, 'rlx-graphs.wasm']]) {
    const { page, context } = await openPage(browser, `${server.url}/pages/empty.html`, { relaxedSimd });
    server.requests.length = 0;
    const row = await page.evaluate(async (text) => {
      const { Embedder } = await import('/dist/index.js');
      const embedder = await Embedder.load({ model: '/fixtures/bert/bert.gguf', device: 'cpu', pooling: 'mean', normalise: false });
      return [...(await embedder.embed([text]))[0]];
    }, text);
    await context.close();
    assert.ok(apart(row, mean_hf) <= 1e-4, `${build}: ${apart(row, mean_hf)}`);
    const fetched = server.requests.map(({ path }) => path.split('/').at(-1)).filter((name) => name.endsWith('.wasm'));
    assert.deepEqual(fetched, [build]);
  }
});

test('a page for chat fetches nothing of this', async () => {
  const { page: chat, context } = await openPage(browser, `${server.url}/pages/empty.html`);
  server.requests.length = 0;
  const text = await chat.evaluate(async (model) => {
    const { Engine } = await import('/dist/index.js');
    const engine = await Engine.load({ model, device: 'cpu', cache: false });
    const answer = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 });
    engine.dispose();
    return answer.choices[0].message.content;
  }, CHAT);
  await context.close();
  assert.ok(text.length > 0);
  assert.equal(server.asked('rlx-relaxed.wasm').length, 1);
  const graphs = server.requests.filter(({ path }) => /graphs/.test(path));
  // The loader of the other build is a few hundred bytes of the package that no bundler would keep.
  assert.deepEqual(graphs.map(({ path }) => path).filter((path) => path !== '/dist/graphs_module.js'), []);
});

test('nothing of all this was an uncaught error', () => assert.deepEqual(logs.filter((line) => line.startsWith('uncaught')), []));
