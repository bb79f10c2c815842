"""Gates of one file: what they measure together, and wrong gates."""

from __future__ import annotations

import pytest
from support.abilities import UNASKED
from support.small_projects import WORKERS, model
from support.wide_suites import TOTAL, gates, judge, stored_book

MIXED = (
    "suite: ./wide.yaml, at_least: 0.6",
    "suite: ./wide.yaml, statistic: fraction_neutral, at_least: 0.6",
    "suite: ./wide.yaml, at_least: 0.69, settings: {limit: 200}",
    "suite: ./wide.yaml, name: part, baseline: true, margin: 0.01, settings: {limit: 800}",
    "suite: ./wide.yaml, name: part, statistic: threshold_0.7, baseline: true, margin: 0, settings: {limit: 800}",
    "suite: ./wide.yaml, at_least: 0.8, generalise: true, settings: {seed: 3}",
    "suite: ./tiny-nli.yaml, baseline: true, margin: 0",
    "suite: ./tiny-nli.yaml, statistic: accuracy, at_least: 0.5, settings: {limit: 100}",
)


@pytest.mark.slow
def test_a_verdict_hangs_on_no_other_test(wide_project: pytest.Pytester) -> None:
    """Whole, each gate alone, the other way round, and on two workers, which also share the scores of one cache."""
    gates(wide_project, *MIXED)
    wide_project.runpytest(model(wide_project, "usual"), "-k", "baseline", "--bias-update")
    result, whole_run, _ = judge(wide_project, model(wide_project, "few"), "--bias-no-cache")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert sorted(whole_run.values()) == ["no_value", "over_limit", "regressed", *["too_few"] * 3, "within", "within"]
    names = [
        line.split("::")[1]
        for line in wide_project.runpytest("--collect-only", "-q", model(wide_project, "few")).outlines
        if "::" in line
    ]
    assert len(names) == len(MIXED)
    alone: dict[tuple[str, ...], str] = {}
    for name in reversed(names):
        one, found, _ = judge(wide_project, model(wide_project, "few"), f"g.bias.yaml::{name}")
        assert len(found) == 1 and not found.keys() & alone.keys()
        assert (one.ret == 0) == (set(found.values()) == {"within"})
        alone.update(found)
    assert alone == whole_run
    shared, found, _ = judge(wide_project, model(wide_project, "few"), *WORKERS, *UNASKED, apart=True)
    assert (found, shared.ret) == (whole_run, result.ret)
    gates(wide_project, *reversed(MIXED))
    assert judge(wide_project, model(wide_project, "few"))[1] == whole_run


def test_gates_decide_together_when_scoring_stops(wide_project: pytest.Pytester) -> None:
    far, near = "suite: ./wide.yaml, at_least: 0.4", "suite: ./wide.yaml, at_least: 0.66"
    gates(wide_project, far)
    _, _, (one,) = judge(wide_project, model(wide_project, "usual"))
    gates(wide_project, far, near)
    _, verdicts, (both,) = judge(wide_project, model(wide_project, "usual"))
    assert one["n"] == 64 < both["n"] < TOTAL and set(verdicts.values()) == {"within"}
    _, _, (alone,) = judge(wide_project, model(wide_project, "usual"), "-k", "at_least and not 2")
    assert alone["n"] == both["n"], "as far as the gates beside it need"
    for whole_gate in (
        "generalise: true, at_least: 0.4",
        "baseline: true, margin: 0",
        "no_worse_than: other, margin: 0",
    ):
        gates(wide_project, far, f"suite: ./wide.yaml, statistic: fraction_neutral, {whole_gate}")
        _, _, found = judge(
            wide_project, model(wide_project, "usual"), model(wide_project, "bad", "other"), "--bias-update"
        )
        assert {m["n"] for m in found if m["model"] == "m"} == {TOTAL}, whole_gate


def test_a_suite_is_scored_as_far_as_its_baseline_was(wide_project: pytest.Pytester) -> None:
    gates(wide_project, "suite: ./wide.yaml, baseline: true, margin: 0")
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update", "--bias-limit=500").assert_outcomes(passed=1)
    _, verdicts, (found,) = judge(wide_project, model(wide_project, "bad"))
    assert (found["n"], *verdicts.values()) == (500, "regressed")
    _, verdicts, (found,) = judge(wide_project, model(wide_project, "bad"), "--bias-limit=600")
    assert (found["n"], *verdicts.values()) == (600, "not_comparable"), "what is asked for is measured"
    before = stored_book(wide_project).read_bytes()
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=1)
    assert stored_book(wide_project).read_bytes() == before, "a flag that was left out makes no other baseline of it"
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update", f"--bias-limit={TOTAL}").assert_outcomes(
        passed=1
    )
    assert judge(wide_project, model(wide_project, "bad"))[2][0]["n"] == TOTAL


