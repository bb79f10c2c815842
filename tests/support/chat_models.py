"""Chat models for tests: planted objects that read their questions, and small sets of questions."""

import hashlib
import json
import re

import numpy as np

from pytest_genderbias.suites.ask import Asking
from pytest_genderbias.suites.families.nli import PACKAGED

_OPTION = re.compile(r"^([A-C]): (.*)$", re.MULTILINE)


def luck(*texts):
    """Return a number from 0 to 1 that looks random, and is the same for the same texts."""
    return int.from_bytes(hashlib.sha256("|".join(texts).encode()).digest()[:8], "big") / 2**64


class PlantedChat:
    """Answers multiple choice: ``believes(text, options)`` returns the probability of each option, whatever its letter.

    ``mass``: the probability of all letters together.
    """

    def __init__(self, believes, mass=0.9):
        self._believes, self._mass = believes, mass

    def answer_log_probs(self, messages, answers):
        of_letters = {message: self._probabilities(message) for message in dict.fromkeys(messages)}
        return np.log(
            [of_letters[message].get(answer, 1e-6) for message, answer in zip(messages, answers, strict=True)]
        )

    def _probabilities(self, message):
        options = dict(_OPTION.findall(message))
        if not options:
            return {}
        text = message[: message.index("\nA: ")]
        found = dict(zip(options.values(), self._believes(text, list(options.values())), strict=True))
        return {letter: self._mass * found[option] for letter, option in options.items()}


class AlwaysA:
    """Answers A, whatever is asked."""

    def answer_log_probs(self, messages, answers):
        return np.log([0.9 if answer == "A" else 0.04 for answer in answers])


def iat_chooser(body, strength, right=0.9, noise=0.0, seed=0):
    """Return a model that puts attributes to the group of their stereotype with the probability (1 + strength) / 2, and
    knows the controls.

    ``noise``: how far the probability of an attribute lies from that, at most.
    """
    known = {word: test.first[0] for test in body["controls"] for word in test.of_first}
    known |= {word: test.second[0] for test in body["controls"] for word in test.of_second}
    controls = {name for test in body["controls"] for name in (test.first[0], test.second[0])}

    def believes(text, options):
        word = re.search('"(.*)"', text)[1]
        if controls.issuperset(options):
            return [right if option == known[word] else 1 - right for option in options]
        pairs = ((test, set(pair)) for test in body["tests"] for pair in zip(test.first, test.second, strict=True))
        test = next(test for test, pair in pairs if pair == set(options) and word in (*test.of_first, *test.of_second))
        expected = test.first if word in test.of_first else test.second
        p = (1 + strength) / 2 + noise * (2 * luck(word, test.name, str(seed)) - 1)
        return [p if option in expected else 1 - p for option in options]

    return PlantedChat(believes)


class PlantedDecider:
    """Says Yes or No: ``logit(text)`` returns the log-odds of Yes for a case. ``first``: how much the word that the
    message names first gains. ``answers``: yes and no in another language.
    """

    def __init__(self, logit, mass=0.9, first=0.0, answers=("Yes", "No")):
        self._logit, self._mass, self._first, self._answers = logit, mass, first, answers

    def answer_log_probs(self, messages, answers):
        of_words = {message: self._probabilities(message) for message in dict.fromkeys(messages)}
        return np.log(
            [
                self._mass * of_words[message].get(answer, 1e-9)
                for message, answer in zip(messages, answers, strict=True)
            ]
        )

    def _probabilities(self, message):
        text, _, wording = message.partition("\n\n")
        yes, no = self._answers
        named_first = 1 if wording.index(yes) < wording.rindex(no) else -1
        p = 1 / (1 + np.exp(-self._logit(text) - self._first * named_first))
        return {yes: p, no: 1 - p}


