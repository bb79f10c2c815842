"""Pure functions from arrays to statistics, with the definitions of the papers as defaults.

In: arrays of scores, labels and groups. Out: values, intervals and sums over units. Every room may import this one; it imports
neither pytest nor models nor suites.
"""
