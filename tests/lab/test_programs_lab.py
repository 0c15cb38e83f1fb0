# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real programs in the guest: they repeat, they tell what their link carries, and each sees its own world alone."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import asymlab
from asymlab import LabError
from asymlab.machine import on_uml, packs
from asymlab.machine.image import open_image
from asymlab.paths import BUILT
from asymlab.plan import scenario, toml
from asymlab.plan.topology import plan_job
from asymlab.report import pages
from asymlab.results.programs import number
from asymlab.run.execute import execute
from asymlab.run.tasks import plan_runs
from tests.scenarios import LINUX
from tests.shared import CAGES, REPO, run

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("uml")]
UML = "6.12-uml"
CASES = REPO / "experiments" / "programs" / "cases.toml"
SOURCE = REPO / "tests" / "lab" / "program.c"


@pytest.fixture(scope="module")
def uml():
    try:
        open_image(UML)
    except LabError as e:
        pytest.skip(str(e))


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    file = tmp_path_factory.mktemp("programs") / "mine"
    subprocess.run(["gcc", "-static", "-O2", "-o", file, SOURCE], check=True)
    return file


@pytest.fixture
def case(scenario_file, binary, tmp_path):
    """A scenario of a second in which a host runs the program with each of some lists of words."""
    shutil.copy(binary, tmp_path)

    def write(*words: list[str], **keys) -> object:
        programs = [
            {"name": f"p{i}", "host": "here", "run": ["mine", *argv], **keys.get(f"p{i}", {})}
            for i, argv in enumerate(words)
        ]
        tree = {
            "flows": None,
            "run": {"duration": "1s", "measure_from": "500ms"},
            "packs": {"mine": {"files": {"/usr/bin/mine": binary.name}}},
            "hosts": {"here": {"at": "left"}, "there": {"at": "right"}},
            "programs": programs,
        }
        return scenario_file(LINUX, tree)

    return write


def reasons(file) -> list[str]:
    """Why its run is invalid."""
    guest = open_image(UML)
    (task,) = plan_runs(scenario.load(file), guest)
    return execute([task], guest)[task.key].record["invalid"]


def test_iperf3_tells_what_the_tracer_and_the_link_tell_and_repeats():
    first, second = (run(f"{CASES}:iperf3", UML, fresh=True) for _ in range(2))
    assert first.record["result_sha256"] == second.record["result_sha256"]
    download = max(first.connections, key=lambda of: of["bytes"])
    assert (download["src"], download["src_port"], download["dst"]) == ("server", 5201, "laptop")
    sent = number(first.programs, "client.result.end.sum_sent.bytes")
    assert download["bytes"] == pytest.approx(sent, rel=0.005)
    assert number(first.programs, "server.result.end.sum_sent.retransmits") == download["retransmits"]
    begin = download["start_s"] + number(first.programs, "client.result.intervals.2.sum.start")
    own = number(first.programs, "client.result.intervals.2.sum.bits_per_second")
    rows = first.goodput[(first.goodput["flow"] == download["flow"]) & (abs(first.goodput["t"] - begin - 0.5) < 0.5)]
    assert own == pytest.approx(rows["bytes"].sum() * 8 / (len(rows) * 0.1), rel=0.005)
    rows = first.packets[(first.packets["flow"] == download["flow"]) & (abs(first.packets["t"] - begin - 0.5) < 0.5)]
    assert set(rows["dev"]) == {first.job.watch[0].forward.dev}
    assert own == pytest.approx(rows["bytes"].sum() * 8 / (len(rows) * 0.1) * first.job.payload_share, rel=0.005)
    assert download["queue_delay_mean_s"] == pytest.approx(first.metrics["forward"]["queue_delay_mean_s"], rel=0.15)
    page = pages.render(first)
    assert "Connections of programs" in page and page.count("<figure") == 2
    frame = asymlab.connections([first])
    assert [row["flow"] for row in frame] == [0, 1, 2, 3] and frame[3]["rtt_p50_s"] == download["rtt_s"]["p50"]


# A case has a pack that comes along, and some numbers of its result.
PACKS = {
    "tls": {
        "page.result.min.http_code": 200,
        "page.result.p95.ssl_verify_result": 0,
        "page.result.sum.num_connects": 1,
    },
    "python": {"client.result.times.9": 1.3},
    "quic": {"curl.result.http_code": 200, "curl.result.size_download": 5e6},
    "ack-frequency": {"client.result.bytes": 5e6, "client.result.seconds": 2.35},
    "browser": {"page.result.files": 31, "page.result.failed": 0, "page.result.load": 1.07},
}
UDP = "quic", "ack-frequency"


