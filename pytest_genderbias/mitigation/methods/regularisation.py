"""The embedding regulariser of bordia2019: the loss grows with what other words have in the gender subspace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation.methods.base import Hooks, Method
from pytest_genderbias.mitigation.words.directions import Pair
from pytest_genderbias.mitigation.words.pairs import distinct_pairs, read_pairs
from pytest_genderbias.models.model import Model
from pytest_genderbias.statistics.inference.undefined import UndefinedError

MATRICES = ("input", "output", "both")
_CLOSE = (
    1e-6  #: squared singular values this near each other, over the first, have no order that one could differentiate
)


def bias_loss(
    embeddings: Any,
    pairs: ArrayLike,
    strength: float = 1.0,
    share: float = 0.5,
    normalised: bool = False,
    through_subspace: bool = True,
) -> Any:
    """Return lambda ||N B||_F^2, the regularisation loss of bordia2019 (section 3.4), as a tensor that has a gradient.

    C stacks (u - v) / 2 over the defining pairs; its singular value decomposition gives B, the first k right singular vectors that hold
    ``share`` of the variance (the squared singular values); N holds the embeddings of all words that are in no pair. 0 where no other
    word has any part in the subspace; grows with the number of words and with the square of their length.

    Args:
        embeddings: a tensor (vocabulary, dim); half precision is computed in single.
        pairs: rows of the defining pairs, shape (n, 2).
        strength: lambda; the paper tries 0.001 to 1.
        share: of the variance that B holds, above 0, up to 1.
        normalised: divide each row by its length first, as the reference code does.
        through_subspace: let the gradient take into account that B moves with the embeddings of the pairs (the loss is a function of both);
            otherwise B is a constant of each step. The value is the same.

    Returns:
        A scalar tensor, 0 or more.

    Raises:
        SettingError: ``share`` is out of range, or a number is not a row.
        UndefinedError: no pair; no other word; the words of each pair have the same vector; a number is not finite.

    Example:
        The pair differs along the first axis only, where the other word has 3: 3 * 3 = 9.

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
    loss = (n @ b).square().sum()
    if through_subspace:
        pull = _pull(n.detach(), squares, v, k)
        moved = ((c @ pull) * c).sum()
        loss = loss + (moved - moved.detach())
    return strength * loss


def make_regulariser(
    pairs: ArrayLike,
    strength: float,
    share: float = 0.5,
    normalised: bool = False,
    matrices: str = "input",
    through_subspace: bool = True,
) -> Any:
    """Return :func:`bias_loss` as a ``torch.nn.Module`` that is called with a network or with a matrix of embeddings.

    Called with a transformers network it takes the input embeddings, the output ones, or the sum over both; a matrix that is shared
    counts once. In a loop of your own: ``loss = loss + regulariser(model)``; in a Trainer: :func:`regularising`. It has no
    parameters, so it changes no checkpoint.

    Args:
        pairs: rows of the defining pairs, shape (n, 2); :func:`defining_rows` finds them.
        strength: see :func:`bias_loss`.
        share: see :func:`bias_loss`.
        normalised: see :func:`bias_loss`.
        matrices: ``input`` (the paper), ``output`` or ``both``.
        through_subspace: see :func:`bias_loss`.

    Raises:
        SettingError: ``matrices`` is none of these.
    """
    import torch

    if matrices not in MATRICES:
        raise SettingError(f"matrices should be one of {', '.join(MATRICES)}, got {matrices!r}")
    how: dict[str, Any] = {
        "strength": strength,
        "share": share,
        "normalised": normalised,
        "through_subspace": through_subspace,
    }

    class EmbeddingRegulariser(torch.nn.Module):
        """Adds up the loss of the matrices that are chosen."""

        def forward(self, model: Any) -> Any:
            """Return the loss of a network's embeddings, or of a matrix."""
            if isinstance(model, torch.Tensor):
                return bias_loss(model, pairs, **how)
            chosen = {"input": model.get_input_embeddings, "output": model.get_output_embeddings}
            layers = [get() for name, get in chosen.items() if matrices in (name, "both")]
            if None in layers:
                raise SettingError(f"{type(model).__name__} has no output embeddings; choose matrices='input'")
            weights = {id(layer.weight): layer.weight for layer in layers}
            return sum(bias_loss(weight, pairs, **how) for weight in weights.values())

        def extra_repr(self) -> str:
            """Say what it does."""
            return f"pairs={len(np.asarray(pairs))}, matrices={matrices!r}, " + ", ".join(
                f"{k}={v!r}" for k, v in how.items()
            )

    return EmbeddingRegulariser()


