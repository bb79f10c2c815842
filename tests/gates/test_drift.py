"""The anchor of an entry: small steps that each pass add up to a failure, and only a reason moves it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulations.drift import CASES, simulate
from support.baseline_books import write_entries
from support.hand_made import ITEMS, hand_made

from pytest_genderbias import Baseline
from pytest_genderbias.errors import BaselineError
from pytest_genderbias.gates.book import BaselineEntry, entry_of, items_path, read_book
from pytest_genderbias.gates.book_update import to_write
from pytest_genderbias.gates.judgement import Judgement, SinceAnchor
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic, mean_sums

MARGIN = 0.02


def noisy(shift: float, seed: int, spread: float = 0.002) -> Measurement:
    """Return the measurement of ``hand_made`` with some noise of its items, whose mean is 0."""
    labels = np.array([f"item {i}" for i in range(ITEMS)])
    noise = np.random.default_rng(seed).normal(0, spread, ITEMS)
    scores = np.linspace(0.1, 0.4, ITEMS) + shift + noise - noise.mean()
    return hand_made(shift, sums=SumsByStatistic({"share": mean_sums(labels, scores, np.ones(ITEMS), "items")}))


def book_of(folder: Path) -> Path:
    return Baseline(folder, "m", "t.py").path


def judge(folder: Path, measurement: Measurement, margin: float | str = MARGIN) -> Judgement:
    return Baseline(folder, "m", "t.py").judge(measurement, margin)


def update(
    folder: Path, measurement: Measurement, reason: str | None = None, margin: float | str = MARGIN
) -> Judgement:
    """Accept a measurement as a run with ``--bias-update`` does."""
    baseline = Baseline(folder, "m", "t.py", update="all", reason=reason)
    judged = baseline.judge(measurement, margin)
    stored = read_book(baseline.path).get("tiny")
    for name, new in baseline.entries().items():
        if (changed := to_write(baseline.path, name, new, stored)) is not None:
            write_entries(folder, "m", "t.py", {name: changed})
    return judged


def entry(folder: Path) -> BaselineEntry:
    return read_book(book_of(folder))["tiny"]


def age(folder: Path, date: str) -> None:
    """Let what is stored today be of another date."""
    path = book_of(folder)
    path.write_text(path.read_text().replace(f'"date": "{entry(folder).date}"', f'"date": "{date}"'))


def test_ten_small_steps_are_stopped_where_they_add_up_to_more_than_the_margin(tmp_path: Path) -> None:
    """Ten releases, each .016 worse under a margin of .02: without an anchor every verdict was ``pass``."""
    verdicts = []
    for step in range(10):
        measurement = noisy(0.016 * step, step)
        if step:
            verdicts.append(judge(tmp_path, measurement).code)
        update(tmp_path, measurement)
    assert verdicts == ["within", *["regressed"] * 8]
    assert entry(tmp_path).values["share"] == pytest.approx(0.25 + 0.016), "no later step is accepted without a reason"
    assert entry(tmp_path).origin.values["share"] == pytest.approx(0.25)


def test_a_simulated_row_of_releases_stays_within_the_margin_of_its_anchor() -> None:
    """A small version of docs/evidence/coverage-drift.md."""
    (_, _, _, drift, _), (_, _, failed, anchored, beyond) = simulate(2, 1, CASES[1:2])
    assert drift > 3 * CASES[1].margin > 3 * anchored > 0
    assert beyond == 0 and failed > 0.5


def test_the_text_names_the_anchor_and_how_far_the_value_has_come(tmp_path: Path) -> None:
    update(tmp_path, hand_made())
    age(tmp_path, "2026-01-31")
    update(tmp_path, noisy(0.012, 1))
    near = judge(tmp_path, noisy(0.014, 2))
    assert near.code == "within"
    assert "  anchor    0.014 worse since the anchor of 2026-01-31 (0.25), 95 % bounds 0.01" in near.text
    assert near.of_baseline.anchor == SinceAnchor("2026-01-31", pytest.approx(0.25), pytest.approx(0.014))
    far = judge(tmp_path, noisy(0.03, 2))
    first, *rest = far.text.splitlines()
    assert first.startswith(
        "worse: tiny on m: against the anchor of 2026-01-31: share 0.25 -> 0.28: 0.03 worse (95 % for all 2 comparisons"
        " on m: "
    )
    assert any(line.startswith("  baseline  pass: share 0.262 -> 0.28: 0.018 worse (") for line in rest)
    assert far.bound == "anchor 0.25 + 0.02" and far.tests == 2, "it is a comparison more"


def test_a_reason_moves_the_anchor_and_nothing_else_does(tmp_path: Path) -> None:
    update(tmp_path, hand_made())
    update(tmp_path, hand_made(0.015))
    refused = update(tmp_path, hand_made(0.03))
    assert refused.code == "no_reason"
    assert "share 0.25 -> 0.28: 0.03 worse than the anchor of 20" in refused.text
    accepted = update(tmp_path, hand_made(0.03), "another tokenizer")
    assert [(note.old, note.new) for note in accepted.accepted] == [(pytest.approx(0.25), pytest.approx(0.28))]
    assert entry(tmp_path).anchor is None, "the entry is its own anchor"
    assert judge(tmp_path, hand_made(0.045)).code == "within"
    update(tmp_path, hand_made(-0.1))
    assert entry(tmp_path).origin.values["share"] == pytest.approx(0.28), "nor does a better value"
    update(tmp_path, hand_made(-0.1), "we hold on to it")
    assert entry(tmp_path).origin.values["share"] == pytest.approx(0.15), "an unchanged value with a reason does"
    before = book_of(tmp_path).read_bytes()
    update(tmp_path, hand_made(-0.1))
    assert book_of(tmp_path).read_bytes() == before, "an update that changes nothing writes nothing"


def test_the_item_file_of_the_anchor_stays_and_a_lost_one_is_an_error(tmp_path: Path) -> None:
    for shift in (0.0, 0.005, 0.01):
        update(tmp_path, hand_made(shift))
    anchor = entry(tmp_path).anchor
    assert anchor is not None
    files = {
        items_path(book_of(tmp_path), "tiny", str(sha)) for sha in (entry(tmp_path).items_sha256, anchor.items_sha256)
    }
    assert set(tmp_path.glob("m/*.npz")) == files and len(files) == 2
    items_path(book_of(tmp_path), "tiny", str(anchor.items_sha256)).unlink()
    with pytest.raises(
        BaselineError,
        match=r"the items of the anchor of .*: no such file.*move the anchor with --bias-update --bias-reason",
    ):
        judge(tmp_path, hand_made(0.012))
    assert update(tmp_path, hand_made(0.012), "its items are lost").code == "stored"
    assert judge(tmp_path, noisy(0.012, 0)).code == "within"


def test_a_share_is_of_the_value_at_the_anchor(tmp_path: Path) -> None:
    update(tmp_path, hand_made(), margin="20%")
    update(tmp_path, hand_made(0.04), margin="20%")
    fine, worse = (judge(tmp_path, hand_made(shift), "20%") for shift in (0.049, 0.14))
    assert fine.code == "within" and worse.code == "regressed"
    assert "allowed 0.05 (20% of the distance 0.25 from neutral)" in worse.text
    assert update(tmp_path, hand_made(0.14), margin="20%").code == "no_reason"


def test_what_is_as_it_was_accepted_passes(tmp_path: Path) -> None:
    update(tmp_path, hand_made())
    wide = noisy(0.019, 3, 0.02)  # within the margin, and its bound is not
    assert judge(tmp_path, wide).code == "too_few"
    update(tmp_path, wide)
    same = judge(tmp_path, wide)
    assert same.code == "unchanged"
    assert "  anchor    0.019 worse since the anchor of " in same.text


@pytest.mark.parametrize("change", [{"sample": {"n": 12, "of": 20}}, {"settings": {"seed": 1}}, {"digest": "other"}])
def test_another_sample_does_not_avoid_the_anchor(tmp_path: Path, change: dict[str, Any]) -> None:
    def other(shift: float) -> Measurement:
        return hand_made(shift, signature={**hand_made(shift).signature, **change})

    update(tmp_path, hand_made())
    assert update(tmp_path, other(0.015)).code == "stored"
    judged = judge(tmp_path, other(0.03))
    assert (
        judged.code == "within" and "(0.25); not compared item by item, since it is of something else (" in judged.text
    )
    assert update(tmp_path, other(0.03)).code == "no_reason"
    assert update(tmp_path, other(0.03), "why").code == "stored" and entry(tmp_path).anchor is None


def test_another_definition_begins_anew(tmp_path: Path) -> None:
    update(tmp_path, hand_made())
    update(tmp_path, hand_made(0.015))
    redefined = hand_made(0.5, signature={**hand_made(0.5).signature, "definition": "tiny/2"})
    assert update(tmp_path, redefined).code == "stored"
    assert entry(tmp_path).anchor is None


def test_a_stored_value_without_a_date_is_the_anchor(tmp_path: Path) -> None:
    write_entries(tmp_path, "m", "t.py", {"tiny": entry_of(hand_made(), gated={"share": MARGIN})})
    before = entry(tmp_path)
    assert judge(tmp_path, hand_made(0.015)).of_baseline.accepted_on == ""
    update(tmp_path, hand_made())
    after = entry(tmp_path)
    assert not before.sees and after.sees.keys() == {"share"}, "the update stores what its gates see"
    assert after == replace(before, sees=after.sees), "nothing else changes"
    write_entries(tmp_path, "m", "t.py", {"tiny": entry_of(hand_made(), gated={"share": MARGIN})})
    update(tmp_path, hand_made(0.015))
    far = judge(tmp_path, hand_made(0.06))
    assert far.code == "regressed"
    assert "against the anchor of an unknown date: share 0.25 -> 0.31: 0.06 worse" in far.text


@given(st.lists(st.floats(-0.03, 0.03), min_size=1, max_size=6))
def test_no_row_of_updates_without_a_reason_moves_a_value_beyond_the_margin(
    tmp_path_factory: pytest.TempPathFactory, steps: list[float]
) -> None:
    folder = tmp_path_factory.mktemp("row")
    update(folder, hand_made())
    shift = 0.0
    for step in steps:
        if update(folder, hand_made(shift + step)).code == "stored":
            shift += step
        assert entry(folder).values["share"] == pytest.approx(0.25 + shift, abs=2e-6)
        assert shift <= MARGIN + 2e-6
        assert entry(folder).origin.values["share"] == pytest.approx(0.25)
