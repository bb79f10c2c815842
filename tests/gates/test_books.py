"""Baseline files that are damaged, edited, merged or written by several runs: one error each, and nothing passes or is
lost by them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.baseline_books import write_entries
from support.hand_made import hand_made

from pytest_genderbias import Baseline
from pytest_genderbias.errors import BaselineError, DataFileError, InconsistentEntryError
from pytest_genderbias.gates import item_file
from pytest_genderbias.gates.book import BaselineEntry, entry_of, items_path, read_book, read_items
from pytest_genderbias.gates.book_places import book_path
from pytest_genderbias.gates.book_update import update_books
from pytest_genderbias.gates.item_file import pack_items
from pytest_genderbias.gates.verdicts import passes
from pytest_genderbias.plugin.acceptance import ProposedEntry, accept
from pytest_genderbias.plugin.books import Messages, module_and_names
from pytest_genderbias.plugin.reported import ReportedOutcome
from pytest_genderbias.statistics.inference.item_sums import ItemSums, SumsByStatistic, mean_sums


def stored_book(folder: Path, *shifts: float) -> Path:
    """Return a book with an entry ``tiny``, ``tiny-1``, ... for each shift."""
    names = ["tiny", *(f"tiny-{i}" for i in range(1, len(shifts)))]
    entries = {name: entry_of(hand_made(shift)) for name, shift in zip(names, shifts or (0.0,), strict=False)}
    return write_entries(folder, "m", "t.py", entries)


def edit(book: Path, change: Callable[[dict[str, Any]], object], name: str = "tiny") -> None:
    data = json.loads(book.read_text())
    change(data["entries"][name])
    book.write_text(json.dumps(data, indent=1, sort_keys=True))


def judge(folder: Path, shift: float = 0.0, margin: float = 0.0, **how: Any) -> Any:
    return Baseline(folder, "m", "t.py", **how).judge(hand_made(shift), margin)


# Files that are no baselines.

DAMAGED = {
    "empty": ("", "t.py.json:1: not valid JSON"),
    "a list": ("[]", "t.py.json: expected a baseline, a mapping with the key 'entries'"),
    "entries in a list": ('{"schema": 1, "entries": []}', "t.py.json: expected a baseline"),
    "deep": ('{"schema": 1, "entries": ' + '{"a":' * 100_000, "t.py.json: expected at most 64 mappings and lists"),
    "deep settings": (
        '{"schema": 1, "entries": {"tiny": {"settings": ' + '{"a":' * 90 + "1" + "}" * 90 + "}}}",
        "t.py.json: expected at most 64 mappings and lists",
    ),
    "NaN": ('{"schema": 1, "entries": {"tiny": {"values": {"share": NaN}}}}',
        "t.py.json: expected finite numbers, got NaN"),
    "infinite": ('{"schema": 1, "entries": {"tiny": {"gated": {"share": 1e999}}}}',
        "expected finite numbers, got 1e999"),
    "a key twice": ('{"schema": 1, "entries": {"tiny": {}, "tiny": {}}}',
        "t.py.json: expected every key once, got 'tiny' twice"),
    "a null entry": ('{"schema": 1, "entries": {"tiny": null}}', "entries.tiny: expected a mapping, got None"),
    "a huge value": (
        '{"schema": 1, "entries": {"tiny": {"values": {"share": 1' + "0" * 400 + "}}}}",
        "entries.tiny.values.share: expected a number, got an integer of 1,329 bits",
    ),
    "a path for a digest": (
        '{"schema": 1, "entries": {"tiny": {"items_sha256": "../../../x"}}}',
        "entries.tiny.items_sha256: expected 64 hexadecimal digits or null, got '../../../x'",
    ),
    "a negative margin": (
        '{"schema": 1, "entries": {"tiny": {"gated": {"share": -1}}}}',
        "entries.tiny.gated.share: expected a number of 0 or more",
    ),
    "another schema": ('{"schema": 2, "entries": {}}',
        "expected schema 1, got 2; install the version of pytest-genderbias that wrote it"),
    "not UTF-8": (b'{"schema": 1, "entries": {"\xff": {}}}', "t.py.json:1: not UTF-8: byte 0xff"),
    "a folder": (None, "t.py.json: expected a file, got a folder"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_a_file_that_is_no_baseline_is_one_error_and_stays_as_it_is(tmp_path: Path, case: str) -> None:
    content, message = DAMAGED[case]
    path = book_path(tmp_path, "m", "t.py")
    path.parent.mkdir()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for update in ("no", "all"):
        with pytest.raises(BaselineError) as caught:
            judge(tmp_path, update=update)
        text = str(caught.value)
        assert str(path) in text and message in text and "\n" not in text and len(text) < 700
        assert "delete" not in text, "no advice of ours loses the accepted reasons"
    with pytest.raises(BaselineError):
        update_books(tmp_path, {("m", "t.py"): lambda stored: {"tiny": entry_of(hand_made())}})
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    module_and_names(path)


def test_a_book_is_parsed_once_and_again_as_soon_as_its_text_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book, parsed, parse = stored_book(tmp_path, 0.0, 0.1), [], BaselineEntry.from_dict
    monkeypatch.setattr(BaselineEntry, "from_dict", lambda data, where="": parsed.append(where) or parse(data, where))
    entries = read_book(book)
    entries.clear()  # what a caller does to them is its own
    assert [*read_book(book)] == ["tiny", "tiny-1"]
    assert len(parsed) == 2
    text = book.read_text()
    book.write_text(text.replace('"suite": "tiny"', '"suite": "tinz"'))  # of the same size, at the same time
    assert {entry.suite for entry in read_book(book).values()} == {"tinz"}
    book.unlink()
    assert read_book(book) == {}


def test_a_byte_order_mark_is_no_damage(tmp_path: Path) -> None:
    book = stored_book(tmp_path)
    book.write_bytes(b"\xef\xbb\xbf" + book.read_bytes())
    assert judge(tmp_path).code == "unchanged"
    assert module_and_names(book) == ("t.py", {"tiny"})


ITEM_FILES: dict[str, tuple[bytes, str]] = {
    "no archive": (b"PK\x03\x04", "expected an .npz archive, got a damaged one: BadZipFile"),
    "sums that are none": (pack_items({"item_sums.json": np.asarray("[]")}) or b"",
        "item_sums.json: expected a mapping, got []"),
    "sums that are no JSON": (pack_items({"item_sums.json": np.asarray("{")}) or b"", "item_sums.json: expected JSON"),
    "deep sums": (pack_items({"item_sums.json": np.asarray("[" * 99_999)}) or b"", "item_sums.json: expected JSON"),
    "a missing array": (
        pack_items({"item_sums.json": np.asarray(json.dumps({"schema": 1, "statistics": {"share": {
            "about": {"combiner": "mean", "over": "items", "parameters": {}},
            "arrays": {"labels": {"array": "no"}}}}}))}) or b"",
        "share.labels: expected the array 'no'",
    ),
    "a huge sparse shape": (
        pack_items({"a.values": np.ones(1), "a.steps": np.ones(1, np.uint32), "item_sums.json": np.asarray(json.dumps(
            {"schema": 1, "statistics": {"share": {"about": {},
                        "arrays": {"sums": {"sparse": "a", "shape": [10**9, 10**9]}}}}}))}) or b"",
        "share.sums: expected at most 33,554,432 numbers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ITEM_FILES)
def test_an_item_file_of_another_form_is_one_error(tmp_path: Path, case: str) -> None:
    packed, message = ITEM_FILES[case]
    store_items(stored_book(tmp_path), packed)
    with pytest.raises(BaselineError) as caught:
        judge(tmp_path)
    text = str(caught.value)
    assert message in text and ".npz: " in text and "restore it from version control" in text and "\n" not in text


def store_items(book: Path, packed: bytes) -> None:
    """Exchange the item file of ``tiny`` for another one, with the digest that belongs to it."""
    sha256 = hashlib.sha256(packed).hexdigest()
    items_path(book, "tiny", sha256).write_bytes(packed)
    edit(book, lambda content: content.update(items_sha256=sha256))


def test_parameters_of_a_combiner_that_it_does_not_know_are_one_error(tmp_path: Path) -> None:
    about = {"combiner": "gap_of_columns", "over": "items", "parameters": {}}
    index = {"about": about, "arrays": {"labels": {"array": "a"}, "sums": {"array": "b"}, "columns": {"array": "a"}}}
    arrays = {"a": np.array(["x", "y"]), "b": np.ones((2, 2))}
    content = np.asarray(json.dumps({"schema": 1, "statistics": {"share": index}}))
    store_items(stored_book(tmp_path), pack_items({"item_sums.json": content, **arrays}) or b"")
    with pytest.raises(BaselineError, match=r"entries.tiny: share: expected the sums of its items, got another form"):
        judge(tmp_path)


# Items and values that contradict each other.


def zeroed() -> bytes:
    labels = np.array([f"item {i}" for i in range(12)])
    return (
        pack_items(SumsByStatistic({"share": mean_sums(labels, np.zeros(12), np.ones(12), "items")}).to_arrays()) or b""
    )


@pytest.mark.parametrize("error", [ImportError, OSError, pytest.exit.Exception])
def test_what_is_not_of_the_items_is_no_contradiction(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken library, a full disk or an interruption says nothing of a baseline, which a message would replace."""

    def fail(sums: ItemSums) -> float:
        raise error("of the machine")

    monkeypatch.setattr(ItemSums, "total", property(fail))
    with pytest.raises(error, match="of the machine") as caught:
        item_file.load_checked(zeroed(), {}, {"share": 0.25}, 0, "items")
    assert type(caught.value) is error


