"""The proof of the rows of a measurement: what a source says of them is tested when it comes, and some are asked again
later.

A source may be honest about the texts of :func:`~pytest_genderbias.engines.served_proof.prove` and not about what is
measured: about shorter prompts, in larger batches, after some thousand requests. So each row takes the checks that need
one answer, tokens are drawn after some of the first rows, and some rows are asked once more: alone, as the beginning of
longer texts, after later rows, and at the end of the measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pytest_genderbias.engines.served_draws import Draws, trouble_of_few_draws
from pytest_genderbias.engines.served_proof import (
    AGAIN,
    LISTED,
    OF_ROWS,
    Asked,
    Proof,
    Values,
    differences,
    most_moved,
    open_places,
    refuse_failed,
)
from pytest_genderbias.errors import ScoreError
from pytest_genderbias.models.prompt_log_probabilities import Prompt, PromptAnswer, PromptLogProbabilities

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_APART = 32  #: one row among so many is asked again: at most the prompts of a request
_ALONE = 2  #: rows that are asked again alone, beside the first of each length
_LENGTHS = 16  #: most lengths that are new at once
_MOST_AFTER = 64  #: most tokens after a row in a longer text
_KEPT, _EARLIER = 64, 8  #: rows that are kept to be asked later, and how many of them are asked at a time
_STARTS = 48  #: rows after whose beginnings tokens are drawn, at the two places of each that are most open
_LEAST_AT_ONE, _MOST_AT_ONE = 40, 100  #: tokens drawn at one place; where there are few places, more
_DRAWN, _READ = 1000, 1 << 17  #: tokens drawn in all, at least, and tokens before them, about at most
_LEAST_MOST, _ROUNDED_MOST = 5e-3, 0.1  #: nats by which one value may differ: without noise, and with that of 16 bits
_TIMES_SMALL, _TIMES_LARGE = 20, 4  #: or how often the largest repeat noise, where that is less or more
_ROUNDED_MEAN = 0.02  #: nats a token by which values may differ on average, where one of them did so in the proof


@dataclass
class KeptRows:
    """Some rows of all measurements of a model, with their values, to be asked again later; later rows replace earlier
    ones at random.
    """

    rows: list[tuple[tuple[int, ...], Values]] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def keep(self, rows: Sequence[tuple[tuple[int, ...], Values]]) -> None:
        """Keep some rows."""
        for row in rows:
            if len(self.rows) < _KEPT:
                self.rows.append(row)
            else:
                self.rows[int(self.rng.integers(_KEPT))] = row

    def some(self) -> list[tuple[tuple[int, ...], Values]]:
        """Return some of the rows, drawn at random."""
        rows = list(self.rows)
        return [rows[i] for i in self.rng.permutation(len(rows))[:_EARLIER]]


class MeasuredRows:
    """Asks a proved source for the rows of one question of a measurement, and proves them.

    Args:
        source: what is asked.
        proof: of the source. Only checks that it passed are made again.
        tokenizer: the model's own tokenizer.
        longest: most tokens in a prompt, or ``None``.
        name: the model's name, for messages.
        kept: rows of this measurement and earlier ones, to which some of these are added.
    """

    def __init__(
        self,
        source: PromptLogProbabilities,
        proof: Proof,
        tokenizer: PreTrainedTokenizerBase,
        longest: int | None,
        name: str,
        kept: KeptRows,
    ) -> None:
        self._source, self._proof, self._tokenizer, self._longest = source, proof, tokenizer, longest
        self._name, self._kept = name, kept
        self._rng = np.random.default_rng()  # of the system: no source knows which rows are asked again
        self._lengths: set[int] = set()
        self._drawn = False

    @property
    def where(self) -> str:
        """The question in words."""
        return self._source.where

    def ask(self, prompts: Sequence[Prompt]) -> list[PromptAnswer]:
        """Return the answer to each prompt, in their order.

        Raises:
            UnprovenError: the answers cannot be log-probabilities of these prompts, or others come when some are asked
                again.
            ScoreError: rows that were asked before have other values now.
        """
        rows = [list(map(int, prompt)) for prompt in prompts]
        answers = self._source.ask(rows, LISTED)
        if not rows:
            return answers
        asked = Asked(self._source, self._tokenizer, self._longest, rows, [], answers)
        said = (
            f"{self._name}: {self.where} gives no log-probabilities that can be used for rows of the suite, though it"
            " does for known texts:"
        )
        for check in self._proof.checks:
            if check in OF_ROWS:
                refuse_failed(said, {check: OF_ROWS[check]}, asked)
        if AGAIN in self._proof.checks:
            refuse_failed(said, {AGAIN: self._again}, asked)
        if not self._drawn and "draws" in self._proof.checks:
            refuse_failed(said, {"draws": self._draws}, asked)
        self._drawn = True
        return answers

    def confirm_kept(self) -> None:
        """Ask some rows again that were asked before.

        Raises:
            ScoreError: their values changed.
        """
        some = self._kept.some()
        if not some:
            return
        rows, before = zip(*some, strict=True)
        if moved := self._moved(self._source.ask(self._continued(rows)), before):
            raise ScoreError(
                f"{self._name} changed while it was measured: {self.where} gives other log-probabilities for rows that"
                f" were measured before ({moved}), so that the scores may be of two models; nothing is kept of the last"
                " ones: measure again when the server stays the same, with another bias_endpoint_version if there"
                " was one"
            )

    def _again(self, asked: Asked) -> str | None:
        """Test that rows have the same values alone, and as the beginnings of longer texts in another order; then that
        earlier rows have theirs.
        """
        rows, answers = asked.rows, asked.answers
        new = self._first_of_new_lengths(rows)
        picked = [min(start + int(self._rng.integers(_APART)), len(rows) - 1) for start in range(0, len(rows), _APART)]
        picked = self._rng.permutation(list(dict.fromkeys([*new, *picked]))).tolist()
        alone = list(dict.fromkeys([*new, *picked[:_ALONE]]))
        ways = {
            "alone": (alone, [self._source.ask([rows[i]])[0] for i in alone]),
            "as the beginning of a longer text": (picked, self._source.ask(self._continued([rows[i] for i in picked]))),
        }
        for way, (numbers, found) in ways.items():
            if moved := self._moved(found, [answers[i].log_probabilities for i in numbers]):
                return (
                    f"expected the same values when a row is asked again {way}, got other ones ({moved}); a value hangs"
                    " on the length of its prompt, on what else was asked, or on how often"
                )
        self.confirm_kept()
        self._kept.keep([(tuple(rows[i]), answers[i].log_probabilities) for i in picked])
        return None

    def _first_of_new_lengths(self, rows: Sequence[Sequence[int]]) -> list[int]:
        """Return the number of a row of each length that was not asked again so far, of a few of them."""
        by_length = {len(rows[i]): i for i in self._rng.permutation(len(rows)).tolist()}
        new = sorted(by_length.keys() - self._lengths)[:_LENGTHS]
        self._lengths.update(new)
        return [by_length[length] for length in new]

    def _continued(self, rows: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the rows with tokens of other rows after them, one to sixty-four, as far as there is room."""
        known = np.concatenate([np.asarray(row) for row in rows])
        after = self._rng.choice(known, (len(rows), _MOST_AFTER)).tolist()
        lengths = self._rng.integers(1, _MOST_AFTER, len(rows), endpoint=True)
        room = [_MOST_AFTER if self._longest is None else self._longest - len(row) for row in rows]
        return [
            [*row, *end[: max(0, min(n, most))]] for row, end, n, most in zip(rows, after, lengths, room, strict=True)
        ]

    def _moved(self, answers: Sequence[PromptAnswer], before: Sequence[Values]) -> str:
        """Return by how much values differ from those that came before; empty if they are the same but for noise."""
        found = [answer.log_probabilities[: len(values)] for answer, values in zip(answers, before, strict=True)]
        if [*map(len, found)] != [*map(len, before)]:
            return "another number of them"
        moved = differences(found, before)
        mean, most = self._noise()
        if not len(moved) or (moved.mean() <= mean and moved.max() <= most):
            return ""
        return (
            f"by {moved.mean():.3g} nats a token and up to {moved.max():.3g}, expected at most {mean:.2g} and"
            f" {most:.2g}"
        )

    def _noise(self) -> tuple[float, float]:
        """Return by how many nats values may differ, on average and one of them. Rows are of other lengths than the
        texts of the proof, so noise differs: by twice the largest of the proof on average.
        """
        noise = self._proof.noise
        rounded = min(_TIMES_SMALL * noise, max(_ROUNDED_MOST, _TIMES_LARGE * noise))
        return max(most_moved(self._proof.mean_noise), min(2 * noise, _ROUNDED_MEAN)), max(_LEAST_MOST, rounded)

    def _draws(self, asked: Asked) -> str | None:
        """Test that tokens drawn after beginnings of rows follow what was listed there, for rows of all lengths."""
        order = sorted(self._rng.permutation(len(asked.rows)).tolist(), key=lambda i: len(asked.rows[i]))
        some = [order[k] for k in np.unique(np.linspace(0, len(order) - 1, _STARTS).round().astype(int))]
        places = [(i, k) for i in some for k in open_places(asked.answers[i].top, first=1)]
        if not places:
            return None
        each = max(min(_MOST_AT_ONE, _READ // sum(k for _, k in places)), _LEAST_AT_ONE, _DRAWN // len(places))
        written = asked.source.generate([asked.rows[i][:k] for i, k in places for _ in range(each)], 1, 1.0, None)
        drawn = [[t for ids in written[at : at + each] for t in ids] for at in range(0, len(written), each)]
        lists = [asked.answers[i].top[k] for i, k in places]
        end = asked.tokenizer.eos_token_id
        expected = sum(each * (1 - float(np.exp(top.get(end, -np.inf)))) for top in lists)
        if sum(map(len, drawn)) < expected / 2:
            return (
                f"expected about {expected:.0f} tokens drawn after beginnings of rows, got {sum(map(len, drawn))}; the"
                " lists cannot be compared with draws"
            )
        return trouble_of_few_draws(
            [Draws.of([[top] * len(tokens)], [tokens], LISTED, end) for top, tokens in zip(lists, drawn, strict=True)]
        )
