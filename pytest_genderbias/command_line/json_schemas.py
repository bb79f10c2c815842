"""``genderbias schema``: the JSON Schema of gate files, for editors, or that of reports, for programs."""

from __future__ import annotations

from pytest_genderbias.command_line.arguments import Typed
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.text.printable import json_text


def carry_out(typed: Typed) -> int:
    """Print the schema."""
    of_report = typed.values["of"] == "report"
    schema = door("schema of a report")() if of_report else door("schema of gates")(door("schema of mitigations"))
    print(json_text(schema))
    return 0
