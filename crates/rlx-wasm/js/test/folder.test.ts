/** Which files of a folder are read, and what is missing. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Bringing } from '../src/bring.js';
import type { FileItem } from '../src/options.js';
import { RlxError } from '../src/error.js';
import { findModel, folderOf, languageFiles, openModel } from '../src/folder.js';
import { ShardReader } from '../src/shard.js';
import { BlobSource, missingError } from '../src/source.js';
import { FakeEngine } from './fakes.js';

const base = 'https://models.test/m/';
const file = (name: string, text = name) => new File([text], name);
const files = (...names: string[]) => names.map((name) => file(name));
/** A file as a page has it that was given a directory. */
const inside = (path: string) => Object.defineProperty(file(path.split('/').at(-1)!), 'webkitRelativePath', { value: path });

/** Opens files: `there` are those of the server, by name. */
async function opened(items: FileItem[], there: Record<string, string> = {}) {
  const wasm = new FakeEngine();
  const asked: string[] = [];
  const open: Bringing['open'] = async (item) => {
    if (item instanceof Blob) return new ShardReader(new BlobSource(item));
    const name = String(item).replace(base, '');
    asked.push(name);
    if (there[name] === undefined) throw missingError(String(item), 'the server answered 404 Not Found');
    return new ShardReader(new BlobSource(new Blob([there[name]]), String(item)));
  };
  const shards = await openModel(wasm, await findModel(languageFiles(items), open), open);
  return { texts: wasm.texts, asked, shards: shards.map(({ source }) => source.name) };
}

const fault = (code: string, what: RegExp, at: string) => (error: unknown) => {
  assert.ok(error instanceof RlxError, String(error));
  assert.deepEqual([error.code, error.at], [code, at]);
  assert.match(`${error.what}; ${error.hint}`, what);
  return true;
};

test('a folder is an address with / at its end, or a list of files of which one is JSON', () => {
  const folders: FileItem[][] = [[base], [new URL(base)], files('config.json'), [new URL('config.json', base), `${base}m.safetensors?x=1`]];
  const others: FileItem[][] = [[`${base}m.gguf`], ['data:,/'], [new Blob()], files('m.gguf'), files('a-00001-of-00002.gguf', 'a-00002-of-00002.gguf'), files('m.safetensors')];
  for (const items of folders) assert.ok(folderOf(items), String(items));
  for (const items of others) assert.equal(folderOf(items), undefined, String(items));
});

test('an address is asked for small files, then for the weights or their index', async () => {
  const texts = { 'config.json': '{}', 'tokenizer.model': 't', 'chat_template.jinja': 'c' };
  const whole = await opened([base], { ...texts, 'model.safetensors': '' });
  assert.deepEqual(whole.texts.map(([name]) => name).sort(), Object.keys(texts).sort());
  assert.equal(whole.texts[0]![1], `${base}config.json`);
  assert.deepEqual(whole.shards, [`${base}model.safetensors`]);
  assert.ok(!whole.asked.includes('model.safetensors.index.json'));
  const json = await opened([base], { ...texts, 'tokenizer.json': 'j', 'model.safetensors': '' });
  assert.ok(!json.asked.includes('tokenizer.model'), 'tokenizer.json is read in its place');
  assert.ok(!json.asked.includes('chat_template.json'), 'chat_template.jinja is read in its place');
  const older = await opened([base], { 'config.json': '{}', 'chat_template.json': '{}', 'model.safetensors': '' });
  assert.deepEqual(older.texts.map(([name]) => name).sort(), ['chat_template.json', 'config.json']);
  const sharded = { ...texts, 'model.safetensors.index.json': '["b.safetensors", "a b.safetensors"]', 'b.safetensors': '', 'a%20b.safetensors': '' };
  assert.deepEqual((await opened([base], sharded)).shards, [`${base}b.safetensors`, `${base}a%20b.safetensors`]);
});

test('the template for tools is read in the folder of templates, of an address and of a list', async () => {
  const name = 'additional_chat_templates/tool_use.jinja';
  const there = { 'config.json': '{}', 'chat_template.jinja': 'c', [name]: 't', 'model.safetensors': '' };
  const all = ['config.json', 'chat_template.jinja', name].sort();
  const named = ({ texts }: Awaited<ReturnType<typeof opened>>) => texts.map(([text]) => text).sort();
  assert.deepEqual(named(await opened([base], there)), all);
  assert.deepEqual(named(await opened(Object.keys(there).map((file) => base + file), there)), all);
  assert.deepEqual(named(await opened(Object.keys(there).map((file) => inside(`m/${file}`)))), all);
  // One of this name in another folder is something else.
  assert.ok(!named(await opened(files('config.json', 'tool_use.jinja', 'model.safetensors'))).includes(name));
});

test('what an address lacks is told', async () => {
  await assert.rejects(opened([base]), fault('io', /404/, `${base}config.json`));
  await assert.rejects(opened([base], { 'config.json': '{}' }), fault('io', /no model.safetensors and no model.safetensors.index.json; pytorch_model.bin is not read/, base));
  const index = { 'config.json': '{}', 'model.safetensors.index.json': '["a.safetensors"]' };
  await assert.rejects(opened([base], index), fault('io', /404/, `${base}a.safetensors`));
});

test('files of a list are known by their names, in any order', async () => {
  const { texts, shards } = await opened(files('README.md', 'w.safetensors', 'tokenizer.json', 'v.safetensors', 'config.json', 'pytorch_model.bin'));
  assert.deepEqual(texts.map(([name]) => name).sort(), ['config.json', 'tokenizer.json']);
  assert.deepEqual(shards, ['w.safetensors', 'v.safetensors']);
  const whole = await opened(files('adapter.safetensors', 'model.safetensors', 'config.json'));
  assert.deepEqual(whole.shards, ['model.safetensors']);
  const index = file('model.safetensors.index.json', '["2.safetensors", "1.safetensors"]');
  const sharded = await opened([index, ...files('1.safetensors', 'other.safetensors', '2.safetensors', 'config.json')]);
  assert.deepEqual(sharded.shards, ['2.safetensors', '1.safetensors']);
  const chosen = await opened(['m/config.json', 'm/model.safetensors', 'm/onnx/config.json', 'm/onnx/x.safetensors'].map(inside));
  assert.deepEqual([chosen.texts.length, ...chosen.shards], [1, 'model.safetensors']);
  const addresses = await opened([`${base}config.json`, `${base}a%.safetensors`], { 'config.json': '{}', 'a%.safetensors': '' });
  assert.deepEqual(addresses.shards, [`${base}a%.safetensors`]);
});

test('what a list lacks, or has twice, is told', async () => {
  await assert.rejects(opened(files('tokenizer.json', 'model.safetensors')), fault('io', /no config.json/, 'the files'));
  await assert.rejects(opened(files('config.json', 'pytorch_model-1.bin')), fault('io', /no model.safetensors .*pytorch_model-1.bin is not read/, 'the files'));
  const index = file('model.safetensors.index.json', '["1.safetensors", "2.safetensors"]');
  await assert.rejects(opened([index, ...files('config.json', '2.safetensors')]), fault('io', /no 1.safetensors/, 'the files'));
  await assert.rejects(opened(files('config.json', 'config.json')), fault('usage', /two of the files are named config.json/, 'model'));
  await assert.rejects(opened([file('config.json'), new Blob()]), fault('usage', /has no name/, 'model'));
  await assert.rejects(opened(['https://']), fault('usage', /is no address/, 'model'));
});
