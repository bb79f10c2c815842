"""Probe compression against probes trained one at a time in torch, and against what a code must do."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics import linear_probe
from pytest_genderbias.statistics.linear_probe import (
    coding_order,
    compression,
    cross_entropy,
    epoch_order,
    online_code,
    portion_sizes,
    predicted,
    shuffled,
    train_probes,
    training_sets,
    with_bias,
)


def overlapping(n, width, n_labels, apart=4.0, seed=0):
    """Draw labels, and features that lie around one centre a label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_labels, n)
    centres = rng.normal(scale=apart / np.sqrt(width), size=(n_labels, width))
    return (rng.normal(size=(n, width)) + centres[labels]).astype(np.float32), labels


# One probe at a time, in torch


def torch_probe(x, y, n_labels, rows, held):
    """Train torch.nn.Linear with torch.optim.AdamW on some rows, in batches of 16 of a new order each epoch.

    Returns the best epoch's weights with their bias, and that epoch.
    """
    probe = torch.nn.Linear(x.shape[1], n_labels)
    for parameter in probe.parameters():
        torch.nn.init.zeros_(parameter)
    optimizer = torch.optim.AdamW(probe.parameters(), lr=1e-3)
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    best, best_epoch, least = None, 0, np.inf
    for epoch in range(linear_probe.EPOCHS + 1):
        for batch in torch.from_numpy(rows[epoch_order(len(rows), epoch)]).split(16) if epoch else ():
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(probe(inputs[batch]), labels[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            loss = float(torch.nn.functional.cross_entropy(probe(inputs[held]), labels[held], reduction="sum"))
        if loss <= least - linear_probe.TOLERANCE:
            best = np.c_[probe.weight.detach().numpy(), probe.bias.detach().numpy()].copy()
            least, best_epoch = loss, epoch
        elif epoch - best_epoch == linear_probe.PATIENCE:
            break
    return best, best_epoch


def torch_code(x, y, n_labels, seed, groups=None):
    """Return bits by portion and the epochs kept, with a loop over probes."""
    sizes, order = portion_sizes(len(y)), coding_order(len(y), seed, groups)
    bits, epochs = [sizes[0] * np.log2(n_labels)], []
    for p in range(10):
        trained_on = sizes[p] - max(1, sizes[p] // 4)
        rows, held = order[:trained_on], order[trained_on : sizes[p]]
        if groups is not None and (groups[held] != groups[rows[-1]]).any():
            held = held[groups[held] != groups[rows[-1]]]
        weights, epoch = torch_probe(x, y, n_labels, rows, held)
        rows = order[sizes[p] : sizes[p + 1]]
        log_p = special.log_softmax(np.c_[x[rows], np.ones(len(rows))] @ weights.T, axis=1)
        bits.append(-log_p[np.arange(len(rows)), y[rows]].sum() / np.log(2))
        epochs.append(epoch)
    return np.array(bits), np.array(epochs)


@pytest.mark.parametrize(("n_labels", "grouped"), [(2, False), (3, False), (2, True)])
def test_the_code_against_torch(n_labels, grouped, monkeypatch):
    x, y = overlapping(200, 12, n_labels)
    groups = np.arange(200) // 9 if grouped else None
    monkeypatch.setattr(linear_probe, "EPOCHS", 12)
    monkeypatch.setattr(linear_probe, "PATIENCE", 3)
    code = online_code(x, y, groups=groups, seeds=2, seed=3)
    for s in range(2):
        bits, epochs = torch_code(x, y, n_labels, 3 + s, groups)
        np.testing.assert_array_equal(code.epochs[s], epochs)
        # Most agree to 1e-7. Where a first batch is balanced, though, the bias has a gradient of zero but for rounding,
        # and Adam divides it by itself: hundredths of a bit.
        np.testing.assert_allclose(code.by_portion[s], bits, rtol=2e-6, atol=0.01)
        assert code.code_lengths[s] == pytest.approx(bits.sum(), rel=1e-4)


@pytest.mark.parametrize("n_labels", [2, 3, 5])
def test_the_weights_against_torch(n_labels, monkeypatch):
    """Every set keeps its last epoch: after 3 epochs of 7 and of 17 batches the weights are torch's."""
    x, y = overlapping(300, 30, n_labels)
    monkeypatch.setattr(linear_probe, "EPOCHS", 3)
    monkeypatch.setattr(linear_probe, "TOLERANCE", -np.inf)
    held = np.arange(250, 300)[None], np.ones((1, 50), dtype=bool)
    weights, epochs = train_probes(with_bias(x), y[None], n_labels, np.arange(300)[None], [100, 250], [held, held])
    for p, size in enumerate((100, 250)):
        expected, epoch = torch_probe(x, y, n_labels, np.arange(size), np.arange(250, 300))
        found = weights[0, 0, p]
        assert epochs[0, 0, p] == epoch == 3
        np.testing.assert_allclose(np.vstack([-found, found]) if n_labels == 2 else found, expected, atol=2e-6)
        assert np.abs(expected).max() > 0.01


def test_what_else_is_in_the_stack_changes_nothing():
    x, y = overlapping(600, 40, 2)
    together = online_code(x, y, seeds=3)
    for s in range(3):
        alone = online_code(x, y, seeds=1, seed=s)
        np.testing.assert_array_equal(alone.epochs[0], together.epochs[s])
        np.testing.assert_allclose(alone.by_portion[0], together.by_portion[s], rtol=1e-6)


def test_seeds_that_do_not_fit_at_once(monkeypatch):
    x, y = overlapping(200, 10, 2)
    together = online_code(x, y, seeds=3)
    monkeypatch.setattr("pytest_genderbias.statistics.linear_probe._HELD_OUT_BYTES", 2 * 200 * 11 * 4)
    np.testing.assert_allclose(online_code(x, y, seeds=3).by_portion, together.by_portion, rtol=1e-6)


# What a code must do


@pytest.mark.parametrize(("n", "n_labels"), [(2000, 2), (3000, 2), (1500, 28)])
def test_random_labels_are_not_compressed(n, n_labels):
    rng = np.random.default_rng(n)
    code = online_code(rng.normal(size=(n, 384)), rng.integers(0, n_labels, n))
    assert code.compressions == pytest.approx(np.ones(5), abs=0.02)
    assert code.compressions.mean() == pytest.approx(1.0, abs=0.01)


def test_shuffled_labels_are_not_compressed_and_the_real_ones_are():
    x, y = overlapping(2000, 384, 2, apart=4.0)
    assert online_code(x, shuffled(y), seeds=2).compressions == pytest.approx([1.0, 1.0], abs=0.02)
    assert online_code(x, y, seeds=2).compressions.min() > 2.0


def test_a_noiseless_linear_label_is_compressed():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 16))
    for n_labels in (2, 4):
        y = (x @ rng.normal(size=(16, n_labels))).argmax(axis=1)
        code = online_code(x, y, seeds=2)
        assert code.compressions.min() > 3.0
        assert code.accuracy.min() > 0.95


def test_the_fainter_the_label_the_longer_the_code():
    lengths = [
        online_code(*overlapping(1000, 64, 2, apart), seeds=2).code_lengths.mean() for apart in (6.0, 4.0, 2.0, 0.0)
    ]
    assert lengths == sorted(lengths)
    assert lengths[-1] == pytest.approx(1000, rel=0.02)


def test_the_block_to_be_coded_is_not_looked_at():
    x, y = overlapping(500, 20, 2)
    sizes, order = portion_sizes(500), coding_order(500, 0)
    code = online_code(x, y, seeds=1)
    for p in (4, 9):
        wrong = y.copy()
        wrong[order[sizes[p] :]] = 1 - y[order[sizes[p] :]]
        other = online_code(x, wrong, seeds=1)
        np.testing.assert_array_equal(other.by_portion[0, : p + 1], code.by_portion[0, : p + 1])
        np.testing.assert_array_equal(other.epochs[0, : p + 1], code.epochs[0, : p + 1])
        assert other.by_portion[0, p + 1] > code.by_portion[0, p + 1]


def test_a_probe_that_learns_the_word_gains_nothing_from_new_words():
    """40 words with a random label each: features that tell the word, and nothing else, compress only within words."""
    rng = np.random.default_rng(0)
    word = np.repeat(np.arange(40), 40)
    x, y = 4.0 * np.eye(40)[word] + 0.1 * rng.normal(size=(1600, 40)), rng.permutation(40)[word] % 2
    assert online_code(x, y, seeds=3).compressions.min() > 2.0
    assert online_code(x, y, seeds=3, groups=word).compressions.max() < 1.2


def test_names_of_labels_do_not_matter():
    x, y = overlapping(400, 20, 2)
    code = online_code(x, y, seeds=2)
    named = online_code(x, np.array(["male", "female"])[y], seeds=2)  # sorted the other way round
    np.testing.assert_allclose(named.by_portion, code.by_portion, rtol=1e-6)
    np.testing.assert_array_equal(named.accuracy, code.accuracy)


def test_mixed_units_add_nats_to_bits():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1000, 50)), rng.integers(0, 2, 1000)
    bits, mixed = (online_code(x, y, seeds=2, mixed_units=mixed) for mixed in (False, True))
    np.testing.assert_array_equal(mixed.by_portion[:, 0], bits.by_portion[:, 0])
    np.testing.assert_allclose(mixed.by_portion[:, 1:], bits.by_portion[:, 1:] * np.log(2))
    assert mixed.compressions == pytest.approx([1 / (0.02 + 0.98 * np.log(2))] * 2, abs=0.03)  # 1.43


