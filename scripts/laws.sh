#!/usr/bin/env bash
# Breaks the laws of the engine, one clause at a time, and watches the test of that clause fail:
# a law without such a test is a wish. test/laws/laws.txt lists the clauses; a patch beside it
# breaks each. Works on HEAD in a scratch copy under build/laws; nothing else is touched.
#
#   scripts/laws.sh                              all clauses
#   scripts/laws.sh uncaptured-send-overwritten  those named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
LAWS=$PWD/test/laws
SCRATCH=$PWD/build/laws
TREE=$SCRATCH/tree
BUILD=$SCRATCH/build
LOG=$SCRATCH/log
TEST_SECONDS_MAX=60

prepare() {
  mkdir -p "$SCRATCH"
  if [ -e "$TREE/.git" ]; then
    git -C "$TREE" reset --hard --quiet
    git -C "$TREE" clean -fdq
    git -C "$TREE" checkout --quiet --detach "$(git rev-parse HEAD)"
  else
    git worktree add --force --force --detach "$TREE" HEAD >"$LOG" 2>&1
  fi
  [ -z "$(git status --porcelain --untracked-files=no)" ] ||
    echo "note: changes that are not committed are not part of this" >&2
  cmake -S "$TREE" -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 \
    -DMCCL_BUILD_BENCH=OFF >"$LOG" 2>&1 || { cat "$LOG"; exit 1; }
}

build() { cmake --build "$BUILD" --target "$@" >"$LOG" 2>&1; }

# Exit status of the test; 97 when the filter names no test.
run_test() { # PROGRAM FILTER
  local program status=0
  program=$(find "$BUILD/test" -name "$1" -type f -perm -u+x)
  timeout "$TEST_SECONDS_MAX" "$program" --gtest_filter="$2" --gtest_brief=1 >"$LOG" 2>&1 ||
    status=$?
  if grep -q '^\[==========\] 0 tests' "$LOG"; then status=97; fi
  return "$status"
}

passed=0
failed=0
report() { # LAW CLAUSE WHAT OUTCOME
  printf '%s %s: %s: %s\n' "$1" "$2" "$3" "$4"
  if [ "$4" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# Unbroken, every test passes; else its failure below would say nothing.
is_sound() { # PROGRAM FILTER
  build "$1" && run_test "$1" "$2"
}

break_law() { # LAW CLAUSE PROGRAM FILTER
  if ! is_sound "$3" "$4"; then
    tail -n 20 "$LOG"
    report "$1" "$2" "unbroken -> $4 does not pass" FAILED
    return
  fi
  if ! git -C "$TREE" apply --3way "$LAWS/$2.patch" >"$LOG" 2>&1; then
    tail -n 5 "$LOG"
    report "$1" "$2" "the patch does not apply" FAILED
  elif ! build "$3"; then
    grep -m5 error: "$LOG" || tail -n 5 "$LOG"
    report "$1" "$2" "broken -> does not compile" FAILED
  elif run_test "$3" "$4"; then
    report "$1" "$2" "broken -> $4 still passes" FAILED
  else
    report "$1" "$2" "broken -> $4 fails" ok
  fi
  git -C "$TREE" reset --hard --quiet
}

prepare
names=" $* "
while read -r -u 3 law clause program filter; do
  case $law in '#'* | '') continue ;; esac
  if [ $# -gt 0 ] && [[ $names != *" $clause "* ]]; then continue; fi
  break_law "$law" "$clause" "$program" "$filter"
done 3<"$LAWS/laws.txt"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
