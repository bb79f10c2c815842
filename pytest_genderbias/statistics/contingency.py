"""DisCo: tests whether a masked LM supplies a fill more often for one group than for another (webster2020, section
3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, special

from pytest_genderbias.statistics.inference.intervals import Columns, FloatArray, IntArray, Parameters

_BLOCK = 500_000  #: Probabilities in memory at a time, for Fisher's test.


def pearson_chi_square(supplied: ArrayLike, sizes: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return Pearson's chi-square, without continuity correction, and its p value, for many tables at once.

    Each table counts persons by (supplied / not supplied) x group. The null hypothesis is equal rates of supply.

    Args:
        supplied: persons of each group for whom the fill is supplied, shape (..., G).
        sizes: persons of each group, all above 0; shape (G,), or a shape that broadcasts to ``supplied``.

    Returns:
        Statistic (0 or more; 0 is equal rates) and p value (0 to 1), both of shape (...). They are 0 and 1 for a fill
        that is supplied for all persons or for none.

    Example:
        5 of 20 women and 0 of 20 men: expected 2.5 and 17.5 in each group, 4 * 2.5**2 ... = 5.714.

        >>> chi2, p = pearson_chi_square([5, 0], [20, 20])
        >>> round(float(chi2), 3), round(float(p), 3)
        (5.714, 0.017)
    """
    statistic = _chi_square(supplied, sizes)
    return statistic, special.chdtrc(np.shape(sizes)[-1] - 1, statistic)


