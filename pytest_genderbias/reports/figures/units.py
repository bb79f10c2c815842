"""Pictures of one measurement. With a mark for each unit of its suite: signed bars, scatters, words by set, and
histograms of pairs; of tables: significant fills by template, neutrality by two words, and compression of a probe.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import restarts_of
from pytest_genderbias.reports.figures.data import (
    FloatArray,
    cut,
    float_of,
    floats,
    listed,
    numbers,
    of_slice,
    plot,
    shown,
    texts,
    two_groups,
)
from pytest_genderbias.reports.picture import Axis, Panel, Picture, Series
from pytest_genderbias.statistics.correlation import pearson, slope, slope_interval
from pytest_genderbias.suites.summary import Record
from pytest_genderbias.text.printable import counted

_MOST_BARS = 24  #: of a picture; of more units the ends are drawn
_ENDS = 10  #: bars of either end, if there are more
_MOST_LISTED = 500  #: units between the ends
_MOST_POINTS = 400
_MOST_IN_SET = 120
_WRITTEN = 7  #: labels in a scatter
_LABEL = (0.24, 0.06)  #: width and height of a label, as shares of the axes


def signed_bars(
    measurement: Measurement,
    labels: Sequence[str],
    values: FloatArray,
    groups: tuple[str, str],
    what: str,
    unit: str,
    shows: str = "bias",
) -> Picture | None:
    """Return signed bars, one per unit, sorted (lu2018, figures 2 and 4); ``None`` if no unit has a value.

    Args:
        measurement: what was measured.
        labels: names of the units.
        values: signed values, shape (units,).
        groups: what a positive value leans to, and what a negative one does.
        what: the units, in the plural.
        unit: what the bars measure.
        shows: the same in a word or two, for the title.
    """
    finite = np.flatnonzero(np.isfinite(values))
    if not len(finite):
        return None
    order = finite[np.argsort(values[finite], kind="stable")[::-1]]
    ends = np.concatenate([order[:_ENDS], order[-_ENDS:]]) if len(order) > _MOST_BARS else order
    rows = {int(unit): place for place, unit in enumerate(ends)}
    signs = np.sign(values)
    colours = ("first", "second") if groups[0] <= groups[1] else ("second", "first")  # of a group on either side
    series = [
        _bars(group, colour, [(rows[i], float(values[i]), labels[i]) for i in rows if signs[i] == sign])
        for group, colour, sign in (*zip(groups, colours, (1, -1), strict=True), ("", "muted", 0))
    ]
    above, below = order[values[order] > 0], order[values[order] < 0][::-1]
    sides = [
        f"{counted(len(side), what) if len(side) else 'none'} {'lean' if len(side) > 1 else 'leans'} to {cut(group)}"
        + (f", most of all {listed([labels[i] for i in side[:3]], values[side[:3]].tolist())}" if len(side) else "")
        for group, side in ((groups[0], above), (groups[1], below))
    ]
    between = order[_ENDS:-_ENDS] if len(order) > len(ends) else order[:0]
    caption = (
        f"Bars to the right lean to {cut(groups[0])}, bars to the left to {cut(groups[1])}; 0 is a model without bias."
    )
    if len(between):
        caption += f" The {counted(len(between), what)} between the ends are not drawn."
    others = listed([labels[i] for i in between], values[between].tolist(), _MOST_LISTED)
    if len(between) > _MOST_LISTED:
        others += f", and {len(between) - _MOST_LISTED:,} more"
    x = Axis(unit, neutral=0.0)
    panel = Panel(x, Axis(words=tuple(cut(labels[i], 28) for i in ends)), tuple(s for s in series if s.x))
    drawn = picture(
        "signed bars", measurement, f"{shows} of {counted(len(order), what)}", f"{'; '.join(sides)}.", caption, panel
    )
    return replace(drawn, others=others)


def _bars(name: str, colour: str, rows: Sequence[tuple[int, float, str]]) -> Series:
    labels = tuple(cut(label) for _, _, label in rows)
    return plot(cut(name), "bars", [x for _, x, _ in rows], [y for y, _, _ in rows], labels=labels, colour=colour)


def scatter(
    measurement: Measurement,
    labels: Sequence[str],
    x: FloatArray,
    y: FloatArray,
    what: str,
    axes: tuple[str, str],
    neutral: float | None = 0.0,
) -> Picture | None:
    """Return a scatter with the line of least squares and the interval of its slope; ``None`` with fewer than three
    units.

    Args:
        measurement: what was measured.
        labels: names of the units.
        x: places along x, shape (units,).
        y: places along y, shape (units,).
        what: the units, in the plural.
        axes: labels of both axes.
        neutral: value of y without bias, if there is one.
    """
    known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(known) < 3:
        return None
    x, y, names = x[known], y[known], [labels[i] for i in known.tolist()]
    line, words = _line(x, y, what)
    some = np.sort(np.argsort(-_conspicuous(x, y), kind="stable")[:_MOST_POINTS])
    shown_ones, written = tuple(cut(names[i]) for i in some), _apart(x[some], y[some])
    points = plot(f"{what} ({len(x):,})", "points", x[some], y[some], labels=shown_ones, written=written)
    highest, lowest = int(np.argmax(y)), int(np.argmin(y))
    alt = (
        f"{counted(len(x), what)}: {words} Highest is {cut(names[highest])} ({shown(float(y[highest]), True)} at"
        f" {shown(float(x[highest]))}), lowest {cut(names[lowest])} ({shown(float(y[lowest]), True)} at"
        f" {shown(float(x[lowest]))})."
    )
    caption = (
        "Line: least squares. Shaded: slopes within their 95 % interval, through the middle of the points. A flat line"
        " is no bias."
    )
    panel = Panel(Axis(axes[0]), Axis(axes[1], neutral=neutral), (*line, points))
    return picture("scatter", measurement, f"{axes[1]} and {axes[0]}", alt, caption, panel)


def _conspicuous(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return how far points lie from the middle, in standard deviations of both variables."""
    return np.asarray(np.hypot(*((v - v.mean()) / (v.std() or 1.0) for v in (x, y))), dtype=np.float64)


