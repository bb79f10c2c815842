"""``genderbias agree``: what it costs, what it prints, and what it refuses."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from support.chat_servers import ChatServer, listed
from support.command_lines import Printed, type_command
from support.tiny_checkpoints import save_checkpoint

PLANTED = """
    from support.chat_models import AlwaysA, Sampled, biased_decider

    from pytest_genderbias import load_suite

    def model():
        return biased_decider(load_suite("decisions").body, 1.0, 1.0)

    def product():
        return Sampled(model())
"""
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %} is{% if enable_thinking %} thinking{% endif %}"
ROW = (
    r"^  {} +([\d.]+) \(([\d.]+) to ([\d.]+)\) +([\d.]+) +([\d.]+) \([\d.-]+ to [\d.]+\) +([\d.]+) +([\d.]+) +([\d.]+)$"
)


def agree(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Printed:
    pytester.makepyfile(planted=PLANTED)
    monkeypatch.syspath_prepend(str(pytester.path))
    return type_command(pytester, monkeypatch, "agree", *arguments, "--cache=kept")


def test_a_product_is_compared_with_the_model_that_it_is_made_of(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = ("lm=planted:model", "decisions", "--replies=product=planted:product")
    printed = agree(pytester, monkeypatch, *pair, "--limit=60", "--samples=8")
    assert printed.status == 0, printed.err
    assert re.match(
        r"60 questions, 480 replies, about [\d,]+ tokens in the questions; the probabilities of 60 questions",
        printed.err,
    )
    assert "decisions on lm: 60 of 704 questions, 8 replies to each; the options have 0.900" in printed.out
    found = re.search(ROW.format("product"), printed.out, re.MULTILINE)
    assert found is not None, printed.out
    share, low, high, drawn, r, drawn_r, refused, unreadable = map(float, found.groups())
    assert low <= share <= high and low <= drawn <= high
    assert r == pytest.approx(drawn_r, abs=0.1) and refused == pytest.approx(0.1, abs=0.05) and unreadable == 0
    assert printed.out.count(" by probability, ") == 3
    assert agree(pytester, monkeypatch, *pair, "--limit=60", "--samples=8").out == printed.out


def test_a_checkpoint_is_asked_with_thinking_off_and_on(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "chat"
    save_checkpoint("gpt2", folder, n_positions=128)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    asked = (f"lm={folder}", "chat-iat", "--limit=4", "--samples=2", "--tokens=3")
    cost = agree(pytester, monkeypatch, *asked, "--cost")
    assert cost.status == 0 and cost.out.startswith("4 questions, 8 replies, ") and not cost.err
    assert "2 times (thinking off, thinking on)" in cost.out
    printed = agree(pytester, monkeypatch, *asked)
    assert re.findall("^  (thinking o[nf]+)  ", printed.out, re.MULTILINE) == ["thinking off", "thinking on"]
    (folder / "chat_template.jinja").write_text(TEMPLATE.partition("{% if")[0])
    assert "\n  its own " in agree(pytester, monkeypatch, *asked).out


def test_an_endpoint_that_lists_first_tokens_is_asked_both_ways(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    likely = [{"token": "Yes", "logprob": math.log(0.7)}, {"token": "No", "logprob": math.log(0.2)}]
    with ChatServer(
        change=lambda content, body: listed(content, likely) if body.get("logprobs") else content
    ) as server:
        printed = agree(pytester, monkeypatch, server.spec, "decisions", "--limit=12", "--samples=3")
    assert printed.status == 0, printed.err
    assert "decisions on product: 12 of 704 questions, 3 replies to each; the options have 0.900" in printed.out
    assert re.search(r"^  product  1\.000 .* -  +-  +0\.000  +0\.000$", printed.out, re.MULTILINE)
    assert printed.out.count("Yes 0.78, No 0.22 by probability, Yes 1.00 in text") == 3


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("demo-mlm", "decisions", "--replies=planted:product"), "decisions needs a causal LM"),
        (("demo-lm", "decisions"), "has no chat template"),
        (("planted:model", "decisions"), "no network here to sample replies from; give its replies"),
        (("demo-lm", "counterfactual-generation", "--replies=planted:product"), "no options to pick from"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], reason: str
) -> None:
    printed = agree(pytester, monkeypatch, *arguments)
    assert printed.status == 4 and reason in printed.err and not printed.out
