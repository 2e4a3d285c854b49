#!/usr/bin/env bash
# Installs what the build and the tests need: Debian packages, and Python packages into .venv.
# Safe to repeat: when all is there it only looks, in well under two seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PACKAGES=(
  cmake ninja-build ccache g++ make pkg-config
  python3-venv python3-dev pybind11-dev
  libhwy-dev libfmt-dev libspdlog-dev libpugixml-dev libcli11-dev nlohmann-json3-dev
  libssl-dev
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev
  iproute2 iperf3 clang-16 libobjc-12-dev
)
STAMP=.venv/.mccl_setup
LOG=build/setup.log
mkdir -p build

# Two builds in one checkout must not fill one .venv at the same time.
if command -v flock >/dev/null; then
  exec 9>build/.setup.lock
  flock 9
fi

say() { printf 'setup: %s\n' "$*" >&2; }

fail_with_log() {
  tail -n 20 "$LOG" >&2
  say "$1 failed; all that it said: $LOG"
  exit 1
}

missing_packages() {
  local installed
  local row='${db:Status-Abbrev}${Package}\n'
  installed=$(dpkg-query -W -f="$row" "${PACKAGES[@]}" 2>/dev/null || true)
  for package in "${PACKAGES[@]}"; do
    grep -qx "ii *$package" <<<"$installed" || echo "$package"
  done
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "this is not a Debian system: install the equivalents of: ${PACKAGES[*]}"
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    say "these Debian packages are missing; run this, then repeat:"
    say "  sudo apt-get install -y ${missing[*]}"
    exit 1
  fi
  say "installing ${missing[*]}"
  { apt-get update &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
  } >"$LOG" 2>&1 </dev/null || fail_with_log apt-get
}

wanted_stamp() {
  { python3 -c 'import sys; print(sys.version, sys.base_prefix)'
    cat scripts/setup.sh requirements/constraints.txt requirements/dev.txt
  } | cksum
}

install_python() {
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    { say "python3 is $(python3 --version), 3.10 or newer is needed"; exit 1; }
  local wanted
  wanted=$(wanted_stamp)
  if [ -x .venv/bin/python ] && [ "$(cat "$STAMP" 2>/dev/null)" = "$wanted" ]; then return; fi
  say "installing Python packages into .venv (torch is large: about a minute)"
  local renew=()
  [ "$(.venv/bin/python --version 2>/dev/null)" = "$(python3 --version)" ] || renew=(--clear)
  { python3 -m venv "${renew[@]}" .venv &&
    .venv/bin/python -m pip install -c requirements/constraints.txt -r requirements/dev.txt
  } >"$LOG" 2>&1 </dev/null || fail_with_log pip
  printf '%s\n' "$wanted" >"$STAMP"
}

install_packages
install_python
