"""Files of replies, what any system answered to the questions of ``genderbias questions``, and files of answers to
multiple-choice questions (:func:`read_stored_answers`).

JSON lines (``.jsonl`` or ``.jsonl.gz``), one question a line, in any order:

    {"id": "decisions-scenarios-7-12ab34cd", "replies": ["Yes.", "No, because ..."]}

``id``: that of the question. ``replies``: the texts, as many for each question; ``reply`` for a single one. Results of
batches of OpenAI-like APIs (``custom_id`` and ``response``) and of Anthropic's (``custom_id`` and ``result``) are read
as they come. Other keys are ignored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.files import LinesById, Row, read_rows, refuse_repeats
from pytest_genderbias.errors import DataFileError, NotApplicableError
from pytest_genderbias.text.normal_form import folded
from pytest_genderbias.text.printable import brief

_ID = re.compile(r"(?P<name>.+)-(?P<case>\d+)-(?P<digest>[0-9a-f]{8})")
KEYS = ("reply", "replies", "response", "result")  #: of which one holds the texts
_AGAIN = "write the questions again (genderbias questions), and let the system answer these"


@dataclass(frozen=True)
class StoredReplies:
    """The replies in a file.

    ``replies``: by the id of the question, ``samples`` of each. ``failed``: ids of requests that the API could not
    answer.
    """

    path: Path
    replies: Mapping[str, tuple[str, ...]]
    samples: int
    failed: frozenset[str] = frozenset()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the questions of which it has replies."""
        found = (_ID.fullmatch(name) for name in (*self.replies, *self.failed))
        return tuple(dict.fromkeys(match["name"] for match in found if match))

    def check(self, name: str) -> None:
        """Refuse a question to which there are no replies.

        Raises:
            NotApplicableError: there are none.
        """
        if name not in self.names:
            others = ", ".join(map(brief, self.names)) or "nothing"
            raise NotApplicableError(f"{self.path} has no replies to {name}; it has replies to {others}")

    def cases(self, name: str, digest: str) -> list[int]:
        """Return the numbers of the cases of a question to which there are replies, in their order.

        Raises:
            DataFileError: there are replies to other versions of the question alone.
        """
        found = (_ID.fullmatch(one) for one in self.replies)
        cases = sorted(
            int(match["case"]) for match in found if match and match.group("name", "digest") == (name, digest)
        )
        if not cases:
            raise DataFileError(f"{self.path} answers other questions than {name} asks now (digest {digest}); {_AGAIN}")
        return cases

    def of(self, name: str, digest: str, cases: int, ids: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the replies to some cases of a question.

        Args:
            name: of the question.
            digest: of the question as it is asked now.
            cases: its number of cases.
            ids: of the cases that are wanted.

        Raises:
            NotApplicableError: there are no replies to the question at all.
            DataFileError: there are replies to other cases or to other versions of the question, or some are missing.
        """
        counts = self._counts(name, digest, cases)
        missing = [one for one in ids if one not in self.replies]
        if not missing and not counts["changed"] and not counts["foreign"]:
            return [self.replies[one] for one in ids]
        parts = {
            "missing": f"{counts['missing']:,} of {cases:,} replies are missing",
            "failed": f"to {counts['failed']:,} questions the API answered with an error",
            "changed": f"{counts['changed']:,} are to other questions than it asks now (digest {digest})",
            "foreign": f"{counts['foreign']:,} ids are none of its {cases:,} questions",
        }
        first = f"; the first that is missing is {missing[0]}" if missing else ""
        wrong = ", ".join(text for kind, text in parts.items() if counts[kind])
        raise DataFileError(f"{self.path} does not answer {name}: {wrong}{first}; {_AGAIN}")

    def _counts(self, name: str, digest: str, cases: int) -> dict[str, int]:
        """Return how many ids of a question are missing, failed, changed and foreign.

        Raises:
            NotApplicableError: there is none.
        """
        self.check(name)
        ids = ((one, _ID.fullmatch(one)) for one in (*self.replies, *self.failed))
        found = [(one, match) for one, match in ids if match and match["name"] == name]
        now = {one: int(match["case"]) for one, match in found if match["digest"] == digest}
        answered = sum(case < cases and one in self.replies for one, case in now.items())
        return {
            "missing": cases - answered,
            "failed": sum(one in self.failed for one in now),
            "changed": len(found) - len(now),
            "foreign": sum(case >= cases for case in now.values()),
        }


def read_stored_replies(path: Path) -> StoredReplies:
    """Read a file of replies; see the module for the format.

    Raises:
        DataFileError: a row has another form, an id is there twice or is none of a question, or questions have
            different numbers of replies. One message counts what is wrong of a kind.
    """
    rows = [_row(row) for row in read_rows(path, (), optional=("id", "custom_id", *KEYS, "error"))]
    names = [name for name, _ in rows]
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise DataFileError(
            f"{path}: {len(doubled):,} ids are there more than once, the first being {brief(doubled[0])}"
        )
    strange = [name for name in names if not _ID.fullmatch(name)]
    if strange:
        raise DataFileError(
            f"{path}: {len(strange):,} of {len(names):,} ids are none that genderbias questions writes, the first being"
            f" {brief(strange[0])}; expected NAME-NUMBER-DIGEST, as in decisions-scenarios-7-12ab34cd"
        )
    replies = {name: texts for name, texts in rows if texts is not None}
    sizes = Counter(map(len, replies.values()))
    if len(sizes) > 1:
        some = ", ".join(f"{size} of {count:,} questions" for size, count in sizes.most_common())
        raise DataFileError(f"{path}: expected equally many replies to each question, got {some}")
    failed = frozenset(name for name, texts in rows if texts is None)
    return StoredReplies(path, replies, next(iter(sizes), 1), failed)


def _row(row: Row) -> tuple[str, tuple[str, ...] | None]:
    """Return the id and the replies of a row; ``None`` for a request that failed."""
    cells = row.cells
    name = cells.get("id") if "custom_id" not in cells else cells["custom_id"]
    if not isinstance(name, str) or not name.strip():
        raise row.error(f"expected a text in 'id' (or 'custom_id'), got {brief(name)}")
    try:
        return name.strip(), _texts(cells)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError):
        raise row.error(
            "expected a text in 'reply', a list of texts in 'replies', or the result of a batch in 'response' or"
            f" 'result', got {brief({key: cells.get(key) for key in KEYS if key in cells})}"
        ) from None


def _texts(cells: Mapping[str, Any]) -> tuple[str, ...] | None:
    if cells.get("replies") is not None:
        texts = cells["replies"]
        if not isinstance(texts, list):
            raise TypeError("no list")
    elif cells.get("reply") is not None:
        texts = [cells["reply"]]
    elif (response := cells.get("response")) is not None:
        if response.get("status_code", 200) != 200:
            return None
        texts = [choice["message"]["content"] or "" for choice in response["body"]["choices"]]
    elif cells.get("error") is not None:
        return None
    else:
        result = cells["result"]
        if result.get("type") in ("errored", "canceled", "expired"):
            return None
        texts = ["".join(part["text"] for part in result["message"]["content"] if part.get("type") == "text")]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise TypeError("no texts")
    return tuple(texts)


def read_stored_answers(path: Path) -> LinesById[str]:
    """Read the answers of a chat model to multiple-choice questions, which the user writes with any system, by the id
    of the question.

    The file has JSON lines (``.jsonl`` or ``.jsonl.gz``), one answer a line, in any order:

        {"id": "Religion-17", "answer": "Can't be determined"}

    ``id``
        The id of the question, unique in the file. BBQ: the category's file name and the ``example_id``,
        ``Religion-17``.
    ``answer``
        The text of the option that was picked, without its letter. Case, white space around it and a full stop at its
        end do not count, nor does how its characters are written (:mod:`~pytest_genderbias.text.normal_form`):
        ``can’t`` is ``can't``. An empty text is no option.

    Other keys are ignored.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an answer that is no text; a duplicate
            id.
    """
    rows = [(row.line, row.text("id"), _answer(row)) for row in read_rows(path, ("id", "answer"))]
    refuse_repeats(path, ((line, name) for line, name, _ in rows))
    return LinesById(path, {name: answer for _, name, answer in rows})


def picked_options(stored: LinesById[str], questions: Iterable[tuple[str, Sequence[str]]]) -> NDArray[np.float64]:
    """Return which option each answer picks: 1 for that one, all 0 for an answer that is none of them, shape (n,
    options).

    Args:
        stored: the whole file, which may also hold answers to other questions.
        questions: id and options of each question.

    Raises:
        DataFileError: the file lacks an answer.

    >>> stored = LinesById(Path("a.jsonl"), {"x-1": "the man.", "x-2": "both"})
    >>> picked_options(stored, [("x-1", ("The woman", "The man")), ("x-2", ("The woman", "The man"))]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    wanted = list(questions)
    answers = stored.of([name for name, _ in wanted], "an answer", "questions")
    return np.asarray(
        [
            [float(_compared(answer) == _compared(option)) for option in options]
            for answer, (_, options) in zip(answers, wanted, strict=True)
        ],
        dtype=np.float64,
    )


def _answer(row: Row) -> str:
    answer = row.cells["answer"]
    return "" if isinstance(answer, str) and not answer.strip() else row.text("answer")


def _compared(text: str) -> str:
    return folded(text).rstrip(".")
