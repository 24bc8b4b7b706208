import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { addressOf, isOnDisk } from '../src/address.js';

test('outside a page what is no URL is a path', () => {
  for (const path of ['a.gguf', './a b/%41.gguf', '/abs/a.gguf', '../x/', 'C:\\models\\a.gguf']) {
    const url = addressOf(path);
    assert.equal(url.href, pathToFileURL(path).href);
    assert.ok(isOnDisk(url));
  }
  assert.equal(addressOf('../x/').pathname, `${resolve('../x')}/`);
  for (const address of ['https://a/b.gguf', 'file:///a', 'data:,', 'hf:a/b']) assert.equal(addressOf(address).href, address);
  assert.ok(!isOnDisk(new URL('https://a/b')));
  for (const wrong of ['https://', 'https://a b', '']) assert.throws(() => addressOf(wrong), { code: 'usage', at: 'model' });
});

test('in a page it is relative to the page', (t) => {
  Object.assign(globalThis, { location: { href: 'https://a/b/c.html' } });
  t.after(() => Reflect.deleteProperty(globalThis, 'location'));
  assert.equal(addressOf('d.gguf').href, 'https://a/b/d.gguf');
  assert.throws(() => addressOf('https://'), { code: 'usage', what: 'https:// is no address' });
});

test('where there are neither pages nor files a relative address is usage', (t) => {
  const { getBuiltinModule } = process;
  t.after(() => Object.assign(process, { getBuiltinModule }));
  Object.assign(process, { getBuiltinModule: undefined });
  assert.throws(() => addressOf('d.gguf'), { code: 'usage', what: /^d.gguf is relative/ });
  assert.ok(!isOnDisk(new URL('file:///a')));
});
