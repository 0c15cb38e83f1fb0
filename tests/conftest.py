# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the tests share: the built tree, a scenario to vary, a way to run `asymlab`."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from witness import Witness

REPO = Path(__file__).resolve().parent.parent
BUILD = REPO / "build"

# A shell's background jobs ignore SIGINT, and what they start does too: tests that interrupt begin as from a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)

SCENARIO = """\
title = "test"
id = "TEST"
profile = "ns2"

[path]
mtu = 1000
forward = { rate = "10mbit", delay = "20ms", queue = 100 }
reverse = { rate = "10mbit", delay = "20ms", queue = 100 }

[[flows]]
controller = "reno"

[run]
duration = "3s"
measure_from = "1s"
"""

# Replacements for scenario_file: three hops instead of one; and two more flows, on parts of them.
PATH = SCENARIO[SCENARIO.index("forward ="):SCENARIO.index("\n[[flows]]")]
HOP = """
[[path.hops]]
forward = { rate = "10mbit", delay = "10ms", queue = 50 }
reverse = { rate = "10mbit", delay = "10ms", queue = 50 }
"""
CHAIN = (PATH, 3 * HOP)
CROSSING = """
[[flows]]
controller = "reno"
enter = 2
leave = 3

[[flows]]
controller = "reno"
enter = 3
extra_delay = "2ms"
"""


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


def asymlab(*argv, env: dict[str, str] | None = None, timeout: float = 300) -> subprocess.CompletedProcess:
    """Run the command as a user would."""
    return subprocess.run([sys.executable, "-m", "asymlab", *map(str, argv)], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **(env or {})}, cwd=REPO)


def wait_for(what, seconds: float = 30):
    """Until it is true; its value."""
    for _ in range(int(seconds / 0.02)):
        if found := what():
            return found
        time.sleep(0.02)
    pytest.fail("it never comes")


# What looks at all that this machine's kernel has loaded is for one process, and what interrupts and kills virtual machines; else a file is for one.
LAB = {"test_cluster", "test_kernels", "test_lab"}
LIVE = {"test_clients", "test_containers", "test_install", "test_loader", "test_service", "test_top", "test_trace_flow"}
LIVE_TESTS = {"test_a_host_without_cgroup2_is_told_so", "test_a_job_of_a_stranger_is_refused", "test_host_is_left_as_it_was_whenever_the_signal_comes",
              "test_on_a_host_the_runs_cgroup_is_gone_afterwards", "test_on_host_as_root", "test_the_running_kernel",
              "test_what_a_killed_run_leaves_the_next_takes_back"}


def group(nodeid: str) -> str:
    file, _, test = nodeid.partition("::")
    name = Path(file).stem
    if name in LIVE or name.endswith("_live") or test.partition("[")[0] in LIVE_TESTS:
        return "live"
    return "lab" if name in LAB else name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Processes share the tests by group."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)


@functools.cache
def witness() -> Witness | None:
    """On a kernel that keeps its init from tracers, what counts the packets that it handles without us."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    cgroup = next((m[1] for m in mounts if m[2] == "cgroup2"), None)
    return Witness(cgroup) if cgroup and os.geteuid() == 0 and "init_private" in Path("/proc/kallsyms").read_text() else None


def left_out() -> int:
    """Packets so far that no tracing and no struct_ops program was shown."""
    return there.count() if (there := witness()) else 0


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
            raise pytest.UsageError(f"{item.nodeid} uses this machine's kernel: name it in LIVE_TESTS")
        if live:  # a failure in which the kernel left nothing out is one
            item.add_marker(pytest.mark.flaky(reruns=2, condition=functools.partial(something_left_out, item)))
    items.sort(key=lambda item: not (item.get_closest_marker("lab") or group(item.nodeid) == "live"))  # what takes long first: the processes end together


def pytest_terminal_summary(terminalreporter):
    """Which live tests were tried again, and why; tables that tests leave with record_property("table", ...)."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.write_line(f"tried again: {report.nodeid}: {dict(report.user_properties)[LEFT_OUT]} {LEFT_OUT}")
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "table":
                terminalreporter.write_line(text)
