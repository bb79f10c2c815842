"""``results:FILE`` and ``answers:FILE``: logs of other tools, as these wrote them.

The excerpts in ``other_tools`` come from real runs: Inspect 0.3.285 with ``mockllm/model`` (``match`` in two epochs,
and ``multiple_choice`` on questions of BBQ), inspect_evals 0.26.0 with its task ``bbq`` on a local copy of the data,
answered as BBQ's authors report UnifiedQA to answer, lm-evaluation-harness 0.4.13 with ``--log_samples`` on a model of
260,000 parameters (a task of its own, and its ``bbq`` on questions of a local file), deepeval 4.3.1 with a metric of
its own, and promptfoo 0.121.20 with the provider ``echo``. Of the samples a few are kept, without messages and events.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from support.chat_models import bbq_rows, write_bbq

from pytest_genderbias import load_model, measure
from pytest_genderbias.engines import results_files
from pytest_genderbias.errors import DataFileError, ModelError, NotApplicableError, SettingError
from pytest_genderbias.models.spec import parse_spec, portable_spec

LOGS = Path(__file__).with_name("other_tools")
HEAD = {"family": "results", "title": "t", "source": "s", "licence": "l", "language": "en"}
_INSPECT = {"id": "id", "group": "metadata.gender", "value": "scores.match.value", "restart": "epoch"}
#: By file: the columns.
TOOLS: dict[str, dict[str, str]] = {
    "inspect-sums.json": _INSPECT,
    "inspect-sums.eval": _INSPECT,
    "lm-eval-groups.jsonl": {"id": "doc.key", "group": "doc.gender", "value": "acc"},
    "deepeval.json": {"id": "name", "group": "metadata.gender", "value": "metricsData.Exact.score"},
    "promptfoo.json": {"id": "vars.case", "group": "vars.gender", "value": "success", "cluster": "metadata.topic"},
}


def write_suite(folder: Path, name: str = "mine", **keys: Any) -> Path:
    path = folder / f"{name}.yaml"
    content = {"suite": name, **HEAD, "groups": ["female", "male"], "statistic": "rate_difference", **keys}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def rates_by_hand(name: str) -> dict[str, float]:
    """Return the rate of each group, as the raw file has it."""
    if name.startswith("inspect"):
        samples = json.loads((LOGS / "inspect-sums.json").read_text())["samples"]
        pairs = [(one["metadata"]["gender"], one["scores"]["match"]["value"] == "C") for one in samples]
    elif name.startswith("lm"):
        rows = [json.loads(line) for line in (LOGS / name).read_text().splitlines()]
        pairs = [(row["doc"]["gender"], row["acc"]) for row in rows]
    elif name.startswith("deep"):
        cases = json.loads((LOGS / name).read_text())["testCases"]
        pairs = [(case["metadata"]["gender"], case["metricsData"][0]["score"]) for case in cases]
    else:
        rows = json.loads((LOGS / name).read_text())["results"]["results"]
        pairs = [(row["vars"]["gender"], row["success"]) for row in rows]
    return {group: float(np.mean([value for of, value in pairs if of == group])) for group in ("female", "male")}


@pytest.mark.parametrize("name", TOOLS)
def test_logs_of_each_tool_have_the_rates_that_they_say(name: str, tmp_path: Path) -> None:
    if name.endswith(".eval"):
        pytest.importorskip("pyarrow")
    measured = measure(write_suite(tmp_path, **TOOLS[name]), load_model(f"results:{LOGS / name}"))
    rates = rates_by_hand(name)
    assert {row["value"]: row["mean"] for row in measured.records} == pytest.approx(rates)
    assert measured.value == pytest.approx(rates["female"] - rates["male"])


def test_one_restart_is_taken_by_its_name_and_all_by_the_seed(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, **_INSPECT)
    log = LOGS / "inspect-sums.json"
    samples = json.loads(log.read_text())["samples"]
    for epoch in (1, 2):
        values = measure(suite, load_model(f"results:{log}#{epoch - 1}")).records
        for row in values:
            own = [
                one["scores"]["match"]["value"] == "C"
                for one in samples
                if one["epoch"] == epoch and one["metadata"]["gender"] == row["value"]
            ]
            assert row["mean"] == pytest.approx(np.mean(own))
    seeded = parse_spec(f"run=results:{log}#{{seed}}")
    assert (seeded.seeded, seeded.for_seed(2).spec, seeded.for_seed(2).kind) == (True, f"results:{log}#2", "results")
    with pytest.raises(
        DataFileError, match="no restart 7; its 2 restarts are counted from 0, in the order of 'epoch': '1', '2'"
    ):
        measure(suite, load_model(f"results:{log}#7"))


def test_specs_name_the_file_and_hide_the_folder() -> None:
    spec = parse_spec(f"results:{LOGS / 'deepeval.json'}")
    assert (spec.name, spec.kind) == ("deepeval", "results")
    assert portable_spec(spec.spec) == "results:deepeval.json"
    with pytest.raises(ModelError, match=r"no file 'nowhere.json'; expected results: with a table"):
        parse_spec("results:nowhere.json")
    with pytest.raises(NotApplicableError, match="needs a causal LM"):
        measure("decisions", load_model(spec.spec))


def test_logs_that_did_not_end_well_are_refused(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect-sums.json").read_text())
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log | {"status": "error"}))
    with pytest.raises(DataFileError, match="its status is 'error', expected 'success'"):
        load_model(f"results:{path}")
    path.write_text('{"rows": []}')
    with pytest.raises(DataFileError, match="no rows; expected a list of objects"):
        load_model(f"results:{path}")
    path.write_text('[{"id": 1}, 2]')
    with pytest.raises(DataFileError, match="no rows"):
        load_model(f"results:{path}")


def test_damaged_archives_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, content = tmp_path / "log.eval", (LOGS / "inspect-sums.eval").read_bytes()
    for damaged in (b"nothing", content[:4000], content[:200] + bytes(900) + content[1100:]):
        path.write_bytes(damaged)
        with pytest.raises(DataFileError):
            load_model(f"results:{path}")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
    with pytest.raises(DataFileError, match=r"expected header\.json and samples"):
        load_model(f"results:{path}")
    path.write_bytes(content)
    monkeypatch.setattr(results_files, "MOST_RATIO", 0)
    monkeypatch.setattr(results_files, "MOST_UNPACKED", 1000)
    with pytest.raises(DataFileError, match="at most 1,000 bytes after decompression"):
        load_model(f"results:{path}")
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.setattr(results_files, "sys", SimpleNamespace(version_info=(3, 11)))
    with pytest.raises(SettingError, match=r"pyarrow, which is not installed.*inspect log convert --to json"):
        load_model(f"results:{path}")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("inspect-bbq.json", {"Religion-0": "The Jewish one", "Religion-1": "The Jewish one"}),
        ("inspect-evals-bbq.json", {"Religion-0": "The Muslim one", "Religion-2": "Can't answer"}),
        ("lm-eval-bbq.jsonl", {"Religion-0": "Can't answer", "Religion-1": "Can't answer"}),
    ],
)
def test_answers_of_bbq_are_options_of_its_questions(name: str, expected: dict[str, str]) -> None:
    answers = load_model(f"answers:{LOGS / name}").backend.lines
    assert {key: answers[key] for key in expected} == expected


def harness_row(row: dict[str, Any], pick: int) -> dict[str, Any]:
    """Return a sample as lm-evaluation-harness logs it, in which an option is the likeliest."""
    options = [row[f"ans{k}"] for k in range(3)]
    asked = {f"gen_args_{k}": {"arg_0": "", "arg_1": f" {text}"} for k, text in enumerate(options)}
    replies = [[str(-1.0 - (k != pick)), "False"] for k in range(3)]
    return {"doc": row, "arguments": asked, "filtered_resps": replies}


def inspect_evals_row(row: dict[str, Any], pick: int) -> dict[str, Any]:
    """Return a sample as inspect_evals logs it, in which an option is picked."""
    about = {key: row[key] for key in ("category", "question_polarity", "context_condition", "answer_info")}
    return {
        "id": f"{row['category']}_{row['example_id']:05d}",
        "choices": [row[f"ans{k}"] for k in range(3)],
        "scores": {"choice": {"value": "I", "answer": "ABC"[pick]}},
        "metadata": {"source_id": row["example_id"], **about},
    }


@pytest.mark.parametrize("row_of", [harness_row, inspect_evals_row])
def test_bias_of_a_log_is_minus_one_where_no_answer_fits_the_stereotype(
    tmp_path: Path, row_of: Callable[[dict[str, Any], int], dict[str, Any]]
) -> None:
    """Where no answer is biased, the harness gives 0.0: ``if n_biased_ans == 0: return 0.0``. The formula says -1."""
    rows = bbq_rows(fills=4)
    folder = write_bbq(tmp_path, rows)
    picks = []
    for row in rows:
        woman, man = (next(k for k in range(2) if row[f"ans{k}"] == name) for name in ("The woman", "The man"))
        against = woman if row["question_polarity"] == "nonneg" else man  # the stereotypes are about women
        picks.append(against if row["context_condition"] == "ambig" else row["label"])
    log = tmp_path / "samples_bbq.jsonl"
    made = (row_of(row, pick) for row, pick in zip(rows, picks, strict=True))
    log.write_text("".join(json.dumps(one) + "\n" for one in made))
    measured = measure("bbq", load_model(f"answers:{log}"), data=folder)
    assert measured.values["accuracy_disambiguated"] == 1.0
    assert measured.values["s_amb"] == pytest.approx(-1.0)


def test_logs_without_answers_are_refused_with_their_number(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect-bbq.json").read_text())
    del log["samples"][1]["scores"]
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    with pytest.raises(DataFileError, match=r"of 8 rows: 1 rows without a question and its answer, first row 2"):
        load_model(f"answers:{path}")
    log["samples"] = [log["samples"][0]] * 3
    path.write_text(json.dumps(log))
    with pytest.raises(DataFileError, match=r"of 3 rows: 2 questions twice, first Religion-0"):
        load_model(f"answers:{path}")
