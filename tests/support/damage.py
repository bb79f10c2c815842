"""Damage to real networks, as careless saving, merging, quantising and training do it. Each returns a new, damaged
copy.
"""

import copy

import torch
from transformers import AutoModelForSequenceClassification


def zero(network):
    """All weights zero."""
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()


def mean_embeddings(network):
    """Every word vector is the mean of all."""
    with torch.no_grad():
        weight = network.get_input_embeddings().weight
        weight.copy_(weight.mean(0, keepdim=True).expand_as(weight).clone())


def layers_of(network):
    """Return the list of layers of a network."""
    return max((m for m in network.modules() if isinstance(m, torch.nn.ModuleList)), key=len)


def redrawn_layer(network):
    """One layer is drawn anew, with the spread of its own weights."""
    torch.manual_seed(7)
    with torch.no_grad():
        for weight in layers_of(network)[0].parameters():
            if weight.dim() > 1:
                weight.normal_(0.0, float(weight.std()))


def failed_merge(network):
    """Averaged with a network whose hidden units have another order, as merges of unaligned networks are."""
    other = copy.deepcopy(network)
    order = torch.randperm(network.config.hidden_size, generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        for weight, unaligned in zip(network.parameters(), other.parameters(), strict=True):
            if weight.shape[-1] == len(order):
                weight.copy_((weight + unaligned[..., order]) / 2)


def int2(network):
    """The linear weights of the layers rounded to four levels, symmetric by row."""
    with torch.no_grad():
        for module in layers_of(network).modules():
            if isinstance(module, torch.nn.Linear):
                step = module.weight.abs().amax(1, keepdim=True) / 1.5
                module.weight.copy_(((module.weight / step - 0.5).round().clamp(-2, 1) + 0.5) * step)


def shuffled_vocabulary(network):
    """The rows of the embeddings in another order, as with the vocabulary of another training."""
    weight = network.get_input_embeddings().weight
    order = torch.randperm(len(weight), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        weight.copy_(weight[order].clone())


def untrained_head(network):
    """The head of a classifier, as it is before training; one in twenty is right by luck."""
    torch.manual_seed(7)
    fresh = AutoModelForSequenceClassification.from_config(network.config)
    network.classifier.load_state_dict(fresh.classifier.state_dict())


DAMAGES = {
    f.__name__: f
    for f in (zero, mean_embeddings, redrawn_layer, failed_merge, int2, shuffled_vocabulary, untrained_head)
}


def damaged(model, damage):
    """Return a damaged copy of a loaded model."""
    from pytest_genderbias.models.saving import copied, with_network

    network = copied(model.backend.network)
    DAMAGES[damage](network)
    return with_network(model, network, damage)
