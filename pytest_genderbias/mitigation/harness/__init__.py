"""Runs of mitigations and verdicts on them: a model, a method and a recipe come in, a judgement goes out.

``run.py`` makes the models before, after and of the control (``MitigationRunner`` in ``file.py`` shares equal runs).
``verdict.py`` judges them on a suite, by the comparisons of ``statistics/inference/reduction.py``; ``retraining.py``
tests whether a reduction is superficial. ``grid.py`` tries a grid of settings, of which ``gates/choice.py`` chooses the
best point. ``curves.py`` and ``callback.py`` measure suites during a training, and ``agreement.py`` compares intrinsic
with extrinsic bias over runs. ``file.py`` reads the list ``mitigate`` of a gate file. The package measures through
:class:`~pytest_genderbias.measurement.runner.Runner`, and never imports pytest.
"""
