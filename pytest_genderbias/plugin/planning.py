"""``--bias-plan``: how the gates of a test are planned, and what is written and printed of the plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.plugin.books import Messages
from pytest_genderbias.plugin.items.base import BiasItem
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import bias_session

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_genderbias.gates.judgement import Judgement
    from pytest_genderbias.gates.plan import Planning
    from pytest_genderbias.measurement.measurement import Measurement


def planning_of(item: pytest.Item, model: str) -> Planning:
    """Return how the gates of a test are planned on a model."""
    from pytest_genderbias.gates.plan import Planning

    settings, session = item.config.stash[SETTINGS], bias_session(item.config)
    second = next((spec for spec in settings.models if spec.name == settings.plan_with), None)

    def measure_second(measurement: Measurement) -> Measurement | None:
        made = session.made(measurement)
        return None if second is None or made is None else session.measure(made.suite, second, made.settings)

    def seconds(measurement: Measurement) -> float:
        made = session.made(measurement)
        return 0.0 if made is None else made.seconds

    gates = {
        (other.baseline_module, *other.baseline_gate)
        for other in item.session.items
        if isinstance(other, BiasItem) and other.spec is not None and other.spec.name == model and other.baseline_gate
    }
    return Planning(max(1, len(gates)), measure_second, seconds, model == settings.plan_with)


def store_plans(directory: Path, judgements: Sequence[Judgement], messages: Messages) -> None:
    """Write planned margins into the stored entries, and say which gates have no entry yet."""
    from pytest_genderbias.errors import BaselineError
    from pytest_genderbias.gates.book import book_path, read_book
    from pytest_genderbias.gates.book_update import write_margins
    from pytest_genderbias.gates.plan import margins_of

    for (model, module), entries in margins_of(judgements).items():
        try:
            stored = read_book(book_path(directory, model, module))
            known = {name: margins for name, margins in entries.items() if name in stored}
            if known:
                path = write_margins(directory, model, module, known)
                count = sum(margin.tolerance is not None for margins in known.values() for margin in margins.values())
                if count:
                    messages.add(
                        f"planned: the tolerances of {count} gate{'s' if count > 1 else ''} were stored in {path}"
                    )
            if missing := sorted(entries.keys() - known.keys()):
                messages.add(
                    f"planned, and not stored: {model} has no baseline entry of {', '.join(missing)} for {module}; run with --bias-plan "
                    "--bias-update-new to store measurement and plan",
                    "yellow",
                )
        except BaselineError as error:
            messages.fail(f"--bias-plan: {error}")
