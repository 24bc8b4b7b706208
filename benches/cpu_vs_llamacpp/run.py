#!/usr/bin/env python3
"""Decode and prefill of RLX and llama.cpp on the CPU, side by side. README.md says how to run it.

Both engines live at once and take turns within a cell (a file, threads, a depth), so that what else
the machine does falls on both. Each cell is appended to the result when it is done; a run that was
stopped goes on where it was.
"""

import argparse
import datetime
import hashlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from formats import CODEBOOKS, is_codebook, lookups
from record import ROOT, RESULTS, binary, build, commit, inspect, kv_bytes, machine, output, save, today

SYNTH = ["q4_k_m", "q4_0", "q8_0", "q6_k", "iq4_xs", "f16"]
# name: where it is, prefill tokens by depth (0: not measured), decode tokens.
RUSTDOC = {"prefill": {0: 256, 768: 128}, "decode": 128}
LLAMA = {"prefill": {0: 512, 4096: 0}, "decode": 128}
# Every other format that llama.cpp reads, in a small model: `--formats`.
SMALL = {"prefill": {0: 256}, "decode": 64}
# A shape of each kind of layers, in the mix that people load: `--families`.
FAMILIES = ["qwen3-0.6b", "gemma-3-1b", "qwen35-0.8b", "lfm2-350m", "moe-1b-7b"]
FAMILY = {"prefill": {0: 512}, "decode": 128}
FORMATS = [*CODEBOOKS, "q2_k", "q3_k", "q5_k", "q4_1", "q5_0", "q5_1", "iq4_nl", "tq1_0", "tq2_0", "mxfp4"]
DECODE_GOAL, PREFILL_GOAL = 1.10, 1.00
# Where both run within 10 % of the measured bandwidth, equal is enough.
BOUND, BOUND_GOAL = 0.90, 1.00
# One minute's load average above which something else runs; the cell before leaves some behind.
QUIET = 3.0


def matrix(args):
    if args.families:
        names = [f"{shape}-q4_k_m" for shape in FAMILIES]
        return cells_of({name: (args.files / f"{name}.gguf", FAMILY) for name in names}, args)
    if args.formats:
        names = [f"llama-125m-{quant}" for quant in FORMATS]
        return cells_of({name: (args.files / f"{name}.gguf", SMALL) for name in names}, args)
    shared = ROOT.parent / "shared" / "models" / "rustdoc-29m"
    first = "rustdoc-29m-q4_k_m-00001-of-00003.gguf"
    files = {
        "rustdoc-29m-q4_k_m": (ROOT / "models" / "rustdoc-29m" / first, RUSTDOC),
        "rustdoc-29m-q8_0": (args.rustdoc_q8_0 or shared / "rustdoc-29m-q8_0.gguf", RUSTDOC),
    }
    for quant in SYNTH:
        name = f"llama-3.2-1b-{quant}"
        files[name] = (args.files / f"{name}.gguf", LLAMA)
    return cells_of(files, args)


def cells_of(files, args):
    cells = []
    for name, (path, sizes) in files.items():
        for threads in args.threads:
            for depth, prefill in sizes["prefill"].items():
                cell = {"id": f"{name}/threads={threads}/depth={depth}", "file": name}
                cell |= {"path": path, "threads": threads, "depth": depth}
                cell |= {"prefill_tokens": prefill, "decode_tokens": sizes["decode"]}
                cells.append(cell)
    return [cell for cell in cells if not args.only or any(part in cell["id"] for part in args.only)]


