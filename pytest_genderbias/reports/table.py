"""The table that ends a run, in the form that pull requests render."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

HEADERS = ("suite", "model", "statistic", "value", "95 % interval", "cases", "limit or baseline", "verdict")


def make_table(measurements: Iterable[Mapping[str, Any]], judgements: Iterable[Mapping[str, Any]]) -> str:
    """Return a markdown table: every judgement, and every statistic that was measured and not judged.

    Both arguments are plain mappings, as ``to_dict()`` gives them. Texts are escaped for markdown.
    """
    from tabulate import tabulate

    judged = list(judgements)
    seen = {(j["suite"], j["model"], j["statistic"]) for j in judged}
    rows = [_row(j, j["statistic"], j["value"], j["interval"], j["bound"], j["verdict"]) for j in judged]
    for m in measurements:
        for name, value in m["values"].items():
            if (m["suite"], m["model"], name) not in seen:
                seen.add((m["suite"], m["model"], name))
                rows.append(_row(m, name, value, m["intervals"][name], "", "measured"))
    rows.sort(key=lambda row: (row[1], row[0]))
    return tabulate(rows, HEADERS, tablefmt="github", disable_numparse=True) if rows else ""


def _row(
    of: Mapping[str, Any],
    statistic: str,
    value: float | None,
    interval: Mapping[str, Any] | None,
    bound: str,
    verdict: str,
) -> list[str]:
    cases = f"{of['n']:,}" if of["n"] == of["n_total"] else f"{of['n']:,} of {of['n_total']:,}"
    shown = "-" if value is None else f"{value:.4f}"
    between = "" if interval is None else f"{interval['low']:.4f} to {interval['high']:.4f}"
    return [escape(text) for text in (of["suite"], of["model"], statistic, shown, between, cases, bound, verdict)]


def escape(text: str) -> str:
    """Escape what markdown would read as markup.

    >>> escape("a|b <i>")
    'a\\\\|b &lt;i&gt;'
    """
    text = re.sub(r"[\x00-\x1f\x7f]+", " ", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([|`*\[\]])", r"\\\1", text)
