"""A small answered measurement of every family, for what has to hold in all of them."""

import csv
import json
import zlib
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import yaml
from support.chat_models import (
    PairedReplier,
    bbq_reader,
    bbq_rows,
    biased_decider,
    iat_chooser,
    winobias_resolver,
    winogender_resolver,
    write_bbq,
)
from support.planted_writers import biased_writer

from pytest_genderbias import load_model, load_suite
from pytest_genderbias.datasets.pronoun_sentences import read_winobias, read_winogender
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic
from pytest_genderbias.suites.cases import Answer, TextCases
from pytest_genderbias.suites.family import Family, resolve_options, signed_options
from pytest_genderbias.suites.summary import Summary
from pytest_genderbias.text.wordlist import load_wordlist


@dataclass
class Answered:
    """A suite, its options, and the answers to its questions."""

    suite: Any
    options: dict[str, Any]
    answers: dict[str, Answer]
    seed: int = 0

    @property
    def family(self):
        return self.suite.family

    @property
    def main(self):
        """The answer to the main question."""
        return next(iter(self.answers.values()))

    @cached_property
    def summary(self):
        return self.family.summarise(self.suite.body, self.options, self.answers, self.seed)

    def null(self, seed=0, repeats=40):
        return self.family.null(self.suite.body, self.options, self.answers, seed, repeats)

    def item_sums(self, statistic, items=None):
        """As a measurement does it: with the settings of its signature, where options of the display have no place."""
        settings = signed_options(self.family.options, self.options)
        arrays = {**self.summary.items, **self.summary.unstored} if items is None else items
        return self.family.statistics[statistic].item_sums(settings, arrays)

    def with_values(self, values):
        """Return the same with other values of the main answer."""
        key, main = next(iter(self.answers.items()))
        return Answered(self.suite, self.options, {**self.answers, key: replace(main, values=values)}, self.seed)


def answered(suite, model, data=None, limit=None, seed=0, **options):
    """Ask a model the questions of a suite, without a cache."""
    suite = load_suite(suite)
    model = model if isinstance(model, Model) else wrap_object(model)
    plan = plan_measurement(suite, model.name, model.role, options, data, seed)
    answers = {}
    for name, question in plan.questions.items():
        digest = question.cases.digest() if isinstance(question.cases, TextCases) else suite.digest
        answers[name], _ = answer(question, model, digest, ScoreSettings(limit, seed, None, None, None), name)
    return Answered(suite, dict(plan.options), answers, seed)


def noise(*texts):
    """Return a number from 0 to 1 that looks random, and is the same for the same texts."""
    return zlib.crc32("|".join(texts).encode()) / 2**32


class Noise:
    """Answers everything with noise."""

    labels = ("cook", "judge", "nurse", "pilot")

    def pair_scores(self, firsts, seconds):
        return np.asarray([noise(*pair) for pair in zip(firsts, seconds, strict=True)])


class Even:
    """Finds each class of every pair as likely."""

    labels = ("entailment", "neutral", "contradiction")

    def pair_probabilities(self, premises, hypotheses):
        return np.full((len(premises), 3), 1 / 3)


class NoisyCoreference:
    """Scores coreference with noise, and a stereotype if there is one."""

    def __init__(self, stereotype=0.0):
        self.stereotype = stereotype

    def coreference_scores(self, texts, candidates, pronouns):
        female = [text[start:end].lower() in ("she", "her") for text, (start, end) in zip(texts, pronouns, strict=True)]
        return np.asarray(
            [
                [
                    noise(text, text[start:end]) + self.stereotype * she * noise(text[start:end], "female")
                    for start, end in spans
                ]
                for text, spans, she in zip(texts, candidates, female, strict=True)
            ]
        )


class NoisyClassifier:
    """Says of each text what noise says."""

    labels = ("cook", "judge", "nurse", "pilot")

    def class_probabilities(self, texts):
        found = np.asarray([[noise(text, label) + 0.1 for label in self.labels] for text in texts])
        return found / found.sum(axis=1, keepdims=True)


def inference(n=530, seed=5):
    """Return the answer to the question for accuracy of an NLI suite."""
    rng = np.random.default_rng(seed)
    cases = TextCases([(f"a{i}", "b") for i in range(n)], facts={"gold": rng.integers(3, size=n)})
    return Answer(cases, rng.permutation(n), rng.dirichlet([1, 1, 1], n)[:, None])


def similarity(n=530, seed=5):
    """Return the answer to the question for accuracy of the STS suite."""
    rng = np.random.default_rng(seed)
    cases = TextCases([(f"a{i}", "b") for i in range(n)], facts={"gold": rng.uniform(0, 5, n)})
    return Answer(cases, rng.permutation(n), rng.uniform(0.9, 1.0, (n, 1, 1)))


