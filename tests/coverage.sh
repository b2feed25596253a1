#!/usr/bin/env bash
# Line coverage of caudal-core and caudal, written to docs/COVERAGE.md; fails if a file of
# caudal-core has less than 95 %, or caudal less than 90 %.
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
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-4}

cargo llvm-cov clean --workspace
cargo llvm-cov --package caudal-core --package caudal --package caudal-cli --all-features \
    --lib --bins --tests --lcov --output-path target/coverage.lcov
python3 - <<'PYTHON'
import collections, os, re, sys

LEAST = {"caudal-core": 95, "caudal": 90}
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod tests \{", re.MULTILINE)


def first_line_of_tests(path):
    """Line at which the tests within a source file begin."""
    text = open(path).read()
    tests = TESTS.search(text)
    return text.count("\n", 0, tests.start()) + 1 if tests else float("inf")


def percent(covered, lines):
    return 100 * covered / lines if lines else 100.0


root = os.getcwd() + "/crates/"
# Lines that can run, and those that have run.
crates, folders, files = (collections.defaultdict(lambda: [0, 0]) for _ in range(3))
place = None
for line in open("target/coverage.lcov"):
    key, _, value = line.strip().partition(":")
    if key == "SF":
        place = None
        crate, _, file = value.removeprefix(root).partition("/src/")
        if value.startswith(root) and crate in LEAST and not file.endswith("tests.rs"):
            folder = os.path.dirname(file) or "(root)"
            place = crates[crate], folders[crate, folder], files[crate, file]
            end = first_line_of_tests(value)
    elif key == "DA" and place:
        number, count = map(int, value.split(",")[:2])
        if number < end:
            for counts in place:
                counts[0] += 1
                counts[1] += count > 0

table = """# Coverage

Lines that the tests of caudal-core, caudal and caudal-cli run, without the examples in the
documentation. Written by `tests/coverage.sh`.

| crate | lines | covered | at least |
|---|---|---|---|
"""
short = [
    f"{crate}: {file}"
    for (crate, file), (lines, covered) in files.items()
    if crate == "caudal-core" and percent(covered, lines) < 95
]
for crate, least in LEAST.items():
    lines, covered = crates[crate]
    table += f"| {crate} | {lines} | {percent(covered, lines):.1f} % | {least} % |\n"
    if percent(covered, lines) < least:
        short.append(crate)
table += "\n| folder | lines | covered |\n|---|---|---|\n"
for (crate, folder), (lines, covered) in sorted(folders.items()):
    table += f"| {crate}: {folder} | {lines} | {percent(covered, lines):.1f} % |\n"
open("docs/COVERAGE.md", "w").write(table)
print(table)
if short:
    sys.exit("too few lines are covered in " + ", ".join(short))
PYTHON
