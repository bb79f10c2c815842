"""The rows of the table of mitigations: models, methods, recipes and suites, in sizes for two cores or in the papers' sizes."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mitigations import Gate, Row

from pytest_genderbias.folders import write_whole

#: Careers and genders that are removed from the training part, to create an imbalance.
_WOMEN_OF, _MEN_OF = ("chefs", "comedians", "musicians", "podcasters"), ("artists", "dancers", "models", "writers")
_SHARE = 0.9
TAKEN_OUT = tuple((job, "female", _SHARE) for job in _WOMEN_OF) + tuple((job, "male", _SHARE) for job in _MEN_OF)
LAMBDAS = (0.001, 0.01, 0.1, 0.5, 0.8, 1.0)
#: The subspace of all pairs, since the sentences of ``sts-occupation`` contain "man" and "woman" and not "he" and "she".
GENDER_PROJECTION: Mapping[str, Any] = {"name": "projection", "pairs": "lu2018-pairs"}
SIMILARITY: Mapping[str, Any] = {"name": "similarity", "epochs": 6.0}
CAREERS: Mapping[str, Any] = {
    "name": "classification", "data_set": "wiki_career", "held_out": 0.4, "taken_out": TAKEN_OUT, "epochs": 20.0, "batch_size": 16,
}  # fmt: skip


def make_rows(data: Path | None, runs: Path | None, glove: str | None, scale: str) -> list[Row]:
    """Return all rows; those of the static NLI model need word vectors."""
    paper = scale == "paper"
    folder = str(data) if data is not None else None
    rows = [
        *_language_model(folder, bold_sentences(data, runs), paper),
        *_inference(folder, paper),
        *_similarity(folder, paper),
        *(_static_inference(folder, glove, paper) if glove else ()),
        *(_word_vectors(glove) if glove else ()),
        *_pretraining(folder, paper),
        *_careers(folder, paper),
    ]
    return [replace(row, name=f"paper-{row.name}") for row in rows] if paper else rows


def _masked_model(data: str | None, large: str | None) -> tuple[str, str]:
    """Return the name and the spec of a masked LM: the small one in the data folder, or a large one."""
    return (large, large) if large else ("BERT-tiny", f"{data}/models/bert-tiny-mlm")


def bold_sentences(data: Path | None, runs: Path | None) -> str:
    """Write BOLD's Wikipedia sentences on actors, actresses and professions to a text file in random order, and return its path."""
    if data is None or runs is None:
        return "bold.txt"
    path = runs / "bold.txt"
    if not path.exists():
        lines = []
        for part in ("gender", "profession"):
            with gzip.open(data / "bold" / f"{part}_wiki.json.gz", "rt") as file:
                groups = json.load(file).values()
            lines += [line.strip() for group in groups for sentences in group.values() for line in sentences]
        random.Random(0).shuffle(lines)
        write_whole(path, ("\n".join(lines) + "\n").encode())
    return str(path)


def _language_model(data: str | None, sentences: str, paper: bool) -> list[Row]:
    """CDA, WED and the regulariser on a word-level LSTM (lu2018, table 4; bordia2019, tables 1 to 3)."""
    recipe: dict[str, Any] = {"name": "lstm", "corpus": sentences, "data": data}
    if paper:
        recipe |= {"corpus": "wikitext2/train", "hidden_size": 1500, "embedding_size": 1500, "vocabulary_size": None, "sampled_words": 0, "epochs": 40.0, "dropout": 0.65}  # fmt: skip
    on = "WikiText-2" if paper else "BOLD"
    aob, budget = Gate("lm-occupation"), {"perplexity": 0.05}
    text = Gate("corpus-cooccurrence", "mu", {"training": recipe["corpus"], "seeds": 2000 if paper else 200})
    wed = {"name": "wed", "pairs": "bordia2019-penn-treebank"}
    rows = [
        Row("lstm-cda-naive", f"CDA, naive, LSTM on {on}", None, [{"name": "cda"}], recipe, [aob], 0.3, budget, 10),
        Row("lstm-cda-grammatical", f"CDA, grammatical, LSTM on {on}", None, [{"name": "cda", "intervention": "grammatical"}], recipe, [aob], 0.3, budget, 10),
        Row("lstm-wed-after", f"WED after training, lengths kept, LSTM on {on}", None, [wed], recipe, [aob], 0.3, budget, 10),
        Row("lstm-wed-unit", f"WED after training, unit vectors, LSTM on {on}", None, [{**wed, "lengths": "unit"}], recipe, [aob], 0.3, budget, 10),
        Row("lstm-projection", f"he-she projection after training, LSTM on {on}", None, [{"name": "projection"}], recipe, [aob], 0.3, budget, 10),
    ]  # fmt: skip
    deep = {**recipe, "layers": 3, "cased": True, "shuffled": False, "epochs": 6.0}
    if paper:
        deep |= {"embedding_size": 400, "hidden_size": 1150, "tied": True, "epochs": 750.0}
    rows += [
        Row(
            f"lstm3-regularisation-{strength:g}", f"regularisation, lambda {strength:g}, three layers, LSTM on {on}", None,
            [{"name": "regularisation", "strength": strength}], deep, [text, aob], 0.1, budget, 3,
        )
        for strength in LAMBDAS
    ]  # fmt: skip
    rows += [
        Row(
            f"lstm3-regularisation-{matrices}", f"regularisation of {called}, lambda .1, three layers, LSTM on {on}", None,
            [{"name": "regularisation", "strength": 0.1, "matrices": matrices}], deep, [text, aob], 0.1, budget, 3,
        )
        for matrices, called in (("output", "the output embeddings"), ("both", "both embeddings"))
    ]  # fmt: skip
    return rows


