# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The wheel: its bytes, its files, and what an installation says from a folder where no tree is."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
import zlib

import pytest

from asymlab import LabError, needs
from asymlab.cage import CAGE
from asymlab.machine.image import open_image
from asymlab.machine.on_uml import joined
from asymlab.run import worker
from tests.machine.test_uml import MAY, hostile_image, needs_cage, prey
from tests.scenarios import SCENARIO
from tests.shared import BUILD, CAGES, REPO, one_line, run
from tests.wheel.conftest import build

# The package opens these in a clone alone: pages that commands write anew, and what is for tests.
CLONE = {"docs/scenarios.md", "docs/kernels.json", "docs/kernels.md", "docs/findings", "docs/results", "tests/verifier"}
VERSION = (REPO / "VERSION").read_text().strip()
BROUGHT, ENGINE = "asymlab/tree/build", "image/6.12-uml"
CANARY = "experiments/bench/cases.toml:canary"
needs_engine = pytest.mark.skipif(not (BUILD / ENGINE).exists(), reason="no image of the engine uml")
MAKEFILE = (REPO / "Makefile").read_text()


@pytest.fixture(scope="module")
def files(dist) -> dict[str, zipfile.ZipInfo]:
    """The wheel's, by their places in Python's folder."""
    with zipfile.ZipFile(dist["whl"]) as wheel:
        return {member.filename: member for member in wheel.infolist()}


def in_git(*folders: str) -> list[str]:
    listing = subprocess.check_output(["git", "ls-files", "-z", *folders], cwd=REPO, text=True)
    return [file for file in listing.split("\0")[:-1] if (REPO / file).exists()]


# --- what it is ----------------------------------------------------------------------------


def test_two_builds_have_the_same_bytes(dist, tmp_path):
    """The second is of a clone elsewhere, by a user of another umask. Nothing is compiled again."""
    tree = tmp_path / "a clone, elsewhere"
    for file in in_git("."):
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPO / file, tree / file, follow_symlinks=False)
        (tree / file).chmod(0o664 | (REPO / file).stat().st_mode)
    (tree / "build").mkdir()
    for part in (".deps", "asymcc", "loader", "static", "image/6.12-uml", *(f.name for f in BUILD.glob("*.bpf.o"))):
        if not (BUILD / part).exists():
            continue
        copy = shutil.copytree if (BUILD / part).is_dir() else shutil.copy2
        copy(BUILD / part, tree / "build" / part)
    again = build(tmp_path / "b", tree, umask=0o077)
    for kind, file in dist.items():
        assert file.name == again[kind].name
        assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(again[kind].read_bytes()).digest(), kind


def test_each_file_of_the_package_is_in_it(files):
    own = in_git("experiments/asymlab")
    assert len(own) > 150 and not [f for f in own if f.removeprefix("experiments/") not in files]


def test_so_are_scenarios_headers_and_what_is_built(files):
    parts = [f for f in in_git("bpf", "experiments") if not f.startswith("experiments/asymlab/")]
    assert len(parts) > 100 and not [f for f in parts if f"asymlab/tree/{f}" not in files]
    built = {f.removeprefix("asymlab/tree/build/") for f in files if f.startswith("asymlab/tree/build/")}
    built -= {f for f in built if f.startswith("image/")}
    assert built == {"asymcc", *(f.name.removesuffix("c") + "o" for f in REPO.glob("bpf/*/*.bpf.c"))}
    assert files["asymlab/tree/build/asymcc"].external_attr >> 16 & stat.S_IXUSR


def test_each_file_that_the_package_names_is_in_it(files):
    """Its sources name files by the tree's folders: REPO / "bpf" / "cflags"."""
    named = {}
    for file in (REPO / "experiments" / "asymlab").rglob("*.py"):
        for top, rest in re.findall(r'\b(REPO|EXPERIMENTS)((?: / "[^"]+")+)', file.read_text()):
            words = re.findall('"([^":]+)[^"]*"', rest)  # a case of a file stands behind a colon
            place = "/".join(["experiments"] * (top == "EXPERIMENTS") + words)
            named[place] = file.name
    assert len(named) > 10
    lacking = {
        place: by
        for place, by in named.items()
        if not any(f"{f}/".startswith(f"asymlab/tree/{place}/") for f in files) and place not in CLONE | {"build"}
    }
    assert not lacking


