# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The same peers in a guest of the lab, as JSON: some attacks, or all with AccECN, and then those that lie by it.

python3 tests/live/peers/in_guest.py ROUNDS ATTACK,...|accecn CONTROLLER...
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, ".")

from tests.live.peers.attacks import ATTACKS, LIES, listen, play
from tests.live.peers.raw import DEVICE, Veth

ACCEPTED = 5  # who asks for AccECN has it


def counters(name: str) -> dict[str, int]:
    output = subprocess.run(["asymcc", "show", name, "--json"], check=True, capture_output=True).stdout
    return {counter["name"]: counter["value"] for counter in json.loads(output)["counters"]}


def kernel_said() -> str:
    log, text = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK), b""
    try:
        while True:
            text += os.read(log, 8192)
    except BlockingIOError:
        return text.decode(errors="replace")


def ask_for_accecn() -> list[tuple[str, str]]:
    """The attacks and lies of peers that have it."""
    with open("/proc/sys/net/ipv4/tcp_ecn", "w") as f:
        f.write(str(ACCEPTED))
    for words in (
        f"qdisc add dev {DEVICE} clsact",
        f"filter add dev {DEVICE} egress bpf direct-action object-file /lab/ect1.bpf.o section tc",
    ):
        subprocess.run(["tc", *words.split()], check=True)
    classic = {name for name, (*_, keys) in ATTACKS.items() if keys.get("ecn")}
    return [(attack, "") for attack in ATTACKS if attack not in classic] + [("honest", lie) for lie in LIES]


def main() -> None:
    rounds, attacks, names = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    device = Veth()
    accurate = attacks == "accecn"
    asked = ask_for_accecn() if accurate else [(attack, "") for attack in attacks.split(",")]
    listeners, tries = listen(["reno", *names]), {}
    for n, (attack, lie) in enumerate(asked):
        before = {name: counters(name) for name in names}
        flows = play(device, listeners, ["reno", *names], attack, rounds, n, lie=lie, accurate=accurate)
        counted = {name: {key: n - before[name][key] for key, n in counters(name).items()} for name in names}
        tries[lie or attack] = {"flows": flows, "counters": counted}
    print(json.dumps({"tries": tries, "kernel": kernel_said()}))


main()
