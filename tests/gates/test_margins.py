"""Gates with and without a margin on stored entries, and what an anchor adds to these."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.baseline_books import write_entries
from support.hand_made import ITEMS, hand_made

from pytest_genderbias import Baseline
from pytest_genderbias.errors import BaselineError, GateError
from pytest_genderbias.gates.book import BaselineEntry, entry_of, items_path, read_book
from pytest_genderbias.gates.book_places import book_path
from pytest_genderbias.gates.book_update import to_write
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic, mean_sums
from pytest_genderbias.suites.statistic import Statistic


def test_the_item_file_of_an_anchor_is_not_swept(tmp_path: Path) -> None:
    first, second, third = (entry_of(hand_made(shift)) for shift in (0.0, 0.1, 0.2))
    anchor = replace(first.entry.origin, date="2026-01-31")
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
        ({"anchor": {"items_sha256": "../x"}}, "anchor.items_sha256: expected 64 hexadecimal digits or null"),
        ({"anchor": {"values": {"share": "much"}}}, "anchor.values.share: expected a number or null"),
        ({"anchor": []}, "anchor: expected a mapping"),
        ({"anchor": {"signature": {"settings": [1]}}}, "anchor.signature.settings: expected a mapping"),
        ({"anchor": {"signature": {"of": 1}}}, "anchor.signature: expected the keys suite, "),
        ({"date": 3}, "date: expected a text, got 3"),
    ],
)
def test_damage_to_an_anchor_is_one_error(tmp_path: Path, content: dict[str, object], message: str) -> None:
    path = book_path(tmp_path, "m", "t.py")
    path.parent.mkdir()
    path.write_text(json.dumps({"schema": 1, "entries": {"tiny": content}}))
    with pytest.raises(BaselineError) as caught:
        read_book(path)
    assert f"entries.tiny.{message}" in str(caught.value)


def test_keys_may_be_missing_and_unknown_ones_stay() -> None:
    content = entry_of(hand_made()).entry.to_dict()
    found = {key: value for key, value in content.items() if key not in ("date", "anchor")}
    found |= {"planned": {"share": {"margin": 0.03, "date": "2026-11-22"}}, "gated": {"share": 0.0}}
    entry = BaselineEntry.from_dict(found)
    assert (entry.date, entry.anchor, entry.sees, entry.checkpoints) == ("", None, {}, 1) and entry.to_dict() == found


# Judging without a margin, and by a share.


def stored(folder: Path) -> Baseline:
    write_entries(folder, "m", "t.py", {"tiny": entry_of(hand_made())})
    return Baseline(folder, "m", "t.py")


def changed(by: float, model: str = "m") -> Measurement:
    """Return the measurement of ``hand_made`` with every other item ``by`` worse, and the others better by three
    quarters of it.
    """
    own = np.where(np.arange(ITEMS) % 2, by, -0.75 * by)
    sums = mean_sums(
        np.array([f"item {i}" for i in range(ITEMS)]), np.linspace(0.1, 0.4, ITEMS) + own, np.ones(ITEMS), "items"
    )
    return hand_made(by / 8, model=model, sums=SumsByStatistic({"share": sums}))


def test_without_a_margin_a_gate_fails_where_chance_does_not_explain_the_worsening(tmp_path: Path) -> None:
    baseline, others = stored(tmp_path), hand_made(model="other")
    for judge in (baseline.judge, lambda now: judge_against(now, others)):
        assert [judge(now).code for now in (hand_made(), changed(0.08), hand_made(0.01))] == [
            "unchanged",
            "within",
            "regressed",
        ]
        assert "allowed" not in judge(hand_made(0.01)).text
    assert baseline.judge(hand_made(-0.01)).code == "better"
    assert judge_against(hand_made(-0.01), others).code == "within", "a better model makes nothing out of date"


def test_a_margin_passes_only_where_the_bounds_keep_it(tmp_path: Path) -> None:
    baseline = stored(tmp_path)
    found = [baseline.judge(changed(0.08), margin) for margin in (None, 0.03, 0.1)]
    assert [judged.code for judged in found] == ["within", "too_few", "within"]
    assert [judged.verdict for judged in found] == ["pass", "cannot judge", "pass"]
    assert "a margin of " in found[1].settled_by
    assert baseline.judge(hand_made(0.1), 0.03).code == "regressed"


def test_an_update_stores_the_strictest_margin_or_none(tmp_path: Path) -> None:
    for margins, gated in (((0.3, None, "20%"), None), ((0.3, "20%"), 0.05)):
        baseline = Baseline(tmp_path, "m", "t.py", update="all")
        for margin in margins:
            baseline.judge(hand_made(), margin)
        assert baseline.judged["tiny"] == {"share": gated if gated is None else pytest.approx(gated)}


def test_a_share_is_of_the_stored_distance_and_the_text_shows_both(tmp_path: Path) -> None:
    baseline = stored(tmp_path)  # .25, and neutral is 0
    fine = baseline.judge(hand_made(0.049), "20%")
    assert fine.code == "within" and fine.bound == "baseline 0.25 + 0.05"
    worse = baseline.judge(hand_made(0.11), "20%")
    assert worse.code == "regressed"
    assert ": 0.11 worse (95 %: 0.0516 to 0.11), allowed 0.05 (20% of the distance 0.25 from neutral)" in worse.text


@pytest.mark.parametrize("margin", [0.1, "40%"])
def test_an_update_refuses_a_baseline_that_no_value_can_break(tmp_path: Path, margin: float | str) -> None:
    share = {"share": Statistic("higher", 0.0, "a share", least=0.0, most=0.3)}
    near_the_end = hand_made(statistics=share)
    for update in ("new", "all"):
        baseline = Baseline(tmp_path, "m", "t.py", update=update)
        with pytest.raises(GateError, match=r"no model can break the margin 0\.1.*from 0\.25 it can worsen by at most"):
            baseline.judge(near_the_end, margin)
        assert baseline.entries() == {}
        assert baseline.judge(near_the_end, 0.04).code == "stored"


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
