"""Suites of more than two groups in the families that compare two: planted systems, systems without a bias, refusals
by group, and what two groups keep.
"""

from functools import partial

import numpy as np
import pytest
import yaml
from support.chat_models import Sampled, group_decider

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.errors import SettingError
from pytest_genderbias.reports.pictures import pictures_of
from pytest_genderbias.text import packaged


def write(folder, suite, **changes):
    """Write a packaged suite with these keys changed, or left out where they are None."""
    packaged_suite = yaml.safe_load((packaged.folder("fixtures") / f"{suite}.yaml").read_text(encoding="utf-8"))
    content = {k: v for k, v in (packaged_suite | {"suite": "mine"} | changes).items() if v is not None}
    (folder / "mine.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return folder / "mine.yaml"


def rms(shifts):
    return float(np.std(shifts))


def rows(found, what):
    return {row["value"]: row for row in found.records if row["slice"] == what}


# Decisions

PERSONS = {"woman": "A 35-year-old woman", "nonbinary": "A 35-year-old nonbinary person", "man": "A 35-year-old man"}
three_decisions = partial(
    write, suite="decisions", groups=list(PERSONS), described=PERSONS, names=None, options={"person": "described"}
)


def test_a_planted_difference_of_three_groups_in_decisions_is_found(tmp_path):
    suite, shifts = three_decisions(tmp_path), np.array([0.2, -0.7, 0.5])
    exact = measure(suite, group_decider(load_suite(suite).body, shifts), cache=None)
    assert exact.main == "logit_rms" and exact.value == pytest.approx(rms(shifts), abs=1e-9)
    found = measure(suite, group_decider(load_suite(suite).body, shifts, noise=0.8), cache=None, null=200)
    bounds = found.intervals["logit_rms"]
    assert bounds.low <= rms(shifts) <= bounds.high and bounds.low > 0 and bounds.items == 44
    against = rows(found, "logit against man")
    for group, difference in (("woman", -0.3), ("nonbinary", -1.2)):
        assert against[group]["low"] <= difference <= against[group]["high"]
    pairs = rows(found, "logit, each pair")
    assert len(pairs) == 3 and pairs["woman - nonbinary"]["low"] <= 0.9 <= pairs["woman - nonbinary"]["high"]
    assert pairs["woman - man"]["bounds"].endswith("3 comparisons together at .95")
    groups = rows(found, "group")
    assert groups["man"]["impact_ratio"] == 1 and groups["nonbinary"]["impact_ratio"] < 0.8
    assert found.null["logit_rms"].p_value < 0.01 and found.values["accuracy"] == 1
    (picture,) = pictures_of(found)
    assert "man" in picture.panels[0].x.label and "nonbinary" in picture.panels[0].x.label


def test_without_a_difference_three_groups_in_decisions_have_about_zero(tmp_path):
    """Of 40 models, 38 should be covered; three standard errors are 4."""
    suite = three_decisions(tmp_path)
    body = load_suite(suite).body
    found = [
        measure(suite, group_decider(body, (0, 0, 0), noise=0.8, seed=seed), cache=None, null=100 * (seed < 10))
        for seed in range(40)
    ]
    inside = [one.intervals["logit_rms"].low <= 0 <= one.intervals["logit_rms"].high for one in found]
    assert sum(inside) >= 34
    assert abs(np.mean([np.copysign(one.value**2, one.value) for one in found])) < 0.002
    assert sum(one.null["logit_rms"].p_value < 0.05 for one in found[:10]) <= 3


def test_names_of_intersections_are_groups(tmp_path):
    """Four groups of names of one's own; those of one group have other numbers of tokens."""
    names = {
        "black woman": ["Ebony", "Latoya"],
        "black man": ["Jamal", "Darnell"],
        "white woman": ["Emily", "Anne"],
        "white man": ["Greg", "Brad"],
    }
    entries = [{"word": word, "group": group} for group, words in names.items() for word in words]
    head = {"list": "people", "title": "Names", "source": "own", "licence": "none", "language": "en"}
    (tmp_path / "people.yaml").write_text(yaml.safe_dump(head | {"entries": entries}))
    suite = write(tmp_path, "decisions", groups=list(names), names={"list": "./people.yaml"}, described=None)
    shifts = np.array([-0.6, -0.3, 0.1, 0.2])
    found = measure(suite, group_decider(load_suite(suite).body, shifts), cache=None)
    assert found.value == pytest.approx(rms(shifts), abs=1e-9) and found.n == 44 * 4 * 2 * 2
    assert rows(found, "logit against white man")["black woman"]["difference"] == pytest.approx(-0.8)
    with pytest.raises(SettingError, match="no 'described', which the option person=described asks for; use person=n"):
        measure(suite, group_decider(load_suite(suite).body, shifts), cache=None, person="described")


def test_a_system_that_declines_for_one_group_of_three_is_seen(tmp_path):
    """In five samples of eight replies; an interval misses one in twenty."""
    suite = three_decisions(tmp_path)
    planted = group_decider(load_suite(suite).body, (0.0, 0.0, 0.0), mass=0.99)
    system = load_model(
        Sampled(planted, declines=lambda message: 0.3 * ("nonbinary" in message)), name="product", samples=8
    )
    found = [measure(suite, system, cache=None, seed=seed) for seed in range(5)]
    true = rms([0.01, 0.3 + 0.7 * 0.01, 0.01])
    bounds = [one.intervals["refusal_rms"] for one in found]
    assert sum(one.low <= true <= one.high for one in bounds) >= 4 and min(one.low for one in bounds) > 0.1
    groups = rows(found[0], "group")
    assert groups["nonbinary"]["refused"] == pytest.approx(0.307, abs=0.06) and groups["man"]["refused"] < 0.04
    assert found[0].intervals["yes_rms"].low <= 0.02 and "yes_rms needs no such" in " ".join(found[0].notes)
