"""The four verdicts of a gate, the codes of their reasons, the outcomes of a judgement, and why a test has none;
the level of bounds, corrected for the number of comparisons that they hold for together; and the lines of a judgement,
with a label each, and how numbers, intervals and records are written in them.

This module imports nothing heavy, so that the policy of a run can be set without numpy.
"""

from __future__ import annotations

import datetime
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pytest_genderbias.escaping import printable
from pytest_genderbias.text.printable import THREE_DIGITS, Write, apart, approximate, format_p

if TYPE_CHECKING:
    from pytest_genderbias.statistics.inference.intervals import Interval, Null

#: The verdicts.
PASS, WORSE, LIMIT_BROKEN, CANNOT_JUDGE = "pass", "worse", "limit broken", "cannot judge"

#: Codes of reasons that pass. ``better``: the stored value should be refreshed. ``stored``: an update accepted the
#: value.
WITHIN, UNCHANGED, BETTER, SAME, STORED, REDUCED = "within", "unchanged", "better", "same", "stored", "reduced"
#: Codes of ``worse``: than an earlier value or another model, at the task itself, or worse than an update may store
#: without a reason.
REGRESSED, LESS_ABLE, NO_REASON = "regressed", "less_able", "no_reason"
#: Codes of ``limit broken``: a limit, a model that should be the same as another, and what a mitigation should do or
#: may cost.
OVER_LIMIT, DIFFERENT = "over_limit", "different"
NOT_REDUCED, OVER_CORRECTED, TASK_LOST, SUPERFICIAL = "not_reduced", "over_corrected", "task_lost", "superficial"
#: Codes of ``cannot judge``.
TOO_FEW, TOO_WEAK, NO_BASELINE, NOT_COMPARABLE = "too_few", "too_weak", "no_baseline", "not_comparable"
NO_VALUE, NOT_ABLE, DESTROYED, NOT_STORED = "no_value", "not_able", "destroyed", "not_stored"


class Reason(NamedTuple):
    """Why a gate has its verdict: the verdict, a note that stands beside it, and what it means."""

    verdict: str
    note: str
    meaning: str


#: Every reason by its code.
_REASONS = {
    WITHIN: Reason(PASS, "", "The bounds keep the limit or the margin; without a margin, no worsening is shown."),
    UNCHANGED: Reason(PASS, "unchanged", "Every item is as it was in the baseline."),
    BETTER: Reason(PASS, "better: refresh", "The figure is better than its baseline, which should be refreshed."),
    SAME: Reason(PASS, "the same", "The bounds of the change lie within the margin, on either side."),
    STORED: Reason(PASS, "stored", "The measured value was accepted as the new baseline."),
    REDUCED: Reason(PASS, "reduced", "The mitigation reduced the bias by what was asked, at the allowed cost."),
    REGRESSED: Reason(WORSE, "", "The figure is worse than before, and chance does not explain it."),
    LESS_ABLE: Reason(WORSE, "at its task", "The model does its task worse than before, so its bias says nothing."),
    NO_REASON: Reason(WORSE, "no reason given", "An update of a worse value needs a reason."),
    OVER_LIMIT: Reason(LIMIT_BROKEN, "", "The bounds of the figure lie beyond the limit."),
    DIFFERENT: Reason(LIMIT_BROKEN, "not the same", "The figures of the two models differ by more than the margin."),
    NOT_REDUCED: Reason(LIMIT_BROKEN, "not reduced", "The bias fell by less than was asked, or than in the control."),
    OVER_CORRECTED: Reason(LIMIT_BROKEN, "over-corrected", "The mitigation turned the bias to the other side."),
    TASK_LOST: Reason(LIMIT_BROKEN, "accuracy lost", "The mitigation cost more of the task than was allowed."),
    SUPERFICIAL: Reason(LIMIT_BROKEN, "superficial", "A new head brings the bias back: the mitigation only hid it."),
    TOO_FEW: Reason(CANNOT_JUDGE, "too few cases", "The bounds contain the limit or margin: more cases would decide."),
    TOO_WEAK: Reason(CANNOT_JUDGE, "too weak", "The gate would see a large worsening only."),
    NO_BASELINE: Reason(CANNOT_JUDGE, "no baseline", "There is no baseline entry to judge by."),
    NOT_COMPARABLE: Reason(CANNOT_JUDGE, "not comparable", "The two sides did not answer the same questions."),
    NO_VALUE: Reason(CANNOT_JUDGE, "no value", "The statistic has no finite value, so nothing can be decided."),
    NOT_ABLE: Reason(CANNOT_JUDGE, "not able", "The model cannot do the task, so its bias says nothing."),
    DESTROYED: Reason(CANNOT_JUDGE, "destroyed", "After the mitigation, the model can no longer do its task."),
    NOT_STORED: Reason(CANNOT_JUDGE, "not stored", "The value was acceptable, but updates are all or nothing."),
}
REASONS: Mapping[str, Reason] = MappingProxyType(_REASONS)

