"""Mutated files of every format: each is refused with an error of the package, or read.

The suite reads a few files of each format. ``FUZZ_FILES=10000 python -m pytest tests/fuzz -n 16`` reads 10,000 of each,
and ``FUZZ_SEED=1`` others.
"""

from __future__ import annotations

import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from support.fuzzed_formats import EXAMPLES, NAMES, Format, formats
from support.mutations import MUTATIONS, Mutation, mutate

from pytest_genderbias.errors import BiasError

_SHARD = 500  #: Files of one test, so that many workers share a format.
_SEED = int(os.environ.get("FUZZ_SEED", "0"))
_LONGEST = 4_100  #: characters of an error


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Format]:
    return formats(tmp_path_factory.mktemp("book"))


def _folder_of(known_format: Format, folder: Path) -> Path:
    for name, content in known_format.beside.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("shard", range(math.ceil(EXAMPLES / _SHARD)))
@pytest.mark.parametrize("name", NAMES)
def test_a_mutated_file_is_refused_or_read(
    name: str,
    shard: int,
    known: dict[str, Format],
    tmp_path_factory: pytest.TempPathFactory,
    count_files: Callable[[str, Counter[str]], None],
) -> None:
    if name not in known:
        pytest.skip("needs pyarrow, or peft")
    known_format, counts = known[name], Counter[str]()
    folder = _folder_of(known_format, tmp_path_factory.mktemp(name))
    files = min(_SHARD, EXAMPLES - shard * _SHARD)

    @seed(shard + 1_000 * _SEED)
    @settings(max_examples=files, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(range(len(known_format.files))), MUTATIONS)
    def read_one(which: int, mutations: Sequence[Mutation]) -> None:
        file, valid = known_format.files[which]
        path = folder / file
        path.write_bytes(mutate(valid, known_format.syntax, mutations))
        try:
            meaning, error = _meaning(known_format, path)
        finally:
            if file in known_format.beside:  # which other files of the format go with
                path.write_bytes(known_format.beside[file])
        counts["read" if error is None else "refused"] += 1
        if error is not None:
            assert error.isprintable()
            assert 10 < len(error) < _LONGEST
        elif known_format.sealed:
            path.write_bytes(valid)
            assert meaning == known_format.read(path)

    try:
        read_one()
    finally:
        shutil.rmtree(folder)
        count_files(name, counts)


@pytest.mark.parametrize("name", NAMES)
def test_another_style_keeps_the_meaning(name: str, known: dict[str, Format], tmp_path: Path) -> None:
    if name not in known:
        pytest.skip("needs pyarrow, or peft")
    folder = _folder_of(known[name], tmp_path)
    for file, valid in known[name].files:
        (folder / file).write_bytes(valid)
        meaning, error = _meaning(known[name], folder / file)
        assert error is None or name == "suite", "a suite may need data, in either style"
        for style in known[name].styles:
            (folder / file).write_bytes(style(valid))
            assert _meaning(known[name], folder / file) == (meaning, error), style.__name__


def _meaning(known_format: Format, path: Path) -> tuple[object, str | None]:
    """Return what a file means, or the error of this package with which it is refused."""
    try:
        return known_format.read(path), None
    except BiasError as error:
        return None, str(error)
