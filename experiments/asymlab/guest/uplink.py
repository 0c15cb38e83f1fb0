# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc uplink`, which runs beside the flows."""

import select
from typing import IO

from .job import Job
from .job import Uplink as Spec
from .net import Namespaces
from .protocol import Fault
from .system import Failure
from .tracer import start

BEGIN_S = 60
LOG = "uplink.txt"  # a line each tick


class Uplink:
    """`asymcc uplink` on a node's device, ahead of the modem that a hop's queue stands for."""

    out: IO[str]

    def __init__(self, job: Job, ns: Namespaces, objects: str, spec: Spec, log: str) -> None:
        """The command stands in the place of the device's own queue."""
        node = job.node_of(spec.dev)
        (end,) = (end for end in job.ends if end.dev == spec.dev)
        if next((queue.kind for queue in ns.queues([end])[spec.dev] if queue.root), "noqueue") != "noqueue":
            ns.tc(node, [f"qdisc del dev {spec.dev} root"])
        with ns.enter(node):
            argv = ["asymcc", "--objects", objects, "uplink", "--dev", spec.dev, "--log", log, *spec.options]
            self.process = start(argv)
        assert self.process.stdout
        self.out = self.process.stdout
        select.select([self.out], [], [], BEGIN_S)
        line = self.out.readline().strip()
        if not line.startswith("dev "):
            self.close()
            raise Failure(f"asymcc uplink: {line or 'ended at once'}", Fault.COMMAND)

    def check(self) -> None:
        if self.process.poll() is not None:
            raise Failure(f"asymcc uplink ended: {self.out.read().strip()}", Fault.COMMAND)

    def close(self) -> None:
        """It puts back what stood there."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self.out.close()
