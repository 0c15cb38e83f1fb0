# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Senders that misbehave, of tests/lab/senders: the dossier's questions fail each of them where it is bad, and neither
Reno nor CUBIC."""

from __future__ import annotations

from dataclasses import replace

import pytest

from asymlab.dossier import answers, dossier
from asymlab.machine.image import open_image
from asymlab.run.execute import execute
from tests.shared import LAB, REPO

# By the scenario the question that each one must fail.
BAD = {
    "never_cuts": {"HEAVY": "heavy", "DROPS": "drops"},
    "cuts_seldom": {"HEAVY": "heavy", "DROPS": "drops"},
    "no_backoff": {"RETURN": "return"},
    "ignores_marks": {"MARKS": "MARKS cubic"},
    "stalls": {"IDLE": "idle"},
    "bursts": {"DROPS": "drops"},
}

pytestmark = [pytest.mark.lab, pytest.mark.skipif("uml" not in LAB, reason="minutes in QEMU")]


@pytest.mark.parametrize("sender", BAD)
def test_a_bad_sender_fails_where_it_is_bad_and_no_standard_does(sender, tmp_path):
    guest, asked = open_image(LAB), BAD[sender]
    name = str(REPO / "tests" / "lab" / "senders" / f"{sender}.bpf.c")
    made = dossier.of(name, ("cubic", "reno"), guest, 1, tmp_path)
    made = replace(made, tasks=[task for task in made.tasks if task.case.scenario.id in asked])
    rows = [a.rows for s in answers.judged(made, execute(made.tasks, guest)) for a in s.answers]
    words = {row[name].id: [one.verdict for one in row.values()] for row in rows}
    assert {id: words[id][0] for id in asked.values()} == dict.fromkeys(asked.values(), "fails")
    assert {word for _, *standards in words.values() for word in standards} == {"holds"}
