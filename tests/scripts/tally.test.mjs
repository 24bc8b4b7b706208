// What `npm test` makes of what test runners print.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inRoot } from '../../scripts/lib/tools.mjs';
import { Tally } from '../../scripts/lib/tally.mjs';
import { STOPPED } from '../support/stopped.mjs';

const CARGO = `running 4 tests
test a::works ... ok
test a::b::has_no_file ... ok
test a::slow ... ignored, takes an hour
test a::broken ... FAILED

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.08s
`;

test('counts of several binaries add up, and a Rust test that skipped itself did not pass', () => {
  const tally = new Tally();
  tally.add(`${CARGO}test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n`, 'rlx-skip: a::b::has_no_file: no folder `shared`: none\n');
  assert.equal(`${tally}`, '8 passed, 1 failed, 2 skipped');
  assert.deepEqual(tally.skipped, [
    'a::slow: takes an hour',
    'a::b::has_no_file: no folder `shared`: none',
  ]);
});

test('a test that skipped several parts is one that did not pass', () => {
  const tally = new Tally();
  tally.add(CARGO, 'rlx-skip: a::works: one\nrlx-skip: a::works: two\n');
  assert.equal(`${tally}`, '1 passed, 1 failed, 3 skipped');
});

test('a file of which one or two tests fail may run once more, and one with more may not', () => {
  const of = (failed) => {
    const tally = new Tally();
    const lines = Array.from({ length: failed }, (_, i) => `✖ test ${i} (12.5ms)\n`).join('');
    tally.add(`✔ works (1ms)\n${lines}ℹ pass 1\nℹ fail ${failed}\n✖ failing tests:\n${lines}`);
    return tally;
  };
  assert.deepEqual([0, 1, 2, 3].map((n) => of(n).mayRunAgain()), [false, true, true, false]);
  assert.deepEqual([...of(2).failures], ['test 0', 'test 1']);
  const total = new Tally();
  total.unsteady.push('a');
  const one = new Tally();
  one.unsteady.push('b');
  total.merge(one);
  assert.deepEqual(total.unsteady, ['a', 'b']);
});

test('a page that stopped answering is told from a test that fails', () => {
  const tally = new Tally();
  tally.add('Error: the page answered 3\nℹ pass 1\nℹ fail 1\n');
  assert.equal(tally.stopped, false);
  tally.add(`Error: ${STOPPED} for 300 s\nℹ pass 1\nℹ fail 1\n`);
  assert.equal(tally.stopped, true);
});

test('node counts a skipped test neither as passed nor as failed, and its name and reason are told', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rlx-tally-'));
  try {
    const [file, skips] = [join(folder, 'some.test.mjs'), join(folder, 'skips')];
    writeFileSync(file, `
      import { test } from 'node:test';
      test('runs', () => {});
      test('has no GPU: none', { skip: 'no adapter: none' }, () => {});
    `);
    // Without the variable by which a runner tells the runners that it starts that they are its parts.
    const { NODE_TEST_CONTEXT, ...env } = process.env;
    const text = execFileSync(process.execPath, [
      '--test', '--test-reporter=spec', '--test-reporter-destination=stdout',
      `--test-reporter=${inRoot('scripts', 'lib', 'skips_reporter.mjs')}`, `--test-reporter-destination=${skips}`, file,
    ], { encoding: 'utf8', env });
    const tally = new Tally();
    tally.add(text, readFileSync(skips, 'utf8'));
    assert.equal(`${tally}`, '1 passed, 0 failed, 1 skipped');
    assert.deepEqual(tally.skipped, ['has no GPU: none: no adapter: none']);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('a skip is expected where the list has its beginning', () => {
  const tally = new Tally();
  tally.skipped = ['text::wider: no folder', 'simd::levels: avx2', 'simd::levels: avx512'];
  assert.deepEqual(tally.unexpected(['text::wider: ', 'simd::levels: avx5']), ['simd::levels: avx2']);
});
