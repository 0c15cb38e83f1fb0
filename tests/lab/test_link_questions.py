# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab link`: who fails which question, and which of them decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from asymlab.guest.wire import dump
from asymlab.link import answer, path
from asymlab.link.row import Replies, Upload
from asymlab.results.store import Run
from tests.ktap import built
from tests.lab.test_link import LINK, beside, row, text_of
from tests.shared import some_job


def with_upload(*pairs):
    """Mbit/s of a download and an upload: its own, and CUBIC's."""
    runs = [
        Run(Path("/nowhere"), {"metrics": {"flows": [{"goodput_bps": r * 1e6} for r in pair]}, "invalid": []})
        for pair in pairs
    ]
    return Upload(*runs)


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
