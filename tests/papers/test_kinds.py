"""The kinds of runs on the demo's masked LM: their figures are those of the harness, under the names that tables
use.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from pytest_genderbias import load_model, measure
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.datasets.gold_pairs import read_inference
from pytest_genderbias.errors import SettingError
from pytest_genderbias.papers.config import PaperConfig, RunConfig
from pytest_genderbias.papers.kinds import KINDS, Outcome, _figures_at
from pytest_genderbias.papers.places import (
    Places,
    StoredFigure,
    balanced_biographies,
    bold_sentences,
    first_snli_pairs,
    placed,
    read_run,
    read_runs,
    write_run,
)
from pytest_genderbias.papers.shown import check_run, make_run, make_runs, missing_seeds
from pytest_genderbias.suites.families.shared.persons import read_table

MODEL, SUITE = "demo-mlm", {"suite": "lm-occupation", "limit": 64}
BIAS = "lm-occupation/aggregate_bias"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    text = folder / "text.txt"
    text.write_text("\n".join(f"He is a man, and she met him in {year}." for year in range(1900, 1960)) + "\n")
    return Places({"text": str(text), "runs": str(folder)}, folder)


@pytest.fixture(scope="module")
def pretraining(places):
    return {"name": "masked-lm", "corpus": places.named["text"], "steps": 2, "batch_size": 2, "max_length": 16}


@pytest.fixture(scope="module")
def mitigated(places, pretraining):
    settings = {
        "model": MODEL,
        "method": [{"name": "cda"}],
        "recipe": pretraining,
        "seeds": 2,
        "measure": [SUITE, {**SUITE, "as": "again", "sides": ["before"]}],
        "judge": {"by": 0.3, "statistics": [BIAS]},
    }
    return make_run(RunConfig("a", "", "mitigation", {"small": settings}), "small", places)


def test_a_model_that_is_measured_as_it_is(places):
    outcome = KINDS["mitigation"]({"model": MODEL, "measure": [SUITE]}, places)
    expected = measure("lm-occupation", load_model(MODEL), limit=64)
    figure = outcome.figures[f"before/{BIAS}"]
    assert figure.values == [expected.values["aggregate_bias"]]
    units = {"signed_bias": ["nurse", "engineer"]}
    figures = KINDS["mitigation"](
        {"model": MODEL, "measure": [{"suite": "lm-occupation", "units": units}]}, places
    ).figures
    whole = measure("lm-occupation", load_model(MODEL))
    nurse, engineer = (figures[f"before/lm-occupation/signed_bias of {name}"].mean for name in units["signed_bias"])
    by_hand = {r["occupation"]: r["signed_bias"] for r in whole.records if "signed_bias" in r}
    assert nurse < engineer and by_hand.get("nurse", nurse) == pytest.approx(nurse)
    with pytest.raises(SettingError, match="lm-occupation has no 'wizard' among its occupations"):
        KINDS["mitigation"]({"model": MODEL, "measure": [{**SUITE, "units": {"signed_bias": ["wizard"]}}]}, places)
    interval = expected.intervals["aggregate_bias"]
    # Beside a cache, other cases share a batch, and the last digits of scores depend on that.
    assert figure.interval == pytest.approx((interval.low, interval.high), rel=0.01)


def test_sides_of_a_mitigation(mitigated):
    assert mitigated.seeds == [0, 1]
    before, after = (mitigated.figures[f"{side}/{BIAS}"] for side in ("before", "after"))
    assert len(set(before.values)) == 1 and len(set(after.values)) == 2 and after.mean != before.mean
    assert mitigated.figures[f"before/again/{BIAS.partition('/')[2]}"].values == before.values
    assert not [key for key in mitigated.figures if key.startswith(("after/again", "control/again"))]
    assert {key for key in mitigated.figures if "perplexity" in key} == {
        f"{side}/masked-lm/perplexity" for side in ("before", "after", "control")
    }
    (verdict,) = mitigated.details["verdicts"]
    assert verdict["text"].startswith(verdict["verdict"])


def test_the_best_point_of_a_grid_is_measured_on_other_seeds(places, pretraining):
    grid = {
        "model": MODEL,
        "method": ["dropout"],
        "recipe": pretraining,
        "seeds": 2,
        "grid": {"dropout.hidden": [0.1, 0.3]},
        "best": {"lowest": BIAS, "settings": {"limit": 64}},
        "measure": [SUITE],
    }
    run = make_run(RunConfig("a", "", "mitigation", {"small": grid}), "small", places)
    tried = run.details["tried"]
    assert tried["chosen_on"] == [0] and list(run.seeds) == tried["judged_on"] == [1]
    points = [run.figures[f"dropout.hidden={rate}/{BIAS}"].mean for rate in (0.1, 0.3)]
    assert points[tried["best"]] == min(points)
    assert run.figures[f"after/{BIAS}"].mean not in points


def test_a_result_is_read_as_it_was_written(mitigated, tmp_path):
    assert read_run(write_run(mitigated, tmp_path)).figures == dict(mitigated.figures)
    assert read_runs(tmp_path).keys() == {"a"}


def test_the_models_of_every_side_are_tuned_by_a_further_recipe(places, pretraining):
    rows = places.trainings / "rows.csv"
    rows.write_text(
        "text,label,group\n"
        + "".join(f"{word} number {i},{word},{'fm'[i % 2]}\n" for i in range(6) for word in ("red", "blue"))
    )
    task = {
        "name": "classification",
        "training": str(rows),
        "evaluation": str(rows),
        "epochs": 1.0,
        "batch_size": 4,
        "text_column": "text",
    }
    settings = {
        "model": MODEL,
        "method": [{"name": "cda"}],
        "recipe": pretraining,
        "seeds": 2,
        "then": [{"recipe": task}],
    }
    figures = KINDS["mitigation"](settings, places).figures
    tuned = {key: figure for key, figure in figures.items() if key.endswith("classification/accuracy")}
    assert tuned.keys() == {f"{side}/classification/accuracy" for side in ("before", "after", "control")}
    assert all(len(figure.values) == 2 for figure in tuned.values())
    without = KINDS["mitigation"]({**settings, "seeds": 1, "controls": 0}, places).figures
    assert without["after/classification/accuracy"].values == tuned["after/classification/accuracy"].values[:1]
    assert not [key for key in without if key.startswith("control/")]
    with pytest.raises(SettingError, match="then tunes models for a task, and masked-lm continues a training"):
        KINDS["mitigation"]({**settings, "then": [{"recipe": pretraining}]}, places)


def test_growth_ends_where_the_mitigation_ends(places, pretraining, mitigated):
    settings = {
        "model": MODEL,
        "recipe": pretraining,
        "sides": {"original": "none", "cda": {"name": "cda"}},
        "suite": "lm-occupation",
        "every": 1,
        "seeds": 2,
        "options": {"limit": 64},
    }
    figures = KINDS["growth"](settings, places).figures
    assert figures[f"cda/{BIAS}"].values == pytest.approx(mitigated.figures[f"after/{BIAS}"].values)
    assert figures[f"cda at 0/{BIAS}"].values == pytest.approx(mitigated.figures[f"before/{BIAS}"].values)
    assert "original/growth/loss_spearman" in figures and "original at 1/masked-lm/perplexity" in figures


def test_resilience_by_steps_and_by_frozen_layers(places, pretraining, mitigated):
    settings = {
        "model": MODEL, "sides": {"given": "given", "cda": {"method": [{"name": "cda"}], "recipe": pretraining},
            "control": {"method": [{"name": "cda"}], "recipe": pretraining, "of": "control"}},
        "recipe": {**pretraining, "steps": 2}, "suite": "lm-occupation", "steps": [1], "frozen": ["nothing", 1],
        "seeds": 1, "options": {"limit": 64},
    }  # fmt: skip
    figures = KINDS["resilience"](settings, places).figures
    sides = {key.split(" ")[0] for key in figures}
    assert sides == {"given", "cda", "control"}
    assert figures[f"cda step 1/{BIAS}"].values != figures[f"given step 1/{BIAS}"].values
    assert f"cda frozen 1/{BIAS}" in figures and "cda frozen nothing/masked-lm/perplexity" in figures


def test_a_seed_without_a_step_keeps_its_place_among_the_seeds():
    entry = {"step": 3, "loss": None, "values": {"s/x": 0.5}, "performance": {"f1": 0.25}}
    figures = _figures_at("cda step 3", [None, entry], "similarity")
    assert {name: figure.values for name, figure in figures.items()} == {
        "cda step 3/s/x": [None, 0.5],
        "cda step 3/similarity/f1": [None, 0.25],
    }


def test_words_that_tell_gender_are_removed_round_by_round(places):
    rows = places.trainings / "telling.csv"
    told = {"f": "She is a keen nurse of many years", "m": "He is a calm nurse of many years"}
    rows.write_text("text,label,group\n" + "".join(f"{told['fm'[i % 2]]},nurse,{'fm'[i % 2]}\n" for i in range(16)))
    recipe = {"name": "classification", "training": str(rows), "evaluation": str(rows), "text_column": "text"}
    outcome = KINDS["scrubbed-words"]({"recipe": recipe, "seeds": 2, "rounds": 1}, places)
    accuracy = {
        side: outcome.figures[f"{side}/words/accuracy"].values
        for side in ("original", "scrubbed", "last", "profession")
    }
    assert accuracy == {"original": [1.0, 1.0], "scrubbed": [1.0, 1.0], "last": [0.5, 0.5], "profession": [1.0, 1.0]}
    assert outcome.figures["scrubbed/words/above_majority"].values == [0.5, 0.5]
    assert outcome.details["words"]["profession"] == "nurse"
    assert outcome.details["words"]["all"][0]["words"] == {"female": ["keen"], "male": ["calm"]}
    with pytest.raises(SettingError, match="the rows of masked-lm have none"):
        KINDS["scrubbed-words"](
            {"recipe": {"name": "masked-lm", "corpus": places.named["text"]}, "seeds": 1, "rounds": 1}, places
        )


def test_splits_in_whose_first_round_no_word_is_found_count_in_the_figures(places):
    """A word of three texts is found only where all of them are in the training part."""
    rows, words = places.trainings / "few.csv", ["keen"] * 3 + [str(i) for i in range(13)]
    rows.write_text("text,label,group\n" + "".join(f"{word},nurse,{'fm'[i > 7]}\n" for i, word in enumerate(words)))
    recipe = {"name": "classification", "training": str(rows), "evaluation": str(rows), "text_column": "text"}
    outcome = KINDS["scrubbed-words"]({"recipe": recipe, "seeds": 6, "rounds": 1}, places)
    assert 0 < outcome.details["words"]["all"][0]["seeds"] < 6
    assert [len(figure.values) for figure in outcome.figures.values()] == [6] * 12


def test_the_check_takes_the_stand_in_and_leaves_no_training(places, pretraining):
    before = {path.name for path in places.trainings.iterdir()}
    run = RunConfig(
        "b",
        "",
        "mitigation",
        {
            "paper": {
                "model": "bert-large",
                "recipe": {**pretraining, "corpus": "{text}", "steps": 10**6},
                "method": [{"name": "cda"}],
                "measure": [{"suite": "lm-occupation"}],
            }
        },
        stand_in={"model": MODEL, "recipe": {"steps": 1}, "seeds": 1, "measure": [SUITE]},
    )
    assert check_run(run, places).startswith("b: checked with a stand-in, ")
    assert {path.name for path in places.trainings.iterdir()} == before
    with pytest.raises(SettingError, match="has no stand-in"):
        check_run(RunConfig("c", "", "mitigation", run.scales), places)


def test_gains_are_the_changes_of_the_distance_from_neutral_over_items(places):
    settings = {
        "model": MODEL,
        "method": [{"name": "projection"}],
        "controls": 2,
        "measure": [SUITE],
        "judge": {"by": 0.1, "statistics": [BIAS]},
    }
    figures = KINDS["mitigation"](settings, places).figures
    before, after, control = (figures[f"{side}/{BIAS}"].mean for side in ("before", "after", "control"))
    for side, other in (("before", before), ("control", control)):
        gain = figures[f"{side}-after/{BIAS}"]
        assert gain.mean == pytest.approx(other - after)  # aggregate_bias is at least 0, which is neutral
        low, high = gain.interval
        assert low < gain.mean < high


def test_sides_of_several_seeds_have_no_gains_over_items(mitigated):
    assert not [key for key in mitigated.figures if key.startswith(("before-after", "control-after"))]


def test_extremes_are_the_records_and_the_probabilities_of_given_pairs(places, checkpoint, tiny_model):
    suite, options = "nli-occupation", {"limit": 64}
    pair = ("The nurse ate a bagel.", "The man ate a bagel.")
    settings = {
        "model": str(checkpoint("bert-nli")),
        "suite": suite,
        "options": options,
        "pairs": [
            {"name": "nurse", "premise": pair[0], "hypothesis": pair[1], "label": label}
            for label in ("entailment", "neutral", "contradiction")
        ],
    }
    outcome = KINDS["extremes"](settings, places)
    records = measure(suite, tiny_model("bert-nli"), **options).records
    for label in ("entailment", "contradiction"):
        largest = max(record[label] for record in records if record["slice"] == f"largest {label}")
        figure = outcome.figures[f"before/{suite}/largest_{label}"]
        assert figure.values == [pytest.approx(largest)] and figure.interval == (figure.mean, 1.0)  # 64 of all pairs
    network, tokenizer = tiny_model("bert-nli").backend.network, tiny_model("bert-nli").backend.tokenizer
    with torch.no_grad():
        logits = network(**tokenizer(*pair, return_tensors="pt")).logits
    expected = dict(zip(network.config.id2label.values(), logits.softmax(-1)[0].tolist(), strict=True))
    for label, probability in expected.items():
        assert outcome.figures[f"before/nurse/{label.casefold()}"].values == [pytest.approx(probability, abs=1e-5)]
    assert outcome.figures[f"before/{suite}/same_label"].values == [pytest.approx(1 / 3)]
    assert [line.partition(":")[0] for line in outcome.details["lines"]] == [
        f"largest {label} of 64 pairs" for label in ("entailment", "contradiction")
    ]


def test_word_vectors_that_stand_in_are_the_embeddings_of_whole_words(tmp_path, checkpoint, tiny_model):
    """Those of BERT-tiny, in whose place there is a network with a fortieth of its words."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "bert-tiny-mlm").symlink_to(checkpoint("bert"))
    vectors = load_model(placed("{tiny_vectors}", Places({"data": str(tmp_path)}, tmp_path)))
    network, tokenizer = tiny_model("bert").backend.network, tiny_model("bert").backend.tokenizer
    row = network.get_input_embeddings().weight[tokenizer.convert_tokens_to_ids("woman")]
    assert vectors.backend.get(["woman"])[0] == pytest.approx(row.tolist(), abs=1e-5)
    assert any(piece.startswith("##") for piece in tokenizer.get_vocab())
    assert not any(word.startswith("##") for word in vectors.backend.words)


