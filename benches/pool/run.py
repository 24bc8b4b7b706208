#!/usr/bin/env python3
"""Dispatch and join of small tasks: RLX's pool beside others. README.md says what is measured."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import record

OURS = "rlx"


def figures(cell):
    ns = sorted(cell["ns"])
    at = lambda share: round(ns[min(int(share * len(ns)), len(ns) - 1)])
    row = {"case": cell["case"], "pool": cell["pool"], "part_ns": cell["part_ns"], "samples": len(ns)}
    return row | {"median_ns": round(statistics.median(ns)), "p10_ns": at(0.1), "p90_ns": at(0.9), "p99_ns": at(0.99)}


def versions():
    lock = tomllib.loads((HERE / "Cargo.lock").read_text())
    wanted = ("rayon", "rayon-core", "micropool", "forkunion")
    return {p["name"]: p["version"] for p in lock["package"] if p["name"] in wanted}


def compared(cells):
    """For each case the best of the others, and how ours stands to it."""
    out = []
    for case in dict.fromkeys(cell["case"] for cell in cells):
        same = {cell["pool"]: cell["median_ns"] for cell in cells if cell["case"] == case}
        best = min((name for name in same if name != OURS), key=same.get)
        row = {"case": case, "rlx_ns": same[OURS], "best_other": best, "best_other_ns": same[best]}
        out.append(row | {"ratio": round(same[best] / same[OURS], 3)})
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=pathlib.Path, help="the result; one of today's date by default")
    parser.add_argument("--note", default="", help="what else the machine does")
    parser.add_argument("--dry", action="store_true", help="print, record nothing")
    args = parser.parse_args()
    target = record.ROOT / "target" / "pool"
    cargo = ["cargo", "build", "--release", "--locked", "--manifest-path", HERE / "Cargo.toml"]
    subprocess.run([*cargo, "--target-dir", target], check=True)
    run = record.run_of(note=args.note, versions=versions())
    run["load_average"] = {"before": os.getloadavg()}
    raw = json.loads(record.output(target / "release" / "rlx-bench-pool", args.rounds))
    run["load_average"]["after"] = os.getloadavg()
    cells = [figures(cell) for cell in raw["cells"]]
    result = {"run": run, "threads": raw["threads"], "rounds": raw["rounds"]}
    result |= {"compared": compared(cells), "cells": cells}
    for row in result["compared"]:
        print(f"\n{row['case']}: us, median (p10 to p90)")
        for cell in (cell for cell in cells if cell["case"] == row["case"]):
            median, low, high = (cell[key] / 1e3 for key in ("median_ns", "p10_ns", "p90_ns"))
            print(f"  {cell['pool']:<20} {median:9.2f}  ({low:.2f} to {high:.2f})")
        print(f"  best of the others to ours: {row['ratio']:.2f}")
    if not args.dry:
        out = args.out or record.RESULTS / f"{record.today()}-pool.json"
        record.save(out, result)
        print(f"\n{out}")


if __name__ == "__main__":
    main()
