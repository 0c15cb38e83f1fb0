# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The one line for each thing that is wrong in a scenario file: file, key, reason."""

import pytest

from asymlab import LabError
from asymlab.plan import objects, scenario, topology
from asymlab.plan.toml import plain
from asymlab.run import tasks
from tests.ktap import built
from tests.scenarios import BASE, hop
from tests.shared import BUILD, asymlab, compile_job

RED = "path.forward.red = {{ min = {}, max = {}, probability = {} }}"
STRIP = "path.forward.strip = {{ {} }}"
SYSCTL = "sysctls.{} = {}"
PARAMETER = "controllers.reno.{} = {}"
EITHER = "either forward and reverse, or a list of hops"
NO_VALUE = "neither a whole number nor a word"


def load(packet: int, **more) -> dict:
    return {"background": [{"rate": "1mbit", "packet": packet, **more}]}


@pytest.mark.parametrize(
    "text, key, reason",
    [
        ("path.forward.queue = 0", "path.forward.queue", "must be at least 1"),
        ('path.forward.rate = "-10mbit"', "path.forward.rate", "not a quantity"),
        ("path.forward.rate = 10", "path.forward.rate", "not a quantity"),
        ('path.forward.rate = "10ms"', "path.forward.rate", "not a quantity"),
        ("path.mut = 3", "path.mut", "unknown key"),
        ("path.mtu = 20", "path.mtu", "must be at least 200"),
        ('run.duration = "1s"', "run", "measure_from must come before duration"),
        ('flows.start = "2s"\nflows.stop = "1s"', "flows.0", "stop must come after start"),
        ('flows.start = "9s"', "flows.0", "starts, stops or resumes after run.duration"),
        ('path.forward.rate = "50kbit"\nrun.measure_from = "2900ms"', "run", "forward passes 0.6 packets of 1000"),
        ('flows.start = "1s"\nflows.stop = "1001ms"', "run.start_jitter", "a flow may start after its stop"),
        ('run.start_jitter = "4s"', "run.start_jitter", "a flow may start after run.duration"),
        ('path.forward.loss = "99.9%"', "flows.0", "0.10% of round trips succeed; the self-check needs 1.5%"),
        ('path.forward.reorder = "60%"', "flows.0", "most round trips are reordered"),
        ('path.forward.codel = { target = "1us" }', "path.forward.codel.target", "1us become 0us in the kernel"),
        ('path.forward.pie = { target = "1us" }', "path.forward.pie.target", "1us become 0us in the kernel"),
        ('path.forward.rate = "0mbit"', "path.forward.rate", "must be at least 1kbit, not '0mbit'"),
        ('path.forward.rate = "2000gbit"', "path.forward.rate", "must be at most 100gbit, not '2000gbit'"),
        ('flows.stop = "2s"\nflows.resume = "1s"', "flows.0", "resume must come after stop"),
        ('run.duration = "3050ms"', "run", "multiples of 100ms"),
        ('ecn = "exact"', "ecn", "'exact' is neither true, false nor 'accurate'"),
        ('profile = "ns3"', "profile", "'linux', 'tuned', 'ns2', 'newreno', 'impatient' or 'classic'"),
        ('path.forward.loss = "100%"', "path.forward.loss", "less than 100%"),
        ('path.forward.reorder = "150%"', "path.forward.reorder", "less than 100%"),
        ('path.forward.delay = "0ms"\npath.forward.reorder = "1%"', "path.forward", "reorder needs a delay"),
        ("path.forward.strip = [253]", "path.forward.strip", "must be a table"),
        (STRIP.format("kinds = [], syn = true"), "path.forward.strip.kinds", "at least 1 item"),
        (STRIP.format("kinds = [1], syn = true"), "path.forward.strip.kinds.0", "must be at least 2"),
        (STRIP.format("kinds = [253]"), "path.forward.strip.syn", "is missing"),
        ('path.forward.red = { min = 4, probability = "10%" }', "path.forward.red.max", "is missing"),
        (RED.format(4, 8, 0.1), "path.forward.red.probability", "not a share"),
        (RED.format(4, 8, '"0%"'), "path.forward.red.probability", "more than 0%"),
        (RED.format(8, 8, '"10%"'), "path.forward.red", "min must be less than max"),
        (RED.format(4, 101, '"10%"'), "path.forward", "red.max: must be at most the queue (100)"),
        ("path.forward.queue = 9999\n" + RED.format(4, 9999, '"10%"'), "path", "take a larger weight"),
        (
            "path.mtu = 5000\npath.forward.queue = 900000\n" + RED.format(4, 8, '"10%"'),
            "path",
            "queue: 900000 packets of 5000 bytes are too many",
        ),
        (SYSCTL.format("net.ipv4.tcp_sack", 0), "sysctls.net", "must be quoted"),
        (SYSCTL.format('"net.ipv4.x"', 0.5), "sysctls.net.ipv4.x", "0.5 is neither a number nor a text"),
        (SYSCTL.format('"net.ipv4.x"', "true"), "sysctls.net.ipv4.x", "True is neither a number nor a text"),
        (SYSCTL.format('"vm.swappiness"', 0), "sysctls.vm.swappiness", "not a key such as"),
        (SYSCTL.format('"net.ipv4/../../vm.x"', 0), "sysctls.net.ipv4/../../vm.x", "not a key such as"),
        ('flows.sink_sysctls = { "vm.x" = 0 }', "flows.0", "sink_sysctls.vm.x: not a key such as"),
        ('flows.source_sysctls = { "net.ipv4.x" = true }', "flows.0.source_sysctls.net.ipv4.x", "True is neither"),
        ('flows.sink_sysctls = { "net.ipv4.tcp_timestamps" = 0 }', "flows.0", "set it in sysctls"),
        ('flows.every = "1s"', "flows.0", "every: needs reply"),
        ('flows.app_rate = "1mbit"\nflows.size = 9', "flows.0.app_rate", "cannot be with reply, size or run.verify"),
        ('flows.every = "1ms"\nflows.reply = 1\nflows.size = 9', "flows.0.size", "cannot be with reply"),
        ('flows.controller = "../reno"', "flows.0.controller", "neither an object"),
        ('controllers."../../e".loader = "bpftool"', "controllers.../../e", "digits and '_' alone"),
        (PARAMETER.format('"../../some/file"', '"text"'), "controllers.reno.../../some/file", "digits and '_' alone"),
        (PARAMETER.format("beta", '"4\\n5"'), "controllers.reno.beta", NO_VALUE),
        (PARAMETER.format("beta", "true"), "controllers.reno.beta", NO_VALUE),
        (PARAMETER.format("beta", "0x" + 9999 * "f"), "controllers.reno.beta", NO_VALUE),
        (
            '[[changes]]\nat = "1s"\ncontroller = "reno"\nset = { "a=1 b" = 3 }',
            "changes.0.set.a=1 b",
            "digits and '_' alone",
        ),
        ('run.capture = "all"', "run.capture", "must be true or false"),
        ("flows.enter = 3", "flows.0.enter", "no switch 3; there are 1 to 2"),
        ("flows.leave = 0", "flows.0.leave", "no switch 0; there are 1 to 2"),
        ("flows.enter = 2", "flows.0.enter", "2 must be below leave (2) where the direction is forward"),
        (
            'flows.direction = "reverse"\nflows.enter = 1\nflows.leave = 2',
            "flows.0.enter",
            "1 must be above leave (2) where the direction is reverse",
        ),
        (load(1001), "background.0.packet", "1001 bytes are more than the path's mtu, 1000"),
        (load(500, start="9s"), "background.0", "starts or stops after run.duration"),
        (load(500, start="2s", stop="2s"), "background.0", "stop must come after start"),
        (load(500, leave=3), "background.0.leave", "no switch 3; there are 1 to 2"),
        ('without = ["path.forward", "path.reverse"]', "path", EITHER),
        ('without = ["path.reverse"]', "path", EITHER),
        ({"path": {"hops": 2 * [hop()]}}, "path", EITHER),
    ],
)
def test_wrong_values_name_file_key_and_reason(scenario_file, tmp_path, text, key, reason):
    scenario_file()
    file, words = tmp_path / "wrong.toml", text if isinstance(text, str) else plain(text)
    file.write_text(f'base = "test.toml"\ntitle = "wrong"\nid = "WRONG"\n{words}\n')
    is_wrong(file, key, reason)


