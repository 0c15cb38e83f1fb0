# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The search for a controller's worst path: its boxes, its steps, its aims, and a controller that is bad on purpose."""

from __future__ import annotations

import itertools
import math
import os
import re
import tomllib

import numpy as np
import pytest

from asymlab import LabError
from asymlab.machine.image import open_image
from asymlab.plan import scenario
from asymlab.plan.toml import toml
from asymlab.worst import box, worst
from asymlab.worst.aims import AIMS
from asymlab.worst.picture import picture
from asymlab.worst.search import Trial, least, search, together
from tests.ktap import built
from tests.shared import LAB, asymlab, one_line

RTT = 'rtt = ["5ms", "200ms"]\n'
SMALL = f'rate = ["2mbit", "2mbit"]\n{RTT}queue = [1, 1]\n'
# A window of ten packets, whatever the path.
DEAF = """#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

SEC("struct_ops") void BPF_PROG(deaf_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	((struct tcp_sock *)sk)->snd_cwnd = 10;
}
SEC("struct_ops") __u32 BPF_PROG(deaf_ssthresh, struct sock *sk) { return 10; }
SEC("struct_ops") __u32 BPF_PROG(deaf_undo, struct sock *sk) { return 10; }

SEC(".struct_ops") struct tcp_congestion_ops deaf = {
	.cong_avoid = (void *)deaf_avoid, .ssthresh = (void *)deaf_ssthresh, .undo_cwnd = (void *)deaf_undo, .name = "deaf",
};
"""


@pytest.fixture
def file(tmp_path):
    def write(text: str):
        (tmp_path / "box.toml").write_text(text)
        return tmp_path / "box.toml"

    return write


# --- boxes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, why",
    [
        (f"rate = 5\n{RTT}", "rate: the least and the most, a list of two"),
        (f'rate = ["1mbit"]\n{RTT}', "rate: the least and the most, a list of two"),
        (f'rate = ["9mbit", "1mbit"]\n{RTT}', "rate: from 100 to 1e+06kbit at the most, the less first"),
        (f'rate = ["1mbit", "9parsec"]\n{RTT}', "rate: '9parsec' is not a quantity such as"),
        ('rate = ["1mbit", "2mbit"]', "rtt: a box has it"),
        (f"{SMALL}ratio = [0, 5]", "ratio: from 1 to 2000 at the most"),
        (f'{SMALL}ratio = ["1", 5]', "ratio: '1' is no number"),
        (f"{SMALL}ratio = [nan, 5]", "ratio: from 1 to 2000"),
        (f'{SMALL}loss = ["0%", "90%"]', "loss: from 0 to 50%"),
        (f"{SMALL}width = [1, 2]", "width: not a quantity; there are rate, ratio"),
        (f'{SMALL}aqm = ["drop"]', "aqm: a list of none, "),
        (f"{SMALL}ack = []", "ack: a list of delayed, every"),
        ("rate =", "box.toml: not TOML: Invalid value"),
        (f"{SMALL}uploads = [0, 1.5]", "uploads: whole numbers"),
        (f'{SMALL}jitter = ["0ms", "0.001ms"]', "jitter: 0, or 0.01ms and more"),
        (f'{SMALL}loss = ["0%", "1e-320%"]', "loss: 0, or 0.0001% and more"),
        (f"{SMALL}change = [1, 1{'0' * 400}]", "change: from 0.01 to 100 at the most"),
        (f"{SMALL}change = [1, 1{'0' * 5000}]", "box.toml: not TOML: "),
        (f"{SMALL}change = [1, {'[' * 400 + ']' * 400}]", "is no number"),
        (f"{SMALL}change = [1, {'[' * 4000 + ']' * 4000}]", "too deep in each other"),
        (f'{SMALL}ack = [["delayed"]]', "ack: a list of delayed, every"),
    ],
)
def test_a_box_that_is_none(file, text, why):
    with pytest.raises(LabError) as error:
        box.read(file(text))
    assert "box.toml: " in str(error.value) and why in str(error.value)


def test_a_box_that_is_not_there(tmp_path):
    with pytest.raises(LabError, match="nowhere.toml: No such file"):
        box.read(tmp_path / "nowhere.toml")


def test_a_box_of_endless_bytes_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 30 << 30)
    for name, words in (("fifo", "not a regular file"), ("sparse", "bytes, more than"), ("/dev/zero", "not a regular")):
        with pytest.raises(LabError, match=words):
            box.read(tmp_path / name)


