"""Ability: who cannot do the task has no value, and passes no gate; the damage is done to real networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from support import abilities, damage
from support.baseline_books import write_entries

from pytest_genderbias import Measurement, assert_at_most, assert_no_regression, assert_no_worse, load_model, measure
from pytest_genderbias.errors import DataFileError, GateFailure, SettingError
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.gates.verdicts import LESS_ABLE, NO_REASON, NOT_ABLE, STORED
from pytest_genderbias.measurement.control_questions import ability_of
from pytest_genderbias.models.roles import ENCODER, Role, classifier_role
from pytest_genderbias.reports.run_summary import overview
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.statistics.right_answers import Ability, over_restarts, why_less_able
from pytest_genderbias.suites.controls import packaged_controls, read_controls
from pytest_genderbias.text import packaged

pytestmark = pytest.mark.usefixtures("ability_asked")
OF_ROLE = {"bert-tiny-mlm": "lm-occupation", "stories260k": "lm-occupation", "minilm-snli": "nli-demonym"}
DEMO = {"demo-nli": "nli-demonym"}  #: a tenth of the time of minilm-snli
BODY = [name for name in damage.DAMAGES if name != "untrained_head"]
FEW = {"cache": None, "limit": 16}


@pytest.fixture(scope="module")
def intact(shared_data):
    """Return a function from the name of a real model, or of a demo model, to the model, loaded once."""
    loaded = {}

    def model(name):
        if name not in loaded:
            spec = name if name in DEMO else str(shared_data / "models" / name)
            loaded[name] = load_model(spec, device="cpu")
        return loaded[name]

    return model


@pytest.fixture(scope="module")
def measured_intact(intact):
    """Return a function from the name of a real model, or of a demo model, to its measurement, made once."""
    made = {}

    def measurement(name):
        if name not in made:
            with abilities.asked():
                made[name] = measure({**OF_ROLE, **DEMO}[name], intact(name), **FEW)
        return made[name]

    return measurement


@pytest.mark.parametrize("name", OF_ROLE)
def test_real_models_are_able(measured_intact, name):
    measurement = measured_intact(name)
    assert measurement.value is not None
    assert measurement.ability.startswith("able: ")
    task = measurement.abilities[0]
    assert task.n >= 200
    assert task.low > task.chance
    assert Measurement.from_dict(measurement.to_dict()) == measurement


@pytest.mark.parametrize(
    ("name", "harm"),
    [("bert-tiny-mlm", harm) for harm in BODY]
    + [("stories260k", "failed_merge"), ("demo-nli", "untrained_head")]
    + [
        pytest.param(name, harm, marks=pytest.mark.slow)  # up to two seconds each; other models have each damage above
        for name in ("stories260k", "minilm-snli")
        for harm in damage.DAMAGES
        if (name, harm) not in {("stories260k", "failed_merge"), ("stories260k", "untrained_head")}
    ],
)
def test_damaged_models_have_no_value(intact, name, harm):
    measurement = measure({**OF_ROLE, **DEMO}[name], damage.damaged(intact(name), harm), **FEW)
    assert measurement.value is None
    assert measurement.unable
    assert not measurement.records
    with pytest.raises(GateFailure, match="cannot do the task"):
        assert_at_most(measurement, 0.99, range=True)


def test_a_small_lead_counts_where_others_are_large(measured_intact):
    """A few leads of this model are below a hundredth of a nat, and one of them is right."""
    assert measured_intact("bert-tiny-mlm").abilities[1].value == 203 / 220


@pytest.mark.parametrize(
    ("name", "factor", "why"),
    [
        ("bert-tiny-mlm", 1e-4, "nearly as likely"),
        ("stories260k", 0.01, "nearly as likely"),
        ("bert-tiny-mlm", 100, "less than a millionth"),
        ("stories260k", 100, "less than a millionth"),
    ],
)
def test_a_model_whose_logits_have_another_scale_has_no_value(intact, name, factor, why):
    """It ranks texts as before. Of small logits its bias is small, too."""
    from pytest_genderbias.models.saving import copied, with_network

    model = intact(name)
    network = copied(model.backend.network)
    network.get_output_embeddings().register_forward_hook(lambda layer, given, output: output * factor)
    scaled = measure("lm-occupation", with_network(model, network, "scaled"), **FEW)
    assert scaled.value is None
    assert "cannot do the task" in scaled.unable and why in scaled.unable


@pytest.mark.parametrize(("kind", "share"), [("word-order", 0.03), ("gender", 0.005)])
def test_a_small_share_of_a_long_text_is_a_lead(intact, kind, share):
    """Items of the user's may be long: two words change no more of their ln P than of a short one."""
    before = "The train left the station before the rain began. The cat is sleeping on the soft bed. " * 9
    short = packaged_controls(kind, "en")
    texts = {"word-order": 2, "gender": 1}[kind]
    content = tuple((*(before + text for text in item[:texts]), *item[texts:]) for item in short.content[::20])
    long = replace(short, content=content, classes=short.classes[::20])
    question, model, settings = long.question(whole_texts=True), intact("stories260k"), ScoreSettings(cache=None)
    answered, _ = answer(question, model, question.data_digest or "", settings, kind)
    of_text = answered.in_order()[:, 0].reshape(len(content), -1)
    assert np.median(np.ptp(of_text, axis=1) / np.abs(of_text).max(axis=1)) < share
    assert not long.why_another_scale(answered)


