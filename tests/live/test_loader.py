# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""build/asymcc on the running kernel: load, list, show, unload; namespaces, sockets, objects of each kind."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from asymlab.guest import audit
from tests.live.harness import (  # noqa: F401
    ASYMCC,
    ROOT,
    asymcc,
    kernel_has,
    listed,
    other,
    program,
    pytestmark,
    refused,
    run,
    unique,
    values,
)
from tests.live.pairs import PLAIN, held_open, inside, set_default, transfer
from tests.live.sources import OPS, build
from tests.live.test_senders_live import CONTROLLERS


def test_life(alias):
    name = alias()
    assert listed("fast")["built"] and listed(name) is None
    output = asymcc("load", "fast", "--as", name, "--set", "alpha=500").splitlines()
    assert output == [f"{name} registered (alpha=500 packets)", f"note: {note('fast')}"]
    assert kernel_has(name), "the registration must outlive the command"
    row = listed(name)
    assert row["object"] == "fast" and row["map_id"] > 0 and row["used_by"] == []
    assert name in run("bpftool", "struct_ops", "dump", "id", row["map_id"]).stdout
    assert name in asymcc("list") and "alpha" in asymcc("show", name)
    assert asymcc("unload", name) == f"{name} unloaded\n"
    assert not kernel_has(name) and listed(name) is None
    assert asymcc("unload", name) == asymcc("unload", name, "--drain") == f"{name} is not registered\n"


@pytest.mark.parametrize(
    "ops, fault",
    [
        (".flags = 0x1000, ", ""),  # a flag that no kernel knows: refused when it is registered
        ("", "return *(volatile u32 *)(long)calls;"),  # or by the verifier
    ],
)
def test_what_needs_a_newer_kernel_says_so(ops, fault, tmp_path, alias):
    name = alias()
    needs = 'NEEDS_LINUX(99.1, "what is not thought of yet");\nOPS'
    made = OPS.replace(".name", f"{ops}.name")
    build(tmp_path, name, fault, needs.replace("OPS", made))
    output = f"it needs Linux 99.1 or later, for what is not thought of yet; this is {os.uname().release}"
    assert f"cannot load {name}: {output}" in refused("load", tmp_path / f"{name}.bpf.o")
    expected = json.loads(asymcc("show", tmp_path / f"{name}.bpf.o", "--json"))
    assert expected["needs"] == {"linux": "99.1", "for": "what is not thought of yet"}
    build(tmp_path, name, "", made)
    assert json.loads(asymcc("show", tmp_path / f"{name}.bpf.o", "--json"))["needs"] is None


@pytest.mark.parametrize("flags, l4s", [(0x7, False), (0x8, True), (0xF, True)])
def test_an_object_that_asks_for_l4s(tmp_path, alias, flags, l4s):
    name = alias()
    build(tmp_path, name, "", OPS.replace(".name", f".flags = {flags}, .name"))
    file = tmp_path / f"{name}.bpf.o"
    assert json.loads(asymcc("show", file, "--json"))["l4s"] is l4s
    assert ("L4S: it asks that its packets leave as ECT(1)\n" in asymcc("show", file)) is l4s
    if not l4s:  # no kernel before 7.0 takes that flag
        build(tmp_path, name, "", OPS)
        asymcc("load", file)
        file.unlink()
        assert json.loads(asymcc("show", name, "--json"))["l4s"] is False


def test_trace_object_is_no_controller(alias):
    assert listed("trace") is None
    assert "not a controller" in refused("load", "trace", "--as", alias())


