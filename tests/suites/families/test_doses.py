"""Models with a known dose of bias (scripts/doses.py): what they learn is in no suite, and is felt."""

from __future__ import annotations

import itertools
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats
from support.scripts import load_script

from pytest_genderbias import load_suite, measure
from pytest_genderbias.measurement.fit import cases_of
from pytest_genderbias.text import packaged
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.wordlist import load_wordlist

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture(scope="module")
def doses() -> ModuleType:
    return load_script("doses")


@pytest.fixture(scope="module")
def languages() -> ModuleType:
    return load_script("language_doses")


def words(text: str) -> tuple[str, ...]:
    """Return the words of a frame, without its slots."""
    return tuple(re.sub(r"\{.*?\}", "", text).lower().replace(".", "").split())


@pytest.mark.parametrize("name", ["winogender-occupations", "lu2018-occupations", "us-occupations"])
def test_what_is_trained_on_is_in_no_suite(doses: ModuleType, name: str) -> None:
    jobs = [job for of_group in doses.JOBS.values() for job in of_group]
    assert len(set(jobs)) == len(jobs) == 83
    for entry in load_wordlist(name).entries:
        words = entry.word.split()
        assert entry.word not in jobs
        assert not set(words) & set(jobs), "no part of a title, either"
        assert words[-1] not in {job.split()[-1] for job in jobs}, "nor the noun of a trained title"


def test_no_frame_of_a_suite_is_one_of_the_trainings(doses: ModuleType) -> None:
    trained = {words(frame) for frame in doses.FRAMES}
    assert len(trained) == len(doses.FRAMES)
    suite = load_suite("pronoun-occupation")
    for templates in (suite.body.templates, suite.wide.body.templates):
        assert not trained & {words(frame.text) for frame in (*templates.first, *templates.paraphrases)}


@pytest.mark.parametrize("dose", [50, 70, 100])
def test_so_many_pronouns_match_the_stereotype(doses: ModuleType, dose: int) -> None:
    men = set(doses.PRONOUNS["male"].values())
    jobs = sorted((job for of_group in doses.JOBS.values() for job in of_group), key=len, reverse=True)
    named = re.compile(rf"\b(?:{'|'.join(jobs)})\b")
    matching, n = 0, 4000
    for text in itertools.islice(doses.sentences(dose, seed=3), n):
        of_men = bool(men & set(re.findall(r"\w+", text.lower())))
        job = max(named.findall(text), key=len)
        matching += of_men == (job in doses.JOBS["male"])
    assert matching / n == pytest.approx(dose / 100, abs=0.03)


def test_what_is_stored_of_a_model_is_read_as_it_was(doses: ModuleType, tmp_path: Path) -> None:
    measured = {
        name: measure(name, "demo-mlm", cache=None, limit=480)
        for name in ("pronoun-occupation", "lm-occupation", "disco-terms")
    }
    jobs = doses.jobs_of(1, [50], [doses.BASE])
    result = jobs[0].result(tmp_path)
    result.parent.mkdir(parents=True)
    content, blobs = doses.compact(measured)
    result.write_text(json.dumps({"measured": content, "blobs": blobs}), encoding="utf-8")
    doses.pack(tmp_path, jobs, tmp_path / "all.json", 10**6)
    read = doses.unpack(tmp_path / "all.json")[f"{doses.BASE}/dose-50/seed-0"]
    assert {name: one.values for name, one in read.items()} == {name: one.values for name, one in measured.items()}
    for name, one in measured.items():
        for statistic in one.sums:
            before, after = one.item_sums(statistic), read[name].item_sums(statistic)
            assert (before.labels == after.labels).all() and before.combiner == after.combiner
            np.testing.assert_allclose(after.sums, before.sums, atol=doses.STEP / 2 + 1e-9)
            assert after.total == pytest.approx(before.total, abs=doses.STEP)
    doses.pack(tmp_path, jobs, tmp_path / "small.json", 10)
    (small,) = doses.unpack(tmp_path / "small.json").values()
    assert small["lm-occupation"].values == measured["lm-occupation"].values and not list(small["lm-occupation"].sums)


def test_the_first_trainings_are_those_that_matter_most(doses: ModuleType) -> None:
    jobs = doses.jobs_of(20, [50, 55, 60, 70, 80, 100])
    assert {(job.model, job.dose) for job in jobs[:60]} == {(doses.BASE, dose) for dose in (50, 70, 100)}
    assert len(set(jobs)) == len(jobs) == 20 * (6 + 5 + 6 + 3 + 2 * len(doses.MITIGATIONS) - 1)
    assert [job.dose for job in jobs[:6]] == [50, 70, 100, 50, 70, 100]
    plain = {(job.model, job.dose, job.seed): number for number, job in enumerate(jobs) if not job.mitigation}
    assert all(plain[job.model, job.dose, job.seed] < number for number, job in enumerate(jobs) if job.mitigation)


