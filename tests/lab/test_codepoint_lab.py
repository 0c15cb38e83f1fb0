# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Routers that change the ECN field: what leaves the hop behind them, that flows go on, and what DualPI2 counts."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

import pytest

from asymlab.machine import vm
from asymlab.machine.image import open_image
from asymlab.plan import scenario
from asymlab.run.tasks import plan_runs
from tests.scenarios import CAPTURE, TUNED, hop
from tests.shared import L4S, LAB_KERNELS, REPO, counters, needs_l4s, run

pytestmark = pytest.mark.lab

NOT_ECT, ECT1, ECT0, CE = range(4)
MARKS = {"codel": {"ecn": True, "target": "2ms"}}
# All ECT(0) leave a host as ECT(1), as those of L4S do.
FLIP = """
#include "kernel.bpf.h"
char LICENSE[] SEC("license") = "Dual BSD/GPL";
SEC("tc") int flip(struct __sk_buff *skb)
{
	u8 head[2], old;

	if (bpf_skb_load_bytes(skb, 14, head, 2))
		return -1;
	if (head[0] >> 4 == 4 && (head[1] & 3) == 2) {
		bpf_l3_csum_replace(skb, 14 + 10, head[0] | head[1] << 8, head[0] | (head[1] ^ 3) << 8, 2);
		head[1] ^= 3;
	} else if (head[0] >> 4 == 6 && (head[1] >> 4 & 3) == 2) {
		head[1] ^= 3 << 4;
	}
	bpf_skb_store_bytes(skb, 14, head, 2, 0);
	return -1;
}
"""


def fields(data: bytes) -> Counter[int]:
    """How many data packets of a capture have each ECN field. Each checksum of an IPv4 header is right."""
    at, counts = 24, Counter[int]()
    while at + 16 <= len(data):
        kept, size = (int.from_bytes(data[at + i : at + i + 4], "little") for i in (8, 12))
        ip, at = data[at + 16 : at + 16 + kept], at + 16 + kept
        if ip[0] >> 4 == 4:
            total = sum(int.from_bytes(ip[i : i + 2], "big") for i in range(0, 20, 2))
            assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
        if size > 500:
            counts[ip[1] & 3 if ip[0] >> 4 == 4 else ip[1] >> 4 & 3] += 1
    return counts


BECOMES = {None: {}, "bleached": dict.fromkeys((ECT1, ECT0, CE), NOT_ECT), "remarked": {ECT1: ECT0}}
UNDER_WAY = 20  # packets between two queues at a run's end, at most


def check_change(before: Counter[int], after: Counter[int], how: str | None) -> None:
    """Each packet came, with the field that it has by then. TCP sends again as Not-ECT (RFC 3168, 6.1.5)."""
    wanted = Counter[int]()
    for field, count in before.items():
        wanted[BECOMES[how].get(field, field)] += count
    assert not after - wanted and (wanted - after).total() <= UNDER_WAY


def over(scenario_file, how, **more):
    """Two hops: the router between them changes the field, and the first one's queue marks."""
    way = MARKS | ({"ecn_codepoint": how} if how else {})
    wide = {"rate": "100mbit"}
    return scenario_file(CAPTURE, TUNED, ecn=True, mtu=1500, hops=[hop(way, wide), hop(wide, wide)], **more)


def filtered(file, kernel, source, tmp_path):
    """A run whose first sender has a filter of this source at its device: its task, and the files that it left."""
    (tmp_path / "flip.bpf.c").write_text(source)
    flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", f"-I{REPO}/bpf", "-idirafter/usr/include/x86_64-linux-gnu"]
    subprocess.run(["clang", *flags, "-c", tmp_path / "flip.bpf.c", "-o", tmp_path / "flip.bpf.o"], check=True)
    guest = open_image(kernel)
    (task,) = plan_runs(scenario.load(file), guest)
    task.job.ect1.append(next(end.dev for end in task.job.ends if end.node == "src0"))
    files, _ = vm.run(guest, task.job, task.objects | {"ect1.bpf.o": (tmp_path / "flip.bpf.o").read_bytes()})
    return task, files


