"""The places of a run's files on the user's machine. Names in braces in the settings of a run stand for paths.

Some are files that runs read and that are made of other data. They lie beside the trainings, and are written anew where
their data changed.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_genderbias.datasets.biographies import read_biographies
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.datasets.gold_pairs import read_inference
from pytest_genderbias.errors import SettingError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.measurement.runner import Runner, RunSettings
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


_NAME = re.compile(r"\{([a-z0-9_]+)\}")


@dataclass(frozen=True)
class Places:
    """Paths by the names that settings use, and where trainings are kept.

    Attributes:
        named: ``data`` (the folder of data sets), ``runs`` (the folder of trainings), and what the user names:
            ``glove``.
        trainings: folder of the trainings, so that an interrupted run resumes and runs share models.
        progress: whether trainings show a progress bar.
    """

    named: Mapping[str, str]
    trainings: Path
    progress: bool = field(default=False, compare=False)


def runner_of_paper(places: Places) -> Runner:
    """Return a runner for the models of a paper's table. The figures of their task, which stand beside their bias, show
    how able they are.
    """
    reason = "none: the figures of the task stand beside the bias"
    return Runner(score=RunSettings(cache=places.trainings / "scores", ability=reason))


def names_in(settings: object) -> set[str]:
    """Return the names in braces in all texts of some settings.

    >>> sorted(names_in({"model": "{data}/models/x", "recipe": {"corpus": ["{runs}/bold.txt"]}}))
    ['data', 'runs']
    """
    return {name for text in _texts(settings) for name in _NAME.findall(text)}


def placed(settings: Any, places: Places) -> Any:
    """Return settings with every name in braces replaced by its path.

    Raises:
        SettingError: a name has no path.
    """
    named = dict(places.named)
    for name in (names_in(settings) - named.keys()) & TEXTS.keys():
        if "data" in named:
            named[name] = str(TEXTS[name](Path(named["data"]), places.trainings))
    if missing := sorted(names_in(settings) - named.keys()):
        raise SettingError(
            f"this run needs {', '.join(missing)}; name the path: --place {missing[0]}=PATH, or --data for the data"
            " sets"
        )
    return _replaced(settings, named)


def without_paths(value: Any, places: Places) -> Any:
    """Return JSON values in which paths are reduced to their last part, so that results do not depend on the
    machine.
    """
    if isinstance(value, Mapping):
        return {str(key): without_paths(member, places) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_paths(member, places) for member in value]
    if isinstance(value, str):
        for root in sorted((*places.named.values(), str(places.trainings)), key=len, reverse=True):
            value = value.replace(f"{root}/", "") if root else value
    if isinstance(value, Path) or (isinstance(value, str) and value.startswith("/")):
        return Path(value).name
    return value


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from _texts(member)


def _replaced(value: Any, named: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _NAME.sub(lambda match: named[match[1]], value)
    if isinstance(value, Mapping):
        return {key: _replaced(member, named) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(member, named) for member in value]
    return value
