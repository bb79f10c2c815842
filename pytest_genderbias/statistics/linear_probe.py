"""Linear softmax probes, trained many at once: one stack of weights, shared batches, separate early stopping.

An online code needs ten probes per seed, each trained on more of the same data. Their training sets are nested, so they share
batches: a batch is read once, and all probes that have it in their training set take a step with it, in one matrix product per
seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
SingleArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ProbeTraining:
    """Hyperparameters of a probe, which is trained by AdamW (Loshchilov and Hutter 2019) on the mean cross entropy of a batch.

    A probe starts at zero weights, the uniform prediction. It stops after ``epochs``, or after ``patience`` consecutive epochs
    that did not lower the summed cross entropy of its held-out examples by ``tolerance`` nats. It keeps the weights of its best
    epoch; epoch 0 is the uniform prediction. Batch size and learning rate are those of orgad2022 (appendix A), the others those
    of its reference code; the settings of AdamW are the defaults of torch.
    """

    batch: int = 16
    learning_rate: float = 1e-3
    epochs: int = 50
    patience: int = 4
    tolerance: float = 1e-3
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True)
class HeldOut:
    """The examples for early stopping on one training set: ``rows``, (S, L), and whether each one ``counts``, (S, L)."""

    rows: IntArray
    counts: NDArray[np.bool_]


@dataclass(frozen=True)
class Probes:
    """Trained probes of S seeds on P training sets.

    ``weights``, (S, P, C, d + 1): the last weight is the bias; C is the number of labels K, or 1 for two labels (see
    :func:`train_probes`). ``epochs``, (S, P): the epoch whose weights were kept, from 0.
    """

    weights: SingleArray
    epochs: IntArray


def with_bias(features: ArrayLike) -> SingleArray:
    """Append the constant feature 1, whose weight is the bias: (n, d) to (n, d + 1), in single precision.

    >>> with_bias([[2.0, 3.0]])
    array([[2., 3., 1.]], dtype=float32)
    """
    x = np.asarray(features)
    table = np.ones((x.shape[0], x.shape[1] + 1), dtype=np.float32)
    table[:, :-1] = x
    return table


def cross_entropy(logits: ArrayLike, labels: ArrayLike) -> FloatArray:
    """Return -ln p(label) of each example: 0 or more, in nats.

    Args:
        logits: one per label, shape (..., K); or shape (..., 1) for two labels, where z means the logits (-z, z).
        labels: label numbers, shape (...).

    Example:
        Equal logits give the uniform prediction: ln 2 = 0.693 for two labels.

        >>> float(cross_entropy([0.0], 1).round(3)), float(cross_entropy([5.0, 5.0], 0).round(3))
        (0.693, 0.693)
    """
    z, y = np.asarray(logits, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if z.shape[-1] == 1:
        against = (2 - 4 * y) * z[..., 0]
        return np.asarray(np.maximum(against, 0.0) + np.log1p(np.exp(-np.abs(against))), dtype=np.float64)
    top = z.max(axis=-1, keepdims=True)
    total = top[..., 0] + np.log(np.exp(z - top).sum(axis=-1))
    return np.asarray(total - np.take_along_axis(z, y[..., None], axis=-1)[..., 0], dtype=np.float64)


def predicted(logits: ArrayLike) -> IntArray:
    """Return the number of the most likely label, the first one of a tie; shapes as in :func:`cross_entropy`.

    >>> predicted([[-1.0], [2.0]]), predicted([[0.0, 3.0, 1.0]])
    (array([0, 1]), array([1]))
    """
    z = np.asarray(logits)
    return np.asarray(z[..., 0] > 0 if z.shape[-1] == 1 else z.argmax(axis=-1), dtype=np.int64)


def batch_order(batches: int, epoch: int) -> IntArray:
    """Return the order of the batches in an epoch, which counts from 1: (batches,).

    The relative order of the first k batches does not depend on the number of batches, so the training of a probe does not
    depend on the probes with larger training sets.
    """
    return np.asarray(np.argsort(np.random.default_rng(epoch).random(batches), kind="stable"), dtype=np.int64)


def train_probes(
    features: SingleArray,
    labels: ArrayLike,
    n_labels: int,
    blocks: Sequence[IntArray],
    held_out: Sequence[HeldOut],
    training: ProbeTraining | None = None,
) -> Probes:
    """Train S x P linear probes together. Probe p of a seed is trained on blocks 0 to p of that seed.

    Each block is split into batches, of which the last may be smaller; their order changes every epoch (:func:`batch_order`).
    With two labels and zero initial weights, the two columns of the softmax remain negatives of each other, so only one is
    trained. In single precision; a probe trained alone ends at the same weights up to rounding.

    Args:
        features: shape (n, d + 1), the last column 1 (:func:`with_bias`).
        labels: label numbers 0 to K - 1, shape (n,).
        n_labels: K, 2 or more.
        blocks: P arrays of rows, shape (S, size of the block): the examples that training set p adds to set p - 1.
        held_out: the examples for early stopping on each training set; at least one per seed counts.
        training: the hyperparameters; None: the defaults of :class:`ProbeTraining`.

    Returns:
        The probes. Memory: copies of the features of the largest training set and of all held-out examples, for S seeds.
    """
    training = training or ProbeTraining()
    y = np.asarray(labels, dtype=np.int64)
    batches = _batches(features, y, n_labels, blocks, training.batch)
    held = [(features[part.rows], y[part.rows], part.counts) for part in held_out]
    seeds, sets, columns = len(blocks[0]), len(blocks), 1 if n_labels == 2 else n_labels
    best = np.zeros((seeds, sets, columns, features.shape[1]), dtype=np.float32)
    best_epoch = np.zeros((seeds, sets), dtype=np.int64)
    lowest = np.stack([np.log(n_labels) * counts.sum(axis=1) for _, _, counts in held], axis=1)
    stack = _Stack.fresh(sets, columns, seeds, features.shape[1])
    for epoch in range(1, training.epochs + 1):
        stack.run_epoch(batches, epoch, training)
        for index, p in enumerate(stack.sets):
            x, gold, counts = held[p]
            weights = stack.weights[index].swapaxes(0, 1)  # S, C, d + 1
            loss = (cross_entropy(x @ weights.swapaxes(1, 2), gold) * counts).sum(axis=1)
            # A stopped probe stays in the stack while another seed trains on the same training set; ignore its loss.
            better = (loss <= lowest[:, p] - training.tolerance) & (epoch - best_epoch[:, p] <= training.patience)
            if better.any():
                lowest[better, p], best_epoch[better, p], best[better, p] = loss[better], epoch, weights[better]
        active = np.asarray((epoch - best_epoch[:, stack.sets] < training.patience).any(axis=0))
        if not active.any():
            break
        stack = stack.only(active)
    return Probes(best, best_epoch)


@dataclass(frozen=True)
class _Batch:
    """A batch of each seed: number of its block, features (S, size, d + 1), also transposed, and targets (S, C, size)."""

    block: int
    x: SingleArray
    transposed: SingleArray
    target: SingleArray

    @classmethod
    def of(cls, block: int, x: SingleArray, codes: SingleArray) -> _Batch:
        return cls(block, x, x.swapaxes(1, 2), np.ascontiguousarray(codes.swapaxes(1, 2)))


def _batches(
    features: SingleArray, labels: IntArray, n_labels: int, blocks: Sequence[IntArray], size: int
) -> list[_Batch]:
    codes = (np.array([[-1], [1]]) if n_labels == 2 else np.eye(n_labels)).astype(np.float32)
    parts = [
        (number, block[:, at : at + size])
        for number, block in enumerate(blocks)
        for at in range(0, block.shape[1], size)
    ]
    return [_Batch.of(number, features[rows], codes[labels[rows]]) for number, rows in parts]


def _residuals(logits: SingleArray, target: SingleArray) -> SingleArray:
    """Replace logits (S, probes x C, size) in place by the gradient of the mean cross entropy with respect to them."""
    seeds, columns, size = target.shape
    if columns == 1:  # sigmoid(2 z) - y, for y = 0, 1
        np.tanh(logits, logits)
        logits -= target
        logits *= np.float32(0.5 / size)
        return logits
    p = logits.reshape(seeds, -1, columns, size)
    p -= p.max(axis=2, keepdims=True)
    np.exp(p, p)
    p /= p.sum(axis=2, keepdims=True)
    p -= target[:, None]
    p *= np.float32(1 / size)
    return logits


class _View:
    """The probes of a stack from training set ``start`` on: those that learn from a block."""

    def __init__(self, stack: _Stack, start: int, training: ProbeTraining) -> None:
        sets, columns, seeds, width = stack.weights[start:].shape
        self.weights, self.gradient = (
            array[start:].reshape(sets * columns, seeds, width).swapaxes(0, 1)
            for array in (stack.weights, stack.gradient)
        )
        arrays = (stack.weights, stack.mean, stack.square, stack.gradient, stack.change)
        self.flat = [array[start:].reshape(sets, -1) for array in arrays]
        self.beta1, self.beta2 = np.float32(training.beta1), np.float32(training.beta2)
        self.decay = np.float32(1 - training.learning_rate * training.weight_decay)

    def step(self, batch: _Batch, rate: SingleArray, floor: SingleArray) -> None:
        """Take one AdamW step. ``rate`` and ``floor``, (sets, 1), depend on the number of steps that a probe has taken.

        With the moments scaled by 1 / (1 - beta), m <- beta1 m + g and v <- beta2 v + g g, the step is
        w <- (1 - lr decay) w - rate m / (sqrt(v) + floor).
        """
        residuals = _residuals(np.matmul(self.weights, batch.transposed), batch.target)
        np.matmul(residuals, batch.x, self.gradient)
        weights, mean, square, gradient, change = self.flat
        mean *= self.beta1
        mean += gradient
        square *= self.beta2
        gradient *= gradient
        square += gradient
        np.sqrt(square, change)
        change += floor
        np.divide(mean, change, change)
        change *= rate
        weights *= self.decay
        weights -= change


class _Stack:
    """The probes in training, by training set: weights and moments (sets, C, S, d + 1), and steps taken (sets,)."""

    def __init__(
        self, sets: IntArray, taken: IntArray, weights: SingleArray, mean: SingleArray, square: SingleArray
    ) -> None:
        self.sets, self.taken, self.weights, self.mean, self.square = sets, taken, weights, mean, square
        self.gradient, self.change = np.empty_like(weights), np.empty_like(weights)

    @classmethod
    def fresh(cls, sets: int, columns: int, seeds: int, width: int) -> _Stack:
        zeros = np.zeros((3, sets, columns, seeds, width), dtype=np.float32)
        return cls(np.arange(sets), np.zeros(sets, dtype=np.int64), *zeros)

    def only(self, active: NDArray[np.bool_]) -> _Stack:
        """Return the stack without the training sets that have no probe in training."""
        if active.all():
            return self
        moments = (part[active] for part in (self.weights, self.mean, self.square))
        return _Stack(self.sets[active], self.taken[active], *moments)

    def run_epoch(self, batches: Sequence[_Batch], epoch: int, training: ProbeTraining) -> None:
        """Train every probe on each of its batches once."""
        order = [batches[b] for b in batch_order(len(batches), epoch) if batches[b].block <= self.sets[-1]]
        numbers = np.array([batch.block for batch in order])
        taken = self.taken + np.cumsum(numbers[:, None] <= self.sets, axis=0)  # after each step, by training set
        rates, floors = _bias_corrections(taken, training)
        starts = np.searchsorted(self.sets, numbers).tolist()
        views = {start: _View(self, start, training) for start in set(starts)}
        for batch, start, rate, floor in zip(order, starts, rates, floors, strict=True):
            views[start].step(batch, rate[start:], floor[start:])
        self.taken = taken[-1]


def _bias_corrections(taken: IntArray, training: ProbeTraining) -> tuple[SingleArray, SingleArray]:
    """Return rate and floor of the step (see :meth:`_View.step`) with number ``taken``, shape (..., 1)."""
    t = np.maximum(taken, 1)[..., None]  # 0: before the first step; the result is not used
    scale = np.sqrt((1 - training.beta2**t) / (1 - training.beta2))
    rate = training.learning_rate * (1 - training.beta1) / (1 - training.beta1**t) * scale
    return rate.astype(np.float32), (training.epsilon * scale).astype(np.float32)
