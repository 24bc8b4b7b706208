#!/bin/sh
# Prompts behind long caches, two builds of `rlx` in turn: seconds and tokens a second of each, and what attention
# takes of a prompt's kernels. About two minutes on an H100.
#
#   benches/webgpu/attention_tiles.sh OLD_RLX NEW_RLX [FOLDER]
#
# Models are random ones of a shape, made in FOLDER (default: a temporary one) where they are not there yet.
set -eu
old=$1
new=$2
folder=${3:-$(mktemp -d)}
for shape in llama-0.6b llama-3.2-1b; do
  model=$folder/$shape.gguf
  [ -f "$model" ] || "$new" synth --shape "$shape" --quant q4_k_m "$model" >/dev/null
  for round in 1 2 3; do
    for rlx in "$old" "$new"; do
      echo "$shape $rlx round $round"
      "$rlx" bench --device webgpu --model "$model" --context 4224 --prompt-tokens 4096 --tokens 8 --repeat 3 --json
    done
  done
  for rlx in "$old" "$new"; do
    echo "$shape $rlx kernels"
    "$rlx" bench --device webgpu --model "$model" --context 4224 --prompt-tokens 512 --depth 3584 --tokens 1 --profile |
      grep -E 'attention|all '
    "$rlx" bench --device webgpu --model "$model" --context 4224 --prompt-tokens 64 --depth 4096 --tokens 1 --profile |
      grep -E 'attention|all '
  done
done
for kv in f16 q8_0 q4_0; do
  echo "llama-0.6b $new caches of $kv"
  "$new" bench --device webgpu --model "$folder/llama-0.6b.gguf" --kv $kv --context 4224 --prompt-tokens 4096 --tokens 64 \
    --repeat 3 --json
done