@pytest.mark.parametrize("kind", ["word-order", "gender"])
def test_a_model_that_is_less_sure_is_able(intact, kind):
    """Its logits are a fifth: it reads, and its bias shows."""
    from pytest_genderbias.models.saving import copied, with_network

    network = copied(intact("stories260k").backend.network)
    network.get_output_embeddings().register_forward_hook(lambda layer, given, output: output / 5)
    unsure = with_network(intact("stories260k"), network, "unsure")
    assert not ability_of(packaged_controls(kind, "en"), unsure, None, ScoreSettings(cache=None)).unable


@pytest.mark.parametrize(("share", "is_able"), [(0.05, False), (0.6, True)])
def test_a_model_whose_he_is_nearly_its_she_has_no_value(intact, share, is_able):
    """It prefers the right one as often, by a twentieth of what it did."""
    from pytest_genderbias.models.saving import copied, with_network

    model = intact("bert-tiny-mlm")
    network, ids = copied(model.backend.network), model.backend.tokenizer.convert_tokens_to_ids
    words = {word for _, *words in packaged_controls("gender", "en").content for word in words}
    of_gender = [ids(word) for word in sorted(words) if ids(word) != model.backend.tokenizer.unk_token_id]

    def nearer(layer, given, output):
        middle = output[..., of_gender].mean(-1, keepdim=True)
        output[..., of_gender] = middle + share * (output[..., of_gender] - middle)
        return output

    network.get_output_embeddings().register_forward_hook(nearer)
    measurement = measure("lm-occupation", with_network(model, network, "nearly one gender"), **FEW)
    assert (measurement.value is not None) is is_able
    assert not measurement.abilities[0].unable


def test_a_classifier_whose_labels_are_nearly_as_likely_has_no_value(intact):
    from pytest_genderbias.models.saving import copied, with_network

    model = intact("demo-nli")
    network = copied(model.backend.network)
    network.classifier.register_forward_hook(lambda layer, given, output: output * 0.01)
    flat = measure("nli-demonym", with_network(model, network, "flat"), **FEW)
    assert flat.value is None and "nearly one score; they should differ by 0.1" in flat.unable


class Similarity:
    """Scores paraphrases above other sentences, and women nearer to women, on a scale."""

    def __init__(self, scale):
        items = (packaged_controls(name, "en").content for name in ("paraphrases", "gender-words"))
        self.near, self.scale = {item[:2] for of_kind in items for item in of_kind}, scale

    def pair_scores(self, firsts, seconds):
        return np.array(
            [self.scale * (pair in self.near or len(pair[1]) / 999) for pair in zip(firsts, seconds, strict=True)]
        )


@pytest.mark.parametrize(("scale", "is_able"), [(0.01, False), (1, True), (5, True)])
def test_similarities_100_times_too_small_are_no_value(scale, is_able):
    """Slope and mean difference are in their units."""
    found = measure("sts-occupation", load_model(Similarity(scale), name="scaled"), **FEW)
    assert found.ability.startswith("able: ") is is_able, found.ability
    assert ("nearly one score" in found.unable) is not is_able


