"""Models that are objects in memory: a transformers network with its tokenizer, a table of predictions, or an object
with the protocol of a role.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, cast

from pytest_genderbias.errors import BiasError, ModelError
from pytest_genderbias.models.behaviour import embedded_tokens
from pytest_genderbias.models.checkpoints import check_parts, details_of, observed
from pytest_genderbias.models.config import role_of_config, settled_role
from pytest_genderbias.models.fingerprint import fingerprint_tokenizer
from pytest_genderbias.models.model import Model, evaluation_mode, is_network
from pytest_genderbias.models.plain_tensors import number_format
from pytest_genderbias.models.protocols import (
    CausalLM,
    ChatModel,
    CoreferenceScorer,
    MaskedLM,
    PairClassifier,
    PairRegressor,
    Replier,
    SentenceEncoder,
    TextClassifier,
)
from pytest_genderbias.models.replies import Replying
from pytest_genderbias.models.roles import (
    CAUSAL_LM,
    CHAT_MODEL,
    CLASS_PREDICTIONS,
    MASKED_LM,
    NLI_CLASSIFIER,
    PAIR_REGRESSOR,
    SENTENCE_ENCODER,
    TEXT_CLASSIFIER,
    TEXT_REPLIES,
    Role,
    classifier_role,
    coreference_role,
)
from pytest_genderbias.models.source import LoadSettings, ModelSource
from pytest_genderbias.models.spec import ModelSpec, check_name
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: What to write instead, by the package and the base class of objects that are often mistaken for a model.
_INSTEAD = {
    "transformers.PreTrainedTokenizerBase": "a tokenizer; write load_model(network, tokenizer=tokenizer)",
    "transformers.Pipeline": "a pipeline; write load_model(pipeline.model, tokenizer=pipeline.tokenizer)",
    "peft.PeftModel": "a peft wrapper; write load_model(model.merge_and_unload(), tokenizer=tokenizer)",
    "sklearn.BaseEstimator": "a scikit-learn estimator; write from_sklearn(estimator)",
    "polars.DataFrame": "a polars DataFrame; write load_model(frame.to_dicts())",
    "spacy.Language": "a spaCy pipeline; write from_spacy(nlp)",
}
_CALLABLE = "expected module:callable that takes no arguments and returns a model"
#: Roles of objects by protocol, after those that depend on labels.
_ROLES: tuple[tuple[type, Role], ...] = (
    (MaskedLM, Role(MASKED_LM, "a masked LM")),
    (CausalLM, Role(CAUSAL_LM, "a causal LM")),
    (ChatModel, Role(CHAT_MODEL, "a chat model")),
    (PairRegressor, Role(PAIR_REGRESSOR, "a pair regressor")),
    (SentenceEncoder, Role(SENTENCE_ENCODER, "a sentence encoder")),
    (Replier, Role(TEXT_REPLIES, "a system that answers in text")),
)


def wrap(
    target: object,
    tokenizer: object = None,
    name: str | None = None,
    labels: Sequence[str] | None = None,
    samples: int | None = None,
) -> Model:
    """Make a :class:`Model` of an object in memory. Arguments and errors as
    :func:`~pytest_genderbias.models.loading.load_model`.
    """
    from pytest_genderbias.models.predictions import is_table, predictions_of

    kind = type(target).__name__
    if name is not None:
        check_name(name)
    if is_network(target):
        model = _checked_network(target, tokenizer, name or kind, labels)
        return replace(model, role=model.role.writing(samples))
    if tokenizer is not None:
        raise ModelError(
            f"tokenizer={type(tokenizer).__name__} goes with a transformers network (a PreTrainedModel); got {kind},"
            " which takes none"
        )
    if labels is not None:
        raise ModelError(
            f"labels name the outputs of a transformers network; got {kind}, which has its labels as an attribute"
        )
    if isinstance(target, Model):
        return target if name is None else replace(target, name=name)
    if is_table(target):
        table, name = predictions_of(target), name or "predictions"
        role = Role(CLASS_PREDICTIONS, "a table of a classifier's predictions")
        return Model(name, name, role, table.fingerprint, {"architecture": "predictions"}, table)
    _refuse_mistaken(target)
    return wrap_object(target, None if name is None else ModelSpec(name, name, "object", name), samples)


def wrap_object(target: object, spec: ModelSpec | None = None, samples: int | None = None) -> Model:
    """Make a :class:`Model` of an object with the protocol of a role.

    An object with several protocols is a coreference scorer first, then a pair classifier, a text classifier, a masked
    LM, a causal LM, a chat model, a pair regressor, a sentence encoder, a system that answers in text. ``samples``:
    replies to each question, of the last.

    Raises:
        ModelError: the object has no protocol, an NLI classifier has other labels, or the fingerprint is not a text.
    """
    kind = type(target).__name__
    spec = spec or ModelSpec(kind, kind, "object", kind)
    try:
        fingerprint = getattr(target, "fingerprint", None)
        role = _role_of_object(target, spec.name)
    except BiasError:
        raise
    except Exception as error:  # of the object's own attributes
        raise ModelError(
            f"{spec.name} cannot be read: {type(error).__name__}: {error}; expected the attributes of a protocol, as"
            " labels = ('a', 'b')"
        ) from error
    if fingerprint is not None and not isinstance(fingerprint, str):
        raise ModelError(f"the fingerprint of {spec.name} should be a text, got {type(fingerprint).__name__}")
    details = {"architecture": kind}
    if role.kind == TEXT_REPLIES:
        role, target = replace(role, samples=samples or 1), Replying(cast("Replier", target), spec.name, fingerprint)
        details["samples"] = str(role.samples)
    return Model(spec.name, spec.spec, role, fingerprint, details, target)


def wrap_network(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str | None = None) -> Model:
    """Make a :class:`Model` of a transformers network in memory, for example one in training, without checking its
    weights.

    The network is shared, not copied, and its role is that of its class. The model has no fingerprint, since the
    weights may change: it is measured and never cached.
    """
    tokenizer_print, dtype = fingerprint_tokenizer(tokenizer), number_format(network)
    name, role = name or type(network).__name__, _role_of_class(network)
    with evaluation_mode(network):
        backend = observed(network, tokenizer, role, name, str(network.device), refuse=False)
    details = details_of(backend, type(network).__name__, tokenizer_print, dtype, {})
    return Model(name, name, role, None, details, backend)


def _role_of_class(network: PreTrainedModel) -> Role:
    config = deepcopy(network.config)
    config.architectures = [type(network).__name__]
    return role_of_config(config)


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Call the callable of a ``module:callable`` spec and make a model of what it returns.

    Raises:
        ModelError: the module, the callable or what it returns cannot be had: the code raises an error, ends with
            ``SystemExit``, or returns something that is no model.
    """
    module, _, attribute = spec.target.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    with _errors_of_code(spec, "cannot be imported"):
        namespace = import_module(module)
    with _errors_of_code(spec, "cannot be found"):
        make: object = reduce(getattr, attribute.split("."), namespace)
    if not callable(make):
        raise ModelError(f"{spec.spec} is a {type(make).__name__}; {_CALLABLE}")
    with _errors_of_code(spec, "failed"):
        target = make()
        model = wrap(target, name=spec.name, samples=settings.samples)
    return ModelSource(spec, model.role, found=model)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Return the model that a callable returned, under the name of its spec."""
    assert isinstance(source.found, Model)
    return replace(source.found, name=source.spec.name, spec=source.spec.spec)


@contextmanager
def _errors_of_code(spec: ModelSpec, what: str) -> Iterator[None]:
    """Raise whatever the user's code raises, also ``SystemExit``, as one error of this package; not an interruption by
    the user.
    """
    try:
        yield
    except BiasError:
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ModelError(f"{spec.spec} {what}: {' '.join(reason.split())[:500]}; {_CALLABLE}") from error


def _checked_network(network: PreTrainedModel, tokenizer: object, name: str, labels: Sequence[str] | None) -> Model:
    from transformers import PreTrainedTokenizerBase

    if tokenizer is None:
        raise ModelError(f"{name} needs its tokenizer: load_model(network, tokenizer=tokenizer)")
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ModelError(
            f"the tokenizer of {name} should be a transformers tokenizer, such as AutoTokenizer.from_pretrained()"
            f" returns; got {type(tokenizer).__name__}"
        )
    role = settled_role(_role_of_class(network), network.config, name, labels)
    check_parts(network, tokenizer, role, name)
    rows = embedded_tokens(network)
    if rows is not None and tokenizer.vocab_size > rows:
        raise ModelError(
            f"{name} has embeddings of {rows} tokens, its tokenizer has {tokenizer.vocab_size}; give the tokenizer that"
            " it was trained with"
        )
    network.eval()  # type: ignore[no-untyped-call]
    return replace(wrap_network(network, tokenizer, name), role=role)


def _refuse_mistaken(target: object) -> None:
    if isinstance(target, type):
        raise ModelError(f"{target.__name__} is a class; expected an object of that class")
    if isinstance(target, (str, PurePath)):
        raise ModelError(
            f"{brief(target)} is no model; expected an object with the methods of one: give a path itself as SPEC"
        )
    for base in type(target).__mro__:
        instead = _INSTEAD.get(f"{base.__module__.partition('.')[0]}.{base.__name__}")
        if instead is not None:
            raise ModelError(f"{type(target).__name__} is {instead}")


def _role_of_object(target: object, name: str) -> Role:
    if isinstance(target, CoreferenceScorer):  # first, since its other methods are likely those that it scores with
        return coreference_role()
    if isinstance(target, PairClassifier):
        role = classifier_role(target.labels)
        if role.kind != NLI_CLASSIFIER:
            raise ModelError(
                f"{name} has the labels {', '.join(map(str, target.labels))}; expected entailment, neutral,"
                " contradiction"
            )
        return role
    if isinstance(target, TextClassifier):
        if isinstance(target.labels, str):
            raise ModelError(f"the labels of {name} should be several texts, got the one text {target.labels!r:.80}")
        return Role(TEXT_CLASSIFIER, "a text classifier", tuple(map(str, target.labels)))
    for protocol, role in _ROLES:
        if isinstance(target, protocol):
            return role
    raise ModelError(
        f"{name} ({type(target).__name__}) has the protocol of no role; expected a transformers network with its"
        " tokenizer, or an object with pair_probabilities and labels, class_probabilities and labels, fill_scores with"
        " mask_token and vocabulary, continuation_log_probs, answer_log_probs, pair_scores, encode,"
        " coreference_scores, or reply (see pytest_genderbias.models.protocols)"
    )
