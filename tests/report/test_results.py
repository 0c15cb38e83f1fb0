# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Input from a guest, from a worker or out of a shared store is data: it names no file and no page, and is
believed in no form but its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import random
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from asymlab import LabError, printable
from asymlab.guest import init
from asymlab.guest.capture import PCAP
from asymlab.guest.protocol import Check, Fault
from asymlab.guest.system import Failure, sh
from asymlab.guest.wire import dump
from asymlab.machine import arch, files, image, qemu, shared, vm
from asymlab.plan import scenario
from asymlab.report import pages
from asymlab.results import frame, store, tables, trace
from asymlab.run import cluster, summary, worker
from asymlab.run.tasks import Task, plan_runs
from tests.hostile import COUNT, changed, one_line_or_none
from tests.scenarios import build, toml
from tests.shared import packet, wait_for


def tar(*members: tuple[tarfile.TarInfo | str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for info, data in members:
            info = tarfile.TarInfo(info) if isinstance(info, str) else info
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    return out.getvalue()


def member(name: str, kind: bytes, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def handed_out(folder: Path, data: bytes, length: int | None = None) -> SimpleNamespace:
    """A machine that has ended with these results."""
    (folder / "shared").write_bytes(shared.HEADER.pack(shared.RESULTS, len(data) if length is None else length) + data)
    return SimpleNamespace(folder=folder, complaint=lambda: "no word on its console")


GOOD = ("status.json", b'{"ok": true}')


def test_the_agents_files_are_taken(tmp_path):
    assert shared.results(handed_out(tmp_path, tar(GOOD, ("agent.json", b"{}"), ("trace.bin", b"x")))) == {
        "agent.json": b"{}",
        "trace.bin": b"x",
    }


def test_a_guest_maps_enough_for_results_of_any_size(tmp_path, monkeypatch):
    """Not the whole of the shared memory. A tar fills its last record: its size is no smooth function of theirs."""
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(init, "OUT", str(out))
    for size in range(0, 2 * tarfile.RECORDSIZE, 37):
        files = {"agent.json": bytes(size % 1031), "trace.bin": bytes(size)}
        for name, data in files.items():
            (out / name).write_bytes(data)
        (tmp_path / "shared").write_bytes(bytes(1 << 17))
        with open(tmp_path / "shared", "r+b") as memory:
            init.hand_out(memory.fileno(), {"ok": True})
        assert shared.results(SimpleNamespace(folder=tmp_path)) == files


@pytest.mark.parametrize(
    "data",
    [
        tar(GOOD, ("../../x", b"")),
        tar(GOOD, ("/abs", b"")),
        tar(GOOD, ("index.html", b"")),
        tar(GOOD, ("run.json", b"")),
        tar(GOOD, ("./agent.json", b"")),
        tar(GOOD, (member("trace.bin", tarfile.SYMTYPE, "/etc/passwd"), b"")),
        tar(GOOD, (member("trace.bin", tarfile.LNKTYPE, "status.json"), b"")),
        tar(GOOD, (member("trace.bin", tarfile.FIFOTYPE), b"")),
        tar(GOOD, (member("agent.json", tarfile.DIRTYPE), b"")),
        tar(GOOD, ("trace.bin", b"1"), ("trace.bin", b"2")),
        tar(("status.json", bytes(2 << 20))),
        tar(GOOD, ("agent.json", bytes((16 << 20) + 1))),
        tar(),
        b"",
        bytes(10240),
        b"\xff" * 4096,
        tar(("status.json", b"[]")),
        tar(("status.json", b"{")),
        tar(("status.json", b"[" * 9999)),
        tar(("status.json", b'{"ok": 0}')),
    ],
    ids=lambda data: f"{len(data)}",
)
def test_other_results_are_refused_in_one_line(tmp_path, data):
    with pytest.raises(LabError) as e:
        shared.results(handed_out(tmp_path, data))
    assert "\n" not in str(e.value) and len(str(e.value)) < 300


@pytest.mark.parametrize(
    "kind, taken", [(f'"{fault}"', fault) for fault in Fault] + [('"other"', ""), ("3", ""), ("null", "")]
)
def test_what_failed_comes_by_its_kind(tmp_path, kind, taken):
    with pytest.raises(LabError) as e:
        shared.results(
            handed_out(tmp_path, tar(("status.json", f'{{"ok": false, "error": "no", "kind": {kind}}}'.encode())))
        )
    assert (str(e.value), e.value.kind) == ("no", taken)


def test_a_failure_s_status_is_what_the_host_reads():
    with pytest.raises(Failure) as e:
        sh("false", kind=Fault.SET)
    error = shared.failed(json.dumps(e.value.status).encode())
    assert error and (str(error), error.kind) == ("false: exit 1", Fault.SET)
    assert pickle.loads(pickle.dumps(error)).kind == Fault.SET  # from a worker
    assert shared.failed(b'{"ok": true}') is None


@pytest.mark.parametrize("of", ["src0-dst0", "sw1-wire1", ", us"])
def test_a_row_of_the_self_check_has_a_kind_and_a_unit(of):
    for kind in Check:
        mine = of if kind.unit else ""
        assert Check.read(kind.what(mine)) == (kind, mine)
    assert Check.BASE_RTT.what("src0-dst0") == "base RTT src0-dst0, us" and Check.BASE_RTT.unit == "us"


@pytest.mark.parametrize("what", ["", "\x1b", "base RTT", "queue of left-right, bytes", "offloads that are on, us"])
def test_a_row_of_no_kind_is_damaged(what):
    with pytest.raises(ValueError, match="no row of a self-check"):
        store.Row(what=what, expected=1, measured=1, ok=True)


def test_the_line_of_a_self_check_goes_by_kinds_and_units():
    """Not by the words: a rate that was not measured, a wrong queue, and numbers in their own units."""
    row = lambda kind, of, expected, measured, ok=True: {  # noqa: E731
        "what": kind.what(of),
        "expected": expected,
        "measured": measured,
        "ok": ok,
    }
    rows = [
        row(Check.BASE_RTT, "a-b", 40000, 40123.4),
        row(Check.FORWARD_RATE, "a-b", 10**7, 9_990_000.0),
        row(Check.REVERSE_RATE, "a-b", 10**5, "not measured: the queue is too short for a train"),
        row(Check.CAKE, "a-b", {"ack-filter": "enabled"}, {"ack-filter": None}, False),
        row(Check.OFFLOADS, "", [], ["a-b tso"], False),
        row(Check.MEMORY, "", 0, 3, False),
    ]
    agent = {"self_check": rows, "cpu_busy": 0.25}
    said = summary.check_line(store.Run(Path(), {"agent": agent, "invalid": ["x"]}))
    assert said == (
        "set-up: base RTT a-b 40.12 ms (40.00), forward rate a-b 9.99 Mbit/s (10.00), "
        "reverse rate a-b not measured: the queue is too short for a train, queue limits WRONG, "
        "offloads ON: a-b tso, CPU 25 % busy: INVALID: x"
    )
    assert [row.wrong for row in store.Run(Path(), {"agent": agent}).self_check][-1] == (
        "times that memory for TCP ran short: expected 0, measured 3"
    )


@pytest.mark.parametrize("length", [2**63, qemu.SHARED_MB * 2**20 + 1])
def test_a_length_beyond_the_shared_memory(tmp_path, length):
    with pytest.raises(LabError, match="ended without results"):
        shared.results(handed_out(tmp_path, tar(GOOD), length))


def test_a_guests_complaint_is_one_short_line(tmp_path):
    status = json.dumps({"ok": False, "error": "\x1b[2J\nno " + "x" * 10**5})
    with pytest.raises(LabError) as e:
        shared.results(handed_out(tmp_path, tar(("status.json", status.encode()))))
    assert len(str(e.value)) <= shared.WORDS_MAX and "\n" not in str(e.value) and "\x1b" not in printable(str(e.value))


# --- what is stored ------------------------------------------------------------------------


@pytest.fixture
def task(tmp_path, monkeypatch) -> Task:
    monkeypatch.setattr(store, "STORE", tmp_path / "store")
    (tmp_path / "test.toml").write_text(toml(build(flow={"controller": "fast"})))
    (made,) = plan_runs(
        scenario.load(tmp_path / "test.toml"),
        image.Image(Path("nowhere"), arch.AMD64, "6.12.0-test", "qemu", "ab" * 32, {}, 10),
    )
    return made


MEMBER = {"name": "rtt_min", "bytes": 4, "offset": 0, "signed": False}


def left(task: Task, state: list | None = None, **changes) -> dict[str, bytes]:
    """Files of a run in which nothing happened."""
    queues = {way.dev: {"drops": 0} for hop in task.job.watch for way in (hop.forward, hop.reverse)}
    mark = {"tcp": {"src0": {"TcpExtTCPTimeouts": 0}}, "qdisc": queues}
    agent = {
        "kernel": "6.12.0-test",
        "cpu_busy": 0.2,
        "zero_ns": 0,
        "zero_unix_ns": 0,
        "self_check": [],
        "marks": {"measure": mark, "end": mark},
        "controllers": {"fast": {"state": [MEMBER] if state is None else state}},
    } | changes
    header, end = bytearray(64), bytearray(64)
    header[:16] = b"ASYMCCT1" + (1).to_bytes(4, "little") + (64).to_bytes(4, "little")
    end[0] = 4
    return {"agent.json": json.dumps(agent).encode(), "trace.bin": bytes(header + end)}


def save(task: Task, files: dict[str, bytes], **job) -> store.Run:
    return store.save(
        task.key,
        task.identity | {"job": dump(task.job) | job},
        task.about("lab") | {"wall_s": 1.0, "boot_s": 1.0},
        files,
    )


def test_what_an_agent_leaves_is_stored_and_found(task):
    save(task, left(task) | {"forward.pcap": b"packets"})
    assert store.find(task.key).folder == store.STORE / task.key
    assert (store.STORE / task.key / "forward.pcap").read_bytes() == b"packets"


@pytest.mark.parametrize("share, valid", [(0.69, True), (0.71, False)])
def test_the_cpu_is_busy_with_what_it_executed_whatever_the_kernel_says(task, share, valid):
    """7.x counts more idle time than there was."""
    executed = round(share * 1e9 * task.identity["clock_factor"] * task.job.duration_s)
    run = store.save(task.key, task.identity, {"name": "x", "executed": executed}, left(task, cpu_busy=-0.17))
    assert run.valid == valid and run.record["agent"]["cpu_busy"] == pytest.approx(share)


@pytest.mark.parametrize("p99_us, valid", [(1000, True), (1010, False)])
def test_on_a_host_the_links_tell_whether_it_was_busy(task, p99_us, valid):
    """Another program's time on the CPU is no fault of the run."""
    marks = json.loads(left(task)["agent.json"])["marks"]
    marks["end"]["late"] = {"packets": 9, "mean_us": 30, "p99_us": p99_us, "max_us": 5000}
    run = store.save(task.key, task.identity, {"name": "x"}, left(task, marks=marks, cpu_busy=1.0, relay=["fwd1"]))
    assert run.valid == valid and f"late by {p99_us / 1e3:g} ms (99 %), 5 at most" in summary.check_line(run)
    marks["end"]["late"] = {"p99_us": "much"}
    with pytest.raises(LabError, match="results: damaged"):
        store.save(task.key, task.identity, {"name": "x"}, left(task, marks=marks))


@pytest.mark.parametrize(
    "what, expected, measured, valid",
    [
        ("base RTT src0-dst0, us", 40_000, 40_990.5, True),
        ("base RTT src0-dst0, us", 40_000, 41_010, False),
        ("base RTT src0-dst0, us", 40_000, 38_000, False),
        ("forward rate src0-dst0, bit/s", 1e7, 0.91e7, True),
        ("reverse rate src0-dst0, bit/s", 1e7, 1.11e7, False),
        ("base RTT src0-dst0, us", 40_000, None, False),
        ("queue of fwd1, packets", 100, 101, False),
    ],
)
def test_on_a_host_times_are_as_near_as_real_time_lets_them_be(task, what, expected, measured, valid):
    rows = [{"what": what, "expected": expected, "measured": measured, "ok": False}]
    save = lambda marks: store.save(task.key, task.identity, {"name": "x"}, left(task, self_check=rows, marks=marks))  # noqa: E731
    marks = json.loads(left(task)["agent.json"])["marks"]
    assert not save(marks).valid
    marks["end"]["late"] = {"packets": 9, "mean_us": 30, "p99_us": 100, "max_us": 5000}
    assert save(marks).valid == valid


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "run.json", "acks.npz", "x/y", ""])
def test_no_other_file_is_stored(task, tmp_path, name):
    with pytest.raises(LabError, match="none that an agent leaves"):
        save(task, left(task) | {name: b""})
    assert not store.STORE.exists() or not list(store.STORE.iterdir())


@pytest.mark.parametrize("key", ["../x", "/tmp/x", "0" * 31, "0" * 32 + "\n", "A" * 32])
def test_a_key_names_no_other_folder(task, tmp_path, key):
    with pytest.raises(LabError, match="no key of a run"):
        store.save(key, task.identity, {"name": "x"}, left(task))
    with pytest.raises(LabError, match="no key of a run"):
        pages.up_to_date([store.Run(tmp_path, {"key": key})])


@pytest.mark.parametrize(
    "change",
    [
        {"controllers": {"../../x": {"state": [MEMBER]}}},
        {"controllers": {}},
        {"controllers": {"fast": 3}},
        {"cpu_busy": "much"},
        {"zero_ns": 2**70},
        {"self_check": [{"what": "x"}]},
        {"marks": {}},
        {"marks": {"measure": {}, "end": {}}},
        {"state": 3},
        {"state": [3]},
        {"state": [MEMBER | {"bytes": "8,O"}]},
        {"state": [MEMBER | {"offset": -8}]},
        {"state": [MEMBER | {"offset": 109}]},
        {"state": [MEMBER | {"name": "../x"}]},
        {"state": [MEMBER, MEMBER]},
    ],
    ids=lambda change: str(change)[:40],
)
def test_a_damaged_agent_json_is_one_line(task, change):
    with pytest.raises(LabError) as e:
        save(task, left(task, **change), trace_state=True)
    assert "\n" not in str(e.value) and len(str(e.value)) < 300 and not store.STORE.exists()


@pytest.mark.parametrize("data", [b"", b"[" * 99999, b"{}", b"null", b'{"zero_ns": 1e999}', b"\xff"], ids=repr)
def test_files_that_are_no_results_are_one_line(task, data):
    for name in ("agent.json", "trace.bin"):
        with pytest.raises(LabError) as e:
            save(task, left(task) | {name: data[:9999]})
        assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["identity"].update(kernel="other"),
        lambda r: r.update(key="../../x"),
        lambda r: r.pop("agent"),
        lambda r: r.update(identity=3),
        lambda r: r["agent"].update(self_check=[{"what": "\x1b"}]),
        lambda r: r.update(agent=[]),
    ],
)
def test_a_record_of_another_run_in_its_folder_is_refused(task, change):
    file = save(task, left(task)).folder / "run.json"
    record = json.loads(file.read_text())
    change(record)
    file.write_text(json.dumps(record))
    with pytest.raises(LabError, match="cannot be read .*; remove its folder, the run will be repeated"):
        store.find(task.key)


