# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Built objects, damaged: a few bytes or words changed, half of them in the BTF, or the end cut off. `asymcc doctor` reads
them and must live.

`python -m tests.loader.fuzz.loader_mutants --count N [--seed S]` prints how many were tried.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from asymlab.controllers import built_in

BUILD = Path(__file__).resolve().parents[3] / "build"
BTF_MAGIC = b"\x9f\xeb\x01\x00"
WORDS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
BATCH = 100


def mutants(seed: int) -> Iterator[bytes]:
    """Without end, and the same for a seed and the same objects."""
    objects = [(BUILD / f"{name}.bpf.o").read_bytes() for name in built_in(BUILD)]
    rng = random.Random(seed)
    while True:
        data = bytearray(rng.choice(objects))
        btf = data.find(BTF_MAGIC) if rng.random() < 0.5 else 0
        for _ in range(rng.choice((1, 1, 2, 4, 16))):
            at = rng.randrange(btf, len(data) - 4)
            kind = rng.randrange(4)
            if kind == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                data[at] = rng.randrange(256)
            else:
                word = rng.choice(WORDS) if kind == 2 else rng.randrange(1 << 12)
                at -= at % 4
                data[at : at + 4] = word.to_bytes(4, "little")
        yield bytes(data[: rng.randrange(len(data))] if rng.random() < 0.05 else data)


def doctor(files: dict[str, bytes]) -> dict[str, str]:
    """The fault of each file: "" if it is good. Wrong if asymcc dies, or tells of one twice."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / f"{name}.bpf.o").write_bytes(data)
        done = subprocess.run(
            [BUILD / "asymcc", "doctor", "--json", "--objects", folder], capture_output=True, text=True, timeout=300
        )
        assert done.returncode in (0, 1), f"asymcc doctor ended with {done.returncode}: {done.stderr[-500:]}"
        checks = [(line["check"], line["text"]) for line in json.loads(done.stdout) if line["check"] in files]
    assert len(checks) == len(dict(checks)), checks
    assert done.stderr.isascii() and done.stderr.replace("\n", "").isprintable(), done.stderr
    return dict.fromkeys(files, "") | dict(checks)


def run(count: int, seed: int) -> int:
    """How many of the mutants are told to be bad."""
    source, bad = mutants(seed), 0
    for start in range(0, count, BATCH):
        states = doctor({f"m{n}": next(source) for n in range(start, min(start + BATCH, count))})
        bad += sum(text != "" for text in states.values())
    return bad


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="damaged objects for asymcc doctor")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(f"damaged objects: {args.count} read, {run(args.count, args.seed)} told to be bad")
