// Every executor that this machine allows, against everything that was recorded of networks, in one command:
//   node scripts/proof.mjs [--devices cpu,mlx] [--families qwen3,sam] [--limit SECONDS] [--out FILE] [--again]
// It goes by the command line, `rlx verify --device …`, on cards where there are any, else on what stands for them: the
// emulators of the tests (scripts/proof.mjs builds them), a GPU in software, a vendor's library on the CPU. Programs for
// TPUs are compiled by libtpu and not run. The result, a dated JSON in benches/results, is written after each record, and
// a run of the same crates goes on with it; --keep goes on with any, --again runs all once more,
// --first takes one record of each family. Takes hours where GPUs are emulated.
//   --rlx, --emulated, --aot BINARY  executables that are built already      --no-table  leaves README alone
//   node scripts/proof.mjs --table   writes README's table from the newest result; --check fails where README has another

import { gunzipSync } from 'node:zlib';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ended, said, verdict } from './lib/proof_cells.mjs';
import { records } from './lib/proof_records.mjs';
import { DEVICES, GROUPS, table, withTable } from './lib/proof_table.mjs';
import { ask, inRoot, main, say, seconds, Stop } from './lib/tools.mjs';

const RESULTS = inRoot('benches', 'results');
/** Seconds of a record on an executor. */
const LIMIT = 120;
/** The topology that programs for a TPU are compiled for. */
const TOPOLOGY = 'v5e:2x2';
/** GPUs that tests emulate. */
const EMULATED = ['cuda', 'rocm', 'metal'];
const SOFTWARE = /llvmpipe|lavapipe|swiftshader|basic render/i;

/** The newest result; older ones are packed. */
function newest() {
  const names = readdirSync(RESULTS).filter((name) => /-proof\.json(\.gz)?$/.test(name)).sort();
  if (names.length === 0) throw new Stop('benches/results has no result of a proof: run node scripts/proof.mjs');
  const [name, bytes] = [names.at(-1), readFileSync(join(RESULTS, names.at(-1)))];
  return JSON.parse(name.endsWith('.gz') ? gunzipSync(bytes) : bytes);
}

/** Writes README's table, or fails where it has another. */
function readme(check) {
  const path = inRoot('README.md');
  const page = readFileSync(path, 'utf8');
  const wanted = withTable(page, table(newest()));
  if (wanted === null) throw new Stop('README.md has no place for the table of executors');
  if (page === wanted) return say('README has the newest result');
  if (check) throw new Stop('README’s table is not the newest result’s: node scripts/proof.mjs --table writes it');
  writeFileSync(path, wanted);
  say('README has the newest result now');
}

/** Builds an executable and returns its path, as cargo tells it. */
async function built(what, name, args) {
  say(`building ${what}; some minutes the first time …`);
  const { code, stdout, stderr } = await ended('cargo', [...args, '--message-format=json'], { limit: 7200 });
  if (code !== 0) throw new Stop(`${what} was not built: ${stderr.trim().split('\n').slice(-3).join(' ')}`);
  const made = stdout.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  const path = made.findLast(({ executable, target }) => executable && target.name === name)?.executable;
  if (!path) throw new Stop(`cargo built no ${name}`);
  return path;
}

