"""Score the cases of a question with a model: in a fixed random order, in windows, with stored scores from the cache
first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.folders import distrusted
from pytest_genderbias.models.chat_template import DETAIL as CHAT_TEMPLATE
from pytest_genderbias.models.fingerprint import fingerprint_reading
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES, LOG_PROBS, REPLIES, WORD_VECTORS
from pytest_genderbias.scoring.executor import (
    Executor,
    InProcess,
    Scored,
    Task,
    Window,
    in_order,
    joined_notes,
    windows,
)
from pytest_genderbias.scoring.scorer import Progress, answer_width, check_finite
from pytest_genderbias.scoring.scorers import vocabulary_texts
from pytest_genderbias.scoring.store import ScoreStore
from pytest_genderbias.scoring.unknown_words import unread_words
from pytest_genderbias.suites.cases import Answer, Cases, IntArray, Question
from pytest_genderbias.suites.family import RUN_SETTINGS
from pytest_genderbias.suites.query import (
    IN_TEMPLATE,
    BesideText,
    ChatReplies,
    GeneratedReplies,
    GeneratedTokens,
    Query,
    Replies,
    ReplyTexts,
    StoredPredictions,
    TopFills,
)
from pytest_genderbias.text.schema import check_setting

if TYPE_CHECKING:
    from pytest_genderbias.scoring.store import SharedScores

#: Number of cases that are sorted by length, deduplicated and batched together. A window takes seconds, and a kill
#: loses at most one. Queries whose cases take longer set a ``window`` of their own.
WINDOW, WINDOW_ON_GPU = 512, 4096
FIRST_LOOK = 64  #: cases before the first check whether they are enough
#: Raise this whenever answers of objects are checked for more, since stored ones are not checked again.
_CHECKED = "checked/1"
_KEEP_EVERY = 5.0  #: seconds between two writes to the cache

#: Returns whether the answer so far is enough, so that scoring can stop.
Enough = Callable[[Answer], bool]


@dataclass(frozen=True)
class ScoreSettings:
    """How many cases are scored, in which order, and where scores are stored.

    ``limit``: maximum number of cases, in whole units, at least one unit (``None``: all). ``seed``: seed of the random
    order. ``batch_tokens``: tokens in a batch (``None``: found automatically). ``cache``: folder of the cache, or
    ``None``. ``progress``: shows the progress, or ``None``. ``executor``: where cases are scored (``None``: in this
    process); it changes no score. ``shared``: where other machines store their scores, or ``None``.
    """

    limit: int | None = None
    seed: int = 0
    batch_tokens: int | None = None
    cache: Path | None = None
    progress: Progress | None = None
    executor: Executor | None = None
    shared: SharedScores | None = None

    def __post_init__(self) -> None:
        """Reject invalid numbers."""
        for name in ("limit", "seed", "batch_tokens"):
            check_setting(name, RUN_SETTINGS[name], getattr(self, name))


@lru_cache(maxsize=2)  # for the next model: to shuffle millions of units takes as long as to score hundreds
def random_order(n_units: int, digest: str, seed: int) -> IntArray:
    """Return the random order of a suite's units, read-only, which the suite's digest and the seed determine."""
    order: IntArray = np.random.default_rng([int(digest[:16], 16), seed]).permutation(n_units)
    order.setflags(write=False)
    return order


def looks(n_units: int, cases_per_unit: int) -> Iterator[int]:
    """Yield the numbers of units after which scoring may stop: 64 cases, then an eighth more each time.

    They are fixed, so that a run from the cache stops where a run that scores does.

    >>> list(looks(1000, 1))[:12]
    [64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768]
    """
    step = max(1, FIRST_LOOK // cases_per_unit)
    at = step
    while at < n_units:
        yield at
        at += max(step, at // 8 // step * step)
    yield n_units


def scored_units(cases: Cases, digest: str, limit: int | None, seed: int) -> IntArray:
    """Return the units that a run scores: the first of a suite's random order, at least one of them, with at most
    ``limit`` cases.
    """
    n = cases.n_units if limit is None else min(cases.n_units, max(1, limit // cases.cases_per_unit))
    return random_order(cases.n_units, digest, seed)[:n]


def answer(
    question: Question, model: Model, digest: str, settings: ScoreSettings, label: str, enough: Enough | None = None
) -> tuple[Answer, list[str]]:
    """Return the answer to a question, and remarks on how it was computed: the scores of a prefix of the random order
    of its cases, or of all cases of a question that is asked whole.

    ``enough`` is called at :func:`looks` and can stop scoring early. After an interruption the scores so far are in the
    cache.
    """
    cases, query = question.cases, question.query
    if cases is None or isinstance(query, StoredPredictions):
        return _unscored(question, model), []
    units = scored_units(cases, digest, None if question.whole else settings.limit, settings.seed)
    values = np.zeros((len(units), cases.cases_per_unit, answer_width(query, model)), dtype=query.dtype)
    store = ScoreStore(
        settings.cache if model.fingerprint and not model.can(REPLIES) else None,  # which are kept themselves
        _key(cases, query, model, digest, settings),
        {  # for ``genderbias cache``
            "suite": label.replace(f" on {model.name}", "", 1),
            "model": model.name,
            "cases_per_unit": cases.cases_per_unit,
            "cases": cases.n_cases,
        },
        None if model.role.only_prompts else settings.shared,  # whose canaries are of one machine
    )
    with store.locked():
        if model.role.only_prompts:
            model.backend.confirm_stored(store.kept_beside, model)
        cache = None if settings.cache is None or distrusted(settings.cache) else settings.cache
        run = _Run(
            Task(cases, query, model, settings.batch_tokens, cache, settings.progress),
            units,
            values,
            store,
            _window(query, model) // cases.cases_per_unit or 1,
            store.read(values, partial(_plausible, query, model)),
            label,
            partial(model.backend.confirm_unchanged, model.name) if model.role.only_prompts else None,
        )
        stop = run.score(settings.executor or InProcess(), enough)
    scored = Answer(cases, units[:stop], values[:stop], stopped=stop < len(units))
    vocabulary = vocabulary_texts(model, map(int, np.unique(scored.values))) if isinstance(query, TopFills) else {}
    unread, unknown = unread_words(cases, scored.units, model)
    failure = None if settings.shared is None else settings.shared.failure
    notes = [note for note in (*unknown, *run.notes, store.note, failure) if note]
    content = _texts(query, model, scored, cache)
    return replace(scored, vocabulary=vocabulary, content=content, unread=unread), notes


def _unscored(question: Question, model: Model) -> Answer:
    """Return the answer to a question without scores: the content of the model, or a text beside it."""
    cases, query, content = question.cases, question.query, model.backend
    if cases is not None:  # predictions for known cases, which the family looks up
        units = np.arange(cases.n_units, dtype=np.int64)
        return Answer(cases, units, np.zeros((len(units), cases.cases_per_unit, 0)), content=content)
    count = len(content.ids) if isinstance(query, StoredPredictions) else 1
    content = query if isinstance(query, BesideText) else content
    return Answer(None, np.zeros(0, np.int64), np.zeros((0, 0, 0)), content=content, count=count)


def _texts(query: Query, model: Model, answer: Answer, cache: Path | None) -> object:
    """Return the texts that were read or generated, in the order of the scored cases; ``None`` for other queries."""
    if isinstance(query, Replies):
        from pytest_genderbias.scoring.chat import replies_to

        cases = answer.cases.cases_of(answer.units)
        return ReplyTexts(tuple(replies_to(cases, answer.cases, query, model, cache)))
    if not isinstance(query, (GeneratedTokens, GeneratedReplies)):
        return None
    from pytest_genderbias.scoring.sampled_texts import reply_texts, sampled_texts

    ids = answer.values.reshape(-1, answer.values.shape[-1]).astype(np.int32, copy=False)
    if isinstance(query, GeneratedReplies):
        return reply_texts(model, ids, whole=isinstance(query, ChatReplies))
    return sampled_texts(model, ids)


def _plausible(query: Query, model: Model, values: NDArray[np.generic]) -> bool:
    """Return whether stored scores can be answers to a query: token ids from 0 to the vocabulary's, or finite numbers.

    Files of word vectors give rows of NaN for words that they lack.
    """
    if isinstance(query, (TopFills, GeneratedTokens, GeneratedReplies)):
        ids = cast("NDArray[np.int32]", values)
        size = model.backend.vocabulary_size if model.can(LOG_PROBS) else len(model.backend.vocabulary)
        return bool((ids >= 0).all() and (ids < size).all())
    return model.can(WORD_VECTORS) or bool(np.isfinite(cast("NDArray[np.float64]", values)).all())


def _window(query: Query, model: Model) -> int:
    """Return the number of cases in a window. It depends on the key only, so that a resumed run has the same
    batches.
    """
    return getattr(query, "window", WINDOW_ON_GPU if model.on_gpu else WINDOW)


@dataclass
class _Run:
    """The scoring of the units of one question, of which ``done`` are complete: the front, which alone is stored and
    asked whether it is enough.

    ``confirm`` raises an error if the model changed since it was loaded; ``None`` for a model that cannot.
    """

    task: Task
    units: IntArray
    values: NDArray[np.generic]
    store: ScoreStore
    window: int
    done: int
    label: str
    confirm: Callable[[], None] | None
    notes: Sequence[str] = ()

    def score(self, executor: Executor, enough: Enough | None) -> int:
        """Score until it is enough, and return the number of units. Scores are stored every few seconds and at the
        end.
        """
        n = len(self.units)
        ends = list(looks(n, self.task.cases.cases_per_unit)) if enough else [n]

        def is_enough(look: int) -> bool:
            return enough is not None and enough(
                Answer(self.task.cases, self.units[:look], self.values[:look], stopped=look < n)
            )

        for look in ends:
            if look <= self.done and is_enough(look):
                return look
        if self.done == n:
            return n
        stored, by_worker = self.done, dict[str, Sequence[str]]()
        since = -math.inf  # the first window is stored at once, so that a run that is killed repeatedly makes progress
        todo, units_of = windows(self.done, ends, self.window), lambda window: self.units[slice(*window)]
        with executor.open(self.task) as pool, ExitStack() as display:
            state, advance = pool.state, display.enter_context(self._shown(pool.state))
            try:
                for scored in in_order(pool, todo, units_of, self._named):
                    if scored.error is not None:
                        raise scored.error
                    self._take(scored)
                    by_worker[scored.worker] = scored.notes
                    self.notes = [*joined_notes(by_worker.values()), *pool.notes]
                    if pool.state != state:
                        display.close()
                        state, advance = pool.state, display.enter_context(self._shown(pool.state))
                    else:
                        advance((scored.window.stop - scored.window.start) * self.task.cases.cases_per_unit)
                    if time.monotonic() - since > _KEEP_EVERY:
                        self._store_from(stored)
                        stored, since = self.done, time.monotonic()
                    if self.done in ends and is_enough(self.done):
                        return self.done
                return n
            except BaseException:
                if self.confirm is not None:  # the server that failed is not asked again whether it changed
                    stored = self.done
                raise
            finally:
                self._store_from(stored)

    def _take(self, scored: Scored) -> None:
        """Take the scores of the next window; NaN stands for a word that a file of word vectors lacks.

        Raises:
            ScoreError: other scores are not finite.
        """
        assert scored.values is not None
        (start, stop), cases, model = scored.window, self.task.cases, self.task.model
        if not model.can(WORD_VECTORS):
            finite = np.isfinite(cast("NDArray[np.float64]", scored.values)).all(axis=1)
            check_finite(np.asarray(finite), cases, cases.cases_of(self.units[start:stop]), model.name)
        self.values[start:stop] = scored.values.reshape(self.values[start:stop].shape)
        self.done = stop

    def _store_from(self, stored: int) -> None:
        """Store the front from a unit on. Scores of a model that changed in the meantime are not kept.

        Raises:
            ScoreError: a served model changed.
        """
        if stored < self.done and self.confirm is not None:
            self.confirm()
        self.store.write(stored, self.values[stored : self.done])

    def _shown(self, state: str) -> AbstractContextManager[Callable[[int], object]]:
        """Show the progress; ``state`` says who scores."""
        if self.task.progress is None:
            return nullcontext(lambda count: None)
        label, each = f"{self.label}, {state}" if state else self.label, self.task.cases.cases_per_unit
        return self.task.progress(label, len(self.units) * each, self.done * each)

    def _named(self, window: Window) -> str:
        each = self.task.cases.cases_per_unit
        return f"{self.label}, cases {window.start * each + 1:,} to {window.stop * each:,} of its random order"


def _key(cases: Cases, query: Query, model: Model, digest: str, settings: ScoreSettings) -> dict[str, object]:
    """Return what determines the scores: the key of the cache."""
    return {
        "model": model.fingerprint,
        "reading": fingerprint_reading(model.backend) if model.can(HIDDEN_STATES) else _CHECKED,
        "labels": model.role.labels,
        "dtype": model.details.get("dtype"),
        "device": model.details.get("device"),
        "suite": digest,
        "cases": cases.digest(),
        "query": repr(query),
        "seed": settings.seed,
        **({"template": model.details.get(CHAT_TEMPLATE)} if isinstance(query, IN_TEMPLATE) else {}),
        **({"ends": _ends(model)} if isinstance(query, GeneratedReplies) else {}),
    }


def _ends(model: Model) -> tuple[int, ...]:
    """Return the tokens that end a text, which stand in no config that the fingerprint reads; none for models that are
    not sampled.
    """
    from pytest_genderbias.scoring.sampled_texts import end_tokens

    return end_tokens(model) if model.can(HIDDEN_STATES) else ()
