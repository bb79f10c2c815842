"""The JSON Schema of the file of ``--bias-json``, made from the classes that write and read it, so that it is never out
of date.

``genderbias schema report`` prints it, and so does the documentation.
"""

from __future__ import annotations

from typing import ClassVar

from pytest_genderbias.gates import comparison, judgement
from pytest_genderbias.gates.comparison import Comparison, LeftOut
from pytest_genderbias.gates.judgement import Judgement, SettledJudgement
from pytest_genderbias.gates.verdicts import REASONS
from pytest_genderbias.measurement import measurement
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports import run_report
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.text.schema import Schema, SchemaMaker, about_fields, described, field_hints, first_sentences

IDENTIFIER = f"urn:pytest-genderbias:report:{run_report.SCHEMA}"
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
        if kind is SettledJudgement:
            return self._settled()
        about = about_fields(kind)
        properties: Schema = {"schema": {"const": _VERSIONS[kind]}} if kind in _VERSIONS else {}
        for name, hint in field_hints(kind).items():
            if (kind, name) not in _LEFT_OUT:
                content = {"type": "object"} if (kind, name) in _OPEN else self.of(hint)
                properties[_RENAMED.get((kind, name), name)] = {**content, **described(about.get(name, ""))}
        if kind is Measurement:
            properties["main"] = {"type": "string", "description": "name of the main statistic"}
        return {
            **described(first_sentences(kind)),
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    def _settled(self) -> Schema:
        """Return the schema of a judgement with what its test made of it, which is one object in a report."""
        schema, about = self.object(Judgement), about_fields(SettledJudgement)
        words = list(dict.fromkeys(reason.verdict for reason in REASONS.values()))
        properties = {
            **schema["properties"],
            "text": {"type": "string", "description": "everything that is known, a paragraph a line"},
            "verdict": {"type": "string", "enum": words, "description": "the word of the verdict"},
            "code": {**schema["properties"]["code"], "enum": list(REASONS)},
            "test": {"type": "string", **described(about["test"])},
            "outcome": {"type": "string", **described(about["outcome"])},
            "failed": {"type": "boolean", "description": "whether the judgement failed its test"},
        }
        return {**schema, "properties": properties, "required": list(properties)}
