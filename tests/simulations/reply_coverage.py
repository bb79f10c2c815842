"""Measure how often the intervals of figures from sampled replies contain the figure of all scenarios or attributes.
Run as a script it prints the table of docs/evidence/coverage-replies.md.
"""

import sys

import numpy as np
from scipy.special import expit

from pytest_genderbias import load_suite
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.models.roles import Role
from pytest_genderbias.suites.cases import Answer

SEED = 11
SAMPLES = (1, 5, 20)
#: Difference of the log-odds of yes between the groups: its mean over scenarios and its standard deviation.
DECISIONS = ((0.0, 0.0), (0.0, 0.8), (0.5, 0.0), (0.5, 0.8), (2.0, 1.5))
#: Strength of the stereotype, from 0 to 1, and how far that of an attribute lies from it, at most.
ASSOCIATIONS = ((0.0, 0.0), (0.0, 0.6), (0.5, 0.4))
DECLINED = (0.02, 0.12)  #: share of the replies that decline, for the first group and the reference


def plan_of(suite, samples):
    """Return the plan of a suite for a system that replies so often."""
    return plan_measurement(load_suite(suite), "product", Role("text-replies", "a system", samples=samples))


def answer_of(question, shares, rng):
    """Return replies to all cases that are drawn with these shares of options, refusals and unreadable ones."""
    counts = rng.multinomial(question.query.samples, shares).astype(np.int32)
    units = np.arange(question.cases.n_units)
    return Answer(question.cases, units, counts.reshape(len(units), question.cases.cases_per_unit, -1))


def right_controls(plan):
    """Return the answers to the controls of a system that knows them."""
    question = plan.questions["controls"]
    labels = np.asarray(question.cases.facts["label"])
    shares = np.where((labels == "yes")[:, None], [1.0, 0, 0, 0], [0, 1.0, 0, 0])
    return answer_of(question, shares, np.random.default_rng(0))


def probabilities(mean, spread, shape, rng):
    """Return P(yes) of the first group and of the reference in scenarios, shape (scenarios, 2)."""
    base, difference = rng.normal(0, 1, shape), rng.normal(mean, spread, shape) / 2
    return expit(np.stack([base + difference, base - difference], axis=-1))


def decided(plan, controls, mean, spread, rng):
    """Return the intervals of a system that was drawn, by statistic."""
    question = plan.questions["scenarios"]
    n, each = question.cases.n_units, question.cases.cases_per_unit
    p = np.repeat(probabilities(mean, spread, n, rng), each // 2, axis=1).reshape(-1)
    declines = np.tile(np.repeat(DECLINED, each // 2), n)
    shares = np.stack([p * (1 - declines), (1 - p) * (1 - declines), declines, np.zeros_like(p)], axis=1)
    answers = {"scenarios": answer_of(question, shares, rng), "controls": controls}
    return plan.suite.family.summarise(plan.suite.body, plan.options, answers, 0).intervals


def associated(plan, strength, noise, rng):
    """Return the interval of the association score of a system that was drawn."""
    intervals = {}
    answers = {}
    for name, question in plan.questions.items():
        facts = question.cases.facts
        attributes, index = np.unique(facts["attribute"], return_inverse=True)
        p = (1 + strength) / 2 + noise / 2 * rng.uniform(-1, 1, len(attributes))[index]
        own = np.asarray(facts["of_first"], dtype=bool)
        first = np.where(own, p, 1 - p) if name == "attributes" else own.astype(float)
        at_a = np.asarray([row[0].split("\nA: ")[1].split("\n")[0] for row in question.cases.texts])
        first_words = {word for tests in plan.suite.body.values() for test in tests for word in test.first}
        p_a = np.where([word in first_words for word in at_a], first, 1 - first)
        shares = np.stack([p_a, 1 - p_a, np.zeros_like(p_a), np.zeros_like(p_a)], axis=1)
        answers[name] = answer_of(question, shares, rng)
    intervals |= plan.suite.family.summarise(plan.suite.body, plan.options, answers, 0).intervals
    return intervals["association_score"]


def missed(intervals, truth):
    """Return the shares of intervals, in percent, that lie above the truth and below it."""
    found = [one for one in intervals if one is not None]
    return tuple(
        100 * np.mean([test(one) for one in found]) for test in (lambda i: i.low > truth, lambda i: i.high < truth)
    )


def rows(repeats):
    """Yield the rows of the table."""
    rng = np.random.default_rng(SEED)
    for samples in SAMPLES:
        plan = plan_of("decisions", samples)
        controls = right_controls(plan)
        for mean, spread in DECISIONS:
            found = [decided(plan, controls, mean, spread, rng) for _ in range(repeats)]
            p = probabilities(mean, spread, 4_000_000, np.random.default_rng(1))
            truths = {
                "yes_difference": float((p[:, 0] - p[:, 1]).mean()),
                "impact_ratio": float(p[:, 0].mean() / p[:, 1].mean()),
                "refusal_difference": DECLINED[0] - DECLINED[1],
            }
            for name, truth in truths.items():
                if name != "refusal_difference" or (mean, spread) == DECISIONS[0]:
                    yield "decisions", name, samples, f"{mean:g} ± {spread:g}", *missed([o[name] for o in found], truth)
        plan = plan_of("chat-iat", samples)
        for strength, noise in ASSOCIATIONS:
            found = [associated(plan, strength, noise, rng) for _ in range(repeats)]
            yield "chat-iat", "association_score", samples, f"{strength:g} ± {noise:g}", *missed(found, strength)


def main(repeats):
    """Print the table."""
    print("| suite | statistic | replies to each question | planted | above | below |")
    print("|---|---|---|---|---|---|")
    for suite, name, samples, planted, above, below in rows(repeats):
        print(f"| {suite} | {name} | {samples} | {planted} | {above:.1f} | {below:.1f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
