"""Load a checkpoint's tokenizer and weights, and check them."""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.fingerprint import fingerprint_network, fingerprint_tokenizer
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import CAUSAL_LM, COREFERENCE_SCORER, ENCODER, MASKED_LM
from pytest_genderbias.models.sentence_encoders import own_sentences
from pytest_genderbias.models.source import LoadSettings, ModelSource, explain, read_arguments
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.models.transformers_logging import quiet_transformers


def load_checkpoint(source: ModelSource, settings: LoadSettings) -> Model:
    """Load the tokenizer and the weights of a checkpoint, and check them.

    Raises:
        ModelError: a part is missing or damaged, a weight is NaN or infinite, a masked LM has no mask token, or the device cannot be used.
    """
    import torch

    spec = source.spec
    tokenizer = _load_tokenizer(spec, settings)
    network = _load_network(source, settings)
    if source.role.kind == MASKED_LM and tokenizer.mask_token_id is None:
        raise ModelError(
            f"{spec.name} is a masked LM, but its tokenizer has no mask token; save the tokenizer with mask_token set"
        )
    device = _pick_device(settings.device)
    try:
        network = _aligned(network.to(device).eval())
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
    for name, tensor in network.named_parameters():
        if not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"{spec.name} has NaN or infinite weights (first: {name}); train or save it again")
    tokenizer_print = fingerprint_tokenizer(tokenizer)
    sentences = own_sentences(spec, settings)
    details = {
        "architecture": type(network).__name__,
        "tokenizer": tokenizer_print[:16],
        "dtype": settings.dtype,
        "device": torch.device(device).type,
        **sentences.facts,
    }
    longest = longest_row(network.config, tokenizer, sentences.longest)
    checkpoint = Checkpoint(network, tokenizer, device, longest, sentences.pooling)
    fingerprint = fingerprint_network(network, tokenizer_print, sentences.facts)
    return Model(spec.name, spec.spec, source.role, fingerprint, details, checkpoint)


def _load_tokenizer(spec: ModelSpec, settings: LoadSettings) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(**read_arguments(spec, settings))
    except Exception as error:
        raise explain(error, spec, "tokenizer") from None
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):  # transformers makes one up, without any word
        raise ModelError(
            f"{spec.name} comes without its tokenizer's vocabulary; save the tokenizer beside the weights (tokenizer.json)"
        )
    return tokenizer


def _load_network(source: ModelSource, settings: LoadSettings) -> Any:
    import torch
    import transformers
    from safetensors import SafetensorError

    classes = {
        MASKED_LM: transformers.AutoModelForMaskedLM,
        CAUSAL_LM: transformers.AutoModelForCausalLM,
        ENCODER: transformers.AutoModel,
        COREFERENCE_SCORER: transformers.AutoModel,
    }
    auto: Any = classes.get(source.role.kind, transformers.AutoModelForSequenceClassification)
    try:
        with quiet_transformers(), torch.random.fork_rng(devices=[]):  # lacking weights are drawn
            network, info = auto.from_pretrained(
                config=source.config,
                dtype=getattr(torch, settings.dtype),
                output_loading_info=True,
                **read_arguments(source.spec, settings),
            )
    except (
        OSError,
        ValueError,
        TypeError,
        LookupError,
        RuntimeError,
        SafetensorError,
        ImportError,
        UnpicklingError,
    ) as error:
        raise explain(error, source.spec, "weights") from None
    missing = sorted({*info["missing_keys"], *(str(key[0]) for key in info["mismatched_keys"])})
    if source.role.kind == ENCODER:  # the pooler is read by nobody
        made_up = [name for name in missing if name.startswith("pooler.")]
        missing = [name for name in missing if name not in made_up]
        with torch.no_grad():  # random numbers would give the model another fingerprint each time
            for name in made_up:
                network.get_parameter(name).zero_()
    if missing:
        raise ModelError(
            f"{source.spec.name} lacks weights that its architecture {type(network).__name__} scores with: "
            f"{', '.join(missing[:4])}{' ...' if len(missing) > 4 else ''} ({len(missing)} in all); they would be random, so nothing is "
            "measured: save the checkpoint with its trained head"
        )
    return network


def _aligned(network: Any) -> Any:
    """Give weights that lie askew in a mapped file a place of their own: at another address torch adds them up in another order.

    So one and the same weight gives one and the same score, from whichever file it was read.
    """
    for tensor in network.parameters():
        if tensor.data_ptr() % 64:
            tensor.data = tensor.data.clone()
    return network


def longest_row(config: Any, tokenizer: Any, own: Any) -> int | None:
    """Return the tokens that fit: RoBERTa's positions begin behind the padding's, which only the tokenizer's limit shows."""
    limits = [getattr(config, "max_position_embeddings", None), tokenizer.model_max_length, own]
    sane = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 10**6]
    return min(sane, default=None)


def _pick_device(device: str) -> str:
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device
