"""The hooks by which a network computes its last modules at the read positions only, of two threads that score it at once."""

import pytest
import torch
from support.tiny_checkpoints import make_network

from pytest_genderbias.scoring.dropping import dropping, reading


@pytest.fixture
def network():
    return make_network("bert").eval()


@pytest.fixture
def ids():
    return torch.randint(5, 100, (3, 9), generator=torch.Generator().manual_seed(0))


def test_a_hook_keeps_the_positions_that_are_read_with_it(network, ids):
    where = torch.tensor([[3, 5], [1, 8], [0, 2]])
    with torch.inference_mode():
        whole = network(input_ids=ids).logits
        with dropping(network.bert) as one, dropping(network.bert) as other:
            for hook in (one, other):
                with reading(hook, where):
                    kept = network(input_ids=ids).logits
                torch.testing.assert_close(kept, torch.stack([whole[i, row] for i, row in enumerate(where)]))
            assert torch.equal(network(input_ids=ids).logits, whole)
    assert not network.bert._forward_hooks
