"""Score the cases of a question with a model: in a fixed random order, in windows, with stored scores from the cache
first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
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
from pytest_genderbias.scoring.executor import Executor, InProcess, Task, Window, in_order, joined_notes, windows
from pytest_genderbias.scoring.scorer import Progress, answer_width
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
    from pytest_genderbias.scoring.shared_scores import SharedScores

#: Number of cases that are sorted by length, deduplicated and batched together. A window takes seconds, and a kill
#: loses at most one. Queries whose cases take longer set a ``window`` of their own.
WINDOW, WINDOW_ON_GPU = 512, 4096
FIRST_LOOK = 64  #: cases before the first check whether they are enough
_CHECKED = (  #: raise this whenever answers of objects are checked for more, since stored ones are not checked again
    "checked/1"
)
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


def answer(
    question: Question, model: Model, digest: str, settings: ScoreSettings, label: str, enough: Enough | None = None
) -> tuple[Answer, list[str]]:
    """Return the answer to a question, and remarks on how it was computed. ``enough`` may stop scoring early."""
    if question.cases is None:
        content: object = question.query if isinstance(question.query, BesideText) else model.backend
        count = len(model.backend.ids) if isinstance(question.query, StoredPredictions) else 1
        return Answer(None, np.zeros(0, np.int64), np.zeros((0, 0, 0)), content=content, count=count), []
    if isinstance(question.query, StoredPredictions):  # predictions for known cases, which the family looks up
        units = np.arange(question.cases.n_units, dtype=np.int64)
        nothing = np.zeros((len(units), question.cases.cases_per_unit, 0))
        return Answer(question.cases, units, nothing, content=model.backend), []
    return score_suite(question.cases, question.query, model, digest, settings, label, question.whole, enough)


def scored_units(cases: Cases, digest: str, limit: int | None, seed: int) -> IntArray:
    """Return the units that a run scores: the first of a suite's random order, at least one of them, with at most
    ``limit`` cases.
    """
    n = cases.n_units if limit is None else min(cases.n_units, max(1, limit // cases.cases_per_unit))
    return random_order(cases.n_units, digest, seed)[:n]


def score_suite(
    cases: Cases,
    query: Query,
    model: Model,
    digest: str,
    settings: ScoreSettings,
    label: str,
    whole: bool = False,
    enough: Enough | None = None,
) -> tuple[Answer, list[str]]:
    """Return the scores of a prefix of the random order (of all cases if ``whole``), and remarks on how they were
    computed.

    ``enough`` is called at :func:`looks` and can stop scoring early. After an interruption the scores so far are in the
    cache.
    """
    units = scored_units(cases, digest, None if whole else settings.limit, settings.seed)
    n = len(units)
    values = np.zeros((n, cases.cases_per_unit, answer_width(query, model)), dtype=query.dtype)
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
        stop = run.score(settings.executor or InProcess(), partial(_show, settings, label, n, cases), enough)
    scored = Answer(cases, units[:stop], values[:stop], stopped=stop < n)
    vocabulary = vocabulary_texts(model, map(int, np.unique(scored.values))) if isinstance(query, TopFills) else {}
    content = _replies(query, model, scored, cache) if isinstance(query, Replies) else _texts(query, model, scored)
    unread, unknown = unread_words(cases, scored.units, model)
    failure = None if settings.shared is None else settings.shared.failure
    notes = [note for note in (*unknown, *run.notes, store.note, failure) if note]
    return replace(scored, vocabulary=vocabulary, content=content, unread=unread), notes


def _replies(query: Replies, model: Model, answer: Answer, cache: Path | None) -> ReplyTexts:
    """Return the texts that were read, in the order of the scored cases."""
    from pytest_genderbias.scoring.reply_counts import replies_to

    cases = answer.cases.cases_of(answer.units)
    return ReplyTexts(tuple(replies_to(cases, answer.cases, query, model, cache)))


def _texts(query: Query, model: Model, answer: Answer) -> object:
    """Return the texts of generated tokens; ``None`` for other queries."""
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


def _show(
    settings: ScoreSettings, label: str, n: int, cases: Cases, state: str, done: int
) -> AbstractContextManager[Callable[[int], object]]:
    """Show the progress; ``state`` says who scores."""
    if settings.progress is None:
        return nullcontext(lambda count: None)
    return settings.progress(
        f"{label}, {state}" if state else label, n * cases.cases_per_unit, done * cases.cases_per_unit
    )


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

    def score(
        self,
        executor: Executor,
        show: Callable[[str, int], AbstractContextManager[Callable[[int], object]]],
        enough: Enough | None,
    ) -> int:
        """Score until it is enough, and return the number of units. Scores are stored every few seconds and at the
        end.
        """
        n, each = len(self.units), self.task.cases.cases_per_unit
        ends = list(looks(n, each)) if enough else [n]
        stored = self.done
        since = -math.inf  # the first window is stored at once, so that a run that is killed repeatedly makes progress
        with closing(self._scored(executor, ends, show)) as scored:
            try:
                for look in ends:
                    while self.done < look:
                        next(scored)
                        if time.monotonic() - since > _KEEP_EVERY:
                            self._store_from(stored)
                            stored, since = self.done, time.monotonic()
                    if enough is not None and enough(
                        Answer(self.task.cases, self.units[:look], self.values[:look], stopped=look < n)
                    ):
                        return look
                return n
            except BaseException:
                if self.confirm is not None:  # the server that failed is not asked again whether it changed
                    stored = self.done
                raise
            finally:
                self._store_from(stored)

    def _store_from(self, stored: int) -> None:
        """Store the front from a unit on. Scores of a model that changed in the meantime are not kept.

        Raises:
            ScoreError: a served model changed.
        """
        if stored < self.done and self.confirm is not None:
            self.confirm()
        self.store.write(stored, self.values[stored : self.done])

    def _scored(
        self,
        executor: Executor,
        ends: Sequence[int],
        show: Callable[[str, int], AbstractContextManager[Callable[[int], object]]],
    ) -> Generator[None, None, None]:
        """Score the windows, and yield whenever the front has moved by one."""
        by_worker: dict[str, Sequence[str]] = {}
        with executor.open(self.task) as pool, ExitStack() as display:
            state, advance = pool.state, display.enter_context(show(pool.state, self.done))
            todo = windows(self.done, ends, self.window)
            for scored in in_order(pool, todo, lambda window: self.units[slice(*window)], self._named):
                if scored.error is not None:
                    raise scored.error
                assert scored.values is not None
                start, self.done = scored.window
                self.values[start : self.done] = scored.values.reshape(self.values[start : self.done].shape)
                by_worker[scored.worker] = scored.notes
                self.notes = [*joined_notes(by_worker.values()), *pool.notes]
                if pool.state != state:
                    display.close()
                    state, advance = pool.state, display.enter_context(show(pool.state, self.done))
                else:
                    advance((scored.window.stop - scored.window.start) * self.task.cases.cases_per_unit)
                yield

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