def test_each_point_of_the_widest_box_and_of_the_narrowest_ones_is_a_scenario(tmp_path):
    rng = np.random.default_rng(1)
    for _ in range(60):
        sides: list = [box.Values(choice, choice.values) for choice in box.CHOICES]
        for quantity in box.QUANTITIES:
            least, most = quantity.bounds
            tick = quantity.tick or quantity.whole or most / 1e6
            ends = sorted(rng.choice([least, max(least, tick), most], 2))
            sides.append(box.Range(quantity, *map(float, ends)))
        path = box.Box(tuple(sides)).path(tuple(rng.choice([0.0, 0.2, 0.5, 1.0], len(sides))))
        (tmp_path / "a.toml").write_text(toml(box.tree(path, [{"controller": "cubic"}])))
        assert len(scenario.load(tmp_path / "a.toml")) == 1


@pytest.mark.parametrize("name, value", [("loss", 0), ("uploads", 0), ("uploads", 3), ("rate", 2000)])
def test_a_side_of_no_width_is_fixed(name, value):
    side = box.Range(box.OF_NAME[name], value, value)
    assert {side.value(x) for x in (0, 0.1, 0.5, 1)} == {value}
    question = worst.Question("reno", "goodput", 1, 1, 1, box.Box((side,)))
    assert picture(question, [Trial(0, (0.5,), 1.0)]).startswith(b"\x89PNG")


def test_the_default_boxes_have_all():
    boxes = [box.read(file) for file in (box.DEFAULT, *box.OF_TOOL.values())]
    assert {side.of.name for of in boxes for side in of.sides} == box.OF_NAME.keys()


@pytest.mark.parametrize("file, routed", [(box.DEFAULT, False), (box.OF_TOOL["uplink"], True)])
def test_each_point_of_a_default_box_is_a_scenario(tmp_path, file, routed):
    default = box.read(file)
    assert [side.of.name for side in default.sides] == list(tomllib.loads(file.read_text()))
    rng = np.random.default_rng(1)
    corners = itertools.islice(itertools.product((0.0, 1.0), repeat=len(default.sides)), 0, None, 97)
    for point in (*corners, *rng.uniform(size=(100, len(default.sides)))):
        path = default.path(tuple(map(float, point)))
        (tmp_path / "a.toml").write_text(toml(box.tree(path, [{"controller": "cubic"}], routed)))
        (case,) = scenario.load(tmp_path / "a.toml")
        assert case.scenario.path.chain[0].forward.rate == round(path["rate"] * 1000)


def test_a_side_goes_from_its_least_to_its_most():
    rate, loss = (box.Range(box.OF_NAME[name], low, high) for name, low, high in (("rate", 2e3, 2e4), ("loss", 0, 2)))
    assert [rate.value(x) for x in (0, 0.5, 1)] == [2000, 6320, 20000]
    assert [loss.value(x) for x in (0, 0.19, 0.2, 0.6, 1)] == [0, 0, 0.02, 0.2, 2]


# --- the search ----------------------------------------------------------------------------


def bowl(points):
    """Its least is 0 at 0.7, and some of it tells nothing."""
    return [math.nan if point[0] < 0.1 else sum((x - 0.7) ** 2 for x in point) for point in points]


def test_it_finds_the_least_and_goes_the_same_way_again():
    first = list(itertools.chain(*search(5, 400, 1, bowl)))
    assert 400 <= len(first) < 410 and least(first).value < 1e-3
    assert list(itertools.chain(*search(5, 400, 1, bowl)))[:50] == first[:50]
    assert list(itertools.chain(*search(5, 50, 2, bowl)))[:20] != first[:20]


def test_each_side_moves_alone_and_then_on_top_of_the_others():
    """Two sides are bad, one of them only beside the other, and a third tells nothing."""

    def judge(points):
        return [math.nan if p[2] else 1 - 0.5 * p[0] - 0.3 * p[0] * p[1] + 0.1 * p[3] for p in points]

    trials = list(itertools.chain(*together((0.0,) * 4, [(side, 1.0) for side in range(4)], judge)))
    assert [trial.number for trial in trials] == list(range(8)) and least(trials).point == (1.0, 1.0, 0.0, 0.0)
    assert not least(list(itertools.chain(*together((0.0,), [(0, 1.0)], lambda points: [math.nan] * len(points)))))
    near = list(itertools.chain(*search(5, 60, 1, bowl, Trial(9, (0.7,) * 5, 0.0))))
    assert near[0].number == 10 and len(near) >= 50 and near[0] != next(search(5, 60, 1, bowl))[0]


