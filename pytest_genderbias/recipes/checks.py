"""Numbers among the settings of a recipe: of the right kind and size, or one error."""

from __future__ import annotations

import math
from typing import Any

from pytest_genderbias.errors import SettingError


def check_whole(name: str, value: Any, least: int) -> None:
    """Refuse a setting that is no whole number, or is below the least.

    Raises:
        SettingError: it is refused; the message names it.
    """
    if type(value) is not int or value < least:
        raise SettingError(f"{name} should be a whole number of at least {least}, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """Refuse a setting that is no finite number above 0.

    Raises:
        SettingError: it is refused; the message names it.
    """
    if not _is_number(value) or not 0 < value < math.inf:
        raise SettingError(f"{name} should be a number above 0, got {value!r}")


def check_share(name: str, value: Any, zero: bool = False) -> None:
    """Refuse a setting that is no number above 0 and below 1; ``zero`` lets 0 pass.

    Raises:
        SettingError: it is refused; the message names it.
    """
    if not _is_number(value) or not 0 <= value < 1 or (value == 0 and not zero):
        bounds = "from 0 up to, but not, 1" if zero else "above 0 and below 1"
        raise SettingError(f"{name} is a share {bounds}, got {value!r}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)
