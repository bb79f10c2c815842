"""The methods as the harness takes them: augmentation, projection, nullspace projection, hard debiasing, regularisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation.methods.base import Columns, Hooks, Method, Row
from pytest_genderbias.mitigation.methods.counterfactual import INTERVENTIONS, augment_labelled, chosen_neutral
from pytest_genderbias.mitigation.methods.hard_debiasing import LENGTHS, hard_debias_embeddings
from pytest_genderbias.mitigation.methods.nullspace import iterative_nullspace
from pytest_genderbias.mitigation.methods.projection import project_embeddings, project_layers, projection_callback
from pytest_genderbias.mitigation.methods.regularisation import MATRICES, defining_rows, make_regulariser, regularising
from pytest_genderbias.mitigation.words.directions import (
    HE_SHE,
    NAMED_LAYERS,
    FloatArray,
    Pair,
    layer_bases,
    learn_basis,
    random_bases,
    vectors_of,
)
from pytest_genderbias.mitigation.words.grammar import rule_grammar, spacy_grammar
from pytest_genderbias.mitigation.words.pairs import NAME_PARTNERS, name_partners, read_names, read_pairs
from pytest_genderbias.models.model import Model
from pytest_genderbias.text.wordlist import load_wordlist

TEST, TRAINING = "test", "training"
WHEN = (TEST, TRAINING)  #: ``training`` means at training and test, as a model is what it was trained to be
BEFORE_TRAINING, AFTER_TRAINING, BOTH = "before", "after", "both"


def pairs_of_list(name: str) -> tuple[Pair, ...]:
    """Return the pairs of a packaged list or a file, first the first group's word, each pair once.

    >>> pairs_of_list("bordia2019-penn-treebank")[0]
    ('actor', 'actress')
    """
    partner = read_pairs(name).partner
    seen: set[str] = set()
    found = []
    for word, other in partner.items():
        if word not in seen and other not in seen and partner.get(other) == word:
            found.append((word, other))
            seen |= {word, other}
    return tuple(found)


@dataclass(frozen=True)
class CounterfactualAugmentation(Method):
    """Counterfactual data augmentation of the training texts, labels kept (lu2018 section 4, webster2020 section 5.2).

    ``pairs``, ``intervention``, ``sides`` and ``neutral`` as in :func:`~pytest_genderbias.mitigation.methods.counterfactual.augment`. ``names``:
    partners of first names, ``same``, ``other`` or ``random``; none by default. ``grammar``: ``rules`` or ``spacy``, for the
    grammatical intervention. ``copies`` is the control of the two-sided one: each text a second time in place of its counterfactual.
    """

    name: ClassVar[str] = "cda"
    pairs: str = "lu2018-pairs"
    intervention: str = "naive"
    sides: str = "two"
    neutral: str | None = None
    names: str | None = None
    grammar: str = "rules"
    copies: bool = False

    in_words: ClassVar[str] = "the same recipe with each swapped text twice"

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        if self.grammar not in ("rules", "spacy"):
            raise SettingError(f"grammar should be rules or spacy, got {self.grammar!r}")
        if self.names is not None and self.names not in NAME_PARTNERS:
            raise SettingError(f"names should be one of {', '.join(NAME_PARTNERS)}, got {self.names!r}")
        if self.intervention not in INTERVENTIONS:
            raise SettingError(f"intervention should be one of {', '.join(INTERVENTIONS)}, got {self.intervention!r}")
        chosen_neutral(self.sides, self.neutral)
        read_pairs(self.pairs)

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> list[Row]:
        """Add the counterfactual of each row, or put it in its place."""
        partners = None if self.names is None else name_partners(read_names(), self.names, seed=seed)
        told = [(tuple(row[column] for column in columns.texts), row) for row in rows]
        found = augment_labelled(
            told, self.pairs, sides=self.sides, intervention=self.intervention, names=partners,
            grammar=spacy_grammar() if self.grammar == "spacy" else rule_grammar, neutral=self.neutral,
        )  # fmt: skip
        return [row if self.copies else {**row, **dict(zip(columns.texts, texts, strict=True))} for texts, row in found]

    def control(self, repeat: int) -> Method | None:
        """Return the same text twice, if it is two-sided."""
        return replace(self, copies=True) if self.sides == "two" else None


@dataclass(frozen=True)
class Projection(Method):
    """Projection of a direction or subspace out of the input embeddings, or of hidden layers (dev2019).

    ``pairs`` (a list's name, or pairs) or ``words`` (a list's name, or words) give the subspace, of ``components`` dimensions. ``when``:
    at ``test`` only, or at ``training`` and test. ``layers``: ``all``, or numbers, in place of the input embeddings; at test only.
    ``random``: a random subspace of as many dimensions, from this seed, which is the control.
    """

    name: ClassVar[str] = "projection"
    pairs: str | tuple[Pair, ...] = HE_SHE
    words: str | tuple[str, ...] = ()
    components: int = 1
    when: str = TEST
    layers: str | tuple[int, ...] = ()
    random: int | None = None

    in_words: ClassVar[str] = "random directions"

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        if self.when not in WHEN:
            raise SettingError(f"when should be {' or '.join(WHEN)}, got {self.when!r}")
        if self.layers and self.when != TEST:
            raise SettingError("hidden layers are projected at test only; leave layers out, or choose when='test'")
        named = self.layers in ("", *NAMED_LAYERS) if isinstance(self.layers, str) else min(self.layers, default=0) >= 0
        if not named:
            raise SettingError(
                f"layers should be {' or '.join(NAMED_LAYERS)}, or numbers from 0 on, got {self.layers!r}"
            )
        _check_count("components", self.components)
        if isinstance(self.pairs, str):
            read_pairs(self.pairs)
        _words(self.words)

    @property
    def trains(self) -> bool:
        """Whether the projection holds during training."""
        return self.when == TRAINING

    def changes(self, what: str) -> bool:
        """Tell whether the projection is done after training, or else before and during it."""
        return {"after": not self.trains, "before": self.trains, "hooks": self.trains}.get(what, super().changes(what))

    def before(self, model: Model, seed: int) -> Model:
        """Project the input embeddings, if that is to hold in training."""
        return project_embeddings(model, self.basis(model)) if self.trains else model

    def hooks(self, model: Model) -> Hooks:
        """Keep the input embeddings projected while they are trained."""
        return Hooks((projection_callback(self.basis(model)),)) if self.trains else Hooks()

    def after(self, model: Model, seed: int) -> Model:
        """Project the finished model, if the projection is at test only."""
        if self.trains:
            return model
        if not self.layers:
            return project_embeddings(model, self.basis(model))
        chosen = self.layers if isinstance(self.layers, str) else list(self.layers)
        bases = layer_bases(model, chosen, components=self.components, **self._source(model))
        if self.random is not None:
            drawn = random_bases(model.width, self.components, len(bases), self.random)
            bases = dict(zip(bases, drawn, strict=True))
        return project_layers(model, bases)

    def basis(self, model: Model) -> FloatArray:
        """Return the subspace of a model's input embeddings that is taken out."""
        if self.random is not None:
            found: FloatArray = random_bases(model.input_width, self.components, 1, self.random)[0]
            return found
        return learn_basis(model, components=self.components, **self._source(model))

    def control(self, repeat: int) -> Method | None:
        """Return the same with a random subspace."""
        return replace(self, random=repeat)

    def _source(self, model: Model) -> dict[str, Any]:
        if self.words:
            return {"words": [word for word in _words(self.words) if _known(model, word)]}
        return {"pairs": pairs_of_list(self.pairs) if isinstance(self.pairs, str) else self.pairs}


