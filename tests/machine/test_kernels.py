# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab check-kernels`: what it tells, what it takes for a fault, and the table of docs/kernels.md."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from asymlab import LabError
from asymlab.conformance.kernels import check, properties, setup, table
from asymlab.conformance.kernels.outcome import KERNELS, SHORT_IDLE, Column, Result, Skip
from asymlab.conformance.kernels.setup import Facts, Setup
from asymlab.controller import Law, cuts_to
from asymlab.controllers import REGISTER, built_in
from asymlab.guest import audit
from asymlab.machine import kernel, vm
from asymlab.machine.arch import AMD64
from asymlab.machine.kernel import series
from asymlab.plan import objects
from asymlab.run import tasks
from tests.ktap import bad, built, column, recorded, told
from tests.shared import BUILD, LAB, asymlab, compile_job

OBJECTS = built_in(BUILD)


def silent(_: str) -> None:
    """Progress, which no test reads."""


# --- KTAP ----------------------------------------------------------------------------------


def test_all_well():
    fine, tests, lines = told([column(), Column("running", "6.9", skip="not root")], recorded())
    assert fine
    assert tests["6.9 (this machine)"] == (True, "SKIP", {})
    ok, _, objects = tests["6.1.0-2-amd64 (6.1.1-1)"]
    assert (
        ok and objects["fast"][0] and objects["fast"][2]["is not much more work for the verifier"] == (True, None, {})
    )
    assert any(line.strip() == "# verified_insns 1000 (+0)" for line in lines)


@pytest.mark.parametrize(
    "columns",
    [
        [column(law="19 of 30 packets"), Column("running", "6.9", skip="not root")],
        [column(), Column("newest", error="virtual machine: ended without results: Kernel panic\nnot syncing")],
    ],
)
def test_one_fault_fails_all_above_it_and_its_reason_stands_before_it(columns):
    fine, tests, lines = told(columns, recorded())
    assert not fine and sum(not ok for ok, *_ in tests.values()) == 1
    for line, after in zip(lines, lines[1:]):
        if after.lstrip().startswith("not ok"):
            assert line.lstrip().startswith("# ") and "\n" not in line
    assert any("19 of 30 packets" in line or "Kernel panic not syncing" in line for line in lines)


@pytest.mark.parametrize("insns, ok", [(1100, True), (1101, False), (500, True)])
def test_a_tenth_more_for_the_verifier_is_too_much(insns, ok):
    fine, tests, lines = told([column(insns)], recorded())
    assert fine == ok
    assert any(line.strip() == f"# verified_insns {insns} ({insns - 1000:+})" for line in lines)


def test_what_another_series_needed_is_told_but_does_not_judge():
    fine, tests, lines = told([column(5000)], recorded(release="6.2.0"))
    assert fine and any("# verified_insns 5000 (+4000)" in line for line in lines)
    assert any("SKIP recorded on 6.2.0" in line for line in lines)


def test_what_was_not_tried_is_said_with_its_reason():
    fine, _, lines = told([column(law=Skip("want of netem"))], recorded())
    assert fine and "    ok 2 law # SKIP want of netem" in lines


# --- what is recorded ----------------------------------------------------------------------


def test_one_that_needs_a_newer_kernel_is_not_tried():
    known = {"fast": Facts({}, False), "future": Facts({}, False, needs=(7, 0))}
    old, new = Column("6.18", "6.18.44"), Column("7.0", "7.0.1")
    assert check.fitting([*known], known, old) == ["fast"] and check.fitting([*known], known, new) == [*known]
    old.results["fast"] = Result({"loads": None})
    fine, tests, lines = told([old], {})
    assert fine and tests["6.18.44 (this machine)"][2]["future"][:2] == (True, "SKIP")
    assert any(line.endswith("future # SKIP it needs Linux 7.0 or later") for line in lines)


def test_the_page_has_the_table_of_what_is_recorded():
    text = table.PAGE.read_text()
    assert table.put_into(text, table.table(table.recorded())) == text, "asymlab check-kernels --record writes it"


