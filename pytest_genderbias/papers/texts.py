"""Files that runs read and that are made of other data. They lie beside the trainings, and are written anew where their
data changed.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_genderbias.datasets.biographies import read_biographies
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.datasets.inference import read_inference
from pytest_genderbias.errors import SettingError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.methods.balancing import SUBSAMPLE, balance
from pytest_genderbias.models.saving import input_embeddings
from pytest_genderbias.recipes.recipe import Row

_UNSEEN = 2_000  #: pairs of SNLI's dev part that the tuned MiniLM has not seen


def bold_sentences(data: Path, folder: Path) -> Path:
    """Write BOLD's Wikipedia sentences on actors, actresses and professions to ``folder/bold.txt`` in random order, and
    return its path.

    Raises:
        SettingError: the folder of data sets has no ``bold/gender_wiki.json.gz`` or ``bold/profession_wiki.json.gz``.
    """
    lines: list[str] = []
    for part in ("gender", "profession"):
        source = data / "bold" / f"{part}_wiki.json.gz"
        if not source.is_file():
            raise SettingError(f"there is no {source}; the run trains on BOLD's sentences of Wikipedia")
        with gzip.open(source, "rt", encoding="utf-8") as file:
            groups = json.load(file).values()
        lines += [line.strip() for group in groups for sentences in group.values() for line in sentences]
    random.Random(0).shuffle(lines)  # noqa: S311
    return _written(folder / "bold.txt", lines)


def balanced_biographies(data: Path, folder: Path) -> Path:
    """Write as many biographies of women as of men in each profession of the Bias in Bios sample to
    ``folder/balanced-biographies.jsonl``, and return its path.

    Among them the profession does not tell the gender. Those that are left out are drawn with seed 0; a profession of
    one gender is left out whole.

    Raises:
        MissingDataError: the folder of data sets has no biographies.
    """
    bios = read_biographies(DataFolder(data).find("bias_in_bios"))
    columns = zip(bios.texts, bios.labels, bios.groups, strict=True)
    rows: list[Row] = [{"text": text, "label": label, "group": group} for text, label, group in columns]
    of_both = [label for label in set(bios.labels) if len({row["group"] for row in rows if row["label"] == label}) > 1]
    balanced = balance([row for row in rows if row["label"] in of_both], "label", "group", SUBSAMPLE)
    return _written(folder / "balanced-biographies.jsonl", [json.dumps(row) for row in balanced])


def piece_vectors(data: Path, folder: Path) -> Path:
    """Write the input embeddings of BERT-tiny for whole words to ``folder/tiny-vectors.txt``, and return its path.

    They stand in for word vectors where a run is checked without any.

    Raises:
        ModelError: the folder of data sets has no ``models/bert-tiny-mlm``.
    """
    model = Runner().open(str(data / "models" / "bert-tiny-mlm"))
    vectors = input_embeddings(model.backend.network)
    rows = sorted((piece, row) for piece, row in model.backend.tokenizer.get_vocab().items() if piece.isalpha())
    lines = [f"{piece} {' '.join(f'{value:.5f}' for value in vectors[row])}" for piece, row in rows]
    return _written(folder / "tiny-vectors.txt", lines)


def _written(path: Path, lines: Sequence[str]) -> Path:
    """Write lines to a file, unless it holds them already, and return its path."""
    content = ("\n".join(lines) + "\n").encode()
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    return path


def first_snli_pairs(data: Path, folder: Path) -> Path:
    """Write the first 2,000 labelled pairs of SNLI's dev part as a folder of data sets, ``folder/snli-start``, and
    return its path.

    ``models/minilm-snli`` was tuned on the pairs after them.

    Raises:
        MissingDataError: the folder of data sets has no dev part of SNLI.
    """
    pairs = read_inference(DataFolder(data).find("snli", "dev"))
    columns = zip(pairs.premises, pairs.hypotheses, pairs.labels, strict=True)
    rows = [{"premise": first, "hypothesis": second, "label": label} for first, second, label in columns]
    home = folder / "snli-start"
    _written(home / "snli" / "dev.jsonl", [json.dumps(row) for row in rows[:_UNSEEN]])
    return home


#: Files, or folders of them, by the name that settings have for them.
TEXTS: Mapping[str, Callable[[Path, Path], Path]] = {
    "balanced_biographies": balanced_biographies,
    "bold": bold_sentences,
    "snli_start": first_snli_pairs,
    "tiny_vectors": piece_vectors,
}
