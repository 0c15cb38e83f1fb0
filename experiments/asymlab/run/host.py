# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs in namespaces of this machine's own kernel, as root, in real time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from .. import LabError
from ..guest import agent
from ..guest.protocol import STATUS
from ..guest.wire import dump
from ..machine import shared
from ..machine.files import scratch
from ..paths import BUILT
from ..results import store
from . import relay
from .tasks import Task


def execute_on_host(task: Task) -> store.Run:
    """The same agent on this machine's kernel, as root, in real time. Never taken from the store."""
    if os.geteuid() != 0:
        raise LabError("--on host: not root: namespaces and BPF need it")
    identity = {"host": os.uname().release, "at": time.time_ns(), "job": dump(task.job)}
    key = store.key_of(identity)
    with scratch("host-") as tmp:
        job, out = tmp / "job.json", tmp / "out"
        job.write_text(json.dumps(dump(task.job)))
        objects = tmp / "objects"
        objects.mkdir()
        for name, data in task.objects.items():
            (objects / name).parent.mkdir(parents=True, exist_ok=True)
            (objects / name).write_bytes(data)
        for file in BUILT.glob("*.bpf.o"):  # the tools, too
            if file.name not in task.objects:
                (objects / file.name).symlink_to(file)
        out.mkdir()
        env = {**os.environ, "PATH": f"{BUILT}:{os.environ['PATH']}"}
        began = time.monotonic()
        p = subprocess.Popen(
            [
                *"setpriv --pdeathsig TERM".split(),
                sys.executable,
                "-P",
                "-m",
                agent.__name__,
                *map(str, (job, out, objects)),
                *(sys.executable, "-P", "-m", relay.__name__),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )
        try:
            _, errors = p.communicate(timeout=task.job.duration_s * 2 + 120)
        except subprocess.TimeoutExpired:
            raise LabError(f"{task.name}: no end after {task.job.duration_s * 2 + 120:.0f} s") from None
        finally:
            if p.poll() is None:
                p.terminate()  # it takes its namespaces down
                try:
                    p.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    p.kill()
        if p.returncode:
            words = errors.strip().splitlines()
            status = out / STATUS
            error = shared.failed(status.read_bytes()) if status.exists() else None
            reason = error or (words[-1] if words else f"agent ended with {p.returncode}")
            raise LabError(f"{task.name}: {reason}", error.kind if error else "")
        files = {f.name: f.read_bytes() for f in out.iterdir()}
    about = task.made("host") | {"wall_s": round(time.monotonic() - began, 2)}
    return store.save(key, identity, about, files)
