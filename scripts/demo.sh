#!/usr/bin/env bash
# What `make demo` shows. Words go to demo.py: `scripts/demo.sh --help`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ ! -x .venv/bin/python ]; then
  echo "make demo: .venv is missing: run make build first" >&2
  exit 1
fi
exec .venv/bin/python scripts/demo.py "$@"
