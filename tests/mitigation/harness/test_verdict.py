"""Every verdict on a mitigation at least once, with its text: on models with planted bias, and on the packaged demo
models.
"""

import hashlib
import json
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from support.answered_suites import NoisyCoreference, winogender

from pytest_genderbias import load_model, load_suite
from pytest_genderbias.errors import GateFailure, NotApplicableError, SettingError
from pytest_genderbias.gates.assertions import settle
from pytest_genderbias.gates.policy import Referee, refereed_by
from pytest_genderbias.gates.verdicts import (
    NO_VALUE,
    NOT_COMPARABLE,
    NOT_REDUCED,
    OVER_CORRECTED,
    PASSED,
    REDUCED,
    SUPERFICIAL,
    TASK_LOST,
    TOO_FEW,
    passes,
)
from pytest_genderbias.measurement.runner import Runner, RunSettings, measure
from pytest_genderbias.mitigation import MitigationRun, assert_reduced, judge_reduction, make_method, mitigate
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.mitigation.methods.registry import resolve_method
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.models.saving import copied, with_network
from pytest_genderbias.recipes.recipe import ENCODER, PLAIN, Performance
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic, mean_sums
from pytest_genderbias.statistics.perplexity import perplexity
from pytest_genderbias.statistics.sums import perplexity_sums
from pytest_genderbias.suites.suite import FAMILIES, load_family

OCCUPATIONS = [word.label for word in load_suite("lm-occupation").body.items.words()]
PASSAGES = 40


class PlantedLM:
    """Thinks of an occupation what was planted, ``bias[occupation]`` nats for a man; ``nats``: of each passage of a
    text.
    """

    def __init__(self, bias, nats=None):
        self.bias = dict(zip(OCCUPATIONS, np.asarray(bias, dtype=float).tolist(), strict=True))
        self.nats = np.full(PASSAGES, 2.0) if nats is None else np.asarray(nats, dtype=float)
        self.fingerprint = hashlib.sha256(repr((self.bias, self.nats.tolist())).encode()).hexdigest()

    def continuation_log_probs(self, prefixes, continuations):
        sides = [0.5 if {"he", "man"} & set(prefix.lower().split()) else -0.5 for prefix in prefixes]
        words = [continuation.strip() for continuation in continuations]
        found = [
            side * self.bias[word.removeprefix("a ").removeprefix("an ")]
            for side, word in zip(sides, words, strict=True)
        ]
        return np.asarray(found) - 5.0


@dataclass(frozen=True)
class StubRecipe:
    """Tells the perplexity that was planted; a new head "retrains" by a rule: so much of ``was`` is back. ``None``: it
    learns nothing.
    """

    name: ClassVar[str] = "stub"
    columns: ClassVar[tuple[str, ...]] = ("text",)
    label: ClassVar[Any] = None
    group: ClassVar[Any] = None
    makes_task: ClassVar[bool] = False
    was: tuple[float, ...] = ()
    back: float | None = 0.0
    trained: list[Any] = field(default_factory=list, compare=False)

    def settings(self):
        return {"back": self.back, "was": list(self.was)}

    def rows(self):
        return [{"text": "the original data"}]

    def start(self, model, seed):
        return model

    def train(self, model, rows, seed, folder, training=PLAIN):
        assert training.freeze == ENCODER and training.new_head and rows == self.rows()
        self.trained.append(folder.name)
        now = np.array(list(model.backend.bias.values()))
        (folder / "model").mkdir()
        bias = np.zeros_like(now) if self.back is None else now + self.back * (np.array(self.was) - now)
        (folder / "model" / "bias.json").write_text(json.dumps(bias.tolist()))
        return folder / "model"

    def evaluate(self, model):
        told = -model.backend.nats, np.ones(PASSAGES)
        return [Performance("perplexity", "higher", perplexity(*told), perplexity_sums(*told))]


