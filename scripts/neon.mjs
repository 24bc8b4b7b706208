// Runs rlx-cpu's tests under qemu-user, on an AArch64 processor with dot products and on one without. Needs
// Debian's qemu-user-static and a rustup target, and installs them (Debian's packages as root).
//   node scripts/neon.mjs [--tests operators] [--cpu cortex-a53]
// Not part of `npm test`, which type-checks NEON: docs/decisions/2026-11-23-cpu-neon-and-miri.md says what passed.

import { parseArgs } from 'node:util';
import { ask, ensureDebian, ensureTargets, main, NEON, requireRust, run, say, seconds, step, Stop, tee } from './lib/tools.mjs';

const QEMU = 'qemu-aarch64-static';
/** All that qemu knows, dot products among it; and a processor of 2012. */
const CPUS = ['max', 'cortex-a53'];
const TESTS = ['functions', 'operators', 'hostile', 'caches'];
/** Seconds for a test binary, which takes half a minute: threads that miss each other would wait for ever. */
const LIMIT = '300';

await main(async () => {
  requireRust();
  const { values } = parseArgs({ options: { tests: { type: 'string' }, cpu: { type: 'string' } } });
  const wanted = values.tests ? [values.tests] : TESTS;
  if (!wanted.every((name) => TESTS.includes(name))) throw new Stop(`no tests ${values.tests}; there are ${TESTS.join(', ')}`);
  await ensureTargets(NEON);
  if (ask(QEMU, ['--version']) === null) await ensureDebian('the NEON tests', ['qemu-user-static']);
  say(ask(QEMU, ['--version']).split('\n')[0]);
  // Rust's own linker and its musl, statically: no C compiler for AArch64, and qemu needs no libraries.
  const target = `CARGO_TARGET_${NEON.toUpperCase().replaceAll('-', '_')}`;
  const env = { ...process.env, [`${target}_LINKER`]: 'rust-lld', [`${target}_RUSTFLAGS`]: '-Clinker-flavor=ld.lld' };
  const start = performance.now();
  // Names to run: the tests of the crate's private modules, and the wanted modules.
  const cargo = ['test', '-p', 'rlx-cpu', '--target', NEON, '--test', 'all'];
  const filter = ['--', 'internals::', ...wanted.map((name) => `${name}::`)];
  await step(`building ${wanted.join(', ')} for ${NEON}`, '3 minutes the first time', () =>
    run('cargo', [...cargo, '--no-run'], { env }));
  const counts = [];
  for (const cpu of values.cpu ? [values.cpu] : CPUS) {
    await step(`NEON: ${cpu}`, 'about a minute', async () => {
      const runner = { [`${target}_RUNNER`]: `timeout ${LIMIT} ${QEMU} -cpu ${cpu}` };
      const { code, text } = await tee('cargo', [...cargo, '--no-fail-fast', ...filter], { env: { ...env, ...runner } });
      const passed = [...text.matchAll(/^test result: ok\. (\d+) passed/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
      if (code !== 0) throw new Stop(`NEON on ${cpu} failed`);
      counts.push(`${passed} passed on ${cpu}`);
    });
  }
  say(`${counts.join(', ')}; all in ${seconds(start)}`);
});