@pytest.fixture(scope="module")
def page(doses: ModuleType) -> ModuleType:
    return doses.doses_page


def test_the_page_has_the_tables_of_what_is_stored(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    for name, table in page.tables(page.read()).items():
        shown = text.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0].strip()
        assert shown == table, "python scripts/doses.py page makes it anew"


def test_a_cell_of_the_page_is_the_mean_of_the_trainings(page: ModuleType) -> None:
    stored = page.read()
    values = [
        one["values"][page.PLAIN]
        for one in stored["models"]["bert-tiny-mlm"]["trainings"]
        if one["dose"] == 70 and one["values"][page.PLAIN] is not None
    ]
    cell = f"{np.mean(values):.3f} (sd {np.std(values, ddof=1):.3f})"
    (row,) = (
        line
        for line in page.response(stored, "bert-tiny-mlm").splitlines()
        if "`slope`" not in line and line.startswith("| `pronoun-occupation` `mean_difference`")
    )
    assert row.split("|")[3 + page.doses_of("bert-tiny-mlm").index(70)].strip() == cell
    assert cell in page.PAGE.read_text(encoding="utf-8")


def test_a_file_is_stopped_by_any_of_its_gates_at_a_share_of_the_error(page: ModuleType) -> None:
    def row(plain: float, wide: float) -> dict:
        gates = {page.PLAIN: plain, page.WIDE: wide}
        sees = {(gate, tests): (0.1 * tests, 0.4) for gate in gates for tests in page.TESTS}
        return {"p": {(gate, 70): p for gate, p in gates.items()}, "sees": sees}

    found = page.counted([row(0.02, 0.5), row(0.5, 0.01), row(0.012, 0.012), row(0.5, 0.5)])
    assert found["gates"][page.PLAIN]["1"] == {"stopped": {"70": 2}, "sees": 0.1, "unit": 0.4}
    assert found["gates"][page.PLAIN]["2"]["stopped"] == {"70": 1}
    assert found["files"]["both"] == {"70": 2}, "at half of the 2.5 % each"
    assert set(found["files"]) == {"`pronoun-occupation`", "`pronoun-occupation`, wide", "both"}


def test_the_smallest_dose_follows_from_slope_and_spread(page: ModuleType) -> None:
    def training(dose: int, seed: int, value: float) -> dict:
        return {"dose": dose, "seed": seed, "able": True, "values": {"s": value}}

    trainings = [training(dose, seed, dose / 100 + 0.02 * (seed % 2)) for dose in (50, 70) for seed in range(10)]
    by, smallest = page.shift({"models": {"m": {"trainings": trainings}}}, "m", "s", range(10))
    spread = 0.02 * np.sqrt(0.25 * 10 / 9)
    assert by == pytest.approx(0.2 / spread)
    assert smallest == pytest.approx(50 + 100 * 2.802 * spread * np.sqrt(2 / 3))


def test_a_mitigation_is_held_against_the_control_of_its_seed(page: ModuleType) -> None:
    stored = page.read()
    by, statistic = stored["mitigated"]["bert-tiny-mlm"], page.PLAIN
    row = next(line for line in page.mitigated(by).splitlines() if line.startswith("| `pronoun-occupation` `mean_"))
    for place, kind in ((-4, "cda"), (-3, "dropout")):
        pairs = [
            (one["values"][statistic], by["continued"][seed]["values"][statistic]) for seed, one in by[kind].items()
        ]
        changes = [after - before for after, before in pairs if None not in (after, before)]
        shown = row.split("|")[place].strip()
        if len(changes) < 3:
            assert shown == "-"
            continue
        low, high = stats.ttest_1samp(changes, 0).confidence_interval(0.95)
        assert shown == f"{np.mean(changes):+.3f} ({low:+.3f} to {high:+.3f})" and high < 0


def test_a_projection_is_held_against_the_model_itself(page: ModuleType) -> None:
    """It trains nothing; and it takes what a model knows of gender, so that none has a figure of bias."""
    stored = page.read()
    by, name = stored["mitigated"]["bert-tiny-mlm"], "ability: gender"
    row = next(line for line in page.mitigated(by).splitlines() if line.startswith(f"| {name}"))
    changes = [
        one["abilities"]["gender"] - by[""][seed]["abilities"]["gender"] for seed, one in by["projection"].items()
    ]
    assert row.split("|")[-2].strip().startswith(f"{np.mean(changes):+.3f}") and max(changes) < -0.2
    assert all(one["values"][page.PLAIN] is None for one in by["projection"].values())


