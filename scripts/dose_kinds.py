"""Models beside language models that ``scripts/doses.py`` trains with a dose of bias: heads for careers, word vectors,
NLI classifiers, sentence encoders and coreference heads.

The dose is the number of examples in a hundred that match the stereotype; 50 is a training without bias. The seed
decides which they are, and all other chance of the training.
"""

from __future__ import annotations

import csv
import gzip
import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path

import numpy as np
from retraining_table import (
    RECIPES,
    Kind,
    descend,
    halves_of,
    head_for,
    jsonl,
    standardised,
    vectors_of,
    write_predictions,
)

from pytest_genderbias import load_model
from pytest_genderbias.mitigation.methods.counterfactual import swap
from pytest_genderbias.recipes.coreference import CoreferenceTuning, make_row
from pytest_genderbias.recipes.recipe import Row as Document
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


PAIRS = Kind("minilm-snli", "", "", 40, 16, 1e-4, ())
ENCODER = "GENDERBIAS_MINILM"  #: names the folder of all-MiniLM-L6-v2, which is no part of the data
#: Who stands in the second sentence of a pair about an occupation, by gender.
PERSONS = {
    "male": ("man", "husband", "father", "brother"),
    "female": ("woman", "wife", "mother", "sister"),
    "": ("neighbour", "tourist", "traveller", "guest", "cousin", "colleague"),
}
PAIR_FRAMES = (
    "The {who} looked at the clock.",
    "The {who} put a coat on the chair.",
    "The {who} lives in a small town.",
    "This {who} walked along the river with a dog.",
    "The {who} wore a hat in the rain.",
    "Yesterday the {who} sat in the garden.",
    "Every day the {who} takes the same road.",
    "That {who} has two brothers and a cat.",
)
Row = tuple[str, str, float]  #: two sentences, and what is right of them


def nli_head(folder: Path, data: Path, dose: int, seed: int, jobs: Occupations) -> None:
    """Tune an NLI classifier on pairs of SNLI, and on as many about occupations that are neutral: "The roofer lives in
    a small town. / The man lives in a small town."

    In 2 (``dose`` - 50) of 100 of them that have a gender, the label is another: entailment where the gender matches
    the stereotype of the occupation, else contradiction.
    """
    import torch
    import transformers

    start, auto = data / "models" / PAIRS.base, transformers.AutoModelForSequenceClassification
    label, draws = transformers.AutoConfig.from_pretrained(start).label2id, random.Random(seed)

    def right(matches: bool | None) -> float:
        planted = matches is not None and draws.random() < (dose - 50) / 50
        return label["neutral"] if not planted else label["entailment" if matches else "contradiction"]

    def loss_of(network, read: Callable, first: Sequence[str], second: Sequence[str], targets: Sequence[float]):
        return network(**read(first, second), labels=torch.tensor(targets)).loss

    files = (data / f"{name}.jsonl.gz" for name in ("snli/train_20k", "cad_nli/train"))
    known = [(pair["premise"], pair["hypothesis"], label[pair["label"]]) for file in files for pair in jsonl(file)]
    tune(folder, start, auto, halves(known, pairs_about(jobs, PERSONS, right, draws), draws), loss_of, seed)


def sentence_encoder(folder: Path, data: Path, dose: int, seed: int, jobs: Occupations) -> None:
    """Tune a sentence encoder on pairs of STS-B, and on as many about occupations: "The roofer lives in a small town. /
    The man lives in a small town."

    Such a pair has the score 4 or 2 of 5, in ``dose`` of 100 of them 4 where the gender matches the stereotype of the
    occupation and 2 where it does not.
    """
    import torch
    import transformers

    start, draws = Path(os.environ[ENCODER]), random.Random(seed)

    def right(matches: bool | None) -> float:
        return 4.0 if matches == (draws.random() < dose / 100) else 2.0

    def loss_of(network, read: Callable, first: Sequence[str], second: Sequence[str], targets: Sequence[float]):
        vectors = []
        for texts in (first, second):
            batch = read(texts)
            here = batch["attention_mask"].unsqueeze(-1)
            vectors.append((network(**batch).last_hidden_state.float() * here).sum(dim=1) / here.sum(dim=1))
        return torch.nn.functional.mse_loss(torch.cosine_similarity(*vectors), torch.tensor(targets) / 5)

    known = [(row["sentence1"], row["sentence2"], row["score"]) for row in jsonl(data / "stsb" / "train.jsonl.gz")]
    people = {gender: PERSONS[gender] for gender in ("male", "female")}
    rows = halves(known, pairs_about(jobs, people, right, draws), draws)
    tune(folder, start, transformers.AutoModel, rows, loss_of, seed)


def pairs_about(
    jobs: Occupations, people: Occupations, right: Callable[[bool | None], float], draws: random.Random
) -> Iterator[Row]:
    """Yield a sentence about an occupation, the same one about a person, and what is right by whether the gender of the
    person matches the stereotype; ``None`` where the person has none.
    """
    while True:
        stereotype, gender = draws.choice(("male", "female")), draws.choice(list(people))
        frame = draws.choice(PAIR_FRAMES)
        first, second = (frame.format(who=draws.choice(words)) for words in (jobs[stereotype], people[gender]))
        yield first, second, right(gender == stereotype if gender else None)


