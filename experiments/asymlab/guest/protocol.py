# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Numbers, names and signs that the guest and the host have agreed on. The host imports them from here alone."""

import struct

FLOW_PORT = 61000  # client port of flow 0; outside the range of ephemeral ports
IP_UDP = 28  # bytes of IPv4 and UDP header
ECHO_BYTES = 46  # of a datagram by which the base RTT is measured
COMPARE_BYTES = 16 << 10  # a receiver that compares what arrives wakes for this much

# Of controllers, their objects, modules and parameters, and of nodes: they become paths and root's arguments.
NAME = "[a-z0-9_]+"
VALUE = r"-?[A-Za-z0-9_.]{1,64}"  # of a parameter
SYSCTL = r"net(\.[a-z0-9_-]+){2,}"  # what a network namespace has of its own

# The job comes in, and the results go out, through shared memory: a header (what it holds, how many bytes), then a tar.
HEADER, JOB, RESULTS = struct.Struct("<8sQ"), b"ASYMJOB1", b"ASYMLAB1"
# Of the guest's kernel, by architecture: the guest calls it once it is ready for a job.
STOP = {"amd64": "__x64_sys_reboot", "arm64": "__arm64_sys_reboot"}
# Of amd64's kernel: where it learns its timer's frequency, and the variable that holds it.
CLOCK_SET_UP, TIMER_PERIOD = "x86_late_time_init", "lapic_timer_period"
