"""Entries of transformers configs, which each architecture names in its own way: sizes, labels, the role of a model,
and the reader of its quantised weights. The networks of this package are listed by their ``model_type``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.roles import (
    CAUSAL_LM,
    ENCODER,
    MASKED_LM,
    OTHER,
    TEXT_CLASSIFIER,
    Role,
    classifier_role,
    coreference_role,
)
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

#: Pre-training classes that carry a masked-LM head (ELECTRA's does not).
_PRETRAINING = {"BertForPreTraining", "AlbertForPreTraining", "MobileBertForPreTraining", "MegatronBertForPreTraining",
                "ErnieForPreTraining", "BigBirdForPreTraining", "NezhaForPreTraining",
                "FNetForPreTraining"}  # fmt: skip
#: Names of the hidden size in transformers configs.
SIZES = ("hidden_size", "d_model", "dim", "n_embd")
#: Names of the most tokens in a row, beside aliases.
_POSITIONS = ("max_position_embeddings", "max_seq_len")
#: Config entry: the numbers of the projected hidden layers, one list a projection.
PROJECTED_LAYERS = "genderbias_projected_layers"
PROJECTIONS = "genderbias_projections"  #: attribute of a network: its projections, in the order of their adding
QUANTISED = "weights quantised by "  #: what the weights are called in errors, before the method
#: By method, the modules that transformers reads it with, each with the package that has it. Methods without an entry
#: need none, or a GPU.
_PACKAGES: dict[str, dict[str, str]] = {
    "bitsandbytes": {"bitsandbytes": "bitsandbytes", "accelerate": "accelerate"},
    "gptq": {"gptqmodel": "gptqmodel", "optimum": "optimum"},
    "awq": {"gptqmodel": "gptqmodel"},
    "torchao": {"torchao": "torchao"},
    "compressed-tensors": {"compressed_tensors": "compressed-tensors"},
    "quanto": {"optimum.quanto": "optimum-quanto"},
    "hqq": {"hqq": "hqq"},
    "eetq": {"kernels": "kernels"},
    "aqlm": {"aqlm": "aqlm[cpu,gpu]"},
    "vptq": {"vptq": "vptq"},
    "auto-round": {"auto_round": "auto-round"},
    "quark": {"quark": "amd-quark"},
}


def promised_positions(config: PreTrainedConfig) -> list[int]:
    """Return the most tokens in a row, by each entry of a config that names them; the network may have more or fewer
    positions.
    """
    return [most for name in _POSITIONS if isinstance(most := getattr(config, name, None), int)]


def hidden_size(config: PreTrainedConfig) -> int | None:
    """Return the size of the hidden states of a network's encoder or text part, or ``None`` if the config does not have
    it.
    """
    from transformers import PreTrainedConfig

    encoder = getattr(config, "encoder", None)
    text = (encoder if isinstance(encoder, PreTrainedConfig) else config).get_text_config()
    return next((size for name in SIZES if isinstance(size := getattr(text, name, None), int) and size), None)


def encoder_width(config: PreTrainedConfig) -> int:
    """Return the hidden size of an encoder below a head of this package.

    Raises:
        ValueError: the config does not have it.
    """
    width = hidden_size(config)
    if width is None:
        raise ValueError(
            f"the config of the encoder has no hidden size; expected one of the entries {', '.join(SIZES)}"
        )
    return width


def labels_of(config: PreTrainedConfig) -> tuple[str, ...]:
    """Return the labels of a classifier in the order of its outputs; empty without any."""
    names = getattr(config, "id2label", None)
    labels = {int(i): str(label) for i, label in names.items()} if isinstance(names, dict) else {}
    return tuple(labels[i] for i in sorted(labels))


def role_of_config(config: PreTrainedConfig) -> Role:
    """Return the role of a model by the architectures and labels of its config.

    Raises:
        ModelError: the config names a causal head on an encoder that reads in both directions.
    """
    architectures = config.architectures or []
    classes, is_decoder = set(architectures), bool(getattr(config, "is_decoder", None))
    if scorers := ARCHITECTURES["coreference"] & classes:
        return coreference_role(min(scorers))
    networks = _networks_by_head()
    found = {
        head for head, by_type in networks.items() if classes & {*chain.from_iterable(map(_names, by_type.values()))}
    }
    is_causal = CAUSAL_LM in found or bool(ARCHITECTURES["causal"] & classes)
    if (MASKED_LM in found or classes & _PRETRAINING) and not (is_causal and is_decoder):
        return Role(MASKED_LM, "a masked LM")
    if is_causal:
        if not is_decoder and config.model_type in networks[MASKED_LM]:
            raise ModelError(
                f"{', '.join(architectures)} with is_decoder off reads the words on both sides, so it gives no"
                " probability of a next word; save it with is_decoder: true if it was trained that way"
            )
        return Role(CAUSAL_LM, "a causal LM")
    if "classifier" in found or any(name.endswith("ForSequenceClassification") for name in classes):
        return classifier_role(labels_of(config))
    if ENCODER in found:
        return Role(ENCODER, "an encoder without a head")
    return Role(OTHER, f"of the class {', '.join(architectures) or 'that its config does not name'}")


def _networks_by_head() -> dict[str, Mapping[str, str | Sequence[str]]]:
    """Return the classes of transformers' networks with each head, by the type of the network."""
    from transformers.models.auto import modeling_auto as auto

    return {
        MASKED_LM: auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        CAUSAL_LM: auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        "classifier": auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        ENCODER: auto.MODEL_MAPPING_NAMES,
    }


def _names(classes: str | Sequence[str]) -> Sequence[str]:
    return [classes] if isinstance(classes, str) else classes


