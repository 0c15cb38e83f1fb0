# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A dossier for the eye: a table in the terminal, a text, a page, and one picture of all answers."""

from __future__ import annotations

import shlex

from rich.table import Table
from rich.text import Text

from .. import controllers
from ..palette import GREY
from ..paths import near
from ..report import html as of_pages
from ..report.drawing import Figure, style
from ..report.judged import SYMBOLS, Judged
from ..report.report import saved
from ..report.terminal import STYLES
from ..table import left, markdown, right, terminal
from .absolute import Absolute
from .answers import NOT_TRIED, Plan, Section, called

ABSOLUTE = "queue's mean delay and p99, losses in it, sent again"
LEAST, MOST = 1 / 30, 30.0  # what the picture shows of a ratio to a bound


def shown(row: Judged) -> str:
    """A value and its symbol."""
    return f"{of_pages.number(row.value)} {SYMBOLS[row.verdict]}"


def with_queue(row: Judged, plain: Absolute | None) -> Text:
    """The mean delay of the queue as well."""
    queue = f"\n{plain.queue_ms:.3g} ms" if plain else ""
    return Text(f"{shown(row)}{queue}", style=STYLES[row.verdict])


def table(made: Plan, sections: list[Section]) -> Table:
    rows: list[list[str | Text]] = []
    for section in sections:
        if not section.answers:
            rows.append([Text(words, style="dim") for words in (section.section, f"{section.title}: {section.left}")])
        for answer in section.answers:
            cells = map(with_queue, answer.rows.values(), answer.absolute.values())
            rows.append([section.section, answer.own.claim, *cells])
    columns = left("RFC 9743") + left("question", overflow="fold") + right(*made.labels, no_wrap=True)
    return terminal(columns, rows)


def commands(made: Plan, files: list[str]) -> list[str]:
    """The commands that repeat the runs of a section."""
    return [shlex.join(["asymlab", "run", str(near(made.folder / file)), "--engine", made.engine]) for file in files]


def text(made: Plan, sections: list[Section], about: dict[str, str]) -> str:
    label = made.labels[0]
    lines = [
        f"# {label}: what RFC 9743 asks of a congestion control",
        "",
        f"Kernel {about['kernel']}, image {about['image']}, {about['qemu']}.",
        "A word follows from the 95 % interval over the seeds: holds if all of it is within the bound, fails if all of",
        "it is outside, undecided otherwise. The RFC has no bounds; these stand in `experiments/dossier/headings.py`.",
        "",
    ]
    for section in sections:
        lines += [f"## {section.section} {section.title}: {section.word(made.name)}", ""]
        if section.left:
            lines += [section.left, ""]
        if section.answers:
            rows = [[answer.own.claim, *map(shown, answer.rows.values())] for answer in section.answers]
            lines += [*markdown(left("") + right(*made.labels), rows), ""]
            plain = [[id, *(str(one or "") for one in of.values())] for id, of in section.absolute]
            lines += markdown(left(ABSOLUTE) + right(*made.labels), plain)
            lines += ["", *(f"    {words}" for words in commands(made, section.files)), ""]
    return "\n".join(lines).rstrip() + "\n"


def html(made: Plan, sections: list[Section], about: dict[str, str]) -> str:
    """A page that needs no file but answers.png."""
    return (
        of_pages.environment()
        .get_template("dossier.html.j2")
        .render(
            made=made,
            sections=sections,
            about=about,
            commands={s.section: commands(made, s.files) for s in sections},
            not_tried=NOT_TRIED,
            absolute=ABSOLUTE,
        )
    )


# --- the picture -----------------------------------------------------------------------------


def to_bound(row: Judged) -> float | None:
    """How far a value is on the good side of its bound, as a ratio: 2 is twice as good as it must be."""
    if row.value is None:
        return None
    bound = row.at_least if row.at_least is not None else row.at_most
    assert bound
    good = row.value / bound if row.at_least is not None else bound / max(row.value, 1e-9)
    return min(max(good, LEAST), MOST)


def picture(made: Plan, sections: list[Section]) -> bytes:
    """A PNG: a line for each question, a mark for each controller; right of the line at 1 it holds."""
    import matplotlib.figure

    answers = [(section, answer) for section in sections for answer in section.answers]
    with style():
        figure = matplotlib.figure.Figure(figsize=(9, 1 + 0.24 * len(answers)))
        ax = figure.subplots()
        for at, name in reversed(list(enumerate(made.names))):
            points = [(to_bound(answer.rows[name]), y) for y, (_, answer) in enumerate(answers)]
            look = controllers.of(called(name)).look | {"linestyle": "", "markersize": 9 if at == 0 else 5}
            look |= {"zorder": 3 if at == 0 else 2, "alpha": 1 if at == 0 else 0.8}
            there = [(x, y) for x, y in points if x is not None]
            ax.plot([x for x, _ in there], [y for _, y in there], label=made.labels[at], **({"marker": "o"} | look))
        ax.axvline(1, color=GREY, linewidth=1)
        ax.set_xscale("log")
        ax.set(xlim=(LEAST * 0.9, MOST * 1.1), ylim=(len(answers) - 0.5, -0.5))
        ticks = (1 / 30, 0.1, 0.3, 1, 3, 10, 30)
        ax.set_xticks(ticks, [f"{x:.2g}" for x in ticks])
        ax.minorticks_off()
        ax.set_yticks(range(len(answers)), [f"{section.section} {answer.own.id}" for section, answer in answers])
        ax.set_xlabel("how much better than its bound (right of 1: it holds)")
        handles, names = ax.get_legend_handles_labels()
        figure.legend(handles[::-1], names[::-1], loc="outside upper left", ncols=len(names))
        return saved(Figure("answers", made.name, "", figure), "png", dpi=110)
