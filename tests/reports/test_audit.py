"""The audit pack: what is in it, what its manifest finds, and that it appears whole or not at all."""

from __future__ import annotations

import csv
import hashlib
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest
from support.hand_made import hand_made

from pytest_genderbias.errors import DataFileError, WriteError
from pytest_genderbias.gates.judgement import AcceptedValue
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.gates.verdicts import FinishedTest, NotJudged
from pytest_genderbias.reports import audit
from pytest_genderbias.reports.audit import check_pack, pack_name, write_audit
from pytest_genderbias.reports.figures.runs import over_releases
from pytest_genderbias.reports.run_report import (
    ReportedModel,
    RunInfo,
    RunReport,
    SelectionRow,
    Trace,
    TracePoint,
    read_report,
)

HOSTILE = '=HYPERLINK("x")|<b>\x1b[31m\u202e'


def report(**about: object) -> RunReport:
    measurement = hand_made(0.1)
    judgement = judge_limit(measurement, Limit(at_most=0.3), label="kept low")
    accepted = AcceptedValue("share", "2026-10-01", 0.2, 0.25, "a new tokenizer")
    settled = replace(judgement, accepted=(accepted,)).settled("failed", "gates.py::share")
    made = RunReport(
        RunInfo("2026-11-22T20:00:00+01:00", "0.1.0", models=(ReportedModel("m", "runs/m"),), versions={"numpy": "2"}),
        (measurement,),
        (settled,),
        not_judged=(NotJudged("gates.py::other", "m", "inapplicable", "needs a masked LM"),),
    )
    return replace(made, **about)


def pack(folder: Path, of: RunReport) -> Path:
    write_audit(of, folder)
    (made,) = folder.iterdir()
    return made


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_pack_holds_verdicts_values_signatures_digests_and_versions(tmp_path: Path) -> None:
    of = report()
    made = pack(tmp_path / "evidence", of)
    assert made.name == pack_name(of)
    assert made.name.startswith("2026-11-22T190000Z-")
    verdict, skipped = table(made / "verdicts.csv")
    assert (verdict["outcome"], verdict["verdict"], verdict["gate"]) == ("failed", "limit broken", "kept low")
    assert float(verdict["value"]) == pytest.approx(0.35)
    assert verdict["reason"] == of.judgements[0].text
    assert verdict["accepted with a reason"] == "2026-10-01: share 0.2 -> 0.25: a new tokenizer"
    assert (skipped["outcome"], skipped["reason"]) == ("skipped", "needs a masked LM")
    (value,) = table(made / "values.csv")
    assert (value["statistic"], value["worse"], value["neutral"]) == ("share", "higher", "0.0")
    (signature,) = json.loads((made / "signatures.json").read_text())
    assert signature["signature"] == of.measurements[0].signature
    data = json.loads((made / "data.json").read_text())
    assert data["suites"]["tiny"]["d"]["definition"] == "tiny/1"
    assert data["models"]["m"]["fingerprint"] == "f0.1"
    assert json.loads((made / "run.json").read_text())["versions"] == {"numpy": "2"}
    assert read_report(made / "report.json").to_dict() == of.to_dict()
    assert "limit broken" in (made / "report.html").read_text()
    assert not (made / "impact-ratios.csv").exists()
    assert not (made / "figures").exists(), "nothing was measured that has a picture"


def test_a_test_that_failed_without_a_verdict_is_evidence_too(tmp_path: Path) -> None:
    broken = FinishedTest("gates.py::x", "m", "tiny", outcome="failed", text="not judged: tiny needs a masked LM")
    made = pack(tmp_path, report(judgements=(), not_judged=(), tests=(broken,)))
    (row,) = table(made / "verdicts.csv")
    assert (row["outcome"], row["verdict"], row["test"], row["reason"]) == ("failed", "none", broken.test, broken.text)
    assert "Result: 1 test failed without a verdict." in (made / "README.md").read_text()


