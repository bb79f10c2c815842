"""Models under test: specs, roles, checkpoints, files of vectors or predictions, and protocols for the user's own
objects.

In: a spec such as ``bert-base``, a path, a network with its tokenizer, or an object. Out: a checked
:class:`~pytest_genderbias.models.model.Model`, or a :class:`~pytest_genderbias.errors.ModelError` that says what to do.
``loading.py`` is the way in; ``saving.py`` writes models back. ``config.py`` lists the package's own architectures.
The package knows no suites.
"""
