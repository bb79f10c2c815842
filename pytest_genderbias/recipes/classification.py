"""The recipe that fine-tunes an encoder to classify texts about persons with a gender, such as biographies, and the
split of such texts into a training part and a held-out part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from pytest_genderbias.datasets.files import column_names, read_rows
from pytest_genderbias.datasets.folder import MissingDataError, known_data_sets
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.roles import NLI_CLASSIFIER, TEXT_CLASSIFIER
from pytest_genderbias.recipes.fine_tuning import FineTuning, accuracy, answers_of
from pytest_genderbias.recipes.recipe import Performance, Row, numbers_by_key
from pytest_genderbias.suites.families.shared.persons import BIOGRAPHIES, read_table
from pytest_genderbias.suites.query import ClassProbabilities
from pytest_genderbias.suites.suite import Suite
from pytest_genderbias.text.normal_form import folded
from pytest_genderbias.text.schema import Rule, Share

_SPLIT, _TAKEN_OUT, _SAMPLE = 0, 1, 2  #: seeds of the draws, which do not depend on the seed of a training
TakenOut: TypeAlias = Annotated[
    tuple[tuple[str, str, Annotated[float, Rule("", exclusiveMinimum=0, maximum=1)]], ...],
    Rule("entries of a label, a group and a share above 0, up to 1"),
]


@dataclass(frozen=True)
class ClassifierTuning(FineTuning):
    """Classification of texts about persons with a gender: biographies, or a labelled file (docs/reference/data.md).
    ``accuracy`` is on held-out texts.

    ``data_set``: ``wiki_career`` or ``bias_in_bios``. ``text_column``, ``label_column`` and ``group_column``: the names
    of the columns of a file. ``held_out``: share of each label and gender that is never trained on, unless
    ``evaluation`` names a file; the draw does not depend on the seed. ``taken_out``: entries ``(label, gender,
    share)``: this share of their rows is removed from the training part, for an imbalance that a mitigation can
    correct. Groups are ``female`` and ``male``, or those of the file. A file without the column ``group`` can be
    trained on, but neither balanced nor measured by group.

    The suite ``bios`` is measured on the held-out texts, with the shares of women in the training part
    (:meth:`suite_settings`).
    """

    name: ClassVar[str] = "classification"
    evaluates: ClassVar[tuple[str, ...]] = ("accuracy",)
    columns: ClassVar[tuple[str, ...]] = ("text",)
    group: ClassVar[str | None] = "gender"
    data_set: str = "wiki_career"
    held_out: Share = 0.3
    taken_out: TakenOut = ()
    text_column: str = "text"
    label_column: str = "label"
    group_column: str = "group"

    def __post_init__(self) -> None:
        """Reject invalid settings, and set ``group`` to ``None`` for a file without groups."""
        super().__post_init__()
        if self.data_set not in BIOGRAPHIES:
            raise SettingError(f"data_set should be one of {', '.join(BIOGRAPHIES)}, got {self.data_set!r}")
        if self.training is not None and not self._has_groups(self.files["training"][0]):
            object.__setattr__(self, "group", None)
            if self.taken_out:
                raise SettingError(f"{self.training} has no column {self.group_column!r}, which taken_out needs")

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of both parts, in alphabetical order."""
        labels = tuple(sorted({row["label"] for part in self._parts for row in part}))
        if len(labels) < 2:
            raise DataFileError(
                f"{self.files['training'][0]}: a classifier needs two labels, there is only {labels[0]!r}"
            )
        spelt = {folded(label): label for label in reversed(labels)}
        for label in labels:
            if (other := spelt[folded(label)]) != label:
                raise DataFileError(
                    f"{self.files['training'][0]}: the labels {other!r} and {label!r} differ by case only; write them"
                    " alike, or rename one of them"
                )
        return labels

    @property
    def files(self) -> dict[str, tuple[Path, ...]]:
        """The files of training, and of evaluation if set."""
        split = "train" if self._has_training_split() else None
        files = {"training": self._file(self.training, self.data_set, split)}
        return files if self.evaluation is None else {**files, "evaluation": self._file(self.evaluation, "", None)}

    def rows(self) -> list[Row]:
        """Return the training part, without the rows that are held out or taken out."""
        return list(self._parts[0])

    def held_out_file(self, folder: str | Path) -> Path:
        """Write the held-out texts as JSON lines for the option ``texts`` of the suite ``bios``, and return the
        file.
        """
        return self._written(folder, "held-out", self._parts[1])

    def training_file(self, folder: str | Path) -> Path:
        """Write the unmitigated training part for the option ``training`` of ``bios`` (shares of women), and return the
        file.
        """
        return self._written(folder, "training", self._parts[0])

    def suite_settings(self, suite: Suite, folder: str | Path) -> dict[str, object]:
        """Return the options with which ``bios`` measures held-out texts, written to a folder; empty for other
        suites.
        """
        if suite.family.name != "bios":
            return {}
        return {"texts": str(self.held_out_file(folder)), "training": str(self.training_file(folder))}

    def evaluate(self, model: Model) -> list[Performance]:
        """Return the share of held-out texts with a correct label; its units are blocks of consecutive texts.

        Raises:
            NotApplicableError: the model does not classify these labels.
        """
        present = [folded(label) for label in model.role.labels]
        if model.role.kind not in (TEXT_CLASSIFIER, NLI_CLASSIFIER) or {folded(y) for y in self.labels} - set(present):
            raise NotApplicableError(
                f"{model.name} is {model.role.text}; accuracy needs a classifier of {', '.join(self.labels[:8])}"
            )
        rows = some_rows(self._parts[1], self.max_evaluation)
        probabilities = answers_of(model, [(row["text"],) for row in rows], ClassProbabilities(), self.name)
        gold = np.asarray([present.index(folded(row["label"])) for row in rows])
        return [accuracy(probabilities.argmax(axis=1) == gold, "texts", "texts")]

    @cached_property
    def _parts(self) -> tuple[list[Row], list[Row]]:
        """The training part and the held-out part."""
        files = self.files
        rows = self._read(files["training"])
        if "evaluation" in files:
            train, out = rows, self._read(files["evaluation"])
        else:
            train, out = hold_out(rows, ("label", *([self.group] if self.group else [])), self.held_out)
            if not out:
                raise DataFileError(
                    f"{files['training'][0]}: too few rows of each label and group to hold {self.held_out} of them out;"
                    " set evaluation to a file"
                )
        if self.taken_out:
            train = take_out(train, self.taken_out, "label", "gender")
        return some_rows(train, self.max_rows), out

    def _read(self, paths: Sequence[Path]) -> list[Row]:
        return [row for path in paths for row in self._rows_of(path, f"{path.name}:" if len(paths) > 1 else "")]

    def _rows_of(self, path: Path, prefix: str) -> Iterator[Row]:
        """Yield the rows of a table, with a prefix before their ids."""
        if not self._has_groups(path):
            columns = (self.text_column, self.label_column)
            for number, row in enumerate(read_rows(path, columns), start=1):
                yield {"id": f"{prefix}{number}", "text": row.text(columns[0]), "label": row.name(columns[1])}
            return
        options = {name: vars(self)[name] for name in ("text_column", "label_column", "group_column")}
        for row_id, text, label, group, name in zip(*read_table(path, options, any_group=True), strict=True):
            fields_of_row = {"id": prefix + row_id, "text": text, "label": label, "gender": group}
            yield {**fields_of_row, "name": name} if name else fields_of_row

    def _has_groups(self, path: Path) -> bool:
        present = column_names(path)
        return self.group_column in present or "profession" in present

    def _has_training_split(self) -> bool:
        """Return whether the data set has a training split on disk."""
        if self.training is not None or "train" not in known_data_sets()[self.data_set].splits:
            return False
        try:
            self._file(None, self.data_set, "train")
        except MissingDataError:
            return False
        return True

    def _written(self, folder: str | Path, what: str, rows: Sequence[Row]) -> Path:
        """Write rows for the suite as JSON lines to a file whose name has their digest; it is never incomplete."""
        content = [{("group" if key == "gender" else key): value for key, value in row.items()} for row in rows]
        path = Path(folder) / f"{what}-{hashlib.sha256(repr(content).encode()).hexdigest()[:12]}.jsonl"
        write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content).encode())
        return path