@pytest.mark.parametrize(
    "job, words",
    [
        ({"duration_s": 1e12}, "to 1e+12 s in bins of 100 ms"),
        ({"duration_s": 1e12, "flows": []}, "to 1e+12 s in bins of 100 ms"),
        ({"duration_s": 1e5, "bin_ms": 1}, "a job of 1e+08 bins, more than the 50000000 that are read"),
        ({"bin_ms": 0}, "in bins of 0 ms"),
        ({"measure_from_s": -1.0}, "a job that measures from -1 to"),
        ({"measure_from_s": 1e4}, "a job that measures from 10000 to"),
        ({"duration_s": "9"}, "TypeError"),
    ],
)
def test_a_stored_job_of_any_length_costs_no_time(task, monkeypatch, job, words):
    """Whoever stored it: also where its metrics are computed anew."""
    folder = save(task, left(task)).folder
    record = json.loads((folder / "run.json").read_text())
    record["identity"]["job"] |= job
    record |= {"key": store.key_of(record["identity"]), "metrics_hash": "older"}
    (folder / "run.json").write_text(json.dumps(record | {"record_sha256": store.record_digest(record)}))
    with pytest.raises(LabError) as error:
        store.opened(folder)
    assert words in str(error.value) and "\n" not in str(error.value)


