# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Scenarios with programs: what is wrong is told before a run; the same files give packs of the same bytes."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from asymlab import LabError
from asymlab.guest.programs import WithPrograms
from asymlab.guest.programs.connections import KEY, VALUE
from asymlab.guest.wire import dump, read
from asymlab.machine import elf, packs
from asymlab.machine.cpio import content
from asymlab.plan import programs, scenario
from asymlab.plan.programs import Content, Contents
from asymlab.plan.topology import plan_job
from asymlab.report.claimfile import ClaimFile
from asymlab.results import connections
from asymlab.results.connections import MAPPED
from asymlab.results.programs import number, numbers, of_run, read_result
from asymlab.results.trace import TABLES
from asymlab.run.tasks import plan_on_host
from tests.scenarios import LINUX
from tests.shared import REPO

CASES = REPO / "experiments" / "programs" / "cases.toml"
SOUND: dict = {
    "flows": None,
    "packs": {"mine": {"files": {"/usr/bin/mine": {"text": "#!/bin/none\n"}}}},
    "hosts": {"server": {"at": "left"}, "laptop": {"at": "right"}},
    "programs": [{"name": "one", "host": "server", "run": ["mine"]}],
}


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(packs, "FOLDER", tmp_path / "packs")


def program(**keys) -> dict:
    return {"programs": [{"name": "two", "host": "server", "run": ["mine"], **keys}]}


