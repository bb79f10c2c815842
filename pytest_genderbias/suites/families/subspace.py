"""The family ``subspace``: whether one direction explains the differences of words, and its cosine with the learned
direction.

Source: dev2019, tables 7 and 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics import bias_subspace
from pytest_genderbias.suites.cases import Answers, Items, Question
from pytest_genderbias.suites.families.shared.words import (
    bare_words,
    check_enough_known,
    known_vectors,
    layer,
    missing_note,
)
from pytest_genderbias.suites.family import Context, Family, Option, flag
from pytest_genderbias.suites.query import NETWORKS, TextVectors
from pytest_genderbias.suites.space import SlotWords, read_slot
from pytest_genderbias.suites.statistic import SHARE, FamilyStatistic, FloatArray, NullFigures, Options, Scale
from pytest_genderbias.suites.summary import Record, Summary, rows_of
from pytest_genderbias.text.schema import LocatedList, LocatedMap, take

_NO_INTERVAL = "no valid interval is known for the singular values of a selected list of words"
_RATIO = (
    "{} singular value / 1st: near 0 one direction holds what sets the words apart, near 1 none stands out; it says how"
    " well taking a direction out can do, and is no measure of bias"
)
_NO_GATE = (
    "it says how well taking a direction out can do, and is no measure of bias; gate a suite of the bias, such as weat"
)


@dataclass(frozen=True)
class SubspaceBody:
    """The full set of words, and the pair or the list of words that defines the learned direction."""

    words: tuple[str, ...]
    pair: tuple[str, str] | None
    train: tuple[str, ...]


_LARGE = Scale("higher", 0.0, SHARE.limits)


def _of_all_words(scale: Scale, meaning: str) -> FamilyStatistic:
    """Return a statistic of all words together, which no sums over words make up."""
    return FamilyStatistic(
        scale,
        meaning,
        "singular values and components are of all words together, and no function of sums over words",
        plot="value",
        no_gate=_NO_GATE,
    )


class Subspace(Family[SubspaceBody]):
    """Singular values of a set of words, and the cosine of its first component with the learned direction."""

    name: ClassVar[str] = "subspace"
    definition: ClassVar[str] = "subspace/2"
    picture: ClassVar[str] = "along_component"
    null_control: ClassVar[str] = (
        "each word's vector (with the option centred, from the mean) keeps its length and takes a random direction; for"
        " the cosine the learned direction is a random one"
    )
    needs: ClassVar[str] = "word vectors, or a network with hidden states"
    roles: ClassVar[tuple[str, ...]] = ("vectors", *NETWORKS)
    keys: ClassVar[tuple[str, ...]] = ("words", "pair", "train")
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "ratio_2": _of_all_words(_LARGE, _RATIO.format("2nd")),
        "ratio_3": _of_all_words(_LARGE, _RATIO.format("3rd")),
        "ratio_4": _of_all_words(_LARGE, _RATIO.format("4th")),
        "cosine": _of_all_words(
            SHARE,
            "|cosine| of the first component with the learned direction: low says that a projection takes out something"
            " else",
        ),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "where": layer("input"),
        "centred": flag("subtract the mean vector first"),
        "normalised": flag("divide each vector by its length first"),
    }

    def read(self, data: LocatedMap) -> SubspaceBody:
        """Read the words, and the pair or the list for the learned direction."""
        words = _texts(read_slot(data, "words"))
        if ("pair" in data) == ("train" in data):
            raise data.error_at("", "expected either 'pair' (two words) or 'train' (a list) for the direction")
        if "train" in data:
            return SubspaceBody(words, None, _texts(read_slot(data, "train")))
        pair = take(data, "pair", LocatedList, "the suite")
        if len(pair) != 2 or not all(isinstance(word, str) and word.strip() for word in pair) or pair[0] == pair[1]:
            raise data.error_at("pair", f"'pair' should be two different words, got {list(pair)}")
        return SubspaceBody(words, (pair[0], pair[1]), ())

    def content(self, body: SubspaceBody) -> object:
        """Return the words, and the pair or the list for the learned direction."""
        return [body.words, body.pair, body.train]

    def questions(self, body: SubspaceBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the vector of every word."""
        return {"cases": Question(bare_words(_all_words(body)), TextVectors(options["where"]), whole=True)}

    def summarise(self, body: SubspaceBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Return the ratios, the cosine, and each word's place along the first component."""
        words = _all_words(body)
        vectors = known_vectors(words, answers["cases"])
        notes = missing_note({"words": [word for word in words if word not in vectors]}, len(words), "no vector")
        figures = Summary(self.statistics)
        try:
            component, ratios = _component("words", body.words, vectors, options)
        except UndefinedError as error:
            figures.miss(str(error))
            return replace(figures, notes=notes)
        for key, ratio in zip(("ratio_2", "ratio_3", "ratio_4"), ratios, strict=True):
            figures.take(key, partial(float, ratio), no_interval=_NO_INTERVAL)
        figures.take(
            "cosine",
            lambda: bias_subspace.cosine_with(_direction(body, vectors, options), component),
            no_interval=_NO_INTERVAL,
        )
        records, items = _by_word(body, vectors, component, options)
        return replace(figures, records=records, items={**items, "ratios": np.asarray(ratios)}, notes=notes)

    def null(self, body: SubspaceBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return ratios of vectors turned at random, and cosines of the first component with random directions."""
        vectors = known_vectors(_all_words(body), answers["cases"])
        rows = [vectors[word] for word in body.words if word in vectors]
        null = np.full((repeats, 4), np.nan)
        try:
            _component("words", body.words, vectors, options)
            null[:, :3] = bias_subspace.random_ratios(
                rows, repeats, seed, centred=options["centred"], normalised=options["normalised"]
            )
            _direction(body, vectors, options)  # without one there is no cosine to hold against others
            null[:, 3] = bias_subspace.random_cosines(len(rows[0]), repeats, seed)
        except UndefinedError:
            pass
        return dict(zip(self.statistics, null.T, strict=True))


def _texts(slot: SlotWords) -> tuple[str, ...]:
    return tuple(word.text for word in slot.words())


def _all_words(body: SubspaceBody) -> list[str]:
    """Return each word once."""
    return list(dict.fromkeys([*body.words, *(body.pair or ()), *body.train]))


def _component(
    label: str, words: tuple[str, ...], vectors: Mapping[str, FloatArray], options: Options
) -> tuple[FloatArray, tuple[float, float, float]]:
    """Return the first component and the ratios of the words that have vectors."""
    check_enough_known(label, words, vectors, "vector")
    rows = [vectors[word] for word in words if word in vectors]
    return bias_subspace.principal_ratios(rows, centred=options["centred"], normalised=options["normalised"])


def _direction(body: SubspaceBody, vectors: Mapping[str, FloatArray], options: Options) -> FloatArray:
    """Return the learned direction: towards the first word of the pair, or the first component of the list."""
    if body.pair is None:
        return _component("train", body.train, vectors, options)[0]
    first, second = body.pair
    for word in body.pair:
        if word not in vectors:
            raise UndefinedError(f"{word!r}, a word of the pair for the learned direction, has no vector")
    return bias_subspace.pair_direction(vectors[second], vectors[first])


def _by_word(
    body: SubspaceBody, vectors: Mapping[str, FloatArray], component: FloatArray, options: Options
) -> tuple[list[Record], Items]:
    """Return records with the position of each word along the first component, oriented as the learned direction, and
    items.
    """
    known = [word for word in body.words if word in vectors]
    rows = np.asarray([vectors[word] for word in known])
    rows = bias_subspace.unit_vectors(rows) if options["normalised"] else rows
    places = (rows - (rows.mean(axis=0) if options["centred"] else 0.0)) @ component
    try:
        places = places * (-1.0 if _direction(body, vectors, options) @ component < 0 else 1.0)
    except UndefinedError:
        places = places * np.sign(places[np.argmax(np.abs(places))])
    records = rows_of({"word": known, "along_first_component": places})
    items = {"word": np.asarray(known), "along_first_component": places}
    return sorted(records, key=lambda r: (-abs(r["along_first_component"]), r["word"])), items