def hold_out(rows: Sequence[Row], keys: Sequence[str], share: float) -> tuple[list[Row], list[Row]]:
    """Split rows into two parts; the second has a share of the rows of each cell of labels and groups.

    The draw is always the same. Each cell has at least one row in the first part.

    Args:
        rows: in any order, which both parts preserve.
        keys: columns whose values define a cell.
        share: share of the second part, at least 0 and below 1.

    >>> rows = [{"label": label} for label in "aaaabb"]
    >>> [[row["label"] for row in part] for part in hold_out(rows, ["label"], 0.5)]
    [['a', 'a', 'b'], ['a', 'a', 'b']]
    """
    rng = np.random.default_rng(_SPLIT)
    out: set[int] = set()
    for _, cell in sorted(numbers_by_key(tuple(row[key] for key in keys) for row in rows).items()):
        out |= _drawn(rng, cell, min(_rounded(share * len(cell)), len(cell) - 1))
    return [row for i, row in enumerate(rows) if i not in out], [row for i, row in enumerate(rows) if i in out]


def take_out(rows: Sequence[Row], what: TakenOut, label: str, group: str) -> list[Row]:
    """Remove a share of the rows of some labels and groups, for an imbalance of known size. The draw is always the
    same.

    Args:
        rows: in any order, which is preserved.
        what: entries of a label, a group and the share of their rows that is removed, above 0, up to 1.
        label: column of the labels.
        group: column of the groups.

    Raises:
        SettingError: an entry has no rows, or a label and group occur twice.
    """
    rng = np.random.default_rng(_TAKEN_OUT)
    cells = numbers_by_key((row[label], row[group]) for row in rows)
    if len({(name, member) for name, member, _ in what}) < len(what):
        raise SettingError("taken_out names a label and a group twice")
    out: set[int] = set()
    for name, member, share in sorted(what):
        if (name, member) not in cells:
            raise SettingError(
                f"taken_out: there is no row of {name!r} and {member!r}; labels are"
                f" {', '.join(sorted({key[0] for key in cells}))}, groups"
                f" {', '.join(sorted({key[1] for key in cells}))}"
            )
        cell = cells[name, member]
        out |= _drawn(rng, cell, _rounded(share * len(cell)))
    return [row for i, row in enumerate(rows) if i not in out]


def some_rows(rows: Sequence[Row], most: int | None) -> list[Row]:
    """Return at most ``most`` rows, drawn from all, in their order. The draw is always the same."""
    if most is None or most >= len(rows):
        return list(rows)
    sample = np.sort(np.random.default_rng(_SAMPLE).permutation(len(rows))[:most])
    return [rows[i] for i in sample]


def _drawn(rng: np.random.Generator, cell: Sequence[int], count: int) -> set[int]:
    return {cell[i] for i in rng.permutation(len(cell))[:count]}


def _rounded(number: float) -> int:
    return int(number + 0.5)
