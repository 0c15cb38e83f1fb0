# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab dossier`: that each question has its runs and each run its question, and what is made of made-up ones."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from asymlab import LabError
from asymlab.controllers import REGISTER
from asymlab.dossier import answers, board, dossier, page
from asymlab.plan import scenario
from asymlab.report.judged import Results
from tests.report.madeup import Page
from tests.shared import REPO, asymlab, one_line

SECTIONS = (  # of RFC 9743, with something to say of a controller
    *("5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5", "5.2.1", "5.2.2", "5.2.3", "5.3.1", "5.3.2"),
    *("6.1", "6.2", "6.3", "6.4"),
    *("7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8", "7.9", "7.10", "7.11"),
    "8",
)

ACKS = [
    ("flow", int),
    ("t", float),
    *((name, int) for name in ("cwnd", "in_flight", "srtt_us", "ca_state", "delivered", "lost", "pacing")),
]
BYTES = [("flow", int), ("t", float), ("bytes", float)]
LINKS = [("dev", "U9"), ("t", float), ("packets", int), ("qlen_sum", int), ("bytes", int)]  # columns
L4S = SimpleNamespace(engine="uml", kernel="7.3.4", has_type=lambda _: False)  # an image that has all queues


def tasks(cases, image=None) -> list:
    """The same as plan_runs(): what is the same run in two cases has one task."""
    found = {}
    for case in cases:
        for seed in case.seeds:
            same = f"{case.scenario.model_dump(exclude={'id', 'title'})} {seed}"
            key = hashlib.sha256(same.encode()).hexdigest()[:32]
            found.setdefault(key, SimpleNamespace(case=case, seed=seed, key=key))
    return list(found.values())


def made_up(task, good: float) -> SimpleNamespace:
    """A run in which FAST has `good` times what the others have, and makes that much less of a queue."""
    flows = [flow for flow in task.case.scenario.flows for _ in range(flow.count)]
    fast = flows[0].controller == "fast"
    again = 0.7 if task.case.scenario.id in ("TUNNEL-BESIDE", "TUNNEL-MARKS") and good < 1 else 1
    mine = again * good if fast else 1.0
    ids = range(len(flows))
    packets = {"HEAVY": 1000, "HEAVIER": 1000}.get(task.case.scenario.id, 1000 * mine) / mine
    rtt, pacing = 58_000 / mine, 1 << 40
    of_acks = [(0, 1.0, 100, 50 * mine, rtt, 0, 0, 0, pacing), (0, 3.9, 30 / mine, 50, rtt, 3, 900, 100, pacing)]
    full = [(flow, at / 10, 12_000 * (at / 10 >= 1 / mine)) for flow in (0, 1) for at in range(50)]
    passed = [(1.1, 1), (1.2, 29 / mine), (1.3, 99)]
    forward = {"packets": packets, "drops": 10 / mine, "queue_delay_mean_s": 0.01 / mine}
    return SimpleNamespace(
        valid=True,
        record={
            "name": task.case.name,
            "key": task.key,
            "seed": task.seed,
            "invalid": [],
            "identity": {"kernel": "6.12.9", "image": "ab" * 32, "uml": {"words": ""}},
            "agent": {"closed": {str(i): (int(1e9 / mine), 0) for i in ids if flows[i].size}},
        },
        job=SimpleNamespace(
            duration_s=5.0,
            measure_from_s=1.0,
            bin_ms=100,
            watch=[SimpleNamespace(name="r", forward=SimpleNamespace(dev="r0", rate_bps=1_000_000))],
            links=[SimpleNamespace(mtu=1000)],
            **{"ends": [], "changes": [], "shapes": []},
            flows=[SimpleNamespace(id=i, start_s=0.0, stop_s=2.0, size_bytes=flows[i].size) for i in ids],
            background=[SimpleNamespace(payload_bytes=172, period_ns=3_200_000)],
        ),
        acks=np.array(of_acks, ACKS),
        goodput=np.array(full, BYTES),
        links=np.array([("r0", 1.0, 0, 0, 0), *(("r0", t, n, 10 * n, 114 * n) for t, n in passed)], LINKS),
        metrics={
            "goodput_bps": 1e6 * mine,
            "flows": [{"goodput_bps": 1e6 * mine, "retransmits": 50}] * len(flows),
            "busiest": "r",
            "jain": min(mine, 1.0),
            "utilisation": min(mine, 1.0),
            "forward": forward,
            "background_bps": [500e3 * min(mine, 1.0)],
        },
    )


