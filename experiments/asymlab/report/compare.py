# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two kernels, versions or controllers side by side: by two reports, two runs, or a scenario on two images.

    asymlab compare REPORT REPORT       folders that `asymlab suite --report` has written
    asymlab compare RUN RUN             folders of the store, of one seed; `asymlab run` tells them
    asymlab compare --image A --image B FILE.toml

Runs are paired by scenario, point and seed, and the pairs grouped by case, over the seeds. A metric differs
  - with two seeds or more, if the 95 % interval of the paired differences does not hold zero;
  - with one seed, if the values differ by more than a share of the larger (--tolerance).
Invalid runs are compared with nothing. A pair whose bytes differ names the first ACK at which the two runs part,
with the sender's state in both, if the store has both runs.

Exit code: 0 all bytes are the same; 1 a metric, a verdict or the set of runs differs; 2 it cannot be compared; 3 bytes
differ, and no metric or verdict does.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError
from rich.text import Text

from .. import LabError
from ..console import console
from ..results import store
from ..results.breakdown import FORWARD, ONE_WAY, REVERSE
from ..results.store import Run
from ..table import left, right, terminal
from . import html, records, report
from .judged import SYMBOLS, interval
from .parting import parting
from .terminal import STYLES

WHERE = ("kernel", "image", "image_name", "qemu")
IDENTICAL, DIFFERENT, UNREADABLE, OTHER_BYTES = range(4)  # exit codes
TOLD = 40  # pairs of runs whose first difference is looked for
METRICS = {  # name: (label, scale, unit)
    "goodput_bps": ("goodput", 1e-6, "Mbit/s"),
    "utilisation": ("utilisation", 1, ""),
    "jain": ("Jain", 1, ""),
    "rtt_p50_s": ("RTT p50", 1e3, "ms"),
    "rtt_p95_s": ("RTT p95", 1e3, "ms"),
    "acks_per_data_packet": ("ACKs per packet", 1, ""),
    "retransmits": ("retransmissions", 1, ""),
    "timeouts": ("timeouts", 1, ""),
}
BY_DIRECTION = {
    f"{name} {way}": (f"{METRICS[name][0]} {way}", *METRICS[name][1:]) for name in ONE_WAY for way in (FORWARD, REVERSE)
}


def load(folder: Path) -> dict:
    """{"folder", "set", "runs", "verdicts"} of a report, or of a run that is kept."""
    if (folder / "run.json").exists():
        return load_run(folder)
    if folder.is_file():
        raise LabError(
            f"{folder}: is a file; name two folders, of reports or of runs, or one scenario and --image twice"
        )
    try:
        results, verdicts = records.results(folder), records.verdicts(folder)
    except FileNotFoundError as e:
        raise LabError(
            f"{e.filename}: there is none; name the folder of a report, as `asymlab suite --report DIR` writes it"
        ) from None
    except OSError as e:
        raise LabError(f"{e.filename}: {e.strerror}") from None
    except ValueError as e:
        raise LabError(f"{folder}/{e}; write the report anew with `asymlab suite`") from None
    runs: dict[tuple[str, int], dict] = {}
    for run in results["runs"]:
        if runs.setdefault((run["case"], run["seed"]), run) is not run:
            raise LabError(
                f"{folder / 'results.json'}: two runs are called {run['name']}; their scenarios need different ids"
            )
    for run in results["runs"]:  # a report has one image for all
        run["provenance"].setdefault("image_name", results.get("image_name", ""))
    words = {v["id"]: v["verdict"] for v in verdicts}
    return {"folder": str(folder), "set": f"{results['set']} set", "runs": runs, "verdicts": words}


def load_run(folder: Path) -> dict:
    """The same of one run of the store."""
    return of_runs(str(folder), "one run", [store.opened(folder)])


