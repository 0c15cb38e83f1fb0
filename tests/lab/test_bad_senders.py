# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Senders that misbehave, of tests/lab/senders: the dossier's questions fail each of them where it is bad, CUBIC in
none, and Reno in two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from asymlab.dossier import answers, dossier
from asymlab.machine.image import open_image
from asymlab.run.execute import execute
from tests.shared import LAB, REPO

# By the scenario the questions that each one must fail.
BAD = {
    "never_cuts": {
        **{"HEAVY": "heavy", "HEAVIER": "heavy 20%", "DROPS": "drops, breaker drops", "TAIL": "cut"},
        **{"CROWD": "crowd drops, crowd", "LATE": "late", "RTTS-TEN": "rtts ten", "ONE": "one", "TEN": "ten"},
        **{"AQM-BESIDE": "RED beside cubic, PIE beside cubic", "LTE": "lte delay"},
    },
    "cuts_seldom": {"HEAVY": "heavy", "DROPS": "drops", "TAIL": "cut"},
    "constant": {"HEAVY": "heavy, breaker", "HEAVIER": "heavy 20%, heavy 40%", "TAIL": "cut"},
    "no_backoff": {"RETURN": "return"},
    "ignores_marks": {"MARKS": "MARKS cubic"},
    "stalls": {"IDLE": "idle"},
    "grows_unused": {"LIMITED": "limited"},
    "bursts": {"DROPS": "drops", "LTE": "lte", "FADE": "fade over"},
    "timid": {
        **{"LATE": "left", "BURST": "burst over", "ONE": "one own", "UPLOAD": "upload own"},
        "AQM-BESIDE": "RED beside own, PIE beside own",
    },
}
# Reno fills a queue of seven packets less than CUBIC, and its flows of unequal RTT share less evenly.
RENO_FAILS = {"tail 7", "rtts ten"}

pytestmark = [pytest.mark.lab, pytest.mark.skipif("uml" not in LAB, reason="minutes in QEMU")]


@pytest.mark.parametrize("sender", BAD)
def test_a_bad_sender_fails_where_it_is_bad_and_no_standard_does(sender, tmp_path):
    guest, asked = open_image(LAB), BAD[sender]
    name = str(REPO / "tests" / "lab" / "senders" / f"{sender}.bpf.c")
    made = dossier.of(name, ("cubic", "reno"), guest, 1, tmp_path)
    made = replace(made, tasks=[task for task in made.tasks if task.case.scenario.id in asked])
    rows = [a.rows for s in answers.judged(made, execute(made.tasks, guest)) for a in s.answers]
    words = {row[name].id: [one.verdict for one in row.values()] for row in rows}
    bad = [id for ids in asked.values() for id in ids.split(", ")]
    assert {id: words[id][0] for id in bad} == dict.fromkeys(bad, "fails")
    standards = {id: row[1:] for id, row in words.items()}
    assert standards == {id: ["holds", "fails" if id in RENO_FAILS else "holds"] for id in words}
