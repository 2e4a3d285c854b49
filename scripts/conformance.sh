#!/usr/bin/env bash
# torch's own suite against our back end, under three names, with gloo as the measure; writes
# docs/conformance.md and docs/support.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${MCCL_PYTHON:-.venv/bin/python}
"$PYTHON" test/conformance_torch/support.py
exec "$PYTHON" test/conformance_torch/conformance.py "$@"
