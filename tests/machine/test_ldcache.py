# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The dynamic linker's cache of a guest: as ldconfig's, and no look at the CPU's level."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from asymlab.machine import build, ldcache
from asymlab.machine.arch import NATIVE
from asymlab.machine.cpio import Cpio

OWN = Path("/etc/ld.so.cache")


def listed(cache: Path) -> list[str]:
    """The lines that ldconfig reads in a cache, a library each."""
    out = subprocess.run(["/sbin/ldconfig", "-p", "-C", str(cache)], capture_output=True, text=True, check=True).stdout
    return [line.strip() for line in out.splitlines() if "=>" in line]


@pytest.mark.skipif(not OWN.exists(), reason="this machine has no ld.so.cache")
def test_it_is_as_ldconfig_writes_it(tmp_path):
    paths = [line.rsplit("=> ", 1)[1] for line in listed(OWN) if "x86-64)" in line or "AArch64)" in line]
    cache = tmp_path / "cache"
    cache.write_bytes(ldcache.pack([path.lstrip("/") for path in reversed(paths)], NATIVE))
    assert [line.rsplit("=> ", 1)[1] for line in listed(cache)] == paths


def test_digits_are_compared_as_numbers():
    names = ["lib.so", "liba2.so", "liba10.so", "libc++.so.1", "libc.so.6", "libc.so.10"]
    assert sorted(reversed(names), key=ldcache.order) == names


@pytest.mark.skipif(not (shutil.which("bwrap") and shutil.which("strace")), reason="no bubblewrap, or no strace")
def test_the_linker_of_a_guest_asks_for_no_level_of_the_cpu(tmp_path):
    """It would look for glibc-hwcaps/x86-64-v4, -v3, -v2 by what this CPU has, and each failure takes time."""
    guest, root, trace = Cpio(), tmp_path / "root", tmp_path / "trace"
    build.add_userland(guest, {}, NATIVE)
    for name, (mode, data, _) in guest.entries.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISREG(mode):
            place.write_bytes(data)
            place.chmod(mode & 0o777)
        elif stat.S_ISLNK(mode):
            place.symlink_to(data.decode())
    caged = ["bwrap", "--unshare-all", "--clearenv", "--ro-bind", str(root), "/", "/usr/bin/tc", "-V"]
    p = subprocess.run(["strace", "-f", "-o", str(trace), *caged], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0 and "iproute2" in p.stdout, p.stderr
    calls = trace.read_text().splitlines()
    assert any("/etc/ld.so.cache" in line and " = 3" in line for line in calls)
    assert not [line for line in calls if "glibc-hwcaps" in line]