def test_each_object_is_recorded_on_each_kernel():
    results = table.recorded()
    arm64 = {f"{name}-arm64" for name in KERNELS if name != "running"}
    assert set(results["kernels"]) == {*KERNELS, *arm64} and list(results["objects"]) == OBJECTS
    newest = results["kernels"]["newest"]["release"]
    assert all("newest" in on for name, on in results["objects"].items() if objects.needs(name) <= series(newest))
    assert not [name for name, on in results["objects"].items() if objects.needs(name) and "6.12" in on]
    for on in results["objects"].values():
        for one in on.values():
            assert one["verified_insns"] == sum(one["programs"].values()) > 0 or one["failed"]


def test_a_record_replaces_what_ran_and_keeps_the_rest():
    old = table.record(
        [column(1000), Column("6.12", "6.12.1", "6.12.1-1", results={"fast": Result({"loads": "no"})})], {}
    )
    new = table.record([column(1200, law=Skip("want of netem"))], old)
    assert (
        new["objects"]["fast"]["6.12"] == old["objects"]["fast"]["6.12"]
        and new["objects"]["fast"]["6.1"]["verified_insns"] == 1200
    )
    rows = table.table(new).splitlines()
    assert (
        rows[0] == "| object | 6.1.0-2-amd64 | 6.12.1 |" and rows[2] == "| `fast` | 1/1, 1,200 | 0/1; not: loads, 0 |"
    )
    assert rows[-1] == "Not tried on 6.1.0-2-amd64, for want of netem: the law of `fast`."


@pytest.mark.parametrize(
    "release, words", [("7.0.13-1-amd64", False), ("7.1.3", True), ("7.10.0", True), ("6.18.1", False)]
)
def test_what_does_not_work_from_7_1_on_is_told(release, words):
    one = column(release=release)
    assert (
        (f"  # {SHORT_IDLE}" in told([one])[2])
        == (f"On {release} {SHORT_IDLE}." in table.table(table.record([one], {})))
        == words
    )


def test_a_page_without_a_place_for_the_table():
    with pytest.raises(LabError, match="no place for the table"):
        table.put_into("words", "table")


# --- what runs -----------------------------------------------------------------------------


def test_each_object_has_a_law():
    assert {name for name, record in REGISTER.items() if record.law} == set(OBJECTS)


@built
@pytest.mark.parametrize("delay", [True, False])
@pytest.mark.parametrize("bare", [True, False])
def test_each_set_up_is_a_scenario_whose_flows_have_their_roles(delay, bare, tmp_path, monkeypatch):
    known = {name: setup.facts(name) for name in OBJECTS}
    assert known["fast"].live["alpha"] == 60 and known["formosa"].halves and not known["nreno"].live
    monkeypatch.setattr(setup, "BUILD", tmp_path)
    for name in OBJECTS:
        one = Setup((name,), delay, bare)
        job = compile_job(one.cases(known)[0], 1)
        assert [f["controller"] for f in job["flows"]] == [
            name if role == "bare" else f"{name}_2" for _, role in one.roles()
        ]
        assert [c["set"] for c in job["changes"]] == ([known[name].live] if known[name].live else [])
        lossy = [link["a"]["shape"].get("loss") or link["b"]["shape"].get("loss") for link in job["links"]]
        assert lossy.count(0.01) == delay


@built
def test_a_changed_parameter_stays_in_its_range():
    for name in OBJECTS:
        shown = json.loads(
            subprocess.run(
                [BUILD / "asymcc", "--objects", BUILD, "show", name, "--json"], capture_output=True, check=True
            ).stdout
        )
        limits = {p["name"]: p for p in shown["parameters"]}
        for key, value in setup.facts(name).live.items():
            assert limits[key]["min"] <= value <= limits[key]["max"] and value != limits[key]["value"], f"{name} {key}"


@pytest.mark.parametrize(
    "kind, what, less",
    [
        ("register", "registers by bpftool alone", Setup(("fast",), bare=False)),
        ("set", "live parameters change", Setup(("fast",), change=False)),
        ("command", None, None),
        ("", None, None),
    ],
)
def test_a_run_that_failed_is_tried_without_what_failed(kind, what, less):
    """By its kind: the words may be those of another failure."""
    error, faults = LabError("asymcc set fast_2 alpha=65537: bpftool struct_ops register", kind), {}
    assert check.without(Setup(("fast",)), error, faults) == less
    assert faults == ({what: str(error)} if what else {})
    assert check.without(Setup(("fast",)), error, faults) is None, "once"


