"""Recipes: how a model is trained for a task, and how well it does it. They know nothing of bias or its mitigation."""
