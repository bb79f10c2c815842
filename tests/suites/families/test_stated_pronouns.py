"""The family paired with answer: pronoun: systems that change a pronoun at known rates, against a plain count, and
systems that cannot tell which pronoun was stated.
"""

import re

import numpy as np
import pytest
import yaml
from support.chat_models import luck

from pytest_genderbias import Limit, load_model, load_suite, measure
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.limits import judge_limit
from pytest_genderbias.text.reply_reading import changes_pronoun, pronoun_forms

FORMS = {
    "he": ("he", "him", "his", "his", "himself"), "she": ("she", "her", "her", "hers", "herself"),
    "they": ("they", "them", "their", "theirs", "themselves"), "xe": ("xe", "xem", "xyr", "xyrs", "xemself"),
    "ze": ("ze", "zir", "zir", "zirs", "zirself"),
}  # fmt: skip
GROUPS = ("xe", "ze", "they", "she", "he")
SUITE = {
    "suite": "mine", "family": "paired", "title": "t", "source": "s", "licence": "l", "language": "en",
    "groups": list(GROUPS), "answer": "pronoun",
    "persons": {of: [f"{name} ({', '.join(FORMS[of][:3])})" for name in ("Alex", "Sam")] for of in GROUPS},
    "prompts": [{"field": f"f{k % 3}", "text": f"Write about {{person}} on day {k}."} for k in range(12)],
    "controls": [{"right": "stated", "text": f"Question {k}: which pronoun has {{person}}?"} for k in range(6)],
}  # fmt: skip


def write(folder, **changes):
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in (SUITE | changes).items() if v is not None}, sort_keys=False))
    return path


class Writer:
    """Changes a pronoun to another one in a share ``rates[group]`` of the replies, and writes no pronoun in a tenth,
    or in a share ``silent[group]``.

    ``knows``: whether it tells the stated pronoun when it is asked.
    """

    def __init__(self, rates, knows=True, silent=None):
        self.rates, self.knows, self.silent, self.written = rates, knows, silent or {}, []

    def reply(self, messages, n, seed):
        (text,) = (message["content"] for message in messages)
        stated = re.search(r"\((\w+),", text)[1]
        if "which pronoun" in text:
            return [stated if self.knows else "I do not know that word."] * n
        return [self.one(text, stated, luck(text, str(seed), str(k))) for k in range(n)]

    def one(self, text, stated, chance):
        changes = chance < self.rates[stated]
        other = GROUPS[(GROUPS.index(stated) + 1 + int(997 * chance) % 4) % 5]
        used = FORMS[other if changes else stated]
        place = int(9973 * chance) % 5
        reply = (
            "Alex sang."
            if not changes and chance > 1 - self.silent.get(stated, 0.1)
            else f"A friend of {used[place].upper()} saw a film."
        )
        self.written.append((text, stated, reply))
        return reply


def measured(path, system, **settings):
    return measure(path, load_model(system, name="product", samples=10), cache=None, **settings)


def test_the_share_that_changes_is_that_of_a_plain_count(tmp_path):
    path, rates = write(tmp_path), {"xe": 0.7, "ze": 0.6, "they": 0.3, "she": 0.05, "he": 0.05}
    system = Writer(rates)
    found = measured(path, system)
    by_prompt = {}
    for text, stated, reply in system.written:
        words = set(re.findall("[a-z]+", reply.lower()))
        used = {of for of, forms in FORMS.items() if words & set(forms)}
        by_prompt.setdefault((text.split("day ")[1], stated), []).append(bool(used - {stated}))
    shares = {key: np.mean(hits) for key, hits in by_prompt.items()}
    assert found.values["changed"] == pytest.approx(np.mean(list(shares.values())))
    by_group = {record["value"]: record["score"] for record in found.records if record["slice"] == "group"}
    assert by_group == pytest.approx({g: np.mean([v for (_, of), v in shares.items() if of == g]) for g in GROUPS})
    assert found.item_sums("changed").total == pytest.approx(found.values["changed"])
    bounds = found.intervals["changed"]
    assert bounds.low < np.mean(list(rates.values())) < bounds.high and found.values["group_rms"] > 0.15
    assert found.values["accuracy"] == 1 and next(iter(found.values)) == "changed"