@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize("how", BECOMES)
@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_ect0_and_marks(scenario_file, kernel, how, ip):
    """Bleached, no mark arrives, and the queue marks ever more. ECT(0) and CE are not remarked."""
    r = run(over(scenario_file, how, ip=ip), kernel)
    before, after = (fields((r.folder / f"{name}.pcap").read_bytes()) for name in ("forward", "forward-2"))
    assert before[ECT0] > 1000 and before[CE] > 5 and not before[ECT1]
    check_change(before, after, how)
    assert r.metrics["hops"][0]["forward"]["utilisation"] > 0.8
    assert (r.metrics["hops"][0]["forward"]["marks"] > 100) == (how == "bleached")


@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize("how", BECOMES)
@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_ect1(scenario_file, tmp_path, kernel, how, ip):
    """A filter at the sender makes ECT(1) of what it sends."""
    _, files = filtered(over(scenario_file, how, ip=ip), kernel, FLIP, tmp_path)
    before, after = (fields(files[f"{name}.pcap"]) for name in ("forward", "forward-2"))
    assert before[ECT1] > 1000 and before[CE] > 5 and not before[ECT0]
    check_change(before, after, how)


@needs_l4s
@pytest.mark.parametrize("how", ["bleached", "remarked"])
def test_prague_goes_on(scenario_file, how):
    """Behind DualPI2. Bleached, its losses cut it, and no mark does. Remarked, a mark is a classic one."""
    way = {"rate": "20mbit", "queue": 100}
    hops = [hop(way | {"ecn_codepoint": how, "dualpi2": {}}), hop(way | {"dualpi2": {}})]
    more = {"flow": {"controller": "prague"}, "run": {"duration": "10s", "measure_from": "4s"}}
    r = run(scenario_file(CAPTURE, TUNED, more, mtu=1500, hops=hops), L4S)
    before, after = (fields((r.folder / f"{name}.pcap").read_bytes()) for name in ("forward", "forward-2"))
    check_change(before, after, how)
    c, forward = counters(r, "prague"), r.metrics["hops"][0]["forward"]
    assert before[ECT1] > 1000 and c["cuts"] == c["timeouts"] == 0
    if how == "bleached":
        assert c["marked_acks"] == c["classic_cuts"] == 0 < c["losses"] and forward["utilisation"] > 0.95
    else:  # a window that is halved and has no queue fills three quarters of the link
        assert c["classic_cuts"] > 0 == c["losses"] and forward["utilisation"] == pytest.approx(0.75, abs=0.05)


BLIND = FLIP.replace("== 2", "== 0").replace("^ 3", "^ 1").replace("^= 3", "^= 1")  # Not-ECT becomes ECT(1)


@needs_l4s
@pytest.mark.parametrize("off, twice", [({}, True), ({"step": "5s"}, False), ({"target": "5s"}, False)])
def test_dualpi2_counts_a_packet_twice_that_both_mark(scenario_file, tmp_path, off, twice):
    """Linux's own counter, and a sender that is blind to marks. Without the step, or PI2, it has each packet once."""
    way, times = {"queue": 50, "dualpi2": off}, {"run": {"duration": "3s", "measure_from": "1s"}}
    file = scenario_file(CAPTURE, TUNED, times, mtu=1500, forward=way, flow={"controller": "cubic"})
    task, files = filtered(file, L4S, BLIND, tmp_path)
    left = fields(files["forward.pcap"])[CE]
    counted = json.loads(files["agent.json"])["marks"]["end"]["qdisc"][task.job.watch[0].forward.dev]["marks"]
    # The self-check's packets are counted, too.
    assert left > 1000 and (counted > 1.2 * left if twice else counted == pytest.approx(left, rel=0.02))
