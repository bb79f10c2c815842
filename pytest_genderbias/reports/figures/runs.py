"""Pictures of several measurements: models beside each other, mitigations, new heads, releases, and sources of
variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.gates.judgement import (
    AFTER,
    BEFORE,
    CONTROL,
    Judgement,
    NewHeadFacts,
    ReductionFacts,
    SinceAnchor,
    TaskFacts,
)
from pytest_genderbias.gates.verdicts import with_note
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.variance import ValueVariance
from pytest_genderbias.reports.figures.data import WORSE, cut, numbers, picture_of, plot, shown
from pytest_genderbias.reports.picture import Axis, Panel, Picture, Series
from pytest_genderbias.reports.run_report import Trace, TracePoint
from pytest_genderbias.statistics.correlation import pearson
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text.printable import counted

_MOST = 40  #: rows of a picture
_PERFORMANCE = ("accuracy", "perplexity")
_COLOURS = ("first", "second", "third", "fourth", "muted")


def models(measurements: Sequence[Measurement], statistic: str | None = None) -> Picture | None:
    """Return the value of a statistic on several models, with intervals and what chance gives; ``None`` for fewer than
    two values.

    Args:
        measurements: of one suite, one per model.
        statistic: the main one by default.
    """
    name = measurements[0].statistic(statistic)
    known = [m for m in measurements if m.values.get(name) is not None][:_MOST]
    if len(known) < 2:
        return None
    about, suite = known[0].statistics[name], known[0].suite
    values = [float(m.values[name] or 0.0) for m in known]
    places = list(range(len(known)))
    labels = tuple(cut(m.model) for m in known)
    chance, intervals = _ends([m.null.get(name) for m in known]), _ends([m.intervals.get(name) for m in known])
    series = [
        plot("what shuffles give (95 %)", "ranges", (), places, *chance, colour="muted"),
        plot("95 % interval", "ranges", (), places, *intervals),
        plot("value", "points", values, places, labels=labels),
    ]
    ranked = sorted(range(len(known)), key=lambda i: (float(about.distance(values[i])), known[i].model))
    best, worst = ranked[0], ranked[-1]
    alt = (
        f"{cut(suite, 60)}: {name} of {counted(len(known), 'models')}, neutral {about.neutral:g},"
        f" {WORSE[about.direction]}. Nearest to neutral is {cut(known[best].model)} with {shown(values[best])},"
        f" farthest {cut(known[worst].model)} with {shown(values[worst])}."
    )
    caption = (
        "A line is the 95 % interval for other items of the same kind. Intervals that overlap do not say that models"
        " are equal: --bias-compare compares item by item."
    )
    drawn = tuple(s for s in series if any(v is not None for v in (*s.x, *s.high)))
    panel = Panel(Axis(f"{name}: {about.meaning}", neutral=about.neutral), Axis(words=labels), drawn)
    return picture_of("models", suite, name, f"{name} by model", alt, caption, panel)


def accuracy_and_bias(measurements: Sequence[Measurement], statistic: str | None = None) -> Picture | None:
    """Return accuracy, or perplexity, against the bias of several models; ``None`` for fewer than two that have both.

    Args:
        measurements: of one suite that measures both, one per model.
        statistic: the main one by default.
    """
    name = measurements[0].statistic(statistic)
    task = next((key for key in _PERFORMANCE if key in measurements[0].values), None)
    if task is None or task == name:
        return None
    if task == "accuracy" and measurements[0].statistics[task].direction == "higher":
        return None  # the accuracy of a probe for gender is the bias
    known = [m for m in measurements if m.values.get(name) is not None and m.values.get(task) is not None]
    if len(known) < 2:
        return None
    x, y = ([float(m.values[key] or 0.0) for m in known] for key in (task, name))
    about, suite = known[0].statistics[name], known[0].suite
    ends = _ends([m.intervals.get(name) for m in known])
    labels, written = tuple(cut(m.model) for m in known), tuple(range(min(len(known), 12)))
    series = (
        plot("95 % interval", "spans", x, (), *ends, colour="muted"),
        plot("", "points", x, y, labels=labels, written=written),
    )
    listed = "; ".join(
        f"{label} has {task} {shown(a)} and {name} {shown(b)}"
        for label, a, b in list(zip(labels, x, y, strict=True))[:6]
    )
    better = "right" if task == "accuracy" else "left"
    caption = f"A point is a model. A good one lies {better} and at the line, where neutral is ({about.neutral:g})."
    of_task = Axis(f"{task}: {known[0].statistics[task].meaning}")
    panel = Panel(of_task, Axis(f"{name} ({WORSE[about.direction]})", neutral=about.neutral), series)
    alt = f"{cut(suite, 60)}. {listed}."
    return picture_of("accuracy and bias", suite, name, f"{task} and {name} by model", alt, caption, panel)


def mitigations(judgements: Sequence[Judgement], about: Statistic | None = None) -> Picture | None:
    """Return a statistic before and after mitigations, and in their controls (dev2019); ``None`` if no judgement has
    the figures.

    Args:
        judgements: of :func:`~pytest_genderbias.mitigation.harness.verdict.judge_reduction`, on one statistic of a
            suite.
        about: the statistic, for its neutral value.
    """
    reduced = [(j, f) for j, f in _reductions(judgements) if f.before is not None and f.after is not None][:_MOST]
    if not reduced:
        return None
    known, facts = [j for j, _ in reduced], [f for _, f in reduced]
    suite, name, places = known[0].suite, known[0].statistic, list(range(len(known)))
    before, after, control = [f.before for f in facts], [f.after for f in facts], [f.control for f in facts]
    labels = _names(known)
    single = [(value, place + 0.22) for place, f in enumerate(facts) for value in _by_seed(f, CONTROL)]
    alone, beside = [value for value, _ in single], [place for _, place in single]
    series = [
        plot("", "arrows", after, places, before),
        plot("single controls", "points", alone, beside, colour="muted", hollow=True),
        plot("before", "points", before, places, labels=labels, colour="second", hollow=True),
        plot("control", "points", control, [p + 0.22 for p in places], labels=labels, colour="third"),
        plot("after", "points", after, places, labels=labels),
    ]
    words = [
        f"{label} {shown(b)} to {shown(a)}"
        + ("" if c is None else f", control {shown(c)}")
        + (f", {with_note(j.code)}" if j.code else "")
        for label, b, a, c, j in list(zip(labels, before, after, control, known, strict=True))[:6]
    ]
    caption = (
        "An arrow leads from the value before a mitigation to that after it. The control is the same without the"
        " method, or with random directions: what it reaches, the method has not done."
    )
    axis = Axis(name)
    if about is not None:
        caption += f" Neutral is {about.neutral:g}, {WORSE[about.direction]}."
        axis = Axis(f"{name}: {about.meaning}", neutral=about.neutral)
    panel = Panel(axis, Axis(words=labels), tuple(s for s in series if any(v is not None for v in s.x)))
    alt = f"{cut(suite, 60)}, {name}: {'; '.join(words)}."
    return picture_of("mitigation", suite, name, f"{name} before and after mitigations", alt, caption, panel)


def price(judgements: Sequence[Judgement], about: Statistic | None = None) -> Picture | None:
    """Return a statistic against a figure of the task, before and after mitigations; ``None`` if no judgement has a
    budget.

    Args:
        judgements: of mitigations with a budget, on one statistic of a suite. Of several figures the first is drawn.
        about: the statistic, for its neutral value.
    """
    reduced = list(_reductions(judgements))
    task = next((figure for _, facts in reduced for figure in facts.budget), None)
    if task is None:
        return None
    rows = [(j, facts, facts.budget.get(task, TaskFacts())) for j, facts in reduced][:_MOST]
    known = [(j, facts, cost) for j, facts, cost in rows if facts.after is not None and cost.after is not None]
    if not known:
        return None
    suite, name = known[0][0].suite, known[0][0].statistic
    labels = _names([j for j, _, _ in known])
    sides = {
        side: tuple(numbers([getattr(row[place], side) for row in known]) for place in (2, 1))
        for side in (BEFORE, CONTROL, AFTER)
    }
    first = tuple(range(min(len(labels), 12)))
    series = tuple(
        plot(side, "points", *sides[side], labels=labels, colour=colour, hollow=side == BEFORE, written=written)
        for side, colour, written in ((BEFORE, "second", ()), (CONTROL, "third", ()), (AFTER, "first", first))
        if any(a is not None and b is not None for a, b in zip(*sides[side], strict=True))
    )
    words = [
        f"{label}: {task} {shown(c.before)} to {shown(c.after)}, {name} {shown(f.before)} to {shown(f.after)}"
        for label, (_, f, c) in list(zip(labels, known, strict=True))[:6]
    ]
    caption = (
        f"A mitigation is worth its price if it leads to neutral{'' if about is None else f' ({about.neutral:g})'} at"
        f" the same {task}."
    )
    panel = Panel(Axis(task), Axis(name, neutral=None if about is None else about.neutral), series)
    alt, what = f"{cut(suite, 60)}. {'; '.join(words)}.", f"{task} and {name} before and after mitigations"
    return picture_of("accuracy and bias", suite, name, what, alt, caption, panel)


def retrained(judgements: Sequence[Judgement]) -> Picture | None:
    """Return the bias of mitigated models against the compression of gender, as they are and with new heads (orgad2022,
    figures 3 to 6).

    Args:
        judgements: of mitigations with ``superficial``, on one statistic of a suite. ``None`` if none knows the
            compression.
    """
    rows = [(j, facts, facts.superficial) for j, facts in _reductions(judgements)]
    known = [
        (j, facts, head)
        for j, facts, head in rows
        if head is not None and None not in (_compression(head, BEFORE), _compression(head, AFTER))
    ][:_MOST]
    if not known:
        return None
    first, as_before, head_before = known[0]
    suite, name = first.suite, first.statistic
    x = [_compression(head_before, BEFORE), *(_compression(head, AFTER) for _, _, head in known)]
    labels = ("before", *_names([j for j, _, _ in known]))
    with_head = [head_before.before_retrained, *(head.retrained for _, _, head in known)]
    as_is = [as_before.before, *(facts.after for _, facts, _ in known)]
    words, panels = [], []
    for title, y in (("Mitigated models as they are", as_is), ("The same encoders with new heads", with_head)):
        pairs = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
        r = _r(pairs)
        words.append(f"{title.lower()}: r {'is not defined' if r is None else shown(r, True)}")
        points = plot("", "points", x, y, labels=labels, written=tuple(range(min(len(labels), 12))))
        panels.append(Panel(Axis("compression of gender (1: none can be read off)"), Axis(name), (points,), title))
    back = [
        f"{label} {shown(a)} to {shown(b)}" for label, a, b in list(zip(labels, as_is, with_head, strict=True))[1:7]
    ]
    alt = (
        f"{cut(suite, 60)}. Correlation of compression and {name} over {counted(len(labels), 'models')},"
        f" {'; '.join(words)}. With a new head: {'; '.join(back)}."
    )
    caption = (
        "Compression says how easily gender can be read off the encoder. What a mitigation only hides comes back with a"
        " new head, and then goes with the compression."
    )
    return picture_of("retrained", suite, name, f"compression and {name}", alt, caption, *panels)


def variance(variances: Sequence[ValueVariance]) -> Picture | None:
    """Return the shares of items, templates, seeds and the rest in the variance of values; ``None`` if none is known.

    Args:
        variances: of the statistics of one model or several.
    """
    known = [one for one in variances if one.shares][:_MOST]
    if not known:
        return None
    several = len({one.model for one in known}) > 1
    labels = tuple(cut(f"{one.suite}, {one.statistic}" + (f", {one.model}" if several else ""), 44) for one in known)
    sources = list(dict.fromkeys(share.source for one in known for share in one.shares))
    ends = np.zeros(len(known))
    series = []
    for source, colour in zip(sources, (*_COLOURS, *("muted",) * len(sources)), strict=False):
        size = np.asarray([sum(s.share_of_value for s in one.shares if s.source == source) for one in known])
        marks = tuple(f"{cut(source)}: {100 * part:.0f} %" for part in size)
        series.append(
            plot(cut(source), "bars", 100 * (ends + size), range(len(known)), 100 * ends, labels=marks, colour=colour)
        )
        ends = ends + size
    words = [
        f"{label}: {', '.join(f'{cut(s.source)} {100 * s.share_of_value:.0f} %' for s in one.shares)}"
        for label, one in list(zip(labels, known, strict=True))[:6]
    ]
    caption = (
        "How far another sample of a source would move the value. More of the source with the largest share makes the"
        " value surer."
    )
    model = "" if several else known[0].model
    panel = Panel(Axis("share of the variance of the value, in %"), Axis(words=labels), tuple(series))
    title = f"Sources of variance{'' if several else f' on {cut(model)}'}"
    return Picture("variance", "", model, "", title, f"{'; '.join(words)}.", caption, (panel,))


def growth(judgements: Sequence[Judgement]) -> Picture | None:
    """Return each gated statistic then and now, with the bounds of its change and what its gate sees; ``None`` without
    a baseline.

    Distances from neutral are in percent of the unit of a gate: the stored distance, or that of a public model where it
    is larger.

    Args:
        judgements: of comparisons with a baseline.
    """
    rows = [(j, j.of_baseline.release, j.of_baseline.sees) for j in judgements]
    known = [(j, part, sees) for j, part, sees in rows if part is not None][:_MOST]
    if not known:
        return None
    several = len({j.model for j, _, _ in known}) > 1
    labels = _gate_names([j for j, _, _ in known])
    places = range(len(known))

    def percent(worse: Sequence[float | None]) -> tuple[float | None, ...]:
        before = [float(np.mean(part.then)) for _, part, _ in known]
        rows = zip(worse, before, known, strict=True)
        return numbers([None if w is None else 100 * (then + w) / part.unit for w, then, (_, part, _) in rows])

    reds = [None if sees is None else sees.red for _, _, sees in known]
    green = [None if red is None else -red for red in reds]
    seen = [None if sees is None else sees.size for _, _, sees in known]
    bounds = [(None, None) if j.interval is None else (j.interval.low, j.interval.high) for j, _, _ in known]
    then, now = percent([0.0] * len(known)), percent([j.difference for j, _, _ in known])
    series = (
        plot("not red", "ranges", (), places, percent(green), percent(reds), colour="muted"),
        plot("bounds of the change", "ranges", (), places, *map(percent, zip(*bounds, strict=True))),
        plot("then", "points", then, places, labels=labels, colour="second", hollow=True),
        plot("now", "points", now, places, labels=labels),
        plot("seen in 80 % of releases", "points", percent(seen), places, labels=labels, colour="third", hollow=True),
    )
    words = [
        f"{label} {shown(before)} to {shown(after)} ({j.verdict})"
        for label, before, after, (j, _, _) in list(zip(labels, then, now, known, strict=True))[:6]
    ]
    caption = (
        "Distance from neutral, which is 0, in percent: 100 is that of the baseline, or of a public model where the"
        " baseline's is smaller. The wide grey line is what other trainings and items give; the other line bounds the"
        " change; the open green mark is the growth that fails in 80 % of releases."
    )
    drawn = tuple(s for s in series if any(v is not None for v in (*s.x, *s.high)))
    panel = Panel(Axis("distance from neutral, in % (right: worse)", neutral=0.0), Axis(words=labels), drawn)
    model = "" if several else known[0][0].model
    return Picture("growth", "", model, "", "Then and now, gate by gate", f"{'; '.join(words)}.", caption, (panel,))


def drift(judgements: Sequence[Judgement], statistics: Mapping[tuple[str, str], Statistic]) -> Picture | None:
    """Return how far values have come from what was accepted first, as shares of the distance from neutral then;
    ``None`` if none moved.

    Args:
        judgements: of comparisons with a baseline.
        statistics: by suite and name.
    """
    rows = [
        (j, moved, anchor.date)
        for j in judgements
        if (anchor := j.of_baseline.anchor) is not None
        and (moved := _moved(anchor, statistics.get((j.suite, j.statistic)))) is not None
    ]
    rows.sort(key=lambda row: -abs(row[1]))
    rows = rows[:_MOST]
    if not rows:
        return None
    several = len({j.model for j, _, _ in rows}) > 1
    labels = _gate_names([j for j, _, _ in rows])
    moves = [moved for _, moved, _ in rows]
    series = tuple(
        plot(name, "bars", [moves[i] for i in side], side, labels=tuple(labels[i] for i in side), colour=colour)
        for name, colour, side in (
            ("worse", "second", [i for i, moved in enumerate(moves) if moved > 0]),
            ("better", "first", [i for i, moved in enumerate(moves) if moved < 0]),
        )
        if side
    )
    words = [
        f"{label} is {abs(moved):.0f} % {'worse' if moved > 0 else 'better'} than on"
        f" {date or 'the day it was first accepted'}"
        for label, (_, moved, date) in list(zip(labels, rows, strict=True))[:6]
    ]
    caption = (
        "Change since the value that was accepted first, in percent of its distance from neutral. Small steps that each"
        " pass add up here."
    )
    panel = Panel(Axis("change since first accepted, in % (right: worse)", neutral=0.0), Axis(words=labels), series)
    model = "" if several else rows[0][0].model
    return Picture("drift", "", model, "", "Drift of the baselines", f"{'; '.join(words)}.", caption, (panel,))


def _gate_names(judgements: Sequence[Judgement]) -> tuple[str, ...]:
    """Return short names of gates, with the model where there are several."""
    several = len({j.model for j in judgements}) > 1
    names = [f"{j.name or j.suite}, {j.statistic}" + (f", {j.model}" if several else "") for j in judgements]
    return tuple(cut(name, 44) for name in names)


def _moved(anchor: SinceAnchor, about: Statistic | None) -> float | None:
    """Return by how many percent of its distance from neutral a value is worse than at its anchor."""
    if not anchor.worsening or anchor.value is None or about is None:
        return None
    distance = abs(float(about.distance(anchor.value)))
    return 100 * anchor.worsening / distance if distance > 0 else None


def _names(judgements: Sequence[Judgement]) -> tuple[str, ...]:
    """Return short names of mitigated models: without the words that all of them begin with."""
    names = [f"{j.model} ({j.name})" if j.name else j.model for j in judgements]
    words = [name.split(" ") for name in names]
    same = 0
    while len(set(names)) > 1 and len({tuple(w[: same + 1]) for w in words}) == 1:
        same += 1
    return tuple(cut(" ".join(w[same:]) or name, 36) for w, name in zip(words, names, strict=True))


def _reductions(judgements: Sequence[Judgement]) -> Iterator[tuple[Judgement, ReductionFacts]]:
    """Yield the judgements of mitigations with their figures."""
    for judgement in judgements:
        if judgement.of_reduction is not None:
            yield judgement, judgement.of_reduction


def _compression(head: NewHeadFacts, side: str) -> float | None:
    value = head.compression.get(side)
    return float(value) if isinstance(value, (int, float)) else None


def _by_seed(facts: ReductionFacts, side: str) -> list[float]:
    """Return the values of single models of a side, if there are several."""
    values = facts.by_seed.get(side)
    if not isinstance(values, Sequence):
        return []
    flat = [v for row in values for v in (row if isinstance(row, Sequence) else [row])]
    known = [float(v) for v in flat if isinstance(v, (int, float)) and math.isfinite(v)]
    return known if len(known) > 1 else []


def _r(pairs: Sequence[tuple[float, float]]) -> float | None:
    try:
        return pearson([a for a, _ in pairs], [b for _, b in pairs]) if len(pairs) > 2 else None
    except UndefinedError:
        return None


def over_releases(trace: Trace) -> Picture | None:
    """Return a statistic over the runs of a history, with its anchor and what its baseline allowed; ``None`` for fewer
    than two values.

    Args:
        trace: the statistic in each run.
    """
    points = trace.points[-_MOST:]
    if sum(point.value is not None for point in points) < 2:
        return None
    sign = -1.0 if trace.direction == "lower" else 1.0
    places = range(len(points))
    failures = [place for place in places if points[place].outcome == "failed"]
    allowed = [
        _sum(p.baseline, sign * p.margin) if p.margin is not None and trace.direction != "away" else None
        for p in points
    ]
    series = [
        plot("95 % interval", "spans", places, (), [p.low for p in points], [p.high for p in points], colour="muted"),
        plot("accepted first", "line", places, [p.started for p in points], colour="text", hollow=True),
        plot("allowed by the baseline", "line", places, allowed, colour="second", hollow=True),
        *_limits(points, places),
        *(
            plot("" if part else "value", "line", at, values, labels=dates)
            for part, (at, values, dates) in enumerate(_segments(points))
        ),
        plot("failed", "points", failures, [points[i].value for i in failures], colour="second"),
    ]
    first, last = (next(p for p in order if p.value is not None) for order in (points, points[::-1]))
    alt = (
        f"{cut(trace.suite, 60)} on {cut(trace.model)}: {trace.statistic} was {shown(first.value)} on {first.date[:10]}"
        f" and is {shown(last.value)} on {last.date[:10]}, over {counted(len(points), 'runs')};"
        f" {WORSE[trace.direction]}, neutral {trace.neutral:g}. "
        f"{counted(len(failures), 'gates') if failures else 'No gate'} failed."
    )
    caption = (
        "A line joins values that can be compared with each other. Broken lines: what was accepted first, and the worst"
        " values that baseline and limits allowed."
    )
    x = Axis("run", words=tuple(point.date[5:10] for point in points) if len(points) <= 16 else ())
    known = tuple(s for s in series if any(v is not None for v in s.y or s.high))
    panel = Panel(x, Axis(f"{trace.statistic} ({WORSE[trace.direction]})"), known)
    title = f"{cut(trace.suite, 60)} on {cut(trace.model)}: {trace.statistic} over runs"
    return Picture("history", trace.suite, trace.model, trace.statistic, title, alt, caption, (panel,))


def _limits(points: Sequence[TracePoint], places: Sequence[int]) -> list[Series]:
    """Return a line for the smallest values that limits allowed, and one for the largest, where there are any."""
    edges = [
        values for values in ([p.most for p in points], [p.least for p in points]) if any(v is not None for v in values)
    ]
    return [
        plot("" if number else "limit", "line", places, values, colour="third", hollow=True)
        for number, values in enumerate(edges)
    ]


def _segments(points: Sequence[TracePoint]) -> list[tuple[list[float], list[float | None], tuple[str, ...]]]:
    """Return places, values and dates of the points that can be compared with each other, together."""
    parts: list[tuple[list[float], list[float | None], tuple[str, ...]]] = []
    for place, point in enumerate(points):
        if not parts or point.comparable != points[place - 1].comparable:
            parts.append(([], [], ()))
        at, values, dates = parts[-1]
        date = cut(f"{point.date[:10]} {point.commit[:8]}")
        parts[-1] = [*at, float(place)], [*values, point.value], (*dates, date)
    return parts


def _ends(ranges: Sequence[Any]) -> tuple[list[float | None], list[float | None]]:
    """Return the lower and the upper ends of intervals; ``None`` where there is none."""
    return [r.low if r else None for r in ranges], [r.high if r else None for r in ranges]


def _sum(first: float | None, second: float) -> float | None:
    return None if first is None else first + second
