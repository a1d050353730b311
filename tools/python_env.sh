#!/usr/bin/env bash
# A virtual environment with the clients that the end-to-end tests speak with. Usage: tools/python_env.sh DIR
set -euo pipefail
dir=$1
requirements="$(dirname "$0")/../tests/e2e/requirements.txt"
if ! cmp -s "$requirements" "$dir/.requirements"; then
  python3 -m venv --clear "$dir"
  "$dir/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$dir/.requirements"
fi
