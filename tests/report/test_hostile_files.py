# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Results that somebody else gave, damaged: who reads them says so in one line, or takes them."""

from __future__ import annotations

import lzma
import os
import random
import shutil
import struct
import zlib
from pathlib import Path

import pytest

from asymlab import LabError
from asymlab.report import compare, papers, part, points, publish, published, records, tables
from tests.hostile import COUNT, changed, one_line_or_none
from tests.report.small import CLAIM, RUNS, everything, run, write, write_report
from tests.shared import REPO, asymlab

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["results.json", "claims.json", "samples.csv", "verdicts.json"])
def test_a_damaged_report(tmp_path, name):
    report = write_report(tmp_path / "report")
    whole, rng = (report / name).read_bytes(), random.Random(name)
    for _ in range(COUNT):
        (report / name).write_bytes(changed(whole, rng, name.endswith("json")))
        one_line_or_none(lambda: publish.publish(report, tmp_path / "kept"))
        one_line_or_none(
            lambda: compare.run(
                *(compare.load(report) for _ in "ab"), 0.05, True, tmp_path / "page.html", tmp_path / "page.json"
            )
        )
        shutil.rmtree(tmp_path / "kept", ignore_errors=True)


@pytest.mark.parametrize("inside", [True, False])
def test_damaged_published_results(tmp_path, inside):
    """The compressed file itself, and the text in it."""
    results = tmp_path / "results"
    file = results / "oneack" / records.DATA
    shutil.copytree(REPO / "docs" / "results" / "oneack", file.parent)
    whole, rng = file.read_bytes(), random.Random(inside)
    text = lzma.decompress(whole)
    page = (REPO / "docs" / "studies.md").read_text()
    for _ in range(COUNT // 2):
        file.write_bytes(lzma.compress(changed(text, rng, True), preset=0) if inside else changed(whole, rng, False))
        one_line_or_none(lambda: publish.write_front(results))
        one_line_or_none(lambda: published.write_page(results, tmp_path / "page.html"))
        (tmp_path / "studies.md").write_text(page)
        one_line_or_none(lambda: tables.write(results))


def test_a_small_file_that_stands_for_gigabytes(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "SIZE_MAX", 32 << 20)
    (tmp_path / records.DATA).write_bytes(lzma.compress(bytes(64 << 20), preset=0))
    with pytest.raises(LabError, match="results.json.xz: cut off, or larger than 33554432 bytes"):
        part.read(tmp_path)


def test_the_file_and_the_place_are_named(tmp_path):
    report = write_report(tmp_path / "report")
    (report / "verdicts.json").write_text('[{"id": {}}]')
    with pytest.raises(LabError, match=r"verdicts.json: not a report's results: 0.id: Input should be a valid string"):
        compare.load(Path(report))


@pytest.mark.parametrize("inside", [b"{}", b"[]", b"1"])
def test_a_small_file_that_stands_for_many_values(tmp_path, inside):
    """It is refused before they take memory."""
    text = b'{"format":3,"x":[' + (inside + b",") * ((24 << 20) // 3) + b"1]}"
    (tmp_path / records.DATA).write_bytes(lzma.compress(text, preset=0))
    with pytest.raises(LabError, match="results.json.xz: not JSON: more than 131072 objects, or 1048576 values"):
        part.read(tmp_path)


def test_what_is_published_is_far_from_the_bounds():
    for file in (REPO / "docs" / "results").glob(f"*/{records.DATA}"):
        text = records.unpacked(file)
        assert len(text) < records.SIZE_MAX / 50 and sum(map(text.count, b"{[,")) < records.VALUES_MAX / 50
        assert text.count(b"{") < records.OBJECTS_MAX / 20


def png(width: int, height: int, rows: int) -> bytes:
    """Black, with so many rows of those that it claims."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(bytes((1 + width) * rows))),
        (b"IEND", b""),
    ]
    packed = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\nshowpage\n"
FIGURES = {
    "PostScript": (lambda file: file.write_bytes(POSTSCRIPT), "no PNG of a figure: cannot identify image file"),
    "FIFO": (os.mkfifo, "not a regular file"),
    "endless": (lambda file: file.symlink_to("/dev/zero"), "not a regular file"),
    "large": (lambda file: os.truncate(os.open(file, os.O_CREAT | os.O_WRONLY), 1 << 30), "more than the 4194304"),
    "5000": (lambda file: file.write_bytes(png(5000, 5000, 9)), "no PNG of a figure: more than 16777216 pixels"),
    "10000": (lambda file: file.write_bytes(png(10000, 10000, 9)), "no PNG of a figure: Image size"),
    "20000": (lambda file: file.write_bytes(png(20000, 20000, 9)), "no PNG of a figure: Image size"),
    "torn": (lambda file: file.write_bytes(png(60, 60, 60)[:60]), "no PNG of a figure: "),
}


@pytest.mark.parametrize("kind", FIGURES)
def test_a_figure_that_is_none(tmp_path, monkeypatch, kind):
    """One line, nothing is written, and no program is started: PostScript would be handed to `gs`."""
    make, complaint = FIGURES[kind]
    file = figure(tmp_path)
    make(file)
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    before = everything(tmp_path / "docs")
    p = asymlab("publish", "--to", tmp_path / "docs" / "results", "--report", tmp_path / "report", timeout=60)
    assert p.returncode == 1 and p.stderr.startswith(f"asymlab: {file}: "), p.stderr
    assert complaint in p.stderr and p.stderr.count("\n") == 1
    assert everything(tmp_path / "docs") == before and not (tmp_path / "ran").exists()


def test_a_published_figure_that_is_none(tmp_path):
    shutil.copytree(REPO / "docs" / "results" / "fast", tmp_path / "results" / "fast")
    os.mkfifo(tmp_path / "results" / "fast" / "figures" / "fast-x.png")
    p = asymlab("report", "--published", "--from", tmp_path / "results", "--to", tmp_path / "p.html", timeout=60)
    assert p.returncode == 1 and "fast-x.png: not a regular file" in p.stderr and p.stderr.count("\n") == 1
    assert not (tmp_path / "p.html").exists()


def test_a_figure_of_one_pixel(tmp_path):
    figure(tmp_path).write_bytes(png(1, 1, 1))
    publish.publish(tmp_path / "report", tmp_path / "docs" / "results")
    assert [file.name for file in (tmp_path / "docs").rglob("*.png")] == ["fast-one.png"]


def figure(folder: Path) -> Path:
    """The place of a figure that a page shows."""
    file = write_report(folder / "report") / "figures" / "fast-one.png"
    file.unlink()
    (folder / "docs").mkdir()
    (folder / "docs" / "fast.md").write_text("![one](results/fast/figures/fast-one.png)")
    return file


NUMBERS = {
    "FIFO": (os.mkfifo, "not a regular file"),
    "endless": (lambda file: file.symlink_to("/dev/zero"), "not a regular file"),
    "many rows": (lambda file: file.write_text("panel,series,x,y,low,high\n" + "p,s,1,1,1,1\n" * 400_000), "values"),
    "no number": (lambda file: file.write_text("panel,series,x,y,low,high\np,{series},{x},inf,1,1\n"), "finite"),
    "no columns": (lambda file: file.write_text("panel\n1\n"), "row 1: no series"),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_figures_numbers_that_are_none(tmp_path, kind):
    make, complaint = NUMBERS[kind]
    name, place = points.NAME.findall((papers.folder("fusion") / "tables.md").read_text())[0]
    series, _, x = place.rpartition(" at ")
    report = write_report(tmp_path / "report")
    write(report, [CLAIM.model_copy(update={"paper": "fusion"})], RUNS, "fusion")
    file = report / "figures" / f"{name}.csv"
    make(file)
    if kind == "no number":
        file.write_text(file.read_text().format(series=series, x=x))
    p = asymlab("publish", "--to", tmp_path / "results", "--report", report, timeout=60)
    assert p.returncode == 1 and complaint in p.stderr and p.stderr.count("\n") == 1, p.stderr
    assert not (tmp_path / "results").exists()


def test_numbers_whose_difference_is_none(tmp_path):
    """They are finite, and the largest that there are."""
    both = []
    for name, sign in (("a", 1), ("b", -1)):
        runs = [run("X-1 reno", seed) for seed in (1, 2)]
        for at, one in enumerate(runs):
            one["metrics"]["goodput_bps"] = sign * 1.7e308 * (-1) ** at
        (tmp_path / name).mkdir()
        both.append(write(tmp_path / name, [CLAIM], runs))
    p = asymlab("compare", *both)
    assert p.returncode == 2 and p.stderr.count("\n") == 1 and "runs.0.metrics.goodput_bps" in p.stderr, p.stderr
