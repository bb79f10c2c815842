"""One sentence of each item, with what the model gave for it: a baseline stores them, so that a failure can show one
then and now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.statistics.inference.item_sums import FloatArray
from pytest_genderbias.suites.cases import Cases, IntArray

_PREFIX = "example."  #: of the arrays of :meth:`Examples.to_arrays`
_ITEM, _TEXT, _FIGURE = f"{_PREFIX}item", f"{_PREFIX}text", f"{_PREFIX}figure."
_MOST, _LONGEST = 1000, 200  #: items, and characters of a sentence, that are kept
_DIGITS = 4  #: after the point, of what is kept of a figure


@dataclass(frozen=True)
class Example:
    """A sentence, and by name the figures that the model gave for it."""

    text: str
    figures: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Examples:
    """An example for each item.

    Attributes:
        by_item: by label of the item, as :class:`~pytest_genderbias.statistics.inference.item_sums.ItemSums` has it.
    """

    by_item: Mapping[str, Example] = field(default_factory=dict)

    def of(self, item: str) -> Example | None:
        """Return the example of an item; ``None`` if it has none."""
        return self.by_item.get(item)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return everything as arrays of numbers and texts, which need no pickle; none without examples.

        >>> sorted(Examples({"nurse": Example("He is a nurse", {"ln P": -2.5})}).to_arrays())
        ['example.figure.ln P', 'example.item', 'example.text']
        """
        if not self.by_item:
            return {}
        examples = list(self.by_item.values())
        return {
            _ITEM: _as_bytes(list(self.by_item)),
            _TEXT: _as_bytes([example.text for example in examples]),
            **{
                f"{_FIGURE}{name}": np.asarray([example.figures[name] for example in examples], dtype=np.float32)
                for name in examples[0].figures
            },
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> Examples:
        """Return the examples among arrays; none if there are none, or they are of another form. Other arrays are
        ignored.
        """
        columns = {name: array for name, array in arrays.items() if name.startswith(_PREFIX)}
        items, texts = columns.pop(_ITEM, None), columns.pop(_TEXT, None)
        numbers = {name.removeprefix(_FIGURE): array for name, array in columns.items() if name.startswith(_FIGURE)}
        if items is None or texts is None or items.dtype.kind != "S" or texts.dtype.kind != "S" or items.ndim != 1:
            return cls()
        if any(array.shape != items.shape for array in (texts, *numbers.values())):
            return cls()
        if any(array.dtype.kind != "f" for array in numbers.values()):
            return cls()
        rows = zip(*(array.tolist() for array in numbers.values()), strict=True) if numbers else [()] * len(items)
        return cls(
            {
                item.decode(errors="replace"): Example(
                    text.decode(errors="replace"), dict(zip(numbers, row, strict=True))
                )
                for item, text, row in zip(items.tolist(), texts.tolist(), rows, strict=True)
            }
        )


def _as_bytes(texts: Sequence[str]) -> NDArray[np.bytes_]:
    """Return texts as UTF-8, which takes a quarter of the space of numpy's own texts."""
    return np.asarray([text.encode(errors="replace") for text in texts], dtype=np.bytes_)


def examples_of(
    labels: Sequence[str],
    items: IntArray,
    units: IntArray,
    text: Callable[[int], str],
    figures: Mapping[str, FloatArray],
) -> Examples:
    """Return an example for each item: the scored unit with the smallest number, so that every model has the same one.

    Args:
        labels: names of the items, shape (G,).
        items: the item of each scored unit, shape (n,).
        units: the number of each scored unit, shape (n,).
        text: returns the sentence of a unit.
        figures: what the model gave for each scored unit, by name, each of shape (n,).

    >>> shown = examples_of(["a", "b"], np.array([1, 0, 1]), np.array([5, 7, 3]), str, {"p": np.array([0.1, 0.2, 0.3])})
    >>> shown.of("b"), shown.of("c")
    (Example(text='3', figures={'p': 0.3}), None)
    """
    first = np.full(len(labels), np.iinfo(np.int64).max)
    np.minimum.at(first, items, units)
    rows = np.flatnonzero(first[items] == units)[:_MOST]
    return Examples(
        {
            labels[items[row]]: Example(
                text(int(units[row]))[:_LONGEST],
                {name: round(float(values[row]), _DIGITS) for name, values in figures.items()},
            )
            for row in rows.tolist()
        }
    )


def text_of_versions(cases: Cases, unit: int) -> str:
    """Return the first two sentences of a unit on one line."""
    return text_of_pair([text for (text,) in cases.sentences(cases.cases_of(np.array([unit]))[:2])], "|")


def text_of_pair(segments: Sequence[str], between: str) -> str:
    """Return two sentences on one line.

    >>> text_of_pair(("The nurse ran.", "The woman ran."), "=>")
    'The nurse ran. => The woman ran.'
    """
    return f" {between} ".join(segments)
