"""Two builds of the command line side by side: whether a change of the runtime costs speed.

    python3 benches/versions.py --old OLD --new NEW --out FILE CASE …

A case is `device:threads:prompt:tokens:model`; threads 0 means one a core. Both builds run in turn, as often
as `--rounds` says, and which goes first changes with every round; the ratio is of the medians.
"""

import argparse
import json
import statistics
import subprocess

KEYS = ["decode_tokens_per_s", "prefill_tokens_per_s"]


def bench(binary, case):
    device, threads, prompt, tokens, model = case.split(":", 4)
    command = [binary, "bench", "--json", "--repeat", "3", "--device", device, "--model", model]
    command += ["--prompt-tokens", prompt, "--tokens", tokens]
    if threads != "0":
        command += ["--threads", threads]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--out", required=True, help="JSON file of all runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("cases", nargs="+", metavar="CASE")
    args = parser.parse_args()
    out = {"cases": {}}
    for case in args.cases:
        runs = {"old": [], "new": []}
        for i in range(args.rounds):
            for name in ["old", "new"][:: 1 if i % 2 == 0 else -1]:
                runs[name].append(bench(getattr(args, name), case))
        row = {"runs": runs}
        for key in KEYS:
            of = {name: statistics.median(run[key] for run in all) for name, all in runs.items()}
            row[key] = {**of, "ratio": of["new"] / of["old"]}
            print(f"{case} {key}: old {of['old']:.2f}, new {of['new']:.2f}, ratio {row[key]['ratio']:.3f}", flush=True)
        out["cases"][case] = row
        with open(args.out, "w") as file:
            json.dump(out, file, indent=1)


main()