def read_all(key: str) -> None:
    """A run, and what is shown of it."""
    run = store.find(key)
    assert len(repr(run)) < 500 and isinstance(run.valid, bool)
    frame.flows([run])
    summary.print_runs([run], {})
    for rows in (run.acks, run.goodput, run.links, run.state(0)):
        assert len(rows) < 10**6
    run.capture("forward")


@pytest.mark.parametrize("name", ["run.json", "forward.pcap", "acks.npz", "links.npz", "state-fast.npz"])
def test_a_damaged_run(task, name, capsys):
    """A colleague may have sent it so, or a disk may have left it so."""
    capture = PCAP + b"".join(struct.pack("<IIII", i, 0, len(p), 60) + p for i, p in enumerate(5 * [packet()]))
    identity = task.identity | {"job": dump(task.job) | {"trace_state": True}}
    key = store.key_of(identity)
    rows = [
        {"what": "base RTT src0-dst0, us", "expected": 40371.68, "measured": 40034.8, "ok": True},
        {"what": "offloads that are on", "expected": [], "measured": [], "ok": True},
    ]
    files = left(task, self_check=rows) | {"forward.pcap": capture}
    file = store.save(key, identity, task.about("lab") | {"wall_s": 1.0}, files).folder / name
    read_all(key)
    whole, rng = file.read_bytes(), random.Random(name)
    for _ in range(COUNT):
        store.table.cache_clear()
        file.write_bytes(changed(whole, rng, name == "run.json"))
        one_line_or_none(lambda: read_all(key))
    capsys.readouterr()


