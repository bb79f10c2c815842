"""A history on a PostgreSQL server, which is started in a folder of its own: it gives what a file gives, writers at
once lose nothing, and a server that fails is one error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.hand_made import hand_made

from pytest_genderbias.command_line.main import main
from pytest_genderbias.errors import DataFileError, SettingError, WriteError
from pytest_genderbias.gates.judgement import BaselineFacts, SinceAnchor
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.reports import history
from pytest_genderbias.reports.history import MIGRATIONS, read_history, with_history, write_history
from pytest_genderbias.reports.run_report import RunInfo, RunReport, write_json

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
NOBODY = 65534


def on(day: int, *measurements: Any, **about: Any) -> RunReport:
    """Return the report of a run of one day."""
    return replace(RunReport(RunInfo(f"2026-11-{day:02}T12:00:00+00:00", "0.1.0")), measurements=measurements, **about)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server that listens on a socket in its folder only and asks for a password, and return the start of its
    URLs.
    """
    pytest.importorskip("psycopg", reason="needs psycopg")
    if not PROGRAMS or os.name == "nt":
        pytest.skip("needs the programs of a PostgreSQL server (apt-get install postgresql)")
    folder = Path(f"/tmp/bias-postgres-{os.getpid()}")  # a socket's path has 107 characters at most
    folder.mkdir(mode=0o755)
    (folder / "password").write_text("secret")
    who: dict[str, Any] = {}
    if os.geteuid() == 0:  # initdb refuses root
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        os.chown(folder, NOBODY, NOBODY)
        os.chown(folder / "password", NOBODY, NOBODY)
    programs, data = PROGRAMS[-1].parent, folder / "data"

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", str(data), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **who)

    try:
        run("initdb", "-U", "bias", f"--pwfile={folder}/password", "-A", "scram-sha-256", "--no-sync", "-E", "UTF8")
        run("pg_ctl", "-w", "-l", f"{folder}/log", "-o", f"-c listen_addresses= -k {folder} -c fsync=off", "start")
        yield f"?host={folder}&user=bias"
    finally:
        if (data / "postmaster.pid").exists():
            run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture
