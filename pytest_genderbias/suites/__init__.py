"""Suites: templates plus word lists plus the statistic that summarises them. One module a family."""
