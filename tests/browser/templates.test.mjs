// Chat templates of model files, in Chromium. They are told the time that the visitor reads off the wall. Where one
// is a hostile program each call is an error soon, within its memory and the page's stack, and the engine, the page
// and other engines go on.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { caller, launch, mounts, openPage, root, startServer } from './harness.mjs';
import { withNamedTemplates, withTemplate } from '../support/gguf_template.mjs';

const MODEL = join(root, 'tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf');

const repeat = (text, n) => text.repeat(n);
const doubling = (body) => `{% set ns = namespace(s='ab', l=[1]) %}{% for i in range(60) %}${body}{% endfor %}`;
// The deepest things that are still allowed, for the page's stack, and things beyond.
const deepCalls = (n) => `{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(${n}) }}`;
const deepList = (n) => `{% set ns = namespace(x=1) %}{% for i in range(${n}) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson }}{{ ns.x == ns.x }}`;
const deepParentheses = (n) => `{{ ${repeat('(', n)}1${repeat(')', n)} }}`;
const deepFilters = (n) => `{{ [1] | map(${repeat("'map', ", n)}'string') }}`;

/** Templates with what is said of each. */
const BOMBS = {
  'nested loops': ['{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}', /did not end within \d+ steps$/],
  'a count in a long text': ["{% set s = 'a' * 1000 * 8000 %}{% for i in range(90000) %}{% set t = s.count('ab') %}{% endfor %}", /did not end/],
  'a long text is copied': ["{% set s = 'a' * 1000 * 8000 %}{% for i in range(90000) %}{% set t = s ~ '' %}{% endfor %}", /did not end/],
  'cases of a long text': ["{% set s = 'ß' * 1000 * 400 %}{% for i in range(90000) %}{% set t = s | upper %}{% endfor %}", /did not end/],
  'lists and maps': ["{% for i in range(99999) %}{% set t = [{'a': [i], 'b': i ~ 'x'}] %}{% for j in [1, 2, 3] %}{{ t[0].a[0] + j }}{% endfor %}{% endfor %}", /did not end/],
  'doubled text': [doubling('{% set ns.s = ns.s ~ ns.s %}'), /needs more than 32 MB of memory$/],
  'doubled list': [doubling('{% set ns.l = ns.l + ns.l %}'), /of memory$/],
  'doubled block': [doubling('{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}'), /of memory$/],
  'wide JSON': ['{{ [1] | tojson(indent=4000000000) }}', /did not end/],
  'wide indent': ['{{ "a\nb" | indent(4000000000) }}', /did not end/],
  'a namespace in itself': ['{% set ns=namespace() %}{% set ns.x=ns %}{{ns|tojson}}', /a namespace has no form in JSON$/],
  'a deep list': [deepList(100000), /nests lists deeper than 100$/],
  'deep calls': [deepCalls(100000), /nests deeper than 300 calls$/],
  'deep filters': [deepFilters(60), /a number has no elements$/],
  'shared lists': [`{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}`, /did not end/],
};
/** Faults that the first question tells too, for the template is read when the model is loaded. */
const UNREADABLE = {
  'deep parentheses': [deepParentheses(50000), /nests deeper than 64$/],
  'deep blocks': [repeat('{% if 1 %}', 20000), /nests deeper than 64$/],
  'a long chain': [`{{ 1${repeat('+1', 100000)} }}`, /more than 200 steps$/],
  'a long template': [repeat('x', 300000), /at most 262144 are read$/],
};
/** As deep as is allowed: none may come near the end of the stack. */
const DEEP = {
  'deep calls': deepCalls(40),
  'a deep list': deepList(98),
  'deep parentheses': deepParentheses(60),
  'blocks in blocks': repeat('{% if 1 %}', 60) + deepParentheses(1) + repeat('{% endif %}', 60),
  'a chain': `{{ 1${repeat('+1', 190)} }}`,
};

/** No call shows its prompt, but what a template raises is told. */
const TIME = "{{ raise_exception(strftime_now('It is %Y-%m-%d %H:%M:%S.')) }}";