@contextmanager
def regularising(network: Any, regulariser: Any, accumulation_steps: int = 1) -> Iterator[Any]:
    """Add a regulariser to the loss that a network returns in training, inside a ``with`` block: for any Trainer.

    The network's own ``loss`` is added to, so nothing of the Trainer is replaced; a Trainer that computes another one (label
    smoothing, ``compute_loss_func``) does not see it. Losses in evaluation mode, and with them the perplexity, stay as they are.

    Args:
        network: a transformers network.
        regulariser: called with the network, gives a scalar, as :func:`make_regulariser` returns.
        accumulation_steps: the Trainer's ``gradient_accumulation_steps``, if it adds up gradients over batches instead of averaging
            them (transformers' does for networks that take ``num_items_in_batch``): the term is divided by it.

    Yields:
        The network.
    """

    def add(module: Any, args: Any, output: Any) -> Any:
        if not module.training:
            return output
        if isinstance(output, tuple):
            return (output[0] + regulariser(module) / accumulation_steps, *output[1:])
        if output.loss is not None:
            output.loss = output.loss + regulariser(module) / accumulation_steps
        return output

    handle = network.register_forward_hook(add)
    try:
        yield network
    finally:
        handle.remove()


def defining_rows(vocabulary: Any, pairs: Sequence[Pair]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the rows of the pairs of which both words are in a vocabulary, shape (n, 2): a pair counts only then (section 3.4).

    Args:
        vocabulary: a mapping from words to rows, or a tokenizer: a word of several pieces is in none, and is read behind a space.
        pairs: as ``[("man", "woman")]``; a word may stand in several.

    Raises:
        UndefinedError: no pair is left.

    >>> defining_rows({"man": 0, "the": 1, "woman": 2}, [("man", "woman"), ("king", "queen")])
    array([[0, 2]])
    """

    def row(word: str) -> int | None:
        if not callable(vocabulary):
            return vocabulary.get(word)  # type: ignore[no-any-return]
        ids = vocabulary(f" {word}", add_special_tokens=False)["input_ids"]
        return ids[0] if len(ids) == 1 and ids[0] != vocabulary.unk_token_id else None

    found = [(row(first), row(second)) for first, second in pairs]
    kept = list(dict.fromkeys(pair for pair in found if None not in pair and pair[0] != pair[1]))
    if not kept:
        raise UndefinedError(f"of {len(found)} pairs none has both words in the vocabulary")
    return np.array(kept, dtype=np.int64)


def _rows(pairs: ArrayLike, size: int, share: float) -> tuple[Any, Any]:
    """Return the pairs, and all rows that are in none of them."""
    rows = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    if not 0 < share <= 1:
        raise SettingError(f"share should be above 0 and at most 1, got {share}")
    if not len(rows):
        raise UndefinedError("no defining pair")
    if rows.min() < 0 or rows.max() >= size:
        raise SettingError(f"the rows of pairs should be 0 to {size - 1}, got {rows.min()} to {rows.max()}")
    others = np.setdiff1d(np.arange(size), rows)
    if not len(others):
        raise UndefinedError("every word is in a defining pair")
    return rows, others


def _subspace(c: Any, share: float) -> tuple[Any, Any, int]:
    """Return squared singular values (r,), right singular vectors (dim, r), and how many of them hold the share."""
    import torch

    if not bool(torch.isfinite(c).all()):
        raise UndefinedError("an embedding of a defining pair is not finite")
    _, values, rows = torch.linalg.svd(c, full_matrices=False)
    squares = values.square()
    held = squares.cumsum(0)
    if float(held[-1]) == 0.0:
        raise UndefinedError("the words of each defining pair have the same vector")
    k = 1 + int((held < share * held[-1] * (1 - _CLOSE)).sum())
    return squares, rows.T, k


def _pull(n: Any, squares: Any, v: Any, k: int) -> Any:
    """Return the symmetric matrix X with d tr(B B^T G) = tr(X d(C^T C)), where G = N^T N: how the loss follows the subspace.

    First-order perturbation of the projector on the first k eigenvectors of C^T C; the eigenvalues outside of C's rows are 0. Pairs of
    eigenvalues without a gap have no derivative and are left out.
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
    """The loss term of bordia2019 on the embeddings, strength lambda, in every step. The control is the same recipe without it.

    ``pairs`` are the defining pairs; those whose words are both single tokens of the vocabulary count. Others as
    :func:`~pytest_genderbias.mitigation.methods.regularisation.bias_loss`.
    """

    name: ClassVar[str] = "regularisation"
    strength: float = 0.1
    pairs: str = "bordia2019-wikitext-2"
    share: float = 0.5
    normalised: bool = False
    matrices: str = "input"

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        if not 0 <= self.strength < float("inf"):
            raise SettingError(f"strength should be a number of 0 or more, got {self.strength!r}")
        if not 0 < self.share <= 1:
            raise SettingError(f"share should be above 0 and at most 1, got {self.share!r}")
        if self.matrices not in MATRICES:
            raise SettingError(f"matrices should be one of {', '.join(MATRICES)}, got {self.matrices!r}")
        read_pairs(self.pairs)

    def hooks(self, model: Model) -> Hooks:
        """Add the term to the loss."""
        rows = defining_rows(model.backend.tokenizer, distinct_pairs(self.pairs))
        regulariser = make_regulariser(rows, self.strength, self.share, self.normalised, self.matrices)
        return Hooks(around=partial(regularising, regulariser=regulariser))
