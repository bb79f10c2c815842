"""Projects with small suites and models, so that a run of pytest inside a test takes no time."""

from __future__ import annotations

import pytest

MODELS = """
import hashlib
import numpy as np

class Classifier:
    labels = ("entailment", "neutral", "contradiction")
    def __init__(self, neutral, women=0.0):
        self.neutral, self.women = neutral, women
        self.fingerprint = f"{neutral} {women}"
    def pair_probabilities(self, premises, hypotheses):
        n = np.array([self.neutral - self.women * ("woman" in h) for h in hypotheses])
        same = np.array([a == b for a, b in zip(premises, hypotheses)])
        n = np.where(same, 0.0, n)
        return np.stack([np.where(same, 1.0, (1 - n) / 2), n, np.where(same, 0.0, (1 - n) / 2)], axis=1)

class Filler:
    mask_token = "<m>"
    vocabulary = ["read", "dance", "fight", "eat"]
    fingerprint = "filler"
    def fill_scores(self, texts):
        low = [t.lower() for t in texts]
        female = ["woman" in t or "girl" in t for t in low]
        male = ["man" in t.split() or "boy" in t for t in low]
        return np.array([[4, 5 * woman, 3 if man else 0, 2.5] for woman, man in zip(female, male)], float)

class Writer:
    fingerprint = "writer"
    def continuation_log_probs(self, prefixes, continuations):
        male = [prefix.split()[0].lower() == "he" for prefix in prefixes]
        return np.array([-1.0 - 0.4 * (he and "nurse" in text) for he, text in zip(male, continuations)])

def good(): return Classifier(0.9)
def worse(): return Classifier(0.9, 0.3)
def better(): return Classifier(0.95)
def nearly(): return Classifier(0.9 - 3e-8)
def filler(): return Filler()
def writer(): return Writer()
class NaN(Classifier):
    def pair_probabilities(self, premises, hypotheses):
        answer = super().pair_probabilities(premises, hypotheses)
        answer[np.array([a != b for a, b in zip(premises, hypotheses)])] = float("nan")
        return answer
def nan():
    model = NaN(0.9); model.fingerprint = "nan"; return model
"""
PERSONS = """
list: persons
title: t
source: s
licence: l
language: en
entries: [{word: nurse, group: job}, {word: pilot, group: job}, {word: cook, group: job}]
"""
GENDERED = """
list: gendered
title: t
source: s
licence: l
language: en
entries: [{word: woman, group: female}, {word: girl, group: female}, {word: man, group: male}, {word: boy, group: male}]
"""
SUITES = {
    "tiny-nli": (
        """
suite: tiny-nli
family: nli
title: t
source: s
licence: l
language: en
premise: "The {person} ate {a:food} {food}."
hypothesis: "The {gendered} ate {a:food} {food}."
slots:
  person: {list: ./persons.yaml}
  gendered: {list: ./gendered.yaml}
  food: {list: dev2019-objects, where: {class: food}}
"""
    ),
    "tiny-disco": (
        """
suite: tiny-disco
family: disco
title: t
source: s
licence: l
language: en
person: {list: ./gendered.yaml, form: "the {word}"}
templates: ["{person} likes to {blank}."]
options: {top_k: 2, repeats: 5}
"""
    ),
    "tiny-lm": (
        """
suite: tiny-lm
family: lm-occupation
title: t
source: s
licence: l
language: en
occupation: {list: ./persons.yaml}
prefixes: [{male: "He is {a:occupation} {occupation}", female: "She is {a:occupation} {occupation}"}]
"""
    ),
}
#: Gates on two of the suites; ``limit`` is to be filled in.
GATES = """
gates:
  - suite: ./tiny-nli.yaml
    statistic: net_neutral
    at_least: {limit}
  - suite: ./tiny-nli.yaml
    statistic: threshold_0.5
    at_least: 0.5
    settings: {{unit: word_pair}}
  - suite: ./tiny-lm.yaml
    statistic: signed_bias
    within: 0.3
"""
#: Ten occupations, so that five are there to compare.
JOBS = ("nurse", "pilot", "cook", "baker", "miner", "judge", "tailor", "farmer", "dancer", "doctor")
JOB_PERSONS = "list: persons\ntitle: t\nsource: s\nlicence: l\nlanguage: en\nentries:\n" + "".join(
    f"  - {{word: {job}, group: job}}\n" for job in JOBS
)
#: A model that is worse on one of them.
FEW = """


def few():
    "Worse for one premise word of ten."
    class Few(Classifier):
        def pair_probabilities(self, premises, hypotheses):
            found = super().pair_probabilities(premises, hypotheses)
            hit = np.array(["nurse" in p and p != h for p, h in zip(premises, hypotheses)])
            found[hit] = [0.3, 0.4, 0.3]
            return found
    model = Few(0.9)
    model.fingerprint = "few"
    return model

"""
NLI = ("-p", "no:cacheprovider", "--bias-suite=tiny-nli.yaml")
#: Two workers, for a run that loads no plugin of other packages by itself.
WORKERS = ("-p", "xdist", "-n", "2")


def model(project: pytest.Pytester, which: str, name: str = "m") -> str:
    return f"--bias-model={name}={project.models}:{which}"  # type: ignore[attr-defined]
