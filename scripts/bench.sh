#!/usr/bin/env bash
# Runs the benchmarks, all or those named: scripts/bench.sh reduce wire
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(basename -s _bench.cc bench/*_bench.cc)
for name in "${names[@]}"; do
  printf '==== %s\n' "$name"
  "build/release/bench/${name}_bench"
done