def test_two_instances_keep_their_own_values(alias, pair):
    a, b = alias(), alias()
    asymcc("load", "fast", "--as", a, "--set", "alpha=20", "--set", "update_us=10000")
    asymcc("load", "fast", "--as", b, "--set", "alpha=0x28", "--set", "gamma_q8=256")
    defaults = values("fast") if not kernel_has("fast") else None
    va, vb = values(a), values(b)
    assert (va["alpha"], va["update_us"], va["gamma_q8"]) == (20, 10000, 128)
    assert (vb["alpha"], vb["update_us"], vb["gamma_q8"]) == (40, 0, 256)
    if defaults:
        assert defaults | {"alpha": 20, "update_us": 10000} == va
    # and their own counters
    transfer(pair, "10.9.0.2", 7000, 200_000, b)
    assert values(a, "counters")["flows"] == 0
    assert values(b, "counters")["flows"] == 1 and values(b, "counters")["updates"] > 0
    # and one goes without the other
    asymcc("unload", a)
    assert values(b) == vb


def test_show_of_what_is_only_built():
    if kernel_has("fast"):
        pytest.skip("fast is registered on this machine")
    text = asymcc("show", "fast")
    assert text.startswith("fast: not registered")
    assert values("fast")["alpha"] == 0
    shown = json.loads(asymcc("show", "fast", "--json"))
    assert shown["registered"] is False and shown["map_id"] is None
    alpha = shown["parameters"][0]
    assert (alpha["min"], alpha["max"], alpha["unit"]) == (0, 65536, "packets") and "backlog" in alpha["doc"]


def test_name_taken(loaded):
    name = loaded("fast")
    line = refused("load", "fast", "--as", name, "--set", "alpha=20")
    assert "registered already" in line and f"asymcc unload {name}" in line and "--as" in line
    assert "with alpha=0, not 20" in line and values(name)["alpha"] == 0
    asymcc("set", name, "alpha=20")
    assert "with alpha=20, not 0" in refused("load", "fast", "--as", name)
    assert "from another object or build" in refused("load", "fusion", "--as", name)
    line = refused("load", "fast", "--as", "reno")
    assert "congestion control of that name" in line and "--as" in line


def test_loading_twice_is_no_error(loaded):
    """A loaded controller stays: a script may load it each time it runs."""
    name = loaded("fast", "--set", "alpha=20")
    before = listed(name)
    output = asymcc("load", "fast", "--as", name, "--set", "alpha=20").splitlines()
    assert output == [f"{name} is registered already", f"note: {note('fast')}"]
    assert listed(name) == before
    asymcc("set", name, "alpha=30")
    assert f"{name} is registered already\n" in asymcc("load", "fast", "--as", name, "--set", "alpha=30")


def test_another_build_of_the_same_values_is_not_the_same(tmp_path, alias):
    name, here = alias(), ["--objects", tmp_path]
    build(tmp_path, name)
    asymcc("load", name, *here)
    assert asymcc("load", name, *here) == f"{name} is registered already\n"
    build(tmp_path, name, body="COUNT(calls);")
    assert "from another object or build" in refused("load", name, *here)
    assert asymcc("load", name, "--replace", *here) == f"{name} registered\n"
    assert asymcc("load", name, *here) == f"{name} is registered already\n"


def note(name: str) -> str | None:
    return json.loads(asymcc("show", name, "--json"))["note"]


def test_what_a_controller_does_to_others_is_told(alias, pair):
    """By `load`, `use` and `show`, of the controllers that have such a note."""
    assert note("fusion") is None and "note:" not in asymcc("show", "fusion")
    for controller in ("fast", "pseudorate", "formosa"):
        name, expected = alias(), f"note: {note(controller)}\n"
        assert (
            "CUBIC" in expected
            and expected in asymcc("load", controller, "--as", name)
            and expected in asymcc("show", name)
        )
        used = inside(pair, "use", name, "--default")
        assert used == f"{name} is used by default\n{expected}"
        asymcc("unload", name, "--drain", "--seconds", "0")
    assert inside(pair, "use", PLAIN, "--default") == f"{PLAIN} is used by default\n"


def test_default_of_a_namespace(loaded, pair):
    name = loaded("fast")
    set_default(pair, name)
    assert listed(name)["used_by"] == [{"netns": f"netns {pair.client}", "default": True, "routes": [], "sockets": 0}]
    assert f"default of netns {pair.client}" in asymcc("list")
    line = refused("unload", name)
    assert (
        f"default of netns {pair.client}" in line
        and f"asymcc unuse {name}" in line
        and "--drain" in line
        and "--force" in line
    )
    assert kernel_has(name)
    set_default(pair, PLAIN)
    asymcc("unload", name)
    assert not kernel_has(name)


