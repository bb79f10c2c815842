"""Classification networks: the weights of a network that is at hand, and a head made from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.models.fingerprint import fingerprint_network, fingerprint_tokenizer
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import classifier_role
from pytest_genderbias.models.saving import HOOKED, copied
from pytest_genderbias.models.transformers_logging import quiet_transformers

REGRESSION, CLASSIFICATION = "regression", "single_label_classification"


def with_head(model: Model | None, labels: Sequence[str], seed: int) -> Model:
    """Return a copy of a network as a sequence classifier; a classifier of the same labels, in any order and case, keeps its head.

    The weights below the head are those of the model, bit for bit. The pooler of BERT and ALBERT counts as head: masked LMs have none,
    encoders may have been saved without. A tokenizer without padding (GPT-2, Llama) pads with the token that ends a text.

    Args:
        model: any checkpoint of an architecture that transformers has a sequence classifier of.
        labels: of the outputs, in their order; a single one makes a regressor.
        seed: of the head.

    Raises:
        NotApplicableError: the model is no checkpoint, its architecture has no classifier, or hooks change its hidden layers.
        ModelError: the classifier's body has weights that the model lacks.
    """
    if model is None or not isinstance(model.backend, Checkpoint):
        given = "no model was given" if model is None else f"{model.name} is none"
        raise NotApplicableError(f"a head is trained on a transformers checkpoint, and {given}")
    refuse_hooks(model)
    tokenizer = _padding(model)
    network = copied(model.backend.network) if has_labels(model, labels) else _classifier(model, labels, seed)
    network.config.pad_token_id = tokenizer.pad_token_id
    names = [str(network.config.id2label[i]) for i in range(network.config.num_labels)]
    backend = replace(model.backend, network=network, tokenizer=tokenizer, pooling=None)
    told = {key: value for key, value in model.details.items() if key not in ("pooling", "max_length")}
    details = {**told, "architecture": type(network).__name__}
    fingerprint = fingerprint_network(network, fingerprint_tokenizer(tokenizer), {})
    return replace(model, role=classifier_role(names), fingerprint=fingerprint, details=details, backend=backend)


def has_labels(model: Model, labels: Sequence[str]) -> bool:
    """Tell whether a model is a sequence classifier of these labels, in any order and case; of one output, whatever it is called."""
    network = getattr(model.backend, "network", None)
    if network is None or not type(network).__name__.endswith("ForSequenceClassification"):
        return False
    present = [str(label).casefold() for label in network.config.id2label.values()]
    return len(labels) == len(present) and (len(labels) == 1 or {one.casefold() for one in labels} == set(present))


def renew_head(network: Any, seed: int) -> None:
    """Put a new head, made from a seed, in place of the one that a classifier has."""
    with quiet_transformers():
        fresh = seeded(seed, lambda: type(network)(deepcopy(network.config)))
    state = {name: tensor for name, tensor in fresh.state_dict().items() if is_of_head(network, name)}
    network.load_state_dict(state, strict=False)


def is_of_head(network: Any, name: str) -> bool:
    """Tell whether a parameter of a classifier is its head's, or its pooler's."""
    body = f"{network.base_model_prefix}."
    return not name.startswith(body) or name.startswith(f"{body}pooler.")


def refuse_hooks(model: Model) -> None:
    """Refuse a network whose hidden layers are changed by hooks: a checkpoint that is trained would come without them.

    Raises:
        NotApplicableError: it is one.
    """
    if any(hasattr(module, HOOKED) for module in model.backend.network.modules()):
        raise NotApplicableError(
            f"{model.name} projects hidden layers by hooks, which no checkpoint keeps: it can be measured, not trained"
        )


def _classifier(model: Model, labels: Sequence[str], seed: int) -> Any:
    """Return the classifier of a model's architecture, with the model's weights."""
    import transformers

    body = model.backend.network.base_model
    config = deepcopy(model.backend.network.config)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: i for i, label in enumerate(labels)}
    config.problem_type = REGRESSION if len(labels) == 1 else CLASSIFICATION
    auto: Any = transformers.AutoModelForSequenceClassification
    try:
        with quiet_transformers():
            network = seeded(seed, lambda: auto.from_config(config, dtype=model.backend.network.dtype))
    except ValueError:
        raise NotApplicableError(
            f"{model.name} ({type(model.backend.network).__name__}): transformers has no sequence classifier of this architecture"
        ) from None
    found = network.base_model.load_state_dict(body.state_dict(), strict=False)
    lacking = [name for name in found.missing_keys if not name.startswith("pooler.")]
    foreign = [name for name in found.unexpected_keys if not name.startswith("pooler.")]
    if lacking or foreign:
        raise ModelError(
            f"the body of {model.name} is not that of {type(network).__name__}: {(lacking + foreign)[0]} is in one of them only"
        )
    # An encoder may have been saved without its pooler, and then has one that was made up when it was loaded.
    if "ForSequenceClassification" not in type(model.backend.network).__name__:
        seeded(seed, lambda: _renew_pooler(network))
    network.config.architectures = [type(network).__name__]
    return network.to(model.backend.network.device).eval()


def _renew_pooler(network: Any) -> None:
    pooler = getattr(network.base_model, "pooler", None)
    if pooler is not None:
        pooler.apply(network._init_weights)


def seeded(seed: int, make: Any) -> Any:
    """Return what a function makes by torch's generator from a seed, and leave the generator as it was."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def _padding(model: Model) -> Any:
    """Return the model's tokenizer, or a copy that pads, on the right."""
    tokenizer = model.backend.tokenizer
    if tokenizer.pad_token is not None and tokenizer.padding_side == "right":
        return tokenizer
    tokenizer = deepcopy(tokenizer)
    tokenizer.padding_side = "right"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token is None:
        raise ModelError(f"the tokenizer of {model.name} has no token to pad with; save it with pad_token set")
    return tokenizer
