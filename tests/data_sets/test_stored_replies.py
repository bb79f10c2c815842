"""Files of replies: their forms, and what is wrong with them, counted in one error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_genderbias.datasets.stored_replies import read_stored_replies
from pytest_genderbias.errors import DataFileError, NotApplicableError

NAME, DIGEST = "decisions-scenarios", "12ab34cd"


def write(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "replies.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def ids(*cases: int, digest: str = DIGEST) -> list[str]:
    return [f"{NAME}-{case}-{digest}" for case in cases]


def openai(name: str, *texts: str | None, status: int = 200) -> dict[str, Any]:
    choices = [{"index": n, "message": {"role": "assistant", "content": text}} for n, text in enumerate(texts)]
    return {"id": "batch_req_1", "custom_id": name, "response": {"status_code": status, "body": {"choices": choices}}}


def test_replies_and_results_of_batches_are_read_alike(tmp_path: Path) -> None:
    one, two, three, four = ids(0, 1, 2, 3)
    anthropic = {"type": "succeeded", "message": {"content": [{"type": "text", "text": "No"}]}}
    path = write(
        tmp_path,
        {"id": one, "reply": "Yes", "more": 1},
        {"id": two, "replies": ["No"]},
        openai(three, "Yes"),
        {"custom_id": four, "result": anthropic},
    )
    stored = read_stored_replies(path)
    assert stored.samples == 1 and stored.names == (NAME,)
    assert stored.of(NAME, DIGEST, 4, [four, one, two, three]) == [("No",), ("Yes",), ("No",), ("Yes",)]


def test_an_answer_without_content_is_an_empty_text(tmp_path: Path) -> None:
    (one,) = ids(0)
    assert read_stored_replies(write(tmp_path, openai(one, None, "Yes"))).replies == {one: ("", "Yes")}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"id": name, "reply": "Yes"} for name in (*ids(0, 0, 1), *ids(1))], "2 ids are there more than once"),
        ([{"id": name, "reply": "Yes"} for name in ("7", "x")], "2 of 2 ids are none that genderbias questions writes"),
        (
            [{"id": name, "replies": ["Yes"] * n} for name, n in zip(ids(0, 1, 2), (1, 1, 2), strict=True)],
            "equally many replies to each question, got 1 of 2 questions, 2 of 1 questions",
        ),
        ([{"id": ids(0)[0], "replies": "Yes"}], ":1: expected a text in 'reply', a list of texts in 'replies'"),
        ([{"id": ids(0)[0], "replies": []}], ":1: expected a text in 'reply', a list of texts in 'replies'"),
        ([{"id": ids(0)[0], "messages": []}], ":1: expected a text in 'reply', a list of texts in 'replies'"),
        ([{"reply": "Yes"}], ":1: expected a text in 'id'"),
    ],
)
def test_what_is_wrong_is_counted(tmp_path: Path, rows: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(DataFileError, match=said):
        read_stored_replies(write(tmp_path, *rows))


def test_missing_failed_changed_and_foreign_ids_are_one_error(tmp_path: Path) -> None:
    rows = [{"id": name, "reply": "Yes"} for name in (*ids(0, 9), *ids(1, 2, digest="ffffffff"))]
    stored = read_stored_replies(write(tmp_path, *rows, openai(ids(3)[0], status=500)))
    wanted = (
        r"4 of 5 replies are missing, to 1 questions the API answered with an error, 2 are to other questions than it"
        rf" asks now \(digest {DIGEST}\), 1 ids are none of its 5 questions; the first that is missing is {ids(1)[0]}"
    )
    with pytest.raises(DataFileError, match=wanted):
        stored.of(NAME, DIGEST, 5, ids(0, 1))


def test_replies_to_nothing_but_other_suites_do_not_apply(tmp_path: Path) -> None:
    stored = read_stored_replies(write(tmp_path, {"id": ids(0)[0], "reply": "Yes"}))
    with pytest.raises(
        NotApplicableError, match="no replies to bbq-questions; it has replies to 'decisions-scenarios'"
    ):
        stored.check("bbq-questions")
