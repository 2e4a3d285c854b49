#!/usr/bin/env bash
# Runs the C++ tests under the named sanitizer presets: scripts/sanitize.sh asan-ubsan tsan
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-second_deadlock_stack=1}

scripts/setup.sh
status=0
for preset in "$@"; do
  printf '==== %s\n' "$preset"
  cmake --preset "$preset" >/dev/null
  cmake --build "build/$preset"
  # The thread sanitizer's shadow memory does not fit every randomised layout: run without.
  runner=()
  if [ "$preset" = tsan ] && command -v setarch >/dev/null; then runner=(setarch -R); fi
  "${runner[@]}" python3 scripts/run_tests.py --build-dir "build/$preset" --no-python \
    --timeout-factor 10 || status=1
done
exit "$status"
