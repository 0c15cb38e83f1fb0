# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Random scenarios: drawn alike everywhere, sound, judged; what breaks is found and shrunk."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace

import pytest

from asymlab import LabError
from asymlab.conformance.explore import draw, explore, invariants, shrink, silence, stack
from asymlab.conformance.explore.view import View
from asymlab.controllers import LINUX, built_in
from asymlab.machine import image
from asymlab.plan import objects, scenario, topology
from asymlab.plan.toml import toml
from asymlab.run.execute import execute
from asymlab.run.tasks import plan_runs
from tests.live.harness import compile_bpf
from tests.shared import BUILD, LAB, REPO, asymlab, compile_job

COUNT = 12  # paths of the short set; `make explore` draws as many as one likes


@pytest.fixture(scope="module")
def known():
    return {name: draw.facts(name) for name in built_in(BUILD)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(explore, "FOLDER", tmp_path)
    return tmp_path


# --- what is drawn -------------------------------------------------------------------------


def test_a_draw_is_the_same_everywhere_and_its_file_says_all_of_it(known, folder):
    for number in range(200):
        tree = draw.draw(3, number, list(known), known)
        assert tree == draw.draw(3, number, list(known), known)
        case = explore.written(tree, "x")
        assert tomllib.loads(case.file.read_text()) == shrink.tidy(tree)
        assert case.scenario == scenario.of_tree(tree)
        compile_job(case, 1)
    assert tree != draw.draw(4, number, list(known), known)


def test_an_uplink_changes_nothing_else_of_a_draw(known):
    texts = set()
    for number in range(100):
        plain = draw.draw(5, number, list(known), known)
        tree = draw.with_uplink(plain, 5, number)
        assert draw.valid(tree) and tree == draw.with_uplink(plain, 5, number)
        rest = {key: value for key, value in tree.items() if key != "uplink"}
        assert rest == {key: value for key, value in plain.items() if key != "thin"}
        texts |= {*tree["uplink"], tree["uplink"]["down"]}
    assert texts == {"at", "least", "most", "rate", "down", True, False}
    of_seed = explore.Paths(5, list(known), of("7.3.4"), uplink=True).drawn(100)
    assert all("uplink" in tree for tree in of_seed.values())


def test_draws_have_all_that_a_scenario_can(known):
    """Each feature comes, each controller is first as often, and what excludes another is not beside it."""
    text, first, alone = "", set(), {name for name in known if known[name].alone}
    assert len(alone) > 1
    for number in range(40 * len(known)):
        tree = draw.draw(1, number, list(known), known)
        text += toml(tree)
        first.add(tree["flows"][0]["controller"])
        assert len({f["controller"] for f in tree["flows"]} & alone) <= 1
    assert first == set(known)
    words = "loss reorder duplicate jitter red strip rewrite hops stop resume size extra_delay background mtu"
    commands = [f'command = "{c}"' for c in ("replace", "unload", "drain", "load", "use")]
    words += " loss_burst disorder policer codel fq_codel pie fq cake trace atm aggressive coalesce"
    words += " segment source_sysctls sink_sysctls hosts_of count"
    words = [
        *words.split(),
        "ip = 6",
        'ack = "every"',
        "mtu = 9000",
        "offloads = true",
        'ecn = "accurate"',
        "[thin]",
        "reverse_kbit",
        "set = ",
        *commands,
        *LINUX,
    ]
    assert [w for w in words if w not in text] == []


def of(kernel: str, engine: str = "qemu") -> SimpleNamespace:
    """The members of an image that decide about the draw."""
    return SimpleNamespace(kernel=kernel, engine=engine)


def ways(tree: dict) -> list[dict]:
    return [hop[way] for hop in tree["path"].get("hops", [tree["path"]]) for way in topology.DIRECTIONS]


def test_where_a_kernel_has_dualpi2_it_is_drawn():
    """In place of another queue that marks; the paths are the same else."""
    new, old = (explore.Paths(1, ["prague"], of("7.3.4", engine)).drawn(60) for engine in ("uml", "qemu"))
    assert "dualpi2" not in str(old) and str(new).count("dualpi2") > 3
    for number, tree in new.items():
        assert draw.valid(tree) and tree | {"path": old[number]["path"]} == old[number]
        for way, was in zip(ways(tree), ways(old[number]), strict=True):
            kind = next((k for k in ("codel", "pie") if was.get(k, {}).get("ecn")), None)
            put = {"dualpi2": {"target": was[kind]["target"]}} if kind else {}
            assert way == {k: v for k, v in was.items() if k != kind} | put


def test_where_a_kernel_has_no_accurate_ecn_the_same_paths_have_ecn():
    new, old = (explore.Paths(1, ["fast"], kernel).drawn(60) for kernel in (of("7.0.3"), of("6.18.44")))
    new = {number: explore.without_newer(tree, {"prague"}) for number, tree in new.items()}
    accurate = [number for number, tree in new.items() if tree.get("ecn") == "accurate"]
    assert accurate and [old[number] for number in accurate] == [new[number] | {"ecn": True} for number in accurate]
    assert {n: t for n, t in old.items() if n not in accurate} == {n: t for n, t in new.items() if n not in accurate}


def test_where_a_kernel_lacks_what_a_controller_needs_the_same_paths_have_cubic():
    new, old = (explore.Paths(1, [], kernel).drawn(60) for kernel in (of("7.0.3"), of("6.18.44")))
    assert any("prague" in str(tree) for tree in new.values()) and not any("prague" in str(t) for t in old.values())
    for number, tree in new.items():
        names = [flow["controller"] for flow in tree["flows"]]
        assert [flow["controller"] for flow in old[number]["flows"]] == ["cubic" if n == "prague" else n for n in names]
        assert old[number]["path"] == tree["path"]
    assert any("prague" in str(tree) for tree in explore.Paths(1, ["prague"], of("6.18.44")).drawn(9).values())


# --- keys of scenarios ---------------------------------------------------------------------


FORWARD = {"direction": "forward"}
RENO = {"controller": "reno"}


def changes(*those: dict) -> dict:
    return {"changes": [{"at": "1s"} | change for change in those]}


def test_commands_are_for_what_asymcc_loads(scenario_file):
    (case,) = scenario.load(scenario_file(changes(RENO | {"command": "unload"})))
    with pytest.raises(LabError, match="reno is not one that asymcc loads"):
        compile_job(case, 1)


def test_a_change_of_the_path_comes_on_top_of_those_before(scenario_file):
    those = ({"at": "2s", "loss": "1%"}, {"at": "1s", "delay": "5ms", "rate": "1mbit"}, {"at": "2.5s", "mtu": 600})
    file = scenario_file(changes(*(FORWARD | change for change in those)))
    job = compile_job(scenario.load(file)[0], 1)
    first, second, third = job["changes"]
    assert [c["at_s"] for c in job["changes"]] == [1, 2, 2.5]
    assert first["path"] == [
        {
            "node": "left",
            "dev": "left-right",
            "shape": {"rate_bps": 10**6, "packet_bytes": 1000, "burst_bytes": 1125, "queue_packets": 100},
        },
        {"node": "right", "dev": "right-dst0", "shape": {"delay_us": 5000, "loss": 0.0, "reorder": 0.0}},
    ]
    assert second["path"] == [
        {"node": "right", "dev": "right-dst0", "shape": {"delay_us": 5000, "loss": 0.01, "reorder": 0.0}}
    ]
    assert third["path"] == [{"node": "left", "dev": "left-right", "mtu": 600}]


def test_jobs_without_the_new_keys_are_as_they_were(scenario_file):
    job = compile_job(scenario.load(scenario_file())[0], 1)
    assert not {"rewrites", "verify"} & set(job) and "jitter_us" not in job["probes"][0]
    assert {"delay_us", "loss", "reorder"} in [
        set(end["shape"]) for link in job["links"] for end in (link["a"], link["b"])
    ]


# --- what is judged ------------------------------------------------------------------------


def test_what_cannot_be_judged(scenario_file):
    for more, words in (({}, "needs verify"), ({"sweep": {"path.mtu": [500, 600]}}, "one case is judged")):
        p = asymlab("explore", scenario_file(more))
        assert p.returncode == 2 and words in p.stderr and len(p.stderr.splitlines()) == 1


def test_shrinking_keeps_what_breaks_and_nothing_else(known):
    """Breaks: a second flow of cubic beside loss forward. A draw that has both comes down to a dozen lines."""

    def breaks(tree):
        forward = tree["path"].get("forward") or tree["path"]["hops"][0]["forward"]
        return (
            [invariants.Broken("silence", "x", "")]
            if "loss" in forward and any(f["controller"] == "cubic" for f in tree["flows"])
            else []
        )

    trees = (draw.draw(1, n, list(known), known) for n in range(3000))
    for tree in [t for t in trees if breaks(t)][:10]:
        less = shrink.shrink(tree, "silence", breaks, 500)
        assert breaks(less) and draw.valid(less)
        assert (
            [f["controller"] for f in less["flows"]] == ["cubic"]
            and "hops" not in less["path"]
            and "changes" not in less
        )
        assert set(less["path"]["forward"]) == {"rate", "delay", "queue", "loss"} and set(less["path"]["reverse"]) == {
            "rate",
            "delay",
            "queue",
        }
        assert less["run"]["duration"] in ("2s", "3s") and set(less["flows"][0]) <= {"controller", "start"}


def test_shrinking_takes_what_somebody_wrote(known):
    """Any unit of time; keys with defaults may be missing."""
    way = {
        "forward": {"rate": "1mbit", "delay": "1ms", "queue": 9},
        "reverse": {"rate": "1mbit", "delay": "1ms", "queue": 9},
    }
    tree = {"title": "x", "id": "X", "path": {"hops": [way, way]}, "flows": [{"controller": "reno"}]}
    tree["run"] = {"duration": "19500ms", "traffic": "plain", "verify": True, "audit": True}
    less = shrink.shrink(tree, "left", lambda _: [invariants.Broken("left", "x", "")], 100)
    assert less["path"] == way and less["run"]["duration"] == "2s"


def edited(r, **tables):
    """The run with other tables or another record."""

    class Edited(type(r)):
        acks = property(lambda self: tables.get("acks", r.acks))
        goodput = property(lambda self: tables.get("goodput", r.goodput))
        links = property(lambda self: tables.get("links", r.links))
        uplink = property(lambda self: tables.get("uplink", r.uplink))

    return Edited(r.folder, {**r.record, "agent": {**r.record["agent"], **tables.get("agent", {})}})


def way(rate="1mbit", delay="20ms", queue=50, **more) -> dict:
    return {"rate": rate, "delay": delay, "queue": queue} | more


def tree_of(title: str, path: dict, *flows: dict, run: dict | None = None, **more) -> dict:
    """A scenario that can be judged."""
    judged = {"duration": "8s", "measure_from": "2s", "traffic": "plain", "verify": True, "audit": True}
    path = {"mtu": 1000} | path
    return {"title": title, "id": "EXPLORE", "path": path, "flows": [*flows], "run": judged | (run or {})} | more


def attempt(tree: dict):
    """The case and its run, which comes to its end."""
    case = explore.written(tree, "attempt")
    r = explore.attempt(image.open_image(LAB), case)
    assert not isinstance(r, LabError), r
    return case, r


@pytest.mark.lab
def test_each_invariant_can_fail(folder):
    """A sound run, then with one thing of it falsified at a time."""
    short = way(delay="10ms", queue=10)
    case, r = attempt(tree_of("sound", {"forward": short, "reverse": short}, {"controller": "nreno"}))
    assert r.valid and invariants.judge(case, r) == [] and invariants.floor_of(View(case, r))
    assert r.record["agent"]["verified"]["0"]["bytes"] > 800_000

    def breaks(**tables):
        return {b.invariant for b in invariants.judge(case, edited(r, **tables))}

    def acks(column, value, where=slice(100, 101)):
        table = r.acks.copy()
        table[column][where] = value
        return breaks(acks=table)

    verified = {"0": {"bytes": r.record["agent"]["verified"]["0"]["bytes"], "wrong_at": None}}
    assert breaks(agent={"verified": verified}) == set()
    assert breaks(agent={"verified": {"0": verified["0"] | {"wrong_at": 5}}}) == {"content"}
    assert breaks(agent={"verified": {"0": {"bytes": 10, "wrong_at": None}}}) == {"content"}
    assert acks("cwnd", 0) == acks("pacing", 1 << 40) == {"window"}
    assert acks("cwnd", 1 << 21) == acks("pacing", 0) == {"window", "pace"}
    assert acks("cwnd", int(r.acks["delivered"][100]) + 20) == {"window", "pace"}
    assert acks("rtt_us", 15_000) == {"rtt"}
    links = r.links.copy()
    links["bytes"][(links["dev"] == "left-right") & (links["t"] > 3)] *= 2
    assert breaks(links=links) == {"link"}
    quiet = r.links.copy()
    quiet["drops"] = 0  # else they may have been of what it sent in vain
    assert breaks(goodput=r.goodput[r.goodput["t"] < 4], links=quiet) == {"silence", "floor"}
    assert breaks(agent={"left": ["prog 1 nreno_init"]}) == {"left"}
    assert breaks(agent={"kernel_log": ["WARNING: CPU: 0 PID: 1 at net/ipv4/tcp.c:1"]}) == {"log"}
    assert breaks(agent={"kernel_log": ["sch_tbf: burst 240 is lower than device right-left mtu (1014) !"]}) == set()
    for kind, name in (("flow", "broken"), ("command", "command"), ("set", "command"), ("machine", "machine")):
        [broken] = invariants.judge(case, LabError("in whatever words", kind))
        assert (broken.invariant, broken.words) == (name, "in whatever words")
    for words in ("tc -n x: no", "flow 0: plain ended: by a line of the kernel's", "asymcc load reno: no"):
        assert invariants.judge(case, LabError(words)) == []  # the lab's own


@pytest.mark.lab
def test_an_uplink_that_leaves_its_bounds_or_stops_is_found(folder):
    short, told = way(delay="10ms", queue=10), {"at": "host", "least": "200kbit", "most": "2mbit"}
    flows = {"controller": "nreno"}, {"controller": "nreno", "direction": "reverse", "hosts_of": 0}
    case, r = attempt(tree_of("shaped", {"forward": short, "reverse": short}, *flows, uplink=told))
    assert r.valid and invariants.judge(case, r) == [] and r.uplink["rate"].min() < 1.1e6  # it has found the rate

    def breaks(ticks):
        return [b.invariant for b in invariants.judge(case, edited(r, uplink=ticks))]

    for column, value in (("rate", 199e3), ("rate", 2.1e6), ("rate", float("nan")), ("queue", float("nan"))):
        ticks = r.uplink.copy()
        ticks[column][40] = value
        assert breaks(ticks) == ["uplink"]
    assert breaks(r.uplink[:70]) == breaks(r.uplink[[*range(40), *range(44, len(r.uplink))]]) == ["uplink"]


@pytest.mark.lab
def test_a_connection_that_closes_late_is_found(folder):
    """600 ms, the ACK of the FIN thinned or not: a sender whose ACK is lost waits for its timeout, 0.9 s or more."""
    far = way(delay="300ms", queue=100)
    path = {"mtu": 1500, "forward": far, "reverse": far | {"rate": "100kbit"}}
    case, r = attempt(tree_of("closes", path, {"controller": "reno", "size": 150_000}, thin={"reverse_kbit": 100}))
    assert r.valid and invariants.judge(case, r) == []
    (closed, took) = r.record["agent"]["closed"]["0"]
    for closings in ({"0": (closed, took + 900_000_000)}, {}):
        assert [b.invariant for b in invariants.judge(case, edited(r, agent={"closed": closings}))] == ["close"]


@pytest.mark.lab
def test_a_fin_that_is_lost_while_the_data_before_it_wait(folder):
    """Eight packets fill the queue, and the FIN finds no room. They take half a second to arrive."""
    path = {"mtu": 1500, "forward": way("316kbit", "200ms", 8), "reverse": way("316kbit", "16ms", 8)}
    case, r = attempt(tree_of("fin", path, {"controller": "reno", "size": 8 * 1460}, profile="newreno"))
    v = View(case, r)
    [(job, flow)] = v.flows()
    assert r.valid and invariants.judge(case, r) == []
    assert set(v.drops((1, "forward"))) == {0.2} and silence.all_arrived(v, job) > 0.6
    (_, took) = r.record["agent"]["closed"]["0"]
    assert took / 1e9 > silence.round_trip(v, flow) + 0.6


@pytest.mark.lab
def test_a_controller_that_stops_at_its_first_loss_is_found_and_shrunk(tmp_path, folder, monkeypatch):
    """`frozen` of tests/. The smallest scenario repeats to the byte, and still breaks it."""
    for f in BUILD.glob("*.bpf.o"):
        (tmp_path / f.name).symlink_to(f)
    compile_bpf(REPO / "tests" / "lab" / "frozen.bpf.c", tmp_path / "frozen.bpf.o")
    (tmp_path / "asymcc").symlink_to(BUILD / "asymcc")
    for module in (topology, objects):
        monkeypatch.setattr(module, "BUILT", tmp_path)
    monkeypatch.setattr(explore, "SHRINK_RUNS", 2)
    guest = image.open_image(LAB)
    tree = tree_of(
        "with more than it takes",
        {"forward": way("483kbit", queue=10), "reverse": way("483kbit", jitter="1ms")},
        {"controller": "frozen", "ack": "delayed"},
        {"controller": "reno", "direction": "reverse", "start": "1s", "stop": "2s"},
        changes=[{"at": "1s", "direction": "forward", "delay": "30ms"}],
        run={"duration": "40s", "measure_from": "6s"},
    )
    tally = explore.explore([{"long": tree}], 1, guest, explore.Tally())
    assert tally.counts["silence"] == 1 == tally.runs
    file = folder / "silence-frozen-long.toml"
    assert shrink.size(tomllib.loads(file.read_text())) < shrink.size(tree)
    (task,) = plan_runs(scenario.load(file), guest)
    once, again = (execute([task], guest, fresh=fresh)[task.key] for fresh in (False, True))
    assert once.record["result_sha256"] == again.record["result_sha256"]
    assert "silence" in {b.invariant for b in invariants.judge(task.case, again)}


@pytest.mark.lab
def test_what_the_path_does_under_way(folder):
    """Duplicates, jitter, a shorter MTU, another rate, delay and MSS, commands: each is seen, nothing breaks."""
    rewrite = [{"kind": 2, "offset": 2, "value": 700}]
    tree = tree_of(
        "all of it",
        {"forward": way(duplicate="5%", jitter="2ms"), "reverse": way(rewrite=rewrite)},
        {"controller": "fusion"},
        {"controller": "fast", "start": "5s"},
        controllers={"fast": {"alpha": 20}},
        changes=[
            {"at": "2s", "direction": "forward", "mtu": 600},
            {"at": "3s", "controller": "fusion", "command": "replace", "set": {"init_cwnd": 5}},
            {"at": "4s", "controller": "fusion", "command": "use"},
            {"at": "5.5s", "controller": "fusion", "command": "unuse"},
            {"at": "6s", "direction": "forward", "rate": "200kbit", "delay": "60ms"},
            {"at": "6.5s", "controller": "fast", "command": "unload"},
            {"at": "7s", "controller": "fast", "command": "load"},
            {"at": "7.5s", "controller": "fusion", "command": "drain"},
        ],
        run={"duration": "9s", "measure_from": "1s", "capture": True},
    )
    case, r = attempt(tree)
    assert r.valid and invariants.judge(case, r) == []
    packets = r.capture("forward")
    longest = [int(packets["bytes"][(packets["t"] >= t) & (packets["t"] < t + 0.3)].max()) for t in (1, 2.7)]
    assert longest == [740, 600]  # 700 of MSS and 40 of headers; then, behind what was queued, by ICMP
    rows = r.goodput[r.goodput["t"] < 6]
    assert rows["not_next"].sum() > 0.02 * rows["segments"].sum()
    late = r.acks[(r.acks["t"] > 7) & (r.acks["rtt_us"] > 0)]
    assert late["rtt_us"].min() >= 78_000
    bits = 8 * r.links["bytes"][(r.links["dev"] == "left-right") & (r.links["t"] >= 7)].sum() / 2
    assert 150e3 < bits < 225e3
    assert {n.split()[-1] for n in r.record["agent"]["loaded"]} > {"fusion", "fast", "asymcc_use"} and set(
        r.record["agent"]["controllers"]
    ) == {"fast"}


@pytest.mark.lab
def test_a_handshake_that_never_ends_is_no_program_left(folder):
    """The path grows so long that the ACK of a SYN-ACK is still under way at the end, some 6 s before the listener's
    kernel would ask again."""
    tree = tree_of(
        "half open",
        {"forward": way(delay="10ms", queue=10), "reverse": way(delay="1s", queue=10)},
        {"controller": "nreno"},
        {"controller": "nreno", "start": "3s"},
        changes=[
            {"at": "1s", "controller": "nreno", "command": "use"},
            {"at": "3.5s", "direction": "forward", "delay": "20s"},
        ],
        run={"duration": "12s"},
    )
    _, r = attempt(tree)
    assert r.record["agent"]["verified"]["1"]["bytes"] == 0 and r.record["agent"]["left"] == []


@pytest.mark.lab
def test_a_shorter_mtu_binds_one_direction(folder):
    """Data flows both ways; each change of an MTU shortens the packets of its own direction and of no other."""
    times = ((2, "reverse", 809), (4, "forward", 600), (6, "reverse", 1000))
    tree = tree_of(
        "MTU",
        {"forward": way(), "reverse": way()},
        {"controller": "reno"},
        {"controller": "reno", "direction": "reverse"},
        changes=[{"at": f"{at}s", "direction": d, "mtu": mtu} for at, d, mtu in times],
        run={"duration": "7s", "measure_from": "1s", "capture": True},
    )
    case, r = attempt(tree)
    assert r.valid and invariants.judge(case, r) == []

    def longest(direction: str, since: float) -> int:
        packets = r.capture(direction)
        return int(packets["bytes"][(packets["t"] >= since) & (packets["t"] < since + 1)].max())

    both = [(longest("forward", t), longest("reverse", t)) for t in (1, 3, 5)]
    assert both == [(1000, 1000), (1000, 809), (600, 809)]


@pytest.mark.lab
def test_a_load_goes_on_when_the_mtu_falls_below_its_packets(folder):
    tree = tree_of(
        "load",
        {"forward": way(), "reverse": way()},
        {"controller": "reno"},
        background=[{"rate": "400kbit", "packet": 1000}],
        changes=[{"at": "1s", "direction": "forward", "mtu": 600}],
        run={"duration": "4s"},
    )
    case, r = attempt(tree)
    assert r.valid and explore.judge(case, r) == []
    assert r.metrics["goodput_bps"] < 0.65e6  # the load has its share


@pytest.mark.lab
def test_long_bursts_on_each_way_leave_no_limit_to_silence(folder):
    """Four ways that lose six of seven tries after a loss: all but one of 2400 fail, and 2^n s are no number."""
    bursts = way(loss="0.2%", loss_burst=7)
    tree = tree_of("bursts", {"hops": 2 * [{"forward": bursts, "reverse": bursts}]}, {"controller": "reno"})
    case, r = attempt(tree | {"run": tree["run"] | {"duration": "3s"}})
    assert r.valid and invariants.judge(case, r) == []


@pytest.mark.lab
def test_timeouts_double_until_an_rtt_is_measured(folder):
    """Four of 1,024 packets arrive. A retransmission gives no RTT, and of two that an ACK sends one is lost.

    So the silence begins after five timeouts, each twice the one before, and the packets that they sent. The
    rounding of timers moves it by up to 0.2 s.
    """
    path = {"mtu": 576, "forward": way("53kbit", "1ms", 1), "reverse": way("50kbit", "6ms", 2)}
    more = {"profile": "newreno", "ack": "every", "controllers": {"ctcp": {"init_cwnd": 1024}}}
    case, r = attempt(tree_of("doubled", path, {"controller": "ctcp"}, run={"duration": "14s"}, **more))
    [(_, since, until, limit)] = silence.silences(View(case, r))
    assert r.valid and invariants.judge(case, r) == []
    timeout, sent_s = 0.2 + r.acks["srtt_us"].max() / 1e6, r.acks["retrans"].max() * 576 * 8 / 53e3
    assert 31 * timeout < since < 31 * timeout + sent_s and until == 14 and 14 < limit


@pytest.mark.lab
@pytest.mark.parametrize("controller", ["pseudorate", "reno"])
def test_where_acks_echo_the_syn_an_rtt_is_as_long_as_the_connection_is_old(folder, monkeypatch, controller):
    strip = {"kinds": [silence.TIMESTAMPS], "syn": False}
    path = {"forward": way("5mbit", "4ms", 2, strip=strip), "reverse": way("1mbit", "10ms", 5)}
    case, r = attempt(tree_of("stripped", path, {"controller": controller}, run={"duration": "6s"}))
    assert r.valid and invariants.judge(case, r) == []
    [(_, since, until, limit)] = silence.silences(View(case, r))
    assert until - since > 1 and limit > until
    assert r.acks["rtt_us"].max() < 20_000 and r.acks["srtt_us"].max() > 300_000
    monkeypatch.setattr(stack, "echoes_syn", lambda *_: False)
    assert {broken.invariant for broken in invariants.judge(case, r)} == {"sample"}


@pytest.mark.lab
def test_where_acks_lose_sack_each_timeout_repairs_one_gap(folder):
    """F-RTO undoes each: 15 packets are lost at once, and timeouts double from 0.4 s on."""
    strip = {"kinds": [silence.SACK], "syn": True}
    path = {"mtu": 1500, "forward": way("600kbit", "2ms", 15), "reverse": way("600kbit", "1ms", 6, strip=strip)}
    case, r = attempt(tree_of("gaps", path, {"controller": "yeah"}, profile="ns2", run={"duration": "16s"}))
    [(_, since, until, limit)] = silence.silences(View(case, r))
    assert (
        r.valid
        and until - since > 4
        and limit > 1e6
        and "silence" not in {b.invariant for b in invariants.judge(case, r)}
    )


@pytest.mark.lab
def test_an_unload_halts_no_connection(folder):
    """It replaces the route, and for a moment the connection has an MSS of 36: paced by that, 9000 bytes take 22 s."""
    path = {"mtu": 9000, "forward": way("1180kbit", "2ms", 10), "reverse": way("1mbit", "3ms", 5)}
    changes = [{"at": "13s", "controller": "formosa", "command": "unload"}]
    case, r = attempt(tree_of("unload", path, {"controller": "formosa"}, changes=changes, run={"duration": "18s"}))
    later = r.acks[r.acks["t"] > 13]
    assert r.valid and invariants.judge(case, r) == []
    assert later["pacing"].min() > 20_000 and later["t"].max() > 17


@pytest.mark.lab
def test_large_packets_on_a_path_without_delay(folder):
    """Ten of 9000 bytes, twice in an RTT of 6 us, are 30 GB/s."""
    short = way(rate="4mbit", delay="0ms", queue=20)
    path = {"mtu": 9000, "forward": short, "reverse": short}
    case, r = attempt(tree_of("large", path, {"controller": "cubic"}, run={"duration": "2s", "measure_from": "1s"}))
    assert r.valid and invariants.judge(case, r) == []
    assert 2e10 < r.acks["pacing"][r.acks["pacing"] < invariants.UNPACED].max() < 4e10


@pytest.mark.lab
@pytest.mark.parametrize("uplink, count", [(False, COUNT), (True, COUNT // 3)], ids=["", "uplink"])
def test_a_few_random_paths(folder, monkeypatch, uplink, count):
    monkeypatch.setattr(explore, "SHRINK_RUNS", 0)
    guest = image.open_image(LAB)
    tally = explore.explore([explore.Paths(20, [], guest, uplink).drawn(count)], None, guest, explore.Tally())
    assert tally.runs == count and tally.broken == []
