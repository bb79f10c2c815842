"""Words that are written from right to left, as a terminal shows them: what stands beside them does not move.

The order is computed as a terminal computes it (UAX #9), with the package python-bidi where it is installed.
"""

from __future__ import annotations

import io
import re

import pytest

from pytest_genderbias.escaping import isolated, print_lines, printable
from pytest_genderbias.text.columns import columns, columns_of

ARABIC, HEBREW, VOCALISED = "معلمة", "מורה", "مُعَلِّمَة"
ROWS = [(ARABIC, "0.50", "pass"), (HEBREW, "-1.25", f"{HEBREW} 12"), ("nurse", "0.75", "fails: nurse, ممرضة (3 of 4)")]


def test_a_run_of_words_is_isolated_and_a_number_behind_it_is_not():
    assert isolated(f"a {ARABIC} {ARABIC}, {VOCALISED} 0.5") == f"a \u2068{ARABIC} {ARABIC}, {VOCALISED}\u2069 0.5"
    assert (
        isolated(f"{ARABIC}  {HEBREW}\n{HEBREW}") == f"\u2068{ARABIC}\u2069  \u2068{HEBREW}\u2069\n\u2068{HEBREW}\u2069"
    )
    assert isolated(f"{ARABIC} and {HEBREW}") == f"\u2068{ARABIC}\u2069 and \u2068{HEBREW}\u2069"
    assert isolated("看護師 café 0.5") == "看護師 café 0.5"


def test_isolates_have_no_width_and_are_balanced():
    for line in columns(ROWS, 80).splitlines():
        shown = isolated(line)
        assert columns_of(shown) == columns_of(line)
        assert re.sub("[^\u2068\u2069]", "", shown) in ("\u2068\u2069", "\u2068\u2069\u2068\u2069")


def test_what_a_file_isolates_itself_is_escaped():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    print_lines(f"\u2068{ARABIC} \u202e\u2069", stream)
    stream.seek(0)
    assert stream.read() == f"\\u2068\u2068{ARABIC}\u2069 \\u202e\\u2069\n"


def test_a_stream_that_cannot_hold_isolates_gets_none():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1256")
    print_lines(ARABIC, stream)
    stream.seek(0)
    assert stream.read() == f"{ARABIC}\n"


def test_columns_do_not_flip():
    """In the order in which a terminal shows a line, each cell stands where the table has it."""
    display = pytest.importorskip("bidi").get_display
    lines = columns(ROWS, 80).splitlines()
    for row, line in zip(ROWS, lines, strict=True):
        shown = re.sub("[\u2066-\u2069]", "", display(isolated(line), base_dir="L"))
        at = line.index(row[1])
        assert shown[at : at + len(row[1])] == row[1]
    assert any(
        display(line, base_dir="L")[line.index(row[1]) :].find(row[1]) != 0
        for row, line in zip(ROWS, lines, strict=True)
    )


def test_a_long_line_is_read_once():
    long = (ARABIC + " " * 3 + "1" * 50) * 20_000
    assert isolated(printable(long)).count("\u2068") == 20_000
