# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rules of the house: files and functions that a person can read at once, packages in one order."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.ktap import built
from tests.sentences import READERS, headless
from tests.shared import BUILD, REPO

FILE, TEST, FUNCTION = 600, 700, 80  # lines at most
LAB = REPO / "experiments" / "asymlab"
# From bottom to top: a package needs nothing of those above. None of them: what all may need.
ORDER = [
    "guest",
    None,
    "plan",
    "results",
    "machine",
    "run",
    ("report", "conformance", "profile"),
    ("link", "dossier", "testing", "worst", "reality"),
    "options",
    "commands",
    "cli",
]
BLOB = 256 * 1024  # bytes of a file in git at most, but for
LARGE: dict[str, str] = {}
TOP = {
    *(".clang-format", ".editorconfig", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE"),
    *("MANIFEST.in", "Makefile", "README.md", "SECURITY.md", "VERSION", "pyproject.toml", "requirements.lock"),
    "setup.py",
}
SPDX = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause"
SOURCES = re.compile(r".*\.([ch]|py|sh|toml|css|j2|yml|service)|Makefile|\.ci/run|packaging/post\w+|packaging/pre\w+")
FOLDERS = (".ci", ".github", "bpf", "examples", "experiments", "loader", "packaging", "tests")
FILES = [
    "Makefile",
    "pyproject.toml",
    "setup.py",
    *(f.relative_to(REPO).as_posix() for at in FOLDERS for f in sorted((REPO / at).rglob("*")) if f.is_file()),
]


def sources(*kinds: str) -> dict[str, str]:
    return {f: (REPO / f).read_text() for f in FILES if f.endswith(kinds)}


def python_functions(text: str) -> dict[str, int]:
    nodes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return {f"{f.name}:{f.lineno}": f.end_lineno - f.lineno + 1 for f in nodes}


def c_functions(text: str) -> dict[str, int]:
    """Blocks whose brace stands alone at the start of a line: the kernel's style has no others."""
    lines_of, name, began = {}, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line == "{":
            began = number
        elif line.startswith("}") and began:
            lines_of[f"{name}:{began}"] = number - began + 1
            began = 0
        elif called := re.match(r"[A-Za-z_].*?(\w+)\(", line):
            name = called[1]
    return lines_of


def test_files_are_short():
    files = sources(".py", ".c", ".h", ".sh", ".j2", ".css")
    assert len(files) > 200
    lines = {f: len(text.splitlines()) for f, text in files.items()}
    assert not {f: n for f, n in lines.items() if n > (TEST if f.startswith("tests/") else FILE)}


def test_functions_are_short():
    files = sources(".py", ".c", ".h")
    functions = {
        f"{file} {name}": lines
        for file, text in files.items()
        for name, lines in (python_functions if file.endswith(".py") else c_functions)(text).items()
    }
    assert len(functions) > 3000
    assert not {name: lines for name, lines in functions.items() if lines > FUNCTION}


def test_sources_name_their_licence():
    files = [f for f in FILES if SOURCES.fullmatch(f)]
    assert len(files) > 300
    assert not [f for f in files if SPDX not in "".join((REPO / f).open().readlines()[:3])]


def test_files_in_git_are_small():
    """Drawings and products belong into build/. Such a file stays in each clone for ever."""
    files = subprocess.check_output(["git", "ls-files", "-z"], cwd=REPO, text=True).split("\0")[:-1]
    sizes = {f: (REPO / f).lstat().st_size for f in files if (REPO / f).is_file()}
    assert len(sizes) > 500
    assert {f for f, size in sizes.items() if size > BLOB} == set(LARGE)
    assert {f for f in sizes if "/" not in f} == TOP


# --- modules -------------------------------------------------------------------------------


def modules() -> dict[str, ast.Module]:
    """By name, without asymlab's."""
    files = {f.relative_to(LAB).with_suffix("").as_posix().replace("/", "."): f for f in LAB.rglob("*.py")}
    return {name.removesuffix(".__init__"): ast.parse(f.read_text()) for name, f in files.items()}


def imports(name: str, tree: ast.Module, known: dict) -> set[str]:
    """The modules of asymlab that a module imports, anywhere in it."""
    needed = set()
    package = name.split(".") if (LAB / name.replace(".", "/")).is_dir() else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("asymlab")):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module or "").removeprefix("asymlab").strip(".").split(".")
            there = ".".join(filter(None, base))
            needed |= {m if (m := f"{there}.{a.name}".strip(".")) in known else there for a in node.names}
    return needed - {""}


KNOWN = modules()
NEEDS = {name: imports(name, tree, KNOWN) for name, tree in KNOWN.items()}


