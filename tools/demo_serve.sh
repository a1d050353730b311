#!/usr/bin/env bash
# Starts the server on a small real model, asks the same question twice, prints both answers with what the
# cache did, and leaves the server running in the foreground. Usage: tools/demo_serve.sh SKIPPY PORT [MODEL]
set -euo pipefail
skippy=$1 port=$2 model=${3:-}
here=$(dirname "$0")
[ -n "$model" ] || model=$("$here/fetch_models.py" smollm2)

"$skippy" serve --model "$model" --port "$port" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; exit 0' INT TERM
trap 'kill "$server" 2>/dev/null || true' EXIT

url="http://127.0.0.1:$port"
for _ in $(seq 600); do
  kill -0 "$server" 2>/dev/null || { wait "$server"; exit $?; }
  curl -fs "$url/health" >/dev/null 2>&1 && break
  sleep 0.1
done

python3 "$here/demo_ask.py" "$url"
echo
echo "The server is running at $url (OpenAI base URL: $url/v1). Stop it with Ctrl-C."
wait "$server"
