"""Text that a causal LM generates: multinomial sampling at temperature 1, from the whole distribution (bordia2019, section 3.4)."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.scoring.base import Scorer, check_finite
from pytest_genderbias.scoring.network import Batches
from pytest_genderbias.scoring.tokens import first_token
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import GeneratedTokens


def make(cases: Cases, query: GeneratedTokens, model: Model, batch_tokens: int | None) -> Scorer:
    """Return the sampler of a checkpoint."""
    if not isinstance(model.backend, Checkpoint):
        raise NotApplicableError(
            f"{model.name} is an object, from which no text is sampled; sample it yourself, and measure it as text:FILE"
        )
    return Sampler(cases, query, model, batch_tokens)


class Sampler:
    """Samples tokens after each text.

    The numbers that choose the tokens come from the seed and the number of the case alone, and a token is where they fall in
    the cumulative distribution: what is sampled for a case does not depend on the cases beside it, but for the rounding of the
    network's logits in batches of another size. Where the text fills what the network can read, its second half goes on.
    """

    def __init__(self, cases: Cases, query: GeneratedTokens, model: Model, batch_tokens: int | None) -> None:
        checkpoint: Checkpoint = model.backend
        self._cases, self._query, self._name = cases, query, model.name
        self._network, self._tokenizer, self._longest = checkpoint.network, checkpoint.tokenizer, checkpoint.max_length
        self._device, self._asked = checkpoint.device, batch_tokens
        self._start = first_token(checkpoint.tokenizer, model.name)
        known = inspect.signature(checkpoint.network.forward).parameters
        wanted = {
            "use_cache": True,
            "logits_to_keep": 1,
        }  # the config may say otherwise; only the last position is read
        self._settings = {name: value for name, value in wanted.items() if name in known}
        self._halvings, self._slid = 0, False

    @property
    def notes(self) -> list[str]:
        """Say what was halved, and where a text goes on in a window."""
        slid = f"texts go on from their last {self._kept()} tokens where the {self._longest} are full"
        return [
            *([slid] if self._slid else []),
            *([f"batches halved {self._halvings} times: out of memory"] if self._halvings else []),
        ]

    def score(self, cases: IntArray) -> NDArray[Any]:
        """Return the sampled token ids: shape (len(cases), length)."""
        prompts = [self._prompt(text) for (text,) in self._cases.sentences(cases)]
        sizes = np.asarray([len(prompt) for prompt in prompts], dtype=np.int64)
        uniforms = np.stack(
            [np.random.default_rng([self._query.seed, case]).random(self._query.length) for case in cases]
        )
        found = np.zeros(uniforms.shape, dtype=np.int32)
        for size in np.unique(sizes):
            alike = np.flatnonzero(sizes == size)
            ids = np.asarray([prompts[i] for i in alike], dtype=np.int64)
            lengths = np.full(len(alike), size + self._query.length, dtype=np.int64)
            batches = Batches(self._device, self._asked or int(lengths.sum()))

            def step(rows: IntArray, alike: IntArray = alike, ids: IntArray = ids) -> None:
                found[alike[rows]] = self._sample(ids[rows], uniforms[alike[rows]])

            batches.run(lengths, step)
            self._halvings += batches.halvings
        check_finite(found[:, -1] >= 0, self._cases, cases, self._name)
        return found

    def _prompt(self, text: str) -> list[int]:
        return [self._start, *self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]]

    def _kept(self) -> int:
        return max(1, (self._longest or 0) // 2)

    def _sample(self, prompt: IntArray, uniforms: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return the tokens after prompts of one length; -1 from where the distribution is not finite."""
        import torch

        whole = torch.as_tensor(prompt, device=self._device)
        chance = torch.as_tensor(uniforms, device=self._device)
        sampled, fed, past, seen = [], whole, None, 0
        for step in range(self._query.length):
            if self._longest is not None and seen + fed.shape[1] > self._longest:
                fed, past, seen, self._slid = whole[:, -self._kept() :], None, 0, True
            before: dict[str, Any] = {} if past is None else {"past_key_values": past}
            output = self._network(input_ids=fed, **before, **self._settings)
            token = _draw(output.logits[:, -1], chance[:, step])
            sampled.append(token)
            whole = torch.cat([whole, token.clamp(min=0)[:, None]], 1)
            past = getattr(output, "past_key_values", None)
            if past is None:  # no cache that can be handed back: the text is read anew
                fed = whole[:, -self._longest :] if self._longest else whole
            else:
                seen, fed = seen + fed.shape[1], whole[:, -1:]
        tokens = torch.stack(sampled, 1)
        tokens[(tokens < 0).any(1), -1] = -1
        return np.asarray(tokens.cpu().numpy(), dtype=np.int32)


def _draw(logits: Any, chance: Any) -> Any:
    """Return the token at which the cumulative distribution passes ``chance``, a number of [0, 1); -1 where there is none."""
    import torch

    cumulative = logits.float().softmax(-1).double().cumsum(-1)
    total = cumulative[:, -1:]
    token = torch.searchsorted(cumulative, chance[:, None] * total, right=True)[:, 0]
    token = token.clamp(max=logits.shape[-1] - 1)
    return torch.where(total[:, 0].isfinite(), token, -1)


def sampled_texts(model: Model, ids: NDArray[np.int32]) -> list[tuple[str, ...]]:
    """Return the texts of each sample (rows of token ids): more than one where a text ends in it and another begins."""
    tokenizer = model.backend.tokenizer
    ends = [token for token in (tokenizer.bos_token_id, tokenizer.eos_token_id) if token is not None]
    samples = [np.split(row, np.flatnonzero(np.isin(row, ends))) for row in ids]
    parts = [part.tolist() for sample in samples for part in sample]
    texts = iter(tokenizer.batch_decode(parts, skip_special_tokens=True, clean_up_tokenization_spaces=False))
    found = [tuple(next(texts).strip() for _ in sample) for sample in samples]
    return [tuple(text for text in sample if text) for sample in found]