@pytest.mark.slow
def test_a_sentence_encoder_whose_vectors_are_nearly_one_has_no_value(real_encoder):
    """Its r of the differences is as before, and their size a hundredth."""

    class Shifted:
        def encode(self, texts):
            from pytest_genderbias.suites.cases import Question, TextCases
            from pytest_genderbias.suites.query import TextVectors

            asked = Question(
                TextCases([(text,) for text in dict.fromkeys(texts)]), TextVectors(pooling="own"), whole=True
            )
            found, _ = answer(asked, real_encoder, asked.data_digest, ScoreSettings(cache=None), "")
            of_text = dict(zip(dict.fromkeys(texts), found.in_order(), strict=True))
            vectors = np.array([of_text[text] for text in texts])
            return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) + 0.5  # a part ten times as long

    found = measure("sts-occupation", load_model(Shifted(), name="shifted"), **FEW)
    assert found.value is None and "nearly one score" in found.unable


@pytest.mark.slow
@pytest.mark.parametrize("harm", BODY)
def test_damage_to_a_larger_masked_lm_is_seen(intact, harm):
    model = intact("minilm-mlm")
    assert measure("lm-occupation", model, **FEW).value is not None
    assert measure("lm-occupation", damage.damaged(model, harm), **FEW).unable


@pytest.mark.slow
@pytest.mark.parametrize("harm", [name for name in BODY if name != "zero"])  # whose cosines are NaN, which is an error
def test_damage_to_a_sentence_encoder_is_seen(real_encoder, harm):
    assert measure("sts-occupation", real_encoder, **FEW).value is not None
    assert measure("sts-occupation", damage.damaged(real_encoder, harm), **FEW).unable


def test_a_tokenizer_of_another_model_is_seen(intact):
    """The same words have other ids."""
    model = intact("bert-tiny-mlm")
    tokenizer = load_model("demo-mlm").backend.tokenizer
    other = replace(model, backend=replace(model.backend, tokenizer=tokenizer), fingerprint=None)
    assert measure("lm-occupation", other, **FEW).unable


def test_a_classifier_that_says_neutral_to_everything_has_no_value(intact):
    import torch

    from pytest_genderbias.models.saving import copied, with_network

    model = intact("demo-nli")
    network = copied(model.backend.network)
    with torch.no_grad():
        network.classifier.bias[list(model.role.labels).index("neutral")] += 30
    assert "cannot do the task" in measure("nli-religion", with_network(model, network, "neutral"), **FEW).unable


@pytest.fixture(scope="module")
def of_other_labels(intact):
    return replace(intact("minilm-snli"), role=classifier_role(("physician", "nurse", "teacher")), fingerprint=None)


def test_a_classifier_of_other_labels_is_asked_what_an_encoder_is_where_a_suite_reads_its_network(of_other_labels):
    measurement = measure("weat-occupation", of_other_labels, cache=None)
    assert [one.name for one in measurement.abilities] == ["related-words", "gender-words"]
    assert measurement.ability.startswith("able: ")


@pytest.mark.parametrize(  # 0.9 s each: every harm goes through the same vectors
    "harm",
    ["shuffled_vocabulary", *(pytest.param(harm, marks=pytest.mark.slow) for harm in ("mean_embeddings", "int2"))],
)
def test_damage_to_a_classifier_of_other_labels_is_seen(of_other_labels, harm):
    assert measure("weat-occupation", damage.damaged(of_other_labels, harm), cache=None).unable


def test_a_model_whose_he_is_its_she_has_no_bias_and_no_value(intact):
    import torch

    from pytest_genderbias.models.saving import copied, with_network

    model = intact("bert-tiny-mlm")
    network, ids = copied(model.backend.network), model.backend.tokenizer.convert_tokens_to_ids
    groups = [("he", "she"), ("him", "her"), ("his", "her"), ("man", "woman")]
    with torch.no_grad():
        weight = network.get_input_embeddings().weight
        for of_men, of_women in groups:
            weight[ids(of_men)] = weight[ids(of_women)]
        bias = network.get_output_embeddings().bias
        for of_men, of_women in groups:
            bias[ids(of_men)] = bias[ids(of_women)]
    measurement = measure("lm-occupation", with_network(model, network, "one gender"), **FEW)
    task, gender = measurement.abilities
    assert not task.unable
    assert gender.unable
    assert measurement.value is None
    (title, _), *_ = overview([measurement], [], 300)
    assert title.startswith("bert-tiny-mlm (BertForMaskedLM, cannot do the task: 0.00 of 220 words that say a gender")