/** What each of the wanted devices is on this machine: how a record is run on it, or why it is absent. */
async function devices({ rlx, aot: ownAot, emulated: ownEmulated }, wanted) {
  const env = { RLX_AUTO: 'cpu' };
  const mlx = wanted.includes('mlx') && !process.env.RLX_MLX ? ask('sh', ['scripts/mlx.sh']) : null;
  if (mlx) env.RLX_MLX = mlx;
  const plugin = inRoot('target', 'plugins', 'xla_cpu_pjrt.so');
  if (wanted.includes('xla-cpu') && !process.env.PJRT_PLUGIN && !existsSync(plugin)) ask('node', ['scripts/plugins.mjs', 'xla-cpu-pjrt']);
  const asked = await ended(rlx, ['devices', '--json'], { env, limit: LIMIT });
  if (asked.code !== 0) throw new Stop(`rlx devices failed: ${said(asked.stderr)}`);
  const rows = JSON.parse(asked.stdout);
  const libtpu = inRoot('target', 'plugins', 'libtpu.so');
  const all = {};
  for (const name of wanted) {
    const row = rows.find(({ device }) => device === name);
    const own = (kind, more = []) => ({
      kind, on: row.adapter ?? '', command: ({ path, args }) => [rlx, ['verify', path, '--device', name, '--json', ...more, ...args]], env,
    });
    if (name === 'xla-cpu') {
      const named = process.env.PJRT_PLUGIN ?? plugin;
      all[name] = existsSync(named) ? { ...own('library', ['--plugin', named]), on: 'XLA’s CPU plugin' } : { absent: row.reason };
    } else if (name === 'tpu' && !row.available) {
      if (existsSync(libtpu)) {
        const aot = ownAot ?? await built('the compiler for TPUs', 'aot', ['build', '-p', 'rlx-native', '--features', 'aot,emulator', '--example', 'aot']);
        all[name] = { kind: 'compiled', on: `${TOPOLOGY}, by libtpu`, env, command: ({ path }) => [aot, [libtpu, path, TOPOLOGY, '--json']] };
      } else {
        all[name] = { absent: `${row.reason}; node scripts/plugins.mjs libtpu fetches its compiler` };
      }
    } else if (row.available) {
      const library = name === 'mlx' && !/gpu|metal|cuda/i.test(row.adapter ?? '');
      const kind = library ? 'library' : ['cpu', 'reference'].includes(name) ? 'cpu' : SOFTWARE.test(row.adapter ?? '') ? 'software' : 'card';
      all[name] = own(kind);
    } else if (EMULATED.includes(name) && ask('g++', ['--version'])) {
      const emulated = ownEmulated ?? await built('the emulators', 'emulated', ['test', '-p', 'rlx-native', '--features', 'aot,emulator', '--test', 'emulated', '--no-run']);
      const lanes = name === 'rocm' ? 64 : 32;
      all[name] = { kind: 'emulator', on: `${lanes} lanes`, env, command: ({ path, args }) => [emulated, [name, path, ...args]] };
    } else {
      all[name] = { absent: row.reason };
    }
  }
  return all;
}

/** What a GGUF file names as its architecture. */
function architecture(rlx, path) {
  const said = ask(rlx, ['inspect', path, '--json'], { maxBuffer: 1 << 28 });
  if (said === null) throw new Stop(`${path} is no model`);
  return JSON.parse(said).metadata['general.architecture'];
}

const put = (path, value) => {
  // Whole or not at all: a run may be interrupted at any time.
  writeFileSync(`${path}.part`, `${JSON.stringify(value)}\n`);
  renameSync(`${path}.part`, path);
};

