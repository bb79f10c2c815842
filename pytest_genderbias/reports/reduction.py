"""The table of what mitigations did: before, after, in the control, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_genderbias.text.printable import escape

HEADERS = (
    "suite", "model", "statistic", "before", "after", "control", "gone", "95 % bounds", "over", "task", "comes back", "seeds", "asked",
    "verdict",
)  # fmt: skip
_ALWAYS = 7  #: columns that are shown whatever is in them


def is_reduction(judgement: Mapping[str, Any]) -> bool:
    """Tell whether a judgement is of a mitigation, and has its figures."""
    return "by" in judgement.get("facts", {})


def make_reduction_table(judgements: Iterable[Mapping[str, Any]]) -> str:
    """Return a markdown table, a row a judgement of a mitigation; nothing without any. Texts are escaped for markdown.

    The mappings are those of ``Judgement.to_dict()``. ``gone``: the share of the distance from neutral, with one-sided bounds each;
    ``task``: each figure of the budget, before and after; ``comes back``: the share of what is gone, with a new head.
    """
    from tabulate import tabulate

    rows = sorted((_row(one) for one in judgements if is_reduction(one)), key=lambda row: (row[1], row[0]))
    if not rows:
        return ""
    last = len(HEADERS) - 2
    shown = [i for i in range(len(HEADERS)) if i < _ALWAYS or i >= last or any(row[i] for row in rows)]
    table = [[row[i] for i in shown] for row in rows]
    return tabulate(table, [HEADERS[i] for i in shown], tablefmt="github", disable_numparse=True)


def _row(of: Mapping[str, Any]) -> list[str]:
    facts = of["facts"]
    low, high = facts.get("reduction_bounds", (None, None))
    task = [
        f"{name} {_figure(one['before'])} to {_figure(one['after'])}" for name, one in facts.get("budget", {}).items()
    ]
    cells = (
        f"{of['suite']} ({of['name']})" if of.get("name") else of["suite"], of["model"], of["statistic"], _number(facts["before"]),
        _number(facts["after"]), _number(facts.get("control")), _share(facts.get("reduction")),
        "" if low is None and high is None else f"{_share(low)} to {_share(high)}", facts.get("over", ""), "; ".join(task),
        _share(facts["superficial"]["comes_back"]) if "superficial" in facts else "",
        str(len(facts["seeds"])) if len(facts.get("seeds", ())) > 1 else "", of["bound"], of["verdict"],
    )  # fmt: skip
    return [escape(cell) for cell in cells]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.3g} %"
