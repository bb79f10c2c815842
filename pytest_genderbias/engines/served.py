"""Models behind a server: their tokenizer is here, their log-probabilities come over HTTP, and are proved before the
first figure, as are the rows of each measurement when they come.

A source may be honest about the texts of :func:`~pytest_genderbias.engines.served_proof.prove` and not about what is
measured: about shorter prompts, in larger batches, after some thousand requests. So each row takes the checks that need
one answer, tokens are drawn after some of the first rows, and some rows are asked once more: alone, as the beginning of
longer texts, after later rows, and at the end of the measurement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pytest_genderbias.engines.served_client import ServedClient
from pytest_genderbias.engines.served_proof import (
    AGAIN,
    LISTED,
    OF_ROWS,
    Asked,
    Proof,
    Values,
    differences,
    draws_at,
    most_moved,
    open_places,
    prove,
    refuse_failed,
    trouble_of_few_draws,
)
from pytest_genderbias.engines.transport import address_of
from pytest_genderbias.errors import ModelError, ScoreError
from pytest_genderbias.models.chat_template import chat_template_details
from pytest_genderbias.models.checkpoints import load_tokenizer
from pytest_genderbias.models.fingerprint import fingerprint_tokenizer
from pytest_genderbias.models.model import Model, Tokenized
from pytest_genderbias.models.roles import CAUSAL_LM, Role
from pytest_genderbias.models.source import LoadSettings, ModelSource
from pytest_genderbias.models.spec import SERVED, ModelSpec, hub_parts
from pytest_genderbias.scoring.token_sums import Prompt, PromptAnswer, PromptLogProbabilities
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ROLE = Role(CAUSAL_LM, "a causal LM behind a server", only_prompts=True)
_NO_TOKENIZER = (
    "{0} is served, and its own tokenizer is needed here: {1}; give its folder or hub id: -o bias_tokenizer={0}=DIR"
    " (tokenizer=... in Python)"
)
DETAIL = "server"  #: of a model's details, by which the signature says that it is served
VERSION = "endpoint_version"  #: of a model's details: the user's word under which its scores are cached
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


#: A row of a measurement, with its values.
KeptRow: TypeAlias = tuple[tuple[int, ...], Values]


@dataclass
class MeasuredRows:
    """Asks a proved source for the rows of one question of a measurement, and proves them.

    Attributes:
        model: what is asked. Only checks that its source passed are made again, and some rows of this measurement are
            kept with those of earlier ones.
        name: the model's name, for messages.
    """

    model: ServedModel
    name: str
    _rng: np.random.Generator = field(default_factory=np.random.default_rng)  # of the system: no source knows it
    _lengths: set[int] = field(default_factory=set)
    _drawn: bool = False

    @property
    def where(self) -> str:
        """The question in words."""
        return self.model.source.where

    def ask(self, prompts: Sequence[Prompt]) -> list[PromptAnswer]:
        """Return the answer to each prompt, in their order.

        Raises:
            UnprovenError: the answers cannot be log-probabilities of these prompts, or others come when some are asked
                again.
            ScoreError: rows that were asked before have other values now.
        """
        rows = [list(map(int, prompt)) for prompt in prompts]
        model, checks = self.model, self.model.proof.checks
        answers = model.source.ask(rows, LISTED)
        if not rows:
            return answers
        asked = Asked(model.source, model.tokenizer, model.max_length, rows, [], answers)
        said = (
            f"{self.name}: {self.where} gives no log-probabilities that can be used for rows of the suite, though it"
            " does for known texts:"
        )
        for check in checks:
            if check in OF_ROWS:
                refuse_failed(said, {check: OF_ROWS[check]}, asked)
        if AGAIN in checks:
            refuse_failed(said, {AGAIN: self._again}, asked)
        if not self._drawn and "draws" in checks:
            refuse_failed(said, {"draws": self._draws}, asked)
        self._drawn = True
        return answers

    def confirm_kept(self) -> None:
        """Ask some of the kept rows again, drawn at random.

        Raises:
            ScoreError: their values changed.
        """
        kept = list(self.model.kept)
        if not kept:
            return
        rows, before = zip(*(kept[i] for i in self._rng.permutation(len(kept))[:_EARLIER]), strict=True)
        if moved := self._moved(self.model.source.ask(self._continued(rows)), before):
            raise ScoreError(
                f"{self.name} changed while it was measured: {self.where} gives other log-probabilities for rows that"
                f" were measured before ({moved}), so that the scores may be of two models; nothing is kept of the last"
                " ones: measure again when the server stays the same, with another bias_endpoint_version if there"
                " was one"
            )

    def _again(self, asked: Asked) -> str | None:
        """Test that rows have the same values alone, and as the beginnings of longer texts in another order; then that
        earlier rows have theirs.
        """
        rows, answers = asked.rows, asked.answers
        by_length = {len(rows[i]): i for i in self._rng.permutation(len(rows)).tolist()}
        lengths = sorted(by_length.keys() - self._lengths)[:_LENGTHS]
        self._lengths.update(lengths)
        new = [by_length[length] for length in lengths]
        picked = [min(start + int(self._rng.integers(_APART)), len(rows) - 1) for start in range(0, len(rows), _APART)]
        picked = self._rng.permutation(list(dict.fromkeys([*new, *picked]))).tolist()
        alone = list(dict.fromkeys([*new, *picked[:_ALONE]]))
        ways = {
            "alone": (alone, [asked.source.ask([rows[i]])[0] for i in alone]),
            "as the beginning of a longer text": (picked, asked.source.ask(self._continued([rows[i] for i in picked]))),
        }
        for way, (numbers, found) in ways.items():
            if moved := self._moved(found, [answers[i].log_probabilities for i in numbers]):
                return (
                    f"expected the same values when a row is asked again {way}, got other ones ({moved}); a value hangs"
                    " on the length of its prompt, on what else was asked, or on how often"
                )
        self.confirm_kept()
        self._keep([(tuple(rows[i]), answers[i].log_probabilities) for i in picked])
        return None

    def _keep(self, rows: Sequence[KeptRow]) -> None:
        """Keep some rows, to be asked again later; where there are many, they replace earlier ones at random."""
        kept = self.model.kept
        for row in rows:
            if len(kept) < _KEPT:
                kept.append(row)
            else:
                kept[int(self._rng.integers(_KEPT))] = row

    def _continued(self, rows: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the rows with tokens of other rows after them, one to sixty-four, as far as there is room."""
        known = np.concatenate([np.asarray(row) for row in rows])
        after = self._rng.choice(known, (len(rows), _MOST_AFTER)).tolist()
        lengths = self._rng.integers(1, _MOST_AFTER, len(rows), endpoint=True)
        longest = self.model.max_length
        room = [_MOST_AFTER if longest is None else longest - len(row) for row in rows]
        return [
            [*row, *end[: max(0, min(n, most))]] for row, end, n, most in zip(rows, after, lengths, room, strict=True)
        ]

    def _moved(self, answers: Sequence[PromptAnswer], before: Sequence[Values]) -> str:
        """Return by how much values differ from those that came before; empty if they are the same but for noise."""
        found = [answer.log_probabilities[: len(values)] for answer, values in zip(answers, before, strict=True)]
        moved = differences(found, before)
        if np.isinf(moved).any():
            return "another number of them"
        # Rows are of other lengths than the texts of the proof, so noise differs: by twice the largest of the proof.
        noise = self.model.proof.noise
        mean = max(most_moved(self.model.proof.mean_noise), min(2 * noise, _ROUNDED_MEAN))
        most = max(_LEAST_MOST, min(_TIMES_SMALL * noise, max(_ROUNDED_MOST, _TIMES_LARGE * noise)))
        if not len(moved) or (moved.mean() <= mean and moved.max() <= most):
            return ""
        return (
            f"by {moved.mean():.3g} nats a token and up to {moved.max():.3g}, expected at most {mean:.2g} and"
            f" {most:.2g}"
        )

    def _draws(self, asked: Asked) -> str | None:
        """Test that tokens drawn after beginnings of rows follow what was listed there, for rows of all lengths."""
        order = sorted(self._rng.permutation(len(asked.rows)).tolist(), key=lambda i: len(asked.rows[i]))
        some = [order[k] for k in np.unique(np.linspace(0, len(order) - 1, _STARTS).round().astype(int))]
        places = [(i, k) for i in some for k in open_places(asked.answers[i].top, first=1)]
        if not places:
            return None
        each = max(min(_MOST_AT_ONE, _READ // sum(k for _, k in places)), _LEAST_AT_ONE, _DRAWN // len(places))
        lists = [(asked.rows[i][:k], asked.answers[i].top[k]) for i, k in places]
        count, draws = draws_at(asked, lists, each)
        end = asked.tokenizer.eos_token_id
        expected = sum(each * (1 - float(np.exp(top.get(end, -np.inf)))) for _, top in lists)
        if count < expected / 2:
            return (
                f"expected about {expected:.0f} tokens drawn after beginnings of rows, got {count}; the lists cannot be"
                " compared with draws"
            )
        return trouble_of_few_draws(draws)


@dataclass(frozen=True)
class ServedModel(Tokenized):
    """A causal LM that another process or engine runs, with its tokenizer in this process. Its role says
    ``only_prompts``.

    ``source``: what is asked. ``max_length``: most tokens in a row, or ``None`` without a limit. ``proof``: what was
    tested of the log-probabilities, and prompts that are asked again at the end of each measurement. ``kept``: rows of
    measurements, asked again as well.
    """

    source: PromptLogProbabilities = field(repr=False)
    tokenizer: PreTrainedTokenizerBase = field(repr=False)
    max_length: int | None
    proof: Proof
    kept: list[KeptRow] = field(default_factory=list, repr=False, compare=False)

    def rows(self, name: str) -> MeasuredRows:
        """Return what asks for the rows of one question of a measurement, and proves them. ``name``: the model's
        name.
        """
        return MeasuredRows(self, name)

    def confirm_unchanged(self, name: str) -> None:
        """Ask prompts of the proof and rows of measurements again.

        Raises:
            ScoreError: their values changed.
        """
        self.proof.confirm_unchanged(self.source, name)
        self.rows(name).confirm_kept()

    def confirm_stored(self, kept_beside: Callable[[Values], Values | None], model: Model) -> None:
        """Check that this is the model whose scores are stored under the user's word for it, before any of them is
        read.

        Args:
            kept_beside: returns what is kept beside stored scores of the shape of its argument, which is kept from now
                on where no score is stored (``None``).
            model: the model of which this is the backend.

        Raises:
            ScoreError: it is another one.
        """
        version = model.details.get(VERSION)
        kept = None if version is None else kept_beside(self.proof.kept)
        if kept is not None:
            self.proof.confirm_same(kept, self.source.where, model.name, str(version))

    @property
    def notes(self) -> list[str]:
        """The remark that the model is served, with what was proved of it."""
        return [
            f"the model is behind {self.source.where}: its log-probabilities passed {len(self.proof.checks)} checks"
            " before the first figure, and did not change until the last; one asked again differed by at most"
            f" {self.proof.noise:.1g} nats"
        ]


def parse(spec: str) -> ModelSpec:
    """Parse ``http://HOST:PORT/v1#MODEL``."""
    return address_of(spec, SERVED)


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Return the role of a served model; nothing is asked yet."""
    return ModelSource(spec, ROLE, elsewhere=True)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Connect to a server, load the model's tokenizer, and prove the log-probabilities.

    Raises:
        ModelError: the server cannot be reached or has no such model, the tokenizer is missing, or a check of the proof
            fails.
        ScoreError: the server does not answer.
    """
    spec = source.spec
    url, _, model = spec.target.partition("#")
    client = ServedClient(url, model, spec.name, settings.served.allow_remote, settings.served.time_limit)
    return proved_model(spec, client, _tokenizer(spec, model, settings), settings.served.version)


def proved_model(
    spec: ModelSpec, source: PromptLogProbabilities, tokenizer: PreTrainedTokenizerBase, version: str | None = None
) -> Model:
    """Make a :class:`Model` of a causal LM that another process or engine runs, once its log-probabilities are proved.

    Args:
        spec: the model's name and origin.
        source: what is asked for log-probabilities.
        tokenizer: the model's own tokenizer.
        version: the user's word for what is served; with it scores are cached, as long as the word, the tokenizer and
            the origin stay the same.

    Raises:
        ModelError: a check fails.
    """
    limits = (source.max_length, tokenizer.model_max_length)
    longest = min((n for n in limits if isinstance(n, int) and 0 < n < 10**6), default=None)
    proof = prove(source, tokenizer, longest, spec.name)
    tokenizer_print = fingerprint_tokenizer(tokenizer)
    details = {
        "architecture": "served",
        "tokenizer": tokenizer_print[:16],
        **source.facts,
        **({} if version is None else {VERSION: version}),
        **chat_template_details(tokenizer),
    }
    named = "\n".join(("served", spec.target, version or "", tokenizer_print))
    fingerprint = None if version is None else hashlib.sha256(named.encode()).hexdigest()
    return Model(spec.name, spec.spec, ROLE, fingerprint, details, ServedModel(source, tokenizer, longest, proof))


def _tokenizer(spec: ModelSpec, model: str, settings: LoadSettings) -> PreTrainedTokenizerBase:
    """Return the tokenizer that was named for a served model, or that of the server's name for it, which often is a
    folder or a hub id.

    Raises:
        ModelError: there is none.
    """
    place = dict(settings.served.tokenizers).get(spec.name, model)
    if not isinstance(place, str):
        return place
    path, on_hub = Path(place).expanduser(), hub_parts(place)
    if path.is_dir():
        where = ModelSpec(spec.name, place, "directory", str(path.resolve()))
    elif on_hub is not None:
        where = ModelSpec(spec.name, place, "hub", on_hub[0], revision=on_hub[1])
    else:
        raise ModelError(_NO_TOKENIZER.format(spec.name, f"no directory {brief(place)}"))
    try:
        return load_tokenizer(where, settings)
    except ModelError as error:
        raise ModelError(_NO_TOKENIZER.format(spec.name, error)) from None