def of_runs(name: str, what: str, runs: list[Run]) -> dict:
    """The same of some runs."""
    summaries = [report.summary(run) for run in runs]
    try:
        for one in summaries:
            records.Run.model_validate(one)
    except ValidationError as e:
        raise LabError(f"{name}: not a run of the lab: {records.first_error(e)}") from None
    return {"folder": name, "set": what, "runs": {(r["case"], r["seed"]): r for r in summaries}, "verdicts": {}}


def paired(a: dict, b: dict) -> tuple[dict, dict]:
    """Two runs of one seed are compared, whatever they are called."""
    if a["set"] == b["set"] == "one run" and a["runs"].keys() != b["runs"].keys():
        (one,), (other,) = a["runs"].values(), b["runs"].values()
        if one["seed"] != other["seed"]:
            raise LabError(
                f"{one['name']}, {other['name']}: of unlike seeds, which differ by chance; compare runs of one seed"
            )
        both = f"{one['name']} / {other['name']}", one["seed"]
        return a | {"runs": {both: one}}, b | {"runs": {both: other}}
    return a, b


def compare(a: dict, b: dict, tolerance: float) -> dict:
    """All that there is to say, as the JSON file has it."""
    both = [name for name in a["runs"] if name in b["runs"]]
    if not both:
        raise LabError(f"{a['folder']} and {b['folder']} have no run in common: are both of the same suites?")
    valid = [n for n in both if not a["runs"][n]["invalid"] and not b["runs"][n]["invalid"]]
    cases: dict[str, list[int]] = {}
    for case, seed in valid:
        cases.setdefault(case, []).append(seed)
    rows = []
    for case in sorted(cases, key=html.natural):
        sides = [[numbers(side["runs"][case, seed]) for side in (a, b)] for seed in cases[case]]
        for metric in dict.fromkeys(name for pair in sides for one in pair for name in one):
            samples = [tuple(one.get(metric) for one in pair) for pair in sides]
            rows.append({"case": case, "metric": metric, "seeds": len(samples)} | judge(samples, tolerance))
    changed = [
        {"id": id, "a": v, "b": b["verdicts"][id]} for id, v in a["verdicts"].items() if b["verdicts"].get(id, v) != v
    ]
    pairs = [(a["runs"][n], b["runs"][n]) for n in both]
    alike = [x["provenance"]["result_sha256"] == y["provenance"]["result_sha256"] for x, y in pairs]
    runs: dict[str, list] = {
        "identical": [x["name"] for (x, _), same in zip(pairs, alike) if same],
        "unlike": unlike([pair for pair, same in zip(pairs, alike) if not same]),
        "only_a": only(a["runs"], b["runs"]),
        "only_b": only(b["runs"], a["runs"]),
        "invalid": [
            {"name": a["runs"][n]["name"], "a": a["runs"][n]["invalid"], "b": b["runs"][n]["invalid"]}
            for n in both
            if n not in valid
        ],
    }
    verdicts = {
        "both": sum(id in b["verdicts"] for id in a["verdicts"]),
        "changed": changed,
        "only_a": [id for id in a["verdicts"] if id not in b["verdicts"]],
        "only_b": [id for id in b["verdicts"] if id not in a["verdicts"]],
    }
    return {
        "rule": rule(tolerance),
        "tolerance": tolerance,
        "a": side(a),
        "b": side(b),
        "pairs": len(valid),
        "identical": sum(alike),
        "rows": rows,
        "verdicts": verdicts,
        "runs": runs,
        "same": not any(
            (
                any(r["differs"] for r in rows),
                changed,
                verdicts["only_a"],
                verdicts["only_b"],
                runs["only_a"],
                runs["only_b"],
                any(bool(r["a"]) != bool(r["b"]) for r in runs["invalid"]),
            )
        ),
    }


def numbers(run: dict) -> dict[str, float | None]:
    """The metrics of a run, by direction if it has two, and its times by the words of a claim's measure."""
    two_way = any(name.endswith(f" {REVERSE}") for name in run["metrics"])
    metrics = {name: value for name, value in run["metrics"].items() if not (two_way and name in ONE_WAY)}
    return metrics | run.get("times", {})


