"""Inference: sums by item, intervals, paired comparisons, null controls, and corrections for many tests."""
