"""Objects that reply: functions, threads and coroutines, what they may return, and replies that are kept."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_genderbias import load_model
from pytest_genderbias.errors import ScoreError, SettingError
from pytest_genderbias.models.replies import Asked, read_kept

TEXTS = [f"question {number}" for number in range(12)]


class Echo:
    """Replies with the question, the seed and a number; counts what it is asked."""

    def __init__(self, fingerprint: str | None = None, fails_after: int | None = None, **attributes: object) -> None:
        self.fingerprint, self.fails_after, self.asked = fingerprint, fails_after, []
        vars(self).update(attributes)

    def reply(self, messages: Sequence[dict[str, str]], n: int, seed: int) -> list[str]:
        if self.fails_after is not None and len(self.asked) >= self.fails_after:
            raise KeyboardInterrupt
        (message,) = messages
        self.asked.append(message["content"])
        return [f"{message['role']} {message['content']} {seed} {number}" for number in range(n)]


def ask(target: object, texts: Sequence[str] = TEXTS, samples: int = 2, cache: Path | None = None) -> Any:
    model = load_model(target, samples=samples, name="product")
    assert model.role.kind == "text-replies" and model.role.samples == samples
    return model.backend.replies(Asked("s-q", "0" * 8, len(texts), list(texts), texts, samples, 3, cache))


def test_each_question_has_its_replies_and_a_seed_of_its_own() -> None:
    target = Echo()
    found = ask(target)
    assert [len(set(replies)) for replies in found] == [2] * 12 and target.asked == TEXTS
    assert [replies[0].startswith(f"user {text} ") for replies, text in zip(found, TEXTS, strict=True)] == [True] * 12
    assert len({replies[0].split()[3] for replies in found}) == 12
    assert found == ask(Echo())  # the same seeds in every run
    assert ask(Echo(), TEXTS[5:]) == found[5:]  # whatever else is asked


def test_equal_questions_are_asked_once() -> None:
    target = Echo()
    first, second = ask(target, ["same", "same"])
    assert first == second and target.asked == ["same"]


def test_threads_ask_at_once_and_the_order_stays() -> None:
    together = threading.Barrier(4, timeout=20)

    class Waits(Echo):
        at_once = 4

        def reply(self, messages: Sequence[dict[str, str]], n: int, seed: int) -> list[str]:
            together.wait()
            return super().reply(messages, n, seed)

    assert ask(Waits()) == ask(Echo())


def test_coroutines_run_in_one_event_loop() -> None:
    loops = set()

    class Async(Echo):
        async def reply(self, messages: Sequence[dict[str, str]], n: int, seed: int) -> list[str]:  # type: ignore[override]
            loops.add(asyncio.get_running_loop())
            await asyncio.sleep(0.001)
            return Echo.reply(self, messages, n, seed)

    assert ask(Async()) == ask(Echo()) and len(loops) == 1


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("Yes", "should return 2 texts in a list, got str"),
        (None, "should return 2 texts in a list, got NoneType"),
        (["Yes"], "returned 1 texts, expected n = 2"),
        (["Yes", 3], "should return texts, got int: 3"),
    ],
)
def test_anything_but_texts_is_refused(returned: object, said: str) -> None:
    class Other:
        def reply(self, messages: object, n: int, seed: int) -> object:
            return returned

    with pytest.raises(ScoreError, match=f"reply of product {said}"):
        ask(Other())


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
@pytest.mark.parametrize("way", ["one", "threads", "coroutines", "awaitable"])
def test_an_error_of_the_object_is_one_error(way: str, error: type[BaseException]) -> None:
    def reply(messages: object, n: int, seed: int) -> object:
        raise error("out of service")

    async def later(messages: object, n: int, seed: int) -> object:
        return reply(messages, n, seed)

    class Fails:
        at_once = 3 if way == "threads" else 1

    fails: Any = Fails()
    fails.reply = {"coroutines": later, "awaitable": lambda *asked: later(*asked)}.get(way, reply)
    with pytest.raises(ScoreError, match=f"reply of product failed: {error.__name__}: out of service"):
        ask(fails)


@pytest.mark.parametrize("at_once", [0, True, "4", 1000])
def test_at_once_is_a_small_number(at_once: object) -> None:
    with pytest.raises(SettingError, match="at_once of product should be a whole number from 1 to 256"):
        ask(Echo(at_once=at_once))


def test_an_interrupted_run_asks_only_what_is_missing(tmp_path: Path) -> None:
    first = Echo("v1", fails_after=5)
    with pytest.raises(KeyboardInterrupt):
        ask(first, cache=tmp_path)
    again = Echo("v1")
    assert ask(again, cache=tmp_path) == ask(Echo()) and again.asked == TEXTS[5:]
    assert ask(third := Echo("v1"), cache=tmp_path) == ask(Echo()) and not third.asked
    assert ask(other := Echo("v2"), cache=tmp_path) and len(other.asked) == 12  # another fingerprint
    assert ask(more := Echo("v1"), samples=3, cache=tmp_path) and len(more.asked) == 12


def test_a_line_that_a_kill_cut_off_is_asked_again(tmp_path: Path) -> None:
    ask(Echo("v1"), cache=tmp_path)
    (path,) = tmp_path.glob("replies/*.jsonl")
    lines = [line for line in path.read_bytes().split(b"\n") if line]
    path.write_bytes(b"\n".join(lines[:7]) + b"\n" + lines[7][:20])
    again = Echo("v1")
    assert ask(again, cache=tmp_path) == ask(Echo()) and again.asked == TEXTS[7:]
    assert ask(third := Echo("v1"), cache=tmp_path) and not third.asked  # the cut line did not swallow the next one


@pytest.mark.parametrize("line", [b"[1, 2]", b"{}", b"null", b'["key"]', b'["key", 3]', b"\xff", b"[" * 2000])
def test_foreign_lines_are_left_out(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_bytes(line + b"\n" + json.dumps(["one", "Yes"]).encode() + b"\n")
    assert read_kept(path) == {"one": ("Yes",)}


def test_nothing_is_kept_without_a_fingerprint(tmp_path: Path) -> None:
    ask(Echo(None), cache=tmp_path)
    assert not list(tmp_path.iterdir())
