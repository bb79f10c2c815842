"""The recipe that trains a word-level LSTM language model on a corpus from random weights (lu2018 section 4, bordia2019
section 3.4).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.objects import wrap_network
from pytest_genderbias.models.saving import copied, untie_output
from pytest_genderbias.recipes.heads import UNLABELLED, device_for_new, seeded
from pytest_genderbias.recipes.language_modelling import CorpusTraining
from pytest_genderbias.recipes.recipe import Performance, Row, Training
from pytest_genderbias.recipes.trainer import Prepared
from pytest_genderbias.scoring.network import Network
from pytest_genderbias.scoring.pseudo_likelihood import block_sums
from pytest_genderbias.scoring.tokens import RowEncoder
from pytest_genderbias.statistics.sums import perplexity_sums
from pytest_genderbias.text.schema import Count, Positive, Share, ShareOrNone, at_least
from pytest_genderbias.text.wordlist import load_wordlist

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Ids = NDArray[np.int64]

#: Lists of word pairs: the vocabulary has both words of a pair or none.
PAIR_LISTS = (
    "lu2018-pairs", "zhao2018-pairs", "bordia2019-penn-treebank", "bordia2019-wikitext-2", "bordia2019-cnn-dailymail"
)  # fmt: skip
#: Word lists of suites for language models: the vocabulary has each of their words that occurs, however rare.
SUITE_LISTS = ("lu2018-occupations", "dev2019-occupations", "winobias-occupations")
_READ = 256  #: words that are predicted from one state in evaluation
_SAVED_EVERY = 500  #: steps


@dataclass(frozen=True)
class LstmTraining(CorpusTraining):
    """A word-level LSTM language model, trained on the sentences of a corpus and evaluated by its perplexity on
    held-out passages.

    Rows are sentences, so that augmentation works on each. For training they are concatenated with ``<eos>`` between
    them, in an order drawn from the seed (otherwise a sentence and its counterfactual would be neighbours, and the
    second could be copied), and cut into blocks. The state is reset for each block (**choice**; the papers pass it on).
    ``shuffled=False`` keeps the order of the text; do not use it with augmentation. The vocabulary is that of the
    original training text, whatever a mitigation changes. It has the words of the packaged pair lists with their
    partners, and those of the suites, if they occur, however rare.

    Attributes:
        corpus: a data set (``brown``, ``wikitext2/valid``, ``war_and_peace``) or a path.
        held_out: share of the passages that is never trained on.
        max_tokens: maximum number of words read from the corpus.
        layers: number of layers (lu2018: 2; bordia2019: 3).
        hidden_size: size of the layers (lu2018: 1,500; bordia2019: 1,150); the last has the size of the embeddings if
            tied.
        embedding_size: size of the word vectors.
        dropout: dropout between embeddings, layers and output.
        tied: whether the output layer shares the weights of the embeddings.
        cased: whether case is preserved; lu2018's pairs are in lower case, bordia2019's in both.
        vocabulary_size: maximum number of words, the most frequent ones; ``None``: all.
        min_count: minimum number of occurrences of a word.
        sampled_words: number of words over which the loss of a training step is normalised (evaluation: all); 0: the
            whole vocabulary.
        shuffled: whether sentences are shuffled.
        block: number of words that are predicted from one state.
        batch_size: blocks in a batch.
    """

    name: ClassVar[str] = "lstm"
    evaluates: ClassVar[tuple[str, ...]] = ("perplexity",)
    held_out: Share = 0.05
    layers: Count = 2
    hidden_size: Count = 128
    embedding_size: Count = 128
    dropout: ShareOrNone = 0.2
    tied: bool = False
    cased: bool = False
    vocabulary_size: Count | None = 10_000
    min_count: Count = 2
    sampled_words: Annotated[int, at_least(0)] = 1000
    shuffled: bool = True
    block: Count = 35
    learning_rate: Positive = 1e-2

    def _identity(self) -> dict[str, object]:
        words = hashlib.sha256(repr((_suite_words(), sorted(_partners()))).encode()).hexdigest()[:16]
        corpus = self.corpus if self._is_data_set else "a text of your own"
        return {"corpus": corpus, "text": self._text.digest, "words": words}

    def start(self, model: Model | None, seed: int) -> Model:
        """Return a network with random weights and the vocabulary of the original text, or the given word-level
        LSTM.
        """
        if model is not None:
            self._require_own(model)
            return model
        from pytest_genderbias.recipes.networks.word_lstm import WordLstmConfig, WordLstmForCausalLM, make_tokenizer

        tokenizer = make_tokenizer(self.vocabulary, self.cased)
        config = WordLstmConfig(
            vocab_size=len(tokenizer),
            embedding_size=self.embedding_size,
            inner_size=self.hidden_size,
            hidden_size=self.embedding_size if self.tied else self.hidden_size,
            num_hidden_layers=self.layers,
            dropout=self.dropout,
            sampled_words=self.sampled_words,
            tie_word_embeddings=self.tied,
        )
        network: Any = seeded(seed, lambda: WordLstmForCausalLM(config))  # its base class has methods without types
        return wrap_network(network.to(device_for_new()).eval(), tokenizer, "word-lstm")

    def _prepared(self, model: Model, rows: Sequence[Row], seed: int, training: Training) -> Prepared:
        network = copied(model.backend.network)
        if training.new_head:
            renew_output(network, seed)
        order = np.random.default_rng(seed).permutation(len(rows)) if self.shuffled else np.arange(len(rows))
        stream = read_stream(model.backend.tokenizer, [rows[i]["text"] for i in order])
        return network, in_blocks(stream, self.block), collate_blocks, self._arguments(_SAVED_EVERY), training

    def evaluate(self, model: Model) -> list[Performance]:
        """Return the perplexity by word of the held-out passages, whose texts are not changed.

        ``<eos>`` after each sentence counts as a word, as in the papers, and so does ``<unk>``. The state is reset
        after 256 words. The units are passages.
        """
        self._require_own(model)
        log_probabilities, words = _passage_scores(model, self._passages)
        item_sums = perplexity_sums(log_probabilities, words)
        return [Performance("perplexity", "higher", item_sums.total, item_sums)]

    def _require_own(self, model: Model) -> None:
        if not model.network_class.startswith("WordLstm"):
            raise NotApplicableError(
                f"the recipe lstm trains word-level LSTMs, and {model.name} is {model.role.text}"
                f" ({model.network_class or 'no network'}); give mitigate() no model, or one that the recipe has "
                "trained"
            )

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """The words of the original text that the network knows, most frequent first."""
        texts = (row["text"] for row in self._text.training)
        return choose_words(texts, self.vocabulary_size, self.min_count, self.cased)


def choose_words(
    texts: Iterable[str], size: int | None = None, min_count: int = 1, cased: bool = False
) -> tuple[str, ...]:
    """Return the vocabulary of texts, most frequent words first.

    It has the words of pair lists and suites if they occur, however rare, and both words of a pair if it has one of
    them, so that swapped words are known.

    Args:
        texts: texts, which are read once.
        size: maximum number of words, besides those of the lists; ``None``: all.
        min_count: minimum number of occurrences of the other words.
        cased: whether case is preserved.

    >>> choose_words(["The actress sang.", "The rain fell and fell."], size=3, min_count=2)
    ('.', 'fell', 'the', 'actress', 'actor')
    """
    from pytest_genderbias.recipes.networks.word_lstm import SPECIAL, word_pattern

    split = word_pattern(cased).findall
    count: Counter[str] = Counter()
    for text in texts:
        count.update(split(text if cased else text.lower()))
    for special in SPECIAL:
        count.pop(special, None)

    def written(word: str) -> Iterator[str]:
        yield from dict.fromkeys((word, word.capitalize()) if cased else (word.lower(),))

    pairs = [pair for word, other in sorted(_partners()) for pair in zip(written(word), written(other), strict=False)]
    wanted = {form for word in (*_suite_words(), *(w for pair in pairs for w in pair)) for form in written(word)}
    frequent = sorted((word for word, n in count.items() if n >= min_count), key=lambda word: (-count[word], word))
    vocabulary = set(frequent[:size]) | (wanted & count.keys())
    while partners := {
        other for word, other in pairs if word in vocabulary and other not in vocabulary and split(other) == [other]
    }:
        vocabulary |= partners
    return tuple(sorted(vocabulary, key=lambda word: (-count[word], word)))


def _suite_words() -> tuple[str, ...]:
    return tuple(
        sorted({word for name in SUITE_LISTS for entry in load_wordlist(name).entries for word in entry.word.split()})
    )


def _partners() -> frozenset[tuple[str, str]]:
    """Return each word of the pair lists with each of its partners, in both orders."""
    pairs = set()
    for entry in (entry for name in PAIR_LISTS for entry in load_wordlist(name).entries):
        partner = entry.attributes.get("partner", ())
        pairs |= {(entry.word, other) for other in ([partner] if isinstance(partner, str) else partner)}
    return frozenset(pairs | {(other, word) for word, other in pairs})


def read_stream(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> Ids:
    """Return the concatenated token ids of texts, with ``<eos>`` before, between and after them: shape (n,)."""
    rows = tokenizer(list(texts), add_special_tokens=True, verbose=False)["input_ids"] if texts else []
    ids = [np.asarray(row, dtype=np.int64) for row in rows]
    return np.concatenate([*ids, np.asarray([tokenizer.eos_token_id], dtype=np.int64)])


def in_blocks(stream: Ids, size: int) -> list[Ids]:
    """Return a stream of token ids in rows of ``size`` + 1. Each row begins with the last token of the previous one, so
    that every token but the first is predicted once.

    >>> [block.tolist() for block in in_blocks(np.arange(6), 3)]
    [[0, 1, 2, 3], [3, 4, 5]]
    """
    return [stream[at : at + size + 1] for at in range(0, len(stream) - 1, size)]


def collate_blocks(blocks: Sequence[Ids]) -> dict[str, Tensor]:
    """Return a batch of blocks; padding has no label."""
    import torch

    labels = np.full((len(blocks), max(map(len, blocks))), UNLABELLED, dtype=np.int64)
    for row, block in zip(labels, blocks, strict=True):
        row[: len(block)] = block
    tensor = torch.from_numpy(labels)
    return {"input_ids": tensor.clamp(min=0), "labels": tensor}


def renew_output(network: PreTrainedModel, seed: int) -> None:
    """Reinitialise the output layer from a seed, in place, with weights that it does not share."""
    import torch

    untie_output(network)
    layer = seeded(seed, lambda: torch.nn.Linear(network.config.hidden_size, network.config.vocab_size))
    network.set_output_embeddings(layer.to(network.device))  # type: ignore[no-untyped-call]


def _passage_scores(model: Model, passages: Sequence[Sequence[str]]) -> tuple[NDArray[np.float64], Ids]:
    """Return the log-probability of each passage, in nats, and its number of words: each of shape (passages,)."""
    checkpoint: Checkpoint = model.backend
    blocks: list[Ids] = []
    passage_of: list[int] = []
    for number, texts in enumerate(passages):
        of_passage = in_blocks(read_stream(checkpoint.tokenizer, texts), _READ)
        blocks += of_passage
        passage_of += [number] * len(of_passage)
    encoder, network = RowEncoder(checkpoint.tokenizer), Network(checkpoint, None, vocabulary_head=True)
    scores, words = (np.bincount(passage_of, sums).astype(np.float64) for sums in block_sums(network, encoder, blocks))
    return scores, words.astype(np.int64)
