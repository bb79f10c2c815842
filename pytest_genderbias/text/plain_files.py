"""Files of others: only regular files are opened, they are read within bounds, and text is UTF-8.

A pipe, a device or a socket in place of a file would wait for ever, or never end; a small compressed file may unpack to
terabytes. Errors name the file, and the line of a wrong byte.

JSON that people and tools edit is one value, of bounded depth, with finite numbers, and no key twice. Python's own
reader takes ``NaN``, keeps the last of several equal keys, and ends in a RecursionError where brackets are deep.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import math
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.escaping import printable
from pytest_genderbias.text.printable import brief

MOST_LINE = 64 << 20  #: The longest line in bytes.
MOST_UNPACKED = 64 << 20  #: Bytes that any compressed file may unpack to.
MOST_RATIO = 250  #: What a larger one may have, as a multiple of its size. Texts are compressed to a twentieth at best.

#: Byte order marks, longer ones first, since UTF-32's begins with UTF-16's.
_MARKS = (
    ("UTF-32", codecs.BOM_UTF32_LE),
    ("UTF-32", codecs.BOM_UTF32_BE),
    ("UTF-16", codecs.BOM_UTF16_LE),
    ("UTF-16", codecs.BOM_UTF16_BE),
)
#: Which bytes of a character are mostly zero in a text of Latin letters, by encoding.
_ZEROS = {
    "UTF-32LE": (False, True, True, True),
    "UTF-32BE": (True, True, True, False),
    "UTF-16LE": (False, True),
    "UTF-16BE": (True, False),
}
_SAMPLE = 4096  #: bytes by which an encoding is told

_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}  # fmt: skip


_POINTER = (  #: what Git LFS leaves in the place of a file that was not fetched
    b"version https://git-lfs.github.com/spec/"
)
POINTER_ADVICE = "is a Git LFS pointer, not the file itself; fetch the file: git lfs pull"


def is_pointer(path: Path) -> bool:
    """Return whether a file is a pointer of Git LFS, which stands for a file that was not fetched."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            return file.read(len(_POINTER)) == _POINTER
    except (OSError, ValueError):
        return False


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read its bytes. Symbolic links are followed.

    Raises:
        DataFileError: the file is missing or cannot be read, is a folder, a pipe, a device or a socket, or a pointer of
            Git LFS.
    """
    if is_pointer(path):
        raise DataFileError(f"{path}: {POINTER_ADVICE}")
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return path.open("rb")
    except FileNotFoundError:
        raise DataFileError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise DataFileError(f"{path}: cannot be read: {reason(error)}") from None
    raise DataFileError(f"{path}: expected a file, got {_KINDS.get(stat.S_IFMT(mode), 'something else')}")


class _Unpacked(io.RawIOBase):
    """The bytes of a gzip file, which end in an error where they are too many for its size."""

    def __init__(self, path: Path) -> None:
        self._path, self._packed = path, open_regular(path)
        self._most = max(MOST_UNPACKED, MOST_RATIO * path.stat().st_size)
        self._unpacked = gzip.GzipFile(fileobj=self._packed)
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # any writable buffer
        count = self._unpacked.readinto(buffer)
        self._count += count
        if self._count > self._most:
            raise DataFileError(
                f"{self._path}: cannot be read: expected at most {self._most:,} bytes after decompression, got more; "
                "if you trust the file, decompress it first"
            )
        return count

    def close(self) -> None:
        self._unpacked.close()
        self._packed.close()
        super().close()


def open_unpacked(path: Path) -> BinaryIO:
    """Open a regular file to read its bytes; a file whose name ends in ``.gz`` is decompressed.

    To read may raise what :func:`unreadable` takes, or a :class:`DataFileError` if the file unpacks to more than 64 MiB
    and 250 times its size.

    Raises:
        DataFileError: as :func:`open_regular`.
    """
    if not path.name.lower().endswith(".gz"):
        return open_regular(path)
    return io.BufferedReader(_Unpacked(path), buffer_size=1 << 16)


def unreadable(path: Path, error: OSError | EOFError | zlib.error, line: int = 0) -> DataFileError:
    """Return the error of a file that cannot be read further than to a line."""
    if isinstance(error, EOFError):
        return DataFileError(f"{path}{f':{line}' if line else ''}: the gzip file is truncated; download it again")
    return DataFileError(f"{path}: cannot be read: {reason(error)}")


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, plain or gzip, each with its number from 1 and with its line end.

    Raises:
        DataFileError: at the first line, if the file is missing or cannot be opened; later, if the gzip file is
            truncated, damaged or a bomb, or a line is longer than 64 MiB.
    """
    number = 0
    with open_unpacked(path) as file:
        try:
            while line := file.readline(MOST_LINE + 1):
                number += 1
                if number == 1 and (encoding := encoding_of(line)):
                    raise other_encoding(path, encoding)
                if len(line) > MOST_LINE:
                    raise DataFileError(f"{path}:{number}: expected a line of at most {MOST_LINE:,} bytes, got more")
                yield number, line
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(path, error, number + 1) from None