@dataclass(frozen=True)
class NullspaceProjection(Method):
    """Iterative nullspace projection of the input embeddings (Ravfogel et al. 2020): what tells the words of ``pairs`` apart is taken out.

    ``rounds``: classifiers, at most. The control projects random directions, as many.
    """

    name: ClassVar[str] = "inlp"
    pairs: str = "lu2018-pairs"
    rounds: int = 20
    random: int | None = None

    in_words: ClassVar[str] = "as many random directions"

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        _check_count("rounds", self.rounds)
        read_pairs(self.pairs)

    def after(self, model: Model, seed: int) -> Model:
        """Project the finished model."""
        pairs = [pair for pair in pairs_of_list(self.pairs) if _known(model, *pair)]
        words = [word for pair in pairs for word in pair]
        found = iterative_nullspace(
            vectors_of(model, words), np.tile([0, 1], len(pairs)), rounds=self.rounds, seed=seed
        )
        basis = found.basis if self.random is None else random_bases(model.input_width, found.rank, 1, self.random)[0]
        return project_embeddings(model, basis) if found.rank else model

    def control(self, repeat: int) -> Method | None:
        """Return as many random directions."""
        return replace(self, random=repeat)


@dataclass(frozen=True)
class HardDebiasing(Method):
    """Word embedding debiasing: neutralise and equalise (Bolukbasi et al. 2016), ``before`` training, ``after`` it, or ``both``.

    ``pairs`` gives the gender subspace, of ``components`` dimensions, and the words that are equalised. lu2018's language model: after.
    """

    name: ClassVar[str] = "wed"
    pairs: str = "lu2018-pairs"
    components: int = 1
    when: str = AFTER_TRAINING
    lengths: str | None = None

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        if self.when not in (BEFORE_TRAINING, AFTER_TRAINING, BOTH):
            raise SettingError(f"when should be before, after or both, got {self.when!r}")
        if self.lengths not in (None, *LENGTHS):
            raise SettingError(f"lengths should be {' or '.join(LENGTHS)}, got {self.lengths!r}")
        _check_count("components", self.components)
        read_pairs(self.pairs)

    def changes(self, what: str) -> bool:
        """Tell whether it is done before training, after it, or both."""
        return {"before": self.when != AFTER_TRAINING, "after": self.when != BEFORE_TRAINING}.get(
            what, super().changes(what)
        )

    def before(self, model: Model, seed: int) -> Model:
        """Debias the model that is trained."""
        return self._debiased(model) if self.when != AFTER_TRAINING else model

    def after(self, model: Model, seed: int) -> Model:
        """Debias the finished model."""
        return self._debiased(model) if self.when != BEFORE_TRAINING else model

    def _debiased(self, model: Model) -> Model:
        pairs = [pair for pair in pairs_of_list(self.pairs) if _known(model, *pair)]
        basis = learn_basis(model, pairs=pairs, components=self.components)
        return hard_debias_embeddings(model, basis, pairs, lengths=self.lengths)


