"""The SQLite history: what a run leaves in it, writers side by side, versions, and files that are no history."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support.hand_made import hand_made

from pytest_genderbias.errors import BiasError, DataFileError, WriteError
from pytest_genderbias.gates.judgement import BaselineFacts, SinceAnchor
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports import history
from pytest_genderbias.reports.history import APPLICATION, MIGRATIONS, read_history, with_history, write_history
from pytest_genderbias.reports.run_report import RunInfo, RunReport

HOSTILE = "'); DROP TABLE runs; -- <b> \x1b[31m \u202e \x00 \ud800"


def on(day: int, *measurements: Measurement, **about: object) -> RunReport:
    """Return the report of a run of one day."""
    return replace(RunReport(RunInfo(f"2026-11-{day:02}T12:00:00+00:00", "0.1.0")), measurements=measurements, **about)


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as store:
        return store.execute(query).fetchall()


def test_each_run_adds_a_point_to_each_statistic(tmp_path: Path) -> None:
    path = tmp_path / "new" / "bias.db"
    for day, shift in ((3, 0.2), (1, 0.0), (2, 0.1)):
        write_history(on(day, hand_made(shift), hand_made(shift, model="other")), path)
    traces = read_history(path)
    assert [(trace.model, trace.suite, trace.statistic, trace.main) for trace in traces] == [
        ("m", "tiny", "share", True),
        ("other", "tiny", "share", True),
    ]
    assert [point.date[:10] for point in traces[0].points] == ["2026-11-01", "2026-11-02", "2026-11-03"]
    assert [point.value for point in traces[0].points] == pytest.approx([0.25, 0.35, 0.45])
    assert [point.low for point in traces[0].points] == pytest.approx([0.25, 0.35, 0.45], abs=1e-5)
    assert traces[0].worsening() == pytest.approx(0.2)
    assert len({point.comparable for point in traces[0].points}) == 1
    assert [point.date[:10] for point in read_history(path, runs=2)[0].points] == ["2026-11-02", "2026-11-03"]


def test_runs_that_measured_nothing_push_no_other_out(tmp_path: Path) -> None:
    path = tmp_path / "bias.db"
    for day in (1, 2):
        write_history(on(day, hand_made()), path)
    write_history(on(3), path)
    assert [point.date[:10] for point in read_history(path, runs=2)[0].points] == ["2026-11-01", "2026-11-02"]


def test_runs_are_in_the_order_of_their_time_whatever_its_zone(tmp_path: Path) -> None:
    path = tmp_path / "bias.db"
    for date in ("2026-11-01T01:30:00+02:00", "2026-11-01T00:00:00+00:00", "some day"):
        write_history(RunReport(RunInfo(date, "0.1.0"), (hand_made(),)), path)
    (trace,) = read_history(path)
    assert [point.date for point in trace.points] == [
        "2026-11-01T01:30:00+02:00",
        "2026-11-01T00:00:00+00:00",
        "some day",
    ]


def test_verdicts_limits_and_anchors_stand_beside_the_values(tmp_path: Path) -> None:
    measurement = hand_made(0.1)
    over = judge_limit(measurement, Limit(at_most=0.3))
    facts = BaselineFacts("2026-10-01", 0.3, 0.02, anchor=SinceAnchor("", 0.25, 0.1))
    moved = replace(over, code="regressed", facts=facts, name="entry")
    judgements = (over.settled("passed", "a"), moved.settled("failed", "b"))
    write_history(on(1, measurement, judgements=judgements), tmp_path / "bias.db")
    (trace,) = read_history(tmp_path / "bias.db")
    point = trace.last
    assert (point.verdict, point.outcome) == ("worse", "failed"), "the worst of several"
    assert (point.least, point.most) == (None, 0.3)
    assert (point.baseline, point.margin, point.anchor, point.started) == (0.3, 0.02, 0.25, 0.25)
    assert trace.is_gated
    assert rows(tmp_path / "bias.db", "SELECT gate, test, accepted_on, figure IS NULL FROM judgements") == [
        ("", "a", "", 0),
        ("entry", "b", "2026-10-01", 0),
    ]


def test_several_samples_of_a_run_are_one_point_with_the_worst_verdict(tmp_path: Path) -> None:
    for day, shift in ((1, 0.0), (2, 0.1)):
        whole, ungated = hand_made(shift), replace(hand_made(0.3), n=1000)
        part = replace(hand_made(shift - 0.05), n=6)
        judgements = (
            judge_limit(whole, Limit(at_most=0.3)).settled("failed" if shift else "passed", "a"),
            judge_limit(part, Limit(at_least=0.1, at_most=0.9)).settled("passed", "b"),
        )
        write_history(on(day, whole, part, ungated, judgements=judgements), tmp_path / "bias.db")
    (trace,) = read_history(tmp_path / "bias.db")
    assert [(point.value, point.outcome, point.least, point.most) for point in trace.points] == [
        (pytest.approx(0.25), "passed", None, 0.3),
        (pytest.approx(0.35), "failed", None, 0.3),
    ]
    assert trace.worsening() == pytest.approx(0.1) and trace.last.verdict == "limit broken"


def test_limits_stand_beside_values_that_they_did_not_decide(tmp_path: Path) -> None:
    nothing = replace(hand_made(), values={"share": None}, intervals={"share": None}, bounds={"share": None})
    settled = judge_limit(nothing, Limit(within=0.2)).settled("failed")
    write_history(on(1, nothing, judgements=(settled,)), tmp_path / "bias.db")
    point = read_history(tmp_path / "bias.db")[0].last
    assert (point.verdict, point.least, point.most) == ("cannot judge (no value)", -0.2, 0.2)


def test_values_that_cannot_be_compared_are_not_joined(tmp_path: Path) -> None:
    path, first = tmp_path / "bias.db", hand_made()
    other = replace(first, signature={**first.signature, "digest": "another word list"})
    settings = replace(first, signature={**first.signature, "settings": {"seed": 0, "unit": "pair"}})
    seeds = replace(first, signature={**first.signature, "settings": {"seed": 0, "restarts": 3}})
    for day, measurement in enumerate((first, seeds, other, settings), start=1):
        write_history(on(day, measurement), path)
    of_settings, own = read_history(path)
    one, other, changed = (point.comparable for point in own.points)
    assert one == other != changed, "a number of restarts changes nothing, a word list does"
    assert own.worsening() is None
    assert (of_settings.options, len(of_settings.points)) == ('{"unit": "pair"}', 1)


def test_a_run_is_added_once(tmp_path: Path) -> None:
    path, report = tmp_path / "bias.db", on(1, hand_made())
    write_history(report, path)
    write_history(RunReport.from_dict(report.to_dict()), path)
    write_history(with_history(report, path), path)
    assert rows(path, "SELECT count(*) FROM runs") == [(1,)]


def test_a_report_shows_the_runs_before_it_and_itself(tmp_path: Path) -> None:
    path = tmp_path / "bias.db"
    write_history(on(1, hand_made(), hand_made(suite="another")), path)
    write_history(on(2, hand_made(0.1)), path)
    before = path.read_bytes()
    report = with_history(on(2, hand_made(0.1)), path)
    assert path.read_bytes() == before, "it only reads"
    (trace,) = report.history
    assert [point.value for point in trace.points] == pytest.approx([0.25, 0.35])
    assert RunReport.from_dict(report.to_dict()).history == report.history


def test_values_that_are_missing_or_no_numbers_are_no_values(tmp_path: Path) -> None:
    nothing = replace(hand_made(), values={"share": None}, intervals={"share": None}, reasons={"share": "none"})
    for day, measurement in enumerate((nothing, hand_made(float("nan"))), start=1):
        write_history(on(day, measurement), tmp_path / "bias.db")
    (trace,) = read_history(tmp_path / "bias.db")
    assert [point.value for point in trace.points] == [None, None]


def test_hostile_names_are_data(tmp_path: Path) -> None:
    path = tmp_path / "'; DROP TABLE runs ?mode=memory#.db"
    measurement = hand_made(suite=HOSTILE, model=HOSTILE + "x" * 100_000)
    settled = replace(judge_limit(measurement, Limit(at_most=0.1)), name=HOSTILE).settled("failed", HOSTILE)
    report = on(1, measurement, judgements=(settled,))
    write_history(report, path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    (trace,) = read_history(path)
    assert trace.suite.startswith("'); DROP TABLE runs; -- <b> \\x1b[31m")
    assert (trace.suite + trace.model + trace.last.verdict).isprintable()
    assert len(trace.model) < 5_000
    assert len(with_history(report, path).history[0].points) == 1


def test_writers_side_by_side_lose_no_run(tmp_path: Path) -> None:
    path = tmp_path / "bias.db"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda day: write_history(on(day, hand_made()), path), range(1, 25)))
    assert rows(path, "SELECT count(*), count(DISTINCT digest) FROM runs") == [(24, 24)]
    assert rows(path, "SELECT count(*) FROM figures") == [(24,)]


@pytest.mark.parametrize("date", ["", "no date", "0001-01-01T00:00:00", "9999-12-31T23:59:59"])
def test_a_date_that_has_no_moment_in_utc_stands_as_it_is(tmp_path: Path, date: str) -> None:
    report = replace(on(1, hand_made()), run=RunInfo(date, "1"))
    write_history(report, tmp_path / "bias.db")
    assert rows(tmp_path / "bias.db", "SELECT date FROM runs") == [(date,)]


def test_a_run_is_added_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bias.db"
    write_history(on(1, hand_made()), path)

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(history, "_add_judgement", killed)
    settled = judge_limit(hand_made(), Limit(at_most=0.1)).settled("failed")
    with pytest.raises(KeyboardInterrupt):
        write_history(on(2, hand_made(), judgements=(settled,)), path)
    assert rows(path, "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM measurements)") == [(1, 1)]


def test_what_a_killed_run_left_half_written_is_undone(tmp_path: Path) -> None:
    path, killed = tmp_path / "bias.db", tmp_path / "killed.db"
    for day in range(1, 6):
        write_history(on(day, hand_made()), path)
    with closing(sqlite3.connect(path, isolation_level=None)) as store:
        store.execute("PRAGMA cache_size = 1")  # pages go to the disk before the transaction ends
        store.execute("BEGIN IMMEDIATE")
        store.execute("UPDATE runs SET arguments = hex(randomblob(20000))")
        store.execute("DELETE FROM figures")
        shutil.copy(path, killed)
        shutil.copy(f"{path}-journal", f"{killed}-journal")
        store.execute("ROLLBACK")
    assert killed.read_bytes() != path.read_bytes()
    assert read_history(killed) == read_history(path)
    write_history(on(6, hand_made()), killed)
    assert len(read_history(killed)[0].points) == 6


def test_a_file_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bias.db"
    write_history(on(1, hand_made()), path)
    before = path.read_bytes()
    later = (
        *MIGRATIONS,
        "ALTER TABLE runs ADD COLUMN place TEXT NOT NULL DEFAULT 'here'; CREATE TABLE notes (text TEXT)",
    )
    monkeypatch.setattr(history, "MIGRATIONS", later)
    assert len(read_history(path)[0].points) == 1
    assert path.read_bytes() == before, "who reads does not change the file"
    write_history(on(2, hand_made()), path)
    assert rows(path, "SELECT place FROM runs") == [("here",), ("here",)]
    assert rows(path, "PRAGMA user_version") == [(len(later),)]
    monkeypatch.setattr(history, "MIGRATIONS", MIGRATIONS)
    for use in (read_history, lambda file: write_history(on(3, hand_made()), file)):
        with pytest.raises(
            DataFileError,
            match=r"a later version of pytest-genderbias wrote this history \(schema 4; this one reads up to 3\)",
        ):
            use(path)


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bias.db"
    write_history(on(1, hand_made()), path)
    monkeypatch.setattr(history, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE more (text TEXT); CREATE TABLE runs (id)"))
    with pytest.raises(WriteError, match="table runs already exists"):
        write_history(on(2, hand_made()), path)
    assert rows(path, "SELECT count(*) FROM sqlite_master WHERE name = 'more'") == [(0,)]
    assert rows(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]


def not_ours() -> Iterator[tuple[str, bytes | str]]:
    yield "text", b"model,value\n" * 100
    yield "another program's", "CREATE TABLE experiments (id)"
    yield "another program's version", "PRAGMA user_version = 7"
    yield "a version below 0", f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = -3"
    yield "tables of others", f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = 1; CREATE TABLE runs (id)"


@pytest.mark.parametrize(("name", "content"), list(not_ours()))
def test_a_file_that_is_no_history_is_refused_in_one_line_and_stays(
    tmp_path: Path, name: str, content: bytes | str
) -> None:
    path = tmp_path / "file.db"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with closing(sqlite3.connect(path)) as store:
            store.executescript(content)
    before = path.read_bytes()
    for use in (
        read_history,
        lambda file: with_history(on(1, hand_made()), file),
        lambda file: write_history(on(1, hand_made()), file),
    ):
        with pytest.raises(BiasError, match=r"file\.db") as caught:
            use(path)
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            f"CREATE TRIGGER more AFTER INSERT ON runs BEGIN SELECT ({_ENDLESS}); END",
            "with trigger 'more', which no run makes",
        ),
        (
            f"ALTER TABLE runs RENAME TO old; CREATE VIEW runs AS SELECT * FROM old WHERE ({_ENDLESS})",
            "with (table 'old'|view 'runs'), which no run makes",
        ),
        (f"DROP TABLE judgements; CREATE VIEW judgements AS {_ENDLESS}", "with view 'judgements', which no run makes"),
        ("CREATE TABLE notes (text)", "with table 'notes', which no run makes"),
        ("CREATE INDEX own ON runs (length(digest))", "with index 'own', which no run makes"),
        (
            "ALTER TABLE runs ADD COLUMN more GENERATED ALWAYS AS (length(digest))",
            "in which the table 'runs' is changed",
        ),
        ("DROP INDEX measurements_of_run", "in which the index 'measurements_of_run' is missing"),
    ],
)
def test_a_history_with_more_than_the_migrations_make_is_refused_before_use(
    tmp_path: Path, script: str, reason: str
) -> None:
    path = tmp_path / "bias.db"
    write_history(on(1, hand_made()), path)
    with closing(sqlite3.connect(path)) as store:
        store.executescript(script)
    for use in (read_history, lambda file: write_history(on(2, hand_made()), file)):
        with pytest.raises(
            DataFileError, match=rf"bias\.db: expected a history .*, got a file {reason}; name another"
        ) as caught:
            use(path)
        assert "\n" not in str(caught.value)


def test_a_history_that_was_analysed_and_vacuumed_is_one(tmp_path: Path) -> None:
    path = tmp_path / "bias.db"
    write_history(on(1, hand_made()), path)
    with closing(sqlite3.connect(path)) as store:
        store.executescript("ANALYZE; VACUUM")
    write_history(on(2, hand_made()), path)
    assert len(read_history(path)[0].points) == 2


def test_cells_of_another_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bias.db"
    write_history(on(1, hand_made()), path)
    with closing(sqlite3.connect(path)) as store:
        store.execute("UPDATE figures SET direction = x'00', neutral = 'zero'")
        store.commit()
    with pytest.raises(DataFileError, match=r"bias\.db.*direction: expected a text"):
        read_history(path)


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="unable to open database file"):
        write_history(on(1), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write_history(on(1), tmp_path / "file" / "bias.db")
    with pytest.raises(DataFileError, match="cannot be read"):
        read_history(tmp_path / "missing.db")
