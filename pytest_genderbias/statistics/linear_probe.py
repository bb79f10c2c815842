"""Linear softmax probes, and compression by them: how much information about a label the features contain (orgad2022,
section 3).

The online code (Voita and Titov 2020) sends the labels block by block, each coded by a probe trained on all blocks
before it. The easier a label is to extract from the features, the shorter its code. Accuracy does not measure this:
with enough training examples, a probe may predict a label well that is hard to extract. The code counts every example
that the probe needed.

**Batches.** The probe of a portion sees its whole training set in batches of 16, drawn anew each epoch. Batches that
end where an earlier portion ends are smaller and more, so that a probe takes more steps: with 800 examples the
compression is then a fifth larger.

**Early stopping (our choice).** The last quarter of a portion is held out from training. Its cross entropy decides when
the probe stops and which epoch's weights it keeps, epoch 0, the uniform prediction, included.
The examples that the probe codes are not used, so the result is the length of a code. Measured with random labels,
2,000 examples and 384 features, the mean compression is .992 with a tenth held out, .996 with a quarter (single
shuffles down to .98), .998 with a third, which costs real labels 3 %, and .56 with nothing held out. With groups,
held-out examples of a group in the training set do not count, unless all are. The reference code stops on a separate
set, does not start at zero, and keeps the last weights.

**Scale of the features.** The features are not scaled, as in the paper. With a fixed learning rate their scale matters,
since a weight moves by at most .001 per step. For two classes whose centres are four standard deviations apart, and
2,000 examples of 384 features, the compression is 1.8, 2.6, 1.8, 1.6, 1.2 and 1.0 with features of standard deviation
.03, .1, 1, 3, 10 and 100. Compare models whose features have about the same scale, or standardise the features first;
this uses no label.

**Many at once.** An online code needs ten probes per seed, each trained on more of the same data. Every probe sees its
whole training set in batches that are drawn anew each epoch. All probes that have a batch left in an epoch take a step
together: one stack of weights, with separate batches and separate early stopping. Probes that differ in their labels
only share their batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import FloatArray, IntArray

SingleArray = NDArray[np.float32]
#: The examples for early stopping on one training set, (S, L), and whether each one counts, (S, L).
HeldOut: TypeAlias = tuple[IntArray, NDArray[np.bool_]]


# A probe is trained by AdamW (Loshchilov and Hutter 2019) on the mean cross entropy of a batch. It starts at zero
# weights, the uniform prediction. It stops after EPOCHS, or after PATIENCE consecutive epochs that did not lower the
# summed cross entropy of its held-out examples by TOLERANCE nats. It keeps the weights of its best epoch; epoch 0 is
# the uniform prediction. Batch size and learning rate are those of orgad2022 (appendix A), the others those of its
# reference code; the settings of AdamW are the defaults of torch.
BATCH = 16
LEARNING_RATE = 1e-3
EPOCHS = 50
PATIENCE = 4
TOLERANCE = 1e-3
WEIGHT_DECAY = 0.01
BETA1, BETA2 = 0.9, 0.999
EPSILON = 1e-8


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


def epoch_order(size: int, epoch: int) -> IntArray:
    """Return the order in which a training set of ``size`` examples is read in an epoch, which counts from 1: (size,).

    Consecutive examples make a batch, so that each epoch has other batches. The order depends on nothing else, so that
    the training of a probe does not depend on the probes beside it.

    >>> sorted(epoch_order(4, 1).tolist())
    [0, 1, 2, 3]
    """
    return np.asarray(np.random.default_rng([epoch, size]).permutation(size), dtype=np.int64)


def train_probes(
    features: SingleArray,
    labels: ArrayLike,
    n_labels: int,
    order: IntArray,
    sizes: ArrayLike,
    held_out: Sequence[HeldOut],
) -> tuple[SingleArray, IntArray]:
    """Train R x S x P linear probes together. Probe p of seed s is trained on the first ``sizes[p]`` rows of
    ``order[s]``.

    Each epoch reads the training set once, in a new order (:func:`epoch_order`), in batches of which the last may be
    smaller. With two labels and zero initial weights, the two columns of the softmax remain negatives of each other, so
    only one is trained. In single precision; a probe trained alone ends at the same weights up to rounding.

    Args:
        features: shape (n, d + 1), the last column 1 (:func:`with_bias`).
        labels: label numbers 0 to K - 1 of each labelling, shape (R, n).
        n_labels: K, 2 or more.
        order: rows of the features, shape (S, at least the largest size).
        sizes: examples in each training set, ascending, each 1 or more, shape (P,).
        held_out: the examples for early stopping on each training set; at least one per seed counts.

    Returns:
        The weights of the probes, (R, S, P, C, d + 1), of which the last one is the bias; C is K, or 1 for two labels.
        And the epoch whose weights were kept, from 0, (R, S, P). Memory: copies of the features of all held-out
        examples, for S seeds.
    """
    y = np.asarray(labels, dtype=np.int64)
    examples = _Examples(features, y, n_labels, order, np.asarray(sizes, dtype=np.int64))
    held = [(features[rows], y[:, rows], counts) for rows, counts in held_out]
    columns = 1 if n_labels == 2 else n_labels
    shape = len(y), len(order), len(examples.sizes)
    best = np.zeros((*shape, columns, features.shape[1]), dtype=np.float32)
    best_epoch = np.zeros(shape, dtype=np.int64)
    lowest = np.stack([np.log(n_labels) * counts.sum(axis=1) for _, _, counts in held], axis=1)
    lowest = np.broadcast_to(lowest, shape).copy()
    stack = _Stack.fresh(shape[2], shape[1], shape[0], columns, features.shape[1])
    for epoch in range(1, EPOCHS + 1):
        stack.run_epoch(examples, epoch)
        for index, p in enumerate(stack.sets):
            x, gold, counts = held[p]
            weights = stack.weights[index].swapaxes(0, 1)  # R, S, C, d + 1
            loss = (cross_entropy(_logits(x, weights), gold) * counts).sum(axis=2)
            # A stopped probe stays in the stack while another one trains on the same training set; ignore its loss.
            since = epoch - best_epoch[..., p]
            better = (loss <= lowest[..., p] - TOLERANCE) & (since <= PATIENCE)
            if better.any():
                lowest[better, p], best_epoch[better, p], best[better, p] = loss[better], epoch, weights[better]
        active = np.asarray((epoch - best_epoch[..., stack.sets] < PATIENCE).any(axis=(0, 1)))
        if not active.any():
            break
        stack = stack.only(active)
    return best, best_epoch


def _logits(features: SingleArray, weights: SingleArray) -> SingleArray:
    """Return the logits of each labelling, (R, S, L, C), from features, (S, L, d + 1), and weights, (R, S, C, d +
    1).
    """
    labellings, seeds, columns, width = weights.shape
    together = weights.swapaxes(0, 1).reshape(seeds, labellings * columns, width)
    logits = features @ together.swapaxes(1, 2)
    return logits.reshape(*features.shape[:2], labellings, columns).transpose(2, 0, 1, 3)


#: A batch of each of A training sets and S seeds: features, (A, S, size, d + 1); targets, (A, S, R, C, size); and 1 /
#: the number of examples in the batch of a training set, 0 beyond its end, (A, 1, 1, 1, size).
_Batch: TypeAlias = tuple[SingleArray, SingleArray, SingleArray]


class _Examples:
    """The examples of all training sets, and their batches."""

    def __init__(
        self, features: SingleArray, labels: IntArray, n_labels: int, order: IntArray, sizes: IntArray
    ) -> None:
        codes = np.array([[-1], [1]]) if n_labels == 2 else np.eye(n_labels)
        self._features, self._labels, self._codes = features, labels, codes.astype(np.float32)
        self._rows = np.ascontiguousarray(order.T)  # a position of all seeds is read at once
        self.sizes = sizes

    def batches(self, sets: IntArray, epoch: int, size: int) -> tuple[IntArray, IntArray]:
        """Return the positions in each batch of an epoch, (sets, batches, size), and the length of each, (sets,
        batches).
        """
        examples = self.sizes[sets]
        most = -(-int(examples.max()) // size)
        positions = np.zeros((len(sets), most * size), dtype=np.int64)
        for row, n in zip(positions, examples.tolist(), strict=True):
            row[:n] = epoch_order(n, epoch)
        lengths = np.clip(examples[:, None] - size * np.arange(most), 0, size)
        return positions.reshape(len(sets), most, size), lengths

    def batch(self, positions: IntArray, lengths: IntArray) -> _Batch:
        """Return the examples at some positions, (A, size), of which the first ``lengths``, (A,), are in the batch."""
        rows = self._rows[positions].swapaxes(1, 2)
        inside = np.arange(positions.shape[1]) < lengths[:, None]
        share = (inside / lengths[:, None]).astype(np.float32)
        target = np.ascontiguousarray(self._codes[self._labels[:, rows]].transpose(1, 2, 0, 4, 3))
        return self._features[rows], target, share[:, None, None, None]


def _to_residuals(logits: SingleArray, target: SingleArray) -> None:
    """Replace logits (A, S, R, C, size) in place by the gradient of the cross entropy of each example."""
    if logits.shape[3] == 1:  # sigmoid(2 z) - y, for y = 0, 1
        np.tanh(logits, logits)
        logits -= target
        logits *= np.float32(0.5)
    else:
        logits -= logits.max(axis=3, keepdims=True)
        np.exp(logits, logits)
        logits /= logits.sum(axis=3, keepdims=True)
        logits -= target


class _Stack:
    """The probes in training, by training set: weights and moments (sets, S, R, C, d + 1), and steps taken (sets,)."""

    def __init__(
        self, sets: IntArray, taken: IntArray, weights: SingleArray, mean: SingleArray, square: SingleArray
    ) -> None:
        self.sets, self.taken, self.weights, self.mean, self.square = sets, taken, weights, mean, square
        self.gradient, self.change = np.empty_like(weights), np.empty_like(weights)

    @classmethod
    def fresh(cls, sets: int, *shape: int) -> _Stack:
        zeros = np.zeros((3, sets, *shape), dtype=np.float32)
        return cls(np.arange(sets), np.zeros(sets, dtype=np.int64), *zeros)

    def only(self, active: NDArray[np.bool_]) -> _Stack:
        """Return the stack without the training sets that have no probe in training."""
        if active.all():
            return self
        moments = (part[active] for part in (self.weights, self.mean, self.square))
        return _Stack(self.sets[active], self.taken[active], *moments)

    def run_epoch(self, examples: _Examples, epoch: int) -> None:
        """Train every probe on its training set once."""
        positions, lengths = examples.batches(self.sets, epoch, BATCH)
        batches = (lengths > 0).sum(axis=1)
        steps = np.arange(positions.shape[1])
        taken = (self.taken + steps[:, None] + 1)[..., None]  # the number of each step
        scale = np.sqrt((1 - BETA2**taken) / (1 - BETA2))
        rates = LEARNING_RATE * (1 - BETA1) / (1 - BETA1**taken) * scale
        rates, floors = rates.astype(np.float32), (EPSILON * scale).astype(np.float32)
        starts = np.searchsorted(batches, steps, side="right").tolist()
        views = {start: self._views(start) for start in set(starts)}
        for step, start in enumerate(starts):
            batch = examples.batch(positions[start:, step], lengths[start:, step])
            self._step(views[start], batch, rates[step, start:], floors[step, start:])
        self.taken = self.taken + batches

    def _views(self, start: int) -> list[SingleArray]:
        """Return the arrays from training set ``start`` on: weights and gradient by seed, and all five flat."""
        sets, seeds, labellings, columns, width = self.weights[start:].shape
        by_seed = sets, seeds, labellings * columns, width
        arrays = (self.weights, self.mean, self.square, self.gradient, self.change)
        views = [array[start:].reshape(by_seed) for array in (self.weights, self.gradient)]
        return views + [array[start:].reshape(sets, -1) for array in arrays]

    def _step(self, views: list[SingleArray], batch: _Batch, rate: SingleArray, floor: SingleArray) -> None:
        """Take one AdamW step of the probes that have a batch left in the epoch, whose arrays are :meth:`_views`.

        ``rate`` and ``floor``, (sets, 1), depend on the number of steps that a probe has taken. With the moments scaled
        by 1 / (1 - beta), m <- beta1 m + g and v <- beta2 v + g g, the step is
        w <- (1 - lr decay) w - rate m / (sqrt(v) + floor).
        """
        x, target, share = batch
        weights_by_seed, gradient_by_seed, weights, mean, square, gradient, change = views
        logits = np.matmul(weights_by_seed, x.swapaxes(2, 3))
        by_labelling = logits.reshape(*logits.shape[:2], *self.weights.shape[2:4], -1)
        _to_residuals(by_labelling, target)
        by_labelling *= share
        np.matmul(logits, x, gradient_by_seed)
        mean *= np.float32(BETA1)
        mean += gradient
        square *= np.float32(BETA2)
        gradient *= gradient
        square += gradient
        np.sqrt(square, change)
        change += floor
        np.divide(mean, change, change)
        change *= rate
        weights *= np.float32(1 - LEARNING_RATE * WEIGHT_DECAY)
        weights -= change


# Compression.

#: Cumulative shares of the training set, in percent (orgad2022, appendix A).
PORTIONS = (2.0, 3.0, 4.4, 6.5, 9.5, 14.0, 21.0, 31.0, 45.7, 67.6, 100.0)
HELD_OUT = 4  #: The last quarter of a portion, rounded down but at least one example, decides when its probe stops.
#: Features of the seeds that are trained together, unless one seed needs more; half of them are copied.
_HELD_OUT_BYTES = 1 << 27
_WEIGHT_BYTES = 1 << 25  #: Weights of the labellings that are trained together, unless one labelling needs more.


@dataclass(frozen=True)
class OnlineCode:
    """Code lengths of S shuffles of the same n examples with K labels.

    ``by_portion``, (S, portions): bits of the examples that each portion adds; the first uses the uniform code. With
    mixed units, all but the first are nats. ``accuracy``, (S,): accuracy of the last probe on the block that it
    codes. ``epochs``, (S, probes): the epoch whose weights each probe kept, 0 = uniform.
    """

    n: int
    n_labels: int
    by_portion: FloatArray
    epochs: IntArray
    accuracy: FloatArray

    @property
    def code_lengths(self) -> FloatArray:
        """Bits of all n labels, (S,); shorter = the features contain more information."""
        return np.asarray(self.by_portion.sum(axis=1), dtype=np.float64)

    @property
    def compressions(self) -> FloatArray:
        """:func:`compression` by seed, (S,): higher is worse, 1 is neutral."""
        return compression(self.code_lengths, self.n, self.n_labels)


def portion_sizes(n: int) -> IntArray:
    """Return the number of the n examples in each portion, rounded down.

    >>> portion_sizes(1000)
    array([  20,   30,   44,   65,   95,  140,  210,  310,  457,  676, 1000])
    """
    tenths = np.rint(10 * np.asarray(PORTIONS)).astype(np.int64)
    return np.asarray(n * tenths // 1000, dtype=np.int64)


def compression(code_length: ArrayLike, n: int, n_labels: int) -> FloatArray:
    """Return n log2 K / code length: above 0, higher is worse, 1 is neutral (below 1 is worse than the uniform code).

    Args:
        code_length: bits of the labels of all n examples, any shape.
        n: number of examples.
        n_labels: number of labels K.

    Example:
        100 labels of two kinds cost 100 bits without the features, and 25 with them.

        >>> float(compression(25.0, 100, 2))
        4.0
    """
    return np.asarray(n * np.log2(n_labels) / np.asarray(code_length, dtype=np.float64), dtype=np.float64)


def shuffled(labels: ArrayLike, seed: int = 0) -> NDArray[np.generic]:
    """Return the labels in random order. This is the control: its compression is 1 with any features.

    If all examples of a group have one label, shuffle the labels of the groups: ``shuffled(label_of_group)[group]``.

    >>> sorted(shuffled(["f", "m", "m"]).tolist())
    ['f', 'm', 'm']
    """
    return np.random.default_rng(seed).permutation(np.asarray(labels))


def coding_order(n: int, seed: int, groups: ArrayLike | None = None) -> IntArray:
    """Return a random order of n examples, (n,). With ``groups``, (n,), the examples of a group are consecutive.

    >>> order = coding_order(4, 0, groups=["nurse", "clerk", "nurse", "clerk"])
    >>> sorted(order[:2].tolist()) in ([0, 2], [1, 3])
    True
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    if groups is None:
        return order
    names, number = np.unique(np.asarray(groups), return_inverse=True)
    place = rng.permutation(len(names))[number.ravel()]
    return order[np.argsort(place[order], kind="stable")]