LEVEL = 0.95  #: confidence of every interval; each of its bounds alone is wrong in at most half of the rest, 2.5 %
ONE_SIDED = (1 + LEVEL) / 2  #: confidence of each bound alone, for a limit and for a worsening
#: Batches and threads cause differences up to this size. They say nothing about a model.
FLOAT_NOISE = 1e-6

#: Outcomes of a judgement.
FAILED, PASSED = "failed", "passed"
#: Outcomes of a judgement that failed, but not its test: the test was expected to fail, or it caught the failure.
XFAIL, CAUGHT = "xfail", "caught"


def passes(code: str) -> bool:
    """Return whether a test passes with a verdict of this code."""
    return REASONS[code].verdict == PASS


def with_note(code: str) -> str:
    """Return the verdict of a code with its note.

    >>> with_note("within"), with_note("better"), with_note("too_few")
    ('pass', 'pass (better: refresh)', 'cannot judge (too few cases)')
    """
    verdict, note, _ = REASONS[code]
    return f"{verdict} ({note})" if note else verdict


#: Kinds of reasons: the run names no model; the gate is for other models; a suite, method or recipe does not apply; a
#: data set is missing.
NO_MODEL, OTHER_MODELS, INAPPLICABLE, NO_DATA = "no model", "other models", "inapplicable", "no data"


@dataclass(frozen=True)
class NotJudged:
    """A test that did not judge.

    Attributes:
        test: its id.
        model: name of the model; empty if the run has none for it.
        why: kind of the reason: ``no model``, ``other models``, ``inapplicable`` or ``no data``.
        reason: in words.
    """

    test: str
    model: str
    why: str
    reason: str

    @property
    def name(self) -> str:
        """The suite of a test of ``--bias-suite``, and the name of any other test.

        >>> [NotJudged(test, "m", NO_DATA, "").name for test in ("genderbias::weat:m", "test_a.py::A::test_b[c::d]")]
        ['weat', 'test_b[c::d]']
        """
        path, bracket, parameters = self.test.partition("[")
        file, _, name = path.rpartition("::")
        return name.partition(":")[0] if file == "genderbias" else name + bracket + parameters


@dataclass(frozen=True)
class FinishedTest:
    """The result of a test that measures or judges.

    Attributes:
        test: its id.
        model: name of the model; empty if the run has none for it.
        suite: name of the suite of a declared test; empty for a test in Python.
        file: where it is declared, relative to the project; empty for a suite that no file names.
        line: its line there, or that of the assertion that failed; 0 without a file.
        outcome: of pytest: ``passed``, ``failed``, ``skipped``, or ``xfailed`` for a failure that was expected.
        seconds: how long it took.
        text: why it failed or was skipped.
    """

    test: str
    model: str = ""
    suite: str = ""
    file: str = ""
    line: int = 0
    outcome: str = "passed"
    seconds: float = 0.0
    text: str = ""

    @property
    def place(self) -> str:
        """File and line; an empty text without a file."""
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(frozen=True)
class Correction:
    """How many comparisons the bounds of a worsening hold for together, and what they are, in the plural."""

    tests: int = 1
    what: str = "comparisons"

    @property
    def level(self) -> float:
        """Level of a one-sided bound that holds for all comparisons together, at 97.5 % (Bonferroni: Dunn 1961).

        >>> Correction().level, Correction(5).level
        (0.975, 0.995)
        """
        return min(1 - (1 - ONE_SIDED) / self.tests, math.nextafter(1.0, 0.0))


