"""Networks of a given architecture with random weights, for trainings from nothing (webster2020, table 4: CDA in BERT
pre-trained anew).
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from pytest_genderbias.errors import SettingError
from pytest_genderbias.models.hidden_layers import forget_projections
from pytest_genderbias.models.source import quiet_transformers
from pytest_genderbias.recipes.heads import seeded

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

#: Entries of a config that follow from the sizes; a config of other sizes computes them anew.
_DERIVED = ("head_dim", "num_key_value_heads", "layer_types", "mlp_layer_types", "pooler_hidden_size")


def new_network(
    network: PreTrainedModel,
    seed: int,
    layers: int | None = None,
    hidden_size: int | None = None,
    heads: int | None = None,
) -> PreTrainedModel:
    """Return a network of the same class with random weights, in single precision, on the same device.

    The initialisation is that of transformers for the architecture. If ``hidden_size`` changes, the inner size of the
    layers changes in proportion, and the number of heads so that a head keeps its size.

    Args:
        network: a network, whose class and config are taken, but no weight; it stays as it is.
        seed: seed of the weights.
        layers: number of layers; ``None``: as many.
        hidden_size: size of the hidden states; ``None``: the same.
        heads: number of attention heads; ``None``: see above.

    Raises:
        SettingError: the architecture cannot have these sizes.
    """
    config = _config_of(network.config, layers, hidden_size, heads)
    kind: Any = type(network)
    try:
        with quiet_transformers():
            made: Any = seeded(seed, lambda: kind(config))
    except (ValueError, TypeError, RuntimeError, AssertionError) as error:
        raise SettingError(
            f"{kind.__name__} cannot have {config.num_hidden_layers} layers of {config.hidden_size} with"
            f" {config.num_attention_heads} heads: {' '.join(str(error).split())}"
        ) from error
    on_device: PreTrainedModel = made.to(network.device).eval()
    return on_device


def _config_of(
    given: PreTrainedConfig, layers: int | None, hidden_size: int | None, heads: int | None
) -> PreTrainedConfig:
    """Return a config of other sizes; entries that follow from them are computed anew."""
    if layers is None and hidden_size is None and heads is None:
        config = deepcopy(given)
    else:
        width, size = given.hidden_size, hidden_size or given.hidden_size
        head = width // given.num_attention_heads
        if heads is None and size % head:
            raise SettingError(
                f"hidden_size={size} is not a multiple of {head}, the size of a head; choose a multiple, or set heads"
            )
        values = {key: value for key, value in given.to_dict().items() if key not in _DERIVED}
        inner = getattr(given, "intermediate_size", None)
        sizes = {
            "num_hidden_layers": layers or given.num_hidden_layers,
            "hidden_size": size,
            "num_attention_heads": heads or size // head,
            **({"intermediate_size": inner * size // width} if inner else {}),
        }
        names = given.attribute_map
        config = type(given).from_dict(values | {names.get(name, name): value for name, value in sizes.items()})
        if size % config.num_attention_heads:
            raise SettingError(
                f"hidden_size={size} cannot be shared by {config.num_attention_heads} heads; choose a multiple"
            )
    config.dtype = "float32"
    forget_projections(config)
    return config
