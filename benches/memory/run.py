#!/usr/bin/env python3
"""Peak resident memory of `rlx bench` on the CPU against the file's size. README.md has the rule."""

import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import record

# Peak RSS is at most FILE times the file's size, the caches, and OTHER bytes.
FILE, OTHER = 1.15, 50_000_000
ELEMENTS = {"f32": 4, "f16": 2}


def models(paths):
    """GGUF files of folders and files; of a model in shards the first."""
    for path in paths:
        found = sorted(path.glob("**/*.gguf")) if path.is_dir() else [path]
        yield from (f for f in found if "-of-" not in f.name or "-00001-of-" in f.name)


def bench(command):
    """Runs a command to its end: its JSON, and the most it was resident as the system counts."""
    process = subprocess.Popen([str(part) for part in command], text=True, stdout=subprocess.PIPE)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {process.returncode}")
    kilobytes = 1 if sys.platform == "darwin" else 1024
    return json.loads(text), usage.ru_maxrss * kilobytes


def measure(path, threads, args):
    model = record.inspect(args.rlx, path)
    kv = record.kv_bytes(model["metadata"], args.context, ELEMENTS[args.kv])
    options = ["--device", "cpu", "--threads", threads, "--kv", args.kv, "--context", args.context]
    options += ["--prompt-tokens", args.prompt_tokens, "--tokens", args.tokens, "--repeat", 1, "--json"]
    got, rss = bench([args.rlx, "bench", "--model", path, *options])
    peak = max(rss, got["peak_rss_bytes"] or 0)
    limit = int(FILE * model["file_bytes"] + kv + OTHER)
    row = {"file": path.name, "threads": threads, "file_bytes": model["file_bytes"], "kv_bytes": kv}
    row |= {"peak_rss_bytes": peak, "limit_bytes": limit, "holds": peak <= limit}
    # What is left when file and caches are taken away: buffers, the vocabulary, the program itself.
    row |= {"beyond_file_and_kv_bytes": peak - model["file_bytes"] - kv, "of_limit": round(peak / limit, 4)}
    return row | {"reported": got}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=pathlib.Path, nargs="+", default=[record.ROOT / "target" / "synth"],
                        help="GGUF files, or folders of them")  # fmt: skip
    parser.add_argument("--rlx", type=pathlib.Path, default=record.binary("rlx"))
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--kv", choices=ELEMENTS, default="f16")
    parser.add_argument("--context", type=int, default=4096, help="positions of the caches")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--out", type=pathlib.Path, help="the result; one of today's date by default")
    parser.add_argument("--note", default="", help="what else the machine does")
    parser.add_argument("--dry", action="store_true", help="print, record nothing")
    args = parser.parse_args()
    record.build("rlx-native")
    run = record.run_of(note=args.note, kv=args.kv, context=args.context, prompt_tokens=args.prompt_tokens)
    result = {"run": run, "rule": f"peak RSS <= {FILE} x file + KV + {OTHER / 1e6:.0f} MB", "files": []}
    for path in models(args.files):
        for threads in args.threads:
            row = measure(path, threads, args)
            result["files"].append(row)
            peak, limit, size, kv = (row[k] / 1e6 for k in ("peak_rss_bytes", "limit_bytes", "file_bytes", "kv_bytes"))
            print(
                f"{row['file']:<32} {threads}t  file {size:8.1f}  KV {kv:6.1f}  peak {peak:8.1f} of {limit:8.1f} MB  "
                + ("holds" if row["holds"] else "MISSED"),
                flush=True,
            )
    result["holds"] = bool(result["files"]) and all(row["holds"] for row in result["files"])
    if not result["files"]:
        sys.exit("no GGUF files: give --files, or make some with rlx synth")
    if not args.dry:
        out = args.out or record.RESULTS / f"{record.today()}-memory.json"
        record.save(out, result)
        print(out)


if __name__ == "__main__":
    main()
