"""The plan of a measurement: options resolved and questions asked, before any weights are loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.chat_template import NO_TEMPLATE, TOKENIZER_FILES, lacks_chat_template
from pytest_genderbias.models.roles import CHAT_MODEL, NLI_CLASSIFIER, Role, label_advice
from pytest_genderbias.models.source import checkpoint_file
from pytest_genderbias.models.spec import ModelSpec, safe_name
from pytest_genderbias.suites.cases import Question, TextCases
from pytest_genderbias.suites.family import Context, resolve_options
from pytest_genderbias.suites.query import ChatAnswers, CoreferenceScores, Replies
from pytest_genderbias.suites.suite import Suite


@dataclass(frozen=True)
class Plan:
    """A suite with resolved options and the questions for the model."""

    suite: Suite
    options: Mapping[str, object]
    questions: Mapping[str, Question]

    @property
    def trains(self) -> bool:
        """Whether scoring trains something (a head on frozen vectors), so that another seed gives another value."""
        queries = [question.query for question in self.questions.values()]
        return any(isinstance(query, CoreferenceScores) and query.training is not None for query in queries)

    def order_digest(self, question: Question) -> str:
        """Return the digest that determines the random order of a question, and under which its scores are stored.

        Texts of a data set have their own, so that two suites share the accuracy on one data set.
        """
        return question.cases.digest() if isinstance(question.cases, TextCases) else self.suite.digest


def plan_measurement(
    suite: Suite,
    name: str,
    role: Role,
    options: Mapping[str, object] | None = None,
    data: str | Path | None = None,
    seed: int = 0,
) -> Plan:
    """Resolve options and ask a suite's questions.

    A system that lists the first tokens of its replies is asked as a chat model where the suite has questions for one,
    and otherwise in text.

    Args:
        suite: the suite.
        name: the model's name, for messages.
        role: the model's role, which can decide what is asked.
        options: options of the suite's family.
        data: the folder of the user's data sets.
        seed: the seed of the run.

    Raises:
        NotApplicableError: the suite needs another kind of model, or data that are missing.
        SettingError, UnknownNameError: an option is wrong.
        DataFileError: a data file is malformed.
    """
    if role.first_tokens:
        with suppress(NotApplicableError):
            as_chat_model = replace(role, kind=CHAT_MODEL, first_tokens=False)
            return plan_measurement(suite, name, as_chat_model, options, data, seed)
    resolved = resolve_options(suite.family.options, {**suite.defaults, **(options or {})}, suite.name)
    suite = suite.with_items(resolved)
    if role.kind not in suite.family.roles:
        advice = label_advice(role.labels) if NLI_CLASSIFIER in suite.family.roles else ""
        raise NotApplicableError(f"{suite.name} needs {suite.family.needs}; {name} is {role.text}{advice}")
    folder = DataFolder(None if data is None else Path(data))
    context = Context(role.kind, role.labels, folder, seed, role.scores, role.samples, suite.ask)
    try:
        questions = suite.family.questions(suite.body, resolved, context)
    except NotApplicableError as error:
        raise type(error)(f"{suite.name}: {error}") from None
    return Plan(suite, resolved, {name: _identified(suite, name, question) for name, question in questions.items()})


def _identified(suite: Suite, name: str, question: Question) -> Question:
    """Return a question with the name of its cases in files, if it is answered in text."""
    query = question.query
    if not isinstance(query, Replies):
        return question
    content = repr((question.data_digest, query.labels, suite.language))
    named = replace(
        query,
        language=suite.language,
        own_refusals=query.own_refusals or suite.ask.own_refusals,
        name=f"{safe_name(suite.name)}-{name}",
        digest=hashlib.sha256(content.encode()).hexdigest()[:8],
    )
    return replace(question, query=named)


def refuse_without_template(plan: Plan, spec: ModelSpec) -> None:
    """Refuse a plan that asks through a chat template, for a checkpoint whose files have none; no tokenizer is loaded.

    Raises:
        NotApplicableError: the model has no chat template.
    """
    query = next(iter(plan.questions.values())).query
    if not isinstance(query, (ChatAnswers, Replies)):
        return
    folder = _tokenizer_folder(spec)
    if folder is not None and lacks_chat_template(folder):
        instead = query.otherwise if isinstance(query, ChatAnswers) else ""
        raise NotApplicableError(f"{plan.suite.name}: {NO_TEMPLATE.format(spec.name)}{instead}")


@cache  # each suite asks, and the hub is far
def _tokenizer_folder(spec: ModelSpec) -> Path | None:
    """Return the folder with the files of a model's tokenizer; of a checkpoint on the hub, that of their copies.
    ``None`` without any.
    """
    # All of them, so that all are copied from the hub.
    found = [checkpoint_file(spec, name) for name in TOKENIZER_FILES]
    return next((path.parent for path in found if path is not None), None)
