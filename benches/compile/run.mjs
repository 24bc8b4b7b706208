// Times the compiler on a decoder of 28 layers, natively and in wasm, and records the figures:
//   node benches/compile/run.mjs [--runs 21] [--note "an idle machine"] [--dry]
// The wasm build is the page's profile; heap bytes are counted by the allocator of both builds.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "21" },
    note: { type: "string", default: "" },
    dry: { type: "boolean", default: false },
  },
});
const runs = Number(values.runs);
const run = (command, ...args) =>
  execFileSync(command, args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

run("cargo", "build", "--release", "-p", "rlx-bench-compile");
const native = JSON.parse(run(join(root, "target/release/rlx-bench-compile"), String(runs)));

run("cargo", "build", "--profile", "wasm", "--target", "wasm32-unknown-unknown", "-p", "rlx-bench-compile", "--lib");
const bytes = readFileSync(join(root, "target/wasm32-unknown-unknown/wasm/rlx_bench_compile.wasm"));
const start = performance.now();
const { instance } = await WebAssembly.instantiate(bytes);
const instantiate_ms = performance.now() - start;
const { steps, peak_bytes } = instance.exports;
const round = (x) => Math.round(x * 100) / 100;
const wasm = native.map((row, n) => {
  // A page compiles once: the first call counts too, before any tier of the engine is warm.
  const ms = [];
  for (let i = 0; i < runs; i++) {
    const begin = performance.now();
    const got = steps(n);
    ms.push(performance.now() - begin);
    if (got !== row.steps) throw new Error(`wasm gives ${got} steps, native ${row.steps}`);
  }
  const first = ms[0];
  ms.sort((a, b) => a - b);
  return {
    policy: row.policy,
    program: row.program,
    target: row.target,
    steps: row.steps,
    ms_first: round(first),
    ms_median: round(ms[runs >> 1]),
    ms_least: round(ms[0]),
    peak_heap_bytes: peak_bytes(n),
  };
});

const result = {
  date: new Date().toISOString().slice(0, 10),
  what: "28 layers of Llama 3.2 3B's sizes, blocks to planned program, no weight bytes",
  command: `node benches/compile/run.mjs --runs ${runs}`,
  commit: run("git", "rev-parse", "--short", "HEAD").trim(),
  machine: `${cpus().length} cores of ${cpus()[0].model}${values.note ? `, ${values.note}` : ""}; Node ${process.version}`,
  goals: { native_ms: 30, wasm_ms: 100, heap_bytes: 20e6 },
  native,
  wasm_instantiate_ms: round(instantiate_ms),
  wasm,
};
const text = `${JSON.stringify(result, null, 2)}\n`;
console.log(text);
if (!values.dry) writeFileSync(join(root, `benches/results/${result.date}-compile.json`), text);
