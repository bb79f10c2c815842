"""``genderbias schema``: the JSON Schema of gate files, for editors, or that of reports, for programs."""

from __future__ import annotations

from pytest_genderbias.command_line.arguments import Typed
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.text.printable import json_text


def carry_out(typed: Typed) -> int:
    """Print the schema."""
    print(schema_text(typed.values["of"]))
    return 0


def schema_text(of: str) -> str:
    """Return the schema of ``gates`` or of a ``report``."""
    return json_text(
        door("schema of a report")() if of == "report" else door("schema of gates")(door("schema of mitigations"))
    )
