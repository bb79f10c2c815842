"""Raised dropout while a language model is trained on (webster2020, section 5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation.methods.base import Hooks, Method
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.transformers_logging import quiet_transformers

BERT_RATES = (0.10, 0.15, 0.20)  #: of attention and of hidden dropout, each, in the paper's search; BERT itself has .10
BERT_BEST = (0.15, 0.20)  #: attention and hidden rate of table 4
ALBERT_RATES = (0.01, 0.05, 0.10)  #: the public ALBERT models have 0
ALBERT_BEST = (0.05, 0.05)  #: of table 5

#: What configs call the rates: BERT and most encoders; DistilBERT; GPT-2; ModernBERT; word-level LSTMs.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "attention": ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop", "attn_dropout"),
    "hidden": (
        "hidden_dropout_prob", "hidden_dropout", "dropout", "dropout_rate", "resid_pdrop", "resid_dropout", "embd_pdrop", "embd_dropout",
        "embedding_dropout", "mlp_dropout",
    ),
}  # fmt: skip
#: Rates that no config has, by which what a field sets can be told in a network that is made of it.
_MARKS = {"attention": 0.3141592, "hidden": 0.2718281}
#: A value of a module: its name among the network's modules, and the attribute.
Place = tuple[str, str]


@dataclass(frozen=True)
class Dropout(Method):
    """Other dropout rates while a network is trained, and its own again afterwards (webster2020, section 5.1).

    ``attention``: of attention weights; ``hidden``: of hidden states, embeddings included. ``None`` leaves those as they are. The defaults are
    the paper's best for BERT; :func:`dropout_grid` has its searches. The control is the same recipe with the network's own rates.
    """

    name: ClassVar[str] = "dropout"
    attention: float | None = BERT_BEST[0]
    hidden: float | None = BERT_BEST[1]

    def __post_init__(self) -> None:
        """Refuse rates that there are not."""
        for what, rate in self._rates.items():
            if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < 1:
                raise SettingError(f"the rate of {what} dropout should be from 0 up to, but not, 1, got {rate!r}")
        if not self._rates:
            raise SettingError("give a rate of attention or of hidden dropout")

    def hooks(self, model: Model) -> Hooks:
        """Set the rates while the network is trained.

        Raises:
            NotApplicableError: the model has no such dropout.
        """
        if not isinstance(model.backend, Checkpoint):
            raise NotApplicableError(f"{model.name} is no network, so it has no dropout")
        for what in self._rates:
            dropout_places(model.backend.network, what)
        return Hooks(around=partial(raised_dropout, rates=self._rates))

    @property
    def _rates(self) -> dict[str, float]:
        given = {"attention": self.attention, "hidden": self.hidden}
        return {what: rate for what, rate in given.items() if rate is not None}


def dropout_grid(rates: tuple[float, ...] = BERT_RATES) -> tuple[Dropout, ...]:
    """Return the methods of a search over both rates.

    >>> [(method.attention, method.hidden) for method in dropout_grid()[:4]], len(dropout_grid())
    ([(0.1, 0.1), (0.1, 0.15), (0.1, 0.2), (0.15, 0.1)], 9)
    """
    return tuple(Dropout(attention, hidden) for attention, hidden in product(rates, rates))


@contextmanager
def raised_dropout(network: Any, rates: Mapping[str, float]) -> Iterator[Any]:
    """Set the dropout rates of a network, in its modules and its config, and put the old ones back at the end.

    Args:
        network: a transformers network; it is changed in place, while the context lasts.
        rates: ``attention``, ``hidden``, or both.

    Raises:
        NotApplicableError: the network has no such dropout.
    """
    before: list[tuple[Any, str, Any]] = []
    try:
        for what, rate in rates.items():
            for name in _fields(network.config, what):
                before.append((network.config, name, getattr(network.config, name)))
                setattr(network.config, name, rate)
            for module, name in dropout_places(network, what):
                before.append(_set_rate(network, module, name, rate))
        yield network
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


def dropout_places(network: Any, what: str) -> list[Place]:
    """Return where a network has its rates of ``attention`` or ``hidden`` dropout: modules, and attributes that attention functions read.

    Which they are is seen in a network without weights, of the same class, that is made with rates of no other meaning.

    Raises:
        NotApplicableError: nowhere.
    """
    import torch

    config = deepcopy(network.config)
    for name in _fields(config, what):
        setattr(config, name, _MARKS[what])
    with quiet_transformers(), torch.device("meta"):
        marked = type(network)(config)
    found = [
        (module, name)
        for module, owner in marked.named_modules()
        for name, value in vars(owner).items()
        if isinstance(value, float) and value == _MARKS[what]
    ]
    if not found:
        raise NotApplicableError(f"{type(network).__name__} has no {what} dropout whose rate could be raised")
    return found


def _fields(config: Any, what: str) -> list[str]:
    """Return the fields of a config that hold rates of a kind; none where a rate is not a number of its own."""
    return [name for name in FIELDS[what] if isinstance(getattr(config, name, None), (int, float))]


def _set_rate(network: Any, module: str, name: str, rate: float) -> tuple[Any, str, Any]:
    """Set the rate of a module, and return what undoes it: an object, an attribute, and its value."""
    import torch

    owner = network.get_submodule(module)
    if hasattr(owner, name):
        before = getattr(owner, name)
        setattr(owner, name, rate)
        return owner, name, before
    # Where a rate of 0 has left no module, as in ModernBERT.
    parent, _, child = module.rpartition(".")
    setattr(network.get_submodule(parent), child, torch.nn.Dropout(rate))
    return network.get_submodule(parent), child, owner
