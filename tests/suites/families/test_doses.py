"""Models with a known dose of bias (scripts/doses.py): what they learn is in no suite, and is felt."""

from __future__ import annotations

import itertools
import re
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

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


@pytest.mark.parametrize("name", ["winogender-occupations", "lu2018-occupations"])
def test_what_is_trained_on_is_in_no_suite(doses: ModuleType, name: str) -> None:
    jobs = [job for of_group in doses.JOBS.values() for job in of_group]
    assert len(set(jobs)) == len(jobs) == 94
    assert not set(jobs) & {entry.word for entry in load_wordlist(name).entries}


def test_no_frame_of_the_suite_is_one_of_the_trainings(doses: ModuleType) -> None:
    def words(text: str) -> tuple[str, ...]:
        return tuple(re.sub(r"\{.*?\}", "", text).lower().replace(".", "").split())

    templates = load_suite("pronoun-occupation").body.templates
    trained = {words(frame) for frame in doses.FRAMES}
    assert len(trained) == len(doses.FRAMES)
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