def test_the_accuracy_is_of_the_last_block():
    x, y = overlapping(500, 10, 2, apart=100.0)
    code = online_code(x, y, seeds=1)
    assert code.accuracy[0] == 1.0
    order = coding_order(500, 0)
    y[order[-100:]] = 1 - y[order[-100:]]  # of the 162 in the last block
    assert online_code(x, y, seeds=1).accuracy[0] == pytest.approx(62 / 162)


# Portions and order


@given(n=st.integers(100, 5000))
def test_portions_grow_and_end_with_all(n):
    sizes = portion_sizes(n)
    assert sizes[0] >= 2
    assert (np.diff(sizes) > 0).all()
    assert sizes[-1] == n
    trained_on, held_out = training_sets(np.arange(n)[None], sizes)
    assert (np.diff(trained_on) > 0).all()
    for end, size, (rows, _) in zip(trained_on, sizes, held_out, strict=True):
        assert rows[0].tolist() == list(range(end, size))
        assert len(rows[0]) == max(1, size // 4)


@given(groups=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=40), seed=st.integers(0, 99))
def test_groups_stay_together(groups, seed):
    order = coding_order(len(groups), seed, groups)
    in_order = np.array(groups)[order]
    assert sorted(order.tolist()) == list(range(len(groups)))
    assert (in_order[1:] != in_order[:-1]).sum() + 1 == len(set(groups))


