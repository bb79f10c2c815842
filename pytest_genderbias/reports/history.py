"""A history (``--to history.db``): an SQLite file, or the same tables on a PostgreSQL server, to which every run is
added, with its measurements and verdicts.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from pytest_genderbias.errors import DataFileError, SettingError, WriteError, installing
from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.agreement import MUST_AGREE, comparable_settings
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import CAUGHT, FAILED, PASSED, XFAIL, with_note
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import as_plain
from pytest_genderbias.reports.fields import FIGURE_COLUMNS, GATE_COLUMNS, figures_of
from pytest_genderbias.reports.run_report import RunReport, Trace, TracePoint
from pytest_genderbias.text.printable import brief, cut, json_text

#: The path of a file, or the URL of a database (``postgresql://HOST/DATABASE``).
Where: TypeAlias = Path | str
Store: TypeAlias = "sqlite3.Connection | HistoryServer"

#: "bias", in the header of the file: it tells a history from another program's SQLite file. On a server it is the
#: number of the lock that writers hold.
APPLICATION = 0x62696173
MOST_RUNS = 100  #: that a trace goes back
_SHOWN_RUNS = 30  #: that a trace in a report goes back
_PATIENCE = 60  #: seconds for other processes that write
_LONGEST = 4_000  #: characters of a text

#: Scripts that make the tables, one per version: a file of version n lacks those from n on. An entry is never changed,
#: only added.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, date TEXT NOT NULL, utc TEXT NOT NULL, version TEXT NOT NULL,
        commit_hash TEXT NOT NULL, modified INTEGER NOT NULL, exit_status INTEGER NOT NULL, seconds REAL, arguments TEXT NOT NULL,
        models TEXT NOT NULL, settings TEXT NOT NULL, versions TEXT NOT NULL, baselines TEXT NOT NULL, failures TEXT NOT NULL
    );
    CREATE TABLE measurements (
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs (id), model TEXT NOT NULL, suite TEXT NOT NULL, options TEXT NOT NULL,
        comparable TEXT NOT NULL, fingerprint TEXT NOT NULL, n INTEGER NOT NULL, n_total INTEGER NOT NULL, signature TEXT NOT NULL
    );
    CREATE TABLE figures (
        id INTEGER PRIMARY KEY, measurement INTEGER NOT NULL REFERENCES measurements (id), statistic TEXT NOT NULL, position INTEGER NOT NULL,
        value REAL, low REAL, high REAL, reason TEXT NOT NULL, direction TEXT NOT NULL, neutral REAL NOT NULL, meaning TEXT NOT NULL
    );
    CREATE TABLE judgements (
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs (id), figure INTEGER REFERENCES figures (id), test TEXT NOT NULL,
        gate TEXT NOT NULL, model TEXT NOT NULL, suite TEXT NOT NULL, statistic TEXT NOT NULL, value REAL, low REAL, high REAL,
        bound TEXT NOT NULL, verdict TEXT NOT NULL, outcome TEXT NOT NULL, difference REAL, p REAL, least REAL, most REAL, baseline REAL,
        tolerance REAL, anchor REAL, accepted_on TEXT NOT NULL, reason TEXT NOT NULL
    );
    CREATE INDEX figures_of_measurement ON figures (measurement);
    CREATE INDEX judgements_of_figure ON judgements (figure);
    CREATE INDEX measurements_of_run ON measurements (run);
    """,  # noqa: E501 - files hold these statements as they are here
    "ALTER TABLE measurements ADD COLUMN ability TEXT NOT NULL DEFAULT ''",
    """
    ALTER TABLE judgements ADD COLUMN because TEXT NOT NULL DEFAULT '';
    ALTER TABLE judgements ADD COLUMN owner TEXT NOT NULL DEFAULT '';
    ALTER TABLE judgements ADD COLUMN harm TEXT NOT NULL DEFAULT '';
    ALTER TABLE judgements ADD COLUMN decided TEXT NOT NULL DEFAULT ''
    """,
)
_JSON = frozenset(("arguments", "models", "settings", "versions", "failures", "signature"))  #: columns that are not cut
#: Columns that are called as in :mod:`~pytest_genderbias.reports.fields`.
_FIGURE = ("statistic", "value", "low", "high", "reason", "direction", "neutral", "meaning")
_JUDGEMENT = (
    "test", "gate", "model", "suite", "statistic", "value", "low", "high", "bound", "outcome", "difference", "p",
    "least", "most", "baseline", "anchor", "accepted_on", "reason",
)  # fmt: skip
_WORST_FIRST = (FAILED, XFAIL, CAUGHT, PASSED)
_TRACES = """
    SELECT m.model, m.suite, m.options, f.statistic, m.run, m.id, f.position, f.direction, f.neutral, f.meaning,
        r.date, r.commit_hash AS "commit", m.fingerprint, m.comparable, f.value, f.low, f.high, m.n,
        j.verdict, j.outcome, j.least, j.most, j.baseline, j.tolerance AS margin, j.anchor
    FROM (SELECT * FROM runs WHERE id IN (SELECT run FROM measurements) ORDER BY utc DESC, id DESC LIMIT ?) r
    JOIN measurements m ON m.run = r.id JOIN figures f ON f.measurement = m.id LEFT JOIN judgements j ON j.figure = f.id
    ORDER BY m.model, m.suite, m.options, f.statistic, r.utc, r.id, m.id, j.id
"""
_KEY = itemgetter("model", "suite", "options", "statistic")  #: what is the same for a whole trace


