"""Reference tables and pages of the documentation, made from code: what a page names as ``<!-- generated: NAME -->``,
and a page a suite.

``scripts/docs_hooks.py`` puts them into the site while ``mkdocs build`` makes it.
"""

from __future__ import annotations

import html
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import doses_page
import evidence_pictures

from pytest_genderbias import errors
from pytest_genderbias.errors import BiasError
from pytest_genderbias.escaping import printable
from pytest_genderbias.measurement.fit import example_cases
from pytest_genderbias.plugin.flags import FLAGS, Flag
from pytest_genderbias.reports.figures.drawing import PALETTE
from pytest_genderbias.reports.figures.files import svg
from pytest_genderbias.reports.json_schema import report_schema
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.reports.suite_page import word_lists
from pytest_genderbias.suites.family import Option
from pytest_genderbias.suites.registry import FAMILIES
from pytest_genderbias.suites.suite import Suite, load_suite, suite_names
from pytest_genderbias.text import packaged
from pytest_genderbias.text.printable import escape

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "reference" / "suites" / "pictures"


def rows(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table in markdown. The cells are markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def flags() -> str:
    """Return the table of all flags, in the order of ``pytest --help``."""
    return rows(("flag", "what it does"), ((_named(flag), _sentence(escape(flag.help))) for flag in FLAGS.values()))


def _named(flag: Flag) -> str:
    text = f"`{flag.name}`" + (f" `{flag.metavar}`".replace("|", "\\|") if flag.metavar else "")
    return text + (f"<br>`{flag.ini_key}`" if flag.has_ini and flag.is_typed_by_name else "")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def exceptions() -> str:
    """Return the table of the errors that the package raises, with the builtin class that catches each."""
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, BiasError)]
    return rows(
        ("error", "is also", "when"),
        (
            (
                f"`{kind.__name__}`",
                ", ".join(
                    f"`{base.__name__}`" for base in kind.__bases__ if base is not BiasError and base is not Exception
                )
                or "-",
                _first_paragraph(kind.__doc__ or ""),
            )
            for kind in kinds
        ),
    )


def _first_paragraph(text: str) -> str:
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split()).replace("``", "`")


def suite_table() -> str:
    """Return the table of the packaged suites, with links to their pages."""
    return rows(
        ("suite", "asks", "model", "main statistic"),
        (
            (
                f"[`{suite.name}`]({suite.name}.md)",
                escape(suite.about.question),
                escape(suite.family.needs),
                f"`{suite.main_statistic}`",
            )
            for suite in map(load_suite, suite_names())
        ),
    )


def family_options() -> str:
    """Return the options of each family."""
    return "\n\n".join(
        f"#### `{name}`\n\n{_options(FAMILIES[name].options)}" for name in sorted(FAMILIES) if FAMILIES[name].options
    )


def family_keys() -> str:
    """Return the table of the keys of each family, as ``fixtures/README.md`` has it."""
    text = (packaged.folder("fixtures") / "README.md").read_text(encoding="utf-8")
    return re.search(r"^\| family \| keys .*?(?=\n\n)", text, flags=re.DOTALL | re.MULTILINE)[0]  # type: ignore[index]


def _options(options: Mapping[str, Option]) -> str:
    return rows(
        ("option", "default", "values", "what it does"),
        (
            (f"`{name}`", f"`{option.default}`", escape(option.expected), escape(option.meaning))
            for name, option in options.items()
        ),
    )


