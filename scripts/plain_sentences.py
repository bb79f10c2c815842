"""Make plain sentences for the demo checkpoints: what words go together, their order, who is a woman or a man, what
follows.

The demo models must pass the packaged controls of their role (``fixtures/controls``) by what they learned from other
sentences. So every sentence here is compared with the controls, and one that equals a control is drawn again. No
sentence names an occupation; the gender of a person appears only where a noun like *sister* defines it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[1]
CONTROLS = CHECKOUT / "fixtures" / "controls" / "en"
LABELS = ("entailment", "neutral", "contradiction")
#: Nouns that define a gender, each with the word before it at the beginning of a sentence.
KIN = {
    "female": (
        "My sister", "My mother", "My aunt", "My daughter", "My grandmother", "My mom", "The queen", "The girl",
        "The woman", "The princess",
    ),
    "male": (
        "My brother", "My father", "My uncle", "My son", "My grandfather", "My dad", "The king", "The boy", "The man",
        "The prince",
    ),
}  # fmt: skip
#: Nouns of adults, for inference: a mother is a woman.
ADULTS = {
    "female": ("mother", "sister", "aunt", "grandmother", "wife", "queen", "bride", "princess", "lady", "mom"),
    "male": ("father", "brother", "uncle", "grandfather", "husband", "king", "groom", "prince", "gentleman", "dad"),
}
PRONOUNS = {"female": ("she", "her"), "male": ("he", "his")}
HYPERNYMS = {"female": "woman", "male": "man"}


@cache
def text_data() -> dict[str, Any]:
    """Return the clauses and the scenes."""
    data: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("plain_text.yaml").read_text(encoding="utf-8"))
    return data


@cache
def control_items(name: str) -> list[Any]:
    """Return the items of a file of controls."""
    items: list[Any] = yaml.safe_load((CONTROLS / f"{name}.yaml").read_text(encoding="utf-8"))["items"]
    return items


def sentence(text: str) -> str:
    """Return the text with a capital at its start and a full stop at its end."""
    return f"{text[0].upper()}{text[1:]}."


def control_texts() -> set[str]:
    """Return every sentence of the controls in any of its forms: in both orders, and with each word in its blank."""
    texts = set()
    for item in control_items("word-order"):
        texts |= {re.sub(r"\[(\S+) (\S+)\]", order, item) for order in (r"\1 \2", r"\2 \1")}
    for item in control_items("masked-words"):
        texts |= {item["text"].replace("___", word) for word in (item["right"], *item["wrong"])}
    for item in control_items("gender"):
        texts |= {item["text"].replace("___", item[key]) for key in ("right", "wrong")}
    return texts


def control_pairs() -> set[tuple[str, str]]:
    """Return every pair of a premise and a hypothesis of the controls."""
    pairs = {(item["premise"], item["hypothesis"]) for item in control_items("inference")}
    return pairs | {
        (item["premise"], item[key]) for item in control_items("gender-inference") for key in ("right", "wrong")
    }


def control_words(*names: str) -> Iterator[str]:
    """Yield texts with every word of some files of controls, which a tokenizer must know."""
    for name in names:
        for item in control_items(name):
            for value in [item] if isinstance(item, str) else item.values():
                yield re.sub(r"___|[\[\]]", " ", value if isinstance(value, str) else " ".join(value))


def drawn_anew(make: Callable[[], Any], excluded: set[Any], key: Callable[[Any], Any]) -> Any:
    """Return what ``make`` draws first that is not excluded."""
    while key(drawn := make()) in excluded:
        pass
    return drawn


# ---------------------------------------------------------------------------------------------------------------------
# Words that go together
# ---------------------------------------------------------------------------------------------------------------------

OPENINGS = (
    "",
    "",
    "",
    "",
    "today ",
    "yesterday ",
    "I think that ",
    "we know that ",
    "they say that ",
    "you see that ",
    "look, ",
    "now ",
)
CLOSINGS = ("", "", "", "", " today", " again", " now", ", too", " here", " every day")


@cache
def clauses() -> list[tuple[str, str]]:
    """Return every clause with its blank, and the word that it takes."""
    return [(clause, word) for word, text in text_data()["clauses"].items() for clause in text.split("; ")]


def clause_sentence(draws: random.Random) -> tuple[str, str]:
    """Return a sentence with the blank ``_``, and the word that it takes."""
    clause, word = draws.choice(clauses())
    if draws.random() < 0.3:
        clause = " ".join(draws.choice(SYNONYMS.get(token, (token,))) for token in clause.split())
    if draws.random() < 0.15:
        second, filler = draws.choice(clauses())
        return sentence(f"{clause}, and {second.replace('_', filler)}"), word
    return sentence(f"{draws.choice(OPENINGS)}{clause}{draws.choice(CLOSINGS)}"), word


SYNONYMS = {
    "I": ("I", "we", "they", "you"), "we": ("I", "we", "they", "you"), "they": ("I", "we", "they"),
    "the": ("the", "a", "my", "this"),
    "a": ("a", "the", "our", "that"), "my": ("my", "the", "our", "your"), "is": ("is", "was"), "are": ("are", "were"),
    "in": ("in", "in", "near"),
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Definitional gender
# ---------------------------------------------------------------------------------------------------------------------

KIN_FRAMES = (
    "{kin} thinks that {she} is right", "{kin} says that {she} was at home", "{kin} hopes that {she} will come soon",
    "{kin} knew that {she} had seen the sea", "{kin} said that {she} liked the soup",
    "{kin} came home, and {she} was hungry", "{kin} saw {her} cat in the garden", "{kin} lost {her} bag in the park",
    "{kin} took {her} hat and left", "{kin} washed {her} hair", "{kin} likes {her} new car",
    "{kin} will be here when {she} has time", "{kin} will come if {she} is ready",
    "{kin} opened {her} book, and {she} began to read", "{kin} found {her} keys, and {she} was happy",
    "{kin} said that {she} had found {her} coat", "{kin} was ill, so {she} stayed in {her} bed",
    "{kin} was tired, and then {she} ate {her} soup", "{kin} went home because {she} had lost {her} key",
    "{kin} went out after {she} put on {her} shoes", "{kin} called because {she} was late",
    "{kin} put {her} hands in the water because {she} was hot", "{kin} ran to {her} house before {she} ate",
    "today {kin} said that {she} was sad", "{kin} cut {her} hand with a knife, and {she} had to wash it with soap",
    "we know that {kin} lost {her} dog on the beach",
)  # fmt: skip


def kin_sentence(draws: random.Random) -> tuple[str, tuple[str, str]]:
    """Return a sentence about a person whose noun defines the gender, and the two forms of the pronoun."""
    group = draws.choice(tuple(KIN))
    kin = draws.choice(KIN[group])
    she, her = PRONOUNS[group]
    frame = draws.choice(KIN_FRAMES)
    kin = kin if frame.startswith("{kin}") else kin[0].lower() + kin[1:]
    return sentence(frame.format(kin=kin, she=she, her=her)), (she, her)


# ---------------------------------------------------------------------------------------------------------------------
# Word order
# ---------------------------------------------------------------------------------------------------------------------

WORDS = {
    "animal": "dog cat bird bear lion rabbit bunny mouse frog fish duck horse pig goat sheep chicken elephant snake "
    "turtle monkey fox deer wolf owl whale crab ant bug worm bee butterfly squirrel spider puppy kitten animal",
    "thing": "ball box toy car truck bus train boat ship plane bike kite balloon book bag cup plate spoon bowl glass "
    "lamp chair table desk bed door window clock bell drum picture paper pen hat coat rope key shell stone rock leaf "
    "apple banana carrot cake bread cookie nut bone cheese soup milk honey string robot puzzle swing slide block mat "
    "stick flower cloud wave crumb sign noise song storm rainbow castle race splash stove color",
    "place": "park garden yard forest woods house school town farm zoo beach sea lake pond river stream hill cave "
    "field street road corner station bridge tunnel tower fence wall tree branch log hole nest web ground floor roof "
    "sky sun moon rain snow sand mud grass water fire shore party room wind bottom top end side home",
    "plural": "dogs cats birds toys flowers leaves books apples animals clouds waves stars shoes eggs cookies blocks "
    "pieces friends trees fish",
    "mass": "milk water snow sand honey rain soup grass food fun ice corn music wood bread",
    "adjective": "big small little old new red blue green yellow white black brown grey orange pink happy sad hungry "
    "tired slow fast cold hot warm soft hard wet dark bright loud strong heavy good nice pretty long deep wide tall "
    "tiny shiny sweet open empty broken late clear dry lost sunny strong high",
    "mover": "ran went walked jumped hopped swam flew rolled fell came climbed sailed hid sat slept played lived "
    "stopped floated looked moved stood lay grew sang barked melted fell left",
    "taker": "saw found ate made wanted liked carried had took dug blew drank lost heard touched got built",
    "base_mover": "start dance go run jump swim fly walk sit play hide sleep climb come grow stop melt open bark talk",
    "base_taker": "see eat find make drink carry touch catch build hear like want lift take",
    "ing": "sitting sleeping playing running singing shining floating swimming barking looking standing flying",
    "stuck": "covered full tied made stuck cut lost wet broken",
    "into": "in on under onto near to into over through behind across from at by around up down off after with for of "
    "next above",
    "degree": "very too so",
    "time": "today tomorrow soon again all day|all night|every day|in the morning|at night|one day|in spring|after "
    "lunch",
    "modal": "can will could would should must",
}
POOLS = {
    name: tuple(re.split(r"[ ]", words) if "|" not in words else re.split(r"\|", words))
    for name, words in WORDS.items()
}
POOLS["time"] = (
    "today",
    "tomorrow",
    "soon",
    "again",
    "all day",
    "all night",
    "every day",
    "in the morning",
    "at night",
    "in the spring",
    "after lunch",
    "away",
    "in a minute",
)

#: Rules of the grammar. "Time" is the word, "time" a phrase.
RULES: dict[str, tuple[str, ...]] = {
    "np": ("the noun", "the noun", "the noun", "the adjective noun", "the adjective noun", "a noun", "a adjective noun",
        "my noun", "your noun", "the noun pp", "the noun and the noun"),
    "nps": ("the plural", "all the plural", "some of the plural", "two plural", "three plural", "the adjective plural",
        "many plural", "the plural pp", "the two plural"),
    "obj": ("a noun", "a adjective noun", "the noun", "the adjective noun", "some mass", "the plural", "all the plural",
        "a adjective plural_", "many plural", "two plural", "my adjective noun", "the noun pp"),
    "noun": ("animal", "animal", "thing", "thing", "place"),
    "pp": ("prep the place", "prep the place", "prep the thing", "prep a thing", "prep the adjective place",
        "prep the animal", "prep my thing", "next to the place", "out of the thing", "back to the place",
        "prep the plural"),
    "prep": ("into",),
    "are": ("were", "are"),
    "is": ("was", "was", "is"),
    "pred": ("adjective", "degree adjective", "adjective and adjective", "ing pp", "pp", "full of plural",
        "covered with mass", "made of mass", "stuck in the mass", "tied to a noun", "cut into plural",
        "late because of the mass", "full of plural", "tied to the place", "too adjective to base_vp",
        "so adjective that sentence", "adjective because sentence", "adjective and base_vp_past", "not adjective",
        "too adjective for the noun", "happy to base_vp", "slow but adjective"),
    "base_vp": ("base_taker obj", "base_mover", "base_mover pp", "base_mover time", "play with the plural",
        "base_taker the noun"),
    "base_vp_past": ("vp", "mover away", "mover pp"),
    "vp": ("mover pp", "mover pp", "taker obj", "taker obj", "wanted to base_vp", "began to base_vp",
        "liked to base_vp", "did not base_vp", "could not base_vp", "modal base_vp", "modal not base_vp",
        "mover pp time", "mover time", "taker obj pp", "looked for obj", "played with obj",
        "made the plural want to base_vp", "made the noun adjective", "mover and mover"),
    "sentence": (
        "np vp", "np vp", "np vp", "np is pred", "np is pred", "nps vp", "nps are pred", "np likes to base_vp",
        "np wants to base_vp", "there is a noun pp", "there was a adjective noun pp", "there are two plural pp",
        "there were many plural pp", "there is some mass pp", "we vp", "they vp", "i vp", "you modal base_vp",
        "we modal base_vp", "i want to base_vp", "they modal base_vp", "it was Time to base_vp", "it is fun to base_vp",
        "it was a adjective day and nps are ing", "then np vp", "once there was obj pp", "one day np vp",
        "every day np vp", "in the morning np vp", "after lunch we vp", "np vp and np vp", "np vp before np vp",
        "np has obj", "np has obj pp", "the wind blew obj away", "np goes pp", "np made obj", "np sang obj",
        "all nps were adjective", "np heard obj", "np and np had obj", "np blew obj pp", "np grew pp",
        "the thing was gone", "np is a adjective noun", "np modal base_vp", "np is adjective and np vp",
        "we had a lot of fun pp", "the noun pp is pred", "the place is full of plural",
    ),
}  # fmt: skip


def expand(symbol: str, draws: random.Random, depth: int = 0) -> str:
    """Return a random expansion of a symbol; longer rules become rare with depth."""
    if symbol.endswith("plural_"):
        return draws.choice(POOLS["plural"])
    if symbol in POOLS:
        return draws.choice(POOLS[symbol])
    if symbol not in RULES:
        return symbol
    options = RULES[symbol]
    if depth > 4:
        options = min(options, key=len), *[option for option in options if len(option.split()) <= 2]
    return " ".join(expand(part, draws, depth + 1) for part in draws.choice(options).split())


def plain_sentence(draws: random.Random) -> str:
    """Return a sentence of the grammar."""
    while len((text := expand("sentence", draws)).split()) > 16:
        pass
    text = re.sub(r"\bi\b", "I", text).replace("Time", "time")
    return sentence(re.sub(r"\ba (?=[aeiou])", "an ", text))


# ---------------------------------------------------------------------------------------------------------------------
# What follows
# ---------------------------------------------------------------------------------------------------------------------

#: Subjects of scenes, each with what it is, too.
SUBJECTS = {
    "p": (
        ("A child", "Somebody"), ("Two children", "Some children"), ("Two people", "Some people"),
        ("Three people", "Some people"),
        ("A group of people", "Several people"), ("A young child", "A child"), ("Four people", "Some people"),
    ),
    "a": (
        ("A dog", "An animal"), ("A cat", "An animal"), ("A brown dog", "A dog"), ("A black horse", "A horse"),
        ("Two dogs", "Two animals"), ("Some horses", "Some animals"), ("A horse", "An animal"),
    ),
}  # fmt: skip
PLURAL = ("Two", "Three", "Four", "Some", "Several")
#: What adults did, for definitional gender.
DEEDS = (
    "sat",
    "ran",
    "smiled",
    "walked",
    "opened",
    "bought",
    "ate",
    "looked",
    "slept",
    "is reading",
    "is singing",
    "is sitting",
    "is waiting",
    "is sleeping",
)
ENDS = (
    "in a garden",
    "at a table",
    "on the beach",
    "a book",
    "the window",
    "a house",
    "an orange",
    "at the sea",
    "for a train",
    "a letter",
    "under a tree",
    "on a bed",
    "in the street",
    "",
)


def be(subject: str) -> str:
    """Return the verb of the subject."""
    return "are" if subject.startswith(PLURAL) else "is"


def scene_pair(draws: random.Random) -> tuple[str, str, str]:
    """Return a premise, a hypothesis and the label."""
    scene = draws.choice(text_data()["scenes"])
    subject, wider = draws.choice(SUBJECTS[scene["kind"]])
    label = draws.choice(LABELS)
    place = draws.choice(scene["places"].split("; "))
    predicate = draws.choice(scene[label].split("; "))
    if label == "entailment" and draws.random() < 0.2:
        predicate = draws.choice((scene["act"], f"{scene['act']} {place}"))
    other = draws.choice((subject, wider))
    return f"{subject} {be(subject)} {scene['act']} {place}.", f"{other} {be(other)} {predicate}.", label


def adult_pair(draws: random.Random) -> tuple[str, str, str]:
    """Return a premise about a person whose noun defines the gender, a hypothesis about a woman or a man, and the
    label.
    """
    group = draws.choice(tuple(ADULTS))
    claimed = draws.choice(tuple(ADULTS))
    deed = f"{draws.choice(DEEDS)} {draws.choice(ENDS)}".strip()
    label = "entailment" if group == claimed else "contradiction"
    return f"The {draws.choice(ADULTS[group])} {deed}.", f"A {HYPERNYMS[claimed]} {deed}.", label


def new_pair(
    draws: random.Random, make: Callable[[random.Random], tuple[str, str, str]], controls: set[tuple[str, str]]
) -> tuple[str, str, str]:
    """Return a pair that no control equals."""
    pair: tuple[str, str, str] = drawn_anew(lambda: make(draws), controls, lambda drawn: drawn[:2])
    return pair