def test_seeds_give_other_orders_of_groups_and_of_their_examples():
    groups = np.repeat(np.arange(5), 20)
    one, two = coding_order(100, 0, groups), coding_order(100, 1, groups)
    assert groups[one].tolist() != groups[two].tolist()
    assert one[groups[one] == 3].tolist() != two[groups[two] == 3].tolist()
    assert coding_order(100, 0, groups).tolist() == one.tolist()


def test_held_out_examples_of_a_group_in_training_do_not_count_where_others_do():
    groups = np.repeat([0, 1, 2], [77, 15, 8])  # of 100: 75 trained on, 2 more of group 0, then two new groups
    _, ((_, first), (_, second)) = training_sets(np.arange(100)[None], np.array([50, 100]), groups)
    assert first.all()  # only one group so far
    assert second[0].tolist() == [False] * 2 + [True] * 23


@given(size=st.integers(1, 200), epoch=st.integers(1, 50))
def test_an_epoch_reads_each_example_once(size, epoch):
    assert sorted(epoch_order(size, epoch).tolist()) == list(range(size))


def test_each_epoch_has_other_batches():
    batches = [{frozenset(batch.tolist()) for batch in np.split(epoch_order(96, epoch), 6)} for epoch in (1, 2, 3)]
    assert not batches[0] & batches[1] and not batches[1] & batches[2]