class PlantedRunner(Runner):
    """Opens the folders of ``StubRecipe``; ``measurer`` measures in place of the runner."""

    def __init__(self, measurer=None):
        super().__init__(score=RunSettings(cache=None))
        self.measurer = measurer

    def open(self, model):
        if isinstance(model, str):
            return wrap_object(PlantedLM(json.loads((Path(model) / "bias.json").read_text())))
        return super().open(model)

    def measure_once(self, suite, model, settings=None):
        if self.measurer is not None:
            return self.measurer(suite, model, **settings)
        return super().measure_once(suite, model, settings)


def lm(bias, nats=None):
    return wrap_object(PlantedLM(bias, nats))


def noise(scale=1.0, seed=0, n=None):
    return np.random.default_rng(seed).normal(0, scale, n or len(OCCUPATIONS))


BIAS = noise(1.0)
TOWARDS_MEN = 1.0 + noise(0.5)


def run_of(before, after, control=(), measurer=None, **more):
    return MitigationRun(
        before, after, control, **{"trained": False, "recipe": StubRecipe(), "runner": PlantedRunner(measurer), **more}
    )


def judge(run, suite="lm-occupation", **settings):
    return judge_reduction(run, suite, cache=None, **settings)


def first_line(judgement):
    return judgement.text.partition("\n")[0]


# The six verdicts, and no value


def test_reduced_by_most_and_more_than_in_the_control():
    run = run_of(lm(BIAS), lm(0.3 * BIAS), [[lm(BIAS + noise(0.1, s)) for s in (1, 2, 3)]])
    found = judge(run, by=0.3, budget={"perplexity": 0.05})
    assert found.code == REDUCED and passes(found.code)
    assert "reduced by 70 % (at least 30 % is asked), more than in the control" in first_line(found)
    assert (
        "mean of 3" in found.text and "perplexity: 7.389 -> 7.389, unchanged" in found.text and ": kept" in found.text
    )
    assert found.bound == "reduced by 30 %, perplexity 5 % worse at most"
    assert found.of_reduction.reduction == pytest.approx(0.7) and found.of_reduction.reduction_bounds == pytest.approx(
        [0.7, 0.7], abs=2e-3
    )
    assert found.difference == pytest.approx(-0.7 * np.abs(BIAS).mean(), abs=1e-6)
    assert found.interval.low < found.difference < found.interval.high and found.over == "occupations"
    assert json.loads(json.dumps(found.to_dict()))["facts"]["budget"]["perplexity"]["verdict"] == "kept"


def test_the_share_is_what_a_hand_computes():
    after = 0.5 * BIAS + noise(0.1, 3)
    found = judge(run_of(lm(BIAS), lm(after)))
    assert found.of_reduction.reduction == pytest.approx(1 - np.abs(after).mean() / np.abs(BIAS).mean(), abs=1e-6)
    low, high = found.of_reduction.reduction_bounds
    assert low < found.of_reduction.reduction < high and found.code == REDUCED


@pytest.mark.parametrize("by", [0.0, 0.3, 1.0])
def test_nothing_done_is_not_reduced(by):
    model = lm(BIAS)
    found = judge(run_of(model, model), by=by)
    assert found.code == NOT_REDUCED and not passes(found.code)
    assert "unchanged" in first_line(found)
    with pytest.raises(GateFailure, match="not reduced"):
        assert_reduced(run_of(model, model), "lm-occupation", by=by, cache=None)


def test_noise_alone_is_not_reduced():
    found = judge(run_of(lm(BIAS), lm(BIAS + noise(1.0, 5))), by=0.3)
    assert found.code == NOT_REDUCED and "raised by" in first_line(found)


def test_no_more_than_in_the_control_is_not_reduced():
    run = run_of(lm(BIAS), lm(0.5 * BIAS), [[lm(0.5 * BIAS), lm(0.4 * BIAS)]])
    found = judge(run)
    assert found.code == NOT_REDUCED
    assert "reduced by 50 % (at least 30 % is asked), no more than in the control (" in first_line(found)


