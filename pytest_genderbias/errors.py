"""The exceptions of this package. Each message says what is wrong, where, and what to do next."""

from __future__ import annotations

import traceback

from pytest_genderbias.escaping import printable

#: Where the package is installed from: a clone, in the folder where one types. No package index has it, and who
#: registered its name there could give users anything. Messages, workflows and guides name this place.
SOURCE = "./pytest-genderbias"
_LONGEST = 4_000  #: characters of a message: file and problem are at its beginning, what to do next at its end


def installing(extra: str) -> str:
    """Return the command that installs an extra of this package, as messages give it.

    >>> installing("served")
    "pip install './pytest-genderbias[served]' (a clone: no package index has it)"
    """
    return f"pip install '{SOURCE}[{extra}]' (a clone: no package index has it)"


class BiasError(Exception):
    """Base class of all exceptions that this package raises on purpose.

    ``str`` gives the message as it can be shown: in one line, with characters escaped that a terminal would obey.
    Messages repeat what files of others contain.
    """

    def __str__(self) -> str:
        """Return the message in one line. Of a very long one, the middle is left out."""
        line = printable(" ".join(super().__str__().splitlines()))
        return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"


class DataFileError(BiasError, ValueError):
    """A data file (word list, suite, gate file, baseline, data set) is invalid. The message starts with
    ``file:line``.
    """


class UnknownNameError(BiasError, LookupError):
    """No suite, word list, statistic or option has the requested name."""


class ModelError(BiasError, ValueError):
    """A model cannot be loaded, or its scores would not be reliable."""


class ScoreError(BiasError, ArithmeticError):
    """A model's scores cannot be used: not finite, out of range, of another shape, or different for the same input."""


class NotApplicableError(BiasError, TypeError):
    """A suite, method or recipe does not apply to this kind of model, or its data are missing.

    A written gate fails, unless it is optional; a suite of ``--bias-suite`` is skipped.
    """


class MitigationNotApplicableError(NotApplicableError):
    """A method, a recipe or a suite does not apply to the models of a mitigation, or lacks its data.

    Raised by ``mitigate`` and ``MitigationRun.measure`` only, so that a test of a mitigation can be skipped for this
    error, and fail for a ``NotApplicableError`` from anything else that it calls.
    """


class ExecutorError(BiasError, RuntimeError):
    """Cases cannot be scored where they should be: a cluster or its workers are missing, differ from this process, or
    end.
    """


class SettingError(BiasError, ValueError):
    """A setting or option has an invalid value."""


class GateError(BiasError, ValueError):
    """A gate is invalid and cannot be judged."""


class BaselineError(BiasError, OSError):
    """A baseline file cannot be read or written."""


class InconsistentEntryError(BaselineError):
    """The items of a baseline entry give other values than the entry has, so that neither can be trusted."""


class StoreError(BiasError, RuntimeError):
    """The store of a URL cannot be read: no network, no right, or no such bucket."""


class WriteError(BiasError, OSError):
    """A file cannot be written; what was there is still there. Made with a number, a reason and a file, as any
    ``OSError``.
    """

    def __str__(self) -> str:
        """Return file and reason on one line."""
        return f"{self.filename} cannot be written: {self.strerror}; what was there is still there"


class GateFailure(BiasError, AssertionError):  # noqa: N818 - a failed test, not a broken one
    """A measurement failed its gate. Its message may have several lines."""

    def __str__(self) -> str:
        """Return the message with its lines."""
        return printable(AssertionError.__str__(self), keep="\n")


class UndefinedError(ValueError):
    """A statistic has no value on this input. The message says why, as a clause that ends a sentence."""


class BiasWarning(UserWarning):
    """Base class of the warnings of this package. ``str`` gives the message with characters escaped that a terminal
    would obey.
    """

    def __str__(self) -> str:
        """Return the message with its lines."""
        return printable(super().__str__(), keep="\n")


def through_error(error: Exception) -> str:
    """Return where an error arose, what it says, and what to do; to be put behind "was not written" or "was not
    drawn".
    """
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"through an error in {place.filename}:{place.lineno}: {type(error).__name__}: {error}; everything else was. "
        "Please report it with the file of --bias-json"
    )
