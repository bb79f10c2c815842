"""The base class of mitigation methods, and the data that it exchanges with the harness.

A method may change the training data, a model before, during and after training, and it may have a control of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation.words.matching import moved_span, replace_spans
from pytest_genderbias.models.model import Model
from pytest_genderbias.recipes.recipe import Around, Row, identifying_settings, nested
from pytest_genderbias.text.plain_files import expand, is_regular

if TYPE_CHECKING:
    from transformers import TrainerCallback

#: The functions of a method that a subclass may override.
Step = Literal["rows", "before", "hooks", "after", "control"]


def cell_of(row: Row, column: str, number: int) -> Hashable:
    """Return the class or the group of a row; ``number`` is the index of the row, from 0, for the message.

    Raises:
        SettingError: the row has no such column, or holds a list there.
    """
    value = _value(row, column, number)
    if not isinstance(value, Hashable):
        raise SettingError(f"row {number + 1}: expected a single value in column {column!r}, got {value!r:.60}")
    return value


def texts_of(row: Row, columns: Sequence[str], number: int) -> tuple[str, ...]:
    """Return the texts of a row in some columns; ``number`` is the index of the row, from 0, for the message.

    Raises:
        SettingError: the row lacks a column, or a value is not a text.
    """
    texts = []
    for column in columns:
        value = _value(row, column, number)
        if not isinstance(value, str):
            raise SettingError(
                f"row {number + 1}: expected a text in column {column!r}, got {value!r:.60}; leave the row out, or make"
                " it a text"
            )
        texts.append(value)
    return tuple(texts)


def _value(row: Row, column: str, number: int) -> object:
    if column not in row:
        raise SettingError(f"row {number + 1} has no column {column!r}; it has {', '.join(map(str, row))}")
    return row[column]


def edited(row: Row, columns: Columns, replacements: Sequence[Sequence[tuple[int, int, str]]]) -> Row:
    """Return a row with words of its texts replaced, and its mentions moved.

    Args:
        row: a row.
        columns: its columns.
        replacements: for each text column the replaced spans in order, (start, end, new).

    >>> row = {"text": "He left.", "mentions": ((0, 2, "He", 0),)}
    >>> edited(row, Columns(("text",), mentions="mentions"), [[(0, 2, "She")]])
    {'text': 'She left.', 'mentions': ((0, 3, 'She', 0),)}
    """
    texts = {
        column: replace_spans(row[column], edits) for column, edits in zip(columns.texts, replacements, strict=True)
    }
    if columns.mentions is None:
        return {**row, **texts}
    ((text, edits),) = zip(texts.values(), replacements, strict=True)
    moved = [(*moved_span((start, end), edits), cluster) for start, end, _, cluster in row[columns.mentions]]
    return {**row, **texts, columns.mentions: tuple((a, b, text[a:b], cluster) for a, b, cluster in moved)}


@dataclass(frozen=True)
class Columns:
    """The columns of training rows that a data method needs.

    ``texts`` are the columns whose texts it may change. ``label`` is the column of the class and ``group`` that of the
    person's gender; each is ``None`` if the rows have no such column. ``mentions`` is the column with the mentions in
    the only text, as (start, end, words, cluster) each, which move with a changed text; ``None`` if the rows have none.
    """

    texts: tuple[str, ...]
    label: str | None = None
    group: str | None = None
    mentions: str | None = None


@dataclass(frozen=True)
class Hooks:
    """Actions of a method while a network is trained.

    ``callbacks`` are passed to transformers' Trainer. ``around`` returns a context manager, in which the network is
    trained.
    """

    callbacks: Sequence[TrainerCallback] = ()
    around: Around = nullcontext


@dataclass(frozen=True)
class Method:
    """A mitigation. Its dataclass fields are its settings. This base class changes nothing; subclasses override its
    functions.

    Of a method that :attr:`trains`, a run calls ``recipe.start``, :meth:`hooks`, :meth:`before`, :meth:`rows`,
    ``recipe.train`` and :meth:`after`, in this order; of any other, :meth:`after` alone. It asks for :meth:`control`
    afterwards.

    YAML files and tables use ``name``. The name and the fields identify the runs of a method, so each subclass needs a
    name of its own. A method runs with any recipe whose data and models it accepts. ``a & b`` applies both, ``a``
    first.
    """

    name: ClassVar[str] = "none"
    control_in_words: ClassVar[str] = (
        ""  #: what the control does, for the text of a verdict; if empty, ``name`` is used
    )

    def __init_subclass__(cls, **options: object) -> None:
        """Reject a subclass without a name of its own: its runs would be mistaken for those of no method."""
        super().__init_subclass__(**options)
        if cls.name == Method.name:
            raise SettingError(f"the method {cls.__name__} needs a name of its own: name: ClassVar[str] = ...")

    def settings(self) -> dict[str, object]:
        """Return the name and the fields as JSON values; equal settings give the same result.

        A field that is the path of a file is represented by the name and a hash of the content of the file.
        """
        values: dict[str, object] = {"method": self.name, **identifying_settings(self)}
        files = {key: path for key, value in values.items() if (path := _existing_file(value)) is not None}
        if files:
            values |= {key: path.name for key, path in files.items()}
            values["files"] = {key: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for key, path in files.items()}
        return values

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> Sequence[Row]:
        """Return the changed training data; the argument stays as it is."""
        return rows

    def before(self, model: Model, seed: int) -> Model:
        """Return the model, changed before it is trained; the argument stays as it is."""
        return model

    def hooks(self, model: Model) -> Hooks:
        """Return what happens during training; ``model`` is the model before :meth:`before`."""
        return Hooks()

    def after(self, model: Model, seed: int) -> Model:
        """Return the model, changed after training, or changed alone if nothing is trained."""
        return model

    def control(self, repeat: int) -> Method | None:
        """Return the control number ``repeat``, such as random directions for a projection.

        ``None`` means that the control is the same recipe without the method.
        """
        return None

    def changes(self, step: Step) -> bool:
        """Return whether the class of the method overrides ``rows``, ``before``, ``hooks``, ``after`` or
        ``control``.
        """
        return next(kind for kind in type(self).__mro__ if step in vars(kind)) is not Method

    @property
    def trains(self) -> bool:
        """Whether the method acts before or during training, so that it needs a recipe that trains."""
        return self.changes("rows") or self.changes("before") or self.changes("hooks")

    def __and__(self, other: Method) -> Method:
        """Return a method that applies this one and then the other."""
        return Together((*parts_of(self), *parts_of(other)))


@dataclass(frozen=True)
class Together(Method):
    """Several methods, applied one after the other at each step."""

    name: ClassVar[str] = "together"
    methods: tuple[Method, ...] = ()

    def settings(self) -> dict[str, object]:
        """Return the settings of each method."""
        return {"method": " & ".join(m.name for m in self.methods), "methods": [m.settings() for m in self.methods]}

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> Sequence[Row]:
        """Change the data by each method."""
        for method in self.methods:
            rows = method.rows(rows, columns, seed)
        return rows

    def before(self, model: Model, seed: int) -> Model:
        """Change the model by each method before training."""
        for method in self.methods:
            model = method.before(model, seed)
        return model

    def hooks(self, model: Model) -> Hooks:
        """Combine the hooks of the methods."""
        hooks = [method.hooks(model) for method in self.methods]
        return Hooks(tuple(callback for h in hooks for callback in h.callbacks), nested(*(h.around for h in hooks)))

    def after(self, model: Model, seed: int) -> Model:
        """Change the model by each method after training."""
        for method in self.methods:
            model = method.after(model, seed)
        return model

    def control(self, repeat: int) -> Method | None:
        """Combine the controls of the methods that have one; return ``None`` if no method has one."""
        controls = [control for method in self.methods if (control := method.control(repeat)) is not None]
        return replace(self, methods=tuple(controls)) if controls else None

    def changes(self, step: Step) -> bool:
        """Return whether at least one of the methods overrides the step."""
        return any(method.changes(step) for method in self.methods)


def _existing_file(value: object) -> Path | None:
    """Return the path if a setting is the path of an existing file with a suffix."""
    path = expand(value) if isinstance(value, str) and Path(value).suffix else None
    return path if path is not None and is_regular(path) else None


def parts_of(method: Method) -> tuple[Method, ...]:
    """Return the methods that a method applies: several, or itself."""
    return method.methods if isinstance(method, Together) else (method,)


def together(methods: Sequence[Method]) -> Method:
    """Return a method that applies several; one method alone has its own name, and its own key of its trainings."""
    return methods[0] if len(methods) == 1 else Together(tuple(methods))