def test_nothing_else_is_in_it(files):
    """No compiled Python, no folder of this machine."""
    assert not [f for f in files if "__pycache__" in f or f.endswith(".pyc") or f.startswith("/") or ".." in f]
    known = {"asymlab", f"asymlab-{VERSION}.dist-info"}
    assert {f.split("/")[0] for f in files} == known
    assert {info.external_attr >> 16 & 0o777 for info in files.values()} <= {0o644, 0o755, 0o664}


def test_the_sources_have_all_that_make_needs(dist):
    with tarfile.open(dist["gz"]) as tar:
        names = [name.partition("/")[2] for name in tar.getnames()]
    wanted = in_git("bpf", "loader", "experiments", "packaging", "tests", "Makefile", "setup.py", "VERSION")
    assert len(wanted) > 500 and not set(wanted) - set(names)
    assert not [name for name in names if name.startswith("build/") or "__pycache__" in name]


def test_the_loader_needs_no_library(site):
    output = subprocess.run(["ldd", site / "asymlab/tree/build/asymcc"], capture_output=True, text=True)
    assert "not a dynamic executable" in output.stderr
    shown = subprocess.check_output([site / "asymlab/tree/build/asymcc", "--version"], text=True)
    assert VERSION in shown


def test_an_installation_reads_all_that_it_brings(installed):
    """Each scenario with its bases and traces, each paper's claims, the questions of a dossier, the templates."""
    code = """
import jinja2
from asymlab import paths
from asymlab.dossier import answers
from asymlab.plan import programs, scenario
from asymlab.report import html, papers, published

others = ("claims.toml", "kinds.toml", "Cargo.toml", programs.ALONG.name)
files = sorted(file for file in paths.EXPERIMENTS.rglob("*.toml") if file.name not in others)
assert {"iperf3", "web"} <= programs.along().keys()
cases = [case for file in files for case in scenario.load(file, "full")]
claims = [claim for name in papers.names() for claim in papers.claims(name)]
headings = answers.questions().headings("cubic")
templates = jinja2.Environment(loader=jinja2.FileSystemLoader(paths.TEMPLATES))
names = [name for name in templates.list_templates() if name.endswith(".j2")]
parsed = [templates.parse(templates.loader.get_source(templates, name)[0]) for name in names]
print(len(files), len(cases), len(claims), len(headings), len(parsed))
"""
    output = installed("-c", code)
    assert output.returncode == 0, output.stderr
    files, cases, claims, headings, templates = map(int, output.stdout.split())
    assert files > 20 and cases > 200 and claims > 200 and headings > 15 and templates == 6


# --- where an installation writes ----------------------------------------------------------


@pytest.mark.parametrize(
    "env, home",
    [
        ({"ASYMLAB_HOME": "/a/b", "XDG_CACHE_HOME": "/c"}, "/a/b"),
        ({"ASYMLAB_HOME": "", "XDG_CACHE_HOME": "/c"}, "/c/asymlab"),
        ({"ASYMLAB_HOME": "", "XDG_CACHE_HOME": "c", "HOME": "/d"}, "/d/.cache/asymlab"),
        ({"ASYMLAB_HOME": "", "HOME": "/d", "ASYMLAB_BUILD": "/e"}, "/d/.cache/asymlab"),
    ],
)
def test_where_images_and_runs_are_kept(installed, site, env, home):
    code = "from asymlab import paths; print(paths.IMAGES, paths.STORE, paths.BUILT)"
    output = installed("-c", code, env=env)
    assert output.stdout.split() == [f"{home}/image", f"{home}/store", f"{site}/asymlab/tree/build"], output.stderr


def test_the_store_may_be_elsewhere(installed, tmp_path):
    p = installed("-c", "from asymlab import paths; print(paths.STORE)", env={"ASYMLAB_STORE": str(tmp_path / "s")})
    assert p.stdout == f"{tmp_path}/s\n"


def test_a_clone_writes_into_build():
    from asymlab import paths

    assert not paths.INSTALLED and paths.BUILD == paths.BUILT == REPO / "build"


