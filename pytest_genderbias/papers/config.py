"""The configs of the papers: tables with the published figures and claims, and the runs that they are compared with.

A table refers to figures of runs by a locator, ``RUN SIDE/SUITE/STATISTIC``: ``bios-scrubbing after/bios/tpr_gap_sum``.
The performance of a recipe is located as a suite of the recipe's name:
``bios-scrubbing before/classification/accuracy``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.located_yaml import plain, read_yaml
from pytest_genderbias.text.printable import refuse_unknown_name
from pytest_genderbias.text.schema import LocatedList, LocatedMap, YamlValue, read_value, refuse_unknown, take

CONFIGS = Path(__file__).parent / "configs"
SMALL, PAPER = "small", "paper"
SCALES = (SMALL, PAPER)
RUNS = "runs.yaml"
ABOVE, BELOW, NEAR = "above", "below", "near"  #: relations of a claim
#: A figure as the paper prints it, ``0.37 ± 0.03``, or ``None`` where it prints none; and the locator of ours, or
#: ``None`` where nothing here corresponds to it.
Published: TypeAlias = tuple[str | None, str | None]


@dataclass(frozen=True)
class RunConfig:
    """One run: what is trained and measured, at each scale.

    Attributes:
        name: unique in its paper.
        title: what it is, in a few words.
        kind: who carries it out, a name of :data:`~pytest_genderbias.papers.kinds.KINDS`.
        scales: settings by scale, ``small`` or ``paper``; a scale that is missing cannot be run. Texts may hold
            ``{data}`` and other names in braces, which :func:`~pytest_genderbias.papers.places.placed` replaces by the
            user's paths.
        minutes: of one core that the small scale takes, as measured or expected; ``None`` if it is not stated.
        rows: number of rows that the small scale makes: models with all their seeds, each of another method or task.
        gpu_hours: that the paper's scale is estimated to take on an A100.
        memory: GB that its largest training needs on a device; ``None`` where nothing is trained.
        fetch: what has to be fetched for the paper's scale.
        stand_in: settings that replace those of the paper's scale in a check on a small machine.
    """

    name: str
    title: str
    kind: str
    scales: Mapping[str, Mapping[str, Any]]
    minutes: float | None = None
    rows: int = 1
    gpu_hours: float | None = None
    memory: float | None = None
    fetch: Sequence[str] = ()
    stand_in: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A claim of a table, as a relation of figures that runs can confirm or refute.

    Attributes:
        text: the claim.
        figure: locator of the figure.
        relation: ``above``, ``below`` or ``near``.
        other: locator of what it is compared with, or a number.
        within: for ``near``, the largest difference that counts as near; for ``above`` and ``below``, how far on the
            other side the figure may be ("keeps the accuracy").
        absolute: compare absolute values, as for "reduced", "lower" and "more biased" of a figure with a sign.
        because: why it differs here, if it does.
        section: of the paper, by its number or heading, that makes the claim.
        published: difference of the two figures in the paper, of absolute values if ``absolute``; ``None`` where it
            does not print both, and they are compared with another number than 0.
    """

    text: str
    figure: str
    relation: str
    other: str | float
    within: float = 0.0
    because: str = ""
    absolute: bool = False
    section: str = ""
    published: float | None = None

    @property
    def relation_of_figures(self) -> tuple[object, ...]:
        """The comparison without the words: equal in the tables that make the same claim."""
        return self.figure, self.relation, self.other, self.within, self.absolute

    @property
    def locators(self) -> list[str]:
        """The locators of the figure, and of what it is compared with unless that is a number."""
        return [self.figure, *([self.other] if isinstance(self.other, str) else [])]

    @property
    def runs(self) -> list[str]:
        """Names of the runs that the claim refers to, each once."""
        return list(dict.fromkeys(map(run_of, self.locators)))


@dataclass(frozen=True)
class Table:
    """A table or figure of a paper.

    Attributes:
        name: ``table-2`` or ``figure-1``.
        title: what it shows.
        columns: as the paper heads them.
        rows: published figures by row and column; empty if the text at hand has none.
        claims: what the table says.
        differs: what is done otherwise here, beside what the scales of the runs show.
        needs: what has to be at hand to show it, where no run of the small scale can.
    """

    paper: str
    name: str
    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Published]]
    claims: tuple[Claim, ...]
    differs: tuple[str, ...] = ()
    needs: str = ""

    @property
    def runs(self) -> list[str]:
        """Names of the runs that the table refers to, each once."""
        names = [run_of(ours) for cells in self.rows.values() for _, ours in cells.values() if ours]
        return list(dict.fromkeys([*names, *(name for claim in self.claims for name in claim.runs)]))


