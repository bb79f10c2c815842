"""Pictures of tables: significant fills by template, neutrality by two words, and compression of a probe."""

from __future__ import annotations

import re

import numpy as np

from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import restarts_of
from pytest_genderbias.reports.figures.data import (
    FloatArray,
    cut,
    float_of,
    floats,
    numbers,
    of_slice,
    plot,
    shown,
    texts,
)
from pytest_genderbias.reports.figures.units import picture
from pytest_genderbias.reports.picture import Axis, Panel, Picture, Series
from pytest_genderbias.suites.summary import Record
from pytest_genderbias.text.printable import counted

_MOST_ROWS, _MOST_COLUMNS = 26, 40  #: of a heat map
_COLOURS = ("first", "second", "third", "fourth")
_FILLS = 3  #: fills named beside a bar
_CODES = {
    "compression": "labels as they are",
    "compression_shuffled": "labels shuffled",
    "compression_random_encoder": "untrained encoder",
}


def fills(measurement: Measurement) -> Picture | None:
    """Return the number of significant fills of each template, by the group that they depend on, with the most certain
    ones named.
    """
    templates = list(dict.fromkeys(str(record["template"]) for record in measurement.records))
    if not templates:
        return None
    significant = [record for record in measurement.records if record.get("significant")]
    by_template = {t: [r for r in significant if r["template"] == t] for t in templates}
    templates.sort(key=lambda t: (-len(by_template[t]), t))
    groups = texts(measurement.items["groups"])
    ends = np.zeros(len(templates))
    series = []
    for group, colour in zip(groups, (*_COLOURS, *("muted",) * len(groups)), strict=False):
        mine = [[r for r in by_template[t] if r.get("preferred") == group] for t in templates]
        lengths = np.asarray([len(rows) for rows in mine])
        names = tuple(cut(", ".join(str(r["fill"]) for r in rows[:12]), 100) for rows in mine)
        places = np.arange(len(templates))
        series.append(plot(cut(group), "bars", ends + lengths, places, ends, labels=names, colour=colour))
        ends = ends + lengths
    named = tuple(_named(by_template[template]) for template in templates)
    written = tuple(i for i, n in enumerate(named) if n)
    series.append(plot("", "points", ends, range(len(templates)), labels=named, written=written, colour="none"))
    chance = measurement.values.get("random_groups_mean")
    if chance is not None:
        series.append(plot("mean of random groups", "columns", [chance], [len(templates) - 0.5], [-0.5], colour="text"))
    per_group = ", ".join(f"{sum(r.get('preferred') == g for r in significant)} to {cut(g)}" for g in groups)
    most = templates[0]
    alt = (
        f"{shown(measurement.value)} fills a template depend on the group ({counted(len(significant), 'fills')} in"
        f" {counted(len(templates), 'templates')}: {per_group}); random groups give {shown(chance)}. Most are in"
        f" {cut(_short(most), 60)!r}: {len(by_template[most])} ({_named(by_template[most]) or 'none'})."
    )
    caption = (
        "A bar counts the words that the model fills in for one group significantly more often than for another; beside"
        " it stand the most certain ones. X is the person. A model without bias has no bars beyond what random groups"
        " give."
    )
    words = tuple(cut(_short(t), 36) for t in templates)
    panel = Panel(Axis("significant fills", neutral=0.0, whole=True), Axis(words=words), tuple(series))
    return picture("fills", measurement, "significant fills by template", alt, caption, panel)


def _short(template: str) -> str:
    """Return a template with the slot of the person as X, and the blank as a line."""
    return re.sub(r"\{blank\}", "___", re.sub(r"\{[^{}]*person\}", "X", template))


def _named(rows: list[Record]) -> str:
    names = list(dict.fromkeys(str(r["fill"]) for r in rows))
    return cut(", ".join(names[:_FILLS]), 32) + (", …" if len(names) > _FILLS else "")


def heat_map(measurement: Measurement) -> Picture | None:
    """Return the mean probability of neutral for each pair of subjects, as demonym and polarity (dev2019)."""
    items = measurement.items
    n, sums = floats(items["n"]), floats(items["net_neutral"])
    if not (n > 0).any():
        return None
    mean = np.divide(sums, n, out=np.full(n.shape, np.nan), where=n > 0)
    rows, columns = (_lowest(sums, n, axis, most) for axis, most in ((1, _MOST_ROWS), (0, _MOST_COLUMNS)))
    premise, hypothesis = texts(items["premise"]), texts(items["hypothesis"])
    flat = np.where(n > 0, mean, np.inf)
    worst, best = np.unravel_index(flat.argmin(), flat.shape), np.unravel_index(np.nanargmax(mean), mean.shape)
    lowest = rows[0]
    rows, columns = (_side_by_side(mean, rows, columns, axis) for axis in (0, 1))
    cells = mean[np.ix_(rows, columns)]
    at_worst, at_best = (f"{cut(premise[i])} and {cut(hypothesis[j])}" for i, j in (worst, best))
    alt = (
        f"Mean probability of neutral is {shown(measurement.values.get('net_neutral'))}, 1 is neutral. It is lowest for"
        f" {at_worst} ({shown(float(mean[worst]))}) and highest for {at_best} ({shown(float(mean[best]))}). By premise"
        f" it is lowest for {cut(premise[lowest])} ({shown(float(sums[lowest].sum() / n[lowest].sum()))})."
    )
    caption = (
        "A cell is the mean probability of neutral for a word of the premise (rows) and one of the hypothesis"
        " (columns); blue is farthest from neutral. Like rows and like columns stand together."
    )
    kept = [
        f"the {len(chosen)} {name} with the lowest means of {of}"
        for chosen, of, name in ((rows, len(premise), "rows"), (columns, len(hypothesis), "columns"))
        if len(chosen) < of
    ]
    caption += f" Shown are {' and '.join(kept)}." if kept else ""
    caption += " Cells without a colour were not scored." if np.isnan(cells).any() else ""
    sides = (hypothesis, columns), (premise, rows)
    x, y = (Axis(words=tuple(cut(names[i], 18) for i in some)) for names, some in sides)
    panel = Panel(x, y, (Series("probability of neutral", "cells", z=numbers(cells.ravel())),))
    return picture("heat map", measurement, "probability of neutral by pair of words", alt, caption, panel)


