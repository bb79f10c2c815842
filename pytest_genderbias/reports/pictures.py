"""``Picture``: what a picture of a measurement shows, as plain data that any process can draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import as_plain, from_plain, read_dataclass


@dataclass(frozen=True)
class Picture:
    """The data of one picture.

    Attributes:
        kind: how it is drawn.
        suite: name of the suite.
        model: name of the model; empty for a picture of several.
        statistic: name of the statistic.
        title: what it shows, in a few words.
        alt: its finding in words, with figures, for readers who do not see it.
        caption: how to read it.
        data: labels and numbers, as plain JSON values.
    """

    kind: str
    suite: str
    model: str
    statistic: str
    title: str
    alt: str
    caption: str = ""
    data: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self, finite: bool = False) -> dict[str, object]:
        """Return plain JSON values, which :meth:`from_dict` reads. With ``finite``, NaN and infinities become ``None``."""
        return {name: as_plain(value, finite) for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, data: object) -> Picture:
        """Return what :meth:`to_dict` wrote.

        Raises:
            DataFileError: a key is missing, unknown or of another type.
        """
        return read_dataclass(cls, from_plain(data, "picture"), "picture")


def pictures_of(measurement: Measurement) -> tuple[Picture, ...]:
    """Return the pictures of a measurement, of which all records and item statistics are needed."""
    return ()
