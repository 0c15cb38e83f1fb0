# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Peers of `make attack` (tests/live/peers) toward laws in a guest, each beside an honest one. Prague, on a kernel that
has AccECN, meets those that lie by its counters, too. At length with ATTACK=full."""

from __future__ import annotations

import json
import os
import re

import pytest

from asymlab.conformance.packetdrill import guest
from asymlab.conformance.packetdrill.packetdrill import loaded
from asymlab.guest.drill import Script
from asymlab.machine.image import current_image
from tests.live.peers.attacks import ATTACKS, LIES
from tests.live.peers.bounds import SMALL, WARNINGS, beyond, line
from tests.shared import BUILD, L4S, LAB, REPO, needs_l4s

pytestmark = pytest.mark.lab

FULL = os.environ.get("ATTACK") == "full"
ROUNDS = 300 if FULL else 20
VIRTUAL_S, LIMIT_S = 3600, 500
NAME = "prague"
W_MIN = 2
DELAY_LAWS = ("fast", "fusion", "taichung", "pseudorate", "formosa")
OF_ACKS, OF_TIME = ("honest", "early", "divided"), ("hidden_queue", "lying_stamps")  # who lies of these at most
# A lie must shrink the window, or let it grow as without a mark.
MARKING = {"all_marked", "all_marked_by_bits", "one_more", "one_less", "wild_bits", "wild"}
UNMARKED = set(LIES) - MARKING - {"nothing"}


def play(image: str, rounds: int, attacks: str, names: tuple[str, ...]) -> dict:
    made = current_image(image)
    controllers, files = loaded([*names], made)
    files["ect1.bpf.o"] = (BUILD / "ect1.bpf.o").read_bytes()
    for file in (REPO / "tests" / "live" / "peers").glob("*.py"):
        files[f"scripts/{file.relative_to(REPO)}"] = file.read_bytes()
    argv = ["python3", "tests/live/peers/in_guest.py", str(rounds), attacks, *names]
    with guest.guest(made) as ready:
        files = guest.run(ready, Script(1, ".", argv, VIRTUAL_S, controllers), files, None, LIMIT_S, None)
    assert files["code"] == b"0", files["stderr"].decode()
    return json.loads(files["stdout"])


@pytest.fixture(scope="module")
def played() -> dict:
    return play(L4S, ROUNDS, "accecn", (NAME,))


@pytest.fixture(scope="module")
def liars() -> dict[str, dict[str, dict]]:
    """Those of each law under each lie: by lie and law."""
    tries = play(LAB, 2 * ROUNDS, ",".join((*OF_ACKS, *OF_TIME)), DELAY_LAWS)["tries"]
    return {lie: {f["controller"]: f for f in tries[lie]["flows"] if not f["beside"]} for lie in tries}


@pytest.mark.skipif(not LAB.endswith("-uml"), reason="a guest of the engine uml")
@pytest.mark.parametrize("lie", OF_TIME)
@pytest.mark.parametrize("law", DELAY_LAWS)
def test_a_lie_about_time_gains_no_more_than_one_about_acks(law, lie, liars):
    """A receiver that calls all of its queue a wait of ACKs, or whose stamps jump: what it is sent. Its window has the
    bound of all attacks."""
    flow, others = liars[lie][law], [liars[other][law] for other in OF_ACKS]
    assert flow["right"] and flow["open"] and flow["law"] == law
    assert not list(beyond(law, lie, flow, liars["honest"]["reno"]["late"], 2 * ROUNDS))
    assert 2 * ROUNDS < flow["segments"] <= max(other["segments"] for other in others)


@needs_l4s
def test_the_kernel_complains_of_nothing(played):
    assert not re.findall(f".*({WARNINGS}).*", played["kernel"])


@needs_l4s
@pytest.mark.parametrize("attack", [*(a for a in ATTACKS if a != "echoes"), *LIES])
def test_no_peer_gains_more_than_reno_would_give(attack, played):
    flows = played["tries"][attack]["flows"]
    reno = max(f["late"] for f in flows if f["controller"] == "reno" and not f["beside"])
    if FULL:
        print("\n".join(f"{attack:20} {f['controller']:8} {line(f)}" for f in flows if not f["beside"]))
    assert {f["law"] for f in flows} == {"reno", NAME} and played["tries"][attack]["counters"][NAME]["fallbacks"] == 0
    assert not [fault for f in flows for fault in beyond(f["controller"], attack, f, reno, ROUNDS)]


@needs_l4s
@pytest.mark.parametrize("lie", sorted(MARKING))
def test_who_tells_of_marks_has_them_answered(lie, played):
    """At most once a round, however many; and the window is then that of Reno under the same lie, or less."""
    (flow,) = (f for f in played["tries"][lie]["flows"] if f["controller"] == NAME and not f["beside"])
    c = played["tries"][lie]["counters"][NAME]
    assert W_MIN == flow["low"] <= flow["late"] <= SMALL // 2
    assert ROUNDS // 2 <= c["cuts"] + c["classic_cuts"] <= ROUNDS and c["losses"] == c["timeouts"] == 0


@needs_l4s
@pytest.mark.parametrize("lie", sorted(UNMARKED))
def test_what_is_no_mark_is_not_taken_for_one(lie, played):
    """The three bits decide. The same holds of an honest peer on a path that does not mark."""
    c = played["tries"][lie]["counters"][NAME]
    assert c["marked_acks"] == c["cuts"] == c["classic_cuts"] == c["losses"] == 0
    late = {name: [f["late"] for f in played["tries"][name]["flows"] if not f["beside"]] for name in (lie, "honest")}
    assert late[lie] == late["honest"]
