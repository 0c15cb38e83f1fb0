# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How the tests share processes, which are tried again, and the fixture of all: a scenario to vary."""

from __future__ import annotations

import functools
import signal
from pathlib import Path

import pytest

from shared import SCENARIO
from witness import left_out

# A shell's background jobs ignore SIGINT, and what they start does too: tests that interrupt begin as from a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def scenario_file(tmp_path):
    """Writes a scenario: the one above with words replaced, and text appended."""

    def write(*replace: tuple[str, str], append: str = "", name: str = "test.toml") -> Path:
        text = SCENARIO
        for old, new in replace:
            assert old in text
            text = text.replace(old, new)
        file = tmp_path / name
        file.write_text(text + append)
        return file

    return write


# The folders whose tests are for one process: live/ looks at all that this machine's kernel has loaded, machine/
# interrupts and kills virtual machines and writes images. Elsewhere a file is.
ALONE = {"live", "machine"}


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


def something_left_out(item) -> bool:
    """While a test ran; one that is skipped did not."""
    return BEFORE in item.stash and left_out() > item.stash[BEFORE]


BEFORE, LEFT_OUT = pytest.StashKey[int](), "packets that were handled without BPF"


def pytest_runtest_setup(item):
    if group(item.nodeid) == "live":
        item.stash[BEFORE] = left_out()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and BEFORE in item.stash:
        report.user_properties.append((LEFT_OUT, left_out() - item.stash[BEFORE]))


def pytest_collection_modifyitems(items):
    for item in items:
        live = group(item.nodeid) == "live"
        if item.get_closest_marker("root") and not live:
            raise pytest.UsageError(f"{item.nodeid} uses this machine's kernel: it belongs into tests/live")
        if live:  # a failure in which the kernel left nothing out is one
            item.add_marker(pytest.mark.flaky(reruns=2, condition=functools.partial(something_left_out, item)))
    items.sort(
        key=lambda item: not (item.get_closest_marker("lab") or group(item.nodeid) == "live")
    )  # what takes long first: the processes end together


def pytest_terminal_summary(terminalreporter):
    """Which live tests were tried again, and why; tables that tests leave with record_property("table", ...)."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.write_line(
            f"tried again: {report.nodeid}: {dict(report.user_properties)[LEFT_OUT]} {LEFT_OUT}"
        )
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "table":
                terminalreporter.write_line(text)
