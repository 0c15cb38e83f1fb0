# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab selftests`: what it takes and refuses, how a test is judged; and the kernel's tests, where its source lies
here."""

from __future__ import annotations

import os
import subprocess

import pytest

from asymlab.conformance.kernels.outcome import Skip
from asymlab.conformance.selftests.selftests import FOLDER, RUNNER, judged
from asymlab.machine.image import IMAGES
from asymlab.machine.uml.source import TREES
from tests.shared import asymlab, one_line

SAID = b"""\
test_a:PASS:load 0 nsec
ok 1 dctcp
settcpca:FAIL:setsockopt unexpected setsockopt: actual -1 == expected -1
do_test:FAIL:send_recv_data unexpected error: -5
not ok 2 cubic
no module
ok 3 cc_cubic # SKIP
1..3
"""
UML = ("selftests", "--engine", "uml")
SOURCES = sorted(TREES.glob("linux-source-7.*/.unpacked"))


def files(stdout: bytes = SAID, stderr: bytes = b"", code: bytes = b"1") -> dict[str, bytes]:
    return {"stdout": stdout, "stderr": stderr, "code": code}


def test_each_subtest_is_judged_with_its_own_failures():
    test = judged("bpf_tcp_ca", [files()])
    assert test.outcome == "1 of 3 failed"
    good, bad, skipped = test.inner
    assert (good.what, bad.what, skipped.what) == ("dctcp", "cubic", "cc_cubic") and good.outcome is None
    first, second = str(bad.outcome).split("; ")
    assert first.startswith("settcpca:FAIL:") and second == "do_test:FAIL:send_recv_data unexpected error: -5"
    assert isinstance(skipped.outcome, Skip) and str(skipped.outcome) == "no module"


def test_one_that_crashes_has_failed():
    test = judged("x", [files(SAID[: SAID.index(b"settcpca")], b"selftest: no memory\n", b"-11")])
    assert test.outcome and (test.inner[-1].what, test.inner[-1].outcome) == (
        "comes to its end",
        "exit -11: selftest: no memory",
    )


def test_runs_that_differ_have_failed():
    good = SAID.replace(b"not ok", b"ok")
    same, other = [files(good, code=b"0")] * 3, [files(good, code=b"0"), files(good, b"x", b"0")]
    assert judged("x", same).outcome is None and judged("x", same).inner[-1].what == "3 runs say the same"
    assert judged("x", other).inner[-1].outcome == "2 different outputs"


@pytest.mark.parametrize(
    "body, text, code",
    [
        ('test__start_subtest("a"); test__start_subtest("b"); test__fail();', "ok 1 a\nnot ok 2 b\n1..2\n", 1),
        ("", "ok 1 test_it\n1..1\n", 0),
        ("test__fail();", "not ok 1 test_it\n1..1\n", 1),
        ('test__start_subtest("a"); test__end_subtest(); test__fail();', "ok 1 a\nnot ok 2 test_it\n1..2\n", 1),
        ('test__start_subtest("a"); test__skip();', "ok 1 a # SKIP\n1..1\n", 0),
    ],
)
def test_the_program_around_a_test_tells_how_each_ended(tmp_path, body, text, code):
    declared = "bool test__start_subtest(const char *name);\nvoid test__end_subtest(void);\n"
    declared += "void test__skip(void);\nvoid test__fail(void);\n"
    header = "#include <stdbool.h>\n#include <stdio.h>\n#define MAX_SUBTEST_NAME 1024\nstruct test_env { int x; };\n"
    (tmp_path / "test_progs.h").write_text(header + declared)
    (tmp_path / "it.c").write_text(f'#include "test_progs.h"\nvoid test_it(void) {{ {body} }}\n')
    argv = ["gcc", f"-I{tmp_path}", "-DTEST=test_it", RUNNER, tmp_path / "it.c", "-o", tmp_path / "it"]
    subprocess.run(argv, check=True)
    p = subprocess.run([tmp_path / "it"], capture_output=True, text=True)
    assert (p.stdout, p.returncode) == (text, code)


# --- what is refused -----------------------------------------------------------------------

there = pytest.mark.skipif(
    not (SOURCES and (IMAGES / "newest-uml" / "manifest.json").exists()),
    reason="no image of Linux 7, or not its source: make check-newest",
)


def test_bad_input_is_one_line(tmp_path):
    one_line(asymlab("selftests", tmp_path, "--engine", "qemu"), "selftests: is for the engine uml")
    one_line(asymlab(*UML, tmp_path, "--image", "none"), "image none-uml: not made")


@there
def test_a_folder_that_has_none_is_named(tmp_path):
    one_line(asymlab(*UML, tmp_path), f"{tmp_path}: no source of a kernel with {FOLDER}")
    tree = SOURCES[0].parent
    one_line(asymlab(*UML, tree, "--test", "x/../y"), "--test x/../y: there is no", FOLDER)


# --- in the guest --------------------------------------------------------------------------


@there
@pytest.mark.lab
def test_the_kernels_own_tests_pass_with_the_same_bytes():
    p = asymlab(*UML, SOURCES[0].parent, "--jobs", 1, "--repeat", 2)
    assert p.returncode == 0 and "  ok 2 cubic\n" in p.stdout, p
    assert "2 runs say the same\nok 1 bpf_tcp_ca\n" in p.stdout


@there
@pytest.mark.lab
def test_a_program_that_does_wrong_fails_its_subtest_alone(tmp_path):
    """A source whose update is for nothing: what the second controller counts stays 0."""
    tree, own = SOURCES[0].parent, tmp_path / "linux"
    (own / FOLDER / "progs").mkdir(parents=True)
    place, real = own, tree
    for part in (*FOLDER.split("/"), "progs"):
        place, real = place / part, real / part
        for file in real.iterdir():
            if not (place / file.name).exists():
                os.symlink(file, place / file.name)
    prog = own / FOLDER / "progs" / "tcp_ca_update.c"
    text = prog.read_text()
    assert text.count("ca2_cnt++") == 1
    prog.unlink()
    prog.write_text(text.replace("ca2_cnt++", ""))
    p = asymlab(*UML, own, "--jobs", 1)
    wrong = [line for line in p.stdout.splitlines() if line.startswith("  not ok")]
    assert p.returncode == 1 and len(wrong) == 1 and wrong[0].endswith(" update_ca"), p.stdout
    assert "test_update_ca:FAIL:ca2_ca2_cnt unexpected ca2_ca2_cnt" in p.stdout
