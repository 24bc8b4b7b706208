#!/bin/sh
# Fetches MLX for the CPU into target/plugins, once, and prints its folder: the wheel of PyPI with headers and library.
# Tests of rlx-mlx call it; elsewhere RLX_MLX="$(scripts/mlx.sh)" runs anything on it.
set -eu
version=0.32.4
cd "$(dirname "$0")/.."
folder=$PWD/${CARGO_TARGET_DIR:-target}/plugins/mlx-cpu-$version
case ${CARGO_TARGET_DIR:-} in /*) folder=$CARGO_TARGET_DIR/plugins/mlx-cpu-$version ;; esac
if [ ! -f "$folder/mlx/include/mlx/version.h" ]; then
    own=$folder.$$
    mkdir -p "$own"
    trap 'rm -rf "$own"' EXIT
    python3 -m pip download --quiet --no-deps --dest "$own" "mlx-cpu==$version" >&2
    python3 -m zipfile -e "$own"/*.whl "$own/wheel"
    # Another process may have been faster.
    mv "$own/wheel" "$folder" 2>/dev/null || [ -f "$folder/mlx/include/mlx/version.h" ]
fi
echo "$folder"
