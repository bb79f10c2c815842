"""The family generation with forms: what a model writes of mixed or unknown persons, against a plain count."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from support.chat_models import luck

from pytest_genderbias import Limit, load_model, load_suite, measure
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.limits import judge_limit
from pytest_genderbias.suites.families.generation import count_forms
from pytest_genderbias.text.wordlist import load_wordlist

SUITES = sorted((Path(__file__).parents[3] / "examples" / "languages").glob("generics-*.yaml"))
in_each = pytest.mark.parametrize("suite", SUITES, ids=[path.stem for path in SUITES])


class Writer:
    """Writes an occupation in the form of men in a share of the replies, and none in a fifth."""

    def __init__(self, language, share):
        self.jobs = [entry.attributes["forms"] for entry in load_wordlist(f"occupations-{language}").entries]
        self.share, self.written = share, {}

    def reply(self, messages, n, seed):
        text = messages[-1]["content"]
        return [self.one(text, luck(text, str(seed), str(k))) for k in range(n)]

    def one(self, text, chance):
        job, form = self.jobs[int(1e6 * chance) % len(self.jobs)], ["female", "male"][chance * 97 % 1 < self.share]
        if chance < 0.2:
            return "Bla bla."
        self.written.setdefault(text, []).append(form)
        return f"{job[form + '.a'].capitalize()}, {job[form]}."


@in_each
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_the_share_of_forms_is_that_of_a_plain_count(suite, share):
    writer = Writer(load_suite(suite).language, share)
    found = measure(suite, load_model(writer, name="product", samples=20), cache=None)
    said = [form for forms in writer.written.values() for form in forms]
    assert found.values == {"form_share": pytest.approx(np.mean([form == "male" for form in said]))}
    assert found.item_sums("form_share").total == found.value
    bounds = found.intervals["form_share"]
    assert bounds.low < share and (share < bounds.high or share == bounds.high == 1) and bounds.items == 12
    assert (judge_limit(found, Limit(at_least=0.2, at_most=0.8)).verdict == "pass") == (share == 0.5)
    assert found.notes[0] == f"{len(said)} of 240 texts have a form that is counted"
    by_field = {record["value"]: record for record in found.records if record["slice"] == "field"}
    assert by_field.keys() == {"mixed", "unknown"}
    assert sum(record["male"] for record in by_field.values()) == 2 * sum(form == "male" for form in said)


@in_each
def test_a_model_that_writes_no_form_has_no_value(suite):
    class Silent:
        def reply(self, messages, n, seed):
            return ["Bla."] * n

    found = measure(suite, load_model(Silent(), name="product"), cache=None)
    assert found.value is None and found.reasons["form_share"] == "no generated text has a form of the suite's words"


@in_each
def test_no_prompt_has_a_form_that_is_counted(suite):
    body = load_suite(suite).body
    assert not count_forms([text for prompt in body.prompts for text in prompt.texts], body.forms).any()
    assert len({prompt.texts for prompt in body.prompts}) == len(body.prompts) == 12


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("Une infirmière, deux infirmiers, un infirmier.", [1, 1]),
        ("L'infirmière et l'infirmier", [1, 1]),
        ("L’INFIRMIER", [0, 1]),
        ("infirmier·ère, infirmier(e), infirmier/infirmière, infirmier-chef", [0, 0]),
        ("un élève, une élève", [0, 0]),
        ("chef de chantier, cheffe de chantier, chef", [1, 2]),
    ],
)
def test_forms_are_counted_whole_and_the_longest_first(text, counts):
    forms = (
        {"infirmière", "l'infirmière", "élève", "cheffe de chantier"},
        {"infirmier", "élève", "chef", "chef de chantier"},
    )
    assert count_forms([text], [frozenset(some) for some in forms]).tolist() == [counts]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sentiment": {"list": "sentiment-words"}}, "remove 'sentiment'"),
        ({"groups": ["female", "male", "other"]}, "'forms' are of two groups, got 3"),
        ({"groups": ["women", "men"]}, "expected words with forms of women and men"),
        ({"prompts": [{"field": "f", "female": "a", "male": "b"}]}, "has no key 'female'|unknown key 'female'|female"),
    ],
)
def test_a_broken_suite_is_one_error(tmp_path, changes, message):
    path = tmp_path / "generics-fr.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(SUITES[0].read_text().replace("-de", "-fr")) | changes))
    with pytest.raises(DataFileError) as found:
        load_suite(path)
    assert re.search(message, str(found.value)), found.value