def test_what_is_nearer_to_neutral_is_better_on_whichever_side_that_is():
    """Neutral inference is 1: better than the control is above it."""
    run = run_of(lm(BIAS), lm(1.1 * BIAS), [[lm(1.2 * BIAS)]])
    found = judge(run)
    assert "raised by 10 % (at least 30 % is asked), better than the control (" in first_line(found)
    assert "; after is " in found.text and " better, one-sided 95 % bounds " in found.text
    equal = judge(run_of(lm(BIAS), lm(BIAS), [[lm(BIAS)]]))
    assert "after is 0 better, one-sided 95 % bounds 0 and 0 over" in equal.text


def test_reduced_too_little_is_said_with_what_would_be_seen():
    found = judge(run_of(lm(BIAS), lm(0.9 * BIAS)))
    assert found.code == NOT_REDUCED and "reduced by 10 %" in first_line(found)


def test_too_few_says_what_settles_it_and_fails():
    run = run_of(lm(BIAS), lm(0.4 * BIAS + noise(0.4, 9)))
    found = judge(run, by=0.3)
    low, high = found.of_reduction.reduction_bounds
    assert found.code == REDUCED and 0.3 < low < 0.4 < high
    found = judge(run, by=0.4)
    assert found.code == TOO_FEW and not passes(found.code) and found.of_reduction.reduction_bounds == (low, high)
    assert (
        "occupations, if it stays where it is" in found.settled_by
        and f"by={np.floor(100 * low) / 100:g}" in found.settled_by
    )
    assert judge(run, by=np.floor(100 * low) / 100 - 0.01).code == REDUCED
    with pytest.raises(GateFailure, match=r"^cannot judge \(too few cases\): lm-occupation on "):
        assert_reduced(run, "lm-occupation", by=0.4, cache=None)


def test_over_corrected_where_the_mean_changes_its_side():
    found = judge(run_of(lm(TOWARDS_MEN), lm(-0.4 * TOWARDS_MEN)))
    assert found.code == OVER_CORRECTED
    assert "the sign flips, to 40 % of what it was; aggregate_bias" in first_line(found)
    assert "reduced by 60 %" in first_line(found)
    assert judge(run_of(lm(TOWARDS_MEN), lm(-0.4 * TOWARDS_MEN)), overshoot=0.5).code == REDUCED


def test_over_corrected_where_every_item_changes_its_side():
    """The mean is about 0 all the time: he and she were exchanged."""
    bias = BIAS - BIAS.mean()
    found = judge(run_of(lm(bias), lm(-0.5 * bias)))
    assert found.code == OVER_CORRECTED
    assert "lean the other way now (slope -0.5 to -0.5): the sign flips, to about 50 % of what it was" in first_line(
        found
    )


def test_over_corrected_by_a_statistic_with_a_sign():
    found = judge(run_of(lm(TOWARDS_MEN), lm(-0.4 * TOWARDS_MEN)), statistic="signed_bias")
    assert found.code == OVER_CORRECTED and "signed_bias" in first_line(found)


def test_a_little_beyond_neutral_is_no_over_correction():
    """Within its interval, a mean of about 0 has no side."""
    found = judge(run_of(lm(TOWARDS_MEN), lm(noise(0.1, 4) - 0.005)), statistic="signed_bias")
    assert found.code == REDUCED


def test_accuracy_lost():
    nats = np.full(PASSAGES, 2.0)
    run = run_of(lm(BIAS, nats), lm(0.3 * BIAS, nats + 0.2 + noise(0.02, 1, PASSAGES)))
    found = judge(run, budget={"perplexity": 0.05})
    assert found.code == TASK_LOST and not passes(found.code)
    assert first_line(found).startswith(
        "limit broken (accuracy lost): "
    ) and "% worse, 5 % worse is allowed; aggregate_bias" in first_line(found)
    assert "reduced by 70 %" in first_line(found), "whatever was found is named"
    assert found.of_reduction.budget["perplexity"].worse == pytest.approx(np.expm1(0.2), abs=0.02)
    assert judge(run, budget={"perplexity": 0.3}).code == REDUCED