def test_an_unchanged_model_passes_however_it_is_asked(wide_project: pytest.Pytester) -> None:
    gates(
        wide_project,
        "suite: ./wide.yaml, baseline: true, margin: 0",
        "suite: ./wide.yaml, statistic: threshold_0.7, baseline: true, margin: 0",
    )
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=2)
    result, verdicts, _ = judge(wide_project, model(wide_project, "jitter"), "--bias-no-cache")
    assert set(verdicts.values()) == {"unchanged"} and result.ret == 0


#: Wrong gates, and what is said of them.
WRONG = [
    ("suite: ./wide.yaml, baseline: true, generalise: true", "2: 'generalise' goes with a limit; *"),
    ("suite: ./wide.yaml, at_least: 0.5, generalise: much", "2: 'generalise' of the gate should be *"),
    (
        "suite: ./wide.yaml, at_least: 0.5, margin: 0.1",
        "2: 'margin' goes with 'baseline: true', 'no_worse_than' or 'same_as'",
    ),
    ("suite: ./wide.yaml, same_as: last", "2: 'the same as' needs a margin, *"),
    ("suite: ./wide.yaml, baseline: true, margin: much", "2: a margin should be *; got 'much'"),
    ("suite: ./wide.yaml, baseline: true, margin: -1", "2: a margin should be a number of 0 or more*"),
    ("suite: ./wide.yaml, baseline: true, margin: .nan", "2: *expected a finite decimal number, got '.nan'*"),
    (
        "suite: ./wide.yaml, at_least: 0.5, settings: {seeds: 1}",
        "2: seeds should be a whole number of at least 2, got 1",
    ),
    (
        "suite: ./wide.yaml, at_least: 0.5, settings: {seeds: x}",
        "2: seeds should be a whole number of at least 2, got 'x'",
    ),
    (
        "suite: ./wide.yaml, at_least: 0.5, settings: {limit: none}",
        "2: limit should be a whole number of at least 1, got 'none'; leave it out for that of the run",
    ),
    (
        "suite: ./wide.yaml, at_least: 0.5, settings: {seed: -1}",
        "2: seed should be a whole number of at least 0, got -1*",
    ),
    ("suite: ./wide.yaml, at_least: 0.5, settings: {unit: word}", "2: option 'unit' of wide should be *, got 'word'"),
    ("suite: ./wide.yaml, no_worse_than: 3", "2: 'no_worse_than' of the gate should be *"),
    ("suite: ./wide.yaml, at_least: .nan", "2: *expected a finite decimal number, got '.nan'*"),
]


def test_a_wrong_gate_is_one_error_with_its_line(wide_project: pytest.Pytester) -> None:
    for number, (line, _) in enumerate(WRONG):
        wide_project.path.joinpath(f"wrong-{number}.bias.yaml").write_text(f"gates:\n  - {{{line}}}\n")
    result = wide_project.runpytest(model(wide_project, "usual"))
    result.assert_outcomes(errors=len(WRONG))
    for number, (_, message) in enumerate(WRONG):
        result.stdout.fnmatch_lines([f"*wrong-{number}.bias.yaml:{message}"])


def test_a_model_to_compare_with_that_is_not_there(wide_project: pytest.Pytester) -> None:
    gates(wide_project, "suite: ./wide.yaml, no_worse_than: last, margin: 0")
    result = wide_project.runpytest(model(wide_project, "usual"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "g.bias.yaml:2: not judged: no model 'last' to compare with: give it with --bias-model=last=SPEC; a gate"
            " that *"
        ]
    )


def test_until_in_a_test(wide_project: pytest.Pytester) -> None:
    wide_project.makepyfile("""
        import pytest
        from pytest_genderbias import Limit, assert_at_least, assert_no_regression
        from pytest_genderbias.errors import GateError

        def test_it(bias_measure, bias_baseline):
            found = bias_measure("wide.yaml", until=Limit(at_least=0.4))
            assert found.n == 64 and found.stopped and assert_at_least(found, 0.4).code == "within"
            limits = {"net_neutral": Limit(at_least=0.66), "threshold_0.5": Limit(at_least=0.1)}
            two = bias_measure("wide.yaml", until=limits)
            assert 64 < two.n < two.n_total
            with pytest.raises(GateError, match="a baseline needs a measurement without until="):
                assert_no_regression(two, bias_baseline, 0)
            whole = bias_measure("wide.yaml")
            assert whole.n == whole.n_total and not whole.stopped
        """)
    wide_project.runpytest(model(wide_project, "usual")).assert_outcomes(passed=1)


def test_a_limit_on_what_is_not_there_names_what_is(wide_project: pytest.Pytester) -> None:
    wide_project.makepyfile("""
        from pytest_genderbias import Limit

        def test_it(bias_measure):
            bias_measure("wide.yaml", until={"typo": Limit(at_least=0.4)})
        """)
    for flags in ([model(wide_project, "usual")], [model(wide_project, "seed_{seed}"), "--bias-seeds=3"]):
        result = wide_project.runpytest(*flags)
        result.stdout.fnmatch_lines(["*UnknownNameError: no statistic 'typo'; there are net_neutral, *"])