def write_history(report: RunReport, path: Where) -> None:
    """Add a run to a history, in one transaction; the file is made if it is not there. A run that it has already is not
    added again.

    Runs that are written at the same time wait for each other. A history of an earlier version is brought up to date
    first.

    Raises:
        OSError: the file cannot be written, or other processes have written it for a minute.
        DataFileError: the file is no history, or a later version of pytest-genderbias wrote it.
    """
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _opened(path) as store, _transaction(store):
        _bring_up_to_date(store, path)
        _add(store, report)


def read_history(path: Where, runs: int = MOST_RUNS) -> tuple[Trace, ...]:
    """Return every statistic of a history over its latest runs, by model and suite, main statistics first.

    Args:
        path: of the history; it is not changed.
        runs: how many runs to go back.

    Raises:
        DataFileError: there is no such file, it is no history, or a later version of pytest-genderbias wrote it.
    """
    with _reading(path) as store:
        return tuple(_traces(store, runs, path))


def with_history(report: RunReport, path: Where) -> RunReport:
    """Return a report with the traces of the main and the gated statistics that it measured, over the latest 30 runs.

    Args:
        report: of a run that the history has.
        path: of the history; it is not changed.

    Raises:
        DataFileError: as :func:`read_history`.
    """
    own = {
        tuple(map(_text, (one.model, one.suite, _options(one), name)))
        for one in report.measurements
        for name in one.values
    }
    traces = read_history(path, _SHOWN_RUNS)
    return replace(report, history=tuple(one for one in traces if one.key in own and (one.main or one.is_gated)))


# The file.


@contextmanager
def _opened(path: Where, mode: str = "rwc") -> Iterator[Store]:
    """Open a file or a server, and turn its errors into those of this package."""
    if isinstance(path, str):
        with opened_server(path, mode == "rwc") as server:
            yield server
        return
    store: sqlite3.Connection | None = None
    try:
        store = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", _PATIENCE, isolation_level=None, uri=True)
        store.execute("PRAGMA trusted_schema = OFF")
        yield store
    except sqlite3.OperationalError as error:  # locked, read-only, no room, a folder
        if mode != "rwc":
            raise _unreadable(path, error) from None
        raise WriteError(None, str(error), str(path)) from None
    except sqlite3.DatabaseError as error:
        raise _no_history(path, f"something else ({error})") from None
    except UnicodeDecodeError as error:  # in a damaged schema
        raise _unreadable(path, error) from None
    finally:
        if store is not None:
            store.close()


@contextmanager
def _reading(path: Where) -> Iterator[Store]:
    """Open a history without changing it; of a file of an earlier version, a copy in memory that is up to date.

    Where it can be written, SQLite undoes what a killed process left half written.
    """
    with _opened(path, "rw" if os.access(path, os.W_OK) else "ro") as store:
        version = _check(store, path)
        if version == len(MIGRATIONS):
            yield store
            return
        if isinstance(store, HistoryServer):
            state = "this version of pytest-genderbias" if version else "any"
            raise DataFileError(f"{path}: no history of {state}; genderbias report FILE --to URL writes one")
        with _in_memory(path) as copy:
            store.backup(copy)
            _bring_up_to_date(copy, path)
            yield copy


@contextmanager
def _in_memory(path: Where) -> Iterator[sqlite3.Connection]:
    store = sqlite3.connect(":memory:", isolation_level=None)
    try:
        yield store
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None
    finally:
        store.close()


@contextmanager
def _transaction(store: Store) -> Iterator[None]:
    store.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        store.execute("ROLLBACK")
        raise
    store.execute("COMMIT")


