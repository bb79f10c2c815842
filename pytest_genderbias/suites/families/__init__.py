"""The families of suites, one module each, with helpers for several families in ``shared``.

In: the body of a suite file, options, and a model's answers. Out: questions to the model, and a summary of the answers.
Only ``suites/suite.py`` imports the families; they import ``text``, ``datasets``, ``statistics`` and the core of
``suites``.
"""