@pytest.mark.parametrize("name", PACKS)
def test_a_pack_that_comes_along_works_and_repeats(name):
    if name == "ack-frequency" and not (BUILT / "quinn" / "quinn-file").exists():
        pytest.skip("make quinn")
    if name == "browser" and "ASYMLAB_BROWSER" not in os.environ:
        pytest.skip("make check-browser")
    first, second = (run(f"{CASES}:{name}", UML, fresh=True) for _ in range(2))
    assert first.record["result_sha256"] == second.record["result_sha256"]
    assert {path: number(first.programs, path) for path in PACKS[name]} == pytest.approx(PACKS[name], rel=0.05)
    assert {of["protocol"] for of in first.connections} == {"udp" if name in UDP else "tcp"}
    carried = sum(of["bytes"] for of in first.connections if of["src"] == "server")
    least = {"tls": 3e5, "browser": 3e5, "python": 1e6}.get(name, 5e6)
    assert least < carried < least * {"tls": 1.07, "browser": 1.07, "python": 1.02}.get(name, 1.04)


def test_a_browser_whose_page_ends_says_so(tmp_path):
    """The page's process is Python, which cannot read Chromium."""
    if "ASYMLAB_BROWSER" not in os.environ:
        pytest.skip("make check-browser")
    file = tmp_path / "ends.toml"
    words = ["page", "http://server/page.html", "--renderer-cmd-prefix=/usr/bin/python3"]
    about = {"base": f"{CASES}:browser", "title": "Its page ends", "id": "ENDS"}
    file.write_text(toml.plain(about | {"programs": {"1": {"run": words}}}))
    (why,) = reasons(file)
    assert re.fullmatch(r"program page: exit 1 at 2\.\d+ s \(Chromium's page has ended: abnormal, 256\)", why)


def test_an_ack_for_ten_packets_is_asked_for_and_sent():
    """Some come sooner, for an ACK waits 25 ms at most."""
    if not (BUILT / "quinn" / "quinn-file").exists():
        pytest.skip("make quinn")
    data, acks = sorted(run(f"{CASES}:ack-frequency", UML).connections, key=lambda of: -of["bytes"])
    assert 7 < data["packets"] / acks["packets"] < 10


def test_a_page_beside_a_download():
    r = run(f"{CASES}:page", UML)
    assert number(r.programs, "page.took") < 2.5
    assert len(r.programs["page"]["result"]) == 30
    assert {line["http_code"] for line in r.programs["page"]["result"]} == {200}
    assert r.programs["nginx"]["exit"] is None
    assert (r.folder / "page.out").read_bytes().count(b"\n") == 30


def test_both_engines_agree(tmp_path):
    """A download, and then a page, by nginx and curl."""
    file, (page,) = tmp_path / "both.toml", scenario.load(f"{CASES}:page")
    nginx, curl = (program.model_dump(include={"name", "host", "pack", "run"}) for program in page.scenario.programs)
    download = curl | {"name": "download", "run": [*curl["run"][:3], "--output", "/dev/null", "http://server/5MB"]}
    programs = [nginx | {"start": "before", "ends": "running"}, download, curl | {"start": "3s"}]
    about = {"base": f"{CASES}:page", "title": "Both engines", "id": "ENGINES"}
    file.write_text(toml.plain(about | {"without": ["flows", "programs"], "programs": programs}))
    fast, exact = (run(file, image).programs for image in (UML, "6.12"))
    for name, within in (("download", 0.01), ("page", 0.02)):
        assert number(fast, f"{name}.took") == pytest.approx(number(exact, f"{name}.took"), rel=within)


