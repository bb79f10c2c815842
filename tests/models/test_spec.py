"""Names of models, which are names of folders, and specs as files of a project hold them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_genderbias.errors import ModelError, SettingError
from pytest_genderbias.models.spec import ENGINES, check_name, parse_spec, portable_spec

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "your-model.md"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("CON", "on Windows CON is a device"),
        ("nul", "on Windows NUL is a device"),
        ("Aux.tar", "on Windows AUX is a device"),
        ("COM1.x", "on Windows COM1 is a device"),
        ("lpt0", "on Windows LPT0 is a device"),
        ("a.", "Windows takes away the dot at the end"),
        ("a" * 129, "a name has at most 128 characters"),
    ],
)
def test_a_name_that_no_folder_can_have_everywhere_is_refused(name: str, why: str) -> None:
    with pytest.raises(SettingError, match=f"its baselines are in a folder of this name, and .*{why}"):
        check_name(name)
    with pytest.raises(ModelError, match=rf"{why}; give it another name: --bias-model=OTHER=demo-nli"):
        parse_spec(f"{name}=demo-nli")


@pytest.mark.parametrize("name", ["a ", " a", "", ".a", "a/b", "a:b", "a\nb"])
def test_a_name_has_letters_digits_and_three_signs(name: str) -> None:
    with pytest.raises(SettingError, match=r"letters, digits, '.', '_' and '-' only"):
        check_name(name)


@pytest.mark.parametrize("name", ["console", "com10", "a.b", "nul-1", "aux_", "x" * 128])
def test_names_that_only_look_like_those_are_names(name: str) -> None:
    assert check_name(name) == name and parse_spec(f"{name}=demo-nli").name == name


def test_a_folder_with_such_a_name_needs_another(tmp_path) -> None:
    (tmp_path / "aux").mkdir()
    (tmp_path / "aux" / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="a model cannot be called 'aux'"):
        parse_spec(str(tmp_path / "aux"))
    assert parse_spec(f"mine={tmp_path / 'aux'}").name == "mine"


@pytest.mark.parametrize(
    ("spec", "portable"),
    [
        ("/home/me/runs/bert", "bert"),
        ("/home/me/runs/seed-{seed}", "seed-{seed}"),
        ("~/runs/bert", "bert"),
        ("C:\\Users\\me\\bert", "bert"),
        ("text:/data/a.txt", "text:a.txt"),
        ("runs/bert", "runs/bert"),
        ("google/bert", "google/bert"),
        ("module:build", "module:build"),
        ("text:a.txt", "text:a.txt"),
    ],
)
def test_a_spec_in_a_file_of_a_project_says_nothing_of_a_machine(spec: str, portable: str) -> None:
    assert portable_spec(spec) == portable


@pytest.mark.parametrize(
    ("typed", "meant"), [("bert-bsae", "bert-base"), ("demo-ml", "demo-mlm"), ("roberta_base", "roberta-base")]
)
def test_a_misspelt_alias_is_named_before_the_hub_is_asked(typed, meant):
    with pytest.raises(
        ModelError, match=rf"no alias '{typed}'; did you mean .*{meant}.*\? An id of the hub begins with"
    ):
        parse_spec(typed)


def test_all_demo_models_are_no_model():
    with pytest.raises(ModelError, match="all of the demo models; expected one of demo-mlm, demo-lm, demo-nli"):
        parse_spec("name=demo")


@pytest.mark.parametrize(
    "typed", ["bert-base-uncased", "albert-base-v1", "xlm-roberta-large", "t5-small", "me/bert-bsae"]
)
def test_an_id_of_the_hub_is_no_misspelt_alias(typed):
    assert parse_spec(typed).kind == "hub"


@pytest.mark.parametrize(
    ("spec", "name", "target", "revision"),
    [
        ("org/model@v1.0", "model", "org/model", "v1.0"),
        ("org/model@refs/pr/3", "model", "org/model", "refs/pr/3"),
        ("mine=gpt2@607a30d", "mine", "openai-community/gpt2", "607a30d"),
        ("gpt2", "gpt2", "openai-community/gpt2", None),
        ("vllm:org/model@v1", "model", "org/model", "v1"),
        ("gpt2@v1", "gpt2", "openai-community/gpt2", "v1"),
    ],
)
def test_a_hub_id_may_have_a_revision(spec: str, name: str, target: str, revision: str | None) -> None:
    parsed = parse_spec(spec)
    assert (parsed.name, parsed.target, parsed.revision) == (name, target, revision)


@pytest.mark.parametrize(
    "spec", ["tuned@v1", "tuned=tuned@base", "org/model@v1", "gpt2@v1", "adapter:org/lora@tuned@v1"]
)
def test_a_folder_has_no_revision(spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformers loads the folder of that name, whatever the revision."""
    for folder in ("tuned", "org/model", "openai-community/gpt2"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"is a folder here, and @\w+ cannot choose a revision of it"):
        parse_spec(spec)


def test_the_base_of_an_adapter_may_have_a_revision() -> None:
    base = parse_spec("adapter:org/lora@org/model@v1").base
    assert base is not None and (base.target, base.revision) == ("org/model", "v1")


@pytest.mark.parametrize("spec", ["org/model@", "org/model@-x", "org/model@a b", "org/model@@v1", "@v1"])
def test_a_revision_that_cannot_be_one_is_refused(spec: str) -> None:
    with pytest.raises(ModelError, match="ID@REVISION"):
        parse_spec(spec)


@pytest.mark.parametrize("spec", [engine.spec for engine in ENGINES.values() if engine.spec])
def test_the_message_and_the_guide_have_each_way_to_write_a_spec(spec: str) -> None:
    with pytest.raises(ModelError, match=re.escape(f" {spec},")):
        parse_spec("./nowhere")
    assert f"`{spec}`" in GUIDE.read_text()


def test_a_prefix_wins_over_a_module_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("results.py").write_text("def build(): ...\n")
    with pytest.raises(ModelError, match="no file 'build'; expected results: with a table"):
        parse_spec("mine=results:build")
    assert parse_spec("adapter:org/lora").kind == "adapter"
    Path("build").write_text("{}")
    assert parse_spec("results:build").kind == "results"
