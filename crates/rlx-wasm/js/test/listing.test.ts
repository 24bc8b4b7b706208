/** Which files are the model, of a repository, a directory and a folder on disk. */

import assert from 'node:assert/strict';
import { mkdtempSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { modelItems } from '../src/options.js';
import type { FileItem, ModelItem } from '../src/options.js';
import { DiskSource } from '../src/disk.js';
import { RlxError } from '../src/error.js';
import type { Folder } from '../src/folder.js';
import { filesOf } from '../src/items.js';
import '../src/lazy_here.js';
import { modelOf } from '../src/listing.js';
import { ShardReader } from '../src/shard.js';
import { BlobSource, missingError } from '../src/source.js';

const never = () => Promise.reject(new Error('nothing is read'));
const listing = (...names: string[]) => ({ name: 'a/b', names, file: (name: string) => `at:${name}` });
const chosen = (names: string[], wanted?: string) => modelOf(listing(...names), wanted) as FileItem[];
const shards = (stem: string, count: number) => Array.from({ length: count }, (_, i) => `${stem}-0000${i + 1}-of-0000${count}.gguf`);

const fault = (code: string, what: RegExp) => (error: unknown) => {
  assert.ok(error instanceof RlxError, String(error));
  assert.equal(error.code, code);
  assert.match(error.message, what);
  return true;
};

test('of GGUF files the quantisation that is named is taken, else Q4_K_M, else the nearest', () => {
  const names = ['README.md', 'm-Q8_0.gguf', 'm-Q4_K_M.gguf', 'm-f16.gguf', 'm.Q4_0.gguf', 'mmproj-m-f16.gguf', 'm.imatrix.gguf', 'UD/m-UD-IQ2_XXS.gguf', 'model_mxfp4.gguf'];
  assert.deepEqual(chosen(names), ['at:m-Q4_K_M.gguf']);
  assert.deepEqual(chosen(names, 'q8_0'), ['at:m-Q8_0.gguf']);
  assert.deepEqual(chosen(names, 'F16'), ['at:m-f16.gguf']);
  assert.deepEqual(chosen(names, 'UD-IQ2_XXS'), ['at:UD/m-UD-IQ2_XXS.gguf']);
  assert.deepEqual(chosen(names, 'm.Q4_0.gguf'), ['at:m.Q4_0.gguf']);
  assert.deepEqual(chosen(['m-Q8_0.gguf', 'm-Q2_K.gguf', 'm-F16.gguf']), ['at:m-Q8_0.gguf']);
  assert.deepEqual(chosen(['m-fp16.gguf'], 'f16'), ['at:m-fp16.gguf']);
  assert.deepEqual(chosen(['model.gguf', 'config.json']), ['at:model.gguf']);
  const big = shards('q/m-Q4_K_M', 3);
  assert.deepEqual(chosen([...big, 'm-Q8_0.gguf']), big.map((name) => `at:${name}`));
  assert.deepEqual(chosen([...big, 'm-Q8_0.gguf'], 'm-Q4_K_M-00002-of-00003.gguf'), big.map((name) => `at:${name}`));
});

test('what cannot be taken is told with what there is', () => {
  assert.throws(() => chosen(['m-Q8_0.gguf', 'm-F16.gguf'], 'Q5_K_M'), fault('usage', /no Q5_K_M \(a\/b\); there are Q8_0, F16/));
  assert.throws(() => chosen(['a.gguf'], 'b.gguf'), fault('usage', /no b.gguf .* there are a.gguf/));
  assert.throws(() => chosen(['a-Q4_K_M.gguf', 'b-Q4_K_M.gguf']), fault('usage', /several files are Q4_K_M: a-Q4_K_M.gguf, b-Q4_K_M.gguf .*name the file/));
  assert.throws(() => chosen(shards('m', 3).slice(1)), fault('io', /no m-00001-of-00003.gguf .*3 shards/));
  assert.throws(() => chosen(['README.md']), fault('io', /no model: README.md/));
  assert.throws(() => chosen(['config.json'], 'Q4_0'), fault('usage', /no Q4_0: there are no GGUF files/));
});

test('without GGUF files it is the folder of safetensors, and lacks what is not listed', () => {
  const folder = modelOf(listing('config.json', 'model.safetensors', '1_Pooling/config.json')) as Folder;
  assert.equal(folder.file('1_Pooling/config.json'), 'at:1_Pooling/config.json');
  assert.equal(folder.file('tokenizer.json'), undefined);
});

test('the address of one shard stands for all', async () => {
  const of = async (item: ModelItem) => (await filesOf([item], never) as FileItem[]).map(String);
  assert.deepEqual(await of('https://a/m-00001-of-00002.gguf?x=1'), ['https://a/m-00001-of-00002.gguf?x=1', 'https://a/m-00002-of-00002.gguf?x=1']);
  assert.deepEqual(await of('https://a/m.gguf'), ['https://a/m.gguf']);
  const list = ['https://a/m-00001-of-00002.gguf', 'https://a/n.gguf'];
  assert.deepEqual(await filesOf(list, never), list);
});

test('a name of the Hub is asked for there, and becomes the addresses of its files', async () => {
  const asked: string[] = [];
  const files = async (name: string, answer: unknown) => filesOf([name], async (item) => {
    asked.push(String(item));
    return new ShardReader(new BlobSource(new Blob([typeof answer === 'string' ? answer : JSON.stringify(answer)])));
  });
  const siblings = ['m-Q8_0.gguf', 'a b/m-Q4_K_M.gguf', '../../x/y/m-Q4_0.gguf'].map((rfilename) => ({ rfilename }));
  assert.deepEqual(await files('hf:o/r.x', { siblings }), ['https://huggingface.co/o/r.x/resolve/main/a%20b/m-Q4_K_M.gguf']);
  assert.deepEqual(await files('hf:o/r:q8_0@refs/pr/1', { siblings }), ['https://huggingface.co/o/r/resolve/refs%2Fpr%2F1/m-Q8_0.gguf']);
  assert.deepEqual(asked, ['https://huggingface.co/api/models/o/r.x/revision/main', 'https://huggingface.co/api/models/o/r/revision/refs%2Fpr%2F1']);
  await assert.rejects(files('hf:o/r:Q4_0', { siblings }), fault('usage', /no Q4_0 .*there are Q8_0, Q4_K_M/)); // a name that leaves the repository is none
  for (const wrong of ['hf:o', 'hf:o/r/x', 'hf:../r', 'hf:o/r@', 'hf:o/r:']) await assert.rejects(files(wrong, {}), fault('usage', /names no model of the Hub/));
  for (const answer of ['<html>', 'null', {}, { siblings: 3 }]) await assert.rejects(files('hf:o/r', answer), fault('io', /the Hub's answer lists no files/));
  await assert.rejects(files('hf:o/r', { siblings: [null, {}, { rfilename: 3 }] }), fault('io', /no model: nothing/));
});

/** A directory as a page gets it. */
function directory(name: string, children: Record<string, unknown>): FileSystemDirectoryHandle {
  const entries = Object.entries(children).map(([name, content]) => (typeof content === 'string'
    ? { kind: 'file', name, getFile: async () => new File([content], name) }
    : directory(name, content as Record<string, unknown>)));
  return { kind: 'directory', name, async* values() { yield* entries; } } as unknown as FileSystemDirectoryHandle;
}

test('a directory is searched, and what is inside it further', async () => {
  const of = (children: Record<string, unknown>) => filesOf([directory('d', children)], never);
  const names = async (children: Record<string, unknown>) => (await of(children) as FileSystemFileHandle[]).map(({ name }) => name);
  assert.deepEqual(await names({ '.git': { 'x.gguf': '' }, 'README.md': '', q: { 'm-Q4_K_M.gguf': '' }, 'm-Q8_0.gguf': '' }), ['m-Q4_K_M.gguf']);
  const folder = await of({ 'config.json': '{}', '1_Pooling': { 'config.json': 'p' }, 'model.safetensors': '' }) as Folder;
  const pooling = await (folder.file('1_Pooling/config.json') as FileSystemFileHandle).getFile();
  assert.equal(await pooling.text(), 'p');
  await assert.rejects(of({ a: { b: { c: { 'deep.gguf': '' } } } }), fault('io', /no model: nothing/));
  const many = Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [`${i}`, '']));
  await assert.rejects(of(many), fault('usage', /more than 10000 files/));
});

test('what stands for a whole model is given alone', () => {
  assert.throws(() => modelItems(['hf:o/r', 'https://a/b'], 'model'), fault('usage', /hf:o\/r is a model by itself/));
  assert.throws(() => modelItems([directory('d', {}), directory('e', {})], 'model'), fault('usage', /a directory is a model by itself/));
  for (const wrong of [undefined, null, 3, {}, [], [3]]) assert.throws(() => modelItems(wrong, 'model'), fault('usage', /model must be one address/));
});

test('outside a page a path is a file or a directory, of any length', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'rlx-paths-'));
  t.after(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, 'a b'));
  const model = join(root, 'a b', 'm-Q4_K_M.gguf');
  writeFileSync(model, 'GGUF');
  for (const item of [join(root, 'a b'), `${join(root, 'a b')}/`, pathToFileURL(join(root, 'a b'))]) {
    assert.deepEqual((await filesOf([item], never) as URL[]).map(String), [pathToFileURL(model).href]);
  }
  await assert.rejects(filesOf([join(root, 'none')], never), fault('io', /there is no such file/));
  await assert.rejects(filesOf([''], never), fault('usage', /relative/));

  const length = 5 * 2 ** 30;
  truncateSync(model, length);
  const handle = await openFile(model, 'r+');
  await handle.write(Buffer.from('END'), 0, 3, length - 3);
  await handle.close();
  const source = new DiskSource(pathToFileURL(model));
  const opened = await source.open();
  assert.equal(opened.bytes, length);
  await opened.stream.cancel();
  const { stream, at } = await source.open(undefined, { offset: length - 3, of: opened });
  assert.equal(at, length - 3);
  assert.equal(await new Response(stream).text(), 'END');
  const reader = new ShardReader(source);
  assert.equal(new TextDecoder().decode((await reader.read())!.subarray(0, 4)), 'GGUF');
  await reader.pause();
  writeFileSync(model, 'changed');
  await assert.rejects(reader.read(), fault('io', /the file changed/));
  await reader.close();
  await assert.rejects(new DiskSource(pathToFileURL(join(root, 'none'))).open(), missingError(join(root, 'none'), 'there is no such file'));
  await assert.rejects(new DiskSource(pathToFileURL(root)).open().then(({ stream }) => new Response(stream).text()), /EISDIR|illegal operation/);
});
