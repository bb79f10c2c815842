"""The coreference recipe: encoder and span scorer are trained together, saved, resumed, scored and mitigated; oracles
are plain loops.
"""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score
from support.gap_files import write_gap
from support.interrupted import StopAt
from support.tiny_checkpoints import tokenizer
from transformers import FNetConfig

from pytest_genderbias import load_model, measure
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.mitigation import judge_reduction, make_method, make_recipe, mitigate
from pytest_genderbias.mitigation.methods.base import Columns
from pytest_genderbias.mitigation.words.matching import moved_span, replace_spans
from pytest_genderbias.models.saving import save_model
from pytest_genderbias.recipes.coreference import (
    CoreferenceTuning,
    EdgeProbing,
    _clusters,
    make_row,
    read_coreference_rows,
)
from pytest_genderbias.recipes.networks.mention_scorers import (
    SpanCoreferenceConfig,
    SpanCoreferenceModel,
    antecedent_loss,
)
from pytest_genderbias.recipes.recipe import Training
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.scoring.span_coreference import batch_of, pair_scores, read_document
from pytest_genderbias.scoring.text_vectors import HiddenStates
from pytest_genderbias.statistics.coreference_scores import antecedent_clusters
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.query import CoreferenceScores
from pytest_genderbias.suites.suite import load_suite

COLUMNS = Columns(("text",), mentions="mentions")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_gap(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def recipe(data):
    return CoreferenceTuning(data=data, epochs=3, head_size=8, learning_rate=2e-3)


@pytest.fixture(scope="module")
def trained(recipe, tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return load_model(str(recipe.train(recipe.start(tiny_model("bert"), 0), recipe.rows(), 0, folder)), device="cpu")


def documents_of(model, rows, longest=None):
    read = partial(read_document, model.backend.tokenizer, longest)
    return [read(row["text"], [(start, end) for start, end, *_ in row["mentions"]]) for row in rows]


def conll(folder, documents):
    """Write documents, lists of sentences of (word, mark), in the CoNLL-2012 format."""
    lines = []
    for number, sentences in enumerate(documents):
        lines.append(f"#begin document (d/{number}); part 000")
        for sentence in sentences:
            lines += [f"d/{number} 0 {i} {word} - {mark}" for i, (word, mark) in enumerate(sentence)] + [""]
        lines.append("#end document")
    path = folder / "documents.conll"
    path.write_text("\n".join(lines) + "\n")
    return path


def loss_by_loops(scores, clusters):
    """Return the mean of -ln P(right antecedents), one mention at a time."""
    losses = []
    for table, numbers in zip(scores, clusters, strict=True):
        for i, row in enumerate(table):
            candidates = {i - 1 - k: s for k, s in enumerate(row) if s > -1e8}
            if not candidates:
                continue
            odds = {j: np.exp(s) for j, s in candidates.items()}
            right = sum(odd for j, odd in odds.items() if numbers[j] == numbers[i]) or 1.0
            losses.append(-np.log(right / (1.0 + sum(odds.values()))))
    return float(np.mean(losses))


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(2, 7), st.integers(1, 6))
def test_the_loss_is_the_marginal_likelihood_of_right_antecedents(seed, documents, mentions, nearest):
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 3, (documents, mentions, min(nearest, mentions - 1)))
    earlier = np.arange(mentions)[:, None] - np.arange(1, scores.shape[2] + 1)
    scores = np.where(earlier >= 0, scores, -1e9)
    clusters = rng.integers(0, 3, (documents, mentions))
    loss = antecedent_loss(torch.as_tensor(scores), torch.as_tensor(clusters))
    assert float(loss) == pytest.approx(loss_by_loops(scores, clusters), rel=1e-9)