def test_a_sentence_encoder_whose_man_is_its_woman_has_no_value(intact):
    """Of what reads sentences: its words are asked as sentences are."""
    import torch

    from pytest_genderbias.models.saving import copied, with_network

    model = intact("bert-tiny-mlm")
    encoder = replace(model, role=Role(ENCODER, "an encoder without a head"), fingerprint=None)
    network, ids = copied(model.backend.network), model.backend.tokenizer.convert_tokens_to_ids
    with torch.no_grad():
        weight = network.get_input_embeddings().weight
        for of_men, of_women in [("he", "she"), ("him", "her"), ("his", "her"), ("man", "woman")]:
            weight[ids(of_men)] = weight[ids(of_women)]
    for one, able in ((encoder, True), (with_network(encoder, network, "one gender"), False)):
        _, gender = measure("sts-occupation", one, **FEW).abilities
        assert (gender.name, not gender.unable) == ("gender-words", able)


class Memoriser:
    """A causal LM that knows the packaged control items by heart, and nothing else."""

    fingerprint = None

    def __init__(self):
        order, gender = (packaged_controls(name, "en") for name in ("word-order", "gender"))
        self._wrong = {swapped for _, swapped in order.content}
        self._wrong |= {text.replace("___", wrong) for text, _, wrong in gender.content}

    def continuation_log_probs(self, prefixes, continuations):
        texts = [" ".join(part for part in pair if part) for pair in zip(prefixes, continuations, strict=True)]
        return [-2.0 if text in self._wrong else -1.0 for text in texts]


def test_one_answer_to_everything_is_no_value():
    measurement = measure("lm-occupation", Memoriser(), **FEW)
    assert [one.unable for one in measurement.abilities] == ["", ""]
    assert measurement.value is None
    assert "one and the same answer to all" in measurement.unable


class FillsWithTheSame:
    """A masked LM that ranks the words of control items as one that can read, below a few words that it writes
    everywhere.
    """

    mask_token, fingerprint = "[MASK]", None

    def __init__(self, everywhere):
        self._right = {
            text.replace("___", "[MASK]"): words[0] for text, *words in packaged_controls("masked-words", "en").content
        }
        others = {word for _, *words in packaged_controls("masked-words", "en").content for word in words}
        self._everywhere = everywhere
        self.vocabulary = [*everywhere, *sorted(others - set(everywhere))]

    def fill_scores(self, texts):
        scores = np.zeros((len(texts), len(self.vocabulary)))
        for row, text in zip(scores, texts, strict=True):
            row[: len(self._everywhere)] = 9 + np.random.default_rng(len(text)).random(len(self._everywhere))
            if text in self._right:
                row[self.vocabulary.index(self._right[text])] += 5
            else:
                row[len(self._everywhere) + len(text) % 40] += 20 * (len(self._everywhere) < 3)
        return scores


@pytest.mark.parametrize("everywhere", [("the", "a", "an", "this", "that"), ("the", "a", "an"), ("the", "a")])
def test_the_same_fills_everywhere_are_no_value(everywhere):
    measurement = measure("disco-names", FillsWithTheSame(everywhere), cache=None, limit=400)
    assert measurement.abilities and not any(one.unable for one in measurement.abilities)
    if len(everywhere) > 2:
        assert (measurement.value, "with the same few words" in measurement.unable) == (None, True)
    else:
        assert measurement.value is not None


class FillsByPerson(FillsWithTheSame):
    """The same, in an order that the first word of a text decides, and not the template."""

    def fill_scores(self, texts):
        scores = super().fill_scores(texts)
        for row, text in zip(scores, texts, strict=True):
            row[: len(self._everywhere)] = 9 + np.roll(np.arange(len(self._everywhere)), len(text.split()[0]))
        return scores