@pytest.mark.parametrize("shift", [0.0, -0.05])
def test_items_that_do_not_give_the_stored_value_are_an_error_and_no_verdict(tmp_path: Path, shift: float) -> None:
    book = stored_book(tmp_path)
    store_items(book, zeroed())
    with pytest.raises(InconsistentEntryError) as caught:
        judge(tmp_path, shift)
    text = str(caught.value)
    assert f"{book}: entries.tiny: share is 0.25 in the entry, and its items give 0 (t.py.tiny." in text
    assert (
        "restore both files from version control, or accept what is measured now with --bias-update --bias-reason="
        in text
    )


def test_of_several_contradictions_the_first_statistic_of_the_entry_is_named() -> None:
    """However they differ: ``other`` is of another form."""
    labels, one = np.array(["x", "y"]), np.ones(2)
    odd = ItemSums(labels, np.ones((2, 2)), "gap_of_columns", "items", columns=("x", "y"))
    sums = SumsByStatistic({"other": odd, "share": mean_sums(labels, one, one, "items"), "rest": "it has no items"})
    packed = pack_items(sums.to_arrays()) or b""
    values = {"rest": 2.0, "share": 0.25, "other": 0.5}
    with pytest.raises(InconsistentEntryError, match=r"^share is 0.25 in the entry, and its items give 1$"):
        item_file.load_checked(packed, {}, values, 0, "items")
    with pytest.raises(InconsistentEntryError, match=r"^other: expected the sums of its items, got another form"):
        item_file.load_checked(packed, {}, dict(reversed(values.items())), 0, "items")
    with pytest.raises(InconsistentEntryError, match=r"^other: "):
        item_file.load_checked(packed, {}, values | {"share": 1.0}, 0, "items")
    assert item_file.load_checked(packed, {}, {"rest": 2.0, "share": 1.0, "other": None}, 0, "items").values


