# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Scenario files: what they mean."""

import re
import shutil
from ipaddress import ip_address, ip_network

import pytest

from asymlab import LabError, cli, options
from asymlab.guest.job import Shape
from asymlab.guest.net import qdisc_commands
from asymlab.guest.wire import read
from asymlab.plan import scenario, topology
from asymlab.run import tasks
from tests.ktap import built
from tests.scenarios import CHAIN, CROSSING, hop
from tests.shared import BUILD, asymlab, compile_job, one_line

RENO = {"controller": "reno"}
BACK = RENO | {"direction": "reverse"}


def load(packet: int, **more) -> dict:
    return {"background": [{"rate": "1mbit", "packet": packet, **more}]}


def test_quantities_carry_units(scenario_file):
    s = scenario.load(scenario_file(forward={"rate": "1.5mbit", "delay": "250us", "loss": "0.1%"}))[0].scenario
    assert s.path.forward.rate == 1_500_000
    assert s.path.forward.delay == 250
    assert s.path.forward.loss == 0.001
    assert s.run.duration == 3_000_000


def test_a_swept_list_is_each_cases_own(scenario_file):
    file = scenario_file(sweep={"flows": [2 * [RENO]], "flows.0.controller": ["cubic", "bbr"]})
    assert [[f.controller for f in case.scenario.flows] for case in scenario.load(file)] == [
        ["cubic", "reno"],
        ["bbr", "reno"],
    ]


def test_the_command_says_it_in_one_line(scenario_file):
    p = asymlab("run", scenario_file(forward={"queue": 0}))
    assert p.returncode == 1 and p.stdout == ""
    assert p.stderr.count("\n") == 1 and "path.forward.queue" in p.stderr
    p = asymlab("run", "no-such-file.toml")
    assert p.returncode == 1 and p.stderr == "asymlab: no-such-file.toml: No such file or directory\n"


def test_sweep_is_a_product_and_points_change_together(scenario_file):
    points = [
        {"path.reverse.rate": "1mbit", "run.duration": "4s"},
        {"path.reverse.rate": "2mbit", "run.duration": "5s"},
    ]
    sweep = {"points": points, "flows.controller": ["reno", "cubic", "vegas"]}
    cases = scenario.load(scenario_file(sweep=sweep, sets={"full": {"seeds": 2, "path.mtu": 1500}}))
    assert len(cases) == 6
    assert cases[0].point == {"path.reverse.rate": "1mbit", "flows.controller": "reno"}
    assert {(c.scenario.path.reverse.rate, c.scenario.run.duration) for c in cases} == {
        (10**6, 4 * 10**6),
        (2 * 10**6, 5 * 10**6),
    }
    assert [c.scenario.flows[0].controller for c in cases] == ["reno", "cubic", "vegas"] * 2
    full = scenario.load(cases[0].file, "full")
    assert full[0].seeds == (1, 2) and full[0].scenario.path.mtu == 1500


def test_pairs_are_each_with_each_once(scenario_file):
    cases = scenario.load(scenario_file(flows=[{"controller": "cubic"}], sweep={"pairs": ["reno", "cubic", "bbr"]}))
    assert [case.name for case in cases] == [
        f"TEST {a} {b}"
        for a, b in (
            ("reno", "reno"),
            ("reno", "cubic"),
            ("reno", "bbr"),
            ("cubic", "cubic"),
            ("cubic", "bbr"),
            ("bbr", "bbr"),
        )
    ]
    assert [f.controller for f in cases[2].scenario.flows] == ["reno", "bbr"]
    with pytest.raises(LabError, match="sweep: .*flows.1.controller.*no such place|flows.1.controller: no such place"):
        scenario.load(scenario_file(sweep={"pairs": ["reno", "cubic"]}, name="one.toml"))


def test_cases_that_cannot_be_told_apart_are_refused(scenario_file):
    """They would have one name in tables and on the command line."""
    points = [{"path.mtu": 500, "run.duration": duration} for duration in ("4s", "5s")]
    with pytest.raises(LabError, match="sweep: two cases are called 'TEST 500': the first values of points must"):
        scenario.load(scenario_file(sweep={"points": points}))


