"""``genderbias schema``: the JSON Schema of gate files, for editors, or that of reports, for programs."""

from __future__ import annotations

from pytest_genderbias.command_line.arguments import Typed
from pytest_genderbias.gates.gate_schema import gates_schema
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.text.printable import json_text


def carry_out(typed: Typed) -> int:
    """Print the schema."""
    if typed.values["of"] == "report":
        print(json_text(door("schema of a report")()))
    else:
        print(json_text(gates_schema(door("schema of mitigations"))))
    return 0
