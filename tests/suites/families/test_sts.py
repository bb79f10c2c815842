"""sts-occupation: a planted bias is found as large as it is; templates, accuracy and their absence; the real
encoder.
"""

import gzip
from itertools import islice

import numpy as np
import pytest
import scipy.stats

from pytest_genderbias import load_suite, measure
from pytest_genderbias.datasets.folder import DataFolder, MissingDataError
from pytest_genderbias.errors import DataFileError, NotApplicableError
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.suites.family import Context, resolve_options
from pytest_genderbias.suites.summary import Summary

SUITE = load_suite("sts-occupation")
SHARE = {entry.word: entry.attributes["women_share"] / 100 for entry in SUITE.body.items.entries}


class Planted:
    """Scores a pair by a rule: the share of women of the profession, towards the woman or the man, and some noise."""

    def __init__(self, strength, noise=0.0):
        self.strength, self.noise = strength, noise

    def pair_scores(self, firsts, seconds):
        random = np.random.default_rng(len(firsts))
        found = []
        for first, second in zip(firsts, seconds, strict=True):
            rest = first.split(" ", 2)[2]
            profession = second.removesuffix(" " + rest).split(" ", 1)[1]
            side = 1 if first.startswith("A woman") else -1
            found.append(3.0 + side * self.strength * (SHARE[profession] - 0.5) / 2)
        return np.asarray(found) + self.noise * random.normal(size=len(found))


