"""The families by name. To add a family, write a module in ``families`` and add it here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from pytest_genderbias.suites.family import AnyFamily

#: Module and class of each family, by its name.
_CLASSES = {
    "bbq": ("bbq", "Bbq"),
    "bios": ("bios", "Bios"),
    "chat-iat": ("chat_iat", "ChatIat"),
    "coref-occupation": ("coref_occupation", "CorefOccupation"),
    "coref-winobias": ("winobias_pronouns", "CorefWinobias"),
    "coref-winogender": ("winogender_pronouns", "CorefWinogender"),
    "corpus": ("corpus", "Corpus"),
    "decisions": ("decisions", "Decisions"),
    "disco": ("disco", "DisCo"),
    "generation": ("generation", "Generation"),
    "nli": ("nli", "Nli"),
    "lm-occupation": ("lm_occupation", "LmOccupation"),
    "pairs-pll": ("pairs_pll", "PairsPll"),
    "paired": ("own_prompts", "Paired"),
    "probe": ("probe", "Probe"),
    "pronoun-occupation": ("pronoun_occupation", "PronounOccupation"),
    "results": ("results", "ResultsOfOthers"),
    "sts": ("sts", "Sts"),
    "subspace": ("subspace", "Subspace"),
    "weat": ("weat", "Weat"),
    "ceat": ("weat", "Ceat"),
    "winobias-chat": ("winobias_pronouns", "WinobiasChat"),
    "winogender-chat": ("winogender_pronouns", "WinogenderChat"),
}


class Families(Mapping[str, AnyFamily]):
    """The families by name. A family is imported when it is first looked up: a run of one suite needs no other."""

    def __getitem__(self, name: str) -> AnyFamily:
        """Return the family of a name.

        Raises:
            KeyError: there is none.
        """
        return _family(*_CLASSES[name])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(_CLASSES)

    def __len__(self) -> int:
        """Return the number of families."""
        return len(_CLASSES)

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a family of a name, without importing it."""
        return name in _CLASSES


@cache
def _family(module: str, kind: str) -> AnyFamily:
    family: AnyFamily = vars(import_module(f"pytest_genderbias.suites.families.{module}"))[kind]()
    return family


FAMILIES = Families()
