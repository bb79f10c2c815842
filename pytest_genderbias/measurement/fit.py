"""Which suites fit a model and the user's data, found out before any weights are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_genderbias.datasets.folder import MissingDataError
from pytest_genderbias.errors import BiasError, NotApplicableError, SettingError
from pytest_genderbias.measurement.cost import Work, work_of
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.models import roles
from pytest_genderbias.models.roles import CAUSAL_LM, NLI_CLASSIFIER, NLI_LABELS, TEXT_REPLIES, Role
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.scoring.scorers import make_scorer, refuse_unserved
from pytest_genderbias.suites.cases import Cases, Question
from pytest_genderbias.suites.suite import Suite

#: Why a suite cannot be measured: it needs another model, data that are missing, or other settings.
OTHER_MODEL, NO_DATA, OTHER_SETTINGS = "other model", "no data", "other settings"
#: Suites to begin with: of language models, and of other kinds one, since gates share their false alarms. Each was seen
#: to see a growth of 50 % on a real model (docs/guides/which-suite.md); a kind without one has no gate to begin with.
LANGUAGE = ("pronoun-occupation", "lm-occupation")
FELT = LANGUAGE[:1]  #: what restarts are gated by, since it follows a dose of bias (docs/evidence/doses.md)
_OF_ONE = {CAUSAL_LM: LANGUAGE[1:]}  #: by one checkpoint, where FELT sees too little
SEES = {NLI_CLASSIFIER: ("nli-occupation",), roles.ENCODER: ("probe-compression",)}
NONE_KNOWN = "no gate is known to see a growth of 50 % on such a model (docs/guides/which-suite.md)"


@dataclass(frozen=True)
class Fit:
    """Whether a suite can be measured on a model with the data that are there.

    Attributes:
        suite: the suite.
        cases: the number of cases of its main question; ``None`` where only the model knows it, as with a table of
            predictions.
        obstacle: empty if it can be measured, else ``OTHER_MODEL``, ``NO_DATA`` or ``OTHER_SETTINGS``.
        reason: the obstacle in words.
    """

    suite: Suite
    cases: int | None = None
    obstacle: str = ""
    reason: str = ""


def fit_of(runner: Runner, suite: Suite, spec: ModelSpec) -> Fit:
    """Return whether a suite can be measured on a model, with the settings and the data of a runner.

    Args:
        runner: of the run; of the model it reads the config only, once.
        suite: the suite.
        spec: the model. Of restarts (``{seed}``) the first stands for all.

    Raises:
        ModelError: the model cannot be read.
    """
    first = spec.for_seed(0) if spec.seeded else spec
    runner.models.source(first)  # an error about the model is none of the suite
    try:
        main = next(iter(runner.plan(suite, first).questions.values()))
        role = runner.models.source(first).role
        # Some say without scoring what they can answer: an object by its methods, a file by its ids.
        says = first.kind == "object" or (role.kind == TEXT_REPLIES and first.kind == "predictions")
        if main.cases is not None and says:
            make_scorer(main.cases, main.query, runner.models.model(first), batch_tokens=None)
        if main.cases is not None:
            refuse_unserved(main.query, spec.name, role)
    except BiasError as error:
        kinds = {MissingDataError: NO_DATA, NotApplicableError: OTHER_MODEL, BiasError: OTHER_SETTINGS}
        obstacle = next(obstacle for kind, obstacle in kinds.items() if isinstance(error, kind))
        return Fit(suite, None, obstacle, str(error).removeprefix(suite.name).lstrip(": "))
    return Fit(suite, None if main.cases is None else main.cases.n_cases)


def start_set(kind: str, fit: Callable[[str], Fit | None], seeded: bool) -> list[Fit]:
    """Return the suites to begin with, those that decide most first; none if no gate is known to see enough.

    Args:
        kind: of the model's role.
        fit: what is known of a suite by its name; ``None`` for one that is not asked about.
        seeded: whether there are restarts of the model.
    """
    found = (fit(name) for name in SEES.get(kind, FELT if seeded else _OF_ONE.get(kind, LANGUAGE)))
    return [one for one in found if one is not None and not one.obstacle]


def example_cases(suite: Suite, data: Path | None = None, most: int = 10) -> list[str]:
    """Return some cases of a suite as text, evenly spaced over all; empty where they come from missing data, or from
    the model.

    Args:
        suite: the suite, asked with its default options as for the first kind of model that has what it needs.
        data: the folder of the user's data sets.
        most: the largest number of cases.

    Raises:
        DataFileError: a data file is malformed.
    """
    cases = cases_of(suite, data)
    if cases is None or not cases.n_cases:
        return []
    spaced = np.unique(np.linspace(0, cases.n_cases - 1, num=most).round().astype(np.int64))
    texts = (" / ".join(segments).strip() for segments in cases.sentences(spaced))
    return [text for text in dict.fromkeys(texts) if text]


def cases_of(suite: Suite, data: Path | None = None, options: Mapping[str, object] | None = None) -> Cases | None:
    """Return the cases of a suite, as for the first kind of model that has what it needs.

    ``None`` where they come from data that are missing, or from the model.

    Raises:
        DataFileError: a data file is malformed.
    """
    main = main_question(suite, data, options)
    return None if main is None else main.cases


def main_work(suite: Suite, data: Path | None = None) -> Work | None:
    """Return the forward passes of a suite's main question, or ``None`` where they are not known without the model or
    its data.

    Raises:
        DataFileError: a data file is malformed.
    """
    main = main_question(suite, data, None)
    return None if main is None or main.cases is None else work_of(main.cases, main.query)


def main_question(
    suite: Suite, data: Path | None = None, options: Mapping[str, object] | None = None, kinds: Sequence[str] = ()
) -> Question | None:
    """Return the main question to the first kind of model that gives it cases (of ``kinds``; empty: of all), or
    ``None``.
    """
    for kind in kinds or suite.family.roles:
        labels = NLI_LABELS if kind == NLI_CLASSIFIER else ()
        try:
            questions = plan_measurement(suite, kind, Role(kind, kind, labels), options or {}, data).questions
        except (NotApplicableError, SettingError):
            continue
        main = next(iter(questions.values()))
        if main.cases is not None:
            return main
    return None
