#!/usr/bin/env bash
# The wire between hosts, measured on one Linux machine: every rank has a network namespace, cables
# are veth pairs limited by tbf (burst 32 KiB), a bridge in a namespace of its own is the switch,
# and latency comes from bench/delay_relay.cc. Needs root, iproute2 and iperf3 (scripts/setup.sh).
#
#   scripts/fleet.sh            pair, bridge and relay
#   scripts/fleet.sh pair       two hosts: busbw against iperf3 --bidir before and after
#   scripts/fleet.sh bridge     4, 8 and 24 hosts on a switch, the same
#   scripts/fleet.sh relay      24 hosts, 0.295 ms one way: small calls, and 1 MiB against the ring
#                               (then with a delay DILATION=200 times as long)
#   scripts/fleet.sh start      24 hosts through torch: from before init_process_group to the end of
#                               the first all_reduce, without the import
#   scripts/fleet.sh soak       24 hosts, SECONDS_=600 back to back, every result checked
#   scripts/fleet.sh smoke      all of it, small; ends with 77 where namespaces are not allowed
#
# Variables: PAIR="RATE:MTU ..." and BRIDGE="HOSTS:RATE:MTU ..." (rates in Mb/s), RATE (of soak),
# SIZES, ROUNDS, BATCH, HOSTS, DELAY_US, DILATION, SECONDS_, IPERF_SECONDS, BUILD (the build tree),
# RUN_WITH (what ranks and iperf3 are run with: "chrt --rr 5" keeps other work on the machine out of
# the figures; not for relay, where it takes the relay's core away). Rows of Markdown go to standard
# output. What was made is removed at the end, after Ctrl-C too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BUILD=${BUILD:-build/release}
RANK=$BUILD/bench/fleet_rank
RELAY=$BUILD/bench/delay_relay
read -ra RUN_WITH <<<"${RUN_WITH:-}"
REPORT="python3 -B scripts/fleet_report.py"
TAG=mccl$$ # names of interfaces have at most 15 characters
SWITCH=$TAG-sw
SUBNET=10.213.80
PORT=29519
FOLDER=$(mktemp -d)
BURST=32kb
# Segmentation offload as on a network card: a packet of the stack is no longer than the burst, so
# that tbf does not cut it up again, which would cost the time of a core and change no figure.
OFFLOAD_BYTES=30000
hosts=()
children=()

