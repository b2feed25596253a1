#!/usr/bin/env bash
# Drives the conformance example through a corpus: over stdio and TCP with both
# framings, and over HTTP.
#
#     tests/conformance.sh [FOLDER]
#
# FOLDER has the runner and the corpus; without one, ../shared/conformance is used
# if it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-../shared/conformance}
if [ ! -f "$folder/run.py" ]; then
    echo "NOT COUNTED: there is no conformance runner in $folder" >&2
    exit 0
fi
cargo build --quiet --release --example conformance
server=${CARGO_TARGET_DIR:-$PWD/target}/release/examples/conformance
port=$((20000 + $$ % 20000))

run() { python3 "$folder/run.py" "$@" | tail -1; }
run --stdio "$server stdio:"
run --stdio "$server stdio:?framing=header" --framing lsp
run --tcp "127.0.0.1:$port" --spawn "$server tcp://127.0.0.1:$port"
run --tcp "127.0.0.1:$port" --spawn "$server tcp://127.0.0.1:$port?framing=header" --framing lsp
run --http "http://127.0.0.1:$port/rpc" --spawn "$server http://127.0.0.1:$port/rpc"