def _apart(x: FloatArray, y: FloatArray) -> tuple[int, ...]:
    """Return the numbers of the points farthest from the middle whose labels do not lie on each other."""
    wide, high = (np.ptp(v) or 1.0 for v in (x, y))
    chosen: list[int] = []
    for i in np.argsort(-_conspicuous(x, y), kind="stable").tolist():
        if all(abs(x[i] - x[j]) > _LABEL[0] * wide or abs(y[i] - y[j]) > _LABEL[1] * high for j in chosen):
            chosen.append(i)
        if len(chosen) == _WRITTEN:
            break
    return tuple(chosen)


def _line(x: FloatArray, y: FloatArray, what: str) -> tuple[list[Series], str]:
    """Return the line and its band, and both in words; nothing to draw if all x are equal."""
    try:
        rise, r = slope(x, y), pearson(x, y)
    except UndefinedError as error:
        return [], f"there is no line: {error}."
    interval = slope_interval(x, y, what)
    ends = np.unique([*np.linspace(x.min(), x.max(), 24), x.mean()])
    middle = y.mean() + rise * (ends - x.mean())
    words = f"slope {shown(rise, True)}"
    series = []
    if interval is not None:
        room = 0.6 * np.ptp(y)  # a slope that is hardly known would leave no room for the points
        bounds = (y.mean() + bound * (ends - x.mean()) for bound in (interval.low, interval.high))
        sides = [np.clip(bound, y.min() - room, y.max() + room) for bound in bounds]
        band = plot(
            "95 % interval of the slope", "band", ends, (), np.minimum(*sides), np.maximum(*sides), colour="muted"
        )
        series.append(band)
        words += f" (95 % interval {shown(interval.low, True)} to {shown(interval.high, True)})"
    series.append(plot("least squares", "line", ends, middle, colour="text"))
    return series, f"{words}, r {shown(r, True)}."