def test_at_takes_points_that_begin_with_different_keys(scenario_file):
    file = scenario_file(sweep={"points": [{"path.mtu": 500}, {"profile": "linux"}]})
    args = cli.parser().parse_args(["run", str(file), "--at", "profile=linux"])
    assert [case.point for case in options.cases_of(args)] == [{"profile": "linux"}]
    args = cli.parser().parse_args(["run", str(file), "--at", "path.mtu=501"])
    with pytest.raises(LabError, match="values are 500$"):
        options.cases_of(args)


def test_a_set_without_runs(scenario_file):
    file = scenario_file(sets={"quick": {"seeds": 0}})
    assert [c.seeds for c in scenario.load(file)] == [()] and [c.seeds for c in scenario.load(file, "full")] == [(1,)]
    p = asymlab("run", file)
    assert (
        p.returncode == 1
        and p.stderr == f"asymlab: {file}: no runs in the quick set; --set takes another, --seed one run of each case\n"
    )
    assert scenario.load(file, "quick", (3,))[0].seeds == (3,)


@pytest.mark.parametrize(
    "words, reason",
    [
        ({"loader": "bpftol"}, "'bpftol' is neither"),
        ({"loader": "bpftool", "object": "fast"}, "no other name"),
        ({"object": "../build/fast"}, "'reno' is the name of another"),
        ({"object": ".."}, "no controller '..'; there are"),
    ],
)
def test_bpftool_takes_an_object_as_it_is(scenario_file, words, reason):
    with pytest.raises(LabError, match=reason):
        job_of(scenario_file(controllers={"reno": words}))


def of_the_kernel(**more) -> dict:
    return {"flow": {"controller": "mine"}, "controllers": {"mine": {"loader": "kernel", **more}}}


def test_a_kernel_of_the_users_has_controllers_of_its_own(scenario_file):
    (one,) = job_of(scenario_file(of_the_kernel(gain=3)))["controllers"]
    assert one == {"name": "mine", "object": None, "set": {"gain": 3}, "loader": "asymcc"}
    with pytest.raises(LabError, match="controllers.mine: has either an object or the loader 'kernel'"):
        job_of(scenario_file(of_the_kernel(object="fast")))


@pytest.mark.lab
def test_a_kernel_without_it_is_one_line(scenario_file):
    one_line(asymlab("run", scenario_file(of_the_kernel()), "--engine", "uml"), "without controller mine")


def test_the_seed_decides_the_start_jitter(scenario_file):
    case = scenario.load(scenario_file())[0]
    starts = [compile_job(case, seed)["flows"][0]["start_s"] for seed in (1, 1, 2)]
    assert starts[0] == starts[1] != starts[2]
    assert all(0 <= s < 0.01 for s in starts)


def test_ack_only_directions_have_a_small_bucket(scenario_file):
    one_way, both = job_of(scenario_file()), job_of(scenario_file(flows=[BACK]))
    assert shape_of(one_way, "right-left")["burst_bytes"] < 1000 <= shape_of(both, "right-left")["burst_bytes"]


@pytest.mark.parametrize(
    "rate, factor, forward, reverse",
    [
        ("10kbit", 1, (1000, 1002), (100, 102)),
        ("1mbit", 1, (1000, 1125), (100, 200)),
        ("1mbit", 10, (1000, 1013), (100, 113)),
        ("100mbit", 1, (1000, 2000), (1000, 2000)),
        ("100mbit", 10, (1000, 2000), (125, 250)),
        ("2.5gbit", 10, (1000, 2000), (1000, 2000)),
    ],
)
def test_a_bucket_holds_a_packet_and_what_comes_while_its_timer_is_late(rate, factor, forward, reverse, scenario_file):
    """A millisecond of 10^9 instructions a second, and a packet at most. In a direction for ACKs the largest packet
    takes 100 us of them, so that a train's sender keeps up."""
    file = scenario_file(forward={"rate": rate}, reverse={"rate": rate})
    job = compile_job(scenario.load(file)[0], 1, factor)
    for dev, sizes in (("left-right", forward), ("right-left", reverse)):
        shape = shape_of(job, dev)
        assert (shape["packet_bytes"], shape["burst_bytes"]) == sizes
    (probe,) = job["probes"]
    assert probe["pause_s"] == pytest.approx(8 * 46 / shape["rate_bps"])


def test_sysctls_are_the_hosts_and_over_the_profiles(scenario_file):
    own = {"net.ipv4.tcp_early_retrans": 3, "net.ipv4.tcp_rmem": "4096 9999 99999"}
    job = job_of(scenario_file(sysctls=own))
    values = {n["name"]: n["sysctls"] for n in job["nodes"]}
    for key, value in own.items():
        profiles = topology.PROFILES["ns2"][key]
        assert [values[n][key] for n in ("left", "right", "src0", "dst0")] == [profiles, profiles, value, value]
    assert job["must_have"] == list(own)


