"""Measure how often intervals and bounds for other items and other templates miss, and those over items alone.

Run as a script with the name of a table, ``means``, ``shown``, ``statistics``, ``worsening`` or ``counts``, it prints
that table of docs/evidence/coverage-two-way.md (one to five minutes each).
"""

import sys
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pytest_genderbias.statistics.count_sums import significant_fill_sums
from pytest_genderbias.statistics.inference.intervals import clustered_mean_interval
from pytest_genderbias.statistics.inference.item_sums import align
from pytest_genderbias.statistics.inference.paired import compare_aligned, compare_items
from pytest_genderbias.statistics.inference.two_way import two_way_interval
from pytest_genderbias.statistics.sums import template_bias_sums

ITEMS = (12, 60, 164)
TEMPLATES = (4, 6, 14)
SEED = 20261122


@dataclass(frozen=True)
class Population:
    """Standard deviations of the effects of items, of templates and of single cells; ``skewed``: items and templates
    have long tails.
    """

    item: float
    template: float
    rest: float
    skewed: bool = False

    def draw(self, rng, items, templates):
        """Return scores, shape (items, templates), with the mean 0."""
        of_items, of_templates = (
            (rng.exponential(size=n) - 1) if self.skewed else rng.normal(size=n) for n in (items, templates)
        )
        scores = self.item * of_items[:, None] + self.template * of_templates
        return scores + self.rest * rng.normal(size=(items, templates))


POPULATIONS = {
    "items only": Population(1.0, 0.0, 1.0),
    "small effects of templates": Population(1.0, 0.2, 1.0),
    "half of items'": Population(1.0, 0.5, 1.0),
    "templates more than items": Population(0.3, 1.0, 0.3),
    "half of items', skewed": Population(1.0, 0.5, 0.5, skewed=True),
}


def names(n):
    return np.array([f"{i:04d}" for i in range(n)])


def sums_of(scores, absolute=False):
    return template_bias_sums(names(len(scores)), scores, names(scores.shape[1]), absolute)


def intervals_of(scores, absolute=False):
    """Return the intervals over items, and over items and templates."""
    sums = sums_of(scores, absolute)
    within = clustered_mean_interval(sums.by_unit().sums[:, 0], np.ones(len(scores)), "items")
    return within, two_way_interval(sums, within)


def missed(make, truth, repeats, rng):
    """Return the shares of intervals, over items and over both, that miss the truth; a missing interval misses
    nothing.
    """
    wrong = np.zeros(2)
    for _ in range(repeats):
        wrong += [not (one is None or one.low <= truth <= one.high) for one in make(rng)]
    return wrong / repeats


def regressed(make, repeats, rng):
    """Return the shares of comparisons of equal models whose lower 95 % bound is above 0, and whose upper bound is
    below 0.
    """
    wrong = np.zeros((2, 2))
    for _ in range(repeats):
        then, now = make(rng)
        for k, found in enumerate((over_items(then, now), compare_items(then, now, lambda v: v, repeats=499))):
            wrong[k] += [found.low > 0, found.high < 0]
    return wrong / repeats


def over_items(then, now):
    then, now = (side.by_unit() for side in align(then, now))
    return compare_aligned(then, now, lambda v: v, repeats=499)