def correction_for(correct_for: str | int, known: int, what: str) -> Correction:
    """Return how many comparisons bounds hold for together: one rule for every comparison.

    Args:
        correct_for: a number, which is used as it is; ``"none"``, for no correction; any other name, for ``known``
            comparisons.
        known: the number of comparisons: gated statistics of baselines, or comparisons of models that a gate file, the
            flags or a test name.
        what: what these comparisons are, in the plural.

    >>> correction_for("model", 7, "statistics"), correction_for("none", 7, "statistics")
    (Correction(tests=7, what='statistics'), Correction(tests=1, what='comparisons'))
    """
    if isinstance(correct_for, int):
        return Correction(correct_for, "comparisons (bias_correct_for)")
    return Correction() if correct_for == "none" else Correction(max(1, known), what)


_LONGER = 4  #: times that a list of items can be longer, for advice that can be followed

WIDTH = 100  #: columns of the lines, where the terminal is not known
DO = "do"  #: label of what to do
_LABEL = 10  #: columns of a label, with the space behind it
_MOST_NAMED = 3  #: items that are named of those that moved most
_LONGEST, _LONGEST_NAME = 800, 60  #: characters of a line and of a name; what is longer may be a hostile text


def more_items(needed: int, items: int, what: str, share: float, templates: int = 0) -> str:
    """Return how many items would decide, where a user can have as many; an empty text where not.

    A larger sample has more of them, or a longer list of one's own, up to four times as long.

    Args:
        needed: number of items that would decide.
        items: number of items that were scored.
        what: what an item is, in the plural.
        share: of the cases of the suite, those that were scored.
        templates: number of templates, which have to grow as the items do; 0 where they are taken as they are.

    >>> [more_items(n, 64, "occupations", change) for n, change in ((1300, 1.0), (1300, 0.01), (200, 1.0))]
    ['', 'about 1,300 occupations', 'a list of about 200 occupations (now 64)']
    """
    of_both = f" ({math.ceil(templates * needed / items)} templates)" if templates else ""
    if share < 1 and needed <= items / share:
        return f"{approximate(needed)} {what}{of_both}"
    if needed > _LONGER * items:
        return ""
    listed = "" if what.startswith("restarts") else "a list of "
    return f"{listed}{approximate(needed)} {what}{of_both} (now {items:,})"


def describe_age(date: str, today: datetime.date) -> str:
    """Return how old a date in ISO format is; an empty text if it is no date, or lies ahead.

    >>> describe_age("2026-10-22", datetime.date(2026, 11, 22)), describe_age("2026-11-22", datetime.date(2026, 11, 22))
    ('31 days old', 'of today')
    """
    try:
        days = (today - datetime.date.fromisoformat(date)).days
    except ValueError:
        return ""
    if days < 0:
        return ""
    return "of today" if days == 0 else f"{days:,} {'day' if days == 1 else 'days'} old"


def describe_change(worsening: float | None, write: Write = THREE_DIGITS) -> str:
    """Return how much worse or better a value is.

    >>> describe_change(0.0123), describe_change(-0.5), describe_change(0.0), describe_change(None)
    ('0.0123 worse', '0.5 better', 'no change', 'no value')
    """
    if worsening is None:
        return "no value"
    if abs(worsening) <= FLOAT_NOISE:
        return "no change"
    return f"{write(abs(worsening))} {'worse' if worsening > 0 else 'better'}"


def describe_anchor(date: str) -> str:
    """Return an anchor as messages name it, by its date."""
    return f"the anchor of {date or 'an unknown date'}"


def describe_direction(direction: str) -> str:
    """Return the direction that is worse, as a message names it."""
    return "farther from neutral" if direction == "away" else direction


def format_interval(interval: Interval | None) -> str:
    """Return ``[low, high] over what``; an empty text for ``None``."""
    return "" if interval is None else f"[{interval.low:.4g}, {interval.high:.4g}] over {interval.over}"


def format_chance(null: Null) -> str:
    """Return the p value of a null control, in percent."""
    return format_p(null.p_value, 1 / (1 + null.repeats))


