#!/usr/bin/env bash
# Builds the fuzz preset and runs every target for MCCL_FUZZ_SECONDS (60) on its stored corpus plus
# fresh input. A crash leaves its input in build/fuzz/artifacts/ and fails the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

SECONDS_EACH=${MCCL_FUZZ_SECONDS:-60}
scripts/setup.sh
command -v clang++-14 >/dev/null || {
  echo "make fuzz: clang++-14 is missing: apt-get install clang-14 libclang-rt-14-dev" >&2
  exit 1
}

mapfile -t names < <(basename -s .cc test/fuzz/*_fuzzer.cc)
cmake --preset fuzz >/dev/null
cmake --build build/fuzz --target "${names[@]}"
mkdir -p build/fuzz/artifacts
status=0
for name in "${names[@]}"; do
  printf '==== %s\n' "$name"
  # New input is written to the first folder; the stored corpus stays as it is.
  stored=test/fuzz/corpus/${name%_fuzzer}
  corpora=("build/fuzz/corpus/$name")
  mkdir -p "${corpora[0]}"
  if [ -d "$stored" ]; then corpora+=("$stored"); fi
  "build/fuzz/test/fuzz/$name" -max_total_time="$SECONDS_EACH" -print_final_stats=1 \
    -artifact_prefix="build/fuzz/artifacts/$name-" "${corpora[@]}" || status=1
done
exit "$status"
