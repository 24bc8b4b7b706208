// `npm run mutants -- --changed`: cargo-mutants on what changed in Rust. It makes its own mutants of the
// changed functions and builds the crate anew for each, so it is for small changes.

import { mkdirSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { ask, inRoot, root, run, say, step, Stop } from './tools.mjs';
import { folder } from './mutants_tree.mjs';

/** Tested like a crate of its own: a mutant of the core is not run against the executors' tests. */
const CRATES = { 'rlx-core': 'a few seconds', 'rlx-cpu': 'a minute', 'rlx-webgpu': 'five minutes', 'rlx-native': 'five minutes' };

const OF_TEXTS = ['tidy::', 'texts_are_the_recorded_ones', 'the_decode_program_of_the_default_model_has_the_recorded_fingerprint'];

/** The `cargo-mutants` command: from PATH, else from .tools, else built into .tools. */
async function cargoMutants() {
  const local = inRoot('.tools', 'bin', process.platform === 'win32' ? 'cargo-mutants.exe' : 'cargo-mutants');
  for (const command of ['cargo-mutants', local]) {
    if (ask(command, ['mutants', '--version']) !== null) return command;
  }
  await step('installing cargo-mutants into .tools', 'about 3 minutes, once', () =>
    run('cargo', ['install', 'cargo-mutants', '--locked', '--root', inRoot('.tools')]));
  return local;
}

export async function runChanged(base) {
  const { status, stdout, stderr } = spawnSync('git', ['diff', base, '--', '*.rs'], { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 });
  if (status !== 0) throw new Stop(`git does not know ${base}: ${stderr.trim()}`);
  if (stdout.trim() === '') return say(`no Rust has changed since ${base}`);
  const touched = Object.keys(CRATES).filter((name) => stdout.includes(`\n+++ b/crates/${name}/src/`));
  if (touched.length === 0) return say(`no source of ${Object.keys(CRATES).join(', ')} has changed since ${base}`);
  const command = await cargoMutants();
  mkdirSync(folder, { recursive: true });
  const diff = join(folder, 'changed.diff');
  writeFileSync(diff, stdout);
  say(`mutants of what changed since ${base} in ${touched.join(', ')}; each is built anew, and each crate runs its own tests`);
  let missed = false;
  for (const name of touched) {
    // Its copy of the tree has no target folder, so that it builds what it needs here once.
    const args = [
      'mutants', '--dir', root, '--in-diff', diff, '--package', name, '--test-package', name, '--profile', 'dev',
      '--jobs', '1', '--timeout-multiplier', '5', '--minimum-test-timeout', '120', '--build-timeout', '1200',
      '--output', join(folder, `changed-${name}`), '--no-shuffle', '--colors', 'never', '--caught',
      // Tests of texts would notice the mark that cargo-mutants leaves in a line, and any change of a kernel's text.
      '--', '--tests', '--', ...OF_TEXTS.flatMap((name) => ['--skip', name]),
    ];
    const env = { ...process.env, CARGO_TARGET_DIR: join(folder, 'changed-target') };
    const ended = spawnSync(command, args, { cwd: root, env, stdio: 'inherit' });
    if (ended.error) throw new Stop(`${command} could not be started: ${ended.error.message}`);
    // Of cargo-mutants: 2 some were missed, 3 some timed out, others that it could not run.
    if (ended.status === 2) missed = true;
    else if (ended.status !== 0 && ended.status !== 3) throw new Stop(`cargo-mutants ended with ${ended.status}`);
  }
  if (missed) {
    say('mutants that no test noticed are listed as MISSED above');
    process.exitCode = 1;
  }
}
