"""Read ``.npz`` archives of others: nothing is unpickled, and nothing is allocated before its size is known to be
small.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from tokenize import TokenError

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import DataFileError

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
        raise DataFileError(f"{where}: expected an .npz archive, got a damaged one: {_in_words(error)}") from None


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
        shape, fortran, dtype = read_header(stream)
    except _DAMAGED as error:
        raise DataFileError(
            f"{where}: expected the header of an array, got a damaged one: {_in_words(error)}"
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
    if not dtype.itemsize:
        return np.zeros(shape, dtype)
    values = np.frombuffer(content, dtype, count, start)
    return values.reshape(shape, order="F" if fortran else "C").copy(order="K")


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]:.100}" if str(error) else type(error).__name__