def test_the_newest_kernel_is_so_by_number(monkeypatch, tmp_path):
    packages = {
        "trixie": "linux-image-6.12.9+deb13-cloud-amd64",
        "forky": "linux-image-7.10.1+deb14-cloud-amd64",
        "sid": "linux-image-7.9.12+deb14-cloud-amd64",
    }

    def sh(tool, *argv, **_):
        suite = next(match[1] for w in argv if (match := re.search(r"sourcelist=.*/([^/]+)/suite\.sources", str(w))))
        if suite not in packages:
            raise LabError("apt-get failed: The repository does not have a Release file.")
        return f"Package: {argv[-1]}\nDepends: {packages[suite]} (= 1)\n"

    monkeypatch.setattr(kernel, "sh", sh)
    monkeypatch.setattr(kernel, "apt_source", lambda cache: kernel.AptSource("Debian", "http://mirror", "bookworm"))
    monkeypatch.setattr(kernel, "BUILD", tmp_path)
    assert kernel.newest(AMD64, silent) == (packages["forky"], "forky")


def test_what_the_kernel_keeps_is_left_over(monkeypatch):
    clock = itertools.count(0, 10)
    monkeypatch.setattr(audit, "time", SimpleNamespace(sleep=lambda _: None, monotonic=lambda: next(clock)))
    asked: list[int] = []

    def is_there(_: str, number: int) -> bool:
        asked.append(number)
        return number == 2 or len(asked) < 2

    monkeypatch.setattr(audit, "is_there", is_there)
    assert audit.left_over({("map", 1): "map 1 fast", ("prog", 2): "prog 2 fast_init"}) == ["prog 2 fast_init"]
    assert audit.left_over({("map", 1): "map 1 fast"}) == []


def flow_of(packets: int = 2000, window: int = 2, mss: int = 948):
    """Acks and goodput of a flow that delivers a packet each 4 ms with `window` in flight."""
    acks = np.zeros(packets - window, [("t", "f8"), ("cwnd", "u4"), ("delivered", "u4")])
    acks["t"], acks["cwnd"], acks["delivered"] = 0.004 * (np.arange(len(acks)) + window), window, np.arange(len(acks))
    per_bin = np.bincount((0.004 * np.arange(packets) / 0.1 + 1e-6).astype(int))
    goodput = np.zeros(len(per_bin), [("t", "f8"), ("bytes", "u8")])
    goodput["t"], goodput["bytes"] = 0.1 * np.arange(len(per_bin)), per_bin * mss
    return acks, goodput


@pytest.mark.parametrize("unseen", [[], range(500, 540), range(1900, 1998), range(0, 1998, 3), range(0, 1990)])
def test_acks_that_the_tracer_was_not_shown_are_no_lost_bytes(unseen):
    """Nor segments: those of the last bins, whose bytes then stand in no bin."""
    acks, goodput = flow_of()
    for seen in (goodput, goodput[:-3]):
        properties.bytes_agree("clean", np.delete(acks, unseen), seen, 948, 0.1)


@pytest.mark.parametrize("wrong", [{"delivered": -80}, {"delivered": 80}, {"bytes": -2}, {"bytes": 2}])
def test_bytes_that_are_lost_are_found(wrong):
    """80 packets of 2000, or 2 in each bin."""
    acks, goodput = flow_of()
    for what, by in wrong.items():
        if what == "delivered":
            acks["delivered"][1000:] += np.uint32(by % 2**32)
        else:
            goodput["bytes"] = goodput["bytes"].astype("i8") + by * 948
    with pytest.raises(LabError, match="clean: .* bytes"):
        properties.bytes_agree("clean", acks, goodput, 948, 0.1)


# --- on kernels ----------------------------------------------------------------------------