def scores_by_loops(model, row):
    """Return s(i, j) of a row, from the hidden states of its text alone and one pair at a time."""
    network, weights = model.backend.network, dict(model.backend.network.named_parameters())
    weights = {name: tensor.detach().double().numpy() for name, tensor in weights.items()}
    encoding = model.backend.tokenizer(row["text"], return_offsets_mapping=True, return_tensors="pt")
    offsets = encoding.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        hidden = network.encoder(**encoding).last_hidden_state[0].double().numpy()

    def bucket(n):
        return n if n <= 4 else next(i for i, top in enumerate((7, 15, 31, 63, np.inf), 5) if n <= top)

    def scored(part, x):
        inner = np.maximum(0, weights[f"{part}.0.weight"] @ x + weights[f"{part}.0.bias"])
        return float(weights[f"{part}.3.weight"][0] @ inner + weights[f"{part}.3.bias"][0])

    vectors = []
    for start, end, *_ in row["mentions"]:
        own = [i for i, (a, b) in enumerate(offsets) if a < end and b > start]
        attention = np.exp([weights["attention.weight"][0] @ hidden[i] + weights["attention.bias"][0] for i in own])
        head = sum(w * hidden[i] for w, i in zip(attention / attention.sum(), own, strict=True))
        vectors.append(
            np.concatenate([hidden[own[0]], hidden[own[-1]], head, weights["widths.weight"][bucket(len(own))]])
        )
    table = np.full((len(vectors), len(vectors)), np.nan)
    for i, g in enumerate(vectors):
        for j in range(i):
            other, far = vectors[j], weights["distances.weight"][bucket(i - j)]
            pair = scored("antecedent", np.concatenate([g, other, g * other, far]))
            table[i, j] = table[j, i] = scored("mention", g) + scored("mention", other) + pair
    return table


def test_scores_are_those_of_plain_loops_in_any_batch(recipe, trained):
    rows = recipe.rows()[:9]
    together = pair_scores(trained.backend, documents_of(trained, rows))
    assert min(table[1, 0] for table in together) < max(table[1, 0] for table in together)
    for row, table in zip(rows, together, strict=True):
        np.testing.assert_allclose(table, scores_by_loops(trained, row), atol=1e-5)


def test_training_moves_the_encoder_and_lowers_the_loss(recipe, trained, tiny_model):
    start = recipe.start(tiny_model("bert"), 0)
    before, after = (model.backend.network.state_dict() for model in (start, trained))
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert {name for name in before if name not in moved} <= {name for name in before if "pooler" in name}
    rows = recipe.rows()
    clusters = torch.tensor([_clusters(row).tolist() for row in rows])
    losses = []
    for model in (start, trained):
        batch = batch_of(documents_of(model, rows), 0)
        with torch.no_grad():
            losses.append(
                float(
                    model.backend.network(**{k: torch.as_tensor(v) for k, v in batch.items()}, clusters=clusters).loss
                )
            )
    assert losses[1] < losses[0]


@pytest.mark.parametrize(
    ("freeze", "fixed"),
    [
        ("encoder", ("encoder.",)),
        ("embeddings", ("encoder.embeddings.",)),
        (1, ("encoder.embeddings.", "encoder.encoder.layer.0.")),
    ],
)
def test_what_is_frozen_does_not_move(recipe, tiny_model, tmp_path, freeze, fixed):
    frozen = replace(recipe, freeze=freeze)
    start = frozen.start(tiny_model("bert"), 0)
    path = frozen.train(start, recipe.rows(), 0, tmp_path, Training(max_steps=2))
    after = load_model(str(path), device="cpu").backend.network.state_dict()
    for name, tensor in start.backend.network.state_dict().items():
        if not name.startswith("encoder.pooler"):  # it has no part in the scores
            assert torch.equal(tensor, after[name]) == name.startswith(fixed), name
    assert frozen.settings()["freeze"] == freeze and "freeze" not in recipe.settings()
    assert frozen.encoder_is_frozen == (freeze == "encoder")


