"""New weights from a seed: sequence classifiers and scorers of coreference on an encoder, vocabulary heads, and whole
networks; and the device that networks are made on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pytest_genderbias.errors import ModelError, NotApplicableError, SettingError
from pytest_genderbias.models.checkpoints import pick_device
from pytest_genderbias.models.config import PROJECTED_LAYERS, labels_of
from pytest_genderbias.models.fingerprint import fingerprint_network, fingerprint_tokenizer
from pytest_genderbias.models.hidden_layers import copy_projections
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.roles import Role, classifier_role, coreference_role
from pytest_genderbias.models.saving import copied
from pytest_genderbias.models.source import SPLIT, quiet_transformers
from pytest_genderbias.text.normal_form import folded

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.utils.hooks import RemovableHandle
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
        NotApplicableError: the model is not a checkpoint of weights, or its architecture has no classifier.
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
    with quiet_transformers():
        network = seeded(seed, lambda: make(deepcopy(model.backend.network.base_model.config)))
    _take_body(model, network)
    return _placed_like(model, network)


def _take_body(model: Model, network: PreTrainedModel) -> None:
    """Give a network the weights of a model's body."""
    keys = network.base_model.load_state_dict(model.backend.network.base_model.state_dict(), strict=False)
    different = [name for name in (*keys.missing_keys, *keys.unexpected_keys) if not name.startswith("pooler.")]
    if different:
        raise ModelError(
            f"the body of {model.name} is not that of {type(network).__name__}, as transformers makes it of its config:"
            f" {different[0]} is in one of them only"
        )