def words(metric: str) -> tuple[str, float, str]:
    """Its label, scale and unit; a time, or a number of a program, has the words that measure it for a label."""
    return (METRICS | BY_DIRECTION).get(metric, (metric, 1, ""))


def unlike(pairs: list[tuple[dict, dict]]) -> list[dict]:
    """The runs whose bytes differ, and where they part if the store has both."""

    def first(keys: list[str]) -> str:
        try:
            x, y = (store.held(key) for key in keys)
            return parting(x, y) if x and y else ""
        except LabError as e:
            return str(e)

    names = [x["name"] if x["name"] == y["name"] else f"{x['name']} / {y['name']}" for x, y in pairs]
    return [
        {"name": name, "a": x["key"], "b": y["key"], "first": first([x["key"], y["key"]]) if at < TOLD else ""}
        for at, (name, (x, y)) in enumerate(zip(names, pairs))
    ]


def code(compared: dict) -> int:
    if not compared["same"]:
        return DIFFERENT
    return OTHER_BYTES if compared["runs"]["unlike"] else IDENTICAL


def judge(pairs: list[tuple], tolerance: float) -> dict:
    """Both means with their intervals, that of the differences (b - a), and whether they differ."""
    known = [(x, y) for x, y in pairs if x is not None and y is not None]
    one_sided = any((x is None) != (y is None) for x, y in pairs)
    if not known:
        return {"a": None, "b": None, "difference": None, "differs": one_sided}
    a, b = (interval([float(v) for v in values]) for values in zip(*known))
    difference, low, high = interval([float(y - x) for x, y in known])
    if len(known) > 1:
        differs = low > 0 or high < 0
    else:
        differs = abs(difference) > tolerance * max(map(abs, known[0]))
    return {"a": a, "b": b, "difference": (difference, low, high), "differs": differs or one_sided}


def rule(tolerance: float) -> str:
    return (
        "A metric differs if the 95 % interval of its differences, seed by seed, does not hold zero; with one seed, "
        f"if the values are more than {100 * tolerance:g} % apart. With several seeds about one in twenty is marked "
        "by chance."
    )


def only(runs: dict, others: dict) -> list[str]:
    return [run["name"] for name, run in runs.items() if name not in others]


def side(results: dict) -> dict:
    """The provenance of a set."""
    origins = [run["provenance"] for run in results["runs"].values()]
    about = {"folder": results["folder"], "set": results["set"], "runs": len(results["runs"])}
    about["seeds"] = sorted({seed for _, seed in results["runs"]})
    return about | {what: sorted({p[what] for p in origins} - {""}) for what in WHERE}


def spans(seeds: list[int]) -> str:
    """1-3, 7: seeds in a row by the first and the last."""
    breaks = [i for i, (a, b) in enumerate(pairwise(seeds), 1) if b != a + 1]
    parts = [seeds[i:j] for i, j in pairwise([0, *breaks, len(seeds)])]
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


# --- as text and as a page ----------------------------------------------------------------


def value(interval, metric: str) -> str:
    """Mean, and its interval if there is one."""
    if interval is None:
        return "–"
    mean, low, high = (v * words(metric)[1] for v in interval)
    return html.number(mean) + (f" ({html.number(low)} to {html.number(high)})" if low != high else "")


def change(row: dict) -> str:
    """The difference as a share of a."""
    if row["difference"] is None:
        return "–"
    if row["a"][0] == 0:
        return "0 %" if row["difference"][0] == 0 else "from 0"
    return f"{100 * row['difference'][0] / abs(row['a'][0]):+.3g} %"


def name_of(metric: str) -> str:
    label, _, unit = words(metric)
    return f"{label}, {unit}" if unit else label