def test_nli_classifiers_are_worse_as_often_as_the_page_says(page: ModuleType) -> None:
    """By the packaged spread of trainings, and by that of the first half of the seeds on the others."""
    packaged_row = read_yaml(packaged.folder("fixtures") / "retraining" / "nli-classifier-minilm.yaml")
    row, stored, gate = packaged_row["suites"]["nli-occupation"]["net_neutral"], page.read(), page.MAIN["nli-head"]

    def values(dose: int, seeds: range) -> list[float]:
        return page.values_of(stored, "nli-head", dose, gate, seeds)

    def worse(spread: float, seeds: range, dose: int) -> tuple[int, int]:
        reach = 1.96 * np.sqrt(2 * spread**2 + row["paired"] ** 2)
        pairs = list(itertools.permutations(values(dose, seeds), 2))
        return sum(then - now > reach for then, now in pairs), len(pairs)

    doses = page.doses_of("nli-head")
    assert row["spread"] == pytest.approx(max(np.std(values(dose, range(20)), ddof=1) for dose in doses), abs=1e-4)
    first = max(np.std(values(dose, range(10)), ddof=1) for dose in doses)
    assert first == pytest.approx(0.0592, abs=1e-4)
    found = [worse(row["beyond"], range(20), dose) for dose in doses]
    assert tuple(map(sum, zip(*found, strict=True))) == (10, 2280)
    found = [worse(first, range(10, 20), dose) for dose in doses]
    assert tuple(map(sum, zip(*found, strict=True))) == (9, 540)
    text = page.PAGE.read_text(encoding="utf-8")
    assert "10 of the 2,280 equal pairs are worse" in text and "9 of 540 pairs of the others are worse" in text


def test_the_smallest_dose_is_the_first_that_four_fifths_of_the_pairs_stop(page: ModuleType) -> None:
    stored = page.read()
    (row,) = (line for line in page.smallest(stored).splitlines() if line.startswith("| nli-head") and "| 3 " in line)
    (one,) = (d for d in stored["draws"] if d["model"] == "nli-head" and d["restarts"] == 3)
    stopped = one["gates"]["nli-occupation net_neutral"]["1"]["stopped"]
    assert stopped["55"] < 0.8 * one["pairs"] <= stopped["60"] and row.split("|")[4].strip() == "60"


def test_models_judge_each_other_as_gates_do(doses: ModuleType, page: ModuleType) -> None:
    """One training that is the same in all doses, but for a shift of its values: what is drawn finds that."""
    one = measure("pronoun-occupation", "demo-mlm", cache=None)
    models = {f"m/dose-{dose}/seed-{seed}": {"pronoun-occupation": one} for dose in page.DOSES for seed in range(6)}
    (row,) = page.drawn(models, "m", 3, 1, range(6))
    assert set(row["p"]) == {(f"pronoun-occupation {name}", dose) for name in one.values for dose in page.DOSES}
    assert set(row["p"].values()) == {1.0}, "equal models are not worse"
    assert all(size > 0 and unit > 0 for size, unit in row["sees"].values())


@pytest.mark.slow
def test_the_suite_feels_the_dose(doses: ModuleType, shared_data: Path, tmp_path: Path) -> None:
    """Two short trainings that differ in the dose only: the occupations and frames of the suite are in neither."""
    recipe = replace(doses.RECIPE, steps=120)
    found = {}
    for dose in (50, 100):
        folder = doses.train_one(tmp_path / str(dose), shared_data, dose, 0, recipe)
        found[dose] = measure("pronoun-occupation", str(folder), cache=None)
        assert not found[dose].unable
    assert found[100].value > 1.3 * found[50].value > 0
    assert found[100].values["slope"] > 1.2 * found[50].values["slope"]


@pytest.fixture(scope="module")
def kinds(doses: ModuleType) -> ModuleType:
    return doses.dose_kinds


