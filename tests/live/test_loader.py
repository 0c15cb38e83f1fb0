# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""build/asymcc on the running kernel: real registrations, real namespaces, real transfers."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import itertools
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASYMCC = ROOT / "build" / "asymcc"
BTF = Path("/sys/kernel/btf/vmlinux")


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    if not BTF.exists() or b"bpf_struct_ops_tcp_congestion_ops" not in BTF.read_bytes():
        return "this kernel takes no congestion control from BPF"
    if not ASYMCC.exists() or not (ASYMCC.parent / "fast.bpf.o").exists():
        return "build/asymcc or build/fast.bpf.o is not built: run make"
    return None


pytestmark = [pytest.mark.root, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]
needs_clang = pytest.mark.skipif(not shutil.which("clang"), reason="needs clang")


def run(*argv, check=True, **kw) -> subprocess.CompletedProcess:
    done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, timeout=60, **kw)
    assert not check or done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def asymcc(*argv, **kw) -> str:
    return run(ASYMCC, *argv, **kw).stdout


def refused(*argv, code=1) -> str:
    """The one line on stderr of a command that must fail."""
    done = run(ASYMCC, *argv, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.startswith("asymcc: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def listed(name: str) -> dict | None:
    rows = [r for r in json.loads(asymcc("list", "--json")) if r["name"] == name]
    return rows[-1] if rows else None


def kernel_has(name: str) -> bool:
    return name in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def values(name: str, what: str = "parameters") -> dict[str, int]:
    return {v["name"]: v["value"] for v in json.loads(asymcc("show", name, "--json"))[what]}


serial = itertools.count()


def unique(prefix: str) -> str:
    return f"{prefix}{os.getpid() % 100000}_{next(serial)}"


@pytest.fixture
def alias():
    """Makes names of controllers, and takes what was registered by them out at the end."""
    made = []

    def make() -> str:
        made.append(unique("t"))
        return made[-1]

    yield make
    for name in made:
        run(ASYMCC, "unload", "--force", name, check=False)


@dataclasses.dataclass
class Pair:
    """Two namespaces joined by a veth pair; the first one's side is a 20 Mbit/s bottleneck."""

    client: str
    server: str
    dev_c: str
    dev_s: str

    def sh(self, ns: str, *argv, **kw):
        return run("ip", "netns", "exec", ns, *argv, **kw)

    def qdisc(self, ns: str, dev: str) -> dict:
        return next(
            q for q in json.loads(self.sh(ns, "tc", "-s", "-j", "qdisc", "show", "dev", dev).stdout) if q.get("root")
        )


@pytest.fixture
def pair():
    p = Pair(unique("tc"), unique("ts"), unique("c"), unique("s"))
    try:
        for ns in (p.client, p.server):
            run("ip", "netns", "add", ns)
            p.sh(ns, "sysctl", "-qw", "net.ipv6.conf.default.router_solicitations=0")
        run("ip", "link", "add", p.dev_c, "netns", p.client, "type", "veth", "peer", "name", p.dev_s, "netns", p.server)
        for ns, dev, end in ((p.client, p.dev_c, 1), (p.server, p.dev_s, 2)):
            p.sh(ns, "ip", "addr", "add", f"10.9.0.{end}/24", "dev", dev)
            p.sh(ns, "ip", "addr", "add", f"fd09::{end}/64", "dev", dev, "nodad")
            p.sh(ns, "ip", "link", "set", "lo", "up")
            p.sh(ns, "ip", "link", "set", dev, "up")
            p.sh(ns, "ethtool", "-K", dev, "tso", "off", "gso", "off", "gro", "off")
        for ns, dev, rate in ((p.client, p.dev_c, "20mbit"), (p.server, p.dev_s, "100mbit")):
            p.sh(ns, "tc", "qdisc", "add", "dev", dev, "root", "tbf", "rate", rate, "burst", "3000", "limit", "60000")
        yield p
    finally:
        for ns in (p.client, p.server):
            run("ip", "netns", "del", ns, check=False)


SERVER = """
import socket, sys
family, address, port, size = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
l = socket.socket(family)
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind((address, port)); l.listen(); print("ready", flush=True)
s, _ = l.accept()
got = 0
while got < size:
    got += len(s.recv(65536))
s.sendall(b"!")
print(got, len(s.recv(1)), flush=True)
"""
CLIENT = """
import socket, sys
family, address, port, size = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
s = socket.socket(family)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[4].encode())
s.connect((address, port))
s.sendall(b"x" * size)
s.recv(1)
if len(sys.argv) > 5:
    print("idle", flush=True); sys.stdin.read()
"""


@contextlib.contextmanager
def program(*argv):
    p = subprocess.Popen(
        [str(a) for a in argv], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield p
    finally:
        p.kill()
        p.communicate()


@contextlib.contextmanager
def server(p: Pair, address: str, port: int, size: int):
    with program("ip", "netns", "exec", p.server, sys.executable, "-c", SERVER, address, port, size) as s:
        assert s.stdout.readline() == "ready\n", s.stderr.read()
        yield s


def transfer(p: Pair, address: str, port: int, size: int, cc: str) -> None:
    with server(p, address, port, size) as s:
        p.sh(p.client, sys.executable, "-c", CLIENT, address, port, size, cc)
        assert s.communicate(timeout=30)[0].split() == [str(size), "0"]


@contextlib.contextmanager
def held_open(p: Pair, cc: str, address: str = "10.9.0.2"):
    """A connection of the client that stays open."""
    with server(p, address, 7100, 1000):
        with program(
            "ip", "netns", "exec", p.client, sys.executable, "-c", CLIENT, address, 7100, 1000, cc, "stay"
        ) as c:
            assert c.stdout.readline() == "idle\n", c.stderr.read()
            yield


# --- load, list, show, unload


def test_life(alias):
    name = alias()
    assert listed("fast")["built"] and listed(name) is None
    assert asymcc("load", "fast", "--as", name, "--set", "alpha=500") == f"{name} registered (alpha=500 packets)\n"
    assert kernel_has(name), "the registration must outlive the command"
    row = listed(name)
    assert row["object"] == "fast" and row["map_id"] > 0 and row["used_by"] == []
    assert name in run("bpftool", "struct_ops", "dump", "id", row["map_id"]).stdout
    assert name in asymcc("list") and "alpha" in asymcc("show", name)
    assert asymcc("unload", name) == f"{name} unloaded\n"
    assert not kernel_has(name) and listed(name) is None
    assert "not registered" in refused("unload", name)


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
    assert values("fast")["alpha"] == 1000
    shown = json.loads(asymcc("show", "fast", "--json"))
    assert shown["registered"] is False and shown["map_id"] is None
    alpha = shown["parameters"][0]
    assert (alpha["min"], alpha["max"], alpha["unit"]) == (1, 65536, "packets") and "backlog" in alpha["doc"]


def test_name_taken(alias):
    name = alias()
    asymcc("load", "fast", "--as", name)
    line = refused("load", "fast", "--as", name)
    assert "registered already" in line and f"asymcc unload {name}" in line and "--as" in line
    line = refused("load", "fast", "--as", "reno")
    assert "congestion control of that name" in line and "--as" in line


@pytest.mark.parametrize(
    "argv, words",
    [
        (["load", "nosuch"], ["nosuch", "fast"]),
        (["show", "nosuch"], ["nosuch", "fast"]),
        (["load", "fast", "--as", "NAME", "--set", "alpah=3"], ["no parameter alpah", "alpha, gamma_q8"]),
        (["load", "fast", "--as", "NAME", "--set", "alph=3"], ["no parameter alph;"]),
        (["load", "fast", "--as", "NAME", "--set", "flows=3"], ["no parameter flows"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha=0"], ["out of range", "1 to 65536 packets"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha=65537"], ["out of range"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha=-1"], ["out of range"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha=99999999999999999999"], ["out of range"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha=3x"], ["not an integer"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha="], ["not an integer"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha"], ["param=value"]),
    ],
)
def test_wrong_values(alias, argv, words):
    name = alias()
    line = refused(*[name if a == "NAME" else a for a in argv])
    for w in words:
        assert w in line
    assert not kernel_has(name)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nosuch"],
        ["load"],
        ["load", "a", "b"],
        ["list", "x"],
        ["load", "fast", "--as"],
        ["load", "fast", "--nosuch"],
        ["list", "--as", "x"],
        ["trace", "--ports", "9-5", "-o", "/dev/null"],
        ["trace", "--bin-ms", "0", "-o", "/dev/null"],
    ],
)
def test_usage(argv):
    refused(*argv, code=2)


def test_help_comes_from_the_tables():
    text = asymcc("--help")
    for command in ("list", "load", "show", "unload", "trace"):
        assert command in text
        assert "--objects" in asymcc(command, "--help")
    assert "--set PARAM=VALUE" in asymcc("load", "--help") and "--set" not in asymcc("list", "--help")
    assert asymcc("--version").startswith("asymcc ")


def test_objects_folder(tmp_path, alias):
    shutil.copy(ASYMCC.parent / "fast.bpf.o", tmp_path / "other.bpf.o")
    rows = {r["name"]: r for r in json.loads(asymcc("--objects", tmp_path, "list", "--json"))}
    assert rows["other"]["built"] and not rows.get("fast", {}).get("built")
    env = os.environ | {"ASYMCC_OBJECTS": str(tmp_path)}
    assert "other" in asymcc("list", env=env)
    name = alias()
    asymcc("load", "other", "--objects", tmp_path, "--as", name)
    assert kernel_has(name)
    (tmp_path / "broken.bpf.o").write_bytes(b"\x7fELF nonsense")
    assert "not a BPF object" in refused("load", "broken", "--objects", tmp_path)
    assert "other" in asymcc("--objects", tmp_path, "list")


# --- namespaces


def test_default_of_a_namespace(alias, pair):
    name = alias()
    asymcc("load", "fast", "--as", name)
    pair.sh(pair.client, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={name}")
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
    pair.sh(pair.client, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno")
    asymcc("unload", name)
    assert not kernel_has(name)


def test_force(alias, pair):
    name = alias()
    asymcc("load", "fast", "--as", name)
    pair.sh(pair.client, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={name}")
    assert f"still default of netns {pair.client}" in asymcc("unload", "--force", name)
    assert not kernel_has(name) and listed(name)["unloading"]


@pytest.mark.parametrize("address", ["10.9.0.2", "fd09::2"])
def test_open_sockets_are_counted_and_survive_unload(address, alias, pair):
    name = alias()
    asymcc("load", "fast", "--as", name, "--set", "alpha=33")
    with held_open(pair, name, address):
        assert listed(name)["used_by"] == [
            {"netns": f"netns {pair.client}", "default": False, "routes": [], "sockets": 1}
        ]
        assert f"1 socket in netns {pair.client}" in asymcc("list")
        assert asymcc("unload", name) == f"{name} unloaded; 1 socket keeps it until closed\n"
        assert listed(name)["unloading"] and values(name)["alpha"] == 33
        assert "unloaded already" in refused("unload", name)
        asymcc("load", "fast", "--as", name, "--set", "alpha=44")  # the name is free again
        assert values(name)["alpha"] == 44


def test_namespace_without_a_name(alias):
    name = alias()
    asymcc("load", "fast", "--as", name)
    script = f"echo {name} > /proc/sys/net/ipv4/tcp_congestion_control && echo $$ && read line"
    with program("unshare", "-n", "sh", "-c", script) as p:
        pid = p.stdout.readline().strip()
        assert listed(name)["used_by"] == [{"netns": f"pid {pid}", "default": True, "routes": [], "sockets": 0}]
        assert f"pid {pid}" in refused("unload", name)


# --- kernels and users that cannot


@pytest.mark.parametrize(
    "argv", [["list"], ["show", "fast"], ["load", "fast"], ["unload", "fast"], ["trace", "-o", "/dev/null"]]
)
def test_not_root(argv, tmp_path):
    for f in (ASYMCC, ASYMCC.parent / "fast.bpf.o", ASYMCC.parent / "trace.bpf.o"):
        shutil.copy(f, tmp_path)
    for folder in (tmp_path, *tmp_path.parents):  # pytest's folders are closed to others
        if folder != Path("/tmp") and Path("/tmp") in folder.parents:
            folder.chmod(0o755)
    done = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", tmp_path / "asymcc", *argv, check=False)
    assert done.returncode == 1 and "root" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_kernel_without_btf():
    if any(Path("/boot").glob("vmlinux-*")):
        pytest.skip("libbpf would take the BTF of /boot/vmlinux-*")
    done = run("unshare", "-m", "sh", "-c", f"mount --bind /dev/null {BTF} && exec {ASYMCC} list", check=False)
    assert done.returncode == 1 and "no BTF" in done.stderr, done.stderr


CONTROLLER = """
#include "compat.bpf.h"
#include "declare.bpf.h"
char LICENSE[] SEC("license") = "GPL";
PARAM(s32, bias, -7, -100, 100, "us", "a signed one | with a bar");
PARAM(u8, tiny, 3, 0, 255, "-", "a small one");
PARAM(u64, huge, 5000000000, 0, 10000000000, "ns", "a large one");
COUNTER(calls, "calls");
SEC("struct_ops/t_ssthresh") u32 BPF_PROG(t_ssthresh, struct sock *sk)
{ COUNT(calls); calls += bias + tiny + huge; BODY return 2; }
SEC("struct_ops/t_undo") u32 BPF_PROG(t_undo, struct sock *sk) { return tcp_sk(sk)->snd_cwnd; }
SEC("struct_ops/t_avoid") void BPF_PROG(t_avoid, struct sock *sk, u32 ack, u32 acked) { }
OPS
"""
OPS = """
SEC(".struct_ops") struct tcp_congestion_ops tiny_ops = {
    .ssthresh = (void *)t_ssthresh, .undo_cwnd = (void *)t_undo, .cong_avoid = (void *)t_avoid, .name = "NAME" };
"""


def build(folder: Path, name: str, body: str = "", ops: str = OPS, **replace) -> None:
    text = CONTROLLER.replace("BODY", body).replace("OPS\n", ops).replace("NAME", name)
    for old, new in replace.items():
        text = text.replace(old, new)
    (folder / f"{name}.bpf.c").write_text(textwrap.dedent(text))
    run(
        "clang",
        "-g",
        "-O2",
        "-target",
        "bpf",
        "-mcpu=v3",
        "-D__TARGET_ARCH_x86",
        f"-I{ROOT / 'bpf'}",
        "-idirafter",
        f"/usr/include/{os.uname().machine}-linux-gnu",
        "-c",
        folder / f"{name}.bpf.c",
        "-o",
        folder / f"{name}.bpf.o",
    )


@needs_clang
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


@needs_clang
def test_registered_by_bpftool(tmp_path, alias):
    name = alias()
    build(tmp_path, name)
    run("bpftool", "struct_ops", "register", tmp_path / f"{name}.bpf.o")
    row = listed(name)
    assert row["map_id"] and row["object"] == "tiny_ops" and not row["built"]
    assert values(name)["huge"] == 5000000000
    asymcc("unload", name)
    assert not kernel_has(name)


@needs_clang
def test_rejected_by_the_verifier(tmp_path, alias):
    name = alias()
    build(tmp_path, name, body="tcp_sk(sk)->snd_una = 0;")
    line = refused("load", name, "--objects", tmp_path)
    assert "verifier rejects program t_ssthresh" in line and "-v" in line
    assert "snd_una" in line or "no write support" in line or "off=" in line, line
    loud = run(ASYMCC, "load", name, "--objects", tmp_path, "-v", check=False)
    assert loud.returncode == 1 and "BEGIN PROG LOAD LOG" in loud.stderr and loud.stderr.count("\n") > 5


@needs_clang
def test_required_member_missing(tmp_path, alias):
    name = alias()
    undo = 'SEC("struct_ops/t_undo") u32 BPF_PROG(t_undo, struct sock *sk) { return tcp_sk(sk)->snd_cwnd; }'
    build(tmp_path, name, ops=OPS.replace(".undo_cwnd = (void *)t_undo,", ""), **{undo: ""})
    line = refused("load", name, "--objects", tmp_path)
    assert "undo_cwnd" in line and "required" in line


@needs_clang
def test_program_that_no_member_names(tmp_path, alias):
    name = alias()
    build(tmp_path, name, ops=OPS.replace(".undo_cwnd = (void *)t_undo,", ""))
    assert "prog 't_undo'" in refused("load", name, "--objects", tmp_path)


@needs_clang
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


@needs_clang
def test_bounds_that_are_no_numbers(tmp_path, alias):
    name = alias()
    build(tmp_path, name, **{"-100, 100": "-100, CA_PRIV_BYTES"})
    assert "bias" in refused("load", name, "--objects", tmp_path)


STATE = """
struct inner { s32 rtt; u16 pair[2]; u64 stamp; };
struct state { bool on; u8 low:3, high:5; struct inner in; enum { UP, DOWN } phase; struct { u32 deep; }; };
STATE(struct state);
COUNTER("""


@needs_clang
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


# --- programs for a cgroup

CGROUP2 = [
    line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if line.split()[2] == "cgroup2"
]
needs_cgroup2 = pytest.mark.skipif(not CGROUP2, reason="no cgroup2 is mounted")

HALVES = """
const volatile char asymcc_name[16] = "";
COUNTER(events, "of sockets");
COUNTER(sent, "packets");
SEC("sockops") int t_opts(struct bpf_sock_ops *ops) { COUNT(events); return 1; }
SEC("cgroup_skb/egress") int t_sent_packets_(struct __sk_buff *skb) { COUNT(sent); return 1; }
"""
CALLS = "{ COUNT(calls); calls += bias + tiny + huge;  return 2; }"
PROGRAMS = {"t_opts", "t_sent_packets_"}  # the longest name that the kernel keeps whole


def build_halves(folder: Path, name: str, halves: str = HALVES) -> None:
    """A controller of which only the halves for a cgroup have counters."""
    build(
        folder,
        name,
        **{
            CALLS: "{ return 2 + bias; }",
            'COUNTER(calls, "calls");': halves,
            "tiny_ops": name,
            ".name = ": ".flags = TCP_CONG_NON_RESTRICTED, .name = ",
        },
    )


class Cgroup:
    """A cgroup of this test's own, or one in it."""

    def __init__(self, path: Path):
        self.path = path
        path.mkdir()

    def child(self) -> Cgroup:
        return Cgroup(self.path / unique("c"))

    def programs(self) -> list[dict]:
        """What is attached here, as bpftool sees it."""
        out = run("bpftool", "-j", "cgroup", "show", self.path, check=False).stdout
        return json.loads(out) if out.strip() else []

    def names(self) -> list[str]:
        return sorted(p["name"] for p in self.programs())

    def sh(self, script: str) -> list[str]:
        """The command for a shell that is in the cgroup."""
        return ["sh", "-c", f"echo $$ > {self.path}/cgroup.procs && {script}"]


def remove_cgroup(path: Path) -> None:
    for child in path.iterdir():
        if child.is_dir():
            remove_cgroup(child)
    for _ in range(100):  # who was killed in it may be leaving still
        with contextlib.suppress(OSError):
            return path.rmdir()
        time.sleep(0.05)
    path.rmdir()


@pytest.fixture
def cgroup(alias):
    """Its removal detaches what is in it, whatever became of the test."""
    made = Cgroup(Path(CGROUP2[0]) / unique("asymcc-test-"))
    yield made
    remove_cgroup(made.path)


@pytest.fixture
def halves(tmp_path, alias, monkeypatch):
    """The name of an object with halves, where asymcc finds it."""
    name = alias()
    build_halves(tmp_path, name)
    monkeypatch.setenv("ASYMCC_OBJECTS", str(tmp_path))
    return name


HOOKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* TRIP="function call errno": that call fails so, or with errno 0 is the last thing that happens. */
static int trips(const char *function)
{
	static int calls;
	char *end, *trip = getenv("TRIP");

	if (strncmp(trip, function, strlen(function)) || strtol(trip + strlen(function), &end, 10) != ++calls)
		return 0;
	errno = atoi(end);
	if (!errno)
		kill(getpid(), SIGKILL);
	return 1;
}
#define CALL(type, f, ...) (trips(#f " ") ? (type)(long)FAILED : ((type (*)())dlsym(RTLD_NEXT, #f))(__VA_ARGS__))
#define FAILED (-errno)
int bpf_prog_attach(int prog, int fd, int type, unsigned flags) { return CALL(int, bpf_prog_attach, prog, fd, type, flags); }
int bpf_prog_attach_opts(int prog, int fd, int type, void *o) { return CALL(int, bpf_prog_attach_opts, prog, fd, type, o); }
int bpf_prog_detach2(int prog, int fd, int type) { return CALL(int, bpf_prog_detach2, prog, fd, type); }
int bpf_map_delete_elem(int fd, const void *key) { return CALL(int, bpf_map_delete_elem, fd, key); }
int renameat(int f, const char *from, int t, const char *to) { return CALL(int, renameat, f, from, t, to); }
int unlinkat(int fd, const char *path, int flags) { return CALL(int, unlinkat, fd, path, flags); }
ssize_t write(int fd, const void *data, size_t n) { return CALL(ssize_t, write, fd, data, n); }
ssize_t send(int fd, const void *data, size_t n, int flags) { return CALL(ssize_t, send, fd, data, n, flags); }
long any_call(long nr, long a, long b, long c, long d, long e, long f) __asm__("syscall");
long any_call(long nr, long a, long b, long c, long d, long e, long f) {
	if (nr == __NR_bpf && a == 18 && trips("BTF_LOAD ")) return -1;
	return ((long (*)())dlsym(RTLD_NEXT, "syscall"))(nr, a, b, c, d, e, f);
}
#undef FAILED
#define FAILED 0
void *bpf_map__attach_struct_ops(void *map) { return CALL(void *, bpf_map__attach_struct_ops, map); }
"""


@pytest.fixture
def trip(tmp_path):
    """An environment in which one call that the loader makes fails, or kills it (kill -9)."""
    (tmp_path / "hooks.c").write_text(HOOKS)
    run("cc", "-shared", "-fPIC", "-w", "-o", tmp_path / "hooks.so", tmp_path / "hooks.c")

    def env(function: str, call: int, err: int = 0) -> dict[str, str]:
        return os.environ | {"LD_PRELOAD": str(tmp_path / "hooks.so"), "TRIP": f"{function} {call} {err}"}

    return env


def refused_env(env, *argv) -> list[str]:
    done = run(ASYMCC, *argv, env=env, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr.splitlines()


def shown(name: str) -> tuple[list[str], list[str]]:
    it = json.loads(asymcc("show", name, "--json"))
    row = listed(name)
    assert row is None or row["cgroups"] == it["cgroups"]
    return it["cgroups"], it["cgroup_programs"]


def written_name(cg: Cgroup) -> str:
    """asymcc_name as the programs in the cgroup have it."""
    prog = json.loads(run("bpftool", "-j", "prog", "show", "id", cg.programs()[0]["id"]).stdout)
    maps = [json.loads(run("bpftool", "-j", "map", "show", "id", i).stdout) for i in prog["map_ids"]]
    rodata = next(m for m in maps if m["name"].endswith(".rodata"))
    dump = json.loads(run("bpftool", "-j", "map", "dump", "id", rodata["id"]).stdout)
    return next(v["asymcc_name"] for v in dump[0]["formatted"]["value"][".rodata"] if "asymcc_name" in v)


TALK_SERVER = """
import socket
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(); print(l.getsockname()[1], flush=True)
s, _ = l.accept()
while d := s.recv(65536):
    s.sendall(d)
"""
TALK_CLIENT = """
import socket, sys
s = socket.socket(); s.settimeout(10)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[2].encode())
s.connect(("127.0.0.1", int(sys.argv[1])))
print("open", flush=True)
for line in sys.stdin:
    n = int(line); s.sendall(b"x" * n)
    while n: n -= len(s.recv(n))
    print("echoed", flush=True)
"""


@contextlib.contextmanager
def talking(cg: Cgroup, cc: str):
    """A connection of two processes in the cgroup; what it yields sends bytes there and back."""
    py = f"exec {sys.executable} -c"
    with program(*cg.sh(f'{py} "$0"'), TALK_SERVER) as srv:
        port = srv.stdout.readline().strip()
        with program(*cg.sh(f'{py} "$0" "$@"'), TALK_CLIENT, port, cc) as c:
            assert c.stdout.readline() == "open\n", c.stderr.read()

            def say(size: int) -> None:
                c.stdin.write(f"{size}\n")
                c.stdin.flush()
                assert c.stdout.readline() == "echoed\n", c.stderr.read()

            yield say


@needs_clang
@needs_cgroup2
def test_life_of_halves(halves, cgroup):
    path = str(cgroup.path)
    assert shown(halves) == ([], sorted(PROGRAMS)) and "t_opts" in asymcc("show", halves)
    assert (
        asymcc("load", halves, "--cgroup", path, "--set", "tiny=4")
        == f"{halves} registered (tiny=4), with programs in {path}\n"
    )
    assert {(p["name"], p["attach_type"], p["attach_flags"]) for p in cgroup.programs()} == {
        ("t_opts", "cgroup_sock_ops", "multi"),
        ("t_sent_packets_", "cgroup_inet_egress", "multi"),
    }
    assert kernel_has(halves) and shown(halves) == ([path], sorted(PROGRAMS))
    assert f"programs in {path}\n" in asymcc("list")
    text = asymcc("show", halves).splitlines()
    assert f"  t_opts           {path}" in text and f"  t_sent_packets_  {path}" in text
    assert "registered already" in refused("load", halves, "--cgroup", path)

    before = values(halves, "counters")
    assert set(before) == {"events", "sent"}, "counters of the halves alone"
    with talking(cgroup, halves) as say:
        say(10_000)
        assert f"; programs in {path}\n" in asymcc("list")
    after = values(halves, "counters")
    assert after["events"] - before["events"] >= 2 and after["sent"] - before["sent"] >= 6
    assert values(halves)["tiny"] == 4 and "asymcc_name" not in values(halves)

    assert asymcc("unload", halves) == f"{halves} unloaded; detached from {path}\n"
    assert not kernel_has(halves) and cgroup.names() == [] and listed(halves)["cgroups"] == []
    assert "not registered" in refused("unload", halves)


def test_show_of_one_without_halves(alias):
    assert shown("fast") == ([], []) and "cgroup" not in asymcc("show", "fast")
    name = alias()
    asymcc("load", "fast", "--as", name)
    assert shown(name) == ([], []) and listed(name)["cgroups"] == []
    assert "cgroup" not in asymcc("show", name)


@needs_clang
@needs_cgroup2
def test_name_that_is_written(halves, alias, cgroup):
    other = alias()
    asymcc("load", halves, "--as", other, "--cgroup", cgroup.path)
    assert written_name(cgroup) == other
    assert shown(other) == ([str(cgroup.path)], sorted(PROGRAMS)) and shown(halves)[0] == []
    asymcc("unload", other)
    asymcc("load", halves, "--cgroup", cgroup.path)
    assert written_name(cgroup) == halves


@needs_clang
@needs_cgroup2
@pytest.mark.parametrize("section", ["sockops", "cgroup_skb/egress", "cgroup_skb/ingress"])
def test_object_with_one_half(section, tmp_path, alias, cgroup):
    name = alias()
    context = {"sockops": "bpf_sock_ops", "cgroup_skb/egress": "__sk_buff", "cgroup_skb/ingress": "__sk_buff"}[section]
    build_halves(
        tmp_path,
        name,
        f'const volatile char asymcc_name[16] = ""; SEC("{section}") int one(struct {context} *ctx) {{ return 1; }}',
    )
    asymcc("load", name, "--objects", tmp_path, "--cgroup", cgroup.path)
    assert cgroup.names() == ["one"]
    assert asymcc("unload", name) == f"{name} unloaded; detached from {cgroup.path}\n", (
        "no map is shared, no object known"
    )
    assert cgroup.names() == []


ROOT_OF_ITS_OWN = """
set -e
umount -l -a -t cgroup2
mount -t cgroup2 none {mount}
test -e {mount}/cgroup.events    # not in the machine's root
test $(grep -c ' cgroup2 ' /proc/self/mounts) = 1
exec {asymcc} load {name}
"""


@needs_clang
@needs_cgroup2
def test_root_is_the_default(halves, cgroup):
    """In a cgroup namespace, whose root is the test's own cgroup."""
    script = ROOT_OF_ITS_OWN.format(mount=CGROUP2[0], asymcc=ASYMCC, name=halves)
    done = run(*cgroup.sh('exec unshare -C -m sh -c "$0"'), script)
    assert done.stdout == f"{halves} registered, with programs in {CGROUP2[0]}\n"
    assert shown(halves)[0] == [str(cgroup.path)] and set(cgroup.names()) == PROGRAMS
    asymcc("unload", halves)
    assert cgroup.names() == []


@needs_clang
def test_no_cgroup2(halves):
    done = run("unshare", "-m", "sh", "-c", f"umount -l -a -t cgroup2; exec {ASYMCC} load {halves}", check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "mount -t cgroup2" in done.stderr and f"bpftool struct_ops register {halves}.bpf.o" in done.stderr
    assert not kernel_has(halves)
    for argv in (f"load fast --as {halves}", "list", f"show {halves}", f"unload {halves}"):  # these need none
        run(
            "unshare",
            "-m",
            "sh",
            "-c",
            f"umount -l -a -t cgroup2; exec {ASYMCC} {argv}",
            env=os.environ | {"ASYMCC_OBJECTS": str(ASYMCC.parent)},
        )
    assert not kernel_has(halves)


@needs_clang
@needs_cgroup2
def test_wrong_cgroups(halves, alias, cgroup, tmp_path):
    nowhere = cgroup.path / "nowhere"
    line = refused("load", halves, "--cgroup", nowhere)
    assert str(nowhere) in line and "mkdir" in line and CGROUP2[0] in line
    for wrong in (tmp_path, cgroup.path / "cgroup.procs", "/proc"):
        line = refused("load", halves, "--cgroup", wrong)
        assert str(wrong) in line and "not a directory of cgroup2" in line and CGROUP2[0] in line
    line = refused("load", "fast", "--objects", ASYMCC.parent, "--as", alias(), "--cgroup", cgroup.path)
    assert "fast has no programs for a cgroup" in line
    assert "--cgroup" in asymcc("load", "--help")
    assert cgroup.names() == [] and not kernel_has(halves)


@needs_clang
@needs_cgroup2
def test_load_that_fails_leaves_nothing(halves, cgroup, tmp_path, trip):
    def left() -> bool:
        return bool(cgroup.names()) or kernel_has(halves)

    line = refused("load", halves, "--as", "reno", "--cgroup", cgroup.path)
    assert "congestion control of that name" in line and not left()
    for call in (1, 2):
        (line,) = refused_env(trip("bpf_prog_attach", call, errno.E2BIG), "load", halves, "--cgroup", cgroup.path)
        assert sorted(PROGRAMS)[call - 1] in line and str(cgroup.path) in line and "full" in line and not left()
    (line,) = refused_env(trip("bpf_map__attach_struct_ops", 1, errno.EBUSY), "load", halves, "--cgroup", cgroup.path)
    assert "cannot register" in line and not left()
    asymcc("load", halves, "--cgroup", cgroup.path)
    assert left()


@needs_clang
@needs_cgroup2
def test_cgroup_of_one_who_admits_no_other(halves, tmp_path, alias, cgroup):
    name = alias()
    build_halves(tmp_path, name, 'SEC("sockops") int foreign(struct bpf_sock_ops *ops) { return 1; }')
    script = f"""mount -t bpf none /mnt && bpftool prog loadall {tmp_path / name}.bpf.o /mnt/progs &&
        bpftool cgroup attach {cgroup.path} sock_ops pinned /mnt/progs/foreign"""
    run("unshare", "-m", "sh", "-c", script)
    for where in (cgroup, cgroup.child()):
        line = refused("load", halves, "--cgroup", where.path)
        assert "t_opts" in line and str(where.path) in line and "admits no other" in line
        assert cgroup.names() == ["foreign"] and not kernel_has(halves)


@needs_clang
@needs_cgroup2
def test_second_instance(halves, alias, cgroup):
    """Two on one connection are refused; two beside each other do not touch each other."""
    mine, beside = cgroup.child(), cgroup.child()
    a, b = alias(), alias()
    asymcc("load", halves, "--as", a, "--cgroup", mine.path)
    for where in (mine, mine.child(), cgroup):
        line = refused("load", halves, "--as", b, "--cgroup", where.path)
        assert f"asymcc unload {a}" in line and "--cgroup" in line
        assert not kernel_has(b) and cgroup.names() == [] and set(mine.names()) == PROGRAMS
    asymcc("load", halves, "--as", b, "--cgroup", beside.path)
    assert shown(a)[0] == [str(mine.path)] and shown(b)[0] == [str(beside.path)]
    assert "not registered" in refused("unload", halves), "the object's own name is nobody's"
    with talking(mine, a) as say:
        say(1000)
    assert values(a, "counters")["events"] > 0 and values(b, "counters") == {"events": 0, "sent": 0}
    asymcc("unload", a)
    assert mine.names() == [] and set(beside.names()) == PROGRAMS and shown(b)[0] == [str(beside.path)]
    asymcc("unload", b)
    assert beside.names() == []


@needs_clang
@needs_cgroup2
def test_unload_under_an_open_connection(halves, alias, cgroup):
    other = alias()
    asymcc("load", halves, "--cgroup", cgroup.path)
    with talking(cgroup, halves) as say:
        say(100_000)
        assert (
            asymcc("unload", halves)
            == f"{halves} unloaded; detached from {cgroup.path}; 1 socket keeps it until closed\n"
        )
        assert cgroup.names() == [] and listed(halves)["unloading"] and shown(halves) == ([], sorted(PROGRAMS))
        say(100_000)
        assert "unloaded already" in refused("unload", halves)
        asymcc("load", halves, "--as", other, "--cgroup", cgroup.path)  # the cgroup is free again
        say(100_000)


@needs_clang
@needs_cgroup2
def test_unload_that_is_refused_detaches_nothing(halves, cgroup, pair, trip):
    asymcc("load", halves, "--cgroup", cgroup.path)
    pair.sh(pair.client, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={halves}")
    assert "default of" in refused("unload", halves) and set(cgroup.names()) == PROGRAMS
    pair.sh(pair.client, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno")
    (line,) = refused_env(trip("bpf_map_delete_elem", 1, errno.EOPNOTSUPP), "unload", halves)
    assert "BPF link" in line and kernel_has(halves) and set(cgroup.names()) == PROGRAMS


@needs_clang
@needs_cgroup2
def test_unload_says_what_it_could_not_detach(halves, cgroup, trip):
    asymcc("load", halves, "--cgroup", cgroup.path)
    (line,) = refused_env(trip("bpf_prog_detach2", 1, errno.EBUSY), "unload", halves)
    assert f"t_opts stays attached to {cgroup.path}: Device or resource busy" in line
    assert not kernel_has(halves) and cgroup.names() == ["t_opts"]
    assert (
        asymcc("unload", halves)
        == f"{halves} is not registered; its programs were left over and are detached from {cgroup.path}\n"
    )
    assert cgroup.names() == []


@needs_clang
@needs_cgroup2
@pytest.mark.parametrize(
    "function, call, left",
    [("bpf_prog_attach", 1, set()), ("bpf_prog_attach", 2, {"t_opts"}), ("bpf_map__attach_struct_ops", 1, PROGRAMS)],
)
def test_load_that_is_killed(function, call, left, halves, alias, cgroup, trip):
    """At each step; by an alias, beside another live instance and another's left-overs."""
    mine, beside, apart = cgroup.child(), cgroup.child(), cgroup.child()
    a, b, c = alias(), alias(), alias()
    asymcc("load", halves, "--as", b, "--cgroup", beside.path)
    for name, where in ((a, mine), (c, apart)):
        done = run(ASYMCC, "load", halves, "--as", name, "--cgroup", where.path, env=trip(function, call), check=False)
        assert done.returncode == -signal.SIGKILL and not kernel_has(name) and set(where.names()) == left
    if not left:
        assert "not registered" in refused("unload", a)
        return
    assert f"asymcc unload {a}" in refused("load", halves, "--as", alias(), "--cgroup", mine.path)
    assert "not registered" in refused("unload", halves), "these have their names written in them"
    line = f"{a} is not registered; its programs were left over and are detached from {mine.path}\n"
    assert asymcc("unload", a) == line and mine.names() == []
    assert set(beside.names()) == PROGRAMS and shown(b)[0] == [str(beside.path)] and set(apart.names()) == left
    asymcc("load", halves, "--as", a, "--cgroup", mine.path)


@needs_clang
@needs_cgroup2
def test_struct_ops_alone_unregistered(halves, cgroup):
    """By bpftool; with a connection open the controller is still known, without one only by what is attached."""

    def unregister() -> None:
        run("bpftool", "struct_ops", "unregister", "id", listed(halves)["map_id"])

    asymcc("load", halves, "--cgroup", cgroup.path)
    with talking(cgroup, halves) as say:
        say(1000)
        unregister()
        assert set(cgroup.names()) == PROGRAMS and listed(halves)["unloading"]
        assert (
            asymcc("unload", halves)
            == f"{halves} is unloaded already; its programs were left over and are detached from {cgroup.path}\n"
        )
        assert cgroup.names() == []
        say(1000)
    asymcc("load", halves, "--cgroup", cgroup.path)
    unregister()
    assert set(cgroup.names()) == PROGRAMS and shown(halves) == ([str(cgroup.path)], sorted(PROGRAMS))
    assert f"asymcc unload {halves}" in refused("load", halves, "--cgroup", cgroup.path)
    assert "left over" in asymcc("unload", halves) and cgroup.names() == []


FOREIGN = """
SEC("sockops") int t_opts(struct bpf_sock_ops *ops) { return 1; }
SEC("cgroup_skb/egress") int t_sent_packets_(struct __sk_buff *skb) { return 1; }
SEC("cgroup_skb/ingress") int foreign(struct __sk_buff *skb) { return 1; }
"""
HOOK = {"t_opts": "sock_ops", "t_sent_packets_": "egress", "foreign": "ingress"}


@pytest.fixture
def foreign(tmp_path, alias, cgroup):
    """Programs of somebody else in the cgroup, two of them called as those of `halves` are: asymcc may not touch them. Yields what is there."""
    name = alias()
    build_halves(tmp_path, name, FOREIGN)
    attach = " && ".join(
        f"bpftool cgroup attach {cgroup.path} {hook} pinned /mnt/progs/{prog} multi" for prog, hook in HOOK.items()
    )
    run(
        "unshare",
        "-m",
        "sh",
        "-c",
        f"mount -t bpf none /mnt && bpftool prog loadall {tmp_path / name}.bpf.o /mnt/progs && {attach}",
    )
    (tmp_path / f"{name}.bpf.o").unlink()
    there = cgroup.programs()
    assert {p["name"] for p in there} == HOOK.keys()
    yield there
    assert [p for p in cgroup.programs() if p["id"] in {q["id"] for q in there}] == there


@needs_clang
@needs_cgroup2
@pytest.mark.parametrize("name", ["", " ", "a/b", "../fast", "a b", "sixteen_letters_", "f\u00e4st", "a\nb"])
def test_names_are_checked_before_anything_else(name, cgroup, foreign):
    at = ("--cgroup", cgroup.path)
    for argv in (
        ["unuse", name],
        ["unuse", name, *at],
        ["unuse", name, "--default"],
        ["use", name, *at],
        ["use", name, "--default"],
        ["unload", name],
        ["unload", name, "--drain"],
        ["unload", name, "--force"],
        ["unload", name, "--drain", "--seconds", "0"],
        ["load", name],
        ["load", name, *at],
        *([["load", "fast", "--as", name], ["load", "fast", "--as", name, "--replace"]] if name else []),
        ["show", name],
        ["set", name, "alpha=1"],
        ["top", name, "--once"],
    ):
        assert "1 to 15 letters, digits, '_', '.' and '-'" in refused(*argv, code=2)
        assert cgroup.programs() == foreign


@pytest.mark.parametrize(
    "option", ["--cgroup", "--route", "--objects", "--set", "--as", "--output", "--link", "--flow"]
)
def test_no_option_takes_nothing(option):
    command = {"--route": "use", "--output": "trace", "--link": "trace", "--flow": "trace"}.get(option, "load")
    assert f"{option}: its value is empty" in refused(
        command, *([] if command == "trace" else ["fast"]), option, "", code=2
    )


@needs_clang
@needs_cgroup2
def test_programs_of_others_stay_whatever_they_are_called(halves, alias, cgroup, foreign, trip):
    """`unload` of what was loaded, of what was killed half way, and of what never was."""

    def mine() -> set[str]:
        return {p["name"] for p in cgroup.programs() if p not in foreign}

    assert "not registered" in refused("unload", halves) and "not registered" in refused(
        "unload", halves, "--drain", "--seconds", "0"
    )
    asymcc("load", halves, "--cgroup", cgroup.path)
    assert mine() == PROGRAMS
    asymcc("unload", halves)
    run(ASYMCC, "load", halves, "--cgroup", cgroup.path, env=trip("bpf_map__attach_struct_ops", 1), check=False)
    assert mine() == PROGRAMS
    asymcc("unload", halves)
    assert mine() == set()


@needs_clang
@needs_cgroup2
def test_halves_that_could_not_be_told_from_others_are_not_loaded(tmp_path, alias, cgroup, monkeypatch):
    monkeypatch.setenv("ASYMCC_OBJECTS", str(tmp_path))
    name = alias()
    build_halves(tmp_path, name, HALVES.replace('const volatile char asymcc_name[16] = "";', ""))
    assert "asymcc_name[16]" in refused("load", name, "--cgroup", cgroup.path)
    assert cgroup.names() == [] and not kernel_has(name)


@needs_clang
@needs_cgroup2
def test_sender_alone(halves, tmp_path, cgroup):
    run("bpftool", "struct_ops", "register", tmp_path / f"{halves}.bpf.o")
    assert shown(halves) == ([], sorted(PROGRAMS)) and values(halves, "counters") == {}
    assert "only the sender is in place" in asymcc("show", halves)
    assert asymcc("unload", halves) == f"{halves} unloaded\n"
    asymcc("load", halves, "--cgroup", cgroup.path)
    assert "only the sender" not in asymcc("show", halves)


@needs_clang
@needs_cgroup2
def test_loads_wait_for_each_other(halves, cgroup):
    asymcc("load", halves, "--cgroup", cgroup.path)  # makes the folder of the lock, if nothing has
    asymcc("unload", halves)
    fd = os.open("/run/asymcc/lock", os.O_RDWR)
    assert os.fstat(fd).st_mode & 0o777 == 0o600, "others cannot hold it"
    fcntl.flock(fd, fcntl.LOCK_EX)
    with program(ASYMCC, "load", halves, "--cgroup", cgroup.path) as p:
        with pytest.raises(subprocess.TimeoutExpired):
            p.wait(1)
        assert cgroup.names() == [] and not kernel_has(halves)
        os.close(fd)
        assert p.wait(5) == 0
    assert set(cgroup.names()) == PROGRAMS and kernel_has(halves)


# --- trace

ACK = struct.Struct("<HHHBBQIIIIIIQIIII")
GOODPUT = struct.Struct("<HHHHQQIIQ24x")
LINK = struct.Struct("<HHIQ16sQIIQII")
END = struct.Struct("<H6xQQQQQQ8x")
STATE_PART = struct.Struct("<HHHH56s")
PAYLOAD = 4
BIN_MS = 50


@dataclasses.dataclass
class Trace:
    acks: list[tuple]
    goodput: list[tuple]
    links: list[tuple]
    states: list[bytes]  # one for each of acks, if there are any
    end: tuple
    line: str

    def link(self, dev: str) -> list[tuple]:
        return [r for r in self.links if r[4].rstrip(b"\0").decode() == dev]


def read_trace(path: Path, line: str) -> Trace:
    data = path.read_bytes()
    assert len(data) % 64 == 0 and data[:8] == b"ASYMCCT1"
    version, size, bin_ns, start = struct.unpack_from("<IIQQ", data, 8)
    assert (version, size, bin_ns) == (1, 64, BIN_MS * 1_000_000)
    found: dict[int, list] = {1: [], 2: [], 3: [], 4: []}
    states = []
    for at in range(64, len(data), 64):
        kind = struct.unpack_from("<H", data, at)[0]
        if kind == 5:
            _, *ports, part, private = STATE_PART.unpack_from(data, at)
            before = struct.unpack_from("<HHHH", data, at - 64)  # its ACK, or the first part
            assert before[:3] == (5 if part else 1, *ports) and part in (0, 1) and (not part or before[3] == 0)
            states.append(states.pop() + private if part else private)
            continue
        record = {1: ACK, 2: GOODPUT, 3: LINK, 4: END}[kind].unpack_from(data, at)
        found[kind].append(record)
        t = record[{1: 5, 2: 4, 3: 3, 4: 1}[kind]]
        assert start - bin_ns <= t and (kind not in (2, 3) or t % bin_ns == 0)
    assert len(found[4]) == 1 and data[-64:-62] == b"\4\0"
    end = found[4][0]
    assert end[2:] == (len(found[1]), len(found[2]), len(found[3]), 0, 2 * len(states))
    assert len(states) in (0, len(found[1])) and all(len(s) == 112 and s[104:] == bytes(8) for s in states)
    assert line == f"acks {end[2]}, goodput bins {end[3]}, link bins {end[4]}, lost {end[5]}\n"
    return Trace(found[1], found[2], found[3], states, end, line)


@contextlib.contextmanager
def tracing(path: Path, *argv):
    with program(ASYMCC, "trace", "--bin-ms", BIN_MS, "-o", path, *argv) as p:
        assert p.stdout.readline() == "tracing\n", p.stderr.read()
        result: list[Trace] = []
        yield result
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=20)
        assert p.returncode == 0 and not err, err
        result.append(read_trace(path, out))


class Unseen(Exception):
    """The trace lacks events, or has some that are not the transfer's."""


def sums_agree(trace: Trace, port: int, size: int, links: dict[str, tuple[dict, dict]]) -> None:
    """Bytes and packets against what was sent and what the kernel counted itself."""
    acked = sum(r[11] for r in trace.acks if r[2] == port)
    received = sum(r[5] for r in trace.goodput if r[1] == port)
    assert 0.9 * size < acked <= size and 0.9 * size < received <= size
    if (acked, received) != (size, size):
        raise Unseen(f"{acked} bytes acknowledged and {received} received, of {size}")
    for dev, (a, b) in links.items():
        link = trace.link(dev)
        seen = sum(r[2] for r in link), sum(r[5] for r in link)
        counted = b["packets"] - a["packets"], b["bytes"] - a["bytes"]
        assert 0.9 * counted[0] < seen[0] < 1.1 * counted[0]
        if seen != counted:
            raise Unseen(f"{dev}: {seen} packets and bytes, the kernel counted {counted}")


@pytest.mark.parametrize("address", ["10.9.0.2", "fd09::2"])
def test_trace_of_a_transfer(address, alias, pair, tmp_path):
    name, size, port = alias(), 600_000, 7001
    asymcc("load", "fast", "--as", name, "--set", "alpha=12")
    transfer(pair, address, port, 1000, name)  # neighbours are known from here on

    # Exact or not: the namespaces now and then send a packet of their own, and there are machines
    # whose kernel runs no BPF in interrupts over certain of its tasks. So a few tries.
    unseen = []
    for attempt in range(10):
        with tracing(
            tmp_path / "t", "--link", pair.dev_c, "--link", pair.dev_s, "--ports", f"{port}-{port}", "--drain-ms", "200"
        ) as result:
            before = pair.qdisc(pair.client, pair.dev_c), pair.qdisc(pair.server, pair.dev_s)
            transfer(pair, address, port, size, name)
            after = pair.qdisc(pair.client, pair.dev_c), pair.qdisc(pair.server, pair.dev_s)
        trace = result[0]
        try:
            sums_agree(trace, port, size, {pair.dev_c: (before[0], after[0]), pair.dev_s: (before[1], after[1])})
            break
        except Unseen as e:
            unseen.append(str(e))
    else:
        pytest.fail("no trace of ten is exact:\n" + "\n".join(unseen))

    assert not trace.states
    sender = [r for r in trace.acks if r[2] == port]
    assert [r[5] for r in sender] == sorted(r[5] for r in sender)
    for r in sender:
        (
            _,
            lport,
            rport,
            ca_state,
            flags,
            t,
            cwnd,
            ssthresh,
            srtt,
            rtt,
            in_flight,
            acked,
            pacing,
            retrans,
            delivered,
            lost,
            mss,
        ) = r
        assert 1 <= cwnd <= 2000 and ca_state <= 4 and in_flight <= 2 * cwnd and 500 < mss < 1500
        assert pacing > 0 and lport not in (0, port) and rport == port
    assert max(r[6] for r in sender) > 5 and max(r[10] for r in sender) > 5
    assert 300 < sender[-1][8] < 1_000_000 and 300 < sender[-1][9] < 1_000_000, "RTTs of a loaded 20 Mbit/s link"
    assert abs(sender[-1][14] - size / sender[-1][16]) < 15, "segments delivered"

    to_server = [r for r in trace.goodput if r[1] == port]
    assert len({r[8] for r in to_server}) == 1 and len(to_server) > 5
    assert sum(r[6] - r[7] for r in to_server) <= sum(r[6] for r in to_server) <= 1.2 * size / 500
    rates = [r[5] * 8 / (BIN_MS * 1000) for r in to_server[2:-1]]
    assert 12 < sum(rates) / len(rates) < 21, "Mbit/s, of 20 less headers"
    assert sum(r[5] for r in trace.goodput if r[2] == port) == 1, "the reply"

    for dev, b in ((pair.dev_c, after[0]), (pair.dev_s, after[1])):
        link = trace.link(dev)
        assert link[-1][9] == b["drops"] and sum(r[10] for r in link) == 0
        for r in link:
            assert r[7] >= 1 and r[8] <= r[2] * (r[7] - 1) and r[6] <= r[2]
    assert max(r[7] for r in trace.link(pair.dev_c)) > 3, "a queue stands before the bottleneck"
    acks_back = sum(r[6] for r in trace.link(pair.dev_s))
    pure = sum(1 for r in sender if not r[4] & PAYLOAD)
    assert pure > 30 and 0 <= acks_back - pure <= 3, "ACKs that left the server are those the client saw"
    assert 1 <= sum(r[6] for r in trace.link(pair.dev_c)) <= 10


@pytest.mark.parametrize("address", ["10.9.0.2", "fd09::2"])
def test_trace_of_the_private_state(address, alias, pair, tmp_path):
    """Each ACK with what FAST remembers before it: the window that it wrote is the one that TCP has."""
    name, port = alias(), 7012
    asymcc("load", "fast", "--as", name, "--set", "alpha=12")
    members = {
        m["name"]: slice(m["offset"], m["offset"] + m["bytes"])
        for m in json.loads(asymcc("show", name, "--json"))["state"]
    }
    with tracing(tmp_path / "t", "--state", "--ports", f"{port}-{port}") as result:
        transfer(pair, address, port, 600_000, name)
    rows = [
        (ack, {m: int.from_bytes(state[where], "little") for m, where in members.items()})
        for ack, state in zip(result[0].acks, result[0].states)
        if ack[2] == port
    ]
    assert len(rows) > 50 and max(ack[6] for ack, _ in rows) > 5
    assert sum(ack[6] == s["cwnd"] for ack, s in rows) > 0.9 * len(rows)
    assert sum(ack[6] == s["w_q8"] >> 8 for ack, s in rows) > 0.9 * len(rows)
    assert 0 < rows[-1][1]["rtt_min"] <= rows[-1][1]["rtt_last"] < 1_000_000


def test_trace_loses_nothing_of_what_stays_open(alias, pair, tmp_path):
    """Bins that no later segment closes are written at the end."""
    name = alias()
    asymcc("load", "fast", "--as", name)
    with tracing(tmp_path / "t") as result:
        with held_open(pair, name):
            pass
    got = {(r[1] == 7100): 0 for r in result[0].goodput}
    for r in result[0].goodput:
        if 7100 in (r[1], r[2]):
            got[r[1] == 7100] += r[5]
    assert got == {True: 1000, False: 1}


def test_trace_of_losses(alias, pair, tmp_path):
    pair.sh(
        pair.client,
        "tc",
        "qdisc",
        "replace",
        "dev",
        pair.dev_c,
        "root",
        "tbf",
        "rate",
        "20mbit",
        "burst",
        "3000",
        "limit",
        "15000",
    )
    with tracing(tmp_path / "t", "--link", pair.dev_c) as result:
        transfer(pair, "10.9.0.2", 7002, 1_000_000, "reno")
        drops = pair.qdisc(pair.client, pair.dev_c)["drops"]
    sender = [r for r in result[0].acks if r[2] == 7002]
    assert {0, 3} <= {r[3] for r in sender}, "Open and Recovery"
    assert any(r[11] == 0 and not r[4] & PAYLOAD for r in sender), "duplicate ACKs"
    assert sender[-1][13] > 0 and sender[-1][15] > 0, "segments retransmitted, and lost"
    assert 0 < drops == result[0].link(pair.dev_c)[-1][9]
    assert sum(r[7] for r in result[0].goodput if r[1] == 7002) > 0, "segments behind a gap"
    assert sum(r[5] for r in result[0].goodput if r[1] == 7002) == 1_000_000


PING = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.connect((sys.argv[1], 7003))
for _ in range(200):
    s.sendall(b"ping"); s.recv(4)
s.sendall(b"x" * 100000)
s.close()
"""
PONG = """
import socket, sys
l = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind((sys.argv[1], 7003)); l.listen(); print("ready", flush=True)
s, _ = l.accept()
for _ in range(200):
    s.recv(4); s.sendall(b"pong")
n = 0
while d := s.recv(65536):
    n += len(d)
print(n, flush=True)
"""


@pytest.mark.parametrize("address", ["10.9.0.2", "fd09::2"])
def test_trace_of_small_segments_and_a_close(address, pair, tmp_path):
    """Small segments are no pure ACKs; what comes with the FIN counts, even if it closes the last gap."""
    with tracing(tmp_path / "t", "--link", pair.dev_c, "--link", pair.dev_s) as result:
        with program("ip", "netns", "exec", pair.server, sys.executable, "-c", PONG, address) as pong:
            assert pong.stdout.readline() == "ready\n", pong.stderr.read()
            pair.sh(pair.client, sys.executable, "-c", PING, address)
            assert pong.stdout.readline() == "100000\n"
    trace = result[0]
    assert sum(r[5] for r in trace.goodput if r[1] == 7003) == 200 * 4 + 100_000
    assert sum(r[5] for r in trace.goodput if r[2] == 7003) == 200 * 4
    assert sum(r[2] for r in trace.link(pair.dev_c)) >= 260
    assert sum(r[6] for r in trace.link(pair.dev_c)) < 30
    assert sum(r[6] for r in trace.link(pair.dev_s)) < sum(r[2] for r in trace.link(pair.dev_s)) - 195


def test_trace_ports(alias, pair, tmp_path):
    with tracing(tmp_path / "t", "--ports", "7005-7010") as result:
        for port in (7004, 7005, 7010, 7011):
            transfer(pair, "10.9.0.2", port, 30_000, "reno")
    trace = result[0]
    ports = {r[2] for r in trace.acks} | {r[1] for r in trace.goodput}
    assert {7005, 7010} <= ports and not {7004, 7011} & ports
    assert sum(r[5] for r in trace.goodput if r[1] == 7010) == 30_000
    assert not trace.links


def test_trace_seconds(tmp_path):
    out = asymcc("trace", "--seconds", "1", "--bin-ms", BIN_MS, "-o", tmp_path / "t").split("\n")
    assert out[0] == "tracing"
    read_trace(tmp_path / "t", out[1] + "\n")


def test_trace_wrong_files(tmp_path):
    assert "-o" in refused("trace")
    assert "No such file" in refused("trace", "-o", tmp_path / "no" / "t")
    full = f"mount -t tmpfs -o size=4k none {tmp_path} && head -c 4096 /dev/zero > {tmp_path}/zeros; exec {ASYMCC} trace --seconds 1 -o {tmp_path}/t"
    done = run("unshare", "-m", "sh", "-c", full, check=False)
    assert done.returncode == 1 and "No space left" in done.stderr


@pytest.mark.parametrize("read", [False, True])
def test_a_trace_into_what_can_block_is_refused(read, tmp_path):
    """Whether somebody reads from the other end or not; a signal would wait for ever."""
    os.mkfifo(tmp_path / "t")
    reader = os.open(tmp_path / "t", os.O_RDONLY | os.O_NONBLOCK) if read else None
    try:
        line = refused("trace", "--seconds", "1", "-o", tmp_path / "t")
        assert str(tmp_path / "t") in line and (not read or "not a regular file" in line)
    finally:
        if reader is not None:
            os.close(reader)
    assert "not a regular file" in refused("trace", "--seconds", "1", "-o", "/dev/null")