def about(one: dict) -> str:
    image = " ".join([*one["image_name"], *(digest[:12] for digest in one["image"])])
    kernel, runs = ", ".join(one["kernel"]), one["set"] if one["runs"] == 1 else f"{one['set']}, {one['runs']} runs"
    return f"{one['folder']} ({runs}, seed {spans(one['seeds'])}, kernel {kernel}, image {image})"


def sentences(compared: dict) -> list[str]:
    """The sentences of a comparison, a line each."""
    runs, verdicts = compared["runs"], compared["verdicts"]
    differing = [r for r in compared["rows"] if r["differs"]]
    lines = [
        f"{compared['pairs']} valid pairs of runs; "
        f"{len(differing)} of {len(compared['rows'])} metrics differ, in {len({r['case'] for r in differing})} of "
        f"{len({r['case'] for r in compared['rows']})} cases"
    ]
    if verdicts["both"]:
        lines.append(f"{len(verdicts['changed'])} of {verdicts['both']} verdicts changed")
    all_pairs = len(runs["identical"]) + len(runs["unlike"])
    lines.append(f"identical to the byte: {len(runs['identical'])} of {all_pairs} runs")
    for run in runs["unlike"]:
        lines.append(
            f"other bytes: {run['name']}" + (f": the first ACK that differs: {run['first']}" * bool(run["first"]))
        )
    for what, group in (("runs", runs), ("verdicts", verdicts)):
        for which in ("a", "b"):
            if names := group[f"only_{which}"]:
                lines.append(f"{what} only in {compared[which]['folder']}: {', '.join(names)}")
    for run in runs["invalid"]:
        whose = "; ".join(f"{side.upper()}: {'; '.join(run[side])}" for side in ("a", "b") if run[side])
        lines.append(f"{run['name']}: invalid, compared with nothing ({whose})")
    return lines


def print_comparison(compared: dict, everything: bool) -> None:
    console.print(f"A: {about(compared['a'])}\nB: {about(compared['b'])}\n{compared['rule']}")
    shown = [r for r in compared["rows"] if r["differs"] or everything]
    if shown:
        rows = [
            (
                Text("≠ differs" if r["differs"] else "same", style="bold red" if r["differs"] else "dim"),
                Text(r["case"]),
                name_of(r["metric"]),
                str(r["seeds"]),
                value(r["a"], r["metric"]),
                value(r["b"], r["metric"]),
                change(r),
            )
            for r in shown
        ]
        console.print(terminal(left("", "case", "metric") + right("seeds", "A", "B", "B - A"), rows))
    if changed := compared["verdicts"]["changed"]:
        words = [
            (Text(v["id"]), *(Text(f"{SYMBOLS[v[x]]} {v[x]}", style=STYLES[v[x]]) for x in ("a", "b"))) for v in changed
        ]
        console.print(terminal(left("verdict", "A", "B"), words))
    for line in sentences(compared):
        console.print(line)
    if everything and compared["runs"]["identical"]:
        console.print(f"the same bytes: {', '.join(compared['runs']['identical'])}")


def page(compared: dict) -> str:
    """A page that needs no other file."""
    cases: dict[str, list[dict]] = {}
    for row in compared["rows"]:
        cases.setdefault(row["case"], []).append(row)
    return (
        html.environment()
        .get_template("compare.html.j2")
        .render(
            c=compared,
            cases=cases,
            metrics=METRICS | BY_DIRECTION,
            name_of=name_of,
            value=value,
            change=change,
            about=about,
            lines=sentences(compared),
        )
    )


def run(
    a: dict, b: dict, tolerance: float, everything: bool = False, html: Path | None = None, as_json: Path | None = None
) -> int:
    """Print the comparison of two sides, write what is asked for; the exit code."""
    compared = compare(*paired(a, b), tolerance)
    for file, text in ((html, lambda: page(compared)), (as_json, lambda: json.dumps(compared, indent=1) + "\n")):
        if file:
            try:
                file.write_text(text(), encoding="utf-8")
            except OSError as e:
                raise LabError(f"{file}: {e.strerror}") from None
    print_comparison(compared, everything)
    return code(compared)