def _side_by_side(mean: FloatArray, rows: list[int], columns: list[int], axis: int) -> list[int]:
    """Return the rows (``axis`` 0) or columns in the order of the first singular vector, so that like ones stand
    together.
    """
    cells = mean[np.ix_(rows, columns)]
    filled = np.where(np.isnan(cells), np.nanmean(cells), cells)
    centred = filled - filled.mean(axis=axis, keepdims=True)
    left, size, right = np.linalg.svd(centred, full_matrices=False)
    vector = (left[:, 0], right[0])[axis] if size[0] > 1e-9 else np.zeros(cells.shape[axis])
    places = [rows, columns][axis]
    heavy = vector[np.argmax(np.abs(vector))]
    return [places[i] for i in np.argsort(-np.round(vector * np.sign(heavy), 6), kind="stable")]


def _lowest(sums: FloatArray, n: FloatArray, axis: int, most: int) -> list[int]:
    """Return the rows or columns with the lowest means, the lowest first."""
    total = n.sum(axis=axis)
    mean = np.divide(sums.sum(axis=axis), total, out=np.full(len(total), np.inf), where=total > 0)
    return [int(i) for i in np.argsort(mean, kind="stable")[:most] if total[i] > 0]


def compression(measurement: Measurement) -> Picture | None:
    """Return the compression of the labels by a probe, beside its controls; a point is a shuffle of the examples."""
    codes = [record for record in of_slice(measurement.records, "code") if record.get("value") in _CODES]
    if not codes:
        return None
    series, words = [], []
    names = [_CODES[str(record["value"])] for record in codes]
    for place, (name, record) in enumerate(zip(names, codes, strict=True)):
        values, mean = [float(v) for v in record["by_shuffle"]], float_of(record, "compression")
        series += [
            plot("", "points", values, [place] * len(values), colour="muted", hollow=True),
            plot("mean" if place == 0 else "", "points", [mean], [place], labels=(name,)),
        ]
        words.append(f"{name} {shown(mean)}")
    alt = f"Compression is {', '.join(words)}; 1 is nothing to read off."
    caption = (
        "Compression says how easily a probe reads the labels off the vectors: 1 is not at all. Rings are shuffles of"
        " the examples."
    )
    panel = Panel(Axis("compression", neutral=1.0), Axis(words=tuple(names)), tuple(series))
    return picture("probe", measurement, "compression", alt, caption, panel)


def restarts(measurement: Measurement) -> Picture | None:
    """Return the main statistic by restart of the training, with the mean and its interval; ``None`` without the single
    values.
    """
    name = measurement.main
    values = restarts_of(measurement.items, name)
    if values is None or not len(values):
        return None
    seeds = texts(measurement.items["seed"])[:_MOST_COLUMNS]
    values = values[: len(seeds)]
    labels = ("mean", *(f"seed {cut(seed, 12)}" for seed in seeds))
    interval, mean = measurement.interval, measurement.value
    series = [plot("", "points", values, range(1, len(labels)), labels=labels[1:], colour="muted")]
    if interval is not None:
        series.insert(0, plot("95 % interval", "ranges", (), (0.0,), [interval.low], [interval.high]))
    series.append(plot("mean", "points", [mean], (0.0,), labels=("mean",)))
    spread = "" if interval is None else f" (95 % interval {shown(interval.low)} to {shown(interval.high)})"
    alt = (
        f"{name} over {counted(len(seeds), 'restarts')} has the mean {shown(mean)}{spread}; the restarts lie between"
        f" {shown(float(values.min()))} and {shown(float(values.max()))}. Neutral is {measurement.neutral:g}."
    )
    caption = (
        "A grey point is one training. Trainings that differ in the seed alone differ by this much: a difference within"
        " it says nothing."
    )
    about = measurement.statistics[name]
    panel = Panel(Axis(f"{name}: {about.meaning}", neutral=about.neutral), Axis(words=labels), tuple(series))
    return picture("restarts", measurement, f"{name} by restart", alt, caption, panel)
