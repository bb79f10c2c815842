"""JSON Schemas of the file of ``--bias-json`` and of gate files, made from the classes that write and read them, so
that they are never out of date.

``genderbias schema`` prints them, and so does the documentation.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

from pytest_genderbias.gates import judgement
from pytest_genderbias.gates.gate_file import GateEntry
from pytest_genderbias.gates.judgement import Comparison, Judgement, LeftOut
from pytest_genderbias.gates.verdicts import REASONS
from pytest_genderbias.measurement import measurement
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports import run_report
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.suites.family import RUN_SETTINGS
from pytest_genderbias.suites.suite import Suite, load_suite, suite_names
from pytest_genderbias.text.schema import Beside, field_hints, required_fields, without_null

Schema = dict[str, Any]

IDENTIFIER = f"urn:pytest-genderbias:report:{run_report.SCHEMA}"
#: Versions that parts of a report have of their own.
_VERSIONS: dict[type, int] = {
    Measurement: measurement.SCHEMA,
    Judgement: judgement.SCHEMA,
    Comparison: Comparison.form,
    LeftOut: LeftOut.form,
}
_RENAMED: dict[tuple[type, str], str] = {(RunReport, "variances"): "variance"}
_OPEN = {(Judgement, "facts")}  #: which depend on the kind of gate
_LEFT_OUT = {(Measurement, "items"), (Measurement, "sums"), (Measurement, "examples")}  #: which a report does not hold
_TYPES: Mapping[object, str] = {str: "string", bool: "boolean", int: "integer", types.NoneType: "null"}
_FILE = r"\.ya?ml$"  #: the path of a suite file, of which nothing is known here


class SchemaMaker:
    """Makes JSON Schemas (draft 2020-12) of annotations. Those of dataclasses are in ``definitions``.

    Of a file that people write, keys with a default may be left out, and a key that is there has a value.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}

    #: The schema of a number.
    number: ClassVar[Schema] = {"type": "number"}

    def of(self, hint: object) -> Schema:
        """Return the schema of an annotation."""
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in (Any, object):
            return {}
        if origin is Annotated:
            return self.of(arguments[0]) | {name: of for rule in arguments[1:] for name, of in rule.keywords.items()}
        if origin in (Union, types.UnionType):
            return _union([self.of(argument) for argument in arguments])
        if origin is Literal:
            return {"enum": list(arguments)}
        if hint is float:
            return dict(self.number)
        if hint in _TYPES:
            return {"type": _TYPES[hint]}
        if isinstance(hint, type) and is_dataclass(hint):
            if hint.__name__ not in self.definitions:
                self.definitions[hint.__name__] = {}  # for a class that holds itself
                self.definitions[hint.__name__] = self.object(hint)
            return {"$ref": f"#/$defs/{hint.__name__}"}
        plain = origin or hint
        if isinstance(plain, type) and issubclass(plain, Mapping):
            values = self.of(arguments[1]) if len(arguments) == 2 else {}
            return {"type": "object", **({"additionalProperties": values} if values else {})}
        if isinstance(plain, type) and issubclass(plain, Sequence):
            if plain is tuple and arguments and arguments[-1] is not Ellipsis:
                items = [self.of(argument) for argument in arguments]
                return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
            items_of = self.of(arguments[0]) if arguments else {}
            return {"type": "array", **({"items": items_of} if items_of else {})}
        raise TypeError(f"no JSON Schema for {hint!r}: add it to {__name__}")

    def object(self, kind: type) -> Schema:
        """Return the schema of a dataclass: its fields, and no others."""
        properties = {
            name: {**_filled(self.of(without_null(hint))), **_described(_about_fields(kind).get(name, ""))}
            for name, hint in field_hints(kind).items()
        }
        rules = [_of_rule(rule) for rule in getattr(kind, "rules", ())]
        required = [name for name in properties if name in required_fields(kind)]
        return {**_object(kind, properties, required), **({"allOf": rules} if rules else {})}

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
            name: {**self.of(option.hint), **_described(option.meaning)}
            for name, option in suite.family.options.items()
        }
        run = {name: self.of(hint) for name, hint in run_settings.items()}
        settings = {"properties": {**run, **options}, "additionalProperties": False}
        return {"statistic": {"enum": statistics}, "settings": settings}


def _of_rule(rule: Beside) -> Schema:
    """Return a rule on keys as a JSON Schema."""
    needed = [{"required": [key], "properties": {key: {"not": {"const": False}}}} for key in rule.needs]
    then: Schema = {"anyOf": needed} if needed else {"not": {"required": [rule.never]}}
    return {"if": {"required": [rule.key]}, "then": then}