def words_by_set(measurement: Measurement) -> Picture | None:
    """Return the associations of the words of each set, with the mean of each set (WEAT, CEAT)."""
    words, sets = texts(measurement.items["word"]), texts(measurement.items["set"])
    values = floats(measurement.items["association"])
    names = list(dict.fromkeys(sets))
    if len(names) < 2:
        return None
    nearer = [str(record.get("nearer_to")) for record in measurement.records if float_of(record, "association") > 0]
    farther = [str(record.get("nearer_to")) for record in measurement.records if float_of(record, "association") < 0]
    first, second = (next(iter(side), "the other attribute") for side in (nearer, farther))
    series, means = [], []
    reach = 0.12 * np.ptp(values)
    for place, name in enumerate(names):
        mine = [i for i, of in enumerate(sets) if of == name]
        mean, size = float(values[mine].mean()), len(mine)
        if size > _MOST_IN_SET:  # every second, third, ... by value, and both ends
            mine.sort(key=lambda i: float(values[i]))
            mine = [mine[k] for k in np.unique(np.linspace(0, size - 1, _MOST_IN_SET).astype(int))]
        means.append(mean)
        jitter = place + 0.24 * np.sin(2.4 * np.arange(len(mine)))
        ends = [int(np.argmin(values[mine])), int(np.argmax(values[mine]))]
        ends = [end for end in ends if abs(values[mine][end] - np.median(values[mine])) > reach]
        labels = tuple(cut(words[i]) for i in mine)
        colour, key = _COLOURS[min(place, 3)], "" if place else "mean of the set"
        series += [
            plot("", "points", values[mine], jitter, labels=labels, written=tuple(ends), colour=colour),
            plot(key, "columns", [mean], [place + 0.36], [place - 0.36], colour="text"),
        ]
    effect = measurement.value
    alt = f"{shown(effect, True)} is the {measurement.main.replace('_', ' ')}. Mean association: " + ", ".join(
        f"{cut(name)} {shown(mean, True)} ({counted(sets.count(name), 'words')})"
        for name, mean in zip(names, means, strict=True)
    )
    caption = (
        f"A point is a word: to the right it is nearer to {cut(first)}, to the left to {cut(second)}. Two sets whose"
        " means lie apart are associated with different attributes."
    )
    label = f"association: {cut(second, 24)} ← 0 → {cut(first, 24)}"
    x = Axis(label, neutral=0.0 if values.min() < 0 < values.max() else None)
    panel = Panel(x, Axis(words=tuple(cut(name) for name in names)), tuple(series))
    if max(map(sets.count, names)) > _MOST_IN_SET:
        caption += f" Of a set with more than {_MOST_IN_SET} words, {_MOST_IN_SET} are drawn."
    return picture("words by set", measurement, "association of each word", f"{alt}.", caption, panel)


def histogram(measurement: Measurement) -> Picture | None:
    """Return how often the stereotypical sentence of a pair scores higher, and by how much."""
    judged = floats(measurement.items["stereotypical"]) > 0
    values = floats(measurement.items["difference"])[judged]
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return None
    edge = float(np.quantile(np.abs(values), 0.98)) or 1.0
    bins = np.linspace(-edge, edge, 25)
    counts, _ = np.histogram(np.clip(values, -edge, edge), bins)
    middles = (bins[1:] + bins[:-1]) / 2
    series = tuple(
        plot(name, "columns", middles[side], counts[side], colour=colour)
        for name, colour, side in (
            ("stereotypical scores higher", "second", middles > 0),
            ("the other scores higher", "first", middles < 0),
        )
    )
    share = float((values > 0).mean())
    alt = (
        f"In {100 * share:.0f} % of {counted(len(values), 'pairs')} the stereotypical sentence scores higher; the mean"
        f" difference is {shown(float(values.mean()), True)} nats, the median {shown(float(np.median(values)), True)}."
    )
    caption = (
        "A model without bias has as many pairs on the right as on the left, at the same distances. The outermost"
        " columns hold all pairs beyond them."
    )
    x = Axis("score, stereotypical minus other sentence, in nats", neutral=0.0)
    return picture(
        "histogram", measurement, "differences of pairs", alt, caption, Panel(x, Axis("pairs", whole=True), series)
    )


def occupation_bars(measurement: Measurement) -> Picture | None:
    """Return the bias of each occupation (``lm-occupation``, ``coref-occupation``)."""
    labels = texts(measurement.items["occupation"])
    groups = two_groups(measurement.records, "bias", ("occupation",))
    unit = "nats" if str(measurement.signature["definition"]).startswith("lm-") else "units of the model's score"
    label = f"B(o) in {unit}: {cut(groups[1], 16)} ← 0 → {cut(groups[0], 16)}"
    return signed_bars(measurement, labels, floats(measurement.items["bias"]), groups, "occupations", label)


def template_lean(measurement: Measurement) -> Picture | None:
    """Return how far the answers in ambiguous contexts lean, by template (``bbq``)."""
    unclear = floats(measurement.items["ambiguous"]) > 0
    template, asked = (np.asarray(texts(measurement.items[name])) for name in ("template", "asked"))
    labels, first, index = np.unique(template[unclear], return_index=True, return_inverse=True)
    lean = np.bincount(index, floats(measurement.items["lean"])[unclear]) / np.bincount(index)
    names = [f"{label}: {question}" for label, question in zip(labels, asked[unclear][first], strict=True)]
    groups = ("the stereotype", "its opposite")
    unit = "lean in ambiguous contexts: opposite ← 0 → stereotype"
    return signed_bars(measurement, names, lean, groups, "templates", unit, "lean")


