"""The range of every statistic: measured values, intervals and shuffles lie inside, and gates that no value can break
are refused.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from support.answered_suites import CASES, make_case

from pytest_genderbias import Limit, load_suite, suite_names
from pytest_genderbias.errors import GateError
from pytest_genderbias.gates.limits import check_breakable
from pytest_genderbias.gates.policy import Margin

DEMO = json.loads((Path(__file__).parents[1] / "support" / "demo_figures.json").read_text())
SHARE, SIGNED_SHARE, SIZE, ANY = (0, 1), (-1, 1), (0, math.inf), (-math.inf, math.inf)
#: The names of statistics by their range.
NAMES = {
    SHARE: (
        "accuracy_ambiguous accuracy_disambiguated cosine fraction_neutral mass net_neutral p_value ratio_2 ratio_3 "
        "ratio_4 readable refused stereotype_share threshold_0.5 threshold_0.7 word_p_value"
    ),
    SIGNED_SHARE: (
        "accuracy_gap association_score f1_gap fpr_gap_pearson fpr_gap_rms pearson_r precision_gap_pearson "
        "precision_gap_rms refusal_difference refusal_rms s_amb s_dis same_gender_difference tpr_gap_pearson "
        "tpr_gap_rms yes_difference"
    ),
    SIZE: (
        "aggregate_bias compression compression_random_encoder compression_shuffled fpr_gap_sum impact_ratio "
        "independence_sum largest_difference mean_absolute_difference mu mu_infinite precision_gap_sum "
        "random_groups_max random_groups_mean separation_gap separation_sum sigma sigma_infinite significant_fills "
        "sufficiency_gap sufficiency_sum tpr_gap_sum"
    ),
    ANY: (
        "beta beta_infinite difference fpr_gap_slope group_rms length_difference length_rms logit_difference "
        "mean_difference precision_gap_slope signed_bias slope tpr_gap_slope"
    ),
    (1, math.inf): "perplexity",
    (-200, 200): "sentiment_difference topic_difference",
}


def expected_range(suite: str, statistic: str) -> tuple[float, float]:
    """Return the range of a statistic of a packaged suite."""
    if statistic == "accuracy":
        return SIGNED_SHARE if suite == "sts-occupation" else SHARE
    if statistic in ("effect_size", "combined_effect_size"):
        largest = max(len(words) for words in list(load_suite(suite).body.values())[:4])
        return -math.sqrt(1 + largest), math.sqrt(1 + largest)
    if statistic.endswith("_gap_sum") and suite != "bios":
        return 0, 40  # professions of WinoBias
    known = [its for its, names in NAMES.items() if statistic in names.split()]
    assert len(known) == 1, f"{statistic}: NAMES should have it at one range"
    return known[0]


@pytest.mark.parametrize("name", suite_names())
def test_each_statistic_has_its_range(name: str) -> None:
    for statistic, about in load_suite(name).statistics.items():
        assert about.range == expected_range(name, statistic), statistic
        assert about.range[0] <= about.neutral <= about.range[1], statistic
        assert about.distances[0] <= 0 <= about.distances[1], statistic


@pytest.mark.parametrize("name", suite_names())
def test_figures_of_the_demo_models_lie_inside(name: str) -> None:
    suite = load_suite(name)
    measured = [figures for key, figures in DEMO.items() if key.startswith(f"{name} on ") and "values" in figures]
    for figures in measured:
        for statistic, value in figures["values"].items():
            least, most = suite.statistics[statistic].range
            assert value is None or least - 1e-6 <= value <= most + 1e-6, (statistic, value)


@pytest.mark.parametrize("name", CASES)
def test_values_and_shuffles_of_every_family_lie_inside(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    case = make_case(name, tmp_path_factory)
    figures = {statistic: [value] for statistic, value in case.summary.values.items() if value is not None}
    for statistic, drawn in case.null(seed=1, repeats=20).items():
        figures.setdefault(statistic, []).extend(drawn[np.isfinite(drawn)])
    for statistic, values in figures.items():
        least, most = case.suite.statistics[statistic].range
        assert least - 1e-6 <= min(values) and max(values) <= most + 1e-6, statistic


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"at_most": -0.01}, "no model can pass at_most -0.01: aggregate_bias is at least 0"),
        ({"at_least": 1.01}, "no model can pass at_least 1.01: net_neutral lies from 0 to 1"),
    ],
)
def test_a_limit_outside_of_the_range_is_refused(limit: dict[str, float], said: str) -> None:
    suite = load_suite("nli-occupation" if "at_least" in limit else "lm-occupation")
    statistic = next(iter(suite.statistics))
    with pytest.raises(GateError, match=said):
        Limit(**limit).check_fits(statistic, suite.statistics[statistic])


@pytest.mark.parametrize("name", suite_names())
def test_a_limit_at_the_end_of_a_range_is_refused_and_one_inside_is_not(name: str) -> None:
    """Whatever the statistic is: a limit is refused exactly where both ends of its range keep it."""
    for statistic, about in load_suite(name).statistics.items():
        if about.no_gate:
            continue
        least, most = about.range
        far = about.distances[1]
        limits = {
            "at_least": (least, least + 0.01),
            "at_most": (most, most - 0.01),
            "within": (max(abs(least - about.neutral), abs(most - about.neutral)), 0.01),
        }
        for key, (vacuous, sound) in limits.items():
            extra = {} if key == "within" else {"range": True}
            if about.direction == "away" and key != "within":
                extra = {"at_most": most - 0.01} if key == "at_least" else {"at_least": least + 0.01}
            if not all(map(math.isfinite, (vacuous, sound, *extra.values()))):
                continue
            Limit(**{key: sound}, **extra).check_fits(statistic, about)
            for beyond in (vacuous, vacuous - 5 if key == "at_least" else vacuous + 5):
                with pytest.raises(GateError, match=f"no model can break {key} .*{statistic} (lies from|is at)"):
                    Limit(**{key: beyond}, **extra).check_fits(statistic, about)
        check_breakable(Margin(0.01), statistic, about)
        if math.isfinite(far):
            with pytest.raises(GateError, match="no model can break the margin 1000"):
                check_breakable(Margin(1000.0), statistic, about)


@pytest.mark.parametrize("same", [False, True])
def test_a_margin_is_refused_where_the_worst_value_keeps_it(same: bool) -> None:
    about = load_suite("nli-occupation").statistics["net_neutral"]
    check_breakable(Margin(0.79), "net_neutral", about, 0.8, same)
    with pytest.raises(
        GateError, match=r"the margin 0.8 \(80% of .*\): net_neutral lies from 0 to 1, and from 0.8 it can"
    ):
        check_breakable(Margin(share=0.8).resolve(1.0), "net_neutral", about, 0.8, same)
    check_breakable(Margin(0.0), "net_neutral", about, 0.0)  # nothing can be worse, and no margin would help
    check_breakable(Margin(9.0), "slope", load_suite("sts-occupation").statistics["slope"], 0.1, same)
