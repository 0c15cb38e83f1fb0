# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The lab in tests of pytest: the fixture `lab`, which the package brings with it.

    def test_mine_fills_the_link(lab):
        run = lab.run("mine.toml")
        assert run.goodput_mbps > 9 and run.jain > 0.9

A run repeats to the byte, so that a test fails always or never. A run that is kept already takes no time. A test is
skipped, with the reason, where no image can be had; with --lab-required it fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from . import LabError
from .results import programs

MBPS, MS = 1e6, 1e3


@dataclass(frozen=True)
class FlowResult:
    """The results of one flow while the run measured."""

    _metrics: dict
    srtt_ms: float  # mean of the sender's srtt over its ACKs; 0 without ACKs

    @property
    def controller(self) -> str:
        return self._metrics["controller"]

    @property
    def goodput_mbps(self) -> float:
        """Payload that arrived in order, Mbit/s."""
        return self._metrics["goodput_bps"] / MBPS

    @property
    def rtt_ms(self) -> dict[str, float]:
        """Percentiles of the RTT samples: min, p5, p50, p95, p99, max, mean; empty without samples."""
        return {name: value * MS for name, value in self._metrics["rtt_s"].items()}

    @property
    def cwnd(self) -> float:
        """Mean of the congestion window over its ACKs, packets."""
        return self._metrics["cwnd_mean"]

    @property
    def retransmits(self) -> int:
        return self._metrics["retransmits"]

    @property
    def done_s(self) -> float | None:
        """The completion time of a flow with a size; None: it has none, or is not done."""
        return self._metrics.get("done_s")

    @property
    def reply_ms(self) -> dict[str, float]:
        """The same percentiles of the times of its replies; empty without."""
        return {name: value * MS for name, value in self._metrics.get("reply_s", {}).items()}


class Result:
    """The results of a run while it measured, from `measure_from` on; `run` has all of it (asymlab.Run)."""

    def __init__(self, run) -> None:
        self.run = run

    def __repr__(self) -> str:
        return f"{self.run!r}, {self.run.record['command']}"

    @property
    def goodput_mbps(self) -> float:
        """The payload of all flows that arrived in order, Mbit/s."""
        return self.run.metrics["goodput_bps"] / MBPS

    @property
    def throughput_mbps(self) -> float:
        """The IP packets of that payload, of all flows, Mbit/s."""
        return self.run.metrics["throughput_bps"] / MBPS

    @property
    def utilisation(self) -> float:
        """Share of the busiest hop's forward rate, 0 to 1."""
        return self.run.metrics["utilisation"]

    @property
    def reverse_utilisation(self) -> float:
        return self.run.metrics["reverse_utilisation"]

    @property
    def jain(self) -> float:
        """Jain's index of the flows' goodputs, 1/n to 1."""
        return self.run.metrics["jain"]

    @property
    def srtt_ms(self) -> float:
        """Mean of the flows' srtt."""
        return sum(flow.srtt_ms for flow in self.flows) / max(len(self.flows), 1)

    @property
    def queue_ms(self) -> float:
        """Mean time in the busiest hop's forward queue."""
        return self.run.metrics["forward"]["queue_delay_mean_s"] * MS

    @property
    def drops(self) -> int:
        """Packets that the busiest hop's forward queue dropped."""
        return self.run.metrics["forward"].get("drops", 0)

    @property
    def retransmits(self) -> int:
        return sum(flow.retransmits for flow in self.flows)

    @property
    def timeouts(self) -> int:
        return self.run.metrics["timeouts"]

    def program(self, path: str) -> float:
        """A number of a program by its path: "page.took", "client.result.end.sum_received.bytes"."""
        try:
            return programs.number(self.run.programs, path)
        except LookupError as e:
            pytest.fail(str(e), False)

    @property
    def sha256(self) -> str:
        """The hash of all that the run left: the same on each repeat."""
        return self.run.record["result_sha256"]

    @cached_property
    def flows(self) -> list[FlowResult]:
        """In the order of the scenario."""
        acks = self.run.acks[self.run.acks["t"] >= self.run.job.measure_from_s]
        found = []
        for metrics in self.run.metrics["flows"]:
            own = acks["srtt_us"][acks["flow"] == metrics["flow"]]
            found.append(FlowResult(metrics, float(own.mean()) / MS if len(own) else 0.0))
        return found

    def of(self, controller: str) -> list[FlowResult]:
        """The flows of one controller, by its name; that of ./mine.bpf.c is mine."""
        names = {flow.controller for flow in self.flows}
        if controller not in names:
            pytest.fail(f"no flow has the controller {controller!r}; there are {', '.join(sorted(names))}", False)
        return [flow for flow in self.flows if flow.controller == controller]


