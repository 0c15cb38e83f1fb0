# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab packetdrill`: what it takes and refuses; and scripts of our own, where the user has built packetdrill
(ASYMLAB_PACKETDRILL) and made the image for it."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest

from asymlab import LabError
from asymlab.conformance.packetdrill import packetdrill
from asymlab.conformance.packetdrill.guest import check_program
from asymlab.machine import image
from asymlab.machine.image import IMAGES
from tests.shared import REPO, asymlab, one_line

BINARY = os.environ.get(packetdrill.BINARY) or shutil.which("packetdrill")
UML = ("packetdrill", "--engine", "uml")
there = pytest.mark.skipif(
    not (BINARY and (IMAGES / f"{packetdrill.LABEL}-uml" / "manifest.json").exists()),
    reason=f"no packetdrill or no image for it: {packetdrill.BINARY}=FILE make check-newest",
)

# A passive open whose SYN-ACK comes at once, and again after a second, because nobody answers.
SCRIPT = """\
`./defaults.sh`
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0
   +0 bind(3, ..., ...) = 0
   +0 listen(3, 1) = 0
   +0 < S 0:0(0) win 65535 <mss 1000,nop,wscale 7>
   +0 > S. 0:0(0) ack 1 <...>
   +%s > S. 0:0(0) ack 1 <...>
  +.1 < . 1:1(0) ack 1 win 257
   +0 accept(3, ..., ...) = 4
   +0 write(4, ..., 1000) = 1000
   +0 > P. 1:1001(1000) ack 1
"""


def write(folder, name: str, text: str):
    (folder / name).write_text(text)
    return folder / name


# --- scripts -------------------------------------------------------------------------------


def test_a_script_brings_what_it_and_its_helpers_name(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "tcp").mkdir()
    write(tmp_path / "common", "defaults.sh", "cat ./local; cat /etc/hostname ./none\n")
    write(tmp_path / "tcp", "local", "x")
    write(tmp_path / "tcp", "other", "y")
    write(tmp_path / "tcp", "a.pkt", "`../common/defaults.sh`\n")
    (one,) = packetdrill.drills([tmp_path])
    assert one.name == "tcp/a.pkt" and one.folder == "tcp" and one.file == "a.pkt"
    assert sorted(one.files) == ["scripts/common/defaults.sh", "scripts/tcp/a.pkt", "scripts/tcp/local"]


def test_a_link_lies_where_the_script_names_it(tmp_path):
    for folder in ("net", "tcp/sack", "tcp/common"):
        (tmp_path / folder).mkdir(parents=True)
    write(tmp_path / "net", "defaults.sh", "true\n")
    write(tmp_path / "tcp" / "sack", "a.pkt", "`../common/defaults.sh`\n")
    (tmp_path / "tcp" / "common" / "defaults.sh").symlink_to("../../net/defaults.sh")
    (one,) = packetdrill.drills([tmp_path])
    assert one.files == {"scripts/common/defaults.sh": b"true\n", "scripts/sack/a.pkt": b"`../common/defaults.sh`\n"}
    assert one.folder == "sack"
    with pytest.raises(LabError, match="names ../common/defaults.sh, which is outside of .*/tcp: give a folder"):
        packetdrill.drills([tmp_path / "tcp"])


@pytest.mark.parametrize("name", ["../secret", "./link", "../../../../../../../proc/kmsg", "./far/secret"])
def test_a_script_brings_no_file_from_outside_its_folder(tmp_path, name):
    """Whether it names one there, or by a link to a file or a folder; /proc/kmsg would be waited for."""
    (tmp_path / "given").mkdir()
    write(tmp_path, "secret", "mine")
    (tmp_path / "given/link").symlink_to(tmp_path / "secret")
    (tmp_path / "given/far").symlink_to(tmp_path)
    script = write(tmp_path / "given", "a.pkt", f"`cat {name}`\n")
    for path in (script, script.parent):
        with pytest.raises(LabError, match=f"a.pkt: names {name}, which is outside of .*/given: give a folder"):
            packetdrill.drills([path])


def test_a_script_that_is_a_link_to_outside_is_none(tmp_path):
    (tmp_path / "given").mkdir()
    (tmp_path / "given/a.pkt").symlink_to(write(tmp_path, "secret", "mine"))
    for path in (tmp_path / "given", tmp_path / "given/a.pkt"):
        with pytest.raises(LabError, match=r"a.pkt: a link to a file outside of .*/given: give the folder that has it"):
            packetdrill.drills([path])


def test_a_script_runs_in_each_mode_or_in_the_one_that_it_names(tmp_path):
    (any_, one) = packetdrill.drills(
        [write(tmp_path, "a.pkt", SCRIPT), write(tmp_path, "b.pkt", f"--ip_version=ipv6\n{SCRIPT}")]
    )
    assert any_.modes == ["ipv4", "ipv4-mapped-ipv6", "ipv6"] and one.modes == ["ipv6"]
    (four, six) = packetdrill.drills([write(tmp_path, f"c-{name}.pkt", SCRIPT) for name in ("ipv4", "v6")])
    assert four.modes == ["ipv4", "ipv4-mapped-ipv6"] and six.modes == ["ipv6"]


