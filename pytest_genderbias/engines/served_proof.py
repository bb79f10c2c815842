"""The proof that a source gives log-probabilities of prompts, made before its first figure is used, by token ids only.

Servers give chance, zeros, the values of another place, or those of another prompt without an error, and a bias suite
would make figures of them. Each check here compares what comes for a few known texts with what any causal LM must give,
whatever its weights: see :func:`prove`. Whether the tokens that a model draws follow the probabilities that it lists
finds another base, temperature or scale. ``served.py`` makes some of the checks with the rows of each measurement,
which a server may answer otherwise. What no check of this kind can find: another model with the same tokenizer, and
changes that make the values those of another proper model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError, ScoreError
from pytest_genderbias.scoring.token_sums import PromptAnswer, PromptLogProbabilities

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: Plain English, which the values should find likelier than its words in another order.
KNOWN_TEXTS = (
    (
        "Once upon a time there was a little girl who lived in a small house near the forest with her mother and her"
        " father."
    ),
    "One day the boy went to the park with his dog, and they played with a red ball until the sun went down.",
    (
        "The old man sat on a chair in the garden, looked at the flowers, and told the children a long story about the"
        " sea."
    ),
    "She opened the door, put her bag on the table, and asked her brother what he wanted to eat for dinner.",
    "It was raining all morning, so the teacher said that everyone should stay inside and read a book.",
    "The cat was very happy because it had found a big fish in the kitchen, and nobody was at home.",
)
LISTED = 5  #: most likely tokens asked for in each place
_MARGIN = 1.0  #: nats a token by which a text should be likelier than its shuffles
#: Nats a token that bfloat16 and other batches may move values by: the mean, and one token.
_STEADY_MEAN, _STEADY_MOST = 0.02, 0.5
_SHARED = 0.05  #: largest share of tokens with one value
_ROUNDED = 0.2  #: largest share of tokens whose value another token has
_CERTAIN = -1e-3  #: values above it are near 0 for many tokens
_FEW = 20  #: values of which one in fifty has two decimals by chance
_NEAR = 1e-3  #: nats, or probability: rounding of printed numbers
_CANARIES = 3  #: texts that are asked again at the end of each measurement
_UNCHANGED = 1e-3  #: nats a token that canaries may differ by, on average, where the repeat noise is smaller
_TIMES_NOISE = 10  #: how much more than the mean repeat noise they may differ by
_DRAWN_PER_TEXT, _DRAWN = 8, 48  #: prompts of each text, and tokens of each, that are drawn
_DRAWN_AT_ONE = 80  #: tokens drawn at one place of each text
_SHORT = (2, 3, 4, 6, 9, 13, 17)  #: tokens of the short prompts: most rows of suites are no longer

LEAST = 400  #: draws that a comparison needs
_LEAST_EXPECTED = 5.0  #: draws of a token that is counted by itself
_LEAST_P = 1e-6  #: p-value below which a right source falls once in a million
_MOST_Z = 5.0  #: standard errors by which a right source is off once in a million
_LOG_ODDS = float(np.log(2 / _LEAST_P))  #: of Bernstein's bound at the same p-value

AGAIN = "asked again"  #: name of a check

Prompts: TypeAlias = "list[list[int]]"
Values: TypeAlias = "NDArray[np.float64]"
#: Drawn tokens: the probabilities that are listed for the place of each, given that the text does not end, the most
#: likely first, shape (draws, listed); and the number of the drawn token in its list, or -1 for another one, shape
#: (draws,).
Draws: TypeAlias = "tuple[Values, NDArray[np.int64]]"
_Excess: TypeAlias = "tuple[NDArray[np.float64], NDArray[np.float64]]"


class UnprovenError(ModelError):
    """A source answers with no log-probabilities of prompts. The message has a line per check that failed."""

    def __str__(self) -> str:
        """Return the message with its lines."""
        from pytest_genderbias.escaping import printable

        return printable(ValueError.__str__(self), keep="\n")


@dataclass(frozen=True)
class Proof:
    """Proof of a source.

    Attributes:
        checks: names of the checks that it passed.
        noise: largest difference of one value when a prompt was asked again, alone or in another batch, in nats.
        canaries: prompts that are asked again, each with other tokens after it, so that no memory for equal prompts can
            answer.
        values: their values, in nats; the first of each is NaN.
        mean_noise: mean difference of a value when prompts were asked again, in nats.
    """

    checks: tuple[str, ...]
    noise: float
    canaries: tuple[tuple[int, ...], ...]
    values: tuple[Values, ...] = field(repr=False)
    mean_noise: float = 0.0

    def confirm_unchanged(self, source: PromptLogProbabilities, name: str) -> None:
        """Ask the canaries again.

        Raises:
            ScoreError: their values changed since the proof, on average by more than ten times the mean repeat noise.
        """
        known = np.asarray([token for canary in self.canaries for token in canary])
        ends = np.random.default_rng().choice(known, (len(self.canaries), 3))  # others at every call
        answers = source.ask([[*canary, *end] for canary, end in zip(self.canaries, ends.tolist(), strict=True)])
        found = [answer.log_probabilities[: len(values)] for answer, values in zip(answers, self.values, strict=True)]
        moved = differences(found, self.values)
        limit = most_moved(self.mean_noise)
        if not moved.mean() <= limit:
            raise ScoreError(
                f"{name} changed while it was measured: {source.where} gives other log-probabilities for"
                f" {len(self.canaries)} texts than before the first figure (on average {moved.mean():.3g} nats a token,"
                f" expected at most {limit:.2g}), so that the scores may be of two models; nothing is kept of the last"
                " ones: measure again when the server stays the same, with another bias_endpoint_version if there"
                " was one"
            )

    @property
    def kept(self) -> Values:
        """Values stored beside cached scores: the mean noise, then the values of all tokens of the canaries but the
        first of each.
        """
        return np.concatenate([[self.mean_noise], *(values[1:] for values in self.values)])

    def confirm_same(self, kept: Values, where: str, name: str, version: str) -> None:
        """Compare the canaries with those of the proof before cached scores were made.

        Args:
            kept: :attr:`kept` of that proof, of the same length.
            where: the server, in words.
            name: the model's name.
            version: the user's word under which the scores are cached.

        Raises:
            ScoreError: the values differ, on average by more than ten times the larger of both mean repeat noises.
        """
        then, now = kept[1:], self.kept[1:]
        moved, limit = float(np.abs(now - then).mean()), most_moved(max(float(kept[0]), self.mean_noise))
        if not moved <= limit:
            raise ScoreError(
                f"{name} is another model than the one whose scores are cached under -o"
                f" bias_endpoint_version={version}: {where} gives other log-probabilities for {len(self.canaries)}"
                f" texts than it did then (on average {then.mean():.4f} nats a token then, {now.mean():.4f} now,"
                f" {moved:.3g} apart, expected at most {limit:.2g}); no cached score is used: take another TAG for what"
                " is served now"
            )


@dataclass
class Asked:
    """The texts, their shuffles, and what the source says of all of them in one batch; or the rows of a measurement,
    without shuffles.
    """

    source: PromptLogProbabilities
    tokenizer: PreTrainedTokenizerBase
    longest: int | None
    rows: Prompts
    shuffled: Prompts
    answers: Sequence[PromptAnswer]
    noise: float = 0.0
    mean_noise: float = 0.0

    @property
    def prompts(self) -> Prompts:
        """Texts and shuffles, in the order of the answers."""
        return self.rows + self.shuffled

    @property
    def bare_rows(self) -> Prompts:
        """The texts, every second one without the token that begins it: a server that puts one there itself reads
        something else than it writes.
        """
        front = self.tokenizer.bos_token_id
        return [row[1:] if i % 2 and row[0] == front else row for i, row in enumerate(self.rows)]

    def values(self) -> list[Values]:
        """Return the values of each prompt without the first token's."""
        return [answer.log_probabilities[1:] for answer in self.answers]

    def trouble_of_again(self, answers: Sequence[PromptAnswer], before: Sequence[Values]) -> str:
        """Return how values differ from those that came before; empty if by noise alone, of which the largest is
        kept.
        """
        moved = differences([answer.log_probabilities for answer in answers], before)
        if np.isinf(moved).any():
            return "in another number"
        if not (moved.mean() <= _STEADY_MEAN and moved.max() <= _STEADY_MOST):
            return f"by {moved.mean():.3g} nats a token and up to {moved.max():.3g}"
        self.noise = max(self.noise, float(moved.max()))
        self.mean_noise = max(self.mean_noise, float(moved.mean()))
        return ""

    @property
    def differing(self) -> float:
        """Return the least difference in nats that is no noise."""
        return max(1e-6, 3 * self.noise)


