"""Raised dropout while a language model is trained (webster2020, section 5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation.methods.base import Hooks, Method
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES
from pytest_genderbias.models.source import quiet_transformers
from pytest_genderbias.text.schema import ShareOrNone, check_fields

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

BERT_BEST = (0.15, 0.20)  #: attention and hidden rate of table 4

#: Names of the rates in configs: BERT and most encoders; DistilBERT; GPT-2; ModernBERT; word-level LSTMs.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "attention": ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop", "attn_dropout"),
    "hidden": (
        "hidden_dropout_prob", "hidden_dropout", "dropout", "dropout_rate", "resid_pdrop", "resid_dropout",
        "embd_pdrop", "embd_dropout", "embedding_dropout", "mlp_dropout",
    ),
}  # fmt: skip
#: Rates that occur in no config: in a network made with them, they show which modules a field sets.
_MARKS = {"attention": 0.3141592, "hidden": 0.2718281}
#: A value of a module: its name among the network's modules, and the attribute.
Place = tuple[str, str]


@dataclass(frozen=True)
class Dropout(Method):
    """Other dropout rates while a network is trained; afterwards its own rates apply again (webster2020, section 5.1).

    ``attention`` is the rate for attention weights, ``hidden`` that for hidden states, embeddings included. ``None``
    leaves a rate unchanged. The defaults are the paper's best for BERT; it searches .10, .15 and .20, and for ALBERT,
    whose own rates are 0, .01, .05 and .10. The control is the same recipe with the network's own rates.
    """

    name: ClassVar[str] = "dropout"
    attention: ShareOrNone | None = BERT_BEST[0]
    hidden: ShareOrNone | None = BERT_BEST[1]

    def __post_init__(self) -> None:
        """Reject rates that are out of range."""
        check_fields(self)
        if not self._rates:
            raise SettingError("set the rate of attention dropout, of hidden dropout, or both")

    def hooks(self, model: Model) -> Hooks:
        """Set the rates while the network is trained.

        Raises:
            NotApplicableError: the model has no such dropout.
        """
        model.require(HIDDEN_STATES, otherwise="is not a network, so it has no dropout")
        for kind in self._rates:
            dropout_places(model.backend.network, kind)
        return Hooks(around=partial(raised_dropout, rates=self._rates))

    @property
    def _rates(self) -> dict[str, float]:
        rates = {"attention": self.attention, "hidden": self.hidden}
        return {kind: rate for kind, rate in rates.items() if rate is not None}


@contextmanager
def raised_dropout(network: PreTrainedModel, rates: Mapping[str, float]) -> Iterator[PreTrainedModel]:
    """Set the dropout rates of a network, in its modules and its config, and restore the old ones at the end.

    Args:
        network: a transformers network; it is changed in place while the context lasts.
        rates: the rates by kind: ``attention``, ``hidden``, or both.

    Raises:
        NotApplicableError: the network has no such dropout.
    """
    with ExitStack() as undo:
        for kind, rate in rates.items():
            for name, value in _fields(network.config, kind).items():
                undo.callback(setattr, network.config, name, value)
                setattr(network.config, name, rate)
            for module, name in dropout_places(network, kind):
                _set_rate(network, module, name, rate, undo)
        yield network


def dropout_places(network: PreTrainedModel, kind: str) -> list[Place]:
    """Return where a network keeps its rates of ``attention`` or ``hidden`` dropout: modules and attributes.

    The places are read from a network of the same class without weights, which is made with marked rates.

    Raises:
        NotApplicableError: there is no such place.
    """
    import torch

    config = deepcopy(network.config)
    for name in _fields(config, kind):
        setattr(config, name, _MARKS[kind])
    with quiet_transformers(), torch.device("meta"):
        marked = type(network)(config)
    places = [
        (module, name)
        for module, owner in marked.named_modules()
        for name, value in vars(owner).items()
        if isinstance(value, float) and value == _MARKS[kind]
    ]
    if not places:
        raise NotApplicableError(f"{type(network).__name__} has no {kind} dropout whose rate could be raised")
    return places


def _fields(config: PreTrainedConfig, kind: str) -> dict[str, float]:
    """Return the fields of a config that hold a rate of a kind as a number, with their values."""
    values = {name: getattr(config, name, None) for name in FIELDS[kind]}
    return {name: value for name, value in values.items() if isinstance(value, (int, float))}


def _set_rate(network: PreTrainedModel, module: str, name: str, rate: float, undo: ExitStack) -> None:
    """Set the rate of a module, and register in ``undo`` how to restore it."""
    import torch

    owner = network.get_submodule(module)
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
        setattr(owner, name, rate)
        return
    # If the rate was 0, the network may have no dropout module here, as in ModernBERT.
    parent, _, child = module.rpartition(".")
    undo.callback(setattr, network.get_submodule(parent), child, owner)
    setattr(network.get_submodule(parent), child, torch.nn.Dropout(rate))
