"""Adapters that make text classifiers of other libraries a :class:`Model`: scikit-learn pipelines and spaCy text
categorizers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.objects import wrap


@dataclass(frozen=True)
class SklearnClassifier:
    """A scikit-learn classifier with the protocol :class:`~pytest_genderbias.models.protocols.TextClassifier`."""

    classifier: Any  # of scikit-learn
    labels: tuple[str, ...]
    fingerprint: str | None

    def class_probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the probability of each label: shape (len(texts), len(labels))."""
        return np.asarray(self.classifier.predict_proba(list(texts)), dtype=np.float64)


@dataclass(frozen=True)
class SpacyClassifier:
    """A spaCy pipeline with the protocol :class:`~pytest_genderbias.models.protocols.TextClassifier`."""

    nlp: Any  # spaCy's Language
    labels: tuple[str, ...]
    fingerprint: str | None

    def class_probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the score of each category: shape (len(texts), len(labels)). Those of ``textcat`` sum to one."""
        rows = [[float(document.cats[label]) for label in self.labels] for document in self.nlp.pipe(texts)]
        return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(self.labels))


def from_sklearn(classifier: Any, *, name: str | None = None, fingerprint: str | None = None) -> Model:
    """Make a :class:`Model` of a fitted scikit-learn pipeline that classifies texts.

    Args:
        classifier: an estimator with ``predict_proba`` and ``classes_`` whose input is a list of texts, such as
            ``make_pipeline(TfidfVectorizer(), LogisticRegression())``. Classes may be texts or numbers.
        name: the model's name in tables and baselines; the name of the class by default.
        fingerprint: a text that changes whenever the scores can; scores are cached under it. Nothing is cached without
            one.

    Raises:
        ModelError: the object has no ``predict_proba`` or ``classes_``, as before ``fit``, or two classes have the same
            name.
    """
    kind = type(classifier).__name__
    if not all(hasattr(classifier, attribute) for attribute in ("predict_proba", "classes_")):
        raise ModelError(
            f"{kind} has no predict_proba and classes_; expected a fitted scikit-learn classifier of texts (a pipeline"
            " whose last step gives probabilities: of an SVM, SVC(probability=True) or CalibratedClassifierCV)"
        )
    labels = tuple(str(label) for label in classifier.classes_)
    _check_labels(labels, kind)
    return wrap(SklearnClassifier(classifier, labels, fingerprint), name=name or kind)


def from_spacy(
    nlp: Any, *, component: str = "textcat", name: str | None = None, fingerprint: str | None = None
) -> Model:
    """Make a :class:`Model` of a spaCy pipeline with a trained text categorizer.

    Args:
        nlp: what ``spacy.load`` returns; the whole pipeline runs on each text.
        component: the name of the text categorizer, whose categories exclude each other.
        name: the model's name in tables and baselines; ``spacy`` by default.
        fingerprint: a text that changes whenever the scores can; scores are cached under it. Nothing is cached without
            one.

    Raises:
        ModelError: the pipeline has no such component, or the component has no categories.
    """
    if component not in nlp.pipe_names:
        raise ModelError(
            f"the spaCy pipeline has no component {component!r}; it has {', '.join(nlp.pipe_names) or 'none'}: expected"
            " a trained text categorizer"
        )
    categorizer = nlp.get_pipe(component)
    labels = tuple(getattr(categorizer, "labels", ()))
    _check_labels(labels, f"the spaCy component {component!r}")
    return wrap(SpacyClassifier(nlp, labels, fingerprint), name=name or "spacy")


def _check_labels(labels: Sequence[str], name: str) -> None:
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise ModelError(f"{name} has the classes {', '.join(labels) or 'none'}; expected two or more different ones")
