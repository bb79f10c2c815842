"""The outcome of a test: how it travels, where judgements count, and what the tests of a run accept together."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from support.small_projects import model

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.book import BaselineEntry, NewEntry, entry_of
from pytest_genderbias.gates.judgement import AcceptedValue
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.plugin.acceptance import ProposedEntry, add_gates, merge
from pytest_genderbias.plugin.reported import ReportedOutcome

WORSE = AcceptedValue("net_neutral", "2026-01-02", 0.9, 0.8, None)
RERUN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    # like pytest-rerunfailures: a failed test is run once more, and its first reports have the outcome "rerun"
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        for report in reports:
            report.outcome = "rerun" if report.failed else report.outcome
            item.ihook.pytest_runtest_logreport(report=report)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""


def test_an_outcome_travels_as_json() -> None:
    measurement = measure("nli-occupation", load_model("demo-nli"), limit=500, cache=None)
    judgement = judge_limit(measurement, Limit(at_least=0.1)).settled("passed")
    entry = ProposedEntry(entry_of(measurement, gated={"net_neutral": 0.1}), {"net_neutral": 0.1}, {"accuracy": WORSE})
    outcome = ReportedOutcome(
        "t.py", "m", True, (measurement,), (judgement,), frozenset({"a"}), frozenset({"b"}), {"a": entry}
    )
    data = json.loads(json.dumps(outcome.to_dict()))
    arrived = ReportedOutcome.from_dict(data)
    assert arrived == replace(outcome, entries={"a": entry.to_dict()})
    assert ProposedEntry.from_dict(arrived.entries["a"]) == entry
    assert ReportedOutcome.from_dict(ReportedOutcome("t.py", "", True).to_dict()) == ReportedOutcome("t.py", "", True)
    with pytest.raises(DataFileError, match="outcome of a test: expected schema 1, got 2"):
        ReportedOutcome.from_dict({**data, "schema": 2})
    data.pop("judgements")
    with pytest.raises(DataFileError, match="judgements missing"):
        ReportedOutcome.from_dict(data)


def proposed(note: AcceptedValue | None, **fields: object) -> ProposedEntry:
    entry = BaselineEntry.from_dict({"suite": "s", "values": {}, **fields})
    if note is not None:
        entry = BaselineEntry.from_dict({**entry.to_dict(), "accepted": [note.to_dict()]})
    return ProposedEntry(NewEntry(entry))


def test_two_tests_of_one_entry_keep_both_reasons() -> None:
    notes = [AcceptedValue(statistic, "2026-01-02", 1.0, 0.5, "r") for statistic in ("b", "a")]
    one, other = (proposed(note) for note in notes)
    for several in ([one, other], [other, one], [one, other, one]):
        merged = merge(several)
        assert merged is not None and merged.new.entry.accepted == (notes[1], notes[0])
    assert merge([one, proposed(notes[1], digest="another")]) is None


def test_an_entry_has_the_margins_of_all_its_gates() -> None:
    one, other = proposed(None, gated={"net_neutral": 0.2}), proposed(None, gated={"net_neutral": 0.1})
    new, unseen = add_gates(other, [one, other], {"accuracy": 0.3})
    assert new.entry.gated == {"net_neutral": 0.1, "accuracy": 0.3} and not unseen
    overlooking = ProposedEntry(other.new, {"net_neutral": 0.1, "accuracy": 0.0}, {"accuracy": WORSE})
    assert add_gates(overlooking, [overlooking], {})[1] == [WORSE]
    assert add_gates(overlooking, [overlooking, proposed(None, gated={"accuracy": 0.0})], {})[1] == []


def rows(path: Path) -> list[tuple[str, int, bool]]:
    """Return the code of each judgement, the number of comparisons that its bounds hold for, and whether it failed."""
    report = json.loads(path.read_text())
    return [(judgement["code"], judgement["tests"], judgement["failed"]) for judgement in report["judgements"]]


@pytest.mark.parametrize("place", ["setup", "thread", "teardown"])
def test_the_policy_holds_in_fixtures_and_threads(jobs: pytest.Pytester, place: str) -> None:
    jobs.makepyfile(f"""
        from concurrent.futures import ThreadPoolExecutor

        import pytest
        from pytest_genderbias import assert_at_least, assert_no_worse

        def judge(bias_measure):
            found = bias_measure("tiny-nli.yaml")
            assert_no_worse(found, found, comparisons=2)
            assert_at_least(found, 0.85)

        @pytest.fixture
        def around(bias_measure):
            if "{place}" == "setup":
                judge(bias_measure)
            yield
            if "{place}" == "teardown":
                judge(bias_measure)

        def test_it(around, bias_measure):
            if "{place}" == "thread":
                with ThreadPoolExecutor() as pool:
                    pool.submit(judge, bias_measure).result()
        """)
    report = jobs.path / "report.json"
    result = jobs.runpytest(model(jobs, "good"), f"--bias-json={report}")
    result.assert_outcomes(passed=1)
    assert rows(report) == [("unchanged", 2, False), ("within", 1, False)]
    result = jobs.runpytest(model(jobs, "worse"), "-obias_correct_for=7", f"--bias-json={report}")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert rows(report) == [("unchanged", 7, False), ("over_limit", 1, True)]


def test_a_test_that_is_run_again_counts_the_last_time(project: pytest.Pytester) -> None:
    project.makeconftest(RERUN)
    project.makepyfile("""
        from pytest_genderbias import assert_no_regression

        tries = []

        def test_once(bias_measure, bias_baseline):
            tries.append(1)
            assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, 0)
            assert len(tries) == 2

        def test_broken(bias_measure, bias_baseline):
            if bias_measure("tiny-nli.yaml").value > 0.8:
                assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, 0, name="mine")
            raise RuntimeError("no verdict")
        """)
    report = project.path / "report.json"
    result = project.runpytest(model(project, "good"), "--bias-update", f"--bias-json={report}")
    assert "1 passed, 1 failed" in result.stdout.str() or "1 failed, 1 passed" in result.stdout.str()
    assert not list(project.path.glob("bias_baselines/m/*.json")), "a test that has no result keeps the update out"
    assert len(rows(report)) == 2
    written = next(project.path.glob("test_*.py"))
    written.write_text(written.read_text().replace("raise RuntimeError", "if 0: raise RuntimeError"))
    project.runpytest(model(project, "good"), "--bias-update")
    book = json.loads(next(project.path.glob("bias_baselines/m/*.json")).read_text())
    assert set(book["entries"]) == {"tiny-nli", "mine"}
    written.write_text(written.read_text().replace("> 0.8", "> 1.8").replace("if 0: raise", "raise"))
    project.runpytest(model(project, "good"), "--bias-update")
    book = json.loads(next(project.path.glob("bias_baselines/m/*.json")).read_text())
    assert set(book["entries"]) == {"tiny-nli", "mine"}, "a test without a result may still use its entry"


FORGIVEN = """
import pytest
from concurrent.futures import ThreadPoolExecutor
from pytest_genderbias import assert_at_least
from pytest_genderbias.errors import GateFailure