def test_force(loaded, pair):
    name = loaded("fast")
    set_default(pair, name)
    assert f"still default of netns {pair.client}" in asymcc("unload", "--force", name)
    assert not kernel_has(name) and listed(name)["unloading"]


@pytest.mark.parametrize("address", ["10.9.0.2", "fd09::2"])
def test_open_sockets_are_counted_and_survive_unload(address, loaded, pair):
    name = loaded("fast", "--set", "alpha=33")
    with held_open(pair, name, address):
        assert listed(name)["used_by"] == [
            {"netns": f"netns {pair.client}", "default": False, "routes": [], "sockets": 1}
        ]
        assert f"1 socket in netns {pair.client}" in asymcc("list")
        output = asymcc("unload", name).splitlines()
        assert output[0] == f"{name} unloaded; 1 socket keeps it until closed" and len(output) == 2
        assert listed(name)["unloading"] and values(name)["alpha"] == 33
        again = asymcc("unload", name).splitlines()
        assert again[0] == f"{name} is unloaded already; 1 socket keeps it until closed" and len(again) == 2
        asymcc("load", "fast", "--as", name, "--set", "alpha=44")  # the name is free again
        assert values(name)["alpha"] == 44


def test_namespace_without_a_name(loaded):
    name = loaded("fast")
    script = f"echo {name} > /proc/sys/net/ipv4/tcp_congestion_control && echo $$ && read line"
    with program("unshare", "-n", "sh", "-c", script) as p:
        pid = p.stdout.readline().strip()
        assert listed(name)["used_by"] == [{"netns": f"pid {pid}", "default": True, "routes": [], "sockets": 0}]
        assert f"pid {pid}" in refused("unload", name)


def test_types_of_parameters(tmp_path, alias):
    name = alias()
    build(tmp_path, name)
    asymcc("load", name, "--objects", tmp_path)
    assert values(name) == {"bias": -7, "tiny": 3, "huge": 5000000000}
    asymcc("unload", name)
    sets = ["--set", "bias=-100", "--set", "tiny=255", "--set", "huge=10000000000"]
    assert (
        asymcc("load", name, "--objects", tmp_path, *sets)
        == f"{name} registered (bias=-100 us, tiny=255, huge=10000000000 ns)\n"
    )
    assert values(name) == {"bias": -100, "tiny": 255, "huge": 10000000000}
    assert json.loads(asymcc("show", name, "--json"))["parameters"][0]["doc"] == "a signed one | with a bar"


PRESETS = """
PRESET(air, "bias=5 tiny=9", "a reason | with a bar, and a \\"word\\"");
PRESET(wrong, "tiny=1 nothing=2", "of a parameter that is not there");
"""


def test_presets(tmp_path, alias):
    """The values of a kind of link; --set wins over them."""
    name = alias()
    build(tmp_path, name, **{'COUNTER(calls, "calls");': 'COUNTER(calls, "calls");' + PRESETS})
    here = ["--objects", tmp_path]
    air = {"name": "air", "values": "bias=5 tiny=9", "doc": 'a reason | with a bar, and a "word"'}
    assert json.loads(asymcc("show", name, "--json", *here))["presets"][0] == air
    for preset, expected in (("none", "has no such preset; it has: air, wrong"), ("wrong", "no parameter nothing")):
        assert expected in refused("load", name, "--preset", preset, *here)
        assert not kernel_has(name)
    expected = asymcc("load", name, "--preset", "air", "--set", "tiny=4", *here)
    assert expected == f"{name} registered (bias=5 us, tiny=4)\n"
    assert values(name) == {"bias": 5, "tiny": 4, "huge": 5000000000}
    assert json.loads(asymcc("show", name, "--json"))["presets"][0] == air
    assert "\npresets:\n  air  " in asymcc("show", name)


