# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""docs/scenarios.md: its tables are what the code has, and its scenarios run."""

import re
import textwrap

import pytest

from asymlab import LabError
from asymlab.plan import reference, scenario, topology
from asymlab.plan.model import Scenario
from asymlab.plan.programs import Content
from asymlab.plan.queues import Synthetic
from tests.shared import REPO, asymlab, compile_job

TEXT = reference.PAGE.read_text()


def blocks(text: str) -> list[str]:
    """The indented blocks, each without its indent."""
    parts = re.findall(r"(?:^(?:    .*)?\n)+", text, re.M)
    return [textwrap.dedent(block).strip() + "\n" for block in parts if block.strip()]


WHOLE = [block for block in blocks(TEXT) if block.startswith("title =")]
MORE = [block for block in blocks(TEXT) if block.startswith("[")]


def test_the_tables_are_those_of_the_code():
    tables = TEXT.partition(reference.BEGIN + "\n")[2].partition("\n" + reference.ENDING)[0]
    assert tables == reference.tables(), "to renew them: asymlab reference --record"
    assert asymlab("reference").stdout == tables + "\n"


def test_record_puts_the_tables_between_their_marks(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    monkeypatch.setattr(reference, "PAGE", page)
    page.write_text(f"before\n{reference.BEGIN}\nold\n{reference.ENDING}\nafter\n")
    reference.record()
    assert page.read_text() == f"before\n{reference.BEGIN}\n{reference.tables()}\n{reference.ENDING}\nafter\n"
    page.write_text("nothing")
    with pytest.raises(LabError, match="no place for the tables"):
        reference.record()


def test_every_key_is_described_and_every_link_leads_somewhere():
    schema = Scenario.model_json_schema()
    apart = {model.__name__: model.model_json_schema() for model in (Content, Synthetic)}
    models = {"Scenario": schema, **apart, **schema["$defs"]}
    assert {model.__name__ for model in reference.SECTIONS.values()} == set(models)
    for name, model in models.items():
        for key, field in model["properties"].items():
            assert re.fullmatch(r"[A-Z`].*\.", field.get("description", "")), f"{name}.{key}"
    anchors = {re.sub("[^a-z0-9_ -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", TEXT, re.M)}
    assert set(re.findall(r"\]\(#(.*?)\)", TEXT)) <= anchors


@pytest.mark.parametrize("text", WHOLE, ids=lambda text: text.splitlines()[0])
def test_a_scenario_of_the_page_is_sound(tmp_path, text):
    (tmp_path / "sat.toml").write_text(text)
    for case in scenario.load(tmp_path / "sat.toml"):
        compile_job(case, 1)


@pytest.mark.parametrize("text", MORE, ids=lambda text: text.splitlines()[0])
@pytest.mark.parametrize("which", scenario.SETS)
def test_what_the_page_adds_to_its_first_scenario_fits(tmp_path, text, which):
    (tmp_path / "sat.toml").write_text(WHOLE[0] + text)
    for name in ("mine.bpf.c", "mine.bpf.o", "tcp_mine.ko"):
        (tmp_path / name).touch()
    for case in scenario.load(tmp_path / "sat.toml", which):
        compile_job(case, 1)


def test_what_begins_with_the_first_scenario_is_sound_and_its_mistakes_name_both_files(tmp_path):
    [text] = [block for block in blocks(TEXT) if block.startswith("base =")]
    first, file = tmp_path / "sat.toml", tmp_path / "alone.toml"
    first.write_text(WHOLE[0])
    file.write_text(text)
    [case] = scenario.load(file)
    [flow] = case.scenario.flows
    assert (flow.controller, flow.ack, flow.start) == ("fast", "every", 10**6)
    assert case.scenario.path.forward.loss == 0.001 and case.scenario.path.forward.queue == 500
    assert compile_job(case, 1)["controllers"][0]["set"] == {"alpha": 50}
    first.write_text(WHOLE[0].replace("20mbit", "20mbps"))
    units = "is not a quantity such as '10mbit' (units: bit, kbit, mbit, gbit)"
    said = f"asymlab: {file}: path.forward.rate: '20mbps' {units} (it stands in {first})\n"
    assert asymlab("run", file).stderr == said


def test_the_page_has_the_settings_of_each_profile():
    """A profile's column has each value that it sets; `as NAME` is that of another one."""
    head, *rows = (
        line.strip("| ").split(" | ") for line in TEXT.splitlines() if re.match(r"\| (setting|`net\.)", line)
    )
    names = [name.strip("`") for name in head[1:-1]]
    assert set(names) == set(topology.PROFILES) and len(rows) > 5
    for setting, *cells, _ in rows:
        for name, cell in zip(names, cells, strict=True):
            other = re.fullmatch(r"as `(\w+)`", cell)
            set_to = topology.PROFILES[name].get(setting.strip("`"))
            if other:
                assert set_to == topology.PROFILES[other[1]][setting.strip("`")]
            elif set_to is not None:
                assert str(set_to) == cell.split(": ")[-1].strip("`"), f"{setting} of {name}"


def test_the_cases_of_the_page_are_three_scenarios(tmp_path):
    (text,) = [block for block in blocks(TEXT) if block.startswith("profile =")]
    (tmp_path / "cases.toml").write_text(text)
    cases = scenario.load(tmp_path / "cases.toml")
    assert [case.name for case in cases] == ["FAST", "CUBIC", "FADE"]
    assert [case.scenario.path.forward.rate for case in cases] == [20 * 10**6, 20 * 10**6, 10**7]


def test_the_page_has_all_kinds_of_scenarios():
    assert len(WHOLE) == 6 and len(MORE) == 12


def test_the_command_takes_the_first_scenario_and_says_what_is_wrong_with_another(tmp_path):
    file = tmp_path / "sat.toml"
    file.write_text(WHOLE[0])
    p = asymlab("run", file, "--dry-run")
    assert p.returncode == 0 and "1 runs" in p.stdout + p.stderr, p
    file.write_text(WHOLE[0].replace("20mbit", "20mbps"))
    (said,) = [block for block in blocks(TEXT) if block.startswith("asymlab: sat.toml")]
    assert asymlab("run", file).stderr == said.replace("sat.toml", str(file))


def test_the_scenario_of_the_pages_python_is_sound(tmp_path):
    (text,) = re.findall(r'^    text = """\n(.*?)^    """', (REPO / "docs" / "experiments.md").read_text(), re.M | re.S)
    file = tmp_path / "mine.toml"
    file.write_text(text.replace('base = "', f'base = "{REPO}/'))
    assert [case.name for case in scenario.load(file)] == ["MINE 10mbit", "MINE 0.2mbit"]


def test_the_scenario_of_the_readme_is_sound(tmp_path):
    for text in blocks((REPO / "README.md").read_text()):
        if text.startswith("title ="):
            (tmp_path / "sat.toml").write_text(text)
            compile_job(scenario.load(tmp_path / "sat.toml")[0], 1)
            return
    pytest.fail("README.md has no scenario")
