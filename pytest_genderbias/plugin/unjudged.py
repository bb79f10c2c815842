"""Gates that do not judge: failures and skips of tests that cannot, and files that look like gate files and that pytest
does not read, so that a wrong name would pass every model in silence.

A written gate (of a gate file, or a test in Python that uses our fixtures) fails if it cannot be judged, unless it is
optional. Without ``--bias-strict``, a gate that is for other models than those of the run is skipped, and so is every
gate if the run names no model. A suite of ``--bias-suite`` is skipped if it does not apply, unless a stored baseline
makes it a gate.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NoReturn

import pytest

from pytest_genderbias.errors import MitigationNotApplicableError, NotApplicableError
from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.verdicts import INAPPLICABLE, NO_DATA, NO_MODEL, OTHER_MODELS, NotJudged
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.bias_item import BiasItem, gate_marker
from pytest_genderbias.plugin.flags import ENDINGS
from pytest_genderbias.plugin.options import SETTINGS

NAME_A_MODEL = "no model named: give one with --bias-model=[NAME=]SPEC, as --bias-model=bert-base or --bias-model=demo"
_DEMANDED = ("because", "owner", "decided")  #: by ``bias_evidence``
_IN_PYTHON = (
    'a gate that cannot be judged fails; limit the test with @pytest.mark.bias(models=["NAME"]), or allow a skip with '
    "@pytest.mark.bias(optional=True)"
)


# Hooks: decide on tests in Python before their fixtures are set up, and on optional ones that do not apply.


@pytest.hookimpl
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test that has no model. Marks that skip a test come first, since pytest reads them first."""
    if not isinstance(item, BiasItem) and outcomes.measures(item):
        require_model(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Skip an optional test whose mitigation does not apply, and fail one whose gate failed in a thread, or lacks
    what ``bias_evidence`` demands.
    """
    _require_evidence(item)
    try:
        with outcomes.lost_failures_raised(item):
            return (yield)
    except MitigationNotApplicableError as error:
        if isinstance(item, BiasItem) or not gate_marker(item).optional:
            raise
        _skip(item, INAPPLICABLE, str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fail a test whose gate failed in a thread that a fixture ended."""
    with outcomes.lost_failures_raised(item):
        return (yield)


def _require_evidence(item: pytest.Item) -> None:
    """Fail a gate of which nobody said what the run demands."""
    settings = item.config.stash[SETTINGS]
    if not settings.strict or not settings.evidence:
        return
    is_gate = item.is_gate if isinstance(item, BiasItem) else outcomes.measures(item)
    if is_gate and (missing := [name for name in _DEMANDED if name not in outcomes.said_of(item)]):
        advice = "add them to @pytest.mark.bias"
        if isinstance(item, BiasItem):
            advice = "write it into a gate file, which can say them" if item.line is None else "add them to its entry"
        _fail(item, f"the gate {item.name} lacks {', '.join(missing)}: {advice} (bias_evidence)")


def require_model(item: pytest.Item) -> ModelSpec:
    """Return the model that a test measures; skip or fail the test if there is none."""
    spec = outcomes.spec_of(item)
    if spec is not None:
        return spec
    names = [model.name for model in item.config.stash[SETTINGS].models]
    if not names:
        without_model(item)
    marker = gate_marker(item)
    judged = [name for name in names if marker.judges(name)]
    if not judged:
        for_other_models(
            item, f"{item.name} is for {', '.join(marker.models or ())}, and the run has {', '.join(names)}"
        )
    _fail(
        item,
        f"the run has the models {', '.join(judged)}, and a unittest.TestCase, a doctest or request.getfixturevalue"
        " cannot run once for each: take bias_model as an argument of a test function, name one --bias-model, or limit"
        ' the test with @pytest.mark.bias(models=["NAME"])',
    )


def without_model(item: pytest.Item) -> NoReturn:
    """Skip a test, since the run names no model; with ``--bias-strict`` fail it."""
    if item.config.stash[SETTINGS].strict:
        _fail(item, f"{NAME_A_MODEL} (--bias-strict)")
    _skip(item, NO_MODEL, NAME_A_MODEL)


def for_other_models(item: pytest.Item, reason: str) -> NoReturn:
    """Skip a gate that is for other models than those of the run; with ``--bias-strict`` fail it."""
    if item.config.stash[SETTINGS].strict:
        _fail(item, f"{reason}; correct 'models', or NAME in --bias-model=NAME=SPEC, or deselect it (--bias-strict)")
    _skip(item, OTHER_MODELS, reason)


def cannot_judge(item: BiasItem, reason: str, kind: str = INAPPLICABLE) -> NoReturn:
    """Fail a declared test, or skip it if it is optional."""
    if item.optional:
        _skip(item, kind, reason)
    _fail(item, f"not judged: {reason}; {item.why_required}")


@contextmanager
def judging(item: BiasItem, lead: str = "") -> Iterator[None]:
    """Fail or skip a declared test if the ``with`` block raises NotApplicableError, for a reason that begins so."""
    try:
        yield
    except NotApplicableError as error:
        cannot_judge(item, f"{lead}{error}", _kind(error))


def _kind(error: NotApplicableError) -> str:
    """Return the kind of the reason: a data set is missing, or something does not apply."""
    from pytest_genderbias.datasets.folder import MissingDataError

    return NO_DATA if isinstance(error, MissingDataError) else INAPPLICABLE


def not_applicable(item: pytest.Item, error: NotApplicableError) -> NoReturn:
    """Skip an optional test in Python that asked a fixture for what does not apply; raise the error with advice in any
    other.
    """
    __tracebackhide__ = True
    if gate_marker(item).optional:
        _skip(item, _kind(error), str(error))
    raise type(error)(f"{error}; {_IN_PYTHON}") from None


def _skip(item: pytest.Item, kind: str, reason: str) -> NoReturn:
    outcomes.outcome_of(item).unjudged = NotJudged(item.nodeid, "", kind, reason)  # the ledger adds the model
    shown = printable(reason).replace("::", r":\x3a")  # pytest wraps it, and breaks long words
    raise pytest.skip.Exception(shown) from None  # the report shows the reason without the error behind it


def _fail(item: pytest.Item, reason: str) -> NoReturn:
    where = f"{item.baseline_module}:{item.line}: " if isinstance(item, BiasItem) and item.line is not None else ""
    raise pytest.fail.Exception(printable(f"{where}{reason}"), pytrace=False) from None


# Files of gates that are not read.

_YAML = (".yaml", ".yml")
_TOP_KEY = re.compile(rb"^(?:\xef\xbb\xbf)?\{?\s*[\"']?(?:gates|mitigate)[\"']?\s*:", re.MULTILINE)
_SUITE = re.compile(rb"\bsuites?[\"']?\s*:")
_FOREIGN = frozenset({".git", ".hg", ".svn", ".tox", ".nox", "node_modules", "site-packages", "__pycache__"})
_ENVIRONMENT = frozenset({"pyvenv.cfg", "conda-meta"})  #: what marks a folder as an environment of Python
_MOST_FOLDERS, _MOST_FILES, _MOST_BYTES = 10_000, 2_000, 2**18
_SHOWN = 5  #: files that the line names
_MISNAMED = "pytest reads *.bias.yaml and *.bias.yml only, so rename it"
_AWAY = "pytest did not enter its folder (norecursedirs, testpaths, --ignore): move it, or name it on the command line"
_DEAD = "a link to a file that is not there: fetch the file, or remove the link"
#: The gate files that were collected, as absolute paths: by this process, or by a worker of xdist that sent them.
GATE_FILES = pytest.StashKey[set[Path]]()


def find_unread_gates(config: pytest.Config) -> str:
    """Search the project of a run for gate files that it did not collect, and return in one line what is not read, why,
    and what to do; an empty text if there are none.

    Files in a folder that the command line leaves out on purpose, by naming others, are not counted.
    """
    root, started = config.rootpath, _starting_folders(config)
    read = {path.resolve() for path in config.stash[GATE_FILES]}
    unread: dict[str, list[str]] = {}
    for path in islice(_yaml_files(root), _MOST_FILES):
        is_named = path.name.endswith(ENDINGS)
        if Path(os.path.realpath(path)) in read or (is_named and not any(map(path.is_relative_to, started))):
            continue
        if _looks_like_gates(path) if os.path.exists(path) else is_named:
            why = _MISNAMED if not is_named else _AWAY if os.path.exists(path) else _DEAD
            unread.setdefault(why, []).append(path.relative_to(root).as_posix())
    parts = [f"{_named(unread[why])}: {why}" for why in (_MISNAMED, _AWAY, _DEAD) if why in unread]
    return f"gates that were not read: {'; '.join(parts)}" if parts else ""


def _starting_folders(config: pytest.Config) -> Sequence[Path]:
    """Return the folders that the user wants pytest to search: those of the command line, or else the whole project."""
    if config.args_source == pytest.Config.ArgsSource.TESTPATHS:
        return [config.rootpath]
    typed = [config.invocation_params.dir / str(argument).partition("::")[0] for argument in config.args]
    return [Path(os.path.abspath(path)) for path in typed if path.is_dir()]


def _yaml_files(root: Path) -> Iterator[Path]:
    """Yield the YAML files of a project, and links that are named so and lead nowhere, or to themselves, also in hidden
    folders, but in no environment of Python and no repository of git.
    """
    folders = [root]
    for folder in islice(folders, _MOST_FOLDERS):  # those inside come to its end
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        if folder != root and _ENVIRONMENT & {entry.name for entry in entries}:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and entry.name not in _FOREIGN:
                folders.append(Path(entry.path))
            elif entry.name.casefold().endswith(_YAML) and (
                os.path.isfile(entry.path) or (entry.is_symlink() and not os.path.exists(entry.path))
            ):
                yield Path(entry.path)


def _looks_like_gates(path: Path) -> bool:
    """Return whether a YAML file has the key ``gates`` or ``mitigate`` at its top, and names a suite."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError:
        return False
    return bool(_TOP_KEY.search(content) and _SUITE.search(content))


def _named(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:_SHOWN])
    return shown if len(paths) <= _SHOWN else f"{shown} and {len(paths) - _SHOWN} more"