def test_a_host_out_of_the_box_and_one_without_a_limit_by_buffers(scenario_file):
    """The buffers of a packaged 6.12 with 1 GB of memory; and those of the published runs."""

    def buffers(name: str | None):
        (host,) = (n for n in job_of(scenario_file(profile=name))["nodes"] if n["name"] == "dst0")
        return [host["sysctls"][f"net.ipv4.tcp_{key}"] for key in ("ecn", "rmem", "wmem")]

    stock = [2, "4096 131072 6291456", "4096 16384 4194304"]
    large = [0, "4096 16777216 67108864", "4096 1048576 67108864"]
    assert buffers(None) == buffers("linux") == stock
    assert buffers("tuned") == buffers("ns2") == buffers("newreno") == large


def test_a_direction_that_reorders_and_one_that_strips(scenario_file):
    job = job_of(scenario_file(forward={"reorder": "1%", "strip": {"kinds": [253, 4], "syn": False}}))
    assert shape_of(job, "right-dst0") == {"delay_us": 20_000, "loss": 0, "reorder": 0.01}
    assert shape_of(job, "left-src0") == {"delay_us": 20_000, "loss": 0, "reorder": 0}
    assert job["strips"] == [{"node": "right", "dev": "right-left", "kinds": [253, 4], "syn": False}]
    assert commands(job, "right-dst0") == [
        "qdisc add dev x root handle 1: netem limit 1000000 delay 20000us reorder 1.0000000000%"
    ]


def test_a_queue_with_red_counts_the_directions_usual_packet(scenario_file):

    def both_ways(**more) -> dict:
        way = {"queue": 10, "red": {"min": 4, "max": 8, "probability": "10%", **more}}
        return {"forward": way, "reverse": way}

    job = job_of(scenario_file(both_ways(ecn=True)))
    assert shape_of(job, "left-right")["red"] == {
        "packet_bytes": 1000,
        "limit_bytes": 10000,
        "min_bytes": 4000,
        "max_bytes": 8000,
        "probability": 0.1,
        "burst": 41,
        "weight_log": 9,
        "ecn": True,
    }
    assert shape_of(job, "right-left")["red"] | {"ecn": 1} == {
        "packet_bytes": 40,
        "limit_bytes": 400,
        "min_bytes": 160,
        "max_bytes": 320,
        "probability": 0.1,
        "burst": 41,
        "weight_log": 9,
        "ecn": 1,
    }
    rate, queue, red = commands(job, "right-left")
    assert " tbf rate 10000000bit " in rate
    assert queue == "qdisc add dev x parent 1:1 handle 10: gred setup vqs 1 default 0"
    assert red.startswith(
        "qdisc change dev x parent 1:1 handle 10: gred vq 0 prio 1 limit 400 min 160 max 320 avpkt 40 burst 41 "
    )
    assert red.endswith(" probability 0.1000000000 ecn")
    job = job_of(scenario_file(both_ways(weight=0.1), profile="linux"))
    assert shape_of(job, "right-left")["red"]["packet_bytes"] == 52, "ACKs with timestamps"
    assert shape_of(job, "right-left")["red"]["weight_log"] == 3
    assert not commands(job, "right-left")[2].endswith("ecn")


def test_a_controller_that_needs_a_newer_kernel_is_refused(scenario_file):
    cases = scenario.load(scenario_file(flow={"controller": "prague"}))
    tasks._refuse_controllers(cases, "7.0.1-amd64", None)
    with pytest.raises(LabError, match="prague needs Linux 7.0 or later, and 6.18.44 is older; take another --image"):
        tasks._refuse_controllers(cases, "6.18.44", None)


def test_accurate_ecn_takes_a_kernel_that_has_it(scenario_file):
    file = scenario_file(ecn="accurate")
    assert {s["net.ipv4.tcp_ecn"] for node in job_of(file)["nodes"] if (s := node["sysctls"])} >= {3}
    one_line(
        asymlab("run", file, "--engine", "uml", "--dry-run"),
        f"{file}: ecn: Linux 6.12",
        "has no AccECN, 7.0 is the first that has",
    )
    cases = scenario.load(file)
    for release in ("7.0.1-amd64", "10.1.0"):
        tasks._refuse_ecn(cases, release)
    with pytest.raises(LabError, match="Linux 6.18.44 has no AccECN"):
        tasks._refuse_ecn(cases, "6.18.44")


