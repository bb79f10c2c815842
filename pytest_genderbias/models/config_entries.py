"""Entries of transformers configs, which each architecture names in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

#: Names of the hidden size in transformers configs.
SIZES = ("hidden_size", "d_model", "dim", "n_embd")
#: Names of the most tokens in a row, beside aliases.
_POSITIONS = ("max_position_embeddings", "max_seq_len")


def entry(config: PreTrainedConfig, name: str) -> object:
    """Return an entry of a config, under its own name or an alias of its ``attribute_map``, or ``None``."""
    return getattr(config, name, None)  # each architecture has other entries


def promised_positions(config: PreTrainedConfig) -> list[int]:
    """Return the most tokens in a row, by each entry of a config that names them; the network may have more or fewer
    positions.
    """
    return [most for name in _POSITIONS if isinstance(most := entry(config, name), int)]


def hidden_size(config: PreTrainedConfig) -> int | None:
    """Return the size of the hidden states of a network's encoder or text part, or ``None`` if the config does not have
    it.
    """
    from transformers import PreTrainedConfig

    encoder = entry(config, "encoder")
    text = (encoder if isinstance(encoder, PreTrainedConfig) else config).get_text_config()
    return next((size for name in SIZES if isinstance(size := entry(text, name), int) and size), None)


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
    names = entry(config, "id2label")
    labels = {int(i): str(label) for i, label in names.items()} if isinstance(names, dict) else {}
    return tuple(labels[i] for i in sorted(labels))
