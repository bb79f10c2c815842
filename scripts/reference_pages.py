"""Reference tables and pages of the documentation, made from code: what a page names as ``<!-- generated: NAME -->``,
and a page a suite.

``scripts/docs_hooks.py`` puts them into the site while ``mkdocs build`` makes it.
"""

from __future__ import annotations

import html
import inspect
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import doses_page
import evidence_pictures

from pytest_genderbias import errors
from pytest_genderbias.datasets.folder import known_data_sets
from pytest_genderbias.errors import BiasError
from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.verdicts import REASONS, with_note
from pytest_genderbias.measurement.fit import example_cases
from pytest_genderbias.mitigation.methods.registry import METHODS, RECIPES
from pytest_genderbias.plugin.flags import FLAGS, Flag
from pytest_genderbias.reports.figures.drawing import PALETTE
from pytest_genderbias.reports.figures.files import svg
from pytest_genderbias.reports.json_schema import report_schema
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.reports.suite_page import word_lists
from pytest_genderbias.suites.ask import ENGLISH
from pytest_genderbias.suites.family import Option, read_about
from pytest_genderbias.suites.suite import FAMILIES, Suite, load_family, load_suite, suite_names
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


def codes() -> str:
    """Return the table of the codes of verdicts."""
    return rows(
        ("verdict and note", "code", "meaning"),
        ((f"`{with_note(code)}`", f"`{code}`", reason.meaning) for code, reason in REASONS.items()),
    )


def data_sets() -> str:
    """Return the table of the data sets, with the published name of the file of each split."""
    return rows(
        ("data set", "files under `DIR`, the first that is there", "published at, licence", "without it"),
        (
            (
                f"`{data.name}`",
                ", ".join(f"`{choice}`" for choices in data.splits.values() for choice in choices[0]),
                f"<{data.published}>, {data.licence}",
                data.instead or "-",
            )
            for data in known_data_sets().values()
        ),
    )


#: Headings of the tables of suites, in their order: the ``kind`` of a family.
KINDS = (
    "Products and chat models",
    "Language models",
    "NLI models",
    "Classifiers",
    "Coreference",
    "Encoders and word vectors",
    "Texts",
    "Results of other tools",
)
_ONE_ROW = ("weat", "ceat", "subspace")  #: families whose suites differ in their words only


def suites_by_kind() -> dict[str, list[str]]:
    """Return the names of the packaged suites by kind of model, those of a family together."""
    named: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for family, suites in _suites_by_family().items():
        named[read_about(family).kind] += suites
    return {kind: suites for kind, suites in named.items() if suites}


def _suites_by_family() -> dict[str, list[str]]:
    families = {name: load_suite(name).family.name for name in suite_names()}
    return {family: [name for name, of in families.items() if of == family] for family in FAMILIES}


def suite_tables() -> str:
    """Return a table of the packaged suites for each kind of model, with links to their pages."""
    parts = []
    for kind, names in suites_by_kind().items():
        suites = [load_suite(name) for name in names if name.partition("-")[0] not in _ONE_ROW or name in _ONE_ROW]
        needed = Counter(suite.family.needs for suite in suites).most_common(1)[0][0]
        lines = ((_linked(suite, names), _asked(suite, needed)) for suite in suites)
        parts.append(f"## {kind}\n\nFor {escape(needed)}.\n\n{rows(('suite', 'asks'), lines)}")
    return "\n\n".join(parts)


def _asked(suite: Suite, needed: str) -> str:
    """Return the question of a suite, and the model that it needs if that is another than those beside it need."""
    question = escape(suite.about.question.partition("?")[0] + "?")
    return question if suite.family.needs == needed else f"{question} *For {escape(suite.family.needs)}.*"


def _linked(suite: Suite, names: Sequence[str]) -> str:
    """Return the link to the page of a suite, and of those that only have other words, and its main statistic."""
    others = [name for name in names if suite.name in _ONE_ROW and name.startswith(f"{suite.name}-")]
    links = [f"[`{suite.name}`]({suite.name}.md)", *(f"[{name.partition('-')[2]}]({name}.md)" for name in others)]
    return f"{', '.join(links)}<br>`{suite.main_statistic}`"


def family_options() -> str:
    """Return the options of each family."""
    return "\n\n".join(
        f"#### `{name}`\n\n{_options(load_family(name).options)}"
        for name in sorted(FAMILIES)
        if load_family(name).options
    )


def family_keys() -> str:
    """Return the table of the keys of each family and of its packaged suites."""
    lines = (
        (
            f"`{family}`",
            read_about(family).keys.replace("|", "\\|"),
            ", ".join(f"`{name}`" for name in suites) or "none",
        )
        for family, suites in _suites_by_family().items()
    )
    return rows(("family", "keys", "suites"), lines)


def words_that_ask() -> str:
    """Return the table of the keys of ``ask`` with their English words, and the packaged suites that use each."""
    suites = [load_suite(name) for name in suite_names()]
    uses = {suite.name: suite.family.asks(suite.body) for suite in suites}
    lines = []
    for key, words in ENGLISH.items():
        users = ", ".join(name for name, used in uses.items() if key in used)
        lines.append((f"`{key}`", f"`{escape(' / '.join(words.splitlines()))}`", users or "decisions of a file"))
    return rows(("key", "in English", "suites"), lines)


def _options(options: Mapping[str, Option]) -> str:
    return rows(
        ("option", "default", "values", "what it does"),
        (
            (f"`{name}`", f"`{option.default}`", escape(option.expected), escape(option.meaning))
            for name, option in options.items()
        ),
    )


def methods() -> str:
    """Return the methods with their settings; mkdocstrings fills in what the docstrings say of them."""
    return _with_settings({name: kind() for name, kind in METHODS.items()})


def recipes() -> str:
    """Return the recipes with their settings."""
    return _with_settings({name: kind() for name, kind in RECIPES.items()})


def _with_settings(kinds: Mapping[str, type]) -> str:
    return "\n\n".join(
        f"### {name}\n\n{_defaults(kind)}\n\n::: {kind.__module__}.{kind.__qualname__}\n    options:\n"
        "      show_root_heading: false\n      show_root_toc_entry: false\n      show_bases: false\n"
        "      members: false"
        for name, kind in kinds.items()
    )


def _defaults(kind: type) -> str:
    """Return the settings of a method or recipe with their defaults, as YAML has them."""
    made = {
        field.name: field.default_factory() if field.default is MISSING else field.default  # type: ignore[misc]
        for field in fields(kind)
    }
    told = (f"`{name}`: {json.dumps(default, default=list)}".replace('"', "") for name, default in made.items())
    return f"{'; '.join(told)}."


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
    "picture of trainings": lambda: inlined(evidence_pictures.trainings()),
    "picture of lasting": lambda: inlined(evidence_pictures.lasting()),
    "picture of new heads": lambda: inlined(evidence_pictures.new_heads()),
    "picture of neutrality": lambda: inlined(evidence_pictures.neutrality()),
    **{f"doses and {suite}": partial(_doses, suite) for suite in doses_page.SUITES},
    "codes": codes,
    "data sets": data_sets,
    "errors": exceptions,
    "methods": methods,
    "recipes": recipes,
    "suites": suite_tables,
    "options of families": family_options,
    "keys of families": family_keys,
    "words that ask": words_that_ask,
    "report": report_keys,
}