@dataclass(frozen=True)
class Regularisation(Method):
    """The loss term of bordia2019 on the embeddings, strength lambda, in every step. The control is the same recipe without it.

    ``pairs`` are the defining pairs; those whose words are both single tokens of the vocabulary count. Others as
    :func:`~pytest_genderbias.mitigation.methods.regularisation.bias_loss`.
    """

    name: ClassVar[str] = "regularisation"
    strength: float = 0.1
    pairs: str = "bordia2019-wikitext-2"
    share: float = 0.5
    normalised: bool = False
    matrices: str = "input"

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        if not 0 <= self.strength < float("inf"):
            raise SettingError(f"strength should be a number of 0 or more, got {self.strength!r}")
        if not 0 < self.share <= 1:
            raise SettingError(f"share should be above 0 and at most 1, got {self.share!r}")
        if self.matrices not in MATRICES:
            raise SettingError(f"matrices should be one of {', '.join(MATRICES)}, got {self.matrices!r}")
        read_pairs(self.pairs)

    def hooks(self, model: Model) -> Hooks:
        """Add the term to the loss."""
        rows = defining_rows(model.backend.tokenizer, pairs_of_list(self.pairs))
        regulariser = make_regulariser(rows, self.strength, self.share, self.normalised, self.matrices)
        return Hooks(around=partial(regularising, regulariser=regulariser))


def _check_count(name: str, value: int) -> None:
    if value < 1:
        raise SettingError(f"{name} should be a whole number of at least 1, got {value!r}")


def _words(words: str | tuple[str, ...]) -> list[str]:
    return [entry.word for entry in load_wordlist(words).entries] if isinstance(words, str) else list(words)


def _known(model: Model, *words: str) -> bool:
    """Tell whether a model has a vector of each word: a network has one of any word, of its pieces, but for an unknown one."""
    if hasattr(model.backend, "row"):
        return None not in map(model.backend.row, words)
    tokenizer = model.backend.tokenizer
    pieces = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]
    return not any(tokenizer.unk_token_id in ids for ids in pieces)