@dataclass(frozen=True)
class PaperConfig:
    """A paper: its title, tables in the paper's order, and runs by name."""

    name: str
    title: str
    tables: Mapping[str, Table]
    runs: Mapping[str, RunConfig]


def run_of(locator: str) -> str:
    """Return the run that a locator names.

    >>> run_of("bios-scrubbing after/bios/tpr_gap_sum")
    'bios-scrubbing'
    """
    return locator.partition(" ")[0]


def paper_names() -> list[str]:
    """Return the short names of the papers, in the order of publication."""
    return sorted((path.name for path in CONFIGS.iterdir() if path.is_dir()), key=lambda name: (name[-4:], name))


@cache
def load_paper(name: str) -> PaperConfig:
    """Return a paper by its short name.

    Raises:
        UnknownNameError: there is no such paper.
        DataFileError: a config is wrong; the message names file and line.
    """
    refuse_unknown_name(name, paper_names(), f"no paper is called {name!r}")
    folder = CONFIGS / name
    listing = read_yaml(folder / RUNS)
    refuse_unknown(listing, ("title", "order", "runs"), "the runs of a paper")
    runs = dict(_runs(take(listing, "runs", LocatedMap, "the runs of a paper")))
    order = plain(take(listing, "order", LocatedList, "the runs of a paper"))
    files = {path.stem for path in folder.glob("*.yaml")} - {Path(RUNS).stem}
    if set(order) != files:
        raise DataFileError(
            f"{folder / RUNS}:{listing.lines['order']}: 'order' should name {', '.join(sorted(files))}; got"
            f" {', '.join(order)}"
        )
    tables = {table: _read_table(folder / f"{table}.yaml", name) for table in order}
    for table in tables.values():
        if unknown := [run for run in table.runs if run not in runs]:
            raise DataFileError(f"{folder / table.name}.yaml:1: no run of {RUNS} is called {unknown[0]!r}")
    title = take(listing, "title", str, "the runs of a paper")
    return PaperConfig(name, title, dict(_with_published(tables)), runs)


def _with_published(tables: Mapping[str, Table]) -> Iterator[tuple[str, Table]]:
    """Yield the tables of a paper with the published differences of their claims; of a figure that several tables
    print, the first counts.
    """
    known: dict[str | float, float] = {0.0: 0.0}
    rows = (cells for table in tables.values() for cells in table.rows.values())
    for text, ours in (figure for cells in rows for figure in cells.values()):
        if ours and text is not None:
            known.setdefault(ours, float(text.partition("±")[0]))
    for name, table in tables.items():
        claims = (replace(claim, published=_published(claim, known)) for claim in table.claims)
        yield name, replace(table, claims=tuple(claims))


def _published(claim: Claim, known: Mapping[str | float, float]) -> float | None:
    """Return the difference of the published figures of a claim.

    >>> _published(Claim("", "a", BELOW, "b", absolute=True), {"a": -0.25, "b": 0.75})
    -0.5
    >>> _published(Claim("", "a", ABOVE, 0.9), {"a": 0.75}) is None
    True
    """
    if claim.figure not in known or claim.other not in known:
        return None
    figure, other = known[claim.figure], known[claim.other]
    return abs(figure) - abs(other) if claim.absolute else figure - other


def load_table(paper: str, name: str) -> Table:
    """Return a table of a paper.

    Raises:
        UnknownNameError: the paper has no such table, or there is no such paper.
    """
    tables = load_paper(paper).tables
    refuse_unknown_name(name, tables, f"{paper} has no {name!r}")
    return tables[name]


_OF_A_RUN = ("like", "title", "kind", *SCALES, "minutes", "rows", "gpu_hours", "memory", "fetch", "stand_in")
_OWN = ("minutes", "rows")  #: what a run does not take from the one that it is like