let server, browser, page, logs;
before(async () => {
  const file = readFileSync(MODEL);
  const files = { '/good.gguf': file, '/time.gguf': withTemplate(file, TIME) };
  for (const [name, template] of [...Object.entries({ ...BOMBS, ...UNREADABLE }).map(([name, [template]]) => [`bomb ${name}`, template]), ...Object.entries(DEEP).map(([name, template]) => [`deep ${name}`, template])]) {
    files[`/${name}.gguf`] = withTemplate(file, template);
  }
  server = await startServer({ mounts, files });
  browser = await launch({ webgpu: false });
  ({ page, logs } = await openPage(browser, `${server.url}/pages/empty.html`));
  await page.evaluate(async () => {
    const { Engine } = await import('/dist/index.js');
    const load = (name) => Engine.load({ model: `/${encodeURIComponent(name)}.gguf`, device: 'cpu', cache: false });
    /** What a question came to and how long it took. */
    const ask = async (engine) => {
      const start = performance.now();
      try {
        const { choices } = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'What is HashMap?' }], temperature: 0, max_tokens: 8 });
        return { text: choices[0].message.content, ms: performance.now() - start };
      } catch ({ name, code, what, at, hint, message }) {
        return { error: { name, code, what, at, hint, message }, ms: performance.now() - start };
      }
    };
    globalThis.t = { load, ask };
    t.good = await load('good');
    t.answer = (await ask(t.good)).text;
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const inPage = caller(() => ({ page, logs }));

for (const [name, [, what]] of Object.entries({ ...BOMBS, ...UNREADABLE })) {
  test(`${name}: an error within a second, and engine and page go on`, async (t) => {
    const seen = await inPage(async (name) => {
      const engine = await t.load(`bomb ${name}`);
      const before = await engine.memory();
      const first = await t.ask(engine);
      const again = await t.ask(engine);
      const grown = (await engine.memory()).wasm - before.wasm;
      const other = (await t.ask(t.good)).text;
      engine.dispose();
      return { first, again, grown, other, wanted: t.answer };
    }, name);
    t.diagnostic(`${seen.first.ms.toFixed(0)} and ${seen.again.ms.toFixed(0)} ms, ${(seen.grown / 2 ** 20).toFixed(1)} MB`);
    for (const { error, ms } of [seen.first, seen.again]) {
      assert.ok(error, 'no error');
      assert.equal(error.code, 'bad_file', JSON.stringify(error));
      assert.match(error.what, what);
      assert.match(error.at, /tokenizer\.chat_template/);
      assert.ok(ms < 1000, `${ms} ms`);
    }
    // The allowed bytes, and what the allocator keeps between texts that grow.
    assert.ok(seen.grown < 100 * 2 ** 20, `${seen.grown} bytes`);
    assert.equal(seen.other, seen.wanted);
  });
}

test('templates as deep as is allowed answer', async () => {
  for (const name of Object.keys(DEEP)) {
    const seen = await inPage(async (name) => {
      const engine = await t.load(`deep ${name}`);
      const seen = await t.ask(engine);
      engine.dispose();
      return seen;
    }, name);
    assert.equal(typeof seen.text, 'string', `${name}: ${JSON.stringify(seen.error)}`);
  }
});

test('a good file loads and answers afterwards', async () => {
  const [answer, wanted] = await inPage(async () => {
    const engine = await t.load('good');
    const { text } = await t.ask(engine);
    engine.dispose();
    return [text, t.answer];
  });
  assert.equal(answer, wanted);
});

