"""Small causal LMs that are trained for some seconds on English sentences, so that they find a text likelier than its
words in another order.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from support.tiny_checkpoints import corpus, make_network, tokenizer

_STEPS, _LONGEST = 60, 64
_ROWS, _SENTENCES = 3, 3  #: rows beside its own texts at each step, and sentences in each, so that little is padding


@cache
def trained(kind, *texts, seed=0):
    """Return a network and its tokenizer: ``gpt2`` (BPE of bytes) or ``llama`` (pieces as SentencePiece makes them).

    ``texts``: what it learns beside sentences of the packaged suites. It knows them nearly by heart.
    """
    words = tokenizer(kind)
    wider = (
        {"n_embd": 64, "n_positions": 512}
        if kind == "gpt2"
        else {"hidden_size": 64, "max_position_embeddings": 512, "intermediate_size": 128}
    )
    network = make_network(kind, seed, initializer_range=0.05, **wider)
    rng, optimiser = np.random.default_rng(seed), torch.optim.AdamW(network.parameters())
    others = [_with_begin(words, text) for text in corpus()[::5]]
    starts = range(0, len(others), _SENTENCES)
    rows = [[token for text in others[start : start + _SENTENCES] for token in text] for start in starts]
    ids = [row[:_LONGEST] for row in [_with_begin(words, text) for text in texts] + rows]
    own = np.arange(len(texts))
    torch.manual_seed(seed)
    network.train()
    for step in range(_STEPS):
        others = rng.choice(np.arange(len(texts), len(ids)), _ROWS, replace=False)
        batch = [ids[i] for i in (*own, *others)]
        for group in optimiser.param_groups:
            group["lr"] = 8e-3 * (1 - step / _STEPS) + 1e-4
        longest = max(map(len, batch))
        labels = torch.full((len(batch), longest), -100)
        for row, one in enumerate(batch):
            labels[row, : len(one)] = torch.as_tensor(one)
        optimiser.zero_grad()
        network(input_ids=labels.clamp(min=0), attention_mask=(labels >= 0).long(), labels=labels).loss.backward()
        optimiser.step()
    return network.eval(), words


@cache
def known_of(kind, *texts):
    """Return where what the network of :func:`trained` says of prompts is kept, for all servers of a process."""
    return {}


def _with_begin(words, text):
    ids = words(text)["input_ids"]
    return ids if ids[:1] == [words.bos_token_id] else [words.bos_token_id, *ids]