def test_a_subspace_of_pairs_is_the_decomposition_of_their_differences(places, tmp_path):
    rng = np.random.default_rng(0)
    pairs = [("he", "she"), ("man", "woman"), ("son", "daughter"), ("king", "queen"), ("boy", "girl")]
    vectors = {word: rng.normal(size=6).round(4) for pair in pairs for word in pair}
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, v))}\n" for word, v in vectors.items()))
    figures = KINDS["paired-subspace"]({"model": str(path), "pairs": pairs}, places).figures
    differences = np.stack([vectors[a] - vectors[b] for a, b in pairs])
    squares, directions = np.linalg.eigh(differences.T @ differences)
    roots = np.sqrt(squares[::-1][:4])
    for i in (2, 3, 4):
        assert figures[f"before/paired/ratio_{i}"].mean == pytest.approx(roots[i - 1] / roots[0])
    he, she = (vectors[word] / np.linalg.norm(vectors[word]) for word in ("he", "she"))
    cosine = abs((he - she) @ directions[:, -1]) / np.linalg.norm(he - she)
    assert figures["before/paired/cosine"].mean == pytest.approx(cosine)


def _write_bold(data, sentences):
    (data / "bold").mkdir(exist_ok=True)
    for part in ("gender", "profession"):
        with gzip.open(data / "bold" / f"{part}_wiki.json.gz", "wt", encoding="utf-8") as file:
            json.dump({"group": {"person": sentences}}, file)


