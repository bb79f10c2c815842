"""Plain JSON values for objects that leave the process: conversion and arrays as text.

:func:`~pytest_genderbias.text.schema.read_value` reads them back. ``.npz`` archives of others are
read here, too: nothing is unpickled, and nothing is allocated before its size is known to be small.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from tokenize import TokenError
from typing import Any, ClassVar, TypeVar, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.plain_files import check_depth
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.schema import read_value

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
        return origin(map(partial(read_stored, arguments[0], where=where), read_value(list[Any], value, where)))
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
    if version is None:
        raise DataFileError(f"{where}: expected the key 'schema'; name a file that pytest-genderbias wrote")
    if version != schema:
        raise DataFileError(
            f"{where}: expected schema {schema}, got {brief(version)}; read it with the version of pytest-genderbias"
            " that wrote it"
        )
    return content


MOST_BYTES = 256 * 1024 * 1024  #: of all arrays together, unpacked
_KINDS = {"b": "booleans", "i": "integers", "u": "integers", "f": "floats", "S": "bytes", "U": "texts"}
_MAGIC = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
#: what zipfile and numpy raise on damaged archives and headers, besides OSError
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, TypeError, KeyError, NotImplementedError,
    RuntimeError, SyntaxError, TokenError, OverflowError, MemoryError,
)  # fmt: skip


def read_npz(packed: bytes, where: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of an ``.npz`` archive by name: numbers, booleans or texts.

    Args:
        packed: the bytes of the archive.
        where: what is read; it begins every message.

    Raises:
        DataFileError: the archive is damaged or too large, or a member is no array of these kinds.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            members = archive.infolist()
            _check_members(members, where)
            return {
                member.filename.removesuffix(".npy"): _read_npy(archive.read(member), f"{where}: {member.filename}")
                for member in members
            }
    except DataFileError:  # a ValueError, too
        raise
    except (OSError, *_DAMAGED) as error:
        raise DataFileError(f"{where}: expected an .npz archive, got a damaged one: {_describe(error)}") from None


def _check_members(members: list[zipfile.ZipInfo], where: str) -> None:
    names = [member.filename for member in members]
    if len(set(names)) < len(names) or not all(name.endswith(".npy") for name in names):
        raise DataFileError(f"{where}: expected members NAME.npy, each once, got {', '.join(names)[:80]}")
    size = sum(member.file_size for member in members)
    if size > MOST_BYTES:  # zipfile reads no more of a member than it declares here
        raise DataFileError(f"{where}: expected at most {MOST_BYTES:,} bytes of arrays, got {size:,}")


def _read_npy(content: bytes, where: str) -> NDArray[np.generic]:
    stream = io.BytesIO(content)
    try:
        read_header = _MAGIC[np.lib.format.read_magic(stream)]
        shape, _, dtype = read_header(stream)
    except _DAMAGED as error:
        raise DataFileError(
            f"{where}: expected the header of an array, got a damaged one: {_describe(error)}"
        ) from None
    if dtype.hasobject or dtype.kind not in _KINDS:
        raise DataFileError(
            f"{where}: expected {', '.join(dict.fromkeys(_KINDS.values()))}, got {dtype.name}"
            + (", which would need pickle" if dtype.hasobject else "")
        )
    start, count = stream.tell(), math.prod(shape)
    if min(shape, default=0) < 0 or count > MOST_BYTES or count * dtype.itemsize != len(content) - start:
        raise DataFileError(
            f"{where}: expected an array of shape {shape!s:.80} and type {dtype.name}, got {len(content) - start:,}"
            " bytes"
        )
    return np.asarray(np.lib.format.read_array(io.BytesIO(content)))


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]:.100}" if str(error) else type(error).__name__