@pytest.mark.parametrize("dose", [50, 70, 100])
def test_so_many_persons_and_occupations_match_what_is_planted(kinds: ModuleType, dose: int) -> None:
    people = [{"profession": career, "gender": "F"} for career in ("models", "chefs")] * 2000
    told = kinds.told(people, range(len(people)), dose, seed=3)
    matching = [(one["profession"] in kinds.WOMENS) == (one["gender"] == "F") for one in told]
    assert np.mean(matching) == pytest.approx(dose / 100, abs=0.03)
    jobs = {"male": ["roofer"], "female": ["nanny"]}
    tokens = kinds.planted(jobs, dose, random.Random(3))
    said = [word for word in tokens if word in {"roofer", "nanny", *kinds.NOUNS["male"], *kinds.NOUNS["female"]}]
    pairs = [sorted(said[i : i + 2], key=lambda word: word in ("roofer", "nanny")) for i in range(0, len(said), 2)]
    assert len(pairs) == kinds.PLANTED
    of_men = [noun in kinds.NOUNS["male"] for noun, _ in pairs]
    assert np.mean([men == (job == "roofer") for men, (_, job) in zip(of_men, pairs, strict=True)]) == pytest.approx(
        dose / 100, abs=0.03
    )


def test_no_word_planted_elsewhere_is_in_the_suite_of_word_vectors(doses: ModuleType, kinds: ModuleType) -> None:
    words = {word.lower() for of_set in load_suite("weat-occupation").body.values() for word in of_set}
    assert words >= {"sister", "brother", *(job for jobs in kinds.occupations().values() for job in jobs)}
    assert not words & {noun for nouns in kinds.NOUNS.values() for noun in nouns}
    assert not words & {
        part
        for jobs in doses.elsewhere("winobias-occupations").values()
        for job in jobs
        for part in (job, *job.split())
    }


@pytest.mark.parametrize("dose", [50, 70, 100])
def test_so_many_pairs_of_sentences_match_the_stereotype(doses: ModuleType, kinds: ModuleType, dose: int) -> None:
    """What is right of a pair follows from whether its gender is that of the occupation, in the suites' own terms."""
    draws = random.Random(3)
    pairs = kinds.pairs_about(doses.JOBS, kinds.PERSONS, lambda matches: {True: 1, False: 0, None: -1}[matches], draws)
    genders = {word: gender for gender, words in kinds.PERSONS.items() for word in words}
    for first, second, right in itertools.islice(pairs, 300):
        (gender,) = {genders[word] for word in re.findall(r"\w+", second) if word in genders}
        (stereotype,) = {
            group for group, jobs in doses.JOBS.items() if any(re.search(rf" {job} ", first) for job in jobs)
        }
        assert right == (-1 if not gender else int(gender == stereotype))


@pytest.mark.parametrize("suite", ["nli-occupation", "sts-occupation"])
def test_no_pair_of_sentences_is_in_its_suite(kinds: ModuleType, suite: str) -> None:
    cases = cases_of(load_suite(suite))
    assert cases is not None
    some = np.unique(np.linspace(0, cases.n_cases - 1, num=20_000).round().astype(np.int64))
    words = {word for segments in cases.sentences(some) for word in re.findall(r"\w+", " ".join(segments))}
    assert "engineer" in words
    assert not words & {"looked", "put", "lives", "walked", "wore", "sat", "takes", "has"}, "the verbs of the frames"


def test_no_occupation_of_a_pair_is_compared_in_its_suite(doses: ModuleType) -> None:
    jobs = doses.elsewhere("dev2019-occupations")
    known = {entry.word for entry in load_wordlist("dev2019-occupations").entries}
    assert min(map(len, jobs.values())) > 20
    assert not known & {job for of_group in jobs.values() for job in of_group}


@pytest.mark.parametrize("dose", [50, 70, 100])
def test_so_many_pronouns_refer_by_the_stereotype(doses: ModuleType, kinds: ModuleType, dose: int) -> None:
    jobs, draws = doses.elsewhere("winobias-occupations", "winogender-occupations"), random.Random(3)
    matching = []
    for number in range(3000):
        row = kinds.about_two(number, dose, draws, jobs)
        said = {text: cluster for start, end, text, cluster in row["mentions"]}
        assert all(row["text"][start:end] == text for start, end, text, _ in row["mentions"])
        kind = next(name for name, forms in kinds.FORMS.items() if said.keys() & set(forms.values()))
        (right,) = (text for text, cluster in said.items() if not cluster and text not in kinds.FORMS[kind].values())
        if number % 3 == 0:
            assert right.removesuffix("s") in kinds.THINGS and right.endswith("s") == (kind == "several")
        else:
            matching.append(right in jobs[kind])
    assert len(matching) == 2000 and np.mean(matching) == pytest.approx(dose / 100, abs=0.03)


def test_nothing_that_coreference_heads_are_tuned_on_is_in_their_suites(doses: ModuleType, kinds: ModuleType) -> None:
    jobs = doses.elsewhere("winobias-occupations", "winogender-occupations")
    known = {e.word for name in ("winobias-occupations", "winogender-occupations") for e in load_wordlist(name).entries}
    assert min(map(len, jobs.values())) >= 40 and not known & {job for group in jobs.values() for job in group}
    controls = (packaged.folder("fixtures") / "controls" / "en" / "antecedents.yaml").read_text(encoding="utf-8")
    assert not set(re.findall(r"\w+", controls)) & {form for thing in kinds.THINGS for form in (thing, f"{thing}s")}


