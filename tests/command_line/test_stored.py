"""``genderbias report``: the files that a run would have written, from its JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_lines import Printed, type_command
from support.run_reports import hostile_report, run_report

from pytest_genderbias.gates.verdicts import FinishedTest
from pytest_genderbias.plugin import outputs
from pytest_genderbias.reports.history import write_history
from pytest_genderbias.reports.markdown import write_summary
from pytest_genderbias.reports.records import write_records
from pytest_genderbias.reports.run_report import RunInfo, RunReport, write_json


@pytest.fixture
def stored(pytester: pytest.Pytester) -> pytest.Pytester:
    """The JSON file of a run with a gate that failed."""
    write_json(run_report(), Path("run.json"))
    return pytester


def report(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *flags: str) -> Printed:
    return type_command(pytester, monkeypatch, "report", "run.json", *flags)


def test_the_files_are_those_of_the_run(stored: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    write_summary(run_report(), Path("run.md"))
    write_records(run_report(), Path("run.csv"))
    assert report(stored, monkeypatch, "--to=again.md", "--to=again.csv") == ("", "", 0)
    assert Path("again.md").read_bytes() == Path("run.md").read_bytes()
    assert Path("again.csv").read_bytes() == Path("run.csv").read_bytes()


def test_a_run_is_added_to_a_history_once(stored: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    write_history(run_report(run=RunInfo("2026-11-21T10:00:00+00:00", "0.1.0")), Path("runs.db"))
    for _ in range(2):  # both pages have a picture of the runs, which no history takes for a part of the run
        assert report(stored, monkeypatch, "--to", "runs.db", "--to", "page.html") == ("", "", 0)
        assert "over runs" in Path("page.html").read_text()
        assert report(stored, monkeypatch, "--to", "runs.db", "--to", "a.db") == ("", "", 0)
        assert report(stored, monkeypatch, "--to", "a.db") == ("", "", 0)
    for name, runs in (("runs.db", "2"), ("a.db", "1")):
        (row,) = type_command(stored, monkeypatch, "history", name, "--markdown").out.splitlines()[2:]
        assert row.split("|")[4].strip() == runs


def test_without_a_flag_the_verdicts_are_printed(stored: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = report(stored, monkeypatch)
    assert printed.status == 0
    lines = printed.out.splitlines()
    assert lines[0] == "run of 2026-11-22T10:00:00+00:00 on m"
    assert lines[-1].split() == ["bias", "1", "worse", "·", "1", "passed", "·", "1", "not", "run"]
    assert "not run on m: weat: needs vectors" in lines
    assert "a record" not in printed.out
    assert "a record" in report(stored, monkeypatch, "-vv").out


def test_a_test_that_failed_without_a_verdict_is_printed(
    stored: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = FinishedTest("g.bias.yaml::x:m", "m", "x", outcome="failed", text="x needs a masked LM")
    write_json(run_report(judgements=(), not_judged=(), tests=(broken,)), Path("run.json"))
    lines = report(stored, monkeypatch).out.splitlines()
    assert "g.bias.yaml::x:m failed without a verdict: x needs a masked LM" in lines
    assert lines[-1] == "bias  1 failed without a verdict · 1 measured, 0 gated"


def test_a_file_that_cannot_be_written_stops_no_other(stored: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(output: outputs.Output, report: RunReport, path: Path) -> None:
        if output.kind != "records":
            raise OSError(28, "full")
        path.write_text("")

    monkeypatch.setattr(outputs.Output, "write", write)
    printed = report(stored, monkeypatch, "--to=other.md", "--to=other.csv")
    assert printed == ("", f"--to: {Path('other.md').absolute()} cannot be written: full\n", 1)
    assert Path("other.csv").exists()


def test_a_missing_package_is_said_before_anything_is_read(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs.Output, "lacks_package", property(lambda self: bool(self.package)))
    printed = report(pytester, monkeypatch, "--to=mlflow=bias", "--to=again.md")
    assert printed.status == 4
    assert "needs mlflow" in printed.err and not Path("again.md").exists()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": 1, "measurements": []}'])
def test_what_is_no_report_is_one_line(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    Path("run.json").write_text(text)
    printed = report(pytester, monkeypatch)
    assert printed.status == 4
    assert len(printed.err.splitlines()) == 1 and "run.json" in printed.err


def test_a_wrong_path_is_refused_as_in_a_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = report(pytester, monkeypatch, "--to=records=table.xls")
    assert printed.status == 4
    assert "--to: expected a file that ends in .csv or .parquet" in printed.err


@pytest.mark.parametrize(
    "words", [("gates", "--baseline={}"), ("init", "m=demo-lm", "--folder={}"), ("questions", "decisions", "--data={}")]
)
def test_a_path_that_no_file_can_have_is_one_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    printed = type_command(pytester, monkeypatch, *(word.format("x" * 300) for word in words))
    assert printed.status == 4 and printed.err.startswith(f"genderbias {words[0]}: xxx")
    assert printed.err.endswith("; choose another path\n") and printed.err.count("\n") == 1


def test_hostile_names_reach_no_terminal(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(hostile_report(), Path("run.json"))
    printed = report(pytester, monkeypatch)
    assert printed.status == 0
    assert not {"\x1b", "\u202e", "\x9b"} & set(printed.out)


@pytest.mark.parametrize(
    ("text", "kind", "path"),
    [
        ("out/page.html", "report", "out/page.html"),
        ("SUMMARY.MD", "summary", "SUMMARY.MD"),
        ("README.md", "card", "README.md"),
        ("model-card.md", "card", "model-card.md"),
        ("summary=card.md", "summary", "card.md"),
        ("r.parquet", "records", "r.parquet"),
        ("audit/", "audit", "audit"),
        ("out/figures", "figures", "out/figures"),
        ("audit=evidence", "audit", "evidence"),
        ("a=b.bias.yaml", "gates", "a=b.bias.yaml"),
        ("runs.db", "history", "runs.db"),
        ("mlflow=bias", "mlflow", "bias"),
    ],
)
def test_a_file_is_known_by_its_name(tmp_path: Path, text: str, kind: str, path: str) -> None:
    output, found = outputs.destination(text, tmp_path)
    assert (output.kind, found) == (kind, path if kind == "mlflow" else tmp_path / path)


@pytest.mark.parametrize("text", ["out", "page.htm", "json=run.json", "run.json", "my-figures", "audit=", ""])
def test_what_no_name_tells_is_a_usage_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        pytest.UsageError, match=r"--to: cannot tell what .* write KIND=PATH, with KIND one of history, mlflow, "
    ):
        outputs.destination(text, tmp_path)