def test_scenarios_that_it_brings_are_found_by_their_names(installed):
    output = installed("run", "experiments/links/cases.toml:leo", "--engine", "qemu")
    one_line(output, "image 6.12: not made", "; `asymlab image --kernel 6.12` makes it")
    one_line(installed("run", "experiments/links/none.toml"), "experiments/links/none.toml: No such file")


def test_what_is_here_goes_first(installed):
    (installed.folder / "experiments/links").mkdir(parents=True)
    (installed.folder / "experiments/links/cases.toml").write_text("mine")
    one_line(installed("run", "experiments/links/cases.toml:leo"), "experiments/links/cases.toml: not TOML")


def test_nothing_is_left_in_the_folder(installed):
    (installed.folder / "a.toml").write_text(SCENARIO)
    assert installed("run", "a.toml", "--engine", "qemu").returncode == 1
    assert installed("reference").returncode == 0
    assert [f.name for f in installed.folder.iterdir()] == ["a.toml"]


# --- the engine that it brings --------------------------------------------------------------


@needs_engine
def test_it_has_the_clone_s_image(files, site):
    """Its kernel is a program, so it may run. The initramfs is compressed."""
    brought = {f.name: f.read_bytes() for f in (site / BROUGHT / ENGINE).iterdir()}
    packed = brought.pop("root.cpio.gz")
    assert brought | {"root.cpio": gzip.decompress(packed)} == {
        f.name: f.read_bytes() for f in (BUILD / ENGINE).iterdir()
    }
    assert files[f"{BROUGHT}/{ENGINE}/linux"].external_attr >> 16 & stat.S_IXUSR


@needs_engine
def test_a_packed_initramfs_is_read_as_the_clone_s(site, tmp_path):
    """A guest's with what a run adds, what a worker of another machine gets, and the check of the manifest."""
    plain = (BUILD / ENGINE / "root.cpio").read_bytes()
    guest = open_image("6.12-uml", site / BROUGHT / "image")
    guest.verify()
    for archives in ([], [b"more"]):
        assert joined(guest.folder / "root.cpio", archives, tmp_path / "a").read_bytes() == b"".join([plain, *archives])
    size, data = worker.pack_image(guest)["root.cpio"]
    assert size == len(plain) and zlib.decompress(data) == plain


@needs_engine
@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b[:99] + bytes(99) + b[198:], lambda b: b"x" + b])
def test_one_that_is_damaged_is_refused(site, tmp_path, damage):
    folder = shutil.copytree(site / BROUGHT / ENGINE, tmp_path / "6.12-uml")
    (folder / "root.cpio.gz").write_bytes(damage((folder / "root.cpio.gz").read_bytes()))
    with pytest.raises(LabError, match=r"root\.cpio: not what its manifest says"):
        open_image("6.12-uml", tmp_path).verify()


@needs_engine
@pytest.mark.lab
@pytest.mark.parametrize("cage", CAGES)
def test_it_runs_where_nothing_is_installed_with_the_bytes_of_a_clone(installed, tmp_path, cage):
    """Neither compiler nor root nor a tool of networks: util-linux, and what a cage needs."""
    (tmp_path / "bin").mkdir()
    for program in (*["bwrap"] * (cage == "bubblewrap"), *needs.PACKAGES["util-linux"]):
        (tmp_path / "bin" / program).symlink_to(shutil.which(program))
    code = "import os, sys; os.environ['PATH'] = sys.argv.pop(1); from asymlab.cli import main; main()"
    p = installed("-c", code, tmp_path / "bin", "run", CANARY)
    assert p.returncode == 0, p.stderr
    (record,) = (tmp_path / "home/store").glob("*/run.json")
    of_clone = run(f"{REPO}/{CANARY}", "6.12-uml").record
    assert json.loads(record.read_text())["result_sha256"] == of_clone["result_sha256"]
    assert [f.name for f in (tmp_path / "home").glob("image/*")] == []


@needs_engine
@needs_cage
@pytest.mark.parametrize("cage", CAGES)
def test_what_breaks_out_of_its_guest_sits_in_a_cage(installed, tmp_path, cage):
    """The tries of tests/machine, by the package's own files."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/shared").write_bytes(bytes(100))
    code = """
