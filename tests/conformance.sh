#!/usr/bin/env bash
# Drives the conformance example through a corpus: over stdio and TCP with both
# framings, and over HTTP.
#
#     tests/conformance.sh FOLDER
#
# FOLDER has the runner, run.py, and the corpus.
set -euo pipefail
folder=${1:?usage: tests/conformance.sh FOLDER}
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/.."
# As `./test` builds it, so that it is there.
cargo build --quiet --workspace --all-features --example conformance
server=${CARGO_TARGET_DIR:-$PWD/target}/debug/examples/conformance
port=$((20000 + $$ % 20000))

run() { python3 "$folder/run.py" "$@" | tail -1; }
run --stdio "$server stdio:"
run --stdio "$server stdio:?framing=header" --framing lsp
run --tcp "127.0.0.1:$port" --spawn "$server tcp://127.0.0.1:$port"
run --tcp "127.0.0.1:$port" --spawn "$server tcp://127.0.0.1:$port?framing=header" --framing lsp
run --http "http://127.0.0.1:$port/rpc" --spawn "$server http://127.0.0.1:$port/rpc"