def test_each_preset_of_a_controller_loads(loaded):
    """It tells as many values as it names, and nothing else changes."""
    seen = 0
    for controller in CONTROLLERS:
        shown = json.loads(asymcc("show", controller, "--json"))
        for preset in shown["presets"]:
            name = loaded(controller, "--preset", preset["name"])
            default = {one["name"]: one["value"] for one in shown["parameters"]}
            assert values(name) == default | {k: int(v) for k, v in (w.split("=") for w in preset["values"].split())}
            assert values(name) != default
            asymcc("unload", name)
            seen += 1
    assert seen >= 9


def test_registered_by_bpftool(tmp_path, alias):
    name = alias()
    build(tmp_path, name)
    run("bpftool", "struct_ops", "register", tmp_path / f"{name}.bpf.o")
    row = listed(name)
    assert row["map_id"] and row["object"] == "tiny_ops" and not row["built"]
    assert values(name)["huge"] == 5000000000
    asymcc("unload", name)
    assert not kernel_has(name)


# Hides the processes and the named namespaces of other tests, which come and go.
ALONE = (
    *"unshare -m -p -f --kill-child --mount-proc sh -ec".split(),
    '! test -d /run/netns || mount -t tmpfs none /run/netns; exec "$@"',
    "sh",
)


def test_a_kernel_that_does_not_tell_who_keeps_it(loaded, tmp_path):
    """The kernel may lack tcp_diag, which is a module: the controller is out, and unload has done its work."""
    name, log, output = loaded("fast"), tmp_path / "log", ""
    run(*ALONE, "strace", "-qq", "-e", "trace=socket", "-o", log, ASYMCC, "unload", name)
    for nth in [i for i, line in enumerate(log.read_text().splitlines(), 1) if "SOCK_DIAG" in line]:
        asymcc("load", "fast", "--as", name)
        inject = "-e", "trace=socket", "-e", f"inject=socket:error=EPROTONOSUPPORT:when={nth}"
        done = run(*ALONE, "strace", "-qq", "-o", "/dev/null", *inject, ASYMCC, "unload", name, check=False)
        assert (done.returncode, done.stdout) == (0, f"{name} unloaded\n") and not kernel_has(name)
        output += done.stderr
    assert "cannot see the connections" in output


@pytest.mark.skipif(not os.path.ismount("/sys/fs/bpf"), reason="no bpffs is mounted")
def test_registered_by_a_link(tmp_path, alias):
    """Whoever holds it is named; of a pin, what takes it out. That command is then true."""
    name, pin = alias(), Path("/sys/fs/bpf", unique("a b"))
    build(tmp_path, name, tiny_ops=name)
    argv = other("link", tmp_path / f"{name}.bpf.o", name)
    with program(*argv) as p:
        if p.stdout.readline() != "linked\n":
            pytest.skip(f"this kernel has no links of struct_ops (before 6.4): {p.stderr.read()}")
        assert re.search(rf"a BPF link that python[.\d]* \(pid {p.pid}\) holds", refused("unload", name))
    try:
        with program(*argv, pin) as p:
            assert p.stdout.readline() == "linked\n", p.stderr.read()
            assert re.search(rf"`rm '{pin}'`.*after the end of python[.\d]* \(pid {p.pid}\)", refused("unload", name))
        (command,) = re.findall(r"`(.*)` takes it out", refused("unload", name))
        run("sh", "-c", command)
        deadline = time.monotonic() + 20
        while kernel_has(name):
            assert time.monotonic() < deadline
    finally:
        pin.unlink(missing_ok=True)


