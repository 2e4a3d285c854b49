#!/usr/bin/env bash
# A table of `mccl check` over the XML files of a folder, such as those that RCCL and Azure's
# scheduler ship: scripts/check_public_xml.sh FOLDER [TARGET]. Exit status 1 when one is not proven.
set -euo pipefail

if [ $# -lt 1 ] || [ ! -d "$1" ]; then
  echo "usage: scripts/check_public_xml.sh FOLDER [mccl|msccl|executor|rccl]" >&2
  exit 2
fi
folder=$(cd "$1" && pwd)
target=${2:-mccl}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mccl=build/release/tools/mccl/mccl
if [ ! -x "$mccl" ]; then mccl=.venv/bin/mccl; fi
if [ ! -x "$mccl" ]; then
  echo "check_public_xml.sh: there is no mccl: run make build first" >&2
  exit 2
fi

status=0
while IFS= read -r file; do
  verdict=$("$mccl" check --target "$target" "$file") || status=1
  # The last line sums up; the first one of a file at fault is its first fault.
  printf '%-48s %s\n' "${file#"$folder"/}" "$(tail -n 1 <<<"$verdict" | sed "s|^$file: ||")"
  if ! grep -q ': proven: ' <<<"$verdict"; then
    printf '%-48s   %s\n' "" "$(head -n 1 <<<"$verdict" | sed "s|^$file:||")"
  fi
done < <(find "$folder" -name '*.xml' | sort)
exit $status
