# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Under a kernel's lockdown: what works, what is refused, in which words.

This kernel has none: its file is one of ours, and the objects call a helper that no kernel has in place of the one that
a lockdown takes away. The verifier refuses both in the same place.
"""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.live.harness import ASYMCC, ROOT, asymcc, compile_bpf, pytestmark, run  # noqa: F401

WITHOUT = "#define bpf_probe_read_kernel(to, n, from) ((long (*)(void *, unsigned int, const void *))9999)(to, n, from)"
CONFIDENTIALITY = "none integrity [confidentiality]"


def under(lockdown: str, *argv) -> CompletedProcess:
    over = f"mount -t tmpfs none /sys/kernel/security && echo '{lockdown}' > /sys/kernel/security/lockdown"
    return run("unshare", "-m", "sh", "-c", f'{over} && exec "$0" "$@"', ASYMCC, *argv, check=False)


@pytest.fixture
def objects(tmp_path) -> Path:
    """The tracer, and what moves open sockets, on a kernel that refuses bpf_probe_read_kernel()."""
    for name in ("trace", "move"):
        source = tmp_path / f"{name}.c"
        source.write_text(f'{WITHOUT}\n#include "{ROOT}/bpf/tools/{name}.bpf.c"\n')
        compile_bpf(source, tmp_path / f"{name}.bpf.o")
    return tmp_path


@pytest.mark.parametrize(
    "lockdown, state, text",
    [
        (CONFIDENTIALITY, "note", "trace has no --flow, --link and --state, use no --existing"),
        ("none [integrity] confidentiality", "ok", "integrity, which hinders nothing"),
        ("[none] integrity confidentiality", "ok", "none, which hinders nothing"),
        ("none integrity", None, ""),
        ("", None, ""),
    ],
)
def test_doctor_tells_what_it_refuses(lockdown, state, text):
    """All else is told as before."""
    done = under(lockdown, "doctor", "--json")
    rows = {r["check"]: r for r in json.loads(done.stdout)}
    row = rows.pop("lockdown", None)
    assert (row and row["state"]) == state and (not row or text in row["text"])
    assert rows.keys() == {r["check"] for r in json.loads(run(ASYMCC, "doctor", "--json", check=False).stdout)}
    assert done.returncode == any(r["state"] == "bad" for r in rows.values())


@pytest.mark.parametrize("option", [("--flow", "192.0.2.1:80"), ("--link", "lo"), ("--state",)], ids=str)
def test_trace_names_what_it_cannot_do(objects, tmp_path, option):
    words = ("trace", "--objects", objects, "-t", "0", "-o", tmp_path / "out")
    assert under(CONFIDENTIALITY, *words).stdout.startswith("tracing\n")
    done = under(CONFIDENTIALITY, *words, *option)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "lockdown (confidentiality)" in done.stderr and "--flow, --link and --state" in done.stderr
    assert "the kernel's verifier rejects" in under("none [integrity] confidentiality", *words, *option).stderr


def test_open_sockets_are_not_moved(objects):
    """Nothing else is done then."""
    before = asymcc("list", "--json")
    done = under(CONFIDENTIALITY, "use", "reno", "--default", "--existing", "--objects", objects)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "another controller: the kernel's lockdown (confidentiality)" in done.stderr
    assert asymcc("list", "--json") == before