@pytest.mark.usefixtures("ability_asked")
def test_a_model_that_is_only_less_sure_of_everything_is_not_reduced():
    """Smaller logits answer every control item as before, and shrink every difference in nats."""
    before = load_model("demo-lm")
    network = copied(before.backend.network)
    with torch.no_grad():
        for weight in network.transformer.ln_f.parameters():
            weight *= 0.2
    after = with_network(before, network, "flat")
    found = judge(run_of(before, after))
    assert found.code == NOT_REDUCED and "reduced by 57.9 % (at least 30 % is asked)" in first_line(found)
    assert "the model is less sure of everything, which lowers any bias; beyond that it is raised by" in found.text


def test_a_budget_that_is_not_decided_cannot_be_judged():
    nats = np.full(PASSAGES, 2.0)
    run = run_of(lm(BIAS, nats), lm(0.3 * BIAS, nats + 0.05 + noise(0.2, 1, PASSAGES)))
    found = judge(run, budget={"perplexity": 0.05})
    assert found.code == TOO_FEW and "or a budget of 0." in found.settled_by and "passages" in found.settled_by
    worse = run_of(lm(BIAS, nats), lm(BIAS, nats + 0.05 + noise(0.2, 1, PASSAGES)))
    assert judge(worse, budget={"perplexity": 0.05}).code == NOT_REDUCED, "what is worse is said first"


def test_superficial(tmp_path):
    run = run_of(lm(BIAS), lm(0.2 * BIAS), recipe=StubRecipe(tuple(BIAS), back=0.75), folder=tmp_path)
    found = judge(run, superficial=True)
    assert found.code == SUPERFICIAL and not passes(found.code)
    assert "75 % of the reduction comes back with a new head; aggregate_bias" in first_line(found)
    assert "one-sided 95 % bounds 75 % and 75 %" in found.text and "before with a new head" in found.text
    assert "compression of gender: not known: " in found.text
    assert found.of_reduction.superficial.comes_back == pytest.approx(0.75)
    assert judge(run, superficial=True, back=0.8).code == REDUCED
    assert len(run.recipe.trained) == len(set(run.recipe.trained)) == 2, "equal trainings are shared"


def test_what_lasts_is_not_superficial():
    run = run_of(lm(BIAS), lm(0.2 * BIAS), recipe=StubRecipe(tuple(BIAS), back=0.0))
    found = judge(run, superficial=True)
    assert found.code == REDUCED and "nothing comes back with a new head" in found.text


def test_a_new_head_that_learns_nothing_does_not_tell():
    run = run_of(lm(BIAS), lm(0.2 * BIAS), recipe=StubRecipe(tuple(BIAS), back=None))
    found = judge(run, superficial=True)
    assert found.code == TOO_FEW and found.settled_by == "a recipe that trains the head longer (superficial)"
    assert "a new head brings the bias back on no encoder, not even on the one before" in first_line(found)
    assert "before with a new head: 0, 0 % of the reduction: such a head shows no bias that is there" in found.text


def test_a_compression_that_cannot_be_measured_skips_no_test():
    def measurer(suite, model, **settings):
        if suite.name != "lm-occupation":
            raise NotApplicableError("it cannot be probed")
        return measure(suite, model, **settings)

    run = run_of(lm(BIAS), lm(0.2 * BIAS), recipe=StubRecipe(tuple(BIAS), back=0.75), measurer=measurer)
    found = judge(run, superficial=True)
    assert found.code == SUPERFICIAL and "compression of gender: not known: it cannot be probed" in found.text
    with pytest.raises(NotApplicableError, match="it cannot be probed"):
        judge(run, "disco-names")


def test_superficial_over_restarts_has_bounds():
    after = [lm(0.2 * BIAS + noise(0.02, s)) for s in range(3)]
    run = run_of(lm(BIAS), after, recipe=StubRecipe(tuple(BIAS), back=0.8), trained=True)
    found = judge(run, superficial=True)
    assert found.code == SUPERFICIAL
    low, high = found.of_reduction.superficial.bounds
    assert low <= found.of_reduction.superficial.comes_back <= high


