"""The paper's scale of every run: its config is carried out with a stand-in, on the models and data of a folder of data
sets.
"""

from __future__ import annotations

import pytest

from pytest_genderbias.papers.config import PAPER, load_paper, paper_names
from pytest_genderbias.papers.places import Places
from pytest_genderbias.papers.shown import check_run

QUICK = ("bold-cooccurrence", "subspace-pairs-minilm", "biographies-words")


def runs_of_the_papers_scale():
    return [
        pytest.param(run, id=f"{paper}-{run.name}", marks=() if run.name in QUICK else pytest.mark.slow)
        for paper in paper_names()
        for run in load_paper(paper).runs.values()
        if PAPER in run.scales
    ]


@pytest.mark.parametrize("run", runs_of_the_papers_scale())
def test_the_papers_scale_is_carried_out_with_a_stand_in(run, shared_data, tmp_path):
    places = Places({"data": str(shared_data), "runs": str(tmp_path)}, tmp_path)
    words = check_run(run, places)
    assert words.startswith(f"{run.name}: checked with a stand-in, ")
    assert int(words.split(", ")[1].split()[0]) > 0
    assert not list(tmp_path.iterdir())  # a check keeps nothing
