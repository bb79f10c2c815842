"""The last layer of a masked LM, where only the largest logits of each row are wanted: most of the others are not computed.

Sentences of one template have hidden states at the mask that are alike. Where the hidden state moves from c to h, the logit of a vocabulary
item with weights w moves by w · (h - c), which is at most \\|w\\| \\|h - c\\| (Cauchy and Schwarz). So rows are grouped, and all
logits are computed at the mean of each group. An item is left out if even its largest possible logit is below the k-th largest one of every
row. The logits of the other items, a few hundred of 30,000, are computed for each row. The result is that of computing all.

The bound is closer with another norm. For any invertible matrix M, \\|w · d\\| is at most \\|M^-T w\\| \\|M d\\|. Over weights of
no preferred direction and differences with the covariance S, the product of both is smallest on average for M^T M = S^(-1/2), which
stretches the directions in which hidden states differ least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.scoring.packed_layers import is_plain
from pytest_genderbias.scoring.reads import MOST_LOGITS, best_ids, top_logits

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Linear
    from transformers import PreTrainedModel

_ROWS_A_GROUP, _GROUPS = (
    32,
    16,
)  #: a mean for so many rows, and at least so many means; more cost more than they leave out
_FEWEST_ROWS = 256  #: of fewer, no norm is learned, and all logits take as long as to find out which are needed
_FEWEST_FEATURES = 256  #: of a narrower layer, all logits take less time than that
_DIRECTIONS = 64  #: in which a learned norm differs from the Euclidean one
_RIDGE = 0.1  #: share of the mean variance that each direction has at least, for rows that are yet to come
_LARGEST_SHARE = 8  #: of a group that leaves more than an eighth of the vocabulary all logits are computed
_GUESSED = 4  #: times k items: those with the largest logits at the mean, of which a row's k-th largest is found
_ROUNDING = 1e-4  #: of norms, relative; they are right to 1e-6
_AT_ONCE = 4096  #: items of which the weights are copied in float64 at a time


@dataclass(frozen=True)
class Norm:
    """A norm of differences, and the norm of weights that belongs to it: \\|w · d\\| is at most the product of both.

    ``directions``: orthonormal, shape (features, directions). ``scales``: how far differences reach in them, shape (directions,), and ``rest`` in all others.

    >>> import torch
    >>> norm = Norm(torch.tensor([[1.0], [0.0]], dtype=torch.float64), torch.tensor([4.0], dtype=torch.float64), 1.0)
    >>> w, d = torch.tensor([[1.0, 1.0]]), torch.tensor([[8.0, 3.0]])
    >>> round(float(norm.of_weights(w)), 3), float(norm.coordinates(d).norm())  # w · d is 11; the Euclidean norms bound it by 12.1
    (2.236, 5.0)
    """

    directions: Tensor
    scales: Tensor
    rest: float

    @classmethod
    def euclidean(cls, features: int) -> Norm:
        """Return the ordinary norm."""
        import torch

        none = torch.zeros((features, 0), dtype=torch.float64)
        return cls(none, none.new_zeros(0), 1.0)

    @classmethod
    def learned(cls, differences: Tensor) -> Norm:
        """Return the norm that bounds best where differences are like these, shape (rows, features), or the ordinary one where there is none."""
        import torch

        exact = differences.double()
        try:
            variances, directions = torch.linalg.eigh(exact.T @ exact / len(exact))
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # on some processors, where many eigenvalues are equal
            return cls.euclidean(differences.shape[1])
        variances = variances.clamp(min=0) + _RIDGE * variances.clamp(min=0).mean()
        if not variances[0] > 0 or not _are_orthonormal(directions):
            return cls.euclidean(differences.shape[1])
        others, scales = max(1, len(variances) - _DIRECTIONS), variances.sqrt()
        return cls(directions[:, others:], scales[others:], float(scales[:others].mean()))

    def coordinates(self, vectors: Tensor) -> Tensor:
        """Return vectors whose Euclidean norm is this one of the given ones: shape (rows, features), in float64."""
        exact = vectors.double()
        factors = self.scales**-0.5 - self.rest**-0.5
        scaled: Tensor = exact * self.rest**-0.5 + (exact @ self.directions * factors) @ self.directions.T
        return scaled

    def of_weights(self, weight: Tensor) -> Tensor:
        """Return the norm of the weights of each item: shape (items,), in float64."""
        import torch

        return torch.cat([self._of_some(part.double()) for part in torch.split(weight, _AT_ONCE)])

    def _of_some(self, weight: Tensor) -> Tensor:
        """Return the norms of weights in float64, whose squares no float32 underflows or overflows."""
        along = (weight @ self.directions).square() @ (self.scales - self.rest)
        squares: Tensor = self.rest * weight.square().sum(1) + along
        return squares.clamp(min=0).sqrt()


def _are_orthonormal(directions: Tensor) -> bool:
    """Return whether the columns are orthonormal, without which a norm bounds nothing."""
    import torch

    products = directions.T @ directions
    return bool((products - torch.eye(len(products), dtype=products.dtype)).abs().max() <= 1e-8)


def grouped(points: Tensor, groups: int) -> Tensor:
    """Return the group of each point, shape (points,): that of the nearest of points that lie far apart (Gonzalez 1985).

    The first point begins; then the one that is farthest from those so far, until there are enough or all others are equal to one of them.

    Args:
        points: shape (points, features).
        groups: the largest number of groups.

    >>> import torch
    >>> grouped(torch.tensor([[0.0], [9.0], [1.0], [8.0]]), 2)
    tensor([0, 1, 0, 1])
    """
    import torch

    nearest = points.new_full((len(points),), float("inf"))
    group = torch.zeros(len(points), dtype=torch.long)
    begins = 0
    for number in range(groups):
        distance = (points - points[begins]).square().sum(1)
        group[distance < nearest] = number
        nearest = torch.minimum(nearest, distance)
        begins = int(nearest.argmax())
        if not nearest[begins] > 0:
            break
    return group


def plain_output_layer(network: PreTrainedModel) -> Linear | None:
    """Return the layer that gives a network its logits, or ``None`` unless it is an ordinary ``Linear`` in float32 on a CPU, and wide."""
    from torch.nn import Linear

    try:
        layer = network.get_output_embeddings()  # type: ignore[no-untyped-call]
    except (AttributeError, NotImplementedError):
        return None
    if type(layer) is not Linear or not is_plain(layer) or layer._forward_hooks:
        return None
    return layer if layer.in_features >= _FEWEST_FEATURES else None


class LargestLogits:
    """Finds the largest logits of a layer. A norm is learned from the first rows, and makes later bounds closer."""

    def __init__(self, layer: Linear) -> None:
        self.layer = layer
        self._norm = Norm.euclidean(layer.in_features)
        self._lengths = self._of_weights = self._norm.of_weights(layer.weight.detach())
        self._learned = False

    def best(self, hidden: Tensor, k: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the ids of the k largest logits of each row, ties by id, and whether these are finite.

        Args:
            hidden: what the layer multiplies, shape (rows, features).
            k: at most the vocabulary.
        """
        ids = np.zeros((len(hidden), k), dtype=np.int64)
        finite = np.ones(len(hidden), dtype=np.bool_)
        for rows, items in self._candidates(hidden, k):
            at, finite[rows] = best_ids(self._logits(hidden[rows], items), k)
            ids[rows] = at if items is None else items.numpy()[at]
        return ids, finite

    def _logits(self, hidden: Tensor, items: Tensor | None) -> Tensor:
        """Return the logits of some items, shape (items,), or of all."""
        from torch.nn.functional import linear

        if items is None:
            every: Tensor = self.layer(hidden)
            return every
        bias = self.layer.bias
        return linear(hidden, self.layer.weight[items], None if bias is None else bias[items])

    def _candidates(self, hidden: Tensor, k: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Yield rows, and the items among which their k largest logits are (``None``: any)."""
        import torch

        left = torch.arange(len(hidden))
        if len(hidden) >= _FEWEST_ROWS and self._is_bounded(hidden, k):
            unbounded = []
            for rows, items in self._bounded(hidden, k):
                if _LARGEST_SHARE * len(items) > self.layer.out_features:
                    unbounded.append(rows)
                else:
                    yield rows, items
            left = torch.cat([left[:0], *unbounded])
        many = max(1, MOST_LOGITS // self.layer.out_features)
        for start in range(0, len(left), many):
            yield left[start : start + many], None

    def _is_bounded(self, hidden: Tensor, k: int) -> bool:
        """Return whether no logit can be infinite or undefined, products are those of float32, and the vocabulary is large enough to be worth it."""
        import torch

        bias = self.layer.bias
        return (
            bool(hidden.isfinite().all() and self._lengths.isfinite().all())
            and (bias is None or bool((bias < float("inf")).all()))
            and self._largest(hidden) < torch.finfo(hidden.dtype).max
            and torch.get_float32_matmul_precision() == "highest"
            and not torch.is_autocast_enabled("cpu")
            and _LARGEST_SHARE * _GUESSED * k <= self.layer.out_features
        )

    def _largest(self, hidden: Tensor) -> float:
        """Return what no logit of these rows exceeds in size, where it is finite."""
        bias = None if self.layer.bias is None else self.layer.bias.detach()
        finite = None if bias is None else bias[bias.isfinite()].abs().double()
        added = 0.0 if finite is None or not len(finite) else float(finite.max())
        return float(self._lengths.max() * hidden.double().norm(dim=1).max()) + added

    def _bounded(self, hidden: Tensor, k: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rows of each group, and the items that can be among the k largest of one of them, in ascending order."""
        import torch

        group, means, distances = self._groups(hidden)
        if not self._learned:
            self._learned = True
            self._norm = Norm.learned(hidden - means[group])
            self._of_weights = self._norm.of_weights(self.layer.weight.detach())
            group, means, distances = self._groups(hidden)
        # Logits at a mean and at a row are rounded, each by at most this: sums relative to what they add up, and products that underflow.
        exact = torch.finfo(hidden.dtype)
        rounded = hidden.shape[1] * (exact.eps * self._largest(hidden) + exact.tiny)
        at_means = self._logits(means, None)
        guessed = top_logits(at_means, _GUESSED * k)[1]
        members = [(group == number).nonzero()[:, 0] for number in range(len(means))]
        least = [
            self._logits(hidden[rows], items).topk(k).values[:, -1].min()
            for rows, items in zip(members, guessed, strict=True)
        ]
        farthest = torch.stack([distances[rows].max() for rows in members])
        most = torch.addcmul(at_means.double(), farthest[:, None], self._of_weights)
        possible = most >= (torch.stack(least).double() - 4 * rounded)[:, None]
        yield from zip(members, (items.nonzero()[:, 0] for items in possible), strict=True)

    def _groups(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the group of each row, shape (rows,), the mean of each group, shape (groups, features), and how far rows are from it, shape (rows,)."""
        places = self._norm.coordinates(hidden)
        group = grouped(places, max(_GROUPS, len(hidden) // _ROWS_A_GROUP))
        sums = places.new_zeros((int(group.max()) + 1, hidden.shape[1])).index_add_(0, group, hidden.double())
        means = (sums / group.bincount()[:, None]).to(hidden.dtype)
        distances = (places - self._norm.coordinates(means)[group]).norm(dim=1)
        return group, means, distances * (1 + _ROUNDING)
