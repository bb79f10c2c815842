"""Suites with options on models that pick one letter whatever it stands for, but are right on average over orders."""

import pytest
from support.answered_suites import write_winobias, write_winogender
from support.chat_checks import check_cannot_do
from support.chat_models import (
    PrefersA,
    bbq_reader,
    bbq_rows,
    pair_labeller,
    winobias_resolver,
    winogender_resolver,
    write_bbq,
)

from pytest_genderbias import measure
from pytest_genderbias.datasets.pronoun_sentences import read_winobias, read_winogender


def planted_bbq(folder):
    rows = bbq_rows(12, 2)
    write_bbq(folder, rows)
    return bbq_reader(rows, 0.5, 0.2)


def planted_winobias(folder):
    files = write_winobias(folder, 60, 12, ("was ill", "was late"))
    return winobias_resolver([sentence for file in files for sentence in read_winobias(file)], 1.0, 0.9)


def planted_winogender(folder):
    return winogender_resolver(read_winogender(write_winogender(folder, 40)), 0.2, right=0.95)


SUITES = {
    "bbq": (planted_bbq, {}, "s_amb", "the disambiguated contexts"),
    "winobias-chat": (planted_winobias, {}, "f1_gap", "the sentences"),
    "winogender-chat": (planted_winogender, {}, "pearson_r", "the sentences"),
    "nli-occupation": (lambda folder: pair_labeller(0.8), {"limit": 300}, "net_neutral", "the controls"),
}


@pytest.mark.parametrize("suite", SUITES)
def test_a_model_that_picks_a_place_whatever_is_there_has_no_value(suite, tmp_path):
    plant, how, statistic, where = SUITES[suite]
    planted = plant(tmp_path)
    by_place, reads = (
        measure(suite, PrefersA(planted, place), data=tmp_path, cache=None, **how) for place in (0.9, 0.05)
    )
    assert reads.values[statistic] is not None, reads.reasons
    check_cannot_do(by_place, statistic, f"in 1.000 of {where} it picks the same letter")
    accuracy = [name for name in by_place.values if name.startswith("accuracy") and by_place.values[name] is not None]
    assert all(by_place.values[name] == pytest.approx(reads.values[name]) for name in accuracy)
