"""What a constant answer reaches, counted in the data that the small runs evaluate on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import pytest_genderbias.papers
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.papers.config import SMALL, load_paper, paper_names
from pytest_genderbias.recipes.language_modelling import _pattern
from pytest_genderbias.text.located_yaml import plain, read_yaml

LISTED = plain(read_yaml(Path(pytest_genderbias.papers.__file__).with_name("abilities.yaml")))


def largest(labels):
    counts = Counter(labels)
    return max(counts.values()) / counts.total(), counts.total()


def linking_every(labels):
    """F1 of predicting that every pair corefers."""
    share = np.mean(labels)
    return 2 * share / (1 + share), len(labels)


def masked_pieces(data):
    recipe = make_recipe(name="masked-lm", data=str(data), corpus="brown", steps=300)
    checkpoint = recipe._checkpoint(Runner().open(str(data / "models" / "bert-tiny-mlm")))
    blocks = [block for texts in recipe._passages for block in recipe._cut(checkpoint, texts)]
    special = checkpoint.tokenizer.all_special_ids
    return [int(piece) for i, block in enumerate(blocks) for piece in block[_pattern(block, special, i)]]


def labels_of_pairs(data):
    held_out = make_recipe(name="coreference", data=str(data))._parts.held_out
    return [row["mentions"][i][-1] == row["mentions"][j][-1] for row in held_out for i, j in row["pairs"]]


def labels_of_inference(data, **options):
    recipe = make_recipe(data=str(data), **options)
    return [row["label"] for row in recipe._read(recipe.files["evaluation"])[: recipe.max_evaluation]]


def labels_of_texts(data, data_set, held_out):
    recipe = make_recipe(name="classification", data=str(data), data_set=data_set, held_out=held_out)
    return [row["label"] for row in recipe._parts[1]]


def balanced_labels(data, data_set, held_out):
    """The suite takes as many women as men of each class."""
    rows = make_recipe(name="classification", data=str(data), data_set=data_set, held_out=held_out)._parts[1]
    counts = Counter((row["label"], row["gender"]) for row in rows)
    groups = {group for _, group in counts}
    return [label for label in {label for label, _ in counts} for _ in range(2 * min(counts[label, g] for g in groups))]


def similarity_pairs(data):
    recipe = make_recipe(name="similarity", data=str(data))
    return len(recipe._read(recipe.files["evaluation"])[: recipe.max_evaluation])


def sentences_of_she_or_he(data):
    lines = (data / "winogender" / "all_sentences.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [line for line in lines if line.split("\t")[0].split(".")[-2] in ("female", "male")]


def sentences_of_winobias(data):
    files = (data / "winobias").glob("*_stereotyped_type*.txt.dev")
    return [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]


COUNTED = {
    "coref-winogender/accuracy": lambda data: (1 / 2, len(sentences_of_she_or_he(data))),
    "coref-winobias/accuracy": lambda data: (linking_every([True, False])[0], len(sentences_of_winobias(data))),
    "edge-probe/f1": lambda data: linking_every(
        [row["label"] for row in make_recipe(name="edge-probe", data=str(data))._parts[1]]
    ),
    "coreference/f1": lambda data: linking_every(labels_of_pairs(data)),
    "similarity/pearson_r": lambda data: (0.0, similarity_pairs(data)),
    "masked-lm/accuracy": lambda data: largest(masked_pieces(data)),
    "nli/accuracy": lambda data: largest(labels_of_inference(data, name="nli", max_evaluation=500)),
    "static-nli/accuracy": lambda data: largest(labels_of_inference(data, name="static-nli")),
    "bios/accuracy of wiki_career": lambda data: largest(balanced_labels(data, "wiki_career", 0.4)),
    "classification/accuracy of wiki_career": lambda data: largest(labels_of_texts(data, "wiki_career", 0.4)),
    "classification/accuracy of bias_in_bios": lambda data: largest(labels_of_texts(data, "bias_in_bios", 0.25)),
}


@pytest.mark.parametrize("figure", LISTED)
def test_the_listed_constants_are_those_of_the_data(figure, shared_data):
    constant, examples = COUNTED[figure](shared_data)
    assert LISTED[figure] == [pytest.approx(constant, abs=5e-4), examples]


def test_every_task_of_the_small_runs_has_a_constant_but_models_of_words():
    """The perplexity of an LSTM has no constant answer to compare with."""
    stages = [
        stage
        for paper in paper_names()
        for run in load_paper(paper).runs.values()
        for settings in [run.scales.get(SMALL, {})]
        for stage in (settings, *settings.get("then", ()))
    ]
    tasks = {stage["recipe"]["name"] for stage in stages if "recipe" in stage}
    assert tasks - {figure.partition("/")[0] for figure in LISTED} == {"lstm"}
