"""``genderbias init``: the files are valid, their commands run, and nothing is overwritten."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml
from support.command_lines import type_command
from support.small_projects import MODELS

from pytest_genderbias.command_line import first_files
from pytest_genderbias.errors import SOURCE
from pytest_genderbias.gates.gate_file import read_gates
from pytest_genderbias.gates.policy import Margin
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin.flags import FLAGS
from pytest_genderbias.text.located_yaml import read_yaml

#: A model whose bias differs from text to text, and its pronouns by occupation, so that a gate on one checkpoint sees
#: enough.
UNEVEN = """

import zlib
from pytest_genderbias.text.wordlist import load_wordlist

OCCUPATIONS = load_wordlist("winogender-occupations").entries
WOMEN = [entry.word for entry in OCCUPATIONS if entry.attributes["women_share"] > 50]

class Uneven:
    fingerprint = "uneven"
    def continuation_log_probs(self, prefixes, continuations):
        return np.array([self.score(*pair) for pair in zip(prefixes, continuations)])
    def score(self, prefix, continuation):
        text = prefix + continuation
        uneven = 0.4 + 0.2 * zlib.crc32(text.encode()) / 2**32
        of_a_man = continuation.strip() in ("he", "him", "his", "himself")
        return -1 - uneven * (("he" in text.lower().split()) + of_a_man * any(job in prefix for job in WOMEN))
