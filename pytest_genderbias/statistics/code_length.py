"""Compression by a linear probe: how much information about a label the features contain (orgad2022, section 3).

The online code (Voita and Titov 2020) sends the labels block by block, each coded by a probe trained on all blocks
before it. The easier a label is to extract from the features, the shorter its code. Accuracy does not measure this:
with enough training examples, a probe may predict a label well that is hard to extract. The code counts every example
that the probe needed.

**Batches.** The probe of a portion sees its whole training set in batches of 16, drawn anew each epoch. Batches that
end where an earlier portion ends are smaller and more, so that a probe takes more steps: with 800 examples the
compression is then a fifth larger.

**Early stopping (our choice).** The last quarter of a portion is held out from training. Its cross entropy decides when
the probe stops and which epoch's weights it keeps (:class:`~pytest_genderbias.statistics.linear_probe.ProbeTraining`),
epoch 0, the uniform prediction, included. The examples that the probe codes are not used, so the result is the length
of a code. Measured with random labels, 2,000 examples and 384 features, the mean compression is .992 with a tenth held
out, .996 with a quarter (single shuffles down to .98), .998 with a third, which costs real labels 3 %, and .56 with
nothing held out. With groups, held-out examples of a group in the training set do not count, unless all are. The
reference code stops on a separate set, does not start at zero, and keeps the last weights.

**Scale of the features.** The features are not scaled, as in the paper. With a fixed learning rate their scale matters,
since a weight moves by at most .001 per step. For two classes whose centres are four standard deviations apart, and
2,000 examples of 384 features, the compression is 1.8, 2.6, 1.8, 1.6, 1.2 and 1.0 with features of standard deviation
.03, .1, 1, 3, 10 and 100. Compare models whose features have about the same scale, or standardise the features first;
this uses no label.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.linear_probe import (
    FloatArray,
    HeldOut,
    IntArray,
    ProbeTraining,
    SingleArray,
    cross_entropy,
    predicted,
    train_probes,
    with_bias,
)

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
    training: ProbeTraining | None = None,
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
        training: the training of a probe; None: the defaults of :class:`ProbeTraining`.

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
        nats, right, of_probes = _coded(x, y[None], len(names), order, groups, training)
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
        The number of examples in each training set, (P,), and P held-out sets, for
        :func:`~pytest_genderbias.statistics.linear_probe.train_probes`.

    Example:
        The last one of five examples and the last two of ten are held out.

        >>> trained_on, held_out = training_sets(np.arange(10)[None], np.array([5, 10]))
        >>> trained_on.tolist(), [part.rows[0].tolist() for part in held_out]
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
        held_out.append(HeldOut(rows, new | ~new.any(axis=1, keepdims=True)))
    return trained_on, held_out


def _coded(
    x: SingleArray,
    y: IntArray,
    n_labels: int,
    order: IntArray,
    groups: ArrayLike | None,
    training: ProbeTraining | None = None,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the nats of each block, (R, S, blocks), coded by the probe of the previous portion; the accuracy on the
    last, (R, S); and the epochs of the probes, (R, S, P).

    Labels are (R, n), the order (S, n).
    """
    sizes, nats = portion_sizes(len(x)), []
    trained_on, held_out = training_sets(order, sizes[:-1], groups)
    weights, epochs = train_probes(x, y, n_labels, order, trained_on, held_out, training)
    for p, (start, end) in enumerate(pairwise(sizes)):
        rows = order[:, start:end]
        logits = x[rows] @ weights[:, :, p].swapaxes(2, 3)
        nats.append(cross_entropy(logits, y[:, rows]).sum(axis=2))
    right = (predicted(logits) == y[:, rows]).mean(axis=2)
    return np.stack(nats, axis=2), np.asarray(right, dtype=np.float64), epochs
