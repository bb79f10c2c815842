"""docs/guides/python.md: every example runs and prints what stands there."""

from __future__ import annotations

import doctest
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "python.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="the page is not part of what is tested here")
@pytest.mark.skipif(find_spec("sklearn") is None, reason="needs scikit-learn")
def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```pycon\n(.*?)```", text, flags=re.DOTALL)
    assert text.count(">>>") == sum(block.count(">>>") for block in blocks) > 30
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        if "import spacy" in block and find_spec("spacy") is None:
            continue
        test = doctest.DocTestParser().get_doctest(block, names, f"block {number}", str(PAGE), 0)
        failures: list[str] = []
        runner.run(test, out=failures.append, clear_globs=False)
        names = test.globs
        assert not failures, "".join(failures)
