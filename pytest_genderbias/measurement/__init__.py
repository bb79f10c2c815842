"""Measurements: a suite and a model come in, a :class:`~pytest_genderbias.measurement.measurement.Measurement` goes
out.

``measure`` in ``runner.py`` is the way in from Python for one measurement, ``Runner`` for many: it keeps one model in
memory and makes each measurement once. ``run_models.py`` holds that model, and reports a refused one in full once.
``plan.py`` resolves options and asks the suite's questions before weights are loaded, ``carry_out.py`` scores and
summarises, ``restarts.py`` combines measurements of several trainings. A measurement is plain data
(``plain_data.py``). It knows no gates, and never imports pytest.
"""