def test_metrics_made_anew_follow_no_link_that_another_has_laid(task, tmp_path, monkeypatch):
    folder, target = save(task, left(task)).folder, tmp_path / "mine"
    target.write_text("mine")
    (folder / f".run.json.{os.getpid()}.part").symlink_to(target)
    monkeypatch.setattr(store, "METRICS_HASH", "newer")
    assert store.find(task.key).record["metrics_hash"] == "newer" and target.read_text() == "mine"
    assert json.loads((folder / "run.json").read_text())["metrics_hash"] == "newer"


# --- a store that others write ------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["metrics"].update(goodput_bps=99e6, jain=0.5),
        lambda r: r["metrics"]["flows"][0].update(retransmits=7),
        lambda r: r.update(invalid=["it is not"]),
        lambda r: r.update(result_sha256="ab" * 32),
    ],
)
def test_a_stored_run_that_was_changed_is_noticed(task, change):
    file = save(task, left(task)).folder / "run.json"
    record = json.loads(file.read_text())
    change(record)
    file.write_text(json.dumps(record))
    with pytest.raises(LabError, match="changed after it was stored.; remove its folder, the run will be repeated"):
        store.find(task.key)


def test_a_table_that_was_changed_is_noticed(task):
    run = save(task, left(task))
    tables.write({"acks": np.zeros(len(run.acks) + 1, run.acks.dtype)}, run.folder)
    store.table.cache_clear()
    with pytest.raises(LabError, match="acks.npz: no table of a run .it was changed after it was stored"):
        _ = store.find(task.key).acks


