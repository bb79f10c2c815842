"""The table that ends a run, in the form that pull requests render."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_genderbias.gates.judgement import WHOLE_SUITE
from pytest_genderbias.gates.regression import FLOAT_NOISE
from pytest_genderbias.reports.reduction import is_reduction
from pytest_genderbias.text.printable import escape

HEADERS = ("suite", "model", "statistic", "value", "95 % interval", "over", "cases", "limit or baseline", "verdict")
_P = "p (Holm)"  #: shown where something was compared with a baseline or another model
_NULL = "null (p)"  #: shown where there are some: 95 % of the shuffles, and the share at least as bad


def make_table(measurements: Iterable[Mapping[str, Any]], judgements: Iterable[Mapping[str, Any]]) -> str:
    """Return a markdown table: every judgement, and every statistic that was measured and not judged.

    Both arguments are plain mappings, as ``to_dict()`` gives them. Texts are escaped for markdown. ``over`` says what varies between
    the bounds, which are those of a worsening, or of a bettering where it is called so. A gate or baseline entry that was given a name
    stands in brackets behind its suite. Here all p values of the run are at hand: they are corrected for their number as Holm does.
    What mitigations did is left to :mod:`~pytest_genderbias.reports.reduction`.
    """
    from tabulate import tabulate

    judged = [one for one in judgements if not is_reduction(one)]
    seen = {(j["suite"], j["model"], j["statistic"]) for j in judged}
    corrected = _holm([j["p"] for j in judged])
    rows = [_judged(j, p) for j, p in zip(judged, corrected, strict=True)]
    for m in sorted(measurements, key=lambda m: -int(m["n"])):  # of two, the one with most cases is shown
        for name, value in m["values"].items():
            if (m["suite"], m["model"], name) not in seen:
                seen.add((m["suite"], m["model"], name))
                rows.append(_row(m, name, value, m["intervals"][name], "", "measured", null=m["null"].get(name)))
    rows.sort(key=lambda row: (row[1], row[0]))
    if not rows:
        return ""
    headers = (*HEADERS, _P, _NULL)
    shown = [i for i in range(len(headers)) if i < len(HEADERS) or any(row[i] for row in rows)]
    table = [[row[i] for i in shown] for row in rows]
    return tabulate(table, [headers[i] for i in shown], tablefmt="github", disable_numparse=True)


def _holm(p_values: Sequence[float | None]) -> list[str]:
    """Return corrected p values as they are shown; nothing where there is none."""
    from pytest_genderbias.statistics.inference.multiple_tests import holm

    given = [p for p in p_values if p is not None]
    corrected = iter(holm(given)) if given else iter(())
    return ["" if p is None else f"{next(corrected):.2g}" for p in p_values]


def _judged(of: Mapping[str, Any], p: str) -> list[str]:
    row = _row(of, of["statistic"], of["value"], of["interval"], of["bound"], of["verdict"], p, of["null"])
    if of["difference"] is not None and of["interval"] is not None:
        row[4] = escape(_change(of["difference"], of["interval"]))
    if of.get("name"):
        row[0] = escape(f"{of['suite']} ({of['name']})")
    return row


def _change(worse: float, interval: Mapping[str, Any]) -> str:
    """Return a worsening with its bounds, or a bettering with its own."""
    low, high, over = interval["low"], interval["high"], interval["over"]
    change = "no change" if abs(worse) <= FLOAT_NOISE else f"{'better' if worse < 0 else 'worse'} by {abs(worse):.4f}"
    if high - low <= FLOAT_NOISE:
        if over.startswith(WHOLE_SUITE):
            return f"{change}, exact"
        return f"{change}, the same in every {'restart' if over.startswith('restarts') else 'item'}"
    low, high = (-high, -low) if change.startswith("better") else (low, high)
    return f"{change}, {low:.4f} to {high:.4f}"


def _row(
    of: Mapping[str, Any],
    statistic: str,
    value: float | None,
    interval: Mapping[str, Any] | None,
    bound: str,
    verdict: str,
    p: str = "",
    null: Mapping[str, Any] | None = None,
) -> list[str]:
    cases = f"{of['n']:,}" if of["n"] == of["n_total"] else f"{of['n']:,} of {of['n_total']:,}"
    shown = "-" if value is None else f"{value:.4f}"
    between = "" if interval is None else f"{interval['low']:.4f} to {interval['high']:.4f}"
    if interval is not None and interval["low"] == interval["high"]:
        between = "exact"
    over = "" if interval is None else interval["over"]
    chance = ""
    if null is not None:
        chance = f"{null['low']:.4f} to {null['high']:.4f} ({100 * null['p_value']:.3g} %)"
    cells = (of["suite"], of["model"], statistic, shown, between, over, cases, bound, verdict, p, chance)
    return [escape(text) for text in cells]
