"""Recipes that train a masked or a causal LM on: on a corpus, of which some passages are held out for its perplexity."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.corpora import TOKENISERS, text_tokens
from pytest_genderbias.datasets.folder import DATA_SETS, data_set_of
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import CAUSAL_LM, MASKED_LM
from pytest_genderbias.models.saving import copied
from pytest_genderbias.recipes.checks import check_positive, check_share, check_whole
from pytest_genderbias.recipes.corpus_rows import SentenceRows, read_sentence_rows
from pytest_genderbias.recipes.heads import refuse_hooks
from pytest_genderbias.recipes.recipe import PLAIN, Performance, Recipe, Row, Training
from pytest_genderbias.recipes.trainer import check_arguments, require_train, run_trainer
from pytest_genderbias.recipes.vocabulary_head import UNLABELLED, head_at_labels, renew_vocabulary_head
from pytest_genderbias.scoring.block_likelihood import BlockLikelihood
from pytest_genderbias.scoring.network import Batches
from pytest_genderbias.scoring.tokens import first_token
from pytest_genderbias.statistics.inference.blocks import blocks_of
from pytest_genderbias.statistics.inference.item_sums import mean_sums
from pytest_genderbias.statistics.perplexity import perplexity
from pytest_genderbias.statistics.sums import perplexity_sums
from pytest_genderbias.suites.cases import TextCases

Ids = NDArray[np.int32]

_SETTINGS = {
    "per_device_train_batch_size": "batch_size", "num_train_epochs": "epochs or steps", "learning_rate": "learning_rate",
    "warmup_steps": "warmup", "train_sampling_strategy": "none: the order of the data is the recipe's",
    "remove_unused_columns": "none",
}  # fmt: skip
_AT_ONCE = 1024  #: sentences that are tokenised at once
_PART_WORDS = 200  #: of a part of a held-out passage
_PARTS_AT_ONCE = 64
_EVALUATED = 0.15  #: share of the tokens that are masked when a masked LM is evaluated
_PATTERN = 20  #: seed of the one pattern of masks


@dataclass(frozen=True)
class _Pretraining(Recipe):
    """What both recipes share: the corpus, its split, the order of the data, and the Trainer's arguments."""

    name: ClassVar[str]
    role: ClassVar[str]
    columns: ClassVar[tuple[str, ...]] = ("text",)
    label: ClassVar[str | None] = None
    group: ClassVar[str | None] = None
    makes_task: ClassVar[bool] = False

    corpus: str = "brown"
    data: str | None = None
    held_out: float = 0.1
    max_tokens: int | None = None
    max_length: int = 64
    steps: int | None = None
    epochs: float = 1.0
    batch_size: int = 32
    learning_rate: float = 5e-5
    warmup: float = 0.1
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        for name in ("max_length", "batch_size", *(["steps"] if self.steps is not None else [])):
            check_whole(name, getattr(self, name), 8 if name == "max_length" else 1)
        for name in ("epochs", "learning_rate"):
            check_positive(name, getattr(self, name))
        check_share("warmup", self.warmup, zero=True)
        check_share("held_out", self.held_out)
        if self.max_tokens is not None:
            check_whole("max_tokens", self.max_tokens, 1)
        for name in self.arguments:
            if name in _SETTINGS:
                raise SettingError(f"the training argument {name!r} has a setting of the recipe: {_SETTINGS[name]}")
        check_arguments(self.arguments)

    def settings(self) -> dict[str, object]:
        """Return all settings but the folder of the data, and the digest of the corpus."""
        told = asdict(self) | {"arguments": dict(self.arguments), "digest": self._corpus.digest}
        del told["data"]
        if data_set_of(self.corpus, DATA_SETS) is None:
            told["corpus"] = Path(self.corpus).name
        return told

    def rows(self) -> list[Row]:
        """Return the sentences to train on, each with its ``place`` in the corpus."""
        return list(self._corpus.training)

    def start(self, model: Model | None, seed: int) -> Model:
        """Return a copy of the model, which has its head."""
        checkpoint = self._checkpoint(model)
        assert model is not None
        refuse_hooks(model)
        return replace(model, backend=replace(checkpoint, network=copied(checkpoint.network)))

    def train(self, model: Model, rows: Sequence[Row], seed: int, folder: Path, training: Training = PLAIN) -> Path:
        """Train on; as :meth:`~pytest_genderbias.recipes.recipe.Recipe.train`.

        Sentences follow each other in blocks of ``max_length`` tokens, so that nothing is padded. Where rows share a ``place``, as a
        sentence and its counterfactual do, the second ones have blocks of their own: beside each other the one would tell
        the masked words of the other.
        """
        require_train()
        checkpoint = self._checkpoint(model)
        blocks = self._blocks(checkpoint, rows)
        accumulated = self.batch_size * int(self.arguments.get("gradient_accumulation_steps", 1))
        steps = self.steps if training.max_steps is None else training.max_steps
        count = int(np.ceil(len(blocks) * self.epochs)) if steps is None else steps * accumulated
        network = copied(checkpoint.network)
        if training.new_head:
            renew_vocabulary_head(network, seed)
        arguments = {"save_strategy": "steps", "save_steps": 100, **self.arguments} | {
            "per_device_train_batch_size": self.batch_size, "num_train_epochs": 1, "learning_rate": self.learning_rate,
            "warmup_steps": self.warmup, "train_sampling_strategy": "sequential", "remove_unused_columns": False,
        }  # fmt: skip
        examples: Any = _Schedule(blocks, count, seed)
        return run_trainer(
            network, checkpoint.tokenizer, examples, self._collator(checkpoint.tokenizer, seed), folder, seed, arguments,
            replace(training, around=_both(training.around, self._around)),
        )  # fmt: skip

    @cached_property
    def _corpus(self) -> SentenceRows:
        return read_sentence_rows(self.corpus, self.data, self.max_tokens, self.held_out)

    def _checkpoint(self, model: Model | None) -> Checkpoint:
        if model is None or model.role.kind != self.role or not isinstance(model.backend, Checkpoint):
            what = "nothing" if model is None else f"{model.name}, {model.role.text}"
            raise NotApplicableError(f"the recipe {self.name} trains on a checkpoint that is a {self.role}, got {what}")
        return model.backend

    def _longest(self, checkpoint: Checkpoint) -> int:
        return min(self.max_length, checkpoint.max_length or self.max_length)

    def _blocks(self, checkpoint: Checkpoint, rows: Sequence[Row]) -> Ids:
        """Return the blocks of all streams of rows, shape (blocks, tokens). What is left over at the end is left out."""
        found = [self._cut(checkpoint, texts) for texts in _streams(rows)]
        width = max((len(block) for blocks in found for block in blocks), default=0)
        whole = [block for blocks in found for block in blocks if len(block) == width]
        if not whole:
            raise DataFileError(f"{self.corpus}: no text to train on")
        return np.stack(whole)

    @abstractmethod
    def _cut(self, checkpoint: Checkpoint, texts: Sequence[str]) -> list[Ids]:
        """Return consecutive sentences in blocks, as the model reads them; the last may be shorter."""

    @abstractmethod
    def _collator(self, tokenizer: Any, seed: int) -> Any:
        """Return what makes batches."""

    @abstractmethod
    def _around(self, network: Any) -> AbstractContextManager[Any]:
        """Return what is around a training."""


