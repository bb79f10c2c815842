"""Adapters that make text classifiers of other libraries a :class:`Model`: scikit-learn pipelines and spaCy text
categorizers.
"""

from __future__ import annotations

import hashlib
import pickle
import pickletools
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.objects import wrap

#: Packages whose code is known by their version; a pickle names code of other modules without its content.
_VERSIONED = ("sklearn", "scipy", "numpy", "joblib")
_HARMLESS = ("builtins", "__builtin__", "copyreg", "copy_reg", "collections", "_codecs", "re", "functools")
_DISTRIBUTIONS = {"sklearn": "scikit-learn"}
AUTO = "auto"  #: make a fingerprint of the fitted model, if that can be done


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


def from_sklearn(classifier: Any, *, name: str | None = None, fingerprint: str | None = AUTO) -> Model:
    """Make a :class:`Model` of a fitted scikit-learn pipeline that classifies texts.

    Args:
        classifier: an estimator with ``predict_proba`` and ``classes_`` whose input is a list of texts, such as
            ``make_pipeline(TfidfVectorizer(), LogisticRegression())``. Classes may be texts or numbers.
        name: the model's name in tables and baselines; the name of the class by default.
        fingerprint: a text that changes whenever the scores can; scores are cached under it. By default a hash of the
            fitted parameters and of the versions of scikit-learn, SciPy and NumPy; none if code of other modules is
            part of the pipeline. ``None``: nothing is cached.

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
    return wrap(
        SklearnClassifier(classifier, labels, _sklearn_fingerprint(classifier) if fingerprint == AUTO else fingerprint),
        name=name or kind,
    )


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


def _sklearn_fingerprint(classifier: object) -> str | None:
    """Return a hash of a fitted estimator, or ``None`` if its pickle does not hold everything that decides its scores.

    A pickle names functions and classes without their code. Those of scikit-learn, SciPy and NumPy are known by the
    versions of these packages; with any other (a tokenizer function, a class of the user's) equal pickles may give
    different scores.
    """
    try:
        import joblib

        content = pickle.dumps(classifier, protocol=2)  # in which each GLOBAL opcode names a module and an attribute
    except Exception:  # whatever a class raises that cannot be pickled, or no joblib
        return None
    names = {str(argument) for code, argument, _ in pickletools.genops(content) if code.name in ("GLOBAL", "INST")}
    packages = {name.partition(" ")[0].partition(".")[0] for name in names}
    if packages - {*_VERSIONED, *_HARMLESS}:
        return None
    try:
        versions = {package: version(_DISTRIBUTIONS.get(package, package)) for package in _VERSIONED}
        # A copy, since objects that were fitted share other texts than those that were read, which changes the hash.
        parameters = joblib.hash(pickle.loads(content))  # noqa: S301 - pickled above
    except Exception:  # a package without a version, or whatever a class raises that cannot be read or hashed
        return None
    return hashlib.sha256(f"{parameters} {sorted(versions.items())}".encode()).hexdigest()