def test_superficial_is_not_asked_of_what_is_not_reduced():
    run = run_of(lm(BIAS), lm(BIAS), recipe=StubRecipe(tuple(BIAS)))
    found = judge(run, superficial=True)
    assert found.code == NOT_REDUCED and "superficial: not tested" in found.text and not run.recipe.trained


def test_superficial_needs_a_recipe():
    with pytest.raises(SettingError, match="no recipe that trains"):
        judge(run_of(lm(BIAS), lm(0.1 * BIAS), recipe=None), superficial=True)


def test_no_value():
    def lacking(suite, model, **settings):
        found = measure(suite, model, **settings)
        return replace(found, values={**found.values, "aggregate_bias": None}, reasons={"aggregate_bias": "no words"})

    found = judge(run_of(lm(BIAS), lm(BIAS), measurer=lacking))
    assert found.code == NO_VALUE and "no value before, seed 0: no words" in first_line(found)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["aggregate_bias", "signed_bias", "items", "budget"])
def test_a_reduction_in_what_is_no_number_never_passes(number, place):
    """In the value, in its partner with a sign, in the items of the model after, or in the perplexity of the budget."""

    def broken(suite, model, **settings):
        found = measure(suite, model, **settings)
        if place == "items" and model.backend.bias[OCCUPATIONS[0]] != BIAS[0]:
            sums = found.item_sums("aggregate_bias").sums.copy()
            sums[0, ..., 0] = number
            changed = replace(found.item_sums("aggregate_bias"), sums=sums)
            return replace(found, sums=SumsByStatistic({"aggregate_bias": changed}))
        return replace(found, values={**found.values, place: number}) if place in found.values else found

    nats = np.r_[number, np.full(PASSAGES - 1, 2.0)] if place == "budget" else None
    run = run_of(lm(BIAS), lm(0.2 * BIAS, nats), [[lm(BIAS)]], measurer=broken)
    with np.errstate(all="ignore"):
        found = judge(run, budget={"perplexity": 0.05})
    assert not passes(found.code) and found.code not in (TOO_FEW, SUPERFICIAL)


def test_models_measured_on_something_else_are_not_compared():
    sizes = iter([100, 512])

    def other(suite, model, **settings):
        return measure(suite, model, limit=next(sizes), **settings)

    found = judge(run_of(lm(BIAS), lm(0.9 * BIAS), measurer=other))
    assert found.code == NOT_COMPARABLE and "before was measured on something else" in first_line(found)


def test_nothing_to_reduce():
    none = lm(np.zeros(len(OCCUPATIONS)))
    assert "there is nothing to reduce" in first_line(judge(run_of(none, none)))
    noisy = judge(run_of(lm(BIAS), lm(0.1 * BIAS)), statistic="signed_bias")
    assert noisy.code == NOT_REDUCED and "nothing to reduce that is more than noise" in first_line(noisy)


# Restarts


def restarts(share, spread, seeds, **more):
    after = [lm(share * BIAS * (1 + spread * x)) for x in noise(1.0, 2, seeds)]
    return run_of(lm(BIAS), after, trained=True, **more)


def test_restarts_decide_where_a_method_trains():
    found = judge(restarts(0.3, 0.1, 3))
    assert found.code == REDUCED and found.over == "restarts"
    assert "  trained   3 times, seeds 0, 1, 2; before is one model for all of them" in found.text
    assert judge(restarts(0.6, 0.5, 3)).code in (TOO_FEW, NOT_REDUCED)


def test_one_restart_is_judged_over_items_and_says_so():
    found = judge(restarts(0.3, 0.1, 1))
    assert found.code == REDUCED and found.over == "occupations"
    assert "one restart says little about others" in found.text


@pytest.mark.parametrize("seeds", [2, 3])
def test_few_restarts_that_agree_decide_nothing(seeds):
    found = judge(restarts(0.3, 0.0, seeds))
    assert found.code == TOO_FEW and found.settled_by == "five seeds or more"
    assert f"{seeds} restarts that all moved alike say too little of others" in found.text
    assert judge(restarts(0.3, 0.0, 5)).code == REDUCED