@pytest.mark.xfail
def test_expected(bias_measure):
    assert_at_least(bias_measure("tiny-nli.yaml"), 0.99)

def test_raises(bias_measure):
    with pytest.raises(GateFailure):
        assert_at_least(bias_measure("tiny-nli.yaml"), 0.99)

def test_caught_in_a_thread(bias_measure):
    with ThreadPoolExecutor() as pool:
        assert pool.submit(assert_at_least, bias_measure("tiny-nli.yaml"), 0.99).exception() is not None

def test_kept(bias_measure):
    assert_at_least(bias_measure("tiny-nli.yaml"), 0.5)

def test_kept_again(bias_measure):
    assert_at_least(bias_measure("tiny-nli.yaml"), 0.5)
"""


def test_a_judgement_names_its_test_and_says_that_the_test_forgave_it(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=FORGIVEN)
    result = project.runpytest(model(project, "good"), "--bias-json=r.json")
    result.assert_outcomes(passed=4, xfailed=1)
    assert result.ret == 0
    judgements = json.loads(project.path.joinpath("r.json").read_text())["judgements"]
    assert [(one["test"].partition("::")[2], one["verdict"], one["outcome"], one["failed"]) for one in judgements] == [
        ("test_expected[m]", "limit broken", "xfail", False),
        ("test_raises[m]", "limit broken", "caught", False),
        ("test_caught_in_a_thread[m]", "limit broken", "caught", False),
        ("test_kept[m]", "pass", "passed", False),
        ("test_kept_again[m]", "pass", "passed", False),
    ]
    shown = [re.split("  +", line)[-2] for line in result.outlines if "  net_neutral" in line]
    assert sorted(shown) == ["limit broken (caught by the test)"] * 2 + ["limit broken (xfail)"] + ["pass"] * 2


def test_no_two_properties_have_one_name(project: pytest.Pytester) -> None:
    project.path.joinpath("g.bias.yaml").write_text(
        "gates:\n  - {suite: ./tiny-nli.yaml, at_least: 0.5, baseline: true, margin: 0}\n  - {suite: ./tiny-nli.yaml,"
        " at_least: 0.5, generalise: true}\n"
    )
    project.makepyfile("""
        def test_two(bias_measure):
            bias_measure("tiny-nli.yaml"), bias_measure("tiny-nli.yaml", unit="word_pair")
        """)
    project.runpytest(model(project, "good"), "--junitxml=j.xml", "--bias-update")
    for case in ET.parse(project.path / "j.xml").iter("testcase"):
        names = [str(one.get("name")) for one in case.iter("property")]
        assert len(set(names)) == len(names), case.get("name")
        if "at_least.baseline" in str(case.get("name")):
            assert {"bias.tiny-nli.net_neutral.bound", "bias.tiny-nli.net_neutral.2.bound"} <= set(names)
