"""What a mitigation method is to the harness: what it does to data, to a model before, during and after training, and its control."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pytest_genderbias.errors import SettingError
from pytest_genderbias.models.model import Model

Row = Mapping[str, Any]


def cell_of(row: Row, column: str, number: int) -> Any:
    """Return what a row has in a column; ``number`` is its place among the rows, from 0.

    Raises:
        SettingError: it has no such column.
    """
    if column not in row:
        raise SettingError(f"row {number + 1} has no column {column!r}; it has {', '.join(map(str, row))}")
    return row[column]


def check_count(name: str, value: int) -> None:
    """Raise a SettingError unless a setting is 1 or more."""
    if value < 1:
        raise SettingError(f"{name} should be a whole number of at least 1, got {value!r}")


@dataclass(frozen=True)
class Columns:
    """Which columns of a row a data method may change (``texts``), and which say the class and the person's gender, if any do."""

    texts: tuple[str, ...]
    label: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class Hooks:
    """What a method does while a network is trained: callbacks of the Trainer, and a context manager given the network."""

    callbacks: Sequence[Any] = ()
    around: Callable[[Any], AbstractContextManager[Any]] = nullcontext


@dataclass(frozen=True)
class Method:
    """A mitigation. Its fields are its settings; this one does nothing, and a subclass overrides what it does.

    ``name`` is what YAML and tables call it, and with the fields what a run is known by: one that does another thing needs another. Any method runs with any recipe whose data or models it can take; ``a & b`` does both, a first.
    """

    name: ClassVar[str] = "none"
    control_in_words: ClassVar[str] = ""  #: what its control does, in the text of a verdict; by default the name

    def __init_subclass__(cls, **given: Any) -> None:
        """Refuse a method without a name of its own: its runs would be those of no method."""
        super().__init_subclass__(**given)
        if cls.name == Method.name:
            raise SettingError(f"the method {cls.__name__} needs a name of its own: name: ClassVar[str] = ...")

    def settings(self) -> dict[str, Any]:
        """Return the name and every field, as JSON values: equal settings do the same. Of a file, its name and what is in it count."""
        told = {"method": self.name, **asdict(self)}
        files = {key: path for key, value in told.items() if (path := _file(value)) is not None}
        if files:
            told |= {key: path.name for key, path in files.items()}
            told["files"] = {key: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for key, path in files.items()}
        return told

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> Sequence[Row]:
        """Return the training data, changed; the rows that were given stay as they are."""
        return rows

    def before(self, model: Model, seed: int) -> Model:
        """Return the model, changed before it is trained; the one that was given stays as it is."""
        return model

    def hooks(self, model: Model) -> Hooks:
        """Return what is done during training, given the model as it is before :meth:`before`."""
        return Hooks()

    def after(self, model: Model, seed: int) -> Model:
        """Return the model, changed after training, or where nothing is trained."""
        return model

    def control(self, repeat: int) -> Method | None:
        """Return the repeat-th control, as random directions for a projection; ``None``: the same recipe without the method."""
        return None

    def changes(self, what: str) -> bool:
        """Tell whether the method overrides ``rows``, ``before``, ``hooks``, ``after`` or ``control``."""
        return getattr(type(self), what) is not getattr(Method, what)

    @property
    def trains(self) -> bool:
        """Whether it does something before or during training, so that a training is part of what it does."""
        return any(map(self.changes, ("rows", "before", "hooks")))

    def __and__(self, other: Method) -> Method:
        """Return both, one after the other."""
        return Together((*_parts(self), *_parts(other)))


@dataclass(frozen=True)
class Together(Method):
    """Several methods, one after the other, in everything that they do."""

    name: ClassVar[str] = "together"
    methods: tuple[Method, ...] = ()

    def settings(self) -> dict[str, Any]:
        """Return the settings of each."""
        return {"method": " & ".join(m.name for m in self.methods), "methods": [m.settings() for m in self.methods]}

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> Sequence[Row]:
        """Change the data by each."""
        for method in self.methods:
            rows = method.rows(rows, columns, seed)
        return rows

    def before(self, model: Model, seed: int) -> Model:
        """Change the model by each."""
        for method in self.methods:
            model = method.before(model, seed)
        return model

    def hooks(self, model: Model) -> Hooks:
        """Do what each does."""
        found = [method.hooks(model) for method in self.methods]
        return Hooks(tuple(c for h in found for c in h.callbacks), _nested([h.around for h in found]))

    def after(self, model: Model, seed: int) -> Model:
        """Change the model by each."""
        for method in self.methods:
            model = method.after(model, seed)
        return model

    def control(self, repeat: int) -> Method | None:
        """Return the controls of those that have one, together; ``None`` if none has."""
        found = [control for method in self.methods if (control := method.control(repeat)) is not None]
        return replace(self, methods=tuple(found)) if found else None

    def changes(self, what: str) -> bool:
        """Tell whether one of them does."""
        return any(method.changes(what) for method in self.methods)


def _file(value: Any) -> Path | None:
    """Return the path of a list of the user's own, if a setting is one."""
    path = Path(value).expanduser() if isinstance(value, str) and Path(value).suffix else None
    return path if path is not None and path.is_file() else None


def _parts(method: Method) -> tuple[Method, ...]:
    return method.methods if isinstance(method, Together) else (method,)


def _nested(
    arounds: Sequence[Callable[[Any], AbstractContextManager[Any]]],
) -> Callable[[Any], AbstractContextManager[Any]]:
    from contextlib import ExitStack, contextmanager

    @contextmanager
    def around(network: Any) -> Any:
        with ExitStack() as stack:
            for one in arounds:
                stack.enter_context(one(network))
            yield network

    return around
