"""Files that runs read and that are made of other data. They lie beside the trainings, and are written anew where their data changed."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_genderbias.errors import SettingError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.models.model import Checkpoint
from pytest_genderbias.models.saving import input_embeddings


def bold_sentences(data: Path, folder: Path) -> Path:
    """Write BOLD's Wikipedia sentences on actors, actresses and professions to ``folder/bold.txt`` in random order, and return its path.

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


def piece_vectors(data: Path, folder: Path) -> Path:
    """Write the input embeddings of BERT-tiny for whole words to ``folder/tiny-vectors.txt``, and return its path.

    They stand in for word vectors where a run is checked without any.

    Raises:
        ModelError: the folder of data sets has no ``models/bert-tiny-mlm``.
    """
    model = Runner().open(str(data / "models" / "bert-tiny-mlm"))
    assert isinstance(model.backend, Checkpoint)  # its role says so
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


#: Files by the name that settings have for them.
TEXTS: Mapping[str, Callable[[Path, Path], Path]] = {
    "bold": bold_sentences,
    "tiny_vectors": piece_vectors,
}
