"""``genderbias list``: the suites that fit a model and the user's data, one line each, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_genderbias.measurement.fit import NO_DATA, OTHER_MODEL, OTHER_SETTINGS, Fit
from pytest_genderbias.suites.suite import Suite
from pytest_genderbias.text.columns import columns, paragraph

_WHY = {
    NO_DATA: "need data (--bias-data=DIR; docs/reference/data.md says where to get them):",
    OTHER_MODEL: "need another kind of model:",
    OTHER_SETTINGS: "need other settings:",
}


def list_fitting(name: str, role: str, fits: Sequence[Fit], width: int) -> str:
    """Return the suites that fit a model, one line each, and the others by the reason.

    Args:
        name: of the model.
        role: what the model is, in words: ``a masked LM``.
        fits: what was found out of each suite.
        width: columns of the terminal.
    """
    fitting = [fit for fit in fits if not fit.obstacle]
    parts = [paragraph(f"{name} is {role}: {len(fitting)} of {len(fits)} suites fit", width)]
    if fitting:
        rows = [("suite", "cases", "")]
        rows += [(fit.suite.name, _count(fit.cases), fit.suite.title) for fit in fitting]
        parts.append(columns(rows, width, right=[1]))
    for obstacle, title in _WHY.items():
        if others := [fit for fit in fits if fit.obstacle == obstacle]:
            parts.append("\n".join((title, *_by_reason(others, f"; {name} is {role}", width))))
    return "\n\n".join(parts)


def list_all(suites: Iterable[Suite], width: int) -> str:
    """Return all suites, one line each, under the kind of model that they need."""
    by_need: dict[str, list[Suite]] = {}
    for suite in suites:
        by_need.setdefault(suite.family.needs, []).append(suite)
    name = max((len(suite.name) for group in by_need.values() for suite in group), default=0)
    parts = [
        f"{paragraph(f'for {need}:', width)}\n"
        + columns([(suite.name.ljust(name), suite.title) for suite in group], width)
        for need, group in by_need.items()
    ]
    return "\n\n".join((*parts, "name a model, and the folder of your data, to see which of them fit"))


def _by_reason(fits: Iterable[Fit], known: str, width: int) -> Iterator[str]:
    """Yield each reason once, with the suites that it holds for; ``known`` is the end of a reason that the title says
    already.

    Of missing data the first clause is enough: the page that the title names says where to get them.
    """
    names: dict[str, list[str]] = {}
    for fit in fits:
        reason = fit.reason.removesuffix(known).removeprefix("needs ")
        if fit.obstacle == NO_DATA:
            reason = reason.partition("; ")[0].removesuffix(" in a folder named by --bias-data=DIR")
        names.setdefault(reason, []).append(fit.suite.name)
    for reason, suites in names.items():
        yield paragraph(f"{', '.join(suites)}: {reason}", width, "    ", "  ")


def _count(cases: int | None) -> str:
    return "its own" if cases is None else f"{cases:,}"
