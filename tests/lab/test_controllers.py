# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The register of controllers."""

from __future__ import annotations

from matplotlib.figure import Figure

from asymlab import controllers
from asymlab.controller import CYCLE
from asymlab.controllers import LINUX, REGISTER

from shared import REPO

SOURCES = {p.name.removesuffix(".bpf.c") for p in REPO.glob("bpf/[cr]*/*.bpf.c")}


def test_each_source_has_a_record():
    assert SOURCES <= set(REGISTER) and not SOURCES & set(LINUX)


def test_controllers_differ_in_more_than_colour():
    looks = [record.look for record in REGISTER.values()]
    assert len({str(look) for look in looks}) == len(looks)
    own = [look for look in looks if look not in CYCLE]
    assert len(own) >= len(SOURCES) and not {look["marker"] for look in own} & {look["marker"] for look in CYCLE}
    for what in ("color", "marker"):
        assert len({look[what] for look in own}) == len(own)


def test_one_without_a_record_can_be_drawn_and_always_looks_the_same():
    record = controllers.of("nobody")
    assert record.label == "nobody" and record.look == controllers.of("nobody").look != controllers.of("nobody2").look
    ax = Figure().subplots()
    for name in ("nobody", *REGISTER):
        ax.plot([1, 2], [1, 2], label=controllers.of(name).label, **controllers.of(name).look)
    ax.figure.canvas.draw()
