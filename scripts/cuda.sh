#!/usr/bin/env bash
# Everything that only a machine with an NVIDIA card can prove, in one command: the kernels' tests with nothing compiled
# before, compute-sanitizer, recorded networks, and speeds. Writes a dated result.
#
#   scripts/cuda.sh [--out FILE] [--rlx BINARY --tests BINARY] [--truth FOLDER] [--rounds N] [--models LIST] [--prompts LIST]
#                   [--device NAME]
#
# --rlx, --tests  the command line and rlx-cuda's tests, where there is no cargo; else both are built
# --truth         recorded networks (default: tests/fixtures, and ../shared/reference where it is)
# --rounds        how often the tests run (default: 3)
# --prompts       tokens of the prompts that are read, with commas between them (default: 512,4096)
# --models        shapes and formats that are timed: shape/format, with commas between them
# --device        what is timed and verified (default: cuda); another one tries this script without a card
set -euo pipefail
cd "$(dirname "$0")/.."

out="benches/results/$(date +%F)-cuda-all.json"
rlx='' tests='' rounds=3 device=cuda truth='' prompts='512 4096'
models=llama-3.2-1b/f16,llama-3.2-1b/q8_0,llama-3.2-1b/q4_k_m,llama-3.1-8b/f16,llama-3.1-8b/q4_k_m,qwen3-30b-a3b/q4_k_m
while [ $# -gt 0 ]; do
    [ $# -gt 1 ] || { echo "cuda.sh: $1 takes a value" >&2; exit 2; }
    case $1 in
    --out) out=$2 ;;
    --rlx) rlx=$(realpath "$2") ;;
    --tests) tests=$(realpath "$2") ;;
    --truth) truth=$2 ;;
    --rounds) rounds=$2 ;;
    --models) models=$2 ;;
    --prompts) prompts=${2//,/ } ;;
    --device) device=$2 ;;
    *) echo "cuda.sh: there is no option $1" >&2; exit 2 ;;
    esac
    shift 2
done

if [ -z "$rlx" ]; then
    cargo build --release -p rlx-native --bin rlx
    rlx=$PWD/target/release/rlx
fi
state=$("$rlx" devices | grep "^$device ") || { echo "cuda.sh: rlx knows no device $device" >&2; exit 2; }
case $state in
*'not available'*)
    echo "skipped: no CUDA device ($state)"
    exit 0
    ;;
esac
if [ -z "$tests" ]; then
    tests=$PWD/$(cargo test -p rlx-cuda --test all --no-run 2>&1 | grep -oE 'target/[^)]*/all-[0-9a-f]+' | head -n 1)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
note() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$work/notes"; }
# A run of what is checked: its name, then the command. What it says is shown where it fails.
check() {
    local name=$1 code=0
    shift
    echo "-- $name"
    "$@" >"$work/said" 2>&1 || code=$?
    # What nothing in the model reads is not compared, and is no difference.
    if [ "$code" != 0 ] && ! grep -q 'the others agree' "$work/said"; then
        failed=1
        tail -n 30 "$work/said"
    fi
    note check "$name" "exit $code; $(grep -E 'test result|ERROR SUMMARY|RACECHECK SUMMARY|not compared' "$work/said" | tail -n 1 || true)"
}

if [ "$device" = cuda ]; then
    export RLX_CUDA=1
    own=(--skip emulator:: --skip hip:: --skip rocm)
    for round in $(seq "$rounds"); do
        check "tests, round $round" env CUDA_CACHE_DISABLE=1 sh -c 'cd crates/rlx-cuda && exec "$@"' - "$tests" "${own[@]}"
    done
    if command -v compute-sanitizer >/dev/null; then
        for tool in memcheck racecheck initcheck; do
            check "$tool" sh -c 'cd crates/rlx-cuda && exec "$@"' - compute-sanitizer --tool "$tool" --error-exitcode 9 \
                "$tests" operators decoder experts recurrent --test-threads 1
        done
    else
        note check compute-sanitizer 'skipped: it is not installed'
    fi
    unset RLX_CUDA
fi

for folder in ${truth:-tests/fixtures ../shared/reference}; do
    for network in "$folder"/*/; do
        # Some records are for tests of their own.
        [ -f "$network/config.json" ] && grep -aqm 1 '"rlx"' "$network/io.safetensors" 2>/dev/null || continue
        check "verify $(basename "$network")" "$rlx" verify "$network" --device "$device"
    done
done

for model in ${models//,/ }; do
    shape=${model%/*} format=${model#*/} file=$work/model.gguf
    echo "-- bench $model"
    "$rlx" synth "$file" --shape "$shape" --quant "$format" --force >/dev/null 2>"$work/said" || { cat "$work/said"; failed=1; continue; }
    for prompt in $prompts; do
        if "$rlx" bench --model "$file" --device "$device" --prompt-tokens "$prompt" --tokens 128 \
            --context $((prompt + 128)) --json >"$work/line" 2>"$work/said"; then
            note bench "$model" "$(tail -n 1 "$work/line")"
            tail -n 1 "$work/line"
        else
            cat "$work/said"
            failed=1
        fi
    done
    rm -f "$file"
done

python3 - "$work/notes" "$out" "$device" "$state" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" "$(date +%F)" <<'PY'
import json, sys
notes, out, device, state, commit, date = sys.argv[1:]
result = {"date": date, "commit": commit, "device": device, "machine": " ".join(state.split()[1:]), "checks": {}, "bench": []}
for line in open(notes):
    kind, name, text = line.rstrip("\n").split("\t", 2)
    if kind == "check":
        result["checks"][name] = text
    else:
        result["bench"].append({"model": name, **json.loads(text)})
with open(out, "w") as f:
    f.write(json.dumps(result, separators=(",", ":")) + "\n")
print(f"wrote {out}")
PY
exit $failed