@pytest.mark.parametrize(
    "wrong, key, reason",
    [
        ({"id": "SP100mbit"}, "id", "capitals, digits and hyphens alone, such as SP100MBIT, not 'SP100mbit'"),
        ({"title": None, "titel": "test"}, "titel", "unknown key; did you mean title?"),
        ({"path": None, "paht": BASE["path"]}, "paht", "unknown key; did you mean path?"),
        (
            {"flow": {"controller": None, "controler": "reno"}},
            "flows.0.controler",
            "unknown key; did you mean controller?",
        ),
        ({"hops": [hop()]}, "path.hops", "at least 2 items"),
        ({"hops": 9 * [hop()]}, "path.hops", "at most 8 items"),
        ({"hops": [hop(), hop(), hop({"rate": 10})]}, "path.hops.2.forward.rate", "not a quantity"),
    ],
)
def test_wrong_names_and_chains(scenario_file, wrong, key, reason):
    is_wrong(scenario_file(wrong), key, reason)


NUMBERS = "path.mtu path.forward.queue flows.0.count flows.0.enter flows.0.reply path.forward.fq.flow_limit".split()


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", ["true", '"50"', "50.0"])
def test_what_stands_for_a_whole_number_is_none(scenario_file, tmp_path, key, value):
    scenario_file()
    file = tmp_path / "wrong.toml"
    file.write_text(f'base = "test.toml"\ntitle = "wrong"\nid = "WRONG"\n{key} = {value}\n')
    is_wrong(file, key, f"must be a whole number, not {value.replace('true', 'True').replace(chr(34), chr(39))}")


