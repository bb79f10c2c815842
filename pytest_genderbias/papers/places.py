"""The places of a run's files on the user's machine. Names in braces in the settings of a run stand for paths.

Some are files that runs read and that are made of other data. They lie beside the trainings, and are written anew where
their data changed. A result is one JSON file a run, with every figure by seed.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pytest_genderbias.datasets.biographies import read_biographies
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.datasets.gold_pairs import read_inference
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.mitigation.methods.balancing import SUBSAMPLE, balance
from pytest_genderbias.models.saving import input_embeddings
from pytest_genderbias.recipes.recipe import Row
from pytest_genderbias.text import packaged
from pytest_genderbias.text.plain_files import parse_json, read_whole
from pytest_genderbias.text.printable import json_text

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
    lines = [f"{piece} {' '.join(f'{value:.5f}' for value in vectors[row].tolist())}" for piece, row in rows]
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
    rows = [{"premise": first, "hypothesis": second, "label": label} for first, second, label in pairs]
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
    names: set[str] = set()
    changed(settings, lambda leaf: names.update(_NAME.findall(leaf)) if isinstance(leaf, str) else None)
    return names


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
    return changed(settings, lambda leaf: _NAME.sub(lambda m: named[m[1]], leaf) if isinstance(leaf, str) else leaf)


def without_paths(value: Any, places: Places) -> Any:
    """Return JSON values in which paths are reduced to their last part, so that results do not depend on the
    machine.
    """
    roots = sorted(filter(None, (*places.named.values(), str(places.trainings))), key=len, reverse=True)

    def without_path(leaf: Any) -> Any:
        if isinstance(leaf, str):
            for root in roots:
                leaf = leaf.replace(f"{root}/", "")
        return Path(leaf).name if isinstance(leaf, Path) or (isinstance(leaf, str) and leaf.startswith("/")) else leaf

    return changed(value, without_path)


def changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return JSON values with a function of each value that is neither a mapping nor a list; keys become texts."""
    if isinstance(value, Mapping):
        return {str(key): changed(member, change) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [changed(member, change) for member in value]
    return change(value)


SCHEMA = 1
_LARGEST = 2**27  #: bytes of a result


@dataclass(frozen=True)
class StoredFigure:
    """A figure of one side of a run.

    Attributes:
        values: one per seed, in the order of the run: the mean over the models of that seed (controls); ``None``
            where undefined.
        intervals: the 95 % interval of each over the suite's items; ``None`` where there is none.
        held_out: where the seeds are splits of the same texts, the share that each holds out (above 0, below 1);
            ``None`` where they are restarts.
    """

    values: Sequence[float | None]
    intervals: Sequence[Sequence[float] | None] = field(default_factory=list)
    held_out: float | None = None

    @property
    def defined(self) -> list[float]:
        """The values that are defined."""
        return [value for value in self.values if value is not None]

    @property
    def mean(self) -> float | None:
        """The mean over the seeds, ``None`` if no value is defined."""
        return float(np.mean(self.defined)) if self.defined else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation over the seeds; ``None`` if all are equal or there is one only."""
        return float(np.std(self.defined, ddof=1)) if len(set(self.defined)) > 1 else None

    def joined(self, other: StoredFigure) -> StoredFigure:
        """Return the figure of these seeds and then those of the other."""
        return replace(self, values=[*self.values, *other.values], intervals=[*self.intervals, *other.intervals])

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval over items of the only value, ``None`` where several seeds differ or none was stored."""
        if len(set(self.defined)) != 1 or not self.intervals or self.intervals[0] is None:
            return None
        low, high = self.intervals[0]
        return float(low), float(high)


@dataclass(frozen=True)
class StoredRun:
    """Result of one run.

    Attributes:
        run: name of the run.
        scale: ``small`` or ``paper``.
        settings: of the run at this scale, as its config had them.
        seeds: of the trainings; ``(0,)`` where nothing was trained.
        figures: by ``SIDE/SUITE/STATISTIC``.
        details: what its kind adds: verdicts, curves, words.
        seconds: wall time; of the last part, if the run was interrupted.
        processor_seconds: processor time of the same, over all threads; ``None`` in results that do not have it.
        versions: of packages.
    """

    run: str
    scale: str
    settings: Mapping[str, Any]
    seeds: Sequence[int]
    figures: Mapping[str, StoredFigure]
    details: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    processor_seconds: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


def write_run(run: StoredRun, folder: Path) -> Path:
    """Write the result of a run to ``folder/RUN.json``, whole or not at all, and return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.run}.json"
    write_whole(path, (json_text({"schema": SCHEMA, **asdict(run)}) + "\n").encode())
    return path


def packaged_results() -> Path:
    """Return the folder of the results that are part of the package."""
    return packaged.folder("results")


def read_run(path: Path) -> StoredRun:
    """Return the result of a run.

    Raises:
        DataFileError: the file cannot be read, or is no result of a run.
    """
    content = parse_json(read_whole(path, _LARGEST), str(path))
    if not isinstance(content, dict) or content.pop("schema", None) != SCHEMA:
        raise DataFileError(
            f"{path}:1: expected the result of a run of a paper, schema {SCHEMA}; delete it and make it again"
        )
    try:
        figures = {key: StoredFigure(**figure) for key, figure in content.pop("figures").items()}
        return StoredRun(figures=figures, **content)
    except (TypeError, KeyError, AttributeError) as error:
        raise DataFileError(
            f"{path}:1: expected the result of a run of a paper: {error}; delete it and make it again"
        ) from None


def read_runs(folder: Path) -> dict[str, StoredRun]:
    """Return all results of a folder by name; none if there is no folder."""
    return {path.stem: read_run(path) for path in sorted(folder.glob("*.json"))}


def figure_at(runs: Mapping[str, StoredRun], locator: str) -> StoredFigure | None:
    """Return the figure that a locator names; ``None`` if the run has no result yet.

    Raises:
        DataFileError: the run has a result without this figure.
    """
    name, _, key = locator.partition(" ")
    if name not in runs:
        return None
    figures = runs[name].figures
    if key not in figures:
        near = [known for known in figures if known.rpartition("/")[0] == key.rpartition("/")[0]] or list(figures)
        raise DataFileError(f"{name}.json has no figure {key!r}; it has {', '.join(sorted(near)[:12])}")
    return figures[key]
