"""The edge-probing head: what it is trained on, that it learns and can be repeated, and that no stale head is used."""

import itertools
import json
import re
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from pytest_genderbias.datasets.folder import DataFolder, MissingDataError
from pytest_genderbias.datasets.mentions import gender_of_pronoun
from pytest_genderbias.errors import DataFileError, ModelError, NotApplicableError, ScoreError, SettingError
from pytest_genderbias.models.objects import wrap_network, wrap_object
from pytest_genderbias.scoring import edge_probe
from pytest_genderbias.scoring.edge_probe import split_documents, train_head
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.scoring.text_vectors import HiddenStates
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.families.shared import coreference_training as module
from pytest_genderbias.suites.families.shared.coreference_training import CoreferenceTraining, coreference_training
from pytest_genderbias.suites.query import CoreferenceScores

PEOPLE = ("nurse", "engineer", "teacher", "doctor")
MEANT = ("nurse", "teacher")


# What it is trained on


def gap_file(folder, rows):
    columns = ["ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL"]
    lines = ["\t".join(columns)]
    for i, (a, b) in enumerate(rows):
        text = f"Ann met Eve {i} times, and she left."
        lines.append("\t".join(map(str, (f"d-{i}", text, "she", text.index("she"), "Ann", 0, a, "Eve", 8, b, "-"))))
    (folder / "gap").mkdir()
    (folder / "gap" / "gap-development.tsv").write_text("\n".join(lines) + "\n")
    return DataFolder(folder)


def test_gap_gives_each_name_with_the_pronoun(tmp_path):
    training = coreference_training(gap_file(tmp_path, [("TRUE", "FALSE"), ("FALSE", "FALSE")] * 6), "gap")
    examples = training.examples
    assert examples.n_cases == 24
    assert [examples.texts[0][0][slice(*span)] for span in examples.spans[0]] == ["Ann", "she"]
    assert [examples.texts[1][0][slice(*span)] for span in examples.spans[1]] == ["Eve", "she"]
    assert examples.facts["label"].tolist() == [True, False, False, False] * 6
    assert examples.facts["document"].tolist() == sorted([*range(12)] * 2)


