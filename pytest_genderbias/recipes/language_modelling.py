"""Recipes for pre-training of a masked or causal LM on a corpus, continued or from nothing, evaluated by the perplexity
of held-out passages; and the sentences of a corpus, split into rows for training and held-out passages.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.corpora import TOKENISERS, corpus_sha256, read_sentences, text_tokens
from pytest_genderbias.datasets.folder import DataFolder, data_set_of, known_data_sets
from pytest_genderbias.errors import BiasWarning, DataFileError, NotApplicableError, SettingError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.objects import wrap_network
from pytest_genderbias.models.roles import CAUSAL_LM, MASKED_LM
from pytest_genderbias.models.saving import copied
from pytest_genderbias.recipes.heads import UNLABELLED, head_at_labels, new_network, refuse_graph, renew_vocabulary_head
from pytest_genderbias.recipes.recipe import ADDED_LATER, NOTHING, Freeze, Performance, Row, SplitRows, Training, nested
from pytest_genderbias.recipes.trainer import Collator, MaxLength, Prepared, TrainingSettings, frozen_parameters
from pytest_genderbias.scoring.network import Batches
from pytest_genderbias.scoring.scorer import check_finite
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.scoring.tokens import first_token
from pytest_genderbias.statistics.inference.item_sums import blocks_of, mean_sums
from pytest_genderbias.statistics.perplexity import perplexity
from pytest_genderbias.statistics.sums import perplexity_sums
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.query import BlockLogLikelihood
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.schema import Count, Positive, Share, ShareOrNone, check_setting
from pytest_genderbias.text.unspaced import check_of

if TYPE_CHECKING:
    import torch
    from transformers import DataCollatorForLanguageModeling, PreTrainedModel, PreTrainedTokenizerBase

Ids = NDArray[np.int32]

_PASSAGES = 10  #: approximate minimum number of held-out passages
_SMALLEST, _LARGEST = 50, 2000  #: minimum and maximum target length of a passage, in words
_WHOLE = 3  #: documents longer than this many passages are split
_SHOWN = 5  #: maximum number of warnings about broken lines
_SETTINGS = {
    "per_device_train_batch_size": "batch_size", "num_train_epochs": "epochs or steps",
    "learning_rate": "learning_rate", "warmup_steps": "warmup",
    "train_sampling_strategy": "none: the recipe sets the order of the data", "remove_unused_columns": "none",
}  # fmt: skip
_AT_ONCE = 1024  #: sentences that are tokenised at once
_PART_WORDS = 200  #: words in a part of a held-out passage
_PARTS_AT_ONCE = 64
_EVALUATED = 0.15  #: share of the tokens that are masked to evaluate a masked LM
_PATTERN = 20  #: seed of the fixed pattern of masks
GIVEN, NEW = "given", "new"  #: the weights that a training begins with
_RATES = {GIVEN: 5e-5, NEW: 1e-3}  #: learning rates by the weights


@dataclass(frozen=True)
class CorpusTraining(TrainingSettings):
    """The settings of a training on the sentences of a corpus; see :func:`read_sentence_rows`."""

    columns: ClassVar[tuple[str, ...]] = ("text",)

    corpus: str = "brown"
    held_out: Share = 0.1
    max_tokens: Count | None = None

    def rows(self) -> list[Row]:
        """Return the training sentences, each with its ``place`` in the corpus."""
        return list(self._text.training)

    @property
    def _is_data_set(self) -> bool:
        return data_set_of(self.corpus, known_data_sets()) is not None

    @cached_property
    def _text(self) -> SplitRows:
        return read_sentence_rows(self.corpus, self.data, self.max_tokens, self.held_out)

    @property
    def _passages(self) -> list[list[str]]:
        """The sentences of each held-out passage."""
        by_passage = groupby(self._text.held_out, lambda row: row["passage"])
        return [[row["text"] for row in rows] for _, rows in by_passage]


def read_sentence_rows(
    corpus: str, data: str | None = None, max_tokens: int | None = None, held_out: float = 0.1
) -> SplitRows:
    """Read the sentences of a corpus (``text``), with their ``place`` in it, and hold some of its passages out, with
    the number of their ``passage``.

    A passage is a document, several short documents, or a part of a long one. Its target length is 50 to 2,000 words,
    so that about ten or more passages are held out, spread evenly over the corpus. The same corpus and settings always
    give the same rows. Texts are not normalised: Brown and WikiText-2 have spaces around punctuation, and the latter
    has ``<unk>`` for rare words.

    Args:
        corpus: a data set (``brown``, ``wikitext2/valid``, ``war_and_peace``, ``state_union`` ...), or the path of a
            text, of JSON lines with ``text`` or ``sentences``, or of a folder of them (see
            :mod:`~pytest_genderbias.datasets.corpora`).
        data: folder of the user's data sets; not used for a path.
        max_tokens: approximate maximum number of words (split at white space), in whole sentences; ``None``: all.
        held_out: share of the passages that is held out, above 0 and below 1.

    Warns:
        UserWarning: a line cannot be read and is skipped; the message begins with file and line.

    Raises:
        MissingDataError: the data set is not there.
        DataFileError: the file does not exist, has too few words to hold any out, or no spaces between words.
        SettingError: a setting has an invalid value.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rain.txt")
    ...     _ = path.write_text(" ".join(f"It rains on day {day} again." for day in range(100)))
    ...     rows = read_sentence_rows(str(path))
    >>> rows.training[0], rows.held_out[0], len(rows.training), len(rows.held_out)
    ({'text': 'It rains on day 0 again.', 'place': 0}, {'text': 'It rains on day 54 again.', 'passage': 6}, 91, 9)
    """
    check_setting("held_out", Share, held_out)
    check_setting("max_tokens", Count | None, max_tokens)
    files = _files(corpus, data)
    sentences, documents = _read(files, max_tokens)
    check_of(sentences).refuse(corpus, DataFileError)
    words = np.asarray([len(sentence.split()) for sentence in sentences], dtype=np.int64)
    passage = _passages(words, np.asarray(documents, dtype=np.int64), held_out)
    held_out_passages = _held_out(int(passage[-1]) + 1 if len(passage) else 0, held_out, corpus)
    training: list[Row] = []
    apart: list[Row] = []
    for place, (sentence, number) in enumerate(zip(sentences, passage.tolist(), strict=True)):
        if number in held_out_passages:
            apart.append({"text": sentence, "passage": number})
        else:
            training.append({"text": sentence, "place": place})
    return SplitRows(training, apart, corpus_sha256(files)[:16])


def _files(corpus: str, data: str | None) -> tuple[Path, ...]:
    name = data_set_of(corpus, known_data_sets())
    if name is None:
        return (expand(corpus),)
    folder = DataFolder(None if data is None else expand(data))
    return folder.find_all(name, corpus.partition("/")[2] or None)


def _read(files: tuple[Path, ...], most: int | None) -> tuple[list[str], list[int]]:
    """Return the sentences and the document of each. Warns of lines that cannot be read."""
    broken = 0

    def warn(error: DataFileError) -> None:
        nonlocal broken
        broken += 1
        if broken <= _SHOWN:
            warnings.warn(f"{error} (the line is left out)", BiasWarning, stacklevel=2)

    sentences: list[str] = []
    documents: list[int] = []
    words = first = 0
    for file in files:
        for document, sentence in read_sentences(file, warn):
            if sentence.strip() and (most is None or words < most):
                sentences.append(sentence.strip())
                documents.append(first + document)
                words += len(sentence.split())
            elif most is not None and words >= most:
                break
        first = documents[-1] + 1 if documents else 0
    if broken > _SHOWN:
        warnings.warn(f"{broken} lines in all cannot be read, and are left out", BiasWarning, stacklevel=2)
    return sentences, documents


def _passages(words: NDArray[np.int64], documents: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Return the passage number of each sentence, from 0. A passage that is long enough ends with a document, unless
    that is very long.
    """
    size = min(max(int(words.sum() * share / _PASSAGES), _SMALLEST), _LARGEST)
    long = np.bincount(documents, words, minlength=1) > _WHOLE * size
    passage = np.zeros(len(words), dtype=np.int64)
    number = length = 0
    for i, (count, document) in enumerate(zip(words.tolist(), documents.tolist(), strict=True)):
        if length >= size and (long[document] or document != documents[i - 1]):
            number, length = number + 1, 0
        passage[i] = number
        length += count
    return passage


