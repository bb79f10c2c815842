"""Flags are declared once: what a declaration promises, for every flag, and the parsers of values."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from pytest_genderbias.gates.policy import Margin
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import flag_values
from pytest_genderbias.plugin.flag_values import Origin
from pytest_genderbias.plugin.flags import FLAGS
from pytest_genderbias.plugin.options import Settings, read_settings
from pytest_genderbias.text.schema import Count

ORIGIN = Origin("bias_cache_size", Path(), Path())
NO_INI = {"--bias-update", "--bias-update-new", "--bias-reason", "--bias-compare"}
#: A value as a user writes it and the setting that comes of it, for fields that :func:`example` makes none for.
OWN_EXAMPLES: dict[str, tuple[str, object]] = {
    "models": ("m=gpt2 n=http://127.0.0.1:9/v1#chat", ("m", "n")),
    "selection": ("disco-names", ("disco-names",)),
    "options": ("nli-occupation:unit=word_pair", (("nli-occupation", "unit", "word_pair"),)),
    "device": ("cpu", "cpu"),
    "dtype": ("float16", "float16"),
    "executor": ("ray", "ray"),
    "ray": ("127.0.0.1:6379", "127.0.0.1:6379"),
    "workers": ("4x2", (4, 2)),
    "labels": ("a,b", ("a", "b")),
    "tokenizers": ("n=org/chat", (("n", "org/chat"),)),
    "endpoint_version": ("2026-11-23", "2026-11-23"),
    "system_prompt": ("You are brief.", "You are brief."),
    "temperature": ("0.7", 0.7),
    "data": (".", Path()),
    "cache_size": ("2kB", 2000),
    "shared_cache": ("memory://scores", "memory://scores"),
    "reason": ("because  so", "because so"),
    "correct_for": ("9", 9),
    "no_worse_than": ("m", "m"),
    "same_as": ("m", "m"),
    "margin": ("20%", Margin(share=0.2)),
    "sees": ("30%", 0.3),
    "ability": ("none: a reason", "none: a reason"),
}


def example(name: str, kind: str) -> tuple[str, object]:
    """Return a value as a user writes it and the setting that comes of it, for a field of this name and type."""
    usual = {"bool": ("true", True), "int": ("53", 53), "Path": (name, Path(name)), "Place": (name, Path(name))}
    return OWN_EXAMPLES[name] if name in OWN_EXAMPLES else usual[kind.removesuffix(" | None")]


EXAMPLES = {entry.name: example(entry.name, str(entry.type)) for entry in fields(Settings)}
#: Flags that exclude each other: a run has all flags but these.
APART = ({"no_cache", "update_new", "same_as"}, {"update_all", "reason", "no_worse_than"})


@pytest.fixture(autouse=True)
def ray_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flag_values, "find_spec", lambda name: True)


def settings_of(pytester: pytest.Pytester, *arguments: str) -> Settings:
    return read_settings(pytester.parseconfigure(*arguments))


def expected(field: str, folder: Path) -> object:
    """The setting of an example, in a project in this folder."""
    value = EXAMPLES[field][1]
    return folder / value if isinstance(value, Path) else value


def plain(value: object) -> object:
    """The part of a setting that an example names."""
    if isinstance(value, tuple) and value and isinstance(value[0], ModelSpec):
        return tuple(spec.name for spec in value)
    return value


def test_every_setting_is_a_declared_flag_with_help() -> None:
    assert list(FLAGS) == list(EXAMPLES) and OWN_EXAMPLES.keys() <= EXAMPLES.keys()
    for flag in FLAGS.values():
        assert flag.name.startswith("--bias-" if flag.is_typed_by_name else "bias_") and flag.help
        assert flag.is_typed_by_name or flag.has_ini
        assert not (flag.is_switch and (flag.repeatable or flag.default))
    assert {flag.name for flag in FLAGS.values() if not flag.has_ini} == NO_INI
    assert sum(flag.is_typed_by_name for flag in FLAGS.values()) <= 25, "make a rare setting a key of the ini file"


@pytest.mark.parametrize("without", APART)
def test_every_flag_reaches_the_settings(pytester: pytest.Pytester, without: set[str]) -> None:
    arguments = []
    for field, (text, _) in EXAMPLES.items():
        flag = FLAGS[field]
        if not flag.is_typed_by_name:
            continue
        values = text.split() if flag.repeatable else [text]
        if field not in without:
            arguments += [flag.name] if flag.is_switch else [f"{flag.name}={value}" for value in values]
    settings, untouched = settings_of(pytester, *arguments), settings_of(pytester)
    for field in EXAMPLES.keys() - without - {name for name, flag in FLAGS.items() if not flag.is_typed_by_name}:
        assert plain(getattr(settings, field)) == expected(field, pytester.path), field
        assert plain(getattr(settings, field)) != plain(getattr(untouched, field)), field


@pytest.mark.parametrize("without", APART)
def test_every_ini_key_reaches_the_settings(pytester: pytest.Pytester, without: set[str]) -> None:
    declared = [field for field, flag in FLAGS.items() if flag.has_ini and field not in without]
    lines = [f"{FLAGS[field].ini_key} = {EXAMPLES[field][0]}" for field in declared]
    pytester.makeini("\n".join(["[pytest]", *lines]))
    settings = settings_of(pytester)
    for field in declared:
        assert plain(getattr(settings, field)) == expected(field, pytester.path), field


def test_help_lists_every_flag_and_ini_key(pytester: pytest.Pytester) -> None:
    shown = pytester.runpytest("--help").stdout.str()
    assert "bias regression tests" in shown
    for flag in FLAGS.values():
        typed = f"  --{flag.ini_key.replace('_', '-')}{f'={flag.metavar}' if flag.metavar else ''}"
        assert (typed in shown) == flag.is_typed_by_name
        if flag.has_ini:
            assert f"  {flag.ini_key} (" in shown


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("--bias-modle=m", "did you mean --bias-model?"),
        ("--bias-sute=weat", "did you mean --bias-suite?"),
        ("--bias-resaon=new data", "did you mean --bias-reason?"),
        ("--bias_json=x", ""),
        ("--bias-own=1", ""),
        ("--bias-executor=ray", "for one run write -o bias_executor=ray"),
        ("--bias-variance", "for one run write -o bias_variance=true"),
    ],
)
def test_a_misspelt_flag_names_the_one_that_is_meant(pytester: pytest.Pytester, argument: str, hint: str) -> None:
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--bias-modell')")
    result = pytester.runpytest(argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*unrecognized arguments: {argument}{'; *' if hint else ''}{hint}*"])
    assert pytester.runpytest("--bias-modell=x").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_old_name_of_a_renamed_flag_is_a_usage_error(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--bias-family=none")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unrecognized arguments: --bias-family=none*"])


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1234", 1234),
        ("500MB", 500 * 10**6),
        ("2gb", 2 * 10**9),
        ("1.5 KiB", 1536),
        ("3 B", 3),
        ("1TB", 10**12),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert flag_values.size(text, ORIGIN) == size


@pytest.mark.parametrize("text", ["", "big", "-1", "GB", "1XB", "1e9", "1,5GB", "nan", "inf", "1 2"])
def test_what_is_no_size_is_a_usage_error(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="bias_cache_size: expected a size such as 500MB, 2GB or 1GiB"):
        flag_values.size(text, ORIGIN)


@pytest.mark.parametrize("text", ["²", "1.5", "-1", "x", "0"])
def test_what_is_no_whole_number_is_a_usage_error(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="expected a whole number of at least 1, got"):
        flag_values.value(Count)(text, ORIGIN)


@pytest.mark.parametrize(("text", "share"), [("50%", 0.5), (" 2.5 % ", 0.025), ("150%", 1.5)])
def test_growths(text: str, share: float) -> None:
    assert flag_values.growth(text, ORIGIN) == share


@pytest.mark.parametrize("text", ["", "50", "0.5", "0%", "-5%", "much", "nan%", "1,5%"])
def test_what_is_no_growth_is_a_usage_error(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="expected a growth in percent, as 50%, got"):
        flag_values.growth(text, ORIGIN)