def test_a_training_that_was_interrupted_goes_on_and_ends_with_the_same_weights(recipe, tiny_model, tmp_path):
    saving = replace(recipe, arguments={"save_steps": 4})
    start = saving.start(tiny_model("bert"), 0)
    whole = saving.train(start, saving.rows(), 0, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        saving.train(start, saving.rows(), 0, tmp_path / "stopped", Training([StopAt(10)]))
    assert (tmp_path / "stopped" / "checkpoints" / "checkpoint-8").is_dir()
    on = saving.train(start, saving.rows(), 0, tmp_path / "stopped")
    assert (on / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    other = saving.train(start, saving.rows(), 1, tmp_path / "other", Training(max_steps=17))
    assert (other / "model.safetensors").read_bytes() != (whole / "model.safetensors").read_bytes()
    assert saving.train(start, [], 5, tmp_path / "whole") == whole


@pytest.mark.parametrize("kind", ["bert", "albert", "deberta-v2", "modernbert", "bert-nli"])
def test_start_keeps_the_encoder_and_is_saved_whole(recipe, tiny_model, kind, tmp_path):
    model = tiny_model(kind)
    start = recipe.start(model, 1)
    ids = torch.arange(6, 26)[None]
    with torch.no_grad():
        expected = model.backend.network.base_model(input_ids=ids).last_hidden_state
        assert torch.equal(start.backend.network(input_ids=ids).last_hidden_state, expected)
    assert start.fingerprint == recipe.start(model, 1).fingerprint != recipe.start(model, 2).fingerprint
    read = load_model(str(save_model(start, tmp_path / "model")), device="cpu")
    assert read.fingerprint == start.fingerprint and read.role == start.role and read.width == model.width
    rows = recipe.rows()[:3]
    for one, other in zip(*(pair_scores(m.backend, documents_of(m, rows)) for m in (start, read)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_suites_measure_the_checkpoint_by_its_own_scores(trained, shared_data):
    occupations = measure("coref-occupation", trained, limit=200, cache=None)
    assert occupations.value > 0 and any(
        note.startswith("span scorer, trained on 43 documents of gap") for note in occupations.notes
    )
    text = "The nurse met the engineer because she slept."
    places = [(0, 9), (14, 26), (35, 38)]
    row = make_row(text, [(span, 0) for span in places], lambda a, b: True, "d")
    (table,) = pair_scores(trained.backend, documents_of(trained, [row]))
    cases = TextCases([(text,), (text,)], [tuple(places), (places[1], places[0], places[2])])
    scores = make_scorer(cases, CoreferenceScores(2, "own"), trained, None).score(np.arange(2))
    np.testing.assert_allclose(scores, [[table[2, 0], table[2, 1]], [table[2, 1], table[2, 0]]], atol=1e-6)


def test_suites_of_vectors_read_the_encoder(trained):
    text, span = "The nurse met the engineer.", (4, 9)
    encoding = trained.backend.tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
    own = [i for i, (a, b) in enumerate(encoding.pop("offset_mapping")[0].tolist()) if span[0] <= a < b <= span[1]]
    with torch.no_grad():
        expected = trained.backend.network.encoder(**encoding).last_hidden_state[0, own].mean(dim=0)
    vectors = HiddenStates(trained.backend, None).span_vectors([text], [(span,)])
    np.testing.assert_allclose(vectors[0, 0], expected.numpy(), atol=1e-6)
    for name in ("probe-compression", "ceat"):
        assert trained.role.kind in load_suite(name).family.roles


def test_f1_is_that_of_scikit_learn_and_of_counted_links(recipe, trained):
    rows = recipe._parts.held_out
    gold, linked, links = [], [], np.zeros(3)
    for row in rows:
        table = scores_by_loops(trained, row)
        clusters = [cluster for *_, cluster in row["mentions"]]
        gold += [clusters[i] == clusters[j] for i, j in row["pairs"]]
        linked += [table[i, j] > 0 for i, j in row["pairs"]]
        key = {(i, j) for i in range(3) for j in range(i) if clusters[i] == clusters[j]}
        best = {(i, max(range(i), key=lambda j, i=i: table[i, j])) for i in (1, 2)}
        best = {(i, j) for i, j in best if table[i, j] > 0}
        links += (len(best & key) if len(best) < 2 else np.nan, len(best), len(key))
    pairs, clusters = recipe.evaluate(trained)
    assert (pairs.name, clusters.name) == recipe.evaluates
    assert (pairs.name, pairs.direction, clusters.name) == ("f1", "lower", "conll_f1")
    assert pairs.value == pytest.approx(f1_score(gold, linked))
    for performance in (pairs, clusters):
        assert float(performance.item_sums.total) == pytest.approx(performance.value)
    if not np.isnan(links).any():  # MUC counts links, and no cluster here has more than one
        hits, predicted, right, recalled = clusters.item_sums.sums.sum(axis=0)[:4]
        assert [hits, predicted, recalled] == links.tolist() and right == hits


@given(st.integers(0, 10**6), st.integers(1, 8))
def test_clusters_are_the_components_of_best_antecedents(seed, mentions):
    table = np.random.default_rng(seed).normal(0, 1, (mentions, mentions))
    names = list(range(mentions))
    for i in range(mentions):
        better = [(table[i, j], j) for j in range(i) if table[i, j] > 0]
        if better:
            old, new = names[i], names[max(better)[1]]
            names = [new if name == old else name for name in names]
    expected = [[i for i in range(mentions) if names[i] == name] for name in dict.fromkeys(names)]
    assert antecedent_clusters(table) == [cluster for cluster in expected if len(cluster) > 1]


@given(st.text("ab ", min_size=1, max_size=12), st.data())
def test_spans_move_with_their_characters(text, draws):
    """The oracle marks each character: a moved span is from the first to the last character that its own became."""
    cuts = sorted(draws.draw(st.lists(st.integers(0, len(text)), max_size=6, unique=True)))
    swaps = [
        (a, b, draws.draw(st.text("XY", min_size=1, max_size=3))) for a, b in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    start = draws.draw(st.integers(0, len(text) - 1))
    end = draws.draw(st.integers(start + 1, len(text)))
    became = [[] for _ in text]
    place = old = 0
    for a, b, new in [*swaps, (len(text), len(text), "")]:
        for i in range(old, a):
            became[i], place = [place], place + 1
        for i in range(a, b):
            became[i] = list(range(place, place + len(new)))
        place, old = place + len(new), b
    own = [at for characters in became[start:end] for at in characters]
    assert moved_span((start, end), swaps) == (own[0], own[-1] + 1)
    assert len(replace_spans(text, swaps)) == place


def test_counterfactuals_move_the_mentions(recipe):
    rows = recipe.rows()
    out = make_method("cda").rows(rows, COLUMNS, 0)
    assert len(out) == 2 * len(rows)
    for one, other in zip(out[::2], out[1::2], strict=True):
        assert one["pairs"] == other["pairs"] and one in rows
        for (*_, words, cluster), (start, end, swapped, same) in zip(one["mentions"], other["mentions"], strict=True):
            assert other["text"][start:end] == swapped and cluster == same
            assert swapped == {"he": "she", "she": "he"}.get(words, words)


def test_the_grammatical_intervention_goes_by_clusters():
    text = "Ann Bay met her brother, and his wife saw the actress."
    spans = [((0, 7), 0), ((12, 15), 0), ((12, 23), 1), ((29, 32), 1), ((42, 53), 2)]
    row = make_row(text, spans, lambda a, b: True, "d")
    (out,) = make_method("cda", intervention="grammatical", sides="one").rows([row], COLUMNS, 0)
    assert out["text"] == "Ann Bay met her sister, and her wife saw the actor.".replace("wife", "husband")
    assert [words for _, _, words, _ in out["mentions"]] == ["Ann Bay", "her", "her sister", "her", "the actor"]
    with pytest.raises(SettingError, match="clusters, which decide in place of a grammar"):
        make_method("cda", grammar="spacy").rows([row], COLUMNS, 0)


def test_anonymised_and_scrubbed_mentions_move():
    row = make_row(
        "Mary Hall said that John Bay left his wife.",
        [((0, 9), 0), ((20, 28), 1), ((34, 37), 1)],
        lambda a, b: True,
        "d",
    )
    (anonymous,) = make_method("anonymising", placeholder="E{number}").rows([row], COLUMNS, 0)
    assert anonymous["text"] == "E1 said that E2 left his wife."
    assert [words for _, _, words, _ in anonymous["mentions"]] == ["E1", "E2", "his"]
    (scrubbed,) = make_method("scrubbing").rows([row], COLUMNS, 0)
    assert [words for _, _, words, _ in scrubbed["mentions"]] == ["_ Hall", "_ Bay", "_"]
    both = (make_method("anonymising", placeholder="E{number}") & make_method("cda")).rows([row], COLUMNS, 0)
    assert [words for _, _, words, _ in both[1]["mentions"]] == ["E1", "E2", "her"]


def test_a_text_that_was_changed_without_its_mentions_is_refused(recipe, tiny_model, tmp_path):
    (row, *rest) = recipe.rows()
    moved = {**row, "text": "Well: " + row["text"]}
    with pytest.raises(SettingError, match=r"row 1: expected the mention .* the method changed the text"):
        recipe.train(recipe.start(tiny_model("bert"), 0), [moved, *rest], 0, tmp_path)


def test_long_documents_are_read_in_segments(tiny_model, recipe, tmp_path):
    words = [[(word, "-") for word in f"the guard met a cook {i} times".split()] for i in range(12)]
    for i, mark in ((0, "(1)"), (5, "(1)"), (11, "(2)"), (3, "(2)")):
        words[i][1] = ("guard", mark)
    path = conll(tmp_path, [words] * 11)
    with pytest.raises(DataFileError, match=r"pairs of mentions that corefer .*, got 0 and 0"):
        read_coreference_rows(DataFolder(None), str(path), 0.1)
    for i in (0, 5):
        words[i][4] = ("cook", "(2)" if i else "(1)")
    rows = read_coreference_rows(DataFolder(None), str(conll(tmp_path, [words] * 11)), 0.1)
    assert (len(rows.training), len(rows.held_out)) == (10, 1)
    assert [len(row["pairs"]) for row in rows.training] == [2] * 10, "pairs are of one sentence"
    model = recipe.start(tiny_model("bert"), 0)
    tokenizer = model.backend.tokenizer
    (document,) = documents_of(model, rows.training[:1], longest=40)
    assert len(document.segments) > 2 and max(map(len, document.segments)) <= 40 and document.is_read.all()
    for (segment, first, last), (*_, word, _) in zip(document.mentions, rows.training[0]["mentions"], strict=True):
        assert tokenizer.decode(document.segments[segment][first : last + 1]).replace(" ", "") == word
    (cut,) = (
        read_document(
            tokenizer, 40, row["text"].replace("\n", " "), [(start, end) for start, end, *_ in row["mentions"]]
        )
        for row in rows.training[:1]
    )
    assert 0 < cut.is_read.sum() < 6
    batch = batch_of([cut, document], 0)
    assert batch["mentions"].shape == (2, 6, 2) and (batch["mentions"][0, cut.is_read.sum() :] == -1).all()
    on_documents = CoreferenceTuning(training=str(path), head_size=8, max_length=40, batch_size=4)
    done = on_documents.train(model, on_documents.rows(), 0, tmp_path / "run", Training(max_steps=2))
    loaded = load_model(str(done), device="cpu")
    assert loaded.backend.network.config.head == {"documents": 10, "data": path.name}, "the folder is nobody's business"
    figures = on_documents.evaluate(loaded)
    assert [figure.name for figure in figures] == ["f1", "conll_f1"] and all(
        0 <= figure.value <= 1 for figure in figures
    )


def test_far_antecedents_are_no_candidates(recipe, tiny_model):
    model = recipe.start(tiny_model("bert"), 0)
    model.backend.network.config.antecedents = 1
    (table,) = pair_scores(model.backend, documents_of(model, recipe.rows()[:1]))
    assert np.isneginf(table[2, 0]) and np.isfinite([table[1, 0], table[2, 1]]).all() and np.isnan(table[1, 1])


def test_held_out_documents_are_those_of_the_edge_probe(recipe, data):
    probe = EdgeProbing(data=data)
    assert {row["document"] for row in recipe._parts.held_out} == {row["document"] for row in probe._parts[1]}
    pairs = sum(len(row["pairs"]) for row in recipe._parts.held_out)
    assert pairs == len(probe._parts[1]) == 10


def test_winobias_has_the_mentions_in_brackets(shared_data):
    rows = read_coreference_rows(DataFolder(shared_data), "winobias", 0.5)
    assert len(rows.training) + len(rows.held_out) == 1584
    assert not {row["document"] for row in rows.training} & {row["document"] for row in rows.held_out}
    for row in rows.training:
        assert len(row["pairs"]) == 2 and len(row["mentions"]) in (3, 4)
        corefer = [row["mentions"][i][-1] == row["mentions"][j][-1] for i, j in row["pairs"]]
        assert sorted(corefer) == [False, True]


def test_superficial_is_refused_for_one_encoder_and_done_for_two(recipe, data, tiny_model, tmp_path):
    method = make_method("cda", sides="one")
    frozen = mitigate(tiny_model("bert"), method, EdgeProbing(data=data, epochs=1), seeds=1, folder=tmp_path)
    with pytest.raises(
        SettingError, match=r"the recipe edge-probe left it as it was, .* for coreference the recipe coreference"
    ):
        judge_reduction(frozen, "coref-occupation", superficial=True, cache=None)
    short = replace(recipe, epochs=1)
    run = mitigate(tiny_model("bert"), method, short, seeds=1, folder=tmp_path)
    few = {"limit": 200, "cache": None}
    judgement = judge_reduction(run, "coref-occupation", by=0.0, superficial=True, budget={"f1": 1.0}, **few)
    assert "superficial" in judgement.text and "f1" in judgement.text
    assert [sorted(figures) for (figures,) in run.performance("after")] == [["conll_f1", "f1"]]


def test_debiased_embeddings_go_into_the_training_and_out_of_it(recipe, tiny_model, tmp_path):
    pairs = make_method("wed", when="both", components=1)
    run = mitigate(tiny_model("bert"), pairs, replace(recipe, epochs=1), seeds=1, folder=tmp_path)
    before, after = (
        measure("coref-occupation", run.open(side[0]), limit=200, cache=None) for side in (run.before, run.after)
    )
    assert before.value != after.value


def test_what_cannot_be_is_refused(recipe, tiny_model, tmp_path):
    with pytest.raises(
        NotApplicableError, match="is a causal LM, and the vectors of mentions need the text on both sides"
    ):
        recipe.start(tiny_model("gpt2"), 0)
    with pytest.raises(NotApplicableError, match="no model was given"):
        recipe.start(None, 0)
    for call in (lambda model: recipe.train(model, recipe.rows(), 0, tmp_path), recipe.evaluate):
        with pytest.raises(NotApplicableError, match=r"without a span scorer; start\(\) adds one"):
            call(tiny_model("bert"))
    with pytest.raises(SettingError, match="there is no row"):
        recipe.train(recipe.start(tiny_model("bert"), 0), [], 0, tmp_path)
    with pytest.raises(SettingError, match="cannot be trained on 'ontonotes'"):
        CoreferenceTuning(data=recipe.data, training="ontonotes").rows()
    wrong = {"held_out": 0, "max_rows": 0, "epochs": 0, "batch_size": 1.5, "learning_rate": -1, "max_length": 2,
        "head_size": 0, "dropout": 1.0, "freeze": "head"}  # fmt: skip
    for name, value in wrong.items():
        with pytest.raises(SettingError, match=name):
            CoreferenceTuning(**{name: value})


def test_settings_say_what_was_read_and_not_where(recipe, data):
    settings = recipe.settings()
    assert data not in json.dumps(settings)
    assert settings["digest"] == make_recipe("coreference", data=data).settings()["digest"]
    assert len(CoreferenceTuning(data=data, max_rows=7).rows()) == 7


def test_the_scores_of_an_encoder_that_reads_padding_do_not_hang_on_the_batch():
    words = tokenizer("bert")
    torch.manual_seed(0)
    encoder = FNetConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, intermediate_size=32, initializer_range=0.4
    )
    network = SpanCoreferenceModel(SpanCoreferenceConfig(encoder=encoder, head_size=8)).eval()
    backend = load_model(network, tokenizer=words, name="spans").backend
    assert backend.batches == "rows of one length"
    texts = [
        "Ann met Bob.",
        "The nurse said that she had met him there.",
        "Ann is a friend of the doctor whom she met.",
    ]
    documents = [read_document(words, None, text, [(0, 3), (4, 8)]) for text in texts]
    for one, document in zip(pair_scores(backend, documents), documents, strict=True):
        np.testing.assert_allclose(one, pair_scores(backend, [document])[0], rtol=1e-5)
    states = HiddenStates(backend, None)
    together = states.span_vectors(texts, [((0, 3),)] * 3)
    alone = [HiddenStates(backend, None).span_vectors([text], [((0, 3),)])[0] for text in texts]
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)