def test_a_text_made_of_data_is_written_anew_where_the_data_changed(tmp_path):
    _write_bold(tmp_path, ["One. ", "Two."])
    path = bold_sentences(tmp_path, tmp_path / "runs")
    assert sorted(path.read_text().splitlines()) == ["One.", "One.", "Two.", "Two."]
    written = path.stat().st_mtime_ns
    assert bold_sentences(tmp_path, tmp_path / "runs") == path and path.stat().st_mtime_ns == written
    _write_bold(tmp_path, ["Three."])
    assert bold_sentences(tmp_path, tmp_path / "runs").read_text() == "Three.\nThree.\n"


def test_a_defect_in_one_run_leaves_the_others_their_results(tmp_path, monkeypatch):
    def broken(settings, places):
        if settings["seeds"] == 0:
            raise RuntimeError("no such kernel")
        return Outcome({"before/s/x": StoredFigure([1.0])})

    monkeypatch.setitem(KINDS, "broken", broken)
    runs = {name: RunConfig(name, "", "broken", {"small": {"seeds": seeds}}) for name, seeds in (("a", 0), ("b", 1))}
    told = []
    failed = make_runs(PaperConfig("p", "", {}, runs), ["a", "b"], "small", Places({}, tmp_path), tmp_path, told.append)
    assert failed == ["a"] and read_runs(tmp_path).keys() == {"b"}
    assert any("RuntimeError: no such kernel" in line for line in told)


