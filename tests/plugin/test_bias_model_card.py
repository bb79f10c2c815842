"""``genderbias report --to card.md``: evaluation results in the card of a model."""

from __future__ import annotations

import pytest
import yaml
from support.command_lines import make_reports
from support.small_projects import model

huggingface_hub = pytest.importorskip("huggingface_hub", reason="model cards are written with huggingface_hub")


def test_the_card_of_a_model_gets_its_results_and_keeps_the_rest(project: pytest.Pytester) -> None:
    path = project.path / "README.md"
    path.write_text("---\nlicense: mit\n---\n# A model\n\nIts text.\n")
    project.path.joinpath("g.bias.yaml").write_text(
        "gates: [{suite: ./tiny-nli.yaml, statistic: threshold_0.5, at_least: 0.5}]"
    )
    reference = f"--bias-model=release={project.models}:better"  # type: ignore[attr-defined]
    result = project.runpytest(
        model(project, "good"),
        reference,
        "--bias-json=run.json",
        "--bias-suite=tiny-nli.yaml",
        "--bias-no-worse-than=release",
        "--bias-margin=0.1",
    )
    assert result.ret == 0
    assert make_reports("README.md").status == 0
    card = huggingface_hub.ModelCard.load(path)
    values = {entry.metric_type: entry.metric_value for entry in card.data.eval_results}
    assert values == {"net_neutral": pytest.approx(0.9), "threshold_0.5": 1.0}
    assert card.data.model_name == "m"
    assert card.data.license == "mit"
    assert card.text.strip() == "# A model\n\nIts text."
    assert make_reports(".eval_results").status == 0
    (written,) = (project.path / ".eval_results").iterdir()
    parse = pytest.importorskip("huggingface_hub", "1.4", reason="reads .eval_results").parse_eval_result_entries
    entries = parse(yaml.safe_load(written.read_text()))
    assert {entry.task_id: entry.value for entry in entries} == values
    assert {entry.dataset_id for entry in entries} == {"pytest-genderbias/tiny-nli"}
    assert all("neutral is 1, lower is worse" in entry.notes for entry in entries)
    assert huggingface_hub.eval_result_entries_to_yaml(entries) == yaml.safe_load(written.read_text()), "nothing else"
