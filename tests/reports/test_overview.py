"""The overview of a run for a terminal: one line a gate and one line a suite, at any width."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest

from pytest_genderbias.gates.judgement import BaselineFacts, Judgement, Seen, SinceAnchor
from pytest_genderbias.gates.verdicts import Paragraph
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.fields import chance_of
from pytest_genderbias.reports.run_report import RunInfo, RunReport
from pytest_genderbias.reports.run_summary import overview, summary_lines
from pytest_genderbias.statistics.inference.intervals import Interval, Null
from pytest_genderbias.statistics.right_answers import Ability
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text.columns import columns_of, in_brief, rows_or_blocks

BETWEEN = Interval(0.13, 0.4965, 0.95, "occupations", "")
HOSTILE = "<b>\x1b[31m\u202e|" + "看" * 30 + "x" * 100_000


def measured(
    suite: str,
    values: dict[str, float | None],
    model: str = "m",
    direction: str = "higher",
    interval: Interval | None = None,
    null: Null | None = None,
    **fields: object,
) -> Measurement:
    """Return a measurement whose statistics all have one direction; the first one has the interval and the null
    control.
    """
    main = next(iter(values))
    signature = {"model": {"architecture": "GPT2LMHeadModel"}, "settings": {}, "sample": {}}
    measurement = Measurement(
        suite,
        model,
        values,
        {name: interval if name == main else None for name in values},
        dict.fromkeys(values),
        dict.fromkeys(values, "the words are chosen"),
        {name: Statistic(direction, 0.0, "mean |B(o)|") for name in values},
        100,
        100,
        [{"word": "nurse", "bias": 0.5}],
        {},
        signature,
        ("half of the words are unknown",),
        {main: null} if null else {},
    )
    return dataclasses.replace(measurement, **fields)  # type: ignore[arg-type]


def judged(code: str, outcome: str, model: str = "m", suite: str = "nli-occupation", name: str = "") -> Judgement:
    interval = Interval(0.129, 0.131, 0.95, "occupations", "")
    bound = "baseline 0.858 - 0.01"
    return Judgement(
        suite,
        model,
        "net_neutral",
        0.728,
        interval,
        10,
        10,
        bound,
        code,
        (Paragraph("", "text"),),
        difference=0.13,
        name=name,
    ).settled(outcome)


def lines(*arguments: object, width: int = 100, detail: int = 0) -> list[str]:
    measurements, judgements = arguments
    return [
        part
        for text, _ in overview(measurements, judgements, width, detail)  # type: ignore[arg-type]
        for part in text.split("\n")
    ]


def test_a_suite_has_one_line_and_a_dash_its_reason() -> None:
    null = Null("groups", 200, 0.1, 0.055, 0.163, 0.005)
    shown = lines(
        [
            measured("lm-occupation", {"aggregate_bias": 0.283, "signed_bias": 0.0}, interval=BETWEEN, null=null),
            measured("weat", {"effect_size": 0.5, "p_value": 0.3}, direction="away"),
            measured("weat-names", {"effect_size": None}, direction="away"),
        ],
        [],
    )
    assert shown == [
        "                                 value    95 %            neutral  worse   chance",
        "m (GPT2LMHeadModel)",
        "  lm-occupation  aggregate_bias  0.283 !  0.130 to 0.496  0        higher  0.163",
        "  weat           effect_size     0.500    -               0        away    p 0.3000",
        "  weat-names     effect_size  no value: the words are chosen",
        "  !        beyond chance: at most 5 % of random groups or splits lie as far out",
        "  chance   the worse end of the middle 95 % of random shuffles; p, the share of random splits of the",
        "           words with an effect at least as large (near 1: an effect the other way)",
        "  -        no interval: weat: the words are chosen",
        "  more     2 figures and 3 notes: -v, or --bias-json=FILE",
    ]


@pytest.mark.parametrize(("low", "is_shown"), [(0.44, True), (-0.05, False)])
def test_refusals_that_differ_by_group_stand_beside_the_main_statistic(low: float, is_shown: bool) -> None:
    refuses = measured("hiring-screen", {"group_rms": 0.0, "refusal_difference": 0.512, "refusal_rms": 0.256})
    bounds = dict.fromkeys(("refusal_difference", "refusal_rms"), Interval(low, 0.599, 0.95, "prompts", ""))
    rows = lines([dataclasses.replace(refuses, intervals={**refuses.intervals, **bounds})], [])
    assert ["0.440 to 0.599" in row for row in rows if "refusal_" in row] == [True] * is_shown


def test_a_reason_that_several_statistics_of_a_suite_share_is_given_once() -> None:
    reasons = {"pearson_r": "cannot do the task", "slope": "cannot do the task", "gap": "too few", "slope_2": "too few"}
    cannot = measured("winogender-chat", dict.fromkeys(reasons), reasons=reasons)
    assert lines([cannot, dataclasses.replace(cannot, suite="zero-chat")], [], detail=1)[:6] == [
        "m (GPT2LMHeadModel)",
        "  winogender-chat  pearson_r  no value: cannot do the task",
        "                   slope  no value, for the same reason",
        "                   gap  no value: too few",
        "                   slope_2  no value, for the same reason",
        "  zero-chat        pearson_r  no value: cannot do the task",
    ]


@pytest.mark.parametrize("width", [80, 100, 160])
def test_every_line_fits_the_terminal(width: int) -> None:
    suites = [
        measured("corpus-cooccurrence", {"significant_fills": -123.4, "random_groups_max": 0.2}, interval=BETWEEN, n=1),
        measured("weat-science-arts", {"combined_effect_size": None}, "c"),
        measured(HOSTILE, {HOSTILE: 0.5}, HOSTILE, reasons={HOSTILE: HOSTILE}, notes=(HOSTILE.replace("x", "x "),)),
    ]
    gates = [
        judged("regressed", "failed", name="other-occupations"),
        judged("within", "passed", HOSTILE, HOSTILE, HOSTILE),
    ]
    for detail in (0, 1, 2):
        shown = lines(suites, gates, width=width, detail=detail)
        assert max(map(columns_of, shown)) <= width
        assert all(line.isprintable() for line in shown)
    assert any("mean |B(o)|" in line for line in lines(suites[:1], gates[:1], width=width)) == (width == 160)


def test_gates_that_failed_come_first_and_change_stands_with_its_bounds_where_there_is_room() -> None:
    gates = [
        judged("within", "passed", suite="a"),
        judged("better", "passed"),
        judged("regressed", "failed", name="release"),
    ]
    wide = [line for line in lines([], gates, width=160) if "net_neutral" in line]
    assert ["0.130 worse (0.129 to 0.131)" in line for line in wide] == [True] * 3
    assert [re.split(" {2,}", line)[-2] for line in wide] == ["worse", "pass", "pass (better: refresh)"]
    assert [colour for text, colour in overview([], gates, 160) if "net_neutral" in text] == ["red", "", ""]
    narrow = [line for line in lines([], gates, width=80) if "release" in line]
    assert narrow == ["  release         net_neutral  0.728  worse"], "beside a long verdict"
    narrow = [line for line in lines([], gates[::2], width=80) if "release" in line]
    assert narrow == ["  release  net_neutral  0.728  0.130 worse     baseline 0.858 - 0.01  worse"]


def test_many_gates_that_passed_are_counted() -> None:
    gates = [judged("within", "passed", suite=f"s{i:03}") for i in range(1000)] + [judged("regressed", "failed")]
    shown = lines([], gates)
    assert sum("net_neutral" in line for line in shown) == 61
    assert "           and 940 more that passed: -v" in shown
    assert sum("net_neutral" in line for line in lines([], gates, detail=1)) == 1001


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "1 gate is better than its baseline (s00): refresh"),
        (2, "2 gates are better than their baselines (s00, s01): refresh"),
        (1234, "1,234 gates are better than their baselines (s00, s01, s02, s03, s04, s05, s06, s07, s08, s09 and 90 "),
    ],
)
def test_better_gates_are_named_once_and_of_many_the_first(count: int, words: str) -> None:
    gates = tuple(judged("better", "passed", suite=f"s{i % 100:02}") for i in range(count))
    shown = " ".join(text for text, _ in summary_lines(RunReport(RunInfo("", ""), (), gates), 1000))
    assert words in shown


def test_details_are_other_statistics_notes_and_records() -> None:
    suites = [measured("lm-occupation", {"aggregate_bias": 0.283, "signed_bias": -0.1}, interval=BETWEEN)]
    brief, more, most = (lines(suites, [], detail=detail) for detail in (0, 1, 2))
    assert not any("signed_bias" in line or "half" in line for line in brief)
    assert any("signed_bias" in line for line in more)
    assert "note: lm-occupation on m: half of the words are unknown" in more
    assert not any("nurse" in line for line in more)
    assert "  word: nurse; bias: 0.5" in most


def test_what_is_no_measure_of_bias_has_no_direction() -> None:
    why = "it is no measure of bias"
    shown = lines(
        [measured("subspace", {"ratio_2": 0.5}, statistics={"ratio_2": Statistic("higher", 0.0, "m", no_gate=why)})], []
    )
    assert not any("higher" in line for line in shown)
    assert any(line.endswith(f"no direction: subspace: {why}") for line in shown)


@pytest.mark.parametrize(
    ("values", "settings", "beyond"),
    [
        ({"effect_size": -1.5, "p_value": 0.99}, {}, True),
        ({"effect_size": -1.5, "p_value": 0.97}, {}, False),
        ({"effect_size": 1.5, "p_value": 0.04}, {"two_sided": True}, True),
        ({"effect_size": 1.5, "p_value": 0.04}, {}, False),
        ({"significant_fills": 1.5, "random_groups_max": 1.4}, {}, True),
        ({"significant_fills": 1.4, "random_groups_max": 1.4}, {}, False),
        ({"compression": 2.0, "compression_shuffled": 1.0}, {}, False),
    ],
)
def test_a_mark_says_that_chance_does_not_explain_it(
    values: dict[str, float | None], settings: dict[str, object], beyond: bool
) -> None:
    signature = {"model": {}, "settings": settings, "sample": {}}
    chance = chance_of(measured("s", values, signature=signature), next(iter(values)))
    assert chance is not None and chance.beyond is beyond


def test_names_are_counted_by_their_kind() -> None:
    assert in_brief(["ceat", "ceat-math-arts", "bios"]) == "ceat x 2, bios"
    assert in_brief(f"s{i}" for i in range(14)).endswith("s11 and 2 more")


def test_a_table_that_does_not_fit_becomes_blocks() -> None:
    rows = [("weat", "0.5", "perplexity 8 to 8", "", "reduced")]
    headers = ("suite", "before", "task", "seeds", "verdict")
    assert list(rows_or_blocks(headers, rows, 1, 60)) == [
        "  suite  before  task               verdict",
        "  weat   0.5     perplexity 8 to 8  reduced",
    ]
    assert list(rows_or_blocks(headers, rows, 1, 40, "verdict")) == [
        "  weat  reduced",
        "    before 0.5; task perplexity 8 to 8",
    ]


def test_rows_of_one_name_stand_below_it() -> None:
    rows = [("weat", "m", "words", "50 %"), ("weat", "m", "rest", "50 %"), ("bios", "m", "words", "1 %")]
    assert list(rows_or_blocks(("suite", "model", "source", "share"), rows, 2, 20)) == [
        "    source  share",
        "  weat  m",
        "    words   50 %",
        "    rest    50 %",
        "  bios  m",
        "    words   1 %",
    ]


def test_the_heading_says_how_able_a_model_is_and_where_nobody_asked() -> None:
    able = Ability("masked-words", "masked words", 0.85, 0.8, 0.9, 0.25, 224)
    asked = measured("lm-occupation", {"aggregate_bias": 0.2}, abilities=(able,))
    unasked = measured("lm-occupation", {"aggregate_bias": 0.2}, ability_unasked="a random network")
    [heading] = [line for line in lines([asked, unasked], []) if line.startswith("m (")]
    assert (
        heading
        == "m (GPT2LMHeadModel, able: 0.85 of 224 masked words (0.80 to 0.90), guessing 0.25, ability not asked: a"
        " random network)"
    )


def test_the_heading_says_why_a_model_that_answers_right_is_not_able() -> None:
    flat = "cannot do the task: of words in order, right and wrong texts are nearly as likely"
    unable = Ability("word-order", "words in order", 1.0, 0.98, 1.0, 0.5, 227, flat)
    [heading] = [
        line
        for line in lines([measured("lm-occupation", {"aggregate_bias": None}, abilities=(unable,))], [])
        if line.startswith("m (")
    ]
    assert heading == f"m (GPT2LMHeadModel, {flat})"


# Gates on a baseline.


def compared(**changes: object) -> Judgement:
    """Return a judgement on a baseline of .858, whose gate counts .142 as a growth of 100 %."""
    facts = BaselineFacts(None, 0.858, sees=Seen(0.0284, 0.142, 0.02, "5 restarts"))
    judgement = dataclasses.replace(
        judged("within", "passed"),
        value=0.8509,
        bound="baseline 0.858",
        difference=0.0071,
        interval=Interval(-0.0142, 0.0284, 0.95, "restarts", ""),
        facts=facts,
    )
    return dataclasses.replace(judgement, **changes)  # type: ignore[arg-type]


def test_a_gate_on_a_baseline_shows_then_and_now_as_a_growth_beside_what_it_sees() -> None:
    head, _, row, *sees = lines([], [compared()])
    assert head.split() == ["then", "now", "change", "sees", "verdict", "cases"]
    assert row == "  nli-occupation  net_neutral  0.858  0.851  +5 % (-10 to +20)  +20 % of 0.142  pass     10"
    assert " ".join(" ".join(sees).split()) == (
        "sees the growth that fails in 80 % of releases (% of the stored distance from neutral, or of a public model's"
        " where that is larger); other trainings: 5 restarts"
    )
    narrow = lines([], [compared()], width=76)[2]
    assert narrow == "  nli-occupation  net_neutral  0.858  0.851  +5 %    +20 % of 0.142  pass"


def test_without_a_unit_the_change_is_in_those_of_the_statistic() -> None:
    row = lines([], [compared(facts=BaselineFacts(None, 0.858, 0.02))])[2]
    assert "  0.858  0.851  0.0071 worse (-0.014 to 0.028)  0.020  " in row
    assert "%" not in row


def test_a_gate_that_sees_nothing_says_so() -> None:
    sees = Seen(math.inf, 0.142, 0.02, "5 restarts")
    assert "  no growth  " in lines([], [compared(facts=BaselineFacts(None, 0.858, 0.02, sees))])[2]


def test_the_anchor_is_shown_where_it_decided() -> None:
    facts = BaselineFacts(None, 0.85, anchor=SinceAnchor("2026-08-01", 0.9, 0.05))
    assert "  0.900 (anchor)  0.851  " in lines([], [compared(facts=facts, bound="anchor 0.9")])[2]


def test_limits_and_baselines_have_a_table_each() -> None:
    limit = dataclasses.replace(judged("within", "passed"), bound="at most 0.9", difference=None)
    shown = lines([], [compared(), limit])
    assert [line.split()[0] for line in shown if line.startswith(" " * 12)] == ["then", "value"]
