"""Pictures of several measurements: models beside each other, mitigations, new heads, releases, and sources of
variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

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
from pytest_genderbias.reports.figures.data import WORSE, cut, numbers, shown
from pytest_genderbias.reports.picture import Axis, Panel, Picture, Series
from pytest_genderbias.reports.traces import Trace, TracePoint
from pytest_genderbias.statistics.correlation import pearson
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text.numbers import counted

_MOST = 40  #: rows of a picture
_PERFORMANCE = ("accuracy", "perplexity")
_COLOURS = ("first", "second", "third", "fourth", "muted")


def models(measurements: Sequence[Measurement], statistic: str | None = None) -> Picture | None:
    """Return the value of a statistic on several models, with intervals and what chance gives; ``None`` for fewer than
    two values.

    Args:
        measurements: of one suite, one a model.
        statistic: the main one by default.
    """
    name = measurements[0].statistic(statistic)
    known = [m for m in measurements if m.values.get(name) is not None][:_MOST]
    if len(known) < 2:
        return None
    about, suite = known[0].statistics[name], known[0].suite
    values = [float(m.values[name] or 0.0) for m in known]
    places = list(range(len(known)))
    intervals = [m.intervals.get(name) for m in known]
    chance = [m.null.get(name) for m in known]
    series = [
        Series("what shuffles give (95 %)", "ranges", (), numbers(places), numbers([n.low if n else None for n in chance]), numbers([n.high if n else None for n in chance]), colour="muted"),
        Series("95 % interval", "ranges", (), numbers(places), numbers([i.low if i else None for i in intervals]), numbers([i.high if i else None for i in intervals])),
        Series("value", "points", numbers(values), numbers(places), labels=tuple(cut(m.model) for m in known)),
    ]  # fmt: skip
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
    panel = Panel(Axis(f"{name}: {about.meaning}", neutral=about.neutral), Axis(words=tuple(cut(m.model) for m in known)), tuple(s for s in series if any(v is not None for v in (*s.x, *s.high))))  # fmt: skip
    return Picture("models", suite, "", name, f"{cut(suite, 60)}: {name} by model", alt, caption, (panel,))


def accuracy_and_bias(measurements: Sequence[Measurement], statistic: str | None = None) -> Picture | None:
    """Return accuracy, or perplexity, against the bias of several models; ``None`` for fewer than two that have both.

    Args:
        measurements: of one suite that measures both, one a model.
        statistic: the main one by default.
    """
    name = measurements[0].statistic(statistic)
    task = next((key for key in _PERFORMANCE if key in measurements[0].values), None)
    if task is None or task == name:
        return None
    if (
        task == "accuracy" and measurements[0].statistics[task].direction == "higher"
    ):  # of a probe for gender: it is the bias
        return None
    known = [m for m in measurements if m.values.get(name) is not None and m.values.get(task) is not None]
    if len(known) < 2:
        return None
    x, y = ([float(m.values[key] or 0.0) for m in known] for key in (task, name))
    about, intervals, suite = known[0].statistics[name], [m.intervals.get(name) for m in known], known[0].suite
    labels = tuple(cut(m.model) for m in known)
    series = (
        Series("95 % interval", "spans", numbers(x), (), numbers([i.low if i else None for i in intervals]), numbers([i.high if i else None for i in intervals]), colour="muted"),
        Series("", "points", numbers(x), numbers(y), labels=labels, written=tuple(range(min(len(known), 12)))),
    )  # fmt: skip
    listed = "; ".join(
        f"{label} has {task} {shown(a)} and {name} {shown(b)}"
        for label, a, b in list(zip(labels, x, y, strict=True))[:6]
    )
    better = "right" if task == "accuracy" else "left"
    caption = f"A point is a model. A good one lies {better} and at the line, where neutral is ({about.neutral:g})."
    panel = Panel(Axis(f"{task}: {known[0].statistics[task].meaning}"), Axis(f"{name} ({WORSE[about.direction]})", neutral=about.neutral), series)  # fmt: skip
    return Picture(
        "accuracy and bias", suite, "", name, f"{cut(suite, 60)}: {task} and {name} by model", f"{cut(suite, 60)}. {listed}.", caption, (panel,)
    )  # fmt: skip


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
    single = [(place, value) for place, f in enumerate(facts) for value in _by_seed(f, CONTROL)]
    series = [
        Series("", "arrows", numbers(after), numbers(places), numbers(before)),
        Series("single controls", "points", numbers([v for _, v in single]), numbers([p + 0.22 for p, _ in single]), colour="muted", hollow=True),
        Series("before", "points", numbers(before), numbers(places), labels=labels, colour="second", hollow=True),
        Series("control", "points", numbers(control), numbers([p + 0.22 for p in places]), labels=labels, colour="third"),
        Series("after", "points", numbers(after), numbers(places), labels=labels),
    ]  # fmt: skip
    words = [
        f"{label} {shown(b)} to {shown(a)}"
        + ("" if c is None else f", control {shown(c)}")
        + (f", {with_note(j.code)}" if j.code else "")
        for label, b, a, c, j in list(zip(labels, before, after, control, known, strict=True))[:6]
    ]
    neutral = None if about is None else about.neutral
    caption = (
        "An arrow leads from the value before a mitigation to that after it. The control is the same without the"
        " method, or with random directions: what it reaches, the method has not done."
    )
    if about is not None:
        caption += f" Neutral is {about.neutral:g}, {WORSE[about.direction]}."
    shown_ones = tuple(s for s in series if any(v is not None for v in s.x))
    panel = Panel(Axis(name if about is None else f"{name}: {about.meaning}", neutral=neutral), Axis(words=labels), shown_ones)  # fmt: skip
    return Picture("mitigation", suite, "", name, f"{cut(suite, 60)}: {name} before and after mitigations", f"{cut(suite, 60)}, {name}: {'; '.join(words)}.", caption, (panel,))  # fmt: skip


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
        BEFORE: (numbers([c.before for _, _, c in known]), numbers([f.before for _, f, _ in known])),
        CONTROL: (numbers([c.control for _, _, c in known]), numbers([f.control for _, f, _ in known])),
        AFTER: (numbers([c.after for _, _, c in known]), numbers([f.after for _, f, _ in known])),
    }
    series = tuple(
        Series(side, "points", *sides[side], labels=labels, colour=colour, hollow=side == BEFORE, written=tuple(range(min(len(labels), 12))) if side == AFTER else ())
        for side, colour in ((BEFORE, "second"), (CONTROL, "third"), (AFTER, "first"))
        if any(a is not None and b is not None for a, b in zip(*sides[side], strict=True))
    )  # fmt: skip
    words = [
        f"{label}: {task} {shown(c.before)} to {shown(c.after)}, {name} {shown(f.before)} to {shown(f.after)}"
        for label, (_, f, c) in list(zip(labels, known, strict=True))[:6]
    ]
    caption = (
        f"A mitigation is worth its price if it leads to neutral{'' if about is None else f' ({about.neutral:g})'} at"
        f" the same {task}."
    )
    panel = Panel(Axis(task), Axis(name, neutral=None if about is None else about.neutral), series)
    return Picture("accuracy and bias", suite, "", name, f"{cut(suite, 60)}: {task} and {name} before and after mitigations", f"{cut(suite, 60)}. {'; '.join(words)}.", caption, (panel,))  # fmt: skip


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
        points = Series("", "points", numbers(x), numbers(y), labels=labels, written=tuple(range(min(len(labels), 12))))
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
    return Picture(
        "retrained", suite, "", name, f"{cut(suite, 60)}: compression and {name}", alt, caption, tuple(panels)
    )


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
        series.append(Series(cut(source), "bars", numbers(100 * (ends + size)), numbers(range(len(known))), numbers(100 * ends), labels=marks, colour=colour))  # fmt: skip
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
    labels = tuple(
        cut(f"{j.name or j.suite}, {j.statistic}" + (f", {j.model}" if several else ""), 44) for j, _, _ in known
    )
    places = numbers(range(len(known)))

    def percent(worse: Sequence[float | None]) -> tuple[float | None, ...]:
        pairs = zip(worse, known, strict=True)
        return numbers(
            [None if w is None else 100 * (float(np.mean(part.then)) + w) / part.unit for w, (_, part, _) in pairs]
        )

    reds = [None if sees is None else sees.red for _, _, sees in known]
    seen = [None if sees is None else sees.size for _, _, sees in known]
    bounds = [(None, None) if j.interval is None else (j.interval.low, j.interval.high) for j, _, _ in known]
    then, now = percent([0.0] * len(known)), percent([j.difference for j, _, _ in known])
    series = (
        Series("not red", "ranges", (), places, percent([None if red is None else -red for red in reds]), percent(reds), colour="muted"),
        Series("bounds of the change", "ranges", (), places, percent([low for low, _ in bounds]), percent([high for _, high in bounds])),
        Series("then", "points", then, places, labels=labels, colour="second", hollow=True),
        Series("now", "points", now, places, labels=labels),
        Series("seen in 80 % of releases", "points", percent(seen), places, labels=labels, colour="third", hollow=True),
    )  # fmt: skip
    words = [
        f"{label} {shown(before)} to {shown(after)} ({j.verdict})"
        for label, before, after, (j, _, _) in list(zip(labels, then, now, known, strict=True))[:6]
    ]
    caption = (
        "Distance from neutral, which is 0, in percent: 100 is that of the baseline, or of a public model where the"
        " baseline's is smaller. The wide grey line is what other trainings and items give; the other line bounds the"
        " change; the open green mark is the growth that fails in 80 % of releases."
    )
    panel = Panel(Axis("distance from neutral, in % (right: worse)", neutral=0.0), Axis(words=labels), tuple(s for s in series if any(v is not None for v in (*s.x, *s.high))))  # fmt: skip
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
    labels = tuple(
        cut(f"{j.name or j.suite}, {j.statistic}" + (f", {j.model}" if several else ""), 44) for j, _, _ in rows
    )
    series = tuple(
        Series(name, "bars", numbers([m for m, _ in side]), numbers([p for _, p in side]), labels=tuple(labels[p] for _, p in side), colour=colour)
        for name, colour, side in (
            ("worse", "second", [(m, p) for p, (_, m, _) in enumerate(rows) if m > 0]), ("better", "first", [(m, p) for p, (_, m, _) in enumerate(rows) if m < 0]),
        )
        if side
    )  # fmt: skip
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
    places = [float(place) for place in range(len(points))]
    allowed = [_sum(p.baseline, sign * p.margin) if p.margin is not None and trace.direction != "away" else None for p in points]  # fmt: skip
    series = [
        Series("95 % interval", "spans", numbers(places), (), numbers([p.low for p in points]), numbers([p.high for p in points]), colour="muted"),
        Series("accepted first", "line", numbers(places), numbers([p.started for p in points]), colour="text", hollow=True),
        Series("allowed by the baseline", "line", numbers(places), numbers(allowed), colour="second", hollow=True),
        *_limits(points, places),
        *(Series("" if part else "value", "line", numbers(at), numbers(values), labels=dates) for part, (at, values, dates) in enumerate(_segments(points))),
        Series("failed", "points", numbers([place for place, p in zip(places, points, strict=True) if p.outcome == "failed"]), numbers([p.value for p in points if p.outcome == "failed"]), colour="second"),
    ]  # fmt: skip
    first, last = (next(p for p in order if p.value is not None) for order in (points, points[::-1]))
    failed = sum(point.outcome == "failed" for point in points)
    alt = (
        f"{cut(trace.suite, 60)} on {cut(trace.model)}: {trace.statistic} was {shown(first.value)} on {first.date[:10]}"
        f" and is {shown(last.value)} on {last.date[:10]}, over {counted(len(points), 'runs')};"
        f" {WORSE[trace.direction]}, neutral {trace.neutral:g}. {counted(failed, 'gates') if failed else 'No gate'}"
        " failed."
    )
    caption = (
        "A line joins values that can be compared with each other. Broken lines: what was accepted first, and the worst"
        " values that baseline and limits allowed."
    )
    x = Axis("run", words=tuple(point.date[5:10] for point in points) if len(points) <= 16 else ())
    known = tuple(s for s in series if any(v is not None for v in s.y or s.high))
    panel = Panel(x, Axis(f"{trace.statistic} ({WORSE[trace.direction]})"), known)
    return Picture("history", trace.suite, trace.model, trace.statistic, f"{cut(trace.suite, 60)} on {cut(trace.model)}: {trace.statistic} over runs", alt, caption, (panel,))  # fmt: skip


def _limits(points: Sequence[TracePoint], places: Sequence[float]) -> list[Series]:
    """Return a line for the smallest values that limits allowed, and one for the largest, where there are any."""
    edges = [
        values for values in ([p.most for p in points], [p.least for p in points]) if any(v is not None for v in values)
    ]
    return [
        Series("" if number else "limit", "line", numbers(places), numbers(values), colour="third", hollow=True)
        for number, values in enumerate(edges)
    ]


def _segments(points: Sequence[TracePoint]) -> list[tuple[list[float], list[float | None], tuple[str, ...]]]:
    """Return places, values and dates of the points that can be compared with each other, together."""
    parts: list[tuple[list[float], list[float | None], tuple[str, ...]]] = []
    for place, point in enumerate(points):
        if not parts or point.comparable != points[place - 1].comparable:
            parts.append(([], [], ()))
        at, values, dates = parts[-1]
        parts[-1] = (
            [*at, float(place)],
            [*values, point.value],
            (*dates, cut(f"{point.date[:10]} {point.commit[:8]}")),
        )
    return parts


def _sum(first: float | None, second: float) -> float | None:
    return None if first is None else first + second