def test_a_run_that_an_earlier_version_stored_is_read(task):
    file = save(task, left(task)).folder / "run.json"
    record = json.loads(file.read_text())
    file.write_text(json.dumps({k: v for k, v in record.items() if k not in ("tables", "record_sha256")}))
    assert len(store.find(task.key).acks) == len(store.Run(file.parent, record).acks)


def test_new_metrics_of_a_store_that_cannot_be_written(task, monkeypatch):
    """Another user's: the new ones count, and the file stays."""
    run = save(task, left(task))
    before = (run.folder / "run.json").read_bytes()

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store, "METRICS_HASH", "newer")
    monkeypatch.setattr(store.tempfile, "NamedTemporaryFile", refuse)
    assert store.find(task.key).record["metrics_hash"] == "newer"
    assert (run.folder / "run.json").read_bytes() == before and len(list(store.runs())) == 1


def column(values: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, values, allow_pickle=True)
    return out.getvalue()


def archive(file: Path, columns: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(file, "w", kind) as out:
        for name, data in columns.items():
            out.writestr(f"{name}.npy", data)


@pytest.mark.parametrize("name", ["acks", "links", "state-fast"])
def test_a_small_file_takes_no_gigabytes(tmp_path, name):
    """Ten million rows in some kilobytes. An archive that says less than it holds gives what it says."""
    names = (*trace.TABLES.get(name, trace.STATE_COLUMNS), "more", "most")
    file = tmp_path / f"{name}.npz"
    archive(file, dict.fromkeys(names, column(np.zeros(10_000_000))))
    assert file.stat().st_size < 4 << 20
    with pytest.raises(LabError, match=f"{name}.npz: no table of a run .* that would take"):
        tables.read(tmp_path, name)
    size = struct.pack("<I", 128 + 80_000_000)
    assert (data := file.read_bytes()).count(size) == 2 * len(names)
    file.write_bytes(data.replace(size, struct.pack("<I", 200)))
    tracemalloc.start()
    with pytest.raises(LabError, match="no table of a run"):
        tables.read(tmp_path, name)
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


HUGE = column(np.zeros(1)).replace(b"(1,), }" + 13 * b" ", b"(" + 13 * b"9" + b",), } ")


@pytest.mark.parametrize(
    "name, data, reason",
    [
        ("dev", column(np.array([1.5])), "column 'dev' has no names"),
        ("dev", column(np.array(["x" * 4000])), "column 'dev' has no names"),
        ("dev", column(np.array(["\x7f[2J"], "U16")), "column 'dev' has no names of devices"),
        ("dev", column(np.full(16, 0x7FFFFFFF, "<u4").view("U16")), "column 'dev' has no names of devices"),
        ("t", column(np.array(["x"])), "column 't' has no numbers"),
        ("t", column(np.array([print], object)), "column 't' has no numbers"),
        ("t", column(np.zeros(2)), "several lengths"),
        ("t", column(np.zeros((1, 1))), "column 't' is cut off"),
        ("t", column(np.zeros(1))[:-1], ""),
        ("t", HUGE, "column 't' is cut off"),
        ("t", b"x", ""),
        ("../x", column(np.zeros(1)), "a column '../x.npy'"),
        ("x" * 65, column(np.zeros(1)), "a column 'x"),
        (None, b"", "no column 'dev'"),
    ],
)
def test_a_table_that_is_none(tmp_path, name, data, reason):
    assert len(HUGE) == len(column(np.zeros(1)))
    good = {c: column(np.zeros(1, "U16" if c == "dev" else "f8")) for c in trace.TABLES["links"]}
    archive(tmp_path / "links.npz", good)
    assert len(tables.read(tmp_path, "links")) == 1
    if name is None:
        del good["dev"]
    archive(tmp_path / "links.npz", good | ({name: data} if name else {}))
    with pytest.raises(LabError, match=f"links.npz: no table of a run .*{reason}.*; remove its folder"):
        tables.read(tmp_path, "links")


def test_a_table_packed_by_what_knows_no_bounds(tmp_path):
    archive(tmp_path / "links.npz", {"t": column(np.zeros(1))}, zipfile.ZIP_LZMA)
    with pytest.raises(LabError, match="links.npz: no table of a run .a column 't.npy'"):
        tables.read(tmp_path, "links")


# --- workers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted, files",
    [
        ("../../../x", {}),
        ("ab" * 31, {}),
        ("ab" * 32, {"../x": (1, b"")}),
        ("ab" * 32, {"memory": (2**40, b"")}),
        ("ab" * 32, {"agent.py": (1, b"")}),
    ],
)
def test_a_worker_keeps_an_image_only(tmp_path, monkeypatch, wanted, files):
    monkeypatch.setattr(worker, "IMAGES", tmp_path / "image")
    with pytest.raises(LabError, match="no image"):
        worker.take_image(wanted, files)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"host": "h" * 999},
        {"host": 3},
        {"files": {"x": "text"}},
        {"files": []},
        {"took": {"key": 1.0}},
        {"took": {"executed": 1, "wall_s": "1", "boot_s": None}},
        {"took": {"executed": 1.5, "wall_s": 1.0, "boot_s": None}},
        {"identity": []},
    ],
)
def test_a_workers_answer_has_one_form(change):
    took = {"executed": 10**9, "wall_s": 1.0, "boot_s": None}
    answer = {"files": {"trace.bin": b""}, "took": took, "identity": {}, "host": "h"}
    assert cluster.Got.model_validate(answer).model_dump() == answer
    with pytest.raises(ValueError):
        cluster.Got.model_validate(answer | change)


