# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The folder of a version to publish."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.shared import BUILD, REPO

VERSION = (REPO / "VERSION").read_text().strip()
MANIFEST = "asymlab/tree/build/image/6.12-uml/manifest.json"


def release(folder: Path, files: list[Path], tree: Path = REPO, umask: int = 0o022) -> subprocess.CompletedProcess:
    command = ["packaging/release.sh", sys.executable, folder, *files]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, umask=umask, timeout=120)


@pytest.fixture(scope="module")
def folder(dist, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "a"
    p = release(folder, list(dist.values()))
    assert p.returncode == 0, p.stderr
    return folder


def test_two_releases_have_the_same_bytes(folder, dist, tmp_path):
    assert release(tmp_path / "b", list(dist.values()), umask=0o077).returncode == 0
    names = {file.name for file in folder.iterdir()}
    assert names == {file.name for file in (tmp_path / "b").iterdir()}
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
        assert (tmp_path / "b" / name).stat().st_mode & 0o777 == 0o644


def test_the_sums_are_of_all_files(folder):
    p = subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=folder, capture_output=True, text=True)
    assert p.returncode == 0, p.stdout
    assert {line.partition(":")[0] for line in p.stdout.splitlines()} == {f.name for f in folder.iterdir()} - {
        "SHA256SUMS"
    }


def test_the_bill_has_each_file_of_the_guest_that_others_made(folder, dist):
    bill = json.loads((folder / "sbom.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", VERSION)
    names = {part["name"] for part in bill["components"]}
    assert {"libbpf-dev", "libelf-dev"} <= names and any(name.startswith("numpy") for name in names)
    if not (BUILD / "image/6.12-uml").exists():
        pytest.skip("no image of the engine uml")
    with zipfile.ZipFile(dist["whl"]) as wheel:
        parts = json.loads(wheel.read(MANIFEST))["parts"]
    of_others = {f: p["sha256"] for f, p in parts.items() if p["version"] != "this tree" and f != "config"}
    files = [file for part in bill["components"] for file in part.get("components", ())]
    assert {file["name"]: file["hashes"][0]["content"] for file in files} == of_others
    assert {"linux-source-6.12", "iproute2"} <= names and len(of_others) > 20


def test_the_feed_has_what_it_is_built_from(folder):
    with tarfile.open(folder / f"asymcc-{VERSION}-openwrt.tar.gz") as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert {
        "packaging/openwrt/asymcc/Makefile",
        "loader/main.c",
        "bpf/tools/thin_router.bpf.c",
        "VERSION",
        "LICENSE",
    } <= names


def test_notes_are_those_of_the_version(folder, dist, tmp_path):
    text = (folder / "NOTES.md").read_text()
    assert text.startswith(f"asymcc {VERSION}\n") and "\n## " not in text and len(text.split()) > 100
    tree = tmp_path / "tree"
    shutil.copytree(REPO / "packaging", tree / "packaging")
    shutil.copy2(REPO / "CHANGELOG.md", tree)
    (tree / "VERSION").write_text("9.9.9\n")
    p = release(tmp_path / "c", list(dist.values()), tree)
    assert p.returncode == 1 and p.stderr == (
        'release: CHANGELOG.md has no heading "## 9.9.9": write what this version brings\n'
    )
    assert not (tmp_path / "c").exists()