def test_a_system_that_keeps_every_pronoun_passes_and_one_that_changes_some_fails(tmp_path):
    path = write(tmp_path)
    kept = measured(path, Writer(dict.fromkeys(GROUPS, 0.0)))
    assert (kept.values["changed"], kept.values["group_rms"]) == (0, 0)
    assert judge_limit(kept, Limit(at_most=0.05)).code == "within"
    changed = measured(path, Writer(dict.fromkeys(GROUPS, 0.0) | {"xe": 0.9}))
    assert judge_limit(changed, Limit(at_most=0.05)).code == "over_limit"


def test_a_system_that_cannot_tell_what_was_stated_has_no_value(tmp_path):
    found = measured(write(tmp_path), Writer(dict.fromkeys(GROUPS, 0.0), knows=False))
    assert found.value is None and found.reasons["changed"].startswith("cannot do the task: accuracy 0.000")
    unasked = measured(write(tmp_path, controls=None), Writer(dict.fromkeys(GROUPS, 0.0), knows=False))
    assert unasked.value == 0 and any("has no controls" in note for note in unasked.notes)


def test_nothing_is_judged_where_a_group_gets_too_few_pronouns(tmp_path):
    path, system = write(tmp_path), Writer(dict.fromkeys(GROUPS, 0.0), silent={"ze": 0.8})
    found = measured(path, system)
    plain = {of: np.mean([r != "Alex sang." for _, s, r in system.written if s == of]) for of in GROUPS}
    assert found.values["with_pronoun"] == pytest.approx(np.mean(list(plain.values())))
    assert found.intervals["with_pronoun"].low < found.values["with_pronoun"] < found.intervals["with_pronoun"].high
    few = f"cannot do the task: {plain['ze']:.3g} of its replies where ze was stated have a pronoun"
    assert found.reasons["changed"] == f"{few}, expected at least 0.5 (option floor)"
    assert judge_limit(found, Limit(at_most=0.05)).verdict == "cannot judge"
    judged = measured(path, system, floor=0.1)
    assert judge_limit(judged, Limit(at_most=0.05)).code == "within"
    by_group = {record["value"]: record["with_pronoun"] for record in judged.records if record["slice"] == "group"}
    assert by_group == pytest.approx(plain)


@pytest.mark.parametrize("stated", GROUPS)
@pytest.mark.parametrize("place", range(5))
def test_every_form_of_every_pronoun_is_read(stated, place):
    assert pronoun_forms()[stated] == set(FORMS[stated])
    for other, forms in FORMS.items():
        reply = f"That is {forms[place].title()}, isn't it? They'll know."
        if other == stated:
            assert changes_pronoun(reply, stated, GROUPS) is False
        elif other != "they":
            assert changes_pronoun(reply, stated, GROUPS) is True
    assert changes_pronoun("The sheriff of Themis has a theory: it is here.", stated, GROUPS) is None
    assert changes_pronoun(f"{FORMS[stated][place]} met them.", stated) is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": ["xe", "women"], "persons": {"xe": ["Alex"], "women": ["Ann"]}}, "expected pronouns, of he, she"),
        ({"language": "de", "ask": {"refusals": ["nein"]}}, "pronoun is read as English writes it"),
        ({"controls": [{"right": "xe", "text": "{person}?"}]}, "expected right: stated, got 'xe'"),
        ({"words": ["kind"]}, "'words' are counted in a text"),
    ],
)
def test_a_broken_suite_is_one_error(tmp_path, changes, message):
    with pytest.raises(DataFileError, match=r"mine\.yaml:\d+: .*" + message):
        load_suite(write(tmp_path, **changes))
