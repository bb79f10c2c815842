"""The networks of this package by the ``model_type`` of a ``config.json``; their classes are in the room that trains
them.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

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
def register(model_type: str) -> None:
    """Register a network of this package with transformers' Auto classes, so that ``load_model`` reads its folder like
    any other.

    Other model types are ignored.
    """
    if model_type in _MODULES:
        import_module(f"pytest_genderbias.recipes.networks.{_MODULES[model_type]}").register()