@pytest.fixture
def plan(monkeypatch, tmp_path):
    monkeypatch.setattr(dossier, "plan_runs", tasks)
    monkeypatch.setattr("asymlab.report.report.store.engine", lambda identity: "UML")
    return lambda name="fast", seeds=None, on=L4S: dossier.plan(name, on, seeds, tmp_path / "to")


def done(made, good: float) -> dict:
    return {task.key: made_up(task, good) for task in made.tasks}


def test_each_heading_of_the_rfc_is_answered_or_said_to_be_left():
    found = answers.questions().headings("fast")
    assert tuple(h.section for h in found[:-1]) == SECTIONS
    assert all(h.checks or h.left for h in found)


@pytest.mark.parametrize("cwnd, flight, packets_s, share", [(80, 20, 1e6, 2), (80, 20, 500, 1.25), (20, 3, 1e6, 1)])
def test_what_a_slow_program_may_send_is_limited_by_window_and_rate(cwnd, flight, packets_s, share):
    """In an RTT of 0.1 s, over twice the most in flight or twice the initial window."""
    acks = np.array([(0, 1.0, cwnd, flight, 1e5, 0, 0, 0, packets_s * 1448)], ACKS)
    run = SimpleNamespace(acks=acks, job=SimpleNamespace(measure_from_s=0))
    assert answers.questions().unused(run) == pytest.approx(share, rel=1e-3)


@pytest.mark.parametrize("name", ["fast", "cubic"])
def test_each_question_has_its_runs_and_each_run_its_question(plan, name):
    unasked, unused = set(), set()
    for on in (L4S, SimpleNamespace(engine="qemu", kernel="6.12.9")):
        made = plan(name, on=on)
        results = Results("dossier", [(task, made_up(task, 1)) for task in made.tasks])
        checks = [
            check for of in made.names for heading in answers.questions().headings(of) for check in heading.checks
        ]
        unasked ^= {check.id for check in checks if not check.value.planned(results)}
        asked = {task.key for check in checks for task in check.value.runs.tasks(results)}
        unused |= {task.case.name for task in made.tasks if task.key not in asked}
    assert unasked == {"multipath", "DualPI2 cubic", "DUALPI2-BESIDE own"} and not unused


@pytest.mark.parametrize("engine, kernel", [("uml", "6.12.9"), ("qemu", "7.3.4-amd64")])
def test_where_a_kernel_lacks_a_queue_nothing_is_asked_of_it(plan, engine, kernel):
    def asked(made):
        return {answer.own.id for s in answers.judged(made, done(made, 1)) for answer in s.answers}

    both = [plan(), plan(on=SimpleNamespace(engine=engine, kernel=kernel, has_type=L4S.has_type))]
    left = asked(both[0]) - asked(both[1])
    assert left == {"DualPI2 cubic", "DUALPI2-BESIDE own"}
    ids = [{task.case.scenario.id for task in made.tasks} for made in both]
    assert ids[0] - ids[1] == {"DUALPI2-BESIDE"}
    assert ("multipath" in asked(both[1])) == ("MULTIPATH" in ids[1]) == (engine == "qemu")


