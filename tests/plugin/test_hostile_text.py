"""Texts of others on every way out: no character reaches a terminal that it would obey, and no markup reaches a
page.
"""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from support.command_lines import make_reports
from support.run_reports import hostile_report, without_code

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import BaselineError, BiasError, DataFileError, GateFailure, UnknownNameError
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.plugin.flag_values import Origin
from pytest_genderbias.plugin.outputs import OUTPUTS, Output
from pytest_genderbias.reports.pictures import pictures_of
from pytest_genderbias.reports.run_report import RunInfo, RunReport, write_json
from pytest_genderbias.reports.run_summary import overview

#: Markup, escape codes of 7 and 8 bits, a carriage return, bidirectional controls, the end of CDATA, a noncharacter.
HOSTILE = "<b onclick=x>|`*[a](b) & \x1b[31m\x9b2J\r\u202e\u2066 \u2028 \x7f\x07 ]]> \ufffe"
WORST = f"{HOSTILE} \x00 \ud800 é😀" + "x\x1b" * 50_000  #: and a NUL, a lone surrogate, 100,000 characters
TESTS = """
import json
from dataclasses import replace
from pathlib import Path
from pytest_genderbias import assert_at_least, load_model, measure
from pytest_genderbias.plugin.unjudged import for_other_models

WORST = json.loads(Path("worst.json").read_text())

def test_error():
    load_model("./checkpoint")

def test_skip(request):
    for_other_models(request.node, WORST)

def test_gate(bias_measure):
    measurement = bias_measure("tiny-nli.yaml")
    assert_at_least(replace(measurement, suite=WORST, model=WORST, notes=(WORST,)), 0.99)
"""


def refuse_obeyed(text: str) -> None:
    """Raise if a terminal would obey a character of the text."""
    assert {c for c in set(text) if not c.isprintable()} <= {"\n"}


def test_a_run_shows_texts_of_others_escaped(project: pytest.Pytester) -> None:
    stem = HOSTILE.replace("/", "")
    suite = (project.path / "tiny-nli.yaml").read_text().replace("suite: tiny-nli", f"suite: {json.dumps(stem)}")
    (project.path / f"{stem}.yaml").write_text(suite)
    gate = {"suite": f"./{stem}.yaml", "name": re.sub("[\ud800😀]", "", WORST), "at_least": 0.99}
    (project.path / "g.bias.yaml").write_text(json.dumps({"gates": [gate]}))
    (project.path / "worst.json").write_text(json.dumps(WORST))
    (project.path / "checkpoint").mkdir()
    (project.path / "checkpoint/config.json").write_text(json.dumps({"model_type": "bert", "architectures": [HOSTILE]}))
    project.makepyfile(test_hostile=TESTS)
    result = project.runpytest(
        f"--bias-model=m={project.models}:worse",  # type: ignore[attr-defined]
        "-rA",
        "-v",
        "-p",
        "no:cacheprovider",
        "--bias-json=out.json",
        "--junitxml=out.xml",
        "--bias-summary=out.md",
    )
    result.assert_outcomes(failed=3, skipped=1)
    refuse_obeyed(result.stdout.str())
    refuse_obeyed(result.stderr.str())
    assert r"\x1b[31m\x9b2J" in result.stdout.str()
    shown = result.outlines[next(i for i, line in enumerate(result.outlines) if re.match("=+ bias =+$", line)) :]
    until = next(i for i, line in enumerate(shown) if line.startswith("bias  "))
    assert max(map(len, shown[:until])) < 2_100, "texts of 100,000 characters are cut"
    text = (project.path / "out.json").read_text(encoding="utf-8")
    refuse_obeyed(text)
    report = json.loads(text)
    assert {m["suite"] for m in report["measurements"]} == {"tiny-nli", stem}
    assert {j["suite"] for j in report["judgements"]} == {WORST, stem}
    assert {j["model"] for j in report["judgements"]} == {WORST, "m"}
    assert make_reports("out.csv", "README.md", file="out.json").status == 0
    for name in ("out.md", "out.csv"):
        refuse_obeyed((project.path / name).read_text(encoding="utf-8"))
    xml = (project.path / "out.xml").read_text(encoding="utf-8")
    refuse_obeyed(xml)
    names = {p.get("name") for p in ET.fromstring(xml).iter("property")}
    assert any(r"\x1b[31m" in str(name) for name in names)