def _check(store: Store, path: Where) -> int:
    """Return the version of a file; 0 for an empty one.

    Raises:
        DataFileError: it is of another program, or of a later version, or its schema is not the one that the migrations
            make.
    """
    if isinstance(store, HistoryServer):
        _refuse_later(version := store.version(), path)
        return version
    application, version = (
        int(store.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("application_id", "user_version")
    )
    if application != APPLICATION and (version or store.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]):
        raise _no_history(path, "another program's SQLite file")
    _refuse_later(version, path)
    if version < 0:
        raise _no_history(path, f"a file of version {version}")
    _refuse_other_schema(store, version, path)
    return version


def _refuse_later(version: int, path: Where) -> None:
    if version > len(MIGRATIONS):
        raise DataFileError(
            f"{path}: a later version of pytest-genderbias wrote this history (schema {version}; this one reads up to"
            f" {len(MIGRATIONS)}); install that version, or name another file"
        )


def _refuse_other_schema(store: sqlite3.Connection, version: int, path: Where) -> None:
    """Refuse a file with views, triggers or tables of its own: they would be carried out with each of our statements.

    Raises:
        DataFileError: it has some, or lacks one of ours.
    """
    with _in_memory(path) as made:
        for script in MIGRATIONS[:version]:
            made.executescript(script)
        expected = _schema(made)
    present = _schema(store)
    for kind, name in {**present, **expected}:
        if (kind, name) not in expected:
            raise _no_history(path, f"a file with {kind} {brief(name)}, which no run makes")
        if present.get((kind, name)) != expected[kind, name]:
            state = "changed" if (kind, name) in present else "missing"
            raise _no_history(path, f"a file in which the {kind} {brief(name)} is {state}")


def _schema(store: sqlite3.Connection) -> dict[tuple[str, str], tuple[str, str | None]]:
    """Return table and definition of everything that a file defines, by kind and name, but for what ``ANALYZE``
    adds.
    """
    rows = store.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return {(kind, name): (table, sql) for kind, name, table, sql in rows if not str(name).startswith("sqlite_stat")}


def _unreadable(path: Where, error: Exception) -> DataFileError:
    is_there = os.access(path, os.F_OK)
    why = "there is no such file" if not is_there else "it is a folder" if Path(path).is_dir() else error
    return DataFileError(f"{path}: the history cannot be read: {why}; name another file")


def _no_history(path: Where, what: str) -> DataFileError:
    return DataFileError(f"{path}: expected a history that genderbias report wrote, got {what}; name another file")


def _bring_up_to_date(store: Store, path: Where) -> None:
    for version in range(_check(store, path), len(MIGRATIONS)):
        if isinstance(store, HistoryServer):
            store.set_version(version + 1)
        for statement in MIGRATIONS[version].split(";"):  # executescript would end the transaction
            store.execute(statement)
        if isinstance(store, sqlite3.Connection):
            store.execute(f"PRAGMA user_version = {version + 1}")
            store.execute(f"PRAGMA application_id = {APPLICATION}")


# Writing.


def _add(store: Store, report: RunReport) -> None:
    run = _add_run(store, report)
    if run is None:
        return
    figures = [(measurement, _add_measurement(store, run, measurement)) for measurement in report.measurements]
    for settled in report.judgements:
        _add_judgement(store, run, settled, figures)


def _add_run(store: Store, report: RunReport) -> int | None:
    """Add a run and return its id; ``None`` if it is there already."""
    run = report.run
    digest, moment = _digest(report), run.moment_in_utc
    if store.execute("SELECT 1 FROM runs WHERE digest = ?", (digest,)).fetchone():
        return None
    return _insert(
        store,
        "runs",
        digest=digest,
        date=run.date,
        utc=moment.isoformat(timespec="seconds") if moment else run.date,  # by which runs are sorted
        version=run.version,
        commit_hash=run.commit,
        modified=int(run.modified),
        exit_status=run.exit_status,
        seconds=run.seconds,
        arguments=_json(run.arguments),
        models=_json(run.models),
        settings=_json(run.settings),
        versions=_json(run.versions),
        baselines=run.baselines,
        failures=_json(report.failures),
    )


def _digest(report: RunReport) -> str:
    """Return what tells a run from all others."""
    return hashlib.sha256(json_text(replace(report, history=()).to_dict()).encode()).hexdigest()


