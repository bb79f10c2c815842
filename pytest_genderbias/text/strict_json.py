"""JSON of files that people and tools edit: one value, of bounded depth, with finite numbers, and no key twice.

Python's own reader takes ``NaN``, keeps the last of several equal keys, and ends in a RecursionError where brackets are
deep.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from pytest_genderbias.errors import DataFileError

MOST_DEPTH = 64  #: values inside each other


def parse_json(text: str, where: str, line: int | None = None, finite: bool = True) -> object:
    """Return the value of a JSON text.

    Args:
        text: the text, without a byte order mark.
        where: what is read, a file; it begins every message, with the line where there is one.
        line: the line of the file that the text is; ``None`` if it is the whole file.
        finite: whether ``NaN`` and infinite numbers are refused. In rows of a table they may be in keys that no reader
            reads.

    Raises:
        DataFileError: the text is no JSON, is too deep, has a key twice, or a number that is not finite.

    >>> parse_json('{"a": [1, 2.5]}', "a.json")
    {'a': [1, 2.5]}
    """

    first = line or 1
    where, file = (where if line is None else f"{where}:{line}"), where

    def number(digits: str) -> float:
        value = float(digits)
        if finite and not math.isfinite(value):
            raise DataFileError(f"{where}: expected finite numbers, got {digits}")
        return value

    def mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
        content = dict(pairs)
        if len(content) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for place, key in enumerate(keys) if key in keys[:place])
            raise DataFileError(f"{where}: expected every key once, got {twice!r:.80} twice in one mapping")
        return content

    try:
        value: object = json.loads(text, object_pairs_hook=mapping, parse_constant=number, parse_float=number)
    except DataFileError:  # a ValueError, too
        raise
    except json.JSONDecodeError as error:
        raise DataFileError(
            f"{file}:{first + error.lineno - 1}: not valid JSON: {error.msg} at column {error.colno}"
        ) from None
    except ValueError:  # an integer of thousands of digits
        raise DataFileError(f"{where}: not valid JSON: a number of thousands of digits") from None
    except RecursionError:
        raise DataFileError(_too_deep(where)) from None
    check_depth(value, where)
    return value


def check_depth(value: object, where: str) -> None:
    """Reject a plain value with more than 64 mappings or lists inside each other.

    Raises:
        DataFileError: it has more. ``where`` begins the message.
    """
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise DataFileError(_too_deep(where))


def _inside(value: object) -> list[object]:
    """Return the mappings and lists directly inside a value."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return [item for item in inner if isinstance(item, (Mapping, list, tuple))]


def _too_deep(where: str) -> str:
    return f"{where}: expected at most {MOST_DEPTH} mappings and lists inside each other, got more"
