#!/usr/bin/env python3
"""GB/s and GFLOP/s of the CPU's matrix kernels, by format and shape. README.md says what is measured.

Options that are not named here go to the binary: --level, --threads, --format, --place (each again
for more than one), --rounds, --cache-kib, --memory-mib, --rows, --scalar-rows.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import record
from formats import is_codebook, lookups

# No format without a codebook decodes at less than this of the best one's bytes a second.
FLOOR = 0.60
DENSE = ("f32", "f16", "bf16")


def figures(cell, clock, bandwidths):
    """Medians of a cell, and what follows from them."""
    seconds = cell["seconds"]
    median = statistics.median(seconds)
    weights = cell["n"] * cell["k"]
    row = {key: value for key, value in cell.items() if key != "seconds"}
    row |= {"median_s": median, "least_s": min(seconds), "most_s": max(seconds)}
    row["seconds"] = [float(f"{s:.4g}") for s in seconds]
    if cell["place"] == "prefill":
        row["gflop_per_s"] = round(2 * cell["rows_of_x"] * weights / median / 1e9, 2)
        return row
    rate = cell["matrix_bytes"] / median
    row["gb_per_s"] = round(rate / 1e9, 3)
    row["share_of_bandwidth"] = round(rate / bandwidths[cell["place"], cell["threads"]], 4)
    row["weights_per_cycle"] = round(weights / median / clock / cell["threads"], 3)
    if is_codebook(cell["format"]):
        row["lookups_per_cycle"] = round(row["weights_per_cycle"] * lookups(cell["format"]), 4)
    return row


def rule(cells):
    """How each level, place and number of threads stands to the floor."""
    out = []
    keys = {(c["level"], c["threads"], c["place"]) for c in cells if c["place"] != "prefill"}
    for level, threads, place in sorted(keys):
        same = [c for c in cells if (c["level"], c["threads"], c["place"]) == (level, threads, place)]
        rates = {c["format"]: c["gb_per_s"] for c in same if not is_codebook(c["format"])}
        packed = {name: rate for name, rate in rates.items() if name not in DENSE}
        if not packed:
            continue
        best = max(packed, key=packed.get)
        below = {n: round(r / packed[best], 3) for n, r in packed.items() if r < FLOOR * packed[best]}
        row = {"level": level, "threads": threads, "place": place, "best": best, "gb_per_s": packed[best]}
        row |= {"below": dict(sorted(below.items(), key=lambda item: item[1])), "holds": not below}
        # The dense types beside it: they are read, not decoded, and judged by nothing.
        row["dense_gb_per_s"] = {name: rates[name] for name in DENSE if name in rates}
        out.append(row)
    return out


def show(result):
    cells = {c["id"]: c for c in result["cells"]}
    threads = sorted({c["threads"] for c in cells.values()})
    levels = list(dict.fromkeys(c["level"] for c in cells.values()))
    shapes = list(dict.fromkeys(f"{c['n']}x{c['k']}" for c in cells.values() if c["place"] == "prefill"))
    places = [p for p in ("cache", "memory") if any(c["place"] == p for c in cells.values())]
    for level in levels:
        print(f"\n{level}: GB/s of weights in cache and from memory (share of the bandwidth); GFLOP/s of prefill")
        heads = [f"{p} {t}t" for p in places for t in threads] + [f"{s} {t}t" for s in shapes for t in threads]
        print(f"{'':<8}" + "".join(f"{h:>14}" for h in heads))
        for name in dict.fromkeys(c["format"] for c in cells.values()):
            texts = []
            for place in places:
                for t in threads:
                    same = (c for c in cells.values() if (c["format"], c["place"], c["level"], c["threads"]) == (name, place, level, t))
                    texts += [f"{c['gb_per_s']:.1f} ({100 * c['share_of_bandwidth']:.0f}%)" for c in same]
            for shape in shapes:
                texts += [f"{cells[f'{name}/prefill/{shape}/{level}/{t}']['gflop_per_s']:.0f}" for t in threads]
            print(f"{name:<8}" + "".join(f"{text:>14}" for text in texts))
    print(f"\nRule: no format without a codebook below {100 * FLOOR:.0f} % of the best packed one's bytes a second")
    for row in result["rule"]:
        below = ", ".join(f"{name} {100 * share:.0f} %" for name, share in row["below"].items())
        print(
            f"{row['level']:<11} {row['threads']} thread(s), {row['place']:<7} best {row['best']} {row['gb_per_s']:.1f} GB/s: "
            + ("holds" if row["holds"] else f"below: {below}")
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="the result; one of today's date by default")
    parser.add_argument("--note", default="", help="what else the machine does")
    parser.add_argument("--dry", action="store_true", help="print, record nothing")
    args, rest = parser.parse_known_args()
    record.build("rlx-bench-kernels")
    run = record.run_of(note=args.note, options=rest, last_level_cache_bytes=record.last_level_cache())
    run["load_average"] = {"before": os.getloadavg()}
    raw = json.loads(record.output(record.binary("rlx-bench-kernels"), *rest))
    run["load_average"]["after"] = os.getloadavg()
    clock = max(raw["clock_hz"])
    bandwidths = {(b["place"], b["threads"]): statistics.median(b["bytes_per_s"]) for b in raw["bandwidth"]}
    cells = [figures(cell, clock, bandwidths) for cell in raw["cells"]]
    result = {"run": run, "clock_hz": clock, "clock_hz_by_round": raw["clock_hz"], "best_level": raw["best_level"]}
    result |= {"bandwidth": raw["bandwidth"], "rule": rule(cells), "cells": cells}
    show(result)
    if not args.dry:
        out = args.out or record.RESULTS / f"{record.today()}-kernels.json"
        record.save(out, result)
        print(f"\n{out}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as e:
        sys.exit(e.returncode)
