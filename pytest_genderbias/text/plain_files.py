"""Files of others: only regular files are opened, they are read within a bound, and text is UTF-8.

A pipe, a device or a socket in place of a file would wait for ever, or never end. Errors name the file, and the line of a wrong
byte.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import BinaryIO

from pytest_genderbias.errors import DataFileError

_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}  # fmt: skip


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read its bytes. Symbolic links are followed.

    Raises:
        DataFileError: the file is missing or cannot be read, or is a folder, a pipe, a device or a socket.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise DataFileError(
                f"{path}: cannot be read: expected a file, got {_KINDS.get(stat.S_IFMT(mode), 'something else')}"
            )
        return path.open("rb")
    except FileNotFoundError:
        raise DataFileError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise DataFileError(f"{path}: cannot be read: {reason(error)}") from None


def read_whole(path: Path, most: int) -> str:
    """Return the text of a UTF-8 file, without a byte order mark.

    Args:
        path: The file.
        most: The largest size in bytes.

    Raises:
        DataFileError: as :func:`open_regular`; the file is larger, or not UTF-8.
    """
    with open_regular(path) as file:
        try:
            content = file.read(most + 1)
        except OSError as error:
            raise DataFileError(f"{path}: cannot be read: {reason(error)}") from None
    if len(content) > most:
        raise DataFileError(f"{path}: cannot be read: expected at most {most:,} bytes, got more")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise not_utf8(
            path, line, error.object[error.start], error.start - content.rfind(b"\n", 0, error.start)
        ) from None


def not_utf8(path: Path, line: int, byte: int, position: int) -> DataFileError:
    """Return the error of a byte that is not UTF-8, at a position from 1 in its line."""
    return DataFileError(
        f"{path}:{line}: not UTF-8: byte 0x{byte:02x} at position {position}; convert the file, for example with "
        "iconv -f LATIN1 -t UTF-8"
    )


def reason(error: Exception) -> str:
    """Return the reason of a system error, without the name of the file and the number of the error."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
