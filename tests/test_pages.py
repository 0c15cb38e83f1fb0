# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The pages: few and short, each link leads somewhere, and each sentence has a line of its own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

from asymlab.report.tables import TABLE
from tests.shared import REPO

LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
PAGES = sorted(subprocess.check_output(["git", "ls-files", "*.md"], cwd=REPO, text=True).split())
WRITTEN = [page for page in PAGES if not page.startswith("docs/results/")]  # the others are output
MOST_PAGES, MOST_WORDS, LAW_WORDS = 20, 49_200, 1_000  # in docs/; in all that is written by hand; on a law's page
LAWS = ("fast", "formosa", "fusion", "pseudorate", "taichung")
SHORT = r"(?<!\bFig)(?<!\bFigs)(?<!\beq)(?<!\bEq)(?<!\bvs)(?<!\bal)(?<!\be\.g)(?<!\bi\.e)"
LONGEST = 180
END = re.compile(SHORT + r"[.!?][)\"*_]* +(?=[A-Z`*\[\"(])")


def prose(page: str) -> list[tuple[int, str]]:
    """The lines that are neither code, nor tables, headings or pictures, with their numbers; code spans are emptied."""
    rows, fenced = [], False
    for number, line in enumerate((REPO / page).read_text().splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and line.strip() and not line.startswith(("    ", "\t", "#", "|", "<", ">", "![")):
            rows.append((number, re.sub(r"^\s*\d+\. |`[^`]*`", "``", line)))
    return rows


def words(*pages: str) -> int:
    """Without the tables that `asymlab publish` writes."""
    return sum(len(TABLE.sub("", (REPO / page).read_text()).split()) for page in pages)


def test_a_person_can_know_all_pages():
    by_hand = [page for page in WRITTEN if re.match(r"docs/|[A-Z]+\.md$", page)]
    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/lab.md"} < set(by_hand)
    assert len([page for page in by_hand if re.fullmatch(r"docs/[^/]+", page)]) <= MOST_PAGES
    assert words(*by_hand) <= MOST_WORDS


@pytest.mark.parametrize("law", LAWS)
def test_the_page_of_a_law_is_short(law):
    assert words(f"docs/{law}.md") <= LAW_WORDS


def anchor(heading: str) -> str:
    """The name that forges give to a heading."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lstrip("#").strip())
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {anchor(line) for line in page.read_text().splitlines() if re.match("#+ ", line)}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    dead = []
    for target in LINK.findall((REPO / page).read_text()):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, part = target.partition("#")
        file = (REPO / page).parent / unquote(path) if path else REPO / page
        if not file.exists() or (part and file.suffix == ".md" and part not in anchors(file)):
            dead.append(target)
    assert dead == []


def test_pages_that_code_names_exist():
    found = subprocess.check_output(["git", "grep", "-IoE", r"\bdocs/[a-z0-9/]+\.md"], cwd=REPO, text=True).splitlines()
    named = [line.partition(":")[::2] for line in found if not line.startswith("docs/results/")]
    assert len(named) > 50
    assert [f"{file}: {page}" for file, page in named if not (REPO / page).exists()] == []


@pytest.mark.parametrize("page", WRITTEN)
def test_a_sentence_has_a_line(page):
    assert [f"{page}:{number}: {line}" for number, line in prose(page) if END.search(line)] == []


@pytest.mark.parametrize("page", WRITTEN)
def test_a_sentence_is_short(page):
    assert [f"{page}:{number}: {line}" for number, line in prose(page) if len(line) > LONGEST] == []
