"""``bias_runs``: the folder that keeps what mitigations train."""

from __future__ import annotations

import pytest

from pytest_genderbias.plugin.session import mitigations_of


def test_a_named_folder_is_used_and_kept(project: pytest.Pytester) -> None:
    config = project.parseconfigure("-obias_runs=kept")
    assert mitigations_of(config).folder == project.path / "kept"
    config._ensure_unconfigure()
    project.makeini("[pytest]\nbias_runs = runs")
    assert mitigations_of(project.parseconfigure()).folder == project.path / "runs"


def test_without_it_the_folder_is_the_owner_s_alone_and_is_removed(project: pytest.Pytester) -> None:
    config = project.parseconfigure("--bias-seed=1")
    folder = mitigations_of(config).folder
    assert folder.is_dir() and folder.stat().st_mode & 0o777 == 0o700 and mitigations_of(config).folder == folder
    config._ensure_unconfigure()
    assert not folder.exists()
