"""``genderbias resilience``: the table and the file are those of ``resilience``, and what was trained is kept."""

import json

import pytest
from support.tiny_checkpoints import corpus, save_checkpoint

from pytest_genderbias.command_line.main import main


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")
    folder = tmp_path_factory.mktemp("resilience")
    save_checkpoint("bert", folder / "model")
    (folder / "text.txt").write_text("\n".join(corpus()[:60]))
    return folder


def typed(project, *more):
    recipe = f"{{name: masked-lm, corpus: {project / 'text.txt'}, max_length: 16}}"
    return [
        "resilience",
        f"a={project / 'model'}",
        f"b={project / 'model'}",
        "--suite=lm-occupation",
        f"--recipe={recipe}",
        "--steps=1",
        "--max-steps=2",
        "--frozen=nothing,1",
        "--limit=16",
        f"--runs={project / 'runs'}",
        *more,
    ]


def test_the_table_has_a_row_for_each_step_and_part(project, capsys):
    assert main(typed(project, f"--json={project / 'lasting.json'}")) == 0
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert rows[0][:4] == ["steps", "frozen", "a aggregate_bias", "b aggregate_bias"]
    assert [row[:2] for row in rows[2:]] == [["1", "nothing"], ["2", "nothing"], ["2", "embeddings and 1 layer"]]
    assert all(row[2] == row[3] != "-" for row in rows[2:])  # twice the same model
    written = json.loads((project / "lasting.json").read_text())
    assert f"{written['by_step']['a']['2']['values']['lm-occupation/aggregate_bias']:.4f}" == rows[3][2]
    kept = {path: path.stat().st_mtime_ns for path in (project / "runs").rglob("*.safetensors")}
    assert main(typed(project)) == 0 and kept
    assert {path: path.stat().st_mtime_ns for path in (project / "runs").rglob("*.safetensors")} == kept


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--frozen=half"], "the frozen part should be nothing, embeddings, encoder, or 0 to 2 layers, got 'half'"),
        (["--suite=lm-job"], "no suite 'lm-job'"),
        (["--recipe=steps"], "no recipe is called 'steps'"),
        (["--recipe={steps: 3}"], "a recipe is given by its name"),
        (["--statistic=bias"], "lm-occupation has no statistic 'bias'"),
    ],
)
def test_wrong_arguments_are_one_line(project, capsys, more, message):
    assert main(typed(project, *more)) == 4
    assert message in capsys.readouterr().err


def test_steps_are_whole_numbers(project, capsys):
    with pytest.raises(SystemExit, match="4"):
        main(typed(project, "--steps=1,x"))
    assert "expected whole numbers from 0, as 0,10,100, got '1,x'" in capsys.readouterr().err


def test_models_of_one_name_are_refused(project, capsys):
    arguments = [text.replace("b=", "a=", 1) if text.startswith("b=") else text for text in typed(project)]
    assert main(arguments) == 4
    assert "two models are called a; name them" in capsys.readouterr().err