def online_code(
    features: ArrayLike,
    labels: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    seeds: int = 5,
    seed: int = 0,
    mixed_units: bool = False,
) -> OnlineCode:
    """Return the length of the online code of the labels, given the features.

    The portions are 2.0, 3.0, 4.4 ... 100 % of the shuffled examples. With t1 the size of the first portion and p_i the
    probe trained on portion i, code length = t1 log2 K - sum over i of the sum over the examples between portions i and
    i + 1 of log2 p_i(label | features), in bits. The module describes early stopping and the influence of the scale of
    the features.

    Args:
        features: shape (n, d), finite; converted to single precision.
        labels: shape (n,), K distinct values.
        groups: shape (n,). Examples of a group (a profession of WinoBias) are coded consecutively; a portion may end
            inside one.
        seeds: number of shuffles S; each has its own order and batches.
        seed: the first seed; the others follow it.
        mixed_units: add nats to the bits of the first portion, as the reference code does; neutral is then not 1 (1.43,
            K = 2).

    Returns:
        Code lengths, compression and accuracy by seed.

    Raises:
        UndefinedError: only one label, too few examples for the portions, or features that are not finite.

    Example:
        The label is the sign of the one feature.

        >>> x = np.tile([-3.0, 3.0], 500)
        >>> code = online_code(x[:, None], x > 0, seeds=1)
        >>> float(code.by_portion[0, 0]), bool(code.compressions[0] > 2), float(code.accuracy[0])
        (20.0, True, 1.0)
    """
    x, names, y = _checked(features, labels)
    sizes, at_once = portion_sizes(len(y)), max(1, _HELD_OUT_BYTES // x.nbytes)
    parts = []
    for first in range(seed, seed + seeds, at_once):
        order = np.stack([coding_order(len(y), s, groups) for s in range(first, min(first + at_once, seed + seeds))])
        nats, right, of_probes = _coded(x, y[None], len(names), order, groups)
        parts.append((nats[0], of_probes[0], right[0]))
    nats, epochs, accuracy = (np.concatenate(part) for part in zip(*parts, strict=True))
    uniform = np.full((seeds, 1), sizes[0] * np.log2(len(names)))
    by_portion = np.hstack([uniform, nats if mixed_units else nats / np.log(2)])
    return OnlineCode(len(y), len(names), by_portion, epochs, accuracy)


def codes_of_labellings(
    features: ArrayLike,
    labellings: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    seeds: int = 5,
    seed: int = 0,
    mixed_units: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Return compressions and accuracies of :func:`online_code` for many labellings of the same examples.

    The probes of all labellings are trained together. With few examples this is faster than one labelling after
    another; the results are equal up to rounding.

    Args:
        features: as in :func:`online_code`, shape (n, d).
        labellings: labels of all examples, one row a labelling, each with all K labels: shape (R, n).
        groups: as in :func:`online_code`, shape (n,).
        seeds: as in :func:`online_code`.
        seed: as in :func:`online_code`.
        mixed_units: as in :func:`online_code`.

    Returns:
        Both of shape (R, S).

    Raises:
        UndefinedError: as :func:`online_code`.

    Example:
        Labels and their opposite have the same compression.

        >>> x = np.tile([-3.0, 3.0], 200)
        >>> compressions, _ = codes_of_labellings(x[:, None], [x > 0, x < 0], seeds=1)
        >>> bool(abs(compressions[0, 0] - compressions[1, 0]) < 1e-3)
        True
    """
    rows = np.asarray(labellings)
    x, names, _ = _checked(features, rows[0])
    numbers, sizes = np.searchsorted(names, rows), portion_sizes(len(x))
    order = np.stack([coding_order(len(x), s, groups) for s in range(seed, seed + seeds)])
    at_once = max(1, _WEIGHT_BYTES // ((len(sizes) - 1) * seeds * len(names) * x.shape[1] * x.itemsize))
    parts = []
    for at in range(0, len(rows), at_once):
        nats, right, _ = _coded(x, numbers[at : at + at_once], len(names), order, groups)
        bits = sizes[0] * np.log2(len(names)) + (nats if mixed_units else nats / np.log(2)).sum(axis=2)
        parts.append(np.stack([compression(bits, len(x), len(names)), right]))
    compressions, accuracies = np.concatenate(parts, axis=1)
    return compressions, accuracies


def _checked(features: ArrayLike, labels: ArrayLike) -> tuple[SingleArray, NDArray[np.generic], IntArray]:
    """Return the features with bias, the distinct labels, and the examples' label numbers."""
    names, number = np.unique(np.asarray(labels), return_inverse=True)
    x = np.asarray(features)
    if x.ndim != 2 or len(x) != number.size:
        raise ValueError(f"features must have shape (n, d) with n = {number.size} labels, got {x.shape}")
    if len(names) < 2:
        raise UndefinedError("fewer than two distinct labels")
    sizes = portion_sizes(len(x))
    if sizes[0] < 2 or (np.diff(sizes) < 1).any():
        raise UndefinedError(f"{len(x)} examples are too few for the portions of the code (100 are enough)")
    with np.errstate(over="ignore"):
        single = with_bias(x)
    if not np.isfinite(single).all():
        raise UndefinedError("a feature is not finite in single precision")
    return single, names, number.ravel().astype(np.int64)


def training_sets(order: IntArray, sizes: IntArray, groups: ArrayLike | None = None) -> tuple[IntArray, list[HeldOut]]:
    """Split each portion into the training set of its probe, which comes first, and the held-out last quarter.

    Args:
        order: examples in the order of coding, shape (S, n).
        sizes: examples in each portion, shape (P,).
        groups: the group of each example, shape (n,).

    Returns:
        The number of examples in each training set, (P,), and P held-out sets, for :func:`train_probes`.

    Example:
        The last one of five examples and the last two of ten are held out.

        >>> trained_on, held_out = training_sets(np.arange(10)[None], np.array([5, 10]))
        >>> trained_on.tolist(), [rows[0].tolist() for rows, _ in held_out]
        ([4, 8], [[4], [8, 9]])
    """
    trained_on = sizes - np.maximum(1, sizes // HELD_OUT)
    names = (
        np.zeros(order.shape[1]) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].ravel()
    )
    held_out = []
    for end, size in zip(trained_on, sizes, strict=True):
        rows = order[:, end:size]
        new = names[rows] != names[order[:, end - 1 : end]]
        held_out.append((rows, new | ~new.any(axis=1, keepdims=True)))
    return trained_on, held_out


def _coded(
    x: SingleArray, y: IntArray, n_labels: int, order: IntArray, groups: ArrayLike | None
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the nats of each block, (R, S, blocks), coded by the probe of the previous portion; the accuracy on the
    last, (R, S); and the epochs of the probes, (R, S, P).

    Labels are (R, n), the order (S, n).
    """
    sizes, nats = portion_sizes(len(x)), []
    trained_on, held_out = training_sets(order, sizes[:-1], groups)
    weights, epochs = train_probes(x, y, n_labels, order, trained_on, held_out)
    for p, (start, end) in enumerate(pairwise(sizes)):
        rows = order[:, start:end]
        logits = x[rows] @ weights[:, :, p].swapaxes(2, 3)
        nats.append(cross_entropy(logits, y[:, rows]).sum(axis=2))
    right = (predicted(logits) == y[:, rows]).mean(axis=2)
    return np.stack(nats, axis=2), np.asarray(right, dtype=np.float64), epochs
