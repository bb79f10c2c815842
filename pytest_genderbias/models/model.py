"""The loaded model that everything else is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_genderbias.models.roles import Role


@dataclass(frozen=True)
class Checkpoint:
    """A transformers network with its tokenizer, checked and in evaluation mode."""

    network: Any
    tokenizer: Any
    device: str
    max_length: int | None


@dataclass(frozen=True)
class Model:
    """A model under test.

    ``name`` is what tables and baselines call it. ``fingerprint`` is a hash over parameters, config and tokenizer
    (``None`` for an object that gives none: measured, never cached). ``details`` (architecture, tokenizer, dtype, device)
    are named when they differ from a baseline's. ``backend`` is a :class:`Checkpoint` or an object of the role's protocol.
    """

    name: str
    spec: str
    role: Role
    fingerprint: str | None
    details: dict[str, str]
    backend: Any = field(repr=False)
