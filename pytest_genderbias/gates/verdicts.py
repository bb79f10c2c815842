"""The four verdicts of a gate, the codes of their reasons, the outcomes of a judgement, and why a test has none; and
the level of bounds, corrected for the number of comparisons that they hold for together.

This module imports nothing heavy, so that the policy of a run can be set without numpy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

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
    NOT_COMPARABLE: Reason(CANNOT_JUDGE, "not comparable", "The other side is a measurement of something else."),
    NO_VALUE: Reason(CANNOT_JUDGE, "no value", "The statistic has no finite value, so nothing can be decided."),
    NOT_ABLE: Reason(CANNOT_JUDGE, "not able", "The model cannot do the task, so its bias says nothing."),
    DESTROYED: Reason(CANNOT_JUDGE, "destroyed", "After the mitigation, the model can no longer do its task."),
    NOT_STORED: Reason(CANNOT_JUDGE, "not stored", "The value was acceptable, but updates are all or nothing."),
}
REASONS: Mapping[str, Reason] = MappingProxyType(_REASONS)

#: The code that each verdict of a report by an earlier version has now.
EARLIER_VERDICTS: Mapping[str, str] = MappingProxyType({
    "pass": WITHIN, "stale": BETTER, "updated": STORED, "refused": NO_REASON, "worse at its task": LESS_ABLE,
    "over the limit": OVER_LIMIT, "not reduced": NOT_REDUCED, "over-corrected": OVER_CORRECTED,
    "accuracy lost": TASK_LOST, "inconclusive": TOO_FEW, "planned": TOO_FEW, "missing": NO_BASELINE,
    "not comparable": NOT_COMPARABLE, "no value": NO_VALUE, "not stored": NOT_STORED,
    **{code: code for code in (UNCHANGED, SAME, REDUCED, REGRESSED, DIFFERENT, SUPERFICIAL, DESTROYED)},
})  # fmt: skip

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
class Unjudged:
    """A test that was skipped because it could not judge.

    Attributes:
        kind: one of the kinds above.
        name: of the suite of ``--bias-suite``, or of the test.
        reason: why, in words.
    """

    kind: str
    name: str
    reason: str


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