def read_whole(path: Path, most: int) -> str:
    """Return the text of a UTF-8 file, plain or gzip, without a byte order mark.

    Args:
        path: The file.
        most: The largest size in bytes, after decompression.

    Raises:
        DataFileError: as :func:`open_regular`; the file is larger, or not UTF-8.
    """
    with open_unpacked(path) as file:
        try:
            content = file.read(most + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(path, error) from None
    return as_text(path, content, most)


def as_text(path: PurePath, content: bytes, most: int) -> str:
    """Return the text of the bytes of a UTF-8 file, without a byte order mark.

    Args:
        path: of the file.
        content: its bytes.
        most: the largest number of them.

    Raises:
        DataFileError: they are more, or not UTF-8.
    """
    if len(content) > most:
        raise DataFileError(f"{path}: cannot be read: expected at most {most:,} bytes, got more")
    if encoding := encoding_of(content):
        raise other_encoding(path, encoding)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from None


def encoding_of(beginning: bytes) -> str:
    """Return the name of a text's encoding if it has two or four bytes a character: by its byte order mark, or by its
    zero bytes.

    >>> encoding_of("a: 1".encode("utf-16")), encoding_of("a: 1".encode("utf-16-be")), encoding_of(b"a: 1")
    ('UTF-16', 'UTF-16BE', '')
    """
    for encoding, mark in _MARKS:
        if beginning.startswith(mark):
            return encoding
    sample = beginning[:_SAMPLE]
    if b"\0" not in sample:
        return ""
    for encoding, pattern in _ZEROS.items():
        parts = [sample[place :: len(pattern)] for place in range(len(pattern))]
        shares = [part.count(0) / max(1, len(part)) for part in parts]
        if all(share > 1 / 2 if is_zero else share < 1 / 4 for share, is_zero in zip(shares, pattern, strict=True)):
            return encoding
    return ""


def other_encoding(path: PurePath, encoding: str) -> DataFileError:
    """Return the error of a text in an encoding with two or four bytes a character."""
    return DataFileError(f"{path}:1: not UTF-8, but {encoding}; convert the file with iconv -f {encoding} -t UTF-8")


def not_utf8(path: PurePath, error: UnicodeDecodeError, first: int = 1) -> DataFileError:
    """Return the error of a byte that is not UTF-8, in bytes whose first line has this number."""
    content, start = error.object, error.start
    line, position = first + content.count(b"\n", 0, start), start - content.rfind(b"\n", 0, start)
    if b"\0" in content[:_SAMPLE]:
        return DataFileError(f"{path}:{line}: expected text in UTF-8, got a binary file; name another file")
    likely = "WINDOWS-1252" if content[start] < 0xA0 else "LATIN1"  # which has control characters there
    return DataFileError(
        f"{path}:{line}: not UTF-8: byte 0x{content[start]:02x} at position {position}; convert the file, for example "
        f"with iconv -f {likely} -t UTF-8"
    )


def expand(path: str | Path) -> Path:
    """Return a path with the home folder in place of ``~``.

    Raises:
        SettingError: the home folder is unknown.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise SettingError(f"{path}: unknown home folder") from None


def is_regular(path: Path) -> bool:
    """Return whether a path is a file; a name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def reason(error: Exception) -> str:
    """Return the reason of a system error, without the name of the file and the number of the error."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


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
        inside: list[object] = []
        for outer in level:
            inner = outer.values() if isinstance(outer, Mapping) else outer if isinstance(outer, (list, tuple)) else ()
            inside += [item for item in inner if isinstance(item, (Mapping, list, tuple))]
        if not inside:
            return
        level = inside
    raise DataFileError(_too_deep(where))


def _too_deep(where: str) -> str:
    return f"{where}: expected at most {MOST_DEPTH} mappings and lists inside each other, got more"


# Stores of others, at URLs that fsspec opens.

_URL = re.compile(r"(\w[\w+.-]*)://([^/@?#]*)(/[^?#]*)?")
_LONG = 200  #: characters of an error of a store that a message repeats


def check_url(url: str) -> tuple[str, str, str]:
    """Return the protocol, the bucket or host, and the path of the URL of a folder whose package is installed.

    Raises:
        SettingError: the URL names no store, holds a key, or its package is missing.
    """
    import fsspec

    match = _URL.fullmatch(url)
    if match is None:
        raise SettingError(
            "expected the URL of a folder, as s3://BUCKET/FOLDER, without a user, a password or a query; its keys"
            " belong in the environment"
        )
    try:
        fsspec.get_filesystem_class(match[1])
    except (ImportError, ValueError) as error:
        raise SettingError(f"cannot open {match[1]}://: {printable(str(error))}") from None
    return match[1], match[2], match[3] or ""


def put_file(files: Any, name: str, content: bytes, **how: str) -> None:
    """Write a file to a store, and make its folder, but none above, where the store has real folders."""
    try:
        files.pipe_file(name, content, **how)
    except FileNotFoundError:
        with suppress(FileExistsError):
            files.mkdir(name.rpartition("/")[0], create_parents=False)
        files.pipe_file(name, content, **how)


def reason_of(error: Exception) -> str:
    """Return the message of an error of a store, without its end if it is long."""
    return brief(str(error), _LONG) if str(error) else type(error).__name__
