"""``genderbias questions``: the questions of suites as JSON lines, which any system may answer. ``genderbias agree``:
whether a chat model says in text what its probabilities say.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_genderbias.command_line.arguments import Typed
from pytest_genderbias.escaping import print_lines
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.measurement.reply_questions import (
    ReplyQuestion,
    TwoWays,
    batch_row,
    can_think,
    describe_cost,
    reply_questions,
    replying_in_text,
    two_ways,
)
from pytest_genderbias.measurement.runner import Runner, cache_folder
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.roles import TEXT_REPLIES, Role
from pytest_genderbias.models.source import LoadSettings
from pytest_genderbias.models.spec import parse_spec
from pytest_genderbias.plugin.flag_values import Origin, suite_options
from pytest_genderbias.plugin.progress import TerminalProgress
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.suites.suite import Suite, load_suite
from pytest_genderbias.text.columns import columns


def carry_out(typed: Typed) -> int:
    """Print the questions, and on standard error what they cost; with ``--cost``, only that."""
    if typed.command == "agree":
        return _agree(typed)
    questions = list(_questions(typed))
    messages = [message["content"] for one in questions for message in one["messages"]]
    cost = describe_cost(messages, sum(one["samples"] for one in questions))
    if typed.values["cost"]:
        print(cost)
        return 0
    model = typed.values["batch"]
    for question in questions:
        print(json.dumps(question if model is None else batch_row(question, model), ensure_ascii=False))
    sys.stdout.flush()
    print(f"{cost}; measure the replies with --bias-model=NAME=REPLIES.jsonl", file=sys.stderr)
    return 0


def _questions(typed: Typed) -> Iterator[ReplyQuestion]:
    values = typed.values
    role = Role(TEXT_REPLIES, "a system that answers in text", samples=values["samples"])
    data = typed.flags.get("data")
    for name in dict.fromkeys(values["suites"]):
        suite = load_suite(name)
        plan = plan_measurement(
            suite, "yours", role, _options_for(suite, typed), None if data is None else str(data), values["seed"]
        )
        yield from reply_questions(plan, values["limit"], values["seed"])


def _options_for(suite: Suite, typed: Typed) -> dict[str, object]:
    """Return the options for a suite among those that were typed."""
    here, texts = Path.cwd(), typed.flags.get("options", [])
    assert isinstance(texts, list)
    return {
        name: value
        for owner, name, value in suite_options(texts, Origin("--option", here, here))
        if owner == suite.name or (not owner and name in suite.family.options)
    }


# What a model says in text, and what its probabilities say.

_WIDTH = 120
_TOKENS, _THINKING_TOKENS = 16, 1024  #: of a reply
_SHOWN = 3  #: questions in which the two ways differ most
_HEADERS = ("replies", "likeliest is most frequent", "if drawn", "r", "if drawn", "refused", "unreadable")


def _agree(typed: Typed) -> int:
    """Say what it costs, ask both ways, and print how far they agree."""
    values, flags = typed.values, typed.flags
    load: dict[str, Any] = {name: str(flags[name]) for name in ("device", "dtype") if name in flags}
    runner = Runner(LoadSettings(**load))
    cache = cache_folder(flags.get("cache_folder", "default"))
    settings = ScoreSettings(seed=values["seed"], cache=cache, progress=TerminalProgress(None))
    model = runner.models.model(parse_spec(values["model"]))
    systems = dict(_systems(model, Runner(LoadSettings(samples=values["samples"], **load)), typed, settings))
    suite, data = load_suite(values["suite"]), flags.get("data")
    ways = two_ways(
        suite,
        model,
        next(iter(systems.values())),
        values["limit"],
        _options_for(suite, typed),
        None if data is None else str(data),
        values["seed"],
    )
    each = "" if len(systems) == 1 else f", {len(systems)} times ({', '.join(systems)})"
    cost = f"{ways.cost}{each}; the probabilities of {len(ways.numbers):,} questions"
    if values["cost"]:
        print(cost)
        return 0
    print(cost, file=sys.stderr)
    print_lines("\n".join(_lines(ways, model, systems, settings)))
    return 0


def _systems(model: Model, runner: Runner, typed: Typed, settings: ScoreSettings) -> Iterator[tuple[str, Model]]:
    """Yield what answers in text, by the name of its row."""
    values = typed.values
    if values["replies"] is not None or model.role.kind == TEXT_REPLIES:  # an endpoint that lists first tokens, too
        system = runner.open(values["replies"] or values["model"])
        yield system.name, system
        return
    thinks = can_think(model)
    for thinking in (False, True) if thinks else (False,):
        tokens = values["tokens"] or (_THINKING_TOKENS if thinking else _TOKENS)
        name = f"thinking {'on' if thinking else 'off'}" if thinks else "its own"
        yield name, replying_in_text(model, values["samples"], tokens, thinking, settings)


def _lines(ways: TwoWays, model: Model, systems: dict[str, Model], settings: ScoreSettings) -> Iterator[str]:
    """Yield what is printed."""
    p, mass = ways.by_probability(model, settings)
    samples = next(iter(systems.values())).role.samples
    yield (
        f"{ways.name} on {model.name}: {len(p):,} of {ways.cases.n_cases:,} questions, {samples:,} replies to each;"
        f" the options have {mass.mean():.3f} of the probability"
    )
    rows: list[tuple[str, ...]] = [_HEADERS]
    unlike: list[str] = []
    for name, system in systems.items():
        counts = ways.in_text(system, settings)
        found = ways.agreement(p, counts)
        figures = _figure(found.share, found.share_bounds), _figure(found.drawn_share), _figure(found.r, found.r_bounds)
        rows.append((name, *figures, *map(_figure, (found.drawn_r, found.refused, found.unreadable))))
        unlike += [f"most unlike, {name}:", *(f"  {line}" for line in ways.most_unlike(p, counts, _SHOWN))]
    yield columns(rows, _WIDTH)
    yield "if drawn: what these figures would be, were each reply drawn from the probabilities"
    yield from unlike


def _figure(value: float | None, around: Interval | None = None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" + ("" if around is None else f" ({around.low:.3f} to {around.high:.3f})")