Check: TypeAlias = "Callable[[Asked], str | None]"


def prove(source: PromptLogProbabilities, tokenizer: PreTrainedTokenizerBase, longest: int | None, name: str) -> Proof:
    """Test that a source gives the log-probabilities of the tokens of prompts.

    Args:
        source: what is asked.
        tokenizer: the model's own tokenizer.
        longest: most tokens in a prompt, or ``None``.
        name: the model's name, for messages.

    Raises:
        UnprovenError: a check fails. The first checks are of the form of the answers, the next of the values, and the
            last of many tokens that are drawn; each stage runs only where all checks before it pass.
    """
    most = None if longest is None else longest - 4  # other tokens come after some
    rows = [tokenizer(text, verbose=False)["input_ids"][:most] for text in KNOWN_TEXTS]
    rng = np.random.default_rng(0)
    shuffled = [[row[0], *rng.permutation(row[1:]).tolist()] for row in rows]
    answers = source.ask(rows + shuffled, LISTED)
    asked = Asked(source, tokenizer, longest, rows, shuffled, answers)
    said = f"{name}: {source.where} gives no log-probabilities of prompts that can be used; nothing is measured:"
    for stage in (_FORM, _CONTENT, _DRAWS):
        refuse_failed(said, stage, asked)
    kept = range(min(_CANARIES, len(rows)))
    return Proof(
        (*_FORM, *_CONTENT, *_DRAWS),
        asked.noise,
        tuple(tuple(rows[i]) for i in kept),
        tuple(answers[i].log_probabilities for i in kept),
        asked.mean_noise,
    )


