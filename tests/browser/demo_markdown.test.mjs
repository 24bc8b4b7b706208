// Answers as text: what a hostile model may write stays text, and long answers keep the page quick.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { build } from 'esbuild';
import { launch, openPage, root, startServer } from './harness.mjs';

let server, browser, page, context, logs;
before(async () => {
  const { outputFiles } = await build({
    entryPoints: [join(root, 'tests/browser/pages/markdown.tsx')],
    bundle: true,
    write: false,
    splitting: true,
    format: 'esm',
    outdir: '/',
    minify: true,
    jsx: 'automatic',
    jsxImportSource: 'preact',
  });
  const files = Object.fromEntries(outputFiles.map(({ path, contents }) => [path, Buffer.from(contents)]));
  const styles = ['style.css', 'styles/layout.css', 'styles/messages.css', 'styles/markdown.css'].map((name) =>
    readFileSync(join(root, 'www/src', name), 'utf8'),
  );
  files['/'] = Buffer.from(
    `<!doctype html><link rel="icon" href="data:,"><style>${styles.join('')} body { overflow: auto; }</style><div id="app"></div><script type="module" src="/markdown.js"></script>`,
  );
  server = await startServer({ files });
  browser = await launch({ webgpu: false });
  ({ page, context, logs } = await openPage(browser, `${server.url}/`));
  await page.waitForFunction(() => globalThis.show);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const show = (text) =>
  page.evaluate((it) => {
    show(it);
    return { text: document.getElementById('app').textContent, html: document.getElementById('app').innerHTML };
  }, text);

test('scripts, frames and handlers are text', async () => {
  for (const hostile of [
    '<script>globalThis.done = 1</script>',
    '<img src=x onerror="globalThis.done = 1">',
    'before <b onclick="globalThis.done = 1">bold</b> after',
    '<iframe srcdoc="<script>parent.done = 1</script>"></iframe>',
    '- <svg onload="globalThis.done = 1">\n\n> <details open ontoggle="globalThis.done = 1">',
    '| <a href="javascript:globalThis.done = 1"> |\n|---|\n| <style>* { display: none }</style> |',
    '<!-- a comment -->',
  ]) {
    const { text, html } = await show(hostile);
    assert.ok(!/<(script|img|b|iframe|svg|details|a|style)\b/.test(html), html);
    const tags = hostile.match(/<[^>]*>/g);
    for (const tag of tags) assert.ok(text.includes(tag), `${tag} is not in ${text}`);
  }
  assert.equal(await page.evaluate(() => globalThis.done), undefined);
});

test('links lead to the web and to mail alone, and images are not fetched', async () => {
  const { html } = await show(
    [
      '[script](javascript:alert(1)) [data](data:text/html,x) [tabbed](java\tscript:alert(1)) [entity](&#106;avascript:alert(1)) [relative](/here) [file](file:///etc/passwd)',
      '[web](https://example.com/?a=1&b=2) [mail](mailto:a@example.com) <https://example.org/> ![picture](https://example.net/spy.png) ![](//example.net/spy.png)',
    ].join('\n\n'),
  );
  const links = await page
    .locator('#app a')
    .evaluateAll((all) => all.map(({ href, rel, target }) => ({ href, rel, target })));
  assert.deepEqual(
    links.map(({ href }) => href),
    ['https://example.com/?a=1&b=2', 'mailto:a@example.com', 'https://example.org/'],
  );
  assert.ok(links.every(({ rel, target }) => rel === 'noopener noreferrer' && target === '_blank'));
  assert.ok(!/<img/.test(html));
  assert.ok((await page.locator('#app').textContent()).includes('picture (image: https://example.net/spy.png)'));
  assert.deepEqual(
    server.requests.filter(({ path }) => /spy/.test(path)),
    [],
  );
});

test('what Markdown means is there, and formulas stay as they are', async () => {
  const { html, text } = await show(
    [
      '# Title',
      'A *word*, **strong**, ~~gone~~, `code`.',
      '1. one\n2. two\n   - inner',
      '- [x] done\n- [ ] open',
      '| a | b |\n|---|--:|\n| 1 | 2 |',
      '&lt;b&gt; &#38; `&lt;`',
      '> quoted',
      '$$\\int_a^b f_1 * g_2 * h$$',
      'Inline $a_1 * b_2 * c_3$ and \\(x_1 * y * z_2\\), which cost $5 and $6.',
      '---',
    ].join('\n\n'),
  );
  for (const tag of ['h3', 'em', 'strong', 'del', 'code', 'ol', 'ul', 'table', 'blockquote', 'hr'])
    assert.match(html, new RegExp(`<${tag}\\b`), tag);
  assert.ok(text.includes('<b> & &lt;'));
  for (const formula of ['$$\\int_a^b f_1 * g_2 * h$$', '$a_1 * b_2 * c_3$', '\\(x_1 * y * z_2\\)', '$5 and $6'])
    assert.ok(text.includes(formula), formula);
  assert.equal(await page.locator('#app input[type=checkbox]:checked').count(), 1);
});

test('code has colours and keeps its text', async () => {
  const code = 'fn main() {\n    let v: Vec<u8> = vec![1]; // a comment\n    println!("<b>{}</b>", v.len());\n}';
  await show(`\`\`\`rust\n${code}\n\`\`\``);
  await page.locator('#app .code-keyword').first().waitFor();
  assert.equal(await page.locator('#app pre code').textContent(), code);
  assert.equal(await page.locator('#app pre b').count(), 0);
  assert.equal((await show(`\`\`\`unknown\n${code}\n\`\`\``)).text.includes(code), true);
});

test('text of another direction stays in its block', async () => {
  await show('safe \u202Eevil\n\n\u2067also\n\nשלום עולם');
  const styles = await page
    .locator('#app .markdown > p')
    .evaluateAll((all) => all.map((each) => [getComputedStyle(each).unicodeBidi, getComputedStyle(each).direction]));
  assert.deepEqual(
    styles.map(([bidi]) => bidi),
    ['isolate', 'isolate', 'isolate'],
  );
  assert.equal(styles[2][1], 'rtl');
});

test('text that is made to be slow is drawn in less than a second', { timeout: 60_000 }, async () => {
  const most = 1_000_000;
  for (const [name, text] of Object.entries({
    line: 'x'.repeat(most),
    words: 'word '.repeat(most / 5),
    stars: '*'.repeat(most),
    starred: 'a**'.repeat(most / 3),
    brackets: '['.repeat(most),
    links: '[a](b'.repeat(most / 5),
    ticks: '`a'.repeat(most / 2),
    quotes: '>'.repeat(most),
    deep: '- '.repeat(most / 2),
    nested: Array.from({ length: 500 }, (_, i) => `${'  '.repeat(i)}- x`).join('\n'),
    underscores: '_a '.repeat(most / 3),
    dollars: '$a'.repeat(most / 2),
    html: '<a '.repeat(most / 3),
    tables: `|${'a|'.repeat(2000)}\n|${'-|'.repeat(2000)}\n`,
    fence: `\`\`\`js\n${'a = 1;\n'.repeat(most / 7)}`,
    entities: '&#'.repeat(most / 2),
    mails: 'a@'.repeat(most / 2),
    breaks: '\n'.repeat(most),
    backslashes: '\\'.repeat(most),
    carriage: '\r'.repeat(most),
    angles: '<'.repeat(most),
  })) {
    const { ms, length } = await page.evaluate((it) => {
      const start = performance.now();
      show(it);
      const took = performance.now() - start;
      const found = document.getElementById('app').textContent.length;
      show('');
      return { ms: took, length: found };
    }, text);
    assert.ok(ms < 1000, `${name}: ${ms} ms`);
    if (['line', 'stars', 'brackets', 'quotes'].includes(name))
      assert.ok(length >= most * 0.99, `${name}: ${length} of ${most} characters`);
  }
});

test('the console has no error', async () => {
  await context.close();
  assert.deepEqual(
    logs.filter((line) => /^(error|uncaught)/.test(line)),
    [],
  );
});