def attribute_association(measurement: Measurement) -> Picture | None:
    """Return how far each attribute goes to the group of its stereotype (``chat-iat``)."""
    attribute = np.asarray(texts(measurement.items["attribute"]))
    labels, first, index = np.unique(attribute, return_index=True, return_inverse=True)
    sign = np.where(floats(measurement.items["of_first"])[first] > 0, 1.0, -1.0)
    lean = sign * (2 * np.bincount(index, floats(measurement.items["first"])) / np.bincount(index) - 1)
    groups = ("the group of its stereotype", "the other group")
    unit = "probability of that group minus that of the other: other ← 0 → stereotype"
    return signed_bars(measurement, labels.tolist(), lean, groups, "attributes", unit, "association")


def decision_bars(measurement: Measurement) -> Picture | None:
    """Return the difference of the log-odds of yes by scenario (``decisions``)."""
    labels = texts(measurement.items["scenario"])
    names = [key.removeprefix("P(yes) ") for key in measurement.records[0] if key.startswith("P(yes) ")]
    fields = texts(measurement.items["field"])
    shown_as = [f"{field}: {label.removeprefix('{person} ')}" for field, label in zip(fields, labels, strict=True)]
    unit = f"log-odds of yes, in nats: {cut(names[1], 16)} ← 0 → {cut(names[0], 16)}"
    values = floats(measurement.items["difference"])
    return signed_bars(measurement, shown_as, values, (names[0], names[1]), "scenarios", unit, "difference")


def group_bars(measurement: Measurement) -> Picture | None:
    """Return the difference by unit, such as a prompt, of the group with the highest mean and the one with the lowest
    (``paired``, and every family of more than two groups).
    """
    rows = [row for row in measurement.records if row["slice"] == "group"]
    unit = next(name for name in ("prompt", "scenario", "occupation", "question") if name in measurement.items)
    value = next(name for name in rows[0] if f"{name}_0" in measurement.items)
    labels, means = texts(measurement.items[unit]), {row["value"]: row[value] for row in rows}
    if None in means.values():
        return None
    places = {name: place for place, name in enumerate(means)}
    first, second = max(places, key=lambda name: means[name]), min(places, key=lambda name: means[name])
    if first == second:
        first, *_, second = places
    fields = texts(measurement.items["field"]) if "field" in measurement.items else [""] * len(labels)
    shown_as = [f"{field}: {label}".removeprefix(": ") for field, label in zip(fields, labels, strict=True)]
    values = floats(measurement.items[f"{value}_{places[first]}"]) - floats(
        measurement.items[f"{value}_{places[second]}"]
    )
    what = "what is read of a reply" if value == "score" else value
    axis = f"{what}: {cut(second, 16)} ← 0 → {cut(first, 16)}"
    return signed_bars(measurement, shown_as, values, (first, second), f"{unit}s", axis, "difference")


def sentiment_bars(measurement: Measurement) -> Picture | None:
    """Return the difference of the sentiment of generated texts by pair of prompts (``counterfactual-generation``)."""
    labels = texts(measurement.items["prompt"])
    if "sentiment_first" not in measurement.items:
        return None
    names = [record["value"] for record in measurement.records if record["slice"] == "group"]
    fields = texts(measurement.items["field"])
    shown_as = [f"{field}: {label}" for field, label in zip(fields, labels, strict=True)]
    values = floats(measurement.items["sentiment_first"]) - floats(measurement.items["sentiment_second"])
    unit = f"positive minus negative words per 100: {cut(names[1], 16)} ← 0 → {cut(names[0], 16)}"
    return signed_bars(measurement, shown_as, values, (names[0], names[1]), "prompts", unit, "difference")


def sentence_similarity(measurement: Measurement) -> tuple[Picture | None, ...]:
    """Return differences of similarity by profession against the share of women, and as bars."""
    labels, values = texts(measurement.items["profession"]), floats(measurement.items["difference"])
    groups = two_groups(measurement.records, "difference", ("profession", "women_share"))
    axes = "share of women in the profession", f"similarity, {cut(groups[0], 16)} minus {cut(groups[1], 16)}"
    label = f"similarity: {cut(groups[1], 16)} ← 0 → {cut(groups[0], 16)}"
    bars = signed_bars(measurement, labels, values, groups, "professions", label)
    return scatter(measurement, labels, floats(measurement.items["share"]), values, "professions", axes), bars


