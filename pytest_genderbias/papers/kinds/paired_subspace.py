"""The kind ``paired-subspace``: dev2019's tables 7 and 12 with each pair of words centred at its own mean, as Bolukbasi
et al. 2016 do.

The paper does not say what was subtracted. The suites ``subspace`` subtract the mean of all words, or nothing.

Settings:
    model: spec of word vectors or of a network, whose input embeddings are taken.
    pairs: pairs of words; the learned direction is he - she.

Figures: ``before/paired/ratio_2``, ``ratio_3``, ``ratio_4`` and ``cosine``, as of the suite ``subspace``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.gates.judgement import BEFORE
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.words.directions import HE_SHE, learn_basis, vectors_of
from pytest_genderbias.papers.kinds import Outcome
from pytest_genderbias.papers.places import Places, StoredFigure
from pytest_genderbias.statistics.bias_subspace import FloatArray, cosine_with, principal_ratios


def carry_out(settings: Mapping[str, Any], places: Places) -> Outcome:
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
