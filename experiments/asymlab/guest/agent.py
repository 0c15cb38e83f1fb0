# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs one experiment on the kernel it stands on: the guest's, or a live host's as root.

Reads a job (see topology.py for its form), builds the network in namespaces of its own, checks
it, sends traffic, traces, takes everything down again. Standard library only: it is copied into
the guest as it is. Output folder:

    agent.json   self-check, counters, sysctls, the clock that the trace's times count from
    trace.bin    records of `asymcc trace`
    forward.pcap, reverse.pcap   with job["capture"]: headers of what left the first hop's queues
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import math
import mmap
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
SO_TIMESTAMPNS = 35
SYS_PIDFD_GETFD = 438
PR_SET_PDEATHSIG, PR_SET_TIMERSLACK = 1, 29
SIOCETHTOOL = 0x8946
OFFLOADS = {  # what to ask the kernel, and what to tell it
    "tcp-segmentation-offload": (0x1E, 0x1F),
    "generic-segmentation-offload": (0x23, 0x24),
    "generic-receive-offload": (0x2B, 0x2C),
}
# How fast RED's average falls in an idle queue: tc counts that time in ticks of 64 ns, the kernel in us; and tc means a power of
# e where the kernel takes one of 2. The bandwidth that tc asks for serves nothing else.
RED_IDLE = 1000 / 64 / math.log(2)
FLOW_PORT = 61000  # client port of flow 0; outside the range of ephemeral ports
SERVER_PORT = 5201
PROBE_PORT = 7
WAKE_BYTES = 128 << 10  # a receiver wakes for this much, not for every packet: half the guest's work
COMPARE_BYTES = 16 << 10
SETTLE_S = 0.5  # between the last set-up step and time zero: servers listen, the tracer runs
IP_UDP = 28  # bytes of IPv4 and UDP header
TOOLS = ("ip", "tc", "asymcc")
# Of controllers, their objects, modules and parameters, and of nodes: they become paths and root's arguments. And what parameters may be set to.
NAME, VALUE = "[a-z0-9_]+", r"-?[A-Za-z0-9_.]{1,64}"
SYSCTL = r"net(\.[a-z0-9_-]+){2,}"  # what a network namespace has of its own
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MIDDLEBOX = (
    "add table ip lab\n"
    "add chain ip lab middlebox {{ type filter hook forward priority 0; }}\n"
    "add rule ip lab middlebox iifname {dev} {rule}\n"
)
PATTERN_BYTES = 65521  # a prime: no packet's length divides it
LOG_WARNING = 4


class Failure(Exception):
    """The experiment cannot run; the message says why, in one line."""


def sh(*argv, text=None, check=True):
    """Run a command; returns its output. Failure with the command's own words."""
    p = subprocess.run(argv, input=text, capture_output=True, text=True)
    if check and p.returncode:
        words = (p.stderr or p.stdout).strip().replace("\n", "; ")
        raise Failure(f"{' '.join(argv)}: {words or f'exit {p.returncode}'}")
    return p.stdout


def check_names(job):
    """Whoever wrote the job: what becomes a path or an argument of root's commands is what it should be."""

    def check(what, text, pattern=NAME):
        if not re.fullmatch(pattern, str(text)):
            raise Failure(f"{what} {text!r}: must match {pattern}")

    for node in job["nodes"]:
        check("node", node["name"])
        for key in node["sysctls"]:
            check("sysctl", key, SYSCTL)
    for flow in job["flows"]:
        check("controller", flow["controller"])
    for change in job["changes"]:
        check("command", change.get("command", "use"), "replace|unload|drain|load|use|unuse")
        for end in change.get("path", ()):
            check("node", end["node"])
            check("device", end["dev"], "[a-z0-9-]+")
    for c in (*job["controllers"], *(change for change in job["changes"] if "controller" in change)):
        check("controller", c.get("name", c.get("controller")))
        check("object", c.get("object") or "none")
        check("loader", c.get("loader", "asymcc"), "asymcc|bpftool")
        for key, value in c["set"].items():
            check("parameter", key)
            check(f"parameter {key}: value", value, VALUE)


def die_with_us():
    """In a child: a killed run leaves no process."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Namespaces:
    """The job's nodes as network namespaces; gone with `close`, whatever happened."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.made = []
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)

    def name(self, node):
        return self.prefix + node

    def add(self, node):
        sh("ip", "netns", "add", self.name(node))
        self.made.append(self.name(node))

    def enter(self, node):
        return _Inside(self, node)

    def close(self):
        while self.made:
            sh("ip", "netns", "del", self.made.pop())