def refuse_failed(said: str, checks: Mapping[str, Check], asked: Asked) -> None:
    """Make some checks.

    Raises:
        UnprovenError: one fails. Its message is what is said, with a line for each check that failed.
    """
    failed = [f"- {check}: {line}" for check, test in checks.items() if (line := test(asked)) is not None]
    if failed:
        raise UnprovenError("\n".join([said, *failed]))


def _one_value_a_token(asked: Asked) -> str | None:
    pairs = list(zip(asked.prompts, asked.answers, strict=True))
    wrong = next((p for p in pairs if len(p[1].log_probabilities) != len(p[0])), None)
    if wrong is not None:
        return (
            f"expected one value for each of {len(wrong[0])} tokens of a prompt, got {len(wrong[1].log_probabilities)};"
            " the values are not those of the prompt (llama.cpp's server and 'transformers serve' give none)"
        )
    missing = sum(int((~np.isfinite(values)).sum()) for values in asked.values())
    if missing:
        total = sum(map(len, asked.values()))
        return (
            f"expected a number for each token but the first, got none, or an infinite one, for {missing} of {total};"
            " the prompt was not scored"
        )
    positive = max(float(values.max()) for values in asked.values())
    if positive > 1e-6:
        return (
            f"expected values of at most 0, got {positive:.4g}; they are no logarithms of probabilities, but perhaps"
            " probabilities or logits"
        )
    return None


def _same_ids(asked: Asked) -> str | None:
    for prompt, answer in zip(asked.prompts, asked.answers, strict=True):
        if answer.token_ids is None:
            return (
                "expected the ids of the tokens ('token_id:N', vLLM's return_tokens_as_token_ids), got texts or"
                " nothing; which token a value belongs to cannot be told, since several tokens have one text"
            )
        if answer.token_ids != list(prompt):
            at = next(
                (i for i, (a, b) in enumerate(zip(answer.token_ids, prompt, strict=False)) if a != b), len(prompt)
            )
            return (
                f"expected the ids of the prompt, got others from place {at} on; the values belong to other tokens, as"
                " of a text that was cut anew"
            )
    return None