FAST = {"flow": {"controller": "fast"}}
CHANGE = {"at": "1s", "controller": "fast"}


@built
@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"thin": {"reverse_kbit": -1}}, "thin.reverse_kbit: must be a whole number, 0 to 10000000 kbit/s, not -1"),
        ({"thin": {"acks_per_rt": 9}}, "thin.acks_per_rt: thin has no such parameter; did you mean acks_per_rtt?"),
        ({"thin": {"at": "router", "mpu": "big"}}, "thin.mpu: must be a whole number, 0 to 256 bytes, not 'big'"),
        (
            {"controllers": {"fast": {"alfa": 1}}},
            "controllers.fast.alfa: fast has no such parameter; did you mean alpha?",
        ),
        (
            {"controllers": {"fast": {"x": 1}}},
            "controllers.fast.x: fast has no such parameter; it has alpha, gamma_q8, ",
        ),
        (
            {"controllers": {"fast": {"alpha": 65537}}},
            "controllers.fast.alpha: must be a whole number, 0 to 65536 packets, not 65537",
        ),
        ({"controllers": {"fast": {"fair": "1"}}}, "controllers.fast.fair: must be a whole number, 0 to 1, not '1'"),
        (
            {"changes": [{**CHANGE, "set": {"gamma_q8": 0}}]},
            "changes.0.set.gamma_q8: must be a whole number, 1 to 256 1/256, not 0",
        ),
        (
            {"changes": [{**CHANGE, "set": {"gama_q8": 1}}]},
            "changes.0.set.gama_q8: fast has no such parameter; did you mean ",
        ),
        (
            {"changes": [{**CHANGE, "set": {"fair": 1}}]},
            'changes.0.set.fair: fast reads it only as it is loaded: `command = "replace"` beside it loads it anew',
        ),
        ({"flow": {"controller": "fasd"}}, "flows.0.controller: no controller 'fasd'; there are "),
        (
            {"flow": {"controller": "a"}, "controllers": {"a": {"object": "b"}}},
            "controllers.a.object: no controller 'b'; ",
        ),
        ({"profile": "classic"}, "profile: 'classic': packaged kernels have it not; take --engine uml"),
    ],
)
def test_what_an_object_does_not_take_is_refused_before_it_runs(scenario_file, wrong, words):
    file = scenario_file(FAST, wrong)
    with pytest.raises(LabError) as e:
        tasks.plan_on_host(scenario.load(file))
    assert str(e.value).startswith(f"{file}: {words}")


@built
def test_what_a_replaced_controller_takes_is_no_live_parameter(scenario_file):
    change = {**CHANGE, "command": "replace", "set": {"fair": 1}}
    assert tasks.plan_on_host(scenario.load(scenario_file(FAST, changes=[change])))