def _inference(data: str | None, paper: bool) -> list[Row]:
    """Projection and WED on a transformer fine-tuned on SNLI (dev2019, table 15, for the projection)."""
    recipe: dict[str, Any] = {
        "name": "nli",
        "data": data,
        "max_rows": 10_000,
        "epochs": 2.0,
        "learning_rate": 3e-4,
        "max_evaluation": 3000,
    }
    called, model = _masked_model(data, "bert-base" if paper else None)
    cases = None if paper else 10_000
    if paper:
        recipe |= {"max_rows": None, "epochs": 3.0, "learning_rate": 3e-5}
    gate, budget = Gate("nli-occupation", None, {"limit": cases} if cases else {}), {"accuracy": 0.02}
    he_she = {"name": "projection"}
    return [
        Row("nli-projection-test", f"he-she projection at test, {called} on SNLI", model, [he_she], recipe, [gate], 0.1, budget, 3),
        Row("nli-projection-training", f"he-she projection at training and test, {called} on SNLI", model, [{**he_she, "when": "training"}], recipe, [gate], 0.1, budget, 3, 1),
        Row("nli-wed", f"WED after training, {called} on SNLI", model, [{"name": "wed"}], recipe, [gate], 0.1, budget, 3),
    ]  # fmt: skip


def _similarity(data: str | None, paper: bool) -> list[Row]:
    """Projection on a transformer fine-tuned on STS-B (webster2020, section 6, for the task)."""
    recipe: dict[str, Any] = {**SIMILARITY, "data": data}
    called, model = _masked_model(data, "bert-large" if paper else None)
    gates, budget = [Gate("sts-occupation", "mean_absolute_difference")], {"pearson_r": 0.05}
    at_training = {**GENDER_PROJECTION, "when": "training"}
    return [
        Row("sts-projection-test", f"gender projection at test, {called} on STS-B", model, [GENDER_PROJECTION], recipe, gates, 0.3, budget, 3),
        Row("sts-projection-training", f"gender projection at training and test, {called} on STS-B", model, [at_training], recipe, gates, 0.3, budget, 3, 1),
    ]  # fmt: skip


def _static_inference(data: str | None, glove: str, paper: bool) -> list[Row]:
    """Projection of three subspaces of static vectors with decomposable attention (dev2019, tables 8 to 10)."""
    recipe: dict[str, Any] = {
        "name": "static-nli",
        "data": data,
        "hidden_size": 100,
        "batch_size": 64,
        "epochs": 5.0,
        "max_rows": 10_000,
    }
    if paper:
        recipe |= {"hidden_size": 200, "epochs": 100.0, "max_rows": None}
    limit = {} if paper else {"limit": 5_000}
    subspaces: Mapping[str, tuple[dict[str, Any], str]] = {
        "gender": ({}, "nli-occupation"),
        "demonym": ({"words": "dev2019-demonyms", "components": 1}, "nli-demonym"),
        "religion": ({"words": "dev2019-adherents", "components": 2}, "nli-religion"),
    }
    where = "static vectors, decomposable attention"
    return [
        Row(
            f"static-{name}-{when}", f"{name} projection at {'test' if when == 'test' else 'training and test'}, {where}", glove,
            [{"name": "projection", "when": when, **settings}], recipe, [Gate(suite, None, limit)], 0.1, {"accuracy": 0.02}, 3,
            4 if when == "test" else 1,
        )
        for name, (settings, suite) in subspaces.items()
        for when in ("test", "training")
    ]  # fmt: skip


