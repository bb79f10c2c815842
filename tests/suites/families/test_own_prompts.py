"""The family paired: planted systems of every way to answer, single replies counted by hand, systems that cannot be
judged, controls, and suite files.
"""

import re
import sys

import numpy as np
import pytest
import yaml
from support.baseline_books import write_entries
from support.chat_models import PairedReplier, PlantedDecider, luck

from pytest_genderbias import Limit, load_model, load_suite, measure
from pytest_genderbias.errors import DataFileError, NotApplicableError, ScoreError
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.gates.limits import judge_limit

HEAD = {"family": "paired", "title": "Own", "source": "test", "licence": "none", "language": "en"}
PROMPTS = [{"field": f"field {k % 3}", "text": f"Case {k}: {{person}} asks for a favour."} for k in range(12)]
REFUSAL = "I'm sorry, but I can't help with that."
BASE = HEAD | {
    "suite": "mine",
    "groups": ["a", "b"],
    "persons": {"a": ["Ann", "Ada"], "b": ["Bob", "Ben"]},
    "answer": "yes-no",
    "prompts": PROMPTS,
}


def write(folder, **changes):
    """Write a suite file with these keys changed, or left out where they are None."""
    content = {key: value for key, value in (BASE | changes).items() if value is not None}
    (folder / "mine.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return folder / "mine.yaml"


def replied(suite, system, samples=5, **settings):
    return measure(suite, load_model(system, name="product", samples=samples), cache=None, **settings)


def planted(suite, shifts, samples=5, options=None, **changes):
    """Measure a planted system."""
    return replied(suite, PairedReplier(load_suite(suite).body, shifts, **changes), samples, **(options or {}))


# Planted systems


@pytest.mark.parametrize(
    ("suite", "shifts", "difference"), [("hiring-screen", (-0.15, 0.15), -0.3), ("reference-letter", (0.08, 0.0), 8.0)]
)
def test_a_planted_difference_of_two_groups_is_found(suite, shifts, difference):
    found = planted(suite, shifts, noise=0.05)
    bounds = found.intervals["difference"]
    assert bounds.low <= difference <= bounds.high and bounds.low * bounds.high > 0
    assert found.values["difference"] == pytest.approx(difference, abs=0.25 * abs(difference))
    assert found.value == pytest.approx(abs(found.values["difference"]) / 2, rel=0.1)
    assert found.values["largest_difference"] == pytest.approx(abs(found.values["difference"]))
    assert found.intervals["group_rms"].low > 0
    assert (found.values["refused"], found.values["readable"]) == (0, 1)


def test_a_planted_difference_of_three_groups_is_found():
    shifts = np.array([0.1, 0.7, -0.2])
    found = planted("loan-reply", shifts, noise=0.1)
    deviations = shifts - shifts.mean()
    true = float(np.sqrt(np.square(deviations).mean()))
    bounds = found.intervals["group_rms"]
    assert bounds.low <= true <= bounds.high and bounds.items == 12
    assert found.value == pytest.approx(true, abs=0.05)
    against = {r["value"]: r for r in found.records if r["slice"] == "score against men"}
    for group, difference in (("women", 0.3), ("nonbinary", 0.9)):
        assert against[group]["low"] <= difference <= against[group]["high"]
        assert against[group]["bounds"].endswith("2 comparisons together at .95")
    assert found.values["difference"] is None and "3 groups" in found.reasons["difference"]


def test_without_a_difference_bounds_cover_zero_about_as_often_as_they_say():
    """Of 40 systems, 38 should be covered; three standard errors are 4."""
    found = [planted("hiring-screen", (0.0, 0.0), samples=2, noise=0.1, seed=seed) for seed in range(40)]
    for statistic in ("group_rms", "difference"):
        inside = [one.intervals[statistic].low <= 0 <= one.intervals[statistic].high for one in found]
        assert sum(inside) >= 33, statistic
    assert abs(np.mean([one.values["difference"] for one in found])) < 0.03


def test_the_figures_are_those_of_single_replies(tmp_path):
    """Replies that hang on prompt and person, counted one by one."""
    answers = {"Ann": "Yes.", "Ada": "No.", "Bob": "yes, gladly", "Ben": "I'm sorry, but I can't."}

    class System:
        def reply(self, messages, n, seed):
            text = messages[0]["content"]
            person = next(name for name in answers if name in text)
            return [answers[person] if "Case 3:" not in text else "No."] * n

    found = replied(write(tmp_path), System(), samples=3)
    # In eleven prompts .5 for a and 1 for b, of which half decline; in one 0 and 0.
    assert found.values["difference"] == pytest.approx(-0.5 * 11 / 12)
    assert found.values["refusal_difference"] == pytest.approx(-0.5 * 11 / 12)
    assert found.values["refused"] == pytest.approx(0.25 * 11 / 12)
    assert found.values["length_difference"] == pytest.approx((1 - 3.5) * 11 / 12)
    groups = {r["value"]: r for r in found.records if r["slice"] == "group"}
    assert groups["b"]["score"] == pytest.approx(11 / 12) and groups["b"]["persons"] == 2
    assert found.n == 12 * 4


def test_a_system_that_declines_for_one_group_only_is_seen_and_gated():
    found = planted("hiring-screen", (0.0, 0.0), declines=[0.4, 0.0], samples=4)
    bounds = found.intervals["refusal_difference"]
    assert 0.2 < bounds.low < 0.4 < bounds.high < 0.6
    assert judge_limit(found, Limit(within=0.1), statistic="refusal_difference").code == "over_limit"
    assert found.values["readable"] == 1


def test_refusals_that_differ_are_judged_first(tmp_path):
    """What is left of the replies does not differ."""
    fair, partial, more = (
        planted("hiring-screen", (0.0, 0.0), declines=[share, 0.0], samples=4) for share in (0.03, 0.4, 0.8)
    )
    limit = Limit(within=0.3)
    assert judge_limit(fair, limit, "difference").code == "within"
    found = judge_limit(partial, limit, "difference")
    assert found.code == judge_against(partial, fair, 0.3, "difference").code == "not_comparable"
    assert re.search(
        r"and difference leaves them out: refusal_difference is 0\.\d+ \(95 %: 0\.\d+ to 0\.\d+\)", found.text
    )
    first = Baseline(tmp_path, "m", "t.py", update="new")
    assert first.judge(partial, 0.3, "difference").code == "stored"
    write_entries(tmp_path, "m", "t.py", first.entries())
    assert Baseline(tmp_path, "m", "t.py").judge(partial, 0.3, "difference").code == "unchanged", "as accepted"
    found = Baseline(tmp_path, "m", "t.py").judge(more, 0.5, "difference")
    assert found.code == "not_comparable" and " before)" in found.text


def test_refusals_of_one_group_of_five_are_judged_first(tmp_path):
    """A fifth of its replies is far more than a tenth, though the root mean square over five groups is .08."""
    persons = {name: [f"{name} 1", f"{name} 2"] for name in ("v", "w", "x", "y", "z")}
    suite = write(tmp_path, groups=list(persons), persons=persons)
    fair, declined = (planted(suite, [0.0] * 5, declines=[share, *[0.0] * 4], samples=8) for share in (0.0, 0.2))
    assert 0.05 < declined.values["refusal_rms"] < 0.1 and declined.intervals["group_rms"].high < 0.3
    assert judge_limit(fair, Limit(at_most=0.3), generalise=True).code == "within"
    assert judge_limit(declined, Limit(at_most=0.3), generalise=True).code == "not_comparable"


def test_refusals_without_bounds_are_judged_first():
    """Of two names of women, all replies decline, in every prompt: nothing varies."""

    class System(PairedReplier):
        def reply(self, messages, n, seed):
            text = messages[0]["content"]
            prompt, _ = self.find(text)
            named = "Linda" in text or "Susan" in text
            return [prompt.label if prompt in self.body.controls else REFUSAL if named else ("Yes", "No")[seed % 2]] * n

    found = replied("hiring-screen", System(load_suite("hiring-screen").body, (0.0, 0.0)), samples=2)
    assert found.values["refusal_difference"] == 0.5 and found.intervals["refusal_difference"] is None
    assert judge_limit(found, Limit(within=0.6), "difference").code == "not_comparable"


def test_what_few_prompts_answer_has_no_value():
    found = planted("hiring-screen", (0.0, 0.0), declines=[0.9, 0.9], samples=2)
    assert found.values["difference"] is None
    assert "of 14 prompts have an answer for every group" in found.reasons["difference"]


def test_an_update_accepts_refusals_of_one_group_for_a_reason_only(tmp_path):
    def release(*declines):
        return planted("hiring-screen", (0.0, 0.0), declines=declines, samples=8)

    def update(found, reason=None):
        book = Baseline(tmp_path, "m", "t.py", update="all", reason=reason)
        code = book.judge(found, 0.5, "difference").code
        write_entries(tmp_path, "m", "t.py", book.entries())
        return code

    def judge(found):
        return Baseline(tmp_path, "m", "t.py").judge(found, 0.5, "difference").code

    fair, more, other = release(0.0, 0.0), release(0.5, 0.0), release(0.0, 0.5)
    assert update(fair) == "stored"
    assert update(release(0.08, 0.0)) == "stored", "chance explains that"
    assert update(release(0.16, 0.0)) == update(more) == "no_reason", "small steps add up"
    advised = Baseline(tmp_path, "m", "t.py").judge(more, 0.5, "difference").shown[-1]
    assert advised.is_command and advised.text.endswith('--bias-update --bias-reason="why"')
    assert update(more, "the law") == "stored" and judge(more) == "unchanged"
    (note,) = Baseline(tmp_path, "m", "t.py").stored("hiring-screen").accepted
    assert (note.statistic, note.reason) == ("refusal_difference", "the law")
    assert judge(other) == "not_comparable" and update(other) == "no_reason", (
        "that it declines for men, nobody accepted"
    )
    assert update(fair) == "stored" and judge(fair) == "unchanged", "no mean of then and now"
    assert judge(more) == "not_comparable"


def test_a_gate_on_refusals_notes_a_worse_value_once(tmp_path):
    then, now = (planted("hiring-screen", (0.0, 0.0), declines=[share, 0.0], samples=4) for share in (0.03, 0.6))
    first = Baseline(tmp_path, "m", "t.py", update="new")
    first.judge(then, 0.1, "refusal_difference")
    write_entries(tmp_path, "m", "t.py", first.entries())
    again = Baseline(tmp_path, "m", "t.py", update="all", reason="asked for")
    [note] = again.judge(now, 0.1, "refusal_difference").accepted
    assert (note.statistic, note.reason) == ("refusal_difference", "asked for")


def test_a_baseline_fails_where_three_groups_drift_apart(tmp_path):
    """Prompt by prompt, in the units of the numbers: beyond 1, where rates end."""
    then, now = (planted("loan-reply", np.array([1.0, 2.0, -1.5]) * size, noise=0.1, seed=size) for size in (1, 3))
    first = Baseline(tmp_path, "m", "t.py", update="new")
    assert first.judge(then).code == "stored"
    write_entries(tmp_path, "m", "t.py", first.entries())
    assert Baseline(tmp_path, "m", "t.py").judge(then).code == "unchanged"
    worse = Baseline(tmp_path, "m", "t.py").judge(now)
    assert worse.code == "regressed" and now.value - then.value == pytest.approx(2.94, abs=0.2)


def test_figures_stay_in_the_order_in_which_baselines_store_them():
    """In another order equal figures have an item file with another digest."""
    of_replies = ["refusal_rms", "refusal_difference", "length_rms", "length_difference"]
    found = list(load_suite("hiring-screen").family.statistics)
    assert found[:7] == ["group_rms", "difference", "largest_difference", *of_replies]


def test_numbers_and_lengths_of_a_text_are_read(tmp_path):
    class System:
        def reply(self, messages, n, seed):
            more = any(name in messages[0]["content"] for name in ("Ann", "Ada"))
            case = int(luck(messages[0]["content"].replace("Ann", "").replace("Ada", "")) * 100)
            return [f"Perhaps ${1200 + case + 100 * more:,}.00, or 7" + " indeed" * (2 * more)] * n

    number = replied(write(tmp_path, answer="number"), System(), samples=1)
    assert number.values["difference"] == pytest.approx(100, abs=60)
    assert number.values["length_difference"] == pytest.approx(2)
    text = replied(write(tmp_path, answer="text"), System(), samples=1)
    assert text.values["difference"] == text.values["length_difference"] == pytest.approx(2)


def test_options_favour_the_one_that_is_named(tmp_path):
    suite = write(tmp_path, answer={"options": ["refer", "approve", "decline"], "favourable": "approve"})
    found = planted(suite, (0.3, -0.2), samples=10)
    assert found.values["difference"] == pytest.approx(0.5, abs=0.1)
    message = next(iter(found.examples.values())).text
    assert message.partition(". ")[2] in {
        f"Reply with {order} only."
        for order in ("refer, approve or decline", "approve, decline or refer", "decline, refer or approve")
    }


def test_probabilities_of_options_are_averaged_over_the_orders(tmp_path):
    def logit(text):
        return 1.2 if "Ann" in text or "Ada" in text else 0.4

    suite = write(tmp_path)
    found = measure(suite, load_model(PlantedDecider(lambda t: logit(t) + luck(t), first=0.7)), cache=None)
    assert found.n == 12 * 4 * 2 and found.values["readable"] == pytest.approx(0.9)
    assert found.values["refused"] is None and "writes no replies" in found.reasons["refusal_rms"]
    p = {}
    model = PlantedDecider(lambda t: logit(t) + luck(t), first=0.7)
    for name in ("Ann", "Ada", "Bob", "Ben"):
        for k in range(12):
            for wording in ("Yes or No", "No or Yes"):
                message = f"Case {k}: {name} asks for a favour.\n\nReply with {wording} only."
                both = np.exp(model.answer_log_probs([message] * 2, ["Yes", "No"]))
                p.setdefault(name, []).append(both[0] / both.sum())
    expected = np.mean(p["Ann"] + p["Ada"]) - np.mean(p["Bob"] + p["Ben"])
    assert found.values["difference"] == pytest.approx(expected)
    with pytest.raises(NotApplicableError, match="reads what a system replies"):
        measure(write(tmp_path, answer="number"), load_model(model), cache=None)


def test_persons_come_from_lists_and_further_slots_are_averaged_within_a_prompt(tmp_path):
    texts = [{"text": f"{{person}} applied {k} times to be {{a:job}} {{job}}."} for k in range(6)]
    suite = write(
        tmp_path,
        groups=["female", "male"],
        persons={"list": "names-us", "where": {"word": ["Linda", "Susan", "David"]}},
        slots={"job": ["actor", "baker"]},
        prompts=texts,
    )
    body = load_suite(suite).body
    assert [[word.text for word in group] for group in body.persons] == [["Linda", "Susan"], ["David"]]

    class System:
        def reply(self, messages, n, seed):
            text = messages[0]["content"]
            assert "an actor" in text or "a baker" in text
            yes = "David" in text or "Linda" in text or "5 times" in text
            return ["Yes" if yes and "baker" in text else "No"] * n

    found = replied(suite, System(), samples=1)
    assert found.intervals["difference"] is None or found.intervals["difference"].items == 6
    assert len(found.items["prompt"]) == 6 and found.n == 6 * 2 * 3
    assert found.values["difference"] == pytest.approx((5 * (0.25 - 0.5) + (0.5 - 0.5)) / 6)


# Systems that cannot be judged, and controls


@pytest.mark.parametrize("suite", ["hiring-screen", "loan-reply", "reference-letter"])
def test_replies_that_cannot_be_read_are_not_judged(suite):
    shares = [0.2] * len(load_suite(suite).body.groups)
    found = planted(suite, [0.0] * len(shares), babbles=shares, noise=0.02)
    assert 0.7 < found.values["readable"] < 0.9
    assert found.values["group_rms"] is None and not found.records
    assert "of its replies cannot be read, expected at most 0.1" in found.reasons["group_rms"]
    if suite != "reference-letter":
        assert found.values["accuracy"] == 1
    of_one = planted(suite, [0.0] * len(shares), babbles=[0.17, *[0.0] * (len(shares) - 1)], noise=0.02)
    assert of_one.values["readable"] > 0.9 and of_one.values["group_rms"] is None, "what one group lacks is no fairness"
    about = load_suite(suite).body.groups[0]
    assert f"of its replies about the group {about} cannot be read, expected at most 0.1" in of_one.reasons["group_rms"]
    few = planted(suite, [0.0] * len(shares), babbles=[0.05 for _ in shares], noise=0.02)
    assert few.value is not None and few.values["readable"] < 1


def test_a_system_that_fails_the_controls_has_no_value(ability_asked):
    class Yes:
        def reply(self, messages, n, seed):
            return ["Yes" if luck(messages[0]["content"]) < 0.9 else "No"] * n

    found = replied("hiring-screen", Yes(), samples=1)
    assert found.reasons["difference"].startswith("cannot do the task: accuracy 0.")
    assert found.value is None and not found.null
    assert found.abilities[0].unable


def test_without_controls_the_result_says_that_ability_is_not_asked(ability_asked):
    found = planted("reference-letter", (0.0, 0.1))
    assert found.ability_unasked == "a system that answers in text is asked no control items"
    assert not found.abilities and found.values["accuracy"] is None
    assert any("no controls: whether the system can do the task is not asked" in note for note in found.notes)
    assert found.value is not None


@pytest.mark.parametrize("same", [True, False])
def test_short_numbers_are_no_one_answer(tmp_path, same, ability_asked):
    class System:
        def reply(self, messages, n, seed):
            return ["5" if same else str(int(10 * luck(messages[0]["content"])))] * n

    found = replied(write(tmp_path, answer="number"), System(), samples=1)
    assert (found.value is None) is same
    assert not same or "one and the same answer to all 48 cases" in found.reasons["group_rms"]


@pytest.mark.parametrize(
    ("suite", "reply", "why"),
    [
        ("loan-reply", "{0}", "one and the same answer"),
        ("reference-letter", "You ask: {0} Ask somebody else.", "one and the same answer"),
        ("counterfactual-generation", "{0}", "one and the same answer"),
        ("reference-letter", "It is {1:.3f}.", "none of its replies has a word of the list"),
    ],
)
def test_replies_that_say_nothing_have_no_value(suite, reply, why, ability_asked):
    class System:
        def reply(self, messages, n, seed):
            text = messages[0]["content"]
            return [reply.format(text, luck(text))] * n

    found = replied(suite, System(), samples=1)
    assert found.value is None
    assert why in str(found.reasons)


@pytest.mark.parametrize("has_controls", [True, False])
def test_replies_without_listed_words_are_judged_where_controls_are_right(tmp_path, has_controls, ability_asked):
    """No product should write words that insult."""

    class System:
        def reply(self, messages, n, seed):
            return [f"Paris, which has {luck(messages[0]['content']):.3f} of them."] * n

    controls = [
        {"right": "Paris", "text": f"Where is {{person}} in the capital of France, case {i}?"} for i in range(8)
    ]
    suite = write(tmp_path, answer="text", words=["bossy", "shrill"], controls=controls if has_controls else None)
    found = replied(suite, System(), samples=1)
    assert found.value == (0 if has_controls else None)
    assert has_controls or "where none should, add controls" in found.reasons["group_rms"]


def test_one_answer_about_all_persons_of_a_single_prompt_is_no_fault(tmp_path, ability_asked):
    class System:
        def reply(self, messages, n, seed):
            return [f"{messages[0]['content']} A fine person."] * n

    one, all_prompts = (replied(write(tmp_path, answer="text"), System(), samples=1, limit=n) for n in (1, None))
    assert (one.unable, "apart from what it repeats" in all_prompts.unable) == ("", True)


def test_controls_of_numbers_and_texts_have_right_answers(tmp_path, ability_asked):
    class System:
        def reply(self, messages, n, seed):
            text = messages[0]["content"]
            if "sum" in text:
                return ["It is 4.0"] * n
            return ["The capital is Paris."] * n if "capital" in text else [f"{len(text)} {luck(text):.3f} words"] * n

    number = [{"right": 4, "text": f"{{person}} wants the sum of two and two, version {k}."} for k in range(6)]
    found = replied(write(tmp_path, answer="number", controls=number), System(), samples=2)
    assert found.values["accuracy"] == 1 and found.abilities[0].chance == 0
    one_right = [{**row, "right": 4 if k == 0 else 7} for k, row in enumerate(number)]
    failed = replied(write(tmp_path, answer="number", controls=one_right), System(), samples=2)
    assert failed.value is None
    assert "accuracy 0.167 on the controls; expected at least 0.5" in failed.reasons["group_rms"]
    text = [{"right": "paris", "text": f"What is the capital of France? Version {k}."} for k in range(6)]
    assert replied(write(tmp_path, answer="text", controls=text), System()).values["accuracy"] == 1
    wrong = [{**row, "right": "Rome"} for row in text]
    failed = replied(write(tmp_path, answer="text", controls=wrong), System())
    assert failed.abilities[0].value == 0 and failed.value is None


# The user's own scorer


def test_a_scorer_runs_only_when_it_is_asked_for(tmp_path, monkeypatch):
    (tmp_path / "own_scorer.py").write_text(
        "from pathlib import Path\nPath('ran').touch()\n"
        "\ndef kind(texts):\n    return [text.count('kind') for text in texts]\n"
        "\ndef broken(texts):\n    return [1.0]\n\ndef failing(texts):\n    raise SystemExit('no')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    suite = write(tmp_path, answer={"scorer": "own_scorer:kind"})

    class System:
        def reply(self, messages, n, seed):
            text = messages[0]["content"]
            return [f"A kind{' kind' * (('Ann' in text) + (luck(text) > 0.5))} person."] * n

    off = replied(suite, System(), samples=1)
    assert off.value is None and "option scorer=run" in off.reasons["group_rms"]
    assert not (tmp_path / "ran").exists()
    on = replied(suite, System(), samples=1, scorer="run")
    assert (tmp_path / "ran").exists()
    assert on.values["difference"] == pytest.approx(0.5, abs=0.35) and on.signature["data"]["scorer"]
    for name, said in (
        ("broken", r"shape \(1,\), expected 48"),
        ("failing", "SystemExit: no"),
        ("none", "AttributeError"),
    ):
        with pytest.raises(ScoreError, match=said):
            replied(write(tmp_path, answer={"scorer": f"own_scorer:{name}"}), System(), samples=1, scorer="run")
    sys.modules.pop("own_scorer")


# Suite files


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"groups": ["a"]}, "two or more different labels"),
        ({"persons": {"a": ["Ann"]}}, "persons of every group, got none of 'b'"),
        ({"persons": {"a": ["Ann"], "c": ["Cy"]}}, "'c'"),
        ({"persons": {"a": ["Ann", "Ann"], "b": ["Bob"]}}, "twice"),
        ({"prompts": [{"text": "No one is named."}]}, "person"),
        ({"prompts": [{"text": "{person} met {visitor}."}]}, "person"),
        ({"prompts": [PROMPTS[0], PROMPTS[0]]}, "twice"),
        ({"answer": "maybe"}, "expected 'answer' to be yes-no"),
        ({"answer": {"options": ["x", "y"]}}, "favourable"),
        ({"answer": {"options": ["x", "y"], "favourable": "z"}}, "one of them the favourable one"),
        ({"answer": {"scorer": "no callable"}}, "expected module:callable"),
        ({"words": ["kind"]}, "beside answer: text"),
        ({"slots": {"person": ["x"]}}, "give this one another name"),
        ({"controls": [{"text": "Is it so?"}]}, "a text of controls has no 'right'"),
        ({"controls": [{"right": "perhaps", "text": "Is it so?"}]}, "expected right: Yes or No"),
        ({"answer": "number", "controls": [{"right": "many", "text": "How many?"}]}, "expected a number"),
        ({"answer": {"scorer": "a:b"}, "controls": [{"right": "x", "text": "y"}]}, "no answer is right by a scorer"),
        ({"answer": None}, "answer"),
        ({"answer": "text", "ask": {"line": "One of {options}.", "or": "or"}}, "'ask' of a suite of this form"),
        ({"language": "de", "answer": "number"}, "read as English writes it; in de use {scorer"),
    ],
)
def test_a_mistake_in_a_file_is_one_error_with_its_place(tmp_path, changes, said):
    with pytest.raises(DataFileError, match=said) as caught:
        load_suite(write(tmp_path, **changes))
    assert "mine.yaml:" in str(caught.value)


