"""Networks with a head that is initialised from a seed: sequence classifiers, and scorers of coreference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.models.config import labels_of
from pytest_genderbias.models.fingerprint import fingerprint_network, fingerprint_tokenizer
from pytest_genderbias.models.hidden_layers import copy_projections, has_unsaved_hooks
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES
from pytest_genderbias.models.roles import Role, classifier_role, coreference_role
from pytest_genderbias.models.saving import copied
from pytest_genderbias.models.source import quiet_transformers
from pytest_genderbias.text.normal_form import folded

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

Made = TypeVar("Made")
Network = TypeVar("Network", bound="PreTrainedModel")

REGRESSION: Final = "regression"
CLASSIFICATION: Final = "single_label_classification"


def with_head(model: Model | None, labels: Sequence[str], seed: int) -> Model:
    """Return a copy of a network as a sequence classifier. A classifier of the same labels, in any order and case,
    keeps its head.

    The weights below the head are the model's, bit for bit. The pooler of BERT and ALBERT counts as head: masked LMs
    have none, and encoders may have been saved without it. A tokenizer without padding (GPT-2, Llama) pads with its
    end-of-text token.

    Args:
        model: a checkpoint of an architecture that transformers has a sequence classifier for.
        labels: labels of the outputs, in their order; a single label makes a regressor.
        seed: seed of the head's weights.

    Raises:
        NotApplicableError: the model is not a checkpoint, its architecture has no classifier, or hooks change its
            hidden layers.
        ModelError: the body of the classifier has weights that the model lacks, or the tokenizer cannot pad.
    """
    model = trainable(model)
    tokenizer = _padding(model)
    network = copied(model.backend.network) if has_labels(model, labels) else _classifier(model, labels, seed)
    network.config.pad_token_id = tokenizer.pad_token_id
    return _as(model, network, tokenizer, classifier_role(labels_of(network.config)))


def as_scorer(model: Model, network: PreTrainedModel) -> Model:
    """Return a model with a network that scores coreference in place of its own; the network is not copied."""
    return _as(model, network, model.backend.tokenizer, coreference_role(type(network).__name__))


def on_encoder(model: Model, seed: int, make: Callable[[PreTrainedConfig], Network]) -> Network:
    """Return a network with a copy of a model's encoder, whose projections it keeps, and a head that is initialised
    from the seed.

    Args:
        model: a checkpoint.
        seed: seed of the head's weights.
        make: returns the network for a copy of the encoder's config; its ``encoder`` has that architecture.

    Raises:
        ModelError: the encoder differs from what transformers makes of its config.
    """
    body = model.backend.network.base_model
    with quiet_transformers():
        network = seeded(seed, lambda: make(deepcopy(body.config)))
    keys = network.base_model.load_state_dict(body.state_dict(), strict=False)
    different = [name for name in (*keys.missing_keys, *keys.unexpected_keys) if not name.startswith("pooler.")]
    if different:
        raise ModelError(
            f"the encoder of {model.name} differs from what transformers makes of its config: {different[0]} is in one"
            " of them only"
        )
    network.config.architectures = [type(network).__name__]
    module: Any = network  # the methods of transformers' networks have no types
    module.to(device=body.device, dtype=body.dtype).eval()
    copy_projections(model.backend.network, network)
    return network


def _as(model: Model, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, role: Role) -> Model:
    """Return a model with another network and its role; its pooling and length are those of the network."""
    backend = replace(model.backend, network=network, tokenizer=tokenizer, pooling=None)
    details = {key: value for key, value in model.details.items() if key not in ("pooling", "max_length")}
    details = {**details, "architecture": type(network).__name__}
    fingerprint = fingerprint_network(network, fingerprint_tokenizer(tokenizer), {})
    return replace(model, role=role, fingerprint=fingerprint, details=details, backend=backend)


def trainable(model: Model | None) -> Model:
    """Return a model if a head can be trained on it.

    Raises:
        NotApplicableError: there is none, it is not a checkpoint, or hooks change its hidden layers.
    """
    if model is None or not model.can(HIDDEN_STATES):
        reason = "no model was given" if model is None else f"{model.name} is none"
        raise NotApplicableError(f"a head is trained on a transformers checkpoint, and {reason}")
    refuse_hooks(model)
    return model


def has_labels(model: Model, labels: Sequence[str]) -> bool:
    """Return whether a model is a sequence classifier of these labels, in any order and case. The name of a single
    output is ignored.
    """
    if not model.network_class.endswith("ForSequenceClassification"):
        return False
    present = [folded(label) for label in labels_of(model.backend.network.config)]
    return len(labels) == len(present) and (len(labels) == 1 or {folded(label) for label in labels} == set(present))


def renew_head(network: PreTrainedModel, seed: int) -> None:
    """Reinitialise the head of a classifier from a seed, in place."""
    with quiet_transformers():
        fresh = seeded(seed, lambda: type(network)(deepcopy(network.config)))
    state = {name: tensor for name, tensor in fresh.state_dict().items() if is_of_head(network, name)}
    network.load_state_dict(state, strict=False)


def is_of_head(network: PreTrainedModel, name: str) -> bool:
    """Return whether a parameter of a classifier belongs to its head or its pooler."""
    body = f"{network.base_model_prefix}."
    return not name.startswith(body) or name.startswith(f"{body}pooler.")


def refuse_hooks(model: Model) -> None:
    """Reject a network with hooks that the checkpoint of a training would not contain, and an exported graph.

    Raises:
        NotApplicableError: the network has such hooks, or is a graph.
    """
    if model.backend.runtime is not None:
        raise NotApplicableError(
            f"{model.name} is an exported graph, which cannot be trained; give the checkpoint that it was exported from"
        )
    if has_unsaved_hooks(model.backend.network):
        raise NotApplicableError(
            f"{model.name} projects hidden layers by the hooks of projecting_layers, which checkpoints do not contain;"
            " use project_layers"
        )


def _classifier(model: Model, labels: Sequence[str], seed: int) -> PreTrainedModel:
    """Return the sequence classifier of a model's architecture, with the model's weights."""
    import transformers

    auto: Any = transformers.AutoModelForSequenceClassification  # its methods have no types
    body = model.backend.network.base_model
    config = deepcopy(model.backend.network.config)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: i for i, label in enumerate(labels)}
    config.problem_type = REGRESSION if len(labels) == 1 else CLASSIFICATION
    try:
        with quiet_transformers():
            network = seeded(seed, lambda: auto.from_config(config, dtype=model.backend.network.dtype))
    except ValueError:
        raise NotApplicableError(
            f"{model.name} ({type(model.backend.network).__name__}): transformers has no sequence classifier of this"
            " architecture"
        ) from None
    keys = network.base_model.load_state_dict(body.state_dict(), strict=False)
    missing = [name for name in keys.missing_keys if not name.startswith("pooler.")]
    unexpected = [name for name in keys.unexpected_keys if not name.startswith("pooler.")]
    if missing or unexpected:
        raise ModelError(
            f"the body of {model.name} is not that of {type(network).__name__}: {(missing + unexpected)[0]} is in one"
            " of them only"
        )
    # An encoder that was saved without its pooler has one with random weights from loading.
    if "ForSequenceClassification" not in type(model.backend.network).__name__:
        seeded(seed, lambda: _renew_pooler(network))
    network.config.architectures = [type(network).__name__]
    classifier: PreTrainedModel = network.to(model.backend.network.device).eval()
    copy_projections(model.backend.network, classifier)
    return classifier


def _renew_pooler(network: PreTrainedModel) -> None:
    for name, module in network.base_model.named_children():
        if name == "pooler":
            module.apply(network._init_weights)


def seeded(seed: int, make: Callable[[], Made]) -> Made:
    """Return the result of a function that runs with torch's generator seeded, and restore the generator."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def _padding(model: Model) -> PreTrainedTokenizerBase:
    """Return the model's tokenizer if it pads on the right, else a copy that does."""
    tokenizer: PreTrainedTokenizerBase = model.backend.tokenizer
    if tokenizer.pad_token is not None and tokenizer.padding_side == "right":
        return tokenizer
    tokenizer = deepcopy(tokenizer)
    tokenizer.padding_side = "right"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token is None:
        raise ModelError(f"the tokenizer of {model.name} has no token for padding; save it with pad_token set")
    return tokenizer