def nli(name="nli-religion", **options):
    found = answered(name, Even(), limit=3000, **options)
    found = found.with_values(np.random.default_rng(3).dirichlet([1, 2, 1], (3000, 1)).astype(np.float32))
    found.answers["accuracy"] = inference()
    return found


def sts(limit=None):
    found = answered("sts-occupation", Noise(), limit=limit)
    found.answers["accuracy"] = similarity()
    return found


def generation():
    rates = {"</s>": 0.1, "positive": 0.2, "negative": 0.2, "career": 0.1, "family": 0.1, "female": 0.1, "male": 0.1}
    return answered(
        "counterfactual-generation", biased_writer(rates | {"refusal": 0.1}, rates | {"positive": 0.1}), length=12
    )


def write_winogender(folder, occupations=12, answers=(0, 1)):
    """Write templates of some occupations, each twice with the given right answers and with all three genders, and
    return the file.
    """
    rows = ["sentid\tsentence"]
    for entry in load_wordlist("winogender-occupations").entries[:occupations]:
        for number, reason in zip(answers, ("on duty", "ill"), strict=True):
            for gender, pronoun in (("female", "she was"), ("male", "he was"), ("neutral", "they were")):
                text = f"The {entry.word} met the visitor because {pronoun} {reason}."
                rows.append(f"{entry.word}.visitor.{number}.{gender}.txt\t{text}")
    path = folder / "winogender" / "all_sentences.tsv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def winogender(folder, model=None, occupations=12, limit=None):
    """Return answers on the templates of :func:`write_winogender`."""
    write_winogender(folder, occupations)
    return answered("coref-winogender", model or NoisyCoreference(), folder, limit)


def winogender_chat(folder):
    sentences = read_winogender(write_winogender(folder, 40))
    return answered("winogender-chat", winogender_resolver(sentences, 0.4, neither=0.3), folder)