for (const { zone, times } of [
  // The clocks of Berlin go an hour forward between these two; India's are half an hour off.
  { zone: 'Europe/Berlin', times: { '2026-03-29T00:59:30.900Z': '2026-03-29 01:59:30', '2026-03-29T01:00:30Z': '2026-03-29 03:00:30' } },
  { zone: 'Asia/Kolkata', times: { '2026-12-31T18:29:59Z': '2026-12-31 23:59:59', '2026-12-31T18:30:00Z': '2027-01-01 00:00:00' } },
  { zone: 'America/New_York', times: { '1969-12-31T23:00:00.500Z': '1969-12-31 18:00:00' } },
]) {
  test(`a template is told the time in ${zone}, that of each question`, async () => {
    const visit = await openPage(browser, `${server.url}/pages/empty.html`, { timezoneId: zone });
    try {
      await visit.page.evaluate(async () => {
        const { Engine } = await import('/dist/index.js');
        globalThis.engine = await Engine.load({ model: '/time.gguf', device: 'cpu', cache: false, worker: false }); // the clock is the page's
      });
      for (const [utc, local] of Object.entries(times)) {
        await visit.page.clock.setFixedTime(utc);
        const what = await visit.page.evaluate(async () => {
          const question = { messages: [{ role: 'user', content: 'When?' }], max_tokens: 1 };
          return engine.chat.completions.create(question).then(() => 'no error', (error) => error.what);
        });
        assert.equal(what, `the chat template refused the conversation: It is ${local}.`, visit.logs.join('\n'));
      }
    } finally {
      await visit.context.close();
    }
  });
}

/** A template that shows its prompt: nothing but the error of a call does. */
const shows = (name) => `{{ raise_exception('${name}: ' ~ (tools | length if tools else 'no') ~ ' tools') }}<tool_call>{# tools #}`;
const NAMED = {
  // Names that RLX does not know are passed over, even where they are no template.
  tools: { tool_use: shows('tool_use'), rag: '{{', 'any name': shows('any name') },
  'no tools': { rag: shows('rag') },
  'unreadable tools': { tool_use: deepParentheses(50000) },
  'hostile tools': { tool_use: `${BOMBS['nested loops'][0]}<tool_call>{{ tools }}` },
};

test('a request with tools has the template named tool_use, where the file has one; what is wrong with it harms no other request', async () => {
  const file = withTemplate(readFileSync(MODEL), shows('usual'));
  const files = Object.fromEntries(Object.entries(NAMED).map(([name, templates]) => [`/${name}.gguf`, withNamedTemplates(file, templates)]));
  const more = await startServer({ mounts, files });
  const visit = await openPage(browser, `${more.url}/pages/empty.html`);
  try {
    const seen = await visit.page.evaluate(async (names) => {
      const { Engine } = await import('/dist/index.js');
      const seen = {};
      for (const name of names) {
        const engine = await Engine.load({ model: `/${encodeURIComponent(name)}.gguf`, device: 'cpu', cache: false });
        const messages = [{ role: 'user', content: 'What is HashMap?' }];
        const tools = [{ type: 'function', function: { name: 'f' } }];
        const ask = (request) => engine.chat.completions.create({ messages, ...request })
          .then(() => 'an answer', ({ code, what, at }) => `${code}: ${what} (${at})`);
        seen[name] = [await ask({ tools }), await ask({}), await ask({ tools: [] }), await ask({ tools, tool_choice: 'none' })];
        engine.dispose();
      }
      return seen;
    }, Object.keys(NAMED));
    const says = (name, n, key) => `usage: the chat template refused the conversation: ${name}: ${n} tools (tokenizer.chat_template${key})`;
    const usual = says('usual', 'no', '');
    const others = [usual, usual, usual];
    assert.deepEqual(seen.tools, [says('tool_use', 1, '.tool_use'), ...others]);
    assert.deepEqual(seen['no tools'], [says('usual', 1, ''), ...others]);
    assert.match(seen['unreadable tools'][0], /^bad_file: .*nests deeper than 64 \(tokenizer\.chat_template\.tool_use, line 1\)$/);
    assert.deepEqual(seen['unreadable tools'].slice(1), others);
    assert.match(seen['hostile tools'][0], /^bad_file: .*did not end within \d+ steps \(tokenizer\.chat_template\.tool_use, line 1\)$/);
    assert.deepEqual(seen['hostile tools'].slice(1), others);
  } finally {
    await visit.context.close();
    await more.close();
  }
});
