"""Scores of models for the cases of suites, with as few forward passes as possible.

In: a question (cases and a query), a model, and settings. Out: an :class:`~pytest_genderbias.suites.cases.Answer` with
an array of scores, and remarks on how they were computed. ``engine.py`` is the way in for ``measurement``. Recipes and
mitigations that need vectors or likelihoods call the modules that compute them.
"""

#: Raise this whenever a score can change: stored scores of other versions are ignored.
SCORING_VERSION = 3