# --- virtual machines ----------------------------------------------------------------------


@pytest.mark.lab
def test_a_guest_that_leaves_a_file_of_another_name_stores_nothing(scenario_file, tmp_path, monkeypatch):
    """Its tracer is replaced by a program that leaves a page beside the trace."""
    monkeypatch.setattr(store, "STORE", tmp_path / "store")
    guest = image.open_image()
    (task,) = plan_runs(scenario.load(scenario_file()), guest)
    evil = b"""#!/usr/bin/python3 -sSB
import _signal
open('/tmp/out/index.html', 'w').write('<script>')
print('tracing', flush=True)
_signal.sigwait([15])
"""
    monkeypatch.setattr(
        tarfile.TarInfo,
        "__init__",
        lambda self, *name, init=tarfile.TarInfo.__init__: (init(self, *name), setattr(self, "mode", 0o755))[0],
    )
    with pytest.raises(LabError, match="'index.html' of 8 bytes, type b'0', is no result of an agent"):
        vm.run(guest, task.job, {"../usr/bin/asymcc": evil})


@pytest.mark.lab
def test_the_sandbox_changes_no_byte_and_lets_no_program_start(scenario_file, tmp_path, monkeypatch):
    guest = image.open_image()
    (task,) = plan_runs(scenario.load(scenario_file(mtu=998)), guest)
    inside, _ = vm.run(guest, task.job, task.objects)
    shell = [*"qemu-system-x86_64 -M none -display none -qmp stdio -incoming".split(), f"exec:touch {tmp_path}/x"]
    with pytest.raises(LabError, match="failed"):
        qemu.Machine(shell, tmp_path)
    assert not (tmp_path / "x").exists()
    monkeypatch.setattr(qemu, "SANDBOX", [])
    with contextlib.closing(qemu.Machine(shell, tmp_path)):
        wait_for((tmp_path / "x").exists)
    outside, _ = vm.run(guest, task.job, task.objects)
    assert store.result_hash(inside) == store.result_hash(outside)


def test_what_killed_runs_left_goes_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BUILD", tmp_path)
    killed = tmp_path / "tmp" / "vm-killed"
    killed.mkdir(parents=True)
    for file in ("shared", ".lock"):
        (killed / file).write_text("x")
    (tmp_path / "tmp" / "vm-link").symlink_to(tmp_path)
    with files.scratch("vm-") as one, files.scratch("vm-") as two:
        assert one.exists() and two.exists() and not killed.exists() and tmp_path.exists()
    assert not one.exists() and not two.exists()
