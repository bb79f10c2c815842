"""The kind ``extremes``: the sentence pairs that a model is surest of without reason, and what it says of given ones
(dev2019, tables 2, 4 and 6).

Settings:
    model: spec of the model, or of what the recipe starts from.
    recipe, seeds: the training; without a recipe the model is measured as it is.
    suite: a suite of the family ``nli``; ``options`` are those of its measurement.
    pairs: a list of given pairs: ``name``, ``premise``, ``hypothesis``, and ``label``, entailment or contradiction.

Figures: ``before/SUITE/largest_entailment`` and ``largest_contradiction``, the largest probability of each, with an
interval up to 1 where not all pairs were scored; ``before/PAIR/entailment``, ``neutral`` and ``contradiction``;
``before/SUITE/same_label``, the share of the given pairs whose likeliest label is the given one. The lines name the
pairs with the largest probabilities of the first seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.gold_pairs import LABELS
from pytest_genderbias.gates.judgement import BEFORE
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.models.model import Model
from pytest_genderbias.papers.kinds import Outcome, figures_of_task, mitigated
from pytest_genderbias.papers.places import Places, StoredFigure, runner_of_paper
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.suites.cases import Question, TextCases
from pytest_genderbias.suites.query import PairProbabilities

_SHOWN = 3  #: pairs of each label that the lines name
_SLICES = {"entailment": "largest entailment", "contradiction": "largest contradiction"}  #: records of the family


def carry_out(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Train the models where there is a recipe, measure the suite, and ask for the given pairs."""
    runner = runner_of_paper(places)
    models, seeds, performances = _models(settings, places, runner)
    suite = runner.suites(settings["suite"])
    options = {**settings.get("options", {}), "top": _SHOWN}
    measurements = [runner.measure_once(suite, model, options) for model in models]
    given = [_probabilities(model, settings["pairs"]) for model in models]
    figures = {**_largest(suite.name, measurements), **_of_pairs(suite.name, settings["pairs"], given), **performances}
    return Outcome(figures, seeds, {"lines": list(_lines(measurements[0]))})


def _models(
    settings: Mapping[str, Any], places: Places, runner: Runner
) -> tuple[list[Model], Sequence[int], dict[str, StoredFigure]]:
    """Return the models by seed, the seeds, and how well the models do the task of the recipe."""
    if "recipe" not in settings:
        return [runner.open(settings["model"])], (0,), {}
    recipe = make_recipe(**settings["recipe"])
    run = mitigated(settings["model"], None, recipe, places, seeds=settings.get("seeds"), runner=runner)
    models = [run.open(model) for group in run.models(BEFORE) for model in group]
    return models, run.seeds, figures_of_task(BEFORE, recipe.name, run.performance(BEFORE))


def _probabilities(model: Model, pairs: Sequence[Mapping[str, str]]) -> NDArray[np.floating]:
    """Return the probabilities of the labels for each given pair: shape (pairs, 3)."""
    cases = TextCases([(pair["premise"], pair["hypothesis"]) for pair in pairs])
    question = Question(cases, PairProbabilities(), whole=True)
    scores, _ = answer(question, model, cases.digest(), ScoreSettings(), "pairs")
    return scores.in_order()


def _largest(suite: str, measurements: Sequence[Measurement]) -> dict[str, StoredFigure]:
    """Return the largest probabilities. Of a sample, they are at most those of all pairs."""
    figures = {}
    for label in _SLICES:
        values = [max(float(record[label]) for record in _records(m, label)) for m in measurements]
        highest = [value if m.n == m.n_total else 1.0 for value, m in zip(values, measurements, strict=True)]
        figures[f"{BEFORE}/{suite}/largest_{label}"] = StoredFigure(
            values, list(map(list, zip(values, highest, strict=True)))
        )
    return figures


def _of_pairs(
    suite: str, pairs: Sequence[Mapping[str, str]], given: Sequence[NDArray[np.floating]]
) -> dict[str, StoredFigure]:
    """Return the probabilities of each given pair, and the share of pairs with the given label as the likeliest one."""
    figures = {
        f"{BEFORE}/{pair['name']}/{label}": StoredFigure([float(p[row, column]) for p in given])
        for row, pair in enumerate(pairs)
        for column, label in enumerate(LABELS)
    }
    expected = np.asarray([LABELS.index(pair["label"]) for pair in pairs])
    same = [float(np.mean(p.argmax(axis=1) == expected)) for p in given]
    return {**figures, f"{BEFORE}/{suite}/same_label": StoredFigure(same)}


def _lines(measurement: Measurement) -> Iterator[str]:
    """Yield the pairs with the largest probabilities in words."""
    for label in _SLICES:
        pairs = [f"{record['value']} ({record[label]:.2f})" for record in _records(measurement, label)]
        yield f"largest {label} of {measurement.n:,} pairs: {'; '.join(pairs)}"


def _records(measurement: Measurement, label: str) -> list[Mapping[str, Any]]:
    return [record for record in measurement.records if record["slice"] == _SLICES[label]]
