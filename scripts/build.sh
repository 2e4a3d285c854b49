#!/usr/bin/env bash
# Builds the release preset into build/release and installs the Python package into .venv.
#   scripts/build.sh                 everything
#   scripts/build.sh TARGET ...      these targets and the package
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh

TREE=build/release
PYTHON=$PWD/.venv/bin/python
has_plugin=OFF
[ -f plugins/torch/CMakeLists.txt ] && has_plugin=ON

# Ninja configures again by itself when a CMakeLists.txt changes; the preset and the plug-in's
# existence are what it cannot see.
wanted="$has_plugin $(cksum <CMakePresets.json)"
if [ ! -f "$TREE/build.ninja" ] || [ "$(cat "$TREE/.configured" 2>/dev/null)" != "$wanted" ]; then
  cmake --preset release -DMCCL_BUILD_TORCH="$has_plugin" -DMCCL_PYTHON="$PYTHON"
  printf '%s\n' "$wanted" >"$TREE/.configured"
fi
cmake --build "$TREE" ${1:+--target "$@"} || {
  echo "make: the build stopped; repeated, it continues where it was" >&2
  exit 1
}

if [ "$has_plugin" = OFF ]; then exit 0; fi
stamp=$TREE/.package_installed
inputs=(pyproject.toml CMakeLists.txt cmake include src python plugins bindings tools)
if [ ! -f "$stamp" ] || [ ! -d .venv/lib/python3*/site-packages/mccl ] || [ ! -x .venv/bin/mccl ] ||
   [ -n "$(find "${inputs[@]}" -newer "$stamp" ! -path '*/__pycache__*' -print -quit)" ]; then
  touch "$stamp.next"
  # The tree is the one built above, so this only installs; its options must stay as they are.
  "$PYTHON" -m pip install --quiet --no-build-isolation --no-deps --force-reinstall . \
    --config-settings=build-dir="$TREE" \
    --config-settings="build.targets=mccl_torch;mccl_language;mccl_command" \
    --config-settings=cmake.define.MCCL_BUILD_TESTS=ON \
    --config-settings=cmake.define.MCCL_BUILD_BENCH=ON \
    --config-settings=cmake.define.MCCL_WERROR=ON \
    --config-settings=cmake.define.MCCL_PYTHON="$PYTHON"
  mv "$stamp.next" "$stamp"
fi
