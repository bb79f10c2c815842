"""Checks of numeric settings of recipes."""

from __future__ import annotations

import math
from typing import TypeGuard

from pytest_genderbias.errors import SettingError


def check_whole(name: str, value: object, least: int) -> None:
    """Check that a setting is a whole number, and not less than ``least``.

    Raises:
        SettingError: it is not; the message names the setting.
    """
    if type(value) is not int or value < least:
        raise SettingError(f"{name} should be a whole number of at least {least}, got {value!r}")


def check_positive(name: str, value: object) -> None:
    """Check that a setting is a finite number above 0.

    Raises:
        SettingError: it is not; the message names the setting.
    """
    if not _is_number(value) or not 0 < value < math.inf:
        raise SettingError(f"{name} should be a number above 0, got {value!r}")


def check_share(name: str, value: object, zero: bool = False) -> None:
    """Check that a setting is a number above 0 and below 1; with ``zero``, 0 is allowed.

    Raises:
        SettingError: it is not; the message names the setting.
    """
    if not _is_number(value) or not 0 <= value < 1 or (value == 0 and not zero):
        bounds = "of at least 0 and below 1" if zero else "above 0 and below 1"
        raise SettingError(f"{name} should be a number {bounds}, got {value!r}")


def _is_number(value: object) -> TypeGuard[int | float]:
    return type(value) in (int, float)
