#!/usr/bin/env bash
# What `make demo` shows.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

EXAMPLE=build/release/examples/all_reduce_example
if [ ! -x "$EXAMPLE" ]; then
  echo "make demo: $EXAMPLE does not exist yet" >&2
  exit 1
fi
exec "$EXAMPLE" "$@"
