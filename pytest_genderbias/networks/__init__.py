"""Networks of our own, as ordinary transformers classes: what transformers has no class for, and papers showed mitigations on."""

from __future__ import annotations

from functools import cache

#: Model types in a ``config.json`` that are ours.
MODEL_TYPES = ("word-lstm", "decomposable-attention")


@cache
def register() -> None:
    """Make transformers' Auto classes know our networks, so that ``load_model`` reads a folder of theirs as any other."""
    from pytest_genderbias.networks import decomposable_attention, word_lstm

    word_lstm.register()
    decomposable_attention.register()
