# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The sentences of comments, docstrings and pages.

`python -m tests.sentences [FOLDER]` lists those that name no actor.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
# A sentence that begins with one of these hides who acts. A question may.
WORDS = r"(?:Of|What|Who|As|Where)\b"
FIRST = re.compile(r"(?:^|(?<=[.!?] )|(?<=[.!?]\) )|(?<=\n\n))" + WORDS + r"[^.?!]*[.?!]?", re.M)
C = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*(.*?)\*/|((?://[^\n]*\n\s*)+)', re.S)
PAGE = ("#", "|", "<", ">", "![", "    ", "\t")


def of_python(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            docstring = ast.get_docstring(node)
            if docstring:
                yield node.body[0].lineno, docstring
    block, at, last = [], 0, -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, alone = token.start[0], not token.line[: token.start[1]].strip()
        if not (block and alone and line == last + 1):
            if block:
                yield at, "\n".join(block)
            block, at = [], line
        block.append(token.string.lstrip("#:! "))
        last = line
    if block:
        yield at, "\n".join(block)


def of_c(text: str) -> Iterator[tuple[int, str]]:
    for comment in C.finditer(text):
        words = comment[1] or comment[2]
        if words:
            yield text.count("\n", 0, comment.start()) + 1, re.sub(r"(?m)^[ \t]*(?:\*+|//)?[ \t]*", "", words).strip()


def of_page(text: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and not line.startswith(PAGE):
            yield number, re.sub(r"^\s*(?:[-*+]|\d+\.) +", "", line).lstrip("*_ ")


def headless(file: Path) -> Iterator[tuple[int, str]]:
    """The line and the sentence, for each that begins with one of WORDS."""
    parts = {".py": of_python, ".c": of_c, ".h": of_c, ".md": of_page}[file.suffix]
    for number, block in parts(file.read_text()):
        whole = block.replace("\n\n", "\0").replace("\n", " ").replace("\0", "\n")
        for sentence in FIRST.findall(whole):
            if not sentence.endswith("?"):
                yield number, sentence


if __name__ == "__main__":
    for one in sorted((REPO / (sys.argv[1:] or ["."])[0]).rglob("*")):
        if one.suffix in (".py", ".c", ".h", ".md") and not {"build", "results", ".git"} & set(one.parts):
            for number, sentence in headless(one):
                print(f"{one.relative_to(REPO)}:{number}: {sentence}")