def test_the_control_of_each_seed_is_averaged_over_its_own():
    controls = [[lm((0.9 + 0.01 * s + 0.1 * c) * BIAS) for c in range(2)] for s in range(3)]
    found = judge(replace(restarts(0.3, 0.1, 3), control=controls))
    assert found.code == REDUCED
    assert found.of_reduction.control == pytest.approx(np.abs(BIAS).mean() * 0.96, rel=1e-6)
    assert "mean of 2 a seed" in found.text


def test_perplexity_over_restarts_is_also_held_against_a_trained_control():
    models = [
        [lm(b * (1 + 0.01 * s) * BIAS, np.full(PASSAGES, 2.0 + d + 0.001 * s)) for s in range(3)]
        for b, d in ((0.2, 0.03), (1.0, 0.02))
    ]
    run = run_of(lm(BIAS), models[0], [[one] for one in models[1]], trained=True)
    found = judge(run, budget={"perplexity": 0.05})
    assert found.code == REDUCED
    assert "the control has 7.546: against it after is 1.01 % worse" in found.text


# What no items make up


def without_items(**limit):
    def measurer(suite, model, **settings):
        return replace(measure(suite, model, **settings, **limit), sums=SumsByStatistic({}))

    return measurer


def test_figures_without_items_are_compared_as_they_are():
    found = judge(run_of(lm(BIAS), lm(0.5 * BIAS), [[lm(BIAS)]], measurer=without_items()))
    assert (
        found.code == REDUCED
        and "reduced by 50 %, compared as it is, with no bound for others: no sums of aggregate_bias are known"
        in found.text
    )
    assert found.over == "the suite's cases, all of them" and found.of_reduction.reduction_bounds == pytest.approx(
        [0.5, 0.5]
    )
    assert judge(run_of(lm(BIAS), lm(0.9 * BIAS), measurer=without_items())).code == NOT_REDUCED


def test_a_sample_without_items_decides_nothing():
    found = judge(run_of(lm(BIAS), lm(0.5 * BIAS), measurer=without_items(limit=256)))
    assert found.code == TOO_FEW and found.settled_by == "all cases of the suite (no limit)"
    assert found.of_reduction.reduction_bounds == (None, None) and found.interval is None
    json.loads(json.dumps(found.to_dict(), allow_nan=False))


# Budgets of the suite's own statistics; what cannot be asked


def test_a_budget_of_the_suites_own_accuracy(tmp_path):
    winogender(tmp_path)
    good, bad = wrap_object(NoisyCoreference()), wrap_object(NoisyCoreference())
    run = run_of(good, bad, recipe=None)
    found = judge(run, "coref-winogender", budget={"accuracy": 0.05}, data=str(tmp_path))
    assert "accuracy of coref-winogender" in found.text and "unchanged" in found.text


@dataclass(frozen=True)
class StubAccuracy(StubRecipe):
    """Tells an accuracy: of each passage, what was planted as its nats."""

    def evaluate(self, model):
        nats = model.backend.nats
        item_sums = mean_sums(np.arange(PASSAGES).astype(str), nats, np.ones(PASSAGES), "passages")
        return [Performance("accuracy", "lower", item_sums.total, item_sums)]


@dataclass(frozen=True)
class StubNothing(StubRecipe):
    """A user's own, which tells what is no number."""

    def evaluate(self, model):
        (one,) = super().evaluate(model)
        return [replace(one, value=float("nan"))]


def test_a_figure_that_is_no_number_is_no_value():
    found = judge(run_of(lm(BIAS), lm(0.3 * BIAS), recipe=StubNothing()), budget={"perplexity": 0.05})
    assert found.code == NO_VALUE and "perplexity has no value before and after" in first_line(found)