def test_a_plain_path_has_nothing_odd_and_a_seed_draws_its_rate():
    default = box.read(box.DEFAULT)
    paths = [default.path(default.plain(seed)) for seed in (1, 2)]
    odd = [name for path in paths for name, value in path.items() if value != box.OF_NAME[name].neutral]
    assert sorted(odd) == ["rate", "rate", "rtt", "rtt"]
    assert paths[0]["rate"] != paths[1]["rate"] and paths[0]["rtt"] != paths[1]["rtt"] and paths[0]["ratio"] == 1
    plain = default.plain(1)
    ends = default.ends(plain)
    assert [default.path(plain)[default.sides[at].of.name] != side_value(default, at, x) for at, x in ends] == 19 * [
        True
    ]
    odd = box.Box((box.Range(box.OF_NAME["loss"], 1, 2), box.Range(box.OF_NAME["rate"], 2000, 2000)))
    assert odd.path(odd.plain(1))["loss"] == 1 and odd.ends(odd.plain(1)) == [(0, 1.0)]


def test_a_path_that_is_made_plain_stays_in_the_box(file):
    class Lab:
        question = worst.question("reno", "goodput", None, 1, 1, file(SMALL + "change = [0.25, 4]\nratio = [1, 67]\n"))

        def values(self, paths):
            return [0.5 if paths[0]["change"] < 1 and paths[0]["ratio"] > 1 else 1.0]

    odd = Lab.question.box.path((0.0,) * 5) | {"rtt": 44.4, "change": 0.25, "ratio": 67.0}
    path, _ = worst.plain(odd, 0.5, Lab())
    assert (path["rtt"], path["change"], path["ratio"]) == (40, 0.25, 67)


def side_value(of: box.Box, at: int, x: float):
    return of.sides[at].value(x)


def test_where_nothing_is_told_there_is_no_least():
    assert least(list(itertools.chain(*search(3, 30, 1, lambda points: [math.nan] * len(points))))) is None


# --- a controller that is bad on purpose ---------------------------------------------------


@built
@pytest.mark.lab
def test_it_finds_the_long_path_of_a_window_that_never_grows(tmp_path, file):
    """Its goodput is ten packets an RTT. The scenario is left without what does not matter, and the command is repeated
    from the store."""
    (tmp_path / "deaf.bpf.c").write_text(DEAF)
    given = file(SMALL + 'ack = ["every", "delayed"]\naqm = ["fq_codel", "none"]\n')
    words = ("worst", tmp_path / "deaf.bpf.c", "--box", given, "--paths", "20", "--image", LAB)
    r = asymlab(*words, timeout=600)
    assert r.returncode == 0, r.stderr
    name = worst.question(str(tmp_path / "deaf.bpf.c"), "goodput", None, 20, 1, given).name
    found = tomllib.loads((worst.FOLDER / f"{name}-worst.toml").read_text())
    (worst.FOLDER / f"{name}.png").unlink()
    rtt = 2 * float(found["path"]["forward"]["delay"].removesuffix("ms"))
    value = float(r.stderr.split("seed 1: ")[1].split(";")[0])
    assert rtt > 100 and value == pytest.approx(10 * 1500 * 8 / (rtt / 1e3) / 2e6, rel=0.15)
    assert "fq_codel" not in found["path"]["forward"] and found["flows"][0]["ack"] == "delayed"
    assert [point["title"] for point in found["sweep"]["points"]] == ["deaf", "cubic"]
    again = asymlab(*words, timeout=600)
    assert again.stderr == r.stderr and (worst.FOLDER / f"{name}.png").exists()
    for left in worst.FOLDER.glob(f"{name}*"):
        left.unlink()


def test_searches_that_differ_in_anything_have_files_of_other_names(tmp_path):
    """The controllers' files, the boxes and the numbers of paths."""
    given = [tmp_path / f"{number}.toml" for number in range(3)]
    for box_file, more in zip(given, ("", 'aqm = ["none", "fq_codel"]\n', 'aqm = ["none"]\n')):
        box_file.write_text(SMALL + more)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.bpf.c").touch()
    asked = [(f"{tmp_path}/{folder}/mine.bpf.c", paths, box) for folder in "ab" for paths in (5, 6) for box in given]
    names = [worst.question(mine, "goodput", 1, paths, 1, box).name for mine, paths, box in asked]
    assert len(set(names)) == len(asked) == 12 and all(re.fullmatch(r"mine-goodput-1-1-[0-9a-f]{8}", n) for n in names)
    assert names == [worst.question(mine, "goodput", 1, paths, 1, box).name for mine, paths, box in asked]


def test_what_is_asked_wrong():
    one_line(asymlab("worst", "cubic", "--aim", "share", "--flows", "1", "--image", LAB), "--flows 1: shares are those")
    one_line(asymlab("worst", "nosuch", "--paths", "1", "--image", LAB), "no controller 'nosuch'; there are accsa")


@pytest.mark.parametrize("aim", ["goodput", "harm"])
def test_cubic_is_not_compared_with_itself(tmp_path, aim):
    with pytest.raises(
        LabError, match=f"--aim {aim}: compares a controller with cubic, so not cubic itself; it has sha"
    ):
        worst.question("cubic", aim, None, 1, 1, None)
    (tmp_path / "cubic.bpf.o").touch()
    other = worst.question(str(tmp_path / "cubic.bpf.o"), aim, None, 1, 1, None)
    titles = [point["title"] for point in other.tree(other.box.path((0.5,) * len(other.box.sides)))["sweep"]["points"]]
    assert len(set(titles)) == 2


