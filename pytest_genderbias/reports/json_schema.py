"""The JSON Schema of the file of ``--bias-json``, made from the classes that write and read it, so that it is never out
of date.

``python -m pytest_genderbias.reports.json_schema`` prints it, and so does the documentation.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from pytest_genderbias.gates import comparison, judgement
from pytest_genderbias.gates.comparison import Comparison, LeftOut
from pytest_genderbias.gates.judgement import Judgement, SettledJudgement
from pytest_genderbias.gates.verdicts import REASONS
from pytest_genderbias.measurement import measurement
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports import run_report
from pytest_genderbias.reports.run_report import RunReport

Schema = dict[str, object]

IDENTIFIER = f"urn:pytest-genderbias:report:{run_report.SCHEMA}"
_SCALARS: dict[object, str] = {str: "string", bool: "boolean", int: "integer"}
#: Versions that parts of a report have of their own.
_VERSIONS: dict[type, int] = {
    Measurement: measurement.SCHEMA, Judgement: judgement.SCHEMA, Comparison: comparison.SCHEMA, LeftOut: comparison.SCHEMA,
}  # fmt: skip
_RENAMED: dict[tuple[type, str], str] = {(RunReport, "variances"): "variance"}
_OPEN = {(Judgement, "facts")}  #: which depend on the kind of gate
_LEFT_OUT = {(Measurement, "items"), (Measurement, "sums"), (Measurement, "examples")}  #: which a report does not hold


def report_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of a report.

    Numbers that JSON does not have, NaN and infinities, are ``null``. ``facts`` of a judgement, and ``signature`` and
    ``records`` of a measurement are open objects, as they depend on the suite and the gate.
    """
    definitions: dict[str, Schema] = {}
    report = _object(RunReport, definitions)
    known = _mapping(report["properties"])
    report["properties"] = {"schema": {"const": run_report.SCHEMA}, **known}
    report["required"] = ["schema", *known]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": IDENTIFIER,
        "title": "Report of pytest-genderbias",
        **report,
        "$defs": dict(sorted(definitions.items())),
    }


def _object(kind: type, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a dataclass: all its fields, and no others."""
    hints, about = get_type_hints(kind), _attributes(kind)
    properties: Schema = {"schema": {"const": _VERSIONS[kind]}} if kind in _VERSIONS else {}
    for entry in fields(kind):
        if (kind, entry.name) not in _LEFT_OUT:
            name = _RENAMED.get((kind, entry.name), entry.name)
            is_open = (kind, entry.name) in _OPEN
            content = {"type": "object"} if is_open else _of(hints[entry.name], definitions)
            properties[name] = {**content, **_described(about.get(entry.name, ""))}
    if kind is Measurement:
        properties["main"] = {"type": "string", "description": "name of the main statistic"}
    return {
        **_described(" ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())),
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _settled(definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a judgement with what its test made of it, which is one object in a report."""
    schema, about = _object(Judgement, definitions), _attributes(SettledJudgement)
    words = list(dict.fromkeys(reason.verdict for reason in REASONS.values()))
    added: Schema = {
        "text": {"type": "string", "description": "everything that is known, a paragraph a line"},
        "verdict": {"type": "string", "enum": words, "description": "the word of the verdict"},
        "code": {**_mapping(_mapping(schema["properties"])["code"]), "enum": list(REASONS)},
        "test": {"type": "string", **_described(about["test"])},
        "outcome": {"type": "string", **_described(about["outcome"])},
        "failed": {"type": "boolean", "description": "whether the judgement failed its test"},
    }
    properties = {**_mapping(schema["properties"]), **added}
    return {**schema, "properties": properties, "required": list(properties)}


def _of(hint: object, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of an annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        return {}
    if hint is float:
        return {"type": ["number", "null"]}
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if hint is types.NoneType:
        return {"type": "null"}
    if origin in (Union, types.UnionType):
        return _union([_of(argument, definitions) for argument in arguments])
    if isinstance(hint, type) and is_dataclass(hint):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}  # for a class that holds itself
            is_settled = hint is SettledJudgement
            definitions[hint.__name__] = _settled(definitions) if is_settled else _object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    plain = origin or hint
    if isinstance(plain, type) and issubclass(plain, Mapping):
        values = _of(arguments[1], definitions) if len(arguments) == 2 else {}
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    if isinstance(plain, type) and issubclass(plain, Sequence):
        if plain is tuple and arguments and arguments[-1] is not Ellipsis:
            items = [_of(argument, definitions) for argument in arguments]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        items_of = _of(arguments[0], definitions) if arguments else {}
        return {"type": "array", **({"items": items_of} if items_of else {})}
    raise TypeError(f"no JSON Schema for {hint!r}: add it to {__name__}")


def _union(parts: Sequence[Schema]) -> Schema:
    """Return the schema of one of several, without nesting where only types differ."""
    if all(set(part) == {"type"} for part in parts):
        names = [name for part in parts for name in _names(part["type"])]
        return {"type": list(dict.fromkeys(names))}
    return {"anyOf": [dict(part) for part in parts]}


def _names(value: object) -> list[str]:
    return [value] if isinstance(value, str) else [str(name) for name in value] if isinstance(value, list) else []


def _mapping(value: object) -> Schema:
    assert isinstance(value, dict)
    return value


def _described(text: str) -> Schema:
    return {"description": text.replace("``None``", "``null``")} if text else {}


def _attributes(kind: type) -> dict[str, str]:
    """Return what the docstring of a class says of each attribute."""
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)+)", inspect.getdoc(kind) or "", re.MULTILINE)
    if section is None:
        return {}
    entries = re.findall(r"^    (\w+): ((?:.*\n?)(?:^     +.*\n?)*)", section[1], re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


if __name__ == "__main__":
    from pytest_genderbias.text.printable import json_text

    print(json_text(report_schema()))