def _runs(listing: LocatedMap) -> Iterator[tuple[str, RunConfig]]:
    """Yield the runs of a paper. A run that is ``like`` another one states only what differs."""
    read: dict[str, dict[str, Any]] = {}
    for name, entry in listing.items():
        at = f"{listing.file}:{listing.lines[name]}"
        if not isinstance(entry, LocatedMap):
            raise DataFileError(f"{at}: a run should be a mapping, got {entry!r}")
        refuse_unknown(entry, _OF_A_RUN, f"run {name}")
        own = plain(entry)
        like = own.pop("like", None)
        if like is not None and like not in read:
            raise DataFileError(f"{at}: {name} is like {like!r}, which no run above is called")
        inherited = {key: read[like][key] for key in read[like] if key not in _OWN} if like else {}
        settings = overlaid(inherited, own) if like else own
        read[name] = settings
        stated = {key: value for key, value in settings.items() if value is not None}
        scales = {scale: stated.pop(scale) for scale in SCALES if scale in stated}
        yield (
            name,
            read_value(RunConfig, {"name": name, "title": name, "kind": "mitigation", **stated, "scales": scales}, at),
        )


def overlaid(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with changes: mappings are merged, everything else is replaced, and ``None`` removes.

    >>> overlaid({"recipe": {"name": "nli", "epochs": 3}, "seeds": 3}, {"recipe": {"epochs": 1}, "seeds": None})
    {'recipe': {'name': 'nli', 'epochs': 1}}
    """
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(old, Mapping):
            merged[key] = overlaid(old, value)
        else:
            merged[key] = value
    return merged


_OF_A_TABLE = ("title", "columns", "rows", "section", "claims", "differs", "needs")


def _read_table(path: Path, paper: str) -> Table:
    content = read_yaml(path)
    refuse_unknown(content, _OF_A_TABLE, "a table")
    columns = take(content, "columns", LocatedMap, "a table", {})
    rows = {
        row: dict(_row(path, row, entry, columns))
        for row, entry in take(content, "rows", LocatedMap, "a table", {}).items()
    }
    section = take(content, "section", str, "a table", "")
    claims = [_claim(entry, section) for entry in take(content, "claims", LocatedList, "a table", ())]
    return Table(
        paper,
        path.stem,
        take(content, "title", str, "a table"),
        tuple(columns),
        rows,
        tuple(claims),
        tuple(plain(take(content, "differs", LocatedList, "a table", ()))),
        take(content, "needs", str, "a table", ""),
    )


def _row(path: Path, row: str, entry: YamlValue, columns: LocatedMap) -> Iterator[tuple[str, Published]]:
    """Yield the columns of a row, in their order, each with the paper's figure and the locator of ours."""
    if not isinstance(entry, LocatedMap):
        raise DataFileError(f"{path}:1: row {row!r} should be a mapping with 'paper' and 'ours', got {entry!r}")
    refuse_unknown(entry, ("paper", "ours"), f"row {row}")
    published = plain(take(entry, "paper", LocatedList, f"row {row}", [None] * len(columns)))
    if len(published) != len(columns):
        raise DataFileError(f"{path}:{entry.line}: row {row!r} has {len(published)} figures for {len(columns)} columns")
    ours = plain(entry.get("ours"))
    for (column, start), value in zip(columns.items(), published, strict=True):
        locator = ours.get(column) if isinstance(ours, dict) else f"{start}/{ours}" if start and ours else None
        yield column, (_printed(path, row, value), locator)


def _printed(path: Path, row: str, value: object) -> str | None:
    """Return a published figure as text.

    >>> _printed(Path("table-4.yaml"), "Coref", "0.37 ± 0.03"), _printed(Path("table-4.yaml"), "DisCo", 1)
    ('0.37 ± 0.03', '1')
    """
    if value is None:
        return None
    number, _, spread = str(value).partition("±")
    try:
        float(number), float(spread or 0)
    except ValueError:
        raise DataFileError(f"{path}:1: row {row!r} has {value!r}; expected a number, as 0.37 or 0.37 ± 0.03") from None
    return str(value)


def _claim(entry: YamlValue, section: str) -> Claim:
    refuse_unknown(
        entry, ("claim", "figure", ABOVE, BELOW, NEAR, "within", "because", "absolute", "section"), "a claim"
    )
    relations = [relation for relation in (ABOVE, BELOW, NEAR) if relation in entry]
    if len(relations) != 1 or (NEAR in relations and "within" not in entry):
        raise entry.error_at("", "a claim needs one of above, below, or near with within")
    other = take(entry, relations[0], str | float, "a claim")
    return Claim(
        take(entry, "claim", str, "a claim"),
        take(entry, "figure", str, "a claim"),
        relations[0],
        other,
        take(entry, "within", float, "a claim", 0.0),
        take(entry, "because", str, "a claim", ""),
        take(entry, "absolute", bool, "a claim", False),
        take(entry, "section", str, "a claim", section),
    )
