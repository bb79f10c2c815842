"""The embedding regulariser of bordia2019: a loss term that penalises the part of other words in the gender
subspace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import SettingError, UndefinedError
from pytest_genderbias.mitigation.methods.base import Hooks, Method
from pytest_genderbias.mitigation.words.directions import Pair, token_of
from pytest_genderbias.mitigation.words.pairs import distinct_pairs, read_pairs
from pytest_genderbias.models.model import Model
from pytest_genderbias.text.schema import NotNegative, Rule, check_fields, one_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MATRICES = ("input", "output", "both")
#: If two squared singular values differ by less than this share of the first, their order has no derivative.
_CLOSE = 1e-6


def bias_loss(
    embeddings: torch.Tensor, pairs: ArrayLike, strength: float = 1.0, share: float = 0.5, normalised: bool = False
) -> torch.Tensor:
    """Return lambda ||N B||_F^2, the regularisation loss of bordia2019 (section 3.4), as a tensor with a gradient.

    C stacks (u - v) / 2 over the defining pairs. B consists of the first k right singular vectors of C, where k is the
    smallest number that covers ``share`` of the variance (the squared singular values). N holds the embeddings of all
    words outside the pairs. The loss is 0 if no other word has a part in the subspace; it grows with the number of
    words and with the square of their length. Its gradient includes that B changes with the embeddings of the pairs.

    Args:
        embeddings: a tensor (vocabulary, dim); half precision is computed in single.
        pairs: rows of the defining pairs, shape (n, 2).
        strength: lambda; the paper tries 0.001 to 1.
        share: share of the variance that B covers, above 0 and at most 1.
        normalised: divide each row by its length first, like the reference code.

    Returns:
        A scalar tensor, 0 or more.

    Raises:
        SettingError: ``share`` is out of range, or ``pairs`` contains an invalid row.
        UndefinedError: there is no pair, or no other word; the words of each pair have equal vectors; an embedding of a
            pair is not finite.

    Example:
        The pair differs along the first axis only; the other word has the coordinate 3 there: 3 * 3 = 9.

        >>> import torch
        >>> bias_loss(torch.tensor([[1.0, 5.0], [-1.0, 5.0], [3.0, 4.0]]), [[0, 1]])
        tensor(9.)
    """
    import torch

    rows, others = _rows(pairs, len(embeddings), share)
    w = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
    if normalised:
        w = torch.nn.functional.normalize(w, dim=1)
    first, second = (torch.as_tensor(rows[:, side], device=w.device) for side in (0, 1))
    c = (w[first] - w[second]) / 2
    n = w[torch.as_tensor(others, device=w.device)]
    squares, v, k = _subspace(c.detach(), share)
    b = v[:, :k]
    moved = ((c @ _pull(n.detach(), squares, v, k)) * c).sum()
    return strength * ((n @ b).square().sum() + (moved - moved.detach()))


@contextmanager
def regularising(network: PreTrainedModel, matrices: str = "input", **how: Any) -> Iterator[PreTrainedModel]:
    """Add the regulariser to the training loss that a network returns, inside a ``with`` block; works with any Trainer.

    The term is added to the network's own ``loss``, so no part of the Trainer is replaced. A Trainer that computes its
    loss itself (label smoothing, ``compute_loss_func``) does not include it. Losses in evaluation mode, and so the
    perplexity, do not change.

    Args:
        network: a transformers network.
        matrices: ``input`` (the paper), ``output`` or ``both``, whose losses are added; tied embeddings count once.
        how: see :func:`bias_loss`.

    Yields:
        The network.

    Raises:
        SettingError: all of these embeddings are frozen, so that the term would do nothing.
    """
    import torch

    if not any(weight.requires_grad for weight in _weights(network, matrices)):
        raise SettingError(
            "regularisation moves embeddings, and this training freezes them; let the recipe train them (freeze:"
            " nothing; in static-nli freeze_embeddings: false)"
        )

    def add(module: PreTrainedModel, args: object, output: Any) -> Any:
        if not module.training or not (isinstance(output, tuple) or output.loss is not None):
            return output
        term = torch.stack([bias_loss(weight, **how) for weight in _weights(module, matrices)]).sum()
        if isinstance(output, tuple):
            return (output[0] + term, *output[1:])
        output.loss = output.loss + term
        return output

    handle = network.register_forward_hook(add)
    try:
        yield network
    finally:
        handle.remove()


def defining_rows(tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair]) -> NDArray[np.int64]:
    """Return the rows of the pairs whose words are both tokens of a vocabulary, shape (n, 2); other pairs are left out
    (section 3.4).

    Args:
        tokenizer: reads each word after a space; a word of several tokens is not in the vocabulary.
        pairs: pairs such as ``[("man", "woman")]``; a word may be in several.

    Raises:
        UndefinedError: no pair is left.
    """
    rows = [(token_of(tokenizer, f" {first}"), token_of(tokenizer, f" {second}")) for first, second in pairs]
    complete = list(dict.fromkeys(pair for pair in rows if None not in pair and pair[0] != pair[1]))
    if not complete:
        raise UndefinedError(f"none of {len(rows)} pairs has both words in the vocabulary")
    return np.array(complete, dtype=np.int64)


def _weights(network: PreTrainedModel, matrices: str) -> list[torch.Tensor]:
    """Return the weights of the input embeddings, of the output embeddings, or of both; tied embeddings once."""
    layers: list[torch.nn.Module | None] = [] if matrices == "output" else [network.get_input_embeddings()]
    if matrices != "input":
        layers.append(network.get_output_embeddings())  # type: ignore[no-untyped-call]
    if None in layers:
        raise SettingError(f"{type(network).__name__} has no output embeddings; use matrices='input'")
    return list(dict.fromkeys(layer.weight for layer in layers if layer is not None))  # type: ignore[misc]


def _rows(pairs: ArrayLike, size: int, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the pairs, shape (n, 2), and all other rows."""
    rows = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    if not 0 < share <= 1:
        raise SettingError(f"share should be above 0 and at most 1, got {share}")
    if not len(rows):
        raise UndefinedError("there is no defining pair")
    if rows.min() < 0 or rows.max() >= size:
        raise SettingError(f"the rows of pairs should be 0 to {size - 1}, got {rows.min()} to {rows.max()}")
    others = np.setdiff1d(np.arange(size), rows)
    if not len(others):
        raise UndefinedError("every word is in a defining pair")
    return rows, others