@pytest.mark.parametrize(
    "text, us",
    [
        (
            "a.pkt:9: error: x: timing error: expected outbound packet at 0.200000 sec but happened at 0.208250 sec",
            8250,
        ),
        ("timing error: expected system call return at 1.000000 sec but happened at 0.996000 sec; tolerance", 4000),
        ("timing error: expected inbound packet in time range 0.100000~0.200000 sec but happened at 0.200001 sec", 1),
        ("timing error: expected x in relative time range +0.1~+0.2 sec but happened at +0.050000 sec", 50000),
        ("a.pkt:9: runtime error in write call: Expected result 1 but got -1", None),
    ],
)
def test_how_much_a_failure_by_a_time_lacks(text, us):
    assert packetdrill.gap_us(text) == us


# --- what is refused -----------------------------------------------------------------------


def test_bad_input_is_one_line(tmp_path):
    script = write(tmp_path, "a.pkt", SCRIPT)
    text = write(tmp_path, "packetdrill", "#!/bin/sh\n")
    (tmp_path / "empty").mkdir()
    with_it = ("--packetdrill", text)
    one_line(asymlab(*UML, tmp_path / "none.pkt", *with_it), "none.pkt: No such file")
    one_line(asymlab(*UML, tmp_path / "empty", *with_it), "empty: no packetdrill script (*.pkt) in this folder")
    one_line(asymlab(*UML, script, *with_it), f"--packetdrill {text}: no program of amd64")
    one_line(asymlab(*UML, script, "--packetdrill", tmp_path / "no"), f"{tmp_path}/no: No such file", "docs/testing.md")
    one_line(asymlab("packetdrill", script, "--engine", "qemu"), "is for the engine uml")
    one_line(asymlab(*UML, script, env={"PATH": "/usr/bin", packetdrill.BINARY: ""}), "packetdrill: not found")


def test_an_image_that_is_not_made_is_named_with_its_command(monkeypatch, tmp_path):
    monkeypatch.setattr(image, "IMAGES", tmp_path)
    with pytest.raises(
        LabError, match="newest-packetdrill-uml: not made; `.* --config experiments/kernels/packetdrill.config`"
    ):
        packetdrill.image(None)


def test_a_program_of_another_machine_is_none(tmp_path):
    arm = tmp_path / "arm"
    arm.write_bytes(b"\x7fELF\2\1\1" + bytes(9) + b"\2\0\xb7\0")
    with pytest.raises(LabError, match="no program of amd64"):
        check_program(arm)


# --- in the guest --------------------------------------------------------------------------


@pytest.fixture
def ran(tmp_path):
    """Runs scripts: what the command's JSON says of each, and its exit code."""

    def run(*argv):
        write(tmp_path, "defaults.sh", "#!/bin/bash\nsysctl -q net.ipv4.tcp_ecn=0\n").chmod(0o755)
        p = asymlab(*UML, *argv, "--packetdrill", BINARY, "--jobs", 1, "--json", tmp_path / "out.json")
        assert (tmp_path / "out.json").exists(), p.stderr
        return json.loads((tmp_path / "out.json").read_text())["tests"], p.returncode

    return run


@there
@pytest.mark.lab
def test_a_script_passes_to_the_microsecond_in_each_mode_with_the_same_bytes(ran, tmp_path):
    """But for the kernel's timer, which ends with a tick. No call takes time, and the sleep of 0.1 s ends when it
    should."""
    tests, code = ran(write(tmp_path, "a.pkt", SCRIPT % "1"), "--repeat", 3, "--keep", tmp_path / "kept")
    assert [(t["mode"], t["verdict"]) for t in tests] == [(mode, "pass") for mode in packetdrill.MODES], tests
    assert code == 0 and all(t["runs"] == 3 for t in tests)
    for mode in packetdrill.MODES:
        text = (tmp_path / "kept" / f"a.pkt.{mode}").read_text()
        syn, syn_ack, again, ack, data = (round(float(t) * 1e6) for t in re.findall(r"packet: +([\d.]+) ", text))
        assert (syn, syn_ack, ack - again, data - ack) == (0, 0, 100_000, 0)


@there
@pytest.mark.lab
def test_a_script_that_is_wrong_by_a_time_says_by_how_much(ran, tmp_path):
    """The SYN-ACK comes again after a second, or at the next multiple of 64 ticks: a timer so far off has no other."""
    tests, code = ran(write(tmp_path, "a.pkt", f"--ip_version=ipv4\n{SCRIPT % '2'}"), "--needs")
    assert (
        code == 1 and tests[0]["verdict"] == "fail" and "timing error: expected outbound packet" in tests[0]["reason"]
    )
    assert 1_000_000 - 65_000 <= tests[0]["needs_us"] <= 1_000_000


@there
@pytest.mark.lab
def test_the_script_of_the_page_passes_with_the_controller_that_it_names_and_not_without(ran, tmp_path):
    page = (REPO / "docs" / "testing.md").read_text()
    lines = re.search(r"^Save this as `fast.pkt`:\n\n((?:    .*\n)+)", page, re.M)
    file = write(tmp_path, "fast.pkt", "".join(line[4:] for line in lines[1].splitlines(keepends=True)))
    assert [t["verdict"] for t in ran(file, "--controller", "fast")[0]] == ["pass"] * 3
    assert [t["verdict"] for t in ran(file)[0]] == ["fail"] * 3


@there
@pytest.mark.lab
@pytest.mark.skipif(not (IMAGES / "6.12-uml" / "manifest.json").exists(), reason="no image: make image ENGINE=uml")
def test_a_kernel_that_cannot_run_scripts_is_named(tmp_path):
    p = asymlab(*UML, write(tmp_path, "a.pkt", SCRIPT % "1"), "--packetdrill", BINARY, "--image", "6.12")
    one_line(p, "image 6.12-uml: its kernel has no CONFIG_TUN", "docs/testing.md")
