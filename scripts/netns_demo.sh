#!/usr/bin/env bash
# Training over two "hosts" of one Linux machine: two network namespaces joined by a virtual cable,
# two ranks in each, the digits example unchanged. Needs root and iproute2.
#
#   scripts/netns_demo.sh               twice: the interface named, then chosen by mccl
#   STEPS=0 scripts/netns_demo.sh       whole trainings instead of 40 steps
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

STEPS=${STEPS:-40}
TAG=mccl$$ # names of interfaces have at most 15 characters
HOSTS=("$TAG-a" "$TAG-b")
ADDRESSES=(10.213.77.1 10.213.77.2)
PORT=29517
FOLDER=$(mktemp -d)
launchers=()

clean_up() {
  for pid in "${launchers[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait || true
  for host in "${HOSTS[@]}"; do ip netns del "$host" 2>/dev/null || true; done # its cable goes, too
  rm -rf "$FOLDER"
}

if [ "$(id -u)" != 0 ]; then
  echo "netns_demo: network namespaces need root" >&2
  exit 2
fi
trap clean_up EXIT
trap 'exit 130' INT TERM

for host in "${HOSTS[@]}"; do
  ip netns add "$host"
  ip -n "$host" link set lo up
done
ip link add veth0 netns "${HOSTS[0]}" type veth peer name veth0 netns "${HOSTS[1]}"
for index in 0 1; do
  ip -n "${HOSTS[$index]}" address add "${ADDRESSES[$index]}/24" dev veth0
  ip -n "${HOSTS[$index]}" link set veth0 up
done

# train NAME [VARIABLE=VALUE]...: one launcher per namespace, as on two machines.
train() {
  local name=$1 index status=0
  shift
  echo "== $name"
  launchers=()
  for index in 0 1; do
    ip netns exec "${HOSTS[$index]}" env OMP_NUM_THREADS=1 MCCL_LOG=info "$@" \
      .venv/bin/python -m torch.distributed.run --nnodes 2 --node-rank "$index" \
      --nproc-per-node 2 --master-addr "${ADDRESSES[0]}" --master-port "$PORT" \
      examples/train_digits.py --backend mccl --steps "$STEPS" --exposed-pairs 10 \
      --results "$FOLDER/results.json" &
    launchers+=($!)
  done
  for pid in "${launchers[@]}"; do wait "$pid" || status=$?; done
  launchers=()
  if [ "$status" != 0 ]; then
    echo "netns_demo: $name ended with status $status" >&2
    exit 1
  fi
  .venv/bin/python - "$FOLDER/results.json" "$FOLDER/single.json" <<'PYTHON'
import json, sys

ours, single = (json.load(open(path)) for path in sys.argv[1:])
differences = [abs(a - b) / abs(b) for a, b in zip(ours["losses"], single["losses"], strict=True)]
difference = max(differences)
print(f"{ours['world_size']} ranks, {ours['steps']} steps: step {ours['step_ms_median']:.1f} ms, "
      f"exposed {ours['exposed']['exposed_ms']:.1f} ms, losses within {difference:.1e} of one "
      f"process, weights {'equal' if ours['has_equal_weights'] else 'DIFFERENT'}")
for row in ours["programs"]:
    print(f"  {row['collective']} {row['program']}: {row['calls']} calls, {row['bytes']:,} bytes: "
          f"{row['reason']}")
sys.exit(not (all(value <= 1e-4 for value in differences) and ours["has_equal_weights"]))
PYTHON
}

OMP_NUM_THREADS=1 .venv/bin/python examples/train_digits.py --steps "$STEPS" \
  --results "$FOLDER/single.json"
train "MCCL_SOCKET_IFNAME=veth0" MCCL_SOCKET_IFNAME=veth0
train "the interface chosen by mccl (lo is up, too)"
