"""What a failing test shows: at most eight lines or so, which say what fell, by how much, against what, and what to
type.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.baseline_books import write_entries
from support.hand_made import hand_made
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import GateFailure
from pytest_genderbias.gates.assertions import settle
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.gates.verdicts import (
    WIDTH,
    ItemMove,
    Movement,
    Paragraph,
    advice_paragraphs,
    describe_movement,
    in_lines,
)

MOST_LINES = 10


def stored(tmp_path: Path) -> Baseline:
    """Return a baseline with an entry of a hand-made measurement."""
    first = Baseline(tmp_path, "m", "t.py", update="all")
    first.judge(hand_made(), 0.01)
    write_entries(tmp_path, "m", "t.py", first.entries())
    return Baseline(tmp_path, "m", "t.py")


def shown(judgement: Judgement, width: int = WIDTH) -> list[str]:
    """Return the lines of a failure, with which the whole text begins."""
    lines = in_lines(judgement.shown, width).splitlines()
    assert len(lines) <= MOST_LINES and judgement.text.startswith(in_lines(judgement.shown, None) + "\n")
    return lines


def test_a_regression_says_what_moved_what_was_allowed_and_what_to_type(tmp_path: Path) -> None:
    judged = stored(tmp_path).judge(hand_made(0.1), 0.01)
    lines = shown(judged)
    assert lines[0].startswith("worse: tiny on m: share 0.25 -> 0.35: 0.1 worse (95 %: 0.0469 to 0.1), allowed 0.01")
    assert any(line.startswith("  moved     all 12 items; most: item ") and " -> " in line for line in lines)
    assert any(
        line.startswith("  scored    ") and "those of the baseline of 20" in line and "(of today)" in line
        for line in lines
    )
    assert lines[-2] == "  do        fix the model, or accept what is measured now:"
    assert lines[-1].strip() == 'pytest --bias-model=m=runs/tiny --bias-update --bias-reason="why"'
    assert judged.movement is not None and (judged.movement.items, judged.movement.moved) == (12, 12)
    first = judged.movement.most[0]
    assert first.change > 0 and first.then is not None and first.now is not None and first.now > first.then
    assert Judgement.from_dict(judged.to_dict()) == judged


def test_a_limit_says_by_how_much_it_is_missed_and_names_the_worst_items() -> None:
    judged = judge_limit(hand_made(), Limit(at_most=0.2))
    lines = shown(judged)
    assert lines[0] == "limit broken: tiny on m: share is 0.25, expected at most 0.2: missed by 0.05"
    assert any(
        line.startswith("  worst     item 11 0.4, item 10 ") and line.endswith(", of 12 items") for line in lines
    )
    with pytest.raises(GateFailure) as failure:
        settle(judged)
    assert str(failure.value).splitlines() == lines, "what is raised outside of pytest, too"


def test_a_better_model_is_told_to_refresh_the_baseline(tmp_path: Path) -> None:
    lines = shown(stored(tmp_path).judge(hand_made(-0.05), 0.01))
    assert (
        lines[0]
        == "pass (better: refresh): tiny on m: share 0.25 -> 0.2: 0.05 better (95 %: 0.0234 to 0.05), allowed 0.01, -20"
        " % (sees +4 % of 0.25)"
    )
    assert lines[-2] == "  do        refresh the baseline, or the model may become as much worse unseen:"
    assert lines[-1].strip() == "pytest --bias-model=m=runs/tiny --bias-update"


def test_another_model_is_named_and_nothing_is_to_be_accepted() -> None:
    lines = shown(judge_against(hand_made(0.1), hand_made(model="then"), margin=0.01))
    assert any("those of then; judged for other items" in line for line in lines)
    assert not any("--bias-update" in line for line in lines)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_lines_are_as_wide_as_the_terminal_and_a_command_stays_in_one_piece(tmp_path: Path, width: int) -> None:
    long = replace(stored(tmp_path), command="pytest " + "--bias-option=a=b " * 20 + "--bias-update")
    *lines, command = shown(long.judge(hand_made(0.1), 0.01), width)
    assert all(len(line) <= width for line in lines[1:])
    assert command.count("--bias-option") == 20


def test_hostile_names_are_cut_and_escaped() -> None:
    name = "\x1b[31m\u202e\n" + "x" * 100_000
    movement = Movement(name, 2, 1, (ItemMove(name, 0.1, 0.2, 0.1),))
    text = in_lines([Paragraph("", ""), Paragraph("moved", describe_movement(movement)), *advice_paragraphs(name, "")])
    assert text.replace("\n", "").isprintable() and len(text) < 6000
    measurement = replace(hand_made(), suite=name, model=name)
    text = judge_limit(measurement, Limit(at_most=0.2)).text
    assert text.replace("\n", "").isprintable() and len(text) < 3000


def test_labels_stand_in_one_column() -> None:
    text = in_lines([Paragraph("", "head"), Paragraph("means", "a " * 100), Paragraph("", "do it " * 50, True)], 80)
    head, *lines, command = text.splitlines()
    assert head == "head" and {line[12] for line in lines} == {"a"} and command[12:14] == "do"


def test_the_example_is_of_the_item_that_moved_most(tmp_path: Path) -> None:
    """The sentence of another item may have moved further than its mean over sentences, and was shown."""
    models = [load_model(str(save_checkpoint("gpt2", tmp_path / f"{seed}", seed=seed))) for seed in range(4)]
    then, *others = (measure("lm-occupation", model, cache=None) for model in models)
    for now in others:
        judged = judge_against(now, then, 0.0)
        assert judged.movement is not None
        (example,) = (line for line in in_lines(judged.shown, 300).splitlines() if line.startswith("  example "))
        assert f" {judged.movement.most[0].name} " in f"{example} "
