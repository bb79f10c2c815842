"""``--bias-null`` and ``bias_null_repeats``: null controls in a run."""

import json
import xml.etree.ElementTree as ET

import pytest
from support.abilities import UNASKED
from support.small_projects import WORKERS

RUN = ("-p", "no:cacheprovider", "--bias-suite=lm-occupation,nli-religion", "--bias-limit=512")


MODELS = """
import numpy as np

class Writer:
    fingerprint = "writer"
    def continuation_log_probs(self, prefixes, continuations):
        return np.array([-1.0 - 0.4 * p.lower().startswith("he") for p in prefixes])

def writer0(): return Writer()
def writer1(): return Writer()

class Classifier:
    labels = ("entailment", "neutral", "contradiction")
    fingerprint = "classifier"
    def pair_probabilities(self, premises, hypotheses):
        same = np.array([a == b for a, b in zip(premises, hypotheses)])
        return np.stack([np.where(same, 1.0, 0.1), np.where(same, 0.0, 0.8), np.where(same, 0.0, 0.1)], axis=1)
"""


@pytest.fixture
def run(pytester):
    """Return a function that runs pytest on two small models."""
    name = f"models_{pytester.path.name.replace('-', '_')}"
    pytester.makepyfile(**{name: MODELS})
    pytester.syspathinsert()
    models = [f"--bias-model={short}={name}:{kind}" for short, kind in (("w", "Writer"), ("c", "Classifier"))]
    return lambda *args: pytester.runpytest(*RUN, *models, "-o", f"pythonpath={pytester.path}", *args)


WITH_NULL = ["*  value *chance*", "  lm-occupation  aggregate_bias *0.* !  *", "*signed_bias *-0.* !  * to *"]


def test_flag(run, pytester):
    result = run("-v", "--bias-null", "--bias-json=r.json", "--junitxml=j.xml")
    result.stdout.fnmatch_lines(WITH_NULL, consecutive=False)
    result.stdout.fnmatch_lines(["note: nli-religion on c: no null control: every pair is held against the same *"])
    found = {m["suite"]: m for m in json.loads((pytester.path / "r.json").read_text())["measurements"]}
    assert found["nli-religion"]["null"] == {}
    null = found["lm-occupation"]["null"]["signed_bias"]
    assert null["repeats"] == 200
    assert null["p_value"] == 1 / 201
    assert set(null) == {"what", "repeats", "mean", "low", "high", "p_value", "undefined"}
    written = {p.get("name"): p.get("value") for p in ET.parse(pytester.path / "j.xml").iter("property")}
    assert float(written["bias.lm-occupation.signed_bias.null_p_value"]) == 1 / 201
    assert "bias.lm-occupation.signed_bias.null_mean" in written


def test_only_what_is_made_of_sizes_has_one_without_the_flag(run, pytester):
    result = run("-v", "--bias-json=r.json")
    result.stdout.fnmatch_lines(WITH_NULL[:2])
    result.stdout.no_fnmatch_line("note: *null*")
    found = {m["suite"]: m for m in json.loads((pytester.path / "r.json").read_text())["measurements"]}
    assert [list(found[suite]["null"]) for suite in ("lm-occupation", "nli-religion")] == [["aggregate_bias"], []]


def test_repeats(run, pytester):
    def repeats(*arguments):
        run("--bias-json=r.json", *arguments)
        report = json.loads((pytester.path / "r.json").read_text())
        return {name: null["repeats"] for one in report["measurements"] for name, null in one["null"].items()}

    assert repeats("--bias-null", "-obias_null_repeats=99")["signed_bias"] == 99
    pytester.makeini("[pytest]\nbias_null = true\nbias_null_repeats = 49")
    assert repeats()["signed_bias"] == 49
    pytester.makeini("[pytest]\nbias_null_repeats = 49")
    assert repeats() == {"aggregate_bias": 200}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bias-null", "-obias_null_repeats=many"], "expected a whole number of at least 40, got 'many'"),
        (["--bias-null", "-obias_null_repeats=39"], "expected a whole number of at least 40, got '39'"),
    ],
)
def test_a_wrong_value_is_a_usage_error(run, arguments, message):
    result = run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: bias_null_repeats: {message}"])


@pytest.mark.slow
def test_workers_find_the_same(run):
    result = run("-v", "--bias-null", *WORKERS, *UNASKED)
    result.stdout.fnmatch_lines(WITH_NULL, consecutive=False)


def test_gates_show_it_and_baselines_do_not_know_it(run, pytester):
    pytester.makefile(
        ".bias.yaml",
        release=(
            "gates:\n  - suite: lm-occupation\n    statistic: signed_bias\n    within: 0.1\n    settings: {limit:"
            " 512}\n"
        ),
    )
    result = run("--bias-null", "release.bias.yaml", "--bias-json=r.json", "-vv")
    result.stdout.fnmatch_lines(
        [
            "*  chance    null control (*; 200 shuffles): mean *, <= 0.5 % at least as bad",
            "  lm-occupation *within 0.1 *limit broken*",
        ]
    )
    judged, *_ = json.loads((pytester.path / "r.json").read_text())["judgements"]
    assert judged["null"]["p_value"] == 1 / 201
    (pytester.path / "release.bias.yaml").unlink()
    run("--bias-update", "--bias-margin=0")
    result = run("--bias-null", "--bias-margin=0")
    result.assert_outcomes(passed=2, skipped=2)
    stored = [path.read_text() for path in pytester.path.glob("bias_baselines/**/*.json")]
    assert stored and not any('"null":' in text for text in stored)


def test_restarts_have_none_and_say_so(run, pytester):
    name = f"models_{pytester.path.name.replace('-', '_')}"
    result = run("-v", "--bias-null", f"--bias-model=s={name}:writer{{seed}}", "--bias-seeds=2")
    result.stdout.fnmatch_lines(["  lm-occupation *", "note: lm-occupation on s: no null control: *restarts*"])


def test_python_tests_may_ask_for_it(run, pytester):
    pytester.makepyfile("""
        def test_it(bias_measure):
            plain, shuffled = bias_measure("lm-occupation"), bias_measure("lm-occupation", null=60)
            assert list(plain.null) == ["aggregate_bias"] and shuffled.null["signed_bias"].repeats == 60
            assert shuffled is bias_measure("lm-occupation", null=60)
        """)
    run("-k", "test_it and w").assert_outcomes(passed=1, deselected=5)