def test_dualpi2_takes_a_kernel_that_has_it(scenario_file):
    file = scenario_file(forward={"dualpi2": {}})
    words = f"{file}: dualpi2: takes --engine uml and Linux 6.17 or later, and this is 6.12"
    one_line(asymlab("run", file, "--engine", "uml", "--dry-run"), words)


@pytest.mark.parametrize(
    "words, sender, receiver",
    [
        ({"profile": "tuned"}, 0, 5),
        ({"profile": "linux"}, 2, 5),
        ({"ecn": True}, 1, 4),
        ({"ecn": "accurate"}, 3, 3),
        ({"ecn": False}, 0, 0),
        ({"sysctls": {"net.ipv4.tcp_ecn": 1}}, 1, 1),
    ],
)
def test_receivers_of_prague_accept_accurate_feedback(scenario_file, words, sender, receiver):
    """Else it goes on as CUBIC. Its own host, other flows' and those of data that come back are as they were."""
    flows = [BACK | {"hosts_of": 0}, RENO]
    job = job_of(scenario_file({"profile": None}, words, flow={"controller": "prague"}, flows=flows))
    ecn = {node["name"]: node["sysctls"]["net.ipv4.tcp_ecn"] for node in job["nodes"]}
    assert ecn["src0"] == ecn["src2"] == ecn["dst2"] == sender and ecn["dst0"] == receiver
    assert job["ect1"] == ["src0-left"]


@built
def test_what_an_object_asks_for_is_told_by_its_flags(scenario_file, tmp_path):
    """Whatever it is called: its packets leave as ECT(1), and it needs the Linux that its object names."""
    shutil.copy(BUILD / "prague.bpf.o", tmp_path / "mine.bpf.o")
    shutil.copy(BUILD / "fast.bpf.o", tmp_path / "other.bpf.o")
    file = scenario_file(flow={"controller": "./mine.bpf.o"}, flows=[{"controller": "./other.bpf.o"}])
    [case] = scenario.load(file)
    job = topology.plan_job(case, 1, asking=tasks.asking(case, None))
    assert [c.name for c in job.controllers] == ["mine", "other"] and job.ect1 == ["src0-left"]
    with pytest.raises(LabError, match="mine needs Linux 7.0 or later, and 6.18.44 is older"):
        tasks._refuse_controllers([case], "6.18.44", None)


def test_on_a_chain_a_middlebox_stands_behind_its_hops_queue(scenario_file):
    strip = {"strip": {"kinds": [253], "syn": True}}
    job = job_of(scenario_file(hops=[hop(), hop(), hop(strip, strip)]))
    assert [(s["node"], s["dev"]) for s in job["strips"]] == [("wire3", "wire3-sw3"), ("wire3", "wire3-sw4")]


@pytest.mark.parametrize("queue, jitter_ms, measured", [(8, 8, False), (8, 3, True), (100, 8, True), (100, 11, False)])
def test_a_short_train_tells_no_rate_under_jitter(scenario_file, queue, jitter_ms, measured):
    """A packet takes 204 ms; eight of them are off by 16 ms, 1.6 % of what they take (path 6022-87 of the explorer)."""
    way = {"rate": "352kbit", "delay": "21ms", "queue": 8}
    forward = way | {"queue": queue, "jitter": f"{jitter_ms}ms"}
    probe = job_of(scenario_file(mtu=9000, forward=forward, reverse=way))["probes"][0]
    assert (probe["forward"]["packets"] > 0) == measured


# --- chains --------------------------------------------------------------------------------


def job_of(file):
    return compile_job(scenario.load(file)[0], 1)


def shape_of(job, dev):
    (end,) = [end for link in job["links"] for end in (link["a"], link["b"]) if end["dev"] == dev]
    return end["shape"]


def commands(job, dev):
    return qdisc_commands("x", read(Shape, shape_of(job, dev), dev))


