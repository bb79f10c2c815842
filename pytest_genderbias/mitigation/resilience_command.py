"""``genderbias resilience``: models tuned for a task without mitigation, and their bias by steps and by the part that
was frozen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import SettingError, UnknownNameError
from pytest_genderbias.escaping import print_lines
from pytest_genderbias.folders import write_whole
from pytest_genderbias.mitigation.harness.resilience import ALL, Frozen, resilience
from pytest_genderbias.mitigation.methods.registry import resolve_recipe
from pytest_genderbias.models.spec import parse_spec
from pytest_genderbias.suites.suite import load_suite
from pytest_genderbias.text.located_yaml import parse_value
from pytest_genderbias.text.suggestions import expected_instead


def carry_out(values: Mapping[str, Any]) -> int:
    """Tune the models, print the table, and write the JSON file where one is named."""
    models = {}
    for text in values["specs"]:
        name = parse_spec(text).name
        if name in models:
            raise SettingError(f"two models are called {name}; name them: before=./a after=./b")
        models[name] = text
    suite, statistic = load_suite(values["suite"]), values["statistic"]
    if statistic is not None and statistic not in suite.family.statistics:
        raise UnknownNameError(
            f"{suite.name} has no statistic {statistic!r}; "
            f"{expected_instead(statistic, suite.family.statistics, 'it has')}"
        )
    data = values["data"] and Path(values["data"])
    recipe = resolve_recipe(parse_value(values["recipe"], "--recipe"), data or None)
    settings = {key: values[key] for key in ("data", "limit") if values[key] is not None}
    result = resilience(
        models, suite, recipe, steps=values["steps"], frozen=read_frozen(values["frozen"]), seed=values["seed"],
        max_steps=values["max_steps"], folder=values["runs"], **settings,
    )  # fmt: skip
    print_lines(result.table(statistic))
    if values["json"]:
        write_whole(Path(values["json"]), (json.dumps(result.to_dict(), indent=1) + "\n").encode())
    return 0


def read_frozen(text: str) -> str | list[Frozen]:
    """Return the parts to freeze from a list that was typed.

    >>> read_frozen("nothing,2,encoder"), read_frozen("all")
    (['nothing', 2, 'encoder'], 'all')
    """
    if text == ALL:
        return ALL
    return [int(part) if part.isdecimal() else part for part in map(str.strip, text.split(","))]