def test_the_budget_of_an_accuracy_is_a_share_of_what_it_was():
    right = 0.8 + noise(0.02, 1, PASSAGES)
    for kept, verdict in ((0.97, REDUCED), (0.93, TASK_LOST), (1.1, REDUCED)):
        run = run_of(lm(BIAS, right), lm(0.3 * BIAS, kept * right), recipe=StubAccuracy())
        found = judge(run, budget={"accuracy": 0.05})
        assert found.code == verdict
        assert found.of_reduction.budget["accuracy"].worse == pytest.approx(1 - kept)


def test_a_control_that_does_nothing_right_takes_no_accuracy_away():
    right, none = np.full(PASSAGES, 0.8), np.zeros(PASSAGES)
    run = run_of(lm(BIAS, right), lm(0.3 * BIAS, right), [[lm(BIAS, none)]], recipe=StubAccuracy(), trained=True)
    found = judge(run, budget={"accuracy": 0.05})
    assert found.code == REDUCED and "accuracy: 0.8 -> 0.8, unchanged" in found.text
    run = run_of(lm(BIAS, right), lm(0.3 * BIAS, none), recipe=StubAccuracy())
    assert "accuracy 0.8 -> 0: nothing of it is left" in first_line(judge(run, budget={"accuracy": 0.05}))


def test_a_perplexity_too_large_for_a_number_is_no_value():
    run = run_of(lm(BIAS), lm(0.3 * BIAS, np.full(PASSAGES, 1e4)))
    found = judge(run, budget={"perplexity": 0.05})
    assert found.code == NO_VALUE and not passes(found.code)
    assert "no value for the perplexity of the budget after: it is exp(10000)" in first_line(found)
    fine = judge(
        replace(run, after=lm(0.3 * BIAS), control=[[lm(BIAS, np.full(PASSAGES, 1e4))]], trained=True),
        budget={"perplexity": 0.05},
    )
    assert fine.code == REDUCED, "a control that has none is no fault of the method"


def test_what_is_not_surely_more_than_the_control_is_settled_by_no_smaller_share():
    after = lm(0.5 * BIAS + noise(0.3, 9))
    run = run_of(lm(BIAS), after, [[lm(0.55 * BIAS + noise(0.3, 11))]])
    for by in (0.3, 0.4):
        found = judge(run, by=by)
        assert found.code == TOO_FEW and "(the control)" in found.settled_by and "by=" not in found.settled_by


def test_what_nobody_can_tell_of_a_budget():
    run = run_of(lm(BIAS), lm(BIAS))
    with pytest.raises(
        SettingError, match="the recipe evaluates perplexity, and lm-occupation measures signed_bias beside"
    ):
        judge(run, budget={"accuracy": 0.05})
    with pytest.raises(SettingError, match="the run has no recipe that evaluates"):
        judge(replace(run, recipe=None), budget={"accuracy": 0.05})


@pytest.mark.parametrize(
    "wrong", [{"by": 1.5}, {"by": "much"}, {"back": -1}, {"overshoot": True}, {"budget": {"perplexity": -0.1}}]
)
def test_arguments_that_cannot_be(wrong):
    with pytest.raises(SettingError):
        judge(run_of(lm(BIAS), lm(BIAS)), **wrong)


def test_only_a_settled_judgement_is_recorded():
    recorded = []
    with refereed_by(Referee(record=lambda *settled: recorded.append(settled))):
        found = judge(run_of(lm(BIAS), lm(0.1 * BIAS)), name="mine")
        assert recorded == [] and found.name == "mine"
        settle(found)
    assert recorded == [(found, PASSED)]


def test_every_statistic_without_a_sign_names_one_that_has():
    for family in map(load_family, FAMILIES):
        for statistic, signed in ((n, s.partner) for n, s in family.statistics.items() if s.partner):
            directions = [family.statistics[name].scale.direction for name in (statistic, signed)]
            assert directions[0] != "away" and directions[1] == "away"


# The packaged demo models, whose bias is planted


@pytest.fixture(scope="module")
def demo():
    return load_model("demo-lm", device="cpu")