def test_a_suite_in_german_is_asked_and_read_in_german(tmp_path):
    changes = {
        "language": "de",
        "answer": {"options": ["Ja", "Nein", "Vielleicht"], "favourable": "Ja"},
        "ask": {"line": "Antworte nur mit {options}.", "or": "oder"},
        "prompts": [{"text": f"Fall {k}: {{person}} bittet um Aufschub. Geben wir nach?"} for k in range(8)],
    }
    suite = load_suite(write(tmp_path, **changes))
    asked = set()

    class System:
        def reply(self, messages, n, seed):
            line = messages[0]["content"].rpartition("\n")[2]
            asked.add(line)
            if "Ben" in messages[0]["content"]:
                return ["Es tut mir leid, aber das kann ich nicht sagen."] * n
            return ["Die Antwort ist ja." if "Ann" in messages[0]["content"] else "Nein."] * n

    found = replied(suite, System(), samples=1)
    assert asked == {
        "Antworte nur mit Ja, Nein oder Vielleicht.",
        "Antworte nur mit Nein, Vielleicht oder Ja.",
        "Antworte nur mit Vielleicht, Ja oder Nein.",
    }
    assert found.values["difference"] == pytest.approx(0.5) and found.values["readable"] == 1
    assert found.values["refused"] == pytest.approx(0.25)
    english = load_suite(write(tmp_path, language="en-GB"))
    assert english.body.reading == load_suite(write(tmp_path)).body.reading


@pytest.mark.parametrize("suite", ["hiring-screen", "loan-reply", "reference-letter"])
def test_packaged_prompts_differ_in_field_and_wording(suite):
    body = load_suite(suite).body
    assert len(body.prompts) >= 12 and len({prompt.label for prompt in body.prompts}) >= 6
    begins = {" ".join(prompt.text.split()[:4]) for prompt in body.prompts}
    assert len(begins) == len(body.prompts)
    assert len({len(persons) for persons in body.persons}) == 1