def url(server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a new database."""
    import psycopg

    monkeypatch.setenv("PGPASSWORD", "secret")
    name = f"d{abs(hash(request.node.nodeid))}"
    with psycopg.connect(f"postgresql:///postgres{server}", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql:///{name}{server}"


def rows(url: str, query: str) -> list[tuple[object, ...]]:
    import psycopg

    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def reports() -> list[RunReport]:
    """Return runs with what a history can hold: gates, an anchor, a value that is missing, and texts of others."""
    settled = judge_limit(hand_made(), Limit(at_most=0.1)).settled("failed")
    facts = BaselineFacts(baseline=0.25, margin=0.01, anchor=SinceAnchor("2026-11-01", 0.2, 0.05))
    hostile = hand_made(suite="'); DROP TABLE runs; -- <b> \x1b[31m \u202e \x00 100 %s ?")
    nothing = replace(hand_made(suite="none"), values={"share": None}, reasons={"share": "no units"})
    return [
        on(3, hand_made(0.2), hand_made(0.2, model="other"), judgements=(settled, replace(settled, facts=facts))),
        on(1, hand_made(), hostile),
        on(2, hand_made(0.1), nothing, failures=("a\x00b",)),
        RunReport(RunInfo("some day", "0.1.0"), (hand_made(model="Über"), hand_made(model="a"), hand_made(model="B"))),
    ]


@pytest.mark.slow
def test_a_server_holds_what_a_file_holds(url: str, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="no history of any; genderbias report FILE --to URL writes one"):
        read_history(url)
    for report in reports():
        for _ in range(2):  # the second changes nothing
            write_history(report, tmp_path / "bias.db")
            write_history(report, url)
        assert with_history(report, url) == with_history(report, tmp_path / "bias.db")
        assert read_history(url) == read_history(tmp_path / "bias.db")
    assert read_history(url, runs=2) == read_history(tmp_path / "bias.db", runs=2)
    assert rows(url, "SELECT count(*) FROM bias_history.runs") == [(4,)]


@pytest.mark.slow
def test_the_commands_take_the_url_and_print_no_password(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(on(1, hand_made()), tmp_path / "run.json")
    assert main(["report", str(tmp_path / "run.json"), "--to", url, "--to", str(tmp_path / "page.html")]) == 0
    assert main(["history", url]) == 0
    assert "share" in capsys.readouterr().out
    monkeypatch.setenv("PGPASSWORD", "wrong-one")
    assert main(["history", url]) != 0
    assert main(["report", str(tmp_path / "run.json"), "--to", url]) != 0
    printed = capsys.readouterr()
    assert printed.err.count("password authentication failed") == 2 and "PGPASSWORD or ~/.pgpass" in printed.err
    assert "wrong-one" not in printed.err + printed.out


WRITER = """
import sys
from support.hand_made import hand_made
from pytest_genderbias.reports.history import write_history
from pytest_genderbias.reports.run_report import RunInfo, RunReport

for minute in range(10):
    run = RunInfo(f"2026-11-{sys.argv[2]}T12:{minute:02}:00+00:00", "0.1.0")
    write_history(RunReport(run, (hand_made(),)), sys.argv[1])
"""


@pytest.mark.slow
def test_processes_that_write_at_once_lose_no_run(url: str) -> None:
    path = os.pathsep.join([str(Path(__file__).resolve().parents[1]), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", WRITER, url]
    writers = [subprocess.Popen([*command, day], env=environment) for day in ("01", "02")]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert rows(url, "SELECT count(*), count(DISTINCT digest) FROM bias_history.runs") == [(20, 20)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda day: write_history(on(day, hand_made()), url), range(3, 13)))
    assert len(read_history(url)[0].points) == 30


@pytest.mark.slow
def test_a_run_is_added_whole_or_not_at_all(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_history(on(1, hand_made()), url)

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    settled = judge_limit(hand_made(), Limit(at_most=0.1)).settled("failed")
    with monkeypatch.context() as during:
        during.setattr(history, "_add_judgement", killed)
        with pytest.raises(KeyboardInterrupt):
            write_history(on(2, hand_made(), judgements=(settled,)), url)
    counts = "SELECT (SELECT count(*) FROM bias_history.runs), (SELECT count(*) FROM bias_history.measurements)"
    assert rows(url, counts) == [(1, 1)]
    monkeypatch.setattr(
        history, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE more (text TEXT); CREATE TABLE runs (id TEXT)")
    )
    with pytest.raises(WriteError, match='relation "runs" already exists'):
        write_history(on(2, hand_made()), url)
    assert rows(url, "SELECT to_regclass('bias_history.more'), version FROM bias_history.version") == [(None, 3)]


@pytest.mark.slow
def test_versions_of_a_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MIGRATIONS", MIGRATIONS[:2])
    write_history(on(1, hand_made()), url)
    monkeypatch.setattr(history, "MIGRATIONS", MIGRATIONS)
    with pytest.raises(DataFileError, match="no history of this version"):
        read_history(url)
    write_history(on(2, hand_made()), url)
    assert len(read_history(url)[0].points) == 2
    monkeypatch.setattr(history, "MIGRATIONS", MIGRATIONS[:2])
    for use in (read_history, lambda where: write_history(on(3, hand_made()), where)):
        with pytest.raises(DataFileError, match=r"later version of pytest-genderbias wrote this history \(schema 3;"):
            use(url)


@pytest.mark.slow
def test_a_writer_that_hangs_is_waited_for_and_then_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setattr(history, "_PATIENCE", 1)
    with psycopg.connect(url) as other:
        other.execute(f"SELECT pg_advisory_xact_lock({history.APPLICATION})")
        with pytest.raises(WriteError, match="lock timeout"):
            write_history(on(1, hand_made()), url)
    write_history(on(1, hand_made()), url)
    assert len(read_history(url)) == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:secret@host/bias", "a password, which belongs in PGPASSWORD"),
        ("postgresql://host/bias?password=secret", "a password, which belongs in PGPASSWORD"),
        ("postgresql://me:secret@host:port:/bias?no", r"expected .*postgresql://\[USER@\]HOST"),
        ("s3://bucket/bias.db", "expected the path of a file, or postgresql://"),
    ],
)
def test_a_url_with_a_password_is_refused(
    url: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not url.startswith("s3"):
        pytest.importorskip("psycopg", reason="needs psycopg")
    for use in (read_history, lambda where: write_history(on(1), where)):
        with pytest.raises(SettingError, match=said) as refusal:
            use(url)
        assert "secret" not in str(refusal.value)
    write_json(on(1, hand_made()), tmp_path / "run.json")
    assert main(["report", str(tmp_path / "run.json"), "--to", url]) != 0
    assert main(["history", url]) != 0
    assert "secret" not in "".join(capsys.readouterr())


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SettingError, match=r"needs psycopg; install with: .*\[postgres\]"):
        read_history("postgresql://host/bias")


def test_a_server_that_does_not_answer_is_one_error(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="needs psycopg")
    nowhere = f"postgresql:///bias?host={tmp_path}"
    with pytest.raises(DataFileError, match=r"the history cannot be read: .*check the URL and the server"):
        read_history(nowhere)
    with pytest.raises(WriteError, match="check the URL and the server"):
        write_history(on(1, hand_made()), nowhere)
