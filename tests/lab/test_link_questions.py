# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab link`: who fails which question, and which of them decides."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from asymlab.guest.wire import dump
from asymlab.link import answer, link, path
from asymlab.link.row import Replies, Upload
from asymlab.machine.image import open_image
from asymlab.plan.topology import plan_job
from asymlab.results.store import Run
from tests.ktap import built
from tests.lab.test_link import LINK, beside, row, text_of
from tests.shared import LAB, asymlab, some_hop, some_job


def with_upload(*pairs, invalid=()):
    """Mbit/s of a download and an upload, on a link of 10 and 1 Mbit/s: its own, and CUBIC's."""
    record = {"invalid": list(invalid), "identity": {"job": dump(some_job(watch=[some_hop(10e6)]))}}
    flows = ([{"goodput_bps": rate * 1e6} for rate in pair] for pair in pairs)
    return Upload(*(Run(Path("/nowhere"), record | {"metrics": {"flows": of}}) for of in flows))


def in_replies(*seconds, end_s=9.0):
    """A run of replies that are asked for each second from the first on, and take so long."""
    flow = {"id": 0, "controller": "x", "src": "src0", "dst": "dst0", "src_addr": "10.0.0.1", "dst_addr": "10.0.0.2"}
    flow |= {"start_s": 0.0, "stop_s": None, "resume_s": None, "reply_bytes": 1000, "every_s": 1.0}
    job = dump(some_job(duration_s=end_s)) | {"flows": [flow]}
    asked = [(i * 10**9, round(took * 1e9)) for i, took in enumerate(seconds)]
    return Run(Path("/nowhere"), {"agent": {"replies": {"0": asked}}, "invalid": [], "identity": {"job": job}})


@pytest.mark.parametrize(
    ("given", "fails"),
    [
        ({"upload": with_upload((6.0, 1.0), (9.0, 1.0))}, []),
        ({"upload": with_upload((4.0, 1.0), (9.0, 1.0))}, [path.UPLOAD]),  # itself
        ({"upload": with_upload((9.0, 0.4), (9.0, 1.0))}, [path.UPLOAD]),  # the upload
        ({"four": beside((1.2, 1.2), usual=1.2, flows=4)}, []),
        ({"four": beside((1.9, 0.5), usual=1.2, flows=4)}, [path.FOUR]),
        ({"replies": Replies(in_replies(*[0.1] * 9), in_replies(*[0.06] * 9))}, []),
        ({"replies": Replies(in_replies(*[0.1] * 9), in_replies(*[0.04] * 9))}, [path.REPLIES]),
        ({"replies": Replies(in_replies(0.1, 0.1), in_replies(*[0.1] * 9))}, [path.REPLIES]),  # the third takes 7 s
        ({"replies": Replies(in_replies(), in_replies(*[0.1] * 9))}, [path.REPLIES]),
        ({"usual": row("cubic", 9.6, 0.05).run}, []),
        ({"usual": row("cubic", 9.6, 0.05).run, "run": row("fast", 4.5, 0.05).run}, [""]),
    ],
)
def test_who_fails_what(given, fails):
    """Half of what CUBIC has there, and leaves others, is enough."""
    r = replace(row("fast", 9.6, 0.05), **given)
    assert list(r.fails()) == fails and r.serves == (not fails)


STARVED = (3.0, 0.9)  # with CUBIC: less than half of what the download has alone


@pytest.mark.parametrize(
    ("usual", "best", "asks"),
    [
        (STARVED, (4.0, 0.9), True),
        ((9.0, 0.3), (9.0, 0.4), True),  # less than half of the uplink
        (STARVED, (5.0, 0.6), False),  # a controller keeps both
        ((5.0, 0.6), (9.0, 0.4), False),
    ],
)
def test_where_the_router_is_asked(usual, best, asks, tmp_path, monkeypatch):
    """CUBIC with an upload, and the best of them with one, decide about one more run."""
    monkeypatch.setattr(link, "FOLDER", tmp_path)
    alone, guest, runs = row("cubic", 9.6, 0.06), open_image(LAB), []
    rows = [
        replace(alone, usual=alone.run, upload=with_upload(usual, usual)),
        replace(row("fusion", 9.6, 0.05), usual=alone.run, upload=with_upload(best, usual)),
    ]
    link.shaped(LINK, rows, guest, runs.append)
    assert bool(runs) == asks
    for (task,) in runs:
        job = plan_job(task.case, 1)
        assert job.uplink.dev == "sw3-wire2" and len(job.watch) == 2
        assert (job.watch[0].forward.rate_bps, job.watch[0].reverse.rate_bps) == (10e6, 1.5e6)


@pytest.mark.parametrize(
    ("pair", "invalid", "told"),
    [
        ((8.0, 0.8), [], " --dev DEVICE` there. A download by CUBIC then has 8 Mbit/s and an upload 0.8, without 3 "),
        ((8.0, 0.4), [], "` there does not help: a download by CUBIC has 8 Mbit/s and an upload 0.4, without 3 "),
        ((8.0, 0.8), ["late"], "` there was tried, and its run is invalid: late"),
    ],
)
def test_what_the_router_may_do_is_one_line(pair, invalid, told):
    alone = row("cubic", 9.6, 0.06)
    rows = [replace(alone, usual=alone.run, upload=with_upload(STARVED, STARVED))]
    *_, nothing, line = answer.words(LINK, rows, with_upload(pair, STARVED, invalid=invalid))
    assert not nothing and line.startswith(f"If the router ahead of the modem is yours: `asymcc uplink{told}")


@pytest.mark.lab
def test_the_router_of_a_cable_line(tmp_path):
    """Its modem's queue is 250 ms long, and ACKs of the download wait in it behind the upload."""
    words = f"link --image {LAB} --like docsis-3.0 cubic".split()
    text = asymlab(*words, env={"ASYMLAB_STORE": str(tmp_path)}).stderr
    pair = r"([\d.]+) Mbit/s and an upload ([\d.]+)"
    line = re.search(rf"asymcc uplink --dev DEVICE` there. A .* then has {pair}, without {pair}\.$", text, re.M)
    down, up, down_without, up_without = (float(number) for number in line.groups())
    assert down > 2 * down_without and up > 0.9 * up_without


@built
def test_an_upload_decides(snapshot):
    """The least RTT of what is alike alone, but nothing beside an upload. Then CUBIC is left, and is told as such."""
    usual = with_upload((9.0, 1.0), (9.0, 1.0))
    rows = [
        replace(row("cubic", 9.6, 0.06, met=beside(usual=4.8)), upload=usual),
        replace(row("taichung", 9.6, 0.05), upload=with_upload((2.0, 1.0), (9.0, 1.0))),
        replace(row("fusion", 9.6, 0.055), upload=with_upload((7.0, 1.0), (9.0, 1.0))),
    ]
    assert [r.name for r in answer.contenders(rows)] == ["cubic"]
    better = replace(rows[2], upload=with_upload((8.5, 1.0), (9.0, 1.0)), beside=beside((4.8, 4.8)))
    assert answer.contenders([*rows[:2], better])[-1] is better
    text = text_of(answer.words(LINK, rows), answer.words(LINK, [*rows[:2], better]))
    assert "use taichung" not in text and "nothing helps here: keep CUBIC" in text and "use fusion --default" in text
    snapshot(text)
