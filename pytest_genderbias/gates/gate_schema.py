"""The JSON Schema of ``*.bias.yaml`` files, made from the classes that read them, so that editors complete and check
gates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_genderbias.gates.gate_file import GateEntry
from pytest_genderbias.suites.options import RUN_SETTINGS
from pytest_genderbias.suites.suite import Suite, load_suite, suite_names
from pytest_genderbias.text.schema import Schema, SchemaMaker, described

_FILE = r"\.ya?ml$"  #: the path of a suite file, of which nothing is known here


class EntrySchemas(SchemaMaker):
    """Makes the schemas of entries that name a suite: which statistics and settings they may have."""

    def entry(self, kind: type, run_settings: Mapping[str, Any], gated: bool) -> Schema:
        """Return the schema of an entry with ``suite``, ``statistic`` and ``settings``.

        Args:
            kind: the dataclass.
            run_settings: annotations of the settings that it may have besides the options of the suite.
            gated: whether its statistic has to be one that gates take.
        """
        schema = self.object(kind)
        names = suite_names()
        schema["properties"]["suite"]["anyOf"] = [{"enum": names}, {"pattern": _FILE}]
        by_content: dict[str, tuple[list[str], Schema]] = {}
        for name in names:
            content = self._of_suite(load_suite(name), run_settings, gated)
            by_content.setdefault(repr(content), ([], content))[0].append(name)
        cases = [
            {"if": {"properties": {"suite": {"enum": some}}, "required": ["suite"]}, "then": {"properties": content}}
            for some, content in by_content.values()
        ]
        return {**schema, "allOf": [*schema.get("allOf", []), *cases]}

    def _of_suite(self, suite: Suite, run_settings: Mapping[str, Any], gated: bool) -> Schema:
        statistics = [name for name, about in suite.statistics.items() if not gated or not about.no_gate]
        options = {
            name: {**self.of(option.hint), **described(option.meaning)} for name, option in suite.family.options.items()
        }
        run = {name: self.of(hint) for name, hint in run_settings.items()}
        settings = {"properties": {**run, **options}, "additionalProperties": False}
        return {"statistic": {"enum": statistics}, "settings": settings}


def gates_schema(mitigations: Callable[[EntrySchemas], Schema]) -> Schema:
    """Return the JSON Schema (draft 2020-12) of a gate file.

    It sees what a file says by itself: keys, types, ranges, names of packaged suites, their statistics and options, and
    which keys go together. Whether a limit can be broken, and what a suite file of one's own has, only
    ``genderbias check`` tells.

    Args:
        mitigations: makes the schema of an entry of ``mitigate``.
    """
    maker = EntrySchemas()
    entries = {"gates": maker.entry(GateEntry, RUN_SETTINGS, gated=True), "mitigate": mitigations(maker)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:pytest-genderbias:gates",
        "title": "Gates of pytest-genderbias",
        "type": "object",
        "properties": {name: {"type": "array", "items": items, "minItems": 1} for name, items in entries.items()},
        "minProperties": 1,
        "additionalProperties": False,
        "$defs": dict(sorted(maker.definitions.items())),
    }
