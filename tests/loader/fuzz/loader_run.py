# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
The loader's readers under libFuzzer, AddressSanitizer and UBSan: of objects, of answers by netlink, of text; then
damaged objects for the built asymcc.

`python -m tests.loader.fuzz.loader_run --seconds N` prints how many inputs each had. Faults are
in build/fuzz; a reader repeats it: `build/fuzz/loader_object FILE`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.live.harness import compile_bpf
from tests.loader.fuzz import loader_mutants

ROOT = Path(__file__).resolve().parents[3]
HERE = ROOT / "tests" / "loader" / "fuzz"
OUT = ROOT / "build" / "fuzz"
READERS = {"object": 16384, "netlink": 4096, "text": 256}  # and the most bytes of an input
MUTANTS_A_SECOND = 100
INCLUDES = [f"-I{ROOT / 'bpf'}", f"-I{ROOT / 'loader'}", "-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu"]


def call(*argv) -> None:
    subprocess.run([str(a) for a in argv], check=True, timeout=300)


def why_not() -> str | None:
    """libFuzzer's part of clang is a package of its own."""
    probe = subprocess.run(
        ["clang", "-fsanitize=fuzzer,address", "-x", "c", "-o", "/dev/null", "-"],
        capture_output=True,
        text=True,
        timeout=60,
        input="int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && !n; }",
    )
    return "clang has no libFuzzer: install libclang-rt-dev" if probe.returncode else None


def build(reader: str) -> Path:
    OUT.mkdir(parents=True, exist_ok=True)
    program = OUT / f"loader_{reader}"
    flags = "-g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -D_GNU_SOURCE"
    call("clang", *flags.split(), *INCLUDES, HERE / f"loader_{reader}.c", "-o", program, "-lbpf")
    return program


def seeds(reader: str) -> Path:
    if reader != "object":
        return HERE / "loader_corpus" / reader
    folder = OUT / "seeds_object"
    folder.mkdir(parents=True, exist_ok=True)
    compile_bpf(HERE / "loader_seed.bpf.c", folder / "seed.bpf.o")
    call("llvm-strip", "-g", folder / "seed.bpf.o")
    return folder


def run(reader: str, *limits: str) -> tuple[int, int]:
    """Numbers of inputs and of edges reached; an error tells what was found."""
    grown = OUT / f"corpus_{reader}"
    grown.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [
            build(reader),
            f"-max_len={READERS[reader]}",
            "-close_fd_mask=3",
            "-print_final_stats=1",
            "-use_value_profile=1",
            "-timeout=20",
            f"-artifact_prefix={OUT}/loader_{reader}-",
            *limits,
            grown,
            seeds(reader),
        ],
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode:
        raise AssertionError(f"loader_{reader}:\n{done.stderr[-6000:]}")
    count, edges = re.search(r"number_of_executed_units: (\d+)", done.stderr), re.findall(r"cov: (\d+)", done.stderr)
    assert count and edges, done.stderr
    return int(count[1]), int(edges[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="fuzzing of what asymcc reads")
    parser.add_argument("--seconds", type=int, default=300)
    args = parser.parse_args()
    if why := why_not():
        sys.exit(why)
    share = max(1, args.seconds // (len(READERS) + 1))
    for reader in READERS:
        count, edges = run(reader, f"-max_total_time={share}")
        print(f"{reader}: {count:,} inputs, {edges} edges", flush=True)
    count = share * MUTANTS_A_SECOND
    print(f"damaged objects: {count:,} read by asymcc, {loader_mutants.run(count, seed=1):,} told to be bad")


if __name__ == "__main__":
    main()
