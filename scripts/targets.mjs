// Checks and lints the whole workspace, tests included, for the systems that this machine is not: nothing is linked or
// run, so that no C compiler of theirs is needed. Builds of other targets have folders of their own in target/.
//   node scripts/targets.mjs [--targets aarch64-apple-darwin,x86_64-pc-windows-gnu,aarch64-unknown-linux-gnu]
// The first run compiles every dependency anew for each, some minutes on two cores; later ones take what changed.

import { parseArgs } from 'node:util';
import { ensureTargets, main, requireRust, run, say, seconds, Stop } from './lib/tools.mjs';

/** The systems that the workflows test on, as Rust names them. Windows is checked by GNU's ABI, whose headers are free. */
const TARGETS = ['aarch64-apple-darwin', 'x86_64-pc-windows-gnu', 'aarch64-unknown-linux-gnu'];

await main(async () => {
  const { values } = parseArgs({ options: { targets: { type: 'string' } } });
  const targets = values.targets?.split(',') ?? TARGETS;
  const unknown = targets.filter((target) => !TARGETS.includes(target));
  if (unknown.length > 0) throw new Stop(`no target ${unknown.join(', ')}; there are ${TARGETS.join(', ')}`);
  requireRust();
  await ensureTargets(...targets);
  const failed = [];
  for (const target of targets) {
    const began = performance.now();
    say(`── ${target}`);
    try {
      // All of a target's faults are worth seeing at once.
      await run('cargo', ['clippy', '--workspace', '--all-targets', '--keep-going', '--target', target, '--', '-D', 'warnings']);
      say(`── ${target}: passed in ${seconds(began)}`);
    } catch (error) {
      if (!(error instanceof Stop)) throw error;
      failed.push(target);
      say(`── ${target}: FAILED after ${seconds(began)}`);
    }
  }
  if (failed.length > 0) throw new Stop(`these targets fail: ${failed.join(', ')}`);
});
