# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Numbers, names and signs that the guest and the host have agreed on. The host imports them from here alone."""

import struct
from enum import Enum, StrEnum

FLOW_PORT = 61000  # client port of flow 0; outside the range of ephemeral ports
ECHO_PAYLOAD = 18  # bytes of a datagram by which the base RTT is measured
COMPARE_BYTES = 16 << 10  # a receiver that compares what arrives wakes for this much


def is_v6(addr: str) -> bool:
    return ":" in addr


def ip_udp(addr: str) -> int:
    """Bytes of the headers of a datagram to an address."""
    return 48 if is_v6(addr) else 28


class Fault(StrEnum):
    """The part of a run that failed, if the host goes on by it. Other failures have none."""

    NONE = ""
    REGISTER = "register"  # bpftool did not register an object
    SET = "set"  # asymcc did not set parameters while flows run
    COMMAND = "command"  # another command of asymcc
    FLOW = "flow"  # a sender or receiver ended
    AGENT = "agent"  # the agent itself
    MACHINE = "machine"  # the virtual machine


class Check(Enum):
    """A kind of row of the self-check: what is looked at, and the unit. With whose it is they make the row's `what`."""

    BASE_RTT = "base RTT", "us"
    FORWARD_RATE = "forward rate", "bit/s"
    REVERSE_RATE = "reverse rate", "bit/s"
    QUEUE = "queue of", "packets"
    RED = "queue of", "RED's bytes"
    CAKE = "queue of", "CAKE's"
    DISCIPLINE = "queue of", "as tc has it"
    NETEM = "losses and delays behind", "as netem has them"
    TRACE = "trace of", "packets at their time"
    DELAYS = "delays and losses of", "packets at their time"
    CARRIED = "at most carried by", "bytes"
    SLOTS = "groups of packets behind", "us"
    BURST = "trains of 0.99 and 1.01 bursts at", "those that lose packets"
    POLICED = "rate of the policer at", "bit/s"
    TUNNEL = "at least came by", "packets"
    OFFLOADS = "offloads that are on", ""
    MEMORY = "times that memory for TCP ran short", ""

    @property
    def unit(self) -> str:
        return self.value[1]

    def what(self, of: str = "") -> str:
        name = " ".join(filter(None, (self.value[0], of)))
        return f"{name}, {self.unit}" if self.unit else name

    @classmethod
    def read(cls, what: str) -> tuple["Check", str]:
        """The kind of a row, and whose it is. ValueError if it is of no kind."""
        for kind in cls:
            begin, end = kind.what("\0").split("\0") if kind.unit else (kind.what(), "")
            if what.startswith(begin) and what.endswith(end) and (end or what == begin):
                return kind, what[len(begin) : len(what) - len(end)]
        raise ValueError(f"{what[:60]!r} is no row of a self-check")


# The name of a controller, an object, a module, a parameter or a node: it becomes a path, or an argument of root's.
NAME = "[a-z0-9_]+"
OBJECT = NAME + "(:[A-Za-z_][A-Za-z0-9_.]{0,62})?"  # and, of an object with several controllers, the one that is meant
VALUE = r"-?[A-Za-z0-9_.]{1,64}"  # of a parameter
SYSCTL = r"net(\.[a-z0-9_-]+){2,}"  # what a network namespace has of its own

# The job comes in, and the results go out, through shared memory: a header (what it holds, how many bytes), then a tar.
HEADER, JOB, RESULTS = struct.Struct("<8sQ"), b"ASYMJOB1", b"ASYMLAB1"
STATUS = "status.json"  # of the agent's files: whether it made the run, or why not
SHARED = "/dev/asymlab"  # of User Mode Linux with our driver (machine/uml/shared.c): that memory
SAVE, BACK, BRANCH = 0xB1, 0xB2, 0xB3  # its calls: the kernel comes back to the first by the second; or to a branch
# A function of the guest's kernel: the guest calls it once it is ready for a job.
STOP = {"amd64": "__x64_sys_reboot", "arm64": "__arm64_sys_reboot"}
# The place at which amd64's kernel learns its timer's frequency, and the variable that holds it.
CLOCK_SET_UP, TIMER_PERIOD = "x86_late_time_init", "lapic_timer_period"