@pytest.mark.parametrize("kind", [BiasError, DataFileError, UnknownNameError, BaselineError])
def test_errors_are_shown_in_one_line(kind: type[BiasError]) -> None:
    shown = str(kind(f"a\n  b{WORST}"))
    assert shown.startswith("a   b<b onclick=x>")
    assert shown.isprintable()
    assert len(shown) < 4_100
    assert kind("x.yaml:1: é").args == ("x.yaml:1: é",)
    assert str(kind("x.yaml:1: é")) == "x.yaml:1: é"


def test_verdicts_keep_their_lines() -> None:
    assert str(GateFailure("a\nb\x1b")) == "a\nb\\x1b"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_measurement_is_shown_escaped(tmp_path) -> None:
    measurement = replace(
        measure("lm-occupation", load_model("demo-lm"), limit=20),
        suite=HOSTILE,
        model=WORST,
        notes=(WORST,),
        reasons={"x": WORST},
    )
    refuse_obeyed(repr(measurement))
    page = _Tags()
    page.feed(measurement._repr_html_())
    assert page.tags == {"table", "caption", "thead", "tr", "th", "tbody", "td", "p"}
    refuse_obeyed(page.text)
    judgement = judge_limit(measurement, Limit(at_most=1.0))
    settled = judgement.settled("passed", WORST)
    for text, _ in overview([measurement], [settled], 100, 2):
        refuse_obeyed(text)
    write_json(RunReport(RunInfo("2026-11-22T10:00:00+00:00", "0"), (measurement,), (settled,)), tmp_path / "out.json")
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (report["measurements"][0]["model"], report["measurements"][0]["notes"]) == (WORST, [WORST])


@pytest.fixture(scope="module")
def hostile() -> RunReport:
    """A report of hostile texts, with a measurement that a gate and pictures can be made of."""
    report = hostile_report(40_000)
    real = measure("nli-religion", load_model("demo-nli"), limit=64, cache=None)
    real = replace(real, model=report.run.models[0].name)
    return replace(report, measurements=(*report.measurements, real), pictures=pictures_of(real))


def refuse_markup(text: str) -> None:
    page = _Tags()
    page.feed(text)
    assert "onclick" not in page.attributes


def refuse_markdown(text: str) -> None:
    """Raise for markup, links and mentions beside code and behind the metadata at the head of a page; and for length,
    since somebody reads the page.
    """
    outside = without_code(re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL))
    refuse_markup(outside)
    assert "](b)" not in outside
    assert "@octocat" not in outside and "#1" not in outside
    assert len(text) < 75_000


def refuse_formulas(text: str) -> None:
    rows = list(csv.reader(text.splitlines(keepends=True), strict=True))
    assert len({len(row) for row in rows}) == 1
    assert not any(cell.startswith("=") for row in rows for cell in row)


#: What is refused in a file, or reads it, by its ending.
CHECKS = {
    ".csv": refuse_formulas,
    ".html": refuse_markup,
    ".json": json.loads,
    ".md": refuse_markdown,
    ".svg": ET.fromstring,
    ".yaml": yaml.safe_load,
}


@pytest.mark.parametrize(
    ("output", "name"),
    [
        pytest.param(output, name, id=f"{output.kind} {name}", marks=pytest.mark.slow if output.package else ())
        for output in OUTPUTS
        for name in output.names or (f".{output.kind}",)
    ],
)
def test_every_output_has_texts_of_others_escaped(
    output: Output, name: str, hostile: RunReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if output.lacks_package:
        pytest.skip(f"{output.kind} needs {output.package}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    output.write(hostile, output.parse(f"out{name}", Origin("--to", tmp_path, tmp_path)))
    files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert files
    for file, content in files.items():
        if b"\0" not in content:  # a text
            text = content.decode("utf-8")
            refuse_obeyed(text)
            assert not re.search(r"^\s*::error", text, flags=re.MULTILINE), file
            CHECKS.get(file.suffix, str)(text)