def test_the_repr_is_the_name_and_the_digest_of_what_was_read(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    one = coreference_training(gap_file(first, [("TRUE", "FALSE")] * 12), "gap")
    other = coreference_training(gap_file(second, [("TRUE", "FALSE")] * 11 + [("FALSE", "TRUE")]), "gap")
    assert repr(one) == f"CoreferenceTraining(name='gap', digest='{one.examples.digest()}')"
    assert one != other
    assert hash(one) == hash(coreference_training(DataFolder(first), "gap"))


def conll(documents):
    lines = []
    for name, sentences in documents:
        lines.append(f"#begin document ({name}); part 000")
        for sentence in sentences:
            lines += [f"{name} 0 {i} {word} - {mark}" for i, (word, mark) in enumerate(sentence)]
            lines.append("")
        lines.append("#end document")
    return "\n".join(lines) + "\n"


SENTENCES = [
    [("She", "(1)"), ("told", "-"), ("the", "(2"), ("nurse", "2)"), ("her", "(3|(1)"), ("news", "3)"), (".", "-")],
    [("The", "(2"), ("nurse", "2)"), ("slept", "-"), (".", "-")],
]


def test_conll_pairs_all_mentions_of_a_sentence_pronouns_last(tmp_path, monkeypatch):
    (tmp_path / "onto.conll").write_text(conll([(f"nw/{i}", SENTENCES) for i in range(10)]))
    examples = coreference_training(DataFolder(tmp_path), "onto.conll").examples
    pairs = [
        (*(text[slice(*span)] for span in spans), bool(label))
        for (text,), spans, label in zip(examples.texts, examples.spans, examples.facts["label"], strict=True)
    ]
    assert set(pairs[:6]) == {
        ("the nurse", "She", False),
        ("She", "her", True),
        ("her news", "She", False),
        ("the nurse", "her", False),
        ("the nurse", "her news", False),
        ("her news", "her", False),
    }
    assert pairs == pairs[:6] * 10
    assert np.bincount(examples.facts["document"]).tolist() == [6] * 10
    assert coreference_training(DataFolder(None), str(tmp_path / "onto.conll")).digest == examples.digest()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert coreference_training(DataFolder(None), "~/onto.conll").digest == examples.digest()


def test_parts_of_a_document_stay_together_and_large_sets_are_drawn_by_document(tmp_path, monkeypatch):
    text = conll([(f"nw/{i}", SENTENCES) for i in range(12)])
    (tmp_path / "onto.conll").write_text(text + text.replace("part 000", "part 001"))
    examples = coreference_training(DataFolder(tmp_path), "onto.conll").examples
    assert np.bincount(examples.facts["document"]).tolist() == [12] * 12
    monkeypatch.setattr(module, "MOST_PAIRS", 135)
    fewer = coreference_training(DataFolder(tmp_path), "onto.conll").examples
    assert np.bincount(fewer.facts["document"]).tolist() == [12] * 11


def test_what_a_head_cannot_be_trained_on(tmp_path):
    data = DataFolder(tmp_path)
    with pytest.raises(
        MissingDataError, match=r"no GAP.*; a masked or causal LM needs none .* training=PATH names CoNLL"
    ):
        coreference_training(data, "gap")
    with pytest.raises(SettingError, match="cannot be trained on 'ontonotes': expected gap, winobias, or the path"):
        coreference_training(data, "ontonotes")
    (tmp_path / "few.conll").write_text(conll([(f"nw/{i}", SENTENCES) for i in range(9)]))
    with pytest.raises(DataFileError, match=r"few\.conll: expected at least 10 documents with mentions, got 9"):
        coreference_training(data, "few.conll")
    one_cluster = [[("She", "(1)"), ("saw", "-"), ("herself", "(1)")]]
    (tmp_path / "one.conll").write_text(conll([(f"nw/{i}", one_cluster) for i in range(12)]))
    with pytest.raises(DataFileError, match=r"one\.conll: expected pairs .* got 12 and 0; a head cannot be trained"):
        coreference_training(data, "one.conll")


def test_the_real_data_sets(shared_data):
    gap = coreference_training(DataFolder(shared_data), "gap").examples
    assert gap.n_cases == 4000
    assert gap.facts["label"].sum() == 1799
    winobias = coreference_training(DataFolder(shared_data), "winobias").examples
    assert winobias.n_cases == 2 * 1584
    assert winobias.facts["label"].sum() == 1584
    for (text,), (_, pronoun) in zip(winobias.texts, winobias.spans, strict=True):
        assert gender_of_pronoun(text[slice(*pronoun)])


# The head


def clouds(n=120, d=3, seed=0):
    """Pairs that corefer where the first feature of the first vector and of the second have the same sign."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2 * d)).astype(np.float32)
    x[:, 0] += 2 * np.sign(x[:, 0])
    x[:, d] += 2 * np.sign(x[:, d])
    return x * 7 + 3, (x[:, 0] > 0) == (x[:, d] > 0), np.arange(n) // 2


def test_documents_are_parted_and_not_torn():
    documents = np.repeat(np.arange(30), 3)
    train, stop, test = split_documents(documents, 1)
    assert (len(train), len(stop), len(test)) == (72, 9, 9)
    assert sorted(np.concatenate([train, stop, test])) == list(range(90))
    assert not set(documents[train]) & set(documents[stop]) and not set(documents[test]) & set(documents[stop])
    assert not np.array_equal(test, split_documents(documents, 2)[2])


def test_a_head_learns_what_is_there_and_nothing_else():
    x, y, documents = clouds(600)
    head = train_head(x, y, documents, 0)
    assert head.f1 > 0.9
    assert (head.pairs, head.held_out) == (480, 60)
    test = split_documents(documents, 0)[2]
    share = y[test].mean()
    assert head.f1_always == pytest.approx(2 * share / (1 + share))
    linked = head.probabilities(x[test]) > 0.5
    hits = (linked & y[test]).sum()
    assert head.f1 == pytest.approx(2 * hits / (linked.sum() + y[test].sum()))
    shuffled = train_head(x, np.random.default_rng(0).permutation(y), documents, 0)
    assert shuffled.f1 is None or shuffled.f1 < 0.75


def test_a_seed_gives_one_head_and_leaves_torch_as_it_was():
    x, y, documents = clouds()
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    one = train_head(x, y, documents, 3)
    assert torch.equal(state, torch.get_rng_state()) and torch.get_num_threads() == threads
    torch.manual_seed(6)
    with torch.no_grad():
        again = train_head(x, y, documents, 3)
    assert all(np.array_equal(one.weights[name], again.weights[name]) for name in one.weights)
    other = train_head(x, y, documents, 4)
    assert not np.array_equal(one.weights["hidden_weight"], other.weights["hidden_weight"])


def test_the_probabilities_are_those_of_a_plain_network():
    x, y, documents = clouds()
    head = train_head(x, y, documents, 0)
    first, second = torch.nn.Linear(6, 256), torch.nn.Linear(256, 1)
    with torch.no_grad():
        first.weight.copy_(torch.as_tensor(head.weights["hidden_weight"]))
        first.bias.copy_(torch.as_tensor(head.weights["hidden_bias"]))
        second.weight.copy_(torch.as_tensor(head.weights["output_weight"])[None])
        second.bias.copy_(torch.as_tensor(head.weights["output_bias"]))
        plain = torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.Sigmoid())(torch.as_tensor(x))
    assert np.allclose(head.probabilities(x), plain[:, 0].numpy(), atol=1e-6)


def test_a_feature_that_never_varies_and_one_label():
    x, y, documents = clouds()
    x[:, 1] = 4.0
    assert np.isfinite(train_head(x, y, documents, 0).probabilities(x)).all()
    nobody = train_head(x, np.zeros_like(y), documents, 0)
    assert nobody.f1 is None and nobody.f1_always is None


# The scorer


def sentences():
    """Two persons and a pronoun in some contexts: a pronoun means a nurse or a teacher, never an engineer or a
    doctor.
    """
    texts, spans, label, document = [], [], [], []
    contexts = [(a, v) for a in ("today", "often", "there", "now") for v in ("met", "saw", "paid", "helped")]
    for number, (adverb, verb) in enumerate(contexts):
        for one, other in itertools.permutations(PEOPLE, 2):
            if (one in MEANT) == (other in MEANT):
                continue
            text = f"The {one} {verb} the {other} {adverb} and she left."
            for person in (one, other):
                texts.append((text,))
                spans.append(tuple((text.index(word), text.index(word) + len(word)) for word in (person, "she")))
                label.append(person in MEANT)
                document.append(number)
    return TextCases(texts, spans, {"label": np.asarray(label), "document": np.asarray(document)})


@pytest.fixture(scope="module")
def training():
    examples = sentences()
    return CoreferenceTraining("constructed", examples.digest(), examples)


CASES = TextCases(
    [("The nurse met the doctor now and she left.",), ("The doctor saw the nurse and she left.",)],
    [((4, 9), (18, 24), (33, 36)), ((4, 10), (19, 24), (29, 32))],
)


def scorer(model, training, cache=None, seed=0, cases=CASES):
    return make_scorer(
        cases, CoreferenceScores(len(cases.spans[0]) - 1, "edge-probe", training, seed), model, None, cache
    )


def figures(probe):
    """The F1 of a head, and that of answering yes to all pairs, from its remark."""
    return [float(text) for text in re.findall(r"\d\.\d{3}", probe.notes[0])]


def scores(*args, **kwargs):
    return scorer(*args, **kwargs).score(np.arange(2))


@pytest.mark.parametrize(("kind", "least"), [("gpt2", 0.9), ("roberta", 0.8)])
def test_a_scorer_learns_who_is_meant(tiny_model, training, kind, least):
    probe = scorer(tiny_model(kind), training)
    f1, f1_always = figures(probe)
    assert f1 > least > f1_always
    found = probe.score(np.arange(2))
    assert found.shape == (2, 2) and ((found > 0) & (found < 1)).all()
    assert found[0, 0] > found[0, 1] and found[1, 1] > found[1, 0]
    assert probe.notes == [
        f"edge-probing head on layer 2, trained on 224 pairs of constructed, seed 0: F1 {f1:.3f} on 16 others "
        f"(always yes: {f1_always:.3f})"
    ]


def test_scores_are_those_of_the_head_on_plain_span_vectors(tiny_model, training, tmp_path):
    model = tiny_model("bert")
    found = scores(model, training, tmp_path)
    with safe_open(next((tmp_path / "heads").iterdir()), "pt") as file:
        w = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    for (text,), spans, row in zip(CASES.texts, CASES.spans, found, strict=True):
        encoded = model.backend.tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            states = model.backend.network.base_model(**encoded, output_hidden_states=True).hidden_states[2][0]
        means = [states[[a < stop and b > start for a, b in offsets]].mean(0) for start, stop in spans]
        for candidate, score in zip(means[:2], row, strict=True):
            x = torch.cat([candidate, means[2]])
            logit = w["output_weight"] @ torch.relu(w["hidden_weight"] @ x + w["hidden_bias"]) + w["output_bias"]
            assert score == pytest.approx(float(torch.sigmoid(logit)), abs=1e-5)


def test_each_training_text_is_passed_once(tiny_model, training, monkeypatch):
    passed = []
    span_vectors = HiddenStates.span_vectors
    monkeypatch.setattr(
        HiddenStates,
        "span_vectors",
        lambda self, texts, *rest: passed.extend(texts) or span_vectors(self, texts, *rest),
    )
    rows = [0, 0, 5, 9]
    both = TextCases(
        [training.examples.texts[i] for i in rows],
        [training.examples.spans[0], ((0, 3), (4, 9)), *(training.examples.spans[i] for i in rows[2:])],
    )
    states = HiddenStates(tiny_model("bert").backend, None)
    found = edge_probe._vectors_of_pairs(states, [row[0] for row in both.texts], both.spans)
    assert len(passed) == len(set(passed)) == 3
    for row, text, pair in zip(found, both.texts, both.spans, strict=True):
        assert np.allclose(row, span_vectors(states, [text[0]], [pair])[0].ravel(), atol=1e-5)


def test_seeds(tiny_model, training):
    model = tiny_model("bert")
    one, again, other = (scores(model, training, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.allclose(one, other, atol=1e-6)


@pytest.fixture
def trained(monkeypatch):
    """The seeds of the heads that were trained."""
    calls = []

    def train(features, corefer, documents, seed, show):
        calls.append(seed)
        return train_head(features, corefer, documents, seed, show)

    monkeypatch.setattr(edge_probe, "train_head", train)
    return calls


def test_its_training_shows_how_far_it_is(tiny_model, training):
    seen: list[int] = []
    labels: list[tuple[str, int, int]] = []

    @contextmanager
    def progress(label, total, done):
        labels.append((label, total, done))
        yield seen.append

    model, examples = tiny_model("bert"), training.examples
    head, _ = edge_probe.fit_head(model, "gap", examples, 3, progress=progress)
    again, _ = edge_probe.fit_head(model, "gap", examples, 3)
    [(label, total, done)] = labels
    assert label == f"head on gap for {model.name}, seed 3" and done == 0
    assert total == 40 * head.pairs and 0 < sum(seen) <= total and sum(seen) % head.pairs == 0
    assert all(np.array_equal(head.weights[name], again.weights[name]) for name in head.weights)


def test_a_kept_head_is_used_again(tiny_model, training, tmp_path, trained):
    model = tiny_model("bert")
    first = scorer(model, training, tmp_path)
    again = scorer(model, training, tmp_path)
    assert trained == [0]
    assert np.array_equal(first.score(np.arange(2)), again.score(np.arange(2)))
    assert first.notes == again.notes
    scorer(model, training, tmp_path, seed=1)
    other = CoreferenceTraining("constructed", "other", training.examples)
    scorer(model, other, tmp_path)
    scorer(tiny_model("roberta"), training, tmp_path)
    assert trained == [0, 1, 0, 0]
    assert len(list((tmp_path / "heads").iterdir())) == 4


def test_no_head_is_kept_for_a_network_in_memory(tiny_model, training, tmp_path, trained):
    """It has no fingerprint: the head of one would be taken for that of another."""
    for kind in ("bert", "roberta"):
        backend = tiny_model(kind).backend
        scorer(wrap_network(backend.network, backend.tokenizer), training, tmp_path)
    assert trained == [0, 0]
    assert not (tmp_path / "heads").exists()


def rewrite(path, weights=None, **changes):
    """Write a head again with other weights, or with other entries of what it says of itself."""
    with safe_open(path, "numpy") as file:
        about = json.loads(file.metadata()["head"])
        kept = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    about["key"] |= changes
    save_file(weights(kept) if weights else kept, path, {"head": json.dumps(about)})


SPOILT = {
    "another model": (lambda path: rewrite(path, model="0" * 64), "was trained for another model"),
    "other data and seed": (lambda path: rewrite(path, data="0", seed=7), "was trained for another data and seed"),
    "an older definition": (
        lambda path: rewrite(path, definition="edge-probe/0"),
        "was trained for another definition",
    ),
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is damaged"),
    "empty": (lambda path: path.write_bytes(b""), "is damaged"),
    "another number": (lambda path: rewrite(path, lambda w: w | {"output_bias": w["output_bias"] + 1}), "is damaged"),
    "another shape": (lambda path: rewrite(path, lambda w: w | {"hidden_bias": w["hidden_bias"][:9]}), "is damaged"),
    "nothing said of it": (lambda path: save_file({"w": np.zeros(3, np.float32)}, path), "is damaged"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "is damaged"),
}


@pytest.fixture(scope="module")
def kept(tiny_model, training, tmp_path_factory):
    """The folder of a cache that holds a head, and the scores of that head."""
    folder = tmp_path_factory.mktemp("kept")
    return folder, scores(tiny_model("bert"), training, folder)


@pytest.mark.parametrize("what", SPOILT)
def test_a_stale_or_damaged_head_is_never_used(tiny_model, training, tmp_path, kept, trained, what):
    model, (folder, right) = tiny_model("bert"), kept
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (path,) = (tmp_path / "heads").iterdir()
    spoil, why = SPOILT[what]
    spoil(path)
    probe = scorer(model, training, tmp_path)
    assert np.array_equal(probe.score(np.arange(2)), right)
    assert trained == [0]
    assert probe.notes[0] == f"the edge-probing head {path} {why}: another was trained in its place"
    if what == "a folder":
        assert "edge-probing head not cached" in probe.notes[1]
    else:
        scorer(model, training, tmp_path)
        assert trained == [0]


def test_without_a_cache_nothing_is_kept_and_a_cache_that_cannot_be_written_is_said(tiny_model, training, tmp_path):
    model = tiny_model("bert")
    right = scores(model, training)
    (tmp_path / "file").write_text("")
    probe = scorer(model, training, tmp_path / "file")
    assert np.array_equal(probe.score(np.arange(2)), right)
    assert probe.notes[0].startswith("edge-probing head not cached: ")


def test_training_pairs_that_the_model_does_not_read_so_far_are_left_out(tiny_model, training):
    def with_long(n):
        texts = [(("very " * 80 + text) if i < n else text,) for i, (text,) in enumerate(training.examples.texts)]
        shift = [400 if i < n else 0 for i in range(len(texts))]
        spans = [
            tuple((a + by, b + by) for a, b in pair) for pair, by in zip(training.examples.spans, shift, strict=True)
        ]
        return CoreferenceTraining("long", "long", TextCases(texts, spans, training.examples.facts))

    probe = scorer(tiny_model("bert"), with_long(4))
    assert probe.notes[0] == "4 training pairs left out: the model does not read that far"
    with pytest.raises(DataFileError, match=r"long: .* reads both mentions in only 112 of 256 pairs"):
        scorer(tiny_model("bert"), with_long(144))
    far = TextCases([("very " * 80 + "the nurse saw a man and she left.",)], [((404, 409), (424, 427))])
    with pytest.raises(ModelError, match="the model reads no token of 'nurse'"):
        scorer(tiny_model("bert"), training, cases=far).score(np.arange(1))


def test_what_cannot_be_a_scorer(tiny_model, training, monkeypatch):
    class Resolver:
        def coreference_scores(self, texts, candidates, pronouns):
            return np.zeros((len(texts), 2))

    with pytest.raises(NotApplicableError, match="object without hidden states"):
        scorer(wrap_object(Resolver()), training)
    with pytest.raises(SettingError, match="needs training data"):
        scorer(tiny_model("bert"), None)
    monkeypatch.setattr(HiddenStates, "_hidden", lambda self, ids, mask: torch.full((*ids.shape, 16), torch.nan))
    with pytest.raises(ScoreError, match="NaN or infinite"):
        scorer(tiny_model("bert"), training)


@pytest.mark.parametrize(("layers", "probed"), [(1, 1), (2, 2), (3, 2), (6, 4), (12, 8), (24, 16)])
def test_the_layer_is_two_thirds_up(layers, probed):
    from transformers import BertConfig

    assert edge_probe.probed_layer(BertConfig(num_hidden_layers=layers)) == probed


@pytest.mark.slow
def test_a_real_encoder_is_better_than_always_yes(real_encoder, shared_data):
    probe = scorer(real_encoder, coreference_training(DataFolder(shared_data), "gap"))
    f1, f1_always = figures(probe)
    assert f1 > f1_always
