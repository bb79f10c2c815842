"""The error for a statistic without a value."""

from __future__ import annotations


class UndefinedError(ValueError):
    """A statistic has no value on this input. The message says why, as a clause that ends a sentence."""
