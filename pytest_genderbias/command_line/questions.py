"""``genderbias questions``: the questions of suites as JSON lines, which any system may answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_genderbias.command_line.arguments import Typed
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.measurement.reply_questions import Cost, ReplyQuestion, reply_questions
from pytest_genderbias.models.roles import TEXT_REPLIES, Role
from pytest_genderbias.plugin.flag_values import Origin, suite_options
from pytest_genderbias.suites.suite import Suite, load_suite

_SYSTEM = "a system that answers in text"


def carry_out(typed: Typed) -> int:
    """Print the questions, and on standard error what they cost; with ``--cost``, only that."""
    questions = list(_questions(typed))
    cost = Cost.of(questions).describe()
    if typed.values["cost"]:
        print(cost)
        return 0
    model = typed.values["batch"]
    for question in questions:
        row = question.row() if model is None else question.batch_row(model)
        print(json.dumps(row, ensure_ascii=False))
    sys.stdout.flush()
    print(f"{cost}; measure the replies with --bias-model=NAME=REPLIES.jsonl", file=sys.stderr)
    return 0


def _questions(typed: Typed) -> Iterator[ReplyQuestion]:
    values = typed.values
    role = Role(TEXT_REPLIES, _SYSTEM, samples=values["samples"])
    data = typed.flags.get("data")
    for name in dict.fromkeys(values["suites"]):
        suite = load_suite(name)
        plan = plan_measurement(
            suite, _SYSTEM, role, options_for(suite, typed), None if data is None else str(data), values["seed"]
        )
        yield from reply_questions(plan, values["limit"], values["seed"])


def options_for(suite: Suite, typed: Typed) -> dict[str, object]:
    """Return the options for a suite among those that were typed."""
    here, texts = Path.cwd(), typed.flags.get("options", [])
    assert isinstance(texts, list)
    return {
        one.name: one.value
        for one in suite_options(texts, Origin("--option", here, here))
        if one.suite == suite.name or (not one.suite and one.name in suite.family.options)
    }