@pytest.mark.lab
def test_in_a_guest_then_from_the_store(monkeypatch):
    known = {"fast": setup.facts("fast")}
    first = check.in_guest("6.12", ["fast"], known, None, False, silent)
    assert first.release.startswith("6.12.") and first.package.startswith("6.12.") and not bad(first.results["fast"])
    assert (
        all(outcome is None for outcome in first.results["fast"].outcomes.values())
        and min(first.results["fast"].insns.values()) > 0
    )
    monkeypatch.setattr(vm, "run", lambda *a, **k: pytest.fail("ran again"))
    assert (
        check.in_guest("6.12", ["fast"], known, None, False, silent).results["fast"].outcomes
        == first.results["fast"].outcomes
    )


@pytest.mark.lab
def test_a_parameter_that_is_refused_and_a_law_that_does_not_hold_are_all_that_fails(monkeypatch):
    wrong = Law("a loss leaves three quarters", cuts_to(lambda ack, _: ack["cwnd"] * 3 / 4))
    monkeypatch.setattr(REGISTER["nreno"], "law", wrong)
    monkeypatch.setattr(REGISTER["fast"], "fitting", {"alpha": 21})  # not in the store
    monkeypatch.setattr(tasks, "_refuse_parameters", lambda case, known: None)  # the kernel shall refuse it
    known = {"fast": Facts({"alpha": 65537}, False), "nreno": Facts({}, False)}
    results = check.in_guest(LAB, ["fast", "nreno"], known, None, False, silent).results
    assert (
        list(bad(results["fast"])) == ["live parameters change"]
        and "alpha=65537: out of range" in results["fast"].outcomes["live parameters change"]
    )
    assert list(bad(results["nreno"])) == ["law: a loss leaves three quarters"]


@pytest.mark.lab
def test_an_object_without_a_record_is_checked_for_all_but_a_law(monkeypatch):
    """It is nreno, whose run has the same key without one."""
    known = {"nreno": Facts({}, False)}
    first = check.in_guest(LAB, ["nreno"], known, None, False, silent).results["nreno"]
    monkeypatch.delitem(REGISTER, "nreno")
    monkeypatch.setattr(vm, "run", lambda *a, **k: pytest.fail("ran again"))
    results = check.in_guest(LAB, ["nreno"], known, None, False, silent)
    outcomes = results.results["nreno"].outcomes
    assert list(outcomes) == ["law" if what == "law: a loss halves" else what for what in first.outcomes]
    assert not bad(results.results["nreno"]) and isinstance(outcomes["law"], Skip)
    fine, _, lines = told([results])
    assert fine and "    ok 10 law # SKIP want of a law in its record" in lines
    rows = table.table(table.record([results], {})).splitlines()
    assert rows[-1] == f"Not tried on {results.release}, for want of a law in its record: the law of `nreno`."


@pytest.mark.lab
def test_a_machine_that_does_not_end_is_a_fault_and_no_other_s(monkeypatch):
    known = {"nreno": Facts({}, False)}
    monkeypatch.setattr(check, "WALL_LIMIT_S", 1)
    result = check.in_guest("6.12", ["nreno"], known, None, True, silent).results["nreno"]
    assert len(bad(result)) == len(properties.all_of("nreno")) and "no end after 1 s" in result.outcomes["loads"]


def test_an_image_that_cannot_be_made_fails_its_kernel_alone(monkeypatch):
    def build(wanted, **_):
        raise LabError(f"kernel {wanted}: not in the package source")

    monkeypatch.setattr(check, "build_image", build)
    fine, tests, lines = told([check.in_guest("2.6", ["nreno"], {}, None, False, silent), column()], recorded())
    assert not fine and tests["2.6"] == (False, None, {}) and "# kernel 2.6: not in the package source" in lines
    assert [ok for name, (ok, *_) in tests.items() if name != "2.6"] == [True]


def test_an_object_that_is_not_there():
    p = asymlab("check-kernels", "nosuch")
    assert (
        p.returncode == 2
        and p.stdout == ""
        and p.stderr.startswith("asymlab: no controller 'nosuch'; there are accsa, areno")
    )


def test_the_running_kernel_without_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(check, "execute_on_host", lambda *_: pytest.fail("ran"))
    fine, tests, lines = told([check.on_host(["nreno"], {}, silent)])
    assert fine and lines[-1] == f"ok 1 {os.uname().release} (this machine) # SKIP not root"
