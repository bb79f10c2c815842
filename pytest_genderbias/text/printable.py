"""Escape untrusted text for markdown and JSON, show untrusted texts and values in a few words, and suggest names in the
place of unknown ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.escaping import printable
from pytest_genderbias.text.normal_form import folded

_ALIKE = 0.75  #: least share of letters that two names have in common, as difflib counts it, by default
_MOST_NAMES = 3  #: names that are suggested


def escape(text: str) -> str:
    """Escape markdown markup and terminal control characters, and replace line breaks by spaces.

    >>> escape("a|b <i>")
    'a\\\\|b &lt;i&gt;'
    """
    text = (
        printable(re.sub(r"[\x00-\x1f\x7f]+", " ", text))
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )
    return re.sub(r"([|`*\[\]])", r"\\\1", text)


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> str:
    """Return a table in markdown, whose texts are escaped.

    Args:
        headers: names of the columns.
        rows: cells, one for each header; without any row the text is empty.
        right: numbers of the columns that are aligned to the right.
    """
    from tabulate import tabulate

    cells = [[escape(cell) for cell in row] for row in rows]
    align = ["right" if i in right else "left" for i in range(len(headers))]
    names = [escape(header) for header in headers]
    return tabulate(cells, names, tablefmt="github", disable_numparse=True, colalign=align) if cells else ""


def cut(text: str, most: int) -> str:
    """Return a text of which at most ``most`` characters are left, with dots behind them.

    >>> cut("abcdef", 3), cut("abc", 3)
    ('abc...', 'abc')
    """
    return text if len(text) <= most else f"{text[:most]}..."


def json_text(data: object, sort_keys: bool = True) -> str:
    r"""Return plain data as JSON, one value a line, with sorted keys or in their order. Characters that a terminal
    would obey are escaped.

    A parser reads exactly the data, lone surrogates included.

    >>> print(json_text({"b": "é \u202e\x9b", "a": "\ud800"}))
    {
     "a": "\ud800",
     "b": "é \u202e\u009b"
    }
    """
    text = json.dumps(data, indent=1, sort_keys=sort_keys, ensure_ascii=False)
    if text.replace("\n", "").isprintable():  # nearly all texts
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def brief(value: object, most: int = 80) -> str:
    """Return the ``repr`` of a value of a file, cut to ``most`` characters. A larger value is not walked to its end.

    >>> brief({"a": [1, 2.5]}), brief("x" * 1000, 5), brief([[[]]] * 10**6, 9)
    ("{'a': [1, 2.5]}", "'xxxx...", '[[[]], [[...')
    """
    shown = ""
    for piece in _pieces(value, most):
        shown += piece
        if len(shown) > most:
            return f"{shown[:most]}..."
    return shown


def brief_list(values: Iterable[object], most: int = 400) -> str:
    """Return the values, separated by commas; of many or large ones the first.

    >>> brief_list(["a", 1]), brief_list(map(str, range(10**6)), 12)
    ("'a', 1", "'0', '1', '2', ...")
    """
    shown = ""
    for value in values:
        if len(shown) > most:
            return f"{shown}, ..."
        shown += f"{', ' if shown else ''}{brief(value)}"
    return shown


def _pieces(value: object, most: int) -> Iterator[str]:
    if isinstance(value, str):
        yield repr(value[: most + 1])
    elif isinstance(value, Mapping):
        yield "{"
        for number, (key, element) in enumerate(value.items()):
            yield ", " if number else ""
            yield from _pieces(key, most)
            yield ": "
            yield from _pieces(element, most)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for number, element in enumerate(value):
            yield ", " if number else ""
            yield from _pieces(element, most)
        yield "]"
    else:
        yield repr(value)


def close_names(name: str, known: Iterable[str], alike: float = _ALIKE) -> list[str]:
    """Return the known names that a name may have meant, the likeliest first; at most three.

    Case does not count, and ``_`` is ``-``. A name may also be the beginning of the one that is meant, up to a hyphen.

    >>> close_names("lm_occupation", ["lm-occupation", "nli-occupation"]), close_names("disco", ["disco-names", "weat"])
    (['lm-occupation'], ['disco-names'])
    >>> close_names("waet", ["weat", "bios"]), close_names("perplexity", ["weat", "bios"])
    (['weat'], [])
    """
    by_form: dict[str, str] = {}
    for one in known:
        by_form.setdefault(_plain(one), one)
    form = _plain(name[:100])
    if form in by_form:
        return [by_form[form]]
    close = get_close_matches(form, by_form, n=_MOST_NAMES, cutoff=alike)
    longer = [one for one in by_form if form and one.startswith(f"{form}-")]
    return [by_form[one] for one in dict.fromkeys((*close, *longer))][:_MOST_NAMES]


def expected_instead(name: str, known: Iterable[str], otherwise: str = "expected one of", advice: str = "") -> str:
    """Return what to write in place of an unknown name: the names that may have been meant, or else all, with advice.

    Names that are alike up to the first hyphen may have been meant where none is close.

    >>> expected_instead("bios-gap", ["weat", "bios"]), expected_instead("disco-persons", ["disco-names", "weat"])
    ('did you mean bios?', 'did you mean disco-names?')
    >>> expected_instead("waet", ["weat", "bios"]), expected_instead("x", ["weat", "bios"]), expected_instead("x", [])
    ('did you mean weat?', 'expected one of weat, bios', 'there are none')
    """
    names = list(known)
    if close := close_names(name, names) or _kin(name, names):
        *first, last = close
        return f"did you mean {', '.join(first)}{' or ' if first else ''}{last}?"
    return (f"{otherwise} {', '.join(names)}" if names else "there are none") + advice


def _kin(name: str, known: Iterable[str]) -> list[str]:
    """Return names that begin as a name does, up to its first hyphen; at most three."""
    first, hyphen, _ = _plain(name[:100]).partition("-")
    return [one for one in known if hyphen and _plain(one).partition("-")[0] == first][:_MOST_NAMES]


def _plain(name: str) -> str:
    return folded(name).replace("_", "-")


def refuse_unknown_name(name: str, known: Collection[str], lead: str, otherwise: str = "expected one of") -> None:
    """Refuse a name that is not known; ``lead`` says so, and :func:`expected_instead` what may have been meant.

    Raises:
        UnknownNameError: it is not.
    """
    if name not in known:
        raise UnknownNameError(f"{lead}; {expected_instead(name, known, otherwise)}")
