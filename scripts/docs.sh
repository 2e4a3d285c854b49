#!/usr/bin/env bash
# Writes the generated pages under docs/: build/release/tools/NAME_doc prints docs/NAME.md. A test
# compares each page with what is generated now.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for source in tools/*_doc; do
  tool=$(basename "$source")
  page=docs/${tool%_doc}.md
  "build/release/tools/$tool/$tool" >"$page.new"
  mv "$page.new" "$page"
  echo "wrote $page"
done
