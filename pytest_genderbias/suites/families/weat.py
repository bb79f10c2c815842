"""The families ``weat`` (Caliskan et al. 2017) and ``ceat`` (Guo and Caliskan 2021): association of words with
attributes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np

from pytest_genderbias.datasets.corpora import draw_contexts
from pytest_genderbias.datasets.folder import MissingDataError, data_set_of, known_data_sets
from pytest_genderbias.errors import DataFileError, SettingError, UndefinedError
from pytest_genderbias.statistics import association
from pytest_genderbias.statistics.bias_subspace import unit_vectors
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.statistics.sums import effect_size_sums
from pytest_genderbias.suites.cases import Answer, Answers, Items, Question, TextCases, take_arrays
from pytest_genderbias.suites.families.shared.words import (
    bare_words,
    check_enough_known,
    known_vectors,
    layer,
    missing_note,
)
from pytest_genderbias.suites.family import Context, Family, Option, flag, text, whole
from pytest_genderbias.suites.query import NETWORKS, WITH_HIDDEN_STATES, TextVectors
from pytest_genderbias.suites.space import read_slot
from pytest_genderbias.suites.statistic import SHARE, SIGNED, Arrays, FamilyStatistic, FloatArray, NullFigures, Options
from pytest_genderbias.suites.summary import Record, Summary, rows_of
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.schema import LocatedMap, take

#: Data sets with contexts, in the order of the search.
CORPORA = ("brown", "wikitext2", "war_and_peace", "state_union", "inaugural")

_NO_GATE = "a p value depends on the number of words (and draws) as much as on the bias; gate {}"
_P_VALUE = (
    "share of the splits of the target words that differ as much: how sure, not how strong; without bias it is below"
    " .05 in one model of twenty, so gate the effect size"
)
_NO_INTERVAL = "a p value has no interval"
_NO_COMPARISON = "a p value measures no bias: compare the effect size"
_EXCHANGED = flag("exchange targets and attributes (career and family, then names), as in the text of orgad2022")
_WHERE = layer("last")


#: Words by the label of their set: two sets of targets (X, Y), two of attributes (A, B), and others that appear only in
#: the records.
WordSets: TypeAlias = Mapping[str, tuple[str, ...]]
_ROLES = "XYAB"  #: of the first four sets


def _words(sets: WordSets) -> list[str]:
    """Return the words of all sets."""
    return [word for words in sets.values() for word in words]


def _limits_of_effects(body: WordSets) -> tuple[float, float]:
    """Return the least and the largest effect size, whichever words have vectors: that of the largest set against a
    single word.
    """
    most = math.sqrt(1 + max(len(words) for words in list(body.values())[: len(_ROLES)]))
    return -most, most


class _Associations(Family[WordSets]):
    """The common base of both families: the reading of their suite files."""

    keys: ClassVar[tuple[str, ...]] = ("targets", "attributes", "others")
    null_control: ClassVar[str] = "target words are shuffled over their two sets"

    def read(self, data: LocatedMap) -> WordSets:
        """Read two sets of targets, two of attributes, and other sets."""
        sets: list[tuple[str, tuple[str, ...]]] = []
        for key in ("targets", "attributes"):
            slots = take(data, key, LocatedMap, "the suite")
            if len(slots) != 2:
                raise data.error_at(key, f"{key!r} should be two sets of words, got {', '.join(slots)}")
            sets += [(label, _read_words(slots, label)) for label in slots]
        others = take(data, "others", LocatedMap, "the suite", default={})
        sets += [(label, _read_words(others, label)) for label in others]
        _refuse_repeats(sets, data)
        return dict(sets)

    def asks_gender(self, body: WordSets, options: Options) -> bool:
        """Return whether words of women and of men are among the sets."""
        words = set(_words(body))
        return bool(words & {"she", "woman", "female"}) and bool(words & {"he", "man", "male"})

    def content(self, body: WordSets) -> object:
        """Return the sets of words."""
        return [[role, label, list(body[label])] for label, role in _roles(body).items()]


def _roles(sets: WordSets) -> dict[str, str]:
    """Return what each set is, by its label."""
    return dict(zip(sets, [*_ROLES, *["other"] * (len(sets) - len(_ROLES))], strict=True))


def _read_words(slots: LocatedMap, label: str) -> tuple[str, ...]:
    return tuple(word.text for word in read_slot(slots, label).words())


def _refuse_repeats(sets: Sequence[tuple[str, tuple[str, ...]]], data: LocatedMap) -> None:
    names = [label for label, _ in sets]
    labels: dict[str, str] = {}
    for label, words in sets:
        if names.count(label) > 1:
            raise data.error_at("", f"two sets have the label {label!r}; rename one")
        for word in words:
            if word in labels:
                raise data.error_at(
                    "",
                    f"{word!r} is in two sets, {labels[word]} and {label}, and would"
                    " be compared with itself; remove it from one",
                )
            labels[word] = label


def _effect_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the sums of each target word."""
    words, role, s = take_arrays(arrays, "word", "role", "association")
    target = role != "other"
    return effect_size_sums(words[target], s[target], role[target] == "X")