import sys
from pathlib import Path
from asymlab.machine import image, on_uml
guest = image.Image(Path(sys.argv[1]), image.NATIVE, "0.0", "uml", "0" * 64, {}, 10, "", 0)
process = on_uml.Process(guest, Path(sys.argv[2]))
process.await_end(30)
print(process.console().strip())
"""
    with prey(tmp_path) as words:
        folder = hostile_image(tmp_path / "image", cage, *words).folder
        p = installed("-c", code, folder, tmp_path / "run", env={CAGE: cage})
    did = {line.removeprefix("did: ") for line in p.stdout.splitlines()}
    assert did == MAY | {"tried all"}, p.stderr


@needs_engine
@pytest.mark.lab
def test_what_it_does_without_extras_is_said(installed):
    p = installed("run", CANARY)
    how = f"matplotlib: not installed; run: {sys.executable} -m pip install matplotlib"
    assert p.returncode == 0 and f"\nno page: {how}\n" in p.stderr and "result_sha256" in p.stderr, p.stderr
    one_line(installed("dossier", "cubic", "--engine", "uml"), how)
    one_line(installed("suite", "theorem", "--engine", "uml"), how)
    p = installed("run", CANARY, "--engine", "uml", "--fresh", "--scheduler", "tcp://127.0.0.1:1")
    one_line(p, "distributed: not installed; run: ")


@needs_engine
def test_an_image_that_it_brings_is_not_made_again(installed, tmp_path):
    p = installed("image", "--engine", "uml")
    assert p.returncode == 0 and "image 6.12-uml: the package brings it" in p.stdout, p.stderr
    assert not (tmp_path / "home/image").exists()


# --- what is missing -----------------------------------------------------------------------


def test_packages_are_those_of_the_makefile():
    own = re.search(r"^PACKAGES := ((?:.*\\\n)*.*)", MAKEFILE, re.M)[1].replace("\\", "").split()
    more = [
        word for name in ("uml", "arm64") for word in re.search(rf"^{name}_PACKAGES := (.*)", MAKEFILE, re.M)[1].split()
    ]
    assert set(needs.PACKAGES) <= {*own, *more}


def test_each_program_that_is_looked_for_is_of_a_package():
    groups = (needs.IMAGE, needs.UML_KERNEL, needs.COMPILING)
    assert all(needs.there(need) for group in groups for need in group if need in needs.OF)
    assert not {need for group in groups for need in group} - needs.OF.keys()


@pytest.mark.parametrize(
    "words, line, packages",
    [
        (("image",), "qemu-system-x86_64, qemu-img, tc, nft", ("qemu-system-x86", "qemu-utils", "iproute2", "bpftool")),
        (("image", "--engine", "uml", "--name", "mine"), "gcc, make, flex", ("dwarves", "gcc", "iproute2")),
    ],
)
def test_one_line_installs_what_is_missing(installed, tmp_path, words, line, packages):
    (tmp_path / "bin").mkdir()
    code = "import os, sys, asymlab; os.environ['PATH'] = sys.argv.pop(1); from asymlab.cli import main; main()"
    p = installed("-c", code, tmp_path / "bin", *words)
    one_line(p, line, "not installed; run: sudo apt-get install -y --no-install-recommends ", *packages)
    assert "make deps" not in p.stderr and not (tmp_path / "home/image").exists()


def test_a_home_that_cannot_be_written(installed):
    p = installed("image", env={"ASYMLAB_HOME": "/proc/asymlab"})
    one_line(p, "/proc/asymlab", "No such file or directory; ASYMLAB_HOME")


def test_a_disk_that_is_full(installed, tmp_path):
    home = tmp_path / "small"
    home.mkdir()
    fill = f'mount -t tmpfs -o size=16k none {home} && head -c 16384 /dev/zero >{home}/fill; exec "$@"'
    under = ("unshare", "-rm", "sh", "-c", fill, "sh")
    if subprocess.run([*under, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets no user mount")
    p = installed("image", env={"ASYMLAB_HOME": str(home)}, under=under)
    one_line(p, str(home), "No space left on device; ASYMLAB_HOME names another folder")


def test_an_image_for_another_machine_is_for_a_clone(installed):
    if not shutil.which("qemu-system-aarch64"):
        pytest.skip("no qemu-system-aarch64")
    p = installed("image", "--arch", "arm64")
    assert p.returncode == 1 and "asymcc: not built; the package was built for another machine" in p.stderr
