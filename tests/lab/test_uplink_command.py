# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc uplink` under a kernel with CAKE, that of a guest: what others see of it, and what it outlives."""

from __future__ import annotations

import json
import re

import pytest

from asymlab.conformance.packetdrill import guest
from asymlab.guest.drill import Script
from asymlab.machine.image import open_image
from tests.shared import BUILD, LAB, REPO

pytestmark = [pytest.mark.lab, pytest.mark.skipif("uml" not in LAB, reason="it is a guest of uml")]

OBJECTS = "uplink.bpf.o", "thin_router.bpf.o"
# Process 1 of this guest waits for the first process alone, and on a router for all.
REAP = """
import ctypes, os, sys

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
pid = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
while (ended := os.wait())[0] != pid:
    pass
sys.exit(os.waitstatus_to_exitcode(ended[1]))
"""
NOBODY = """
import os, sys

os.setgid(65534)
os.setuid(65534)
os.execvp(sys.argv[1], sys.argv[1:])
"""
# `up WORDS` begins one in the background and waits for its first line; `down` ends it as a user does.
BEGIN = r"""
export ASYMCC_OBJECTS=/lab
ip link add name wan0 index 48 type veth peer name away
ip link set wan0 up; ip link set away up
up() {
    asymcc uplink --dev wan0 "$@" >said 2>&1 & pid=$!
    until grep -q searched said; do kill -0 $pid && sleep 0.1 || break; done
}
arrives() {
    tc qdisc show | sed -n '/asymcc\|clsact/s/^qdisc \([a-z]*\).* dev \([^ ]*\) .*/\1 \2/p'
    tc filter show dev wan0 ingress | grep -o mirred || :
}
down() { kill $pid; wait $pid; echo "ended: $?"; grep -v searched said || :; }
"""


@pytest.fixture(scope="module")
def image():
    """It has this tree's asymcc."""
    with guest.guest(open_image(LAB)) as one:
        yield one


@pytest.fixture
def script(image):
    """The lines that a script says."""

    def run(text: str, **more: str) -> list[str]:
        brought = {"run.sh": BEGIN + text, "reap.py": REAP, "nobody.py": NOBODY, **more}
        files = {name: (BUILD / name).read_bytes() for name in OBJECTS}
        files |= {f"scripts/{name}": words.encode() for name, words in brought.items()}
        job = Script(1, ".", ["python3", "reap.py", "sh", "run.sh"], 60, [])
        told = guest.run(image, job, files, None, 120, None)
        assert told["code"] == b"0", (told["stdout"] + told["stderr"]).decode()
        return told["stdout"].decode().splitlines()

    return run


def test_who_may_not_read_its_numbers_is_told_the_rate_alone(script):
    lines = script("up --rate 5mbit; sleep 1; asymcc status; python3 nobody.py asymcc status 2>/dev/null; down")
    root, nobody = (line.strip() for line in lines if "Mbit/s" in line)
    rate, behind = root.split(", ", 1)
    assert behind == "the modem's queue 0.0 ms, by idle" and nobody == rate


def test_ticks_that_passed_while_it_was_stopped_are_not_made_up_for(script):
    lines = script("up --log log; sleep 1; kill -STOP $pid; sleep 5; kill -CONT $pid; sleep 1; down; grep -c . log")
    assert 48 <= int(lines[-1]) <= 56


@pytest.mark.parametrize("full", ["up --log /dev/full", "ulimit -f 1; up --log log"], ids=["disk", "limit"])
def test_a_log_that_takes_no_more_ends_and_the_shaping_goes_on(script, full):
    lines = script(f"{full}; sleep 5; tc qdisc show dev wan0; down")
    why = "No space left on device" if "/dev" in full else "File too large"
    assert "qdisc cake" in lines[0]
    assert lines[1:] == ["ended: 0", f"asymcc: --log: {why}: the log ends here, and the shaping goes on"]


def test_its_thinning_is_no_others(script):
    lines = script("up; asymcc thin --dev wan0 --reverse 1mbit 2>&1; down; asymcc thin --dev wan0 --reverse 1mbit")
    assert lines == [
        "asymcc: --dev wan0: `asymcc uplink` is there, and thins by itself: `asymcc uplink --dev wan0 --off` first",
        "ended: 0",
        "forwarded ACKs that leave by dev wan0 are thinned",
    ]


CLSACT, CAKE = "clsact wan0", "cake asymcc-30"  # by its number, 48
TOLD = "the last `asymcc uplink --dev wan0` was killed: what it left is taken away"


def test_what_arrives_is_shaped_by_an_ifb_that_goes_with_it(script):
    lines = script("up --down; arrives; down; arrives; ip -br link show type ifb | grep asymcc || echo none")
    assert sorted(lines[:3]) == [CAKE, CLSACT, "mirred"]
    assert lines[3:] == ["ended: 0", "none"]


def test_the_ifb_of_a_killed_one_goes_at_the_next_start_and_a_qdisc_of_another_stays(script):
    killed = "up --down; kill -9 $pid; wait $pid; arrives"
    off = "asymcc uplink --dev wan0 --off; arrives"
    lines = script(f"tc qdisc add dev wan0 clsact; {killed}; up; arrives; down; {killed}; {off}")
    stands = [CAKE, CLSACT, "mirred"]
    assert sorted(lines[:3]) == sorted(lines[6:9]) == stands
    assert lines[3:6] == [CLSACT, "ended: 0", TOLD]
    assert lines[9:] == ["the uplink is as it was before", CLSACT]


BOARD = REPO / "packaging/grafana.json"