@dataclass(frozen=True)
class Lab:
    folder: Path  # of the test: names of files begin there
    image: str
    engine: str | None

    def run(self, scenario: str | Path | dict, seed: int = 1, **options) -> Result:
        """The one run of a scenario: a file, a text of more than one line, or a dict.

        options: those of asymlab.run_scenario, such as fresh=True. The test fails, with one line, if the scenario is
        wrong or its run is not valid.
        """
        found = self.runs(scenario, seeds=[seed], **options)
        if len(found) > 1:
            pytest.fail(f"lab.run: the scenario has a sweep of {len(found)} cases: lab.runs() gives them all", False)
        return found[0]

    def runs(self, scenario: str | Path | dict, seeds: Iterable[int] | None = None, **options) -> list[Result]:
        """All runs of a scenario, in the order of its sweep, each with each seed [those of its set]."""
        from .run.api import run_scenario

        if isinstance(scenario, str | Path) and "\n" not in str(scenario) and (self.folder / scenario).exists():
            scenario = self.folder / scenario
        given = {"image": self.image, "engine": self.engine, "folder": self.folder} | options
        found, said = [], ""
        try:
            found = [Result(run) for run in run_scenario(scenario, seeds=seeds, **given)]
        except LabError as e:
            said = str(e)
        if said:  # no longer while it is handled: pytest would show both
            pytest.fail(f"asymlab: {said}", pytrace=False)
        if wrong := next((one for one in found if not one.run.valid), None):
            pytest.fail(f"{wrong.run!r}: {'; '.join(wrong.run.record['invalid'])}", pytrace=False)
        return found


def pytest_addoption(parser) -> None:
    group = parser.getgroup("lab", "the virtual-time lab for TCP congestion control")
    group.addoption("--lab-image", metavar="NAME", help="image that `lab` boots [6.12]")
    group.addoption("--lab-engine", metavar="{qemu,uml}", help="[uml where its image is made, else qemu]")
    group.addoption("--lab-required", action="store_true", help="fail where `lab` finds no image, and do not skip")


@pytest.fixture(scope="session")
def _lab_image(request) -> tuple[str, str]:
    """Name and engine of an image that boots here."""
    from .machine import on_uml, vm
    from .machine.image import DEFAULT_KERNEL, current_image, engine_of, label_of

    name = request.config.getoption("--lab-image") or DEFAULT_KERNEL
    engine = request.config.getoption("--lab-engine") or os.environ.get("ASYMLAB_ENGINE") or engine_of(name)
    said = ""
    try:
        if engine not in vm.ENGINES:
            raise LabError(f"--lab-engine {engine}: there are {' and '.join(vm.ENGINES)}")
        current_image(label_of(name, engine))
        if engine == "uml":
            on_uml.cage()
    except LabError as e:
        said = str(e)
    if said:
        give_up = pytest.fail if request.config.getoption("--lab-required") else pytest.skip
        give_up(f"asymlab: {said}")
    return name, engine


@pytest.fixture
def lab(request, _lab_image) -> Lab:
    """Runs scenarios of TCP congestion control in a virtual machine, identical to the byte on each repeat."""
    return Lab(request.path.parent, *_lab_image)