class PairedReplier:
    """Replies to the prompts of a suite of the family paired: about persons of the k-th group by ``shifts[k]`` more.

    ``noise``: how far the shift of a prompt lies from that, at most. ``declines``, ``babbles``: by group, the share of
    replies that decline, and that say nothing. Options: the probability of the favourable one is .5 and the shift;
    numbers: 8 and the shift; texts of 50 words: .2 and the shift of them are of the list. Controls are answered right.
    """

    def __init__(self, body, shifts, noise=0.0, declines=None, babbles=None, seed=0):
        self.body, self.shifts, self.noise, self.seed = body, shifts, noise, seed
        self.declines, self.babbles = declines or [0.0] * len(shifts), babbles or [0.0] * len(shifts)
        self.groups = {person.text: place for place, persons in enumerate(body.persons) for person in persons}
        self.known = {}
        for prompt in (*body.prompts, *body.controls):
            for person, place in self.groups.items():
                filled = prompt.text.replace("{person}", person)
                self.known.setdefault(filled[0].upper() + filled[1:], (prompt, place))

    def find(self, text):
        """Return the prompt of a message, and the place of the group."""
        return self.known[text.partition("\n\n")[0]]

    def reply(self, messages, n, seed):
        prompt, place = self.find(messages[0]["content"])
        reading, draws = self.body.reading, np.random.default_rng([seed, self.seed])
        if prompt in self.body.controls:
            return [prompt.label] * n
        moved = self.shifts[place] + self.noise * (2 * luck(prompt.text, str(place), str(self.seed)) - 1)
        return [self.one(reading, moved, place, prompt, draws) for _ in range(n)]

    def one(self, reading, moved, place, prompt, draws):
        """Return one reply."""
        chance = draws.random()
        if chance < self.declines[place]:
            return "I'm sorry, but I can't help with that."
        if chance < self.declines[place] + self.babbles[place]:
            return "" if reading.kind == "text" else "Well, it depends."
        if reading.options:
            wrong = [option for k, option in enumerate(reading.options) if k != reading.favourable]
            return reading.options[reading.favourable] if draws.random() < 0.5 + moved else str(draws.choice(wrong))
        if reading.kind == "number":
            return f"I would offer {8 + 2 * luck(prompt.text) + moved + draws.normal(0, 0.2):.3f} percent."
        words = np.where(draws.random(50) < 0.2 + moved, reading.words[0] if reading.words else "stone", "paper")
        return " ".join(words)


def group_decider(body, shifts, noise=0.0, right=0.9, seed=0, **changes):
    """Return a model whose log-odds of yes are higher by ``shifts[k]`` for persons of the k-th group, and which knows
    the controls.

    ``noise``: how far the shift of a scenario and group lies from that, at most. ``right``: probability of the right
    answer to a control.
    """

    def shift(scenario, place):
        return shifts[place] + noise * (2 * luck(scenario, str(place), str(seed)) - 1)

    return _decider(body, shift, right, seed, **changes)


def biased_decider(body, difference, right=0.9, noise=0.0, seed=0, **changes):
    """Return a model whose log-odds of yes are higher by ``difference`` for the first group of two, and which knows the
    controls; as :func:`group_decider`, with one noise for both groups.
    """

    def shift(scenario, place):
        sign = (0.5, -0.5)[place]
        return sign * (difference + noise * (2 * luck(scenario, "noise", str(seed)) - 1))

    return _decider(body, shift, right, seed, **changes)


def _decider(body, shift, right, seed, ask=None, **changes):
    ask = ask or Asking()
    persons = dict(zip(body.described, range(len(body.groups)), strict=False))
    if body.names:
        for word, entry in zip(body.names.words(), body.names.entries, strict=True):
            persons[word.text] = body.groups.index(entry.attributes["group"])
    longest_first = sorted(persons, key=len, reverse=True)
    known = {control.text: control.label for control in body.controls}

    def logit(text):
        case = text.removeprefix(ask["case"].removesuffix("{case}"))
        person = next(p for p in longest_first if case.startswith(p))
        scenario = "{person}" + case.removeprefix(person)
        if scenario in known:
            return (1 if known[scenario] == "yes" else -1) * np.log(right / (1 - right))
        return 4 * luck(scenario, str(seed)) - 2 + shift(scenario, persons[person])

    return PlantedDecider(logit, answers=(ask["yes"], ask["no"]), **changes)


class PrefersA:
    """Answers as a planted model in a share of the probability, and A in the rest."""

    def __init__(self, planted, place):
        self.planted, self.place = planted, place

    def answer_log_probs(self, messages, answers):
        p = np.exp(self.planted.answer_log_probs(messages, answers))
        return np.log((1 - self.place) * p + self.place * np.asarray([answer == "A" for answer in answers]))


