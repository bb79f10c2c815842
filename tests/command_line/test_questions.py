"""``genderbias questions``: from questions to a file of replies that is measured as a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.chat_models import biased_decider
from support.command_lines import type_command

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.datasets.stored_replies import StoredReplies, read_stored_replies


@pytest.fixture
def questions(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[Any], str]]:
    """Types the command, and returns the rows and what is said of their cost."""

    def ask(*arguments: str) -> tuple[list[Any], str]:
        printed = type_command(pytester, monkeypatch, "questions", *arguments)
        assert printed.status == 0, printed.err
        return [json.loads(line) for line in printed.out.splitlines()], printed.err

    return ask


class Decider:
    """A system that decides by the likelier answer of a planted model."""

    def __init__(self) -> None:
        self.planted = biased_decider(load_suite("decisions").body, 1.5, noise=0.5)

    def reply(self, messages: Sequence[dict[str, str]], n: int, seed: int) -> list[str]:
        yes, no = self.planted.answer_log_probs([messages[0]["content"]] * 2, ["Yes", "No"])
        return ["Yes." if yes > no else "No."] * n


def answered(rows: Sequence[Any], path: Path) -> Path:
    system = Decider()
    lines = ({"id": row["id"], "replies": system.reply(row["messages"], row["samples"], 0)} for row in rows)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in reversed(list(lines))), encoding="utf-8")
    return path


def test_a_file_of_replies_has_the_figures_of_the_system(questions: Any, tmp_path: Path) -> None:
    rows, said = questions("decisions", "--samples=2")
    assert set(rows[0]) == {"id", "messages", "options", "samples"} and len({row["id"] for row in rows}) == 808
    assert said.startswith("808 questions, 1,616 replies, about ") and "--bias-model=NAME=REPLIES.jsonl" in said
    system = load_model(Decider(), name="system", samples=2)
    by_file = measure("decisions", f"product={answered(rows, tmp_path / 'replies.jsonl')}", cache=None)
    assert by_file.values == measure("decisions", system, cache=None).values
    assert by_file.values["yes_difference"] > 0.05


def test_a_limit_and_options_ask_what_the_run_asks(questions: Any, tmp_path: Path) -> None:
    rows, _ = questions("decisions", "--limit=10", "--option=decisions:person=described", "--seed=4")
    assert len(rows) == 8 + 104
    path = answered(rows, tmp_path / "replies.jsonl")
    found = measure("decisions", f"product={path}", cache=None, limit=10, seed=4, person="described")
    assert found.n == 8 and found.values["yes_difference"] is not None


def test_the_options_are_those_of_the_message(questions: Any) -> None:
    rows, _ = questions("chat-iat")
    for row in rows[::20]:
        message = row["messages"][0]["content"]
        assert [f"{label}: {text}" for label, text in row["options"].items()] == re.findall("^[AB]: .*$", message, re.M)
    assert questions("counterfactual-generation")[0][0]["options"] == {}


def test_a_batch_comes_back(questions: Any, tmp_path: Path) -> None:
    rows, _ = questions("decisions", "--batch=some-model", "--samples=3", "--limit=1")
    assert rows[0]["url"] == "/v1/chat/completions" and rows[0]["body"]["model"] == "some-model"
    assert all(re.fullmatch(r"[\w-]{1,64}", row["custom_id"]) for row in rows)
    results = []
    for row in rows:
        texts = Decider().reply(row["body"]["messages"], row["body"]["n"], 0)
        choices = [{"index": n, "message": {"role": "assistant", "content": text}} for n, text in enumerate(texts)]
        results.append({"custom_id": row["custom_id"], "response": {"status_code": 200, "body": {"choices": choices}}})
    path = tmp_path / "batch.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in results), encoding="utf-8")
    assert measure("decisions", f"product={path}", cache=None, limit=1).values["yes_difference"] is not None


def test_the_cost_alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = type_command(pytester, monkeypatch, "questions", "decisions", "chat-iat", "--cost", "--samples=5")
    assert re.fullmatch(r"1,062 questions, 5,310 replies, about [\d,]+ tokens in the questions\n", printed.out)


def test_a_suite_that_asks_no_questions_in_text_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = type_command(pytester, monkeypatch, "questions", "weat")
    assert printed.status == 4 and "weat needs word vectors" in printed.err and not printed.out
    assert printed.err.endswith("; yours is a system that answers in text\n")


def test_a_question_is_found_by_its_digest(questions: Any, tmp_path: Path) -> None:
    """Other options make other questions, and replies to these do not count."""
    rows, _ = questions("decisions", "--limit=1")
    stored: StoredReplies = read_stored_replies(answered(rows, tmp_path / "replies.jsonl"))
    others, _ = questions("decisions", "--limit=1", "--option=person=described")
    assert not stored.replies.keys() & {row["id"] for row in others}
