#!/usr/bin/env bash
# Runs the benchmarks, all or those named:
#   scripts/bench.sh reduce wire verify interpreter torch handoff
#   scripts/bench.sh figures          not among all: simulated, the same anywhere, ten minutes
# Only ratios within one run are evidence, and only on a machine that does nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
BENCH=build/release/bench

machine_facts() {
  echo "machine: $(nproc) cores, $(uname -sr), load $(cut -d' ' -f1-3 /proc/loadavg)"
  grep -m1 'model name' /proc/cpuinfo | sed 's/.*: /processor: /' || true
  local tcp=/proc/sys/net/ipv4
  echo "congestion control: $(cat $tcp/tcp_congestion_control)," \
    "allowed $(cat $tcp/tcp_allowed_congestion_control)"
}

# Instructions per message, both ends together, without copying and reducing: what is left of
# callgrind's count of run_counted() once the functions of libc that move bytes and the kernels of
# src/device are taken off. Deterministic, so it is a gate: the engine may need so many per cent of
# what a ring written by hand needs over the same streams, and no more.
INSTRUCTIONS_MAX_PERCENT=130
count_instructions() {
  if ! command -v valgrind >/dev/null; then
    echo "instructions per message: not counted, valgrind is not installed"
    return
  fi
  local folder side messages instructions percent
  local -A counts
  folder=$(mktemp -d)
  for side in engine hand; do
    messages=$(valgrind --quiet --tool=callgrind --callgrind-out-file="$folder/$side" \
      --toggle-collect='mccl::run_counted*' "$BENCH/interpreter_bench" count "$side" 2 10 |
      sed -n 's/^messages //p')
    instructions=$(callgrind_annotate --auto=no --threshold=100 "$folder/$side" | awk '
      /^ *[0-9,]+ \(.*PROGRAM TOTALS/ { gsub(",", "", $1); total = $1 }
      /^ *[0-9,]+ \(.*(mem(cpy|move)_|N_[A-Z0-9_]+::combine|N_[A-Z0-9_]+::fold)/ {
        gsub(",", "", $1); moved += $1 }
      END { printf "%d", total - moved }')
    counts[$side]=$((instructions / messages))
    echo "$side: ${counts[$side]} instructions per message of 64 KiB, without copies and kernels"
  done
  rm -r "$folder"
  percent=$((counts[engine] * 100 / counts[hand]))
  if [ "$percent" -gt "$INSTRUCTIONS_MAX_PERCENT" ]; then
    echo "instructions per message: the engine needs $percent % of the ring by hand," \
      "at most $INSTRUCTIONS_MAX_PERCENT % are allowed" >&2
    failed=1
  fi
}

failed=0

names=("$@")
[ $# -gt 0 ] || names=(reduce wire verify interpreter torch handoff)
machine_facts
for name in "${names[@]}"; do
  printf '==== %s\n' "$name"
  case $name in
    # A tenth of a second per case: 90 cases.
    reduce) "$BENCH/reduce_bench" --benchmark_min_time=0.1 ;;
    interpreter)
      count_instructions
      "$BENCH/interpreter_bench"
      ;;
    torch) .venv/bin/python bench/torch_allreduce_bench.py ;;
    figures) "$BENCH/sim_figures" --check docs/simulation.md || failed=1 ;;
    handoff) .venv/bin/python bench/hand_off_bench.py || failed=1 ;;
    *) "$BENCH/${name}_bench" ;;
  esac
done
exit "$failed"