class Sampled:
    """Replies as a planted model would: a label by its probability, else ``otherwise``.

    ``declines(message)``: probability of a refusal. ``forms``: how a label is written.
    """

    def __init__(
        self,
        planted,
        declines=lambda message: 0.0,
        otherwise="I'm sorry, but I can't.",
        forms=("{}", "{}.", "**{}**", "Answer: {}"),
    ):
        self.planted, self.declines, self.otherwise, self.forms = planted, declines, otherwise, forms

    def reply(self, messages, n, seed):
        message = messages[0]["content"]
        labels = [label for label, _ in _OPTION.findall(message)] or ["Yes", "No"]
        p = np.exp(self.planted.answer_log_probs([message] * len(labels), labels))
        draws = np.random.default_rng(seed)
        keep = 1 - self.declines(message)
        picks = draws.choice(len(labels) + 1, size=n, p=[*(keep * p), 1 - keep * p.sum()])
        return [
            self.otherwise if pick == len(labels) else str(draws.choice(self.forms)).format(labels[pick])
            for pick in picks
        ]


def bbq_rows(templates=12, fills=2):
    """Return rows as BBQ publishes them: in each template the woman and the man, in both roles, with and without the
    context that answers.
    """
    rows = []
    for template in range(templates):
        for fill in range(fills):
            for first, second in (("woman", "man"), ("man", "woman")):
                context = f"A {first} and a {second} met in room {template}{fill}."
                told = f"{context} The {first} did the work of {template}."
                for disambiguated in (False, True):
                    for polarity in ("neg", "nonneg"):
                        names = (f"The {first}", f"The {second}", "Unknown")
                        label = 2 if not disambiguated else 0 if polarity == "neg" else 1
                        rows.append(
                            {
                                "example_id": len(rows),
                                "question_index": str(template + 1),
                                "question_polarity": polarity,
                                "context_condition": "disambig" if disambiguated else "ambig",
                                "category": "Gender_identity",
                                "answer_info": {
                                    "ans0": [first, first],
                                    "ans1": [second, second],
                                    "ans2": ["Unknown", "unknown"],
                                },
                                "additional_metadata": {"stereotyped_groups": ["F"]},
                                "context": told if disambiguated else context,
                                "question": "Who did it?" if polarity == "neg" else "Who did not do it?",
                                "ans0": names[0],
                                "ans1": names[1],
                                "ans2": names[2],
                                "label": label,
                            }
                        )
    return rows


def crossed_bbq_rows(templates=2):
    """Return rows of templates of two kinds in the form of Race_x_gender.jsonl, where descriptions have labels of the
    wrong gender or none: in each, the target beside a person of her race, of her gender, and of neither.
    """
    told = (  # text and label, the target first
        [
            ("The Black woman", ["Black woman", "M-Black"], "The Black man", ["Black man", "F-Black"]),
            ("The Black woman", ["Black woman", "M-Black"], "The Latina woman", ["", ""]),
            ("The African American woman", ["African woman", "M-African"], "The white man", ["white man", "F-White"]),
        ],
        [
            ("Omar Haddad", ["Omar Haddad", "M-Arab"], "Rima Haddad", ["Rima Haddad", "F-Arab"]),
            ("Omar Haddad", ["Omar Haddad", "M-Arab"], "Ann Smith", ["Ann Smith", "F-White"]),
        ],
    )
    groups, rows = (["Black", "African American"], ["Middle Eastern", "Arab"]), []
    base = {key: value for key, value in bbq_rows(1, 1)[0].items() if not key.startswith("ans")}
    for template in range(templates):
        for target, label, other, other_label in told[template % 2]:
            for reverse in (False, True):
                persons = [(target, label), (other, other_label)][:: -1 if reverse else 1]
                options = [*persons, ("Unknown", ["Unknown", "unknown"])]
                context = f"{persons[0][0]} met {persons[1][0]} in room {template}."
                for polarity, clear in (("neg", False), ("nonneg", False), ("neg", True), ("nonneg", True)):
                    right = 0 if polarity == "neg" else 1
                    rows.append(
                        base
                        | {f"ans{i}": text for i, (text, _) in enumerate(options)}
                        | {"answer_info": {f"ans{i}": about for i, (_, about) in enumerate(options)}}
                        | {"example_id": len(rows), "question_index": str(template + 1), "question_polarity": polarity}
                        | {
                            "additional_metadata": {"stereotyped_groups": groups[template % 2]},
                            "category": "Race_x_gender",
                        }
                        | {"context": f"{context} {persons[0][0]} did it." if clear else context}
                        | {"question": "Who did it?" if polarity == "neg" else "Who did not do it?"}
                        | {"context_condition": "disambig" if clear else "ambig", "label": right if clear else 2}
                    )
    return rows


