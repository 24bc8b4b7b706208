// `npm test`: every check. Two lanes of stages run beside each other, and each stage says how long it took.
// `npm test -- --only rust,browser` runs only those stages, and what they need to be built, one after the other.
//
// What a lane prints is kept in target/test-logs and shown when its stage fails; of a stage that runs alone
// everything is shown as it comes.

import { createWriteStream, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { print, withOutput } from './lib/output.mjs';
import { ensureNpm, inRoot, main, requireNode, requireRust, say, seconds, Stop } from './lib/tools.mjs';
import { LANES, prepare, STAGES } from './lib/stages.mjs';
import { Tally } from './lib/tally.mjs';

const LOGS = inRoot('target', 'test-logs');
/** Seconds between two lines that say what is running. */
const HEARTBEAT = 30;
/** Files of browser tests whose times are told at the end: where a run that takes too long is to be made shorter. */
const SLOWEST = 20;

/** Stages that run now: name, when they began, the last line that they printed. */
const running = new Map();

function heartbeat(start) {
  const parts = Array.from(running, ([name, { began, line }]) => `${name} for ${seconds(began)}${line ? ` (${line.slice(0, 60)})` : ''}`);
  if (parts.length > 0) say(`${seconds(start)}: ${parts.join('; ')}`);
}

/**
 * Runs one stage in the lane of that number; returns its counts and, where it failed, why. `alone`: its output goes
 * to the terminal.
 */
async function runStage(name, lane, alone) {
  const tally = new Tally();
  const began = performance.now();
  let failure;
  const work = async () => {
    try {
      await STAGES[name](tally);
    } catch (error) {
      if (!(error instanceof Stop)) throw error;
      failure = error.message;
      tally.failed = Math.max(tally.failed, 1);
    }
  };
  say(`── ${name}`);
  if (alone) {
    await work();
  } else {
    const id = `${name}-${lane}`;
    const path = join(LOGS, `${id}.log`);
    const log = createWriteStream(path);
    const state = { began, line: '' };
    running.set(id, state);
    await withOutput((text) => {
      log.write(text);
      state.line = text.trimEnd().split('\n').at(-1).trim() || state.line;
    }, work);
    running.delete(id);
    await new Promise((resolve) => log.end(resolve));
    if (failure) {
      print(readFileSync(path, 'utf8'));
      say(`that was the output of ${name}`);
    }
  }
  say(`── ${name}: ${failure ? `FAILED after ${seconds(began)}: ${failure}` : `passed in ${seconds(began)}`} (${tally})`);
  return { tally, failure: failure && `stage ${name} failed: ${failure}` };
}

function wantedStages() {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { only: { type: 'string', multiple: true } } });
  const wanted = [...positionals, ...(values.only ?? [])].flatMap((names) => names.split(','));
  const unknown = wanted.filter((name) => !(name in STAGES));
  if (unknown.length > 0) throw new Stop(`there is no stage ${unknown.join(', ')}; there are ${Object.keys(STAGES).join(', ')}`);
  return wanted;
}

await main(async () => {
  const wanted = wantedStages();
  requireNode();
  requireRust();
  if (process.env.BLESS) throw new Stop('BLESS is set: tests would write what they expect instead of checking it; unset it');
  // Vulkan drivers and Chromium complain without one.
  process.env.XDG_RUNTIME_DIR ||= mkdtempSync(join(tmpdir(), 'rlx-'));
  await ensureNpm();
  const lanes = wanted.length > 0 ? [Object.keys(STAGES).filter((name) => wanted.includes(name))] : LANES;
  await prepare(lanes.flat());

  rmSync(LOGS, { recursive: true, force: true });
  mkdirSync(LOGS, { recursive: true });
  const start = performance.now();
  say(`testing on ${cpus().length} cores of ${cpus()[0].model}`);
  const beat = setInterval(() => heartbeat(start), HEARTBEAT * 1000);
  const total = new Tally();
  const failures = [];
  // After a failure no new stage starts; the one beside it ends, for its result is worth having.
  await Promise.all(lanes.map(async (stages, i) => {
    for (const name of stages) {
      if (failures.length > 0) return;
      const { tally, failure } = await runStage(name, i + 1, lanes.length === 1);
      total.merge(tally);
      if (failure) failures.push(failure);
    }
  })).finally(() => clearInterval(beat));

  for (const skip of total.skipped) say(`skipped: ${skip}`);
  for (const what of total.unsteady) say(`unsteady: ${what}`);
  const slowest = total.times.sort((a, b) => b.ms - a.ms).slice(0, SLOWEST);
  if (slowest.length > 0) say(`the slowest files: ${slowest.map(({ what, ms }) => `${basename(what, '.test.mjs')} ${(ms / 1000).toFixed(0)} s`).join(', ')}`);
  const unexpected = total.unexpected();
  if (process.env.CI && unexpected.length > 0) {
    failures.push(`${unexpected.length} skipped tests are not in tests/skips.txt: ${unexpected.join('; ')}`);
    total.failed += unexpected.length;
  }
  say(`all in ${seconds(start)}`);
  for (const failure of failures) console.error(`rlx: ${failure}`);
  console.log(`${total}`);
  if (failures.length > 0) process.exitCode = 1;
});