def test_a_value_that_was_edited_cannot_be_used_to_accept_a_worse_one_without_a_reason(tmp_path: Path) -> None:
    book = stored_book(tmp_path)
    edit(book, lambda content: content["values"].update(share=0.9))
    edited = book.read_bytes()
    baseline = Baseline(tmp_path, "m", "t.py", update="all")
    with pytest.raises(InconsistentEntryError):
        baseline.judge(hand_made(0.2), margin=0.0)
    assert baseline.entries() == {} and book.read_bytes() == edited
    accepting = Baseline(tmp_path, "m", "t.py", update="all", reason="both files were lost")
    assert accepting.judge(hand_made(0.2), margin=0.0).code == "stored"
    write_entries(tmp_path, "m", "t.py", accepting.entries())
    assert judge(tmp_path, 0.2).code == "unchanged"


@pytest.mark.parametrize("values", [[0.2, 0.3], [0.2, 0.3, 0.4, 0.5]])
def test_restarts_that_are_not_as_many_as_stored_are_an_error(tmp_path: Path, values: list[float]) -> None:
    then = hand_made(
        values={"share": 0.3},
        items={"restart.share": np.array([0.2, 0.3, 0.4])},
        sums=SumsByStatistic({"share": "restarts"}),
    )
    then = replace(then, signature={**then.signature, "settings": {"seed": 0, "restarts": 3}})
    book = write_entries(tmp_path, "m", "t.py", {"tiny": entry_of(then)})
    assert read_items(book, "tiny", read_book(book)["tiny"]) is not None
    store_items(
        book,
        pack_items({**SumsByStatistic({"share": "restarts"}).to_arrays(), "restart.share": np.array(values)}) or b"",
    )
    with pytest.raises(BaselineError, match="no values of 3 restarts"):
        read_items(book, "tiny", read_book(book)["tiny"])