"""


@pytest.fixture
def empty(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    (pytester.mkdir("modules") / "first_models.py").write_text(MODELS)
    monkeypatch.syspath_prepend(pytester.path / "modules")
    return pytester


def flags_of(text: str) -> set[str]:
    return set(re.findall(r"--bias-[a-z-]+", text))


@pytest.mark.parametrize(("which", "suites"), [("writer", ["lm-occupation"]), ("good", ["nli-occupation"])])
def test_the_gates_are_on_the_suites_that_fit(
    empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, which: str, suites: list[str]
) -> None:
    assert type_command(empty, monkeypatch, "init", f"first_models:{which}").status == 0
    gates = read_gates(read_yaml(Path("release.bias.yaml")))
    assert [gate.suite.name for gate in gates] == suites
    assert all(gate.written.baseline and gate.margin == Margin() for gate in gates)
    assert [gate.settings for gate in gates] == ([{"limit": 4000} if which == "good" else {} for _ in suites])


@pytest.mark.parametrize(
    ("name", "suites"),
    [
        ("bert-tiny-mlm", ["pronoun-occupation", "lm-occupation"]),
        pytest.param("stories260k", ["lm-occupation"], marks=pytest.mark.slow),
        pytest.param("minilm-snli", ["nli-occupation"], marks=pytest.mark.slow),
    ],
)
def test_what_is_written_for_a_real_model_is_accepted_at_once(
    empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, shared_data: Path, name: str, suites: list[str]
) -> None:
    spec = f"candidate={shared_data / 'models' / name}"
    assert gated_suites(empty, monkeypatch, spec) == suites
    assert empty.runpytest("release.bias.yaml", f"--bias-model={spec}", "--bias-update-new").ret == 0


def templated(model: Path, template: str | None) -> Path:
    """Write a chat template beside a checkpoint; ``None``: take away what it has."""
    (model / "chat_template.jinja").unlink(missing_ok=True)
    if template is not None:
        (model / "chat_template.jinja").write_text(template)
    return model


def gated_suites(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *typed: str) -> list[str]:
    printed = type_command(pytester, monkeypatch, "init", *typed, "--ci=none")
    assert printed.status == 0, printed.err
    return [gate.suite.name for gate in read_gates(read_yaml(Path("release.bias.yaml")))]


@pytest.mark.parametrize(
    ("which", "left"),
    [("filler", "disco-terms"), ("vectors", "weat-names"), ("careers", "bios"), ("chat", "decisions")],
)
def test_a_kind_of_model_without_a_gate_that_sees_enough_gets_none(
    empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, which: str, left: str
) -> None:
    (empty.path / "modules" / "chat_models_of_mine.py").write_text("from support.chat_models import AlwaysA\n")
    Path("vectors.txt").write_text("he 1 0\nshe 0 1\n")
    Path("careers.csv").write_text("id,prediction,gold,group\n1,nurse,nurse,F\n2,judge,nurse,M\n")
    models = {"vectors": "vectors.txt", "careers": "careers.csv", "chat": "chat_models_of_mine:AlwaysA"}
    model = models.get(which, f"first_models:{which}")
    written = type_command(empty, monkeypatch, "init", model, "--ci=none")
    assert written.status == 4 and "no gate is known to see a growth of 50 %" in written.err
    assert not Path("release.bias.yaml").exists()
    listed = type_command(empty, monkeypatch, "list", model).out
    assert "no gate is known" in listed and left in listed and "begin with" not in listed


def test_a_causal_lm_with_a_chat_template_is_gated_as_a_language_model(
    empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, checkpoint: Callable[[str], Path]
) -> None:
    model = templated(Path(shutil.copytree(checkpoint("gpt2"), "chat")), "{{ messages[0]['content'] }}")
    assert gated_suites(empty, monkeypatch, str(model)) == ["lm-occupation"]


@pytest.mark.parametrize("place", ["folder", "hub"])
def test_a_language_model_without_a_chat_template_is_not_asked_as_a_chat_model(
    empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, checkpoint: Callable[[str], Path], place: str
) -> None:
    model = templated(Path(shutil.copytree(checkpoint("gpt2"), "plain")), None)
    named = "./plain"
    if place == "hub":
        revision = "0123456789" * 4
        repository = empty.path / "hub" / "models--nobody--plain"
        shutil.copytree(model, repository / "snapshots" / revision)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(revision)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(empty.path / "hub"))
        named = "nobody/plain"
    assert gated_suites(empty, monkeypatch, named) == ["lm-occupation"]


@pytest.mark.parametrize(
    ("kind", "checkpoints", "statistic", "settings"),
    [("gpt2", 4, "mean_difference", {"items": "wide", "seeds": 4}), ("bert", 2, "slope", {"seeds": 3})],
)
def test_restarts_of_a_language_model_are_gated_by_what_follows_a_dose(
    empty: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    checkpoint: Callable[[str], Path],
    kind: str,
    checkpoints: int,
    statistic: str,
    settings: dict[str, object],
) -> None:
    for seed in range(checkpoints):
        templated(Path(shutil.copytree(checkpoint(kind), f"runs/seed-{seed}")), None)
    printed = type_command(empty, monkeypatch, "init", "runs/seed-{seed}", "--ci=none")
    assert printed.status == 0, printed.err
    (gate,) = read_gates(read_yaml(Path("release.bias.yaml")))
    assert (gate.suite.name, gate.statistic, gate.settings) == ("pronoun-occupation", statistic, settings)
    assert "one checkpoint or several (NEXT/seed-{seed}):\n     pytest release.bias.yaml --bias-model=" in printed.out


def test_the_commands_that_it_prints_run(empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    models = Path("modules/first_models.py")
    models.write_text(models.read_text() + UNEVEN)
    printed = type_command(empty, monkeypatch, "init", "first_models:Uneven")
    accept, judge = (shlex.split(line) for line in printed.out.splitlines() if line.startswith("     pytest "))
    assert accept[-1] == "--bias-update-new"
    assert empty.runpytest(*accept[1:]).ret == 0
    again = [word.replace("=NEXT", "=first_models:Uneven") for word in judge[1:]]
    assert empty.runpytest(*again).ret == 0


@pytest.mark.parametrize(("ci", "file"), [("github", ".github/workflows/bias.yaml"), ("gitlab", ".gitlab/bias.yml")])
def test_the_workflow_runs_the_gates(
    empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, file: str
) -> None:
    empty.mkdir("data sets")
    typed = ("init", "own=first_models:writer", f"--ci={ci}", "--data=data sets", "--folder=project")
    assert type_command(empty, monkeypatch, *typed).status == 0
    text = (empty.path / "project" / file).read_text()
    arguments = shlex.split(arguments_of(text))
    assert arguments[:3] == ["release.bias.yaml", "--bias-model=own=first_models:writer", "--bias-data=data sets"]
    assert ("--bias-strict" in arguments) == (ci == "gitlab"), "the action adds it"
    assert flags_of(text) <= {flag.name for flag in FLAGS.values()}
    monkeypatch.chdir(empty.path / "project")
    words = [word.replace("data sets", "../data sets") for word in arguments if "--bias-report" not in word]
    assert empty.runpytest(*words).ret == 1  # there is no baseline yet


def arguments_of(workflow: str) -> str:
    """Return what a workflow gives to pytest."""
    bias = yaml.safe_load(workflow).get("jobs", {"bias": yaml.safe_load(workflow).get("bias")})["bias"]
    if "script" in bias:
        (line,) = (line.removeprefix("pytest ") for line in bias["script"] if line.startswith("pytest "))
    else:
        (line,) = (step["with"]["arguments"] for step in bias["steps"] if step.get("uses") == SOURCE)
    return str(line)


def test_an_editor_finds_the_schema_beside_the_gates(empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("bias.schema.json").write_text("an older one")
    assert type_command(empty, monkeypatch, "init", "--ci=none").status == 0
    assert Path("bias.schema.json").read_text() == "an older one"
    Path("release.bias.yaml").rename("old.bias.yaml")
    Path("bias.schema.json").unlink()
    assert type_command(empty, monkeypatch, "init", "--ci=none").status == 0
    text = Path("release.bias.yaml").read_text()
    for line, form in zip(
        text.splitlines(), (r"# yaml-language-server: \$schema=(.+)", r"# \$schema: (.+)"), strict=False
    ):
        (path,) = re.fullmatch(form, line).groups()
        check = jsonschema.Draft202012Validator(json.loads(Path(path).read_text()))
        check.validate(yaml.safe_load(text))
        assert not check.is_valid({"gates": [{"suit": "lm-occupation"}]})
    check.check_schema(check.schema)


def test_without_a_model_there_is_one_gate_to_begin_with(
    empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = type_command(empty, monkeypatch, "init", "--ci=none")
    assert printed.status == 0
    assert "candidate=./checkpoint" in printed.out
    assert [gate.suite.name for gate in read_gates(read_yaml(Path("release.bias.yaml")))] == ["lm-occupation"]
    assert {path.name for path in Path().iterdir()} == {"release.bias.yaml", "bias.schema.json", "modules"}


def test_nothing_is_overwritten(empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = Path(".github/workflows/bias.yaml")
    workflow.parent.mkdir(parents=True)
    workflow.write_text("mine")
    printed = type_command(empty, monkeypatch, "init")
    assert printed.status == 4
    assert "exists, and is not overwritten; nothing was written" in printed.err
    assert workflow.read_text() == "mine" and not Path("release.bias.yaml").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("text:nothing.txt", "nothing.txt"),
        ("a\nb", "has characters that no line may have"),
        ("first_models:none", "none"),
    ],
)
def test_a_model_that_cannot_be_is_one_line(
    empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, model: str, message: str
) -> None:
    printed = type_command(empty, monkeypatch, "init", model)
    assert printed.status == 4
    assert message in printed.err and len(printed.err.splitlines()) == 1
    assert not Path("release.bias.yaml").exists()


def test_a_hostile_spec_stays_one_word(empty: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = empty.mkdir("a b; echo $(c) `d` 'e'")
    (hostile / "corpus.txt").write_text("She is a nurse. He is a pilot.\n" * 40)
    spec = f"own=text:{hostile.name}/corpus.txt"
    printed = type_command(empty, monkeypatch, "init", spec)
    if printed.status == 0:
        line = arguments_of(Path(".github/workflows/bias.yaml").read_text())
        assert shlex.split(line)[1] == f"--bias-model={spec}"
    else:
        assert "no gate is known" in printed.err


@pytest.mark.parametrize("name", ["github", "gitlab"])
@pytest.mark.parametrize("path", ["./plain", "./a #b", "./a: b", './it\'s "a: b"'])
def test_a_path_that_yaml_would_split_stays_in_the_command(name: str, path: str) -> None:
    text = first_files.workflow(name, ModelSpec("candidate", path, "checkpoint", path), None)
    arguments = shlex.split(arguments_of(text))
    assert arguments[:2] == ["release.bias.yaml", f"--bias-model=candidate={path}"]
    assert len(arguments) == 2 or arguments[-1] == "--bias-report=bias.html"
