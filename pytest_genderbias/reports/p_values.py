"""The p values of a run, corrected for their number."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.statistics.inference.multiple_tests import holm


def corrected_p_values(judgements: Sequence[Judgement]) -> list[str]:
    """Return the p values of all judgements of a run, corrected as Holm does, as they are shown.

    Several tests that judge the same count once. A judgement without a p value has an empty text.
    """
    different: list[Judgement] = []
    for judgement in judgements:
        if judgement.p is not None and judgement not in different:
            different.append(judgement)
    corrected = holm([judgement.p for judgement in different if judgement.p is not None]) if different else ()
    return ["" if one.p is None else f"{corrected[different.index(one)]:.2g}" for one in judgements]