def way(job, node, address):
    """The nodes that a packet to an address passes, by the job's links and routes alone."""
    pairs = [p for link in job["links"] for p in ((link["a"], link["b"]), (link["b"], link["a"]))]
    nodes = [node]
    while not any(end["node"] == nodes[-1] and end["addr"] == address for end, _ in pairs):
        here = [(end, far) for end, far in pairs if end["node"] == nodes[-1]]
        routes = {
            (r["via"], r["dev"])
            for r in job["routes"]
            if r["node"] == nodes[-1] and (r["dst"] == "default" or ip_address(address) in ip_network(r["dst"]))
        }
        (to,) = [far for _, far in here if far["addr"] == address] or [
            far for end, far in here if (far["addr"], end["dev"]) in routes
        ]
        nodes.append(to["node"])
    return nodes


def test_a_chain_of_three_hops(scenario_file):
    job = job_of(scenario_file(CHAIN, CROSSING))
    trunk = ["sw1", "wire1", "sw2", "wire2", "sw3", "wire3", "sw4"]
    assert [n["name"] for n in job["nodes"]] == trunk + [f"{end}{i}" for i in range(3) for end in ("src", "dst")]
    assert {n["name"] for n in job["nodes"] if n["sysctls"].get("net.ipv4.ip_forward")} == set(trunk)
    for k in (1, 2, 3):  # the queue at the switch, the delay behind it
        queue = {"rate_bps": 10**7, "queue_packets": 50}
        assert shape_of(job, f"sw{k}-wire{k}") == queue | {"packet_bytes": 1000, "burst_bytes": 2000}
        assert shape_of(job, f"sw{k + 1}-wire{k}") == queue | {"packet_bytes": 125, "burst_bytes": 250}
        assert (
            shape_of(job, f"wire{k}-sw{k + 1}")
            == shape_of(job, f"wire{k}-sw{k}")
            == {"delay_us": 10_000, "loss": 0, "reorder": 0}
        )
    assert [(h["name"], h["forward"]["dev"], h["reverse"]["dev"]) for h in job["watch"]] == [
        ("hop 1", "sw1-wire1", "sw2-wire1"),
        ("hop 2", "sw2-wire2", "sw3-wire2"),
        ("hop 3", "sw3-wire3", "sw4-wire3"),
    ]
    for flow, (low, high) in zip(job["flows"], ((1, 4), (2, 3), (3, 4)), strict=True):
        passed = [flow["src"], *trunk[2 * low - 2 : 2 * high - 1], flow["dst"]]
        assert way(job, flow["src"], flow["dst_addr"]) == passed
        assert way(job, flow["dst"], flow["src_addr"]) == passed[::-1]
    assert [p["base_rtt_us"] for p in job["probes"]] == [60_000, 20_000, 24_000]
    assert all(p["forward"] == {"packets": 30, "bytes": 1000, "skip": 4, "rate_bps": 10**7} for p in job["probes"])


def test_a_hop_that_carries_acks_only_has_a_small_bucket(scenario_file):
    """A reverse flow on hop 2 alone: only there the ACKs share the way with data."""
    sweep = {"path.hops.1.reverse.rate": ["5mbit"], "path.hops.reverse.queue": [100]}
    job = job_of(scenario_file(CHAIN, flows=[BACK | {"enter": 3, "leave": 2}], sweep=sweep))
    assert [[shape_of(job, h[d]["dev"])["burst_bytes"] for h in job["watch"]] for d in ("forward", "reverse")] == [
        [2000] * 3,
        [250, 1625, 250],
    ]
    attrs = {r["node"]: r["attrs"] for r in job["routes"] if r["dst"] == "default"}
    assert "mtu lock 125" in attrs["dst0"] and "lock" not in attrs["dst1"]
    assert way(job, "src1", job["flows"][1]["dst_addr"]) == ["src1", "sw3", "wire2", "sw2", "dst1"]
    # 1625 bytes pass hop 2 at once, but 250 the others at 10 Mbit/s: they meet after 3000 bytes.
    assert job["probes"][0]["reverse"] == {"packets": 52, "bytes": 125, "skip": 26, "rate_bps": 5 * 10**6}
    assert job["probes"][1]["forward"] == {"packets": 30, "bytes": 1000, "skip": 4, "rate_bps": 5 * 10**6}


def test_a_load_has_hosts_of_its_own_and_fills_a_direction_as_flows_do(scenario_file):
    job = job_of(scenario_file(load(500, direction="reverse")))
    packets = job["background"][0]
    assert {"cbr0", "void0"} <= {n["name"] for n in job["nodes"]}
    assert packets["period_ns"] == 4_000_000 and packets["payload_bytes"] == 472
    assert shape_of(job, "right-left")["burst_bytes"] == 2000  # no small bucket: large packets come by here, too


