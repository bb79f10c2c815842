"""The families by name; and load and check a suite file, and compute its digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import BiasError, DataFileError, SettingError, UnknownNameError
from pytest_genderbias.suites.ask import CHAT_ROLES, Asking, check_asking, read_asking
from pytest_genderbias.suites.ask import KEY as ASK_KEY
from pytest_genderbias.suites.families.shared.paraphrases import KEY as PARAPHRASES_KEY
from pytest_genderbias.suites.family import (
    ITEMS_KEY,
    PAPER,
    WIDE,
    AnyFamily,
    SuiteAbout,
    read_own_words,
    resolve_options,
)
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text import packaged
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.printable import brief, expected_instead
from pytest_genderbias.text.schema import LocatedMap, refuse_unknown, take, take_texts
from pytest_genderbias.text.wordlist import load_wordlist

#: Module and class of each family, by its name. To add a family, write a module in ``families`` and add it here.
FAMILIES: Mapping[str, tuple[str, str]] = {
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


@cache
def load_family(name: str) -> AnyFamily:
    """Return one of :data:`FAMILIES`. It is imported when it is first asked for: a run of one suite needs no other.

    Raises:
        KeyError: there is none of this name.
    """
    module, kind = FAMILIES[name]
    family: AnyFamily = vars(import_module(f"pytest_genderbias.suites.families.{module}"))[kind]()
    return family


def family_of(definition: str) -> AnyFamily | None:
    """Return the family whose name begins a definition, as ``weat`` in ``weat/1``; ``None`` for one of someone else."""
    name = definition.partition("/")[0]
    return load_family(name) if name in FAMILIES else None


_TEXTS = ("suite", "title", "source", "licence", "language")
_HEAD = (*_TEXTS, "family", ASK_KEY, "note", "about", "options", "clusters", "wide")


@dataclass(frozen=True)
class Suite:
    """A checked suite: templates and words, and the family that makes questions from them and summarises the answers.

    ``digest`` is a SHA-256 over the content that can change a score or a statistic (templates, words, attributes,
    groups, options), not over titles, comments or the order of keys.
    """

    name: str
    title: str
    source: str
    licence: str
    language: str
    path: Path
    family: AnyFamily
    body: Any  # each family has its own type of body
    defaults: Mapping[str, object]
    digest: str
    own_words: Mapping[str, str]  #: what it says of itself in place of the family's words
    clusters: Mapping[str, str] = field(default_factory=dict)  #: of units that are no independent samples, by unit
    complete: bool = False  #: whether the clusters are all that there are
    ask: Asking = field(default_factory=Asking)  #: how it asks, in its language
    wide: Suite | None = None  #: the same with its wide sets of items, if it has some

    @property
    def digests(self) -> tuple[str, ...]:
        """The digest of each of its sets of items."""
        return (self.digest,) if self.wide is None else (self.digest, self.wide.digest)

    def with_items(self, options: Mapping[str, object]) -> Suite:
        """Return the suite with the items that the option ``items`` selects.

        Raises:
            SettingError: it has no wide set, and the option asks for it.
        """
        if options.get(ITEMS_KEY, PAPER) == PAPER:
            return self
        if self.wide is None:
            raise SettingError(
                f"{self.name} has no wide items, which the option items={WIDE} asks for: write some under 'wide' in its"
                f" file (fixtures/README.md), or use items={PAPER}"
            )
        return self.wide

    @property
    def about(self) -> SuiteAbout:
        """The words of the family, or the suite's own where it has any, and its own source as the paper."""
        own: dict[str, Any] = {**self.own_words, "paper": self.source}
        return replace(self.family.about, **own)

    @property
    def main_statistic(self) -> str:
        """The key of the main statistic, the first of the family's."""
        return next(iter(self.family.statistics))

    @property
    def statistics(self) -> dict[str, Statistic]:
        """The plain part of each statistic, with the range that the words of the suite set."""
        return {name: statistic.plain(self.body) for name, statistic in self.family.statistics.items()}


def suite_names() -> list[str]:
    """Return the names of the packaged suites."""
    return packaged.names("fixtures")


def load_suite(name: str | Path) -> Suite:
    """Load a packaged suite by name, or the user's own by a path that ends in ``.yaml``.

    Raises:
        UnknownNameError: no packaged suite has that name.
        DataFileError: the file, or a word list that it names, breaks a rule; the message names file and line.
    """
    path = packaged.locate("fixtures", str(name))
    if path is None:
        raise UnknownNameError(
            f"no suite {brief(str(name))}; "
            + expected_instead(
                str(name), suite_names(), "packaged suites:", "; a suite of your own is given by its path"
            )
        )
    return _packaged(path) if path.parent == packaged.folder("fixtures") else _read(path)