def test_searches_beside_each_other_write_paths_of_their_own(tmp_path, monkeypatch, file):
    """Both have one name, and boxes of their own: each reads what it has written."""
    monkeypatch.setattr(worst, "FOLDER", tmp_path / "worst")

    def question(rate: str) -> worst.Question:
        return worst.question("reno", "goodput", None, 1, 1, file(SMALL.replace("2mbit", rate)))

    def rate(lab: worst.Lab) -> int:
        (case, _) = lab.cases(lab.question.box.path((0.5, 0.5, 0.5)))[1]
        return case.scenario.path.forward.rate

    with worst.lab_of(question("9mbit"), None, None) as one, worst.lab_of(question("2mbit"), None, None) as other:
        assert (rate(one), rate(other)) == (9_000_000, 2_000_000) and one.file != other.file
    assert not any((tmp_path / "worst").iterdir())


@pytest.mark.parametrize("tool, hops", [("uplink", 2), ("thin", 1)])
def test_a_tool_has_paths_of_its_own_beside_those_without_it(tmp_path, tool, hops):
    of = worst.question(tool, "goodput", None, 1, 1, None)
    path = of.box.path((0.9,) * len(of.box.sides))
    (tmp_path / "a.toml").write_text(toml(of.tree(path)))
    given, nothing = (case.scenario for case in scenario.load(tmp_path / "a.toml"))
    assert getattr(given, tool) and not getattr(nothing, tool)
    assert len(given.path.chain) == len(nothing.path.chain) == hops
    assert given.flows == nothing.flows and {flow.controller for flow in given.flows} == {"cubic"}
    if tool == "uplink":  # half of its paths are others than before at half of the time
        (change,) = given.changes
        assert change.direction == "reverse" and change.rate / 1000 == pytest.approx(
            path["rate"] / path["ratio"] * path["back_change"], rel=0.01
        )
        assert change.delay / 1000 == pytest.approx(path["rtt"] / 2 + path["farther"], rel=0.01)
    with pytest.raises(LabError, match=f"--aim harm: {tool} has goodput"):
        worst.question(tool, "harm", None, 1, 1, None)


def test_a_controller_has_the_parameters_that_it_is_given(tmp_path):
    """It alone: what it is compared with has none. Another value is another search."""
    fair, other = (
        worst.question("fast", "harm", None, 1, 1, None, worst.parameters([w])) for w in ("fair=1", "fair=0")
    )
    (tmp_path / "a.toml").write_text(toml(fair.tree(fair.box.path((0.5,) * len(fair.box.sides)))))
    mine, cubic = scenario.load(tmp_path / "a.toml")
    assert mine.scenario.controllers["fast"]["fair"] == 1
    assert [case.scenario.flows[0].controller for case in (mine, cubic)] == ["fast", "cubic"]
    assert len({fair.name, other.name, worst.question("fast", "harm", None, 1, 1, None).name}) == 3


@pytest.mark.parametrize("words", ["fair", "fair=x", "=1", "fair=1.5"])
def test_a_parameter_that_is_none(words):
    with pytest.raises(LabError, match=f"--with {words}: KEY=VALUE, a whole number"):
        worst.parameters([words])


@pytest.mark.parametrize("name", ["thin", "bbr"])
def test_what_takes_no_parameters(name):
    with pytest.raises(LabError, match=f"--with: {name} takes no parameters"):
        worst.question(name, "goodput", None, 1, 1, None, (("fair", 1),))


@pytest.mark.lab
@pytest.mark.parametrize("tool, aim, least, most", [("uplink", "queue", 0.6, 1), ("thin", "goodput", 1.3, math.inf)])
def test_what_a_tool_is_worth_on_one_path(tmp_path, tool, aim, least, most):
    """20 Mbit/s and 40 ms: a modem's 200 packets at 2 Mbit/s are 1.2 s, and ACKs at 100 kbit/s are too few."""
    of = worst.question(tool, aim, None, 1, 1, None)
    odd = {"ratio": 10, "uploads": 4} if tool == "uplink" else {"ratio": 200}
    path = {known.name: known.neutral for known in box.OF_NAME.values()} | {"rate": 20_000, "rtt": 40} | odd
    (value,) = worst.Lab(of, open_image(LAB), 1, tmp_path).values([path])
    assert least < value < most


def test_each_aim_is_told():
    shown = " ".join(asymlab("worst", "--help").stdout.split())
    assert all(f"{name}: {aim.about}" in shown for name, aim in AIMS.items())
