"""Hooks of ``mkdocs build`` (mkdocs.yml): generated tables, a page a suite, and links that leave the documentation."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import reference_pages  # noqa: E402 - mkdocs loads this file without its folder on the path

from pytest_genderbias.mitigation.harness.file import mitigation_schema  # noqa: E402
from pytest_genderbias.reports.json_schema import gates_schema, report_schema  # noqa: E402
from pytest_genderbias.text.printable import json_text  # noqa: E402

_SUITES = "reference/suites/"
_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)([^)#\s]+)(?:#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the page of each suite into the navigation."""
    pages = [
        f"{_SUITES}index.md",
        *(
            {kind: [{name: f"{_SUITES}{name}.md"} for name in names]}
            for kind, names in reference_pages.suites_by_kind().items()
        ),
    ]
    config.nav = _replaced(config.nav, pages)
    return config


def _replaced(entry: Any, pages: list[Any]) -> Any:
    if isinstance(entry, list):
        return [_replaced(part, pages) for part in entry]
    if isinstance(entry, dict):
        return {title: pages if target == _SUITES else _replaced(target, pages) for title, target in entry.items()}
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of each suite, the colours of their pictures, and the JSON Schemas."""
    schemas = {"report": report_schema(), "gates": gates_schema(mitigation_schema)}
    for name, schema in schemas.items():
        files.append(File.generated(config, f"reference/{name}.schema.json", content=json_text(schema)))
    files.append(File.generated(config, "figures.css", content=reference_pages.colours()))
    for name in reference_pages.suite_names():
        files.append(File.generated(config, f"{_SUITES}{name}.md", content=reference_pages.suite_page(name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Fill in what is generated, and show links out of the documentation, which only the repository has, as their
    text.
    """
    folder = Path(page.file.src_uri).parent

    def shown(match: re.Match[str]) -> str:
        target = (ROOT / "docs" / folder / match[2] / match[3]).resolve()
        return match[0] if target.is_relative_to(ROOT / "docs") else match[1]

    def made(match: re.Match[str]) -> str:
        if match[1] not in reference_pages.GENERATED:
            raise PluginError(
                f"{page.file.src_uri}: nothing generates {match[1]!r}; expected one of"
                f" {', '.join(reference_pages.GENERATED)}"
            )
        return reference_pages.GENERATED[match[1]]()

    return _LINK.sub(shown, re.sub(r"<!-- generated: (.+?) -->", made, markdown))


def on_page_content(html: str, **_: object) -> str:
    """Show the names in docstrings without the roles of Sphinx, which mkdocs does not know."""
    return re.sub(r":(?:attr|class|data|exc|func|meth|mod):<code>~?(?:\w+\.)*", "<code>", html)


def on_post_page(output: str, **_: object) -> str:
    """Name the theme's search dialog, which readers of screens would otherwise meet without a name."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