def _filled(schema: Schema) -> Schema:
    """Return the schema without empty texts, lists and mappings."""
    if "anyOf" in schema and "type" not in schema:
        return {**schema, "anyOf": [_filled(part) for part in schema["anyOf"]]}
    least = {"string": "minLength", "array": "minItems", "object": "minProperties"}
    kinds = schema.get("type", [])
    return schema | {least[kind]: 1 for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind in least}


def _union(parts: Sequence[Schema]) -> Schema:
    """Return the schema of one of several, without nesting where only types differ."""
    if all(set(part) == {"type"} for part in parts):
        names = [name for part in parts for name in ([part["type"]] if isinstance(part["type"], str) else part["type"])]
        return {"type": list(dict.fromkeys(names))}
    return {"anyOf": [dict(part) for part in parts]} if len(parts) > 1 else parts[0]


def _described(text: str) -> Schema:
    """Return the keyword ``description``, for a text that is not empty."""
    return {"description": text.replace("``None``", "``null``")} if text else {}


def _object(kind: type, properties: Schema, required: list[str]) -> Schema:
    """Return the schema of a class with these keys and no others, described by the first paragraph of its docstring."""
    about = _described(" ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split()))
    more = {"properties": properties, "required": required, "additionalProperties": False}
    return {**about, "type": "object", **more}


def _about_fields(kind: type) -> dict[str, str]:
    """Return what the docstrings of a class and its bases say of each attribute."""
    about: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        section = re.search(r"^Attributes:\n((?:    .*\n?|\n)+)", inspect.getdoc(base) or "", re.MULTILINE)
        entries = re.findall(r"^    (\w+): ((?:.*\n?)(?:^     +.*\n?)*)", section[1] if section else "", re.MULTILINE)
        about |= {name: " ".join(text.split()) for name, text in entries}
    return about


def report_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of a report.

    Numbers that JSON does not have, NaN and infinities, are ``null``. ``facts`` of a judgement, and ``signature`` and
    ``records`` of a measurement are open objects, as they depend on the suite and the gate.
    """
    maker = _ReportSchemas()
    report = maker.object(RunReport)
    report["properties"] = {"schema": {"const": run_report.SCHEMA}, **report["properties"]}
    report["required"] = list(report["properties"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": IDENTIFIER,
        "title": "Report of pytest-genderbias",
        **report,
        "$defs": dict(sorted(maker.definitions.items())),
    }


class _ReportSchemas(SchemaMaker):
    """Makes the schemas of what a report holds: every key is there, and ``null`` stands for what has no value."""

    number: ClassVar[Schema] = {"type": ["number", "null"]}

    def object(self, kind: type) -> Schema:
        """Return the schema of a dataclass: all its fields, and no others."""
        about = _about_fields(kind)
        properties: Schema = {"schema": {"const": _VERSIONS[kind]}} if kind in _VERSIONS else {}
        for name, hint in field_hints(kind).items():
            if (kind, name) not in _LEFT_OUT:
                content = {"type": "object"} if (kind, name) in _OPEN else self.of(hint)
                properties[_RENAMED.get((kind, name), name)] = {**content, **_described(about.get(name, ""))}
        if kind is Judgement:
            properties = _with_derived(properties)
        if kind is Measurement:
            properties["main"] = {"type": "string", "description": "name of the main statistic"}
        return _object(kind, properties, list(properties))


def _with_derived(judgement: Schema) -> Schema:
    """Return the properties of a judgement in a report, with those that its fields give."""
    outcome, test = judgement.pop("outcome"), judgement.pop("test")
    return {
        **judgement,
        "text": {"type": "string", "description": "everything that is known, a paragraph a line"},
        "verdict": {
            "type": "string",
            "enum": list(dict.fromkeys(reason.verdict for reason in REASONS.values())),
            "description": "the word of the verdict",
        },
        "code": {**judgement["code"], "enum": list(REASONS)},
        "test": test,
        "outcome": outcome,
        "failed": {"type": "boolean", "description": "whether the judgement failed its test"},
    }


def gates_schema(mitigations: Callable[[SchemaMaker], Schema]) -> Schema:
    """Return the JSON Schema (draft 2020-12) of a gate file.

    It sees what a file says by itself: keys, types, ranges, names of packaged suites, their statistics and options, and
    which keys go together. Whether a limit can be broken, and what a suite file of one's own has, only
    ``genderbias check`` tells.

    Args:
        mitigations: makes the schema of an entry of ``mitigate``.
    """
    maker = SchemaMaker()
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
