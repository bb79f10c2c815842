"""Models with a known dose of bias (scripts/doses.py): what they learn is in no suite, and is felt."""

from __future__ import annotations

import itertools
import json
import re
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from pytest_genderbias import load_suite, measure
from pytest_genderbias.text.wordlist import load_wordlist

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "doses.py"


@pytest.fixture(scope="module")
def doses() -> ModuleType:
    spec = spec_from_file_location("doses", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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
    def words(text: str) -> tuple[str, ...]:
        return tuple(re.sub(r"\{.*?\}", "", text).lower().replace(".", "").split())

    trained = {words(frame) for frame in doses.FRAMES}
    assert len(trained) == len(doses.FRAMES)
    suite = load_suite("pronoun-occupation")
    for templates in (suite.body.templates, suite.wide.body.templates):
        assert not trained & {words(frame.text) for frame in (*templates.first, *templates.paraphrases)}


@pytest.mark.parametrize("dose", [50, 70, 100])
def test_so_many_pronouns_match_the_stereotype(doses: ModuleType, dose: int) -> None:
    men = set(doses.PRONOUNS["male"].values())
    matching, n = 0, 4000
    for text in itertools.islice(doses.sentences(dose, seed=3), n):
        of_men = bool(men & set(re.findall(r"\w+", text.lower())))
        job = max((job for jobs in doses.JOBS.values() for job in jobs if re.search(rf"\b{job}\b", text)), key=len)
        matching += of_men == (job in doses.JOBS["male"])
    assert matching / n == pytest.approx(dose / 100, abs=0.03)


def test_what_is_stored_of_a_model_is_read_as_it_was(doses: ModuleType, tmp_path: Path) -> None:
    measured = {
        name: measure(name, "demo-mlm", cache=None) for name in ("pronoun-occupation", "lm-occupation", "disco-terms")
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
    assert len(set(jobs)) == len(jobs) == 20 * (6 + 6 + len(doses.MITIGATIONS))
    assert [job.dose for job in jobs[:6]] == [50, 70, 100, 50, 70, 100]
    plain = {(job.model, job.dose, job.seed): number for number, job in enumerate(jobs) if not job.mitigation}
    assert all(plain[job.model, job.dose, job.seed] < number for number, job in enumerate(jobs) if job.mitigation)


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
