# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kernel's verifier must refuse these, one fault per hook (tests/verifier): with its own words, and nothing of it
stays."""

from __future__ import annotations

import re

import pytest

from asymlab.conformance.kernels import refusals
from asymlab.conformance.kernels.outcome import Result
from asymlab.machine import image
from tests.ktap import bad, built, column, recorded, told
from tests.shared import REPO

HOOKS = set(
    "init release ssthresh cong_avoid cong_control set_state cwnd_event in_ack_event pkts_acked undo_cwnd min_tso_segs "
    "sockops egress ingress trace_ack trace_queue".split()
)
pytestmark = built


def test_each_hook_that_is_in_use_has_a_fault():
    text = "".join(p.read_text() for p in (REPO / "bpf").rglob("*.bpf.[ch]"))
    used = {
        re.sub(r".*/|(struct_ops/)[a-z0-9]+?_", "", s)
        for s in re.findall(r'SEC\("struct_ops/(?:bpf_)?[a-z0-9]+_(\w+)"\)|SEC\("cgroup_skb/(\w+)"\)', text)
        for s in s
        if s
    }
    assert used <= HOOKS <= refusals.refused().keys() and len(used) == 13


@pytest.mark.lab
def test_in_a_guest():
    result = refusals.refused_in_guest(image.open_image("6.12"))
    assert not bad(result) and len(result.outcomes) > len(HOOKS)


def test_a_fault_that_the_verifier_takes_is_told():
    lines = {
        name: {"code": 255 if name.startswith("trace_") else 1, "words": "processed 3 insns", "left": []}
        for name in refusals.refused()
    }
    assert len(bad(refusals.were_refused(lines))) == len(lines)
    lines["init"] = {"code": 0, "words": "refused registered", "left": ["prog 7 refused_init"]}
    assert refusals.were_refused(lines).outcomes["refuses init"] == "exit 0, in the kernel: prog 7 refused_init"


def test_it_is_told_beside_the_objects():
    one = column()
    one.refused = Result({"refuses init": None, "refuses release": "taken"})
    fine, tests, _ = told([one], recorded())
    ok, _, objects = tests["6.1.0-2-amd64 (6.1.1-1)"]
    assert not fine and not ok and objects["fast"][0]
    assert objects["the verifier"] == (
        False,
        None,
        {"refuses init": (True, None, {}), "refuses release": (False, None, {})},
    )
