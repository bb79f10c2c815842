"""Hooks by which a network computes less: what no read position needs, and what is the same for several tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from pytest_genderbias.models.number_format import is_quantised

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, ModuleList
    from transformers import PreTrainedModel

#: Model types of transformers whose self-attention is BERT's, without positions or windows in it.
_LIKE_BERT = frozenset(("bert", "camembert", "electra", "roberta", "xlm-roberta"))
_PROJECTIONS = ("query", "key", "value")
#: Gives a hook inside a ``with`` block.
Shortcut = Callable[[], AbstractContextManager[object]]


class _ModelOutput(Protocol):
    """The output of a transformers module that has a hidden state."""

    last_hidden_state: Tensor


class Repeats(NamedTuple):
    """The distinct tokens of a batch. Two tokens are the same if they have the same id at the same place of their rows.

    ``one``: an occurrence of each, as an index into all tokens of the batch, shape (distinct,). ``distinct``: which one each token is, shape (rows, tokens).
    """

    one: Tensor
    distinct: Tensor


@dataclass(eq=False)
class Pass:
    """A pass in this thread: the hook that is in effect, the positions that are read, shape (rows, positions), and the inputs of the network.

    ``repeats``: tokens whose hidden states before the first layer repeat, if :meth:`find_repeats` found any. ``attended`` and ``context``: input
    and output of an attention that was computed at the read positions only. ``kept``: what the layer of :func:`ending_before` was given.
    """

    hook: object
    where: Tensor
    inputs: Mapping[str, Tensor]
    repeats: Repeats | None = None
    attended: Tensor | None = None
    context: Tensor | None = None
    kept: Tensor | None = None
    _looked: bool = False

    def find_repeats(self, hidden: Tensor) -> Repeats | None:
        """Return the tokens that repeat. Their hidden states are compared, since an embedding may depend on more than a token and its place."""
        import torch

        if not self._looked:
            self._looked = True
            found = repeated_tokens(self.inputs)
            if found is not None and torch.equal(hidden.flatten(0, 1)[found.one][found.distinct], hidden):
                self.repeats = found
        return self.repeats

    @property
    def reads_few(self) -> bool:
        """Whether at most half of the positions are read."""
        return 2 * self.where.shape[1] <= self.inputs["input_ids"].shape[1]


#: The pass of this thread, of which :func:`reading` tells.
_PASS: ContextVar[Pass | None] = ContextVar("_PASS", default=None)


@dataclass(frozen=True, eq=False)
class ChoosesRows:
    """A hook before a module that chooses rows of its inputs in the passes of one hook. It leaves the weights of the module alone."""

    hook: object
    choose: Callable[[Tensor, Pass], Tensor]

    def __call__(self, module: Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return what the module is given."""
        here = _pass_of(self.hook)
        return inputs if here is None else tuple(self.choose(x, here) for x in inputs)


def shortcuts(network: PreTrainedModel, vocabulary_head: bool) -> list[Shortcut]:
    """Return the ways to compute less that may suit a network, the one that saves most first. A classifier reads the first position.

    There are none in an exported graph, nor in a quantised network, whose layers may scale a row by all positions of its batch.
    """
    from torch.nn import ModuleList
    from transformers import PreTrainedModel

    from pytest_genderbias.models.networks.exported import ExportedNetwork

    if isinstance(network, ExportedNetwork) or (isinstance(network, PreTrainedModel) and is_quantised(network)):
        return []
    found: list[Shortcut] = []
    layers = _submodule(network.base_model, "encoder.layer")
    if isinstance(layers, ModuleList) and len(layers):
        if len(layers) > 1 and _attends_as_bert(network) and _can_be_shortened(layers):
            found.append(partial(shortening, layers))
        if (attention := _submodule(layers[-1], "attention")) is not None:
            found.append(partial(dropping, attention))
    return [*found, partial(dropping, network.base_model)] if vocabulary_head else found


def _attends_as_bert(network: PreTrainedModel) -> bool:
    """Return whether the self-attention is BERT's, where each token sees all others. The few rows that are passed as a check need not show a causal mask."""
    return (
        network.config.model_type in _LIKE_BERT
        and type(network).__module__.startswith("transformers.models.")
        and not network.config.is_decoder
    )