def _own_tokenizer(asked: Asked) -> str | None:
    text = KNOWN_TEXTS[0]
    theirs = asked.source.own_token_ids(text)
    plain = list(asked.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    special = list(asked.tokenizer(text, verbose=False)["input_ids"])
    if theirs is None or theirs in (plain, special):
        return None
    return (
        f"expected the {len(special)} ids of the tokenizer given for it when the server reads {text[:24]!r}..., got"
        f" {len(theirs)} others; the model has another tokenizer: name the right one with bias_tokenizer"
    )


def _tokens_read(asked: Asked) -> str | None:
    row = asked.rows[0]
    (answer,) = asked.source.ask([row])
    if answer.tokens_read in (None, len(row)):
        return None
    return (
        f"expected that {len(row)} tokens of a prompt are read, got {answer.tokens_read} by the server's own count; it"
        " adds tokens or drops some"
    )


def _likelier_than_shuffled(asked: Asked) -> str | None:
    n = len(asked.rows)
    means = [float(values.mean()) for values in asked.values()]
    margin = float(np.mean(means[:n]) - np.mean(means[n:]))
    if margin >= _MARGIN:
        return None
    return (
        f"expected known texts to be at least {_MARGIN:g} nat a token likelier than with their words shuffled, got"
        f" {margin:.2f}; the values say nothing of the text, or the model knows no English"
    )


def _steady(asked: Asked) -> str | None:
    n = len(asked.rows)
    alone_at = (0, 1, n, n + 1)  # a shuffled text is as long as its text
    before = [answer.log_probabilities for answer in asked.answers]
    alone = [asked.source.ask([asked.prompts[i]])[0] for i in alone_at]
    again = asked.source.ask(asked.prompts[::-1])[::-1]
    ways = {"alone": (alone, [before[i] for i in alone_at]), "in another order": (again, before)}
    for way, (found, of) in ways.items():
        if trouble := asked.trouble_of_again(found, of):
            return (
                f"expected the same values when a prompt is asked again {way}, got other ones, {trouble}; a value hangs"
                " on what else was asked"
            )
    return None


def _prefixes(asked: Asked) -> str | None:
    """Test that a text's beginning has its values without the rest, in a batch and alone, from the shortest prompts
    on.
    """
    lengths = [{min(k, len(row)) for k in (*_SHORT, max(2, 2 * len(row) // 3))} for row in asked.rows]
    places = [(i, k) for i, ks in enumerate(lengths) for k in sorted(ks)]
    prefixes = [asked.rows[i][:k] for i, k in places]
    alone_at = range(0, len(places), len(asked.rows) + 1)  # other lengths of each text
    answers = [*asked.source.ask(prefixes), *(asked.source.ask([prefixes[at]])[0] for at in alone_at)]
    places += [places[at] for at in alone_at]
    whole = [asked.answers[i].log_probabilities[:k] for i, k in places]
    trouble = asked.trouble_of_again(answers, whole)
    if not trouble:
        return None
    return (
        f"expected the values of a text's beginning to stay without its rest, got other ones, {trouble}; a value hangs"
        " on tokens after its own, as of a masked model, on the length of its prompt, as where padding is read, or"
        " belongs to another place"
    )


def _context(asked: Asked) -> str | None:
    """Test that values hang on the first tokens, near and far, and on a token in front."""
    row, other = asked.rows[0], asked.rows[1]
    chain = [token for one in asked.rows for token in one][: None if asked.longest is None else asked.longest - 1]
    changed_first = [other[-1] if row[0] != other[-1] else other[-2], *row[1:]]
    changed_far = [*changed_first[:1], *other[1:4], *chain[4:]]
    front = asked.tokenizer.bos_token_id if asked.tokenizer.bos_token_id is not None else asked.tokenizer.eos_token_id
    bare = row[1:] if row[0] == front else row
    prompts = [row, changed_first, chain, changed_far, bare, [front if front is not None else other[-1], *bare]]
    answers = [answer.log_probabilities for answer in asked.source.ask(prompts)]
    if [len(a) for a in answers] != [len(p) for p in prompts]:
        return "expected one value a token for longer texts, too, got another number; prompts are cut"
    least = asked.differing
    if abs(answers[0][1] - answers[1][1]) <= least:
        return (
            "expected another value of the second token after another first one, got the same; the first token is not"
            " read"
        )
    if np.abs(answers[2][-16:] - answers[3][-16:]).max() <= least:
        return (
            f"expected other values at the end of {len(chain)} tokens when the first four change, got the same; the"
            " beginning of long prompts is not read"
        )
    if np.abs(answers[4][1:] - answers[5][2:]).max() <= least:
        return (
            "expected other values after a token that begins a text, got the same; the server adds such a token itself,"
            " or drops it"
        )
    return None


def _trouble_of_lists(prompts: Sequence[Sequence[int]], answers: Sequence[PromptAnswer]) -> str | None:
    """Return what is wrong with the lists of the most likely tokens, which belong to the values of their places."""
    for prompt, answer in zip(prompts, answers, strict=True):
        if len(answer.top) != len(prompt) or min(map(len, answer.top[1:]), default=0) < LISTED:
            return (
                f"expected the {LISTED} most likely tokens in each place, by their ids, got fewer; the values cannot be"
                " compared with them"
            )
        for place in range(1, len(prompt)):
            top, value = answer.top[place], float(answer.log_probabilities[place])
            most_likely = sorted(top.values(), reverse=True)[:LISTED]
            mass = sum(map(exp, most_likely)) if most_likely[0] < 700 else np.inf
            if not mass <= 1 + _NEAR:
                return (
                    f"expected the probabilities of the {LISTED} most likely tokens to be at most 1 together, got"
                    f" {mass:.4g}; they are not normalised, or of another base"
                )
            own = top.get(prompt[place])
            if own is not None and abs(own - value) > _NEAR:
                return (
                    f"expected the value of a listed token to be the listed one, {own:.4f}, got {value:.4f}; values and"
                    " lists are of different places"
                )
            is_among = own is not None and own >= most_likely[-1]
            if not is_among and (value > most_likely[-1] + _NEAR or exp(value) > 1 - mass + _NEAR):
                return (
                    f"expected a token of the log-probability {value:.3f} among the {LISTED} most likely ones, whose"
                    f" last has {most_likely[-1]:.3f}, got it not; values and lists are of different places or scales"
                )
    return None


def _greedy(asked: Asked) -> str | None:
    places = [(i, k) for i, row in enumerate(asked.rows) for k in (len(row) // 3, 2 * len(row) // 3)]
    written = asked.source.generate([asked.rows[i][:k] for i, k in places], 1, 0.0, None)
    near = 0.05 + 4 * asked.noise
    for (i, k), tokens in zip(places, written, strict=True):
        top = dict(asked.answers[i].top[k]) if k < len(asked.answers[i].top) else {}
        if not tokens or top.get(tokens[0], -np.inf) < max(top.values(), default=np.inf) - near:
            return (
                f"expected the most likely token after {k} tokens of a text to be written at temperature 0, got "
                f"{'another one' if tokens else 'none'}; the values are of another place or model than what is written"
            )
    return None


def _temperature(asked: Asked) -> str | None:
    warm = asked.source.ask(asked.rows, 0, temperature=0.5)
    before = [answer.log_probabilities for answer in asked.answers[: len(warm)]]
    trouble = replace(asked).trouble_of_again(warm, before)  # whose noise is no repeat noise
    if not trouble:
        return None
    return (
        f"expected the same values at temperature 0.5, got other ones, {trouble}; they are of what is sampled from, not"
        " of the model"
    )


def _distinct(asked: Asked) -> str | None:
    by_context: dict[int, float] = {}  # each token but the first counts once for those before it: prompts begin alike
    for prompt, after_first in zip(asked.prompts, asked.values(), strict=True):
        context = hash(prompt[0])
        for token, value in zip(prompt[1:], after_first.tolist(), strict=True):
            context = hash((context, token))
            by_context.setdefault(context, value)
    values = np.asarray(list(by_context.values()), dtype=np.float64)
    uncertain = values[values < _CERTAIN]
    if not asked.shuffled and len(uncertain) < _FEW:  # rows of a small suite, which show nothing of it
        return None
    found, counts = np.unique(uncertain, return_counts=True)
    if counts.max(initial=0) > max(2, _SHARED * len(values)):
        value = found[int(counts.argmax())]
        return (
            f"expected other values for other tokens, got {value:.4g} for {counts.max()} of {len(values)}; they are cut"
            " off there, or made up"
        )
    if np.abs(uncertain - uncertain.round(2)).max(initial=0) < 1e-5:
        return "expected values with all their digits, got two decimals at most; sums of them are off by whole steps"
    shared = float(counts[counts > 1].sum() / max(1, len(uncertain)))
    if shared > _ROUNDED:
        return (
            f"expected other values for other tokens, got {100 * shared:.0f} % of them more than once; they are"
            " rounded, and sums of them are off by whole steps"
        )
    return None


def _drawn(asked: Asked) -> str | None:
    most = _DRAWN if asked.longest is None else min(_DRAWN, asked.longest - 2 * _DRAWN_PER_TEXT - 2)
    starts = [row[: 2 + 2 * k] for row in asked.bare_rows for k in range(_DRAWN_PER_TEXT) if len(row) > 2 + 2 * k]
    written = asked.source.generate(starts, most, 1.0, None)
    pairs = [(start, tokens) for start, tokens in zip(starts, written, strict=True) if tokens]
    prompts = [[*start, *tokens] for start, tokens in pairs]
    answers = asked.source.ask(prompts, LISTED) if prompts else []
    if trouble := _trouble_of_lists(prompts, answers):
        return trouble
    return trouble_of_draws(
        *listed_draws(
            [answer.top[len(start) :] for (start, _), answer in zip(pairs, answers, strict=True)],
            [tokens for _, tokens in pairs],
            LISTED,
            asked.tokenizer.eos_token_id,
        )
    )


def _drawn_at_one_place(asked: Asked) -> str | None:
    """Test the shares of tokens drawn again and again where the lists leave most open, which finds what moves single
    tokens only.
    """
    answers = asked.source.ask(asked.bare_rows, LISTED)
    if trouble := _trouble_of_lists(asked.bare_rows, answers):
        return trouble
    tops = [(row[:k], a.top[k]) for row, a in zip(asked.bare_rows, answers, strict=True) for k in open_places(a.top)]
    return trouble_of_counts(draws_at(asked, tops, _DRAWN_AT_ONE)[1])


def draws_at(
    asked: Asked, places: Sequence[tuple[Sequence[int], Mapping[int, float]]], each: int
) -> tuple[int, list[Draws]]:
    """Draw a token after each start, ``each`` times. Return how many were drawn, and the draws of each place with its
    list.
    """
    starts = [start for start, _ in places for _ in range(each)]
    written = asked.source.generate(starts, 1, 1.0, None)
    drawn = [[t for ids in written[at : at + each] for t in ids] for at in range(0, len(written), each)]
    end = asked.tokenizer.eos_token_id
    tops = [top for _, top in places]
    draws = [listed_draws([[top] * len(ids)], [ids], LISTED, end) for top, ids in zip(tops, drawn, strict=True)]
    return sum(map(len, drawn)), draws


def open_places(top: Sequence[Mapping[int, float]], first: int = 2) -> list[int]:
    """Return the two places, from the third on or the ``first``, whose lists have the largest entropy, the largest
    last.
    """
    chances = [np.exp(sorted(listed.values(), reverse=True)[:LISTED]) for listed in top[first:]]
    entropy = [-float((p * np.log(np.maximum(p, 1e-300))).sum()) for p in chances]
    return [first + int(k) for k in np.argsort(entropy)[-2:]]


_FORM: dict[str, Check] = {
    "values": _one_value_a_token,
    "token ids": _same_ids,
    "tokenizer": _own_tokenizer,
    "tokens read": _tokens_read,
}
_CONTENT: dict[str, Check] = {
    AGAIN: _steady,  # first: others take its noise
    "known texts": _likelier_than_shuffled,
    "beginnings": _prefixes,
    "context": _context,
    "most likely tokens": lambda asked: _trouble_of_lists(asked.prompts, asked.answers),
    "greedy": _greedy,
    "temperature": _temperature,
    "distinct values": _distinct,
}
_DRAWS: dict[str, Check] = {"draws": _drawn, "draws of one place": _drawn_at_one_place}


#: Checks that rows of a measurement also take, whatever their texts are.
OF_ROWS: dict[str, Check] = {
    name: (_FORM | _CONTENT)[name] for name in ("values", "token ids", "most likely tokens", "distinct values")
}


def most_moved(mean_noise: float) -> float:
    """Return by how many nats a token the values of the canaries may differ on average, in two answers of the same
    model.
    """
    return max(_UNCHANGED, _TIMES_NOISE * mean_noise)


def differences(first: Sequence[Values], second: Sequence[Values]) -> Values:
    """Return the absolute differences of all values but the first of each row; one that is infinite where rows have
    other numbers of values.
    """
    if [*map(len, first)] != [*map(len, second)]:
        return np.array([np.inf])
    return np.concatenate([np.abs(a[1:] - b[1:]) for a, b in zip(first, second, strict=True)])


def listed_draws(
    tops: Sequence[Sequence[Mapping[int, float]]], tokens: Sequence[Sequence[int]], listed: int, end: int | None
) -> Draws:
    """Return drawn tokens with the probabilities that are listed for their places.

    Args:
        tops: for each text, the log-probabilities in each place, by token ids.
        tokens: for each text, the drawn tokens.
        listed: how many of each list count: the most likely ones. Some sources add the drawn token to the list.
        end: the token that ends a text. Sources that stop there do not show it, so the comparison is given that it was
            not drawn.
    """
    rows, drawn = [], []
    last, best, row = None, [], np.empty(0)
    for places, ids in zip(tops, tokens, strict=True):
        for top, token in zip(places, ids, strict=True):
            if token == end:
                continue
            if top is not last:  # several draws of one place share its list
                last, best = top, sorted(top, key=lambda i: (-top[i], i))[:listed]
                before, at_end = np.exp([top[i] for i in best]), np.asarray([i == end for i in best])
                row = np.where(at_end, 0.0, before) / max(1e-9, 1 - before[at_end].sum())
            rows.append(row)
            drawn.append(best.index(token) if token in best else -1)
    shape = (len(rows), listed)
    return np.asarray(rows, dtype=np.float64).reshape(shape), np.asarray(drawn, dtype=np.int64)


def trouble_of_draws(probabilities: Values, drawn: NDArray[np.int64]) -> str | None:
    """Return what is wrong, in one line, if draws do not follow the listed probabilities; ``None`` if they may."""
    count = len(drawn)
    if count < LEAST:
        return (
            f"expected at least {LEAST} tokens drawn at temperature 1, got {count}; the listed probabilities cannot be"
            " compared with draws"
        )
    found = {what: _z(*excess) for what, excess in _excesses(probabilities, drawn).items()}
    what, z = max(found.items(), key=lambda pair: abs(pair[1]))
    if abs(z) <= _MOST_Z:
        return None
    return (
        f"expected {count} tokens drawn at temperature 1 to follow the listed probabilities, but {what}"
        f" {'more' if z > 0 else 'less'} often ({abs(z):.1f} standard errors); the values are of another base,"
        " temperature or scale, or not of the model that writes"
    )


def p_of_counts(places: Sequence[Draws]) -> float:
    """Return the p-value of Pearson's test that the draws of some places follow the probabilities listed for each.

    Tokens of a place that are expected less than five times are counted together with all that are not listed.

    Example:
        One place with two tokens of probability .5 each, ten draws, all of the first: (10 - 5)^2 / 5 twice is 10, with
            one degree of freedom.

        >>> round(p_of_counts([(np.full((10, 2), .5), np.zeros(10, dtype=np.int64))]), 5)
        0.00157
    """
    from scipy.special import chdtrc  # as chi2.sf of scipy.stats, whose import takes a second

    total, degrees = 0.0, 0
    for probabilities, drawn in places:
        if not len(drawn):
            continue
        expected = len(drawn) * probabilities[0]
        seen = np.bincount(drawn[drawn >= 0], minlength=len(expected))
        alone = expected >= _LEAST_EXPECTED
        expected = np.append(expected[alone], max(0.0, len(drawn) - expected[alone].sum()))
        seen = np.append(seen[alone], len(drawn) - seen[alone].sum())
        if expected[-1] < _LEAST_EXPECTED:  # what is left over joins the least likely token
            expected = np.append(expected[:-2], expected[-2:].sum())
            seen = np.append(seen[:-2], seen[-2:].sum())
        total += float(((seen - expected) ** 2 / np.maximum(expected, 1e-9)).sum())
        degrees += len(expected) - 1
    return float(chdtrc(degrees, total)) if degrees > 0 else 1.0


def trouble_of_counts(places: Sequence[Draws]) -> str | None:
    """Return what is wrong, in one line, if repeated draws of some places do not follow their lists; ``None`` if they
    may.
    """
    count = sum(len(drawn) for _, drawn in places)
    if count < LEAST:
        return (
            f"expected at least {LEAST} tokens drawn one by one at {len(places)} places, got {count}; their lists"
            " cannot be compared with draws"
        )
    return _trouble_of_shares(places)


def _trouble_of_shares(places: Sequence[Draws]) -> str | None:
    count, p = sum(len(drawn) for _, drawn in places), p_of_counts(places)
    if p >= _LEAST_P:
        return None
    return (
        f"expected {count} tokens drawn at {len(places)} places at temperature 1 to follow the lists of these places,"
        f" got other shares (p = {p:.1g}); the values are not those that the model writes by, or the server repeats"
        " what it wrote before"
    )


def trouble_of_few_draws(places: Sequence[Draws]) -> str | None:
    """Return what is wrong, in one line, if draws at places of a suite's rows do not follow their lists; ``None`` if
    they may.

    A list of such a place may leave nearly nothing open, so that few draws can differ, and their number is far from a
    normal distribution: sums are compared with Bernstein's bound, which holds for any.
    """
    if trouble := _trouble_of_shares(places):
        return trouble
    probabilities = np.concatenate([listed for listed, _ in places])
    drawn = np.concatenate([numbers for _, numbers in places])
    for what, (excess, variance) in _excesses(probabilities, drawn).items():
        most = max(1.0, float(np.abs(excess).max(initial=0.0)))
        bound = _LOG_ODDS * most / 3
        bound += float(np.sqrt(bound**2 + 2 * _LOG_ODDS * max(0.0, float(variance.sum()))))
        if abs(excess.sum()) > bound:
            return (
                f"expected {len(drawn)} tokens drawn at {len(places)} places at temperature 1 to follow the lists"
                f" of these places, but {what} {'more' if excess.sum() > 0 else 'less'} often; the values are of"
                " another base, temperature or scale, or not of the model that writes"
            )
    return None


def _excesses(probabilities: Values, drawn: NDArray[np.int64]) -> dict[str, _Excess]:
    """Return by how much each draw exceeds its expectation, and the variance of each, for three figures, each with its
    words.
    """
    return {
        "listed tokens were drawn": _of_mass(probabilities, drawn),
        "the most likely token was drawn": _of_first(probabilities, drawn),
        "likely ones among the listed tokens were drawn": _of_sharpness(probabilities, drawn),
    }


def _of_mass(probabilities: Values, drawn: NDArray[np.int64]) -> _Excess:
    """Return it for tokens of the lists.

    Example:
        Two listed tokens with .5 together, four draws, all of them listed: 4 where 2 are expected, with a standard
            error of 1.

        >>> float(_z(*_of_mass(np.full((4, 2), .25), np.zeros(4, dtype=np.int64))))
        2.0
    """
    mass = np.minimum(probabilities.sum(axis=1), 1.0)
    return (drawn >= 0) - mass, mass * (1 - mass)


def _of_first(probabilities: Values, drawn: NDArray[np.int64]) -> _Excess:
    """Return it for the most likely token.

    >>> float(_z(*_of_first(np.full((4, 1), .5), np.zeros(4, dtype=np.int64))))
    2.0
    """
    first = np.minimum(probabilities[:, 0], 1.0)
    return (drawn == 0) - first, first * (1 - first)


def _of_sharpness(probabilities: Values, drawn: NDArray[np.int64]) -> _Excess:
    """Return it for the log-probability of drawn tokens, given that they are listed, against its mean over the list.

    It is the score test of the inverse temperature: values in base 10, or of another temperature, are far off.

    Example:
        Probabilities .8 and .2 (a mean of ln .8 - .2 ln 4), four draws of the first: .2 ln 4 each above the mean, with
        a standard deviation of .4 ln 4 each.

        >>> round(float(_z(*_of_sharpness(np.tile([.8, .2], (4, 1)), np.zeros(4, dtype=np.int64)))), 12)
        1.0
    """
    inside = drawn >= 0
    weights, drawn = probabilities[inside], drawn[inside]
    shares = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    logs = np.log(np.maximum(shares, 1e-300))
    mean = (shares * logs).sum(axis=1)
    variance = (shares * logs**2).sum(axis=1) - mean**2
    return logs[np.arange(len(drawn)), drawn] - mean, variance


def _z(excess: NDArray[np.float64], variance: NDArray[np.float64]) -> float:
    """Return the sum of excesses in units of its standard error; without any variance 0 if it is about 0, else
    infinite.
    """
    total, spread = float(excess.sum()), float(np.sqrt(np.maximum(variance, 0.0).sum()))
    if spread > 1e-6:
        return total / spread
    return 0.0 if abs(total) < 1e-3 else float(np.copysign(np.inf, total))
