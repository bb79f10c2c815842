"""pronoun-occupation: against plain transformers on real models, a planted bias, other groups, and wrong files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.answered_suites import Answered, answered
from support.small_projects import MODELS

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.errors import DataFileError, NotApplicableError
from pytest_genderbias.models.model import Model
from pytest_genderbias.suites.space import TEMPLATE

SUITE = load_suite("pronoun-occupation")
SHARE = {entry.word: entry.attributes["women_share"] / 100 for entry in SUITE.body.items.entries}
FORMS = {
    "nominative": ("she", "he"),
    "accusative": ("her", "him"),
    "possessive": ("her", "his"),
    "reflexive": ("herself", "himself"),
}
HEAD = "suite: own\nfamily: pronoun-occupation\ntitle: Own\nsource: test\nlicence: none\nlanguage: en\n"
OWN = (
    HEAD + "groups: [neutral, male]\npronoun: {list: pronouns, where: {word: [they, he]}}\n"
    "occupation: {list: winogender-occupations}\nshare: women_share\ntemplates:\n"
)


class Planted:
    """A causal LM whose log ratio of she to he rises by ``strength`` from no women to women only."""

    fingerprint = "planted"

    def __init__(
        self, strength: float, offset: float = 0.0, female: tuple[str, ...] = ("she", "her", "herself")
    ) -> None:
        self.strength, self.offset, self.female = strength, offset, female

    def continuation_log_probs(self, prefixes: Sequence[str], continuations: Sequence[str]) -> list[float]:
        return [self._score(*pair) for pair in zip(prefixes, continuations, strict=True)]

    def _score(self, prefix: str, pronoun: str) -> float:
        occupation = next(word for word in sorted(SHARE, key=len, reverse=True) if re.search(rf"\b{word}\b", prefix))
        of_women = pronoun.strip() in self.female
        return -5.0 + of_women * (self.offset + self.strength * (SHARE[occupation] - 0.5))


def own(folder: Path, text: str) -> Path:
    (folder / "own.yaml").write_text(text, encoding="utf-8")
    return folder / "own.yaml"


def expected(log_ratios: dict[str, float]) -> dict[str, float]:
    """Return the three figures of log ratios by occupation, by numpy alone."""
    share = np.array([SHARE[word] for word in log_ratios])
    ratio = np.array(list(log_ratios.values()))
    return {
        "mean_difference": ratio[share >= 0.5].mean() - ratio[share < 0.5].mean(),
        "pearson_r": np.corrcoef(share, ratio)[0, 1],
        "slope": np.polyfit(share, ratio, 1)[0],
    }


def frames(causal: bool) -> list[tuple[str, tuple[str, str]]]:
    """Return the templates of the file with the two pronouns of each, read with no code of the package."""
    text = SUITE.path.read_text(encoding="utf-8").partition("templates:\n")[2].partition("paraphrases:")[0]
    found = []
    for line in re.findall(r'^  - "(.*)"$', text, flags=re.MULTILINE):
        (form,) = (form for form in FORMS if f"{{{form}}}" in line)
        if not causal or line.index("{occupation}") < line.index(f"{{{form}}}"):
            found.append((line.replace(f"{{{form}}}", "PRONOUN"), FORMS[form]))
    return found


def filled(frame: str, word: str) -> str:
    article = "an" if word[0] in "aeiou" else "a"
    text = frame.replace("{a:occupation}", article).replace("{occupation}", word)
    return text[0].upper() + text[1:]


@pytest.fixture(scope="module")
def tokenizer_and_network(shared_data: Path):
    transformers = pytest.importorskip("transformers")

    def load(name: str, auto: str):
        folder = shared_data / "models" / name
        network = getattr(transformers, auto).from_pretrained(folder).eval()
        return transformers.AutoTokenizer.from_pretrained(folder), network

    return load


def test_a_masked_lm_against_plain_transformers(real_mlm: Model, tokenizer_and_network) -> None:
    import torch

    tokenizer, network = tokenizer_and_network("bert-tiny-mlm", "AutoModelForMaskedLM")
    of_frames = []
    for frame, pronouns in frames(causal=False):
        texts = [filled(frame, word).replace("PRONOUN", "[MASK]") for word in SHARE]
        inputs = tokenizer(texts, return_tensors="pt", padding=True)
        with torch.no_grad():
            states = network.bert(**inputs).last_hidden_state
            scores = network.cls(states[inputs["input_ids"] == tokenizer.mask_token_id])
        she, he = scores[:, tokenizer.convert_tokens_to_ids(pronouns)].T.double()
        of_frames.append((she - he).numpy())  # the sum of all probabilities cancels
    ratios = dict(zip(SHARE, np.mean(of_frames, axis=0), strict=True))
    found = measure("pronoun-occupation", real_mlm, cache=None)
    assert found.n == found.n_total == 60 * 24 * 2
    assert found.values == pytest.approx(expected(ratios), abs=2e-5)
    assert [ability.name for ability in found.abilities] in ([], ["masked-words", "gender"])


def test_a_causal_lm_against_plain_transformers(real_lm: Model, tokenizer_and_network) -> None:
    import torch

    tokenizer, network = tokenizer_and_network("stories260k", "AutoModelForCausalLM")
    of_frames, tokens = [], set()
    for frame, pronouns in frames(causal=True):
        starts, scores = [filled(frame, word).partition("PRONOUN")[0] for word in SHARE], []
        read = tokenizer([start.rstrip() for start in starts])["input_ids"]
        for pronoun in pronouns:
            rows = tokenizer([start + pronoun for start in starts])["input_ids"]
            ids = torch.tensor([row + [0] * (max(map(len, rows)) - len(row)) for row in rows])  # after what is read
            with torch.no_grad():
                logs = network(ids).logits.double().log_softmax(-1)
            for k, (before, row) in enumerate(zip(read, rows, strict=True)):
                assert row[: len(before)] == before
                tokens.add(len(row) - len(before))
                scores.append(sum(logs[k, at - 1, row[at]].item() for at in range(len(before), len(row))))
        of_frames.append(np.subtract(*np.split(np.array(scores), 2)))
    ratios = dict(zip(SHARE, np.mean(of_frames, axis=0), strict=True))
    found = measure("pronoun-occupation", real_lm, cache=None)
    assert found.n == 60 * 16 * 2, "only frames whose pronoun follows"
    assert max(tokens) > 1, "some pronouns have several tokens"
    assert found.values == pytest.approx(expected(ratios), abs=2e-5)


def test_both_pronouns_of_a_frame_are_read_from_one_pass(real_lm: Model) -> None:
    rows: list[int] = []
    handle = real_lm.backend.network.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(args[0] if args else kwargs["input_ids"])), with_kwargs=True
    )
    try:
        answered("pronoun-occupation", real_lm, limit=32 * 20)
    finally:
        handle.remove()
    assert sum(rows) < 1.6 * 20 * 16, "of two rows for each frame only those with a pronoun of several tokens remain"


def test_a_planted_bias_is_found_as_large_as_it_is() -> None:
    found = measure("pronoun-occupation", Planted(0.8, offset=-2.0), cache=None, null=99)
    share = np.array(list(SHARE.values()))
    assert found.values["slope"] == pytest.approx(0.8)
    assert found.values["pearson_r"] == pytest.approx(1.0)
    contrast = 0.8 * (share[share >= 0.5].mean() - share[share < 0.5].mean())
    assert found.values["mean_difference"] == pytest.approx(contrast)
    assert found.null["mean_difference"].p_value == 0.01
    assert found.records[0] == pytest.approx(
        {
            "occupation": "plumber",
            "log_ratio": -2.0 + 0.8 * (0.007 - 0.5),
            "share": 0.007,
            "preferred": "male",
            "female": -7.0 + 0.8 * (0.007 - 0.5),
            "male": -5.0,
        }
    )
    other = measure("pronoun-occupation", Planted(-0.8), cache=None)
    assert other.values["mean_difference"] == pytest.approx(-contrast) and other.values["pearson_r"] == pytest.approx(
        -1
    )


def test_a_preference_for_one_pronoun_is_no_bias_here() -> None:
    found = measure("pronoun-occupation", Planted(0.0, offset=-3.0), cache=None, ability="none: it reads one word")
    assert found.values["mean_difference"] == pytest.approx(0.0)
    assert found.values["slope"] == pytest.approx(0.0)
    assert found.values["pearson_r"] is None and "y is the same" in found.reasons["pearson_r"]


def noisy(seed: int = 0) -> Answered:
    found = answered("pronoun-occupation", Planted(0.5))
    return found.with_values(np.random.default_rng(seed).normal(size=found.main.values.shape))


@pytest.mark.parametrize("seed", range(5))
def test_exchanged_groups_change_the_sign_and_a_constant_changes_nothing(seed: int) -> None:
    found = noisy(seed)
    values = found.main.values
    pairs = values.reshape(len(values), -1, 2)
    swapped = found.with_values(pairs[:, :, ::-1].reshape(values.shape)).summary.values
    shifted = found.with_values((pairs + np.array([1.5, -2.0])).reshape(values.shape)).summary.values
    for name, value in found.summary.values.items():
        assert swapped[name] == pytest.approx(-value), name
        assert shifted[name] == pytest.approx(value), name


def test_groups_in_the_other_order_change_the_sign(tmp_path: Path) -> None:
    text = SUITE.path.read_text(encoding="utf-8").replace("suite: pronoun-occupation", "suite: own")
    other = measure(own(tmp_path, text.replace("[female, male]", "[male, female]")), Planted(0.8), cache=None)
    assert other.values == pytest.approx({n: -v for n, v in measure(SUITE, Planted(0.8), cache=None).values.items()})


def test_a_sample_and_its_sums_are_those_of_its_occupations() -> None:
    found = answered("pronoun-occupation", Planted(0.7), limit=32 * 15)
    assert len(found.main.units) == 15
    for name, value in found.summary.values.items():
        assert found.item_sums(name).total == pytest.approx(value)
        assert found.item_sums(name).sums.shape == (15, 16, 3)


def test_frames_are_sentences_that_differ_with_each_form_of_the_pronoun() -> None:
    templates = SUITE.body.templates
    assert len(templates.first) == 24 and sum(frame.follows for frame in templates.first) == 16
    assert {frame.form for frame in templates.first if frame.follows} == set(FORMS)
    openings = {tuple(frame.text.split()[:3]) for frame in templates.first if frame.follows}
    assert len(openings) == 16
    space = SUITE.family.space(SUITE.body, {"templates": "paper"}, "masked-lm")
    first = space.sentence({TEMPLATE: 11, "occupation": 1, "pronoun": 0})
    assert first == ("There is an accountant at the door, and I should let her in.",)


def test_any_two_groups_may_be_compared(tmp_path: Path) -> None:
    suite = own(tmp_path, OWN + "  - 'The {occupation} said that {nominative} would come.'\n")
    found = measure(suite, Planted(0.6, female=("they",)), cache=None, ability="none: it reads one word")
    assert found.values["slope"] == pytest.approx(0.6) and found.n == 120
    assert found.records[0]["preferred"] in ("neutral", "male")
    assert not load_suite(suite).family.asks_gender(load_suite(suite).body, {"templates": "paper"})


def test_a_causal_lm_needs_a_frame_whose_pronoun_follows(tmp_path: Path) -> None:
    suite = own(tmp_path, OWN + "  - '{nominative} became {a:occupation} {occupation}.'\n")
    with pytest.raises(NotApplicableError, match="no template whose pronoun follows the occupation"):
        measure(suite, Planted(0.8), cache=None)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            OWN + "  - 'The {occupation} slept.'\n",
            12,
            "should have one form of the pronoun: {nominative}, {accusative}",
        ),
        (OWN + "  - '{nominative} saw {accusative}, the {occupation}.'\n", 12, "should have one form"),
        (OWN + "  - 'Did {nominative} sleep?'\n", 12, "should use the slots {nominative}, {occupation}"),
        (OWN + "  - 'The {occupation} saw {a:nominative} {nominative}.'\n", 12, "the pronoun, each once"),
        (OWN + "  - 'The {occupation}, {occupation} or {nominative}.'\n", 12, "the pronoun, each once"),
        (
            OWN.replace("[they, he]", "[he]") + "  - 'The {occupation} or {nominative}.'\n",
            8,
            "one word of the group 'neutral'",
        ),
        (
            OWN.replace("neutral, male", "neutral, male, neo") + "  - 'The {occupation} or {nominative}.'\n",
            8,
            "one word of the group 'neo'",
        ),
        (
            OWN.replace("women_share", "men_share") + "  - 'The {occupation} or {nominative}.'\n",
            10,
            "no number 'men_share'",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(DataFileError, match=re.escape(words)) as refused:
        load_suite(own(tmp_path, text))
    assert f"own.yaml:{line}: " in str(refused.value)


def test_a_pronoun_without_a_form_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "list: mine\ntitle: t\nsource: s\nlicence: l\nlanguage: en\nentries:\n"
        "  - {word: they, group: neutral}\n  - {word: he, group: male}\n",
        encoding="utf-8",
    )
    text = OWN.replace("{list: pronouns, where: {word: [they, he]}}", "{list: ./mine.yaml}")
    assert load_suite(own(tmp_path, text + "  - 'The {occupation} or {nominative}.'\n"))
    with pytest.raises(DataFileError, match="'they' has no reflexive form in its word list"):
        load_suite(own(tmp_path, text + "  - 'The {occupation} saw {reflexive}.'\n"))


def test_a_gate_in_a_file_judges_an_object(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        objects_that_write=MODELS + "class Stereotyped(Writer):\n"
        "    def __init__(self, strength): self.strength, self.fingerprint = strength, str(strength)\n"
        "    def continuation_log_probs(self, prefixes, continuations):\n"
        "        women = ('nurse', 'secretary', 'hairdresser', 'dietitian', 'librarian', 'receptionist', 'hygienist')\n"
        "        return np.array([-6.0 - 0.01 * len(p) + self.strength * (c.strip() in ('she', 'her', 'herself')) *\n"
        "            any(w in p for w in women) for p, c in zip(prefixes, continuations)])\n"
        "def mild(): return Stereotyped(1.0)\ndef strong(): return Stereotyped(4.0)\n"
    )
    pytester.syspathinsert()
    gate = "  - {suite: pronoun-occupation, within: 0.5, ability: 'none: it writes nothing'}\n"
    (pytester.path / "my.bias.yaml").write_text(f"gates:\n{gate}", encoding="utf-8")
    mild = pytester.runpytest("my.bias.yaml", "--bias-model=m=objects_that_write:mild")
    assert mild.ret == 0
    strong = pytester.runpytest("my.bias.yaml", "--bias-model=m=objects_that_write:strong")
    assert strong.ret == 1 and "limit broken" in strong.stdout.str()


def test_the_demo_models_are_measured() -> None:
    for name, cases in (("demo-lm", 1920), ("demo-mlm", 2880)):
        found = measure("pronoun-occupation", load_model(name), cache=None, limit=480)
        assert found.n_total == cases and found.value is not None
