# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`python3 -m asymlab.guest.agent JOB OUT OBJECTS RELAY...`: one experiment on a live host, as root.

RELAY is the program of a Relay (host.py). One line on failure.
"""

import json
import os
import signal
import sys

from .host import HostRecord
from .job import Job
from .protocol import STATUS
from .run import run
from .system import SIGNALS, Failure
from .wire import load


def main(file: str, out: str, objects: str, *relay: str) -> None:
    with open(file) as f:
        job = load(Job, f.read(), "job")
    record, prefix = HostRecord(list(relay)), f"asymlab-{os.getpid()}-"
    record.take_back()  # of a run that was killed
    record.begin(prefix)
    try:
        run(job, out, objects, prefix, record)
    finally:
        record.take_back()


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    for s in SIGNALS:
        signal.signal(s, interrupt)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the agent sleeps
    try:
        main(*sys.argv[1:])
    except BlockingIOError:
        sys.exit("another experiment runs on this host; wait for its end")
    except Failure as e:
        with open(f"{sys.argv[2]}/{STATUS}", "w") as f:
            json.dump(e.status, f)
        sys.exit(str(e))
    except KeyboardInterrupt:
        sys.exit("interrupted")
