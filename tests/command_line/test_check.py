"""``genderbias check``: what each kind of file is, and what is wrong with it."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest
from support.command_lines import type_command
from support.run_reports import run_report
from support.small_projects import GENDERED, MODELS, PERSONS, SUITES

from pytest_genderbias.datasets.folder import known_data_sets
from pytest_genderbias.models.spec import parse_spec
from pytest_genderbias.reports.history import write_history
from pytest_genderbias.reports.run_report import write_json
from pytest_genderbias.suites.suite import suite_names
from pytest_genderbias.text import packaged

GATE = "gates: [{suite: ./tiny-nli.yaml, baseline: true, margin: 0.1}]\n"
PEOPLE = "id,label,prediction,group\n" + "".join(f"{p}{g},nurse,{p},{g}\n" for p in ("nurse", "cook") for g in "fm")


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makefile(".yaml", persons=PERSONS, gendered=GENDERED, **SUITES)
    (pytester.path / "release.bias.yaml").write_text(GATE)
    (pytester.path / "people.csv").write_text(PEOPLE)
    return pytester


def test_each_kind_of_file_is_named(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ("tiny-lm.yaml", "persons.yaml", "release.bias.yaml", "people.csv", "nli-occupation")
    printed = type_command(project, monkeypatch, "check", *files)
    assert printed.status == 0
    assert printed.out.splitlines() == [
        "tiny-lm.yaml: a suite of the family lm-occupation: 6 cases, for a causal LM or a masked LM",
        "persons.yaml: a word list: 3 words with group",
        "release.bias.yaml: a gate file with 1 gate",
        "  line 1: tiny-nli.net_neutral.baseline",
        "people.csv: a model, a file of a classifier's predictions",
        (
            "nli-occupation: a suite of the family nli: 1,936,512 cases, for a pair classifier with entailment, neutral"
            " and contradiction labels, or a chat model"
        ),
    ]


def test_the_folder_of_an_adapter_is_a_model(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("peft", reason="the extra [peft] is not installed")
    folder = project.mkdir("lora")
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": parse_spec("demo-lm").target}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    printed = type_command(project, monkeypatch, "check", "lora")
    assert (printed.status, printed.out) == (0, "lora: a model, a causal LM\n")


@pytest.mark.parametrize("language", ["de", "en", "it"])
def test_a_language_has_what_is_packaged_and_lacks_the_rest(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    printed = type_command(project, monkeypatch, "check", "--language", language)
    head, *lines = printed.out.splitlines()
    parts = {line.partition(":")[0].strip(): line for line in lines}
    assert head == f"language {language}:"
    assert list(parts)[:6] == ["refusals", "ask", "suites", "control items", "names", "other word lists"]
    assert printed.status == (language != "en") and ("how to write what is missing" in parts) == (language != "en")
    for folder, names in (("fixtures", ("suites",)), ("wordlists", ("names", "other word lists"))):
        for name in packaged.names(folder):
            said = f"language: {language}\n" in (packaged.folder(folder) / f"{name}.yaml").read_text(encoding="utf-8")
            listed = {one for part in names for one in parts[part].partition(";")[0].split(": ")[1].split(", ")}
            assert (name in listed) == said or name.startswith("refusals-"), name
    kinds = packaged.folder("fixtures") / "controls"
    there = {path.stem for path in (kinds / language).glob("*.yaml")}
    missing = {path.stem for path in (kinds / "en").glob("*.yaml")} - there
    listed, _, lacking = parts["control items"].partition("; missing: ")
    assert listed == f"  control items: {', '.join(sorted(there)) or 'none'}"
    assert lacking.partition(" (")[0] == ", ".join(sorted(missing))
    if language == "de":
        assert parts["ask"].startswith("  ask: line, or, yes, no, case; missing: letters, ")
    if language == "it":
        assert "none; missing: all (a suite file with language: it)" in parts["suites"]


def test_neither_a_file_nor_a_language_is_an_error(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = type_command(project, monkeypatch, "check")
    assert printed.status == 4 and "--language=de" in printed.err
    both = type_command(project, monkeypatch, "check", "--language=en", "tiny-lm.yaml")
    assert both.status == 0 and both.out.splitlines()[-1].startswith("tiny-lm.yaml: a suite")


CONTROLS = "controls: word-order\ntitle: t\nsource: s\nlicence: l\nlanguage: en\nitems:\n" + "".join(
    f"- The [old house] number {k} stood.\n" for k in range(20)
)


def test_control_items_are_read_alone_and_with_the_gates_that_name_them(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.path / "items.yaml").write_text(CONTROLS)
    (project.path / "own.bias.yaml").write_text(GATE.replace("baseline", "ability: items.yaml, baseline"))
    printed = type_command(project, monkeypatch, "check", "items.yaml", "own.bias.yaml")
    assert printed.status == 0
    assert printed.out.splitlines()[:2] == [
        "items.yaml: control items of ability (word-order, language en): 20 items",
        "own.bias.yaml: a gate file with 1 gate",
    ]
    (project.path / "items.yaml").write_text(CONTROLS.replace("[old", "old"))
    printed = type_command(project, monkeypatch, "check", "own.bias.yaml")
    assert printed.status == 1
    assert "items.yaml:7: expected two neighbouring words" in printed.out


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("own.yaml", SUITES["tiny-lm"].replace("tiny-lm", "own").replace("./persons", "./gone"), "gone.yaml"),
        ("persons.yaml", PERSONS.replace("entries:", "entires:"), "persons.yaml:7: unknown key 'entires'"),
        ("release.bias.yaml", GATE.replace("baseline", "basline"), "release.bias.yaml:1: unknown key 'basline'"),
        ("gates.yaml", GATE, "call it gates.bias.yaml"),
        ("other.yaml", "a: 1\n", "expected a suite"),
        ("people.csv", PEOPLE.replace("prediction", "predicted"), "people.csv:1: no column 'prediction'"),
        ("book.json", "{}", "expected a baseline"),
        ("run.json", '{"measurements": [], "schema": 1}', "expected schema 2, got 1"),
        ("run.json", "<<<<<<< ours\n", "run.json"),
        ("what.bin", "", "the kind of the file is unknown"),
        ("history.db", "none", "history.db"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_1(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, text: str, message: str
) -> None:
    (project.path / name).write_text(text)
    printed = type_command(project, monkeypatch, "check", name)
    assert printed.status == 1
    assert len(printed.out.splitlines()) == 1
    assert printed.out.startswith(f"{name}: wrong: ") and message in printed.out
    assert not printed.err


def test_one_wrong_file_hides_no_other(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = type_command(project, monkeypatch, "check", "gone.yaml", ".", "persons.yaml")
    assert printed.status == 1
    assert [line.split(":")[0] for line in printed.out.splitlines()] == ["gone.yaml", ".", "persons.yaml"]


def test_baselines_are_read_with_their_items(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project.makepyfile(check_models=MODELS)
    project.syspathinsert()
    assert project.runpytest("release.bias.yaml", "--bias-model=m=check_models:good", "--bias-update-new").ret == 0
    printed = type_command(project, monkeypatch, "check", "bias_baselines", "bias_baselines/m/release.bias.yaml.json")
    assert printed.status == 0
    assert "a folder of baselines with 1 file" in printed.out
    assert printed.out.count("a baseline with 1 entry, each with its items, accepted from 20") == 2
    (items,) = Path("bias_baselines/m").glob("*.npz")
    items.write_bytes(b"other")
    printed = type_command(project, monkeypatch, "check", "bias_baselines")
    assert printed.status == 1
    assert items.name in printed.out and "restore it" in printed.out


def test_reports_and_histories_are_read_back(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(run_report(), Path("run.json"))
    write_history(run_report(), Path("runs.db"))
    printed = type_command(pytester, monkeypatch, "check", "run.json", "runs.db")
    assert printed.out.splitlines() == [
        "run.json: the report of a run of 2026-11-22T10:00:00+00:00: 1 measurement, 2 judgements",
        "runs.db: a history with 1 statistic",
    ]
    content = json.loads(Path("run.json").read_text())
    del content["measurements"][0]["suite"]
    Path("run.json").write_text(json.dumps(content))
    assert type_command(pytester, monkeypatch, "check", "run.json").status == 1


def test_an_audit_pack_is_held_against_its_manifest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = pytester.mkdir("audit") / "pack"
    pack.mkdir()
    (pack / "verdicts.csv").write_text("pass\n")
    digest = hashlib.sha256(b"pass\n").hexdigest()
    (pack / "manifest.json").write_text(
        json.dumps({"schema": 1, "files": [{"path": "verdicts.csv", "sha256": digest}]})
    )
    printed = type_command(pytester, monkeypatch, "check", "audit", "audit/pack")
    assert printed.status == 0
    assert printed.out.splitlines() == [
        "audit: a folder with 1 audit pack",
        "  pack: an audit pack, as its manifest lists it",
        "audit/pack: an audit pack, as its manifest lists it",
    ]
    (pack / "verdicts.csv").write_text("fail\n")
    (pack / "more.csv").write_text("")
    printed = type_command(pytester, monkeypatch, "check", "audit")
    assert printed.status == 1
    assert "verdicts.csv: changed; more.csv: not in the manifest" in printed.out


def test_a_folder_of_data_says_what_is_there_and_reads_it(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.mkdir("data") / "crows_pairs"
    folder.mkdir()
    rows = [",sent_more,sent_less,stereo_antistereo,bias_type,annotations,anon_writer,anon_annotators"]
    rows += [f"{n},She is {n} nurse.,He is {n} nurse.,stereo,gender,[],a,[]" for n in range(3)]
    (folder / "crows_pairs_anonymized.csv").write_text("\n".join(rows) + "\n")
    printed = type_command(project, monkeypatch, "check", "data")
    assert printed.status == 0
    assert "data: a folder with 1 of 17 data sets" in printed.out
    assert "pairs-pll: 6 cases" in printed.out and "not there: snli, " in printed.out
    (folder / "crows_pairs_anonymized.csv").write_text("\n".join(rows).replace("sent_less", "sent"))
    printed = type_command(project, monkeypatch, "check", "data")
    assert printed.status == 1
    assert "sent_less" in printed.out


def test_every_data_set_has_a_suite_that_reads_it() -> None:
    assert {data.read_by["suite"] for data in known_data_sets().values()} <= set(suite_names())


def test_each_category_of_a_data_set_is_read(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, shared_data: Path
) -> None:
    folder = project.mkdir("data") / "bbq"
    folder.mkdir()
    (folder / "Religion.jsonl.gz").symlink_to(shared_data / "bbq" / "Religion.jsonl.gz")
    printed = type_command(project, monkeypatch, "check", "data")
    assert printed.status == 0
    with gzip.open(shared_data / "bbq" / "Religion.jsonl.gz") as lines:
        questions = sum(1 for _ in lines)
    assert f"bbq: {6 * questions:,} cases" in printed.out  # in six orders of the three answers
