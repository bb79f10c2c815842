"""Archives of arrays: what numpy writes is read bit for bit, and all else is one error before anything large is
allocated.
"""

from __future__ import annotations

import io
import zipfile
import zlib

import numpy as np
import pytest

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.measurement import plain_data
from pytest_genderbias.measurement.plain_data import read_npz

ARRAYS = {
    "floats": np.array([[1.5, -0.0], [np.nan, np.inf]], dtype=np.float32),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big": np.arange(3, dtype=">i8"),
    "texts": np.array(["nurse", "\u00e4"]),
    "bytes": np.array([b"a", b"bc"]),
    "empty": np.zeros((0, 4)),
    "one": np.array(7),
    "no text": np.array(["", ""]),
    "flags": np.array([True, False]),
}


def saved(**arrays: object) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def zipped(content: bytes, name: str = "a.npy", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text.encode("latin1")


def test_arrays_are_those_of_numpy_bit_for_bit() -> None:
    packed = saved(**ARRAYS)
    read = read_npz(packed, "a.npz")
    with np.load(io.BytesIO(packed)) as loaded:
        assert read.keys() == set(loaded.files)
        for name, array in read.items():
            there = loaded[name]
            assert (array.dtype, array.shape, array.tobytes()) == (there.dtype, there.shape, there.tobytes())
            assert array.flags.f_contiguous == there.flags.f_contiguous and array.flags.writeable


def with_a_broken_stream() -> bytes:
    packed = bytearray(saved(a=np.arange(1000.0)))
    packed[60:90] = b"\xff" * 30
    return bytes(packed)


def of_another_method() -> bytes:
    packed = bytearray(zipped(b"x", method=zipfile.ZIP_STORED))
    for signature, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = packed.index(signature) + place
        packed[start : start + 2] = (99).to_bytes(2, "little")
    return bytes(packed)


HUGE = "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000000,), }"
PICKLED = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
NEGATIVE = "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -8), }"
VOID = "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }"
NO_BYTES = "{'descr': '<U0', 'fortran_order': False, 'shape': (100000000000000,), }"


DAMAGED = {
    "nothing": (b"", "a.npz: expected an .npz archive, got a damaged one: BadZipFile"),
    "only a signature": (b"PK\x03\x04", "a.npz: expected an .npz archive, got a damaged one: BadZipFile"),
    "cut": (saved(a=np.arange(9))[:-30], "a.npz: expected an .npz archive, got a damaged one"),
    "a broken stream": (with_a_broken_stream(), "a.npz: expected an .npz archive, got a damaged one: error: Error -3"),
    "another method": (of_another_method(), "a.npz: expected an .npz archive, got a damaged one: NotImplementedError"),
    "another member": (zipped(b"", "notes.txt"), r"a.npz: expected members NAME.npy, each once, got notes.txt"),
    "an empty member": (zipped(b""), r"a.npz: a.npy: expected the header of an array, got a damaged one: ValueError"),
    "half a header": (zipped(header("{") + b"x"), r"a.npz: a.npy: expected the header of an array"),
    "deep brackets": (zipped(header("(" * 5000)), r"a.npz: a.npy: expected the header of an array"),
    "one long text": (zipped(header("'" * 9001)), r"a.npz: a.npy: expected the header of an array"),
    "a long header": (zipped(header("x" * 60_000)), r"a.npz: a.npy: expected the header of an array"),
    "a later version": (zipped(header(HUGE, b"\x03\x00")), r"a.npz: a.npy: expected the header of an array"),
    "a huge shape": (
        zipped(header(HUGE) + b"x" * 8),
        r"a.npy: expected an array of shape \(100000000000000,\) and type float64, got 8 bytes",
    ),
    "a negative shape": (zipped(header(NEGATIVE) + b"x" * 64), r"a.npy: expected an array of shape \(-1, -8\)"),
    "no bytes for many": (zipped(header(NO_BYTES)), r"a.npy: expected an array of shape \(100000000000000,\)"),
    "pickled": (zipped(header(PICKLED) + b"cos\nsystem\n(S'x'\ntR."), "got object, which would need pickle"),
    "a structure": (zipped(header(VOID) + b"x" * 8), "expected booleans, integers, floats, bytes, texts, got void64"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_archive_is_one_error(case: str) -> None:
    packed, message = DAMAGED[case]
    with pytest.raises(DataFileError, match=message) as caught:
        read_npz(packed, "a.npz")
    assert "\n" not in str(caught.value)


def test_a_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zipped(bytes(plain_data.MOST_BYTES // 64))
    monkeypatch.setattr(plain_data, "MOST_BYTES", plain_data.MOST_BYTES // 128)
    monkeypatch.setattr(zlib, "decompressobj", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(DataFileError, match=r"a.npz: expected at most 2,097,152 bytes of arrays, got 4,194,304"):
        read_npz(packed, "a.npz")


@pytest.mark.parametrize("seed", range(3))
def test_whatever_bytes_change_it_is_the_same_arrays_or_one_error(seed: int) -> None:
    packed, rng = saved(**ARRAYS), np.random.default_rng(seed)
    there = read_npz(packed, "a.npz")
    for _ in range(150):
        changed = bytearray(packed)
        for place in rng.integers(len(changed), size=rng.integers(1, 4)):
            changed[place] = rng.integers(256)
        try:
            read = read_npz(bytes(changed), "a.npz")
        except DataFileError:
            continue
        values = {array.tobytes() for array in there.values()}
        assert all(array.tobytes() in values for array in read.values()), "a checksum covers what is read"
