"""The anchor of a baseline entry: where its values started, so that many small steps do not add up unseen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Anchor:
    """The first accepted measurement of a baseline entry, where its values have changed since. Only an update with a reason moves it.

    Attributes:
        values: values of the statistics.
        signature: the keys that must agree for a measurement to be compared with it, as the entry had them.
        items_sha256: SHA-256 of its item file; ``None`` if it has none.
        date: when it was accepted, in ISO format; empty if an earlier version stored it.
        fingerprint: of the model's weights, where it is known.
    """

    values: Mapping[str, float | None] = field(default_factory=dict)
    signature: Mapping[str, object] = field(default_factory=dict)
    items_sha256: str | None = None
    date: str = ""
    fingerprint: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values, as the baseline file has them."""
        return dict(vars(self))
