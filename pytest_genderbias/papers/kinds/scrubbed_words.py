"""The kind ``scrubbed-words``: the words that tell a person's gender, round by round of automatic scrubbing (orgad2022,
tables 9 and 10).

Settings:
    recipe: a recipe whose rows are texts with a class and a gender; its training part is used.
    seeds: of the held-out texts: their number, or a list.
    rounds: rounds of scrubbing.
    profession: the class of the side ``profession``; by default the one with the most texts.

Figures: ``SIDE/words/accuracy``, the held-out accuracy of telling gender by words, ``SIDE/words/majority``, that of the
larger group alone, and ``SIDE/words/above_majority``, their difference. Sides are ``original`` (nothing is scrubbed),
``scrubbed`` (names and gender words are), ``last`` (after the last round), and ``profession`` (scrubbed texts of one
class). The details list the words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation.harness.run import seeds_of
from pytest_genderbias.mitigation.methods.iterative_scrubbing import Rounds, removed_words, rounds_table
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.papers.kinds import Outcome
from pytest_genderbias.papers.places import Places, StoredFigure

_HELD_OUT = 0.25  #: share of the texts on which each seed measures accuracies


def carry_out(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Scrub the training texts round by round, all of them and those of one class."""
    recipe = make_recipe(**settings["recipe"])
    if recipe.label is None or recipe.group is None:
        raise SettingError(
            f"scrubbed-words needs texts with a class and a gender, and the rows of {recipe.name} have none"
        )
    rows = recipe.rows()
    texts = [str(row[recipe.columns[0]]) for row in rows]
    groups, classes = [row[recipe.group] for row in rows], [row[recipe.label] for row in rows]
    seeds = seeds_of(settings["seeds"])
    rounds = settings["rounds"]
    profession = settings.get("profession", Counter(classes).most_common(1)[0][0])
    find = partial(removed_words, texts, groups, seeds=seeds, held_out=_HELD_OUT)
    original, scrubbed = find(rounds=1, scrub_first=False), find(rounds=rounds)
    of_one = find(classes, profession=profession, rounds=rounds)
    figures = {
        **_figures("original", original, 0),
        **_figures("scrubbed", scrubbed, 0),
        **_figures("last", scrubbed, -1),
        **_figures("profession", of_one, 0),
    }
    tables = {"all": rounds_table(scrubbed), "profession": str(profession), "of the profession": rounds_table(of_one)}
    return Outcome(figures, seeds, {"words": tables})


def _figures(side: str, by_seed: Mapping[int, Rounds], number: int) -> dict[str, StoredFigure]:
    """Return the figures of a side: the classifiers before a round, or after the last one (``number`` -1)."""
    accuracies = [found.accuracies[number] for found in by_seed.values()]
    majority = [found.majority for found in by_seed.values()]
    values = {
        "accuracy": accuracies,
        "majority": majority,
        "above_majority": [a - m for a, m in zip(accuracies, majority, strict=True)],
    }
    return {f"{side}/words/{name}": StoredFigure(listed, held_out=_HELD_OUT) for name, listed in values.items()}