class _Inside:
    """`with namespaces.enter(node)`: sockets, processes and /proc/sys of that node."""

    def __init__(self, namespaces, node):
        self.home, self.path = namespaces.home, f"/run/netns/{namespaces.name(node)}"

    def __enter__(self):
        fd = os.open(self.path, os.O_RDONLY)
        self._set(fd)
        os.close(fd)

    def __exit__(self, *_):
        self._set(self.home)

    @staticmethod
    def _set(fd):
        if LIBC.setns(fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


# --- the network ---------------------------------------------------------------------------


def write_sysctls(values):
    """Set those the kernel has; returns what each is afterwards (null: not on this kernel)."""
    after = {}
    for key, value in values.items():
        path = "/proc/sys/" + key.replace(".", "/")
        try:
            with open(path, "w") as f:
                f.write(str(value))
            with open(path) as f:
                after[key] = f.read().split()
        except FileNotFoundError:
            after[key] = None
        except OSError as e:
            raise Failure(f"sysctl {key}={value}: {e.strerror}") from None
    return after


def qdisc_commands(dev, shape, verb="add"):
    """tc commands for one direction of a link: a rate with a queue, or a delay with a loss. Or, with the verb "change", for another of the kind."""
    if shape.get("rate_bps"):
        rate = [
            f"qdisc {verb} dev {dev} root handle 1: stab overhead -14 linklayer ethernet "
            f"tbf rate {shape['rate_bps']}bit burst {shape['burst_bytes']} limit 1000000000"
        ]
        if red := shape.get("red"):
            # Not the kernel's red: under tbf, which only peeks, it never learns that it is idle, and its average stays.
            return (
                rate
                + ([f"qdisc add dev {dev} parent 1:1 handle 10: gred setup vqs 1 default 0"] if verb == "add" else [])
                + [
                    f"qdisc change dev {dev} parent 1:1 handle 10: gred vq 0 prio 1 limit {red['limit_bytes']} "
                    f"min {red['min_bytes']} max {red['max_bytes']} avpkt {red['packet_bytes']} burst {red['burst']} "
                    f"bandwidth {round(shape['rate_bps'] * RED_IDLE)}bit probability {red['probability']:.10f}{' ecn' if red['ecn'] else ''}"
                ]
            )
        return rate + [
            f"qdisc {verb} dev {dev} parent 1:1 handle 10: pfifo limit {shape['queue_packets']}"
        ]  # a changed tbf has given it its own limit
    if shape.get("delay_us") or shape.get("loss") or shape.get("duplicate") or verb == "change":
        jitter = f" {shape['jitter_us']}us" if shape.get("jitter_us") else ""
        odds = "".join(
            f" {what} {100 * shape[key]:.10f}%"
            for what, key in (("loss random", "loss"), ("duplicate", "duplicate"), ("reorder", "reorder"))
            if shape.get(key)
        )
        return [
            f"qdisc {'replace' if verb == 'change' else verb} dev {dev} root handle 1: netem limit 1000000 delay {shape['delay_us']}us{jitter}{odds}"
        ]
    return []


def ethtool(dev, command, value=0):
    """A value that the kernel's ethtool tells, or is told, of a device here: the program itself costs a mount and two starts."""
    data = ctypes.create_string_buffer(struct.pack("II", command, value), 8)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            fcntl.ioctl(s, SIOCETHTOOL, struct.pack("16sP16x", dev.encode(), ctypes.addressof(data)))
    except OSError as e:
        raise Failure(f"{dev}: ethtool command {command:#x}: {e.strerror}") from None
    return struct.unpack("II", data.raw)[1]


def middlebox(dev, kinds, syn):
    """nft commands: options of these kinds become NOPs in what comes in by a device."""
    return "".join(
        MIDDLEBOX.format(dev=dev, rule=f"{'' if syn else 'tcp flags & syn == 0 '}reset tcp option {kind}")
        for kind in kinds
    )


def rewriter(dev, kind, offset, value):
    """nft commands: 16 bits of an option are others in what comes in by a device."""
    return MIDDLEBOX.format(dev=dev, rule=f"tcp option @{kind},{8 * offset},16 set {value}")


def build_network(job, ns):
    """Namespaces, links, shaping, addresses, routes, sysctls. Returns the sysctls as they are."""
    sysctls = {}
    for node in job["nodes"]:
        ns.add(node["name"])
        with ns.enter(node["name"]):
            sysctls[node["name"]] = write_sysctls(node["sysctls"])
    ip = {node["name"]: ["link set lo up"] for node in job["nodes"]}
    tc = {node["name"]: [] for node in job["nodes"]}
    pairs, devices = [], []
    for link in job["links"]:
        a, b = link["a"], link["b"]
        pairs.append(
            f"link add name {a['dev']} netns {ns.name(a['node'])} mtu {link['mtu']} address {a['mac']} "
            f"type veth peer name {b['dev']} netns {ns.name(b['node'])} mtu {link['mtu']} address {b['mac']}"
        )
        for end, peer in ((a, b), (b, a)):
            ip[end["node"]] += [
                f"link set {end['dev']} up",
                f"addr add {end['addr']}/30 dev {end['dev']}",
                f"neigh replace {peer['addr']} lladdr {peer['mac']} dev {end['dev']} nud permanent",
            ]
            tc[end["node"]] += qdisc_commands(end["dev"], end["shape"])
            devices.append((end["node"], end["dev"]))
    for route in job["routes"]:
        ip[route["node"]].append(f"route add {route['dst']} via {route['via']} dev {route['dev']} {route['attrs']}")
    sh("ip", "-batch", "-", text="\n".join(pairs) + "\n")
    for node, dev in devices:
        with ns.enter(node):
            for _, tell in OFFLOADS.values():
                ethtool(dev, tell, 0)
        ip[node].insert(0, f"link set {dev} gso_max_segs 1")
    for node in ip:
        sh("ip", "-n", ns.name(node), "-batch", "-", text="\n".join(ip[node]) + "\n")
        if tc[node]:
            sh("tc", "-n", ns.name(node), "-batch", "-", text="\n".join(tc[node]) + "\n")
    for strip in job["strips"]:
        with ns.enter(strip["node"]):
            sh("nft", "-f", "-", text=middlebox(strip["dev"], strip["kinds"], strip["syn"]))
    for rewrite in job.get("rewrites", ()):
        with ns.enter(rewrite["node"]):
            sh("nft", "-f", "-", text=rewriter(rewrite["dev"], rewrite["kind"], rewrite["offset"], rewrite["value"]))
    for key in job["must_have"]:
        if any(values.get(key, "") is None for values in sysctls.values()):
            raise Failure(f"sysctl {key}: kernel {os.uname().release} has none in a network namespace")
    return sysctls


def missing(job, ns, objects):
    """What this machine lacks for the job: a list of sentences, empty if it can run."""
    lacks = []
    if os.geteuid() != 0:
        return ["not root: namespaces and BPF need it"]
    tools = {
        *TOOLS,
        *(c["loader"] for c in job["controllers"]),
        *(["nft"] if job["strips"] or job.get("rewrites") else []),
        *(["iperf3"] if job["traffic"] == "iperf3" else []),
    }
    lacks += [f"{tool}: not installed" for tool in sorted(tools) if not shutil.which(tool)]
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        lacks.append("kernel without BTF (CONFIG_DEBUG_INFO_BTF): no struct_ops, no tracing")
    if lacks:
        return lacks
    shapes = [end["shape"] for link in job["links"] for end in (link["a"], link["b"])]
    kinds = {
        "tbf": any(s.get("rate_bps") for s in shapes),
        "gred": any(s.get("red") for s in shapes),
        "netem": any(s.get("delay_us") or s.get("loss") or s.get("duplicate") for s in shapes),
    }
    ns.add("probe")
    for kind, options in (
        ("tbf", "rate 1mbit burst 2000 limit 10000"),
        ("netem", "delay 1ms"),
        ("gred", "setup vqs 1 default 0"),
    ):
        if kinds[kind]:
            p = subprocess.run(
                ["tc", "-n", ns.name("probe"), "qdisc", "add", "dev", "lo", "root", kind, *options.split()],
                capture_output=True,
                text=True,
            )
            if p.returncode:
                lacks.append(f"kernel without qdisc {kind} (CONFIG_NET_SCH_{kind.upper()})")
            sh("tc", "-n", ns.name("probe"), "qdisc", "del", "dev", "lo", "root", check=False)
    if job["strips"]:
        with ns.enter("probe"):
            p = subprocess.run(["nft", "-f", "-"], input=middlebox("lo", [253], False), capture_output=True, text=True)
        if p.returncode:
            lacks.append("kernel whose nf_tables cannot strip TCP options (CONFIG_NF_TABLES, Linux 5.18)")
    if in_cgroup(job, objects) and not cgroup_mount():
        lacks.append("no cgroup2 is mounted; `mount -t cgroup2 none /sys/fs/cgroup` does it where systemd does not")
    own = {c["name"] for c in job["controllers"] if c.get("object")}
    with ns.enter("probe"):
        s = socket.socket()
        for name in sorted({f["controller"] for f in job["flows"]} - own):
            try:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            except OSError:
                lacks.append(f"kernel without controller {name} (CONFIG_TCP_CONG_{name.upper()})")
        s.close()
    return lacks


# --- the self-check ------------------------------------------------------------------------


def stamped_receive(sock):
    """(payload, kernel's receive time in ns) of the next datagram; None after the time limit."""
    try:
        data, control, _, peer = sock.recvmsg(2048, 128)
    except TimeoutError:
        return None
    sec, nsec = struct.unpack("qq", control[0][2])
    return data, sec * 10**9 + nsec, peer


def probe_sockets(ns, probe):
    pair = []
    for node, addr in ((probe["src"], probe["src_addr"]), (probe["dst"], probe["dst_addr"])):
        with ns.enter(node):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        s.bind((addr, PROBE_PORT))
        s.settimeout(probe["timeout_s"])
        pair.append(s)
    return pair


def expect(sock, number):
    """The datagram of that number, as stamped_receive has it: others are late, or come twice."""
    while (got := stamped_receive(sock)) and struct.unpack_from("<I", got[0])[0] != number:
        pass
    return got


def base_rtt(src, dst, probe):
    """The middle one of seven round trips of a small datagram, us; None if none came back. Where packets overtake, few are shorter."""
    took = []
    for i in range(50):
        datagram = struct.pack("<I14x", i)
        sent = time.time_ns()
        src.sendto(datagram, (probe["dst_addr"], PROBE_PORT))
        there = expect(dst, i)
        if not there:
            continue
        back = time.time_ns()
        dst.sendto(datagram, there[2])
        here = expect(src, i)
        if here:
            took.append((here[1] - back) + (there[1] - sent))
        if len(took) == 7:
            break
    return sorted(took)[len(took) // 2] / 1000 if took else None


def link_rate(sender, receiver, to, train):
    """IP bit/s of a back-to-back train's arrivals, at least and at most: apart if packets were lost,
    which took their time at the slowest queue or never came to it. Those that overtook count as lost. 0 if none came."""
    for i in range(train["packets"]):
        sender.sendto(struct.pack("<I", i).ljust(train["bytes"] - IP_UDP, b"\0"), (to, PROBE_PORT))
    came = {}  # number: when first
    while len(came) < train["packets"] and (got := stamped_receive(receiver)):
        if len(got[0]) == train["bytes"] - IP_UDP:
            came.setdefault(struct.unpack_from("<I", got[0])[0], got[1])
    kept, lowest = (
        [],
        train["packets"],
    )  # from the last on, those that no earlier packet follows, be it one of the first that are skipped
    for number, at in reversed(came.items()):
        if number < lowest:
            lowest = number
            if number >= train["skip"]:
                kept.append((number, at))
    if len(kept) < 2:
        return 0.0, 0.0
    (first, t0), (last, t1) = kept[-1], kept[0]
    return tuple(packets * train["bytes"] * 8e9 / (t1 - t0) for packets in (len(kept) - 1, last - first))


def offloads_on(ns, node, dev):
    with ns.enter(node):
        return [what for what, (ask, _) in OFFLOADS.items() if ethtool(dev, ask)]


def self_check(job, ns):
    """Measures the network before any flow runs; each entry: what, expected, measured, ok."""
    rows = []

    def row(what, expected, measured, ok):
        rows.append({"what": what, "expected": expected, "measured": measured, "ok": bool(ok)})

    shapes = [end["shape"] for link in job["links"] for end in (link["a"], link["b"]) if "rate_bps" in end["shape"]]
    for number, probe in enumerate(job["probes"]):
        if number:  # trains have emptied the buckets
            time.sleep(max(8 * s["burst_bytes"] / s["rate_bps"] for s in shapes))
        src, dst = probe_sockets(ns, probe)
        expected = probe["base_rtt_us"]
        rtt = base_rtt(src, dst, probe)
        row(
            f"base RTT {probe['src']}-{probe['dst']}, us",
            expected,
            rtt,
            rtt is not None and abs(rtt - expected) <= max(500, 0.01 * expected) + probe.get("jitter_us", 0),
        )
        for key, sender, receiver, to in (
            ("forward", src, dst, probe["dst_addr"]),
            ("reverse", dst, src, probe["src_addr"]),
        ):
            train = probe[key]
            if train:
                what, expected = f"{key} rate {probe['src']}-{probe['dst']}, bit/s", train["rate_bps"]
                if not train["packets"]:
                    words = "jitter would be measured" if "jitter_us" in probe else "the queue is too short for a train"
                    row(what, expected, f"not measured: {words}", True)
                    continue
                low, high = link_rate(sender, receiver, to, train)
                row(what, expected, high, low <= 1.02 * expected and high >= 0.98 * expected)
        src.close()
        dst.close()
    for link in job["links"]:
        for end in (link["a"], link["b"]):
            if end["shape"].get("rate_bps"):
                text = sh("tc", "-n", ns.name(end["node"]), "-d", "-j", "qdisc", "show", "dev", end["dev"])
                queue = {q["kind"]: q["options"] for q in json.loads(text)}
                if red := end["shape"].get("red"):
                    wanted = {
                        "limit": red["limit_bytes"],
                        "min": red["min_bytes"],
                        "max": red["max_bytes"],
                        "ewma": red["weight_log"],
                        "ecn": red["ecn"],
                    }
                    measured = (
                        {key: value for key, value in queue["gred"]["vqs"][0].items() if key in wanted}
                        if "gred" in queue
                        else None
                    )
                    row(f"queue of {end['dev']}, RED's bytes", wanted, measured, measured == wanted)
                else:
                    wanted, measured = end["shape"]["queue_packets"], queue.get("pfifo", {}).get("limit")
                    row(f"queue of {end['dev']}, packets", wanted, measured, measured == wanted)
    on = [
        f"{end['dev']} {w}"
        for link in job["links"]
        for end in (link["a"], link["b"])
        for w in offloads_on(ns, end["node"], end["dev"])
    ]
    row("offloads that are on", [], on, not on)
    return rows


# --- counters ------------------------------------------------------------------------------


def cpu_idle():
    """Seconds that the mean CPU has idled since boot."""
    with open("/proc/stat") as f:
        ticks = [int(v) for v in f.readline().split()[1:]]
    return (ticks[3] + ticks[4]) / os.sysconf("SC_CLK_TCK") / os.cpu_count()


def netstat(ns, node, groups=("Tcp", "TcpExt")):
    """Counters of a node: those of TcpExt and Tcp, or of other groups."""
    counters = {}
    with ns.enter(node):
        for path in ("/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat"):
            with open(path) as f:
                lines = f.read().splitlines()
            for names, values in zip(lines[::2], lines[1::2]):
                group = names.split(":")[0]
                if group in groups:
                    counters |= {f"{group}{n}": int(v) for n, v in zip(names.split()[1:], values.split()[1:])}
    return counters


def qdisc_counters(job, ns):
    out = {}
    for link in job["links"]:
        for end in (link["a"], link["b"]):
            if end["shape"]:
                text = sh("tc", "-n", ns.name(end["node"]), "-s", "-j", "qdisc", "show", "dev", end["dev"])
                queues = json.loads(text)
                root = next(q for q in queues if q.get("root"))
                out[end["dev"]] = {k: root[k] for k in ("bytes", "packets", "drops", "backlog", "qlen")}
                out[end["dev"]] |= {
                    "marks": vq["prob_mark"] + vq["forced_mark"]
                    for q in queues
                    if q["kind"] == "gred"
                    for vq in q["options"]["vqs"]
                }
    return out


def snapshot(job, ns):
    hosts = sorted({f["src"] for f in job["flows"]})
    return {
        "t_ns": time.monotonic_ns(),
        "cpu_idle_s": cpu_idle(),
        "qdisc": qdisc_counters(job, ns),
        "tcp": {h: netstat(ns, h) for h in hosts},
        "udp": {load["dst"]: netstat(ns, load["dst"], ("Udp",)) for load in job["background"]},
    }


# --- controllers, traffic, trace -----------------------------------------------------------


def cgroup_mount():
    """Where the cgroup2 hierarchy is mounted, or None."""
    with open("/proc/self/mounts") as f:
        mounts = [line.split() for line in f]
    return next((m[1] for m in mounts if m[2] == "cgroup2"), None)


def in_cgroup(job, objects):
    """Names of the controllers that have programs for a cgroup."""
    return [
        c["name"]
        for c in job["controllers"]
        if c.get("object")
        and c["loader"] == "asymcc"
        and json.loads(sh("asymcc", "--objects", objects, "show", c["object"], "--json")).get("cgroup_programs")
    ]


def remove_cgroup(path):
    """If it is there. Processes that were killed leave it in their own time."""
    for last in [False] * 50 + [True]:
        try:
            return os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError as e:
            if last:
                raise Failure(f"cgroup {path}: {e.strerror}") from None
            time.sleep(0.1)


class Cgroup:
    """A cgroup of the run's own, for this process and all that it starts; with `close` it is back and that gone."""

    def __init__(self, name):
        root = cgroup_mount()
        with open("/proc/self/cgroup") as f:
            home = next(line[len("0::") :].rstrip("\n") for line in f if line.startswith("0::"))
        self.home, self.path = f"{root}{home}", f"{root}/{name}"
        try:
            os.mkdir(self.path)
            self._enter(self.path)
        except OSError as e:
            raise Failure(f"cgroup {self.path}: {e.strerror}") from None

    @staticmethod
    def _enter(path):
        with open(f"{path}/cgroup.procs", "w") as f:
            f.write("0")

    def close(self):
        self._enter(self.home)
        remove_cgroup(self.path)


def parameter_file(controller, key):
    return f"/sys/module/tcp_{controller}/parameters/{key}"


class Controllers:
    """The job's controllers: BPF objects through the loader, modules with their parameters."""

    def __init__(self, objects, cgroup=None, for_cgroup=(), record=None):
        self.objects = objects
        self.cgroup, self.for_cgroup = cgroup, for_cgroup  # its path; who has programs for it
        self.loaded = []
        self.record = record  # of what is to be as it was; None: nothing outlives the machine

    def load(self, controllers):
        for c in controllers:
            if c.get("object"):
                with self.record.loading(c["name"]) if self.record else contextlib.nullcontext():
                    self._register(c)
                self.loaded.append(c["name"])
                continue
            for key, value in c["set"].items():
                try:
                    if self.record:
                        self.record.changing(c["name"], key)
                    with open(parameter_file(c["name"], key), "r+") as f:
                        f.write(str(value))
                except OSError as e:
                    raise Failure(f"controller {c['name']}: parameter {key}={value}: {e.strerror}") from None

    def _register(self, c, *options):
        if c["loader"] == "bpftool":  # as a user without asymcc would
            sh("bpftool", "struct_ops", "register", f"{self.objects}/{c['object']}.bpf.o")
            return
        sets = [x for k, v in sorted(c["set"].items()) for x in ("--set", f"{k}={v}")]
        where = ["--cgroup", self.cgroup] if c["name"] in self.for_cgroup else []
        sh("asymcc", "--objects", self.objects, "load", c["object"], "--as", c["name"], *options, *where, *sets)

    def command(self, c, what):
        """What a user may type while flows run."""
        if what == "load":
            self.load([c])
        elif what == "replace":
            with self.record.loading(c["name"]) if self.record else contextlib.nullcontext():
                self._register(c, "--replace")
        elif what in ("unload", "drain"):
            sh(
                "asymcc",
                "--objects",
                self.objects,
                "unload",
                c["name"],
                *(["--drain", "--seconds", "0"] if what == "drain" else ["--force"]),
            )
            self.loaded.remove(c["name"])
        else:
            sh("asymcc", "--objects", self.objects, what, c["name"], "--cgroup", self.cgroup)

    def show(self):
        return {n: json.loads(sh("asymcc", "--objects", self.objects, "show", n, "--json")) for n in self.loaded}

    def close(self):
        while self.loaded:
            sh(
                "asymcc", "unload", "--force", self.loaded.pop()
            )  # the namespaces that give them to connections go after them


class Record:
    """On a host: what a run changes for the whole machine, written down before it is, so that it is taken back even if the run is killed."""

    FOLDER = "/run/asymlab"

    def __init__(self):
        """Lock out other runs."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.FOLDER, 0o700)
        self.folder = os.open(self.FOLDER, os.O_DIRECTORY | os.O_NOFOLLOW)
        of = os.fstat(self.folder)
        if of.st_uid or of.st_mode & 0o77:
            raise Failure(f"{self.FOLDER}: is not root's alone; remove it")
        self.lock = self._open("lock", os.O_WRONLY | os.O_CREAT)
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two at once would trace each other's flows

    def _open(self, name, flags):
        return os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=self.folder)

    def begin(self, prefix):
        self.left = {"prefix": prefix, "parameters": [], "loaded": {}}
        self._write()

    def _write(self):
        with open(self._open("part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as f:
            json.dump(self.left, f)
        os.rename("part", "record", src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def changing(self, controller, key):
        """A module's parameter, which is the whole machine's."""
        with open(parameter_file(controller, key)) as f:
            self.left["parameters"].append((controller, key, f.read()))
        self._write()

    @staticmethod
    def registered():
        """Name -> id of the controllers that the kernel has from BPF."""
        return {c["name"]: c["map_id"] for c in json.loads(sh("asymcc", "list", "--json")) if c["map_id"] is not None}

    @contextlib.contextmanager
    def loading(self, name):
        """One of this name that is there already is another's, and the kernel takes no second."""
        if name not in self.registered():
            self.left["loaded"][name] = None
            self._write()
        yield
        self.left["loaded"][name] = self.registered().get(name)
        self._write()

    def take_back(self):
        """All that the last run has left, if any: those that end by themselves have left parameters only."""
        try:
            with open(self._open("record", os.O_RDONLY)) as f:
                left = json.load(f)
        except FileNotFoundError:
            return
        for controller, key, old in left["parameters"]:
            try:
                with open(parameter_file(controller, key), "r+") as f:
                    f.write(old)
            except FileNotFoundError:
                pass  # with its module
            except OSError as e:
                raise Failure(
                    f"controller {controller}: parameter {key}={old.strip()}, as it was: {e.strerror}"
                ) from None
        there = self.registered() if left["loaded"] else {}
        for name, number in left["loaded"].items():
            if name in there and number in (None, there[name]):
                sh("asymcc", "unload", "--force", name)
        if mount := cgroup_mount():
            remove_cgroup(f"{mount}/{left['prefix']}run")
        for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else ():
            if name.startswith(left["prefix"]):
                sh("ip", "netns", "del", name)
        os.unlink("record", dir_fd=self.folder)


def in_kernel():
    """(kind, id) of the controllers' programs and registrations that the kernel has now, with their names."""
    kinds = {"prog": ("struct_ops", "sock_ops", "cgroup_skb"), "map": ("struct_ops",)}
    return {
        (kind, o["id"]): f"{kind} {o['id']} {o.get('name', '')}"
        for kind, types in kinds.items()
        for o in json.loads(sh("bpftool", "-j", kind, "show"))
        if o.get("type") in types
    }


def left_over(mine):
    """Names of those of `mine` that the kernel still has; it frees a program some time after its last socket."""
    for _ in range(50):
        if not (left := mine.keys() & in_kernel().keys()):
            break
        time.sleep(0.1)
    return sorted(mine[key] for key in left)


class KernelLog:
    """What the kernel says from now on at the level of a warning or worse."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def finish(self):
        lines = []
        with contextlib.suppress(BlockingIOError):
            while True:
                head, _, text = os.read(self.fd, 8192).decode(errors="replace").partition(";")
                if int(head.split(",")[0]) & 7 <= LOG_WARNING:
                    lines.append(text.splitlines()[0])
        os.close(self.fd)
        return lines


def sockets_of(pid):
    """The open sockets of another process, each shared with us while the caller looks at it."""
    process = os.pidfd_open(pid)
    try:
        for name in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
            if os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                fd = LIBC.syscall(SYS_PIDFD_GETFD, process, int(name), 0)
                if fd >= 0:
                    with socket.socket(fileno=fd) as s:
                        yield s
    except FileNotFoundError:
        pass  # it ends, or closes one
    finally:
        os.close(process)


class Traffic:
    """iperf3 pairs; a flow that stops is frozen, so that its connection stays and sends no new data."""

    def __init__(self, job, ns):
        self.job, self.ns = job, ns
        self.processes, self.clients, self.servers = [], {}, {}

    def _spawn(self, node, *argv, errors=subprocess.DEVNULL):
        with self.ns.enter(node):
            p = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=errors, stderr=subprocess.STDOUT, preexec_fn=die_with_us
            )
        self.processes.append(p)
        return p

    def serve(self):
        for flow in self.job["flows"]:
            self.servers[flow["id"]] = self._spawn(
                flow["dst"],
                "iperf3",
                "--server",
                "--one-off",
                "--interval",
                "0",
                "--port",
                str(SERVER_PORT + flow["id"]),
            )

    def start(self, flow):
        self.clients[flow["id"]] = self._spawn(
            flow["src"],
            "iperf3",
            "--client",
            flow["dst_addr"],
            "--bind",
            flow["src_addr"],
            "--port",
            str(SERVER_PORT + flow["id"]),
            "--cport",
            str(FLOW_PORT + flow["id"]),
            "--time",
            "86400",
            "--interval",
            "0",
            errors=subprocess.PIPE,
        )

    def calm(self, flow):
        """Let the receiver's data socket collect WAKE_BYTES before it wakes its reader."""
        for s in sockets_of(self.servers[flow["id"]].pid):
            try:
                if s.getpeername()[1] == FLOW_PORT + flow["id"]:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, WAKE_BYTES)
            except OSError:
                pass  # a listener has no peer

    def stop(self, flow):
        self.clients[flow["id"]].send_signal(signal.SIGSTOP)

    def resume(self, flow):
        self.clients[flow["id"]].send_signal(signal.SIGCONT)

    def check(self):
        """A client never ends by itself: one that did says why."""
        for number, p in self.clients.items():
            if p.poll() is not None:
                words = p.stdout.read().decode().strip().replace("\n", "; ")
                raise Failure(f"flow {number}: {self.job['traffic']} ended: {words}")

    def close(self):
        for p in self.processes:
            if p.poll() is None:  # closed with a reset: an orphan would hold namespace and controller for minutes
                for s in sockets_of(p.pid):
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            p.kill()
        for p in self.processes:
            p.wait()
            if p.stdout:
                p.stdout.close()
        self.processes = []


class Forked:
    """A function in a process of its own, which stops before it begins, until SIGCONT; like a Popen as far as Traffic needs it."""

    def __init__(self, work, *args):
        out, into = os.pipe()
        self.returncode = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                die_with_us()
                os.kill(os.getpid(), signal.SIGSTOP)
                work(*args)
            except BaseException as e:
                os.write(into, str(e).encode())
            finally:
                os._exit(1)
        os.close(into)
        self.stdout = open(out, "rb")
        os.waitpid(self.pid, os.WUNTRACED)

    def poll(self, options=os.WNOHANG):
        if self.returncode is None and os.waitpid(self.pid, options)[0]:
            self.returncode = 1
        return self.returncode

    def wait(self):
        return self.poll(0)

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def source(flow):
    """A flow's sender: data without end."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((flow["src_addr"], FLOW_PORT + flow["id"]))
        s.connect((flow["dst_addr"], SERVER_PORT + flow["id"]))
        block = bytes(WAKE_BYTES)
        while True:
            s.sendall(block)


def sink(flow):
    """Its receiver: data is dropped in the kernel."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((flow["dst_addr"], SERVER_PORT + flow["id"]))
        listener.listen(1)
        s, _ = listener.accept()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, WAKE_BYTES)
        while s.recv(1 << 20, socket.MSG_TRUNC):
            pass