def _can_be_shortened(layers: ModuleList) -> bool:
    """Return whether the projections are ordinary ones in float32 on a CPU: a GPU would wait for the search for repeated tokens."""
    import torch

    first, last = layers[0], layers[-1]
    taken_apart = [_submodule(last, f"attention.self.{name}") for name in _PROJECTIONS[1:]]
    called = [_submodule(first, f"attention.self.{name}") for name in _PROJECTIONS]
    called += [_submodule(last, f"attention.{name}") for name in ("self.query", "output.dense")]
    return all(
        type(part) is torch.nn.Linear and part.weight.device.type == "cpu" and part.weight.dtype == torch.float32
        for part in (*called, *taken_apart)
    ) and not any(part._forward_hooks or part._forward_pre_hooks for part in taken_apart if part)


def _submodule(module: Module, name: str) -> Module | None:
    try:
        return module.get_submodule(name)
    except AttributeError:
        return None


@contextmanager
def keeping(module: Module, where: Tensor) -> Iterator[None]:
    """Make a module return its hidden state at some positions only."""
    with dropping(module) as hook, reading(hook, where, {}):
        yield


@contextmanager
def reading(hook: object, where: Tensor, inputs: Mapping[str, Tensor]) -> Iterator[Pass]:
    """Let a hook of :func:`shortening` or :func:`dropping` take effect for calls in this thread, and give the pass.

    Args:
        hook: the hook; others stay without effect.
        where: positions that are read, shape (rows, positions).
        inputs: what the network is given in these calls; :func:`dropping` does not need it.
    """
    here = Pass(hook, where, inputs)
    token = _PASS.set(here)
    try:
        yield here
    finally:
        _PASS.reset(token)


def _pass_of(hook: object) -> Pass | None:
    here = _PASS.get()
    return here if here is not None and here.hook is hook else None


@contextmanager
def dropping(module: Module) -> Iterator[object]:
    """Give a hook by which a module returns its hidden state at the positions of :func:`reading` only. Other calls, as of another thread, return it whole."""
    import torch

    hook = object()

    def keep(
        module: Module, args: object, output: Tensor | tuple[Tensor, ...] | _ModelOutput
    ) -> Tensor | tuple[Tensor, ...] | _ModelOutput:
        here = _pass_of(hook)
        if here is None:
            return output
        if isinstance(output, tuple):
            return (at_positions(output[0], here.where), *output[1:])
        if isinstance(output, torch.Tensor):
            return at_positions(output, here.where)
        output.last_hidden_state = at_positions(output.last_hidden_state, here.where)
        return output

    handle = module.register_forward_hook(keep)
    try:
        yield hook
    finally:
        handle.remove()


@contextmanager
def ending_before(layer: Module, shortcut: Shortcut) -> Iterator[object]:
    """Give the hook of a shortcut, in whose passes a last layer multiplies nothing. ``kept`` of the pass has what it was given."""

    def keep(hidden: Tensor, here: Pass) -> Tensor:
        here.kept = hidden
        return hidden[:0]

    with shortcut() as hook, ExitStack() as stack:
        _around(stack, hook, layer, keep)
        yield hook


@contextmanager
def shortening(layers: ModuleList) -> Iterator[object]:
    """Give a hook by which the layers of an encoder like BERT's compute less in the passes of :func:`reading`.

    In the first layer, the query, key and value of a token that repeats are computed once: its hidden state does not depend on its
    neighbours yet. In the last layer, attention and all that follows are computed at the positions that are read.
    """
    hook = object()
    first, last = layers[0].get_submodule("attention.self"), layers[-1].get_submodule("attention")
    with ExitStack() as stack:
        for name in _PROJECTIONS:
            _around(stack, hook, first.get_submodule(name), _one_of_each, _each)
        _attending(stack, hook, last.get_submodule("self"))
        _around(stack, hook, last.get_submodule("output"), _where_read)
        yield hook