def pronoun_ratio(measurement: Measurement) -> Picture | None:
    """Return the log ratio of two pronouns, or forms, by occupation against the share of the first group in it."""
    items = measurement.items
    first, second = two_groups(measurement.records, "log_ratio", ("occupation", "share"))
    persons = {"female": "women", "male": "men"}.get(first, cut(first, 16))
    axes = f"share of {persons} in the occupation", f"log ratio of probabilities, {cut(first, 16)} to {cut(second, 16)}"
    return scatter(
        measurement, texts(items["occupation"]), floats(items["share"]), floats(items["ratio"]), "occupations", axes
    )


def pronoun_likelihood(measurement: Measurement) -> Picture | None:
    """Return how likely "she" means the occupation, against its share of women (Rudinger et al. 2018)."""
    items = measurement.items
    axes = "share of women in the occupation", "likelihood that she means the occupation"
    shares, likelihoods = floats(items["share"]), floats(items["likelihood"])
    return scatter(measurement, texts(items["occupation"]), shares, likelihoods, "occupations", axes, None)


def class_gaps(measurement: Measurement) -> tuple[Picture | None, ...]:
    """Return gaps in the true positive rate by class, against the share of women and as bars (biographies,
    WinoBias).
    """
    rows = of_slice(measurement.records, "class, all persons") or of_slice(measurement.records, "class")
    label, share, what = "class", "share", "classes"
    if not rows:
        rows, label, share, what = of_slice(measurement.records, "profession"), "value", "women_share", "professions"
    labels = [str(row[label]) for row in rows]
    gaps, shares = (np.asarray([float_of(row, key) for row in rows], dtype=np.float64) for key in ("tpr_gap", share))
    groups = next(([k[2:] for k in row if k.startswith("n_")] for row in rows if "n_" in " ".join(row)), [])
    first, second = groups if len(groups) == 2 else ("female", "male")
    axes = "share of women", f"true positive rate, {cut(first, 16)} minus {cut(second, 16)}"
    label = f"gap in the true positive rate: {cut(second, 16)} ← 0 → {cut(first, 16)}"
    bars = signed_bars(measurement, labels, gaps, (first, second), what, label)
    return scatter(measurement, labels, shares, gaps, what, axes), bars


def word_bias(measurement: Measurement) -> tuple[Picture | None, ...]:
    """Return the words of a text with the largest bias, and their bias against that in the training text, if there is
    one.
    """
    records = measurement.records
    ends = [record for record in records if str(record.get("slice")).startswith("most ")]
    names = [str(record["slice"])[5:] for record in ends]
    groups = [*dict.fromkeys(names), "first", "second"][:2]
    labels = [str(record["word"]) for record in ends]
    values = np.asarray([float_of(record, "bias") for record in ends], dtype=np.float64)
    label = f"ln P(w | {cut(groups[0], 12)}) - ln P(w | {cut(groups[1], 12)}), in nats"
    bars = signed_bars(measurement, labels, values, (groups[0], groups[1]), "words", label)
    listed_ones = of_slice(records, "words of the suite")
    x, y = (np.asarray([float_of(r, key) for r in listed_ones], dtype=np.float64) for key in ("training_bias", "bias"))
    axes = "bias in the training text, in nats", "bias, in nats"
    return scatter(measurement, [str(r["word"]) for r in listed_ones], x, y, "words", axes), bars


def along_component(measurement: Measurement) -> Picture | None:
    """Return the place of each word along the first component of a set of words."""
    labels, values = texts(measurement.items["word"]), floats(measurement.items["along_first_component"])
    ends, unit = ("one end", "the other end"), "place along the first component"
    return signed_bars(measurement, labels, values, ends, "words", unit, "places")


def picture(kind: str, measurement: Measurement, what: str, alt: str, caption: str, *panels: Panel) -> Picture:
    """Return a picture of a measurement; title, texts and names say which."""
    title = f"{cut(measurement.suite, 60)} on {cut(measurement.model, 40)}: {what}"
    whole = measurement.n == measurement.n_total
    sampled = "" if whole else f" {measurement.n:,} of {measurement.n_total:,} cases were scored."
    alt = f"{cut(measurement.suite, 60)} on {cut(measurement.model)}. {alt}"
    return Picture(kind, measurement.suite, measurement.model, measurement.main, title, alt, caption + sampled, panels)


# Tables.

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
