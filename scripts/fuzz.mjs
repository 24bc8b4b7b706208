// Runs the fuzz targets of rlx-core for longer than CI does, and records how much they did:
//   node scripts/fuzz.mjs [--seconds 600] [--seed 1000000] [--note "…"] [--dry]
// Each target runs for that long, with debug assertions: the verifier runs after every pass, and
// arithmetic that overflows stops. A failure prints its seed:
// RLX_FUZZ_SEED=<seed> cargo test -p rlx-core --test all fuzz:: runs on from it.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "600" },
    seed: { type: "string", default: "1000000" },
    note: { type: "string", default: "" },
    dry: { type: "boolean", default: false },
  },
});
// Of what runs: hours later there may be another.
const git = spawnSync("git", ["rev-parse", "--short", "HEAD"], { cwd: root, encoding: "utf8" });
// One after the other, so that each has the machine.
const args = ["test", "-p", "rlx-core", "--test", "all", "--", "fuzz::", "--nocapture", "--test-threads", "1"];
const done = spawnSync("cargo", args, {
  cwd: root,
  encoding: "utf8",
  env: { ...process.env, RLX_FUZZ_SECONDS: values.seconds, RLX_FUZZ_SEED: values.seed },
  maxBuffer: 64 << 20,
});
process.stderr.write(done.stderr);
process.stdout.write(done.stdout);
const counts = {};
for (const [, name, n] of done.stdout.matchAll(/\bRLX_FUZZ_(\w+)=(\d+) from/g)) counts[name.toLowerCase()] = Number(n);
const result = {
  date: new Date().toISOString().slice(0, 10),
  command: `node scripts/fuzz.mjs --seconds ${values.seconds} --seed ${values.seed}`,
  commit: git.stdout.trim(),
  machine: `${cpus().length} cores of ${cpus()[0].model}${values.note ? `, ${values.note}` : ""}`,
  passed: done.status === 0,
  counts,
};
if (!values.dry) writeFileSync(join(root, `benches/results/${result.date}-fuzz.json`), `${JSON.stringify(result, null, 2)}\n`);
console.log(JSON.stringify(result, null, 2));
process.exit(done.status ?? 1);