def test_a_scenario_is_one_that_anybody_may_run(plan):
    made = plan(seeds=2)
    file = made.folder / "beside.toml"
    cases = scenario.load(file)
    assert {case.scenario.flows[0].controller for case in cases} == {"fast", "cubic", "reno", "bbr"}
    assert {case.scenario.flows[1].controller for case in cases} == {"cubic", "reno"}
    assert len(cases) == 2 * 3 * 4 and {task.seed for task in made.tasks} == {1, 2}


def test_a_standard_controller_is_not_its_own_rival(plan):
    assert plan("cubic").names == ["cubic", "reno", "bbr"]


def test_anyones_file_is_asked_by_its_path(plan, monkeypatch, tmp_path):
    (tmp_path / "mine.bpf.o").write_bytes(b"not looked at when planned by a test")
    monkeypatch.chdir(tmp_path)
    made = plan("./mine.bpf.o")
    assert made.names[0] == str(tmp_path / "mine.bpf.o") and made.labels == ["mine", "CUBIC", "Reno", "BBR"]
    assert {section.word(made.name) for section in answers.judged(made, done(made, 1)) if section.answers} == {"holds"}


@pytest.mark.parametrize("good, word", [(1, "holds"), (0.3, "fails")])
def test_a_word_follows_from_the_runs(plan, good, word):
    made = plan()
    found = answers.judged(made, done(made, good))
    said = {section.section: section.word(made.name) for section in found if section.answers}
    assert set(said.values()) == {word}, said
    rivals = {row.verdict for s in found for a in s.answers for name, row in a.rows.items() if name != "fast"}
    assert "fails" not in rivals


def test_a_page_a_text_and_data(plan, capsys):
    made = plan()
    dossier.write(made, done(made, 0.3))
    read = Page((made.folder / "index.html").read_text())
    assert "Protection against bufferbloat" in read.text
    data = json.loads((made.folder / "dossier.json").read_text())
    assert [s["section"] for s in data["sections"][:-1]] == list(SECTIONS)
    (bloat, _) = data["sections"][1]["questions"]
    assert bloat["answers"]["fast"]["verdict"] == "fails" and bloat["answers"]["reno"]["verdict"] == "holds"
    assert bloat["at_most"] == 1.1 and bloat["scenarios"] == ["bloat.toml"]
    plain = "10 ms, p99 8; 0.99 % dropped; 0.05 MB again"
    assert bloat["answers"]["reno"]["absolute"]["queue_p99_ms"] == pytest.approx(8)
    text = (made.folder / "dossier.md").read_text()
    assert f" | {plain} | " in text and plain in read.text
    assert "## 5.1.2 Protection against bufferbloat: fails" in text
    for command in re.findall(r"^    asymlab run (\S+) --engine uml$", text, re.M):
        assert (made.folder / command.rpartition("/")[2]).is_file()
    assert (made.folder / "answers.png").read_bytes().startswith(b"\x89PNG")
    assert "fails" in capsys.readouterr().err


def test_an_unended_short_flow_counts_as_the_whole_run():
    run = made_up(tasks(scenario.load(answers.SCENARIOS / "cases.toml:short"))[0], 1)
    whole = answers.questions().short_s(run)
    run.record["agent"]["closed"].popitem()
    assert whole == 1.0 and answers.questions().short_s(run) == 5.0


def test_how_far_an_answer_is_from_its_bound(plan):
    made = plan()
    sections = answers.judged(made, done(made, 0.5))
    by_id = {a.own.id: a for s in sections for a in s.answers}
    assert page.to_bound(by_id["bloat"].own) == pytest.approx(0.5 * 1.1)
    assert page.to_bound(by_id["geo"].own) == pytest.approx(0.5 / 0.9)


@pytest.mark.parametrize("name", ["nosuch", "../fast", "fa st"])
def test_a_name_that_is_none_is_one_line(name, tmp_path):
    one_line(asymlab("dossier", name, "--dry-run", "--to", tmp_path / "x"), name)


# --- the board -----------------------------------------------------------------------------


def guest(label: str = "6.12-uml") -> SimpleNamespace:
    return SimpleNamespace(**vars(L4S), folder=Path(label))


