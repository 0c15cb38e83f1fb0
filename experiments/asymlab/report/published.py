# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The pages of what is published: README.md of each part and of all, and one page of all, which one can cite.

The same parts give the same pages: no clock enters.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from .. import LabError
from ..paths import REPO
from ..reading import read
from ..table import Markup, escaped, left, markdown, right
from . import resample
from .html import environment, interval, number, word
from .judged import CHECKS, MEANINGS, SYMBOLS
from .part import Part
from .part import parts as read_all
from .records import DATA, FIGURE_MAX
from .sentences import CAUSES, by_cause, counts, unsampled

COMMIT = "commit that made them, and repeats them to the byte"
REGISTERED = "claims, bounds, seeds and durations, committed before the runs"
CHANGED = "changed after the runs"
CLUSTERS = "clusters of claims"
COUNTED = ("runs", "seeds", "values")
Table = tuple[list[str], list[list[str]]]  # headers and rows


def lines(part: Part) -> dict[str, str]:
    """The provenance of a part's runs, a line each."""
    a = part.about
    return {
        COMMIT: a.commit,
        REGISTERED: ", ".join(a.registered) or "unknown",
        CHANGED: "; ".join(a.changed) or "nothing",
        "kernel": ", ".join(a.kernel),
        "image": ", ".join(a.image),
        "qemu": ", ".join(a.qemu),
    } | {name: ", ".join(digests) for name, digests in a.objects.items()}


# --- README.md --------------------------------------------------------------------------


def front(parts: list[Part]) -> str:
    """README.md of some parts."""
    verdicts = [v for one in parts for v in one.verdicts]
    paragraphs = [
        "# What the suites gave",
        "",
        "Each paper's page has its verdicts, figures, provenance, and the command that repeats each run to the byte.",
        "A claim is *reproduced* if the whole 95 % interval of our value lies within its bounds, *not reproduced* if "
        "the whole interval lies outside, and *inconclusive* otherwise.",
        "A check *holds*, *fails* or is *undecided*, by the same rule.",
        CHECKS,
        "A claim about every run is decided by its worst run.",
        "The claims that are not reproduced, or inconclusive, are counted by how their cause is known.",
        "It is *measured* if runs in which it is turned off tell that the claim comes true, "
        "or if a rival has all that the link carries.",
        "*In the paper's set-up*: these runs are as near to what the paper tells of its own as the claim's, or nearer, "
        "and tell why the claim differs from the paper.",
        "*By another set-up*: they differ in what the paper had as well, or does not tell, and tell what the claim "
        "depends on.",
        f"Claims over the same scenario share runs, or a controller and a path: *{CLUSTERS}* counts groups of such "
        "claims, which are not independent of each other.",
        "Runs of one value, or of two in four runs or more that differ by less than a hundredth, are no sample, and "
        f"the row has no interval. Claims of this kind: {unsampled(verdicts)}.",
        f"*One run*: another seed may say otherwise. Rows of this kind: {sum(v['n'] == 1 for v in verdicts)}.",
        "`ours` is the mean over the seeds, of ratios the geometric mean, with its 95 % interval.",
        "*Values* counts those that differ where they are shown.",
        "*Worst run*: the value is that of the worst run, which decides.",
        "*One value*: all runs have it, so these seeds are no sample.",
        "*A or B*: all have one of these two.",
        "`make experiments SUITE=PAPER` makes the report of a paper with all figures and their data, and "
        "`asymlab publish PAPER` its page.",
        "",
        "`asymlab report --published` makes one page of all of it that can be printed and cited, with the method, the "
        "threats to validity, and the command that repeats a row.",
        "",
    ]
    rows = [[Markup(f"[{one.name}]({quote(one.name)}/README.md)"), *cells([one])] for one in parts]
    columns = left("paper") + right(*SYMBOLS, *CAUSES, CLUSTERS)
    return "\n".join([*paragraphs, *markdown(columns, [*rows, ["all", *cells(parts)]])]) + "\n"


def cells(parts: list[Part]) -> list[str]:
    of = counts(v["verdict"] for one in parts for v in one.verdicts)
    causes = by_cause(v for one in parts for v in one.verdicts)
    return [str(n) for n in (*of.values(), *causes.values(), sum(one.clusters for one in parts))]


def readme(part: Part, figures: list[str]) -> str:
    """README.md of a part. `figures`: the names of those that are kept."""
    paragraphs = [
        f"# {part.title}: verdicts",
        "",
        f"{part.about.date}, {len(part.runs)} runs of the {part.about.set} set. "
        f"{', '.join(f'{n} {word}' for word, n in part.counts.items())}.",
        "",
        *(f"- {escaped(f'{what}: {value}')}" for what, value in lines(part).items()),
        "",
        f"[What the columns say](../README.md), and [the bounds, the value of each run and its hash]({DATA}).",
        f"Clusters of claims that share scenarios: {part.clusters}.",
        f"`asymlab repeat {part.name} ROW` makes the runs of a row again.",
        "",
    ]
    rows = [
        (
            v["id"],
            f"{v['source']}: {v['claim']}",
            v["family"],
            number(v["paper_value"]),
            number(v["value"]),
            interval(v),
            *(str(v[name]) for name in ("n", "seeds", "distinct")),
            word(v) + (f": {v['reason']}" if v["reason"] else ""),
        )
        for v in part.verdicts
    ]
    paragraphs += markdown(left("", "claim", "scenarios", "paper", "ours", "95 % interval", *COUNTED, "verdict"), rows)
    paragraphs += by_preset(part.verdicts)
    paragraphs += (
        ["", "## Figures", "", *(f"![{name}](figures/{quote(name)}.png)\n" for name in figures)] if figures else []
    )
    return "\n".join(paragraphs).rstrip("\n") + "\n"


