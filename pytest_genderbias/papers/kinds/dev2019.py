"""The kinds of runs that dev2019 alone has: ``extremes``, the sentence pairs that a model is surest of without reason,
and what it says of given ones (tables 2, 4 and 6); and ``paired-subspace``, tables 7 and 12 with each pair of words
centred at its own mean, as Bolukbasi et al. 2016 do.

Settings of ``extremes``:
    model: spec of the model, or of what the recipe starts from.
    recipe, seeds: the training; without a recipe the model is measured as it is.
    suite: a suite of the family ``nli``; ``options`` are those of its measurement.
    pairs: a list of given pairs: ``name``, ``premise``, ``hypothesis``, and ``label``, entailment or contradiction.

Figures: ``before/SUITE/largest_entailment`` and ``largest_contradiction``, the largest probability of each, with an
interval up to 1 where not all pairs were scored; ``before/PAIR/entailment``, ``neutral`` and ``contradiction``;
``before/SUITE/same_label``, the share of the given pairs whose likeliest label is the given one. The lines name the
pairs with the largest probabilities of the first seed.

The paper does not say what was subtracted for tables 7 and 12. The suites ``subspace`` subtract the mean of all words,
or nothing.

Settings of ``paired-subspace``:
    model: spec of word vectors or of a network, whose input embeddings are taken.
    pairs: pairs of words; the learned direction is he - she.

Figures: ``before/paired/ratio_2``, ``ratio_3``, ``ratio_4`` and ``cosine``, as of the suite ``subspace``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.datasets.gold_pairs import LABELS
from pytest_genderbias.gates.judgement import BEFORE
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.mitigation.words.directions import HE_SHE, learn_basis, vectors_of
from pytest_genderbias.models.model import Model
from pytest_genderbias.papers.kinds import Outcome, figures_of_task, mitigated
from pytest_genderbias.papers.places import Places, StoredFigure, runner_of_paper
from pytest_genderbias.recipes.fine_tuning import answers_of
from pytest_genderbias.statistics.bias_subspace import FloatArray, cosine_with, principal_ratios
from pytest_genderbias.suites.query import PairProbabilities

_SHOWN = 3  #: pairs of each label that the lines name
_SLICES = {"entailment": "largest entailment", "contradiction": "largest contradiction"}  #: records of the family


def carry_out_extremes(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Train the models where there is a recipe, measure the suite, and ask for the given pairs."""
    runner = runner_of_paper(places)
    models, seeds, performances = _models(settings, places, runner)
    suite = runner.suites(settings["suite"])
    options = {**settings.get("options", {}), "top": _SHOWN}
    measurements = [runner.measure_once(suite, model, options) for model in models]
    texts = [(pair["premise"], pair["hypothesis"]) for pair in settings["pairs"]]
    given = [answers_of(model, texts, PairProbabilities(), "pairs") for model in models]
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


# Pairs of words that are centred at their own mean.


def carry_out_paired_subspace(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Return the ratios of singular values of the pairs, and the cosine of their first component with he - she."""
    model = Runner().open(settings["model"])
    words = [word for pair in settings["pairs"] for word in pair]
    component, ratios = principal_ratios(centred_in_pairs(vectors_of(model, words)))
    values = dict(zip(("ratio_2", "ratio_3", "ratio_4"), ratios, strict=True))
    values["cosine"] = cosine_with(learn_basis(model, pairs=HE_SHE)[:, 0], component)
    return Outcome({f"{BEFORE}/paired/{name}": StoredFigure([value]) for name, value in values.items()})


def centred_in_pairs(vectors: ArrayLike) -> FloatArray:
    """Return vectors without the mean of their pair: rows 0 and 1 are a pair, rows 2 and 3, and so on.

    >>> centred_in_pairs([[3.0, 0.0], [1.0, 0.0], [0.0, 5.0], [0.0, 5.0]]).tolist()
    [[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """
    v = np.asarray(vectors, dtype=np.float64)
    pairs = v.reshape(-1, 2, v.shape[1])
    return np.asarray((pairs - pairs.mean(axis=1, keepdims=True)).reshape(v.shape))
