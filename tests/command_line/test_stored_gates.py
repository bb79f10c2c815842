"""``genderbias gates``: what the gates on stored baselines see."""

from __future__ import annotations

import json

import pytest
from support.command_lines import type_command
from support.small_projects import model
from support.wide_suites import gates, stored_book


@pytest.fixture
def stored(wide_project: pytest.Pytester) -> pytest.Pytester:
    """A project whose gate file has a gate without a margin and one with a margin, both stored."""
    gates(
        wide_project,
        "suite: ./wide.yaml, baseline: true",
        "suite: ./wide.yaml, statistic: threshold_0.7, baseline: true, margin: 0.2",
    )
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update-new", "-p", "no:cacheprovider").assert_outcomes(
        passed=2
    )
    return wide_project


def test_each_gate_is_a_line_and_with_explain_a_sentence(
    stored: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = json.loads(stored_book(stored).read_text())["entries"]["wide"]["sees"]["net_neutral"]
    growth, unit = f"{100 * seen['size'] / seen['unit']:.2g}", ["%", "of", f"{seen['unit']:.3g}"]
    printed = type_command(stored, monkeypatch, "gates")
    row, with_margin = [line for line in printed.out.splitlines() if "wide" in line]
    assert row.split() == ["wide", "net_neutral", "m", row.split()[3], "none", f"+{growth}", *unit]
    assert with_margin.split()[1:5] == ["threshold_0.7", "m", "0.4813", "0.2"]
    explained = " ".join(type_command(stored, monkeypatch, "gates", "--explain").out.split())
    assert f"stops +{growth} {' '.join(unit)} in 80 % of releases" in explained
    assert (
        f"red from {seen['red']:.2g} worse" in explained and "equal models are red in at most 5 % of files" in explained
    )
    assert "a worsening of 0.2 is allowed." in explained


def test_a_baseline_that_does_not_say_what_its_gates_see_is_told_what_stores_it(
    stored: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.loads(stored_book(stored).read_text())
    for entry in data["entries"].values():
        entry.pop("sees", None)
    stored_book(stored).write_text(json.dumps(data))
    assert type_command(stored, monkeypatch, "gates", "--explain").out.count("what it sees is not known") == 2


def test_without_baselines_it_says_what_to_do(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = type_command(pytester, monkeypatch, "gates")
    assert printed.status == 4 and "has no gate on a baseline; store some with --bias-update-new" in printed.err
