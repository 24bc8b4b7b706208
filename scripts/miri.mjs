// Runs what is unsafe and portable in rlx-cpu under Miri: the fence that gives workers views of shared
// memory, the pool, and products, quantisation and cache writes on the plain loops, with one worker and with three.
//   node scripts/miri.mjs [--tests operators]
// Not part of `npm test`: docs/decisions/2026-11-23-cpu-neon-and-miri.md says how long it takes and what it leaves out.

import { parseArgs } from 'node:util';
import { NIGHTLY } from './build.mjs';
import { ask, inRoot, main, requireRust, run, say, seconds, step, Stop } from './lib/tools.mjs';

/** Modules of tests, and the tests of each by parts of their names. */
const TESTS = {
  internals: ['internals::aligned_bytes', 'internals::turns'],
  operators: [
    'matmul_of_f32', 'integer_products', 'gather_decodes', 'quantized_rows', 'last_rows',
  ].map((name) => `operators::${name}`),
  caches: ['caches::cache_writes'],
};

/** Tests read fixtures; what they compute has nothing random. */
const FLAGS = '-Zmiri-disable-isolation';

await main(async () => {
  requireRust();
  const { values } = parseArgs({ options: { tests: { type: 'string' } } });
  const wanted = values.tests ? [values.tests] : Object.keys(TESTS);
  if (!wanted.every((name) => name in TESTS)) throw new Stop(`no tests ${values.tests}; there are ${Object.keys(TESTS).join(', ')}`);
  if (ask('cargo', [`+${NIGHTLY}`, 'miri', '--version']) === null) {
    if (ask('rustup', ['--version']) === null) throw new Stop(`Miri comes with ${NIGHTLY}, and there is no rustup to install it: see https://rustup.rs`);
    await step(`installing ${NIGHTLY} with Miri`, 'about 20 s', () =>
      run('rustup', ['toolchain', 'install', NIGHTLY, '--profile', 'minimal', '-c', 'rust-src', '-c', 'miri']));
  }
  const env = { ...process.env, MIRIFLAGS: FLAGS, CARGO_TARGET_DIR: inRoot('target', 'miri') };
  const start = performance.now();
  for (const name of wanted) {
    await step(`Miri: ${name}`, '', () => run('cargo', [
      `+${NIGHTLY}`, 'miri', 'test', '-p', 'rlx-cpu', '--test', 'all', '--', '-Zunstable-options', '--report-time', ...TESTS[name],
    ], { env }));
  }
  say(`all in ${seconds(start)}`);
});
