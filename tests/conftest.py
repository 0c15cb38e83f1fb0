# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How the tests share processes, and the fixture of all: a scenario to vary."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from pathlib import Path

import pytest

from tests.scenarios import write

# A shell's background jobs ignore SIGINT, and what they start does too: tests that interrupt begin as from a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def scenario_file(tmp_path):
    """Writes the scenario of tests/scenarios.py into the test's own folder, with what differs."""
    return functools.partial(write, tmp_path)


def pytest_addoption(parser):
    parser.addoption("--renew", action="store_true", help="write the expected outputs of tests/snapshots anew")


@pytest.fixture
def snapshot(request):
    """Compares a text with the one that tests/snapshots keeps for this test; `--renew` keeps this one instead."""

    def compare(text: str, name: str = "") -> None:
        words = request.node.path.stem, request.node.originalname, *([name] if name else [])
        file = Path(__file__).parent / "snapshots" / f"{'.'.join(words)}.txt"
        if request.config.getoption("--renew"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        assert text == file.read_text(), f"{file}: `pytest --renew` writes it anew"

    return compare


# The folders whose tests are for one process, which begins with them in this order: live/ looks at all that this
# machine's kernel has loaded and waits most of its time, machine/ interrupts and kills virtual machines and writes
# images, report/ draws a report once for all of its files. Elsewhere a file is.
ALONE = ("live", "machine", "report")


def group(nodeid: str) -> str:
    folder = Path(nodeid.partition("::")[0]).parent.name
    return folder if folder in ALONE else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Processes share the tests by group."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)


def rank(item) -> int:
    """The longest tests come first: the processes end together."""
    of = group(item.nodeid)
    if of in ALONE:
        return ALONE.index(of)
    long = item.get_closest_marker("lab") or of.startswith("tests/wheel/")
    return len(ALONE) if long else len(ALONE) + 1


@functools.cache
def favour(live: bool) -> None:
    """live/ is the longest chain: the other processes leave it the CPU that it asks for.

    Linux may share the CPU among sessions first (autogroup), and each guest has one of its own: live/ gets one, too.
    """
    with contextlib.suppress(OSError):
        if live:
            os.setsid()
            Path("/proc/self/autogroup").write_text("-5")
        else:
            os.nice(5)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if "PYTEST_XDIST_WORKER" in os.environ:
        favour(group(item.nodeid) == "live")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """With `-n auto` one more than there are cores: that of live/ waits most of its time."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("root") and group(item.nodeid) != "live":
            raise pytest.UsageError(f"{item.nodeid} uses this machine's kernel: it belongs into tests/live")
    items.sort(key=rank)


def pytest_terminal_summary(terminalreporter):
    """Tables that tests leave with record_property("table", ...)."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "table":
                terminalreporter.write_line(text)