@pytest.mark.parametrize("program, before", [("t_ssthresh", "return 2;"), ("t_undo", "return tcp_sk")])
def test_rejected_by_the_verifier(tmp_path, alias, program, before):
    """The first program of the object, or the second one."""
    name = alias()
    build(tmp_path, name, **{before: f"tcp_sk(sk)->snd_una = 0; {before}"})
    line = refused("load", name, "--objects", tmp_path)
    assert f"verifier rejects program {program}: " in line and "-v" in line
    assert "snd_una" in line or "no write support" in line or "off=" in line, line
    loud = run(ASYMCC, "load", name, "--objects", tmp_path, "-v", check=False)
    assert loud.returncode == 1 and f"the verifier's log of program {program}:\n" in loud.stderr
    assert "\nprocessed " in loud.stderr and loud.stderr.count("\n") > 5


def test_required_member_missing(tmp_path, alias):
    name = alias()
    undo = 'SEC("struct_ops/t_undo") u32 BPF_PROG(t_undo, struct sock *sk) { return tcp_sk(sk)->snd_cwnd; }'
    build(tmp_path, name, ops=OPS.replace(".undo_cwnd = (void *)t_undo,", ""), **{undo: ""})
    line = refused("load", name, "--objects", tmp_path)
    assert "undo_cwnd" in line and "required" in line


def test_member_this_kernel_lacks(tmp_path, alias):
    name = alias()
    own = (
        (ROOT / "bpf" / "compat.bpf.h")
        .read_text()
        .replace("\tu32 flags;\n\tchar name", "\tvoid (*telepathy)(struct sock *sk);\n\tchar name")
    )
    (tmp_path / "compat.bpf.h").write_text(own)
    assert "telepathy" in own
    build(tmp_path, name)
    assert "tcp_congestion_ops.telepathy" in refused("load", name, "--objects", tmp_path)


def test_bounds_that_are_no_numbers(tmp_path, alias):
    name = alias()
    build(tmp_path, name, **{"-100, 100": "-100, CA_PRIV_BYTES"})
    assert "bias" in refused("load", name, "--objects", tmp_path)


STATE = """
struct inner { s32 rtt; u16 pair[2]; u64 stamp; };
struct state { bool on; u8 low:3, high:5; struct inner in; enum { UP, DOWN } phase; struct { u32 deep; }; };
STATE(struct state);
COUNTER("""


def test_layout_of_the_private_state(tmp_path, alias):
    """Nested structs flattened, arrays and bit-fields left out; the same from the object and from the kernel."""
    name = alias()
    build(tmp_path, name, **{"COUNTER(": STATE})
    layout = json.loads(asymcc("show", name, "--json", "--objects", tmp_path))["state"]
    assert [tuple(m.values()) for m in layout] == [
        ("on", 0, 1, False),
        ("rtt", 8, 4, True),
        ("stamp", 16, 8, False),
        ("phase", 24, 4, False),
        ("deep", 28, 4, False),
    ]
    assert list(layout[0]) == ["name", "offset", "bytes", "signed"]
    asymcc("load", name, "--objects", tmp_path)
    assert json.loads(asymcc("show", name, "--json"))["state"] == layout
    assert "rtt" not in asymcc("show", name)

    other = alias()
    build(tmp_path, other)
    assert json.loads(asymcc("show", other, "--json", "--objects", tmp_path))["state"] == []
    with pytest.raises(AssertionError, match="private state does not fit the socket"):
        build(tmp_path, other, **{"COUNTER(": STATE.replace("pair[2]", "pair[64]")})


def test_layout_of_fast():
    layout = json.loads(asymcc("show", "fast", "--json"))["state"]
    assert {"w_q8", "cwnd", "rtt_min"} <= {m["name"] for m in layout}
    ends = [m["offset"] + m["bytes"] for m in layout]
    assert all(end <= m["offset"] for end, m in zip(ends, layout[1:])) and ends[-1] <= 104


def test_the_labs_audit_finds_what_the_kernel_has_and_nothing_that_is_gone(loaded):
    before = audit.in_kernel()
    name = loaded("fast")
    there = {key: what for key, what in audit.in_kernel().items() if key not in before}
    assert len(there) > 2 and all(audit.is_there(*key) for key in there)
    asymcc("unload", name)
    assert not audit.left_over(there)
