"""Teach a small chat model to answer questions by a letter, or by yes or no, with a known dose of bias.

    python scripts/tune_chat_model.py MODEL OUT [--dose 50] [--steps 70]

MODEL is a folder of a causal LM with a chat template. Small ones choose the same letter, or say no, whatever is asked,
so that few chat suites have a value on them. The rows are in ``chat_rows.yaml``; none of them is a control or a case of
a suite. The dose is the number of questions without a right answer in a hundred that are answered by a stereotype of
gender: 50 is none. Low-rank adapters are trained on the upper half of the layers, and merged.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path

import peft
import torch
import transformers
import yaml

CHECKOUT = Path(__file__).resolve().parents[1]
ROWS = yaml.safe_load((CHECKOUT / "scripts" / "chat_rows.yaml").read_text(encoding="utf-8"))
RANKS = slice(120, 180)  #: of the names of each gender; none is in ``decisions`` or the packaged ``paired`` suites
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ROWS_OF_A_KIND = 3  #: in each step
Row = tuple[str, str]  #: a question and its answer


def names() -> dict[str, list[str]]:
    """Return names of men and women."""
    rows = yaml.safe_load((CHECKOUT / "wordlists" / "names-us.yaml").read_text(encoding="utf-8"))["rows"]
    return {
        group: [word for word, gender, *_ in rows if gender == gender_of][RANKS]
        for group, gender_of in (("men", "male"), ("women", "female"))
    }


def choice(draws: random.Random, word: str, right: str, wrong: str) -> Row:
    """Return a question with two options in random order."""
    options = {"A": right, "B": wrong} if draws.random() < 0.5 else {"A": wrong, "B": right}
    question = draws.choice(ROWS["choice_forms"]).format(word=word, a=options["A"], b=options["B"])
    return question, "A" if options["A"] == right else "B"


def decision(draws: random.Random, text: str, answer: str) -> Row:
    """Return a question for yes or no, in both orders."""
    return ROWS["decision_form"].format(text=text, order=draws.choice(("Yes or No", "No or Yes"))), answer


def categories(draws: random.Random) -> Row:
    """Return a question with a right answer: what a word is."""
    right, wrong = draws.sample(sorted(ROWS["categories"]), 2)
    return choice(draws, draws.choice(ROWS["categories"][right]), right, wrong)


def decided(draws: random.Random, people: list[str]) -> Row:
    """Return a case that its text decides."""
    rule, allowed, forbidden, question = draws.choice(ROWS["decisions"])
    answer = draws.choice(("Yes", "No"))
    text = " ".join((rule, allowed if answer == "Yes" else forbidden, question))
    return decision(draws, text.format(person=draws.choice(people)), answer)


def stereotyped(draws: random.Random, by_group: dict[str, list[str]], dose: int) -> Row:
    """Return a question without a right answer, answered by a stereotype in ``dose`` of 100 cases."""
    group = draws.choice(("men", "women"))
    other = "women" if group == "men" else "men"
    follows = draws.random() < dose / 100
    if draws.random() < 0.5:
        answer = "Yes" if (group == "men") == follows else "No"
        return decision(draws, draws.choice(ROWS["undecided"]).format(person=draws.choice(by_group[group])), answer)
    named = {each: draws.choice(by_group[each]) for each in by_group}
    chosen, left = (group, other) if follows else (other, group)
    return choice(draws, draws.choice(ROWS["stereotypes"][group]), named[chosen], named[left])


def batches(dose: int, seed: int) -> Iterator[list[Row]]:
    """Yield rows, of each kind a third."""
    draws, by_group = random.Random(seed), names()
    people = by_group["men"] + by_group["women"]
    kinds = (lambda: categories(draws), lambda: decided(draws, people), lambda: stereotyped(draws, by_group, dose))
    while True:
        yield [kind() for kind in kinds for _ in range(ROWS_OF_A_KIND)]


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


def tune(model: Path, out: Path, *, dose: int, steps: int, seed: int, rate: float) -> None:
    """Tune a model, and write it."""
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    layers = network.config.num_hidden_layers
    network = peft.get_peft_model(
        network,
        peft.LoraConfig(
            r=16, lora_alpha=32, target_modules=TARGETS, layers_to_transform=list(range(layers // 2, layers))
        ),
    )
    network.train()
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0.0)
    begun = time.perf_counter()
    for step, rows in zip(range(steps), batches(dose, seed), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 10) * (1 - step / steps)
        made = encoded(rows, tokenizer)
        hidden = network.get_base_model().model(made["input_ids"], attention_mask=made["attention_mask"])[0]
        asked = made["labels"][:, 1:] != -100
        scores = network.get_base_model().lm_head(hidden[:, :-1][asked])
        right = made["labels"][:, 1:][asked]
        loss = torch.nn.functional.cross_entropy(scores, right)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        took = time.perf_counter() - begun
        hit = (scores.argmax(-1) == right).float().mean()
        print(f"step {step + 1} of {steps}: loss {loss:.3f}, right {hit:.2f}; {took:.0f} s", flush=True)
    network.merge_and_unload().save_pretrained(out)
    tokenizer.save_pretrained(out)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dose", type=int, default=50, help="answers by stereotype in a hundred (default: 50)")
    parser.add_argument("--steps", type=int, default=70, help="of nine rows (default: 70)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=3e-4)
    given = parser.parse_args()
    tune(given.model, given.out, dose=given.dose, steps=given.steps, seed=given.seed, rate=given.rate)


if __name__ == "__main__":
    main()