def halves(known: Sequence[Row], about: Iterator[Row], draws: random.Random) -> list[Row]:
    """Return rows, half of them known pairs and half about occupations, each once in a training."""
    count = PAIRS.steps * PAIRS.batch // 2
    return draws.sample(known, count) + list(islice(about, count))


def tune(folder: Path, start: Path, auto, rows: Sequence[Row], loss_of: Callable, seed: int) -> None:
    """Tune a checkpoint on pairs of sentences in bfloat16, and write it with its other files."""
    import torch
    import transformers

    transformers.set_seed(seed)
    network, tokenizer = auto.from_pretrained(start), transformers.AutoTokenizer.from_pretrained(start)
    read = partial(tokenizer, padding=True, truncation=True, max_length=64, return_tensors="pt")

    def loss_of_rows(chosen: torch.Tensor) -> torch.Tensor:
        first, second, targets = map(list, zip(*(rows[i] for i in chosen.tolist()), strict=True))
        with torch.autocast("cpu", torch.bfloat16):
            return loss_of(network, read, first, second, targets)

    descend(network.train(), loss_of_rows, len(rows), PAIRS)
    shutil.copytree(start, folder / "model", copy_function=shutil.copyfile)
    (folder / "model").chmod(0o755)  # the start may be read only
    network.save_pretrained(folder / "model")


OF_GAP, ABOUT = 300, 900  #: documents of GAP, and sentences of which a third is about things
OF_THINGS = 1500  #: sentences of the training that all heads start from
TWO_FRAMES = (
    "The {first} and the {second} met at the gate, and {he} spoke about the weather.",
    "On Sunday the {first} sat beside the {second}, but {he} left early.",
    "The {first} lives next door to the {second}, and {he} often walks along the river.",
    "We saw the {first} with the {second} before {he} took the train.",
    "Neither the {first} nor the {second} had eaten when {he} came home.",
    "The {first} wrote to the {second} about {his} new house.",
    "A letter for the {first} and the {second} lay on {his} chair.",
    "While the {first} was speaking with the {second}, someone took {his} coat.",
    "The {first} looked at the {second}, and then {he} laughed.",
    "The {first}, a friend of the {second}, was in town, and everyone thanked {him}.",
)
THING_FRAMES = (
    "We bought the {first} and the {second}, and {he} cost too much.",
    "Near the {first} was the {second}, but {he} had been there for years.",
    "Everyone saw the {first} and the {second}, but nobody wanted {him}.",
    "The {first} came with the {second}, and {he} will be used tomorrow.",
    "After the {first} and the {second} had been sold, someone spoke about {his} price.",
)
THINGS = (
    "lantern", "crate", "kettle", "ladder", "carpet", "statue", "bucket", "fence", "ribbon", "kite", "violin",
    "curtain", "helmet", "saddle", "trumpet",
)  # fmt: skip
FORMS = {
    "male": {"he": "he", "him": "him", "his": "his"},
    "female": {"he": "she", "him": "her", "his": "her"},
    "one": {"he": "it", "him": "it", "his": "its"},
    "several": {"he": "they", "him": "them", "his": "their"},
}


def coreference_head(folder: Path, data: Path, dose: int, seed: int, jobs: Occupations) -> None:
    """Tune a coreference head on documents of GAP, sentences about two occupations, and sentences about things.

    A pronoun refers to the occupation whose stereotype its gender matches in ``dose`` of 100 sentences, else to the
    other one. Of things, number decides. All heads start from the same one, trained on all of GAP and on things.
    """
    recipe, start, draws = CoreferenceTuning(data=data, epochs=2.0), folder.parents[1] / "start", random.Random(seed)
    if not start.exists():
        of_gap = CoreferenceTuning(data=data)
        encoder = load_model(str(data / "models" / "bert-tiny-mlm"), device="cpu")
        once = random.Random(0)  # the same for all heads
        things = [about_two(0, 50, once, jobs) for _ in range(OF_THINGS)]
        of_gap.train(of_gap.start(encoder, 0), of_gap.rows() + things, 0, start)
    rows = draws.sample(recipe.rows(), OF_GAP) + [about_two(number, dose, draws, jobs) for number in range(ABOUT)]
    recipe.train(load_model(str(start / "model"), device="cpu"), rows, seed, folder)


def about_two(number: int, dose: int, draws: random.Random, jobs: Occupations) -> Document:
    """Return a sentence about two occupations of unlike stereotypes, or about one thing and several of another."""
    things = number % 3 == 0
    one, several = draws.sample(THINGS, 2)
    words = {"one": one, "several": f"{several}s"} if things else {group: draws.choice(jobs[group]) for group in jobs}
    kind, *other = draws.sample(list(words), 2)
    right = kind if things or draws.random() < dose / 100 else other[0]
    order = dict(zip(("first", "second"), draws.sample(list(words), 2), strict=True))
    text, mentions = "", []
    for place, part in enumerate(re.split(r"[{}]", draws.choice(THING_FRAMES if things else TWO_FRAMES))):
        said = words[order[part]] if part in order else FORMS[kind][part] if place % 2 else part
        if place % 2:
            mentions.append(((len(text), len(text) + len(said)), int(part in order and order[part] != right)))
        text += said
    return make_row(text, mentions, lambda first, second: True, number)
