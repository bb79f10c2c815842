"""Reported values in the order in which their tests were collected. Workers of xdist finish tests in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class Gathered(Generic[T]):
    """Things that tests report. Each is there once, in the place of the first test that reports it."""

    def __init__(self, same: Callable[[T, T], bool]) -> None:
        """Start empty; ``same`` tells whether two things are one."""
        self._same = same
        self._things: list[T] = []
        self._places: list[
            list[tuple[str, int]]
        ] = []  # of each thing: ids of tests, and where it is among what they report

    def __iter__(self) -> Iterator[T]:
        """Yield the things."""
        return iter(self._things)

    def __len__(self) -> int:
        """Return their number."""
        return len(self._things)

    def add(self, node_id: str, things: Iterable[T]) -> None:
        """Add what a test reports."""
        for position, thing in enumerate(things):
            known = next((i for i, other in enumerate(self._things) if self._same(thing, other)), None)
            if known is None:
                self._things.append(thing)
                self._places.append([(node_id, position)])
            else:
                self._places[known].append((node_id, position))

    def put_in_order(self, order: Mapping[str, int]) -> None:
        """Sort by the places of tests; tests that have none come last, as they came.

        >>> gathered = Gathered[str](str.__eq__)
        >>> gathered.add("second", ["b", "a"])
        >>> gathered.add("first", ["a", "c"])
        >>> gathered.put_in_order({"first": 0, "second": 1})
        >>> list(gathered)
        ['a', 'c', 'b']
        """
        first = [min((order.get(test, len(order)), position) for test, position in places) for places in self._places]
        ranks = sorted(range(len(first)), key=first.__getitem__)
        self._things = [self._things[rank] for rank in ranks]
        self._places = [self._places[rank] for rank in ranks]


def in_order(by_test: Mapping[str, T], order: Mapping[str, int]) -> dict[str, T]:
    """Return what tests report by the ids of tests, in their order."""
    return dict(sorted(by_test.items(), key=lambda entry: order.get(entry[0], len(order))))
