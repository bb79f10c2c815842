"""Models that are objects in memory: a network of transformers, or any object with the protocol of a role."""

from __future__ import annotations

import sys
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.checkpoints import longest_row
from pytest_genderbias.models.fingerprint import fingerprint_tokenizer
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.protocols import (
    CausalLM,
    CoreferenceScorer,
    MaskedLM,
    PairClassifier,
    PairRegressor,
    SentenceEncoder,
    TextClassifier,
)
from pytest_genderbias.models.roles import (
    CAUSAL_LM,
    COREFERENCE_SCORER,
    MASKED_LM,
    NLI_CLASSIFIER,
    PAIR_REGRESSOR,
    SENTENCE_ENCODER,
    TEXT_CLASSIFIER,
    Role,
    classifier_role,
)
from pytest_genderbias.models.source import ModelSource, role_of_config
from pytest_genderbias.models.spec import ModelSpec


def wrap_object(target: object, spec: ModelSpec | None = None) -> Model:
    """Make a :class:`Model` of any object with the protocol of a role.

    An object with several is a coreference scorer before anything else, then a pair classifier, a text classifier, a masked LM,
    a causal LM, a pair regressor, a sentence encoder.
    """
    name = type(target).__name__
    spec = spec or ModelSpec(name, name, "object", name)
    fingerprint = getattr(target, "fingerprint", None)
    if fingerprint is not None and not isinstance(fingerprint, str):
        raise ModelError(f"the fingerprint of {spec.name} should be a text, got {type(fingerprint).__name__}")
    role = _object_role(target, spec.name)
    return Model(spec.name, spec.spec, role, fingerprint, {"architecture": name}, target)


def wrap_network(network: Any, tokenizer: Any, name: str | None = None) -> Model:
    """Make a :class:`Model` of a transformers network that is in memory, one in training say, and share it: its role is that of its class.

    It has no fingerprint, since its weights may change: it is measured and never cached.
    """
    config = deepcopy(network.config)
    config.architectures = [type(network).__name__]
    device = str(network.device)
    details = {
        "architecture": type(network).__name__,
        "tokenizer": fingerprint_tokenizer(tokenizer)[:16],
        "dtype": str(network.dtype).removeprefix("torch."),
        "device": network.device.type,
    }
    backend = Checkpoint(network, tokenizer, device, longest_row(config, tokenizer, None))
    name = name or type(network).__name__
    return Model(name, name, role_of_config(config), None, details, backend)


def inspect_object(spec: ModelSpec) -> ModelSource:
    """Call the callable of a ``module:callable`` spec and read the role of the object that it returns.

    Raises:
        ModelError: the callable is missing or raises, or the object has the protocol of no role.
    """
    module_name, _, attribute = spec.target.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        target: Any = import_module(module_name)
        for part in attribute.split("."):
            target = getattr(target, part)
        target = target()
    except (ImportError, AttributeError, TypeError) as error:
        raise ModelError(
            f"{spec.spec} cannot be called: {error}; expected module:callable that returns a model"
        ) from error
    return ModelSource(spec, _object_role(target, spec.name), target=target)


def _object_role(target: object, name: str) -> Role:
    if isinstance(target, CoreferenceScorer):  # the most specific: its other methods are likely what it scores with
        return Role(COREFERENCE_SCORER, "a coreference scorer")
    if isinstance(target, PairClassifier):
        role = classifier_role(target.labels)
        if role.kind != NLI_CLASSIFIER:
            raise ModelError(
                f"{name} has the labels {', '.join(map(str, target.labels))}; expected entailment, neutral, contradiction"
            )
        return role
    if isinstance(target, TextClassifier):
        return Role(TEXT_CLASSIFIER, "a text classifier", tuple(map(str, target.labels)))
    for protocol, role in _OBJECT_ROLES:
        if isinstance(target, protocol):
            return role
    raise ModelError(
        f"{name} ({type(target).__name__}) has the protocol of no role; expected pair_probabilities and labels, class_probabilities and "
        "labels, fill_scores with mask_token and vocabulary, continuation_log_probs, pair_scores, encode, or coreference_scores (see "
        "pytest_genderbias.models.protocols)"
    )


_OBJECT_ROLES: tuple[tuple[Any, Role], ...] = (
    (MaskedLM, Role(MASKED_LM, "a masked LM")),
    (CausalLM, Role(CAUSAL_LM, "a causal LM")),
    (PairRegressor, Role(PAIR_REGRESSOR, "a pair regressor")),
    (SentenceEncoder, Role(SENTENCE_ENCODER, "a sentence encoder")),
)