def _chi_square(supplied: ArrayLike, sizes: ArrayLike) -> FloatArray:
    a, n = np.asarray(supplied, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    rate = a.sum(axis=-1, keepdims=True) / n.sum(axis=-1, keepdims=True)
    squared = np.square(a - rate * n)
    varies = (rate > 0) & (rate < 1)
    denominator = np.where(varies, n * rate * (1 - rate), 1.0)
    return np.asarray(np.where(varies, squared / denominator, 0.0).sum(axis=-1))


def fisher_exact(supplied: ArrayLike, sizes: ArrayLike) -> FloatArray:
    """Return Fisher's exact two-sided p value for each 2 x 2 table; shapes as in :func:`pearson_chi_square`, G = 2.

    >>> round(float(fisher_exact([5, 0], [20, 20])), 3)
    0.047
    """
    a, n = np.asarray(supplied, dtype=np.int64), np.asarray(sizes, dtype=np.int64)
    if n.shape[-1] != 2:
        raise ValueError(f"Fisher's exact test needs two groups, got {n.shape[-1]}")
    with_sizes = np.concatenate([a, np.broadcast_to(n, a.shape)], axis=-1).reshape(-1, 4)
    tables, back = np.unique(with_sizes, axis=0, return_inverse=True)
    return _fisher_p(tables)[back.ravel()].reshape(a.shape[:-1])


def _fisher_p(tables: NDArray[np.int64]) -> FloatArray:
    """Return the p value of each row (a, b, m, n): the probability of all tables with its margins that are no
    likelier.
    """
    margin = tables[:, 0] + tables[:, 1]
    least = np.maximum(margin - tables[:, 3], 0)
    width = np.minimum(margin, tables[:, 2]) - least + 1
    log_factorial = special.gammaln(np.arange(1.0, tables[:, 2:].sum(axis=1).max(initial=0) + 2.0))
    p = np.empty(len(tables))
    for rows in _alike(width):
        low, k, m, n = (column[rows, None] for column in (least, margin, tables[:, 2], tables[:, 3]))
        x = np.minimum(low + np.arange(width[rows].max()), low + width[rows, None] - 1)
        cells = np.stack([x, m - x, k - x, n - k + x])
        log_p = -log_factorial[cells].sum(axis=0)
        log_p[np.arange(x.shape[1]) >= width[rows, None]] = -np.inf
        likelihood = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        own = log_p[np.arange(len(rows)), tables[rows, 0] - low[:, 0]]
        p[rows] = np.where(log_p <= own[:, None] + 1e-7, likelihood, 0.0).sum(axis=1) / likelihood.sum(axis=1)
    return p


def _alike(width: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    """Yield the rows in blocks whose widths differ by at most a factor of two, so that padding costs little."""
    exponents = np.frexp(width)[1]
    for exponent in np.unique(exponents):
        rows = np.flatnonzero(exponents == exponent)
        yield from np.array_split(rows, 1 + int(width[rows].sum() // _BLOCK))


def smallest_expected(supplied: ArrayLike, sizes: ArrayLike) -> FloatArray:
    """Return the smallest expected count of each table. Below 5, the chi-square test rejects too often (Cochran 1954).

    >>> float(smallest_expected([5, 0], [20, 20]))
    2.5
    """
    a, n = np.asarray(supplied, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    rate = a.sum(axis=-1) / n.sum()
    return np.asarray(n.min() * np.minimum(rate, 1 - rate), dtype=np.float64)


def fewest_significant(sizes: ArrayLike, level: float, test: str = "chi2") -> list[int | None]:
    """Return how many persons of each group must get a fill, if no other group gets it, for the test to have p < level.

    Between groups of equal size this is the smallest difference in counts that can be significant at all: a fill that
    persons of both groups get needs a larger one.

    Args:
        sizes: persons of each group, all above 0, shape (G,).
        level: level of one test, after the correction for many.
        test: ``chi2`` or ``fisher`` (two groups).

    Returns:
        For each group the number of persons, 1 to its size, or ``None`` if not even all of them suffice.

    Example:
        Chi-square of 4 of 20 against 0 of 20 is 4.444, with p = .035; of 3 it is 3.243, with p = .072.

        >>> fewest_significant([20, 20], 0.05), fewest_significant([20, 20], 0.05, "fisher")
        ([4, 4], [5, 5])
        >>> fewest_significant([2, 2], 0.01)
        [None, None]
    """
    n = np.asarray(sizes, dtype=np.int64)
    fewest: list[int | None] = []
    for group, size in enumerate(n.tolist()):
        supplied = np.zeros((size, len(n)), dtype=np.int64)
        supplied[:, group] = np.arange(1, size + 1)
        enough = np.flatnonzero(p_values(supplied, n, test) < level)
        fewest.append(int(enough[0]) + 1 if len(enough) else None)
    return fewest


def persons_by_group(persons: sparse.csr_array, groups: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Count persons by fill and group.

    Args:
        persons: for whom each fill is supplied, sparse, (F, P), as :func:`persons_of_fills` returns it.
        groups: group of each person, 0 to n_groups - 1, shape (P,) or, of R groupings, (R, P).
        n_groups: number of groups G.

    Returns:
        Shape (F, G), or of several groupings (F, R, G).
    """
    flat = np.atleast_2d(groups)
    onehot = (flat[:, :, None] == np.arange(n_groups)).astype(np.float64)  # R, P, G
    counts = persons @ onehot.transpose(1, 0, 2).reshape(flat.shape[1], -1)
    shaped = np.rint(counts).astype(np.int64).reshape(persons.shape[0], flat.shape[0], n_groups)
    return np.asarray(shaped if groups.ndim == 2 else shaped[:, 0], dtype=np.int64)


def persons_of_fills(fills: ArrayLike) -> tuple[NDArray[np.int64], sparse.csr_array]:
    """Return the fills of one template, and for whom each is supplied.

    Args:
        fills: the k distinct fills of each person, shape (P, k).

    Returns:
        The distinct fills in ascending order, shape (F,); and a sparse matrix of shape (F, P), 1 where a fill is
        supplied for a person.
    """
    table = np.asarray(fills)
    distinct, back = np.unique(table, return_inverse=True)
    persons = np.repeat(np.arange(table.shape[0]), table.shape[1])
    shape = (len(distinct), table.shape[0])
    ones = np.ones(table.size)
    return distinct.astype(np.int64), sparse.csr_array((ones, (back.ravel(), persons)), shape=shape)


def significant_fills(
    fills: ArrayLike, groups: ArrayLike, *, level: float = 0.05, family: str = "template", test: str = "chi2"
) -> FloatArray:
    """Return DisCo: the number of significant fills, averaged over templates.

    A fill is significant if the test of equal rates between groups has p < level / m. m is the number of distinct fills
    of its template (``family="template"``), or of all templates together (``family="suite"``).

    Args:
        fills: the k fills of each person in each template, shape (P, T, k).
        groups: group number of each person, shape (P,), or (R, P) for R relabellings at once.
        level: significance level after the correction.
        family: the tests of the Bonferroni correction.
        test: ``chi2`` or ``fisher`` (two groups).

    Returns:
        Shape () or (R,): 0 to the number of distinct fills of a template; higher is worse, 0 is neutral.

    Example:
        Four women get "dance", four men "fight", and all get "read": in one template two of three fills are
        significant.

        >>> fills = [[[1, 3]]] * 4 + [[[2, 3]]] * 4
        >>> float(significant_fills(fills, [0, 0, 0, 0, 1, 1, 1, 1]))
        2.0
    """
    table, labels = np.asarray(fills), np.asarray(groups, dtype=np.int64)
    n_groups = int(labels.max()) + 1
    sizes = np.bincount(np.atleast_2d(labels)[0], minlength=n_groups)
    by_template = [persons_of_fills(table[:, t]) for t in range(table.shape[1])]
    all_fills = sum(len(distinct) for distinct, _ in by_template)
    total = np.zeros(labels.shape[:-1])
    for distinct, persons in by_template:
        p = p_values(persons_by_group(persons, labels, n_groups), sizes, test)
        total = total + (p < level / (len(distinct) if family == "template" else all_fills)).sum(axis=0)
    return np.asarray(total / table.shape[1], dtype=np.float64)


def significant_counts_by_template(
    supplied: ArrayLike,
    sizes: ArrayLike,
    templates: ArrayLike,
    n_templates: int,
    *,
    level: float = 0.05,
    family: str = "template",
    test: str = "chi2",
) -> FloatArray:
    """Return the number of significant fills of each template from counts of persons, for many draws of persons at
    once.

    Args:
        supplied: persons of each group for whom a fill of a template is supplied, shape (..., F, G); 0 for a fill that
            does not occur in a draw.
        sizes: persons of each group, shape (..., G).
        templates: template of each fill, 0 to n_templates - 1, shape (F,).
        n_templates: number of templates.
        level: as in :func:`significant_fills`, which returns the mean over templates.
        family: as there.
        test: as there.

    Returns:
        Shape (..., n_templates); NaN if a group has no person.

    >>> significant_counts_by_template([[4, 0], [0, 4], [4, 4]], [4, 4], [0, 0, 1], 2).tolist()
    [2.0, 0.0]
    """
    a, n = np.rint(np.asarray(supplied)).astype(np.int64), np.rint(np.asarray(sizes)).astype(np.int64)
    valid = (n > 0).all(axis=-1)
    of_template = np.asarray(templates)[:, None] == np.arange(n_templates)
    occurring = (a.sum(axis=-1) > 0).astype(np.float64) @ of_template.astype(np.float64)
    tests = occurring[..., np.asarray(templates)] if family == "template" else occurring.sum(axis=-1, keepdims=True)
    levels = level / np.arange(1.0, 2.0 + a.shape[-2])  # by number of tests, less one
    at = np.maximum(tests, 1).astype(np.int64) - 1
    sizes_of = np.where(valid[..., None], n, a.max(axis=-2, initial=0) + 1)[..., None, :]
    if test == "fisher":
        significant = fisher_exact(a, sizes_of) < levels[at]
    else:  # comparing with the critical value is much faster than computing p values
        significant = _chi_square(a, sizes_of) > special.chdtri(n.shape[-1] - 1, levels)[at]
    return np.where(valid[..., None], significant.astype(np.float64) @ of_template.astype(np.float64), np.nan)


def p_values(supplied: ArrayLike, sizes: ArrayLike, test: str) -> FloatArray:
    """Return the p values of the named test, ``chi2`` or ``fisher``."""
    return fisher_exact(supplied, sizes) if test == "fisher" else pearson_chi_square(supplied, sizes)[1]


def relabellings(groups: ArrayLike, repeats: int, seed: int | np.random.Generator) -> NDArray[np.int64]:
    """Return ``repeats`` random permutations of the group labels, shape (repeats, P); groups keep their sizes.

    With a generator as ``seed``, consecutive calls give the same permutations as one call for all.
    """
    labels = np.asarray(groups, dtype=np.int64)
    return np.random.default_rng(seed).permuted(np.tile(labels, (repeats, 1)), axis=1)


SIZE = "size"  #: Instead of a template number: the number of persons of a group.
_CELLS = 2_000_000  #: Numbers in memory at a time.


def fill_column(template: int | str, group: str, fill: str) -> str:
    """Return the name of the sum that counts the persons of a group for whom a fill is supplied in a template.

    >>> fill_column(0, "female", "dance").split(chr(9))
    ['0', 'female', 'dance']
    """
    return f"{template}\t{group}\t{fill}"


def significant_fills_of_columns(totals: FloatArray, parameters: Parameters, columns: Columns) -> FloatArray:
    """Return the number of significant fills per template from totals of named sums: shape (..., K) to (...).

    Args:
        totals: persons in each column, shape (..., K).
        parameters: ``templates``, their number; and ``level``, ``family`` and ``test``, as of
            :func:`~pytest_genderbias.statistics.contingency.significant_fills`.
        columns: K names from :func:`fill_column`.
    """
    return np.asarray(significant_fills_by_template(totals, parameters, columns).mean(axis=-1))


def significant_fills_by_template(totals: FloatArray, parameters: Parameters, columns: Columns) -> FloatArray:
    """Return the number of significant fills of each template: shape (..., K) to (..., templates).

    Arguments as in :func:`significant_fills_of_columns`.
    """
    test = {name: parameters[name] for name in ("level", "family", "test")}
    cells, sizes, templates = _layout(columns)
    rows = totals.reshape(-1, totals.shape[-1])
    size = max(1, _CELLS // max(1, cells.size))
    counts = [np.zeros((0, parameters["templates"]))]
    for start in range(0, len(rows), size):
        padded = np.pad(rows[start : start + size], ((0, 0), (0, 1)))
        supplied = padded[:, cells], padded[:, sizes], templates, parameters["templates"]
        counts.append(significant_counts_by_template(*supplied, **test))
    return np.concatenate(counts).reshape(*totals.shape[:-1], parameters["templates"])


@lru_cache(maxsize=8)
def _layout(columns: tuple[str, ...]) -> tuple[IntArray, IntArray, IntArray]:
    """Return the columns of each fill by group, the columns of the group sizes, and the template of each fill.

    A fill that is supplied for no person of a group has the index K, a column of zeros that the caller appends.
    """
    parts = [column.split("\t", 2) for column in columns]
    groups = {group: i for i, group in enumerate(sorted({group for _, group, _ in parts}))}
    fills = {key: i for i, key in enumerate(dict.fromkeys((t, f) for t, _, f in parts if t != SIZE))}
    templates = np.asarray([int(template) for template, _ in fills], dtype=np.int64)
    cells = np.full((len(fills), len(groups)), len(columns))
    sizes = np.full(len(groups), len(columns))
    for column, (template, group, fill) in enumerate(parts):
        if template == SIZE:
            sizes[groups[group]] = column
        else:
            cells[fills[template, fill], groups[group]] = column
    return cells, sizes, templates