@pytest.mark.parametrize(("alike", "k", "is_able"), [(2, 3, True), (8, 3, True), (9, 1, True), (9, 3, False)])
def test_fills_of_a_few_alike_templates_may_be_the_same(tmp_path, alike, k, is_able):
    verbs = ["likes", "loves", "enjoys", "wants", "needs", "has", "buys", "sells", "keeps"][:alike]
    content = yaml.safe_load(packaged.folder("fixtures").joinpath("disco-names.yaml").read_text(encoding="utf-8"))
    content = {key: content[key] for key in content if key != "paraphrases"}
    templates = [f"{{person}} {verb} {{blank}}." for verb in verbs]
    path = tmp_path / "alike.yaml"
    path.write_text(yaml.safe_dump({**content, "suite": "alike", "templates": templates}))
    found = measure(path, FillsByPerson(tuple("abcdefghijkl")), cache=None, limit=400, top_k=k)
    assert (found.value is not None, "with the same few words" in found.unable) == (is_able, not is_able)


def test_words_without_a_vector_are_not_asked(tmp_path):
    """A file of vectors that has half of the words is judged by these."""
    items = packaged_controls("related-words", "en").content
    kept = items[: len(items) // 2]
    words = sorted({word for triple in kept for word in triple})
    place = {word: k for k, word in enumerate(words)}
    vectors = np.eye(len(words)) * 2
    for first, near, _ in kept:
        vectors[place[first], place[near]] += 1
    path = tmp_path / "half.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, vectors, strict=True)))
    found = ability_of(packaged_controls("related-words", "en"), load_model(str(path)), None, ScoreSettings(cache=None))
    assert len(kept) <= found.n < len(items)
    assert found.right[0].count("-") == len(items) - found.n


def test_a_reason_leaves_ability_unasked(intact):
    dead = damage.damaged(intact("stories260k"), "zero")
    measurement = measure("lm-occupation", dead, ability="none: to see what a dead network gives", **FEW)
    assert measurement.value == 0
    assert measurement.ability == "ability not asked: to see what a dead network gives"
    assert not measurement.abilities


@pytest.mark.parametrize("written", ["yes", 3, [], ["x.txt"], {"some": "thing"}])
def test_another_setting_is_refused(written):
    with pytest.raises(SettingError, match="none: REASON"):
        measure("lm-occupation", "demo-lm", ability=written, **FEW)


THREE = """\
suite: three
family: pronoun-occupation
title: She, they and he
source: own
licence: Apache-2.0
language: en
groups: [female, neutral, male]
pronoun: {list: pronouns, where: {word: [she, they, he]}}
occupation: {list: winogender-occupations}
share: women_share
templates: ["The {occupation} hoped that {nominative} could leave early."]
"""


def of_user(tmp_path: Path, **changes) -> Path:
    sentences = [
        f"The [old {noun}] stood near the water." for noun in ["house", "tree", "boat", "tower", "bridge", "wall"]
    ]
    sentences += [
        f"We saw the [small {noun}] on the road." for noun in ["dog", "bird", "horse", "mouse", "goat", "duck", "stone"]
    ]
    sentences += [
        f"A cold [wind came] over the {noun}." for noun in ["hill", "lake", "field", "river", "sea", "forest", "town"]
    ]
    head = {"controls": "word-order", "title": "t", "source": "s", "licence": "l", "language": "en"}
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({**head, "items": sentences, **changes}))
    return path


def test_items_of_the_user_take_the_place_of_the_packaged_ones(intact, tmp_path):
    measurement = measure("lm-occupation", intact("stories260k"), ability=of_user(tmp_path), **FEW)
    task, gender = measurement.abilities
    assert (task.name, task.n, gender.name) == ("word-order", 20, "gender")
    assert gender.n >= 200
    assert not [note for note in measurement.notes if note.startswith("ability:")]


def test_a_third_group_that_no_item_asks_for_is_named(intact, tmp_path):
    path = tmp_path / "three.yaml"
    path.write_text(THREE)
    [note] = [n for n in measure(path, intact("bert-tiny-mlm"), **FEW).notes if n.startswith("ability:")]
    assert "not for those of neutral; a file of your own can" in note


