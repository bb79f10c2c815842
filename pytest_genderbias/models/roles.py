"""The role of a model: what it can be asked. It is read from the config's ``architectures`` and labels, never from what
happens to load."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_genderbias.text.normal_form import normal_form

MASKED_LM = "masked-lm"
CAUSAL_LM = "causal-lm"
NLI_CLASSIFIER = "nli-classifier"
TEXT_CLASSIFIER = "text-classifier"
PAIR_REGRESSOR = "pair-regressor"
ENCODER = "encoder"
SENTENCE_ENCODER = "sentence-encoder"
COREFERENCE_SCORER = "coreference-scorer"
CHAT_MODEL = "chat-model"
VECTORS = "vectors"
CLASS_PREDICTIONS = "class-predictions"
COREFERENCE_PREDICTIONS = "coreference-predictions"
CHAT_ANSWERS = "chat-answers"
TEXT_REPLIES = "text-replies"
RESULTS = "results"
TEXT = "text"
OTHER = "other"
NLI_LABELS = ("entailment", "neutral", "contradiction")
#: Other names for the labels of NLI, in small letters without spaces and hyphens.
_SYNONYMS = {
    **dict.fromkeys(("e", "ent", "entail", "entails", "entailed", "entailing"), "entailment"),
    **dict.fromkeys(("n", "neu", "neut"), "neutral"),
    **dict.fromkeys(
        ("c", "con", "contra", "contradict", "contradicts", "contradicted", "contradicting", "contradictory"),
        "contradiction",
    ),
}
#: Labels of fact verification, which say of evidence and claim what those of NLI say of premise and hypothesis. The
#: user has to say so.
_OF_FACTS = {
    **dict.fromkeys(("supports", "support", "supported", "true", "yes"), "entailment"),
    **dict.fromkeys(("notenoughinfo", "notenoughinformation", "nei", "unknown", "unverified", "maybe"), "neutral"),
    **dict.fromkeys(("refutes", "refute", "refuted", "false", "no"), "contradiction"),
}
PROBABILITY = "probability"


@dataclass(frozen=True)
class Role:
    """The kind of task that a model does.

    ``text`` completes "this model is ...". ``labels`` are those of a classifier, in order. ``scores`` is
    ``probability`` for a coreference scorer that gives each pair of mentions the probability that they corefer, and
    empty for other models. ``samples``: replies to each question, of a system that answers in text. ``only_prompts``:
    another process or engine runs the model, and gives log-probabilities of prompts alone
    (:mod:`~pytest_genderbias.scoring.token_sums`). ``first_tokens``: the system that answers in text also
    says how likely the first tokens of a reply are, so that options are asked as of a chat model.
    """

    kind: str
    text: str
    labels: tuple[str, ...] = ()
    scores: str = ""
    samples: int = 1
    only_prompts: bool = False
    first_tokens: bool = False

    @property
    def label_order(self) -> tuple[int, ...]:
        """Columns of entailment, neutral and contradiction in the classifier's output."""
        return tuple(self.labels.index(label) for label in NLI_LABELS)

    def writing(self, samples: int | None) -> Role:
        """Return the role of a causal LM that writes so many replies to a question; any other role as it is."""
        return replace(self, samples=samples or 1) if self.kind == CAUSAL_LM else self


def _meaning(label: str, names: Mapping[str, str]) -> str:
    text = re.sub(r"^label[\s_-]+(?=[^\W\d])", "", normal_form(str(label)).strip().lower())
    return names.get(re.sub(r"[\s_-]+", "", text), text)


def label_advice(labels: Sequence[str]) -> str:
    """Return how to say that a text classifier of three labels is an NLI classifier, in the order of its outputs; empty
    for others.

    >>> label_advice(["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"])
    '; if its labels mean so, name them in the order of its outputs: --bias-labels=entailment,contradiction,neutral'
    >>> label_advice(["contra", "?", "entailment"]).rpartition("=")[2]
    'contradiction,neutral,entailment'
    """
    if len(labels) != len(NLI_LABELS):
        return ""
    meanings = [_meaning(label, _SYNONYMS | _OF_FACTS) for label in labels]
    known = [meaning if meaning in NLI_LABELS and meanings.count(meaning) == 1 else "" for meaning in meanings]
    others = iter([name for name in NLI_LABELS if name not in known])
    order = [meaning or next(others) for meaning in known]
    return f"; if its labels mean so, name them in the order of its outputs: --bias-labels={','.join(order)}"


def coreference_role(architecture: str = "") -> Role:
    """Return the role of a coreference scorer by the class of its network, or of an object without one.

    The scores of an edge-probing head are probabilities, those of a span scorer log-odds, and those of an object
    unknown.
    """
    scores = PROBABILITY if architecture == "EdgeProbingModel" else ""
    return Role(COREFERENCE_SCORER, "a coreference scorer", scores=scores)


def classifier_role(labels: Sequence[str]) -> Role:
    """Return the role of a sequence classifier by its labels."""
    lowered = tuple(_meaning(label, _SYNONYMS) for label in labels)
    if sorted(lowered) == sorted(NLI_LABELS):
        return Role(NLI_CLASSIFIER, "an NLI classifier", lowered)
    if len(lowered) == 1:
        return Role(PAIR_REGRESSOR, "a regressor (one label)", lowered)
    shown = ", ".join(map(str, labels)) if len(labels) < 12 else f"{labels[0]}, {labels[1]} ... ({len(labels)})"
    return Role(
        TEXT_CLASSIFIER, f"a text classifier with the labels {shown}", tuple(str(label).strip() for label in labels)
    )


#: Kinds of control items by role: what every suite needs, and what suites on gendered words need besides.
TASKS_BY_ROLE: Mapping[str, tuple[str, str]] = {
    CAUSAL_LM: ("word-order", "gender"),
    MASKED_LM: ("masked-words", "gender"),
    NLI_CLASSIFIER: ("inference", "gender-inference"),
    VECTORS: ("related-words", "gender-words"),
    ENCODER: ("related-words", "gender-words"),
    SENTENCE_ENCODER: ("paraphrases", "gender-words"),
    PAIR_REGRESSOR: ("paraphrases", "gender-words"),
    COREFERENCE_SCORER: ("antecedents", ""),
}


def role_of_tasks(asked: Collection[str]) -> str:
    """Return the kind of model that is asked some kinds of control items; an empty text if none is, or several are.

    >>> role_of_tasks(["masked-words", "gender"])
    'masked-lm'
    """
    roles = [role for role, (task, _) in TASKS_BY_ROLE.items() if task in asked]
    return roles[0] if len(roles) == 1 else ""