def _add_measurement(store: Store, run: int, measurement: Measurement) -> dict[str, int]:
    """Add a measurement and return the ids of its statistics."""
    row = _insert(
        store,
        "measurements",
        run=run,
        model=measurement.model,
        suite=measurement.suite,
        options=_options(measurement),
        comparable=_comparable(measurement),
        fingerprint=str(measurement.signature["model"].get("fingerprint") or ""),
        n=measurement.n,
        n_total=measurement.n_total,
        signature=_json(measurement.signature),
        ability=measurement.ability,
    )
    figures = {}
    for position, figure in enumerate(figures_of([measurement])):
        cells = {name: FIGURE_COLUMNS[name].value(figure) for name in _FIGURE}
        figures[figure.name] = _insert(store, "figures", measurement=row, position=position, **cells)
    return figures


def _add_judgement(
    store: Store, run: int, settled: Judgement, places: Sequence[tuple[Measurement, Mapping[str, int]]]
) -> None:
    cells = {name: GATE_COLUMNS[name].value(settled) for name in _JUDGEMENT}
    cells |= {
        "verdict": with_note(settled.code),
        "tolerance": settled.of_baseline.margin,
        "accepted_on": cells["accepted_on"] or "",
        "reason": cells["reason"].partition("\n")[0],
    }
    _insert(store, "judgements", run=run, figure=_judged_figure(settled, places), **cells, **settled.evidence)


def _judged_figure(judgement: Judgement, figures: Sequence[tuple[Measurement, Mapping[str, int]]]) -> int | None:
    """Return the id of the statistic that was judged: of several measurements of a suite, that with the same value."""
    of_suite = [
        (
            measurement.values[judgement.statistic] == judgement.value and measurement.n == judgement.n,
            rows[judgement.statistic],
        )
        for measurement, rows in figures
        if (measurement.suite, measurement.model) == (judgement.suite, judgement.model) and judgement.statistic in rows
    ]
    return max(of_suite, key=lambda row: row[0], default=(False, None))[1]


def _insert(store: Store, table: str, **cells: object) -> int:
    columns, places = ", ".join(cells), ", ".join("?" * len(cells))
    values = [_text(cell) if isinstance(cell, str) and name not in _JSON else cell for name, cell in cells.items()]
    statement = f"INSERT INTO {table} ({columns}) VALUES ({places})"  # noqa: S608 - both are written here
    if isinstance(store, HistoryServer):
        return store.insert(statement, values)
    row = store.execute(statement, values).lastrowid
    assert row is not None
    return row


def _text(text: str) -> str:
    """Return a text as the file can hold it: without characters that a terminal would obey, and cut."""
    return printable(cut(text, _LONGEST))


def _json(value: object) -> str:
    return json.dumps(as_plain(value, finite=True), sort_keys=True)


def _options(measurement: Measurement) -> str:
    """Return the settings of a suite that tell its measurements apart, as JSON; of long ones the beginning and a
    digest.
    """
    own = {name: value for name, value in measurement.signature["settings"].items() if name not in ("seed", "restarts")}
    text = _json(own)
    return text if len(text) <= _LONGEST else f"{text[:100]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _comparable(measurement: Measurement) -> str:
    signature = {key: measurement.signature[key] for key in MUST_AGREE}
    signature["settings"] = comparable_settings(signature["settings"])
    return hashlib.sha256(_json(signature).encode()).hexdigest()[:16]


# Reading.


def _traces(store: Store, runs: int, path: Where) -> list[Trace]:
    """Return the traces by model and suite, in the order of the statistics of the suite."""
    placed = []
    found = store.execute(_TRACES, (runs,))
    rows = [dict(zip([column[0] for column in found.description], row, strict=True)) for row in found]
    for _, of_trace in groupby(rows, key=_KEY):
        of_points = [list(same) for _, same in groupby(of_trace, key=itemgetter("run"))]
        last = of_points[-1][-1]
        points = {"main": last["position"] == 0, "points": [_point(same) for same in of_points]}
        content = {field.name: last[field.name] for field in fields(Trace) if field.name not in points}
        trace = Trace.from_dict({**content, **points}, f"{path}: history")
        place = last["position"] if isinstance(last["position"], int) else 0
        placed.append(((trace.model, trace.suite, trace.options, place), trace))
    return [trace for _, trace in sorted(placed, key=lambda pair: pair[0])]