def class_with_head(config: PreTrainedConfig, head: str) -> str | None:
    """Return the class that transformers has for a type of network with a head, one of
    :data:`~pytest_genderbias.models.spec.HEADS`; ``None`` if it has none.
    """
    return next(iter(_names(_networks_by_head()[head].get(config.model_type, ()))), None)


def name_head(config: PreTrainedConfig, head: str, name: str) -> None:
    """Write the architecture with a head into a config that names none. A config that names one of the same role is
    left as it is.

    Args:
        config: the config.
        head: one of :data:`~pytest_genderbias.models.spec.HEADS`.
        name: the model's name, for messages.

    Raises:
        ModelError: the config names an architecture of another role, or transformers has none with this head.
    """
    if config.architectures:
        role = role_of_config(config)
        if role.kind != head and not (head == "classifier" and role.labels):
            raise ModelError(
                f"the config of {name} names the architecture {', '.join(config.architectures)}, {role.text}, and"
                f" head={head} asks for another; leave head= out, or correct architectures in config.json"
            )
        return
    known = class_with_head(config, head)
    if known is None:
        raise ModelError(
            f"{name} is of the type {config.model_type}, of which transformers has no network for head={head}"
        )
    config.architectures = [known]


def role_of_gguf(config: PreTrainedConfig, name: str) -> Role:
    """Return the role of a GGUF file, a causal LM. A GGUF file names no class, so transformers needs one for its
    architecture.

    Raises:
        ModelError: transformers has no causal LM of this architecture.
    """
    if class_with_head(config, CAUSAL_LM) is None or getattr(config, "is_encoder_decoder", None):
        raise ModelError(
            f"{name} is a GGUF file of the architecture {config.model_type}; only causal LMs are read from GGUF: give a"
            " checkpoint as save_pretrained() writes it"
        )
    return Role(CAUSAL_LM, "a causal LM")


def settled_role(role: Role, config: PreTrainedConfig, name: str, labels: Sequence[str] | None) -> Role:
    """Return the role with the labels that the user named, if any; refuse a model without a known head or meaningful
    labels.

    Args:
        role: the role according to the config.
        config: the config, for messages.
        name: the model's name, for messages.
        labels: names of a classifier's outputs in their order, instead of those of the config.

    Raises:
        ModelError: ``labels`` does not name every output; the outputs have numbers for names (``LABEL_0``); the network
            has no head that can be scored.
    """
    if labels is not None and role.labels:
        if len(labels) != len(role.labels):
            raise ModelError(f"{name} has {len(role.labels)} outputs, --bias-labels names {len(labels)}")
        role = classifier_role(labels)
    if role.kind == TEXT_CLASSIFIER and all(re.fullmatch(r"label_\d*", label.lower()) for label in role.labels):
        raise ModelError(
            f"{name} does not say what its outputs mean: its labels are {', '.join(labels_of(config))}; name them in"
            " their order, as in --bias-labels=entailment,neutral,contradiction for NLI (labels=[...] in Python,"
            " id2label in the config)"
        )
    if role.kind == OTHER and not role.labels:
        raise ModelError(
            f"{name} has no head that can be scored: it is {role.text}; expected "
            "an encoder, or a network with a head: ...ForMaskedLM, ...ForCausalLM or ...ForSequenceClassification"
        )
    return role


def quantisation_method(config: PreTrainedConfig) -> str | None:
    """Return the method that a config says its weights were quantised by; ``None`` for weights that are not."""
    settings = getattr(config, "quantization_config", None)
    if settings is None:
        return None
    known = settings if isinstance(settings, Mapping) else vars(settings)
    method = known.get("quant_method")
    if method is None and (known.get("load_in_8bit") or known.get("load_in_4bit")):
        return "bitsandbytes"  # which did not name itself at first
    return str(getattr(method, "value", method) or "a method that it does not name")


def require_library(config: PreTrainedConfig, name: str) -> None:
    """Refuse quantised weights whose library is not installed, or whose method transformers would ignore.

    Raises:
        ModelError: either.
    """
    method = quantisation_method(config)
    if method is None:
        return
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    named = f"{name} has weights that were quantised by {brief(method)} (quantization_config in config.json)"
    known = {*AUTO_QUANTIZATION_CONFIG_MAPPING, "bitsandbytes"}
    if method not in known:
        raise ModelError(
            f"{named}, which this transformers does not know, so that their numbers would be taken as they are;"
            f" expected one of {', '.join(sorted(known))}: give a checkpoint of another method, or an object that loads"
            " it (module:callable)"
        )
    missing = [package for module, package in _PACKAGES.get(method, {}).items() if not _is_installed(module)]
    if missing:
        raise ModelError(
            f"{named}, which transformers reads with {' and '.join(missing)}, not installed here: pip install"
            f" {' '.join(repr(package) if '[' in package else package for package in missing)}"
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False


#: Modules by the values of ``model_type`` in the ``config.json`` of these networks.
_MODULES = {
    "word-lstm": "word_lstm",
    "decomposable-attention": "decomposable_attention",
    "edge-probing": "mention_scorers",
    "span-coreference": "mention_scorers",
}
#: Class names by kind, beside those in transformers' lists. Classifiers are recognised by the ending of their name.
ARCHITECTURES = {
    "causal": frozenset({"WordLstmForCausalLM"}),
    "coreference": frozenset({"EdgeProbingModel", "SpanCoreferenceModel"}),
}


@cache
def register_network(model_type: str) -> None:
    """Register a network of this package with transformers' Auto classes, so that ``load_model`` reads its folder like
    any other.

    Other model types are ignored.
    """
    if model_type in _MODULES:
        import_module(f"pytest_genderbias.recipes.networks.{_MODULES[model_type]}").register()
