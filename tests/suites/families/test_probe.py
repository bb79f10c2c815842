"""probe-compression: planted labels are found, shuffled ones are not; what is masked, what is asked, what is
refused.
"""

import json
import re

import numpy as np
import pytest
import torch

from pytest_genderbias import Limit, load_suite, measure
from pytest_genderbias.datasets.folder import DataFolder, MissingDataError
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError, UndefinedError
from pytest_genderbias.gates.limits import judge_limit
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.statistics import linear_probe
from pytest_genderbias.statistics.linear_probe import codes_of_labellings, online_code
from pytest_genderbias.suites.cases import Answer, TextCases
from pytest_genderbias.suites.families import probe
from pytest_genderbias.suites.family import Context, resolve_options
from pytest_genderbias.suites.query import TextVectors

SUITE = load_suite("probe-compression")


def options(**chosen):
    return resolve_options(SUITE.family.options, {"seeds": 3, **chosen}, "probe-compression")


def answered(labels, vectors, untrained=None, order=None):
    n = len(labels)
    facts = {"label": np.asarray(labels)} | ({} if order is None else {"order": np.asarray(order)})
    cases = TextCases([("x",)] * n, facts=facts)
    units = np.random.default_rng(1).permutation(n)
    untrained = np.zeros_like(vectors) if untrained is None else untrained
    answers = {
        "cases": Answer(cases, units, vectors[units][:, None]),
        "random encoder": Answer(cases, units, untrained[units][:, None]),
    }
    return answers, units


def summary(labels, vectors, untrained=None, order=None, **chosen):
    answers, units = answered(labels, vectors, untrained, order)
    return SUITE.family.summarise(SUITE.body, options(**chosen), answers, seed=0), units


def planted(n=600, d=16, seed=0):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(n, d)).astype(np.float32)
    return vectors, np.where(vectors[:, 0] + 0.3 * random.normal(size=n) > 0, "female", "male")


def test_a_planted_label_compresses_and_controls_do_not():
    vectors, labels = planted()
    noise = np.random.default_rng(9).normal(size=vectors.shape).astype(np.float32)
    found, units = summary(labels, vectors, noise)
    assert found.values["compression"] > 1.4
    assert found.values["compression_shuffled"] == pytest.approx(1.0, abs=0.05)
    assert found.values["compression_random_encoder"] == pytest.approx(1.0, abs=0.05)
    assert found.values["accuracy"] > 0.8
    expected = online_code(vectors[units], labels[units], seeds=3, seed=0)
    assert found.values["compression"] == pytest.approx(expected.compressions.mean())
    interval = found.intervals["compression"]
    assert interval.low < found.values["compression"] < interval.high
    assert [r["value"] for r in found.records[:3]] == [
        "compression",
        "compression_shuffled",
        "compression_random_encoder",
    ]
    assert json.dumps(found.records)


def test_groups_of_one_label_are_shuffled_as_groups():
    random = np.random.default_rng(3)
    word = np.repeat(np.arange(40), 20)
    table = random.normal(size=(40, 40)).astype(np.float32)
    labels = np.asarray(["female", "male"])[random.permutation(np.repeat([0, 1], 20))][word]
    loose, _ = summary(labels, table[word])
    grouped, _ = summary(labels, table[word], order=[f"w{i}" for i in word])
    assert loose.values["compression"] > 2 > 1.3 > grouped.values["compression"]


def test_one_label_only_has_no_compression_and_says_why():
    vectors, _ = planted()
    found, _ = summary(["male"] * len(vectors), vectors)
    assert set(found.values.values()) == {None}
    assert "fewer than two distinct labels" in found.reasons["compression"]
    assert found.reasons["accuracy"] == found.reasons["compression"]


def test_too_few_texts():
    vectors, labels = planted(60)
    found, _ = summary(labels, vectors)
    assert found.values["compression"] is None
    assert "too few" in found.reasons["compression"]


def test_the_shuffles_of_the_examples_give_the_statistics():
    vectors, labels = planted(300)
    noise = np.random.default_rng(9).normal(size=vectors.shape).astype(np.float32)
    found, _ = summary(labels, vectors, noise)
    for statistic, value in found.values.items():
        item_sums = SUITE.family.statistics[statistic].item_sums(options(), found.items)
        assert item_sums.total == pytest.approx(value, rel=1e-12)
        assert (item_sums.over, item_sums.ratio, len(item_sums.labels)) == ("shuffles", True, 3)
        assert SUITE.family.statistics[statistic].scores(options(), answered(labels, vectors)[0]["cases"]) is None
    by_shuffle = found.records[0]["by_shuffle"]
    item_sums = SUITE.family.statistics["compression"].item_sums(options(), found.items)
    assert (item_sums.sums[:, 0] / item_sums.sums[:, 1]).tolist() == by_shuffle
    nothing, _ = summary(["female"] * 300, vectors)
    with pytest.raises(UndefinedError, match="no compression"):
        SUITE.family.statistics["compression"].item_sums(options(), nothing.items)