class Weat(_Associations):
    """Effect size of the association of two sets of target words with two sets of attribute words."""

    name: ClassVar[str] = "weat"
    definition: ClassVar[str] = "weat/1"
    picture: ClassVar[str] = "words_by_set"
    needs: ClassVar[str] = "word vectors, or a network with hidden states"
    roles: ClassVar[tuple[str, ...]] = ("vectors", *NETWORKS)
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "effect_size": FamilyStatistic(
            SIGNED,
            "mean s(w) of X - mean of Y, in standard deviations; s(w) = mean cos with A - mean cos with B",
            _effect_sums,
            limits_of=_limits_of_effects,
        ),
        "p_value": FamilyStatistic(
            SHARE, _P_VALUE, _NO_COMPARISON, "effect_size", plot="value", no_gate=_NO_GATE.format("effect_size")
        ),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "where": _WHERE,
        "exchanged": _EXCHANGED,
        "two_sided": flag("p value of a difference of either sign; by default as Caliskan et al., X above Y"),
    }

    def questions(self, body: WordSets, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the vector of every word."""
        return {"cases": Question(bare_words(_words(body)), TextVectors(options["where"]), whole=True)}

    def summarise(self, body: WordSets, options: Options, answers: Answers, seed: int) -> Summary:
        """Return the effect size, its permutation p, and the association of each target word."""
        vectors = known_vectors(_words(body), answers["cases"])
        figures = Summary(self.statistics)
        sets, notes = _known(body, options, vectors, "no vector")
        lacking = [word for label in list(sets)[2:4] for word in body[label] if word not in vectors]
        figures.data = {"attribute words without a vector": ", ".join(lacking)} if lacking else {}
        try:
            s = _associations(body, sets, vectors)
        except UndefinedError as error:
            figures.miss(str(error))
            return replace(figures, notes=notes)
        x, y = _of_targets(s)
        figures.take(
            "effect_size",
            lambda: association.effect_size(x, y),
            no_interval=(
                "the words are chosen, no sample of others; p_value says whether they differ by more than chance"
            ),
        )
        figures.take(
            "p_value",
            lambda: association.permutation_test(x, y, two_sided=options["two_sided"], seed=seed),
            no_interval=_NO_INTERVAL,
        )
        records, items = _by_word(sets, s)
        return replace(figures, records=records, items=items, notes=[*notes, *_means(sets, s)])

    def null(self, body: WordSets, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return the effect size with the target words shuffled over their sets."""
        vectors = known_vectors(_words(body), answers["cases"])
        sets, _ = _known(body, options, vectors, "no vector")
        try:
            s = _associations(body, sets, vectors)
            effects = association.shuffled_effect_sizes(*_of_targets(s), repeats, seed)
        except UndefinedError:
            effects = np.full(repeats, np.nan)
        return {"effect_size": effects}


def _contexts_drawn(options: Options, role: str) -> str:
    """Return what every figure depends on, with the other seed that it has."""
    return f"draws of contexts (contexts_seed {options['contexts_seed']})"


class Ceat(_Associations):
    """Combined effect size of WEAT over contexts drawn from a corpus.

    Contexts are cut to nine words, as in the reference code for BERT (which by mistake keeps eight in the middle of a
    sentence). Differences from it: the vector of a word is the mean over its tokens, not that of the last token;
    punctuation and special tokens are kept; a word that occurs twice in a sentence has its vector from the first
    occurrence.
    """

    name: ClassVar[str] = "ceat"
    definition: ClassVar[str] = "ceat/1"
    picture: ClassVar[str] = "words_by_set"
    needs: ClassVar[str] = "a network with hidden states"
    roles: ClassVar[tuple[str, ...]] = WITH_HIDDEN_STATES
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "combined_effect_size": FamilyStatistic(
            SIGNED,
            "mean WEAT effect size over draws of one context a word, by a random-effects model (CES)",
            "effects are combined over draws of contexts, and are no function of sums over words",
            draws=_contexts_drawn,
            limits_of=_limits_of_effects,
        ),
        "p_value": FamilyStatistic(
            SHARE,
            "p of the CES over draws, the paper's: small for nearly any words, and smaller with more draws",
            _NO_COMPARISON,
            "combined_effect_size",
            plot="value",
            draws=_contexts_drawn,
            no_gate=_NO_GATE.format("combined_effect_size"),
        ),
        "word_p_value": FamilyStatistic(
            SHARE,
            f"of mean associations, the {_P_VALUE}",
            _NO_COMPARISON,
            "combined_effect_size",
            plot="value",
            draws=_contexts_drawn,
            no_gate=_NO_GATE.format("combined_effect_size"),
        ),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "corpus": text(
            f"source of the contexts: a path, or one of {', '.join(CORPORA)} (also with a split, such as"
            " wikitext2/valid); by default the first of these that is available",
            display=True,
        ),
        "contexts": whole(200, "largest number of contexts of a word, sampled from all; 10,000 in the paper"),
        "contexts_seed": whole(0, "seed of the sample of contexts", least=0),
        "window": whole(9, "words of a context, with the word in the middle; 9 in the reference code"),
        "draws": whole(10_000, "draws of one context per word", least=2),
        "where": _WHERE,
        "exchanged": _EXCHANGED,
        "one_sided": flag("one-sided p values, for effects above 0, as in the reference code"),
        "random_encoder": flag("use the network before any training, as a control"),
    }

    def questions(self, body: WordSets, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the vector of every word in each of its contexts.

        Raises:
            MissingDataError: the named corpus is missing, or without a name all of them are.
            DataFileError: the corpus cannot be read, or contains none of the words.
        """
        words = _words(body)
        path = _corpus(options["corpus"], context)
        samples = draw_contexts(
            path, words, most=options["contexts"], window=options["window"], seed=options["contexts_seed"]
        )
        drawn = [(i, text, span) for i, word in enumerate(words) for text, span in samples[word]]
        if not drawn:
            raise DataFileError(
                f"{path}: the corpus contains none of the {len(words)} words of the suite ({words[0]}, ...)"
            )
        cases = TextCases(
            [(text,) for _, text, _ in drawn],
            [(span,) for _, _, span in drawn],
            {"word": np.asarray([i for i, _, _ in drawn])},
        )
        query = TextVectors(options["where"], random_seed=0 if options["random_encoder"] else None)
        return {"cases": Question(cases, query)}

    def summarise(self, body: WordSets, options: Options, answers: Answers, seed: int) -> Summary:
        """Return the combined effect size, both p values, and the mean association of each target word."""
        vectors = _by_context(body, answers["cases"])
        figures = Summary(self.statistics)
        sets, notes = _known(body, options, vectors, "no context")
        two_sided = not options["one_sided"]
        try:
            x, y, a, b = _by_role(body, sets, vectors, "context")
            result = association.ceat(x, y, a, b, draws=options["draws"], seed=seed, two_sided=two_sided)
        except UndefinedError as error:
            figures.miss(str(error))
            return replace(figures, notes=notes)
        s = _mean_associations(sets, vectors)
        of_x, of_y = np.split(result.associations, [len(x)])
        s |= zip(list(sets)[:2], (of_x, of_y), strict=True)
        figures.take(
            "combined_effect_size",
            lambda: result.effect,
            no_interval="its standard error shrinks with the number of draws and says nothing of other words",
        )
        figures.take("p_value", lambda: result.p_value, no_interval=_NO_INTERVAL)
        figures.take(
            "word_p_value",
            lambda: association.permutation_test(of_x, of_y, two_sided=two_sided, seed=seed),
            no_interval=_NO_INTERVAL,
        )
        records, items = _by_word(sets, s, {word: len(v) for word, v in vectors.items()})
        notes.append(
            f"p_value is that of a mean over {options['draws']} draws, and decreases with their number even for"
            " unrelated words; word_p_value tests whether the words differ by more than chance"
        )
        return replace(figures, records=records, items=items, notes=[*notes, *_means(sets, s)])

    def null(self, body: WordSets, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return the combined effect size with the target words shuffled over their sets, in the same draws of
        contexts.
        """
        vectors = _by_context(body, answers["cases"])
        sets, _ = _known(body, options, vectors, "no context")
        try:
            x, y, a, b = _by_role(body, sets, vectors, "context")
            effects = association.shuffled_combined_effects(x, y, a, b, repeats, draws=options["draws"], seed=seed)
        except UndefinedError:
            effects = np.full(repeats, np.nan)
        return {"combined_effect_size": effects}


def _corpus(chosen: str | None, context: Context) -> Path:
    """Return the path of the corpus."""
    if chosen is not None:
        data_set = data_set_of(chosen, CORPORA)
        if data_set is not None:
            return context.data.find(data_set, chosen.partition("/")[2] or None)
        path = expand(chosen)
        if not path.exists():
            raise SettingError(f"option 'corpus': no file {chosen}; expected a path, or one of {', '.join(CORPORA)}")
        return path
    missing: list[str] = []
    for name in CORPORA:
        try:
            return context.data.find(name)
        except MissingDataError as error:
            missing.append(str(error))
    others = ", ".join(known_data_sets()[name].title for name in CORPORA[1:])
    raise MissingDataError(f"{missing[0]}; {others} are missing, too; name a text of your own with corpus=PATH")


def _by_context(body: WordSets, answer: Answer) -> dict[str, FloatArray]:
    """Return the vectors of each word that has contexts, shape (contexts, dim), in the order of the contexts."""
    in_order = np.argsort(answer.units)
    word = answer.cases.facts["word"][answer.units[in_order]]
    values = answer.values[in_order, 0]
    words = _words(body)
    return {words[i]: values[word == i] for i in np.unique(word)}


def _known(sets: WordSets, options: Options, vectors: Mapping[str, object], what: str) -> tuple[WordSets, list[str]]:
    """Return the sets with only the words that have vectors, with targets and attributes exchanged if the option
    ``exchanged`` is, and a note on the missing words.
    """
    labels = list(sets)
    if options["exchanged"]:
        labels = [*labels[2:4], *labels[:2], *labels[4:]]
    known = {label: tuple(word for word in sets[label] if word in vectors) for label in labels}
    missing = {label: [word for word in words if word not in vectors] for label, words in sets.items()}
    return known, missing_note(missing, len(_words(sets)), what)


def _by_role(body: WordSets, sets: WordSets, vectors: Mapping[str, FloatArray], what: str) -> list[list[FloatArray]]:
    """Return the vectors of X, Y, A and B.

    Raises:
        UndefinedError: too few words of one of them have a vector, or a context (``what``).
    """
    first = list(sets.items())[: len(_ROLES)]
    for label, _ in first:
        check_enough_known(label, body[label], vectors, what)
    return [[vectors[word] for word in words] for _, words in first]


def _shown(sets: WordSets) -> WordSets:
    """Return the targets and the other sets that have words."""
    _, _, a, b, *_ = sets
    return {label: words for label, words in sets.items() if words and label not in (a, b)}


def _of_targets(associations: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return the associations of X and of Y, the first of those shown."""
    x, y, *_ = associations.values()
    return x, y


def _associations(body: WordSets, sets: WordSets, vectors: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return s(w) of the words of each shown set, by its label."""
    *_, a, b = _by_role(body, sets, vectors, "vector")
    shown = _shown(sets).items()
    return {label: association.association([vectors[word] for word in words], a, b) for label, words in shown}


def _mean_associations(sets: WordSets, vectors: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the mean of s(w) over all contexts, of the words of each shown set."""
    mean = {word: unit_vectors(v).mean(axis=0) for word, v in vectors.items()}
    a, b = (np.mean([mean[word] for word in words], axis=0) for words in list(sets.values())[2:4])
    return {label: np.asarray([mean[word] for word in words]) @ (a - b) for label, words in _shown(sets).items()}


def _by_word(
    sets: WordSets, associations: Mapping[str, FloatArray], contexts: Mapping[str, int] | None = None
) -> tuple[list[Record], Items]:
    """Return records, the words farthest from the mean of the targets first, and items."""
    words, labels = zip(*((word, label) for label, of_set in _shown(sets).items() for word in of_set), strict=True)
    values = np.concatenate(list(associations.values()))
    middle = np.concatenate(_of_targets(associations)).mean()
    _, _, a, b, *_ = sets
    records = rows_of(
        {
            "word": words,
            "set": labels,
            "association": values,
            "above_mean": values - middle,
            "nearer_to": [(a if value > 0 else b) if value else "neither" for value in values],
            **({} if contexts is None else {"contexts": [contexts[word] for word in words]}),
        }
    )
    roles = _roles(sets)
    role = np.asarray([roles[label] for label in labels])
    items = {"word": np.asarray(words), "set": np.asarray(labels), "role": role, "association": values}
    return sorted(records, key=lambda r: (-abs(r["above_mean"]), r["word"])), items


def _means(sets: WordSets, associations: Mapping[str, FloatArray]) -> list[str]:
    """Return a note with the mean association of each set, if there are other sets than the targets."""
    if len(associations) == 2:
        return []
    _, _, a, b, *_ = sets
    means = ", ".join(f"{label} {s.mean():+.3f} ({len(s)} words)" for label, s in associations.items())
    return [f"mean association, {a} minus {b}: {means}"]
