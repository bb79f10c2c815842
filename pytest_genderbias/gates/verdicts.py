"""The verdicts that a gate can have, and the outcomes of a judgement. This module imports nothing, so that the policy of a run can be set without numpy."""

from __future__ import annotations

#: Verdicts on a limit, a baseline or a comparison of two models.
PASS, INCONCLUSIVE, NOT_COMPARABLE, NO_VALUE = "pass", "inconclusive", "not comparable", "no value"
#: Verdict on a comparison: the model is worse at its task than what it is compared with, so that its bias says nothing.
LESS_ABLE = "worse at its task"
#: Verdict on a limit: the figure breaks it, on whichever side. It says nothing of an earlier value.
OVER_LIMIT = "over the limit"
#: Verdicts on a comparison with an earlier value. ``unchanged``: every item is equal. ``refused``: an update that needs a reason.
UNCHANGED, REGRESSED, STALE, MISSING, UPDATED, REFUSED = (
    "unchanged", "regressed", "stale", "missing", "updated", "refused",
)  # fmt: skip
#: Verdict on a value that an update would have accepted, had another entry not kept the whole update from being stored.
NOT_STORED = "not stored"
#: Verdicts on a model that should be the same as another, to either side; ``unchanged`` is one, too.
SAME, DIFFERENT = "same", "different"
#: Verdict on a gate that is planned and not judged (``--bias-plan``).
PLANNED = "planned"
#: Verdicts on a mitigation, besides ``inconclusive``, ``no value`` and ``not comparable``.
REDUCED, NOT_REDUCED, OVER_CORRECTED, ACCURACY_LOST, SUPERFICIAL, DESTROYED = (
    "reduced", "not reduced", "over-corrected", "accuracy lost", "superficial", "destroyed",
)  # fmt: skip
#: Verdicts that pass a test whatever the policy is. Of the others, a policy decides on ``inconclusive`` and ``stale``; the rest fail.
ALWAYS_PASS = frozenset({PASS, UNCHANGED, SAME, UPDATED, PLANNED, REDUCED})
#: Verdicts with which a test can pass under some policy.
CAN_PASS = ALWAYS_PASS | {INCONCLUSIVE, STALE}
#: Outcomes of a judgement to which a policy was applied.
FAILED, WARNED, PASSED = "failed", "warned", "passed"
#: Outcomes of a judgement that failed, but not its test: the test was expected to fail, or it caught the failure.
XFAIL, CAUGHT = "xfail", "caught"
