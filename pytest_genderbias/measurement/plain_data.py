"""Plain JSON values for objects that leave the process: conversion and arrays as text.

:func:`~pytest_genderbias.text.schema.read_value` reads them back.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, TypeVar, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.measurement.npz import read_npz
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.schema import read_value
from pytest_genderbias.text.strict_json import check_depth

Arrays = Mapping[str, NDArray[np.generic]]
_Kept = TypeVar("_Kept", bound="Stored")

_NOT_IN_JSON = ("nan", "inf", "-inf")
_FLOAT = "float"  #: the only key of the mapping that stands for a float that JSON does not have


def as_plain(value: object, finite: bool = False) -> object:
    """Return a value as JSON has it: numpy scalars as Python's, tuples and arrays as lists, keys as text.

    NaN and infinities become a mapping, which :func:`from_plain` reads, or ``None`` if ``finite``.

    >>> as_plain({"a": (np.float32(0.5), float("nan"))})
    {'a': [0.5, {'float': 'nan'}]}

    Raises:
        TypeError: JSON has no such value.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if finite else {_FLOAT: repr(value)}
    if isinstance(value, Mapping):
        return {str(key): as_plain(item, finite) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(item, finite) for item in value]
    if isinstance(value, frozenset):
        return sorted(value)
    if not isinstance(value, Stored) and hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_plain(getattr(value, field.name), finite) for field in fields(value)}
    raise TypeError(f"expected a value that JSON can hold, got {type(value).__name__}: {value!r:.80}")


def from_plain(value: object, where: str = "plain value") -> object:
    """Return what :func:`as_plain` was given, with lists for tuples.

    Raises:
        DataFileError: more than 64 mappings and lists are inside each other. ``where`` begins the message.

    >>> from_plain({"a": [0.5, {"float": "inf"}]})
    {'a': [0.5, inf]}
    """
    check_depth(value, where)
    return _from_plain(value)


def _from_plain(value: object) -> object:
    if isinstance(value, Mapping):
        if set(value) == {_FLOAT} and isinstance(value[_FLOAT], str) and value[_FLOAT] in _NOT_IN_JSON:
            return float(value[_FLOAT])
        return {str(key): _from_plain(item) for key, item in value.items()}
    return [_from_plain(item) for item in value] if isinstance(value, list) else value


class Stored:
    """A dataclass that is kept as plain JSON values.

    ``form``: the version of what is kept, 0 without one. ``called``: what messages call it.
    """

    form: ClassVar[int] = 0
    called: ClassVar[str]

    def to_dict(self, finite: bool = False) -> dict[str, object]:
        """Return plain JSON values, which :meth:`from_dict` reads. With ``finite``, NaN and infinities become
        ``None``.
        """
        content = {one.name: as_plain(getattr(self, one.name), finite) for one in fields(self)}  # type: ignore[arg-type]
        return {"schema": self.form, **content} if self.form else content

    @classmethod
    def from_dict(cls: type[_Kept], data: object, where: str = "") -> _Kept:
        """Return what :meth:`to_dict` wrote. ``where`` begins messages.

        Raises:
            DataFileError: a key is missing, unknown or of another type, or the form is another.
        """
        where = where or cls.called
        content = read_schema(data, cls.form, where) if cls.form else data
        return read_value(cls, from_plain(content, where), where)


def read_stored(hint: Any, value: object, where: str) -> Any:
    """Return what an annotation names, in which classes with ``from_dict`` read themselves; ``where`` as in
    :func:`~pytest_genderbias.text.schema.read_value`.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hasattr(hint, "from_dict"):
        return hint.from_dict(value)
    if origin in (tuple, frozenset):
        return origin(read_stored(arguments[0], row, where) for row in read_value(list[Any], value, where))
    if origin is Mapping:
        return {name: read_stored(arguments[1], row, where) for name, row in read_mapping(value, where).items()}
    return read_value(hint, value, where)


def pack_arrays(arrays: Arrays) -> str:
    """Return arrays as text: a compressed ``.npz`` in base64, the same text for the same arrays.

    Raises:
        TypeError: an array holds Python objects, which would need pickle.
    """
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise TypeError(f"the array {name!r} holds Python objects; expected numbers, booleans or text")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:  # savez refuses some names, such as "file"
        for name in sorted(arrays):
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asarray(arrays[name]), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue(), zipfile.ZIP_DEFLATED)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def unpack_arrays(text: str, where: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays that :func:`pack_arrays` made a text of.

    Raises:
        DataFileError: the text is damaged or too large, or holds pickled objects. ``where`` begins the message.
    """
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataFileError(f"{where}: expected an .npz archive in base64, got {brief(text)} ({error})") from None
    return read_npz(packed, where)


def same_arrays(first: Arrays, second: Arrays) -> bool:
    """Return whether two mappings hold the same arrays, bit for bit."""
    return first.keys() == second.keys() and all(_same_array(first[name], second[name]) for name in first)


def _same_array(first: NDArray[np.generic], second: NDArray[np.generic]) -> bool:
    x, y = np.asarray(first), np.asarray(second)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def read_mapping(data: object, where: str) -> dict[str, object]:
    """Return ``data`` if it is a mapping with text keys.

    Raises:
        DataFileError: it is not. ``where`` begins the message.
    """
    if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
        raise DataFileError(f"{where}: expected a mapping, got {brief(data)}")
    return dict(data)


def read_schema(data: object, schema: int, where: str) -> dict[str, object]:
    """Return ``data`` without its key ``schema``, which must be ``schema``.

    Raises:
        DataFileError: ``data`` is no mapping, or was written with another schema.
    """
    content = read_mapping(data, where)
    version = content.pop("schema", None)
    if version != schema:
        raise DataFileError(
            f"{where}: expected schema {schema}, got {brief(version)}; read it with the version of pytest-genderbias"
            " that wrote it"
        )
    return content