def _subspace(c: torch.Tensor, share: float) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return squared singular values (r,), right singular vectors (dim, r), and the number of them that covers the
    share.
    """
    import torch

    if not bool(torch.isfinite(c).all()):
        raise UndefinedError("an embedding of a defining pair is not finite")
    _, values, rows = torch.linalg.svd(c, full_matrices=False)
    squares = values.square()
    held = squares.cumsum(0)
    if float(held[-1]) == 0.0:
        raise UndefinedError("the words of each defining pair have equal vectors")
    k = 1 + int((held < share * held[-1] * (1 - _CLOSE)).sum())
    return squares, rows.T, k


def _pull(n: torch.Tensor, squares: torch.Tensor, v: torch.Tensor, k: int) -> torch.Tensor:
    """Return the symmetric matrix X with d tr(B B^T G) = tr(X d(C^T C)), where G = N^T N: how the loss follows the
    subspace.

    This is the first-order perturbation of the projector on the first k eigenvectors of C^T C; the eigenvalues outside
    the rows of C are 0. Pairs of eigenvalues without a gap have no derivative and are left out.
    """
    import torch

    b, rest = v[:, :k], v[:, k:]
    g = n.T @ (n @ b)  # G B, shape (dim, k)
    inside = rest.T @ g
    outside = g - v @ (v.T @ g)
    gaps = squares[:k] - squares[k:, None]
    weight = torch.where(gaps > _CLOSE * squares[0], 1 / gaps.clamp_min(torch.finfo(gaps.dtype).tiny), 0.0)
    zero = squares[:k] > _CLOSE * squares[0]
    far = torch.where(zero, 1 / squares[:k].clamp_min(torch.finfo(gaps.dtype).tiny), 0.0)
    turned = rest @ (inside * weight) + outside * far
    x = turned @ b.T
    return x + x.T


@dataclass(frozen=True)
class Regularisation(Method):
    """The loss term of bordia2019 on the embeddings in each step. The control is the same recipe without it.

    ``pairs`` are the defining pairs; only pairs whose words are both single tokens of the vocabulary count.
    ``matrices`` is ``input``, ``output`` or ``both``; the paper reports the input alone, since both raise the
    perplexity most. ``strength`` is its lambda, ``share`` the part of the variance that the subspace holds, and
    ``normalised`` divides rows by their length, as the reference code does (see :func:`bias_loss`).
    """

    name: ClassVar[str] = "regularisation"
    strength: NotNegative = 0.1
    pairs: str = "bordia2019-wikitext-2"
    share: Annotated[float, Rule("above 0 and at most 1", exclusiveMinimum=0, maximum=1)] = 0.5
    normalised: bool = False
    matrices: Annotated[str, one_of(*MATRICES)] = "input"

    def __post_init__(self) -> None:
        """Reject settings that are out of range."""
        check_fields(self)
        read_pairs(self.pairs)

    def hooks(self, model: Model) -> Hooks:
        """Add the term to the training loss."""
        rows = defining_rows(model.backend.tokenizer, distinct_pairs(self.pairs))
        how: dict[str, Any] = {"strength": self.strength, "share": self.share, "normalised": self.normalised}
        return Hooks(around=partial(regularising, matrices=self.matrices, pairs=rows, **how))
