"""Models that are files: word vectors, tables of predictions, texts. Their specs are those of any model, so that names,
baselines and gates work alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pytest_genderbias.models.model import Model
from pytest_genderbias.models.replies import RepliesFile
from pytest_genderbias.models.roles import (
    CHAT_ANSWERS,
    CLASS_PREDICTIONS,
    COREFERENCE_PREDICTIONS,
    TEXT,
    TEXT_REPLIES,
    VECTORS,
    Role,
)
from pytest_genderbias.models.source import LoadSettings, ModelSource
from pytest_genderbias.models.spec import ModelSpec

if TYPE_CHECKING:
    from pytest_genderbias.datasets.stored_replies import StoredReplies

#: Roles by the kind of the spec; those of predictions by what the file looks like.
_ROLES = {
    "vectors": Role(VECTORS, "a file of word vectors"),
    "text": Role(TEXT, "a text"),
    CLASS_PREDICTIONS: Role(CLASS_PREDICTIONS, "a file of a classifier's predictions"),
    COREFERENCE_PREDICTIONS: Role(COREFERENCE_PREDICTIONS, "a file of a coreference system's output"),
    CHAT_ANSWERS: Role(CHAT_ANSWERS, "a file of a chat model's answers"),
    TEXT_REPLIES: Role(TEXT_REPLIES, "a file of replies"),
}


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Return the role of a model that is a file; a file of replies is read.

    Raises:
        DataFileError: a file of replies breaks a rule of its format.
    """
    from pytest_genderbias.datasets.stored_replies import read_stored_replies
    from pytest_genderbias.models.predictions import looks_like_predictions

    kind = looks_like_predictions(Path(spec.target)) if spec.kind == "predictions" else spec.kind
    role = _ROLES[str(kind)]
    if kind != TEXT_REPLIES:
        return ModelSource(spec, role)
    stored = read_stored_replies(Path(spec.target))
    return ModelSource(spec, replace(role, samples=stored.samples), found=stored)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Read a model that is a file.

    Raises:
        ModelError, DataFileError: the file breaks a rule of its format.
    """
    from pytest_genderbias.datasets.coreference_output import read_coreference_output
    from pytest_genderbias.datasets.corpora import corpus_sha256
    from pytest_genderbias.datasets.stored_replies import read_stored_answers
    from pytest_genderbias.models.predictions import Predictions, read_predictions
    from pytest_genderbias.models.vectors import WordVectors, read_vectors

    spec, role = source.spec, source.role
    path = Path(spec.target)
    readers: Mapping[str, tuple[Callable[[Path], object], str]] = {
        VECTORS: (read_vectors, "word vectors"),
        CLASS_PREDICTIONS: (read_predictions, "predictions"),
        COREFERENCE_PREDICTIONS: (read_coreference_output, "predictions"),
        CHAT_ANSWERS: (read_stored_answers, "predictions"),
        TEXT_REPLIES: (lambda _: RepliesFile(cast("StoredReplies", source.found)), "replies"),
        TEXT: (Path, "text"),  # of a file, or of a folder of files
    }
    read, architecture = readers[role.kind]
    backend = read(path)
    with_own = (WordVectors, Predictions)
    fingerprint = backend.fingerprint if isinstance(backend, with_own) else corpus_sha256([path])
    details = {"architecture": architecture}
    if role.kind == TEXT_REPLIES:
        details["samples"] = str(role.samples)
    return Model(spec.name, spec.spec, role, fingerprint, details, backend)
