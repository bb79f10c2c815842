"""Pictures of studies of the lab: growth along a training, resilience to tuning, and agreement of figures of bias. The
lab hands its results in; this room imports none of their classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.gates.judgement import AFTER, BEFORE
from pytest_genderbias.reports.figures.data import WORSE, cut, numbers, picture_of, plot, shown
from pytest_genderbias.reports.picture import Axis, Panel, Picture, Series
from pytest_genderbias.text.printable import counted

_LOSS = "loss"
_COLOURS = ("second", "first", "third", "fourth", "muted")


def along_training(trainings: Mapping[str, Sequence[Mapping[str, Any]]], statistic: str) -> Picture:
    """Return a statistic over the steps of trainings, and below it their first figure of the task, or else their loss.

    Args:
        trainings: histories of :class:`~pytest_genderbias.mitigation.harness.callback.BiasCallback`, by name.
        statistic: as ``lm-occupation/aggregate_bias``; its line of a model without bias is drawn at 0.

    Raises:
        UnknownNameError: no training has the statistic.
    """
    measured = dict.fromkeys(name for history in trainings.values() for entry in history for name in entry["values"])
    if statistic not in measured:
        raise UnknownNameError(f"{statistic!r} was not measured; there are {', '.join(measured) or 'no measurements'}")
    task = next((name for history in trainings.values() for entry in history for name in entry["performance"]), _LOSS)
    bias = {
        name: [(float(e["step"]), e["values"].get(statistic)) for e in history] for name, history in trainings.items()
    }
    figure = {
        name: [(float(e["step"]), e["loss"] if task == _LOSS else e["performance"].get(task)) for e in history]
        for name, history in trainings.items()
    }
    curves = [_known(curve) or [(0.0, None)] for curve in bias.values()]
    first, last = ([curve[place][1] for curve in curves] for place in (0, -1))
    words = [f"{cut(n)} {shown(a)} to {shown(b)}" for n, a, b in list(zip(bias, first, last, strict=True))[:6]]
    end = [f"{shown(_known(c)[0][1])} to {shown(_known(c)[-1][1])}" for c in figure.values() if _known(c)][:6]
    alt = (
        f"{statistic} from the first to the last step of {counted(len(trainings), 'trainings')}: {'; '.join(words)}."
        f" {task}: {'; '.join(end) or 'not known'}."
    )
    wide = [v for curve in figure.values() for _, v in _known(curve) if v is not None and v > 0]
    log = bool(wide) and max(wide) > 30 * min(wide) and task != "accuracy"
    suite, _, name = statistic.partition("/")
    panels = (
        Panel(Axis("step"), Axis(name, neutral=0.0), _lines(bias)),
        Panel(Axis("step"), Axis(task, log=log), _lines(figure)),
    )
    caption = "Steps of one training are not independent: compare several trainings before you call a rise an effect."
    return Picture("training", suite, "", name, f"{statistic} during training", alt, caption, panels)


def growth_of_sides(result: Any, statistic: str | None = None) -> Picture:
    """Return a statistic along trainings with and without mitigations, and below it the task's main figure, or else the
    loss.

    A line is the mean over seeds; the band around it reaches from the lowest seed to the highest.

    Args:
        result: of :func:`~pytest_genderbias.mitigation.harness.curves.growth`.
        statistic: the main one by default.

    Raises:
        UnknownNameError: the suite has no such statistic.
    """
    name = statistic or result.main
    task = next(iter(result.tasks), _LOSS)
    sides = list(result.histories)
    bias, figure = (
        {side: result.curve(side, of, of_task) for side in sides} for of, of_task in ((name, False), (task, True))
    )
    place = Axis("% of the training" if result.by_share else "step")
    about = result.statistics.get(name)
    every = [value for curve in figure.values() for by_seed in curve.values() for value in by_seed if value is not None]
    log = bool(every) and min(every) > 0 and max(every) > 30 * min(every) and task != "accuracy"
    panels = (
        Panel(place, Axis(name, neutral=None if about is None else about.neutral), _with_ranges(bias)),
        Panel(place, Axis(task, log=log), _with_ranges(figure)),
    )
    ends = {side: [_mean(bias[side][at(bias[side])]) for at in (min, max)] for side in sides}
    words = [f"{cut(side)} {shown(first)} to {shown(last)}" for side, (first, last) in ends.items()]
    learned = [f"{cut(side)} {shown(_mean(figure[side][max(figure[side])]))}" for side in sides]
    over = f"mean of {counted(len(result.seeds), 'seeds')}"
    alt = (
        f"{cut(result.suite, 60)}, {name}, from the start to the end of the training ({over}): {'; '.join(words)}."
        f" {task} at the end: {'; '.join(learned)}."
    )
    caption = (
        "A line is the mean over seeds, and its band reaches from the lowest to the highest. Steps of one training are"
        " not independent."
    )
    return picture_of("training", result.suite, name, f"{name} during training", alt, caption, *panels)


def resilience(result: Any, statistic: str | None = None) -> Picture:
    """Return a statistic of several models during fine-tuning, and by the part that was frozen.

    Args:
        result: of :func:`~pytest_genderbias.mitigation.harness.curves.resilience`.
        statistic: the main one by default.

    Raises:
        UnknownNameError: the suite has no such statistic.
    """
    sides = sorted(result.by_step, key=lambda side: (side != BEFORE, side != AFTER))
    by_step = {side: {str(k): v for k, v in sorted(result.along_steps(side, statistic).items())} for side in sides}
    by_frozen = {side: {_part(k): v for k, v in result.along_frozen(side, statistic).items()} for side in sides}
    name = statistic or result.main
    about = result.statistics[name]
    panels = [
        _by_word(curves, label, Axis(name, neutral=about.neutral), title)
        for curves, label, title in (
            (by_step, "steps of fine-tuning (0: the encoder stays frozen)", "Along fine-tuning"),
            (by_frozen, "frozen part", "At the end of fine-tuning, by the frozen part"),
        )
        if any(curves.values())
    ]
    ends = [(side, list(curve.items())) for side, curve in by_step.items() if curve]
    words = [
        f"{cut(side)} {shown(curve[0][1])} at {curve[0][0]} to {shown(curve[-1][1])} at {curve[-1][0]} steps"
        for side, curve in ends
    ]
    parts = [
        f"{part}: {', '.join(f'{cut(side)} {shown(curve.get(part))}' for side, curve in by_frozen.items())}"
        for part in next(iter(by_frozen.values()), {})
    ]
    alt = (
        f"{cut(result.suite, 60)}, {name} (neutral {about.neutral:g}, {WORSE[about.direction]}): {'; '.join(words)}. By"
        f" the frozen part: {'; '.join(parts) or 'not measured'}."
    )
    caption = (
        "A mitigation that lasts keeps its distance from the other line while the model learns the task, whatever is"
        " frozen. Each point is one training with one seed."
    )
    return picture_of("resilience", result.suite, name, f"{name} during fine-tuning", alt, caption, *panels)


def _with_ranges(curves: Mapping[str, Mapping[float, Sequence[float | None]]]) -> tuple[Series, ...]:
    """Return the mean over seeds of each side as a line, and the range of the seeds as a band behind it."""
    means = {side: [(place, _mean(by_seed)) for place, by_seed in curve.items()] for side, curve in curves.items()}
    lines = _lines(means)
    bands = []
    for line, curve in zip(lines, curves.values(), strict=True):
        known = [[value for value in by_seed if value is not None] for by_seed in curve.values()]
        low, high = (numbers([end(values) if values else None for values in known]) for end in (min, max))
        if any(len(values) > 1 for values in known):
            bands.append(plot("", "band", line.x, (), low, high, colour=line.colour))
    return (*bands, *lines)


def _mean(by_seed: Sequence[float | None]) -> float | None:
    known = [value for value in by_seed if value is not None]
    return sum(known) / len(known) if known else None


def _part(part: str | int) -> str:
    return f"first {counted(part, 'layers')}" if isinstance(part, int) else part


def _known(curve: Sequence[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    return [point for point in curve if point[1] is not None]


def _lines(curves: Mapping[str, Sequence[tuple[float, float | None]]]) -> tuple[Series, ...]:
    lines = []
    for place, (name, curve) in enumerate(curves.items()):
        x, y = [step for step, _ in curve], [value for _, value in curve]
        again, number = divmod(place, len(_COLOURS))
        labels = (cut(name),) * len(curve)
        lines.append(plot(cut(name), "line", x, y, labels=labels, colour=_COLOURS[number], hollow=again > 0))
    return tuple(lines)


def _by_word(curves: Mapping[str, Mapping[str, float | None]], label: str, y: Axis, title: str) -> Panel:
    """Return lines over named places, which stand at equal distances."""
    names = list(dict.fromkeys(name for curve in curves.values() for name in curve))
    series = _lines({side: [(float(names.index(n)), v) for n, v in curve.items()] for side, curve in curves.items()})
    return Panel(Axis(label, words=tuple(names)), y, series, title)


#: Colour and fill of the methods in their order; the models before stand apart in grey.
_MARKS = tuple((colour, hollow) for hollow in (False, True) for colour in ("first", "second", "third", "fourth"))
_OF_NO_METHOD, _OF_FURTHER = ("muted", False), ("muted", True)
_FURTHER = "further methods"


def agreement(study: Any, intrinsic: str, extrinsic: str) -> Picture | None:
    """Return an extrinsic figure against an intrinsic one, a point a model, with the least-squares line.

    Methods differ by colour and mark. The panels are before and after retraining, if the study has both.

    Args:
        study: as :func:`~pytest_genderbias.mitigation.harness.agreement.agreement` returned it.
        intrinsic: name of the intrinsic figure, as ``probe-compression/compression``.
        extrinsic: name of the extrinsic figure, as ``bios/tpr_gap_sum``.

    Returns:
        The picture; ``None`` if the study has no two points with both figures.
    """
    rows = [row for row in study.rows if (row.intrinsic, row.extrinsic) == (intrinsic, extrinsic)]
    drawn = [(row, study.pairs(intrinsic, extrinsic, row.head)) for row in rows]
    drawn = [(row, pairs) for row, pairs in drawn if len(pairs) > 1]
    if not drawn:
        return None
    methods = list(dict.fromkeys(point.method for point in study.points))
    mitigated = list(dict.fromkeys(point.method for point in study.points if point.is_mitigated))
    titles = [_title(row, len(drawn) > 1) for row, _ in drawn]
    panels = tuple(
        Panel(Axis(intrinsic), Axis(extrinsic), (*_by_method(pairs, methods, mitigated), *_line(row, pairs)), title)
        for (row, pairs), title in zip(drawn, titles, strict=True)
    )
    words = "; ".join(f"{row.head} {_describe(row)} over {counted(len(pairs), 'points')}" for row, pairs in drawn)
    left_out = drawn[0][0].insignificant
    alt = f"{extrinsic} against {intrinsic}, by {counted(len(methods), 'methods')}: {words}."
    caption = (
        "A point is a model: one method with one seed. A line that rises closely along the points says that the"
        " intrinsic figure shows the bias of the task; one that does so only after retraining, that methods hide bias"
        " in the head and leave it in the encoder. Bounds are over methods and seeds."
    )
    if left_out:
        caption += f" {counted(left_out, 'points')} with p of .05 or more {'is' if left_out == 1 else 'are'} left out."
    suite, _, statistic = extrinsic.rpartition("/")
    title = f"{cut(extrinsic, 60)} and {cut(intrinsic, 60)}"
    return Picture("agreement", suite, "", statistic, title, alt, caption, panels)


def _by_method(pairs: Sequence[tuple[Any, float, float]], methods: list[str], mitigated: list[str]) -> list[Series]:
    """Return the points of each method; those beyond eight methods share one mark."""
    marks = dict(zip(mitigated, _MARKS, strict=False))
    marks |= {method: _OF_NO_METHOD for method in methods if method not in mitigated}
    groups: dict[str, list[tuple[Any, float, float]]] = {m: [] for m in methods if m in marks}
    for pair in pairs:
        groups.setdefault(pair[0].method if pair[0].method in marks else _FURTHER, []).append(pair)
    series = []
    for method, group in groups.items():
        colour, hollow = marks.get(method, _OF_FURTHER)
        labels = tuple(cut(f"{point.method}, seed {point.seed}") for point, _, _ in group)
        x, y = [x for _, x, _ in group], [y for _, _, y in group]
        series.append(plot(cut(method), "points", x, y, labels=labels, colour=colour, hollow=hollow))
    return [one for one in series if one.x]


def _line(row: Any, pairs: Sequence[tuple[Any, float, float]]) -> list[Series]:
    """Return the least-squares line between the outermost points."""
    if row.agreement is None:
        return []
    ends = [min(x for _, x, _ in pairs), max(x for _, x, _ in pairs)]
    heights = [row.agreement.intercept + row.agreement.slope * x for x in ends]
    return [plot("least squares", "line", ends, heights, colour="text")]


def _title(row: Any, several: bool) -> str:
    figures = _describe(row)
    if not several:
        return figures
    return f"{row.head.capitalize()}: {figures}"


def _describe(row: Any) -> str:
    """Return R squared with its bounds, and r."""
    if row.agreement is None:
        return f"R squared is undefined: {row.reason}"
    result = row.agreement
    bounds = result.r_squared_bounds
    between = f" ({bounds.low:.2f} to {bounds.high:.2f})" if bounds else ""
    return f"R² {result.r_squared:.2f}{between}, r {result.r:+.2f}"