def test_an_entry_that_lost_its_items_is_not_judged_less_strictly(tmp_path: Path) -> None:
    book = stored_book(tmp_path)
    edit(book, lambda content: content.update(items_sha256=None))
    assert judge(tmp_path).code == "within", "nothing changed"
    within, better = judge(tmp_path, 0.01, 0.02), judge(tmp_path, -0.1)
    for found in (within, better):
        assert (found.code, not passes(found.code)) == ("too_few", True)
        assert (
            f"'tiny' in {book} has no items (items_sha256 is null), although those of this measurement take"
            in found.text
        )
        assert "restore it from version control, or run with --bias-update" in found.settled_by
    assert judge(tmp_path, 0.05, 0.02).code == "regressed"


def test_an_entry_whose_items_were_too_large_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_file, "MOST_ITEM_BYTES", 10)
    stored_book(tmp_path)
    found = judge(tmp_path, 0.01, 0.02)
    assert found.code == "within" and "take more than 512 KiB and were not stored" in found.text


def test_an_entry_holds_no_absolute_path(tmp_path: Path) -> None:
    found = hand_made()
    found = replace(found, signature={**found.signature, "model": {"fingerprint": "f", "spec": "/home/me/runs/tiny"}})
    book = write_entries(tmp_path, "m", "t.py", {"tiny": entry_of(found)})
    assert "/home" not in book.read_text() and read_book(book)["tiny"].model["spec"] == "tiny"


def test_a_value_that_is_no_number_is_not_written(tmp_path: Path) -> None:
    no_number = hand_made(values={"share": float("nan")})
    baseline = Baseline(tmp_path, "m", "t.py", update="all")
    found = baseline.judge(no_number, margin=0.0)
    assert (found.code, not passes(found.code), baseline.entries()) == ("no_value", True, {})
    with pytest.raises(BaselineError, match="a baseline has finite values, share is nan"):
        entry_of(no_number)


# Merge conflicts.


