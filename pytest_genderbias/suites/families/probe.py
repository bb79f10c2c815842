"""The family ``probe``: compression of a label such as gender by the vectors of a network (orgad2022, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.mentions import without_determiner, words_of
from pytest_genderbias.datasets.pronoun_sentences import read_winobias
from pytest_genderbias.errors import SettingError, UndefinedError
from pytest_genderbias.statistics.inference.intervals import restart_interval
from pytest_genderbias.statistics.inference.item_sums import ItemSums, mean_sums
from pytest_genderbias.statistics.linear_probe import OnlineCode, codes_of_labellings, online_code, shuffled
from pytest_genderbias.suites.cases import Answers, Items, Question, TextCases, take_arrays
from pytest_genderbias.suites.families.shared.persons import BIOGRAPHIES, COLUMNS, read_texts
from pytest_genderbias.suites.family import Context, Family, Option, flag, one_of, table, whole
from pytest_genderbias.suites.query import WITH_HIDDEN_STATES, TextVectors
from pytest_genderbias.suites.statistic import SHARE, SIZE, Arrays, FamilyStatistic, NullFigures, Options, Scale
from pytest_genderbias.suites.summary import Record, Summary
from pytest_genderbias.text.schema import LocatedMap, Rule, at_least, take
from pytest_genderbias.text.wordlist import load_wordlist

_SETS = (*BIOGRAPHIES, "winobias")
_MOST_WORK = 40_000_000_000  #: The largest input of all probes of a null control: about two minutes of one core.
_FEWEST_SHUFFLES = 40  #: The smallest number of shuffles, of which 2.5 % are one.
_SHUFFLES, _FEW = "shuffles", "fewer than three shuffles, or all are equal"


#: The default data set, and the word list with the stereotypes of professions.
ProbeBody: TypeAlias = tuple[str, str]


_COMPRESSION = Scale("higher", 1.0, SIZE.limits)


def _over_shuffles(name: str, scale: Scale, meaning: str) -> FamilyStatistic:
    """Return a statistic that is a mean over shuffles of the examples."""
    return FamilyStatistic(scale, meaning, partial(_shuffle_sums, name=name), draws=_SHUFFLES)


def _shuffle_sums(options: Options, arrays: Arrays, name: str) -> ItemSums:
    """Return the value of each shuffle of the examples; with equal data and seed, the shuffles are equal."""
    (values,) = take_arrays(arrays, name)
    labels = np.asarray([f"shuffle {i}" for i in range(len(values))])
    return mean_sums(labels, values, np.ones(len(values)), _SHUFFLES)


class Probe(Family[ProbeBody]):
    """Online code of a label, given frozen vectors, with shuffled labels and an untrained network as controls."""

    name: ClassVar[str] = "probe"
    definition: ClassVar[str] = "probe/2"
    picture: ClassVar[str] = "compression"
    seeds_are_restarts: ClassVar[bool] = True
    null_control: ClassVar[str] = (
        "labels are shuffled over examples (over professions, where these have them), and the probes trained anew"
    )
    needs: ClassVar[str] = "a checkpoint with hidden states"
    roles: ClassVar[tuple[str, ...]] = WITH_HIDDEN_STATES
    keys: ClassVar[tuple[str, ...]] = ("data", "professions")
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "compression": _over_shuffles(
            "compression", _COMPRESSION, "n log2 K / code length in bits, mean over shuffles"
        ),
        "compression_shuffled": _over_shuffles(
            "compression_shuffled", Scale("away", 1.0, SIZE.limits), "the same with shuffled labels: a control"
        ),
        "compression_random_encoder": _over_shuffles(
            "compression_random_encoder", _COMPRESSION, "the same with the network as it is before training: a control"
        ),
        "accuracy": _over_shuffles(
            "accuracy",
            Scale("higher", 0.5, SHARE.limits),
            "of the last probe on the last block: higher = gender is read better, which is worse; 0.5 is chance for two"
            " labels of equal share, and the note gives what the shares give",
        ),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "texts": table(
            None,
            *_SETS,
            meaning="labelled texts, a path being relative to the working directory; by default those of the suite",
        ),
        **COLUMNS,
        "label": one_of("group", "label", meaning="the probed label: the group (gender), or the label (profession)"),
        "layer": Option(
            "last",
            Annotated[Literal["last"] | Annotated[int, at_least(0)], Rule("last, or the number of a hidden layer")],
            "the probed hidden layer; 0 is the output of the embeddings",
        ),
        "pooling": one_of(
            "auto",
            "first",
            "mean",
            "own",
            meaning=(
                "first token ([CLS]), mean over tokens, or own; auto: the mean for causal LMs and WinoBias, otherwise"
                " the first"
            ),
        ),
        "seeds": whole(5, "shuffles of the examples, each with its own probes"),
        "mixed_units": flag("add nats to bits, as the reference code does: only for comparison with published values"),
    }

    def read(self, data: LocatedMap) -> ProbeBody:
        """Read the default data set."""
        name = take(data, "data", str, "the suite")
        if name not in _SETS:
            raise data.error_at("data", f"expected one of {', '.join(_SETS)}, got {name!r}")
        return name, take(data, "professions", str, "the suite", default="winobias-occupations")

    def content(self, body: ProbeBody) -> object:
        """Return the data set and the professions."""
        return list(body)

    def questions(self, body: ProbeBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the vector of each text, or of each profession in its sentence, of the network and of an untrained
        one.
        """
        data, professions = body
        name = options["texts"] or data
        if name == "winobias":
            self._refuse_options_of_tables(options)
            cases = _sentences(context, professions)
        else:
            cases = _texts(name, options, context)
        pooling = options["pooling"]
        if pooling == "auto":
            pooling = "mean" if cases.spans or context.role == "causal-lm" else "first"
        cases = replace(cases, facts={**cases.facts, "pooling": np.full(cases.n_cases, pooling)})
        query = TextVectors(options["layer"], pooling, mask_others=bool(cases.spans))
        return {"cases": Question(cases, query), "random encoder": Question(cases, replace(query, random_seed=0))}

    def _refuse_options_of_tables(self, options: Options) -> None:
        values: Mapping[str, object] = options
        for name in ("label", *COLUMNS):
            if values[name] != self.options[name].default:
                raise SettingError(
                    f"option {name!r} does not apply to WinoBias, whose label is the stereotype of the profession;"
                    f" remove it, got {values[name]!r}"
                )

    def summarise(self, body: ProbeBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Code the labels; intervals over shuffles."""
        answer = answers["cases"]
        facts = answer.facts()
        labels, groups = facts["label"], facts.get("order")
        code_of = partial(
            online_code, groups=groups, seeds=options["seeds"], seed=seed, mixed_units=options["mixed_units"]
        )
        vectors, untrained = answer.values[:, 0], answers["random encoder"].values[:, 0]
        codes: Mapping[str, Callable[[], OnlineCode]] = {
            "compression": lambda: code_of(vectors, labels),
            "compression_shuffled": lambda: code_of(vectors, _control(labels, groups, seed)),
            "compression_random_encoder": lambda: code_of(untrained, labels),
        }
        figures, records = Summary(self.statistics), []
        items: Items = {}
        for key, compute in codes.items():
            own = ("accuracy",) if key == "compression" else ()
            try:
                code = compute()
            except UndefinedError as error:
                figures.miss(str(error), key, *own)
                continue
            records.append(_record(key, code))
            for name in (key, *own):
                values = code.accuracy if name == "accuracy" else code.compressions
                items[name] = values
                figures.take(name, values.mean, partial(restart_interval, values, _SHUFFLES), _FEW)
        names, counts = np.unique(labels, return_counts=True)
        records += [{"slice": "label", "value": str(n), "examples": int(c)} for n, c in zip(names, counts, strict=True)]
        share = counts / counts.sum()
        prior = np.log2(len(names)) / -(share * np.log2(share)).sum() if len(names) > 1 else 1.0
        notes = [
            f"the shares of the labels alone give compression {prior:.3f} and accuracy {share.max():.3f} (always"
            f" {str(names[share.argmax()])!r})"
        ]
        return replace(figures, records=records, items=items, notes=notes)

    def null(self, body: ProbeBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return compression and accuracy with the labels shuffled, each the mean over as many shuffles of examples as
        measured.
        """
        answer = answers["cases"]
        facts = answer.facts()
        labels, groups, vectors = facts["label"], facts.get("order"), answer.values[:, 0]
        within = _MOST_WORK // (vectors.size * len(set(labels.tolist())) * options["seeds"])
        if within < min(repeats, _FEWEST_SHUFFLES):
            raise UndefinedError(
                "training the probes would take many minutes; compression_shuffled is one such shuffle"
            )
        repeats = min(repeats, within)
        streams = np.random.SeedSequence(seed).generate_state(repeats).tolist()
        shuffles = np.stack([_control(labels, groups, stream) for stream in streams])
        try:
            codes = codes_of_labellings(
                vectors, shuffles, groups=groups, seeds=options["seeds"], seed=seed, mixed_units=options["mixed_units"]
            )
            means = [values.mean(axis=1) for values in codes]
        except UndefinedError:
            means = [np.full(repeats, np.nan)] * 2
        return dict(zip(("compression", "accuracy"), means, strict=True))


def _record(key: str, code: OnlineCode) -> Record:
    return {
        "slice": "code",
        "value": key,
        "compression": float(code.compressions.mean()),
        "standard_deviation": float(code.compressions.std(ddof=1)) if len(code.compressions) > 1 else 0.0,
        "by_shuffle": [float(c) for c in code.compressions],
        "bits": float(code.code_lengths.mean()),
        "uniform_bits": float(code.n * np.log2(code.n_labels)),
        "accuracy": float(code.accuracy.mean()),
        "accuracy_on": "last block",
    }


def _control(labels: NDArray[np.generic], groups: NDArray[np.generic] | None, seed: int) -> NDArray[np.generic]:
    """Shuffle the labels of the examples, or of the groups if all examples of a group have one label."""
    if groups is None:
        return shuffled(labels, seed)
    _, first, number = np.unique(groups, return_index=True, return_inverse=True)
    return np.asarray(shuffled(labels[first], seed)[number.ravel()])


def _texts(name: str, options: Options, context: Context) -> TextCases:
    rows, _ = read_texts(name, options, context.data, any_group=True)
    labels = rows.groups if options["label"] == "group" else rows.labels
    return TextCases([(text,) for text in rows.texts], facts={"label": np.asarray(labels)})


def _sentences(context: Context, professions: str) -> TextCases:
    """Return both professions of each sentence. Only the pro-stereotypical version is used: the pronouns, which differ,
    are masked.
    """
    group = {entry.word: str(entry.attributes["group"]) for entry in load_wordlist(professions).entries}
    texts, spans, names = [], [], []
    for path in context.data.find_all("winobias"):
        for sentence in read_winobias(path):
            if sentence.stereotype != "pro":
                continue
            for mention, name in zip((sentence.gold, sentence.other), sentence.professions, strict=True):
                texts.append((sentence.text,))
                spans.append((without_determiner(sentence.text, mention), *sentence.pronouns))
                names.append(name)
    assert all(words_of(t, s[0]) for (t,), s in zip(texts, spans, strict=True))
    facts = {"label": np.asarray([group[name] for name in names]), "order": np.asarray(names)}
    return TextCases(texts, spans, facts)