def missed_by_t(population, items, templates, repeats, rng):
    """Return the shares of 95 % intervals by Student's t that miss the mean 0: over items, and two-way. Sums of
    squares, many tables at once.
    """
    wrong, block = np.zeros(2), 500
    for _ in range(repeats // block):
        scores = np.stack([population.draw(rng, items, templates) for _ in range(block)])
        mean = scores.mean(axis=(1, 2))
        of_items, of_templates = scores.mean(axis=2), scores.mean(axis=1)
        rest = scores - of_items[:, :, None] - of_templates[:, None, :] + mean[:, None, None]
        freedom = np.array([items - 1, templates - 1, (items - 1) * (templates - 1)])
        parts = np.stack(
            [
                of_items.var(axis=1, ddof=1) / items,
                of_templates.var(axis=1, ddof=1) / templates,
                np.square(rest).sum(axis=(1, 2)) / freedom[2] / (items * templates),
            ]
        )
        largest, together = parts[:2].max(axis=0), parts[0] + parts[1] - parts[2]
        variance = np.maximum(together, largest)
        both = variance**2 / (parts**2 / freedom[:, None]).sum(axis=0)
        both = np.where(together < largest, np.where(parts[1] > parts[0], templates - 1, items - 1), both)
        for k, (v, degrees) in enumerate(((parts[0], items - 1), (variance, both))):
            wrong[k] += (np.abs(mean) > stats.t.ppf(0.975, degrees) * np.sqrt(v)).sum()
    return wrong / (repeats // block * block)


def means(repeats=5000):
    print(
        "| effects (standard deviations: items, templates, rest) | templates |"
        f" {' | '.join(f'{n} items' for n in ITEMS)} |"
    )
    print("|---|---|" + "---|" * len(ITEMS))
    for name, population in POPULATIONS.items():
        for templates in TEMPLATES:
            cells = []
            for items in ITEMS:
                wrong = missed_by_t(population, items, templates, repeats, np.random.default_rng(SEED))
                cells.append(f"{100 * wrong[0]:.1f} / {100 * wrong[1]:.1f} %")
            shown = f"{name} ({population.item:g}, {population.template:g}, {population.rest:g})"
            print(f"| {shown} | {templates} | {' | '.join(cells)} |", flush=True)


def shown_intervals(repeats=150):
    """The intervals that a measurement shows, with 60 items."""
    print("| effects | " + " | ".join(f"{t} templates" for t in TEMPLATES) + " |")
    print("|---|" + "---|" * len(TEMPLATES))
    for name in ("items only", "half of items'", "half of items', skewed"):
        cells = []
        for templates in TEMPLATES:
            rng = np.random.default_rng(SEED)
            wrong = missed(
                lambda r, p=POPULATIONS[name], t=templates: intervals_of(p.draw(r, 60, t)), 0.0, repeats, rng
            )
            cells.append(f"{100 * wrong[0]:.1f} / {100 * wrong[1]:.1f} %")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def statistics(repeats=150):
    """Mean absolute bias of 60 occupations: the truth is its expectation with so many templates, from 4,000 tables."""
    population = Population(1.0, 0.5, 1.0)
    cells = []
    for templates in TEMPLATES:
        rng = np.random.default_rng(SEED)
        truth = np.mean([np.abs(population.draw(rng, 60, templates).mean(axis=1)).mean() for _ in range(4_000)])
        wrong = missed(lambda r, t=templates: intervals_of(population.draw(r, 60, t), True), truth, repeats, rng)
        cells.append(f"{100 * wrong[0]:.1f} / {100 * wrong[1]:.1f} %")
    print("| statistic | " + " | ".join(f"{t} templates" for t in TEMPLATES) + " |")
    print("|---|" + "---|" * len(TEMPLATES))
    print(f"| mean absolute bias | {' | '.join(cells)} |")


def worsening(repeats=200):
    """Two models that differ in every item and template, and not on average over all of them; 60 items."""
    change = Population(0.5, 0.3, 0.5)
    print("| bounds | " + " | ".join(f"{t} templates" for t in TEMPLATES) + " |")
    print("|---|" + "---|" * len(TEMPLATES))
    rows = ["over items", "over items and templates"]
    for templates in TEMPLATES:

        def pair(r, t=templates):
            before = POPULATIONS["half of items'"].draw(r, 60, t)
            return sums_of(before), sums_of(before + change.draw(r, 60, t))

        for k, (worse, better) in enumerate(regressed(pair, repeats, np.random.default_rng(SEED))):
            rows[k] += f" | {100 * worse:.1f}, {100 * better:.1f} %"
    print("\n".join(f"| {row} |" for row in rows))


def counts(repeats=100):
    """Counts of significant fills of two models; each template depends on the group with the same chance in either; 60
    persons.
    """
    print("| bounds | " + " | ".join(f"{t} templates" for t in TEMPLATES) + " |")
    print("|---|" + "---|" * len(TEMPLATES))
    rows = ["over persons", "over persons and templates"]
    for templates in TEMPLATES:

        def pair(r, t=templates):
            return fills_of(r, 60, t), fills_of(r, 60, t)

        for k, (worse, better) in enumerate(regressed(pair, repeats, np.random.default_rng(SEED))):
            rows[k] += f" | {100 * worse:.1f}, {100 * better:.1f} %"
    print("\n".join(f"| {row} |" for row in rows))


def fills_of(rng, persons, templates):
    """Return sums of one of two fills for each person and template; in half of the templates it follows the group in 9
    of 10 persons.
    """
    group = np.repeat([0, 1], persons // 2)
    follows = rng.random(templates) < 0.5
    like_group = rng.random((persons, templates)) < np.where(follows, 0.9, 0.5)
    fills = np.where(like_group, group[:, None], 1 - group[:, None])[..., None]
    return significant_fill_sums(
        names(persons),
        group,
        np.array(["a", "b"]),
        fills,
        np.arange(2),
        ["x", "y"],
        level=0.05,
        family="template",
        test="chi2",
    )


if __name__ == "__main__":
    {"means": means, "shown": shown_intervals, "statistics": statistics, "worsening": worsening, "counts": counts}[
        sys.argv[1]
    ](*map(int, sys.argv[2:]))