def _placed_like(model: Model, network: Network) -> Network:
    """Return a network with the device, the number format and the projections of a model's."""
    body = model.backend.network.base_model
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
        NotApplicableError: there is none, or it is not a checkpoint of weights.
    """
    if model is None or not model.network_class:
        reason = "no model was given" if model is None else f"{model.name} is none"
        raise NotApplicableError(f"a head is trained on a transformers checkpoint, and {reason}")
    refuse_graph(model)
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


def refuse_graph(model: Model) -> None:
    """Reject an exported graph, whose weights no training can change.

    Raises:
        NotApplicableError: the model is one.
    """
    if model.backend.runtime is not None:
        raise NotApplicableError(
            f"{model.name} is an exported graph, which cannot be trained; give the checkpoint that it was exported from"
        )


def _classifier(model: Model, labels: Sequence[str], seed: int) -> PreTrainedModel:
    """Return the sequence classifier of a model's architecture, with the model's weights."""
    import transformers

    auto: Any = transformers.AutoModelForSequenceClassification  # its methods have no types
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
    _take_body(model, network)
    # An encoder that was saved without its pooler has one with random weights from loading.
    if "ForSequenceClassification" not in type(model.backend.network).__name__:
        pooler = getattr(network.base_model, "pooler", None)
        if pooler is not None:
            seeded(seed, lambda: pooler.apply(network._init_weights))
    classifier: PreTrainedModel = _placed_like(model, network)
    return classifier


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


#: Entries of a config that follow from the sizes; a config of other sizes computes them anew.
_DERIVED = ("head_dim", "num_key_value_heads", "layer_types", "mlp_layer_types", "pooler_hidden_size")


def new_network(
    network: PreTrainedModel,
    seed: int,
    layers: int | None = None,
    hidden_size: int | None = None,
    heads: int | None = None,
) -> PreTrainedModel:
    """Return a network of the same class with random weights, in single precision, on the same device.

    The initialisation is that of transformers for the architecture. If ``hidden_size`` changes, the inner size of the
    layers changes in proportion, and the number of heads so that a head keeps its size.

    Args:
        network: a network, whose class and config are taken, but no weight; it stays as it is.
        seed: seed of the weights.
        layers: number of layers; ``None``: as many.
        hidden_size: size of the hidden states; ``None``: the same.
        heads: number of attention heads; ``None``: see above.

    Raises:
        SettingError: the architecture cannot have these sizes.
    """
    config = _config_of(network.config, layers, hidden_size, heads)
    kind: Any = type(network)
    try:
        with quiet_transformers():
            made: Any = seeded(seed, lambda: kind(config))
    except (ValueError, TypeError, RuntimeError, AssertionError) as error:
        raise SettingError(
            f"{kind.__name__} cannot have {config.num_hidden_layers} layers of {config.hidden_size} with"
            f" {config.num_attention_heads} heads: {' '.join(str(error).split())}"
        ) from error
    on_device: PreTrainedModel = made.to(network.device).eval()
    return on_device


def _config_of(
    given: PreTrainedConfig, layers: int | None, hidden_size: int | None, heads: int | None
) -> PreTrainedConfig:
    """Return a config of other sizes; entries that follow from them are computed anew."""
    if layers is None and hidden_size is None and heads is None:
        config = deepcopy(given)
    else:
        width, size = given.hidden_size, hidden_size or given.hidden_size
        head = width // given.num_attention_heads
        if heads is None and size % head:
            raise SettingError(
                f"hidden_size={size} is not a multiple of {head}, the size of a head; choose a multiple, or set heads"
            )
        values = {key: value for key, value in given.to_dict().items() if key not in _DERIVED}
        inner = getattr(given, "intermediate_size", None)
        sizes = {
            "num_hidden_layers": layers or given.num_hidden_layers,
            "hidden_size": size,
            "num_attention_heads": heads or size // head,
            **({"intermediate_size": inner * size // width} if inner else {}),
        }
        names = given.attribute_map
        config = type(given).from_dict(values | {names.get(name, name): value for name, value in sizes.items()})
        if size % config.num_attention_heads:
            raise SettingError(
                f"hidden_size={size} cannot be shared by {config.num_attention_heads} heads; choose a multiple"
            )
    config.dtype = "float32"
    vars(config).pop(PROJECTED_LAYERS, None)  # a network that is made of the config has no projection
    return config


UNLABELLED = -100  #: label of positions that the loss ignores, as in transformers
_NEAR = 1e-4


@contextmanager
def head_at_labels(network: PreTrainedModel) -> Iterator[bool]:
    """Make a network compute its vocabulary head at labelled positions only: with 15 % masked, this saves most work of
    a small network.

    The loss is equal up to rounding. The returned logits are those of the labelled positions, row by row: shape (1,
    labels, vocabulary). First a batch is passed both ways. If the losses differ, or the architecture does not compute
    its head from the last hidden state, the network is left unchanged. Yields whether it was changed.
    """
    equal = _has_equal_loss(network)
    handles = _hooks(network) if equal else []
    try:
        yield equal
    finally:
        for handle in handles:
            handle.remove()


def _hooks(network: PreTrainedModel) -> list[RemovableHandle]:
    places: list[tuple[Tensor, ...]] = []

    def take_labels(module: Module, args: object, fed: dict[str, Any]) -> tuple[object, dict[str, Any]]:
        labels = fed.get("labels")
        places[:] = [] if labels is None else [(labels != UNLABELLED).nonzero(as_tuple=True)]
        return args, fed if labels is None else {**fed, "labels": labels[places[0]][None]}

    def keep(module: Module, args: object, output: Any) -> Any:
        if not places:  # not called for a loss
            return output
        where = places.pop()
        output.last_hidden_state = output.last_hidden_state[where][None]
        return output

    def forget(module: Module, args: object, output: object) -> None:
        places.clear()  # a call of the encoder alone between two steps then returns all vectors

    return [
        network.register_forward_pre_hook(take_labels, with_kwargs=True),
        network.base_model.register_forward_hook(keep),
        network.register_forward_hook(forget),
    ]


def _has_equal_loss(network: PreTrainedModel) -> bool:
    """Return whether the loss at some labels is the same with hooks and without."""
    import torch

    ids = (torch.arange(16) * 7919 % int(network.config.vocab_size)).reshape(2, 8).to(network.device)
    labels = torch.where(torch.arange(16).reshape(2, 8).to(ids.device) % 5 == 2, ids, UNLABELLED)
    training, module = network.training, cast("Module", network)
    module.eval()
    handles: list[RemovableHandle] = []
    try:
        with torch.no_grad():
            whole = network(input_ids=ids, labels=labels)
            handles = _hooks(network)
            short = network(input_ids=ids, labels=labels)
        right_shape = short.logits.shape[:2] == (1, int((labels != UNLABELLED).sum()))
        return bool(right_shape and torch.allclose(whole.loss, short.loss, rtol=_NEAR, atol=_NEAR))
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError):
        return False
    finally:
        for handle in handles:
            handle.remove()
        network.train(training)


def renew_vocabulary_head(network: PreTrainedModel, seed: int) -> None:
    """Reinitialise a vocabulary head from a seed, in place: the modules between the encoder and the output layer, and
    its bias.

    The weights of the output layer are kept: they are, or were, the input embeddings.

    Raises:
        NotApplicableError: there are no such modules, as in most causal LMs.
    """
    import torch

    output: Module = network.get_output_embeddings()  # type: ignore[no-untyped-call]
    unchanged = {id(layer.get_parameter("weight")) for layer in (network.get_input_embeddings(), output)}
    body = f"{network.base_model_prefix}."
    names = [n for n, p in network.named_parameters() if not n.startswith(body) and id(p) not in unchanged]
    if not names:
        raise NotApplicableError(
            f"{type(network).__name__} has only an output layer and no head to retrain; measure the head of a task"
            " instead"
        )
    with quiet_transformers(), torch.no_grad():
        fresh = seeded(seed, lambda: type(network)(deepcopy(network.config)))
        for name in names:
            network.get_parameter(name).copy_(fresh.get_parameter(name))


_DEVICE: ContextVar[str] = ContextVar("device", default="auto")


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Make networks on a torch device inside; ``auto`` is a GPU if there is one.

    Raises:
        SettingError: the device is ``split``.
    """
    if device == SPLIT:
        raise SettingError(f"--bias-device={SPLIT} is for measuring; a training needs one device, as cuda:0 or cpu")
    before = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(before)


def device_for_new() -> str:
    """Return the torch device of a network that is made now.

    >>> with on_device("cuda:1"):
    ...     device_for_new()
    'cuda:1'
    """
    return pick_device(_DEVICE.get())