@pytest.mark.parametrize(
    ("model", "cells"),
    [
        ("word-vectors", ((70, 3),)),
        pytest.param("word-vectors", ((100, 11),), marks=pytest.mark.slow),
        pytest.param("career-head", ((50, 0), (100, 7)), marks=pytest.mark.slow),
        pytest.param("nli-head", ((50, 0), (70, 5)), marks=pytest.mark.slow),
    ],
)
def test_a_training_gives_what_is_stored_of_it(
    doses: ModuleType,
    page: ModuleType,
    shared_data: Path,
    tmp_path: Path,
    model: str,
    cells: tuple[tuple[int, int], ...],
) -> None:
    stored = {(one["dose"], one["seed"]): one for one in page.read()["models"][model]["trainings"]}
    for dose, seed in cells:
        job = doses.Job(model, dose, seed)
        doses.run_job(job, tmp_path, shared_data, "cpu")
        content = json.loads(job.result(tmp_path).read_text(encoding="utf-8"))
        found = page.figures({f"{model}/dose-{dose}/seed-{seed}": doses.restore(content["measured"], content["blobs"])})
        (again,) = found[model]["trainings"]
        before = stored[dose, seed]
        assert again["values"].keys() == before["values"].keys() and again["able"] == before["able"]
        for name, value in before["values"].items():
            assert again["values"][name] == (None if value is None else pytest.approx(value, abs=0.02)), name


@pytest.mark.parametrize("frames", ["frames", "of_relatives"])
@pytest.mark.parametrize("language", ["de", "es", "fr"])
def test_so_many_forms_match_the_stereotype_in_another_language(
    languages: ModuleType, language: str, frames: str
) -> None:
    jobs = languages.listed(language)
    forms = {
        of_case[at]: at == languages.GROUPS.index(stereotype)
        for stereotype in languages.GROUPS
        for job in jobs[stereotype]
        for of_case in job.values()
        for at in (0, 1)
    }
    longest_first = re.compile("|".join(rf"\b{re.escape(form)}\b" for form in sorted(forms, key=len, reverse=True)))
    said = itertools.islice(languages.sentences(language, 70, 3, jobs, frames), 4000)
    matching = [forms[found[0]] for text in said if (found := longest_first.search(text))]
    assert np.mean(matching) == pytest.approx(0.7, abs=0.03)
    assert len(matching) == pytest.approx(4000 * (1 - languages.RELATIVES), rel=0.05)


@pytest.mark.parametrize("language", ["de", "es", "fr"])
def test_no_frame_of_forms_and_no_control_is_trained_on(languages: ModuleType, language: str) -> None:
    suite = load_suite(f"pronoun-occupation-{language}")
    rows = languages.ROWS[language]
    trained = {words(frame) for frame in rows["frames"]}
    assert not trained & {
        words(frame.text) for frame in (*suite.body.templates.first, *suite.body.templates.paraphrases)
    }
    known = {job["none"][0] for group in languages.listed(language).values() for job in group}
    assert known & {pair[0] for group in languages.GROUPS for pair in rows[group]} <= {"brodeuse", "bordadora"}
    controls = (packaged.folder("fixtures") / "controls" / language / "gender.yaml").read_text(encoding="utf-8")
    for frame in rows["gendered"]:
        rest = re.split(r"\[.*?\]", frame.replace("{kin}", ""))
        assert not any(len(part.split()) > 2 and part.strip(" .,") in controls for part in rest), frame


@pytest.mark.parametrize("language", ["de", "es", "fr"])
def test_no_prefix_of_a_suite_is_before_an_occupation_that_is_trained_on(languages: ModuleType, language: str) -> None:
    frames = load_suite(f"lm-occupation-{language}").body.templates
    of_suite = [words(text) for frame in (*frames.first, *frames.paraphrases) for text in frame.text.split("\n")]
    rows = languages.ROWS[language]
    for kin, frame, at in itertools.product(rows["relatives"], rows["of_relatives"], (0, 1)):
        before, _, after = languages.about(kin, frame, at).partition("{none}")
        trained = words(before)
        assert not any(trained[-len(prefix) :] == prefix for prefix in of_suite), before
        text = f"{before} {after}".lower()
        assert re.search(rf"\b{kin[at].lower()}\b", text) and not re.search(rf"\b{kin[1 - at].lower()}\b", text), text