await main(async () => {
  const { values } = parseArgs({
    options: {
      devices: { type: 'string' }, families: { type: 'string' }, limit: { type: 'string' }, out: { type: 'string' }, rlx: { type: 'string' }, emulated: { type: 'string' }, aot: { type: 'string' },
      again: { type: 'boolean' }, keep: { type: 'boolean' }, first: { type: 'boolean' }, table: { type: 'boolean' }, check: { type: 'boolean' }, 'no-table': { type: 'boolean' },
    },
  });
  if (values.table || values.check) return readme(values.check);
  const wanted = values.devices?.split(',') ?? DEVICES;
  const unknown = wanted.filter((name) => !DEVICES.includes(name));
  if (unknown.length > 0) throw new Stop(`no device ${unknown.join(', ')}; there are ${DEVICES.join(', ')}`);
  const families = values.families?.split(',') ?? GROUPS.flatMap(([, names]) => names);
  const strange = families.filter((name) => !GROUPS.some(([, names]) => names.includes(name)));
  if (strange.length > 0) throw new Stop(`no family ${strange.join(', ')}`);
  const limit = Number(values.limit ?? LIMIT);
  if (!(limit > 0)) throw new Stop('--limit takes seconds');

  const rlx = values.rlx ?? await built('the command line', 'rlx', ['build', '-p', 'rlx-native', '--bin', 'rlx']);
  const [date, commit] = [new Date().toISOString().slice(0, 10), ask('git', ['rev-parse', '--short', 'HEAD']) ?? 'unknown'];
  // What the executables are made of: commits that change other things change no result.
  const crates = ask('git', ['rev-parse', 'HEAD:crates']) ?? commit;
  const out = values.out ?? join(RESULTS, `${date}-proof.json`);
  mkdirSync(RESULTS, { recursive: true });
  // Read again for each change: several runs may write one result, each for other devices.
  const change = (work) => {
    const result = existsSync(out) ? JSON.parse(readFileSync(out, 'utf8')) : { date, machine: `${cpus().length} cores of ${cpus()[0].model}`, limit_s: 0, records: 0, devices: {}, absent: {}, cells: [] };
    work(result);
    put(out, result);
    return result;
  };

  const every = records((path) => architecture(rlx, path));
  const lost = every.filter(({ family }) => family === 'unknown');
  if (lost.length > 0) throw new Stop(`records of no family: ${lost.map(({ name }) => name).join(', ')}`);
  const wide = every.filter(({ family }) => families.includes(family));
  const all = values.first ? families.flatMap((name) => wide.find(({ family }) => family === name) ?? []) : wide;
  const opened = await devices({ ...values, rlx }, wanted);
  change((result) => {
    [result.limit_s, result.records] = [Math.max(result.limit_s, limit), Math.max(result.records, all.length)];
    // What was found with other sources is found again, unless it is to be kept.
    const stays = (cell) => values.keep || cell.crates === crates;
    result.cells = result.cells.filter((cell) => !wanted.includes(cell.device) || !families.includes(cell.family) || (!values.again && stays(cell)));
  });
  const began = performance.now();
  let [done, ran] = [0, 0];
  for (const name of wanted) {
    const device = opened[name];
    change(({ devices: known, absent }) => {
      if (device.absent) absent[name] = device.absent;
      else known[name] = { kind: device.kind, on: known[name]?.on || device.on };
    });
    if (device.absent) {
      say(`${name} is absent: ${device.absent}`);
      done += all.length;
      continue;
    }
    for (const record of all) {
      done += 1;
      const own = `${record.kind} ${record.name}`;
      const is = (cell) => cell.device === name && cell.record === own;
      // More time may be enough.
      const settled = (cell) => is(cell) && (cell.verdict !== 'timeout' || limit <= cell.limit_s);
      if (change(() => {}).cells.some(settled)) continue;
      const [command, args] = device.command(record);
      const from = performance.now();
      const answer = await ended(command, args, { env: device.env, limit });
      const { adapter, ...found } = device.kind === 'compiled' ? compiled(answer, record) : verdict(answer, record.path);
      const took = Number(((performance.now() - from) / 1000).toFixed(1));
      change((result) => {
        if (adapter && !result.devices[name].on) result.devices[name].on = adapter;
        result.cells = result.cells.filter((cell) => !is(cell));
        if (found.verdict === 'timeout') found.limit_s = limit;
        result.cells.push({ device: name, record: own, family: record.family, ...found, seconds: took, commit, crates });
      });
      ran += 1;
      say(`${done} of ${wanted.length * all.length} after ${seconds(began)}: ${record.name} (${record.family}) on ${name}: ${found.verdict}${found.says ? `: ${found.says}` : ''}`);
    }
  }
  const result = change(({ devices: known, absent }) => Object.keys(known).forEach((name) => delete absent[name]));
  say(`${ran} records ran in ${seconds(began)}; the result is ${out}`);
  if (!values['no-table'] && !values.out) readme(false);
  const bad = result.cells.filter((cell) => ['differs', 'failed'].includes(cell.verdict));
  if (bad.length > 0) throw new Stop(`${bad.length} records do not agree: ${bad.map((cell) => `${cell.record} on ${cell.device}`).join(', ')}`);
});

/** What compiling a model's programs came to. */
function compiled(answer, record) {
  const found = verdict({ ...answer, stdout: '' }, record.path);
  return answer.code === 0 && !answer.late ? { verdict: 'compiled', says: '' } : found;
}
