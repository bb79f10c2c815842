"""Escape untrusted text for markdown and JSON, show untrusted texts and values in a few words, and suggest names in the
place of unknown ones; formats of figures in verdicts, tables, pages and the terminal.

A figure that is missing is a dash.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import islice

from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.escaping import printable
from pytest_genderbias.text.normal_form import folded

_ALIKE = 0.75  #: least share of letters that two names have in common, as difflib counts it, by default
_MOST_NAMES = 3  #: names that are suggested
#: What stands for the characters of markdown and HTML.
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {mark: f"\\{mark}" for mark in "\\|`*[]"})
#: Of a user or a team, whom GitHub or GitLab would notify, and of an issue or a change, which would be linked.
_MENTION = re.compile(r"(?<![A-Za-z0-9])@[\w./-]*\w|#\d+|(?<!\w)(?:GH-|!)\d+")


def escape(text: str) -> str:
    """Escape markdown markup and terminal control characters, put names of users and issues into code, where nobody is
    notified, and replace line breaks by spaces.

    >>> escape("a|b <i>"), escape("by @octocat, a@b, as a/b#1, GH-1 and !1")
    ('a\\\\|b &lt;i&gt;', 'by `@octocat`, a@b, as a/b`#1`, `GH-1` and `!1`')
    """
    return _MENTION.sub(r"`\g<0>`", printable(re.sub(r"[\x00-\x1f\x7f]+", " ", text)).translate(_MARKUP))


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
    obeyed = {c for c in set(text) if not c.isprintable() and c != "\n"}
    return text.translate({ord(c): json.dumps(c)[1:-1] for c in obeyed})


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
    first, hyphen, _ = _plain(name[:100]).partition("-")
    kin = (one for one in names if hyphen and _plain(one).partition("-")[0] == first)
    if close := close_names(name, names) or list(islice(kin, _MOST_NAMES)):
        *others, last = close
        return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
    return (f"{otherwise} {', '.join(names)}" if names else "there are none") + advice


def _plain(name: str) -> str:
    return folded(name).replace("_", "-")


def refuse_unknown_name(name: str, known: Collection[str], lead: str, otherwise: str = "expected one of") -> None:
    """Refuse a name that is not known; ``lead`` says so, and :func:`expected_instead` what may have been meant.

    Raises:
        UnknownNameError: it is not.
    """
    if name not in known:
        raise UnknownNameError(f"{lead}; {expected_instead(name, known, otherwise)}")


Write = Callable[[float], str]
_ZERO = 1e-9  #: what floating-point sums leave of nothing


def format_number(value: float | None, digits: int = 4) -> str:
    """Return a number with so many significant digits, for sentences and for cells that stand alone.

    >>> format_number(0.123456), format_number(0.123456, 6), format_number(None)
    ('0.1235', '0.123456', '-')
    """
    return "-" if value is None else f"{value:.{digits}g}"


#: Writes a number with three significant digits.
THREE_DIGITS: Write = partial(format_number, digits=3)


def format_decimals(value: float | None, places: int = 4) -> str:
    """Return a number with so many decimals, for columns whose points stand under each other.

    >>> format_decimals(0.5), format_decimals(0.123456, 2), format_decimals(None)
    ('0.5000', '0.12', '-')
    """
    return "-" if value is None else f"{value:.{places}f}"


def format_figure(value: float) -> str:
    """Return a number as the overview of a run shows it: three decimals, more where the number is small.

    >>> format_figure(0.85391), format_figure(-0.00171), format_figure(0.0), format_figure(12345.6), format_figure(3e-7)
    ('0.854', '-0.0017', '0', '12,346', '3.0e-07')
    """
    size = abs(value)
    if size < _ZERO:
        return "0"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if size >= 0.01 else f"{value:.4f}" if size >= 0.00005 else f"{value:.1e}"


def format_share(share: float | None) -> str:
    """Return a share in percent, with three significant digits.

    >>> format_share(0.12345), format_share(None)
    ('12.3 %', '-')
    """
    return "-" if share is None else f"{100 * share:.3g} %"


def format_growth(share: float) -> str:
    """Return a growth in percent, with its sign, two digits or whole, and without the unit.

    >>> format_growth(0.056), format_growth(-0.2), format_growth(1.53), format_growth(math.inf)
    ('+5.6', '-20', '+153', '+inf')
    """
    value = 100 * share
    return f"{value:+.2g}" if abs(value) < 99.5 else f"{value:+.0f}"


def format_mean(by_seed: Sequence[float | None]) -> str:
    """Return the mean over seeds, and in brackets the standard deviation if there are several.

    >>> format_mean([0.25, 0.5, None]), format_mean([0.25]), format_mean([])
    ('0.3750 (0.1768)', '0.2500', '-')
    """
    known = [value for value in by_seed if value is not None]
    if not known:
        return "-"
    mean = math.fsum(known) / len(known)
    if len(known) == 1:
        return format_decimals(mean)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1))
    return f"{format_decimals(mean)} ({format_decimals(deviation)})"


def format_bounds(low: float, high: float, write: Write = format_number) -> str:
    """Return two bounds of a figure, each as ``write`` writes it.

    >>> format_bounds(0.25, 0.5), format_bounds(0.25, 0.5, format_figure)
    ('0.25 to 0.5', '0.250 to 0.500')
    """
    return f"{write(low)} to {write(high)}"


def format_p(p: float, least: float) -> str:
    """Return a p value in percent; one that no shuffle or resample could make smaller is a bound.

    >>> format_p(1 / 201, 1 / 201), format_p(0.123, 1 / 201)
    ('<= 0.5 %', '12 %')
    """
    return f"{'<= ' if p <= least * (1 + 1e-9) else ''}{100 * p:.2g} %"


def counted(n: int, things: str) -> str:
    """Return a number of things: ``1 word``, ``2 words``. ``things`` is a plural.

    >>> counted(1200, "words"), counted(2, "classes"), counted(1, "classes"), counted(1, "entries")
    ('1,200 words', '2 classes', '1 class', '1 entry')
    """
    if n != 1:
        return f"{n:,} {things}"
    for plural, singular in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if things.endswith(plural):
            return f"1 {things[: -len(plural)]}{singular}"
    return f"1 {things}"


def format_duration(seconds: float) -> str:
    """Return seconds in a unit that suits them.

    >>> format_duration(0.02), format_duration(4.26), format_duration(90), format_duration(5400)
    ('< 0.1 s', '4.3 s', '90 s', '1.5 h')
    """
    if seconds < 0.1:
        return "< 0.1 s"
    unit, length = ("s", 1) if seconds < 120 else ("min", 60) if seconds < 5400 else ("h", 3600)
    return f"{seconds / length:.1f} {unit}" if seconds / length < 10 else f"{seconds / length:,.0f} {unit}"


def approximate(number: int) -> str:
    """Return an estimate with two figures, rounded up.

    >>> approximate(87), approximate(1234)
    ('about 87', 'about 1,300')
    """
    unit = 10 ** max(0, len(str(number)) - 2)
    return f"about {-(-number // unit) * unit:,}"


def round_up(value: float) -> float:
    """Return a number of two figures that is not below ``value``; 0 where that is below 0.

    >>> round_up(0.01234), round_up(-1.0)
    (0.013, 0.0)
    """
    if value <= 0 or not math.isfinite(value):
        return max(0.0, value)
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.2g}")


def apart(*values: float) -> list[str]:
    """Return numbers with so many figures, four at least, that different ones look different.

    >>> apart(0.9, 0.72478), apart(0.900012, 0.900038)
    (['0.9', '0.7248'], ['0.90001', '0.90004'])
    """
    for figures in range(4, 9):
        texts = [format_number(value, figures) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts
