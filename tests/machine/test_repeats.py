# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`make check-repeats` in small, and that it finds what differs."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace

import pytest

from asymlab.machine import vm
from asymlab.machine.image import IMAGES, open_image
from asymlab.plan import scenario
from asymlab.run.tasks import plan_runs
from tests.live.resume import Progress
from tests.machine import repeats
from tests.shared import BUILD, REPO

pytestmark = pytest.mark.lab
CANARY = REPO / "experiments" / "bench" / "cases.toml:canary"


def test_a_run_repeats_beside_a_load_and_by_a_second_image(tmp_path, capsys):
    first = open_image()
    tasks = plan_runs(scenario.load(CANARY), first)
    shutil.copytree(first.folder, tmp_path / "image" / "6.12")
    for file in BUILD.glob("*.bpf.o"):
        shutil.copy(file, tmp_path)
    second = repeats.second_image(tmp_path, "6.12", first)
    kept = tmp_path / "repeats.json"
    assert repeats.repeat(3, tasks, (first, second), Progress(kept, [], [])) == 3
    assert capsys.readouterr().out.splitlines()[-1] == "3 of 3 identical"
    # Interrupted after it, it makes no run anew: the images could not.
    nowhere = replace(first, folder=tmp_path / "none")
    assert repeats.repeat(3, tasks, (nowhere, nowhere), Progress(kept, [], [])) == 3
    (tmp_path / "fast.bpf.o").write_bytes(b"")
    with pytest.raises(SystemExit, match="not the same: fast.bpf.o"):
        repeats.second_image(tmp_path, "6.12", first)
    with pytest.raises(SystemExit, match="not the same: images"):
        repeats.second_image(BUILD, "6.12", replace(first, hash="0"))


@pytest.mark.parametrize(
    "remains, output",
    [
        ({"trace.bin": "b", repeats.EXECUTED: "7"}, "CANARY seed 1, beside a load: others: trace.bin"),
        ({"trace.bin": "a", repeats.EXECUTED: "8"}, "CANARY seed 1, beside a load: others: instructions"),
        ({"failed": "no end"}, "CANARY seed 1, beside a load: no end"),
    ],
)
def test_a_run_that_differs_is_named(remains, output, capsys):
    guest = open_image()
    tasks = plan_runs(scenario.load(CANARY), guest)
    progress = Progress(None, [], [])
    progress.done = {"0": {"trace.bin": "a", repeats.EXECUTED: "7"}, "1": remains}
    assert repeats.repeat(2, tasks, (guest, guest), progress) == 1
    assert f"run 2: {output}" in capsys.readouterr().out


@pytest.mark.skipif(not (IMAGES / "6.12-uml").exists(), reason="no image of the engine uml: make image ENGINE=uml")
def test_chance_is_that_of_the_published_runs(scenario_file):
    """It hangs on the seed, and on how often the agent looks at the clock before: each module that it imports does.

    Another number means that every result with losses by chance has changed.
    """
    file = scenario_file({"path": {"forward": {"loss": "1%", "jitter": "2ms"}}}, flow={"controller": "cubic"})
    guest = open_image("6.12-uml")
    (task,) = plan_runs(scenario.load(file), guest)
    files, _ = vm.run(guest, task.job, task.objects)
    assert hashlib.sha256(files["trace.bin"]).hexdigest()[:16] == "a199521303b11877"
