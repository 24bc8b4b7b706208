/** What a session and an embedder refuse before anything is fetched, and that their calls come one after another. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RlxError } from '../src/error.js';
import type { FileItem } from '../src/options.js';
import { folderOf } from '../src/folder.js';
import { lazyGraphs } from '../src/graphs_module.js';
import { Live } from '../src/live.js';
import { embedderFiles, sessionFiles } from '../src/network_files.js';
import { DeviceTensor } from '../src/device_tensor.js';
import { Segmenter, Session } from '../src/index.js';
import type { BufferInput, EmbedderOptions, SessionOptions, TensorInput } from '../src/index.js';
import { toBuffer, toData, toRaw } from '../src/tensors.js';
import { FakeSession } from './fakes.js';

const fault = (code: string, what: RegExp) => (error: unknown) => {
  assert.ok(error instanceof RlxError, String(error));
  assert.equal(error.code, code);
  assert.match(error.what, what);
  return true;
};

const names = (options: SessionOptions) => {
  const { texts, items, graph } = sessionFiles(options);
  const folder = folderOf(items as FileItem[]);
  return { graph, texts: texts(folder).map(({ name, from }) => `${name} ${String(from)}`), weights: folder?.name ?? items.map(String) };
};

test('a session has a model or a graph: its files follow from that', () => {
  assert.deepEqual(names({ model: 'https://a/b.gguf' }), { graph: undefined, texts: [], weights: ['https://a/b.gguf'] });
  assert.deepEqual(names({ model: 'https://a/b/' }), { graph: undefined, texts: ['config.json https://a/b/config.json'], weights: 'https://a/b/' });
  assert.deepEqual(names({ model: 'https://a/b/', config: 'https://c/d.json' }).texts, ['config.json https://c/d.json']);
  assert.deepEqual(names({ graph: 'module @x' }), { graph: 'module @x', texts: [], weights: [] });
  assert.deepEqual(names({ graph: 'module @x', weights: ['https://a/1.gguf', 'https://a/2.gguf'] }).weights.length, 2);
});

test('options of a session that are wrong are usage, with their names', () => {
  const wrong: [unknown, RegExp][] = [
    [{}, /a model or a graph/],
    [{ model: 'https://a', graph: 'x' }, /a model or a graph/],
    [{ model: [] }, /model must be one address or Blob/],
    [{ model: 7 }, /model must be one address or Blob/],
    [{ model: 'https://a', weights: 'https://b' }, /weights are of a graph/],
    [{ graph: new Blob() }, /graph must be a graph's text/],
    [{ graph: 'x', config: 'https://a' }, /config is of a model/],
    [{ graph: 'x', weights: [] }, /weights must be one address/],
    [{ graph: 'x', device: 'gpu' }, /device is gpu, it must be auto or webgpu or cpu/],
    [{ graph: 'x', activations: 'f64' }, /activations is f64/],
    [{ graph: 'x', contextLength: 3 }, /contextLength is of a model/],
    [{ model: 'x', contextLength: 0 }, /contextLength is 0, it must be a whole number from 1/],
    [{ graph: 'x', kv: 'f16' }, /kv is not an option of load/],
    [{ graph: 'x', threads: 2 }, /threads is not an option of load/],
    [null, /object of options/],
  ];
  for (const [options, what] of wrong) assert.throws(() => sessionFiles(options as SessionOptions), fault('usage', what));
});

test('what a folder lacks is told before the module has come', async () => {
  const { glue } = lazyGraphs;
  lazyGraphs.glue = () => new Promise(() => {});
  try {
    const wasm = new WebAssembly.Module(new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]));
    const fetch = async () => new Response(null, { status: 404 });
    const load = { model: 'https://models.test/none/', device: 'cpu', cache: false, wasm, fetch } as const;
    for (const kind of [Session, Segmenter]) {
      await assert.rejects(kind.load(load), (error: unknown) => {
        assert.ok(error instanceof RlxError, String(error));
        assert.deepEqual([error.code, error.what, error.at], ['io', 'the server answered 404', 'https://models.test/none/config.json']);
        return true;
      });
    }
  } finally {
    lazyGraphs.glue = glue;
  }
});

test('an embedder\'s folder has small files, of which some may be missing', () => {
  const { texts, items } = embedderFiles({ model: 'https://a/b/' });
  const rows = texts(folderOf(items as FileItem[])).map(({ name, else: without }) => [name, typeof without === 'object' ? [without.name, without.else] : without]);
  assert.deepEqual(rows, [
    ['config.json', undefined], ['tokenizer.json', ['vocab.txt', 'none']], ['1_Pooling/config.json', 'none'],
    ['modules.json', 'none'], ['sentence_bert_config.json', 'none'],
  ]);
  const given = embedderFiles({ model: new Blob(), config: new Blob(), tokenizer: new Blob() });
  assert.deepEqual(given.texts(undefined).map(({ name }) => name), ['config.json', 'tokenizer']);
  assert.deepEqual(embedderFiles({ model: 'https://a/b.gguf' }).texts(undefined), []);
});

test('options of an embedder that are wrong are usage', () => {
  const wrong: [unknown, RegExp][] = [
    [{}, /model must be/],
    [{ model: 'https://a', pooling: 'sum' }, /pooling is sum, it must be mean or cls or last or max/],
    [{ model: 'https://a', normalise: 1 }, /normalise is 1/],
    [{ model: 'https://a', maxTokens: 1 }, /maxTokens is 1/],
    [{ model: 'https://a', maxTokens: 2.5 }, /maxTokens is 2.5/],
    [{ model: 'https://a', tokenizer: 3 }, /tokenizer must be an address or a Blob/],
    [{ model: 'https://a', graph: 'x' }, /graph is not an option of load/],
  ];
  for (const [options, what] of wrong) assert.throws(() => embedderFiles(options as EmbedderOptions), fault('usage', what));
});

test('an array\'s element type is the input\'s, where the array can have it', () => {
  const dims = [2];
  assert.equal(toRaw('x', { data: new Float32Array(2), dims }, 'f32').type, 'f32');
  assert.equal(toRaw('x', { data: new Uint8Array(2), dims }, 'bool').type, 'bool');
  assert.equal(toRaw('x', { data: new Uint8Array(2), dims }, 'f32').type, 'u8');
  assert.equal(toRaw('x', { data: new Uint16Array(2), dims }, 'bf16').type, 'bf16');
  assert.equal(toRaw('x', { data: new Uint16Array(2), dims }, undefined).type, 'f16');
  assert.equal(toRaw('x', { data: new Uint16Array(2), dims, type: 'bf16' }, 'f16').type, 'bf16');
  const whole = new Float32Array([1, 2, 3, 4]);
  const part = toRaw('x', { data: whole.subarray(1, 3), dims }, 'f32');
  assert.deepEqual([...new Float32Array(part.bytes.slice().buffer)], [2, 3], 'a view\'s own bytes');
  const wrong: [unknown, RegExp][] = [
    [undefined, /no tensor/], [[1, 2], /no tensor/], [{ data: [1], dims }, /no tensor/],
    [{ data: new DataView(new ArrayBuffer(8)), dims }, /no typed array/], [{ data: new BigUint64Array(2), dims }, /no typed array/],
    [{ data: new Float32Array(2), dims: 2 }, /dims of input x/], [{ data: new Float32Array(2), dims: [-2] }, /dims of input x/],
    [{ data: new Float32Array(2), dims, type: 'u32' }, /said to be u32, and its data is a Float32Array/],
  ];
  for (const [tensor, what] of wrong) assert.throws(() => toRaw('x', tensor as TensorInput, 'f32'), fault('usage', what));
});

test('a buffer is checked before its turn comes: its size, its use, its dims', () => {
  const buffer = (size: number, usage = 4) => ({ size, usage }) as GPUBuffer;
  const { type, dims } = toBuffer('x', { buffer: buffer(24), dims: [2, 3] }, 'f32');
  assert.deepEqual([type, ...dims], ['f32', 2, 3]);
  assert.equal(toBuffer('x', { buffer: buffer(4), dims: [1] }, 'f16').type, 'f16', 'whole fours');
  assert.equal(toBuffer('x', { buffer: buffer(16), dims: [2], type: 'c64' }, 'f32').type, 'c64');
  const wrong: [unknown, RegExp][] = [
    [{ buffer: buffer(20), dims: [2, 3] }, /has 20 bytes, f32 of these dims needs 24/],
    [{ buffer: buffer(2), dims: [1], type: 'f16' }, /has 2 bytes, f16 of these dims needs 4/],
    [{ buffer: buffer(24, 128), dims: [2, 3] }, /cannot be copied/],
    [{ buffer: {}, dims: [2, 3] }, /has undefined bytes/],
    [{ buffer: buffer(24), dims: 6 }, /dims of input x/],
    [{ buffer: buffer(24), dims: [2, 3], type: 'f31' }, /said to be f31/],
  ];
  for (const [tensor, what] of wrong) assert.throws(() => toBuffer('x', tensor as BufferInput, 'f32'), fault('usage', what));
});

test('an output that stays is freed once, behind the calls before, and only its own session takes it', async () => {
  const wasm = new FakeSession();
  const calls = live(wasm);
  const kept = DeviceTensor.of(calls, { name: 'y', type: 'f32', dims: [2], kept: 7 });
  assert.equal(DeviceTensor.in(calls, 'x', kept), 7);
  assert.equal(kept.buffer, null, 'on the CPU');
  assert.throws(() => DeviceTensor.in(live(new FakeSession()), 'x', kept), fault('usage', /memory of another session/));
  const running = calls.call(undefined, run(wasm, 'a'));
  kept.dispose();
  kept.dispose();
  await running;
  await calls.call(undefined, run(wasm, 'b'));
  assert.deepEqual(wasm.log, ['start a', 'end a', 'free 7', 'start b', 'end b']);
  assert.throws(() => DeviceTensor.in(calls, 'x', kept), fault('usage', /x: the tensor was disposed/));
  await assert.rejects(kept.data(), fault('usage', /disposed/));
});

test('an output\'s array has its element type and its own memory', () => {
  const memory = new Uint8Array(64);
  const classes = { f32: Float32Array, f64: Float64Array, u32: Uint32Array, i32: Int32Array, i16: Int16Array, i8: Int8Array, u8: Uint8Array, bool: Uint8Array, f16: Uint16Array, bf16: Uint16Array, i64: BigInt64Array, c64: Float32Array };
  for (const [type, ArrayOf] of Object.entries(classes)) {
    const data = toData(type as keyof typeof classes, memory.subarray(3, 19));
    assert.ok(data instanceof ArrayOf, type);
    assert.equal(data.byteLength, 16);
    assert.notEqual(data.buffer, memory.buffer);
  }
});

const live = (wasm: FakeSession) => new Live({ wasm, host: null }, 'session');
const run = (wasm: FakeSession, name: string) => async () => {
  wasm.start(name);
  return wasm.outputs();
};

test('calls come one after another; a failed one ends no other', async () => {
  const wasm = new FakeSession();
  const calls = live(wasm);
  const answers = ['a', 'wrong', 'b'].map((name) => calls.call(undefined, run(wasm, name)).then(String, ({ code }) => code));
  assert.deepEqual(await Promise.all(answers), ['a', 'usage', 'b']);
  assert.deepEqual(wasm.log, ['start a', 'end a', 'start wrong', 'start b', 'end b']);
});

test('a signal takes a call out of the queue, or cancels the one that runs', async () => {
  const wasm = new FakeSession();
  const calls = live(wasm);
  const [running, waiting] = [new AbortController(), new AbortController()];
  const first = calls.call(running.signal, run(wasm, 'a'));
  const second = calls.call(waiting.signal, run(wasm, 'b'));
  const third = calls.call(undefined, run(wasm, 'c'));
  waiting.abort();
  await assert.rejects(second, fault('cancelled', /while it waited/));
  await new Promise((resolve) => setTimeout(resolve));
  running.abort();
  await assert.rejects(first, fault('cancelled', /./));
  assert.deepEqual(wasm.log, ['start a', 'cancel'], 'it rejects at once');
  assert.equal(await third, 'c');
  await assert.rejects(calls.call(AbortSignal.abort(), run(wasm, 'd')), fault('cancelled', /./));
  assert.deepEqual(wasm.log, ['start a', 'cancel', 'end a', 'start c', 'end c']);
});

test('dispose ends the call that runs and those that wait, and frees once that has settled', async () => {
  const wasm = new FakeSession();
  const calls = live(wasm);
  const both = ['a', 'b'].map((name) => calls.call(undefined, run(wasm, name)));
  await new Promise((resolve) => setTimeout(resolve));
  calls.dispose();
  calls.dispose();
  for (const call of both) await assert.rejects(call, fault('disposed', /the session was disposed/));
  assert.throws(() => calls.info(), fault('disposed', /./));
  await assert.rejects(calls.call(undefined, run(wasm, 'c')), fault('disposed', /./));
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(wasm.log, ['start a', 'cancel', 'end a', 'dispose']);
});

test('a lost device says what can be done', async () => {
  const wasm = new FakeSession();
  await assert.rejects(live(wasm).call(undefined, run(wasm, 'lost')), (error: unknown) => {
    assert.ok(error instanceof RlxError);
    assert.deepEqual([error.code, error.hint], ['device_lost', 'dispose the session and load it again']);
    return true;
  });
});
