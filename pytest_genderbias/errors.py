"""The errors that a user can meet. Each says what is wrong, where, and what to do next."""

from __future__ import annotations


class BiasError(Exception):
    """Base of every error raised on purpose by this package."""


class DataFileError(BiasError, ValueError):
    """A word list, suite, gate or baseline file is not what it should be; the message starts with ``file:line``."""


class UnknownNameError(BiasError, LookupError):
    """A suite, word list, statistic or option is named that does not exist."""


class ModelError(BiasError, ValueError):
    """A model cannot be loaded, or would not give numbers that one may trust."""


class ScoreError(BiasError, ArithmeticError):
    """A model returned a score that is no finite number."""


class NotApplicableError(BiasError, TypeError):
    """The suite does not apply to this kind of model. A skip, unless ``--bias-strict``."""


class SettingError(BiasError, ValueError):
    """A setting or option has a value that it cannot have."""


class GateError(BiasError, ValueError):
    """A gate is written so that it cannot be judged."""


class BaselineError(BiasError, OSError):
    """A baseline file cannot be read or written."""


class GateFailure(BiasError, AssertionError):  # noqa: N818 - a failed test, not a broken one
    """A measurement failed its gate."""
