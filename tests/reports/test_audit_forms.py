"""The pages of an audit pack in the order of a form: what they say, what they leave open, and whose text they show."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.run_reports import HOSTILE, PASSED, REGRESSED, hostile_report, run_report, settled

from pytest_genderbias.gates.judgement import ReductionFacts, SinceAnchor
from pytest_genderbias.gates.verdicts import FinishedTest
from pytest_genderbias.reports.audit import check_pack, write_audit
from pytest_genderbias.reports.run_report import RunReport, SelectionRow
from pytest_genderbias.reports.selection import ABOVE_MEDIAN

SAID = {"because": "the tenth release", "owner": "Ada", "harm": "fewer adverts", "decided": "2026-11-22"}
ROWS = (
    SelectionRow("hr", "hire", "gender", "female", 40, 0.4, 10, 0.25, 0.5, 0.3, 0.9),
    SelectionRow("hr", "hire", "gender", "male", 60, 0.6, 30, 0.5, 1.0, 0.9, 1.0),
    SelectionRow("hr", "hire", "gender", "unknown", 3, note="not counted"),
    SelectionRow("hr", "hire", "group_race", "x", 99, 0.99, 40, 0.404, 1.0, 0.9, 1.0),
    SelectionRow("hr", "hire", "group_race", "y", 1, 0.01, 0, 0.0, note="under 2 % of the persons: no ratio"),
    SelectionRow("hr", "hire", "gender and group_race", "female and x", 40, 0.4, 10, 0.25, 0.5, 0.3, 0.9),
)


def pack(folder: Path, of: RunReport) -> Path:
    write_audit(of, folder)
    (made,) = folder.iterdir()
    return made


def sections(page: Path) -> dict[str, str]:
    """Return the text of each section of a page by its heading."""
    parts = re.split(r"^## (.*)\n", page.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_bias_profile_says_who_decided_what_and_what_nobody_said(tmp_path: Path) -> None:
    moved = replace(REGRESSED.of_baseline, anchor=SinceAnchor("2026-09-01", 0.2, 0.2))
    judged = (
        settled(replace(REGRESSED, facts=moved), "failed").settled("failed", "g", SAID),
        settled(PASSED, "passed"),
        settled(replace(PASSED, statistic="third", facts=ReductionFacts(0.3, 0.4, 0.1, reduction=0.75)), "passed"),
    )
    page = pack(tmp_path, run_report(judgements=judged)) / "bias-profile.md"
    found = sections(page)
    assert list(found) == [
        "System",
        "Groups and harms considered",
        "Groups and harms left out",
        "Measures",
        "Limits, and who decided them",
        "Results",
        "Mitigation",
        "Re-evaluation",
    ]
    assert "- **model m**: runs/m, fingerprint f0.0" in found["System"]
    assert "- **intended purpose**: not stated" in found["System"]
    assert "- **groups**: not stated" in found["Groups and harms considered"], "a suite of one's own names none"
    assert "- **harm that a gate should prevent**: fewer adverts" in found["Groups and harms considered"]
    assert "- **not judged: genderbias::weat:m**: weat needs vectors" in found["Groups and harms left out"]
    assert ", weat, " in found["Groups and harms left out"], "a packaged suite that was not measured"
    first, second, _ = found["Limits, and who decided them"].split("### ")[1:]
    assert first.startswith("tiny (release), share\n\n- **limit or baseline**: baseline 0.25 + 0.02\n")
    assert all(f"- **{name}**: {text}\n" in first for name, text in SAID.items())
    assert second.count("not stated") == 4
    assert re.search(r"\| tiny \(release\) +\| share +\| m +\| 0.4 ", found["Results"])
    assert re.search(r"\| tiny +\| m +\| third +\| 0.4000 +\| 0.1000 ", found["Mitigation"])
    assert "baseline of 2026-10-22; since 2026-09-01: 0.2 → 0.4" in found["Re-evaluation"]
    assert "- **date of the next one**: not stated" in found["Re-evaluation"]
    assert "claims no conformity" in page.read_text()


def test_a_run_without_gates_states_no_limit(tmp_path: Path) -> None:
    found = sections(pack(tmp_path, run_report(judgements=(), measurements=())) / "bias-profile.md")
    assert found["Limits, and who decided them"].strip() == (
        "No gate judged a figure. Limits, and who decided them: not stated."
    )
    assert found["Mitigation"].strip() == "The run judged none. What was done against bias: not stated."


def test_a_test_that_failed_without_a_verdict_is_left_out_by_name(tmp_path: Path) -> None:
    broken = FinishedTest("g.bias.yaml::bare:m", "m", "tiny", outcome="failed", text="the gate bare:m lacks owner")
    found = sections(pack(tmp_path, run_report(judgements=(), tests=(broken,))) / "bias-profile.md")
    line = "- **failed without a verdict: g.bias.yaml::bare:m**: the gate bare:m lacks owner\n"
    assert line in found["Groups and harms left out"]


def test_foreign_text_is_escaped_once(tmp_path: Path) -> None:
    of = hostile_report()
    said = dict.fromkeys(SAID, HOSTILE)
    rows = (SelectionRow(HOSTILE, HOSTILE, "gender", HOSTILE, 40, 0.4, 10, 0.25, 0.5, 0.3, 0.9),)
    judged = tuple(one.settled("failed", "g", said) for one in of.judgements)
    made = pack(tmp_path, replace(of, judgements=judged, selections=rows))
    for name in ("bias-profile.md", "local-law-144.md"):
        text = (made / name).read_text()
        assert "&lt;b onclick=x&gt;" in text and "&amp;lt;" not in text
        assert text.replace("\n", "").isprintable()
        assert "<b" not in text and not re.search(r"(?<!\\)[|`*]\*", text.replace("**", ""))
        assert not re.search(r"^::error", text, re.MULTILINE)


def test_selection_rates_stand_in_three_tables_with_what_is_not_known(tmp_path: Path) -> None:
    page = (pack(tmp_path, run_report(selections=ROWS)) / "local-law-144.md").read_text()
    sex, race, both = re.split(r"^#### .*\n", page, flags=re.MULTILINE)[1:]
    assert re.search(r"\| female +\| +40 \| +10 \| +25.0 % \| +0.500 \| ", sex)
    assert "- **persons of an unknown category, not counted**: 3" in sex
    assert re.search(r"\| y +\| +1 \| +0 \| +0.0 % \| +\| under 2 % of the persons: no ratio \|", race)
    assert "- **why categories under 2 % were left out**: not stated" in race
    assert "- **persons of an unknown category, not counted**: 0" in race
    assert re.search(r"\| female and x ", both)
    for label in ("date of the most recent bias audit", "independent auditor", "distribution date of the tool"):
        assert f"- **{label}**: not stated" in page
    assert "- **date of this count**: 2026-11-22T10:00:00+00:00" in page
    assert "- **source of the data**: not stated" in page, "the run has no model of that name"
    assert "It is no bias audit" in page


def test_other_columns_are_no_sex_and_no_race_and_scores_have_a_scoring_rate(tmp_path: Path) -> None:
    rows = [replace(row, decision=ABOVE_MEDIAN, category="group_age", group=f"{row.group} 1") for row in ROWS[:3]]
    rows.append(SelectionRow("hr", ABOVE_MEDIAN, "group_sex", "", 0, note="nobody was selected"))
    page = (pack(tmp_path, run_report(selections=tuple(rows))) / "local-law-144.md").read_text()
    sex, race, both = re.split(r"^#### .*\n", page, flags=re.MULTILINE)[1:]
    assert (sex.strip(), race.strip(), both.strip()) == ("nobody was selected", "not stated", "not stated")
    rows = [replace(row, decision=ABOVE_MEDIAN, category="group") for row in ROWS[:3]]
    page = (pack(tmp_path / "other", run_report(selections=tuple(rows))) / "local-law-144.md").read_text()
    assert "scoring rate |" in page.partition("#### Race")[0], "a column whose groups are female and male is of sex"
    none = SelectionRow("hr", "", "", "", 0, note="hr.csv:1: expected a column 'prediction'")
    page = (pack(tmp_path / "none", run_report(selections=(none,))) / "local-law-144.md").read_text()
    assert "- **no rates**: hr.csv:1: expected a column 'prediction'" in page


def test_the_table_of_questions_names_files_that_are_there(tmp_path: Path) -> None:
    made = pack(tmp_path, run_report(selections=ROWS))
    text = (made / "questions.md").read_text()
    named = set(re.findall(r"`([\w.-]+\.\w+)`", text))
    assert {"bias-profile.md", "statement.intoto.json", "local-law-144.md"} < named
    assert not [name for name in named if not (made / name).exists()]
    assert "claim no conformity" in text
    for word in ("compliant", "certif", "guarantee"):
        assert word not in text.lower()


@pytest.mark.parametrize(
    ("outcomes", "status", "result"),
    [(("passed", "passed"), 0, "PASSED"), (("failed", "passed"), 1, "FAILED"), (("xfail", "passed"), 0, "WARNED")],
)
def test_a_statement_binds_the_results_to_the_manifest(
    tmp_path: Path, outcomes: tuple[str, str], status: int, result: str
) -> None:
    judged = tuple(settled(PASSED, outcome, f"g.bias.yaml::{i}") for i, outcome in enumerate(outcomes))
    of = run_report(judgements=judged, tests=())
    made = pack(tmp_path, replace(of, run=replace(of.run, exit_status=status)))
    statement = json.loads((made / "statement.intoto.json").read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    digest = hashlib.sha256((made / "manifest.json").read_bytes()).hexdigest()
    assert statement["subject"] == [{"name": "manifest.json", "digest": {"sha256": digest}}]
    assert statement["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    predicate = statement["predicate"]
    assert predicate["result"] == result
    assert predicate["passedTests"][-1] == "g.bias.yaml::1"
    names = {"failed": "failedTests", "xfail": "warnedTests", "passed": "passedTests"}
    assert predicate[names[outcomes[0]]][0] == "g.bias.yaml::0"
    for part in predicate["configuration"]:
        assert part["digest"] == {"sha256": hashlib.sha256((made / part["name"]).read_bytes()).hexdigest()}
    assert (
        f"{hashlib.sha256((made / 'statement.intoto.json').read_bytes()).hexdigest()}  statement.intoto.json\n"
        in (made / "SHA256SUMS").read_text()
    )
    assert check_pack(made) == []
    for other in (json.dumps({**statement, "subject": []}), "[]", "{"):
        (made / "statement.intoto.json").write_text(other)
        assert check_pack(made) == ["statement.intoto.json: of another manifest"]