def _word_vectors(glove: str) -> list[Row]:
    """Methods on finished word vectors, by the effect size of names with careers and families: nothing is trained."""
    methods: Mapping[str, tuple[str, dict[str, Any]]] = {
        "projection": ("he-she projection", {"name": "projection"}),
        "wed": ("WED", {"name": "wed"}),
        "wed-he-she": ("WED by he - she alone", {"name": "wed", "pairs": [["he", "she"]]}),
        "inlp": ("INLP", {"name": "inlp"}),
    }
    return [
        Row(f"weat-{name}", f"{title}, GloVe 6B 50d", glove, [method], None, [Gate("weat")])
        for name, (title, method) in methods.items()
    ]


def _pretraining(data: str | None, paper: bool) -> list[Row]:
    """CDA and raised dropout by further pre-training of a masked LM (webster2020, tables 4 and 5)."""
    recipe: dict[str, Any] = {
        "name": "masked-lm",
        "data": data,
        "corpus": "brown",
        "steps": 300,
        "batch_size": 16,
        "learning_rate": 5e-4,
    }
    called, model = _masked_model(data, "bert-large" if paper else None)
    on = "WikiText-2" if paper else "Brown"
    if paper:
        recipe |= {"corpus": "wikitext2/train", "steps": 1_000_000, "max_length": 512, "batch_size": 256}
    gates, budget = [Gate("lm-occupation"), Gate("disco-terms")], {"perplexity": 0.05}
    rows = [
        Row("mlm-cda-two", f"CDA, two-sided, {called} on {on}", model, [{"name": "cda"}], recipe, gates, 0.3, budget, 3),
        Row("mlm-cda-one", f"CDA, one-sided, {called} on {on}", model, [{"name": "cda", "sides": "one"}], recipe, gates, 0.3, budget, 3),
        Row("mlm-dropout", f"dropout a .15, h .20, {called} on {on}", model, [{"name": "dropout"}], recipe, gates, 0.3, budget, 3),
        Row("mlm-projection", f"he-she projection at test, {called}", model, [{"name": "projection"}], recipe, gates, 0.3, budget),
    ]  # fmt: skip
    called, model = ("gpt2", "gpt2") if paper else ("stories260k", f"{data}/models/stories260k")
    causal = {**recipe, "name": "causal-lm"}
    title = f"CDA, two-sided, {called} on {on}"
    return [*rows, Row("clm-cda", title, model, [{"name": "cda"}], causal, gates[:1], 0.3, budget, 3)]


def _careers(data: str | None, paper: bool) -> list[Row]:
    """Balancing, scrubbing and augmentation on biographies with a constructed imbalance (orgad2022, tables 3 and 4)."""
    called, model = _masked_model(data, "roberta-base" if paper else None)
    recipe: dict[str, Any] = {**CAREERS, "data": data}
    gates = [Gate("bios", "tpr_gap_sum", superficial=True)]
    budget = {"accuracy": 0.05}
    methods: Mapping[str, tuple[str, list[dict[str, Any]]]] = {
        "subsampling": ("balancing by subsampling", [{"name": "balancing", "how": "subsample"}]),
        "oversampling": ("balancing by oversampling", [{"name": "balancing", "how": "oversample"}]),
        "scrubbing": ("scrubbing", [{"name": "scrubbing"}]),
        "iterative-scrubbing": (
            "scrubbing and ten rounds more",
            [{"name": "iterative-scrubbing", "until_majority": False}],
        ),
        "iterative-scrubbing-alone": (
            "iterative scrubbing alone",
            [{"name": "iterative-scrubbing", "scrub_first": False}],
        ),
        "augmentation": ("counterfactual augmentation", [{"name": "cda"}]),
        "anonymising": ("anonymising and augmentation", [{"name": "anonymising"}, {"name": "cda"}]),
    }
    return [
        Row(f"bios-{name}", f"{title}, {called} on careers", model, method, recipe, gates, 0.3, budget, 3)
        for name, (title, method) in methods.items()
    ]
