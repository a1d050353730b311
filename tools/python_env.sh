#!/usr/bin/env bash
# A virtual environment with the clients that the end-to-end tests speak with, what llama.cpp's own server tests
# import, and what draws the charts. Usage: tools/python_env.sh DIR
set -euo pipefail
dir=$1
root="$(dirname "$0")/.."
lists=("$root/tests/e2e/requirements.txt" "$root/tests/yardstick/requirements.txt" "$root/bench/compare/charts/requirements.txt")
wanted=$(cat "${lists[@]}")
if [ "$wanted" != "$(cat "$dir/.requirements" 2>/dev/null)" ]; then
  python3 -m venv --clear "$dir"
  "$dir/bin/pip" install --quiet --disable-pip-version-check "${lists[@]/#/-r}"
  printf '%s\n' "$wanted" > "$dir/.requirements"
fi