WRONG = {
    "host": (program(host="servr"), r"programs.1.host: no host 'servr'; did you mean server\?"),
    "pack": (program(pack="iperf"), r"programs.1.pack: no pack 'iperf'; did you mean iperf3\?"),
    "key": (program(starts="1s"), r"programs.1.starts: unknown key; did you mean start\?"),
    "key of a pack": ({"packs": {"mine": {"debain": []}}}, r"packs.mine.debain: unknown key; did you mean debian\?"),
    "suite": ({"packs": {"mine": {"suite": "-o x"}}}, "packs.mine.suite: "),
    "suite of nothing": ({"packs": {"mine": {"suite": "trixie"}}}, "packs.mine.*: suite: needs debian"),
    "key of a file": (
        {"packs": {"mine": {"files": {"/x": {"sise": 1}}}}},
        r"packs.mine.files./x: sise: unknown key; did you mean size\?",
    ),
    "key of a host": ({"hosts": {"server": {"delay": "1s"}}}, r"hosts.server.delay: unknown key"),
    "time": (program(start="2"), r"programs.1.start: '2' is not a quantity such as '20ms' \(units: us, ms, s\), nor"),
    "late": (program(start="9s"), "programs.1: starts or stops after run.duration"),
    "twice": (program(name="one"), "programs.1.name: an earlier program is called 'one', too"),
    "end": (program(ends="never"), "programs.1.ends: 'never' is neither an exit status from 0 to 255"),
    "place": ({"hosts": {"server": {"at": 7}}}, "hosts.server.at: no switch 7; there are 1 to 2"),
    "one place": ({"hosts": {"server": {"at": "right"}}}, "hosts: must be at two places at least"),
    "package": (
        {"packs": {"mine": {"debian": ["--reinstall"]}}},
        "packs.mine.debian.0: '--reinstall' is not the name of a Debian package",
    ),
    "way out": (
        {"packs": {"mine": {"files": {"/../x": {"size": 1}}}}},
        r"packs.mine.*files.'/../x': must be a whole path in the guest",
    ),
    "too much": (
        {"packs": {"mine": {"files": {"/x": {"size": 1 << 20, "count": 257}}}}},
        "packs.mine.*files: 257 MB are made, more than the 256 that a guest holds",
    ),
    "a file of this machine": (
        {"packs": {"mine": {"files": {"/x": "/etc/passwd"}}}},
        "packs.mine.files./x: is outside of the scenario's folder: /etc/passwd; copy it there",
    ),
    "a file outside": (
        {"packs": {"mine": {"files": {"/x": "../../../../../../../etc/passwd"}}}},
        "packs.mine.files./x: is outside of the scenario's folder: /.*; copy it there",
    ),
    "no file": ({"packs": {"mine": {"files": {"/x": "./none"}}}}, "packs.mine.files./x: no such file: /.*/none"),
    "unused": ({"packs": {"other": {"debian": ["curl"]}}, **program(pack="mine")}, r"programs.0.pack: is missing"),
    "flows": ({"hosts": {"server": {"flows": 0}}}, "hosts.server.flows: 0 must be an entry with hosts of its own"),
    "a host like this one": (
        {"hosts": {"localhost": {"at": "left"}}},
        "hosts.localhost: programs take this for an address of another host",
    ),
    "a host like an address": (
        {"hosts": {"1": {"at": "left"}}},
        "hosts.1: programs take this for an address of another host",
    ),
    "a host like another address": (
        {"hosts": {"0x7f": {"at": "left"}}},
        "hosts.0x7f: programs take this for an address of another host",
    ),
    "controller": ({"hosts": {"server": {"controller": "cubik"}}}, "hosts.server.controller: no controller 'cubik'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_with_its_key(scenario_file, name):
    change, reason = WRONG[name]
    with pytest.raises(LabError, match=reason):
        plan_job(scenario.load(scenario_file(LINUX, SOUND, change))[0], 1)


def test_a_scenario_without_flows_needs_programs(scenario_file):
    with pytest.raises(LabError, match="flows: must have at least one, or programs"):
        scenario.load(scenario_file(LINUX, {"flows": None}))


def test_programs_do_not_run_on_this_machine_itself(scenario_file):
    with pytest.raises(LabError, match="programs: run in a guest alone, not with --on host"):
        plan_on_host(scenario.load(scenario_file(LINUX, SOUND)))


def sharing(**keys) -> dict:
    hosts = {"server": {"at": "left", "flows": 0, **keys}, "laptop": {"at": "right", "flows": 0, "controller": "cubic"}}
    return {key: SOUND[key] for key in ("packs", "programs")} | {"hosts": hosts}


def test_programs_run_on_the_hosts_of_flows(scenario_file):
    job = plan_job(scenario.load(scenario_file(LINUX, sharing()))[0], 1)
    assert isinstance(job, WithPrograms) and job.programs[0].node == job.flows[0].src
    assert job.names == {"server": job.flows[0].src_addr, "laptop": job.flows[0].dst_addr}
    attrs = {route.node: route.attrs for route in job.routes if route.dst == "default"}
    assert "congctl reno" in attrs[job.flows[0].src] and "congctl cubic" in attrs[job.flows[0].dst]


@pytest.mark.parametrize("keys", [{"controller": "reno"}, {"ack": "every"}, {"extra_delay": "1ms"}, {"at": "right"}])
def test_the_settings_of_a_host_of_flows_are_theirs(scenario_file, keys):
    with pytest.raises(LabError, match="hosts.(server|laptop)[^ ]*: is (that of the flows|the same host as server)"):
        scenario.load(scenario_file(LINUX, sharing(**keys)))


def test_a_job_with_programs_is_read_as_it_was_written():
    for case in scenario.load(CASES):
        job = plan_job(case, 1)
        assert isinstance(job, WithPrograms) and read(WithPrograms, dump(job), "job") == job
        assert job.names.keys() == {"server", "laptop"}


# --- packs ---------------------------------------------------------------------------------


def contents(files: dict, program: str = "mine", name: str = "p") -> Contents:
    return Contents(name, (), None, files, (("programs.0.run", program),))


@pytest.fixture
def shared_library(tmp_path) -> Path:
    """A program that needs a library of its own."""
    source, library, binary = (tmp_path / name for name in ("own.c", "libown.so.1", "mine"))
    source.write_text("int own(void) { return 0; }\n")
    subprocess.run(["gcc", "-shared", "-Wl,-soname,libown.so.1", "-o", library, source], check=True)
    source.write_text("int own(void);\nint main(void) { return own(); }\n")
    subprocess.run(["gcc", "-o", binary, source, library], check=True)
    return binary


def test_a_library_that_is_missing_is_told_and_nothing_is_kept(shared_library, tmp_path):
    needs = elf.needs(shared_library.read_bytes())
    assert needs and set(needs.libraries) >= {"libown.so.1", "libc.so.6"} and "ld-linux" in needs.interpreter
    with pytest.raises(LabError, match="packs.p: /usr/bin/mine needs libown.so.1, which is in none of its packages"):
        packs.archives([contents({"/usr/bin/mine": shared_library})])
    assert not (tmp_path / "packs").exists()


def test_a_program_that_is_no_elf_needs_nothing_and_a_damaged_one_is_told(shared_library):
    whole = shared_library.read_bytes()
    assert elf.needs(b"#!/bin/sh\n") is None
    for length in range(6, 1000, 13):
        with pytest.raises(ValueError, match="damaged"):
            elf.needs(whole[:length])


def test_a_program_that_the_pack_has_not_is_told(tmp_path):
    (tmp_path / "mine").write_text("#!/bin/none\n")
    with pytest.raises(LabError, match=r"programs.0.run: pack p has no program 'mime'; did you mean mine\?"):
        packs.archives([contents({"/usr/bin/mine": tmp_path / "mine"}, "mime")])


def test_a_program_that_is_built_is_named_with_its_make_target(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "BUILT", tmp_path)
    monkeypatch.setattr(packs, "BUILT", tmp_path)
    (case,) = scenario.load(f"{CASES}:ack-frequency")
    with pytest.raises(LabError, match="quinn/quinn-file is not there; `make quinn` builds it"):
        packs.archives(case.packs)


def test_the_same_files_give_the_same_bytes_whoever_has_them(tmp_path):
    first, second = tmp_path / "one", tmp_path / "other name"
    first.write_text("#!/bin/none\n")
    shutil.copy(first, second)
    second.chmod(0o700)
    one, other = (packs.archives([contents({"/usr/bin/mine": file})])["p.cpio"] for file in (first, second))
    packs.READ.clear()
    shutil.rmtree(tmp_path / "packs")
    assert one == other == packs.archives([contents({"/bin/mine": second})])["p.cpio"]
    assert content(one, "packs/p/usr/bin/mine") == b"#!/bin/none\n"


def test_a_pack_that_was_changed_is_made_anew(tmp_path):
    (tmp_path / "mine").write_text("#!/bin/none\n")
    made = packs.archives([contents({"/usr/bin/mine": tmp_path / "mine"})])
    (kept,) = (tmp_path / "packs").glob("*.cpio")
    kept.write_bytes(b"another")
    packs.READ.clear()
    assert packs.archives([contents({"/usr/bin/mine": tmp_path / "mine"})]) == made
    assert kept.read_bytes() == made["p.cpio"]


def test_a_file_that_changes_while_packages_are_fetched_is_kept_as_it_was_hashed(tmp_path, monkeypatch):
    file = tmp_path / "mine"

    def fetching(*_) -> tuple[dict, list[str]]:
        file.write_text("#!/bin/new\n")
        return {}, []

    monkeypatch.setattr(packs, "_debian", fetching)
    pack = replace(contents({"/usr/bin/mine": file}), debian=("none",))
    for name in ("old", "new", "old"):
        file.write_text(f"#!/bin/{name}\n")
        assert content(packs.archives([pack])["p.cpio"], "packs/p/usr/bin/mine") == f"#!/bin/{name}\n".encode()


@pytest.mark.parametrize(
    ("file", "below"), [("/a", "/a/b"), ("/usr/lib/x", "/lib/x/y/z"), ("/tmp", "/tmp/*"), ("/etc/x", "/etc/hosts/x")]
)
def test_no_file_is_a_folder_too(file, below):
    pack = contents({place: Content(text="x") for place in (file, below)})
    with pytest.raises(LabError, match="packs.p: /(a|usr/lib/x|tmp|etc/hosts) is a file, so that there can be no /"):
        packs.archives([pack])


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/usr/../../x"])
def test_no_name_in_a_package_leads_out(name):
    with pytest.raises(LabError, match="leads out of its pack"):
        packs.plain(name)
    assert packs.plain("./lib/x") == "usr/lib/x" and packs.plain("./usr/lib/x") == "usr/lib/x"


# --- results -------------------------------------------------------------------------------

LINES = [{"time": t} for t in (1, 2, 6)]
ONE = {"start_s": 0.5, "end_s": 2.0, "exit": 0, "result": {"end": {"bytes": 7, "name": "x"}, "lines": LINES}}


def test_each_number_has_a_path():
    programs = {"one": ONE, "two": ONE | {"end_s": None, "exit": None}}
    values = {"one": 1.5, "one.took": 1.5, "one.exit": 0, "one.result.end.bytes": 7, "one.result.lines.1.time": 2}
    values |= {"one.result.lines.max.time": 6, "one.result.lines.p50.time": 2, "one.result.lines.mean.time": 3}
    assert {path: number(programs, path) for path in values} == values
    for path, reason in {
        "on.took": "no program 'on'; there are one, two",
        "two.took": "programs.two.took: is no number",
        "one.result.end.name": "is no number",
        "one.result.end.byte": "there is no 'byte'; there are bytes, name",
    }.items():
        with pytest.raises(LookupError, match=reason):
            number(programs, path)


def test_the_numbers_of_a_program_are_few():
    lines = [{"time": t, "name": "x", "more": [t]} for t in (1, 2, 6)]
    record = ONE | {"result": {"end": {"bytes": 7, "ok": True, "far": 1e200}, "lines": lines}}
    assert numbers(record) == {
        **{"took": 1.5, "exit": 0, "result.end.bytes": 7, "result.lines.p50.time": 2, "result.lines.p95.time": 5.6},
        **{f"result.lines.{p}.more.{q}": v for p, v in (("p50", 2), ("p95", 5.6)) for q in ("p50", "p95")},
    }
    assert all(number({"one": record}, f"one.{path}") == value for path, value in numbers(record).items())
    assert numbers(ONE | {"end_s": None, "exit": None, "result": None}) == {}
    assert len(numbers(ONE | {"result": {str(n): n for n in range(1000)}})) == 302


def test_a_claim_takes_a_number_by_its_path(tmp_path):
    run = SimpleNamespace(programs={"one": ONE}, record={"name": "X seed 1"})
    (tmp_path / "claims.toml").touch()
    claims = ClaimFile(tmp_path / "claims.toml", lambda _: None, lambda *_: [])
    assert claims.measure("program one.result.lines.max.time")(run) == 6
    with pytest.raises(LabError, match="X seed 1: no program 'on'; there are one"):
        claims.measure("program on.took")(run)


GOOD = {"start_ns": 5, "end_ns": 9, "exit": 0, "running": False}


@pytest.mark.parametrize(
    "words",
    [b"", b"[]", b"{}", b'{"other": {}}', b'{"one": {}}', b'{"one": []}']
    + [json.dumps({"one": GOOD | {"start_ns": value}}).encode() for value in ("x", [], float("inf"), "9" * 5000)]
    + [json.dumps({"one": GOOD | {"exit": value}}).encode() for value in ("x", None)],
)
def test_what_no_guest_says_of_its_programs_is_refused(scenario_file, words):
    job = plan_job(scenario.load(scenario_file(LINUX, SOUND))[0], 1)
    files = {"programs.json": words, "one.out": b"", "one.err": b""}
    with pytest.raises((ValueError, LookupError, TypeError, AttributeError, ArithmeticError)):  # store.understand's
        of_run(job, 0, files, "programs.json")
    assert of_run(job, 0, files | {"programs.json": json.dumps({"one": GOOD}).encode()}, "programs.json")[1] == []


@pytest.mark.parametrize(
    "output",
    [b"", b"{", b"\xff", b"NaN", b'"\\ud800"', b"[" * 100_000, b" " * (2 << 20)]
    + [b"1e999", b"-1e999", b"9" * 400, b"9" * 5000],
)
def test_what_is_no_json_is_no_result(output):
    with pytest.raises(ValueError):
        read_result(output, "json")


def queued(src: str, dst: str, dst_port: int, device: int = 0, number: int = 0) -> bytes:
    """A record of a guest: in that bin two packets of 100 bytes, which waited 1 and 3 ms."""
    addresses = (MAPPED + ip_address(address).packed for address in (src, dst))
    key = KEY.pack(*addresses, 40000, dst_port, 17, device, number)
    return key + VALUE.pack(number * 10**8 + 5, number * 10**8 + 10**6 + 5, 200, 144, 4 * 10**6, 3 * 10**6, 2)


@pytest.fixture
def empty_tables():
    return {name: np.empty(0, [(c, "f8") for c in TABLES[name]]) for name in ("acks", "goodput")}


def test_a_connection_of_udp_is_told_by_its_queues(scenario_file, empty_tables):
    job = plan_job(scenario.load(scenario_file(LINUX, SOUND))[0], 1)
    server, laptop = job.names["server"], job.names["laptop"]
    known = [queued(server, laptop, 53, number=n) for n in (3, 4)]
    others = [queued(server, "10.9.9.9", 53), queued("10.9.9.9", laptop, 53)]
    (one,) = connections.of_run(job, b"".join(known + others), bytes(64), 10**8, empty_tables)
    assert one["flow"] == 0 and connections.name_of(one) == "server:40000 > laptop:53" and one["protocol"] == "udp"
    assert one["bytes"] == 288 and one["packets"] == 4 and one["start_s"] == pytest.approx(0.2)
    assert one["goodput_bps"] == pytest.approx(288 * 8 / 0.101)
    assert one["queue_delay_mean_s"] == pytest.approx(0.002) and one["queue_delay_max_s"] == pytest.approx(0.003)
    assert (
        list(empty_tables["goodput"]["bytes"]) == [144, 144] and list(empty_tables["packets"]["delay_s"]) == [0.002] * 2
    )
    assert list(empty_tables["packets"]["t"]) == pytest.approx([0.2, 0.3])


@pytest.mark.parametrize("wrong", [{"cut": -1}, {"device": 2}])
def test_what_no_guest_counts_at_its_queues_is_refused(scenario_file, empty_tables, wrong):
    job = plan_job(scenario.load(scenario_file(LINUX, SOUND))[0], 1)
    data = queued(job.names["server"], job.names["laptop"], 53, wrong.get("device", 0))[: wrong.get("cut")]
    with pytest.raises(ValueError, match="connections: "):
        connections.of_run(job, data, bytes(64), 0, empty_tables)


def test_a_link_to_a_file_outside_is_none(scenario_file):
    file = scenario_file(LINUX, SOUND, {"packs": {"mine": {"files": {"/x": "link"}}}})
    (Path(file).parent / "link").symlink_to("/etc/passwd")
    with pytest.raises(LabError, match="packs.mine.files./x: is outside of the scenario's folder"):
        plan_job(scenario.load(file)[0], 1)