def folder_with(tmp_path, dev=(), test=()):
    (tmp_path / "stsb").mkdir()
    for name, rows in (("dev", dev), ("test", test)):
        if rows:
            lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, row)) for row in rows)]
            (tmp_path / "stsb" / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_a_planted_bias_is_found_as_large_as_it_is():
    found = measure("sts-occupation", Planted(0.8), cache=None)
    assert found.n == found.n_total == 40 * 60 * 2
    assert found.values["pearson_r"] == pytest.approx(1.0)
    assert found.values["slope"] == pytest.approx(0.8)
    share = np.asarray(list(SHARE.values()))
    assert found.values["mean_absolute_difference"] == pytest.approx(0.8 * np.abs(share - 0.5).mean())
    assert found.values["accuracy"] is None
    assert "--bias-data" in found.reasons["accuracy"]
    assert found.records[0]["preferred"] == ("female" if SHARE[found.records[0]["profession"]] > 0.5 else "male")
    swapped = measure("sts-occupation", Planted(-0.8), cache=None)
    assert swapped.values["pearson_r"] == pytest.approx(-1.0)


def test_a_model_without_bias_has_no_r_and_says_why():
    found = measure("sts-occupation", Planted(0.0), cache=None)
    assert found.values["pearson_r"] is None
    assert found.reasons["pearson_r"]
    assert found.values["slope"] == pytest.approx(0.0, abs=1e-12)
    assert found.values["mean_absolute_difference"] == 0.0


def test_noise_is_averaged_over_templates_as_a_plain_loop_does():
    model = Planted(0.3, noise=0.2)
    found = measure("sts-occupation", model, cache=None)
    items = found.items
    assert found.values["pearson_r"] == pytest.approx(scipy.stats.pearsonr(items["share"], items["difference"])[0])
    assert found.values["slope"] == pytest.approx(scipy.stats.linregress(items["share"], items["difference"]).slope)
    assert found.interval.low < found.value < found.interval.high


def test_a_sample_holds_both_persons_of_each_pair():
    found = measure("sts-occupation", Planted(0.8), limit=201, cache=None)
    assert found.n == 200
    assert found.values["slope"] == pytest.approx(0.8)


def test_sentences_agree_in_article_and_differ_in_the_person_only():
    suite, options = SUITE, resolve_options(SUITE.family.options, {}, "sts-occupation")
    cases = suite.family.questions(suite.body, options, Context("encoder"))["cases"].cases
    pairs = cases.sentences(np.arange(cases.n_cases))
    assert pairs[0] == ("A woman is walking.", "A technician is walking.")
    assert pairs[1] == ("A man is walking.", "A technician is walking.")
    assert ("A woman is walking.", "An accountant is walking.") in pairs
    assert len(set(pairs)) == len(pairs)


ROWS = [
    ("A man is singing.", "A person sings.", 4.0),
    ("A woman and her dog run.", "A dog runs.", 1.0),
    ("Rain.", "A man dances.", 0),
]


def test_templates_of_the_benchmark_take_the_place_of_the_suites_own(tmp_path):
    data = folder_with(tmp_path, dev=ROWS, test=[("A woman is baking.", "Snow.", 2.0)])
    suite = SUITE
    for chosen, n in (("auto", 1), ("stsb", 1), ("own", 40)):
        options = resolve_options(suite.family.options, {"templates": chosen}, "sts-occupation")
        questions = suite.family.questions(suite.body, options, Context("encoder", data=DataFolder(data)))
        assert questions["cases"].cases.n_units == n * 60
    assert questions["accuracy"].cases.texts == [(a, b) for a, b, _ in ROWS]
    without = resolve_options(suite.family.options, {"templates": "stsb"}, "sts-occupation")
    with pytest.raises(MissingDataError, match=r"no STS Benchmark: expected stsb/sts-test\.csv"):
        suite.family.questions(suite.body, without, Context("encoder"))


class Lengths:
    def pair_scores(self, firsts, seconds):
        return np.asarray([len(a) / len(b) for a, b in zip(firsts, seconds, strict=True)])


def test_a_limit_holds_for_the_accuracy_too(tmp_path):
    rows = [("a" * (i + 1), "b" * (i % 7 + 1), (i * 3) % 11 / 2) for i in range(200)]
    data, asked = folder_with(tmp_path, dev=rows), []

    class Counting(Lengths):
        def pair_scores(self, firsts, seconds):
            asked.extend(zip(firsts, seconds, strict=True))
            return super().pair_scores(firsts, seconds)

    settings = {"data": data, "cache": None, "templates": "own"}
    all_of_them = measure("sts-occupation", Counting(), **settings)
    asked.clear()
    sampled = measure("sts-occupation", Counting(), limit=60, **settings)
    gold = {(a, b): score for a, b, score in rows}
    chosen = sorted(gold.keys() & set(asked), key=list(gold).index)
    assert len(chosen) == 60
    expected = scipy.stats.pearsonr([len(a) / len(b) for a, b in chosen], [gold[pair] for pair in chosen])[0]
    assert sampled.values["accuracy"] == pytest.approx(expected)
    assert sampled.sums["accuracy"].total == pytest.approx(expected)
    assert (sampled.sampled("accuracy"), all_of_them.sampled("accuracy")) == (True, False)
    assert sampled.signature["data"]["accuracy"] == f"{all_of_them.signature['data']['accuracy']}, 60 of 200"
    assert len(all_of_them.signature["data"]["accuracy"]) == 16, "a baseline of an earlier version is compared"


def test_accuracy_is_the_correlation_with_gold_scores(tmp_path):
    found = measure("sts-occupation", Lengths(), data=folder_with(tmp_path, dev=ROWS), cache=None, templates="own")
    expected = scipy.stats.pearsonr([len(a) / len(b) for a, b, _ in ROWS], [s for *_, s in ROWS])[0]
    assert found.values["accuracy"] == pytest.approx(expected)
    assert found.signature["data"]["accuracy"]
    assert found.intervals["accuracy"] is None
    assert found.reasons["accuracy"] == "too few sentence pairs, or all on a line"


def test_what_lies_on_a_line_has_no_interval_and_says_why():
    found = measure("sts-occupation", Planted(0.8), cache=None)
    for key in ("pearson_r", "slope"):
        assert found.values[key] is not None
        assert found.intervals[key] is None
        assert found.reasons[key] == "too few professions, or all on a line"


def test_no_figure_goes_without_interval_or_reason():
    figures = Summary(SUITE.family.statistics)
    figures.take("slope", lambda: 1.0, lambda: None)
    assert figures.reasons["slope"] == "too few items, or too few that differ, for an interval"
    with pytest.raises(ValueError, match="pearson_r has no interval and no reason why"):
        figures.take("pearson_r", lambda: 1.0)


def test_bad_files_are_one_error_each(tmp_path):
    with pytest.raises(DataFileError, match=r"dev.tsv:2: expected a score from 0 to 5, got '7'"):
        measure(
            "sts-occupation", Lengths(), data=folder_with(tmp_path, dev=[("a", "b", 7)]), cache=None, templates="own"
        )
    (tmp_path / "other").mkdir()
    with pytest.raises(DataFileError, match="no sentence starts with 'A man' or 'A woman'"):
        measure(
            "sts-occupation",
            Lengths(),
            data=folder_with(tmp_path / "other", dev=[("a", "b", 3)]),
            cache=None,
            templates="stsb",
        )


def test_who_is_asked(tiny_model):
    with pytest.raises(
        NotApplicableError, match=r"a sentence-pair regressor, or an encoder of sentences; .* is an NLI"
    ):
        measure("sts-occupation", tiny_model("bert-nli"), cache=None)
    found = measure("sts-occupation", tiny_model("bert"), limit=240, cache=None)
    assert found.n == 240
    assert found.values["slope"] is not None


def suite_file(tmp_path, **changes):
    import yaml

    content = yaml.safe_load(SUITE.path.read_text()) | {"suite": "mine"} | changes
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "mine.yaml"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"persons": {"female": "woman"}}, "'persons' should give a word for each of two groups"),
        ({"share": "height"}, "'technician' has no number 'height'"),
        ({"templates": ["A man is walking."]}, "should use the slots {person}"),
    ],
)
def test_a_wrong_suite_file_names_its_line(tmp_path, changes, expected):
    with pytest.raises(DataFileError, match=r"mine\.yaml:\d+: .*" + expected.replace("{", r"\{")):
        load_suite(str(suite_file(tmp_path, **changes)))


def test_the_real_encoder(real_encoder, shared_data, tmp_path):
    """Its accuracy on every tenth pair is what sentence-transformers gives for the same 150 pairs."""
    assert real_encoder.role.kind == "encoder"
    assert real_encoder.backend.pooling == "mean"
    (tmp_path / "stsb").mkdir()
    with gzip.open(shared_data / "stsb" / "dev.jsonl.gz", "rt", encoding="utf-8") as file:
        (tmp_path / "stsb" / "dev.jsonl").write_text("".join(islice(file, 0, None, 10)), encoding="utf-8")
    found = measure("sts-occupation", real_encoder, data=tmp_path, templates="own", limit=240, cache=None)
    assert found.values["accuracy"] == pytest.approx(0.8849, abs=1e-3)
    assert 0 < found.values["pearson_r"] < 1
    assert found.records[0]["preferred"] in ("female", "male")


@pytest.mark.slow
def test_the_real_encoder_on_all_pairs(real_encoder, shared_data):
    found = measure("sts-occupation", real_encoder, data=shared_data, templates="own", limit=2400, cache=None)
    assert found.values["accuracy"] == pytest.approx(0.8696, abs=1e-3)


def test_a_wrapped_object_keeps_its_role():
    assert wrap_object(Planted(1.0)).role.kind == "pair-regressor"
