#!/usr/bin/env bash
# Long runs: training that starts and ends again and again, tensors beyond 2 GiB, random calls with
# their results checked, simulator seeds, rules of the device hand-off broken one by one, hosts that
# vanish and processes that stop, processes that are killed.
#   scripts/soak.sh                      everything
#   RUNS=20 SECONDS_RANDOM=30 SEEDS=0:500 RUNS_HANDOFF=3 scripts/soak.sh  shorter
#   scripts/soak.sh restarts|large|random|seeds|handoff|hosts|kills  one of them
# Exits 1 when any of them failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

RUNS_KILLS=${RUNS:-300}
RUNS=${RUNS:-100}
SECONDS_RANDOM=${SECONDS_RANDOM:-300}
SEEDS=${SEEDS:-0:10000}
RUNS_HANDOFF=${RUNS_HANDOFF:-20}
HAND_OFF_SEEDS=${HAND_OFF_SEEDS:-1:100000}
SEED_SUITE=build/release/test/sim/seeds_test
FAULT_SUITE=build/release/test/sim/fault_seeds_test
HAND_OFF_SUITE=build/release/test/sim/hand_off_seeds_test
CONTRACT_SUITE=build/release/test/sim/random_contract_test
HOSTS_TEST=build/release/test/hosts/hosts_test
LARGE_KIB=$((14 * 1024 * 1024))  # free memory that the large tensor needs
what=${1:-all}
failed=0

# Every run must end with status 0: also what happens after destroy_process_group() counts.
restarts() {
  local log bad=0 run
  log=$(mktemp -d)
  for ((run = 1; run <= RUNS; run++)); do
    if ! timeout 180 .venv/bin/torchrun --standalone --nproc-per-node 2 \
      test/torch/soak_restart.py >"$log/$run" 2>&1; then
      bad=$((bad + 1))
      echo "restarts: run $run failed; the end of $log/$run:"
      tail -n 15 "$log/$run"
    fi
    [ -t 1 ] && printf '\r%d of %d runs, %d failed' "$run" "$RUNS" "$bad"
  done
  [ -t 1 ] && echo
  echo "restarts: $((RUNS - bad)) of $RUNS runs of DDP at 2 ranks ended with status 0"
  [ "$bad" = 0 ] && rm -r "$log"
  return "$bad"
}

large() {
  local free
  free=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null || echo "$LARGE_KIB")
  if [ "$free" -lt "$LARGE_KIB" ]; then
    echo "large: skipped, it needs 14 GiB of free memory and $((free / 1024 / 1024)) are free"
    return 0
  fi
  timeout 900 .venv/bin/torchrun --standalone --nproc-per-node 2 test/torch/soak_large.py
}

random() {
  timeout $((SECONDS_RANDOM + 600)) .venv/bin/torchrun --standalone --nproc-per-node 4 \
    test/torch/soak_random.py --seconds "$SECONDS_RANDOM" ${SEED_RANDOM:+--seed "$SEED_RANDOM"}
}

seeds() {
  if [ ! -x "$SEED_SUITE" ]; then
    echo "seeds: skipped, $SEED_SUITE is not built"
    return 0
  fi
  "$SEED_SUITE" --seeds="$SEEDS" && "$FAULT_SUITE" --seeds="$SEEDS" &&
    "$CONTRACT_SUITE" --seeds="$SEEDS" && "$HAND_OFF_SUITE" --seeds="$HAND_OFF_SEEDS"
}

handoff() {
  timeout $((RUNS_HANDOFF * 200 + 600)) .venv/bin/python test/torch/soak_hand_off.py \
    --runs "$RUNS_HANDOFF"
}

# Needs root; says so and skips otherwise.
hosts() {
  if [ ! -x "$HOSTS_TEST" ]; then
    echo "hosts: skipped, $HOSTS_TEST is not built"
    return 0
  fi
  "$HOSTS_TEST" --peer-timeout-s=5 --stopped-s=12 &&
    "$HOSTS_TEST" --peer-timeout-s=10 --stopped-s=30
}

# RUNS of them, or 300; repeat a failing seed with SEED_KILLS=SEED RUNS=1.
kills() {
  timeout $((RUNS_KILLS * 70 + 60)) .venv/bin/python test/torch/soak_kills.py \
    --runs "$RUNS_KILLS" ${SEED_KILLS:+--seed "$SEED_KILLS"}
}

case $what in
  all) parts=(restarts large random seeds handoff hosts kills) ;;
  restarts | large | random | seeds | handoff | hosts | kills) parts=("$what") ;;
  *)
    echo "soak: unknown part \"$what\"; there are restarts, large, random, seeds, handoff, hosts," \
      "kills" >&2
    exit 2
    ;;
esac
for part in "${parts[@]}"; do
  "$part" || {
    failed=1
    echo "soak: $part failed" >&2
  }
done
exit "$failed"
