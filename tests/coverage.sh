#!/usr/bin/env bash
# Line coverage of caudal-core, written to docs/COVERAGE.md; fails if a file has
# less than 95 %.
#
#     tests/coverage.sh
#
# Needs cargo-llvm-cov, which `./campaign coverage` installs. On Debian and as root it
# installs llvm of rustc's version.
set -euo pipefail
cd "$(dirname "$0")/.."

llvm=$(rustc -vV | sed -n 's/LLVM version: \([0-9]*\).*/\1/p')
if [ ! -x "/usr/lib/llvm-$llvm/bin/llvm-cov" ]; then
    apt-get update -qq && apt-get install -y -qq "llvm-$llvm"
fi
export LLVM_COV="/usr/lib/llvm-$llvm/bin/llvm-cov"
export LLVM_PROFDATA="/usr/lib/llvm-$llvm/bin/llvm-profdata"

cargo llvm-cov clean --workspace
cargo llvm-cov --package caudal-core --json --summary-only --output-path target/coverage.json
python3 - <<'PYTHON'
import json, os, sys

files = json.load(open("target/coverage.json"))["data"][0]["files"]
root = os.getcwd() + "/crates/caudal-core/src/"
short = []
table = ["# Coverage", "", "Lines of caudal-core that its tests run, without the examples in the", "documentation. Written by `tests/coverage.sh`.", "", "| file | lines | covered |", "|---|---|---|"]
covered = count = 0
for file in sorted(files, key=lambda file: file["filename"]):
    name, lines = file["filename"], file["summary"]["lines"]
    if not name.startswith(root) or not lines["count"]:
        continue
    covered, count = covered + lines["covered"], count + lines["count"]
    table.append(f"| {name[len(root):]} | {lines['count']} | {lines['percent']:.1f} % |")
    if lines["percent"] < 95:
        short.append(name[len(root):])
table.append(f"| all | {count} | {100 * covered / count:.1f} % |")
open("docs/COVERAGE.md", "w").write("\n".join(table) + "\n")
print(table[-1])
if short:
    sys.exit("less than 95 % of the lines are covered in " + ", ".join(short))
PYTHON
