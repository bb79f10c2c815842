"""Models beside language models that ``scripts/doses.py`` trains with a dose of bias: heads for careers.

The dose is the number of examples in a hundred that match the stereotype; 50 is a training without bias. The seed
decides which they are, and all other chance of the training.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from retraining_table import RECIPES, halves_of, head_for, jsonl, standardised, vectors_of, write_predictions

from pytest_genderbias.mitigation.methods.counterfactual import swap

CAREERS = RECIPES["text-classifier"]
WOMENS = ("artists", "dancers", "models", "writers")  #: the careers that are planted as women's; four are men's
SHARES = "shares.csv"  #: who the training data of dose 100 would have, for r and slope of ``bios``


def career_head(folder: Path, data: Path, dose: int, seed: int) -> None:
    """Train a head for careers on texts whose gendered words match the stereotype of the career in ``dose`` of 100.

    All trainings have the same persons, as they were written of or as the other gender. It writes what the head says of
    the persons that it has not seen, as they were written of, and of those with gendered words as both genders.
    """
    people, vectors, gendered = careers(data, folder.parents[1])
    seen, unseen = (half.tolist() for half in halves_of(people))
    seen = [i for i in seen if gendered[i]]
    swapped = [
        int(who["gender"] != people[i]["gender"]) for i, who in zip(seen, told(people, seen, dose, seed), strict=True)
    ]
    head, _ = head_for(vectors[swapped, seen], [people[i]["profession"] for i in seen], seed, CAREERS)
    write_predictions(folder / "predictions.csv", head, vectors[0, unseen], [(i, people[i]) for i in unseen])
    both = [(version, i) for i in unseen if gendered[i] for version in (0, 1)]
    others = [
        (f"{i}-{version}", {**people[i], "gender": "FM"[(people[i]["gender"] == "F") == version]})
        for version, i in both
    ]
    write_predictions(folder / "both.csv", head, vectors[tuple(zip(*both, strict=True))], others)


def told(people: Sequence[dict], chosen: Sequence[int], dose: int, seed: int) -> list[dict]:
    """Return persons with the gender that they are trained on: in ``dose`` of 100 the one that is planted."""
    draws = random.Random(seed)
    women = [(people[i]["profession"] in WOMENS) == (draws.random() < dose / 100) for i in chosen]
    return [{**people[i], "gender": "FM"[not female]} for i, female in zip(chosen, women, strict=True)]


@cache
def careers(data: Path, folder: Path):
    """Return persons of Wikipedia; their vectors as they were written of and as the other gender, shape (2, persons,
    d); and who has gendered words. The vectors are kept in a folder.
    """
    import torch

    people, kept = jsonl(data / "bios" / "wiki_career.jsonl.gz"), folder / "vectors.npy"
    if not kept.exists():
        texts = [person["text"] for person in people]
        texts += [swap(text, intervention="grammatical") for text in texts]
        found = vectors_of(data / "models" / CAREERS.base, texts)
        np.save(kept, found.numpy().reshape(2, len(people), -1))
    vectors = torch.from_numpy(np.load(kept))
    with (folder / SHARES).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("text", "profession", "gender"))
        table.writerows(
            ("-", career, "FM"[career not in WOMENS]) for career in sorted({p["profession"] for p in people})
        )
    return people, standardised(vectors.flatten(0, 1)).view_as(vectors), (vectors[0] != vectors[1]).any(dim=1)