@dataclass(frozen=True)
class MaskedPretraining(_Pretraining):
    """Masked language modelling on a corpus, 80 % of the chosen tokens masked, 10 % replaced and 10 % left (Devlin et al. 2019).

    Evaluated by its perplexity at masked tokens, exp of their mean loss, and by how many it gets right, on passages that are held out:
    15 % of their tokens are masked, all by the mask token, and always the same ones for one tokenizer. Such a perplexity is
    given both sides, and by token; it cannot be compared with a causal LM's, nor with another vocabulary's.

    ``corpus``, ``data``, ``max_tokens``, ``held_out``: as :func:`~pytest_genderbias.recipes.corpus_rows.read_sentence_rows`. ``max_length``:
    tokens of a block. ``steps``, or else ``epochs``. ``warmup``: share of the steps. ``mask_probability``: share of the tokens that are chosen.
    ``arguments``: others of ``transformers.TrainingArguments``.
    """

    name: ClassVar[str] = "masked-lm"
    role: ClassVar[str] = MASKED_LM

    mask_probability: float = 0.15

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        super().__post_init__()
        check_share("mask_probability", self.mask_probability)

    def evaluate(self, model: Model) -> list[Performance]:
        """Return ``perplexity`` at masked tokens, and ``accuracy``, over the held-out passages."""
        checkpoint = self._checkpoint(model)
        blocks = [block for texts in _passages(self._corpus.held_out) for block in self._cut(checkpoint, texts)]
        loss, right, count = _masked_scores(checkpoint, blocks)
        labels, part = blocks_of(len(blocks), "passages")
        hits, of = (np.bincount(part, column, len(labels)) for column in (right, count))
        found = mean_sums(labels, hits, of, "passages")
        return [
            Performance("perplexity", "higher", perplexity(-loss, count), perplexity_sums(-loss, count)),
            Performance("accuracy", "lower", found.total, found),
        ]

    def _cut(self, checkpoint: Checkpoint, texts: Sequence[str]) -> list[Ids]:
        tokenizer = checkpoint.tokenizer
        first = _token(tokenizer.cls_token_id, tokenizer.bos_token_id)
        last = _token(tokenizer.sep_token_id, tokenizer.eos_token_id)
        sentences = (np.concatenate([ids, last]) for ids in _tokenised(tokenizer, texts) if len(ids))
        stream = np.concatenate([np.zeros(0, dtype=np.int32), *sentences])
        size = self._longest(checkpoint) - len(first) - len(last)
        cut = (stream[at : at + size] for at in range(0, len(stream), size))
        # A block that ends with a sentence has its separator already.
        return [np.concatenate([first, block, last if len(block) == size else last[:0]]) for block in cut]

    def _collator(self, tokenizer: Any, seed: int) -> Any:
        return _Masking(tokenizer, self.mask_probability, seed)

    def _around(self, network: Any) -> AbstractContextManager[Any]:
        return head_at_labels(network)


