"""The comparison of a wheel with the checkout, on a small one of both."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
from support.scripts import load_script

FILES = {
    "pytest_genderbias/__init__.py": b"",
    "pytest_genderbias/papers/configs/a.yaml": b"a: 1\n",
    "pytest_genderbias/wordlists/names.yaml": b"words: [Ann]\n",
    "pytest_genderbias/fixtures/weat.yaml": b"suite: weat\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = (
            tmp_path
            / "checkout"
            / name.replace("pytest_genderbias/wordlists", "wordlists").replace("pytest_genderbias/fixtures", "fixtures")
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "checkout" / "wordlists" / "__pycache__").mkdir()
    (tmp_path / "checkout" / "wordlists" / "__pycache__" / "a.pyc").touch()
    return tmp_path / "checkout"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"pytest_genderbias-1.dist-info/RECORD": b"x"}, []),
        (
            {"pytest_genderbias/wordlists/names.yaml": None},
            ["pytest_genderbias/wordlists/names.yaml: not in the wheel"],
        ),
        ({"pytest_genderbias/papers/configs/a.yaml": b"a: 2\n"}, ["pytest_genderbias/papers/configs/a.yaml: differs"]),
        ({"tests/test_a.py": b""}, ["tests/test_a.py: not in the checkout"]),
    ],
)
def test_a_file_that_is_missing_added_or_changed_is_named(
    tmp_path: Path, checkout: Path, changes: dict[str, bytes | None], found: list[str]
) -> None:
    module = load_script("compare_wheel")
    with ZipFile(tmp_path / "a.whl", "w") as archive:
        for name, content in {**FILES, **changes}.items():
            if content is not None:
                archive.writestr(name, content)
    assert module.differences(tmp_path / "a.whl", checkout) == found
    assert module.main(tmp_path / "a.whl") == 1, "the real checkout has other files"