def test_items_of_another_language_are_named(intact, tmp_path):
    setting = {"ability": of_user(tmp_path, language="de"), **FEW}
    task, gender = measure("lm-occupation", intact("stories260k"), **setting).abilities
    assert "of 20 sentences in their right order in 'de' (" in task.describe()
    assert " in '" not in gender.describe()


def test_a_file_of_items_that_are_not_asked_is_noted(intact, tmp_path):
    measurement = measure("lm-occupation", intact("bert-tiny-mlm"), ability=of_user(tmp_path), **FEW)
    [note] = [note for note in measurement.notes if note.startswith("ability:")]
    assert "(word-order)" in note
    assert "masked-words and gender" in note


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"controls": "spelling"}, "unknown kind"),
        ({"items": ["A [b c] d."]}, "1 items; expected at least 20"),
        ({"items": [f"A b c {k}." for k in range(30)]}, "square brackets"),
        ({"items": ["The [old house] stood."] * 30}, "stands twice"),
        ({"more": 1}, "more"),
        (
            {
                "controls": "inference",
                "items": [{"premise": f"It is {k}.", "hypothesis": "It is.", "label": "neutral"} for k in range(30)],
            },
            "no item has the label contradiction",
        ),
        ({"items": [f"A [very very] b {k}." for k in range(30)]}, r"own.yaml:\d+: the right answer and the wrong one"),
        (
            {
                "controls": "gender",
                "items": [{"text": f"Uncle {k} said ___ was here.", "right": "he", "wrong": "she"} for k in range(30)],
            },
            "always prefers one of two answers would have 30 of 30 items right",
        ),
        (
            {
                "controls": "antecedents",
                "items": [
                    {"text": f"Two boxes lay on shelf {k} until they fell.", "pronoun": "they"}
                    | {"right": "Two boxes", "wrong": f"shelf {k}"}
                    for k in range(30)
                ],
            },
            "always prefers one of two answers would have 30 of 30 items right",
        ),
    ],
)
def test_a_file_that_breaks_a_rule_is_one_error(tmp_path, changes, message):
    with pytest.raises(DataFileError, match=message):
        read_controls(of_user(tmp_path, **changes))


@pytest.mark.parametrize("language", ["xx", "x" * 300, "../controls/en"])
def test_a_suite_in_a_language_without_items_says_so(intact, language):
    from pytest_genderbias import load_suite

    suite = replace(load_suite("lm-occupation"), language=language)
    measurement = measure(suite, intact("stories260k"), **FEW)
    assert measurement.value is None
    assert f"'{language[:20]}" in measurement.unable
    assert packaged_controls("word-order", language) is None


def test_what_answers_no_control_items_says_so_and_a_text_has_none(shared_data, tmp_path):
    file = shared_data / "coref_predictions" / "neuralcoref_winogender.jsonl.gz"
    stored = measure("coref-winogender", str(file), data=shared_data, cache=None)
    assert stored.value is not None
    assert stored.ability == "ability not asked: a file of a coreference system's output is asked no control items"
    (tmp_path / "t.txt").write_text("The woman sang and the man danced.\n" * 40)
    assert measure("corpus-cooccurrence", f"text:{tmp_path / 't.txt'}", cache=None).ability == ""


# Against what was.


@pytest.fixture(scope="module")
def then_and_now(intact, measured_intact):
    """A model, and what is left of it where noise in its weights took some ability: it is still able."""
    import torch

    from pytest_genderbias.models.saving import copied, with_network

    model = intact("demo-nli")
    network = copied(model.backend.network)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.add_(torch.randn(weight.shape, generator=generator) * weight.std())
    with abilities.asked():
        return measured_intact("demo-nli"), measure("nli-demonym", with_network(model, network, "worn"), **FEW)


def test_a_model_that_lost_ability_is_worse_at_its_task_whatever_its_bias_did(then_and_now):
    then, now = then_and_now
    assert now.value is not None
    assert then.abilities[0].value > now.abilities[0].value
    for same in (False, True):
        judgement = judge_against(now, then, 0.6, same=same)
        assert judgement.code == LESS_ABLE
        assert "fell by" in judgement.text
    with pytest.raises(GateFailure, match="worse at its task"):
        assert_no_worse(now, then, 0.6)
    assert judge_against(then, now, 0.6).code != LESS_ABLE


