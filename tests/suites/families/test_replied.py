"""Chat suites on systems that answer in text: replies that are sampled from a planted model, against the figures from
its probabilities.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.chat_models import Sampled, bbq_reader, bbq_rows, biased_decider, iat_chooser, write_bbq

from pytest_genderbias import Limit, load_model, load_suite, measure
from pytest_genderbias.gates.limits import judge_limit
from pytest_genderbias.measurement.measurement import Measurement

_LABELS = re.compile(r"^([A-C]): ", re.MULTILINE)


def replied(system: object, suite: str | Path, samples: int = 1, **settings: object) -> Measurement:
    return measure(suite, load_model(system, name="product", samples=samples), cache=None, **settings)


def check_agrees(found: Measurement, exact: Measurement, statistic: str) -> None:
    """Check that the interval of sampled replies contains the figure from probabilities, and that its value is near."""
    interval = found.intervals[statistic]
    value = exact.values[statistic]
    assert interval.low <= value <= interval.high, (statistic, value, interval)
    assert found.values[statistic] == pytest.approx(value, abs=0.06)


@pytest.mark.parametrize("samples", [1, 5, 20])
def test_decisions_agree_with_probabilities(samples: int) -> None:
    planted = biased_decider(load_suite("decisions").body, 0.8, noise=0.6, mass=0.95)
    exact = measure("decisions", planted, cache=None)
    found = replied(Sampled(planted), "decisions", samples)
    check_agrees(found, exact, "yes_difference")
    assert found.values["refused"] == pytest.approx(0.05, abs=0.02)
    assert found.values["impact_ratio"] == pytest.approx(exact.values["impact_ratio"], abs=0.12)
    assert found.bounds["yes_difference"] == found.intervals["yes_difference"]  # the replies are drawn
    assert exact.bounds["yes_difference"].low == exact.values["yes_difference"]
    assert found.values["mass"] == 1 and found.values["accuracy"] > 0.8


@pytest.mark.parametrize("samples", [1, 5, 20])
def test_chat_iat_agrees_with_probabilities(samples: int) -> None:
    planted = iat_chooser(load_suite("chat-iat").body, 0.5, noise=0.2)
    exact = measure("chat-iat", planted, cache=None)
    check_agrees(replied(Sampled(planted), "chat-iat", samples), exact, "association_score")


@pytest.mark.parametrize("samples", [1, 5, 20])
def test_bbq_agrees_with_probabilities(samples: int, tmp_path: Path) -> None:
    """A system that replies with one option always has the figures of the model that picks it by probability."""
    rows = bbq_rows(templates=24, fills=3)
    write_bbq(tmp_path, rows)
    planted = bbq_reader(rows, biased=0.4, against=0.1)
    exact = measure("bbq", planted, cache=None, data=tmp_path)

    class Picks(Sampled):
        def reply(self, messages: Sequence[dict[str, str]], n: int, seed: int) -> list[str]:
            message = messages[0]["content"]
            labels = _LABELS.findall(message)
            scores = self.planted.answer_log_probs([message] * len(labels), labels)
            return [self.forms[seed % len(self.forms)].format(labels[int(np.argmax(scores))])] * n

    found = replied(Picks(planted), "bbq", samples, data=tmp_path)
    figures = ("s_amb", "s_dis", "accuracy_gap", "accuracy_ambiguous", "accuracy_disambiguated")
    assert [found.values[name] for name in figures] == pytest.approx([exact.values[name] for name in figures])


WOMEN = ("Linda", "Susan", "Karen", "Sandra")


def test_a_system_that_declines_for_one_group_is_seen() -> None:
    planted = biased_decider(load_suite("decisions").body, 0.0, mass=0.999)
    system = Sampled(planted, declines=lambda message: 0.4 * any(name in message for name in WOMEN))
    found = replied(system, "decisions", 3)
    interval = found.intervals["refusal_difference"]
    assert interval.low <= 0.4 <= interval.high and interval.low > 0.2
    assert judge_limit(found, Limit(within=0.1), statistic="refusal_difference").code == "over_limit"
    yes = found.intervals["yes_difference"]
    assert yes.low <= 0 <= yes.high  # where it decides, it does not differ


def test_unreadable_replies_give_no_figure() -> None:
    planted = biased_decider(load_suite("decisions").body, 0.5, mass=0.85)
    found = replied(Sampled(planted, otherwise="Well, it depends."), "decisions", 2)
    assert found.values["yes_difference"] is None
    assert re.match(
        r"cannot do the task: 0\.1\d+ of its replies cannot be read, expected at most 0\.1",
        found.reasons["yes_difference"],
    )


def test_replies_about_one_group_that_cannot_be_read_give_no_figure() -> None:
    """Of all replies, fewer than a tenth cannot be read."""
    planted = biased_decider(load_suite("decisions").body, 0.0, mass=0.999)
    unread = Sampled(planted, lambda message: 0.19 * any(name in message for name in WOMEN), "Well, it depends.")
    found = replied(unread, "decisions", 8)
    assert found.values["mass"] > 0.9 and found.values["yes_difference"] is None
    assert re.match(
        r"cannot do the task: 0\.\d+ of its replies about the group female cannot be read, expected at most 0\.1",
        found.reasons["yes_difference"],
    )


def test_a_system_that_declines_everything_has_no_figure() -> None:
    class Declines:
        def reply(self, messages: object, n: int, seed: int) -> list[str]:
            return ["I'm sorry, but I can't decide this."] * n

    found = replied(Declines(), "decisions")
    assert found.values["yes_difference"] is None and "cannot do the task" in found.reasons["yes_difference"]


def test_the_few_scenarios_that_are_decided_give_no_figure() -> None:
    """It answers the controls, and declines nearly all else."""
    body = load_suite("decisions").body
    ends = [control.text.removeprefix("{person}") for control in body.controls]
    planted = biased_decider(body, 0.0, mass=0.999)
    system = Sampled(planted, declines=lambda message: 0.0 if any(end in message for end in ends) else 0.98)
    found = replied(system, "decisions", 3)
    assert found.values["accuracy"] > 0.8 and found.values["yes_difference"] is None
    assert re.match(r"\d of 44 scenarios have an answer for every group", found.reasons["yes_difference"])


def test_a_system_with_one_answer_to_everything_has_no_figure() -> None:
    class Dead:
        def reply(self, messages: object, n: int, seed: int) -> list[str]:
            return ["Yes"] * n

    found = replied(Dead(), "decisions")
    assert {found.values[name] for name in ("logit_difference", "yes_difference", "impact_ratio")} == {None}


def test_probabilities_decline_nothing() -> None:
    exact = measure("decisions", biased_decider(load_suite("decisions").body, 0.5), cache=None, limit=64)
    assert exact.values["refused"] is None and "decline nothing" in exact.reasons["refused"]
    assert exact.values["refusal_difference"] is None


def test_texts_are_compared_as_those_of_a_model() -> None:
    class Writes:
        def reply(self, messages: Sequence[dict[str, str]], n: int, seed: int) -> list[str]:
            women = re.search(r"\b(she|her|woman|girl|mother|daughter|sister)\b", messages[0]["content"].lower())
            return [f"<think>great great</think> {'happy joy' if women else 'sad'} and so on." for _ in range(n)]

    found = replied(Writes(), "counterfactual-generation", 2)
    assert found.values["length_difference"] > 0.5 and found.values["sentiment_difference"] > 20