@pytest.mark.parametrize("image", [UML, "6.12"])
def test_a_program_is_in_a_world_of_its_own(case, image):
    r = run(case(["world"]), image)
    told = dict(line.replace(":", "").split(maxsplit=1) for line in (r.folder / "p0.out").read_text().splitlines())
    assert told["host"] == "here" and told["user"] == "65534" and told["pid"] == "2"
    assert {told[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}
    assert told["NoNewPrivs"] == "1"
    assert told["tmp"] == told["shm"] == told["null"] == "1" and told["gpu"] == told["uring"] == "0"
    assert int(told["data"]) % (1 << 20) == 0  # Chromium's pages crash else


def tried(r) -> set[str]:
    """The tries to get out that did not fail."""
    lines = (r.folder / "p0.out").read_text().splitlines()
    assert lines[-1] == "tried all"
    return {line.removeprefix("did: ") for line in lines[:-1]}


@pytest.mark.parametrize("image", [UML, "6.12"])
def test_what_tries_to_get_out_of_its_world_does_not(case, image):
    assert tried(run(case(["escape"]), image)) == set()


def test_without_its_world_it_does_most_of_it(case, monkeypatch, tmp_path):
    """They are tries that succeed elsewhere."""
    modules = Path(shutil.copytree(packs.MODULES, tmp_path / "modules")) / "__init__.py"
    lines = modules.read_text().splitlines(keepends=True)
    without = ("os.setgid(", "os.setuid(", "LIBC.prctl(PR_SET_NO_NEW_PRIVS", "os.setgroups(")
    modules.write_text("".join(line for line in lines if not line.strip().startswith(without)))
    monkeypatch.setattr(packs, "MODULES", modules.parent)
    assert len(tried(run(case(["escape"]), UML))) >= 15


def test_a_program_without_memory_ends_and_the_lab_does_not(case):
    assert re.fullmatch(r"program p0: exit 9 at .* s \(no memory after 3\d\d MB\)", reasons(case(["eat", "0"]))[0])
    assert re.match("program p0: (exit 9|signal 9) at ", reasons(case(["eat", "5"]))[0])


def test_a_program_and_a_flow_share_their_hosts(case, tmp_path):
    hosts = "[hosts.here]\nat = 'left'\nflows = 0\n[hosts.there]\nat = 'right'\nflows = 0\n"
    file = tmp_path / "shared.toml"
    file.write_text(f"base = '{case(['world'])}'\nid = 'SHARED'\ntitle = 'x'\n[[flows]]\ncontroller = 'cubic'\n{hosts}")
    r = run(file, UML)
    assert r.valid and r.metrics["goodput_bps"] > 0 and "host here\n" in (r.folder / "p0.out").read_text()


TAKES = {  # with the addresses of its server, of the flow's sink and of the load's
    "the port of a flow's source": ["tcp", "{0}", "7", "61000"],
    "that over loopback": ["tcp", "127.0.0.1", "7", "61000"],
    "that at the other end": ["tcp", "{0}", "61000", "7"],
    "a flow's receiver": ["tcp", "{1}", "5201", "7"],
    "a load's receiver": ["udp", "{2}", "5201", "7"],
}


@pytest.mark.parametrize("words", TAKES.values(), ids=TAKES)
def test_no_program_has_a_port_of_the_labs_own(case, tmp_path, words):
    """The flow and the load are as beside a program that sends nothing."""
    keys = {"ends": "any", "start": "before"}
    flows = "[[flows]]\ncontroller = 'cubic'\n[[background]]\nrate = '1mbit'\npacket = 1000\n"
    guest = open_image(UML)

    def planned(*argv: str):
        base = case([*argv], ["serve", "7"], ["serve", "7"], p0=keys, p1=keys, p2=keys | {"host": "there"})
        file = tmp_path / "ports.toml"
        file.write_text(f"base = '{base}'\nid = 'PORTS'\ntitle = 'x'\n{flows}")
        return scenario.load(file)

    def record(cases) -> dict:
        (task,) = plan_runs(cases, guest)
        return execute([task], guest)[task.key].record

    silent = planned("exit", "0")
    job = plan_job(silent[0], 1)
    sound = record(silent)
    places = job.names["there"], job.flows[0].dst_addr, job.background[0].dst_addr
    taker = record(planned(*(word.format(*places) for word in words)))
    assert [re.sub(r"\(\d+", "(N", reason) for reason in taker["invalid"]] == [
        "program p0 or p1: takes a port of the lab's flows or loads (N packets dropped)"
    ]
    for metric in ("goodput_bps", "background_bps"):
        assert taker["metrics"][metric] == sound["metrics"][metric], metric


def test_a_program_that_listens_on_a_port_of_the_labs_is_told(case, tmp_path):
    file = tmp_path / "listens.toml"
    base = case(["serve", "61000"], p0={"start": "before", "ends": "any"})
    file.write_text(
        f"base = '{base}'\nid = 'LISTENS'\ntitle = 'x'\nhosts.here.flows = 0\n[[flows]]\ncontroller = 'cubic'\n"
    )
    with pytest.raises(LabError, match=r"program p0: listens on a port of the lab's flows, 61000 \+ N$"):
        reasons(file)


def test_an_end_that_was_not_meant_makes_the_run_invalid(case):
    words = (["exit", "3"], ["abort"], ["exit", "0"], ["sleep", "0"], ["sleep", "9"], ["endless"])
    printed = (["print", "nothing"], ["print", '{"a": [1, 5]}'], ["print", '{"error": "no route"}'])
    ends = {"p2": {"ends": 1}, "p3": {"ends": "running"}} | {p: {"result": "json"} for p in ("p6", "p7", "p8")}
    file = case(*words, *printed, **ends)
    assert [reason.split("(")[0].strip() for reason in reasons(file)] == [
        "program p0: exit 3 at 0.000 s",
        "program p1: signal 6 at 0.000 s",
        "program p2: exit 0 at 0.000 s, not exit 1",
        "program p3: exit 0 at 0.000 s, not running",
        'program p4: still runs at 1 s; if it should, its `ends` is "running" or "any"',
        "program p5: more than 16 MB of output at 0.000 s",
        "program p6: its standard output is no result",
        "program p8: its result is an error",
    ]
    assert "(it ends here)" in reasons(file)[0]


def test_an_end_that_was_meant_does_not(case):
    ends = {"p0": {"ends": 3}, "p1": {"ends": "running"}, "p2": {"ends": "running", "stop": "500ms"}}
    r = run(case(["exit", "3"], ["sleep", "9"], ["sleep", "9"], **ends), UML)
    assert [r.programs[name]["exit"] for name in ("p0", "p1")] == [3, None]
    assert r.programs["p2"]["exit"] in (-15, -9) and 0.5 <= r.programs["p2"]["end_s"] < 1.6


def test_a_name_that_is_no_host_is_told(tmp_path):
    file = tmp_path / "name.toml"
    lost = '[[programs]]\nname = "lost"\nhost = "laptop"\npack = "web"\nrun = ["curl", "-sS", "http://exmaple/"]\n'
    file.write_text(f'base = "{CASES}:page"\ntitle = "A name"\nid = "NAME"\nwithout = ["programs"]\n{lost}')
    (reason,) = reasons(file)
    assert reason.startswith("program lost: exit 6 at ") and reason.endswith("; names are those of [hosts]")


def test_a_wait_without_sleeping_gets_on_and_the_counter_is_virtual(case):
    """Each of four ways ends with its timer, on each repeat at the same time."""
    file = case(*(["busy", how] for how in ("yield", "poll", "call", "counter")))
    first, second = (run(file, UML, fresh=True) for _ in range(2))
    assert first.record["result_sha256"] == second.record["result_sha256"]
    for name in first.programs:
        _, clock, counter = map(int, (first.folder / f"{name}.out").read_text().split())
        assert 10e6 <= clock < 10.1e6 and abs(counter - clock) < 5000


@pytest.mark.parametrize("cage", CAGES)
def test_a_program_learns_neither_name_nor_time_of_the_host(case, monkeypatch, cage):
    """The page is none where the host has none: a signal, in place of an error."""
    monkeypatch.setenv("ASYMLAB_CAGE", cage)
    first, second = (run(case(["host"], p0={"ends": "any"}), UML, fresh=True) for _ in range(2))
    assert first.record["result_sha256"] == second.record["result_sha256"]
    words = (first.folder / "p0.out").read_text()
    assert "host" in words and not [word for word in (os.uname().nodename, os.uname().release) if word in words]
    assert words.endswith("0 0 0 0\n") or first.programs["p0"]["exit"] == -signal.SIGSEGV


def test_a_spin_is_ended_by_its_cpu_time_and_named(case, monkeypatch):
    monkeypatch.setattr(on_uml, "STALL_S", 5)
    began = time.monotonic()
    with pytest.raises(LabError, match=r"clock stands still.*program p0 waits without a system call"):
        run(case(["spin"]), UML)
    assert time.monotonic() - began < 120
