"""``scripts/scale.py``: the simulated nights against times that a human can add up, and the page against the
simulation.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from support.scripts import load_script

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def scale():
    """The script ``scripts/scale.py``."""
    return load_script("scale")


def rng():
    return np.random.default_rng(0)


def test_one_worker_needs_the_sum_of_all_times(scale):
    jobs = [scale.Job(0, 1024, 1024, 0.5, 3.0), scale.Job(0, 512, 512, 1.0, 3.0), scale.Job(1, 100, 100, 2.0, 5.0)]
    scoring = 512 + 512 + 200
    shared = scale.together(jobs, 1, math.inf, rng())
    assert shared.hours * 3600 == pytest.approx(scale.START + 3 + 5 + scoring)
    assert shared.scoring * 3600 == pytest.approx(scoring) and shared.unused == shared.repeated == 0
    processes = scale.apart(jobs, 1, math.inf, rng())
    assert processes.hours * 3600 == pytest.approx(2 * scale.START + 3 + 5 + scoring)


def test_a_model_each_takes_as_long_as_the_longest_model(scale):
    jobs = [scale.Job(model, 512, 512, seconds, 1.0) for model, seconds in enumerate([1.0, 4.0, 2.0, 1.0])]
    assert scale.apart(jobs, 4, math.inf, rng()).hours * 3600 == pytest.approx(scale.START + 1 + 4 * 512)
    # Two workers: 512 s, then 1,024 s, then 512 s on one; 2,048 s on the other.
    assert scale.apart(jobs, 2, math.inf, rng()).hours * 3600 == pytest.approx(3 * (scale.START + 1) + 4 * 512)


def test_windows_are_shared_evenly(scale):
    night = scale.together([scale.Job(0, 8 * 512, 8 * 512, 1.0, 2.0)], 4, math.inf, rng())
    assert night.hours * 3600 == pytest.approx(scale.START + 2 + 2 * 512)
    assert night.loading * 3600 == pytest.approx(4 * 2)


def test_a_decided_gate_leaves_work_in_vain_to_many_workers_only(scale):
    job = scale.Job(0, 100_000, 64, 1.0, 0.0)
    alone, many = (scale.together([job], workers, math.inf, rng()) for workers in (1, 8))
    assert alone.scoring * 3600 == many.scoring * 3600 == pytest.approx(64)
    assert alone.unused == 0.0  # the window that waited is left out
    assert many.unused * 3600 == pytest.approx(7 * 64)  # each worker scored a window, one of which was needed
    assert many.hours == alone.hours


def test_a_worker_that_is_lost_repeats_its_window(scale):
    jobs = [scale.Job(0, 512 * 400, 512 * 400, 0.1, 1.0)]
    never, often = (scale.together(jobs, 1, every, rng()) for every in (math.inf, 0.05))
    losses = (often.loading - never.loading) * 3600 / (scale.START + 1)
    expected = 400 * (1 - math.exp(-51.2 / 180))  # of 400 windows of 51.2 s, one loss in 180 s on average
    assert losses == pytest.approx(expected, rel=0.25)
    assert often.hours - never.hours == pytest.approx(often.repeated + often.loading - never.loading)


def test_a_suite_of_the_night_has_its_cases_and_what_they_store(scale):
    works = {work.name: work for work in scale.suite_works()}
    assert works["nli-occupation"].cases == 1_936_512 and works["nli-occupation"].bytes == 3 * 4


def test_the_page_shows_the_simulation(scale):
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert scale.tables() in page, "python scripts/scale.py --page writes it anew"
