"""Facts of a checkpoint that are known without its network. They are computed once, from a loaded one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_genderbias.models.config import entry, hidden_size
from pytest_genderbias.models.fingerprint import fingerprint_reading
from pytest_genderbias.models.model import BareTokenizer, Checkpoint, CheckpointFacts, bare_content
from pytest_genderbias.models.objects import is_network

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MOST_IDS = 1 << 31  #: of a network that does not say how many it has


def facts_of(checkpoint: Checkpoint) -> CheckpointFacts:
    """Return what runs from the score cache ask of a loaded checkpoint."""
    network, tokenizer = checkpoint.network, checkpoint.tokenizer
    content = bare_content(tokenizer)
    return CheckpointFacts(
        fingerprint_reading(checkpoint),
        vocabulary_size(checkpoint),
        hidden_size(network.config),
        _input_width(network),
        None if content is None else BareTokenizer.of_text(content, tokenizer.unk_token),
    )


def _input_width(network: PreTrainedModel) -> int | None:
    """Return the size of a network's input embeddings; ``None`` for one without a table of them."""
    try:
        return int(network.get_input_embeddings().get_parameter("weight").shape[1])
    except (AttributeError, NotImplementedError):
        return None


def vocabulary_size(checkpoint: Checkpoint) -> int:
    """Return the number of token ids that a network knows; of one that does not say, a number above all ids."""
    if checkpoint.facts is not None:
        return checkpoint.facts.vocabulary_size
    network = checkpoint.network
    size = entry(network.config.get_text_config(), "vocab_size") if is_network(network) else None
    return size if isinstance(size, int) else _MOST_IDS