def test_the_null_shuffles_labels(monkeypatch):
    vectors, labels = planted(300)
    noise = np.random.default_rng(9).normal(size=vectors.shape).astype(np.float32)
    for features, inside in ((vectors, False), (noise, True)):
        answers, _ = answered(labels, features)
        values = SUITE.family.summarise(SUITE.body, options(), answers, 0).values
        null = SUITE.family.null(SUITE.body, options(), answers, 0, 19)
        for statistic in ("compression", "accuracy"):
            assert null[statistic].shape == (19,)
            assert (null[statistic].min() <= values[statistic] <= null[statistic].max()) == inside
        again = SUITE.family.null(SUITE.body, options(), answers, 0, 19)
        assert all((again[key] == null[key]).all() for key in null)
        assert (SUITE.family.null(SUITE.body, options(), answers, 1, 19)["accuracy"] != null["accuracy"]).any()
    few, _ = answered(labels[:20], vectors[:20])
    assert np.isnan(SUITE.family.null(SUITE.body, options(), few, 0, 2)["compression"]).all()
    of_one = noise.size * 2 * options()["seeds"]
    monkeypatch.setattr(probe, "_MOST_WORK", 45 * of_one)
    within = SUITE.family.null(SUITE.body, options(), answers, 0, 200)["compression"]
    assert within.shape == (45,)
    monkeypatch.setattr(probe, "_MOST_WORK", 39 * of_one)
    with pytest.raises(UndefinedError, match="compression_shuffled is one such shuffle"):
        SUITE.family.null(SUITE.body, options(), answers, 0, 200)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_labellings_side_by_side_have_the_codes_that_they_have_alone(monkeypatch, grouped, n_labels):
    rng = np.random.default_rng(6)
    vectors, groups = rng.normal(size=(200, 5)), rng.integers(40, size=200) if grouped else None
    labellings = np.stack([rng.permutation(np.arange(200) % n_labels) for _ in range(3)])
    labellings[0] = np.clip(np.floor(vectors[:, 0] + n_labels / 2), 0, n_labels - 1)
    for at_once in (1 << 28, 1):
        monkeypatch.setattr(linear_probe, "_WEIGHT_BYTES", at_once)
        how = {"groups": groups, "seeds": 2, "seed": 3}
        compressions, accuracies = codes_of_labellings(vectors, labellings, **how)
        for labels, found, right in zip(labellings, compressions, accuracies, strict=True):
            alone = online_code(vectors, labels, **how)
            assert found == pytest.approx(alone.compressions, rel=1e-3)
            assert right == pytest.approx(alone.accuracy, abs=0.02)


def test_the_null_keeps_groups_of_one_label_together():
    names = np.repeat([f"p{i}" for i in range(30)], 10)
    labels = np.where(np.arange(300) < 150, "female", "male")
    vectors = np.repeat(np.random.default_rng(4).normal(size=(30, 8)), 10, axis=0).astype(np.float32)
    answers, _ = answered(labels, vectors, order=names)
    together = SUITE.family.null(SUITE.body, options(), answers, 0, 20)["accuracy"]
    alone = SUITE.family.null(SUITE.body, options(), answered(labels, vectors)[0], 0, 20)["accuracy"]
    assert together.std() > 1.5 * alone.std()  # a probe knows a profession, or does not


def test_mixed_units_are_named_and_never_neutral_at_one():
    random = np.random.default_rng(0)
    vectors, labels = random.normal(size=(600, 8)).astype(np.float32), random.choice(["a", "b"], 600)
    found, _ = summary(labels, vectors, mixed_units=True)
    assert found.values["compression"] == pytest.approx(1.43, abs=0.05)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_words_in_later_spans_are_masked(tiny_model, kind):
    model, text = tiny_model(kind), "The nurse said that she was tired."
    cases = TextCases([(text,)], [((4, 9), (20, 23))])
    found = make_scorer(cases, TextVectors(mask_others=True), model, None).score(np.arange(1))[0]
    tokenizer = model.backend.tokenizer
    encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0].tolist()
    for i, (start, stop) in enumerate(offsets):
        if start < 23 and stop > 20 and stop > start:
            encoded["input_ids"][0, i] = tokenizer.mask_token_id
    assert (encoded["input_ids"] == tokenizer.mask_token_id).any()
    inside = [i for i, (start, stop) in enumerate(offsets) if start < 9 and stop > 4 and stop > start]
    with torch.no_grad():
        states = model.backend.network.base_model(input_ids=encoded["input_ids"]).last_hidden_state[0]
    assert np.allclose(found, states[inside].mean(dim=0).numpy(), atol=1e-5)
    plain = make_scorer(cases, TextVectors(), model, None).score(np.arange(1))[0]
    assert not np.allclose(found, plain, atol=1e-4)


