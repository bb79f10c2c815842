"""Measure how often the lower bound of an accuracy lies above chance. Run as a script it prints the table of
docs/evidence/coverage-shares.md.
"""

import sys
from collections import Counter

import numpy as np
from scipy import stats

from pytest_genderbias.suites.families.shared.asking import least_accuracy

#: Clusters, questions in each, their correlation within a cluster, and what guessing gives.
CASES = (
    (16, 1, 0.0, 1 / 2), (24, 1, 0.0, 1 / 2), (9, 3, 0.5, 1 / 3), (9, 3, 1.0, 1 / 3), (25, 28, 0.0, 1 / 3),
    (25, 28, 0.1, 1 / 3),
    (25, 28, 0.5, 1 / 2), (25, 28, 1.0, 1 / 3), (30, 8, 0.3, 1 / 3), (100, 2, 0.3, 1 / 2),
)  # fmt: skip
ABOVE = (0.0, 0.1, 0.2, 0.35)
SEED = 5


def right_answers(rng, clusters, questions, correlation, accuracy, repeats):
    """Return the number of right answers of each cluster, shape (repeats, clusters): beta-binomial counts."""
    shape = (repeats, clusters)
    if correlation == 0.0:
        of_cluster = np.full(shape, accuracy)
    elif correlation == 1.0:
        of_cluster = (rng.random(shape) < accuracy).astype(float)
    else:
        spread = (1 - correlation) / correlation
        of_cluster = rng.beta(accuracy * spread, (1 - accuracy) * spread, shape)
    return rng.binomial(questions, of_cluster)


def shown_able(clusters, questions, correlation, chance, above, repeats, seed=SEED):
    """Return how often the bound lies above ``chance`` for models whose accuracy is ``chance + above``.

    Where all answers of a cluster are right or all are wrong, the number of right clusters is binomial, and the share
    exact.
    """
    if questions == 1 or correlation == 1.0:
        counts = np.full(clusters, float(questions))
        right = np.arange(clusters + 1)
        able = [
            least_accuracy(np.where(np.arange(clusters) < k, counts, 0.0), counts, "clusters") > chance for k in right
        ]
        return float(stats.binom.pmf(right, clusters, chance + above)[able].sum())
    drawn = right_answers(np.random.default_rng(seed), clusters, questions, correlation, chance + above, repeats)
    counts = np.full(clusters, float(questions))
    rows = Counter(map(tuple, np.sort(drawn, axis=1).tolist()))
    able = sum(
        n for row, n in rows.items() if least_accuracy(np.asarray(row, dtype=float), counts, "clusters") > chance
    )
    return able / repeats


def main(repeats):
    """Print the table, a row a kind of clusters."""
    shown = " | ".join(f"{above:g} above" if above else "guessing" for above in ABOVE)
    print(f"| clusters | questions in each | correlation | guessing gives | {shown} |")
    print("|---" * (4 + len(ABOVE)) + "|")
    for clusters, questions, correlation, chance in CASES:
        able = [100 * shown_able(clusters, questions, correlation, chance, a, repeats) for a in ABOVE]
        exact = questions == 1 or correlation == 1.0
        cells = [
            f"{share:.2f}" if exact and not above else f"{share:.1f}" for share, above in zip(able, ABOVE, strict=True)
        ]
        print(f"| {clusters} | {questions} | {correlation:g} | {chance:.3f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