def test_no_batch_is_cut_at_the_end_of_an_earlier_portion(monkeypatch):
    """40 examples in batches of 16 make three steps an epoch, also where 20 of them are a training set of their own.

    The first step of AdamW moves each weight with a gradient by the learning rate, and each later one by no more.
    """
    x, y = np.ones((48, 1), dtype=np.float32), np.ones(48, dtype=np.int64)
    for name, value in (("EPOCHS", 1), ("TOLERANCE", -np.inf), ("WEIGHT_DECAY", 0.0)):
        monkeypatch.setattr(linear_probe, name, value)
    held = np.arange(40, 48)[None], np.ones((1, 8), dtype=bool)
    weights, _ = train_probes(x, y[None], 2, np.arange(48)[None], [20, 40], [held, held])
    assert weights[0, 0, :, 0, 0] == pytest.approx([2e-3, 3e-3], rel=1e-3)


# Parts


@given(st.lists(st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=3), min_size=1, max_size=5))
def test_cross_entropy_against_scipy(logits):
    z = np.array(logits)
    y = np.arange(len(z)) % 3
    expected = -special.log_softmax(z, axis=1)[np.arange(len(z)), y]
    np.testing.assert_allclose(cross_entropy(z, y), expected, rtol=1e-9, atol=1e-12)
    one, bit = z[:, :1], y % 2
    two = -special.log_softmax(np.c_[-one, one], axis=1)[np.arange(len(z)), bit]
    np.testing.assert_allclose(cross_entropy(one, bit), two, rtol=1e-9, atol=1e-12)
    assert predicted(z).tolist() == z.argmax(axis=1).tolist()


def test_compression_by_hand():
    assert compression([50.0, 200.0], 100, 4).tolist() == [4.0, 1.0]


def test_shuffled_keeps_the_labels():
    labels = np.array(list("ffmmmx"))
    assert sorted(shuffled(labels, 1).tolist()) == sorted(labels.tolist())
    assert any(shuffled(labels, s).tolist() != labels.tolist() for s in range(5))


# Input that has no value, and input that is odd but has one


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        (np.ones((200, 2)), np.zeros(200), "fewer than two distinct labels"),
        (np.ones((60, 2)), np.arange(60) % 2, "60 examples"),
        (np.full((200, 2), np.nan), np.arange(200) % 2, "not finite"),
        (np.full((200, 2), 1e300), np.arange(200) % 2, "not finite"),
    ],
)
def test_undefined(x, y, reason):
    with pytest.raises(UndefinedError, match=reason):
        online_code(x, y)


def test_features_of_another_length_are_refused():
    with pytest.raises(ValueError, match="n = 200"):
        online_code(np.ones((199, 3)), np.arange(200) % 2)


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e5])
def test_constant_tiny_and_huge_features_do_not_warn(scale):
    rng = np.random.default_rng(0)
    x, y = scale * rng.normal(size=(150, 4)), rng.integers(0, 3, 150)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code = online_code(x, y, seeds=2)
    assert np.isfinite(code.code_lengths).all()
    assert (code.code_lengths > 0).all()
