"""Files of known programs that are not read, and what turns them into files that are."""

from __future__ import annotations

import json
import re
import struct
from contextlib import suppress
from pathlib import Path
from shlex import quote

from pytest_genderbias.datasets.files import column_names
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.text.plain_files import open_unpacked

_FASTTEXT = struct.pack("<i", 793712314)  #: the number with which a model of fastText begins
_WORD2VEC = re.compile(rb"[0-9]{1,12} [1-9][0-9]{0,5}\n")  #: the header of word2vec's binary format: words, dimensions
_ANSWER = re.compile(r".+_pred(_.+)?")  #: a column of answers in the files that BBQ's authors publish


def how_to_convert(path: Path) -> str | None:
    """Return what a file is and the command that converts it; ``None`` if it is nothing known.

    Known are word2vec's binary format, models of fastText, and the files with answers that BBQ's authors publish.
    """
    with suppress(DataFileError, SettingError, OSError):
        if path.name.lower().removesuffix(".gz").endswith(".bin"):
            return _of_vectors(path)
        if path.name.lower().removesuffix(".gz").endswith(".jsonl"):
            return _of_bbq(path)
    return None


def _of_vectors(path: Path) -> str | None:
    with open_unpacked(path) as file:
        start = file.read(32)
    if start.startswith(_FASTTEXT):
        vec = quote(str(path.with_suffix(".vec")))
        return (
            "it is a model of fastText, and its vectors are read from a .vec file: take the one that is published"
            " beside it, or write the vectors of the words in words.txt, one per line: fasttext print-word-vectors"
            f" {quote(str(path))} < words.txt > {vec}"
        )
    if _WORD2VEC.match(start):
        text = str(path.parent / f"{path.name.partition('.bin')[0]}.txt")
        code = (
            "from gensim.models import KeyedVectors as K; "
            f"K.load_word2vec_format({_literal(str(path))}, binary=True).save_word2vec_format({_literal(text)})"
        )
        return (
            f"it has word2vec's binary format, and its text format is read: python -c {quote(code)} (pip install"
            " gensim)"
        )
    return None


def _of_bbq(path: Path) -> str | None:
    names = column_names(path)
    answers = [name for name in names if _ANSWER.fullmatch(name)]
    if not answers or not {"example_id", "category"} <= set(names):
        return None
    opened = "gzip.open" if path.name.lower().endswith(".gz") else "open"
    code = (
        f'import gzip, json; rows = map(json.loads, {opened}({_literal(str(path))}, "rt", encoding="utf-8")); '
        '[print(json.dumps({"id": "{category}-{example_id}".format(**row), "answer": row['
        f"{_literal(answers[0])}]}})) for row in rows]"
    )
    return (
        f"it has BBQ's answers by its authors, with one column for each way to ask ({', '.join(answers)}); write one of"
        f" them as a file of answers: python -c {quote(code)} > answers.jsonl"
    )


def _literal(text: str) -> str:
    """Return a text as Python writes it, in double quotes: a shell needs single ones around the code."""
    return json.dumps(text)