def test_the_manifest_lists_every_file_and_finds_every_change(tmp_path: Path) -> None:
    made = pack(tmp_path, report())
    manifest = json.loads((made / "manifest.json").read_text())
    assert manifest["date"] == "2026-11-22T20:00:00+01:00"
    assert [entry["path"] for entry in manifest["files"]] == sorted(
        path.name
        for path in made.iterdir()
        if path.name not in ("manifest.json", "statement.intoto.json", "SHA256SUMS")
    )
    for entry in manifest["files"]:
        content = (made / entry["path"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (entry["bytes"], entry["sha256"])
        assert entry["content"]
    assert check_pack(made) == []
    (made / "values.csv").write_text("m,tiny,share,0.0\n")
    (made / "run.json").unlink()
    (made / "more.csv").write_text("")
    assert check_pack(made) == ["run.json: missing", "values.csv: changed", "more.csv: not in the manifest"]


@pytest.mark.skipif(which("sha256sum") is None, reason="checks with sha256sum")
def test_a_common_tool_checks_the_digests(tmp_path: Path) -> None:
    made = pack(tmp_path, report())
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "manifest.json: OK" in done.stdout


def test_impact_ratios_stand_in_the_pack_with_what_they_do_not_say(tmp_path: Path) -> None:
    rows = (
        SelectionRow("hr", "hire", "sex", "female", 40, 0.4, 10, 0.25, 0.5, 0.3, 0.9),
        SelectionRow("hr", "hire", "sex", "unknown", 2, note="not counted"),
    )
    of = report(selections=rows)
    assert RunReport.from_dict(of.to_dict()).selections == rows
    made = pack(tmp_path, of)
    female, unknown = table(made / "impact-ratios.csv")
    assert (female["selection rate"], female["impact ratio"], female["lower bound"]) == ("0.25", "0.5", "0.3")
    assert (unknown["persons"], unknown["impact ratio"], unknown["note"]) == ("2", "", "not counted")
    readme = (made / "README.md").read_text()
    assert "impact-ratios.csv" in readme
    assert "They do not say that a law, a rule or a standard is met" in readme
    assert "compliant" not in readme


def test_pictures_stand_in_a_folder_whose_files_are_in_the_manifest(tmp_path: Path) -> None:
    points = tuple(TracePoint(f"2026-1{month}-01T00:00:00+00:00", "", "", "a", month / 4) for month in (0, 1))
    picture = over_releases(Trace("m", "tiny", "{}", "share", True, "higher", 0.0, "a share", points))
    assert picture is not None
    made = pack(tmp_path, report(pictures=(picture,)))
    assert {path.suffix for path in (made / "figures").iterdir()} == {".md", ".png", ".svg"}
    manifest = json.loads((made / "manifest.json").read_text())
    assert {entry["content"] for entry in manifest["files"] if entry["path"].startswith("figures/")} == {
        "pictures as PNG and SVG, with their findings in words"
    }
    assert check_pack(made) == []


def test_a_pack_is_never_overwritten(tmp_path: Path) -> None:
    made = pack(tmp_path, report())
    before = (made / "manifest.json").read_bytes()
    with pytest.raises(WriteError, match="the pack of this run is there already"):
        write_audit(report(), tmp_path)
    assert (made / "manifest.json").read_bytes() == before
    write_audit(report(failures=("another run",)), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_pack_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(of: RunReport, path: Path) -> None:
        raise WriteError(28, "No space left on device", str(path))

    monkeypatch.setattr(audit, "PARTS", (*audit.PARTS, audit.Part("last.csv", "the last one", full)))
    with pytest.raises(WriteError, match="No space left"):
        write_audit(report(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write_audit(report(), tmp_path / "file")


def test_a_formula_is_quoted_and_a_long_text_cut(tmp_path: Path) -> None:
    measurement = hand_made(suite=HOSTILE, model=HOSTILE + "x" * 100_000)
    settled = judge_limit(measurement, Limit(at_most=0.1), label=HOSTILE).settled("failed", HOSTILE)
    info = RunInfo("no date <b>", HOSTILE, models=(ReportedModel(HOSTILE, HOSTILE),))
    made = pack(tmp_path, RunReport(info, (measurement,), (settled,)))
    (verdict,) = table(made / "verdicts.csv")
    assert verdict["suite"].startswith("'=HYPERLINK")
    assert len(verdict["model"]) < 20_000
    assert "<b>" not in (made / "README.md").read_text()


@pytest.mark.parametrize(
    "manifest", ["[]", '{"schema": 2, "files": []}', '{"schema": 1, "files": {}}', '{"schema": 1, "files": [1]}', "{"]
)
def test_a_manifest_that_cannot_be_read_is_refused(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(DataFileError, match=r"manifest\.json"):
        check_pack(tmp_path)