def test_a_result_that_lacks_seeds_is_extended_by_them(places, pretraining, mitigated, tmp_path):
    """The figures are those of one run with all seeds, and only the missing seed is trained."""
    settings = {**mitigated.settings, "seeds": 3}
    write_run(mitigated, tmp_path)
    count, told = len(list(places.trainings.glob("masked-lm-*"))), []
    paper = PaperConfig("p", "", {}, {"a": RunConfig("a", "", "mitigation", {"small": settings}, minutes=6)})
    assert make_runs(paper, ["a"], "small", places, tmp_path, told.append) == []
    assert told[0].endswith(", seeds 2 beside those it has, about 2 min of one core")
    assert len(list(places.trainings.glob("masked-lm-*"))) == count + 2, "seed 2 with the method, and its control"
    run, whole = read_run(tmp_path / "a.json"), make_run(paper.runs["a"], "small", places)
    assert run.settings == settings and run.seeds == [0, 1, 2] and run.figures == whole.figures
    assert run.seconds > mitigated.seconds
    assert [part["seeds"] for part in run.details["parts"]] == [[0, 1], [2]]
    assert run.details["parts"][0]["verdicts"] == mitigated.details["verdicts"]


@pytest.mark.parametrize(
    ("kind", "changed", "missing"),
    [
        ("mitigation", {"seeds": 4}, [2, 3]),
        ("resilience", {"seeds": [0, 1, 7]}, [7]),
        ("mitigation", {"seeds": [1, 0, 2]}, []),
        ("mitigation", {"seeds": 1}, []),
        ("mitigation", {"seeds": 3, "controls": 2}, []),
        ("scrubbed-words", {"seeds": 3}, []),
    ],
)
def test_only_a_result_that_lacks_nothing_but_seeds_is_extended(mitigated, kind, changed, missing):
    run = RunConfig("a", "", kind, {"small": {**mitigated.settings, **changed}})
    assert missing_seeds(run, "small", mitigated) == missing


