"""``genderbias check``: files read as a run would read them, before one depends on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_genderbias.command_line.arguments import WRONG, Typed
from pytest_genderbias.datasets.folder import DataFolder, MissingDataError, bbq_categories, known_data_sets
from pytest_genderbias.errors import BiasError, DataFileError, SettingError, UnknownNameError
from pytest_genderbias.escaping import print_lines, printable
from pytest_genderbias.gates.book import read_book, read_items
from pytest_genderbias.gates.gate_file import read_gate_file, read_gates
from pytest_genderbias.measurement.ability_setting import read_ability
from pytest_genderbias.measurement.fit import cases_of
from pytest_genderbias.models.loading import inspect, load
from pytest_genderbias.models.source import LoadSettings
from pytest_genderbias.models.spec import ADAPTER, parse_spec, path_spec
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.flags import ENDINGS
from pytest_genderbias.reports.run_report import read_report
from pytest_genderbias.suites.ask import ENGLISH, Asking, read_asking
from pytest_genderbias.suites.controls import control_kinds, packaged_controls, read_controls
from pytest_genderbias.suites.suite import Suite, load_suite, suite_names
from pytest_genderbias.text import packaged
from pytest_genderbias.text.columns import columns, paragraph
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.plain_files import parse_json, read_whole
from pytest_genderbias.text.printable import close_names, counted, expected_instead
from pytest_genderbias.text.reply_reading import refusals
from pytest_genderbias.text.schema import LocatedMap
from pytest_genderbias.text.wordlist import load_wordlist

_MANIFEST = "manifest.json"  #: of an audit pack
_LARGEST = 2**28  #: bytes of a JSON file
_WIDTH = 100  #: columns of the table of data sets
_HISTORIES = (".db", ".sqlite", ".sqlite3")


def carry_out(typed: Typed) -> int:
    """Check each path, and print what it is, or what is wrong; and what is packaged in a language, if one is named.

    Raises:
        SettingError: neither is there.
    """
    status, language = 0, typed.values["language"]
    if not (typed.values["paths"] or language):
        raise SettingError("nothing to check: name files, or a language (--language=de)")
    if language:
        parts = list(language_parts(language))
        status = WRONG if any(lacks for _, lacks in parts) else 0
        guide = ["  how to write what is missing: docs/guides/your-language.md"] * status
        lines = [f"language {language}:", *(line for line, _ in parts), *guide]
        print_lines("\n".join(map(printable, lines)))
    for text in typed.values["paths"]:
        try:
            lines = list(described(Path(text)))
        except BiasError as error:
            lines, status = [f"wrong: {error}"], WRONG
        except OSError as error:
            lines, status = [f"wrong: {error.strerror or error}"], WRONG
        print_lines("\n".join(map(printable, (f"{text}: {lines[0]}", *lines[1:]))))
    return status


def language_parts(language: str) -> Iterator[tuple[str, bool]]:
    """Yield a line for each part that a language needs, and whether it lacks something, from the packaged files.

    Raises:
        DataFileError: a packaged file is wrong.
    """
    try:
        openings = [counted(len(refusals(language)), "openings")]
    except UnknownNameError:
        openings = []
    yield _any("refusals", openings, f"in your suite file, ask: {{refusals: [...]}}, in {language}")
    suites = _in_language("fixtures", language)
    asks = [read_asking(data) for data in suites.values()] or [Asking(language)]
    unsaid = [key for key in ENGLISH if all(ask.missing([key]) for ask in asks)]
    said = [key for key in ENGLISH if key not in unsaid]
    yield _part("ask", said, unsaid, "under 'ask' in your suite file, those that its family uses")
    yield _any("suites", list(suites), f"a suite file with language: {language}")
    kinds = control_kinds()
    lacking = [kind for kind in kinds if packaged_controls(kind, language) is None]
    there = [kind for kind in kinds if kind not in lacking]
    yield _part("control items", there, lacking, "a file of each kind, named by 'ability' of a gate")
    lists = list(_in_language("wordlists", language))
    names = [name for name in lists if "names" in name.split("-")]
    yield _any("names", names, f"a word list with language: {language}, each name with its group")
    others = [name for name in lists if name not in names and not name.startswith("refusals-")]
    yield _any("other word lists", others, f"a word list with language: {language}")


def _any(name: str, there: Sequence[str], write: str) -> tuple[str, bool]:
    return _part(name, there, [] if there else ["all"], write)


def _part(name: str, there: Sequence[str], missing: Sequence[str], write: str) -> tuple[str, bool]:
    """Return what is packaged of a part, what is missing, and how to write that; and whether something is missing."""
    line = f"  {name}: {', '.join(there) or 'none'}"
    return line + (f"; missing: {', '.join(missing)} ({write})" if missing else ""), bool(missing)


def _in_language(folder: str, language: str) -> dict[str, LocatedMap]:
    """Return the packaged files of a folder in a language, by name."""
    read = {name: read_yaml(packaged.folder(folder) / f"{name}.yaml") for name in packaged.names(folder)}
    return {name: data for name, data in read.items() if data.get("language") == language}


def described(path: Path) -> Iterator[str]:
    """Yield what a file or folder is, in lines, after it was read whole.

    Raises:
        BiasError: it is wrong, or nothing that a run reads.
        OSError: it cannot be read.
    """
    if not path.exists():
        if str(path) not in suite_names():
            near = close_names(str(path), suite_names())
            hint = f"; {expected_instead(str(path), near)}" if near else ""
            raise SettingError(f"no such file or folder, and no packaged suite has this name{hint}")
        yield from _suite(load_suite(str(path)))
    elif path.is_dir():
        yield from _folder(path)
    elif path.suffix in (".yaml", ".yml"):
        yield from _yaml(path)
    elif path.suffix == ".json":
        yield from _json(path)
    elif path.suffix in _HISTORIES:
        yield f"a history with {counted(len(door('contents of a history')(path)), 'statistics')}"
    else:
        yield _model(path)


def _yaml(path: Path) -> Iterator[str]:
    data = read_yaml(path)
    if "gates" in data or "mitigate" in data:
        yield from _gates(path)
    elif "suite" in data:
        yield from _suite(load_suite(path))
    elif "list" in data:
        entries = load_wordlist(str(path.absolute())).entries
        attributes = sorted({name for entry in entries for name in entry.attributes} - {"list"})
        yield f"a word list: {counted(len(entries), 'words')}" + (
            f" with {', '.join(attributes)}" if attributes else ""
        )
    elif "controls" in data:
        controls = read_controls(path)
        yield (
            f"control items of ability ({controls.name}, language {controls.language}):"
            f" {counted(len(controls.content), 'items')}"
        )
    else:
        raise DataFileError(
            f"{path}:1: expected a suite (with the key 'suite'), a word list ('list'), control items ('controls') or a"
            f" gate file ('gates', 'mitigate'); got the keys {', '.join(map(str, data)) or 'none'}"
        )


def _suite(suite: Suite) -> Iterator[str]:
    cases = cases_of(suite)
    many = "cases from data, or from the model" if cases is None else counted(cases.n_cases, "cases")
    yield f"a suite of the family {suite.family.name}: {many}, for {suite.family.needs}"


def _gates(path: Path) -> Iterator[str]:
    data = read_gate_file(path)
    gates = read_gates(data) if "gates" in data else []
    reductions = door("reductions of a file")(data) if "mitigate" in data else []
    if not path.name.endswith(ENDINGS):
        raise SettingError(f"pytest collects gate files by their name, and this is none: call it {path.stem}.bias.yaml")
    for gate in gates:
        setting = read_ability(gate.settings.get("ability"))
        if not isinstance(setting, str):  # the reason why none are asked
            for controls in setting:
                read_controls(controls)
    both = [counted(len(gates), "gates")] if gates else []
    both += [counted(len(reductions), "reductions")] if reductions else []
    yield f"a gate file with {' and '.join(both)}"
    yield from (f"  line {gate.written.at.line}: {gate.name}" for gate in gates)
    yield from (f"  line {reduction.written.at.line}: {reduction.name}" for reduction in reductions)


def _json(path: Path) -> Iterator[str]:
    content = parse_json(read_whole(path, _LARGEST), str(path))
    if isinstance(content, dict) and "measurements" in content:
        report = read_report(path)
        yield (
            f"the report of a run of {report.run.date}: {counted(len(report.measurements), 'measurements')}, "
            f"{counted(len(report.judgements), 'judgements')}"
        )
    else:
        yield _book(path)


def _book(path: Path) -> str:
    entries = read_book(path)
    for name, entry in entries.items():
        read_items(path, name, entry)
    dates = sorted(entry.date[:10] for entry in entries.values() if entry.date)
    since = f", accepted from {dates[0]} to {dates[-1]}" if dates else ""
    return f"a baseline with {counted(len(entries), 'entries')}, each with its items{since}"


def _folder(path: Path) -> Iterator[str]:
    """Yield what a folder is: a model, an audit pack, data sets, or baselines."""
    if any((path / name).is_file() for name in ("config.json", ADAPTER)):
        yield _model(path)
        return
    if (path / _MANIFEST).is_file():
        yield _pack(path)
        return
    if packs := sorted(path.glob(f"*/{_MANIFEST}")):
        yield f"a folder with {counted(len(packs), 'audit packs')}"
        for manifest in packs:
            yield f"  {manifest.parent.name}: {_pack(manifest.parent)}"
        return
    if any(_splits(DataFolder(path), name) for name in known_data_sets()):
        yield from _data_sets(path)
        return
    if books := sorted(path.glob("*.json")) or sorted(path.glob("*/*.json")):
        yield f"a folder of baselines with {counted(len(books), 'files')}"
        for book in books:
            yield f"  {book.relative_to(path)}: {_book(book)}"
        return
    raise SettingError(
        "expected a folder of data sets (docs/reference/data.md has their names), of baselines (NAME/MODULE.json) or"
        f" audit packs (manifest.json), or a checkpoint (config.json) or adapter ({ADAPTER}); it is none of them"
    )


def _pack(path: Path) -> str:
    """Return what an audit pack is, after its files were held against its manifest."""
    if differences := door("differences of an audit pack")(path):
        raise DataFileError(f"{path} differs from its manifest: {'; '.join(differences)}")
    return "an audit pack, as its manifest lists it"


def _model(path: Path) -> str:
    """Return what a model is: of a file all of it is read, of a checkpoint the config."""
    spec = parse_spec(path_spec(path))
    source = inspect(spec, LoadSettings())
    if source.config is None:
        load(source, LoadSettings())
    return f"a model, {source.role.text}"


# Data sets, each of which is read as the suite that needs it would read it.


def _data_sets(folder: Path) -> Iterator[str]:
    """Yield which data sets a folder holds, with how many cases a suite makes of them, and which it lacks.

    Raises:
        DataFileError: a data set is malformed; the message names each one that is.
    """
    data = DataFolder(folder)
    there = {name: splits for name in known_data_sets() if (splits := _splits(data, name))}
    troubles: list[str] = []
    rows = [(name, ", ".join(splits), _read(folder, name, splits, troubles)) for name, splits in there.items()]
    if troubles:
        raise DataFileError("; ".join(troubles))
    yield f"a folder with {len(there)} of {len(known_data_sets())} data sets"
    yield columns([("data set", "splits", "read by"), *rows], _WIDTH)
    if missing := [name for name in known_data_sets() if name not in there]:
        yield paragraph(
            f"not there: {', '.join(missing)} (docs/reference/data.md says where to get them)", _WIDTH, "    ", "  "
        )


def _splits(data: DataFolder, name: str) -> list[str]:
    """Return the splits of a data set that are there."""
    there = []
    for split in known_data_sets()[name].splits:
        try:
            data.locate(name, split)
            there.append(split)
        except MissingDataError:
            continue
    return there


def _read(folder: Path, name: str, splits: Sequence[str], troubles: list[str]) -> str:
    """Return what a suite makes of a data set; what is wrong with it is added to the troubles."""
    read_by = known_data_sets()[name].read_by
    suite, options, each = str(read_by["suite"]), read_by.get("options", {}), read_by.get("each")
    choices = [{each: split} for split in splits if each and split in bbq_categories()]
    try:
        counts = [cases_of(load_suite(suite), folder, {**options, **choice}) for choice in choices or [{}]]
    except BiasError as error:
        troubles.append(str(error))
        return ""
    known = [cases.n_cases for cases in counts if cases is not None]
    return f"{suite}: {sum(known):,} cases" if known else suite
