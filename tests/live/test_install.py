# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The installed files on this machine's kernel: a controller is loaded from its place, and a removal takes it out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.live.harness import ROOT, pytestmark  # noqa: F401
from tests.loader.test_install import prefix, run  # noqa: F401


def test_installed_loads(prefix):
    name = f"inst_{os.getpid()}"
    asymcc = prefix / "sbin/asymcc"
    run(asymcc, "load", "fast", "--as", name, "--set", "alpha=77", cwd="/")
    try:
        assert "77" in run(asymcc, "show", name, cwd="/").stdout
    finally:
        run(asymcc, "unload", name, cwd="/")


@pytest.mark.parametrize(
    "what, where, leaves",
    [
        ("remove", "systemd", False),
        ("remove", "no systemd", False),
        ("remove", "chroot", True),
        ("upgrade", "systemd", True),
        ("upgrade", "no systemd", True),
    ],
)
def test_removal_takes_out_what_was_begun_by_hand(what, where, leaves, tmp_path):
    """With the default back; an upgrade leaves it, and so does a chroot, whose kernel is the machine's.

    The script hears nothing of other tests' controllers.
    """
    asymcc, name, netns = ROOT / "build/asymcc", f"hand_{os.getpid()}", f"hand{os.getpid()}"
    within = f"nsenter --net=/run/netns/{netns}"
    for tool, body in {
        "asymcc": f'if [ "$1" = list ]; then {asymcc} list | grep -E "^NAME|^{name} "; '
        f'elif [ "$1$2" = "thin--off" ]; then exec {within} {asymcc} thin --off --dev d0; else exec {asymcc} "$@"; fi',
        "systemctl": "exit 0",
    }.items():
        (tmp_path / tool).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / tool).chmod(0o755)
    (tmp_path / "root").mkdir()
    before = {
        "systemd": "mkdir -p /run/systemd && mount -t tmpfs none /run/systemd && mkdir /run/systemd/system &&",
        "no systemd": "mkdir -p /run/systemd && mount -t tmpfs none /run/systemd &&",
        "chroot": f"mount -t tmpfs none {tmp_path}/root && cd {tmp_path}/root && mkdir $(ls /) && "
        "for d in $(ls /); do mount --rbind /$d $d 2>/dev/null; done; chroot .",
    }[where]
    prerm = f"{before} sh {ROOT}/packaging/prerm {what}; exit $?"  # pid 1 is the outer shell

    def default() -> str:
        return run("ip", "netns", "exec", netns, "sysctl", "-n", "net.ipv4.tcp_congestion_control").stdout.strip()

    run("ip", "netns", "add", netns)
    try:
        run("ip", "-n", netns, *"link add d0 type veth peer name d1".split())
        original = default()
        run(asymcc, "load", "fast", "--as", name)
        run(*within.split(), asymcc, "use", name, "--default")
        run(*within.split(), asymcc, "thin", "--dev", "d0")
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = run("unshare", *"-mpf --mount-proc sh -c".split(), prerm, env=env)
        there = name in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
        assert there == leaves and default() == (name if there else original)
        assert (f"{name} unloaded; taken back from default of netns {netns}" in done.stdout) != leaves
        thinned = run(*within.split(), asymcc, "thin", "--off", "--dev", "d0").stdout
        assert thinned.startswith("ACKs are no longer thinned" if leaves else "no ACKs are thinned")
    finally:
        run(asymcc, "unload", name, "--drain", "--seconds", "0", check=False)
        run("ip", "netns", "del", netns)
