"""What a plan and an anchor add to stored entries: they are written and read back, and damage to them is one error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.hand_made import hand_made

from pytest_genderbias import Baseline, assert_no_regression, assert_no_worse
from pytest_genderbias.errors import BaselineError, GateError
from pytest_genderbias.gates.anchor import Anchor
from pytest_genderbias.gates.book import BaselineEntry, book_path, entry_of, items_path, read_book
from pytest_genderbias.gates.book_update import to_write, write_entries, write_margins
from pytest_genderbias.gates.comparison import judge_no_worse
from pytest_genderbias.gates.margin import HOW_TO_CHOOSE, PlannedMargin
from pytest_genderbias.gates.policy import Policy

PLANNED = PlannedMargin(
    0.013, "2026-11-22", {"false_alarms": 0.05, "found": {"alone": 0.03}, "seconds": 1.5, "from": "restarts"}
)


def test_margins_are_written_into_entries_and_nothing_else_changes(tmp_path: Path) -> None:
    book = write_entries(tmp_path, "m", "t.py", {"tiny": entry_of(hand_made()), "other": entry_of(hand_made(0.1))})
    before, files = read_book(book), {path.name: path.read_bytes() for path in book.parent.glob("*.npz")}
    assert write_margins(tmp_path, "m", "t.py", {"tiny": {"share": PLANNED}}) == book
    after = read_book(book)
    assert after["tiny"].planned == {"share": PLANNED}
    assert {name: replace(entry, planned={}) for name, entry in after.items()} == before
    assert {path.name: path.read_bytes() for path in book.parent.glob("*.npz")} == files and len(files) == 2
    text = book.read_bytes()
    write_margins(tmp_path, "m", "t.py", {"tiny": {"share": PLANNED}})
    assert book.read_bytes() == text, "the same plan changes nothing"


@pytest.mark.parametrize(
    ("name", "statistic", "message"),
    [
        ("none", "share", "no entry 'none' to plan for; run with --bias-update-new first"),
        ("tiny", "r", "tiny has no value of r"),
    ],
)
def test_a_plan_for_what_is_not_stored_is_refused_whole(
    tmp_path: Path, name: str, statistic: str, message: str
) -> None:
    book = write_entries(tmp_path, "m", "t.py", {"tiny": entry_of(hand_made())})
    before = book.read_bytes()
    with pytest.raises(BaselineError, match=message):
        write_margins(tmp_path, "m", "t.py", {"tiny": {"share": PLANNED}, name: {statistic: PLANNED}})
    assert book.read_bytes() == before
    with pytest.raises(BaselineError, match="no entry 'tiny'"):
        write_margins(tmp_path, "m", "another.py", {"tiny": {"share": PLANNED}})


def test_the_item_file_of_an_anchor_is_not_swept(tmp_path: Path) -> None:
    first, second, third = (entry_of(hand_made(shift)) for shift in (0.0, 0.1, 0.2))
    anchor = Anchor(first.entry.values, first.entry.signature, first.entry.items_sha256, "2026-01-31")
    write_entries(tmp_path, "m", "t.py", {"tiny": first})
    for new in (second, third):
        book = write_entries(tmp_path, "m", "t.py", {"tiny": replace(new, entry=replace(new.entry, anchor=anchor))})
    digests = (str(entry.entry.items_sha256) for entry in (first, third))
    assert set(book.parent.glob("*.npz")) == {items_path(book, "tiny", digest) for digest in digests}
    assert read_book(book)["tiny"].anchor == anchor
    write_entries(tmp_path, "m", "t.py", {"tiny": third})
    assert len(list(book.parent.glob("*.npz"))) == 1, "without an anchor nothing names the first file"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"planned": {"share": {"margin": -1}}}, "planned.share.margin: expected a number of 0 or more, got -1"),
        ({"planned": {"share": {"margin": "x"}}}, "planned.share.margin: expected a number or null, got 'x'"),
        (
            {"planned": {"share": {}}},
            "planned.share: expected the keys margin, date, measured, why, margin missing",
        ),
        ({"anchor": {"items_sha256": "../x"}}, "anchor.items_sha256: expected 64 hexadecimal digits or null"),
        ({"anchor": {"values": {"share": "much"}}}, "anchor.values.share: expected a number or null"),
        ({"anchor": []}, "anchor: expected a mapping"),
        ({"anchor": {"signature": {"settings": [1]}}}, "anchor.signature.settings: expected a mapping"),
        ({"anchor": {"signature": {"of": 1}}}, "anchor.signature: expected the keys suite, "),
        ({"date": 3}, "date: expected a text, got 3"),
    ],
)
def test_damage_to_a_plan_or_an_anchor_is_one_error(tmp_path: Path, content: dict[str, object], message: str) -> None:
    path = book_path(tmp_path, "m", "t.py")
    path.parent.mkdir()
    path.write_text(json.dumps({"schema": 1, "entries": {"tiny": content}}))
    with pytest.raises(BaselineError) as caught:
        read_book(path)
    assert f"entries.tiny.{message}" in str(caught.value)


def test_entries_of_earlier_versions_have_neither_plan_nor_anchor_nor_date() -> None:
    content = entry_of(hand_made()).entry.to_dict()
    earlier = {key: value for key, value in content.items() if key not in ("date", "planned", "anchor")}
    entry = BaselineEntry.from_dict(earlier)
    assert (entry.date, entry.planned, entry.anchor) == ("", {}, None) and entry.to_dict() == earlier


# Judging by a share, or by what was planned.


def stored(folder: Path, **planned: float) -> Baseline:
    write_entries(folder, "m", "t.py", {"tiny": entry_of(hand_made())})
    if planned:
        margins = {statistic: PlannedMargin(amount, "2026-11-22") for statistic, amount in planned.items()}
        write_margins(folder, "m", "t.py", {"tiny": margins})
    return Baseline(folder, "m", "t.py")


def test_a_share_is_of_the_stored_distance_and_the_text_shows_both(tmp_path: Path) -> None:
    baseline = stored(tmp_path)  # .25, and neutral is 0
    fine = baseline.judge(hand_made(0.049), "20%")
    assert fine.code == "within" and fine.bound == "baseline 0.25 + 0.05"
    worse = baseline.judge(hand_made(0.051), "20%")
    assert worse.code == "regressed"
    assert "0.051 worse, margin 0.05 (20% of the distance 0.25 from neutral)" in worse.text


def test_auto_takes_the_margin_of_the_plan(tmp_path: Path) -> None:
    baseline = stored(tmp_path, share=0.03)
    assert baseline.judge(hand_made(0.029), "auto").code == "within"
    worse = baseline.judge(hand_made(0.031), "auto")
    assert worse.code == "regressed" and "margin 0.03 (auto, planned on 2026-11-22)" in worse.text


def test_auto_without_a_plan_fails_and_names_the_flag(tmp_path: Path) -> None:
    baseline = stored(tmp_path)
    judged = baseline.judge(hand_made(), "auto")
    assert judged.code == "no_baseline" and Policy("warn", "warn").fails(judged)
    assert "nothing is planned for share of 'tiny' in" in judged.text and "run pytest with --bias-plan" in judged.text
    between = judge_no_worse(hand_made(), hand_made(), "auto")
    assert between.code == "no_baseline" and "run pytest with --bias-plan" in between.text
    planned = judge_no_worse(hand_made(0.03), hand_made(), "auto", planned=PlannedMargin(0.04))
    assert planned.code == "within" and "margin 0.04 (auto, as planned)" in planned.text


def test_auto_where_planning_found_no_margin_says_why_and_what_to_do(tmp_path: Path) -> None:
    none = PlannedMargin(None, "2026-11-22", why="three items decide nothing")
    stored(tmp_path)
    path = write_margins(tmp_path, "m", "t.py", {"tiny": {"share": none}})
    assert read_book(path)["tiny"].planned == {"share": none}
    judged = Baseline(tmp_path, "m", "t.py").judge(hand_made(), "auto")
    between = judge_no_worse(hand_made(), hand_made(), "auto", planned=none)
    for judgement in (judged, between):
        assert (judgement.code, judgement.bound) == ("no_baseline", "no margin")
        assert "--bias-plan found no margin for share" in judgement.text and HOW_TO_CHOOSE not in judgement.text
        assert "on 2026-11-22: three items decide nothing; write a margin, as 0.02 or 20%" in judgement.text
    assert Baseline(tmp_path, "m", "t.py").judge(hand_made(), 0.02).code == "unchanged"
    margins = {"tiny": {"share": PLANNED}}
    write_margins(tmp_path, "m", "t.py", margins)
    write_margins(tmp_path, "m", "t.py", {"tiny": {"share": none}})
    assert read_book(path)["tiny"].planned == margins["tiny"], "a margin that was found stays"


def test_a_comparison_without_a_tolerance_is_an_error(tmp_path: Path) -> None:
    for compare in (
        lambda: stored(tmp_path).judge(hand_made()),
        lambda: judge_no_worse(hand_made(), hand_made()),
        lambda: assert_no_regression(hand_made(), stored(tmp_path), statistic="share"),
        lambda: assert_no_worse(hand_made(), hand_made()),
    ):
        with pytest.raises(GateError, match=r"a comparison needs a margin: .* run pytest with --bias-plan"):
            compare()


def test_an_update_keeps_the_plan_and_asks_for_a_reason_beyond_it(tmp_path: Path) -> None:
    def entry_after(shift: float, **changes: Any) -> BaselineEntry | None:
        baseline = Baseline(tmp_path, "m", "t.py", update="all")
        baseline.judge(hand_made(shift, **changes), "auto")
        new = baseline.entries().get("tiny")
        return None if new is None else new.entry

    stored(tmp_path, share=0.03)
    within, beyond, better = entry_after(0.02), entry_after(0.04), entry_after(-0.1)
    assert beyond is None, "worse by more than was planned, without a reason"
    for entry in (within, better):
        assert entry is not None and entry.planned["share"].margin == 0.03 and entry.gated == {"share": 0.03}
    sample = {**hand_made().signature, "sample": {"n": 12, "of": 20}}
    other = entry_after(-0.1, signature=sample)
    assert other is not None and other.planned == {} and other.gated == {"share": 0.0}, "planned for another sample"


def test_what_an_update_stores_does_not_change_when_it_is_repeated(tmp_path: Path) -> None:
    book = stored(tmp_path).path
    for shift in (-0.05, -0.05 + 1e-9):
        baseline = Baseline(tmp_path, "m", "t.py", update="all")
        baseline.judge(hand_made(shift), "20%")
        new = to_write(book, "tiny", baseline.entries()["tiny"], read_book(book)["tiny"])
        if new is not None:
            assert shift == -0.05 and new.entry.gated["share"] == pytest.approx(0.2 * 0.2)
            write_entries(tmp_path, "m", "t.py", {"tiny": new})
    assert new is None
