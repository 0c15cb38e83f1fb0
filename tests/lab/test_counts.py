# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab profile`: what is computed from counts, and what it refuses. machine/test_profile.py has the counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from asymlab import LabError
from asymlab.machine.arch import NATIVE
from asymlab.machine.image import Image
from asymlab.paths import EXPERIMENTS
from asymlab.plan import scenario
from asymlab.profile import bench, profile
from asymlab.profile.parts import Code, Part
from asymlab.profile.profile import Half, Profile
from asymlab.profile.programs import PAGE, UNKNOWN, Programs, segments
from asymlab.profile.symbols import Range
from tests.shared import asymlab, one_line

SLOW, VETH, QUEUED = Part("kernel", "slow", "slow"), Part("module", "veth", "a"), Part("module", "veth", "b")


def profile_of(long: dict, short: dict, packets=(300, 100)) -> Profile:
    return Profile(*(Half(None, n, Counter(c), 0) for n, c in zip(packets, (long, short))))


def test_a_packet_and_fixed_make_up_the_run():
    p = profile_of({SLOW: 5000, VETH: 700, QUEUED: 60}, {SLOW: 3000, VETH: 700, QUEUED: 0})
    assert p.a_packet(5000, 3000) == 10 and p.fixed(5000, 3000) == 2000
    assert p.a_packet(700, 700) == 0 and p.fixed(700, 700) == 700
    for half in (p.long, p.short):
        total = p.long.total, p.short.total
        assert p.a_packet(*total) * half.packets + p.fixed(*total) == pytest.approx(half.total)


def test_sums_lose_nothing():
    p = profile_of({SLOW: 50, VETH: 5, QUEUED: 7}, {SLOW: 20})
    assert p.sums(lambda part: part.part, "module") == {"veth": (12, 0)}
    assert p.sums(lambda part: part.part) == {"veth": (12, 0), "slow": (50, 20)}


def test_code_is_found_up_to_its_end():
    code = Code([Range(200, 240, "bpf", "b", "b"), Range(100, 150, "bpf", "a", "a")])
    ranges = [code.at(a) for a in (99, 100, 149, 150, 200, 239, 240)]
    assert [r and r.name for r in ranges] == [None, "a", "a", None, "b", "b", None]


def test_user_code_is_told_by_its_bytes_and_its_place():
    """Two programs at the same addresses; a block too short to tell belongs to one that is known to be there."""
    files = {name: Path(name).resolve().read_bytes() for name in ("/usr/bin/python3", "/usr/bin/env")}
    python, env = (segments(name, elf)[0] for name, elf in files.items())
    programs, at = Programs(files), 0x4321
    blocks = [(s.address + at, s.code[at : at + 31]) for s in (python, env)]
    moved = [(s.address + 7 * PAGE + at + 40, s.code[at + 40 : at + 71]) for s in (python, env)]
    short = (python.address + at + 50, python.code[at + 50 : at + 53])
    wrong = (blocks[0][0] + 1, blocks[0][1])
    names = programs.name([*blocks, *moved, short, wrong, (0x7000, b"\x90" * 31)])
    assert names == [*files, *files, "/usr/bin/python3", UNKNOWN, UNKNOWN]


def case(scenario_file, **more):
    return scenario.load(scenario_file(**more))


def test_the_shorter_run_ends_after_all_changes(scenario_file):
    assert profile.shorter(case(scenario_file)[0]) == 2_000_000
    assert profile.shorter(case(scenario_file, flow={"stop": "2400ms"})[0]) == 2_700_000


def test_a_profile_is_of_one_run(scenario_file):
    swept = case(scenario_file, sweep={"flows.controller": ["reno", "cubic"]})
    with pytest.raises(LabError, match="2 runs; a profile is of one: --at KEY=VALUE and --seed"):
        profile.one(swept)
    assert profile.one(swept[:1]) is swept[0]


@pytest.mark.parametrize(
    "options, words",
    [
        (["--short", "1s"], "measure_from must come before duration"),
        (["--short", "soon"], "run.duration"),
        (["--image", "none"], "image none: not made"),
        (["--at", "mtu=1"], "sweeps nothing"),
    ],
)
def test_wrong_options_are_told_in_one_line(scenario_file, options, words):
    one_line(asymlab("profile", scenario_file(), *options), words)


def test_a_missing_file_is_told_in_one_line(tmp_path):
    one_line(asymlab("profile", tmp_path / "none.toml"), "No such file")


def test_a_controllers_own_code_and_the_way_there():
    """The tracer's programs are in neither, nor is what another controller executes."""
    parts = {"fast_cong_avoid": 300, "segment": 5000, "trampolines": 80, "bpf_vegas_init": 7}
    long = {Part("bpf", name, name): n for name, n in parts.items()}
    long |= {Part("kernel", "__bpf_prog_enter", ""): 20, SLOW: 900, Part("module", "tcp_vegas", "cong_avoid"): 90}
    long |= {Part("kernel", "cubictcp_cong_avoid", ""): 60}
    p = profile_of(long, {Part("bpf", "fast_cong_avoid", "fast_cong_avoid"): 100})
    programs = {"fast_cong_avoid"}
    assert bench.cost(p, 10, "fast", programs) == bench.Cost("fast", 20, 10, 10, 200)
    assert bench.cost(p, 10, "fast", programs).a_packet == 1.5
    assert [bench.cost(p, 10, name, None).all for name in ("vegas", "cubic", "reno")] == [9, 6, 0]


def test_a_program_is_found_by_the_name_that_the_kernel_keeps():
    """15 characters of it."""
    name = "bpf_highspeed_cong_avoid"
    p = profile_of({Part("bpf", name, name): 300}, {Part("bpf", name, name): 100})
    assert bench.cost(p, 10, "bpf_highspeed", {name[:15]}).own == 20


def test_a_controller_that_the_bench_does_not_have():
    one_line(asymlab("bench", "nobody"), "nobody: no controller of", "cases.toml:ack")


def test_the_bench_is_of_the_named_cases(monkeypatch):
    file = EXPERIMENTS / "bench" / "cases.toml:ack"
    monkeypatch.setattr(bench, "_of_case", lambda case, *_: case.scenario.flows[0].controller)
    guest = Image(file.parent, NATIVE, "", "qemu", "", {}, 10)
    assert bench.bench(file, guest, ["nreno", "fast"]) == ["fast", "nreno"]
    assert len(bench.bench(file, guest, [])) > 15
    assert bench.bench(file.with_name("cases.toml:ack-l4s"), guest, ["prague"]) == ["prague"]