@dataclass(frozen=True)
class DemoPerplexity:
    """Evaluates a language model on sentences of its kind, and trains nothing."""

    name: ClassVar[str] = "demo"
    makes_task: ClassVar[bool] = False

    def settings(self):
        return {}

    def evaluate(self, model):
        space = load_suite("lm-occupation").family.space(
            load_suite("lm-occupation").body, {"single_word_only": False, "templates": "paper"}
        )
        texts = [text for (text,) in space.sentences(np.arange(0, 512, 8), "")]
        nats, counts = [], []
        for text in texts:
            ids = torch.tensor([model.backend.tokenizer(text)["input_ids"]])
            with torch.inference_mode():
                logits = model.backend.network(ids).logits[0, :-1].log_softmax(-1)
            nats.append(float(logits.gather(1, ids[0, 1:, None]).sum()))
            counts.append(ids.shape[1] - 1)
        item_sums = perplexity_sums(nats, counts)
        return [Performance("perplexity", "higher", item_sums.total, item_sums)]


def changed(model, change, what):
    network = copied(model.backend.network)
    with torch.no_grad():
        change(network, model.backend.tokenizer)
    return with_network(model, network, what)


def exchange_words(network, tokenizer):
    weight = network.get_input_embeddings().weight
    for a, b in (("He", "She"), ("he", "she"), (" he", " she"), (" man", " woman"), ("man", "woman")):
        one, other = (tokenizer(w, add_special_tokens=False)["input_ids"] for w in (a, b))
        if len(one) == len(other) == 1 and one != other:
            rows = [one[0], other[0]]
            weight[rows] = weight[rows[::-1]].clone()


def test_demo_projection_is_reduced(demo):
    method = resolve_method(["wed", "projection"])
    found = judge_reduction(mitigate(demo, method, controls=2), "lm-occupation", by=0.3)
    assert found.code == REDUCED and found.model == "demo-lm with wed & projection"
    assert "control (together, mean of 2)" in found.text


def test_demo_without_a_mitigation_is_not_reduced(demo):
    found = judge_reduction(mitigate(demo, Method()), "lm-occupation")
    assert found.code == NOT_REDUCED and "unchanged" in first_line(found)


def test_demo_with_noise_is_not_reduced(demo):
    def add(network, tokenizer):
        weight = network.get_input_embeddings().weight
        weight += 0.05 * float(weight.std()) * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))

    found = judge_reduction(run_of(demo, changed(demo, add, "noise"), recipe=None), "lm-occupation")
    assert found.code == NOT_REDUCED


def test_demo_with_exchanged_words_is_over_corrected(demo):
    found = judge_reduction(run_of(demo, changed(demo, exchange_words, "exchanged"), recipe=None), "lm-occupation")
    assert found.code == OVER_CORRECTED and "lean the other way" in first_line(found)


def test_demo_with_a_ruined_output_layer_has_lost_its_accuracy(demo):
    def ruin(network, tokenizer):
        network.lm_head.weight = torch.nn.Parameter(0.2 * network.lm_head.weight.detach().clone())

    run = run_of(demo, changed(demo, ruin, "ruined"), recipe=DemoPerplexity())
    found = judge_reduction(run, "lm-occupation", budget={"perplexity": 0.05})
    assert found.code == TASK_LOST
    assert "perplexity" in first_line(found) and "reduced by" in first_line(found), (
        "less of everything is also less of bias"
    )


def test_demo_counts_of_tests_are_judged_over_persons():
    found = judge_reduction(
        mitigate(load_model("demo-mlm", device="cpu"), make_method("projection"), controls=1), "disco-terms"
    )
    assert found.over == "persons" and found.code == NOT_REDUCED, "he and she are not what it tells its persons by"
    assert "significant_fills 0.2857 -> 0.2857, unchanged" in first_line(found)


def test_nothing_warns_on_the_way():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge(run_of(lm(BIAS), lm(0.3 * BIAS + noise(0.05, 2)), [[lm(BIAS)]]), budget={"perplexity": 0.05})