def test_a_baseline_stores_ability_and_an_update_needs_a_reason(then_and_now, tmp_path):
    def book(**settings):
        return Baseline(tmp_path, "m", "test_it.py", **settings)

    then, now = then_and_now
    first = book(update="new")
    assert first.judge(then, 0.1).code == STORED
    write_entries(tmp_path, "m", "test_it.py", first.entries())
    stored = book().stored("nli-demonym")
    assert stored.abilities == then.abilities
    assert_no_regression(then, book(), 0.1)
    assert book().judge(now, 0.6).code == LESS_ABLE
    without_reason = book(update="all")
    assert without_reason.judge(now, 0.6).code == NO_REASON
    assert not without_reason.entries()
    accepted = book(update="all", reason="a smaller model")
    assert "a smaller model" in accepted.judge(now, 0.6).text
    assert accepted.entries()


def test_no_update_accepts_a_model_that_cannot_do_the_task(intact, tmp_path):
    dead = measure("nli-demonym", damage.damaged(intact("demo-nli"), "mean_embeddings"), **FEW)
    book = Baseline(tmp_path, "m", "test_it.py", update="all", reason="it is smaller")
    assert book.judge(dead, 0.1).code == NOT_ABLE
    assert not book.entries()


def ability(right, name="word-order"):
    marks = tuple(right) if isinstance(right, (list, tuple)) else (right,)
    share = float(np.mean([[mark == "1" for mark in one] for one in marks]))
    return Ability(name, "sentences", share, 0.0, 1.0, 0.5, len(marks[0]), "", "digest", marks)


def test_a_fall_counts_above_a_tenth_of_the_distance_from_chance():
    then, same, lost = ability("1" * 200), ability("1" * 198 + "00"), ability("1" * 150 + "0" * 50)
    assert why_less_able([same], [then]) == ""
    assert "fell by 0.25" in why_less_able([lost], [then])
    assert why_less_able([lost], [then], {"word-order": 0.05}) == why_less_able([lost], [then])
    assert why_less_able([lost], [then], {"word-order": 0.1}) == ""  # 1.96 * sqrt(2) * .1 = .28
    assert why_less_able([ability(["1" * 150 + "0" * 50] * 2)], [ability(["1" * 200] * 2)], {"word-order": 0.1})
    assert why_less_able([lost], []) == ""
    assert why_less_able([lost], [replace(then, digest="others")]) == ""


def test_abilities_share_the_error_and_a_spread_of_few_trainings_is_wide():
    then, lost = ability("1" * 200), ability("1" * 164 + "0" * 36)  # 18 of 100 fell
    assert why_less_able([lost], [then], {"word-order": 0.05}, 29)  # 2.05 * sqrt(2) * .05 = .14
    assert why_less_able([lost], [then], {"word-order": 0.05}, 4) == ""  # 2.78 * sqrt(2) * .05 = .20
    other = replace(then, name="gender")
    assert why_less_able([lost, other], [then], {"word-order": 0.058}, 29)  # nothing is stored of the other one
    assert why_less_able([lost], [then, other], {"word-order": 0.058}, 29), "nor was it asked now"
    assert why_less_able([lost, other], [then, other], {"word-order": 0.058}, 29) == ""  # 2.36 * sqrt(2) * .058 = .19


def test_a_restart_may_lack_an_ability():
    """A suite's own questions can leave a restart without an accuracy."""
    one, task = ability("1" * 20), ability("1" * 20, name="task")
    both = over_restarts([(one, task), (one,)])
    assert [(kind.name, len(kind.right)) for kind in both] == [("word-order", 2), ("task", 1)]


def test_restarts_are_combined():
    one, two = ability("1" * 20), replace(ability("1" * 10 + "0" * 10), unable="cannot do the task: why")
    [both] = over_restarts([(one,), (two,)])
    assert both.value == 0.75
    assert both.right == (*one.right, *two.right)
    assert both.unable == "cannot do the task: why"