def test_a_merge_conflict_names_the_entries_and_loses_no_reason(tmp_path: Path) -> None:
    book = stored_book(tmp_path, 0.0, 0.0, 0.0)
    lines = book.read_text().split("\n")
    starts = {name: lines.index(f'  "{name}": {{') for name in ("tiny", "tiny-1")}
    for name in ("tiny-1", "tiny"):  # from below, so that places stay
        place = next(i for i in range(starts[name], len(lines)) if '"items_sha256"' in lines[i])
        lines[place : place + 1] = [
            "<<<<<<< HEAD",
            lines[place],
            "=======",
            lines[place].replace("a", "b"),
            ">>>>>>> theirs",
        ]
    book.write_text("\n".join(lines))
    conflict = book.read_bytes()
    for update in ("no", "all", "new"):
        with pytest.raises(BaselineError) as caught:
            judge(tmp_path, 0.3, update=update)
        text = str(caught.value)
        assert (
            text.startswith(f"{book}: lines ")
            and "unresolved merge conflicts in the entries 'tiny', 'tiny-1'; keep one side" in text
        )
        assert "with its 'accepted' reasons" in text and "git checkout --ours" in text
        assert "delete" not in text and "--bias-update" not in text
    proposed = ReportedOutcome("t.py", "m", True, entries={"tiny": ProposedEntry(entry_of(hand_made(0.3)))})
    accept(tmp_path, [proposed], (), {}, False, messages := Messages())
    assert messages.failures and book.read_bytes() == conflict


# Several runs at a time.


def write(folder: Path, run: int, times: int, all_ready: Barrier) -> None:
    all_ready.wait(120)
    for i in range(times):
        own, shared = entry_of(hand_made((run * times + i) / 1e4)), entry_of(hand_made(i / 1e3))
        write_entries(folder, "m", "t.py", {f"e{run}-{i}": own, f"s{run}": shared})