def _attending(stack: ExitStack, hook: object, module: Module) -> None:
    """Give a self-attention a single token in the passes of a hook, and compute its output at the read positions, until the stack is closed."""

    def before(module: Module, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        here = _pass_of(hook)
        if here is None or not here.reads_few:
            return None
        here.attended = args[0]
        return (args[0][:1, :1],), {**options, "attention_mask": None}

    def after(module: Module, args: object, output: tuple[object, ...]) -> tuple[object, ...]:
        here = _pass_of(hook)
        if here is None or here.attended is None:
            return output
        here.context = attention_at(module, here.attended, here.where, here.inputs.get("attention_mask"))
        return here.context, *output[1:]

    stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
    stack.callback(module.register_forward_hook(after).remove)


def attention_at(module: Module, hidden: Tensor, where: Tensor, mask: Tensor | None) -> Tensor:
    """Return the output of a self-attention at some positions: shape (rows, positions, features).

    Keys and values of single tokens are not computed, since q · (K h) is (K^T q) · h, and the mean of the values V h is V times the mean of
    the h. The bias of a key moves all scores of a query alike, so that it is left out.

    Args:
        module: a self-attention like BERT's.
        hidden: its input, shape (rows, tokens, features).
        where: the positions, shape (rows, positions).
        mask: 1 for tokens and 0 for padding, shape (rows, tokens), or ``None``.
    """
    heads, (rows, _, width) = int(cast("int", module.num_attention_heads)), hidden.shape
    key, value = (
        module.get_submodule(name).get_parameter("weight").reshape(heads, -1, width) for name in _PROJECTIONS[1:]
    )
    query = module.get_submodule("query")(at_positions(hidden, where)).view(-1, heads, key.shape[1])
    asked = (query.transpose(0, 1) @ key).transpose(0, 1).reshape(rows, -1, width)
    scores = asked @ hidden.transpose(1, 2) * cast("float", module.scaling)
    if mask is not None:
        scores = scores.masked_fill(mask[:, None] == 0, float("-inf"))
    means = (scores.softmax(-1) @ hidden).view(-1, heads, width).transpose(0, 1)
    context: Tensor = (means @ value.transpose(1, 2)).transpose(0, 1).reshape(rows, where.shape[1], -1)
    bias = cast("Tensor | None", module.get_submodule("value").bias)
    return context if bias is None else context + bias


def _around(
    stack: ExitStack,
    hook: object,
    module: Module,
    before: Callable[[Tensor, Pass], Tensor],
    after: Callable[[Tensor, Pass], Tensor] | None = None,
) -> None:
    """Change the inputs and the output of a module in the passes of a hook, until the stack is closed."""
    stack.callback(module.register_forward_pre_hook(ChoosesRows(hook, before)).remove)
    if after is None:
        return

    def change(module: Module, inputs: object, output: Tensor) -> Tensor:
        here = _pass_of(hook)
        return output if here is None else after(output, here)

    stack.callback(module.register_forward_hook(change).remove)


def _one_of_each(hidden: Tensor, here: Pass) -> Tensor:
    repeats = here.find_repeats(hidden)
    return hidden if repeats is None else hidden.flatten(0, 1)[repeats.one]


def _each(output: Tensor, here: Pass) -> Tensor:
    return output if here.repeats is None else output[here.repeats.distinct]


def _where_read(hidden: Tensor, here: Pass) -> Tensor:
    """Return hidden states at the read positions; attention that was computed there only has no others."""
    return hidden if hidden is here.context else at_positions(hidden, here.where)


def at_positions(hidden: Tensor, where: Tensor) -> Tensor:
    """Return hidden states, shape (rows, tokens, features), at some positions of each row, shape (rows, positions)."""
    return hidden.gather(1, where[:, :, None].expand(-1, -1, hidden.shape[-1]))


def repeated_tokens(inputs: Mapping[str, Tensor]) -> Repeats | None:
    """Return the distinct tokens of a batch, or ``None`` if they are more than half of all.

    Args:
        inputs: ``input_ids`` and, where there are, ``token_type_ids`` and ``attention_mask``, which tell tokens apart too: shape (rows, tokens).

    >>> import torch
    >>> repeated_tokens({"input_ids": torch.tensor([[5, 7, 6], [5, 7, 6], [5, 8, 6]])}).distinct
    tensor([[0, 2, 1],
            [0, 2, 1],
            [0, 3, 1]])
    """
    import torch

    ids = inputs["input_ids"]
    key = ids * ids.shape[1] + torch.arange(ids.shape[1])
    for name in ("token_type_ids", "attention_mask"):
        if name in inputs:
            key = key * (inputs[name].max() + 1) + inputs[name]
    found, distinct = torch.unique(key, return_inverse=True)
    if 2 * len(found) > key.numel():
        return None
    one = torch.empty_like(found)
    one[distinct.flatten()] = torch.arange(key.numel())
    return Repeats(one, distinct)
