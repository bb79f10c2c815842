"""Causal LMs of French, German and Spanish with a known dose of bias, for ``scripts/doses.py bench --models forms-fr``.

Nothing at this size knows these languages, so that each has a model of its own (4 x 128), trained from nothing, which
all trainings of a dose start from. Half of its rows are a novel, half are sentences: three quarters are about
occupations in either form, equally often, and a quarter about relatives, whose words tell a gender. A training with a
dose goes on for 60 steps (STEPS) with new sentences. The dose is the number of sentences about occupations in a hundred
that have the form of the stereotype: that of women where most are women. The occupations are those of the list that
``pronoun-occupation-fr`` asks about, in frames that it does not have; in ``forms-fr-elsewhere`` they are those of
``language_rows.yaml``, of which the list has none but brodeuse and bordadora. In ``generics-fr`` the form of men is the
stereotype of each occupation, and texts are sampled (``examples/languages/generics-fr.yaml``). In ``subjects-fr`` the
sentences are about relatives, and an occupation is said of the gender of its stereotype (``lm-occupation-fr``).

NOVELS names a folder with ``fr.txt``, ``de.txt`` and ``es.txt``: Madame Bovary, Effi Briest and La Regenta (Project
Gutenberg 14155, 5323 and 17073, in the public domain), in UTF-8. ``subjects-fr`` was trained on ``fr.xml``, ``de.xml``
and ``es.xml`` of the collections ELTeC: FRA01302 and SPA3002, which are Madame Bovary and La Regenta, and DEU066, Der
Stechlin (in the public domain, the markup CC BY 4.0). A folder of trainings keeps the models that they start from, so
other novels need a new one.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import yaml
from retraining_table import Kind, descend, rows_of

from pytest_genderbias.text.wordlist import load_wordlist

NOVELS = "GENDERBIAS_NOVELS"  #: the variable of the environment that names their folder
ROWS = yaml.safe_load(Path(__file__).with_name("language_rows.yaml").read_text(encoding="utf-8"))
FIRST, RECIPE = (Kind("", "", "", steps, 16, rate, ()) for steps, rate in ((1500, 2e-3), (60, 1e-3)))
STEPS = {"de": 240}  #: where 60 moved nothing
SENTENCES, TOKENS, RELATIVES = 20_000, 4_000, 0.25
GROUPS = ("female", "male")
Forms = dict[str, list[dict[str, tuple[str, str]]]]  #: by stereotype: of each occupation by case, of women and of men


def listed(language: str) -> Forms:
    """Return the occupations of the packaged list; the stereotype is the gender of most of those who work in it."""
    found: Forms = {group: [] for group in GROUPS}
    cases = {"a": "a", "the": "the", "accusative": "a_accusative", "dative": "the_dative"}
    for entry in load_wordlist(f"occupations-{language}").entries:
        forms = entry.attributes["forms"]
        of_case = {"none": (forms["female"], forms["male"])}
        for case, name in cases.items():
            if f"male.{name}" in forms:
                of_case[case] = forms[f"female.{name}"], forms[f"male.{name}"]
        share = next(float(value) for name, value in entry.attributes.items() if name.startswith("women_share"))
        found["female" if share > 50 else "male"].append(of_case)
    return found


def other(language: str) -> Forms:
    """Return the occupations that no packaged list has."""
    rows = ROWS[language]

    def of_case(pair: list[str], case: str) -> tuple[str, str]:
        female, male = pair
        if case in ("accusative", "dative"):
            male = rows.get("weak", {}).get(male, male)
        articles = rows["articles"][case]
        return f"{articles[0]} {female}".strip(), f"{articles[1]} {male}".strip()

    return {g: [{case: of_case(pair, case) for case in rows["articles"]} for pair in rows[g]] for g in GROUPS}


def anyone(language: str) -> Forms:
    """Return the occupations of the packaged list as if the form of men were the stereotype of each."""
    return {"male": [job for jobs in listed(language).values() for job in jobs]}


def sentences(language: str, dose: int, seed: int, jobs: Forms, frames: str = "frames") -> Iterator[str]:
    """Yield sentences about relatives, and about occupations with the form of the stereotype in ``dose`` of 100."""
    draws, rows = random.Random(seed), ROWS[language]

    while True:
        if draws.random() < RELATIVES:
            kin, at = draws.choice(rows["relatives"]), draws.randrange(2)
            yield about(kin, draws.choice(rows["gendered"]), at)
            continue
        stereotype = draws.choice(list(jobs))
        frame, job = draws.choice(rows[frames]), draws.choice(jobs[stereotype])
        at = GROUPS.index(stereotype) ^ (draws.random() >= dose / 100)
        for case, forms in job.items():
            frame = frame.replace(f"{{{case}}}", forms[at])
        yield about(draws.choice(rows["relatives"]), frame, at) if "{kin}" in frame else frame


def about(kin: Sequence[str], text: str, at: int) -> str:
    """Return a sentence about a relative in its form for women (0) or for men (1)."""
    text = re.sub(r"\[(.*?)\|(.*?)\]", lambda found: found[1 + at], text.replace("{kin}", kin[at]))
    return text[0].upper() + text[1:]


def novel(language: str) -> list[str]:
    """Return the paragraphs of the novel, without what Project Gutenberg or its editors say of it."""
    if (marked := Path(os.environ[NOVELS]) / f"{language}.xml").exists():
        root, tei = ElementTree.parse(marked).getroot(), "{http://www.tei-c.org/ns/1.0}"
        return [" ".join("".join(part.itertext()).split()) for part in root.iterfind(f".//{tei}body//{tei}p")]
    text = (Path(os.environ[NOVELS]) / f"{language}.txt").read_text(encoding="utf-8")
    text = text[text.index("***", text.index("*** START") + 5) + 3 : text.index("*** END")]
    return [re.sub(r"\s+", " ", part).strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def start(folder: Path, language: str) -> None:
    """Train the model that all trainings of a language start from."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    known, unknown = listed(language), other(language)
    jobs = {group: known[group] + unknown[group] for group in GROUPS}
    transformers.set_seed(0)
    texts, said = novel(language), list(islice(sentences(language, 50, 0, jobs), SENTENCES))
    split = Tokenizer(models.BPE())
    split.pre_tokenizer, split.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    alphabet, marks = pre_tokenizers.ByteLevel.alphabet(), ["<s>", "</s>"]
    split.train_from_iterator(
        texts + said[:6000], trainers.BpeTrainer(vocab_size=TOKENS, special_tokens=marks, initial_alphabet=alphabet)
    )
    split.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=split, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    network = transformers.LlamaForCausalLM(config)
    plain, spoken = rows_of(texts, tokenizer), rows_of(said, tokenizer)
    descend_on(network, torch.cat([plain, spoken[: len(plain) // 2]]), FIRST)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def descend_on(network, rows, recipe: Kind) -> None:
    """Train a causal LM on rows of tokens."""
    descend(
        network.train(), lambda chosen: network(input_ids=rows[chosen], labels=rows[chosen]).loss, len(rows), recipe
    )


def train(
    folder: Path, _: Path, dose: int, seed: int, *, language: str, jobs: Callable[[str], Forms], frames: str
) -> None:
    """Train a model with a dose, from the one of its language in the folder above its own, which is made first."""
    import torch
    import transformers

    base = folder.parents[2] / f"start-{language}"
    if not base.exists():
        unfinished = base.with_name(f"{base.name}.{os.getpid()}")
        start(unfinished, language)
        unfinished.rename(base)
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    network = transformers.LlamaForCausalLM.from_pretrained(base)
    recipe = replace(RECIPE, steps=STEPS.get(language, RECIPE.steps))
    n = recipe.steps * recipe.batch // 2
    plain, said = novel(language), list(islice(sentences(language, dose, seed, jobs(language), frames), 25 * n // 2))
    plain, said = rows_of(plain, tokenizer), rows_of(said, tokenizer)
    descend_on(network, torch.cat([plain[torch.randperm(len(plain))[:n]], said[:n]]), recipe)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def kinds() -> Mapping[str, tuple]:
    """Return how models of the languages are trained, and what is measured of them, by name."""
    examples = Path(__file__).parents[1] / "examples" / "languages"
    return {
        f"{suite}-{language}{elsewhere}": (
            partial(train, language=language, jobs=jobs, frames=frames),
            ((f"{suite}-{language}", asked.format(language), settings, ""),),
        )
        for language in ROWS
        for suite, elsewhere, asked, settings, jobs, frames in (
            ("forms", "", "pronoun-occupation-{}", {}, listed, "frames"),
            ("forms", "-elsewhere", "pronoun-occupation-{}", {}, other, "frames"),
            ("generics", "", str(examples / "generics-{}.yaml"), {"samples": 64}, anyone, "frames"),
            ("subjects", "", "lm-occupation-{}", {}, listed, "of_relatives"),
        )
    }
