"""``pictures_of`` and the plain data that it returns."""

from __future__ import annotations

from pytest_genderbias.reports.figures.built import pictures_of
from pytest_genderbias.reports.picture import Axis, Panel, Picture, Series

__all__ = ["Axis", "Panel", "Picture", "Series", "pictures_of"]