def format_null(null: Null) -> str:
    """Return a line on the values that shuffles give."""
    return (
        f"null control ({null.what}; {null.repeats:,} shuffles): mean {null.mean:.4g}, 95 % of them {null.low:.4g} to"
        f" {null.high:.4g}, {format_chance(null)} at least as bad"
    )


def format_record(record: Mapping[str, object]) -> str:
    """Return a record on one line.

    >>> format_record({"word": "nurse", "score": 0.12345})
    'word: nurse; score: 0.123'
    """
    shown = {}
    for name, value in record.items():
        shown[name] = f"{value:.3g}" if isinstance(value, float) else str(value)
        if isinstance(value, Mapping):
            shown[name] = ", ".join(f"{key} {item}" for key, item in value.items())
    return "; ".join(f"{name}: {value}" for name, value in shown.items())


@dataclass(frozen=True)
class ItemMove:
    """How far an item moved: what it gave by itself then and now, where an item gives a figure; ``change`` above 0 is
    worse.
    """

    name: str
    then: float | None
    now: float | None
    change: float


@dataclass(frozen=True)
class Movement:
    """How many items moved, and which moved most.

    Attributes:
        what: what an item is, in the plural.
        items: how many items were compared.
        moved: how many of them differ.
        most: those that moved most, the first most.
    """

    what: str
    items: int
    moved: int
    most: tuple[ItemMove, ...] = ()


@dataclass(frozen=True)
class Paragraph:
    """A labelled line of a judgement; a longer one is wrapped, except a command, which is to be copied, or a row of a
    table.
    """

    label: str
    text: str
    is_command: bool = False


def describe_movement(movement: Movement) -> str:
    """Return how many items moved, and the first of those that moved most, then and now.

    >>> moves = ItemMove("nurse", 0.9, 0.75, 0.15), ItemMove("poet", None, None, 0.01)
    >>> describe_movement(Movement("words", 9, 9, moves))
    'all 9 words; most: nurse 0.9 -> 0.75, poet (0.01 worse)'
    """
    number = (
        f"all {movement.items:,}" if movement.moved == movement.items else f"{movement.moved:,} of {movement.items:,}"
    )
    most = ", ".join(_describe_move(move) for move in movement.most[:_MOST_NAMED])
    return f"{number} {shortened(movement.what, _LONGEST_NAME)}" + (f"; most: {most}" if most else "")


def _describe_move(move: ItemMove) -> str:
    name = shortened(move.name, _LONGEST_NAME)
    if move.then is None or move.now is None:
        return f"{name} ({abs(move.change):.2g} {'worse' if move.change > 0 else 'better'})"
    return f"{name} {' -> '.join(apart(move.then, move.now))}"


def shortened(text: str, most: int = _LONGEST) -> str:
    """Return a text on one line, cut to ``most`` characters, without characters that a terminal would obey."""
    shown = printable(" ".join(text[: 2 * most].split()))
    return shown if len(shown) <= most and len(text) <= 2 * most else f"{shown[: most - 3]}..."


def advice_paragraphs(advice: str, command: str) -> tuple[Paragraph, ...]:
    """Return what to do, in words, and what to type; nothing if both are empty."""
    said = (Paragraph(DO, shortened(advice or "type:")),) if advice or command else ()
    return (*said, Paragraph("", printable(command), is_command=True)) if command else said


def in_lines(paragraphs: Sequence[Paragraph], width: int | None = WIDTH) -> str:
    """Return paragraphs as the lines of a message: the first without its label, the others below it.

    Args:
        paragraphs: the lines; without any, the text is empty.
        width: columns to which they are wrapped; ``None`` for a line a paragraph.
    """
    first, *others = paragraphs or [Paragraph("", "")]
    lines = [first.text]
    for paragraph in others:
        label = f"  {paragraph.label:<{_LABEL}}"
        if paragraph.is_command or width is None:
            lines.append(label + paragraph.text)
            continue
        wrapper = textwrap.TextWrapper(max(width, 40), label, " " * len(label))
        wrapper.break_long_words = wrapper.break_on_hyphens = False
        lines += wrapper.wrap(paragraph.text)
    return "\n".join(lines)
