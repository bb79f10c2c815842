"""Shares of women in the labour market by profession, in place of those in the data (orgad2022, appendix D.2)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from pytest_genderbias.errors import SettingError
from pytest_genderbias.text.normal_form import folded
from pytest_genderbias.text.wordlist import load_wordlist

LIST = "labour-shares"  #: The packaged list of shares.
_WOMEN_AND_MEN = ("female", "male")


def labour_shares(labels: Iterable[str], groups: tuple[str, str]) -> dict[str, float]:
    """Return the share of the first group, 0 to 1, in the professions that the packaged list ``labour-shares`` has.

    Case is ignored, and an underscore is a space.

    Raises:
        SettingError: the groups are not women and men.

    >>> labour_shares(["Teacher", "software_engineer", "poodle"], ("female", "male"))
    {'Teacher': 0.71, 'software_engineer': 0.2}
    """
    if tuple(sorted(groups)) != _WOMEN_AND_MEN:
        raise SettingError(
            "option 'shares' of bios: labour has the shares of women, and needs the groups female and male; got"
            f" {groups[0]!r} and {groups[1]!r}; take shares=training"
        )
    of_women = {label: _women_share().get(folded(label).replace("_", " ")) for label in labels}
    sign, start = (1.0, 0.0) if groups == _WOMEN_AND_MEN else (-1.0, 1.0)
    return {label: start + sign * share for label, share in of_women.items() if share is not None}


@cache
def _women_share() -> dict[str, float]:
    return {entry.word: float(entry.attributes["women_share"]) / 100 for entry in load_wordlist(LIST).entries}
