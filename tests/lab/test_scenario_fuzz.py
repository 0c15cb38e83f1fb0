# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Any scenario file: either one line that says what is wrong, or jobs in which all fits together.

`make fuzz-scenarios` looks at many more and says at how many; SCENARIOS=N is their number.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from asymlab import LabError
from asymlab.guest.job import Job, Shape
from asymlab.guest.net import qdisc_commands
from asymlab.guest.protocol import FLOW_PORT, ip_udp
from asymlab.guest.wire import dump, load, read
from asymlab.paths import BUILT
from asymlab.plan import scenario, topology
from asymlab.run.tasks import Task
from tests.scenarios import SCENARIO
from tests.shared import compile_job

EXAMPLES = int(os.environ.get("SCENARIOS", 0))
PROFILE = settings(
    max_examples=EXAMPLES or 100,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
count: Counter[str] = Counter()

ODD = st.one_of(
    st.none().map(lambda _: {}),
    st.booleans(),
    st.integers(),
    st.integers(-3, 70),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from("0ms 1ms -1ms 1e9s 0% 99.9999% 100% ../x [/x] reno\n \x1b[2J ٣ms".split(" ")),
    st.sampled_from(["9" * 400 + "s", 2**63, 2**64, 10**50]),
)


def mostly(strategy):
    """A value that fits, but now and then something else."""
    return st.integers(0, 299).flatmap(lambda n: ODD if n == 173 else strategy)  # the ends of a range come more often


def quantity(low: int, high: int, units: str):
    return mostly(st.builds("{}{}".format, st.integers(low, high), st.sampled_from(units.split())))


def table(required: dict, **optional):
    return mostly(
        st.fixed_dictionaries(
            {k: mostly(v) for k, v in required.items()}, optional={k: mostly(v) for k, v in optional.items()}
        )
    )


rate, delay = quantity(1, 2000, "kbit mbit"), quantity(1, 300, "us ms")
share = st.sampled_from(["0%", "0.01%", "1%", "5%", "50%", "1e-7%", "99%"])
controller = st.sampled_from(["reno", "cubic", "bbr", "vegas", "fast", "formosa", "accsa"])
side = st.sampled_from(["forward", "reverse"])
times = st.lists(st.integers(0, 9999), min_size=3, max_size=3, unique=True).map(
    lambda ms: dict(zip(("start", "stop", "resume"), (f"{t}ms" for t in sorted(ms))))
)
red = table(
    {"min": st.integers(2, 20), "max": st.integers(21, 60), "probability": share.filter(lambda p: p != "0%")},
    ecn=st.booleans(),
    weight=st.sampled_from([0.5, 0.1, 0.002, 1e-3]),
)
strip = table({"kinds": st.lists(st.integers(2, 255), min_size=1, max_size=3), "syn": st.booleans()})
rewrite = table({"kind": st.integers(2, 255), "offset": st.integers(2, 38), "value": st.integers(0, 65535)})
direction = table(
    {"rate": rate, "delay": delay, "queue": st.integers(60, 2000) | st.integers(1, 10**6)},
    red=red,
    cake=table({}, ack_filter=st.booleans()),
    loss=share,
    reorder=share,
    strip=strip,
    duplicate=share,
    jitter=quantity(0, 9, "us ms"),
    rewrite=st.lists(rewrite, max_size=2),
)
hop = table({"forward": direction, "reverse": direction})
several = table(
    {
        "forward": table({"rate": rate, "delay": delay, "queue": st.lists(st.integers(1, 99), min_size=2, max_size=3)}),
        "reverse": direction,
    }
) | table({"count": st.integers(1, 4), "forward": direction, "reverse": direction})
change = table(
    {
        "at": quantity(0, 9, "s"),
        "controller": controller,
        "set": st.dictionaries(st.sampled_from(["alpha", "x", "x_1"]), st.integers(-9, 2**40), min_size=1, max_size=2),
    }
)
command = table(
    {
        "at": quantity(0, 9, "s"),
        "controller": controller,
        "command": st.sampled_from(["replace", "unload", "drain", "load", "use", "unuse"]),
    }
)
turn = table(
    {"at": quantity(0, 9, "s"), "direction": side},
    hop=st.integers(1, 3),
    rate=rate,
    delay=delay,
    loss=share,
    mtu=st.integers(552, 9000),
)
run = table(
    {"duration": quantity(10, 60, "s")},
    measure_from=quantity(0, 9, "s"),
    start_jitter=delay,
    trace_state=st.booleans(),
    capture=st.booleans(),
    audit=st.booleans(),
)
SWEPT = {
    "path.mtu": st.integers(200, 2000),
    "flows.controller": controller,
    "path.forward.rate": rate,
    "path.hops.0.forward.queue": st.integers(60, 99),
    "title": st.text(max_size=5),
    "flows.0.ack": st.sampled_from(["every", "delayed"]),
    "flows.0.count": st.integers(1, 9),
    "flows.1.controller": st.lists(controller, min_size=1, max_size=3),
    "run.duration": quantity(10, 60, "s"),
    "profile": st.sampled_from(["linux", "ns2"]),
}
# And what fits nowhere.
WILD = SWEPT | {"flows.²": st.integers(), ".": ODD, "a." * 40 + "b": ODD, "path.hops.reverse.loss": share}


def swept(keys: dict):
    return st.fixed_dictionaries(
        {},
        optional={key: mostly(st.lists(mostly(value), min_size=1, max_size=3)) for key, value in keys.items()}
        | {
            "pairs": st.lists(controller, min_size=1, max_size=3),
            "points": st.lists(
                st.dictionaries(st.sampled_from(sorted(keys)), ODD, min_size=1, max_size=2), min_size=1, max_size=2
            ),
        },
    )


def standing_for(hop) -> int:
    """The hops of an entry, if it is in order."""
    if not isinstance(hop, dict):
        return 1
    queue = hop["forward"].get("queue") if isinstance(hop.get("forward"), dict) else None
    count = hop.get("count", len(queue) if isinstance(queue, list) else 1)
    return count if type(count) is int and 1 <= count <= 8 else 1


@st.composite
def trees(draw):
    hops = draw(st.lists(hop, min_size=1, max_size=8) | st.lists(hop | several, min_size=1, max_size=3))
    length = sum(standing_for(one) for one in hops)

    def way() -> dict:
        low, high = sorted(draw(st.lists(st.integers(1, length + 1), min_size=2, max_size=2, unique=True)))
        to = draw(side)
        ends = {"enter": low if to == "forward" else high, "leave": high if to == "forward" else low}
        places = draw(st.sampled_from([{}, ends, {"hop": low}, {"hop": "each"}]))
        starts = draw(st.lists(delay, min_size=length, max_size=length) | st.lists(delay, max_size=3))
        more = {"start": starts} if "hop" in places and draw(st.booleans()) else {}
        return {"direction": to} | places | dict(list(draw(times).items())[: draw(st.integers(0, 3))]) | more

    flow = table(
        {"controller": controller},
        count=st.integers(1, 20),
        ack=st.sampled_from(["every", "delayed"]),
        extra_delay=delay,
        reply=st.integers(1, 2**21),
        size=st.integers(1, 2**21),
    )
    load = table({"rate": rate, "packet": st.integers(64, 500)})
    mtu = draw(mostly(st.integers(500, 9000)))
    one = {
        "title": draw(mostly(st.text("ab [/x]é", min_size=1, max_size=9))),
        "id": "FUZZ",
        "run": draw(run),
        "profile": draw(mostly(st.sampled_from(["linux", "ns2", "newreno"]))),
        "path": {"mtu": mtu} | (hops[0] if length == 1 and isinstance(hops[0], dict) else {"hops": hops}),
        "flows": [f | way() if isinstance(f := draw(flow), dict) else f for _ in range(draw(st.integers(1, 4)))],
        "background": [
            b | {k: v for k, v in way().items() if k != "resume"} if isinstance(b := draw(load), dict) else b
            for _ in range(draw(st.integers(0, 2)))
        ],
    }
    used = [f["controller"] for f in one["flows"] if isinstance(f, dict) and isinstance(f.get("controller"), str)]
    if used:
        one["controllers"] = draw(
            st.dictionaries(
                st.sampled_from(used),
                st.dictionaries(st.sampled_from(["alpha", "x"]), mostly(st.integers(-9, 99)), max_size=2),
                max_size=2,
            )
        )
    more = draw(st.integers(0, 9))  # one in so many each
    if more == 0:
        one["sweep"] = draw(swept(SWEPT))
    elif more == 1:
        one["sets"] = draw(
            st.dictionaries(
                st.sampled_from(["quick", "full", "x"]),
                mostly(
                    st.fixed_dictionaries(
                        {},
                        optional={
                            "seeds": mostly(st.integers(0, 3)),
                            "path.mtu": st.integers(500, 1500),
                            "sweep": swept(WILD),
                        },
                    )
                ),
                max_size=2,
            )
        )
    elif more == 2:
        one["changes"] = draw(st.lists(change | command | turn, max_size=3))
    elif more == 3:
        one["sysctls"] = draw(
            st.dictionaries(
                st.sampled_from(["net.ipv4.tcp_sack", "net.ipv4.x", "net.ipv4/../x", "vm.x"]),
                mostly(st.integers(0, 1)),
                max_size=1,
            )
        )
    return one


def toml(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else str(value)


def in_bounds(job: dict) -> None:
    """The agent relies on these."""
    text = json.dumps(job)
    assert json.loads(text) == job == dump(load(Job, text, "job"))
    ends = [end for link in job["links"] for end in (link["a"], link["b"])]
    nodes = [node["name"] for node in job["nodes"]]
    for values in (nodes, *([end[key] for end in ends] for key in ("dev", "addr", "mac"))):
        assert len(set(values)) == len(values)
    assert all(
        len(end["dev"]) <= 15 and re.fullmatch("[a-z0-9-]+", end["dev"]) and end["node"] in nodes for end in ends
    )
    assert all(ipaddress.ip_address(end["addr"]) in ipaddress.ip_network("10.77.0.0/16") for end in ends)
    for end in ends:
        shape = end["shape"]
        assert len(qdisc_commands(end["dev"], read(Shape, shape, "shape"))) in (0, 1, 2, 3)
        if "rate_bps" in shape:
            assert (
                shape["rate_bps"] >= 1000
                and shape["queue_packets"] >= 1
                and shape["burst_bytes"] > shape["packet_bytes"] >= 100
            )
            if red := shape.get("red"):
                assert (
                    0 < red["min_bytes"] < red["max_bytes"] <= red["limit_bytes"] < 2**32
                    and 1 <= red["weight_log"] <= 31
                    and red["burst"] >= red["min_bytes"] // red["packet_bytes"]
                )
        elif shape:
            assert shape["delay_us"] >= shape.get("jitter_us", 0) >= 0 and all(
                0 <= shape.get(odds, 0) < 1 for odds in ("loss", "reorder", "duplicate")
            )
    for end in (end for change in job["changes"] for end in change.get("path", ())):
        assert (end["node"], end["dev"]) in [(e["node"], e["dev"]) for e in ends]
        assert (
            552 <= end["mtu"] <= 9000
            if "mtu" in end
            else len(qdisc_commands(end["dev"], read(Shape, end["shape"], "shape"), "change")) in (1, 2)
        )
    for rewrite in job.get("rewrites", ()):
        assert rewrite["node"] in nodes and 2 <= rewrite["offset"] <= 38 and 0 <= rewrite["value"] < 2**16
    assert [f["id"] for f in job["flows"]] == list(range(len(job["flows"]))) and FLOW_PORT + len(job["flows"]) <= 2**16
    for f in job["flows"]:
        assert (
            f["src"] in nodes
            and f["dst"] in nodes
            and 0 <= f["start_s"]
            and (f["resume_s"] is None or f["stop_s"] < f["resume_s"] < job["duration_s"])
        )
    for b in job["background"]:
        assert b["payload_bytes"] > 0 and b["period_ns"] > 0 and b["hops"]
    for probe in job["probes"]:
        assert 0 < probe["timeout_s"] and probe["base_rtt_us"] >= 0
        for train in filter(None, (probe["forward"], probe["reverse"])):
            assert train["packets"] == 0 or train["packets"] >= train["skip"] + 4 and train["bytes"] > ip_udp("")
    assert 0 <= job["measure_from_s"] < job["duration_s"] and 0 < job["payload_share"] < 1 and job["watch"]


def look_at(file: Path, text: str, which: str) -> None:
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    count["examples"] += 1
    try:
        cases = scenario.load(file, which)
        count["accepted"] += 1
        for case in cases[:3]:
            job = compile_job(case, 1)
            in_bounds(job)
            assert Task(case, 1, topology.plan_job(case, 1), {}, {}, "").packets >= 0
            count["jobs"] += 1
    except LabError as e:
        count[re.sub("[0-9]+|'.*'", "#", str(e).split(": ", 1)[1])] += 1
        assert str(e).startswith(str(file)) and "\n" not in str(e) and "\x1b" not in str(e) and len(str(e)) < 800, str(
            e
        )


@pytest.fixture(scope="module", autouse=True)
def properties():
    yield
    if EXAMPLES:
        print(
            f"\n{count.pop('examples')} scenario files: {count.pop('accepted')} accepted, {count.pop('jobs')} jobs; "
            "refused, the most frequent:"
        )
        print(*(f"{n:8} {reason[:120]}" for reason, n in count.most_common(12)), sep="\n")


@PROFILE
@given(tree=trees(), which=st.sampled_from(scenario.SETS))
def test_a_tree_is_refused_in_one_line_or_all_fits(tmp_path_factory, tree, which):
    look_at(tmp_path_factory.getbasetemp() / "fuzz.toml", "\n".join(f"{k} = {toml(v)}" for k, v in tree.items()), which)


@PROFILE
@given(tree=trees(), which=st.sampled_from(scenario.SETS), without=st.sampled_from(["", "flows.0", "path.forward"]))
def test_a_tree_over_a_base_is_refused_in_one_line_or_all_fits(tmp_path_factory, tree, which, without):
    folder = tmp_path_factory.getbasetemp()
    (folder / "whole.toml").write_text(SCENARIO)
    head = ['base = "whole.toml"', f"without = {toml([without] if without else [])}"]
    tree.pop("base", None), tree.pop("without", None)
    look_at(folder / "fuzz.toml", "\n".join([*head, *(f"{k} = {toml(v)}" for k, v in tree.items())]), which)


SIGNS = list("\"'[]{}=.,\n#\\ \0\x1bé²") + ['"""', "[[", "]]"]
WORDS = "1e999 0x nan inf 1979-05-27 true path flows sweep sets quick seeds points pairs controller".split()
LONG = ["9" * 5000, "a." * 2000, "[" * 3000, "{a=" * 1500]
LINES = """\
[sweep]
[sets.quick]
[[flows]]
title = "x"
base = "fuzz.toml"
base = "whole.toml"
without = ["flows.0", "sweep"]
""".splitlines(keepends=True)
PIECES = SIGNS + WORDS + LONG + LINES + ["flows.0.count = ", '"10mbit"']


@PROFILE
@given(text=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=30).map("".join))
def test_any_text_is_refused_in_one_line(tmp_path_factory, text):
    (tmp_path_factory.getbasetemp() / "whole.toml").write_text(SCENARIO)
    look_at(tmp_path_factory.getbasetemp() / "fuzz.toml", text, "quick")


# --- names of strangers --------------------------------------------------------------------

NAMES = [
    *("-x.bpf.c", "./-x.bpf.c", "@opts.bpf.c", "./@opts.bpf.c", "link.bpf.c", "./mine.bpf.c", "mine.bpf.c:-x"),
    *("-", "--", "@", "@opts", "-fplugin=./x.so", "--output=x", "-oX", "--help", "mine.bpf.c:@x", "./x.ko:x", "x.ko"),
    *("../../../../etc/passwd", "/etc/shadow", "/proc/self/mem", "/dev/zero", "/etc", "../", ".", "..", "", "~/x", "/"),
    *("$(touch x)", "`touch x`", "; touch x", "| touch x", "x y", "reno; touch x", "x\ny", "reno\nqdisc add", "%s%n"),
    *("a\x1b[2J", "\x07", "\0", "x\0.bpf.c", "é", "\u202e", "a" * 5000, "a/" * 2500, "../" * 2000 + "x", "fuzz.toml"),
]
hostile_name = st.sampled_from(NAMES) | st.builds("{}{}".format, st.sampled_from(NAMES), st.sampled_from(NAMES))
KEYS = (
    *("base", "title", "id", "profile", "path.forward.trace", "path.forward.rate", "flows.0.controller"),
    *("flows.0.ack", "controllers.reno.object", "controllers.reno.loader", "controllers.reno.x", "thin.at", "thin.x"),
    *("controllers.{}.x", "controllers.{}.object", "controllers.reno.{}", "thin.{}", "sysctls.{}", "sweep.{}", "{}"),
    *("changes.controller", "changes.command", "changes.set.{}", "flows.0.source_sysctls.{}", "run.traffic"),
    *("sysctls.net", "sets.quick.{}", "path.forward.cake.framing", "without"),
)
MADE = re.compile(
    "open|os.(mkdir|rename|link|symlink|remove|rmdir|exec|posix_spawn|fork|system|startfile)|subprocess.+"
)
OWN = re.compile(rf"{re.escape(str(BUILT / 'asymcc'))} show {re.escape(str(BUILT))}/\\w+\\.bpf\\.o --json")
made: list[tuple] = []
watching = False


def watch(event: str, args: tuple) -> None:
    """Files that are opened to write, and processes. asymcc is asked once about our own objects."""
    if not watching or not MADE.fullmatch(event):
        return
    if event == "open" and (Path(str(args[0])).name == "fuzz.toml" or not args[2] & (os.O_WRONLY | os.O_RDWR)):
        return
    if event != "subprocess.Popen" or not OWN.fullmatch(" ".join(map(str, args[1]))):
        made.append((event, args))


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    """A folder with files of such names."""
    sys.addaudithook(watch)
    folder = tmp_path_factory.mktemp("strangers")
    for name in ("-x.bpf.c", "@opts.bpf.c", "mine.bpf.c", "x\ny", "$(touch x)", "x.ko", "-oX"):
        (folder / name).write_text("-fplugin=./x.so mine.bpf.c")
    look_at(folder / "fuzz.toml", SCENARIO, "quick")  # what it imports is written, too
    return folder


def put(tree, parts: list[str], value) -> None:
    head, *rest = parts
    if isinstance(tree, list):
        put(tree[0], rest if head == "0" else parts, value)
    elif isinstance(tree, dict) and rest:
        put(tree.setdefault(head, {}), rest, value)
    elif isinstance(tree, dict):
        tree[head] = value


@PROFILE
@given(chosen=st.lists(st.tuples(st.sampled_from(KEYS), hostile_name, hostile_name), min_size=1, max_size=3))
def test_a_strangers_names_make_no_file_and_no_process(strangers, chosen):
    global watching
    tree = tomllib.loads(SCENARIO) | {"changes": [{"at": "1s", "controller": "reno", "set": {"alpha": 1}}]}
    for key, name, value in chosen:
        put(tree, [part.format(name) for part in key.split(".")], [value] if key.startswith("sweep") else value)
    there = set(strangers.iterdir())
    watching = True
    try:
        look_at(strangers / "fuzz.toml", "\n".join(f"{toml(k)} = {toml(v)}" for k, v in tree.items()), "quick")
    finally:
        watching = False
    assert not made and set(strangers.iterdir()) == there
