# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""packaging/asymcc.init: files are read as systemd reads them, each on its own; it stops what it started."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.live.harness import ASYMCC, ROOT, asymcc, kernel_has, listed, pytestmark, run, values  # noqa: F401
from tests.live.pairs import default, enter, routes
from tests.loader.settings import SETTINGS

INIT = ROOT / "packaging" / "asymcc.init"


@pytest.fixture
def conf(tmp_path):
    (tmp_path / "conf").mkdir()
    return tmp_path / "conf"


def init(pair, conf, what: str) -> subprocess.CompletedProcess:
    env = {"CONF": str(conf), "STARTED": str(conf.parent / "started"), "PATH": f"{ASYMCC.parent}:{os.environ['PATH']}"}
    return run(*enter(pair.client), "sh", INIT, what, env=env, check=False)


@pytest.mark.parametrize("text, words", SETTINGS)
def test_a_setting_has_the_words_that_systemd_gives_it(text, words, conf):
    """By systemd.exec(5), EnvironmentFile=, and systemd.service(5), Command lines."""
    (conf / "x.conf").write_text(text)
    done = run("sh", "-c", f'. {INIT}; words "$1" USE', "sh", conf / "x.conf")
    assert done.stdout.splitlines() == ["=" + w for w in words] and done.stderr == ""


def test_a_use_without_quotes_is_a_use(alias, conf, pair):
    name = alias()
    (conf / f"{name}.conf").write_text("OBJECT=fast\nLOAD=--set alpha=77\nUSE=--route 10.9.0.0/24\n")
    done = init(pair, conf, "start")
    assert done.returncode == 0, done.stderr
    assert values(name)["alpha"] == 77 and any(f"congctl {name}" in r for r in routes(pair))
    assert init(pair, conf, "stop").returncode == 0
    assert not kernel_has(name) and not any("congctl" in r for r in routes(pair))


def test_a_bad_file_keeps_no_other_from_starting(alias, conf, pair):
    """Words of a shell that do not end, an option that is none, a use that is refused; the last is good."""
    good = alias()
    for name, text in {
        "a1": "OBJECT=fast\nUSE='\n(\n",
        "a2": "LOAD=--nonsense\nOBJECT=fast",
        "a3": "OBJECT=fast\nUSE=--route nonsense",
        good: "OBJECT=fast\nUSE=--default",
    }.items():
        (conf / f"{name}.conf").write_text(text)
    try:
        assert init(pair, conf, "start").returncode == 1
        assert default(pair) == good and not kernel_has("a2") and not kernel_has("a3")
        init(pair, conf, "stop")
        assert not kernel_has(good) and default(pair) != good
    finally:
        for name in ("a1", "a2", "a3"):
            run(ASYMCC, "unload", name, "--drain", "--seconds", "0", check=False)


def test_stop_ends_what_start_began_and_nothing_else(alias, conf, pair, cgroup):
    """Not what others loaded by that name, nor what they thin; but what has no file any more."""
    own, theirs = alias(), alias()
    other = cgroup.path.with_name(cgroup.path.name + "-theirs")
    other.mkdir()
    try:
        asymcc("load", "fast", "--as", theirs)
        asymcc("thin", "--cgroup", other)
        (conf / f"{own}.conf").write_text("OBJECT=fast")
        (conf / f"{theirs}.conf").write_text("OBJECT=fast\nLOAD=--set alpha=33")
        (conf / "thin.conf").write_text(f"THIN=--cgroup {cgroup.path} --max 8")
        assert init(pair, conf, "start").returncode == 1  # theirs is there, with other values
        assert kernel_has(own) and "thin_egress" in cgroup.names()
        (conf / f"{own}.conf").unlink()
        assert init(pair, conf, "stop").returncode == 0
        assert not kernel_has(own) and kernel_has(theirs) and cgroup.names() == []
        asymcc("show", "thin", "--cgroup", other)
        assert init(pair, conf, "stop").returncode == 0  # again: nothing
    finally:
        run(ASYMCC, "thin", "--off", "--cgroup", other, check=False)
        other.rmdir()


@pytest.mark.parametrize("options", ["--cgroup {}", "--cgroup={} --max 8", "-c{}", "--max 8 -c {}"])
def test_the_unit_of_thinning_ends_its_own_alone(options, alias, cgroup):
    """ExecStop, as systemd gives it to the shell."""
    other = cgroup.path.with_name(cgroup.path.name + "-theirs")
    other.mkdir()
    unit = (ROOT / "packaging" / "asymcc-thin.service").read_text().replace("\\\n", " ").replace("@PREFIX@/sbin", "")
    (line,) = [x.removeprefix("ExecStop=") for x in unit.splitlines() if x.startswith("ExecStop=")]
    words = options.format(cgroup.path)
    try:
        for path in (cgroup.path, other):
            asymcc("thin", "--cgroup", path)
        command = line.replace("$THIN", words).replace("$$", "$").replace("/asymcc thin", f"{ASYMCC} thin")
        run("sh", "-c", command)
        assert cgroup.names() == []
        asymcc("show", "thin", "--cgroup", other)
    finally:
        run(ASYMCC, "thin", "--off", "--cgroup", other, check=False)
        other.rmdir()


def test_options_of_thinning_without_a_cgroup_mean_the_root(conf):
    (conf / "thin.conf").write_text("THIN=--reverse 200kbit")
    done = run("sh", "-c", f'. {INIT}; with "$1" THIN thinned', "sh", conf / "thin.conf")
    assert done.stdout.strip() and "cgroup" in done.stdout
