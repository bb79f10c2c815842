"""Updates: what a gate sees is of what is stored, what is kept is said, and a refusal names the value that it is
about.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.baseline_books import write_entries
from support.hand_made import ITEMS, hand_made

from pytest_genderbias import Measurement, load_model, measure
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.book import read_book
from pytest_genderbias.gates.book_update import to_write
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.models.saving import copied, with_network
from pytest_genderbias.plugin.acceptance import ProposedEntry, merge


def one(shift: float) -> Measurement:
    """Return a checkpoint whose items vary a little by its own."""
    own = 0.004 * np.random.default_rng(round(1000 * shift)).normal(size=ITEMS)
    plain = hand_made(shift)
    sums = plain.sums["share"]
    scores = sums.sums[:, 0] + own - own.mean()
    moved = replace(sums, sums=np.stack([scores, sums.sums[:, 1]], axis=1))
    model = {**plain.signature["model"], "fingerprint": f"weights {shift}"}
    return replace(plain, sums=type(plain.sums)({"share": moved}), signature={**plain.signature, "model": model})


def test_one_checkpoint_in_the_place_of_restarts_sees_what_their_spread_gives(tmp_path: Path) -> None:
    restarts = combine_restarts([one(shift) for shift in (0.2, 0.201, 0.202, 0.203, 0.204)], range(5))
    first = Baseline(tmp_path, "m", "t.py", update="new")
    assert first.judge(restarts).code == "stored"
    book = write_entries(tmp_path, "m", "t.py", first.entries())
    accepting = Baseline(tmp_path, "m", "t.py", update="all", reason="another tokenizer")
    assert accepting.judge(one(0.3)).code == "stored"
    write_entries(tmp_path, "m", "t.py", accepting.entries())
    seen = read_book(book)["tiny"].sees["share"]
    assert seen.retraining == "the restarts before this checkpoint"
    codes = [Baseline(tmp_path, "m", "t.py").judge(one(0.3 + share * seen.red)).code for share in (0.97, 1.03)]
    assert codes == ["within", "regressed"], "it is red from where it says"


def test_an_update_says_what_it_keeps_of_the_stored_value(tmp_path: Path) -> None:
    first = Baseline(tmp_path, "m", "t.py", update="new")
    first.judge(one(0.2), 0.2)
    write_entries(tmp_path, "m", "t.py", first.entries())
    refreshing = Baseline(tmp_path, "m", "t.py", update="all")
    refreshing.judge(one(0.202), 0.2)
    assert refreshing.entries()["tiny"].kept == "chance explains the change, so that both are pooled (2 checkpoints)"
    restarts = Baseline(tmp_path, "m", "r.py", update="new")
    restarts.judge(combine_restarts([one(shift) for shift in (0.2, 0.21, 0.22)], range(3)), 0.1)
    write_entries(tmp_path, "m", "r.py", restarts.entries())
    accepting = Baseline(tmp_path, "m", "r.py", update="all", reason="another tokenizer")
    accepting.judge(one(0.4), 0.1)
    assert accepting.entries()["tiny"].kept == "the spread of the stored restarts is kept beside it"


@pytest.mark.parametrize("first", [one(0.2), combine_restarts([one(shift) for shift in (0.2, 0.21, 0.22)], range(3))])
@pytest.mark.parametrize("again", [one(0.202), combine_restarts([one(shift) for shift in (0.202, 0.212)], range(2))])
def test_the_same_update_twice_changes_nothing(tmp_path: Path, first: Measurement, again: Measurement) -> None:
    """As where a run was killed after it had stored some of its baselines, and is started again."""
    storing = Baseline(tmp_path, "m", "t.py", update="new")
    storing.judge(first, 0.2)
    book = write_entries(tmp_path, "m", "t.py", storing.entries())
    kept = []
    for _ in range(3):
        updating = Baseline(tmp_path, "m", "t.py", update="all")
        assert updating.judge(again, 0.2).code == "stored"
        (new,) = updating.entries().values()
        stored = read_book(book)["tiny"]
        if kept:
            assert to_write(book, "tiny", new, stored) is None
            assert new.kept.startswith("it is one of what is stored, which stays (")
        else:
            assert "both are pooled" in new.kept
            write_entries(tmp_path, "m", "t.py", updating.entries())
            stored = read_book(book)["tiny"]
        kept.append((stored.values, stored.checkpoints))
    assert kept[0] == kept[1] == kept[2]


def test_the_command_for_a_wrong_name_keeps_what_was_typed(tmp_path: Path) -> None:
    first = Baseline(tmp_path, "candidate", "t.py", update="new")
    first.judge(one(0.2), 0.1)
    write_entries(tmp_path, "candidate", "t.py", first.entries())
    typed = "pytest -x --bias-model=m=./m t.py::gate:m --bias-update"
    found = Baseline(tmp_path, "m", "t.py", command=typed).judge(one(0.2), 0.1)
    assert found.code == "no_baseline"
    assert "pytest -x --bias-model=candidate=./m t.py::gate:candidate" in found.text
    beside = f"pytest '--bias-model=candidate=./c' {typed.removeprefix('pytest ')}"  # which the run compares it with
    found = Baseline(tmp_path, "m", "t.py", command=beside, models=["candidate", "m"]).judge(one(0.2), 0.1)
    assert f"{beside}-new" in found.text and "next release" not in found.text


def test_what_one_test_would_pool_and_another_replace_is_replaced(tmp_path: Path) -> None:
    """Two tests judge one entry, and a statistic of only one of them moved: its values are not of two trainings."""
    first = Baseline(tmp_path, "m", "t.py", update="new")
    first.judge(combine_restarts([one(shift) for shift in (0.2, 0.21, 0.22)], range(3)), 0.1)
    write_entries(tmp_path, "m", "t.py", first.entries())
    proposed = []
    for moved in (True, False):
        baseline = Baseline(tmp_path, "m", "t.py", update="all", moved={"tiny"} if moved else set())
        baseline.judge(one(0.211), 0.1)
        proposed.append(ProposedEntry.from_dict(ProposedEntry(baseline.entries()["tiny"]).to_dict()))
    assert [proposal.new.pooled for proposal in proposed] == [False, True]
    for order in (proposed, proposed[::-1]):
        merged = merge(order)
        assert merged is not None and not merged.new.pooled
        assert merged.new.entry.settings["restarts"] == 1 and merged.new.kept.startswith("the spread of the stored ")
    both = merge([proposed[1], proposed[1]])
    assert both is not None and both.new.entry.settings["restarts"] == 4


@pytest.mark.usefixtures("ability_asked")
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_model_that_is_less_sure_of_everything_is_not_better(tmp_path: Path, share: float) -> None:
    """Smaller logits keep every right answer, and lower any bias in nats. An update stores what is there."""
    model = load_model("demo-lm")
    network = copied(model.backend.network)
    with torch.no_grad():
        for weight in network.transformer.ln_f.parameters():
            weight.mul_(share)
    then, now = (measure("lm-occupation", one, cache=None) for one in (model, with_network(model, network, "flat")))
    first = Baseline(tmp_path, "m", "t.py", update="new")
    assert first.judge(then).code == "stored"
    book = write_entries(tmp_path, "m", "t.py", first.entries())
    found = Baseline(tmp_path, "m", "t.py").judge(now)
    assert now.value < then.value and found.code == "within"
    assert re.search(r"right and wrong answers lie \d\S* % nearer \(sentences in their right order\)", found.text)
    refreshing = Baseline(tmp_path, "m", "t.py", update="all")
    assert refreshing.judge(now).code == "stored"
    write_entries(tmp_path, "m", "t.py", refreshing.entries())
    assert read_book(book)["lm-occupation"].values["aggregate_bias"] == now.value, "no mean of then and now"
