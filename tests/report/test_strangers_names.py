# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Names in a stranger's report, or results, that would be a path, an option of git or an image: one line, no file."""

from __future__ import annotations

import json

import pytest

from asymlab import LabError
from asymlab.machine.image import open_image
from asymlab.report import publish
from asymlab.run import registered
from tests.report.small import everything, repack, write_report
from tests.shared import asymlab

pytestmark = pytest.mark.slow

PATHS = ["../victim", "../../../../victim", "/tmp/victim", "", ".", "..", "a/b", "a\0b", "-rf", "*", "a" * 300]
COMMITS = ["--output=/tmp/written", "-O/tmp/written", "HEAD", "0123456789ab..main", "", "0123456+x"]


def changed(file, change) -> None:
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


@pytest.fixture
def report(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "letter").write_text("dear")
    return write_report(tmp_path / "report")


def refused(report, tmp_path) -> str:
    """The one line of `asymlab publish`, which leaves all as it was."""
    before = everything(tmp_path)
    p = asymlab("publish", "--to", tmp_path / "kept", "--report", report)
    assert p.returncode == 1 and p.stderr.count("\n") == 1 and everything(tmp_path) == before, p.stderr
    return p.stderr


@pytest.mark.parametrize("name", PATHS)
def test_a_suite(report, tmp_path, name):
    changed(report / "results.json", lambda r: r.update(papers={name: r["papers"]["fast"]}))
    assert "is no name of a suite" in refused(report, tmp_path)


def test_the_suite_of_a_claim(report, tmp_path):
    changed(report / "claims.json", lambda claims: claims[0].update(paper="../victim"))
    assert "claims.json: not a report's results: 0.paper: '../victim' is no name of a suite" in refused(
        report, tmp_path
    )


@pytest.mark.parametrize("name", COMMITS[:-2])
@pytest.mark.parametrize("where", ["registered", "commit"])
def test_a_commit(report, tmp_path, where, name):
    def change(results):
        (results["runs"][0]["provenance"] if where == "registered" else results)[where] = name

    changed(report / "results.json", change)
    assert "is no commit" in refused(report, tmp_path)


def test_an_image_and_a_key(report, tmp_path):
    whole = (report / "results.json").read_text()
    changed(report / "results.json", lambda r: r.update(image_name="../../victim"))
    assert "'../../victim' is no name of an image" in refused(report, tmp_path)
    (report / "results.json").write_text(whole)
    changed(report / "results.json", lambda r: r["runs"][0].update(key="../victim"))
    assert "'../victim' is no key of a run" in refused(report, tmp_path)


@pytest.mark.parametrize(
    "member, value, noun",
    [
        ("image_name", "../../victim", "name of an image"),
        *(("registered", [name], "commit") for name in COMMITS),
        ("commits", ["--upload-pack=x"], "commit"),
    ],
)
def test_published_results(report, tmp_path, member, value, noun):
    publish.publish(report, tmp_path / "kept")
    repack(tmp_path / "kept" / "fast", lambda data: data["about"].update({member: value}))
    p = asymlab("repeat", "fast", "--from", tmp_path / "kept")
    assert p.returncode == 2 and p.stderr.count("\n") == 1 and f"is no {noun}" in p.stderr


@pytest.mark.parametrize("name", PATHS)
def test_an_image_that_anybody_names(name):
    with pytest.raises(LabError, match="a name has letters, digits"):
        open_image(name)


def test_git_takes_no_option(tmp_path):
    """Even where no type of ours has looked at the word."""
    assert registered.later(f"--output={tmp_path / 'x'}", tmp_path) == []
    assert not list(tmp_path.iterdir())