def by_preset(verdicts: list[dict]) -> list[str]:
    """A table of all claims, as they stand and by each preset that repeats them: all have the words of a claim."""
    presets = list(dict.fromkeys(v["preset"] for v in verdicts if v["preset"]))
    if not presets:
        return []
    rows = {v["id"]: v for v in verdicts}
    claims = [v for v in verdicts if not v["check"]]
    of_check = {check: claim for _, claim, check in MEANINGS}
    by = {"as claimed": [v["verdict"] for v in claims]}
    table = [[v["id"], number(v["paper_value"]), number(v["value"]), marked(v["verdict"])] for v in claims]
    for preset in presets:
        same = [rows.get(f"{v['id']} {preset}", v) for v in claims]
        by[preset] = [of_check.get(v["verdict"], v["verdict"]) for v in same]
        for row, v, verdict in zip(table, same, by[preset], strict=True):
            row += ["the same" if v["id"] == row[0] else number(v["value"]), marked(verdict)]
    columns = left("", "paper", "ours", "verdict", *(c for p in presets for c in (p, f"verdict, {p}")))
    counted = [f"{name}: {', '.join(f'{n} {word}' for word, n in counts(of).items() if n)}" for name, of in by.items()]
    return ["", "## All claims by preset", "", *(f"- {line}" for line in counted), "", *markdown(columns, table)]


def marked(verdict: str) -> str:
    return f"{SYMBOLS[verdict]} {verdict}"


# --- the page ------------------------------------------------------------------------------


def page(
    parts: list[Part], figures: dict[str, dict[str, tuple[str, bytes]]], again: list[resample.Again], live: Table | None
) -> str:
    """All of some parts on one page. `figures`: of each part, by name, those that are kept: description and PNG.
    `again`: rows by other seeds. `live`: how far live runs and the lab are apart."""
    verdicts = [v for p in parts for v in p.verdicts]
    engines = sorted({engine for p in parts for engine in p.about.qemu})
    return (
        environment()
        .get_template("published.html.j2")
        .render(
            parts=parts,
            cited=cited(),
            date=max((p.about.date for p in parts), default=""),
            commits=list(dict.fromkeys(p.about.commit for p in parts)),
            kernels=sorted({kernel for p in parts for kernel in p.about.kernel}),
            engines=engines,
            process=any("process" in engine for engine in engines),
            emulated=any("QEMU" in engine for engine in engines),
            counts=counts(v["verdict"] for v in verdicts),
            causes=by_cause(verdicts),
            clusters=CLUSTERS,
            one_run=sum(v["n"] == 1 for v in verdicts),
            unsampled=unsampled(verdicts),
            labels={COMMIT: "Commit", REGISTERED: "Claims registered", CHANGED: "Changed afterwards"},
            lines=lines,
            figures=figures,
            live=live,
            again=resample.by_reason(again),
        )
    )


def shown(paper: str, folder: Path) -> dict[str, str]:
    """The figures of a paper that pages beside the folder show, and how these describe them."""
    pages = [folder.parent.parent / "README.md", *folder.parent.glob("*.md"), *folder.parent.glob("notebooks/*.md")]
    link = re.compile(rf"!\[(.*?)\]\([^)]*{re.escape(folder.name)}/{paper}/figures/({paper}-[\w-]+)\.png\)")
    described = {name: words for page in pages if page.is_file() for words, name in link.findall(page.read_text())}
    return dict(sorted(described.items()))


def cited() -> dict[str, str]:
    """Title, version and authors, as CITATION.cff has them."""
    import yaml

    citation = yaml.safe_load((REPO / "CITATION.cff").read_text())
    names = [a.get("name") or f"{a['given-names']} {a['family-names']}" for a in citation["authors"]]
    return {"title": citation["title"], "version": str(citation["version"]), "authors": ", ".join(names)}


def write_page(results: Path, file: Path, live: Table | None = None) -> None:
    """The page of all that is published in a folder."""
    if not (parts := read_all(results)):
        raise LabError(f"{results}: no published results; `asymlab publish` makes them")
    try:
        figures = {
            one.name: {
                f.stem: (described.get(f.stem, f.stem), read(f, FIGURE_MAX))
                for f in sorted((results / one.name / "figures").glob("*.png"))
            }
            for one in parts
            for described in [shown(one.name, results)]
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page(parts, figures, resample.read(results / resample.DATA), live), encoding="utf-8")
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None