def _held_out(n: int, share: float, corpus: str) -> frozenset[int]:
    """Return the numbers of the held-out passages among n, spread evenly."""
    count = max(1, round(n * share))
    if count >= n:
        raise DataFileError(f"{corpus}: too few words to hold some out: {n} passages of {_SMALLEST} words or more")
    return frozenset(((np.arange(count) + 0.5) * n / count).astype(np.int64).tolist())


@dataclass(frozen=True)
class _Pretraining(CorpusTraining):
    """The common part of both recipes: the order of the data, and the Trainer's arguments."""

    role: ClassVar[str]
    makes_task: ClassVar[bool] = False
    divisible: ClassVar[bool] = True

    max_length: MaxLength = 64
    steps: Count | None = None
    epochs: Positive = 1.0
    warmup: ShareOrNone = 0.1
    weights: str = field(default=GIVEN, metadata=ADDED_LATER)
    layers: Count | None = field(default=None, metadata=ADDED_LATER)
    hidden_size: Count | None = field(default=None, metadata=ADDED_LATER)
    heads: Count | None = field(default=None, metadata=ADDED_LATER)
    freeze: Freeze = field(default=NOTHING, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        """Reject invalid settings, and set ``makes_task`` for a training from nothing."""
        if reserved := next((name for name in self.arguments if name in _SETTINGS), None):
            raise SettingError(f"{reserved} of arguments has a setting of the recipe: {_SETTINGS[reserved]}")
        super().__post_init__()
        sizes = [name for name in ("layers", "hidden_size", "heads") if vars(self)[name] is not None]
        if self.weights not in _RATES:
            raise SettingError(f"weights should be {GIVEN} or {NEW}, got {self.weights!r}")
        if sizes and self.weights == GIVEN:
            raise SettingError(f"{sizes[0]} is a size of a new network; set weights to {NEW}, or leave it out")
        if self.weights == NEW:
            object.__setattr__(self, "makes_task", True)

    def _identity(self) -> dict[str, object]:
        name = self.corpus if self._is_data_set else Path(self.corpus).name
        return {"digest": self._text.digest, "learning_rate": self._rate, "corpus": name}

    def start(self, model: Model | None, seed: int) -> Model:
        """Return a copy of the model, whose head is kept; or a network of its architecture with random weights, and its
        tokenizer.

        Raises:
            NotApplicableError: the recipe trains another kind of model.
            SettingError: the architecture cannot have the sizes of the settings, or the network not the layers that
                ``freeze`` names.
        """
        checkpoint = self._checkpoint(model)
        assert model is not None
        refuse_graph(model)
        if self.weights == NEW:
            network = new_network(checkpoint.network, seed, self.layers, self.hidden_size, self.heads)
            frozen_parameters(network, self.freeze)
            return wrap_network(network, checkpoint.tokenizer, model.name)
        frozen_parameters(checkpoint.network, self.freeze)
        return replace(model, backend=replace(checkpoint, network=copied(checkpoint.network)))

    def _require_own(self, model: Model) -> None:
        self._checkpoint(model)

    def _prepared(self, model: Model, rows: Sequence[Row], seed: int, training: Training) -> Prepared:
        """Return what the Trainer is given.

        Sentences are concatenated in blocks of ``max_length`` tokens, without padding. If rows share a ``place``, as a
        sentence and its counterfactual do, the second ones are in separate blocks: within one block, a sentence would
        reveal the masked words of its counterfactual.
        """
        checkpoint = self._checkpoint(model)
        blocks = self._blocks(checkpoint, rows)
        accumulation = self.arguments.get("gradient_accumulation_steps", 1)
        assert isinstance(accumulation, int), "checked by __post_init__"
        accumulated = self.batch_size * accumulation
        steps = self.steps if training.max_steps is None else training.max_steps
        count = int(np.ceil(len(blocks) * self.epochs)) if steps is None else steps * accumulated
        network = copied(checkpoint.network)
        if training.new_head:
            renew_vocabulary_head(network, seed)
        arguments = self._arguments(
            100,
            num_train_epochs=1,
            learning_rate=self._rate,
            warmup_steps=self.warmup,
            train_sampling_strategy="sequential",
            remove_unused_columns=False,
        )
        training = replace(training, around=nested(training.around, self._around))
        collator = self._collator(checkpoint.tokenizer, seed)
        return network, _Schedule(blocks, count, seed), collator, arguments, training

    @property
    def _rate(self) -> float:
        return _RATES[self.weights] if self.learning_rate is None else self.learning_rate

    def _checkpoint(self, model: Model | None) -> Checkpoint:
        if model is None or model.role.kind != self.role or not model.network_class:
            what = "nothing" if model is None else f"{model.name}, {model.role.text}"
            needs = "takes architecture and tokenizer of" if self.weights == NEW else "trains on"
            raise NotApplicableError(f"the recipe {self.name} {needs} a checkpoint that is a {self.role}, got {what}")
        checkpoint: Checkpoint = model.backend
        return checkpoint

    def _blocks(self, checkpoint: Checkpoint, rows: Sequence[Row]) -> Ids:
        """Return the blocks of all streams of rows, without the incomplete ones at their ends: shape (blocks,
        tokens).
        """
        streams = [self._cut(checkpoint, texts) for texts in _streams(rows)]
        width = max((len(block) for blocks in streams for block in blocks), default=0)
        whole = [block for blocks in streams for block in blocks if len(block) == width]
        if not whole:
            raise DataFileError(f"{self.corpus}: no text to train on")
        return np.stack(whole)

    @abstractmethod
    def _cut(self, checkpoint: Checkpoint, texts: Sequence[str]) -> list[Ids]:
        """Return consecutive sentences in blocks, with special tokens; the last block may be shorter."""

    @abstractmethod
    def _collator(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Collator:
        """Return the function that makes batches."""

    def _around(self, network: PreTrainedModel) -> AbstractContextManager[object]:
        """Return a context manager that is entered during the training."""
        return nullcontext()


@dataclass(frozen=True)
class MaskedPretraining(_Pretraining):
    """Masked language modelling on a corpus: of the selected tokens, 80 % are masked, 10 % replaced and 10 % kept
    (Devlin et al. 2019).

    The evaluation is the perplexity at masked tokens (exp of their mean loss) and the accuracy at them, on held-out
    passages: 15 % of their tokens are replaced by the mask token, always the same ones for a tokenizer. This perplexity
    is per token and conditional on both sides, so it is not comparable with that of causal LMs or of other
    vocabularies.

    ``corpus``, ``max_tokens``, ``held_out``: see :func:`read_sentence_rows`. ``max_length``: tokens in a block.
    ``steps``: number of steps; ``None``: see ``epochs``. ``warmup``: share of the steps. ``mask_probability``: share of
    the tokens that are selected. ``freeze``: the part that is not trained: ``nothing``, ``embeddings`` (with an output
    layer that shares them), ``encoder`` (all but the head), or a number k: the embeddings and the first k layers; a
    caller's ``Training.freeze`` takes its place.

    ``weights``: ``given`` continues the training of the given model. ``new`` trains from nothing: a network of the
    given model's architecture with weights drawn from the seed, and its tokenizer (webster2020 pre-trains BERT from
    scratch for the CDA of table 4). Models "before" a mitigation are then trained in the same way without it.
    ``layers``, ``hidden_size`` and ``heads``: sizes of the new network; ``None``: those of the given one.
    ``learning_rate``: by default 5e-5, and 1e-3 for new weights. No tokenizer is trained: trainers of vocabularies
    break ties at random, so that the same seed would not give the same model.
    """

    name: ClassVar[str] = "masked-lm"
    evaluates: ClassVar[tuple[str, ...]] = ("perplexity", "accuracy")
    role: ClassVar[str] = MASKED_LM

    mask_probability: Share = 0.15

    def evaluate(self, model: Model) -> list[Performance]:
        """Return ``perplexity`` and ``accuracy`` at masked tokens of the held-out passages."""
        checkpoint = self._checkpoint(model)
        blocks = [block for texts in self._passages for block in self._cut(checkpoint, texts)]
        loss, right, count = _masked_scores(checkpoint, blocks)
        labels, part = blocks_of(len(blocks), "passages")
        hits, of = (np.bincount(part, column, len(labels)) for column in (right, count))
        correct = mean_sums(labels, hits, of, "passages")
        return [
            Performance("perplexity", "higher", perplexity(-loss, count), perplexity_sums(-loss, count)),
            Performance("accuracy", "lower", correct.total, correct),
        ]

    def _cut(self, checkpoint: Checkpoint, texts: Sequence[str]) -> list[Ids]:
        tokenizer = checkpoint.tokenizer
        first = _token(tokenizer.cls_token_id, tokenizer.bos_token_id)
        last = _token(tokenizer.sep_token_id, tokenizer.eos_token_id)
        sentences = (np.concatenate([ids, last]) for ids in _tokenised(tokenizer, texts) if len(ids))
        stream = np.concatenate([np.zeros(0, dtype=np.int32), *sentences])
        size = self._longest(checkpoint) - len(first) - len(last)
        cut = (stream[at : at + size] for at in range(0, len(stream), size))
        # A block that ends with a sentence already has the separator.
        return [np.concatenate([first, block, last if len(block) == size else last[:0]]) for block in cut]

    def _collator(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Collator:
        from transformers import DataCollatorForLanguageModeling

        collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=self.mask_probability)
        return partial(_masked, collator=collator, special=tokenizer.all_special_ids, seed=seed)

    def _around(self, network: PreTrainedModel) -> AbstractContextManager[object]:
        return head_at_labels(network)


@dataclass(frozen=True)
class CausalPretraining(_Pretraining):
    """Causal language modelling on a corpus, evaluated by the perplexity per word of held-out passages.

    Words are counted as in :mod:`~pytest_genderbias.datasets.corpora`, so the perplexity is comparable between
    tokenizers. The settings ``corpus``, ``held_out``, ``max_tokens``, ``max_length``, ``steps``, ``warmup``,
    ``weights``, ``layers``, ``hidden_size``, ``heads`` and ``freeze`` are those of :class:`MaskedPretraining`.
    """

    name: ClassVar[str] = "causal-lm"
    evaluates: ClassVar[tuple[str, ...]] = ("perplexity",)
    role: ClassVar[str] = CAUSAL_LM

    def evaluate(self, model: Model) -> list[Performance]:
        """Return ``perplexity`` per word of the held-out passages, whose units are parts of about 200 words."""
        self._checkpoint(model)
        parts = [(part,) for texts in self._passages for part in _parts(texts)]
        split = TOKENISERS[text_tokens(" \n".join(part for (part,) in parts[:20]))]
        words = np.asarray([len(split(part)) for (part,) in parts], dtype=np.int64)
        cases, numbers = TextCases(parts), np.arange(len(parts))
        scorer = make_scorer(cases, BlockLogLikelihood(), model, None)
        windows = np.array_split(numbers, -(-len(parts) // _PARTS_AT_ONCE))
        scores = np.concatenate([scorer.score(window)[:, 0] for window in windows])
        check_finite(np.isfinite(scores), cases, numbers, model.name)
        return [Performance("perplexity", "higher", perplexity(scores, words), perplexity_sums(scores, words))]

    def _cut(self, checkpoint: Checkpoint, texts: Sequence[str]) -> list[Ids]:
        tokenizer = checkpoint.tokenizer
        first = np.asarray([first_token(tokenizer, self.name)], dtype=np.int32)
        joined = [" ".join(texts[at : at + _PARTS_AT_ONCE]) for at in range(0, len(texts), _PARTS_AT_ONCE)]
        stream = np.concatenate([np.zeros(0, dtype=np.int32), *_tokenised(tokenizer, joined)])
        size = self._longest(checkpoint) - 1
        return [np.concatenate([first, stream[at : at + size]]) for at in range(0, len(stream), size)]

    def _collator(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Collator:
        return _next_tokens


class _Schedule:
    """The blocks in the order of training, which differs between epochs and is known before the training, each with its
    place there.

    So the order, and the masks that depend on the place in it, are the same in a resumed training. If a mitigation adds
    a few blocks to the text, the others keep their relative order.
    """

    def __init__(self, blocks: Ids, count: int, seed: int) -> None:
        epochs = range(-(-count // len(blocks)))
        orders = [
            np.argsort(np.random.default_rng([seed, epoch]).random(len(blocks)), kind="stable") for epoch in epochs
        ]
        self._blocks, self._order = blocks, np.concatenate([np.zeros(0, dtype=np.int64), *orders])[:count]

    def __len__(self) -> int:
        """Return the number of blocks of all epochs."""
        return len(self._order)

    def __getitem__(self, place: int) -> dict[str, Any]:
        """Return the block at a place in the order."""
        return {"input_ids": self._blocks[self._order[place]], "place": place}


def _masked(
    examples: Sequence[Mapping[str, Any]], collator: DataCollatorForLanguageModeling, special: Sequence[int], seed: int
) -> dict[str, torch.Tensor]:
    """Return masked token ids, and the labels, by transformers' masking with a generator that the seed and the place of
    the batch determine.
    """
    import torch

    ids = np.stack([example["input_ids"] for example in examples]).astype(np.int64)
    drawn = np.random.SeedSequence([seed, examples[0]["place"]]).generate_state(1)[0]
    collator.generator = torch.Generator().manual_seed(int(drawn))
    is_special = torch.from_numpy(np.isin(ids, special))
    masked, labels = collator.torch_mask_tokens(torch.from_numpy(ids), special_tokens_mask=is_special)
    return {"input_ids": masked, "labels": labels}


def _next_tokens(examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """Return a batch in which each token is predicted from those before it."""
    import torch

    ids = torch.from_numpy(np.stack([example["input_ids"] for example in examples]).astype(np.int64))
    return {"input_ids": ids, "labels": ids.clone()}


def _streams(rows: Sequence[Row]) -> list[list[str]]:
    """Return streams of texts in the order of the rows: the n-th row of a place is in the n-th stream."""
    seen: Counter[Hashable] = Counter()
    streams: list[list[str]] = []
    for row in rows:
        place = row.get("place")
        stream = 0 if place is None else seen[place]
        seen[place] += 1
        if stream == len(streams):
            streams.append([])
        streams[stream].append(row["text"])
    return streams


def _parts(texts: Sequence[str]) -> Iterator[str]:
    """Yield joined consecutive sentences of a passage, about 200 words each."""
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


def _tokenised(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> Iterator[Ids]:
    for at in range(0, len(texts), _AT_ONCE):
        part = list(texts[at : at + _AT_ONCE])
        for ids in tokenizer(part, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]:
            yield np.asarray(ids, dtype=np.int32)


def _token(*candidates: int | None) -> Ids:
    """Return the first special token that is not ``None``, as an array; empty if there is none."""
    return np.asarray([token for token in candidates if token is not None][:1], dtype=np.int32)


def _masked_scores(checkpoint: Checkpoint, blocks: Sequence[Ids]) -> tuple[NDArray[np.float64], ...]:
    """Return the loss at masked tokens of each block, in nats, the number of correct ones, and their number: each of
    shape (n,).
    """
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
        of_target = scores.gather(1, target[:, None])[:, 0]
        of = rows[where[0]]
        np.add.at(loss, of, (torch.logsumexp(scores, -1).double() - of_target.double()).cpu().numpy())
        np.add.at(right, of, (scores.argmax(-1) == target).double().cpu().numpy())

    with head_at_labels(network) as short:
        batches = Batches(checkpoint.device, None, sharing=checkpoint.batches)
        batches.run(np.asarray([len(block) for block in blocks]), step)
    return loss, right, np.asarray([len(mask) for mask in masks], dtype=np.float64)


def _pattern(block: Ids, special: Sequence[int], number: int) -> NDArray[np.int64]:
    """Return the masked positions of a block, which are always the same: 15 % of the tokens that are not special, at
    least one.
    """
    words = np.flatnonzero(~np.isin(block, special))
    count = min(len(words), max(1, round(_EVALUATED * len(words))))
    return np.sort(np.random.default_rng([_PATTERN, number]).choice(words, count, replace=False))