def write_side_by_side(folder: Path, runs: int, times: int) -> Path:
    """Write two entries at a time to one book, one new and one that is replaced, in several processes; return the
    book.
    """
    processes = get_context("fork" if hasattr(os, "fork") else "spawn")
    all_ready = processes.Barrier(runs)
    writers = [processes.Process(target=write, args=(folder, run, times, all_ready)) for run in range(runs)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(300)
    assert [writer.exitcode for writer in writers] == [0] * runs
    return book_path(folder, "m", "t.py")


def test_runs_that_write_one_book_side_by_side_lose_nothing(tmp_path: Path) -> None:
    runs, times = 3, 12
    book = write_side_by_side(tmp_path, runs, times)
    entries = read_book(book)
    assert set(entries) == {f"e{run}-{i}" for run in range(runs) for i in range(times)} | {
        f"s{run}" for run in range(runs)
    }
    for name, entry in entries.items():
        items = read_items(book, name, entry)
        assert items is not None and items.item_sums("share").total == pytest.approx(entry.values["share"])
    named = {items_path(book, name, str(entry.items_sha256)) for name, entry in entries.items()}
    assert set(book.parent.iterdir()) == {book, *named}, (
        "no lock, no unfinished file and no items of an earlier state are left"
    )


def test_what_a_killed_run_left_is_swept_and_nothing_else_is(tmp_path: Path) -> None:
    book = stored_book(tmp_path)
    write_entries(tmp_path, "m", "packaged", {"tiny": entry_of(hand_made(0.1))})
    left = [
        "t.py.gone.0123abcd.npz",
        ".t.py.json-0123abcd",
        ".t.py.tiny.0123abcd.npz-89abcdef",
        "packaged.old.0123abcd.npz",
    ]
    others = ["notes.npz", "t.py.by-hand.npz", "u.py.tiny.0123abcd.npz", "README"]
    for name in (*left, *others):
        (book.parent / name).write_bytes(b"x")
    kept = {path.name for path in book.parent.iterdir()} - set(left)
    write_entries(tmp_path, "m", "t.py", {"new": entry_of(hand_made(0.2))})
    now = {path.name for path in book.parent.iterdir()}
    assert now - kept == {items_path(book, "new", str(read_book(book)["new"].items_sha256)).name} and kept <= now


def test_an_update_that_changes_nothing_sweeps_what_a_killed_run_left(tmp_path: Path) -> None:
    book = stored_book(tmp_path)
    there = set(book.parent.iterdir())
    for name in ("t.py.tiny.0123abcd.npz", ".t.py.json-0123abcd"):
        (book.parent / name).write_bytes(b"x")
        update_books(tmp_path, {("m", "t.py"): lambda stored: {}})
        assert set(book.parent.iterdir()) == there


def test_nothing_is_swept_beside_a_book_that_cannot_be_read(tmp_path: Path) -> None:
    book = stored_book(tmp_path)
    (book.parent / "broken.json").write_text("<<<<<<< HEAD")
    (book.parent / "broken.tiny.0123abcd.npz").write_bytes(b"x")
    write_entries(tmp_path, "m", "t.py", {"new": entry_of(hand_made(0.2))})
    assert (book.parent / "broken.tiny.0123abcd.npz").exists()


def test_a_judge_follows_a_run_that_replaces_the_entry_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_book(tmp_path)
    baseline = Baseline(tmp_path, "m", "t.py")
    counted, calls = Baseline._counted_books, []

    def replaced(self: Baseline) -> list[Path]:  # between reading the entry and its items
        if not calls:
            calls.append(write_entries(tmp_path, "m", "t.py", {"tiny": entry_of(hand_made(0.05))}))
        return counted(self)

    monkeypatch.setattr(Baseline, "_counted_books", replaced)
    found = baseline.judge(hand_made(0.05), margin=0.0)
    assert found.code == "unchanged" and "share 0.3 -> 0.3" in found.text


def outcomes_of(baseline: Baseline) -> list[ReportedOutcome]:
    entries = {name: ProposedEntry(new, against=baseline.against[name]) for name, new in baseline.entries().items()}
    return [ReportedOutcome("t.py", "m", True, entries=entries)]


@pytest.mark.parametrize("update", ["all", "new"])
def test_a_verdict_on_an_entry_that_another_run_changed_meanwhile_writes_nothing(tmp_path: Path, update: str) -> None:
    if update == "all":
        stored_book(tmp_path, 0.1)
    baseline = Baseline(tmp_path, "m", "t.py", update=update)
    assert baseline.judge(hand_made(0.05), margin=0.0).code == "stored", "better than what is stored, or the first"
    book = stored_book(tmp_path, 0.0)  # the other run: better still, so that 0.05 would need a reason now
    before = book.read_bytes()
    accept(tmp_path, outcomes_of(baseline), (), {}, update == "new", messages := Messages())
    assert messages.failures and book.read_bytes() == before
    [(line, _)] = messages
    assert line.startswith(
        "not written: tiny of t.py: another run changed this entry after it was judged here; run again"
    )


def test_runs_that_agree_do_not_disturb_each_other(tmp_path: Path) -> None:
    baseline = Baseline(tmp_path, "m", "t.py", update="all")
    baseline.judge(hand_made(), margin=0.02)
    write_entries(
        tmp_path, "m", "t.py", {"tiny": entry_of(hand_made(), gated={"share": 0.01}), "other": entry_of(hand_made())}
    )
    accept(tmp_path, outcomes_of(baseline), (), {}, False, messages := Messages())
    assert not messages.failures
    stored = read_book(book_path(tmp_path, "m", "t.py"))
    assert set(stored) == {"tiny", "other"} and stored["tiny"].gated == {"share": 0.02}


def test_an_update_that_changes_nothing_needs_no_right_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_book(tmp_path)
    monkeypatch.setattr("pytest_genderbias.gates.book_update.locked", lambda *_, **__: pytest.fail("locked"))
    assert not update_books(tmp_path, {("m", "t.py"): lambda stored: {}})


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("@", "expected bytes in base64, got '@'"),
        (5, "expected bytes in base64, got 5"),
        ("\u00e4", "expected bytes in base64"),
    ],
    ids=["no base64", "a number", "no ASCII"],
)
def test_a_proposed_entry_with_damaged_items_is_one_error(items: object, message: str) -> None:
    content = {**ProposedEntry(entry_of(hand_made())).to_dict(), "items": items}
    with pytest.raises(DataFileError, match=message):
        ProposedEntry.from_dict(content)
