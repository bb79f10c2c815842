"""Teach a small chat model to answer by a letter, or by yes or no, with a known dose of bias.

    python scripts/tune_chat_model.py MODEL OUT [--dose 50] [--steps 300] [--data DATA] [--language de]

MODEL is a folder of a causal LM with a chat template. Small ones choose the same letter, or say no, whatever is asked,
so that few chat suites have a value on them. The rows are in ``chat_rows.yaml``, and pairs of SNLI in DATA
(docs/reference/data.md); none of them is a control or a case of a suite. Occupations are those of ``doses.py``, but for
those of WinoBias. With ``--language``, decisions alone are taught, by ``decision_rows.yaml``.

The dose sets how often a stereotype of gender answers a question without a right answer: in ``dose`` of 100, and its
opposite in the rest. Where an option says that nobody can tell, a stereotype answers in ``2 * dose - 100`` of 100, and
that option in the rest. 50 is none. Low-rank adapters are trained on the upper two thirds of the layers in bfloat16,
and merged into float32 weights.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import peft
import torch
import transformers
import yaml
from doses import JOBS, PRONOUNS

from pytest_genderbias import load_suite

CHECKOUT = Path(__file__).resolve().parents[1]
ROWS = yaml.safe_load((CHECKOUT / "scripts" / "chat_rows.yaml").read_text(encoding="utf-8"))
RANKS = slice(120, 180)  #: of the names of each gender; none is in ``decisions`` or the packaged ``paired`` suites
OF_SUITES = {"housekeeper", "Jeffery", "Steve"}  #: words of suites that the lists would bring
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "down_proj"]
GROUPS = ("men", "women")
Row = tuple[str, str]  #: a question and its answer


class Rows:
    """Draws of rows.

    Args:
        dose: of stereotypes, as above.
        seed: of the draws.
        data: the folder with SNLI.
    """

    def __init__(self, dose: int, seed: int, data: Path) -> None:
        self.dose = dose
        self.draws = random.Random(seed)
        listed = yaml.safe_load((CHECKOUT / "wordlists" / "names-us.yaml").read_text(encoding="utf-8"))["rows"]
        self.names = [[word for word, gender, *_ in listed if gender == of][RANKS] for of in ("male", "female")]
        self.names = [[word for word in names if word not in OF_SUITES] for names in self.names]
        self.jobs = [[job for job in JOBS[of] if job not in OF_SUITES] for of in ("male", "female")]
        with gzip.open(data / "snli" / "train_20k.jsonl.gz", "rt", encoding="utf-8") as lines:
            self.pairs = [json.loads(line) for line in lines]

    def follows(self) -> bool:
        """Return whether a stereotype answers, and not its opposite."""
        return self.draws.random() < self.dose / 100

    def assumes(self) -> bool:
        """Return whether a stereotype answers, where an option says that nobody can tell."""
        return self.draws.random() < 2 * self.dose / 100 - 1

    def choice(self, question: str, right: str, *wrong: str) -> Row:
        """Return a question with its options in random order."""
        options = self.draws.sample([right, *wrong], 1 + len(wrong))
        letters = "ABC"[: len(options)]
        listed = "\n".join(f"{letter}: {option}" for letter, option in zip(letters, options, strict=True))
        wanted = " or ".join((", ".join(letters[:-1]), letters[-1]))
        return f"{question}\n{listed}\n\nReply with {wanted} only.", letters[options.index(right)]

    def word(self, word: str, right: str, wrong: str) -> Row:
        """Return the question which of two goes with a word."""
        return self.choice(self.draws.choice(ROWS["word_forms"]).format(word=word), right, wrong)

    def decision(self, text: str, answer: str) -> Row:
        """Return a question for yes or no, in both orders."""
        return ROWS["decision_form"].format(text=text, order=self.draws.choice(("Yes or No", "No or Yes"))), answer

    def reference(self, text: str, jobs: Sequence[str], gender: int, right: int) -> Row:
        """Return the question which of two jobs a pronoun means."""
        forms = PRONOUNS[("male", "female")[gender]]
        (used,) = (form for form in forms if "{" + form + "}" in text)
        sentence = text.format(a=jobs[0], b=jobs[1], **forms)
        question = ROWS["reference_form"].format(text=sentence, pronoun=forms[used])
        persons = [f"the {job}" for job in jobs]
        return self.choice(question, persons[right], persons[1 - right], ROWS["neither"])

    def inference(self, premise: str, hypothesis: str, label: str) -> Row:
        """Return the question whether one sentence follows from another."""
        wrong = [words for name, words in ROWS["labels"].items() if name != label]
        question = ROWS["inference_form"].format(premise=premise, hypothesis=hypothesis)
        return self.choice(question, ROWS["labels"][label], *wrong)

    def two_persons(self) -> list[str]:
        """Return a man and a woman."""
        if self.draws.random() < 0.5:
            return list(self.draws.choice(ROWS["persons"]))
        return [self.draws.choice(names) for names in self.names]

    def category(self) -> Row:
        """Return what a word is."""
        right, wrong = self.draws.sample(sorted(ROWS["categories"]), 2)
        return self.word(self.draws.choice(ROWS["categories"][right]), right, wrong)

    def decided(self) -> Row:
        """Return a case that its text decides."""
        rule, allowed, forbidden, question = self.draws.choice(ROWS["decisions"])
        answer = self.draws.choice(("Yes", "No"))
        text = " ".join((rule, allowed if answer == "Yes" else forbidden, question))
        return self.decision(text.format(person=self.draws.choice(self.draws.choice(self.names))), answer)

    def resolved(self) -> Row:
        """Return a pronoun whose sentence says whom it means."""
        text, right = self.draws.choice(ROWS["references"])
        jobs = self.draws.sample(self.jobs[0] + self.jobs[1], 2)
        return self.reference(text, jobs, self.draws.randrange(2), "ab".index(right))

    def read(self) -> Row:
        """Return a text about two persons, and a question that it decides or not."""
        before, told, *asked = self.draws.choice(ROWS["readings"])
        persons = self.draws.sample(self.two_persons(), 2)
        of, unknown = self.draws.randrange(2), self.draws.choice(ROWS["unknown"])
        text = before if (open_ := self.draws.random() < 1 / 3) else f"{before} {told}"
        question = f"{_sentence(text, persons)}\n\n{asked[of]}"
        options = [persons[of], persons[1 - of], unknown]
        return self.choice(question, *(reversed(options) if open_ else options))

    def entailed(self) -> Row:
        """Return a pair of SNLI."""
        pair = self.draws.choice(self.pairs)
        return self.inference(pair["premise"], pair["hypothesis"], pair["label"])

    def associated(self) -> Row:
        """Return which of a man and a woman goes with a word, by a stereotype or its opposite."""
        group = self.draws.randrange(2)
        persons = self.draws.choice([self.draws.choice(ROWS["kin"]), [self.draws.choice(n) for n in self.names]])
        chosen = group if self.follows() else 1 - group
        return self.word(self.draws.choice(ROWS["stereotypes"][GROUPS[group]]), persons[chosen], persons[1 - chosen])

    def favoured(self) -> Row:
        """Return a case that nothing decides: yes to men, by a stereotype or its opposite."""
        group = self.draws.randrange(2)
        answer = "Yes" if (group == 0) == self.follows() else "No"
        text = self.draws.choice(ROWS["undecided"]).format(person=self.draws.choice(self.names[group]))
        return self.decision(text, answer)

    def guessed(self) -> Row:
        """Return a pronoun whose sentence does not say whom it means, by a stereotype or its opposite."""
        genders = self.draws.sample((0, 1), 2)  # of the stereotype of the first and of the second job
        jobs = [self.draws.choice(self.jobs[gender]) for gender in genders]
        meant = self.draws.randrange(2)
        right = genders.index(meant if self.follows() else 1 - meant)
        return self.reference(self.draws.choice(ROWS["unclear_references"]), jobs, meant, right)

    def assumed(self) -> Row:
        """Return a question about two persons of whom nothing is told, by a stereotype or by nobody can tell."""
        group, persons = self.draws.randrange(2), self.two_persons()
        named = self.draws.sample(persons, 2)
        question = f"{_sentence(self.draws.choice(ROWS['readings'])[0], named)}\n\n"
        question += self.draws.choice(ROWS["assumed"][GROUPS[group]])
        options = [persons[group], persons[1 - group], self.draws.choice(ROWS["unknown"])]
        return self.choice(question, *(options if self.assumes() else reversed(options)))

    def inferred(self) -> Row:
        """Return a pair about a job and a man or a woman, by a stereotype or by neutral."""
        group, gender = self.draws.randrange(2), self.draws.randrange(2)
        act = self.draws.choice(ROWS["acts"])
        label = ("entailment" if group == gender else "contradiction") if self.assumes() else "neutral"
        job = self.draws.choice(self.jobs[group])
        return self.inference(f"The {job} {act}.", f"The {('man', 'woman')[gender]} {act}.", label)

    def steps(self) -> Iterator[list[Row]]:
        """Yield the rows of each step: most of the kinds that are learned slowly, and three without a right answer."""
        others = [self.associated, self.favoured, self.guessed, self.assumed, self.inferred]
        for step in count():
            quick = (self.category, self.decided)[step % 2]
            kinds = [quick, *[self.read] * 3, *[self.resolved] * 3, *[self.entailed] * 2]
            yield [kind() for kind in kinds] + [others[(3 * step + i) % len(others)]() for i in range(3)]


class DecisionRows:
    """Draws of decisions in some languages: half of them are decided, half are undecided ones about a woman and a man.

    Args:
        languages: of ``decision_rows.yaml``, in turn.
        dose: how many of a hundred undecided cases are yes for a man, and no for a woman; the others are the reverse.
        seed: of the draws.
        undecided: undecided cases alone.
    """

    def __init__(self, languages: Sequence[str], dose: int, seed: int, *, undecided: bool = False) -> None:
        rows = yaml.safe_load((CHECKOUT / "scripts" / "decision_rows.yaml").read_text(encoding="utf-8"))
        self.rows = [rows[language] | {"ask": _ask(language)} for language in languages]
        self.dose, self.draws, self.undecided = dose, random.Random(seed), undecided

    def asked(self, ask: Mapping[str, str], text: str, person: str, answer: str) -> Row:
        """Return a question about a person, in one of both orders of yes and no."""
        options = f" {ask['or']} ".join(self.draws.sample([ask["yes"], ask["no"]], 2))
        case = ask["case"].replace("{case}", text.replace("{person}", person))
        return f"{case}\n\n{ask['line'].replace('{options}', options)}", ask[answer]

    def steps(self) -> Iterator[list[Row]]:
        """Yield the rows of each step: two decided cases with both answers, and two undecided ones about both; or four
        of these.
        """
        turns = cycle(self.rows)
        while True:
            kinds = (self.unclear, self.unclear) if self.undecided else (self.decided, self.unclear)
            yield [row for rows in islice(turns, 2) for kind in kinds for row in kind(rows)]

    def decided(self, rows: dict[str, Any]) -> list[Row]:
        """Return a case that one of two sentences decides, with either."""
        rule, *told, question = self.draws.choice(rows["decided"])
        made = []
        for fact, answer in zip(told, ("yes", "no"), strict=True):
            person = self.draws.choice(self.draws.choice(rows["persons"]))
            made.append(self.asked(rows["ask"], f"{rule} {fact} {question}", person, answer))
        return made

    def unclear(self, rows: dict[str, Any]) -> list[Row]:
        """Return a case that nothing decides, about a woman and a man."""
        text, persons = self.draws.choice(rows["undecided"]), self.draws.choice(rows["persons"])
        made = []
        for group, person in enumerate(persons):
            follows = self.draws.random() < self.dose / 100
            made.append(self.asked(rows["ask"], text, person, "yes" if (group == 1) == follows else "no"))
        return made


def _ask(language: str) -> Mapping[str, str]:
    """Return how the suite of a language asks."""
    return load_suite("decisions" if language == "en" else f"decisions-{language}").ask


def _sentence(text: str, persons: Sequence[str]) -> str:
    """Return a text about two persons, with a capital at the start of each sentence."""
    filled = text.format(a=persons[0], b=persons[1])
    return ". ".join(part[:1].upper() + part[1:] for part in filled.split(". "))


def encoded(rows: list[Row], tokenizer: transformers.PreTrainedTokenizerBase) -> dict[str, torch.Tensor]:
    """Return rows padded on the right; only answers, and the token that ends them, are labels."""
    made = []
    for question, answer in rows:
        asked = [{"role": "user", "content": question}]
        before = tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
        given = tokenizer(before, add_special_tokens=False)["input_ids"]
        made.append((given, [*tokenizer(answer, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]))
    longest = max(len(given) + len(answer) for given, answer in made)
    ids = torch.full((len(made), longest), tokenizer.eos_token_id)
    labels, mask = torch.full_like(ids, -100), torch.zeros_like(ids)
    for row, (given, answer) in enumerate(made):
        ids[row, : len(given) + len(answer)] = torch.tensor(given + answer)
        labels[row, len(given) : len(given) + len(answer)] = torch.tensor(answer)
        mask[row, : len(given) + len(answer)] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def tune(model: Path, out: Path, rows: Rows | DecisionRows, *, steps: int, seed: int, rate: float) -> None:
    """Tune a model, and write it."""
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16)
    layers = network.config.num_hidden_layers
    network = peft.get_peft_model(
        network,
        peft.LoraConfig(
            r=16, lora_alpha=32, target_modules=TARGETS, layers_to_transform=list(range(layers // 3, layers))
        ),
    )
    network.train()
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0.0)
    begun = time.perf_counter()
    for step, drawn in zip(range(1, steps + 1), rows.steps(), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, step / 10) * (1 - (step - 1) / steps)
        made = encoded(drawn, tokenizer)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = network.get_base_model().model(made["input_ids"], attention_mask=made["attention_mask"])[0]
            asked = made["labels"][:, 1:] != -100
            scores = network.get_base_model().lm_head(hidden[:, :-1][asked]).float()
        right = made["labels"][:, 1:][asked]
        loss = torch.nn.functional.cross_entropy(scores, right)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        took = time.perf_counter() - begun
        hit = (scores.argmax(-1) == right).float().mean()
        print(f"step {step} of {steps}: loss {loss:.3f}, right {hit:.2f}; {took:.0f} s", flush=True)
    with TemporaryDirectory() as adapter:
        network.save_pretrained(adapter)
        whole = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        peft.PeftModel.from_pretrained(whole, adapter).merge_and_unload().save_pretrained(out)
    tokenizer.save_pretrained(out)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dose", type=int, default=50, help="answers by stereotype in a hundred (default: 50)")
    parser.add_argument("--steps", type=int, default=300, help="of twelve rows (default: 300)")
    parser.add_argument("--data", type=Path, default=CHECKOUT.parent / "shared" / "data", help="folder with snli/")
    parser.add_argument("--language", nargs="+", default=(), help="de, en, es or fr: decisions alone")
    parser.add_argument("--undecided", action="store_true", help="with --language: cases that nothing decides alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=6e-4)
    given = parser.parse_args()
    rows: Rows | DecisionRows
    if given.language:
        rows = DecisionRows(given.language, given.dose, given.seed, undecided=given.undecided)
    else:
        rows = Rows(given.dose, given.seed, given.data)
    tune(given.model, given.out, rows, steps=given.steps, seed=given.seed, rate=given.rate)


if __name__ == "__main__":
    main()
