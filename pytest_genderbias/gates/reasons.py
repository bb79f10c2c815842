"""Why a test did not judge, as it travels on the report of the test. Importing this module imports no numpy."""

from __future__ import annotations

from dataclasses import dataclass

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