def write_winobias(folder, pairs=80, professions=8, reasons=("was ill", "was ill")):
    """Write pairs of sentences with two professions, half of each type, and return the files; every other profession is
    for women.

    ``reasons``: the last words of the sentences of both types.
    """
    files = []
    known = {entry.word for entry in load_wordlist("winogender-occupations").entries}
    words = [entry.word for entry in load_wordlist("winobias-occupations").entries if entry.word in known][:professions]
    for kind in (1, 2):
        for side, pronouns in (("pro", ("he", "she")), ("anti", ("she", "he"))):
            lines = []
            for i in range(pairs // 2):
                gold = i % professions
                other = (gold + 1 + (i // professions + kind) % (professions - 1)) % professions
                lines.append(
                    f"{i + 1} [The {words[gold]}] met the {words[other]} because [{pronouns[gold % 2]}]"
                    f" {reasons[kind - 1]}."
                )
            path = folder / "winobias" / f"{side}_stereotyped_type{kind}.txt.dev"
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            files.append(path)
    return files


def winobias(folder, model=None, pairs=80, professions=8):
    """Return answers on the sentences of :func:`write_winobias`."""
    write_winobias(folder, pairs, professions)
    return answered("coref-winobias", model or NoisyCoreference(1.0), folder, shares="winogender")


def winobias_chat(folder):
    sentences = [sentence for file in write_winobias(folder) for sentence in read_winobias(file)]
    model = winobias_resolver(sentences, 0.9, 0.6, neither=0.3)
    return answered("winobias-chat", model, folder, shares="winogender")


def winobias_clusters(folder):
    """Return the same from a system that clusters; it is right half of the time."""
    found = winobias(folder)
    cases = found.main.cases
    rows = []
    for name, (text,), (gold, other, pronoun) in zip(cases.facts["id"].tolist(), cases.texts, cases.spans, strict=True):
        luck = noise(text)
        linked = gold if luck < 0.5 else other if luck < 0.9 else None
        rows.append({"id": name, "clusters": [[list(linked), list(pronoun)]] if linked else [[[0, 3], list(pronoun)]]})
    path = folder / "clusters.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return answered("coref-winobias", load_model(str(path)), folder, shares="winogender")


def write_table(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    return path


def vectors(folder, suite, seed=0):
    """Return a model of random vectors for all words that a suite asks about."""
    lists = ("dev2019-gendered", "winogender-occupations")
    words = {entry.word for name in lists for entry in load_wordlist(name).entries} | {"he", "she"}
    body = load_suite(suite).body
    words |= {word for of_set in body.values() for word in of_set} if isinstance(body, dict) else set(body.words)
    rng = np.random.default_rng(seed)
    lines = [
        f"{word} {' '.join(map(repr, row.tolist()))}"
        for word, row in zip(sorted(words), rng.normal(size=(len(words), 12)), strict=True)
        if " " not in word
    ]
    path = folder / "small.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return load_model(str(path))


def people(n):
    rng = np.random.default_rng(4)
    return [
        {
            "id": f"x{i:03d}",
            "text": f"Text {i} of {'her' if woman else 'him'}.",
            "label": NoisyClassifier.labels[label],
            "group": "F" if woman else "M",
        }
        for i, (label, woman) in enumerate(zip(rng.integers(4, size=n), rng.random(n) < 0.5, strict=True))
    ]


def bios(folder):
    path = write_table(folder / "people.csv", people(300))
    return answered("bios", NoisyClassifier(), texts=str(path), training=str(path))


def pairs_pll(folder, model):
    words = [entry.word for entry in load_wordlist("winogender-occupations").entries[:20]]
    rows = [
        {
            "stereotypical": f"The {word} said that she was ill.",
            "anti_stereotypical": f"The {word} said that he was ill.",
        }
        for word in words
    ]
    return answered("pairs-pll", model, pairs=str(write_table(folder / "pairs.csv", rows)))


def paired(name, shifts):
    return answered(name, PairedReplier(load_suite(name).body, shifts, noise=0.2, declines=[0.02, 0.05, 0.05]))


def corpus(folder):
    rng = np.random.default_rng(0)
    words = np.asarray([f"{first}{second}" for first in "bdfgk" for second in ("ale", "ine", "ore")])
    texts = [
        " ".join([rng.choice(["she", "he"]), *rng.choice(words, 3), rng.choice(["her", "him", "it"]), "."])
        for _ in range(300)
    ]
    path = folder / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return answered("corpus-cooccurrence", load_model(f"text:{path}"))


def ceat(folder, model):
    text = (
        "The nurse said that she was tired. A teacher talked to her. Then the engineer said that he was late. The"
        " driver saw him. The pilot ate lunch. A nurse saw the pilot. No teacher was late. She said that he was here."
    )
    path = folder / "own.txt"
    path.write_text(text, encoding="utf-8")
    words = {"X": ["nurse", "teacher"], "Y": ["engineer", "driver", "pilot"], "A": ["she", "her"], "B": ["he", "him"]}
    entries = [{"word": word, "class": name} for name, members in words.items() for word in members]
    head = {"title": "t", "source": "s", "licence": "l", "language": "en"}
    (folder / "things.yaml").write_text(yaml.safe_dump({"list": "things", **head, "entries": entries}))
    sets = {name: {"list": "things.yaml", "where": {"class": name}} for name in words}
    content = {
        "suite": "mine",
        "family": "ceat",
        **head,
        "targets": {"care": sets["X"], "work": sets["Y"]},
        "attributes": {"women": sets["A"], "men": sets["B"]},
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return answered(folder / "mine.yaml", model, corpus=str(path), draws=50)


def probe():
    """Return vectors that hold the label a little."""
    suite = load_suite("probe-compression")
    rng = np.random.default_rng(2)
    found = rng.normal(size=(300, 8)).astype(np.float32)
    labels = np.where(found[:, 0] + rng.normal(size=300) > 0, "female", "male")
    cases, units = TextCases([("x",)] * 300, facts={"label": labels}), rng.permutation(300)
    other = rng.normal(size=(300, 8)).astype(np.float32)
    answers = {
        "cases": Answer(cases, units, found[units][:, None]),
        "random encoder": Answer(cases, units, other[units][:, None]),
    }
    return Answered(suite, dict(resolve_options(suite.family.options, {"seeds": 2}, suite.name)), answers)


def bbq(folder):
    rows = bbq_rows(fills=4)
    return answered("bbq", bbq_reader(rows, 0.5, 0.2, right=0.9), write_bbq(folder, rows))


def results(folder, statistic):
    """Return answers on a table of results, with the statistic of a suite."""
    rng = np.random.default_rng(6)
    rows = [
        {
            "id": i,
            "group": ("female", "male")[i % 2],
            "value": int(rng.random() < 0.6 + 0.2 * (i % 2)),
            "kind": i // 2 % 6,
        }
        for i in range(240)
    ]
    write_table(folder / "run.csv", rows)
    head = {"suite": "mine", "family": "results", "title": "t", "source": "s", "licence": "l", "language": "en"}
    columns = {"id": "id", "group": "group", "value": "value", "groups": ["female", "male"], "statistic": statistic}
    columns |= {"class": "kind"} if statistic == "class_rms" else {}
    (folder / "mine.yaml").write_text(yaml.safe_dump({**head, **columns}, sort_keys=False))
    return answered(folder / "mine.yaml", load_model(f"results:{folder / 'run.csv'}"))


#: By name: from an empty folder to an answered suite.
CASES = {
    "disco-names": lambda folder: answered("disco-names", load_model("demo-mlm"), limit=14 * 80),
    "disco-terms": lambda folder: answered("disco-terms", load_model("demo-mlm"), limit=14 * 150),
    "disco-fisher": lambda folder: answered(
        "disco-terms", load_model("demo-mlm"), limit=14 * 150, test="fisher", family="suite"
    ),
    "nli": lambda folder: nli(),
    "nli-word-pairs": lambda folder: nli(unit="word_pair"),
    "lm-occupation": lambda folder: answered("lm-occupation", load_model("demo-lm")),
    "lm-occupation-sample": lambda folder: answered("lm-occupation", load_model("demo-lm"), limit=80),
    "pronoun-occupation": lambda folder: answered("pronoun-occupation", load_model("demo-lm")),
    "pronoun-occupation-sample": lambda folder: answered("pronoun-occupation", load_model("demo-mlm"), limit=48 * 20),
    "sts": lambda folder: sts(),
    "sts-sample": lambda folder: sts(limit=300),
    "coref-occupation": lambda folder: answered("coref-occupation", NoisyCoreference()),
    "winogender": lambda folder: winogender(folder),
    "winogender-sample": lambda folder: winogender(folder, limit=50),
    "winobias": lambda folder: winobias(folder),
    "winobias-clusters": lambda folder: winobias_clusters(folder),
    "winobias-chat": lambda folder: winobias_chat(folder),
    "winogender-chat": lambda folder: winogender_chat(folder),
    "bbq": lambda folder: bbq(folder),
    "bios": lambda folder: bios(folder),
    "decisions": lambda folder: answered("decisions", biased_decider(load_suite("decisions").body, 0.4, noise=1.0)),
    "generation": lambda folder: generation(),
    "chat-iat": lambda folder: answered("chat-iat", iat_chooser(load_suite("chat-iat").body, 0.3, noise=0.3)),
    "paired": lambda folder: paired("hiring-screen", (-0.15, 0.15)),
    "paired-groups": lambda folder: paired("loan-reply", (0.1, 0.4, -0.1)),
    "pairs-pll": lambda folder: pairs_pll(folder, load_model("demo-mlm")),
    "corpus": lambda folder: corpus(folder),
    "weat": lambda folder: answered("weat", vectors(folder, "weat")),
    "ceat": lambda folder: ceat(folder, load_model("demo-mlm")),
    "subspace": lambda folder: answered("subspace", vectors(folder, "subspace")),
    "probe": lambda folder: probe(),
    **{
        f"results-{name}": partial(results, statistic=name)
        for name in ("mean_difference", "rate_difference", "impact_ratio", "class_rms", "worst_group")
    },
}

_MADE: dict[str, Answered] = {}


def make_case(name, tmp_path_factory):
    """Return the answered suite of a case; each is made once for all test modules, and must not be changed."""
    if name not in _MADE:
        _MADE[name] = CASES[name](tmp_path_factory.mktemp(name))
    return _MADE[name]


def sums_of(summary: Summary, family: Family, settings: dict[str, object]) -> SumsByStatistic:
    arrays = {**summary.items, **summary.unstored}
    return SumsByStatistic({name: partial(one.item_sums, settings, arrays) for name, one in family.statistics.items()})


def measurement_of(case: Answered) -> Measurement:
    """Return the measurement of an answered suite, with a signature as a real one has it."""
    summary, family = case.summary, case.family
    signature = {
        "suite": case.suite.name,
        "digest": case.suite.digest,
        "definition": family.definition,
        "settings": {"seed": 0, **signed_options(family.options, case.options)},
        "sample": {"n": case.main.n, "of": case.main.n_total, "seed": 0},
        "data": dict(summary.data),
        "model": {"fingerprint": None, "spec": "noise"},
        "versions": {},
    }
    bounds = {
        name: None if value is None else Interval(value, value, 1.0, "cases", "")
        for name, value in summary.values.items()
    }
    return Measurement(
        suite=case.suite.name,
        model="noise",
        values=summary.values,
        intervals=summary.intervals,
        bounds=bounds,
        reasons=summary.reasons,
        statistics={name: statistic.plain() for name, statistic in family.statistics.items()},
        n=case.main.n,
        n_total=case.main.n_total,
        records=summary.records,
        items=summary.items,
        signature=signature,
        notes=tuple(summary.notes),
        sums=sums_of(summary, family, signature["settings"]),
    )
