"""Probe compression: all probes of five shuffles as one problem, compared with one probe at a time in numpy and in
torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rows import Row, ratio
from timing import medians

from pytest_genderbias.statistics import linear_probe as how
from pytest_genderbias.statistics.linear_probe import (
    OnlineCode,
    coding_order,
    cross_entropy,
    epoch_order,
    online_code,
    portion_sizes,
    training_sets,
)

_WIDTH = 384


def run(quick: bool) -> list[Row]:
    """Measure two labels that overlap so that a probe has an accuracy of about 90 %, like those of orgad2022."""
    n, seeds = (400, 2) if quick else (3000, 5)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, n)
    features = rng.normal(size=(n, _WIDTH)) + labels[:, None] * rng.normal(scale=3.2 / np.sqrt(_WIDTH), size=_WIDTH)
    codes: dict[str, Any] = {}

    def keep(name: str, call: Callable[[], Any]) -> Callable[[], None]:
        return lambda: codes.update({name: call()})

    times = medians(
        {
            "ours": keep("ours", lambda: online_code(features, labels, seeds=seeds)),
            "numpy": keep("numpy", lambda: [_code_length(features, labels, s, _numpy_probe) for s in range(seeds)]),
            "torch": keep("torch", lambda: [_code_length(features, labels, s, _torch_probe) for s in range(1)]),
        },
        1 if quick else 3,
    )
    ours: OnlineCode = codes["ours"]
    probes, name = ours.epochs.size, f"probe compression, {n:,} x {_WIDTH}, {seeds} shuffles"
    alone = np.array(codes["numpy"]), np.array(codes["torch"])
    apart = max(np.abs(lengths / ours.code_lengths[: len(lengths)] - 1).max() for lengths in alone)
    assert apart < 0.01, f"code lengths differ by {apart:.2%}"
    rate = probes / times["ours"]
    return [
        ratio(name, rate, probes / times["numpy"], "numpy, one probe at a time", "probes/s"),
        ratio(
            name,
            rate,
            probes / seeds / times["torch"],
            "torch, one probe at a time, rate on one shuffle",
            "probes/s",
            10.0,
        ),
        Row(f"{name}: the same code lengths", seeds, "shuffles", 100.0 * float(apart), "% apart", at_most=1.0),
    ]


def _code_length(features: Any, labels: Any, seed: int, train: Callable[..., Any]) -> float:
    """Return the code length of one shuffle in bits; each portion's probe is trained alone, with our stopping rule."""
    x, sizes = features.astype(np.float32), portion_sizes(len(labels))
    order = coding_order(len(labels), seed)
    trained_on, held_out = training_sets(order[None], sizes[:-1])
    bits = float(sizes[0])
    for p in range(len(sizes) - 1):
        (held,), _ = held_out[p]
        rows = order[sizes[p] : sizes[p + 1]]
        logits = train(x, labels, order[: trained_on[p]], held)(x[rows])
        bits += cross_entropy(logits, labels[rows]).sum() / np.log(2)
    return float(bits)


def _stopping(
    step: Callable[[Any], None], loss: Callable[[], float], save: Callable[[], None], start: float, rows: Any
) -> None:
    """Train epoch by epoch, save at each improvement, and stop after ``patience`` epochs without one."""
    least, since = start, 0
    for epoch in range(1, how.EPOCHS + 1):
        shuffled = rows[epoch_order(len(rows), epoch)]
        for at in range(0, len(rows), how.BATCH):
            step(shuffled[at : at + how.BATCH])
        current = loss()
        since = 0 if current <= least - how.TOLERANCE else since + 1
        if since == 0:
            least = current
            save()
        if since == how.PATIENCE:
            return


def _numpy_probe(x: Any, y: Any, rows: Any, held: Any) -> Callable[[Any], Any]:
    """Train a softmax regression with AdamW, implemented in numpy in single precision."""
    values, means, squares = ([np.zeros((x.shape[1], 2), np.float32), np.zeros(2, np.float32)] for _ in range(3))
    x_held, y_held, best, taken = x[held], y[held], list(values), [0]

    def step(batch: Any) -> None:
        inputs, labels = x[batch], y[batch]
        logits = inputs @ values[0] + values[1]
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(labels)), labels] -= 1
        p /= np.float32(len(labels))
        taken[0] += 1
        gradients = (inputs.T @ p, p.sum(axis=0))
        decay, rate = 1 - how.LEARNING_RATE * how.WEIGHT_DECAY, how.LEARNING_RATE / (1 - how.BETA1 ** taken[0])
        for i, gradient in enumerate(gradients):
            means[i] = how.BETA1 * means[i] + (1 - how.BETA1) * gradient
            squares[i] = how.BETA2 * squares[i] + (1 - how.BETA2) * gradient**2
            root = np.sqrt(squares[i]) / np.sqrt(1 - how.BETA2 ** taken[0]) + how.EPSILON
            values[i] = decay * values[i] - rate * means[i] / root

    def loss() -> float:
        return float(cross_entropy(x_held @ values[0] + values[1], y_held).sum())

    def save() -> None:
        best[:] = values

    _stopping(step, loss, save, len(held) * np.log(2), rows)
    return lambda coded: coded @ best[0] + best[1]


def _torch_probe(x: Any, y: Any, rows: Any, held: Any) -> Callable[[Any], Any]:
    """Train ``torch.nn.Linear`` with ``torch.optim.AdamW``."""
    import torch

    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    probe = torch.nn.Linear(x.shape[1], 2)
    for parameter in probe.parameters():
        torch.nn.init.zeros_(parameter)
    optimizer = torch.optim.AdamW(probe.parameters(), lr=how.LEARNING_RATE)
    x_held, y_held = inputs[torch.from_numpy(held)], labels[torch.from_numpy(held)]
    best = {name: value.clone() for name, value in probe.state_dict().items()}

    def step(batch: Any) -> None:
        optimizer.zero_grad()
        index = torch.from_numpy(batch)
        torch.nn.functional.cross_entropy(probe(inputs[index]), labels[index]).backward()
        optimizer.step()

    def loss() -> float:
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(probe(x_held).double(), y_held, reduction="sum"))

    def save() -> None:
        best.update({name: value.clone() for name, value in probe.state_dict().items()})

    _stopping(step, loss, save, len(held) * np.log(2), rows)
    return lambda coded: coded @ best["weight"].numpy().T + best["bias"].numpy()