class Tally:
    """What a flow's receiver has compared; it writes, we read."""

    def __init__(self):
        self.fields = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")  # bytes; where the first wrong one was, or -1
        self.fields[1] = -1

    def told(self):
        compared, wrong_at = self.fields[:2]
        return {"bytes": compared, "wrong_at": None if wrong_at < 0 else wrong_at}


def pattern(flow, repeats):
    """A flow's data: the byte at each position tells, with those around it, which position that is."""
    once = bytes(i * i * 2654435761 >> 16 & 255 for i in range(flow["id"], flow["id"] + PATTERN_BYTES))
    return memoryview(once * repeats)


def telling_source(flow):
    """As source(), and what it sends can be checked."""
    data, position = pattern(flow, 3), 0
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((flow["src_addr"], FLOW_PORT + flow["id"]))
        s.connect((flow["dst_addr"], SERVER_PORT + flow["id"]))
        while True:
            at = position % PATTERN_BYTES
            position += s.send(data[at : at + WAKE_BYTES])


def comparing_sink(flow, tally):
    """As sink(), for every byte. What waits for fewer than it wakes for is read twice a second."""
    data, block = pattern(flow, 2), memoryview(bytearray(PATTERN_BYTES))
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((flow["dst_addr"], SERVER_PORT + flow["id"]))
        listener.listen(1)
        s, _ = listener.accept()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, COMPARE_BYTES)
        ready = select.poll()
        ready.register(s, select.POLLIN)
        while True:
            ready.poll(500)
            try:
                got = s.recv_into(block, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            if not got:
                return
            position = tally.fields[0]
            at = position % PATTERN_BYTES
            if block[:got] != data[at : at + got] and tally.fields[1] < 0:
                tally.fields[1] = position + next(i for i in range(got) if block[i] != data[at + i])
            tally.fields[0] = position + got


class PlainTraffic(Traffic):
    """Senders and receivers of our own: nothing but the data crosses the path, and a flow starts with its SYN."""

    def serve(self):
        self.tallies = {flow["id"]: Tally() for flow in self.job["flows"]} if self.job.get("verify") else {}
        for flow in self.job["flows"]:
            tally = self.tallies.get(flow["id"])
            ends = (comparing_sink, flow, tally), (telling_source, flow)
            for processes, node, work in (
                (self.servers, flow["dst"], ends[0] if tally else (sink, flow)),
                (self.clients, flow["src"], ends[1] if tally else (source, flow)),
            ):
                with self.ns.enter(node):
                    p = Forked(*work)
                self.processes.append(p)
                processes[flow["id"]] = p
            self.servers[flow["id"]].send_signal(signal.SIGCONT)

    def start(self, flow):
        self.resume(flow)

    def calm(self, flow):
        """It is from the start."""


def constant_rate(load, sock):
    """Datagrams of one size, one every period_ns from now on, without end."""
    LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    datagram, due = bytes(load["payload_bytes"]), time.monotonic_ns()
    while True:
        try:
            sock.send(datagram)
        except OSError as e:
            if e.errno != errno.ENOBUFS:  # that one the path has dropped before it left
                raise
        due += load["period_ns"]
        if (left := due - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)


class Background:
    """UDP senders at a constant bit rate. Nobody reads at the far end: its full buffer drops them, which wakes no process."""

    def __init__(self, job, ns):
        self.sockets, self.senders = [], {}
        for load in job["background"]:
            with ns.enter(load["dst"]):
                void = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            void.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
            void.bind((load["dst_addr"], SERVER_PORT))
            with ns.enter(load["src"]):
                sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sock.connect((load["dst_addr"], SERVER_PORT))
                self.sockets += [void, sock]
                self.senders[load["id"]] = Forked(constant_rate, load, sock)

    def start(self, load):
        self.senders[load["id"]].send_signal(signal.SIGCONT)

    def stop(self, load):
        self.senders[load["id"]].send_signal(signal.SIGSTOP)

    def check(self):
        for number, p in self.senders.items():
            if p.poll() is not None:
                raise Failure(f"background {number} ended: {p.stdout.read().decode().strip()}")

    def close(self):
        for p in self.senders.values():
            p.kill()
            p.wait()
            p.stdout.close()
        for s in self.sockets:
            s.close()
        self.sockets, self.senders = [], {}


class Tracer:
    def __init__(self, job, objects, path):
        links = [x for hop in job["watch"] for side in ("forward", "reverse") for x in ("--link", hop[side]["dev"])]
        ports = f"{FLOW_PORT}-{FLOW_PORT + len(job['flows']) - 1}"
        state = ["--state"] if job["trace_state"] else []
        self.process = subprocess.Popen(
            [
                "asymcc",
                "--objects",
                objects,
                "trace",
                "--ports",
                ports,
                "--bin-ms",
                str(job["bin_ms"]),
                *state,
                *links,
                "-o",
                path,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=die_with_us,
        )

    def wait_until_attached(self):
        line = self.process.stdout.readline().strip()
        if line != "tracing":
            raise Failure(f"asymcc trace: {line or 'ended at once'}")

    def check(self):
        if self.process.poll() is not None:
            raise Failure(f"asymcc trace ended: {self.process.stdout.read().strip()}")

    def finish(self):
        """Stop it; its last words."""
        self.process.send_signal(signal.SIGTERM)
        out = self.process.communicate(timeout=60)[0]
        if self.process.returncode:
            raise Failure(f"asymcc trace: {out.strip()}")
        return out.strip()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Capture:
    """Headers of the packets that leave the first hop's queues, each direction into a file of its own.

    A packet's time is the kernel's as it goes to the device. A thread collects what has come every
    READ_S: some 17 us of the guest's CPU a packet, which stands in a run's share of busy CPU.
    """

    BUFFER = 32 << 20  # bytes of packets that may wait, each with some 2 kB
    READ_S = 0.1
    SNAP = 96  # bytes kept: IPv4 and TCP headers are at most 80 without IP options
    PCAP = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP, 101)  # in ns; packets start at the IP header
    ETH_P_ALL, SO_ATTACH_FILTER, SO_RCVBUFFORCE, SOL_PACKET, PACKET_STATISTICS = 3, 26, 33, 263, 6
    # Outgoing packets only: load the packet type, compare with PACKET_OUTGOING, keep SNAP or nothing.
    FILTER = struct.pack(
        "=HBBIHBBIHBBIHBBI", 0x30, 0, 0, 0xFFFFF004, 0x15, 0, 1, socket.PACKET_OUTGOING, 0x06, 0, 0, SNAP, 0x06, 0, 0, 0
    )

    def __init__(self, job, ns, out):
        self.ends, self.done = [], threading.Event()
        first = job["watch"][0]
        node = {end["dev"]: end["node"] for link in job["links"] for end in (link["a"], link["b"])}
        for side in ("forward", "reverse"):
            with ns.enter(node[first[side]["dev"]]):
                s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
            self.ends.append((s, open(f"{out}/{side}.pcap", "wb")))
            self._set_up(s, first[side]["dev"])
            self.ends[-1][1].write(self.PCAP)
        self.thread = threading.Thread(target=self._collect, daemon=True)
        self.thread.start()

    def _set_up(self, s, dev):
        code = ctypes.create_string_buffer(self.FILTER, len(self.FILTER))
        s.setsockopt(
            socket.SOL_SOCKET,
            self.SO_ATTACH_FILTER,
            struct.pack("HxxxxxxP", len(self.FILTER) // 8, ctypes.addressof(code)),
        )
        s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        s.setsockopt(socket.SOL_SOCKET, self.SO_RCVBUFFORCE, self.BUFFER)
        s.setblocking(False)
        s.bind((dev, self.ETH_P_ALL))

    def _collect(self):
        while not self.done.wait(self.READ_S):
            self._drain()

    def _drain(self):
        for s, file in self.ends:
            with contextlib.suppress(BlockingIOError):
                while True:
                    data, control, _, _ = s.recvmsg(self.SNAP, 64)
                    sec, nsec = struct.unpack("qq", control[0][2])
                    file.write(struct.pack("<IIII", sec, nsec, len(data), int.from_bytes(data[2:4], "big")) + data)

    def finish(self):
        self.done.set()
        self.thread.join()
        self._drain()
        for s, file in self.ends:
            _, lost = struct.unpack("II", s.getsockopt(self.SOL_PACKET, self.PACKET_STATISTICS, 8))
            if lost:
                raise Failure(f"{os.path.basename(file.name)}: {lost} packets lost")
        self.close()

    def close(self):
        self.done.set()
        self.thread.join()
        for end in self.ends:
            for part in end:
                part.close()
        self.ends = []


def sleep_until(t_ns):
    """The one place where a signal may come in: everything else ends what it has begun."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        while (left := t_ns - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def change_path(job, ns, ends):
    """Devices get another shape, and the routes that leave by them another MTU: a device's own would bind what it takes in, too."""
    for end in ends:
        if "mtu" in end:
            routes = [r for r in job["routes"] if (r["node"], r["dev"]) == (end["node"], end["dev"])]
            sh(
                "ip",
                "-n",
                ns.name(end["node"]),
                "-batch",
                "-",
                text="".join(
                    f"route replace {r['dst']} via {r['via']} dev {r['dev']} mtu {end['mtu']}\n" for r in routes
                ),
            )
        else:
            sh(
                "tc",
                "-n",
                ns.name(end["node"]),
                "-batch",
                "-",
                text="\n".join(qdisc_commands(end["dev"], end["shape"], "change")) + "\n",
            )


def run_flows(job, ns, traffic, background, tracer, command):
    """The experiment proper. Returns time zero and the snapshots at measure_from and at the end."""
    bin_ns = job["bin_ms"] * 10**6
    zero = (time.monotonic_ns() + int(SETTLE_S * 1e9)) // bin_ns * bin_ns + bin_ns
    marks = {}
    events = [(job["measure_from_s"], 2, "measure", None), (job["duration_s"], 3, "end", None)]
    for flow in job["flows"]:
        events.append((flow["start_s"], 1, "start", flow))
        events += [
            (flow["start_s"] + after, 1, "calm", flow)
            for after in (0.5, 2, 8)
            if flow["start_s"] + after < job["duration_s"]
        ]
        for what in ("stop", "resume"):
            if flow[f"{what}_s"] is not None:
                events.append((flow[f"{what}_s"], 0, what, flow))
    for change in job["changes"]:
        events.append(
            (change["at_s"], 0, "path" if "path" in change else "command" if "command" in change else "set", change)
        )
    for load in job["background"]:
        events.append((load["start_s"], 1, "load", load))
        if load["stop_s"] is not None:
            events.append((load["stop_s"], 0, "unload", load))
    for at, _, what, flow in sorted(events, key=lambda e: e[:2]):
        sleep_until(zero + int(at * 1e9))
        traffic.check()
        background.check()
        tracer.check()
        if what == "start":
            traffic.start(flow)
        elif what == "set":
            sh("asymcc", "set", flow["controller"], *(f"{k}={v}" for k, v in sorted(flow["set"].items())))
        elif what == "path":
            change_path(job, ns, flow["path"])
        elif what == "command":
            command(flow)
        elif what == "load":
            background.start(flow)
        elif what == "unload":
            background.stop(flow)
        elif what == "stop":
            traffic.stop(flow)
        elif what == "resume":
            traffic.resume(flow)
        elif what == "calm":
            traffic.calm(flow)
        else:
            marks[what] = snapshot(job, ns)
    return zero, marks


def refusals(commands):
    """What the kernel should not take: the end and the words of each command that tries, and what there is of it afterwards."""
    said = {}
    for name, argv in commands.items():
        p = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=60)
        left = {key: what for key, what in in_kernel().items() if "refused" in what}
        said[name] = {"code": p.returncode, "words": p.stdout + p.stderr, "left": left_over(left)}
    return said


def run(job, out, objects, prefix="lab-", record=None):
    """One experiment, all of it; raises Failure. Leaves nothing but the output folder."""
    if "refused" in job and not record:  # in a guest: on a host no job brings commands
        with open(f"{out}/agent.json", "w") as f:
            json.dump(refusals(job["refused"]), f)
        return
    check_names(job)
    phases = {}  # seconds of this kernel's clock at the end of each

    def reached(phase):
        phases[phase] = time.monotonic()

    reached("agent started")
    with contextlib.ExitStack() as cleanup:  # each step of it runs, whatever the others do
        ns = Namespaces(prefix)
        cleanup.callback(ns.close)
        if lacks := missing(job, ns, objects):
            raise Failure("cannot run here: " + "; ".join(lacks))
        reached("requirements checked")
        own = None
        for_cgroup = in_cgroup(job, objects)
        if for_cgroup or any(change.get("command") in ("use", "unuse") for change in job["changes"]):
            own = Cgroup(f"{prefix}run")
            cleanup.callback(own.close)
        if job["audit"]:
            log = KernelLog()
        before = in_kernel() if job["audit"] else {}
        controllers = Controllers(objects, own and own.path, for_cgroup, record)
        cleanup.callback(controllers.close)
        controllers.load(job["controllers"])
        mine = {}

        def look():
            """What is ours of what the kernel has now."""
            if job["audit"]:
                mine.update({key: name for key, name in in_kernel().items() if key not in before})

        def command(change):
            (c,) = (c for c in job["controllers"] if c["name"] == change["controller"])
            controllers.command(c | {"set": change["set"]}, change["command"])
            look()

        look()
        reached("controllers loaded")
        sysctls = build_network(job, ns)
        reached("network built")
        print("first packet", flush=True)
        checks = self_check(job, ns)
        reached("self-check made")
        traffic = (PlainTraffic if job["traffic"] == "plain" else Traffic)(job, ns)
        cleanup.callback(traffic.close)
        traffic.serve()
        background = Background(job, ns)
        cleanup.callback(background.close)
        tracer = Tracer(job, objects, f"{out}/trace.bin")
        cleanup.callback(tracer.close)
        tracer.wait_until_attached()
        capture = None
        if job["capture"]:
            capture = Capture(job, ns, out)
            cleanup.callback(capture.close)
        reached("tracing")
        zero, marks = run_flows(job, ns, traffic, background, tracer, command)
        if capture:
            capture.finish()
        reached("flows ended")
        traced = tracer.finish()
        a, b = marks["measure"], marks["end"]
        result = {
            "kernel": os.uname().release,
            "phases": phases,
            "zero_ns": zero,
            "bin_ms": job["bin_ms"],
            "zero_unix_ns": zero + time.time_ns() - time.monotonic_ns(),
            "self_check": checks,
            "cpu_busy": 1 - (b["cpu_idle_s"] - a["cpu_idle_s"]) / ((b["t_ns"] - a["t_ns"]) / 1e9),
            "marks": marks,
            "controllers": controllers.show(),
            "traced": traced,
            "sysctls": sysctls,
        }
        if job.get("verify"):
            result["verified"] = {number: tally.told() for number, tally in sorted(traffic.tallies.items())}
    if job["audit"]:
        result |= {"loaded": sorted(mine.values()), "left": left_over(mine), "kernel_log": log.finish()}
    with open(f"{out}/agent.json", "w") as f:
        json.dump(result, f)


def main():
    """agent.py JOB OUT OBJECTS: on a live host. One line on failure."""

    def stop(*_):
        raise KeyboardInterrupt

    for s in SIGNALS:
        signal.signal(s, stop)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    with open(sys.argv[1]) as f:
        job = json.load(f)
    try:
        record, prefix = Record(), f"asymlab-{os.getpid()}-"
        record.take_back()  # of a run that was killed
        record.begin(prefix)
        try:
            run(job, sys.argv[2], sys.argv[3], prefix, record)
        finally:
            record.take_back()
    except BlockingIOError:
        sys.exit("another experiment runs on this host; wait for its end")
    except Failure as e:
        sys.exit(str(e))
    except KeyboardInterrupt:
        sys.exit("interrupted")


if __name__ == "__main__":
    main()