@dataclass(frozen=True)
class CausalPretraining(_Pretraining):
    """Causal language modelling on a corpus, evaluated by its perplexity by word on passages that are held out.

    Words are told apart as :mod:`~pytest_genderbias.datasets.corpora` does, so the figure can be compared between tokenizers. Settings as
    :class:`MaskedPretraining`, without ``mask_probability``.
    """

    name: ClassVar[str] = "causal-lm"
    role: ClassVar[str] = CAUSAL_LM

    def evaluate(self, model: Model) -> list[Performance]:
        """Return ``perplexity`` by word over the held-out passages, in parts of some 200 words."""
        self._checkpoint(model)
        parts = [(part,) for texts in _passages(self._corpus.held_out) for part in _parts(texts)]
        split = TOKENISERS[text_tokens(" \n".join(part for (part,) in parts[:20]))]
        words = np.asarray([len(split(part)) for (part,) in parts], dtype=np.int64)
        scorer = BlockLikelihood(TextCases(parts), model, None)
        windows = np.array_split(np.arange(len(parts)), -(-len(parts) // _PARTS_AT_ONCE))
        scores = np.concatenate([scorer.score(window)[:, 0] for window in windows])
        return [Performance("perplexity", "higher", perplexity(scores, words), perplexity_sums(scores, words))]

    def _cut(self, checkpoint: Checkpoint, texts: Sequence[str]) -> list[Ids]:
        tokenizer = checkpoint.tokenizer
        first = np.asarray([first_token(tokenizer, self.name)], dtype=np.int32)
        joined = [" ".join(texts[at : at + _PARTS_AT_ONCE]) for at in range(0, len(texts), _PARTS_AT_ONCE)]
        stream = np.concatenate([np.zeros(0, dtype=np.int32), *_tokenised(tokenizer, joined)])
        size = self._longest(checkpoint) - 1
        return [np.concatenate([first, stream[at : at + size]]) for at in range(0, len(stream), size)]

    def _collator(self, tokenizer: Any, seed: int) -> Any:
        return _next_tokens

    @contextmanager
    def _around(self, network: Any) -> Iterator[Any]:
        yield network


class _Schedule:
    """The blocks in the order in which they are trained on: every epoch another order, and all of it known beforehand.

    So the order, and the masks that depend on the place in it, are the same where a training goes on from a checkpoint.
    With a few blocks more, as a mitigation may make of the same text, the others come in the same order.
    """

    def __init__(self, blocks: Ids, count: int, seed: int) -> None:
        epochs = range(-(-count // len(blocks)))
        orders = [
            np.argsort(np.random.default_rng([seed, epoch]).random(len(blocks)), kind="stable") for epoch in epochs
        ]
        self._blocks, self._order = blocks, np.concatenate([np.zeros(0, dtype=np.int64), *orders])[:count]

    def __len__(self) -> int:
        """Return how many blocks are trained on, all epochs together."""
        return len(self._order)

    def __getitem__(self, place: int) -> dict[str, Any]:
        """Return the block that comes at a place."""
        return {"input_ids": self._blocks[self._order[place]], "place": place}


class _Masking:
    """Makes batches with masks: transformers' pattern, drawn anew for each batch, from the seed and the batch's place."""

    def __init__(self, tokenizer: Any, probability: float, seed: int) -> None:
        from transformers import DataCollatorForLanguageModeling

        self._collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=probability)
        self._special, self._seed = np.asarray(tokenizer.all_special_ids), seed

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return token ids with masks, and the labels."""
        import torch

        ids = np.stack([example["input_ids"] for example in examples]).astype(np.int64)
        drawn = np.random.SeedSequence([self._seed, examples[0]["place"]]).generate_state(1)[0]
        self._collator.generator = torch.Generator().manual_seed(int(drawn))
        special = torch.from_numpy(np.isin(ids, self._special))
        masked, labels = self._collator.torch_mask_tokens(torch.from_numpy(ids), special_tokens_mask=special)
        return {"input_ids": masked, "labels": labels}


def _next_tokens(examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make a batch of which every token is foretold by those before it."""
    import torch

    ids = torch.from_numpy(np.stack([example["input_ids"] for example in examples]).astype(np.int64))
    return {"input_ids": ids, "labels": ids.clone()}


def _both(outer: Any, inner: Any) -> Any:
    @contextmanager
    def around(network: Any) -> Iterator[Any]:
        with outer(network), inner(network):
            yield network

    return around


def _streams(rows: Sequence[Row]) -> list[list[str]]:
    """Return the texts of rows in their order, those whose place came before in a second stream, and so on."""
    seen: Counter[Any] = Counter()
    streams: list[list[str]] = []
    for row in rows:
        place = row.get("place")
        stream = 0 if place is None else seen[place]
        seen[place] += 1
        if stream == len(streams):
            streams.append([])
        streams[stream].append(row["text"])
    return streams


def _passages(held_out: Sequence[Row]) -> list[list[str]]:
    return [[row["text"] for row in rows] for _, rows in groupby(held_out, lambda row: row["passage"])]


def _parts(texts: Sequence[str]) -> Iterator[str]:
    """Yield consecutive sentences of a passage together, some 200 words."""
    part: list[str] = []
    words = 0
    for text in texts:
        part.append(text)
        words += len(text.split())
        if words >= _PART_WORDS:
            yield " ".join(part)
            part, words = [], 0
    if part:
        yield " ".join(part)


def _tokenised(tokenizer: Any, texts: Sequence[str]) -> Iterator[Ids]:
    for at in range(0, len(texts), _AT_ONCE):
        some = list(texts[at : at + _AT_ONCE])
        for ids in tokenizer(some, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]:
            yield np.asarray(ids, dtype=np.int32)


def _token(*candidates: int | None) -> Ids:
    """Return the first special token that there is, as an array; an empty one if there is none."""
    return np.asarray([token for token in candidates if token is not None][:1], dtype=np.int32)


def _masked_scores(checkpoint: Checkpoint, blocks: Sequence[Ids]) -> tuple[NDArray[np.float64], ...]:
    """Return of each block the loss at its masked tokens, in nats, how many are right, and how many there are: each of shape (n,)."""
    import torch

    tokenizer, network = checkpoint.tokenizer, checkpoint.network
    masks = [_pattern(block, tokenizer.all_special_ids, i) for i, block in enumerate(blocks)]
    loss, right = np.zeros(len(blocks)), np.zeros(len(blocks))
    pad = tokenizer.pad_token_id or 0

    def step(rows: NDArray[np.int64]) -> None:
        longest = max(len(blocks[i]) for i in rows)
        ids, labels = (np.full((len(rows), longest), fill, dtype=np.int64) for fill in (pad, UNLABELLED))
        attended = np.zeros_like(ids)
        for k, i in enumerate(rows):
            ids[k, : len(blocks[i])], attended[k, : len(blocks[i])] = blocks[i], 1
            labels[k, masks[i]] = blocks[i][masks[i]]
            ids[k, masks[i]] = tokenizer.mask_token_id
        fed = {"input_ids": ids, "attention_mask": attended, "labels": labels}
        logits = network(**{name: torch.from_numpy(array).to(checkpoint.device) for name, array in fed.items()}).logits
        where = np.nonzero(labels != UNLABELLED)
        scores = (logits[0] if short else logits[where]).float()
        target = torch.from_numpy(labels[where]).to(scores.device)
        chosen = scores.gather(1, target[:, None])[:, 0]
        of = rows[where[0]]
        np.add.at(loss, of, (torch.logsumexp(scores, -1).double() - chosen.double()).cpu().numpy())
        np.add.at(right, of, (scores.argmax(-1) == target).double().cpu().numpy())

    with head_at_labels(network) as short:
        Batches(checkpoint.device, None).run(np.asarray([len(block) for block in blocks]), step)
    return loss, right, np.asarray([len(mask) for mask in masks], dtype=np.float64)


def _pattern(block: Ids, special: Sequence[int], number: int) -> NDArray[np.int64]:
    """Return the positions of a block that are masked, always the same: 15 % of its words' tokens, one at least."""
    words = np.flatnonzero(~np.isin(block, special))
    count = min(len(words), max(1, round(_EVALUATED * len(words))))
    return np.sort(np.random.default_rng([_PATTERN, number]).choice(words, count, replace=False))
