#!/usr/bin/env bash
# Lays out every C++ file with the one version of clang-format that this project uses.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v clang-format-14 >/dev/null || {
  echo "make format: clang-format-14 is missing: apt-get install clang-format-14" >&2
  exit 1
}
git ls-files -co --exclude-standard -z -- '*.h' '*.cc' | xargs -0 clang-format-14 -i