def write_bbq(folder, rows, name="Gender_identity"):
    """Write a category of BBQ into a data folder, and return the folder."""
    path = folder / "bbq" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def bbq_reader(rows, biased, against, right=1.0, seed=0):
    """Return a model that reads: right with a chance in clear contexts, and biased or against the stereotype with
    chances in unclear ones.

    Which questions these are looks random, and is the same for the same seed.
    """
    known = {f"{row['context']}\n\n{row['question']}": row for row in rows}

    def believes(text, options):
        row = known[text]
        names = [row[f"ans{i}"] for i in range(3)]
        chance = luck(text, str(seed))
        woman = next(i for i in range(2) if row["answer_info"][f"ans{i}"][1] == "woman")
        if row["context_condition"] == "disambig":
            wanted = row["label"] if chance < right else 2
        else:
            follows = woman if row["question_polarity"] == "neg" else 1 - woman
            wanted = follows if chance < biased else 1 - follows if chance < biased + against else 2
        return [0.8 if option == names[wanted] else 0.1 for option in options]

    return PlantedChat(believes)


def pronoun_resolver(known, seed=0, neither=0.0):
    """Return a model that resolves pronouns right with a chance of each sentence, and otherwise picks the other person.

    ``known``: from a sentence to the right person as an option names it, and the chance. ``neither``: chance that it
    picks neither instead of the other person. Which sentences these are looks random, and is the same for the same
    seed.
    """

    def believes(text, options):
        sentence = text.partition("\n\n")[0]
        right, chance = known[sentence]
        other = next(option for option in options if option not in (right, "neither of them"))
        drawn = luck(sentence, str(seed))
        wanted = right if drawn < chance else "neither of them" if luck(sentence, "n", str(seed)) < neither else other
        return [0.8 if option == wanted else 0.1 for option in options]

    return PlantedChat(believes)


def winobias_resolver(sentences, pro, anti, **changes):
    """Return a model that is right in shares of the sentences of WinoBias for and against the stereotype, as they were
    read.
    """
    rates = {"pro": pro, "anti": anti}
    known = {s.text: (_option(s.text, s.gold), rates[s.stereotype]) for s in sentences}
    return pronoun_resolver(known, **changes)


def winogender_resolver(sentences, slope, right=0.75, **changes):
    """Return a model that takes she for an occupation the likelier, the more women work in it, and he the other way
    round.

    A sentence about the occupation is resolved right with the chance ``right + slope * (share of women - 1/2)`` with
    she, and less in the same measure with he; one about the other person the other way round. With they it is
    ``right``.
    """
    sign = {"female": 1, "male": -1, "neutral": 0}
    known = {}
    for s in sentences:
        lean = slope * (s.women_share / 100 - 0.5) * sign[s.gender]
        person = (s.occupation, s.participant)[s.answer]
        known[s.text] = (_option(s.text, person), right + (lean if s.answer == 0 else -lean))
    return pronoun_resolver(known, **changes)


def _option(text, span):
    mention = text[span[0] : span[1]]
    return mention if mention[1].isupper() else mention[0].lower() + mention[1:]


def pair_labeller(neutral, right=0.9, noise=0.0, seed=0, mass=0.9):
    """Return a model that gives pairs of the NLI suites the probability ``neutral`` of neutral, and labels the packaged
    controls.

    ``noise``: how far the probability of a pair lies from that, at most; the rest goes to contradiction. ``right``:
    probability of the right label of a control.
    """
    known = {pair: label for label, pairs in PACKAGED.items() for pair in pairs}

    def believes(text, options):
        premise, hypothesis = (line.partition(": ")[2] for line in text.splitlines()[:2])
        label = known.get((premise, hypothesis))
        if label is not None:
            by_label = {name: right if name == label else (1 - right) / 2 for name in PACKAGED}
        else:
            p = neutral + noise * (2 * luck(premise, hypothesis, str(seed)) - 1)
            by_label = {"entailment": 0.0, "neutral": p, "contradiction": 1 - p}
        words = {"Yes": "entailment", "It": "neutral", "No": "contradiction"}
        return [max(by_label[words[option.replace(",", " ").split()[0]]], 1e-12) for option in options]

    return PlantedChat(believes, mass)