def _point(gates: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the point of a statistic in a run as plain values, from a row for each of its gates.

    Of several samples in a run it is the one with most cases that has a gate. The verdict is the worst on any of them.
    """
    first = max(gates, key=lambda gate: (gate["verdict"] is not None, isinstance(n := gate["n"], int) and n))
    own = [gate for gate in gates if gate["id"] == first["id"]]
    point = {field.name: first[field.name] for field in fields(TracePoint)}
    worst = min(gates, key=lambda gate: (*_WORST_FIRST, gate["outcome"]).index(gate["outcome"]))
    point |= {"verdict": worst["verdict"] or "", "outcome": worst["outcome"] or ""}
    compared = next((gate for gate in own if gate["baseline"] is not None), first)
    point |= {name: compared[name] for name in ("baseline", "margin", "anchor")}
    for name, tightest in (("least", max), ("most", min)):
        point[name] = tightest((limit for gate in own if isinstance(limit := gate[name], float)), default=None)
    return point


# A server: the tables of the SQLite file, in the schema ``bias_history`` of a database. The connection takes the
# statements that SQLite takes. A password comes from PGPASSWORD or ~/.pgpass: a URL that holds one is refused, so that
# none is printed.

_SCHEMA = "bias_history"
_SECONDS = 10  #: to connect
_LONG = 300  #: characters of an error of the server
_TYPES = (
    ("INTEGER PRIMARY KEY", "INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    (" REAL", " DOUBLE PRECISION"),
    (" TEXT", ' TEXT COLLATE "C"'),
)
_ADVICE = "check the URL and the server; a password belongs in PGPASSWORD or ~/.pgpass"


class HistoryServer:
    """A connection to the schema of a history, in whose transactions writers wait for each other."""

    def __init__(self, connection: Any) -> None:
        """Take a connection of psycopg that begins no transactions by itself."""
        self._connection = connection

    def execute(self, statement: str, values: Sequence[object] = ()) -> Any:
        """Execute a statement of SQLite, and return a cursor."""
        if statement.lstrip().startswith(("CREATE", "ALTER")):
            for ours, theirs in _TYPES:
                statement = statement.replace(ours, theirs)
        if statement == "BEGIN IMMEDIATE":
            statement = f"BEGIN; SELECT pg_advisory_xact_lock({APPLICATION})"
        return self._connection.execute(statement.replace("?", "%s"), values or None)

    def insert(self, statement: str, values: Sequence[object]) -> int:
        """Insert a row and return its id; NaN is no value, as in SQLite."""
        given = [None if value != value else value for value in values]
        return int(self.execute(f"{statement} RETURNING id", given).fetchone()[0])

    def version(self) -> int:
        """Return the version of the history; 0 where there is none."""
        if self.execute(f"SELECT to_regclass('{_SCHEMA}.version')").fetchone()[0] is None:
            return 0
        return int(self.execute("SELECT version FROM version").fetchone()[0])

    def set_version(self, version: int) -> None:
        """Store the version, and before the first one make the schema."""
        self.execute(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}")
        self.execute("CREATE TABLE IF NOT EXISTS version (version INTEGER NOT NULL)")
        self.execute("DELETE FROM version")
        self.execute("INSERT INTO version (version) VALUES (?)", (version,))


def check_server(url: str) -> None:
    """Refuse what is no URL of a PostgreSQL database, or holds a password.

    Raises:
        SettingError: it is, or psycopg is missing.
    """
    expected = "expected the path of a file, or postgresql://[USER@]HOST[:PORT]/DATABASE"
    if not url.startswith(("postgresql://", "postgres://")):
        raise SettingError(expected)  # the URL of another server may hold a password
    try:
        from psycopg import ProgrammingError, conninfo
    except ImportError:
        raise SettingError(f"a history in PostgreSQL needs psycopg; install with: {installing('postgres')}") from None
    try:
        parts = conninfo.conninfo_to_dict(url)
    except ProgrammingError:  # whose message may hold a part of a password
        raise SettingError(expected) from None
    if any("password" in name for name in parts):
        raise SettingError(f"{expected} without a password, which belongs in PGPASSWORD or ~/.pgpass")


@contextmanager
def opened_server(url: str, writes: bool) -> Iterator[HistoryServer]:
    """Connect to a history, and turn the errors of the server into those of this package.

    Raises:
        SettingError: the URL is none, or holds a password.
        WriteError: the server fails, and the connection ``writes``.
        DataFileError: the server fails, and it only reads.
    """
    check_server(url)
    import psycopg

    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=_SECONDS) as connection:
            connection.execute(f"SET search_path TO {_SCHEMA}")
            connection.execute(f"SET lock_timeout = '{_PATIENCE}s'")
            yield HistoryServer(connection)
    except psycopg.Error as error:
        why = f"{brief(' '.join(str(error).split()), _LONG)}; {_ADVICE}"
        if writes:
            raise WriteError(None, why, url) from None
        raise DataFileError(f"{url}: the history cannot be read: {why}") from None
