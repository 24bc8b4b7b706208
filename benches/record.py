"""What every bench's record has: machine, commit, load, and the result's file."""

import datetime
import json
import os
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benches" / "results"


def output(*command, **options):
    parts = [str(part) for part in command]
    return subprocess.run(parts, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def build(*packages):
    """Release binaries of workspace members; they lie in target/release."""
    cargo = ["cargo", "build", "--release", "--manifest-path", str(ROOT / "Cargo.toml")]
    for package in packages:
        subprocess.run([*cargo, "-p", package], check=True)


def binary(name):
    return ROOT / "target" / "release" / name


def today():
    return datetime.date.today().isoformat()


def commit():
    """The commit, with a plus where the working tree differs from it."""
    name = output("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip()
    changed = output("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no").strip()
    return name + ("+" if changed else "")


def cpuinfo(key):
    """The first value of a key in /proc/cpuinfo, if there is one."""
    try:
        lines = open("/proc/cpuinfo").read().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), None)


def machine():
    model = cpuinfo("model name") or platform.processor()
    return f"{os.cpu_count()} cores of {model}, {platform.system()} {platform.release()}"


def last_level_cache():
    """Bytes of the largest cache that the first core has, if the system tells."""
    sizes = []
    for path in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        sizes.append(int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1], 0))
    return max(sizes, default=None)


def run_of(**more):
    return {"date": today(), "commit": commit(), "machine": machine(), **more}


def save(path, result):
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(path)


def inspect(rlx, path):
    """Metadata and tensors of a model's file."""
    return json.loads(output(rlx, "inspect", path, "--json"))


def kv_bytes(meta, positions, element):
    """Bytes of keys and values of that many positions, `element` bytes each number."""
    family = meta["general.architecture"]
    heads = meta[f"{family}.attention.head_count"]
    width = meta.get(f"{family}.attention.key_length", meta[f"{family}.embedding_length"] // heads)
    heads_kv = meta.get(f"{family}.attention.head_count_kv", heads)
    return int(2 * meta[f"{family}.block_count"] * heads_kv * width * element * positions)
