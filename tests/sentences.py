# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The sentences of comments, strings and pages.

`python -m tests.sentences [FOLDER]` lists those that name no actor.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
# A sentence that begins with one of these hides who acts. A question may.
WORDS = r"(?:Of|What|Who|As|Where)\b"
FIRST = re.compile(r"(?:^|(?<=[.!?] )|(?<=[.!?]\) )|(?<=\n\n))" + WORDS + r"[^.?!]*[.?!]?", re.M)
C = re.compile(r"'(?:\\.|[^'\\\n])*'|/\*.*?\*/|(?://[^\n]*\n\s*)+|(?:\"(?:\\.|[^\"\\\n])*\"\s*)+", re.S)
HASH = re.compile(r"(?m)(?:^[ \t]*#.*\n)+|[ \t]##? .*")
PAGE = ("#", "<", ">", "![", "    ", "\t")


def of_hash(text: str) -> Iterator[tuple[int, str]]:
    """Comments from # to the end of a line: those of TOML, of Makefiles and of shells."""
    for comment in HASH.finditer(text):
        words = re.sub(r"(?m)^[ \t]*#(?: SPDX.*|[#:! ]*)", "", comment[0])
        yield text.count("\n", 0, comment.start()) + 1, words.strip()


def of_python(text: str) -> Iterator[tuple[int, str]]:
    yield from of_hash(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, cleandoc(node.value)


def of_c(text: str) -> Iterator[tuple[int, str]]:
    for part in C.finditer(text):
        words = re.sub(r'"\s*"', "", part[0]).replace("\\n", "\n").strip('" \n')
        words = re.sub(r"(?m)^[ \t]*(?:/?\*+|//)?[ \t]*", "", words)
        yield text.count("\n", 0, part.start()) + 1, words.strip()


def of_page(text: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and not line.startswith(PAGE):
            for cell in re.sub(r"^\s*(?:[-*+]|\d+\.|\|) +", "", line).split(" | "):
                yield number, cell.lstrip("*_ ")


READERS = {".py": of_python, ".c": of_c, ".h": of_c, ".md": of_page}
READERS |= dict.fromkeys((".toml", ".sh", ".service", "Makefile", ".ci/run"), of_hash)


def headless(file: Path) -> Iterator[tuple[int, str]]:
    """The line and the sentence, for each that begins with one of WORDS."""
    for number, block in READERS.get(file.suffix, of_hash)(file.read_text()):
        whole = block.replace("\n\n", "\0").replace("\n", " ").replace("\0", "\n")
        for sentence in FIRST.findall(whole):
            if not sentence.endswith("?"):
                yield number, sentence


if __name__ == "__main__":
    for one in sorted((REPO / (sys.argv[1:] or ["."])[0]).rglob("*")):
        if str(one).endswith(tuple(READERS)) and not {"build", "results", ".git"} & set(one.parts):
            for number, sentence in headless(one):
                print(f"{one.relative_to(REPO)}:{number}: {sentence}")
