"""Natural language inference over static word vectors: dev2019's decomposable attention with a BiLSTM encoder, trained
on SNLI.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar

import numpy as np

from pytest_genderbias.datasets.gold_pairs import read_inference
from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.objects import wrap_network
from pytest_genderbias.models.protocols import WORD_VECTORS
from pytest_genderbias.models.vectors import WordVectors
from pytest_genderbias.recipes.fine_tuning import InferenceTuning
from pytest_genderbias.recipes.heads import device_for_new, seeded
from pytest_genderbias.recipes.recipe import EMBEDDINGS, NOTHING
from pytest_genderbias.text import packaged
from pytest_genderbias.text.schema import Positive, Rule, ShareOrNone


@dataclass(frozen=True)
class StaticInferenceTraining(InferenceTuning):
    """Decomposable attention over a BiLSTM encoder of word vectors, on SNLI or a labelled file of its form (dev2019,
    "Experimental Setup").

    It starts from a file of word vectors, ``mitigate(load_model("glove.6B.50d.txt"), ...)``. The vocabulary has the
    words of the data and of the packaged suites and word lists; all other words share the mean of the file's vectors
    (**choice**). ``hidden_size``: size of the encoder, both directions together, and of the layers after it.
    ``dropout``: between them. ``freeze_embeddings``: do not train the vectors, so that a projection before training
    persists (**choice**: dev2019 does so for ELMo, and does not say for GloVe); ``freeze`` takes its place if it
    freezes more. For other settings see :class:`~pytest_genderbias.recipes.fine_tuning.InferenceTuning`. dev2019: 300
    dimensions, all of SNLI, the best of 100 epochs.
    """

    name: ClassVar[str] = "static-nli"
    epochs: Positive = 10.0
    learning_rate: Positive | None = 1e-3
    hidden_size: Annotated[
        int, Rule("an even number, half of it for each direction of the encoder", minimum=2, multipleOf=2)
    ] = 200
    dropout: ShareOrNone = 0.2
    freeze_embeddings: bool = True

    def _identity(self) -> dict[str, object]:
        digest = hashlib.sha256("\0".join(_packaged_texts()).encode())  # their words are in the vocabulary
        return {**super()._identity(), "packaged": digest.hexdigest()[:16]}

    def start(self, model: Model | None, seed: int) -> Model:
        """Return a network over a model's word vectors, initialised from the seed. A network of this recipe is returned
        unchanged.

        Raises:
            NotApplicableError: the model is neither.
        """
        if model is not None and model.network_class.startswith("DecomposableAttention"):
            return model
        if model is None or not model.can(WORD_VECTORS):
            reason = "no model was given" if model is None else f"{model.name} is {model.role.text}"
            raise NotApplicableError(
                f"the recipe {self.name} starts from a file of word vectors, such as glove.6B.50d.txt, and {reason}"
            )
        return self._network_over(model.backend, seed, model.name)

    @property
    def _frozen(self) -> str | int:
        return EMBEDDINGS if self.freeze_embeddings and self.freeze == NOTHING else self.freeze

    def _network_over(self, vectors: WordVectors, seed: int, name: str) -> Model:
        """Return a network over the words of the data and of the packaged lists and suites that have a vector."""
        import torch

        from pytest_genderbias.recipes.networks import decomposable_attention as ours

        pairs = (pair for paths in self.files.values() for path in paths for pair in read_inference(path))
        texts = (text for *both, _ in pairs for text in both)
        of_data = _words(texts, vectors.lowercased)
        words = sorted((_packaged_words(vectors.lowercased) | of_data) & vectors.words.keys())
        matrix = np.concatenate([np.zeros((len(ours.SPECIAL), vectors.matrix.shape[1])), vectors.get(words)])
        matrix[ours.SPECIAL.index(ours.UNKNOWN)] = vectors.matrix.mean(axis=0, dtype=np.float64)
        rows, size = matrix.shape
        config = ours.DecomposableAttentionConfig(rows, size, hidden_size=self.hidden_size, dropout=self.dropout)
        network: Any = seeded(seed, lambda: ours.DecomposableAttentionForSequenceClassification(config))
        with torch.no_grad():
            network.get_input_embeddings().weight.copy_(torch.as_tensor(matrix))
        network.config.architectures = [type(network).__name__]
        network.to(device_for_new()).eval()
        return wrap_network(network, ours.make_tokenizer(words, vectors.lowercased), name)


def _words(texts: Iterable[str], lowercased: bool) -> frozenset[str]:
    from pytest_genderbias.recipes.networks import decomposable_attention as ours

    split = (ours.words_of(text.lower() if lowercased else text) for text in texts)
    return frozenset(word for of_text in split for word in of_text)


@cache
def _packaged_words(lowercased: bool) -> frozenset[str]:
    return _words(_packaged_texts(), lowercased)


def _packaged_texts() -> list[str]:
    """Return the raw texts of the packaged word lists and suites, so that none of their words is missed."""
    return [
        path.read_text(encoding="utf-8")
        for kind in ("wordlists", "fixtures")
        for path in sorted(packaged.folder(kind).glob("*.yaml"))
    ]
