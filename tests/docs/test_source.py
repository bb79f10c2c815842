"""Where the package comes from: a clone, until an index has it. Nothing offers a name that anybody could register on
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.snippets import snippets

import pytest_genderbias
from pytest_genderbias.command_line import first_files
from pytest_genderbias.errors import SOURCE, installing
from pytest_genderbias.models.spec import ModelSpec

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(pytest_genderbias.__file__).parent
#: A command of an installer, up to the end of its line, with the name of the package without a place before it.
OFFER = re.compile(
    r"\b(?:pip|pipx|uv|poetry|conda)3?\b[^\n]*?\b(?:install|add)\b[^\n]*?(?<![\w./-])pytest[-_]genderbias\b(?![-_/])",
    re.I,
)
PAGE = re.compile(r"pypi\.org/(?:project|p)/pytest|anaconda\.org/\S*genderbias", re.I)
_TEXTS = {
    ".py",
    ".md",
    ".yaml",
    ".yml",
    ".toml",
    ".cfg",
    ".txt",
    ".json",
    ".jinja",
    ".js",
    ".css",
    ".ini",
    ".ipynb",
    "",
}


def texts() -> Iterator[tuple[str, str]]:
    """Yield the files of the project: of the package, and of what is beside it."""
    folders = [
        PACKAGE,
        *(ROOT / name for name in ("docs", "examples", "scripts", "benchmarks", "wordlists", "fixtures", ".ci")),
    ]
    for path in [*ROOT.glob("*.*"), *(path for folder in folders for path in folder.rglob("*"))]:
        if path.is_file() and path.suffix in _TEXTS and "__pycache__" not in path.parts:
            yield str(path), path.read_text(encoding="utf-8", errors="replace")


def test_no_file_offers_the_name_of_an_index() -> None:
    found = [
        f"{name}: {line}"
        for name, text in texts()
        for line in text.splitlines()
        if OFFER.search(line) or PAGE.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "pip install pytest-genderbias",
        "pip install 'pytest-genderbias[ray]'",
        'pip3 install -U "pytest_genderbias"',
        "uv add pytest-genderbias",
        "python -m pip install -q pytest-genderbias==0.1",
    ],
)
def test_what_an_offer_is(text: str) -> None:
    assert OFFER.search(text)


@pytest.mark.parametrize("text", [installing("ray"), first_files._INSTALL, "pip install -e ../pytest-genderbias"])
def test_a_clone_is_none(text: str) -> None:
    assert not OFFER.search(text) and SOURCE.endswith("/pytest-genderbias")


def test_each_extra_that_a_message_names_is_there() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    sources = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    named = set(re.findall(r"installing\([\"'](\w+)[\"']\)", sources))
    assert named == {"gguf", "parquet", "peft", "postgres", "ray", "served", "spacy", "train"}
    assert named | {"onnx", "openvino", "mlflow"} <= extras.keys()
    assert "report" not in extras


@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_the_guide_shows_the_workflow_that_init_writes(ci: str) -> None:
    """There is one workflow, and no page has another that installs the package."""
    name = first_files._WORKFLOWS[ci]
    written = first_files.workflow(ci, ModelSpec("candidate", "./checkpoint", "directory", "./checkpoint"), None)
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    shown = [
        snippet
        for page in pages
        if page.is_file()
        for snippet in snippets(page.read_text(encoding="utf-8"))
        if snippet.language == "yaml" and ("pip install" in snippet.text or f"uses: {SOURCE}" in snippet.text)
    ]
    assert [snippet.text for snippet in shown if snippet.title == name] == [written]
    assert {snippet.title for snippet in shown} == set(first_files._WORKFLOWS.values())