UPLOAD = {"controller": "cubic", "direction": "reverse", "hosts_of": 0}


@pytest.mark.parametrize(
    "words, quick",
    [
        ({"ack": None}, []),
        ({}, ["dst0", "dst1"]),
        ({"ack": None, "flows": [{"controller": "cubic", "ack": "every"}]}, ["dst1"]),
        ({"flows": [{"controller": "cubic", "ack": "delayed"}]}, ["dst0"]),
    ],
    ids=["as Linux", "the scenario's", "a flow's", "a flow's beside the scenario's"],
)
def test_receivers_delay_acks_but_for_those_that_the_file_names(scenario_file, words, quick):
    job = job_of(scenario_file({"flows": [{"controller": "cubic"}]} | words))
    assert [r["node"] for r in job["routes"] if "quickack 1" in r["attrs"]] == quick


def test_an_upload_between_hosts_with_a_delay_of_their_own_has_it_too(scenario_file):
    job = job_of(scenario_file(flow={"extra_delay": "7ms"}, flows=[UPLOAD]))
    down, up = (probe["base_rtt_us"] for probe in job["probes"])
    assert up == down


def test_the_machine_that_downloads_uploads(scenario_file):
    job = job_of(scenario_file(flow={"ack": "every"}, flows=[UPLOAD]))
    down, up = job["flows"]
    assert (up["src"], up["dst"]) == (down["dst"], down["src"]) == ("dst0", "src0")
    assert up["src_addr"] == down["dst_addr"] and [n["name"] for n in job["nodes"]].count("dst0") == 1
    out = {r["node"]: r["attrs"] for r in job["routes"] if r["dst"] == "default"}
    assert out == {"src0": "congctl reno quickack 1", "dst0": "quickack 1 congctl cubic"}


@pytest.mark.parametrize(
    "words, reason",
    [
        ({"hosts_of": 1}, "flows.1.hosts_of: 1 must be an earlier entry"),
        ({"direction": "forward"}, "flows.1.hosts_of: 0 must be an earlier entry"),
        ({"stop": "2s"}, "flows.1.stop: takes hosts of its own"),
        ({"extra_delay": "1ms"}, "flows.1.extra_delay: takes hosts of its own"),
    ],
)
def test_whose_hosts_a_flow_may_use(scenario_file, words, reason):
    with pytest.raises(LabError, match=re.escape(reason)):
        job_of(scenario_file(flows=[UPLOAD | words]))


def test_rates_are_measured_once_on_the_same_way(scenario_file):
    job = job_of(scenario_file(flows=[*2 * [RENO | {"extra_delay": "1ms"}], BACK]))
    assert [p["forward"] is not None for p in job["probes"]] == [True, False, False, True]
    assert [p["base_rtt_us"] for p in job["probes"]] == [40_000, 42_000, 42_000, 40_000]


def test_hops_are_swept_one_or_all(scenario_file):
    sweep = {"path.hops.0.forward.rate": ["1mbit"], "path.hops.reverse.queue": [7, 8]}
    cases = scenario.load(scenario_file(CHAIN, sweep=sweep))
    hops = [c.scenario.path.hops for c in cases]
    assert [h.forward.rate for h in hops[1]] == [10**6, 10**7, 10**7] and [h.reverse.queue for h in hops[1]] == [8] * 3


def test_the_largest_chain_has_names_and_addresses_enough(scenario_file):
    job = job_of(scenario_file(hops=8 * [hop()], flows=59 * [RENO | {"enter": 2, "leave": 8}]))
    ends = [end for link in job["links"] for end in (link["a"], link["b"])]
    assert all(len(end["dev"]) <= 15 for end in ends)
    for key in ("dev", "addr", "mac"):
        assert len({end[key] for end in ends}) == len(ends)
    assert all(ip_address(end["addr"]) for end in ends)
    assert way(job, "src59", job["flows"][59]["dst_addr"])[-1] == "dst59"


def test_only_a_flow_that_stops_holds_little_unsent(scenario_file):
    job = job_of(scenario_file(flows=[RENO | {"stop": "2s"}]))
    assert [n["name"] for n in job["nodes"] if "net.ipv4.tcp_notsent_lowat" in n["sysctls"]] == ["src1"]
