"""Reports: the tables at the end of a run, and every file that is made from it.

In: measurements, judgements and comparisons; for a file, the ``RunReport`` of a run or of its JSON file. Out: text,
pictures, or a file. The plugin reaches it through tables of names (``plugin/outputs.py``, ``plugin/doors.py``); the
record of a run (``run_report``, ``picture``, ``selection``, ``traces``) belongs to the core. It judges nothing; the
only figures that it computes are p values corrected for the number of tests in the run.
"""