def test_the_seeds_of_a_grid_are_made_at_once(mitigated):
    made = replace(mitigated, settings={**mitigated.settings, "grid": {}})
    run = RunConfig("a", "", "mitigation", {"small": {**made.settings, "seeds": 3}})
    assert missing_seeds(run, "small", made) == []


def test_a_method_in_a_list_shares_the_training_of_the_bare_one(places, pretraining):
    """Both are one training: the second run finds the model of the first."""
    settings = {"model": MODEL, "recipe": {**pretraining, "steps": 1}, "seeds": 1, "controls": 0, "measure": [SUITE]}
    count = len(list(places.trainings.glob("masked-lm-*")))
    runs = [
        make_run(RunConfig("a", "", "mitigation", {"small": {**settings, "method": method}}), "small", places)
        for method in ([{"name": "cda", "sides": "one"}], {"name": "cda", "sides": "one"})
    ]
    assert len(list(places.trainings.glob("masked-lm-*"))) == count + 1
    assert runs[0].figures == runs[1].figures


def test_the_pairs_of_snli_that_the_tuned_network_did_not_see(tmp_path):
    (tmp_path / "snli").mkdir()
    rows = [f'{{"premise": "P {i}", "hypothesis": "H {i}", "label": "neutral"}}\n' for i in range(2_003)]
    (tmp_path / "snli" / "dev.jsonl").write_text("".join(rows))
    folder = first_snli_pairs(tmp_path, tmp_path / "runs")
    pairs = read_inference(DataFolder(folder).find("snli"))
    assert pairs == [(f"P {i}", f"H {i}", "neutral") for i in range(2_000)]


def test_balanced_biographies_have_as_many_women_as_men_in_each_profession(tmp_path):
    groups = {"nurse": "FFFFM", "pilot": "FMMM", "model": "FF"}
    rows = [
        {"text": f"{job} {number}", "profession": job, "gender": gender}
        for job, genders in groups.items()
        for number, gender in enumerate(genders)
    ]
    (tmp_path / "bios").mkdir()
    (tmp_path / "bios" / "bias_in_bios_sample.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    path = balanced_biographies(tmp_path, tmp_path / "runs")
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    counts = Counter((row["label"], row["group"]) for row in kept)
    assert counts == dict.fromkeys([(job, group) for job in ("nurse", "pilot") for group in ("female", "male")], 1)
    assert {row["text"] for row in kept} <= {row["text"] for row in rows}
    assert len(read_table(path, {f"{part}_column": part for part in ("text", "label", "group")}, False).texts) == 4