@pytest.fixture
def boards(plan, monkeypatch, tmp_path):
    """Makes a board of these controllers, in which FAST is so good."""
    monkeypatch.setattr(board, "BUILD", tmp_path)

    def made(good: float, *names: str, label: str = "6.12-uml") -> str:
        mine = board.plan(list(names), guest(label), 2)
        board.write(mine, done(mine, good), guest(label), tmp_path / "board")
        return (tmp_path / "board" / "board.md").read_text()

    return made


def rows(text: str) -> dict[str, tuple[str, str, str]]:
    """By controller a kernel's part has: its words, the command, and what a referee objects to."""
    words = re.findall(r"^\| `(\w+)` \| ((?:[✓✗?–] \| )*[✓✗?–]) \|$", text, re.M)
    more = re.findall(r"^\| `(\w+)` \| \d+ \| \w+ \| [^|]+ \| `(.*)` \| (.*) \|$", text, re.M)
    assert [name for name, _ in words] == [name for name, *_ in more]
    return {name: (found, *rest) for (name, found), (_, *rest) in zip(words, more)}


def test_each_question_has_its_objection():
    ours = answers.questions()
    asked = {check.id for heading in ours.headings("fast") for check in heading.checks}
    published = {id for row in board.read(REPO / "docs" / "results" / "board.jsonl") for id in row["answers"]}
    assert asked <= set(ours.OBJECTIONS) <= asked | published
    assert all(said.count("{}") == 1 for said in ours.OBJECTIONS.values())
    assert set(ours.KNOWN) <= set(REGISTER)


def test_a_board_has_a_row_for_each(boards, capsys):
    text = boards(0.3, "fast", "bbr")
    found = rows(text)
    assert list(found) == ["fast", "cubic", "bbr"]
    assert "| 7.10 | Multipath transport |" in text  # which this kernel has not
    words, command, objections = found["cubic"]
    assert words.count("✓") == 23 and objections == "nothing that fails here"
    assert command == "asymlab dossier cubic --seeds 2 --engine uml"
    words, _, objections = found["fast"]
    assert words.count("✗") == 23 and objections.endswith("; 20 more headings")
    assert "; 3.3 times CUBIC's queue where that is deep; " in objections
    said = capsys.readouterr().err
    assert "FAST" in said and "✗" in said


def test_a_board_names_the_questions_that_fail_for_none(boards, tmp_path):
    assert "questions fail for none of these 2 controllers:\n`" not in boards(0.3, "fast")
    file = tmp_path / "board" / "board.jsonl"
    file.write_text(file.read_text().replace('"answers": {', '"answers": {"gone": ["holds", 1, 1, 1], '))
    text = boards(0.3, "bbr")
    assert re.search(r"^1 of \d+ questions fail for none of these 3 controllers:\n`gone`\.$", text, re.M)
    assert "\nAnswered here, and asked no longer:\n`gone`.\n" in text


def test_one_run_has_its_symbols_in_brackets(boards, tmp_path):
    boards(1, "fast")
    file = tmp_path / "board" / "board.jsonl"
    file.write_text(file.read_text().replace('"seeds": 2', '"seeds": 1'))
    text = boards(1, "reno")
    assert "| `fast` | (✓) | (✓) |" in text and "| `reno` | ✓ | ✓ |" in text


def test_a_board_without_commits_says_nothing_of_them(boards, monkeypatch):
    monkeypatch.setattr(board.registered, "commit", lambda _: "")
    assert re.search(r"^\| `fast` \| 2 \| \w+ \| installed \| `", boards(1, "fast"), re.M)


