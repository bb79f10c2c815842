"""Networks of our own, as ordinary transformers classes: what transformers has no class for, and papers showed mitigations on."""

from __future__ import annotations

from functools import cache
from importlib import import_module

_HOMES = {"word-lstm": "word_lstm", "decomposable-attention": "decomposable_attention", "edge-probing": "edge_probing"}
#: Model types in a ``config.json`` that are ours.
MODEL_TYPES = tuple(_HOMES)
#: Class names of ours by kind, where transformers' lists are asked; a name's ending tells a classifier.
ARCHITECTURES = {"causal": frozenset({"WordLstmForCausalLM"}), "coreference": frozenset({"EdgeProbingModel"})}


@cache
def register(model_type: str) -> None:
    """Make transformers' Auto classes know a network of ours, so that ``load_model`` reads a folder of it as any other.

    Another model type changes nothing.
    """
    if model_type in _HOMES:
        import_module(f"pytest_genderbias.models.networks.{_HOMES[model_type]}").register()
