// Times builds of the kernels against each other under Node, in turns, and compares their results bit for bit:
//   node benches/wasm_kernels/run.mjs OLD.wasm NEW.wasm [--format q4_k,q8_0] [--rows 1] [--parts 1] [--rounds 15]
// Prints a line a format: weights a nanosecond of each build by its fastest round, and JSON with --json.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    format: { type: 'string', default: '' },
    rows: { type: 'string', default: '1' }, // of x
    parts: { type: 'string', default: '1' }, // of an element of x: 1 is int8, 2 int16
    scale: { type: 'string', default: '0x2100' }, // bits of an f16; below 0x400 are subnormal ones
    n: { type: 'string', default: '512' },
    k: { type: 'string', default: '2048' },
    rounds: { type: 'string', default: '15' },
    json: { type: 'boolean', default: false },
  },
});
const [m, n, k, rounds, scale] = [values.rows, values.n, values.k, values.rounds, values.scale].map(Number);
const parts = values.parts.split(',').map(Number);
const wanted = values.format.split(',').filter(Boolean);

const builds = positionals.map((path, i) => {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(path)));
  return { path, exports, parts: parts[i] ?? parts[0] };
});
const nameOf = ({ exports }, format) => {
  const at = exports.name(format);
  return at && new TextDecoder().decode(new Uint8Array(exports.memory.buffer, at & 0xffffff, at >>> 24));
};

const cells = [];
for (let format = 0; ; format += 1) {
  const name = nameOf(builds[0], format);
  if (!name) break;
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const set = builds.map(({ exports, parts }) => exports.set(format, n, k, m, parts, scale) === 1);
  if (!set.every(Boolean)) continue;
  // Hot code is compiled again, better, while it runs.
  const sums = builds.map(({ exports }) => exports.multiply(Math.ceil(60 / m)) >>> 0);
  const times = Math.max(1, Math.round(4e7 / (n * k * m)));
  const least = builds.map(() => Infinity);
  for (let round = 0; round < rounds; round += 1) {
    const order = builds.map((_, i) => i);
    for (const i of round % 2 ? order.reverse() : order) {
      const start = process.hrtime.bigint();
      builds[i].exports.multiply(times);
      least[i] = Math.min(least[i], Number(process.hrtime.bigint() - start));
    }
  }
  const speeds = least.map((ns) => (n * k * m * times) / ns);
  const equal = sums.every((sum) => sum === sums[0]);
  cells.push({ format: name, rows: m, weights_per_ns: speeds.map((x) => Math.round(x * 100) / 100), equal });
  console.log(name.padEnd(8), speeds.map((x) => x.toFixed(2).padStart(7)).join(' '), equal ? 'equal' : `OTHER ${sums}`);
}
if (values.json) console.log(JSON.stringify({ node: process.version, v8: process.versions.v8, n, k, cells }));