def test_each_way_has_a_line_of_status_and_metrics_of_its_own(script):
    """The board's panels ask for these names, and their legends for these labels."""
    lines = script("up --down --rate 5mbit; sleep 1; echo $(asymcc status --json); asymcc metrics; down")
    up, down = (row["text"] for row in json.loads(lines[0])["uplinks"])
    assert up.startswith("shaped to 5.00 Mbit/s by process")
    assert down.startswith("process") and down.endswith("has not yet seen a queue in the modem's far end")
    samples = dict(line.rsplit(" ", 1) for line in lines if line.startswith("asymcc_uplink"))
    rate = "asymcc_uplink_rate_bytes_per_second"
    assert samples[rate + '{device="wan0"}'] == "625000"
    assert float(samples[rate + '{device="wan0",direction="down"}']) > 1e9
    ticks = 'asymcc_uplink_ticks_total{device="wan0",cause="%s"%s}'
    assert int(samples[ticks % ("idle", "")]) >= 9
    assert int(samples[ticks % ("search", ',direction="down"')]) >= 9 and ticks % ("search", "") in samples
    asked = [t for panel in json.loads(BOARD.read_text())["panels"] for t in panel["targets"] if "uplink" in t["expr"]]
    assert {name.split("{")[0] for name in samples} == {re.search(r"asymcc_uplink_\w+", t["expr"])[0] for t in asked}
    assert all("{{device}} {{direction}}" in t["legendFormat"] for t in asked)


def test_both_ways_of_a_killed_one_are_told(script):
    lines = script("up --down --rate 5mbit; kill -9 $pid; wait $pid; echo $(asymcc status --json); asymcc metrics")
    rows = json.loads(lines[0])["uplinks"]
    assert [row["text"] for row in rows] == [
        f"`asymcc uplink` was killed: CAKE stays at {rate} Mbit/s" for rate in ("5.00", "10000.00")
    ]
    assert not [line for line in lines if line.startswith("asymcc_uplink")]


def test_filters_of_another_for_what_arrives_stay(script):
    others = (
        "tc qdisc add dev wan0 clsact; tc filter add dev wan0 ingress matchall action mirred egress redirect dev away"
    )
    lines = script(f"{others}; up --down; cat said; asymcc status; tc qdisc show dev wan0")
    assert lines[0].startswith("asymcc: --down: somebody has set filters for what arrives by dev wan0 (SQM, perhaps)")
    assert "uplinks: nothing" in lines and "cake" not in "".join(lines)


LOAD = """
import socket, time

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for _ in range(100):
        s.sendto(bytes(1400), ("10.0.0.2", 9))
        time.sleep(0.02)
"""


def test_only_a_line_in_use_is_probed(script):
    net = "ip addr add 10.0.0.1/24 dev wan0; ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev wan0"
    asks = "sed -n 's/^IcmpMsg: .*OutType13.*/asks/p' /proc/net/snmp; echo looked"
    lines = script(f"{net}; up --probe 10.0.0.2; sleep 2; {asks}; python3 load.py; {asks}; down", **{"load.py": LOAD})
    assert lines == ["looked", "asks", "looked", "ended: 0"]


OPENWRT = {
    "/etc/init.d/asymcc": REPO / "packaging/openwrt/asymcc/files/asymcc.init",
    "/etc/rc.common": REPO / "tests/live/openwrt/root/etc/rc.common",
    "/lib/functions.sh": REPO / "tests/live/openwrt/root/usr/lib/functions.sh",
}
# sysfs has the devices of the namespace that mounts it.
SYSTEM = """
import ctypes, os

ctypes.CDLL(None).mount(b"sysfs", b"/sys", b"sysfs", 0, None)
for folder in ("/var/run", "/etc/init.d", "/etc/config", "/lib"):
    os.makedirs(folder, exist_ok=True)
for file, text in FILES.items():
    with open(file, "w") as f:
        f.write(text)
"""
# `reload SECTION...`: wan0 has these sections from then on; says what is there.
ROUTER = r"""
python3 system.py
mv() { cat "$1" >"$2"; rm "$1"; }
export -f mv
reload() {
    for what; do printf "config $what\n\toption enabled '1'\n\toption device 'wan0'\n"; done >/etc/config/asymcc
    sh /etc/rc.common /etc/init.d/asymcc reload 2>&1
    asymcc status >status; sed -n 's/process.*/process/; s/: 0 sent.*//; /^  .*wan0/p' status; echo
}
"""


def test_openwrt_goes_from_one_to_the_other(script):
    files = {file: source.read_text() for file, source in OPENWRT.items()}
    system = f"FILES = {files!r}\n{SYSTEM}"
    lines = script(ROUTER + "reload uplink; reload thin; reload uplink; reload", **{"system.py": system})
    thinned, shaped = "  forwarded ACKs that leave by dev wan0", "  wan0: process"
    begun, ended = "dev wan0: the rate is searched for and followed; Ctrl-C ends it", "the uplink is as it was before"
    started, stopped = "forwarded ACKs that leave by dev wan0 are thinned", "ACKs are no longer thinned in dev wan0"
    assert lines == [
        *[begun, thinned, shaped, ""],
        *[ended, started, thinned, ""],
        *[stopped, begun, thinned, shaped, ""],
        *[ended, ""],
    ]


def test_openwrt_begins_it_anew_where_an_option_changes(script):
    files = {file: source.read_text() for file, source in OPENWRT.items()}
    system = f"FILES = {files!r}\n{SYSTEM}"
    again = "sh /etc/rc.common /etc/init.d/asymcc reload >told 2>&1; arrives"
    down = r"""printf "\toption down '1'\n" >>/etc/config/asymcc"""
    text = f"{ROUTER}reload uplink >told; arrives; {down}; {again}; : >/etc/config/asymcc; {again}; asymcc status"
    *shaped, status = script(text, **{"system.py": system})
    assert sorted(shaped[:3]) == [CAKE, CLSACT, "mirred"], shaped