def suite_page(name: str) -> str:
    """Return the page of a packaged suite."""
    suite = load_suite(name)
    family = suite.family
    about = suite.about
    parts = [
        f"# {name}",
        f"*{escape(suite.title)}.* {escape(about.question)}",
        rows(
            ("what", "of this suite"),
            (
                ("model", escape(family.needs)),
                ("family", f"`{family.name}`"),
                ("language", escape(suite.language)),
                ("paper", escape(about.paper)),
                ("licence", escape(suite.licence)),
                ("cost", escape(about.cost)),
            ),
        ),
        f"```sh\npytest --bias-model=./checkpoint --bias-suite={name}\n```",
        "## What the figure means",
        escape(about.reads),
        "## What it does not mean",
        escape(about.does_not_mean),
        "## Definition",
        f"```text\n{about.formula}\n```",
        "## Statistics",
        _statistics(suite),
        "Chance: " + escape(family.null_control or f"no null control, since {family.no_null_control}") + ".",
        "## Picture",
        _picture(name) + escape(about.picture),
        "## Limits and criticisms",
        "\n".join(f"- {escape(str(criticism))}" for criticism in about.criticisms)
        + "\n\n[What a pass does not say](../../guides/limits-and-margins.md#what-a-pass-does-not-say) holds for every"
        " suite.",
        "## Options",
        _options(family.options) if family.options else "It has none.",
        "## Sentences and words",
        _sentences(suite),
        _word_lists(suite),
        f"The suite file, as it is packaged:\n\n```yaml\n{suite.path.read_text(encoding='utf-8').strip()}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _sentences(suite: Suite) -> str:
    cases = example_cases(suite, None)
    if not cases:
        return "The texts come from the model, or from [data](../data.md) that you download."
    return "Some of its cases:\n\n```text\n" + "\n".join(map(printable, cases)) + "\n```"


def _word_lists(suite: Suite) -> str:
    lists = word_lists(suite)
    lines = ((f"`{one.name}`", f"{len(one.entries):,}", escape(one.title), escape(one.source)) for one in lists)
    return rows(("word list", "words", "title", "source"), lines) if lists else "It names no word list."


def _picture(name: str) -> str:
    """Return the picture of a suite as SVG in the page, with its finding in words; nothing where
    ``scripts/suite_pictures.py`` made none.
    """
    path = PICTURES / f"{name}.json"
    if not path.is_file():
        return ""
    picture = Picture.from_dict(json.loads(path.read_text(encoding="utf-8")))
    return inlined(picture)


def inlined(picture: Picture) -> str:
    """Return a picture as a page holds it, with its finding in words below."""
    drawn = " ".join(svg(picture).split())
    return f'<figure class="suite" markdown="0">{drawn}<figcaption>{html.escape(picture.alt)}</figcaption></figure>\n\n'


def colours() -> str:
    """Return the colours of pictures for the two schemes of the site, as CSS variables."""
    schemes = (("default", 0), ("slate", 1))
    return "\n".join(
        f'[data-md-color-scheme="{scheme}"] {{'
        f" {' '.join(f'--figure-{role}: {pair[place]};' for role, pair in PALETTE.items())} }}"
        for scheme, place in schemes
    )


def _statistics(suite: Suite) -> str:
    return rows(
        ("statistic", "what it is", "worse", "neutral", "gates"),
        (
            (
                f"`{name}`" + (" (main)" if name == suite.main_statistic else ""),
                escape(statistic.meaning),
                "on either side" if statistic.direction == "away" else statistic.direction,
                f"{statistic.neutral:g}",
                f"no: {escape(statistic.no_gate)}" if statistic.no_gate else "yes",
            )
            for name, statistic in suite.statistics.items()
        ),
    )


def report_keys() -> str:
    """Return the table of the keys of a report, and of what they hold."""
    about = {name: schema.get("description", "") for name, schema in report_schema()["properties"].items()}  # type: ignore[attr-defined]
    return rows(("key", "what it holds"), ((f"`{name}`", _sentence(text)) for name, text in about.items() if text))


def _doses(suite: str) -> str:
    return inlined(doses_page.picture(suite))


#: What pages name in ``<!-- generated: NAME -->``.
GENERATED: dict[str, Callable[[], str]] = {
    "flags": flags,
    "a picture": lambda: _picture("sts-occupation"),
    "picture of trainings": lambda: inlined(evidence_pictures.trainings()),
    "picture of lasting": lambda: inlined(evidence_pictures.lasting()),
    "picture of new heads": lambda: inlined(evidence_pictures.new_heads()),
    "picture of neutrality": lambda: inlined(evidence_pictures.neutrality()),
    **{f"doses and {suite}": partial(_doses, suite) for suite in doses_page.SUITES},
    "errors": exceptions,
    "suites": suite_table,
    "options of families": family_options,
    "keys of families": family_keys,
    "report": report_keys,
}