def test_a_model_without_mask_is_not_asked_about_masked_words(tiny_model, tmp_path):
    cases = TextCases([("The nurse slept.",)], [((4, 9), (0, 3))])
    with pytest.raises(NotApplicableError, match="has no mask token"):
        make_scorer(cases, TextVectors(mask_others=True), tiny_model("gpt2"), None)


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def people(n=120):
    texts = {"F": "She is a {} of note.", "M": "He is a {} of note."}
    jobs = ["nurse", "doctor", "poet"]
    return [
        {"text": texts[g].format(jobs[i % 3]) + f" {i}", "profession": jobs[i % 3], "gender": g}
        for i, g in enumerate("FM" * (n // 2))
    ]


def test_biographies_end_to_end_on_a_random_network(tiny_model, tmp_path):
    write(tmp_path / "bios" / "bias_in_bios_test.jsonl", people())
    found = measure("probe-compression", tiny_model("bert"), data=tmp_path, cache=None, seeds=2)
    assert found.n == 120
    assert found.values["compression"] is not None
    assert found.signature["data"]["cases"] == found.signature["data"]["random encoder"]
    professions = measure("probe-compression", tiny_model("bert"), data=tmp_path, cache=None, seeds=2, label="label")
    assert {r["value"] for r in professions.records if r["slice"] == "label"} == {"nurse", "doctor", "poet"}
    half = measure("probe-compression", tiny_model("bert"), data=tmp_path, cache=None, seeds=2, limit=110)
    assert half.n == 110


def test_a_limit_is_decided_by_the_shuffles(tiny_model, tmp_path):
    """The figure hangs on the seed of the shuffles: of the whole data set no more is known than their interval."""
    write(tmp_path / "bios" / "bias_in_bios_test.jsonl", people())
    found = measure("probe-compression", tiny_model("bert"), data=tmp_path, cache=None, seeds=4)
    assert found.n == found.n_total
    for statistic in found.values:
        assert found.bounds[statistic] == found.intervals[statistic] is not None
    interval = found.interval
    inside = judge_limit(found, Limit(at_most=(found.value + interval.high) / 2))
    assert (inside.code, inside.over) == ("too_few", "shuffles")
    assert "judged for other shuffles" in inside.text
    assert re.fullmatch(
        r"about \d+ shuffles \(now 4\), if the value stays where it is; or a limit farther away", inside.settled_by
    )
    assert judge_limit(found, Limit(at_most=interval.high)).code == "within"
    assert judge_limit(found, Limit(at_most=interval.low - 1e-4)).code == "over_limit"
    one = measure("probe-compression", tiny_model("bert"), data=tmp_path, cache=None, seeds=1, seed=7)
    assert judge_limit(one, Limit(at_most=9)).over == "the suite's cases, all of them, with seed 7 for the shuffles"


def test_a_table_of_the_users_own(tiny_model, tmp_path):
    rows = [{"text": r["text"], "label": r["profession"], "group": r["gender"]} for r in people()]
    path = write(tmp_path / "own.jsonl", rows)
    found = measure(
        "probe-compression", tiny_model("gpt2"), cache=None, seeds=2, data=None, **{"pooling": "auto"}, **own(path)
    )
    assert found.n == 120


def own(path):
    return {"texts": str(path)}


def asked(role="encoder", data=None, **chosen):
    return SUITE.family.questions(SUITE.body, options(**chosen), Context(role, data=DataFolder(data)))


def test_what_is_asked(tmp_path):
    write(tmp_path / "bios" / "bias_in_bios_test.jsonl", people())
    assert asked(data=tmp_path)["cases"].query == TextVectors(pooling="first")
    assert asked("causal-lm", data=tmp_path)["cases"].query.pooling == "mean"
    assert asked(data=tmp_path)["random encoder"].query.random_seed == 0
    with pytest.raises(MissingDataError, match="no Bias in Bios: expected"):
        asked()


def test_few_shuffles_have_no_interval_and_say_why():
    vectors, labels = planted()
    found, _ = summary(labels, vectors, vectors, seeds=2)
    for key, value in found.values.items():
        assert value is not None
        assert found.intervals[key] is None
        assert found.reasons[key] == "fewer than three shuffles, or all are equal"


def test_how_vectors_are_pooled_is_part_of_the_data(tmp_path):
    path = write(tmp_path / "bios" / "bias_in_bios_test.jsonl", people())
    first, mean = (asked(role, tmp_path)["cases"] for role in ("encoder", "causal-lm"))
    assert first.data_digest != mean.data_digest
    assert first.data_digest == asked("causal-lm", pooling="first", **own(path))["cases"].data_digest
    assert mean.data_digest == asked(pooling="mean", **own(path))["random encoder"].data_digest


def labels_of(path, **chosen):
    return asked(**own(path), **chosen)["cases"].cases.facts["label"].tolist()


def test_a_table_is_read_as_bios_reads_it(tmp_path):
    rows, jobs = people(6), ["nurse", "doctor", "poet"] * 2
    assert labels_of(write(tmp_path / "a.jsonl", rows)) == ["female", "male"] * 3
    assert labels_of(write(tmp_path / "a.jsonl", rows), label="label") == jobs
    columns = {"text_column": "bio", "label_column": "job", "group_column": "sex"}
    mixed = [{"bio": r["text"], "job": r["profession"], "sex": r["gender"]} for r in rows]
    mixed[0]["sex"] = "Female"
    path = write(tmp_path / "b.jsonl", mixed)
    assert labels_of(path, **columns) == ["female", "male"] * 3
    assert labels_of(path, label="label", **columns) == jobs
    other = write(tmp_path / "c.jsonl", [{"text": "x", "label": 1, "group": group} for group in ("young", "old")])
    assert labels_of(other) == ["young", "old"]


def test_all_parts_of_a_data_set_are_read(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "bios").mkdir()
    for part, word in enumerate(("nurse", "judge")):
        table = pa.table({"hard_text": [f"A {word}.", f"The {word}."], "profession": [13, 2], "gender": [1, 0]})
        parquet.write_table(table, tmp_path / "bios" / f"test-{part}.parquet")
    cases = asked(data=tmp_path)["cases"].cases
    assert cases.texts == [("A nurse.",), ("The nurse.",), ("A judge.",), ("The judge.",)]
    assert cases.facts["label"].tolist() == ["female", "male"] * 2


@pytest.mark.parametrize("chosen", [{"label": "label"}, {"group_column": "sex"}])
def test_what_has_no_meaning_for_winobias_is_refused(chosen):
    with pytest.raises(SettingError, match=f"option '{next(iter(chosen))}' does not apply to WinoBias"):
        asked(texts="winobias", **chosen)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"text": "x", "profession": "poet"}, "gender"),
        (
            {"text": "x", "profession": "poet", "gender": "Q"},
            "expected one of f, female, m, male in column 'gender', got 'Q'",
        ),
    ],
)
def test_bad_rows_are_one_error_each(tiny_model, tmp_path, row, expected):
    write(tmp_path / "bios" / "bias_in_bios_test.jsonl", [row])
    with pytest.raises(DataFileError, match=expected):
        measure("probe-compression", tiny_model("bert"), data=tmp_path, cache=None)


def test_a_name_of_no_data_set_is_refused(tiny_model):
    with pytest.raises(SettingError, match=r"one of bias_in_bios, wiki_career, winobias, or the path .*, got 'bois'"):
        measure("probe-compression", tiny_model("bert"), cache=None, texts="bois")


def test_professions_of_winobias(shared_data):
    cases = asked(data=shared_data, texts="winobias")["cases"].cases
    assert cases.n_cases == 2 * 792
    for (text,), spans, name in zip(cases.texts[:200], cases.spans[:200], cases.facts["order"][:200], strict=True):
        assert text[slice(*spans[0])].lower() == name.lower()
        assert text[slice(*spans[1])].lower() in {"he", "she", "him", "her", "his", "hers"}
    assert set(cases.facts["label"]) == {"female", "male"}


def test_gender_is_in_the_vectors_of_a_real_network(real_mlm, shared_data):
    found = measure(
        "probe-compression", real_mlm, data=shared_data, cache=None, seeds=3, texts="bias_in_bios", limit=300
    )
    assert found.values["compression"] > found.values["compression_random_encoder"]
    assert found.values["compression"] > 1.2
