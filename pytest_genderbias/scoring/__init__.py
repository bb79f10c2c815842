"""Scores of models for the cases of suites, with as few forward passes as possible.

In: a question (cases and a query), a model, and settings. Out: an array of scores, and remarks on how they were computed. Callers are
``measurement``, and the recipes and mitigations that need vectors or likelihoods.
"""

#: Raise this whenever a score can change: stored scores of other versions are ignored.
SCORING_VERSION = 1
