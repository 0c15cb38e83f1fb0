# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`make check-repeats` in small, and that it finds what differs."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace

import pytest

from asymlab.machine import on_uml
from asymlab.machine.build import INIT, START
from asymlab.machine.cpio import Cpio
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
def test_chance_follows_from_the_seed_alone(scenario_file, tmp_path):
    """An agent with more modules looks at the clock more often before its job, and a guest with more memory has other
    numbers at its boot: ports, losses and jitter are the same."""
    file = scenario_file({"path": {"forward": {"loss": "1%", "jitter": "2ms"}}}, flow={"controller": "cubic"})
    guest = open_image("6.12-uml")
    shutil.copytree(guest.folder, tmp_path, dirs_exist_ok=True)
    cpio = Cpio()
    cpio.file("lab/init", INIT.replace(START, START + b"import time\n" + b"time.monotonic()\n" * 1000), 0o755)
    with open(tmp_path / "root.cpio", "ab") as archive:  # the kernel takes one archive behind another
        archive.write(cpio.pack())
    other = replace(guest, folder=tmp_path, sha256={})
    (task,) = plan_runs(scenario.load(file), guest)
    traces = [
        on_uml.run(image, replace(task.job, seed=seed), task.objects, maps, None, 120, None)[0]["trace.bin"]
        for image, seed, maps in ((guest, 1, 0), (other, 1, 0), (guest, 1, 2 * on_uml.MAPS_MB), (guest, 2, 0))
    ]
    assert traces[0] == traces[1] == traces[2] != traces[3]
    # Another number means that every published result with chance is another sample.
    assert hashlib.sha256(traces[0]).hexdigest()[:16] == "c8aa166716786dc6"
