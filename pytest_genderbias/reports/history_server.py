"""A history on a PostgreSQL server: the tables of the SQLite file, in the schema ``bias_history`` of a database.

The connection takes the statements that SQLite takes. A password comes from ``PGPASSWORD`` or ``~/.pgpass``: a URL that
holds one is refused, so that none is printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_genderbias.errors import DataFileError, SettingError, WriteError, installing
from pytest_genderbias.text.printable import brief

_SCHEMA = "bias_history"
_SECONDS = 10  #: to connect
_PATIENCE = 60  #: seconds for other processes that write
_LOCK = 0x62696173  #: "bias": the number of the lock that writers hold
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
            statement = f"BEGIN; SELECT pg_advisory_xact_lock({_LOCK})"
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
