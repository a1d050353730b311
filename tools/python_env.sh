#!/usr/bin/env bash
# A virtual environment with the clients that the end-to-end tests speak with, and what llama.cpp's own server tests
# import. Usage: tools/python_env.sh DIR
set -euo pipefail
dir=$1
tests="$(dirname "$0")/../tests"
wanted=$(cat "$tests/e2e/requirements.txt" "$tests/yardstick/requirements.txt")
if [ "$wanted" != "$(cat "$dir/.requirements" 2>/dev/null)" ]; then
  python3 -m venv --clear "$dir"
  "$dir/bin/pip" install --quiet --disable-pip-version-check \
    -r "$tests/e2e/requirements.txt" -r "$tests/yardstick/requirements.txt"
  printf '%s\n' "$wanted" > "$dir/.requirements"
fi