def test_no_part_of_the_loader_needs_itself():
    """A part is a .c and the .h of its name, which declares what is defined there: so what is included tells all."""
    files = {f.removeprefix("loader/"): text for f, text in sources(".c", ".h").items() if f.startswith("loader/")}
    needs: dict[str, set[str]] = {}
    for name, text in files.items():
        part = name.rpartition(".")[0]
        included = {h for h in re.findall(r'^#include "(.*)\.h"', text, re.M) if f"{h}.h" in files}
        needs.setdefault(part, set()).update(included - {part})
        if name.endswith(".h"):
            declared = re.findall(r"^[a-z][^;{}()]*?(\w+)\([^{};]*\)(?: __attribute__.*)?;", text, re.M)
            assert not {f for f in declared if not re.search(rf"^\w.*\b{f}\(", files.get(f"{part}.c", ""), re.M)}
    assert sum(map(len, needs.values())) > 80
    assert sum("/" not in name for name in files) <= 12, "each room of it has a folder"
    upward = re.compile(r'^#include "((?:uses|commands)/.*|command)\.h"', re.M)
    assert not [name for name, text in files.items() if name.startswith(("kernel/", "object/")) and upward.search(text)]
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as e:
        pytest.fail(" -> ".join(e.args[1]))


def level(name: str) -> int:
    top = name.split(".")[0]
    return next((i for i, at in enumerate(ORDER) if at and top in ([at] if isinstance(at, str) else at)), 1)


def test_no_module_needs_itself():
    assert sum(map(len, NEEDS.values())) > 200
    try:
        TopologicalSorter(NEEDS).prepare()
    except CycleError as e:
        pytest.fail(" -> ".join(e.args[1]))


def test_packages_need_those_below_them():
    upward = {
        f"{name} needs {other}" for name, needed in NEEDS.items() for other in needed if level(other) > level(name)
    }
    assert not upward - {"__main__ needs cli"}


def test_debians_python_makes_a_kernel():
    """It has none of the lab's libraries."""
    lacks = "import sys; sys.modules.update(dict.fromkeys(['numpy', 'pydantic', 'rich', 'matplotlib']))"
    subprocess.run([sys.executable, "-c", f"{lacks}; import asymlab.machine.build"], check=True)


# --- the tree's own words ------------------------------------------------------------------

# A sentence names its actor first: none begins with Of, What, Who, As or Where. `python -m tests.sentences FOLDER`
# lists those that do.


def test_sentences_name_their_actor():
    pages = subprocess.check_output(["git", "ls-files", "*.md", ":!docs/results"], cwd=REPO, text=True).split()
    files = [f for f in (*FILES, *pages) if f.endswith(tuple(READERS))]
    sentences = [f"{f}:{line}: {sentence}" for f in files for line, sentence in headless(REPO / f)]
    assert files and not sentences, "\n".join(sentences)


def test_make_help_tells_each_goal():
    makefile = (REPO / "Makefile").read_text()
    goals = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)", makefile, re.M)[1].replace("\\", "").split()
    output = subprocess.run(["make", "help"], cwd=REPO, capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"^  make ([\w-]+) +\S", output, re.M)
    assert len(goals) > 20 and set(listed) == set(goals) - {"all", "test-needs"} and len(listed) == len(set(listed))
    assert max(map(len, output.splitlines())) <= 120


@built
def test_make_image_makes_the_controllers():
    """A scenario of one's own may name each of them, and README's sets up the lab by this goal alone."""
    output = subprocess.run(["make", "-nB", "-C", REPO, "image"], capture_output=True, text=True, check=True).stdout
    names = {p.name.removesuffix(".c") for p in REPO.glob("bpf/**/*.bpf.c")}
    assert len(names) > 10 and not [name for name in names if f"/{name}.o" not in output]


def test_an_engine_is_no_kernel(tmp_path):
    """In a new folder, with nothing built, the image of a process is not one of a kernel that is called 6.12-uml."""
    words = ["make", "-n", "-C", REPO, f"B={tmp_path}", "FRESH=", f"{tmp_path}/image/6.12-uml/manifest.json"]
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "asymlab.machine.build 6.12 \n" in output and "6.12-uml \n" not in output


@pytest.mark.parametrize(
    "goal, names", [("experiments", "no-such-a no-such-b"), ("test", "no-such-a no-such-c no-such-b")]
)
def test_one_line_has_all_packages_that_a_user_must_install(tmp_path, goal, names):
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    sets = ["PACKAGES=no-such-a", "uml_PACKAGES=no-such-b", "test_PACKAGES=no-such-c"]
    words = ["make", "-C", REPO, goal, f"B={tmp_path}/build", *sets]
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    output = subprocess.run(words, capture_output=True, text=True, env=env).stdout
    assert re.findall("^missing packages; run: .* --no-install-recommends (.*)$", output, re.M) == [names]


def test_there_is_one_version():
    version = (REPO / "VERSION").read_text().strip()
    output = subprocess.run([BUILD / "asymcc", "--version"], capture_output=True, text=True, check=True).stdout
    assert output.split()[:2] == ["asymcc", version]
    assert f"\n## {version}\n" in (REPO / "CHANGELOG.md").read_text()
    assert not [f for f, text in sources(".py", ".c", ".h", ".toml", ".sh").items() if f'"{version}"' in text]
