"""Clusters that a suite file declares: how they are read, and what is refused."""

import pytest

from pytest_genderbias import load_suite
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text import packaged


def own_suite(tmp_path, clusters):
    text = packaged.locate("fixtures", "lm-occupation").read_text(encoding="utf-8")
    path = tmp_path / "own.yaml"
    path.write_text(text.replace("suite: lm-occupation", "suite: own") + f"clusters: {clusters}\n", encoding="utf-8")
    return path


def test_clusters_are_named_with_their_items_and_leave_the_digest(tmp_path):
    suite = load_suite(own_suite(tmp_path, "{health: [nurse, doctor], crafts: [baker]}"))
    assert suite.clusters == {"nurse": "health", "doctor": "health", "baker": "crafts"}
    assert suite.digest == load_suite("lm-occupation").digest and not load_suite("lm-occupation").clusters


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        ("{a: [nurse], b: [nurse]}", "'nurse' is in the clusters 'a' and 'b'"),
        ("{a: nurse}", "'a' of 'clusters' should be"),
        ("{list: winobias-occupations, by: field}", "no word of 'winobias-occupations' has the attribute 'field'"),
        ("{list: winobias-occupations, by: group, of: x}", "unknown key 'of'"),
        ("{list: winobias-occupations, by: group, complete: 1}", "'complete' of 'clusters' should be true or false"),
    ],
)
def test_clusters_of_another_form_are_refused(tmp_path, clusters, message):
    with pytest.raises(DataFileError, match=message):
        load_suite(own_suite(tmp_path, clusters))


def test_a_column_of_a_list_gives_clusters(tmp_path):
    suite = load_suite(own_suite(tmp_path, "{list: winobias-occupations, by: group}"))
    assert suite.clusters["nurse"] == "female" and set(suite.clusters.values()) == {"female", "male"}


def test_a_list_may_hold_all_clusters_that_there_are(tmp_path):
    suite = load_suite(own_suite(tmp_path, "{list: winobias-occupations, by: group, complete: true}"))
    assert suite.complete and suite.clusters
    wide = load_suite("pronoun-occupation").wide
    assert wide.complete and not load_suite("disco-names").wide.complete
