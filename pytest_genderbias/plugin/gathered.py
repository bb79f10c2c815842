"""Reported values in the order in which their tests were collected. Workers of xdist finish tests in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TypeVar

T = TypeVar("T")


def as_known(things: Iterable[T], by_test: Mapping[str, Iterable[T]], same: Callable[[T, T], bool]) -> list[T]:
    """Return what a test reports, each thing as a test before reported it, so that no second copy is kept.

    Args:
        things: what the test reports.
        by_test: what tests reported before, by their ids.
        same: tells whether two things are one.
    """
    return [next((known for known in chain(*by_test.values()) if same(thing, known)), thing) for thing in things]


def each_once(by_test: Mapping[str, Iterable[T]], same: Callable[[T, T], bool]) -> list[T]:
    """Return what tests report, each thing in the place of the first test that reports it.

    >>> each_once({"first": ["a", "c"], "second": ["b", "a"]}, str.__eq__)
    ['a', 'c', 'b']
    """
    found: list[T] = []
    for thing in chain(*by_test.values()):
        if not any(thing is known or same(thing, known) for known in found):
            found.append(thing)
    return found


def in_order(by_test: Mapping[str, T], order: Mapping[str, int]) -> dict[str, T]:
    """Return what tests report by the ids of tests, in their order; tests that have no place come last, as they
    came.
    """
    return dict(sorted(by_test.items(), key=lambda entry: order.get(entry[0], len(order))))
