"""``bias_runs``: the folder that keeps what mitigations train."""

from __future__ import annotations

import pytest

from pytest_genderbias.plugin.session import runs_folder


def test_a_named_folder_is_used_and_kept(project: pytest.Pytester) -> None:
    config = project.parseconfigure("-obias_runs=kept")
    assert runs_folder(config) == project.path / "kept"
    config._ensure_unconfigure()
    project.makeini("[pytest]\nbias_runs = runs")
    assert runs_folder(project.parseconfigure()) == project.path / "runs"


def test_without_it_the_folder_is_the_owner_s_alone_and_is_removed(project: pytest.Pytester) -> None:
    config = project.parseconfigure("--bias-seed=1")
    folder = runs_folder(config)
    assert folder.is_dir() and folder.stat().st_mode & 0o777 == 0o700 and runs_folder(config) == folder
    config._ensure_unconfigure()
    assert not folder.exists()
