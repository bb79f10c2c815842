"""What a comparison with an earlier model rests on, and what its text says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support.hand_made import hand_made

from pytest_genderbias.errors import DataFileError, GateError
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.gates.gate_file import read_gates
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic, mean_sums
from pytest_genderbias.text.located_yaml import read_yaml


def restarts(*shifts: float, model: str = "m") -> Measurement:
    return combine_restarts([hand_made(shift, model=model) for shift in shifts], range(len(shifts)))


def test_a_limit_and_a_baseline_pass_at_the_same_level() -> None:
    """Restarts that all gave .25 have no error, so that bounds of the worsening are those of the value of now, less
    .25.
    """
    now = restarts(0.02, 0.05, -0.01, 0.03, 0.01)
    without_items = [replace(m, sums=SumsByStatistic({})) for m in (now, restarts(*[0.0] * 5, model="then"))]
    limited, compared = judge_limit(now, Limit(at_most=0.3)), judge_against(*without_items, margin=0.05)
    assert limited.interval is not None and compared.interval is not None
    assert limited.interval.level == compared.interval.level == 0.95
    assert compared.interval.low + 0.25 == pytest.approx(limited.interval.low)
    assert compared.interval.high + 0.25 == pytest.approx(limited.interval.high)
    assert (limited.code, compared.code) == ("within", "within")
    strict = float(np.nextafter(compared.interval.high - 1e-5, 0))
    assert judge_against(*without_items, margin=strict).code == "too_few"
    assert judge_limit(now, Limit(at_most=0.25 + strict)).code == "too_few"


def probe(*values: float, model: str = "m") -> Measurement:
    """Return a measurement of a probe with these values in its shuffles."""
    labels = np.array([f"shuffle {i}" for i in range(len(values))])
    sums = mean_sums(labels, np.array(values), np.ones(len(values)), "shuffles")
    return hand_made(model=model, values={"share": float(np.mean(values))}, sums=SumsByStatistic({"share": sums}))


def test_probes_are_compared_as_restarts_seed_by_seed() -> None:
    before, after = np.array([1.1, 1.3, 1.2, 1.5, 1.4]), np.array([1.18, 1.33, 1.29, 1.56, 1.45])
    judged = judge_against(probe(*after), probe(*before, model="then"), margin=0.0)
    test = stats.ttest_rel(after, before, alternative="greater")
    assert judged.p == pytest.approx(test.pvalue)
    assert judged.interval is not None and judged.over == "shuffles and retraining"
    assert (judged.interval.low, judged.interval.high) == pytest.approx(
        stats.ttest_rel(after, before).confidence_interval(0.95)
    )
    assert "Student's t over the differences of restarts, seed by seed" in judged.text
    assert judge_against(probe(*before), probe(*before, model="then"), margin=0.0).code == "unchanged"


def test_no_gate_takes_what_says_nothing_of_the_size_of_a_bias(tmp_path: Path) -> None:
    p_like = hand_made()
    about = replace(p_like.statistics["share"], no_gate="a p value; gate effect_size")
    p_like = replace(p_like, statistics={"share": about})
    message = "no gate takes share: a p value; gate effect_size"
    with pytest.raises(GateError, match=message):
        judge_limit(p_like, Limit(at_most=0.3))
    with pytest.raises(GateError, match=message):
        judge_against(p_like, p_like, margin=0.1)
    with pytest.raises(GateError, match=message):
        Baseline(tmp_path, "m", "t.py", update="all").judge(p_like, 0.1)


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        (
            "suite: weat, statistic: p_value, at_least: 0.05",
            "weat: no gate takes p_value: a p value .* gate effect_size",
        ),
        ("suite: subspace, baseline: true, margin: 0.1", "subspace: no gate takes ratio_2: .* no measure of bias"),
        ("suite: ceat, statistic: word_p_value, no_worse_than: a, margin: 0", "ceat: no gate takes word_p_value: "),
    ],
)
def test_a_gate_file_names_what_no_gate_takes(tmp_path: Path, gate: str, message: str) -> None:
    path = tmp_path / "g.bias.yaml"
    path.write_text(f"gates:\n  - {{{gate}}}\n")
    with pytest.raises(DataFileError, match=f"g.bias.yaml:2: {message}"):
        read_gates(read_yaml(path))


def test_few_items_that_carry_the_change_are_said_to() -> None:
    """Two of twelve items moved: as many as two by Kish's number, and less than a quarter. All twelve alike: nothing is
    said.
    """
    then = hand_made(model="then")
    sums = then.item_sums("share")
    moved = sums.sums.copy()
    moved[:2, 0] += 0.2
    two = replace(
        then, values={"share": float(moved[:, 0].mean())}, sums=SumsByStatistic({"share": replace(sums, sums=moved)})
    )
    text = judge_against(replace(two, model="m"), then, margin=0.01).text
    assert "few items carry the change: it is worth 2 of 12 (Kish's effective number), skewness 1.8; " in text
    assert "  moved     2 of 12 items; most: item 0 0.1 -> 0.3, item 1 0.1273 -> 0.3273\n" in text
    assert "carry the change" not in judge_against(hand_made(0.1), then, margin=0.01).text
