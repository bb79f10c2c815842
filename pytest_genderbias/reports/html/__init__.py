"""The report as one HTML page: self-contained, without a network, for a screen, a phone and paper.

In: a :class:`~pytest_genderbias.reports.run_report.RunReport`. Out: a file. ``page.py`` gathers what the template
shows, as plain data; the template holds the only markup, and jinja2 escapes all text in it.
"""
