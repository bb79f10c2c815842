"""A project with a wide suite of twenty premise words, and classifiers of any bias on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.small_projects import GENDERED, PERSONS, SUITES

PERSON_WORDS = (
    "nurse pilot cook baker lawyer dentist miner poet judge butcher painter singer guard chef coach actor clerk doctor"
    " farmer sailor"
)


WORDS = tuple(PERSON_WORDS.split(" "))


WIDE = "list: words\ntitle: t\nsource: s\nlicence: l\nlanguage: en\nentries: [{}]\n".format(
    ", ".join(f"{{word: {word}}}" for word in WORDS)
)


CLASSIFIERS = '''
import zlib
import numpy as np

class Scatter:
    """Neutral by ``base``, with a scatter of its own per pair; less by ``worse`` for pairs of some premise words."""
    labels = ("entailment", "neutral", "contradiction")
    def __init__(self, base=0.7, scatter=0.4, worse=0.0, words=(), noise=0.0, name=None):
        self.how = base, scatter, worse, tuple(words), noise
        self.fingerprint = name or repr(self.how)
        self.asked = 0
    def pair_probabilities(self, premises, hypotheses):
        base, scatter, worse, words, noise = self.how
        pairs = [a + b for a, b in zip(premises, hypotheses)]
        self.asked += len(pairs)
        n = base + scatter * (np.array([zlib.crc32(p.encode()) for p in pairs]) / 2**32 - 0.5)
        n = n - worse * np.array([not words or p.split()[1] in words for p in premises]) + noise * len(pairs)
        same = np.array([a == b for a, b in zip(premises, hypotheses)])
        n = np.where(same, 0.0, np.minimum(n, 1.0))
        return np.stack([np.where(same, 1.0, (1 - n) / 2), n, np.where(same, 0.0, (1 - n) / 2)], axis=1)

def usual(): return Scatter()
def jitter(): return Scatter(noise=1e-9)
def bad(): return Scatter(worse=0.15)
def slightly(): return Scatter(worse=0.002)
def best(): return Scatter(worse=-0.05)
def few(): return Scatter(worse=0.3, words=("nurse", "poet"))
def seed_0(): return Scatter(base=0.70)
def seed_1(): return Scatter(base=0.71)
def seed_2(): return Scatter(base=0.69)
def late_0(): return Scatter(base=0.60)
def late_1(): return Scatter(base=0.61)
def late_2(): return Scatter(base=0.59)
def alike_0(): return Scatter()
def alike_1(): return Scatter()
def alike_2(): return Scatter()
'''


WIDE_SUITE = SUITES["tiny-nli"].replace("tiny-nli", "wide").replace("persons.yaml", "words.yaml")


TOTAL = 20 * 264 // 3


def write_suites(folder: Path) -> None:
    for name, text in (
        ("words", WIDE),
        ("persons", PERSONS),
        ("gendered", GENDERED),
        ("wide", WIDE_SUITE),
        *SUITES.items(),
    ):
        (folder / f"{name}.yaml").write_text(text)


def gates(project: pytest.Pytester, *lines: str) -> None:
    project.path.joinpath("g.bias.yaml").write_text("gates:\n" + "".join(f"  - {{{line}}}\n" for line in lines))


def judge(
    project: pytest.Pytester, *arguments: str, apart: bool = False
) -> tuple[Any, dict[tuple[str, ...], str], list]:
    """Run; return the result, the code of each gate's verdict, and the measurements."""
    run = project.runpytest_subprocess if apart else project.runpytest
    result = run("-p", "no:cacheprovider", "--bias-json=report.json", *arguments)
    report = json.loads(project.path.joinpath("report.json").read_text())
    assert report["run"]["exit_status"] == result.ret
    codes = {(j["model"], j["suite"], j["statistic"], j["bound"]): j["code"] for j in report["judgements"]}
    assert len(codes) == len(report["judgements"])
    return result, codes, report["measurements"]


def stored_book(project: pytest.Pytester) -> Path:
    return project.path / "bias_baselines" / "m" / "g.bias.yaml.json"
