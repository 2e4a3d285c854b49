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
  # The thread sanitizer is to see the orders of the hand-off (law L13) and not what comes of them:
  # with one of them broken it reports a race.
  if [ "$preset" = tsan ]; then
    threads="build/$preset/test/hand_off/hand_off_threads"
    "${runner[@]}" "$threads" none || status=1
    for order in O1 O2; do
      if TSAN_OPTIONS="exitcode=66 report_bugs=1" "${runner[@]}" "$threads" "$order" \
        >/dev/null 2>&1; then
        echo "the thread sanitizer did not see that $order was broken"
        status=1
      else
        echo "$order broken: reported"
      fi
    done
  fi
done
exit "$status"
