"""``genderbias report --to figures``: the pictures of a run as files."""

from __future__ import annotations

import json
import sys

import pytest
from support.abilities import UNASKED
from support.command_lines import make_reports
from support.small_projects import model


def run(project: pytest.Pytester, *flags: str) -> pytest.RunResult:
    suites = ",".join(f"./{name}" for name in ("tiny-nli.yaml", "tiny-lm.yaml"))
    return project.runpytest(*flags, f"--bias-suite={suites}")


def test_a_run_draws_its_pictures_with_their_words(project: pytest.Pytester) -> None:
    result = run(
        project,
        model(project, "good", "good"),
        model(project, "worse", "worse"),
        model(project, "writer", "writer"),
        "--bias-json=run.json",
    )
    assert result.ret == pytest.ExitCode.OK
    assert make_reports("out/figures").status == 0
    folder = project.path / "out" / "figures"
    names = {path.name for path in folder.iterdir()}
    expected = {
        "tiny-nli-good-heat-map",
        "tiny-nli-worse-heat-map",
        "tiny-lm-writer-signed-bars",
        "tiny-nli-net_neutral-models",
    }
    assert names == {f"{name}.{end}" for name in expected for end in ("png", "svg")} | {"figures.md"}
    page = (folder / "figures.md").read_text()
    assert "![tiny-lm on writer." in page
    pictures = json.loads((project.path / "run.json").read_text())["pictures"]
    assert len(pictures) == len(expected)
    for picture in pictures:
        assert picture["title"] in (folder / "figures.md").read_text().replace("\\", "")
    assert (folder / "tiny-nli-good-heat-map.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "tiny-nli-good-heat-map.svg").read_text().startswith("<svg")


def test_a_run_that_draws_nothing_does_not_import_matplotlib(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(project, model(project, "good"), "--bias-json=run.json")
    result.assert_outcomes(passed=1, skipped=1)


def test_a_file_in_the_way_is_a_usage_error(project: pytest.Pytester) -> None:
    project.path.joinpath("file").touch()
    printed = make_reports("file/figures")
    assert printed.status == pytest.ExitCode.USAGE_ERROR
    assert "--to: " in printed.err and printed.err.endswith("file cannot be written; choose another folder\n")


@pytest.mark.parametrize(
    "workers",
    [(), pytest.param(("-p", "xdist", "-n1", *UNASKED), marks=pytest.mark.slow)],
    ids=["one process", "a worker"],
)
def test_an_error_of_a_library_that_draws_costs_its_pictures_only(
    project: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    if workers:
        pytest.importorskip("xdist")
    project.makeconftest("""
        import numpy as np
        import pytest
        from pytest_genderbias.reports.figures import runs, units

        patch = pytest.MonkeyPatch()

        def broken(*arguments):
            np.linalg.inv(np.zeros((2, 2)))

        def pytest_configure():
            patch.setattr(units, "heat_map", broken)
            patch.setattr(runs, "models", broken)

        def pytest_unconfigure():
            patch.undo()
        """)
    result = run(
        project,
        *workers,
        model(project, "good", "good"),
        model(project, "worse", "worse"),
        model(project, "writer", "writer"),
        "--bias-json=run.json",
    )
    assert result.ret == pytest.ExitCode.OK
    error = (
        "through an error in *linalg.py:*: LinAlgError: Singular matrix; everything else was. Please report it with the"
        " file of --bias-json"
    )
    lines = [line for line in result.outlines if "LinAlgError" in line]
    assert len(lines) == 3
    result.stdout.fnmatch_lines(
        [
            f"the pictures of tiny-nli on good were not drawn, {error}",
            f"the pictures of tiny-nli on worse were not drawn, {error}",
            f"a picture of several measurements was not drawn, {error}",
        ]
    )
    [picture] = json.loads((project.path / "run.json").read_text())["pictures"]
    assert picture["suite"] == "tiny-lm"
