"""Pure functions from arrays to statistics, with the definitions of the papers as defaults.

In: arrays of scores, labels and groups. Out: values, and sums over units; ``inference`` makes intervals, comparisons
and tests of them. The package knows no texts, models or suites, and imports only ``errors``.
"""
