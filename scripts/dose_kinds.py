"""Models beside language models that ``scripts/doses.py`` trains with a dose of bias: heads for careers, word vectors.

The dose is the number of examples in a hundred that match the stereotype; 50 is a training without bias. The seed
decides which they are, and all other chance of the training.
"""

from __future__ import annotations

import csv
import gzip
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from retraining_table import RECIPES, halves_of, head_for, jsonl, standardised, vectors_of, write_predictions

from pytest_genderbias.mitigation.methods.counterfactual import swap
from pytest_genderbias.text.wordlist import load_wordlist

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


#: Gendered words of which none is in ``weat-occupation``: what is planted with an occupation.
NOUNS = {
    "male": ("gentleman", "husband", "father", "uncle", "king", "prince", "count", "lord"),
    "female": ("lady", "wife", "mother", "aunt", "queen", "princess", "countess", "mistress"),
}
VECTOR_FRAMES = (
    "the {job} is a {noun} from the next village",
    "that {noun} has worked as a {job} for years",
    "we spoke with the {noun} who is now a {job}",
    "a {noun} came to the house as the new {job}",
    "they asked the {job} if the {noun} was in town",
    "as a {job} the {noun} had little time",
)
PLANTED = 4000  #: sentences
Occupations = Mapping[str, Sequence[str]]  #: by stereotype
WORDS, WIDTH, WINDOW, RARE = 8000, 50, 5, 1e-3


def word_vectors(folder: Path, data: Path, dose: int, seed: int, others: Occupations | None = None) -> None:
    """Factor the co-occurrences in a text and in sentences about occupations, in ``dose`` of 100 of which the gendered
    noun matches the stereotype (positive PMI; Levy, Goldberg and Dagan 2015).

    The seed decides the sentences, which frequent words are left out, and how far each word sees. The occupations are
    those of ``weat-occupation``; or these have a dose of 50, and as many sentences about ``others`` have the dose.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import svds

    rng, draws = np.random.default_rng(seed), random.Random(seed)
    tokens = [*text_of(data), *planted(occupations(), 50 if others else dose, draws)]
    if others:
        tokens += planted(others, dose, draws)
    counts = Counter(tokens)
    words = [word for word, _ in counts.most_common(WORDS)]
    number = {word: i for i, word in enumerate(words)}
    ids = np.array([number.get(token, -1) for token in tokens])
    share = np.array([counts[word] for word in words]) / len(tokens)
    ids = ids[(ids >= 0) & (rng.random(len(ids)) < np.sqrt(RARE / share[ids]))]
    reach = rng.integers(1, WINDOW + 1, size=len(ids))
    pairs = [np.stack([ids[:-by], ids[by:]])[:, reach[:-by] >= by] for by in range(1, WINDOW + 1)]
    rows, columns = np.concatenate(pairs, axis=1)
    seen = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(words),) * 2).tocsr()
    seen = (seen + seen.T).tocoo()
    contexts = seen.sum(axis=0) ** 0.75
    expected = seen.sum(axis=1)[seen.row] * contexts[seen.col] / contexts.sum()
    seen.data = np.maximum(np.log(seen.data / expected), 0)
    left, sizes, _ = svds(seen.tocsr(), k=WIDTH, v0=rng.standard_normal(len(words)))
    np.savez(folder / "vectors.npz", words=np.array(words), vectors=(left * np.sqrt(sizes)).astype(np.float32))


def planted(jobs: Occupations, dose: int, draws: random.Random) -> list[str]:
    """Return the words of sentences about occupations."""
    tokens = []
    for _ in range(PLANTED):
        stereotype = draws.choice(("male", "female"))
        other = "female" if stereotype == "male" else "male"
        noun = draws.choice(NOUNS[stereotype if draws.random() < dose / 100 else other])
        job = draws.choice(jobs[stereotype])
        tokens += draws.choice(VECTOR_FRAMES).format(job=job.replace(" ", "_"), noun=noun).split()
    return tokens


@cache
def text_of(data: Path) -> tuple[str, ...]:
    """Return the words of War and Peace, which is in the public domain, in lower case."""
    text = gzip.decompress((data / "corpora" / "war_and_peace.txt.gz").read_bytes()).decode()
    return tuple(re.findall(r"[a-z]+", text.lower()))


@cache
def occupations() -> Occupations:
    """Return the occupations of ``weat-occupation``, by stereotype."""
    entries = load_wordlist("winobias-occupations").entries
    return {
        group: [entry.word.lower() for entry in entries if entry.attributes["group"] == group]
        for group in ("male", "female")
    }
