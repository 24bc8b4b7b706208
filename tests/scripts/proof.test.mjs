// README's table of executors is what the newest result of scripts/proof.mjs says, and what a run came to is read right.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { ended, said, verdict } from '../../scripts/lib/proof_cells.mjs';
import { families } from '../../scripts/lib/proof_records.mjs';
import { DEVICES, END, GROUPS, START, table, withTable } from '../../scripts/lib/proof_table.mjs';
import { root } from '../../scripts/lib/tools.mjs';

const output = (name, relative, more = {}) => ({ name, relative, ok: relative <= 1e-3, skipped: null, ...more });
const answer = (code, outputs, stderr = '') => ({
  code, stdout: outputs ? `${JSON.stringify({ adapter: 'a card', outputs })}\n` : '', stderr, late: false,
});

test('README has the table of the newest result', () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/proof.mjs', '--check'], { cwd: root, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
});

test('every family is in one group', () => {
  const grouped = GROUPS.flatMap(([, names]) => names);
  assert.deepEqual([...grouped].sort(), families().map(({ name }) => name).sort());
});

test('a run that compared all agrees, and one output that is off differs', () => {
  const all = verdict(answer(0, [output('out.logits', 1e-6), output('out.greedy', 0)]), 'x');
  assert.deepEqual(all, { adapter: 'a card', outputs: 2, compared: 2, worst: 1e-6, verdict: 'agrees', says: '' });
  const off = verdict(answer(1, [output('out.logits', 0.5), output('out.greedy', 0)]), 'x');
  assert.deepEqual([off.verdict, off.says], ['differs', 'out.logits']);
  const infinite = verdict(answer(1, [output('out.logits', null, { ok: false })]), 'x');
  assert.deepEqual([infinite.verdict, infinite.worst], ['differs', null]);
});

test('outputs that are not compared are told, and nothing compared is a failure', () => {
  const skipped = output('out.boxes', null, { ok: false, skipped: 'no program makes it' });
  const part = verdict(answer(1, [output('out.masks', 0), skipped]), 'x');
  assert.deepEqual([part.verdict, part.says, part.compared], ['part', 'not compared: out.boxes', 1]);
  assert.equal(verdict(answer(1, [skipped]), 'x').verdict, 'failed');
});

test('a refusal, a lost device, a crash and a late answer are told apart', () => {
  const refused = verdict(answer(3, null, 'loading\nerror: no kernel takes scan (/a/b/model)\nhint: none\n'), '/a/b/model');
  assert.deepEqual(refused, { verdict: 'refused', says: 'no kernel takes scan (model)' });
  assert.deepEqual(verdict(answer(4, null, 'error: lost'), 'x'), { verdict: 'failed', says: 'lost' });
  assert.deepEqual(verdict(answer(null, null, ''), 'x'), { verdict: 'failed', says: 'exit null' });
  assert.deepEqual(verdict({ ...answer(0, [output('out.logits', 0)]), late: true }, 'x'), { verdict: 'timeout', says: '' });
  // A report and the exit code of something else.
  assert.equal(verdict(answer(101, [output('out.logits', 0)], 'error: panicked'), 'x').verdict, 'failed');
  assert.equal(said(`error: ${'long '.repeat(100)}`).length, 162);
});

test('a command that takes too long is ended', async () => {
  const began = performance.now();
  const { late } = await ended(process.execPath, ['-e', 'setTimeout(() => {}, 60000)'], { limit: 0.3 });
  assert.ok(late && performance.now() - began < 30_000);
  const { code, late: other, stdout } = await ended(process.execPath, ['-e', 'console.log(process.env.GIVEN)'], { env: { GIVEN: 'this' }, limit: 60 });
  assert.deepEqual([code, other, stdout], [0, false, 'this\n']);
});

const RESULT = {
  date: '2026-01-02', records: 3, limit_s: 9,
  devices: { cpu: { kind: 'cpu', on: 'two threads' }, cuda: { kind: 'emulator', on: '32 lanes' } },
  cells: [
    { device: 'cpu', family: 'qwen2', verdict: 'agrees', says: '' },
    { device: 'cpu', family: 'qwen3', verdict: 'part', says: 'not compared: x' },
    { device: 'cuda', family: 'qwen2', verdict: 'agrees', says: '' },
    { device: 'cuda', family: 'qwen2', verdict: 'differs', says: 'out.logits' },
    { device: 'cuda', family: 'sam', verdict: 'refused', says: 'no a|b' },
    { device: 'cuda', family: 'sam3', verdict: 'timeout', says: '' },
  ].map((cell) => ({ commit: 'abc', ...cell })),
};

test('the table counts families by the worst of their records, and says what is refused', () => {
  const text = table(RESULT);
  assert.match(text, /^Of 2026-01-02, commit abc: .*\(3 records/m);
  assert.match(text, /^\| families \| cpu \| cuda \(emulated\) \|$/m);
  assert.match(text, /^\| dense decoders: .* \| ✓ 2 \| ≠ 1 \|$/m);
  assert.match(text, /^\| masks: sam, sam2, sam3 \| {2}\| ✗ 1, … 1 \|$/m);
  assert.match(text, /^- cuda: sam: no a\/b$/m);
  assert.ok(DEVICES.includes('tpu') && !text.includes('tpu'), 'a device without results has no column');
});

test('the table goes between its marks, or nowhere', () => {
  const page = `before\n${START}old\n${END}after\n`;
  assert.equal(withTable(page, 'new\n'), `before\n${START}new\n${END}after\n`);
  assert.equal(withTable('before', 'new'), null);
});
