"""Recipes: seeded, resumable trainings of a model for a task, and the evaluation of that task.

In: a model (or none, for recipes that build their own network), a seed, and a folder. Out: a checkpoint in that folder,
and the performance on held-out data. Recipes know nothing about bias; ``mitigation`` calls them.
"""