# The namespaces are this run's, and so is whatever still runs in one of them.
clean_up() {
  local host pid
  for pid in "${children[@]}"; do kill "$pid" 2>/dev/null || true; done
  for host in "${hosts[@]}"; do
    for pid in $(ip netns pids "$host" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null || true; done
  done
  wait || true
  remove_hosts
  rm -rf "$FOLDER"
}

refuse() {
  echo "fleet: $1" >&2
  exit 77
}

# Says what is missing before anything is made.
check_machine() {
  [ "$(uname -s)" = Linux ] || refuse "network namespaces exist on Linux only"
  [ "$(id -u)" = 0 ] || refuse "network namespaces need root: sudo scripts/fleet.sh"
  local tool
  for tool in ip tc iperf3 python3; do
    command -v "$tool" >/dev/null || refuse "$tool is missing: run scripts/setup.sh as root"
  done
  [ -x "$RANK" ] || refuse "$RANK is missing: run make build first"
  if ! ip netns add "$TAG-try" 2>"$FOLDER/refusal"; then
    refuse "this machine allows no network namespaces: $(cat "$FOLDER/refusal")"
  fi
  ip netns del "$TAG-try"
}

machine_facts() {
  echo "machine: $(nproc) cores, $(uname -sr), load $(cut -d' ' -f1-3 /proc/loadavg)," \
    "congestion control $(cat /proc/sys/net/ipv4/tcp_allowed_congestion_control)"
}

address_of() { echo "$SUBNET.$(($1 + 1))"; }
on_host() { # on_host INDEX COMMAND...
  local host=${hosts[$1]}
  shift
  # In the background the command takes the place of the subshell, so that $! is its own.
  if [ "$BASHPID" != "$$" ]; then exec ip netns exec "$host" "${RUN_WITH[@]}" "$@"; fi
  ip netns exec "$host" "${RUN_WITH[@]}" "$@"
}

make_hosts() {
  local index
  for ((index = 0; index < $1; index++)); do
    hosts+=("$TAG-$index")
    ip netns add "$TAG-$index"
    # Without IPv6 nothing is sent before the ranks start, to devices that are not up yet.
    ip netns exec "$TAG-$index" sh -c \
      'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6' 2>/dev/null || true
    ip -n "$TAG-$index" link set lo up
  done
}

# Their cables go, too.
remove_hosts() {
  local host
  for host in "${hosts[@]}" "$SWITCH" "$TAG-try"; do
    ip netns del "$host" 2>/dev/null || true
  done
  hosts=()
}

# limit NAMESPACE DEVICE RATE: what leaves there. The queue is that of a switch's port.
limit() {
  tc -n "$1" qdisc replace dev "$2" root tbf rate "$3mbit" burst "$BURST" limit 1mb
}

# raise NAMESPACE DEVICE MTU [ADDRESS]
raise() {
  ip -n "$1" link set "$2" mtu "$3" gso_max_size "$OFFLOAD_BYTES"
  if [ $# -gt 3 ]; then ip -n "$1" address add "$4/24" dev "$2"; fi
  ip -n "$1" link set "$2" up
}

make_pair() { # make_pair RATE MTU
  local index
  make_hosts 2
  ip link add eth0 netns "${hosts[0]}" type veth peer name eth0 netns "${hosts[1]}"
  for index in 0 1; do
    raise "${hosts[$index]}" eth0 "$2" "$(address_of "$index")"
    limit "${hosts[$index]}" eth0 "$1"
  done
}

# Every port is limited in both directions, as a switch's is.
make_bridge() { # make_bridge COUNT RATE MTU
  local index
  make_hosts "$1"
  ip netns add "$SWITCH"
  ip -n "$SWITCH" link add br0 type bridge
  for ((index = 0; index < $1; index++)); do
    ip link add eth0 netns "${hosts[$index]}" type veth peer name "p$index" netns "$SWITCH"
    ip -n "$SWITCH" link set "p$index" master br0
    raise "${hosts[$index]}" eth0 "$3" "$(address_of "$index")"
    raise "$SWITCH" "p$index" "$3"
    limit "${hosts[$index]}" eth0 "$2"
    limit "$SWITCH" "p$index" "$2"
  done
  ip -n "$SWITCH" link set br0 mtu "$3" up
}

# The relay makes a device tap0 in each namespace; once it says so they get their addresses.
make_relay() { # make_relay COUNT DELAY_US
  local index line
  make_hosts "$1"
  coproc RELAYING { exec nice -n -20 "$RELAY" --delay-us "$2" "${hosts[@]}"; }
  relay_pid=$RELAYING_PID
  children+=("$relay_pid")
  read -r line <&"${RELAYING[0]}" || refuse "the relay did not start"
  for ((index = 0; index < $1; index++)); do
    ip -n "${hosts[$index]}" address add "$(address_of "$index")/24" dev tap0
    ip -n "${hosts[$index]}" link set tap0 mtu 9000 txqueuelen 4096 up
  done
}

# end_relay FILE: what the relay says of itself when it ends.
end_relay() {
  kill -TERM "$relay_pid"
  cat <&"${RELAYING[0]}" >"$1" || true
  wait "$relay_pid" || true
  children=()
  remove_hosts
}

# goodput FILE INDEX...: iperf3 --bidir between hosts INDEX and INDEX + 1, all pairs at once; the
# mean of their directions in bytes per second is left in FILE.
goodput() {
  local file=$1 index servers=() clients=() status=0
  shift
  for index in "$@"; do
    on_host $((index + 1)) iperf3 -s -1 -J >/dev/null 2>&1 &
    servers+=($!)
  done
  children+=("${servers[@]}")
  for index in "$@"; do
    wait_for_port $((index + 1)) 5201
    on_host "$index" iperf3 -c "$(address_of $((index + 1)))" --bidir -C reno -l 1M -O 1 \
      -t "${IPERF_SECONDS:-3}" -J >"$file.$index" 2>&1 &
    clients+=($!)
    children+=($!)
  done
  for pid in "${clients[@]}"; do wait "$pid" || status=$?; done
  for pid in "${servers[@]}"; do wait "$pid" || true; done
  children=()
  [ "$status" = 0 ] || { echo "fleet: iperf3 failed: $(tail -n 5 "$file".*)" >&2; exit 1; }
  $REPORT goodput "$file".* >"$file"
}

# Until somebody listens there: asks the kernel, at most 10 s.
wait_for_port() { # wait_for_port INDEX PORT
  local tries
  for ((tries = 0; tries < 200; tries++)); do
    on_host "$1" grep -q " 00000000.*:$(printf %04X "$2") .* 0A " /proc/net/tcp6 /proc/net/tcp &&
      return
    sleep 0.05
  done
  echo "fleet: nobody listens on port $2 of host $1" >&2
  exit 1
}

# run_ranks FILE ARGUMENT...: a rank on every host; rank 0's JSON and the cores' share of time in
# use are left in FILE.
run_ranks() {
  local file=$1 index status=0 pids=()
  shift
  grep '^cpu ' /proc/stat >"$file.before"
  for ((index = ${#hosts[@]} - 1; index >= 0; index--)); do
    on_host "$index" env MCCL_LOG="${MCCL_LOG:-warning}" "$RANK" --rank "$index" \
      --ranks "${#hosts[@]}" --master "$(address_of 0):$PORT" --batch "${BATCH:-32}" "$@" \
      >"$file.$index" &
    pids+=($!)
    children+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  local relay=()
  [ -z "${relay_pid:-}" ] || relay=("$relay_pid")
  children=("${relay[@]}")
  grep '^cpu ' /proc/stat >"$file.after"
  cp "$file.0" "$file"
  return "$status"
}

must_run() { run_ranks "$@" || { echo "fleet: a rank ended with status $?" >&2; exit 1; }; }

# compare TITLE SIZES: iperf3, the ranks, iperf3 again; a row per size.
compare() {
  local pairs=() index
  goodput "$FOLDER/before" 0
  must_run "$FOLDER/ranks" --bytes "$2" --rounds "${ROUNDS:-5}"
  goodput "$FOLDER/after" 0
  for ((index = 0; index + 1 < ${#hosts[@]}; index += 2)); do pairs+=("$index"); done
  cp "$FOLDER/after" "$FOLDER/together"
  [ ${#pairs[@]} = 1 ] || goodput "$FOLDER/together" "${pairs[@]}"
  $REPORT bandwidth "$1" "$FOLDER/before" "$FOLDER/after" "$FOLDER/together" "$FOLDER/ranks"
  remove_hosts
}

pair() {
  local case rate mtu
  $REPORT bandwidth_head
  for case in ${PAIR:-1000:1500 1000:9000 2500:1500 2500:9000}; do
    IFS=: read -r rate mtu <<<"$case"
    make_pair "$rate" "$mtu"
    compare "2 hosts, $rate Mb/s, MTU $mtu" "${SIZES:-64M,256M}"
  done
}

bridge() {
  local case count rate mtu
  $REPORT bandwidth_head
  for case in ${BRIDGE:-4:1000:9000 8:500:9000 24:100:9000}; do
    IFS=: read -r count rate mtu <<<"$case"
    make_bridge "$count" "$rate" "$mtu"
    compare "$count hosts, $rate Mb/s, MTU $mtu" "${SIZES:-64M}"
  done
}

# relay_calls DELAY_US NAME SIZES ROUNDS BATCH: one hop between two ranks, then calls among all,
# with the planner's choice and with the ring forced.
relay_calls() {
  local name=$FOLDER/$2
  make_relay 2 "$1"
  BATCH=$5 must_run "$name.two" --bytes 8 --rounds "$4"
  end_relay "$name.relay"
  make_relay "${HOSTS:-24}" "$1"
  BATCH=$5 must_run "$name.all" --bytes "$3" --rounds "$4"
  BATCH=$5 MCCL_ALGO=all_reduce_ring must_run "$name.ring" --bytes 1M --rounds "$4"
  end_relay "$name.relay"
}

# Without delay, what the machine itself takes for a call; with the delay as it is; and with time
# dilated, because few cores that play many hosts' are slower than those hosts by a factor: a delay
# as many times longer is what a rank on a core of its own sees.
relay() {
  local delay_us=${DELAY_US:-295} dilation=${DILATION:-200}
  local sizes=${SIZES:-8,256,4K,16K,64K,1M}
  [ -e /dev/net/tun ] || refuse "/dev/net/tun is missing, the relay needs it"
  relay_calls 0 floor "$sizes" "${ROUNDS:-10}" "${BATCH:-32}"
  relay_calls "$delay_us" real "$sizes" "${ROUNDS:-10}" "${BATCH:-32}"
  $REPORT latency "$delay_us" "$FOLDER/real" "$FOLDER/floor"
  [ "$dilation" -gt 1 ] || return 0
  relay_calls $((delay_us * dilation)) dilated "$sizes" 3 8
  $REPORT latency $((delay_us * dilation)) "$FOLDER/dilated" "$FOLDER/floor"
}

soak() {
  local count=${HOSTS:-24} rate=${RATE:-100}
  make_bridge "$count" "$rate" 9000
  must_run "$FOLDER/soak" --bytes "${SIZES:-8,4K,256K,1M,16M}" --seconds "${SECONDS_:-600}"
  remove_hosts
  $REPORT soak "$count hosts, $rate Mb/s" "$FOLDER/soak"
}

start() {
  local count=${HOSTS:-24}
  [ -x .venv/bin/python ] || refuse ".venv is missing: run make build first"
  make_bridge "$count" "${RATE:-1000}" 1500
  echo "| hosts | start s, median | worst | of it until all have met | first all_reduce, slowest |"
  echo "|---|---|---|---|---|"
  # Without a name service torch's store warns of every connection.
  TORCH_CPP_LOG_LEVEL=ERROR MCCL_LOG=error MCCL_DUMP_DIR=off \
    .venv/bin/python -B bench/torch_start_bench.py \
    --rounds "${ROUNDS:-3}" --master "$(address_of 0):$PORT" "${hosts[@]}"
  remove_hosts
}

# Every kind of network once, small, and a planted error that has to be found.
smoke() {
  make_pair 1000 1500
  IPERF_SECONDS=1 goodput "$FOLDER/goodput" 0
  must_run "$FOLDER/pair" --bytes 8,1M --rounds 2
  local status=0
  run_ranks "$FOLDER/planted" --bytes 64K --rounds 1 --plant-error || status=$?
  if [ "$status" != 1 ] || ! grep -q '"wrong_elements":1,' "$FOLDER/planted"; then
    echo "fleet: the planted error was not found (status $status)" >&2
    exit 1
  fi
  remove_hosts
  make_bridge 3 1000 9000
  must_run "$FOLDER/bridge" --bytes 8,1M --rounds 2
  remove_hosts
  $REPORT bandwidth_head
  $REPORT bandwidth "2 hosts" "$FOLDER/goodput" "$FOLDER/goodput" "$FOLDER/goodput" "$FOLDER/pair"
  $REPORT bandwidth "3 hosts" "$FOLDER/goodput" "$FOLDER/goodput" "$FOLDER/goodput" \
    "$FOLDER/bridge"
  if [ -e /dev/net/tun ]; then HOSTS=3 SIZES=8,1M ROUNDS=2 BATCH=4 DILATION=1 relay; fi
  if ip netns list | grep "^$TAG-"; then
    echo "fleet: these namespaces are left" >&2
    exit 1
  fi
}

names=("$@")
[ $# -gt 0 ] || names=(pair bridge relay)
for name in "${names[@]}"; do
  case $name in
    pair | bridge | relay | start | soak | smoke) ;;
    *)
      echo "fleet: unknown part \"$name\"; there are pair, bridge, relay, start, soak, smoke" >&2
      exit 2
      ;;
  esac
done
trap clean_up EXIT
trap 'exit 130' INT TERM
check_machine
machine_facts
for name in "${names[@]}"; do "$name"; done
