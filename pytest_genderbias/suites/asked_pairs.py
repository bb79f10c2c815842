"""Pairs of sentences that a chat model is asked about: a message for each pair and order of the options."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pytest_genderbias.suites.cases import Cases, IntArray


@dataclass(frozen=True)
class AskedPairs:
    """The questions about pairs, in the orders of their options. A unit is a pair; its cases are the orders.

    Messages are made when they are asked for: a suite can have millions of pairs.

    Attributes:
        pairs: cases of two segments, one per unit.
        orders: number of orders in which a pair is asked about.
        ask: function from the number of a pair, premise and hypothesis to the message in each order.
    """

    pairs: Cases
    orders: int
    ask: Callable[[int, str, str], list[str]]

    @property
    def n_units(self) -> int:
        """Number of pairs."""
        return self.pairs.n_units

    @property
    def cases_per_unit(self) -> int:
        """Number of orders."""
        return self.orders

    @property
    def n_cases(self) -> int:
        """Number of messages."""
        return self.pairs.n_units * self.orders

    def cases_of(self, units: IntArray) -> IntArray:
        """Return the case numbers of the units, unit by unit."""
        return (units.astype(np.int64)[:, None] * self.orders + np.arange(self.orders)).ravel()

    def sentences(self, cases: IntArray, mask: str = "[MASK]") -> list[tuple[str, ...]]:
        """Return the message of each case."""
        units, index = np.unique(np.asarray(cases) // self.orders, return_inverse=True)
        messages = [
            self.ask(unit, *pair) for unit, pair in zip(units.tolist(), self.pairs.sentences(units), strict=True)
        ]
        return [
            (messages[at][order],)
            for at, order in zip(index.tolist(), (np.asarray(cases) % self.orders).tolist(), strict=True)
        ]

    def digest(self) -> str:
        """Return a SHA-256 over the pairs and the wording of the question."""
        wording = self.ask(0, "{premise}", "{hypothesis}")
        return hashlib.sha256(repr((self.pairs.digest(), self.orders, wording)).encode()).hexdigest()
