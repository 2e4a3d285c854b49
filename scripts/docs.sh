#!/usr/bin/env bash
# Writes the generated pages under docs/. A test compares them with what is generated now.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build/release/tools/settings_doc/settings_doc >docs/settings.md
echo "wrote docs/settings.md"