class Engine:
    """A process that answers `prefill` and `decode` with seconds."""

    def __init__(self, name, command):
        self.name, self.command = name, [str(part) for part in command]
        self.process = subprocess.Popen(
            self.command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
        )
        self.about = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with {self.process.wait()}: {' '.join(self.command)}")
        return json.loads(line)

    def turn(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def ready(cell, args):
    """The cell's file, made where it can be."""
    path = pathlib.Path(cell["path"])
    if path.exists():
        return path
    if path.parent != args.files:
        return None
    shape, _, quant = cell["file"].rpartition("-")
    print(f"making {path}", file=sys.stderr)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Of the formats that are measured for themselves every matrix is one, the head too.
    pure = ["--pure"] if args.formats else []
    output(args.rlx, "synth", path, "--shape", shape, "--quant", quant, *pure, stdin=subprocess.DEVNULL)
    return path


def read_bytes(path, cell, args):
    """Bytes that a decode step reads: weights, of which an embedding that is not the head gives one
    row, and in the middle of the measured steps keys and values."""
    model = inspect(args.rlx, path)
    tensors = {tensor["name"]: tensor for tensor in model["tensors"]}
    weights = model["tensor_bytes"]
    if "output.weight" in tensors:
        embedding = tensors["token_embd.weight"]
        weights -= embedding["bytes"] - embedding["bytes"] // embedding["shape"][0]
    # Of experts a step reads those that it uses.
    family = model["metadata"]["general.architecture"]
    experts = model["metadata"].get(f"{family}.expert_count", 0)
    if experts:
        used = model["metadata"][f"{family}.expert_used_count"]
        banks = sum(tensor["bytes"] for name, tensor in tensors.items() if "_exps" in name)
        weights -= banks - banks * used // experts
    positions = cell["depth"] + 1 + cell["decode_tokens"] / 2
    element = {"f32": 4, "f16": 2, "q8_0": 34 / 32}[args.kv]
    # Rows of the layers that have keys, or what the metadata says where q, k and v are one tensor.
    keys = [tensor["shape"][0] for name, tensor in tensors.items() if name.endswith(".attn_k.weight")]
    kv = int(2 * sum(keys) * element * positions) if keys else kv_bytes(model["metadata"], positions, element)
    reads = {"weight_bytes": weights, "kv_bytes": kv, "file_bytes": model["file_bytes"]}
    looked_up = sum(
        lookups(tensor["type"]) * math.prod(tensor["shape"])
        for name, tensor in tensors.items()
        if is_codebook(tensor["type"]) and not (name == "token_embd.weight" and "output.weight" in tensors)
    )
    return reads | ({"lookups": int(looked_up)} if looked_up else {})


def bandwidth(weight_bytes, threads):
    return json.loads(output(binary("rlx-bench-bandwidth"), weight_bytes, threads))


def clock():
    """Cycles a second of a core, by counting."""
    return float(output(binary("rlx-bench-kernels"), "--clock"))


def rates(seconds, tokens):
    values = sorted(tokens / s for s in seconds)
    return {
        "median_tokens_per_s": round(statistics.median(values), 3),
        "least": round(values[0], 3),
        "most": round(values[-1], 3),
        "seconds": [round(s, 6) for s in seconds],
    }


def measure(cell, args):
    path = ready(cell, args)
    if path is None:
        print(f"{cell['id']}: there is no {cell['path']}", file=sys.stderr)
        return None
    depth, prefill, decode = cell["depth"], cell["prefill_tokens"], cell["decode_tokens"]
    options = ["--model", path, "--threads", cell["threads"], "--kv", args.kv]
    # A bench has at least one prompt token; where prefill is not measured it costs nothing.
    options += ["--prompt-tokens", max(prefill, 1), "--tokens", decode, "--depth", depth]
    load_before = os.getloadavg()
    if load_before[0] > QUIET:
        print(f"{cell['id']}: the load is {load_before[0]:.1f}; figures of a busy machine mean little", file=sys.stderr)
    reads = read_bytes(path, cell, args)
    bandwidths = [bandwidth(reads["weight_bytes"], cell["threads"])]
    clocks = [clock()] if "lookups" in reads else []
    rlx = Engine("rlx", [
        args.rlx, "bench", "--turns", "--device", "cpu", "--context", depth + max(prefill, 1) + decode, *options,
    ])
    turns = ["node", HERE / "llama_turns.mjs", args.llama_node.resolve()] if args.llama_node else [args.python, HERE / "llama_turns.py"]
    llama = Engine("llama.cpp", [*turns, *options])
    engines, seconds, rss = [rlx, llama], {}, {}
    for turn in range(args.repeat):
        for what in ["prefill", "decode"] if prefill else ["decode"]:
            # Whoever is first is first half of the time.
            for engine in engines if turn % 2 == 0 else engines[::-1]:
                got = engine.turn(what)
                seconds.setdefault((engine.name, what), []).append(got["seconds"])
                rss[engine.name] = got["peak_rss_bytes"]
    for engine in engines:
        engine.end()
    bandwidths.append(bandwidth(reads["weight_bytes"], cell["threads"]))
    best = max(b["median_bytes_per_s"] for b in bandwidths)
    if clocks:
        clocks.append(clock())

    result = {"id": cell["id"], "file": cell["file"], "threads": cell["threads"], "depth": depth}
    result |= {"prefill_tokens": prefill, "decode_tokens": decode, "kv": args.kv, **reads}
    result |= {"bandwidth_bytes_per_s": best, "bandwidth_measured": bandwidths}
    if clocks:
        result["clock_hz"] = clocks
    step = reads["weight_bytes"] + reads["kv_bytes"]
    for engine in engines:
        row = {"peak_rss_bytes": rss[engine.name], "about": engine.about}
        for what, tokens in [("prefill", prefill), ("decode", decode)]:
            if (engine.name, what) in seconds:
                row[what] = rates(seconds[engine.name, what], tokens)
        row["decode_share_of_bandwidth"] = round(row["decode"]["median_tokens_per_s"] * step / best, 4)
        if clocks:
            cycles = max(clocks) * cell["threads"]
            row["lookups_per_cycle"] = round(row["decode"]["median_tokens_per_s"] * reads["lookups"] / cycles, 4)
        result[engine.name] = row
    for what in ["prefill", "decode"]:
        if what in result["rlx"]:
            ours, theirs = (result[e.name][what]["median_tokens_per_s"] for e in engines)
            result[f"{what}_ratio"] = round(ours / theirs, 4)
    shares = [result[engine.name]["decode_share_of_bandwidth"] for engine in engines]
    result["decode_goal"] = BOUND_GOAL if min(shares) >= BOUND else DECODE_GOAL
    met = [result["decode_ratio"] >= result["decode_goal"]]
    if prefill:
        met.append(result["prefill_ratio"] >= PREFILL_GOAL)
    result["goals_met"] = all(met)
    result["load_average"] = {"before": load_before, "after": os.getloadavg()}
    result["time"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return result


def shown(cell):
    texts = [f"{cell['id']:<46}"]
    for what in ["prefill", "decode"]:
        if what in cell["rlx"]:
            rows = [cell[name][what] for name in ("rlx", "llama.cpp")]
            spread = "/".join(f"{100 * (r['most'] - r['least']) / r['median_tokens_per_s']:.0f}%" for r in rows)
            ours, theirs = (f"{r['median_tokens_per_s']:.1f}" for r in rows)
            texts.append(f"{what} {ours:>8} : {theirs:>8} tok/s = {cell[what + '_ratio']:.2f} (spread {spread})")
    shares = " : ".join(f"{100 * cell[n]['decode_share_of_bandwidth']:.0f}%" for n in ("rlx", "llama.cpp"))
    texts.append(f"{shares} of {cell['bandwidth_bytes_per_s'] / 1e9:.1f} GB/s")
    if "lookups" in cell:
        texts.append(" : ".join(f"{cell[n]['lookups_per_cycle']:.2f}" for n in ("rlx", "llama.cpp")) + " lookups a cycle")
    texts.append("met" if cell["goals_met"] else "missed")
    return "  ".join(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python that has llama-cpp-python")
    parser.add_argument("--llama-node", type=pathlib.Path, help="a folder that has npm node-llama-cpp, in place of --python")
    parser.add_argument("--built", action="store_true", help="take the release binaries as they are")
    parser.add_argument("--families", action="store_true", help="a shape of each kind of layers, in q4_k_m")
    parser.add_argument("--rlx", type=pathlib.Path, default=binary("rlx"))
    parser.add_argument("--files", type=pathlib.Path, default=ROOT / "target" / "synth", help="where synth files are made")
    parser.add_argument("--rustdoc-q8-0", type=pathlib.Path, help="rustdoc-29m-q8_0.gguf")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--kv", choices=["f32", "f16", "q8_0"], default="f16")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--only", nargs="+", help="cells whose id has one of these texts in it")
    parser.add_argument("--formats", action="store_true", help="every other format, in the shape of llama-125m")
    parser.add_argument("--quick", action="store_true", help="3 repeats, and a result of its own")
    parser.add_argument("--again", action="store_true", help="measure cells again that are in the result")
    parser.add_argument("--out", type=pathlib.Path, help="the result; one of today's date by default")
    parser.add_argument("--note", default="", help="what else the machine does")
    args = parser.parse_args()
    if args.quick:
        args.repeat = min(args.repeat, 3)

    if not args.built:
        build("rlx-native", "rlx-bench-bandwidth", "rlx-bench-kernels")
    kind = ("-formats" if args.formats else "-families" if args.families else "") + ("-quick" if args.quick else "")
    out = args.out or RESULTS / f"{today()}-cpu-vs-llamacpp{kind}.json"
    result = json.loads(out.read_text()) if out.exists() else {"cells": []}
    sha = hashlib.sha256(args.rlx.read_bytes()).hexdigest()[:12]
    run = {"date": today(), "commit": commit(), "rlx_sha256": sha, "machine": machine()}
    run |= {"repeat": args.repeat, "kv": args.kv, "note": args.note}
    runs = result.setdefault("runs", [])
    if not runs or runs[-1] != run:
        runs.append(run)
    for cell in matrix(args):
        done = next((c for c in result["cells"] if c["id"] == cell["id"]), None)
        if done and not args.again:
            other = runs[done["run"]]["rlx_sha256"] != sha
            print(shown(done) + ("  (before, by another rlx)" if other else "  (before)"), flush=True)
            continue
        got = measure(cell, args)
        if got is None:
            continue
        got["run"] = len(runs) - 1
        result["cells"] = [c for c in result["cells"] if c["id"] != cell["id"]] + [got]
        save(out, result)
        print(shown(got), flush=True)


if __name__ == "__main__":
    main()