FORWARD = {"direction": "forward"}
RENO = {"controller": "reno"}
V6 = {"ip": 6, "mtu": 1500}
UNFIT = [
    ({"cake": {"overhead": -1}}, "cake.overhead: must be at least 0"),
    ({"cake": {"mpu": 257}}, "cake.mpu: must be at most 256"),
    ({"cake": {"framing": "ethernet"}}, "cake.framing: .*plain"),
    ({"cake": {"isolation": "nat"}}, "cake.isolation: .*triple-isolate"),
    ({"cake": {"ack_filter": "on"}}, "cake.ack_filter: 'on' is neither true, false nor 'aggressive'"),
    ({"policer": {"rate": "10mbit"}}, "policer.burst: is missing"),
    ({"policer": {"rate": "1kbit", "burst": 20000}}, "policer: .*longer than 100 s"),
    ({"policer": {"rate": 10, "burst": 2000}}, "policer.rate: .*not a quantity"),
    ({"policer": {"rate": "10mbit", "burst": "2kb"}}, "policer.burst: .*whole number"),
    ({"fq_codel": {"flows": 0}}, "fq_codel.flows: must be at least 1"),
    ({"codel": {"target": 5}}, "codel.target: .*not a quantity"),
    ({"duplicate": 1}, "duplicate: .*share"),
    ({"rewrite": [{"kind": 1, "offset": 2, "value": 0}]}, "rewrite.0.kind: "),
    ({"rewrite": [{"kind": 2, "offset": 2, "value": 65536}]}, "rewrite.0.value: "),
]
UNFIT_TOGETHER = [
    ({"red": {"min": 3, "max": 9, "probability": "1%"}, "pie": {}}, "path.forward: .*either red or pie"),
    ({"codel": {}, "fq": {}}, "path.forward: .*either codel or fq"),
    ({"loss_burst": 5}, "path.forward: .*loss_burst needs a loss"),
    ({"loss": "90%", "loss_burst": 2}, "path.forward: .*leaves a packet between two bursts"),
    ({"disorder": True}, "path.forward: .*disorder needs jitter"),
    ({"jitter": "21ms"}, "path.forward: .*jitter must be at most the delay"),
    ({"red": {"min": 10, "max": 100, "probability": "1e-4%"}}, "path: .*1e-06 would be 0 in the kernel"),
    ({"red": {"min": 10, "max": 100, "probability": "0.006%"}}, "path: .*6e-05 would be 4.191e-05 in the kernel"),
    ({"policer": {"rate": "10mbit", "burst": 999}}, "path: .*999 bytes pass no packet of the mtu, 1000"),
]


def change(*those: dict) -> dict:
    return {"changes": [{"at": "1s"} | one for one in those]}


TUNNELS = [
    (V6, "takes ip = 4"),
    ({"forward": {"strip": {"kinds": [8], "syn": True}}}, "hides TCP's options from a middlebox: give no strip"),
    ({"reverse": {"rewrite": [{"kind": 8, "offset": 2, "value": 1}]}}, ".*give no rewrite"),
    (change(FORWARD | {"mtu": 600}), "has an MTU of its own: give no change of mtu"),
    ({"hops": 2 * [hop()], "uplink": {"at": "router", "probe": True}}, "hides the hosts from a router"),
    ({"hops": 2 * [hop()], "flow": {"leave": 2}}, "leads from the first switch to the last"),
]
BY_TWO = {"controller": "reno", "subflows": 2, "hop": 1, "second_hop": 2}
NO_SECOND = [{"hop": 1, "second_hop": 2}, {"subflows": 2, "second_hop": 2}, {"subflows": 2, "hop": 1, "second_hop": 1}]
ALONE = [{"count": 2}, {"reply": 9}, {"size": 9}, {"app_rate": "1mbit"}, {"stop": "2s"}]


