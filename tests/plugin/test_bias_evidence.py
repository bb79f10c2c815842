"""``bias_evidence``, and what people say of a gate: why it is there, who answers for it, which harm, and since when."""

from __future__ import annotations

import csv
import json
import sqlite3

import pytest
from support.command_lines import make_reports
from support.small_projects import NLI, model

#: A text that a page, a terminal, a table and a spreadsheet would obey.
BECAUSE = '=adverts must not "lean" <b>here</b> | \x1b[31m'
SAID = {"because": BECAUSE, "owner": "Ada, product", "harm": "women see no adverts", "decided": "2026-11-22"}
ENTRY = "  - {suite: ./tiny-nli.yaml, name: NAME, at_least: 0.5"
DEMANDED = ("--bias-strict", "-o", "bias_evidence=true")


def gate_file(project: pytest.Pytester, *entries: str, name: str = "g.bias.yaml") -> None:
    project.path.joinpath(name).write_text("gates:\n" + "".join(f"{entry}}}\n" for entry in entries))


def test_every_file_of_a_run_carries_what_was_said(pytester: pytest.Pytester) -> None:
    pytest.importorskip("huggingface_hub", reason="model cards are written with huggingface_hub")
    folder = pytester.path
    (folder / "g.bias.yaml").write_text(
        "gates:\n  - suite: lm-occupation\n    at_most: 0.9\n"
        + "".join(f"    {key}: {json.dumps(text) if key == 'because' else text}\n" for key, text in SAID.items())
    )
    run = pytester.runpytest("--bias-model=m=demo-lm", "--bias-json=run.json", *DEMANDED)
    run.assert_outcomes(passed=1)
    (judged,) = json.loads((folder / "run.json").read_text())["judgements"]
    assert judged["evidence"] == SAID, "as it was written"
    assert make_reports("page.html", "bias.db", "card.md", "audit").status == 0
    shown = BECAUSE.replace("\x1b", r"\x1b")
    page = (folder / "page.html").read_text()
    assert "=adverts must not &#34;lean&#34; &lt;b&gt;here&lt;/b&gt; | \\x1b[31m" in page
    for text in ("Ada, product", "women see no adverts", "2026-11-22"):
        assert page.count(text) == 1
    with sqlite3.connect(folder / "bias.db") as store:
        assert store.execute("SELECT because, owner, harm, decided FROM judgements").fetchall() == [
            (shown, *list(SAID.values())[1:])
        ]
    (pack,) = (folder / "audit").iterdir()
    with (pack / "verdicts.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert {name: row[name] for name in SAID} == {**SAID, "because": f"'{shown}"}, "a spreadsheet computes nothing"
    from huggingface_hub import ModelCard

    (result,) = ModelCard.load(folder / "card.md").data.eval_results
    assert result.metric_args["evidence"] == [{**SAID, "because": shown}]


def test_a_gate_of_which_nobody_said_why_fails_where_it_is_demanded(project: pytest.Pytester) -> None:
    whole = ", ".join(f"{name}: '{text}'" for name, text in SAID.items() if name not in ("because", "harm"))
    gate_file(
        project,
        ENTRY.replace("NAME", "whole") + f", because: a law, {whole}",
        ENTRY.replace("NAME", "partly") + ", owner: Ada, harm: none known",
        ENTRY.replace("NAME", "bare"),
    )
    for arguments in ((), ("--bias-strict",), DEMANDED[1:]):
        project.runpytest(model(project, "good"), *arguments).assert_outcomes(passed=3)
    result = project.runpytest(model(project, "good"), *DEMANDED)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            (
                "g.bias.yaml:3: the gate partly.net_neutral.at_least:m lacks because, decided: add them to its entry"
                " (bias_evidence)"
            ),
            (
                "g.bias.yaml:4: the gate bare.net_neutral.at_least:m lacks because, owner, decided: add them to its"
                " entry (bias_evidence)"
            ),
        ]
    )


def test_a_test_in_python_says_it_in_its_marker(project: pytest.Pytester) -> None:
    test = "def test_{}(bias_measure):\n    assert_at_least(bias_measure('tiny-nli.yaml'), 0.5)\n"
    marker = "@pytest.mark.bias(" + ", ".join(f"{name}={text!r}" for name, text in SAID.items()) + ")\n"
    project.makepyfile(
        test_it="import pytest\nfrom pytest_genderbias import assert_at_least\n"
        + marker
        + test.format("said")
        + test.format("bare")
    )
    result = project.runpytest(model(project, "good"), "--bias-json=run.json", *DEMANDED)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*the gate test_bare[[]m[]] lacks because, owner, decided: add them to @pytest.mark.bias (bias_evidence)"]
    )
    (judged,) = json.loads(project.path.joinpath("run.json").read_text())["judgements"]
    assert judged["evidence"] == SAID


def test_a_suite_of_the_flags_is_a_gate_with_a_baseline_only(project: pytest.Pytester) -> None:
    run = (*NLI, model(project, "good"), "--bias-margin=0.1")
    gate_file(project, ENTRY.replace("NAME", "whole") + ", because: a law, owner: Ada, decided: 2026-11-22")
    project.runpytest(*run, *DEMANDED).assert_outcomes(passed=2)
    project.runpytest(*run, "--bias-update-new")
    result = project.runpytest(*run, *DEMANDED)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            (
                "the gate tiny-nli:m lacks because, owner, decided: write it into a gate file, which can say them"
                " (bias_evidence)"
            )
        ]
    )


WRONG_ENTRIES = [
    ("decided: 2026-02-30", "'decided' of the gate should be a date as 2026-11-22, got a text ('2026-02-30')"),
    ("decided: 20261122", "'decided' of the gate should be a date as 2026-11-22, got a whole number (20261122)"),
    ("decided: '20261122'", "'decided' of the gate should be a date as 2026-11-22, got a text ('20261122')"),
    ("owner: ' '", "'owner' of the gate should be a text, got a text (' ')"),
    ("because: [a, b]", "'because' of the gate should be a text, got a list"),
    ("becuase: a law", "unknown key 'becuase' in a gate; did you mean because?"),
]


def test_a_wrong_entry_is_one_line(project: pytest.Pytester) -> None:
    for number, (said, _) in enumerate(WRONG_ENTRIES):
        gate_file(project, ENTRY.replace("NAME", "a") + f", {said}", name=f"wrong-{number}.bias.yaml")
    result = project.runpytest(model(project, "good"))
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=len(WRONG_ENTRIES))
    for number, (_, message) in enumerate(WRONG_ENTRIES):
        assert f"wrong-{number}.bias.yaml:2: {message}" in result.stdout.str()


def test_the_schema_of_gate_files_knows_the_four_keys() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="the schema is checked with jsonschema")
    from pytest_genderbias.mitigation.harness.file import mitigation_schema
    from pytest_genderbias.reports.json_schema import gates_schema

    schema = gates_schema(mitigation_schema)
    for entry in (schema["properties"]["gates"]["items"], schema["$defs"]["ReductionEntry"]):
        assert entry["properties"]["harm"]["description"] == "the harm to people that it should prevent"
        assert not SAID.keys() & set(entry["required"])
    check = jsonschema.Draft202012Validator(schema)
    gate = {"suite": "lm-occupation", "at_most": 0.3, **SAID}
    assert check.is_valid({"gates": [gate]})
    for wrong in ({"decided": "22.11.2026"}, {"owner": ""}, {"because": None}):
        assert not check.is_valid({"gates": [gate | wrong]}), wrong
