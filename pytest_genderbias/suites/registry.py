"""The families by name. To add a family, write a module in ``families`` and add it here."""

from __future__ import annotations

from pytest_genderbias.suites.families.bbq import Bbq
from pytest_genderbias.suites.families.bios import Bios
from pytest_genderbias.suites.families.coref_occupation import CorefOccupation
from pytest_genderbias.suites.families.coref_winobias import CorefWinobias
from pytest_genderbias.suites.families.coref_winogender import CorefWinogender
from pytest_genderbias.suites.families.corpus import Corpus
from pytest_genderbias.suites.families.disco import DisCo
from pytest_genderbias.suites.families.lm_occupation import LmOccupation
from pytest_genderbias.suites.families.nli import Nli
from pytest_genderbias.suites.families.pairs_pll import PairsPll
from pytest_genderbias.suites.families.probe import Probe
from pytest_genderbias.suites.families.sts import Sts
from pytest_genderbias.suites.families.subspace import Subspace
from pytest_genderbias.suites.families.weat import Ceat, Weat
from pytest_genderbias.suites.family import AnyFamily

FAMILIES: dict[str, AnyFamily] = {
    family.name: family
    for family in (
        Bbq(),
        Bios(),
        CorefOccupation(),
        CorefWinobias(),
        CorefWinogender(),
        Corpus(),
        DisCo(),
        Nli(),
        LmOccupation(),
        PairsPll(),
        Probe(),
        Sts(),
        Subspace(),
        Weat(),
        Ceat(),
    )
}
