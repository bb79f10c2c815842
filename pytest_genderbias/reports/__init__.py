"""Reports: the tables at the end of a run, and its JSON file.

In: measurements, judgements and comparisons. Out: markdown text, or a file. Only the plugin calls this room. It judges nothing; the
only figures that it computes are p values corrected for the number of tests in the run.
"""
