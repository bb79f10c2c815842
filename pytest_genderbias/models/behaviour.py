"""Find with a few short passes what the output of a network depends on: padding, other rows of a batch, later tokens
and positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.models.config import hidden_size, promised_positions
from pytest_genderbias.models.model import body_of
from pytest_genderbias.models.roles import CAUSAL_LM, COREFERENCE_SCORER, ENCODER, NLI_CLASSIFIER, PAIR_REGRESSOR

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: Which rows may share a batch without changing each other's output.
ANY_ROWS, EQUAL_LENGTHS, SINGLE_ROWS = "", "rows of one length", "single rows"
#: Reasons for the last two, for remarks.
REASONS = {
    EQUAL_LENGTHS: "batches of rows of one length: padding changes the output of this network",
    SINGLE_ROWS: "rows passed one by one: the other rows of a batch change the output of this network",
}
_TEXT = "The nurse met her friend."
_PAIRS = (NLI_CLASSIFIER, PAIR_REGRESSOR)
_SHORT, _LONGER = 4, 9  #: tokens of the probe rows, beside special tokens
_WORK = 2_000_000_000  #: multiply-adds of the longest probe row: a small network is asked with much padding
_LEAST_PADDED, _MOST_PADDED = 16, 1024
#: Rounding relative to the largest output: at most the first, or so many units of the number format.
_NEAR, _ROUNDINGS = 1e-4, 8
#: How often the median of the outputs the largest one is at most; what is larger is no measure of rounding.
_MOST_USUAL = 100


class NotComputedError(ModelError):
    """The network cannot compute its output for one row, so that nothing is known of it."""


_Row = list[tuple[int, int]]  #: id and type of each token


def rounding(network: object) -> float:
    """Return how far outputs may lie apart by rounding in the number format of a network, relative to the largest of
    them.
    """
    import torch

    weights = network.parameters() if isinstance(network, torch.nn.Module) else ()
    dtype = next((p.dtype for p in weights if p.is_floating_point()), None)
    return _NEAR if dtype is None else max(_NEAR, _ROUNDINGS * torch.finfo(dtype).eps)


def moved(one: Tensor, other: Tensor, near: float) -> bool:
    """Return whether two outputs differ in shape, or somewhere by more than ``near`` times the largest value of the
    first.

    Values far beyond the others do not count as the largest: some networks write -1e9 or less for tokens that they
    never give.

    >>> import torch
    >>> logits = torch.tensor([1.0, 2.0, -1e9])
    >>> moved(logits, logits + torch.tensor([0.1, 0.0, 0.0]), 1e-4), moved(logits, logits * (1 + 1e-6), 1e-4)
    (True, False)
    """
    import torch

    if one.shape != other.shape:
        return True
    one, other = one.double(), other.double()
    sizes = one[one.isfinite()].abs()
    usual = _MOST_USUAL * float(sizes[sizes > 0].median()) if bool((sizes > 0).any()) else 0.0
    scale = min(usual, float(sizes.max())) if sizes.numel() else 0.0
    return not torch.allclose(other, one, rtol=near, atol=near * scale, equal_nan=True)


class Probe:
    """Passes a few rows through a network in evaluation mode, to find what it does.

    Args:
        network: the network, with its head.
        tokenizer: its tokenizer, which has the special tokens and the padding.
        kind: kind of the model's role.
        name: the model's name, for messages.
        device: the device of the network.
    """

    def __init__(
        self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, kind: str, name: str, device: str
    ) -> None:
        self._network, self._tokenizer, self._kind, self._name = network, tokenizer, kind, name
        self._device = device
        self._moved = partial(moved, near=rounding(network))
        self._by_states = kind in (ENCODER, COREFERENCE_SCORER)
        self._has_types = "token_type_ids" in tokenizer.model_input_names and not self._by_states
        self._body = body_of(network)
        self._asked = self._body if kind == ENCODER else network
        self._pad = int(tokenizer.pad_token_id or 0)
        self._draws = np.random.default_rng(0)
        known, special = min(len(tokenizer), embedded_tokens(network) or len(tokenizer)), set(tokenizer.all_special_ids)
        #: Ids of tokens that are not special, and that the network embeds.
        self._ordinary = [i for i in range(known) if i not in special] or list(range(known)) or [0]
        self._runs = self._runs_of_texts()
        self._special = sum(len(run) for is_special, run in self._runs if is_special)

    def behaviour(self) -> tuple[str, int | None, tuple[int, ...]]:
        """Find what the network does. Call it where torch records no gradients.

        Returns:
            Which rows may share a batch (``ANY_ROWS``, ``EQUAL_LENGTHS`` or ``SINGLE_ROWS``); the most tokens in a row
            for which it has positions, ``None`` where nothing limits them; and the sizes of the hidden states of each
            layer, and of the last hidden state, where they are not all what the config says.

        Raises:
            NotComputedError: the network cannot compute its output for a short row.
            ModelError: the network gives another output when the same row is passed again, or it is measured as a
                causal LM and later tokens change its output.
        """
        row = self._row(max(1, min(_LONGER, self._limit(_LONGER + self._special) - self._special)))
        short = row[:_SHORT] if self._kind == CAUSAL_LM else self._row(_SHORT)
        with _positions(len(row)) as seen:
            alone = self._first(row)
        alone_short, limit = self._first(short), min(seen, default=None)
        if self._kind == CAUSAL_LM:
            variants = [row, *(self._changed(row, place) for place in range(1, len(row)))]
        else:
            variants = [row, self._row(len(row) - self._special)]
        together = self._tried(self._output, variants)
        if self._kind == CAUSAL_LM:
            self._refuse_lookahead(alone, alone_short, together)
        batches = ANY_ROWS
        if together is None or self._moved(alone, together[:1]):
            if self._moved(alone, self._first(row)):
                raise ModelError(
                    f"{self._name} gives another output each time that the same text is passed, so no score of it would"
                    " come again; turn off what it draws at random, or measure another model"
                )
            batches = SINGLE_ROWS
        positions, rows, padding = limit, [(short, alone_short), (row, alone)], None
        if batches == ANY_ROWS:
            padding = self._padding_moves(rows, positions)  # with a row so long that its positions are enough
        if padding is None:
            positions = self._most_positions(limit)
            padding = self._padding_moves(rows, positions) if batches == ANY_ROWS else False
        if padding is not False:
            batches = EQUAL_LENGTHS
        return batches, positions, self._widths(row)

    def output_of_text(self) -> Tensor:
        """Return the output for one short text. Call it where torch records no gradients."""
        return self._first([token for _, run in self._runs for token in run])

    def _refuse_lookahead(self, alone: Tensor, alone_short: Tensor, together: Tensor | None) -> None:
        """Refuse a network whose output at a token depends on later ones: on their number, or on what they are."""
        size = alone_short.shape[1]
        looks = self._moved(alone_short, alone[:, :size])
        if together is not None:
            looks |= any(
                self._moved(together[:1, :place], together[place : place + 1, :place])
                for place in range(1, len(together))
            )
        if looks:
            raise ModelError(
                f"{self._name} reads the words on both sides: later tokens change its output for earlier ones, so it"
                " gives no probability of a next word; expected a network that hides later tokens, as with is_decoder:"
                " true or is_causal: true in the config of those that can do both, and without dynamic int8, which"
                " scales all tokens together"
            )

    def _padding_moves(self, alone: Sequence[tuple[_Row, Tensor]], limit: int | None) -> bool | None:
        """Return whether rows have another output beside a longer one than alone; ``None`` if it reads none so long."""
        length = self._padded_length(limit)
        rows = [row for row, _ in alone]
        longest = self._row(max(length - len(rows[-1]) + _LONGER, _LONGER + 3))
        padded = self._tried(self._output, [*rows, longest])
        if padded is None:
            return None
        return any(
            self._moved(own, found[None, : own.shape[1]] if own.dim() == 3 else found[None])
            for found, (_, own) in zip(padded, alone, strict=False)
        )

    def _padded_length(self, limit: int | None) -> int:
        weights = sum(p.numel() for p in self._network.parameters())
        length = max(_LEAST_PADDED, min(_MOST_PADDED, _WORK // max(1, weights)))
        return min(self._limit(length), limit or length)

    def _limit(self, length: int) -> int:
        """Return a length, or the most that config and tokenizer allow if this is less."""
        told = self._tokenizer.model_max_length
        promised = [*promised_positions(self._network.config), *([int(told)] if told > 0 else [])]
        return min([length, *(most for most in promised if most > 0)])

    def _widths(self, row: _Row) -> tuple[int, ...]:
        """Return the sizes of the hidden states where they are not all that of the config."""
        fed = self._fed([row])
        fed.pop("token_type_ids", None)
        last: Tensor | None = getattr(self._tried(self._body, **fed), "last_hidden_state", None)
        if last is None or last.shape[-1] == hidden_size(self._network.config):
            return ()
        states = self._tried(self._body, **fed, output_hidden_states=True)  # leaves hooks in the network
        layers = getattr(states, "hidden_states", None) or ()
        return (*(int(layer.shape[-1]) for layer in layers), int(last.shape[-1]))

    def _most_positions(self, seen: int | None) -> int | None:
        """Return the most tokens for which a network has positions: as it looked them up, or less where it does not
        read a long row.

        Positions may be in the attention, as of MPT, where nothing is looked up.
        """
        if (most := self._longest_read(self._padded_length(seen))) is None:
            return seen
        fails = all(not self._reads(most + more) for more in (1, 2, 3, most))
        return most if fails and self._reads(most - 1) else seen  # else it is a matter of other numbers

    def _longest_read(self, most: int) -> int | None:
        """Return the length of the longest row that is read, or ``None`` if one of ``most`` tokens is, or none of a few
        tokens.
        """
        low, high = len(self._row(_LONGER)), most
        if high <= low or self._reads(high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._reads(middle) else (low, middle)
        return low

    def _reads(self, length: int) -> bool:
        special = len(self._row(1)) - 1
        return self._tried(self._output, [self._row(length - special)]) is not None

    # Rows.

    def _runs_of_texts(self) -> list[tuple[bool, _Row]]:
        """Return the runs of special and other tokens of a text, or of a pair of texts, and which are special."""
        texts = [[_TEXT]] * (2 if self._kind in _PAIRS else 1)
        found = self._tokenizer(*texts, return_special_tokens_mask=True, verbose=False)
        ids, special = found["input_ids"][0], found["special_tokens_mask"][0]
        types = found["token_type_ids"][0] if self._has_types else [0] * len(ids)
        runs = [
            (is_special, [(ids[i], types[places[0]]) for i in places])
            for is_special, group in groupby(range(len(ids)), key=lambda i: bool(special[i]))
            if (places := list(group))
        ]
        if self._kind == CAUSAL_LM and runs and runs[-1][0]:  # what follows a text is no part of its beginnings
            runs.pop()
        return runs if not all(is_special for is_special, _ in runs) else [*runs, (False, [(0, 0)])]

    def _row(self, tokens: int) -> _Row:
        """Return a row with random ordinary tokens, as many in all, between the special ones."""
        texts = sum(not is_special for is_special, _ in self._runs)
        row: _Row = []
        left = tokens
        for is_special, run in self._runs:
            if is_special:
                row += run
                continue
            count = max(1, -(-left // texts))
            left, texts = left - count, texts - 1
            row += [(token, run[0][1]) for token in self._draws.choice(self._ordinary, count).tolist()]
        return row

    def _changed(self, row: _Row, place: int) -> _Row:
        """Return a row with other ordinary tokens from a place on."""
        others = self._draws.choice(self._ordinary, len(row) - place).tolist()
        return [*row[:place], *((token, kind) for token, (_, kind) in zip(others, row[place:], strict=True))]

    # Passes.

    def _first(self, row: _Row) -> Tensor:
        """Return the output for one row."""
        import torch

        try:
            return self._output([row])
        except (torch.OutOfMemoryError, NotComputedError):
            raise
        except Exception as error:
            raise NotComputedError(
                f"the network of {self._name} cannot compute its output here, not even for {len(row)} tokens"
                f" ({type(error).__name__}: {' '.join(str(error).split())[:300]}); correct the numbers in its"
                " config.json, use the device that its weights were made for, or copy the whole checkpoint again; a"
                " network that needs more than token ids cannot be measured"
            ) from None

    def _tried(self, compute: Callable[..., Any], *fed: Any, **named: Any) -> Any:
        """Return what a pass gives; ``None`` if it fails."""
        import torch

        try:
            return compute(*fed, **named)
        except torch.OutOfMemoryError:
            raise
        except Exception:
            return None

    def _output(self, rows: Sequence[_Row]) -> Tensor:
        output = self._asked(**self._fed(rows))
        wanted = "last_hidden_state" if self._by_states else "logits"
        found: Tensor | None = getattr(output, wanted, None)
        tokens = max(map(len, rows))
        if found is not None and (not self._by_states or found.shape[1] == tokens):
            return found
        lacks = f"gives no {wanted}, by which it would be measured"
        if found is not None:
            lacks = f"gives {found.shape[1]} vectors for {tokens} tokens, so that none is the vector of a word"
        raise NotComputedError(
            f"{self._name} cannot be measured: its network ({type(self._asked).__name__}) {lacks}; measure a network"
            " with another head"
        )

    def _fed(self, rows: Sequence[_Row]) -> dict[str, Tensor]:
        """Return what the network is given, in the form in which scorers give it rows."""
        import torch

        longest = max(map(len, rows))
        padded = torch.tensor(  # id, type and mask of each token
            [[(*token, 1) for token in row] + [(self._pad, 0, 0)] * (longest - len(row)) for row in rows],
            dtype=torch.long,
            device=self._device,
        )
        ids, types, mask = padded.permute(2, 0, 1).contiguous()
        fed = {"input_ids": ids}
        if self._by_states or min(map(len, rows)) < longest:
            fed["attention_mask"] = mask
        if self._has_types:
            fed["token_type_ids"] = types
        return fed


@contextmanager
def _positions(tokens: int) -> Iterator[list[int]]:
    """Watch which rows of tables a pass of one row looks up. Consecutive ones, one per token, are its positions: the
    list gets the number of positions that each table has from the first of them on.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[int] = []

    class Lookups(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten.embedding.default and args[1].numel() == tokens > 2:
                places = args[1].flatten().tolist()
                if places == list(range(places[0], places[0] + tokens)):
                    found.append(int(args[0].shape[0]) - places[0])
            return func(*args, **(kwargs or {}))

    with Lookups():  # type: ignore[no-untyped-call]
        yield found


def embedded_tokens(network: object) -> int | None:
    """Return how many tokens a network embeds, or ``None`` if its embeddings are unknown, or no table with a row a
    token.
    """
    from torch.nn import Embedding
    from transformers import PreTrainedModel

    if not isinstance(network, PreTrainedModel):
        return None
    try:
        embeddings = network.get_input_embeddings()
    except NotApplicableError:  # of an exported graph, which does not show them
        return int(network.config.get_text_config().vocab_size)
    except NotImplementedError:  # of a class that does not name them
        return None
    return embeddings.num_embeddings if isinstance(embeddings, Embedding) else None
