#!/usr/bin/env bash
# Builds the fuzz preset and runs every target for MCCL_FUZZ_SECONDS (60) on its stored corpus plus
# fresh input. A crash leaves its input in build/fuzz/artifacts/ and fails the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

SECONDS_EACH=${MCCL_FUZZ_SECONDS:-60}
scripts/setup.sh
for tool in clang++-14; do
  command -v "$tool" >/dev/null || {
    echo "make fuzz: $tool is missing: apt-get install clang-14 libclang-rt-14-dev" >&2
    exit 1
  }
done
cmake --preset fuzz >/dev/null
cmake --build build/fuzz --target fuzz_targets
status=0
ran=0
for target in build/fuzz/test/fuzz/*_fuzz; do
  [ -x "$target" ] || continue
  ran=$((ran + 1))
  name=$(basename "$target")
  corpus=test/fuzz/corpus/$name
  mkdir -p "build/fuzz/corpus/$name" build/fuzz/artifacts
  printf '==== %s\n' "$name"
  "$target" -max_total_time="$SECONDS_EACH" -artifact_prefix="build/fuzz/artifacts/$name-" \
    -print_final_stats=1 "build/fuzz/corpus/$name" $([ -d "$corpus" ] && echo "$corpus") || status=1
done
[ "$ran" -gt 0 ] || { echo "make fuzz: build/fuzz/test/fuzz holds no *_fuzz program" >&2; exit 1; }
exit "$status"