def _read(path: Path) -> Suite:
    """Read the file of a suite. Errors as :func:`load_suite`."""
    data = read_yaml(path)
    family_name = take(data, "family", str, "the suite")
    if family_name not in FAMILIES:
        raise data.error_at(
            "family", f"unknown family {brief(family_name)}; {expected_instead(family_name, sorted(FAMILIES))}"
        )
    family = load_family(family_name)
    refuse_unknown(data, (*_HEAD, *family.keys), f"a suite of the family {family_name}")
    own, title, source, licence, language = (take(data, key, str, "the suite") for key in _TEXTS)
    if own != path.stem:
        raise data.error_at("suite", f"'suite' is {own!r}, expected the file's name {path.stem!r}")
    if "wide" in data and ITEMS_KEY not in family.options:
        raise data.error_at("wide", f"suites of the family {family_name} have no wide items")
    defaults = dict(take(data, "options", dict, "the suite", default={}))
    for key, value in defaults.items():
        try:
            resolve_options(family.options, {key: value}, own)
        except BiasError as error:
            raise data["options"].error_at(key, f"{error}") from None
    words, ask = read_own_words(data), read_asking(data)
    suite = Suite(own, title, source, licence, language, path, family, None, defaults, "", words, ask=ask)
    with_body = _with_body(suite, data)
    return replace(with_body, wide=_with_body(suite, _widened(data, family))) if "wide" in data else with_body


#: A suite of the package is read once: its file, and the lists that it names, stay as they are.
_packaged = cache(_read)


def _with_body(suite: Suite, data: LocatedMap) -> Suite:
    """Return the suite with the body and the clusters of a file, and its digest."""
    body = suite.family.read(data)
    family = suite.family.of_body(body)
    content = {
        "family": family.name,
        "definition": family.definition,
        "body": family.content(body),
        "options": suite.defaults,
    }
    ask = replace(suite.ask, used=family.asks(body))
    check_asking(data, ask, chat_only=set(family.roles) <= set(CHAT_ROLES))
    if said := ask.content():
        content["ask"] = said
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False, default=str).encode()).hexdigest()
    clusters, complete = _read_clusters(data)
    return replace(suite, family=family, body=body, digest=digest, ask=ask, clusters=clusters, complete=complete)


def _widened(data: LocatedMap, family: AnyFamily) -> LocatedMap:
    """Return a file in which the keys under ``wide`` have taken the place of its own."""
    wide = take(data, "wide", LocatedMap, "the suite")
    refuse_unknown(wide, ("clusters", *family.keys), "'wide'")
    merged = LocatedMap(data.file, data.line)
    merged.update({key: value for key, value in {**data, **wide}.items() if key in wide or key != PARAPHRASES_KEY})
    merged.lines = {**data.lines, **wide.lines}
    return merged


def _read_clusters(data: LocatedMap) -> tuple[dict[str, str], bool]:
    """Return the cluster of each unit that a suite file names, or that has the attribute of a word list; and whether
    these clusters are all that there are.
    """
    if "clusters" not in data:
        return {}, False
    declared = take(data, "clusters", LocatedMap, "the suite")
    where = f"{declared.file}:{data.lines['clusters']}"
    if "list" in declared:
        refuse_unknown(declared, ("list", "by", "complete"), "'clusters'")
        name, by = (take(declared, key, str, "'clusters'") for key in ("list", "by"))
        known = [word for word in load_wordlist(name, data.folder).entries if by in word.attributes]
        if not known:
            raise DataFileError(
                f"{where}: no word of {brief(name)} has the attribute {brief(by)}; expected one of its columns"
            )
        complete = take(declared, "complete", bool, "'clusters'", default=False)
        return {word.word: str(word.attributes[by]) for word in known}, complete
    of_units: dict[str, str] = {}
    for cluster in declared:
        for unit in take_texts(declared, cluster, "'clusters'"):
            if unit in of_units:
                raise DataFileError(
                    f"{where}: {brief(unit)} is in the clusters {brief(of_units[unit])} and {brief(cluster)};"
                    " expected one"
                )
            of_units[unit] = cluster
    return of_units, False
