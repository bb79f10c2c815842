"""Pictures of measurements, runs and trainings: as plain data, as figures of matplotlib, and as SVG.

In a notebook, each function takes what was measured and returns a figure::

    from pytest_genderbias import measure
    from pytest_genderbias.reports import figures

    figures.signed_bars(measure("lm-occupation", "demo-lm"))

matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from pytest_genderbias.reports.figures.drawing import draw as draw
from pytest_genderbias.reports.figures.drawing import png as png
from pytest_genderbias.reports.figures.notebook import accuracy_and_bias as accuracy_and_bias
from pytest_genderbias.reports.figures.notebook import agreement as agreement
from pytest_genderbias.reports.figures.notebook import all_of as all_of
from pytest_genderbias.reports.figures.notebook import along_training as along_training
from pytest_genderbias.reports.figures.notebook import compression as compression
from pytest_genderbias.reports.figures.notebook import fills as fills
from pytest_genderbias.reports.figures.notebook import growth as growth
from pytest_genderbias.reports.figures.notebook import heat_map as heat_map
from pytest_genderbias.reports.figures.notebook import histogram as histogram
from pytest_genderbias.reports.figures.notebook import mitigations as mitigations
from pytest_genderbias.reports.figures.notebook import models as models
from pytest_genderbias.reports.figures.notebook import price as price
from pytest_genderbias.reports.figures.notebook import resilience as resilience
from pytest_genderbias.reports.figures.notebook import retrained as retrained
from pytest_genderbias.reports.figures.notebook import scatter as scatter
from pytest_genderbias.reports.figures.notebook import signed_bars as signed_bars
from pytest_genderbias.reports.figures.notebook import variance as variance
from pytest_genderbias.reports.figures.notebook import words_by_set as words_by_set
