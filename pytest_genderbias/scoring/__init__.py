"""The scoring engine: from the cases of a suite to an array of scores, by as few forward passes as there need be."""

#: Raise this whenever a score can change: stored scores of another version are never used.
SCORING_VERSION = 1