@pytest.mark.parametrize(
    "wrong, line",
    [
        *(({"forward": way}, f"path.forward.{line}") for way, line in UNFIT),
        *(({"forward": way}, line) for way, line in UNFIT_TOGETHER),
        ({"ip": 5}, "ip: .*4 or 6"),
        ({"ip": "6"}, "ip: .*4 or 6"),
        ({"ip": 6}, "path.mtu: .*1000 bytes are fewer than the 1280 of IPv6"),
        (V6 | change(FORWARD | {"mtu": 1279}), "changes.0.mtu: .*1279"),
        *((tunnel | way, f"path.tunnel: {line}") for tunnel in ({"path": {"tunnel": "gre"}},) for way, line in TUNNELS),
        ({"path": {"tunnel": "gre"}} | load(977), "background.0.packet: 977 bytes are more than the tunnel's mtu, 976"),
        ({"path": {"tunnel": "vxlan"}}, "path.tunnel: .*'ipip', 'gre' or 'wireguard'"),
        ({"flow": {"subflows": 3}}, "flows.0.subflows: must be at most 2"),
        *(({"flow": {"subflows": 2} | more}, "flows.0: .*subflows: cannot be with count,") for more in ALONE),
        ({"flow": {"subflows": 2}} | V6, "flows.subflows: takes ip = 4"),
        *(({"flow": flow}, "flows.0: .*second_hop: takes two subflows and another hop") for flow in NO_SECOND),
        ({"flow": {"subflows": 2, "hop": 1, "second_hop": 2}}, "flows.0.second_hop: no hop 2; there are 1 to 1"),
        ({"flows": 31 * [BY_TWO], "hops": [hop(), hop()]}, "flows.second_hop: more than 30 flows"),
        ({"coalesce": "50us"}, "coalesce: needs offloads = true"),
        ({"offloads": True, "coalesce": "11ms"}, "coalesce: must be at most 10ms"),
        ({"offloads": 1.5}, "offloads: must be true or false"),
        ({"segment": 16384}, "segment: needs offloads = true"),
        ({"offloads": True, "segment": 65537}, "segment: more than 65536 bytes need ip = 6"),
        ({"offloads": True, "ip": 6, "segment": 524281}, "segment: must be at most 524280"),
        ({"flow": {"start_within": "3s"}}, "flows.0.*after run.duration"),
        ({"flow": {"start_within": "2s", "stop": "1s"}}, "flows.0.*its stop"),
        (change(FORWARD | {"mtu": 1200}), "changes.0.mtu: 1200 bytes are more than the path's mtu, 1000"),
        (change(FORWARD | {"mtu": 500}), "changes.0.mtu: must be at least 552"),
        (change(FORWARD | {"hop": 2, "rate": "1mbit"}), "changes.0.hop: no hop 2"),
        (change({"rate": "1mbit"}), "changes.0.*rate: needs a direction"),
        (change(FORWARD | RENO | {"rate": "1mbit"}), "changes.0.*changes either a controller or the path"),
        (change(FORWARD), "changes.0.*must have controller and set"),
        (change(RENO | {"command": "load"}), "changes.0: reno is loaded then"),
        (change(RENO | {"command": "unload"}, RENO | {"command": "use"}), "changes.1: reno is not loaded then"),
        (change(RENO | {"command": "use", "set": {"a": 1}}), "changes.0.*set: use takes no parameters"),
        (change(RENO | {"command": "reboot"}), "changes.0.command"),
        (change(RENO | {"at": "9s", "set": {"a": 1}}), "changes.0: comes after run.duration"),
        (change({"controller": "fast", "set": {"a": 1}}), "changes.0.controller: no flow has fast"),
        (change(RENO | {"set": {}}), "changes.0.set"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_do_not_fit(scenario_file, wrong, line):
    file = scenario_file(wrong)
    with pytest.raises(LabError, match=f"^{file}: {line}") as e:
        scenario.load(file)
    assert "\n" not in str(e.value)


def is_wrong(file, key, reason):
    with pytest.raises(LabError) as e:
        scenario.load(file)
    text = str(e.value)
    assert text.startswith(f"{file}: {key}: ") and reason in text and "\n" not in text


@pytest.mark.parametrize("name", ["rneo", "thin", "trace", "use", "move"])
def test_unknown_controller_lists_those_there_are(scenario_file, name):
    """asymcc's tools are built beside the controllers, and are none."""
    file = scenario_file(flow={"controller": name})
    with pytest.raises(
        LabError, match=f"flows.0.controller: no controller '{name}'; there are .*fast, (.+, )?reno, cubic"
    ):
        compile_job(scenario.load(file)[0], 1)


def test_a_source_that_was_not_built_since_is_told(scenario_file, tmp_path, monkeypatch):
    monkeypatch.setattr(objects, "REPO", tmp_path)
    for name in ("fresh", "fast"):
        source = tmp_path / "bpf" / "rivals" / f"{name}.bpf.c"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.touch()
    with pytest.raises(LabError, match=f"{source.parent}/fresh.bpf.c is not built; run `make build`"):
        compile_job(scenario.load(scenario_file(flow={"controller": "fresh"}))[0], 1)
    with pytest.raises(LabError, match="no controller 'fusoin'; there are .*; did you mean fusion?"):
        compile_job(scenario.load(scenario_file(flow={"controller": "fusoin"}))[0], 1)
    assert [line.partition(" is newer than ")[0] for line in objects.stale(["fast", "fusion", "reno"])] == [str(source)]


def test_an_object_of_the_name_of_one_of_linux_is_refused(scenario_file, tmp_path, monkeypatch):
    (tmp_path / "reno.bpf.o").symlink_to(BUILD / "fast.bpf.o")
    monkeypatch.setattr(topology, "BUILT", tmp_path)
    with pytest.raises(LabError, match=".0.controller: 'reno' is both Linux's and .*/reno.bpf.o: rename the object"):
        compile_job(scenario.load(scenario_file())[0], 1)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("a = [", "not TOML"),
        ("[sets.fast]\n", "sets.fast: unknown key"),
        ("[sweep]\nx = []\n", "sweep.x: must be a list"),
        ("[controllers.fsat]\nalpha = 3\n", "controllers.fsat: no flow uses it"),
        ("[sets]\nquick = 3\n", "sets.quick: must be a table"),
        ("[sets.quick]\nseeds = -1\n", "sets.quick.seeds: must be a number up to 1000, 0 for no runs in this set"),
        ("[sets.quick]\nseeds = 999999999999\n", "sets.quick.seeds: must be a number up to 1000"),
        ('[sweep]\n"flows.²" = [1]\n', "flows.0.²: unknown key"),
        ('[sweep]\n"flows.999" = [1]\n', "flows.999: no such place"),
        (f'[sweep]\n"{"a." * 3000}b" = [1]\n', r"a.a.a.a[.a]+\.\.\.: no such place"),
        (f"{'a.' * 3000}b = 1\n", "too deep in each other"),
        (f"a = {'[' * 3000}{']' * 3000}\n", "too deep in each other"),
        (f"a = {'9' * 5000}\n", "not TOML: .*4300 digits"),
        (
            f'[sweep]\n"path.mtu" = {[900] * 200}\nid = {["X"] * 101}\n',
            "sweep.id: with it there are more than 20000 runs",
        ),
        (f"[sweep]\npairs = {['reno'] * 200}\n", "sweep.pairs: with it there are more than 20000 runs"),
        (
            f'[sets.quick]\nseeds = 1000\n[sweep]\n"path.mtu" = {[900] * 21}\n',
            "more than 20000 runs: 1000 seeds of 21 cases",
        ),
        (
            '[sweep]\n"path.forward.rate" = ["' + "9" * 400 + 'mbit"]\n',
            r"path.forward.rate: '999+\.\.\. is not a quantity",
        ),
        ('[sweep]\ntitle = ["a\\nb"]\n', "title: must be one line"),
        ('"a\\nb\\u001b[2J" = 1\n', r"run.a b\?\[2J: unknown key"),
        (
            22 * '[[flows]]\ncontroller = "reno"\ncount = 200\n' + 136 * '[[flows]]\ncontroller = "reno"\n',
            "flows: List should have at most 60",
        ),
        (23 * '[[flows]]\ncontroller = "reno"\ncount = 200\n', "flows: 4601 are more than there are ports for"),
        ("#" * 2**20, "more than 1048576 bytes are no scenario"),
    ],
    ids=lambda text: text[:40],
)
def test_wrong_files(scenario_file, text, reason):
    with pytest.raises(LabError, match=reason) as e:
        scenario.load(scenario_file(append="\n" + text))
    assert "\n" not in str(e.value) and len(str(e.value)) < 400


@pytest.mark.parametrize(
    "argv", [("--seed", 2**63), ("--repeat", 1001), ("--shard", "1/999999999"), ("--seed", "9" * 5000)]
)
def test_numbers_on_the_command_line_have_bounds(scenario_file, argv):
    p = asymlab("run", scenario_file(), *argv, "--dry-run")
    assert p.returncode == 2 and "Traceback" not in p.stderr and argv[0] in p.stderr.splitlines()[-1]


def test_an_unknown_option_shows_the_usage_of_its_command(scenario_file):
    p = asymlab("run", scenario_file(), "--no-page-at-all")
    assert p.returncode == 2 and p.stderr.startswith("usage: asymlab run ")
    assert p.stderr.endswith("asymlab run: error: unrecognized arguments: --no-page-at-all\n")