def test_a_board_keeps_other_kernels_and_tells_what_they_answer_otherwise(boards):
    boards(1, "fast", "reno")
    text = boards(0.3, "fast", label="7.3-uml")
    first, second, turned = text.split("\n## ")[1:]
    assert [list(rows(part)) for part in (first, second)] == [["fast", "reno", "cubic"], ["fast", "cubic"]]
    opposite = re.findall(r"^\| `(\w+)` \| (.+) \| 1 ✓ \| 0.3 ✗ \|$", turned, re.M)
    assert ("fast", "geo") in opposite and {name for name, _ in opposite} == {"fast"}
    questions = sum(len(heading.checks) for heading in answers.questions().headings("fast")) - 1  # MPTCP's
    assert "Both were asked the same questions, with as many seeds, of `fast`, `cubic`." in turned
    (count,) = re.findall(rf"^(\d+) of {2 * questions} answers are the opposite\.$", turned, re.M)
    assert int(count) == len(re.findall(r"^\| `", turned, re.M)) > 40
    assert rows(second)["fast"][1] == "asymlab dossier fast --seeds 2 --engine uml --image 7.3"


ROW = json.dumps(
    {
        "controller": "x",
        "called": "x",
        "words": {"5.1": "holds"},
        "failed": ["a"],
        "answers": {"a": ["holds", 1.0, 1.0, 1.0]},
        "of": {"label": "6.12-uml", "engine": "uml", "kernel": "6", "image": "ab", "seeds": 1, "questions": ""},
    }
)


def test_a_row_tells_what_it_was_made_with(boards, tmp_path):
    boards(1, "fast")
    file = tmp_path / "board" / "board.jsonl"
    file.write_text(file.read_text().replace('"image": "', '"image": "x').replace('"seeds": 2', '"seeds": 9'))
    text = boards(1, "reno")
    assert re.findall(r"^\| `(\w+)` \| (\d) \| (x?)\w+ \|", text, re.M) == [
        ("fast", "9", "x"),
        ("reno", "2", ""),
        ("cubic", "2", ""),
    ]
    assert rows(text)["fast"][1] == "asymlab dossier fast --seeds 9 --engine uml"
    file.write_text(file.read_text().replace('"kernel": "6.12.9"', '"kernel": "6.12.8"'))
    assert list(rows(boards(1, "bbr"))) == ["cubic", "bbr"]


@pytest.mark.parametrize(
    "line, wrong",
    [
        ("{", "Invalid JSON"),
        ("{}", "controller: Field required"),
        (ROW.replace('"answers": {"a": ["holds", 1.0, 1.0, 1.0]}', '"answers": {}'), "'a' has failed and has no value"),
        (ROW.replace("6.12-uml", "../evil"), "of.label: '../evil' is no name of an image"),
    ],
)
def test_a_line_that_is_no_row(tmp_path, line, wrong):
    """Before any run is made, and with the number of the line."""
    file = tmp_path / "board.jsonl"
    file.write_text(f"{ROW}\n{line}\n")
    with pytest.raises(LabError, match="board.jsonl: cannot be read: line 2 is no row of a board") as e:
        board.read(file)
    assert wrong in str(e.value)
    file.write_text(f"{ROW}\n")
    assert board.read(file) == [json.loads(ROW)]


def test_answers_of_fewer_seeds_are_not_compared(boards, tmp_path):
    boards(1, "fast")
    file = tmp_path / "board" / "board.jsonl"
    file.write_text(file.read_text().replace('"seeds": 2', '"seeds": 1'))
    text = boards(0.3, "fast", label="7.3-uml")
    assert "## Linux" in text and "answers otherwise" not in text


def test_names_stand_in_lines_that_one_can_read():
    names = [f"`question {number}`" for number in range(40)]
    lines = board.lines_of(names)
    assert " ".join(lines) == ", ".join(names) + "." and len(lines) > 1
    assert all(len(line) <= board.LINE and line.count("`") % 2 == 0 for line in lines)


def test_the_published_board_is_what_its_data_say():
    kept = board.read(REPO / "docs" / "results" / "board.jsonl")
    assert board.text(kept) == (REPO / "docs" / "results" / "board.md").read_text()
    assert len({row["of"]["label"] for row in kept}) > 1
