"""``genderbias init``: a first gate file for a model, and a workflow that runs it in CI; and ``genderbias schema``, the
JSON Schema of gate files, for editors, or that of reports, for programs.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import cast

from pytest_genderbias.command_line.arguments import Typed
from pytest_genderbias.errors import SOURCE, SettingError
from pytest_genderbias.escaping import print_lines
from pytest_genderbias.folders import write_whole
from pytest_genderbias.measurement.fit import FELT, NONE_KNOWN, Fit, fit_of, start_set
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.models.roles import CAUSAL_LM, MASKED_LM, Role
from pytest_genderbias.models.spec import SEED, ModelSpec, parse_spec
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.text.printable import json_text

_GATES, _SCHEMA = "release.bias.yaml", "bias.schema.json"
_NAME = "candidate"  #: of a model without a name: baselines belong to it, whatever folder the next release is in
_SAMPLE = 4_000  #: cases of a suite that has many more
_OF_CAUSAL = "items: wide"  #: setting of gates on restarts of a causal LM
_FEWEST, _MOST = 3, 10  #: restarts that a gate is written for

_HEAD = """\
# yaml-language-server: $schema={schema}
# $schema: {schema}
# The first line is for VS Code and others, the second for JetBrains: their editors complete and check this file.
# Gates on a release: `pytest --bias-model={model}{data}` runs each of them as a test.
# They compare with the baseline in bias_baselines/, which belongs into version control with this file.
# To accept the model's current values:
#   pytest --bias-model={model}{data} --bias-update-new
gates:
"""
_GATE = """\
  # {title}: {question}
  # `genderbias show {suite}` says how to read {statistic}, and what the literature says against it.
  - suite: {suite}{which}
    baseline: true       # not worse than the last accepted release, compared item by item, beyond what chance explains
"""
_OF_ONE = """\
  # This gate stopped next to none of the planted doses of bias. One of restarts, which init writes for a SPEC with
  # {seed}, stops most, even if each later release is one checkpoint: take five.
"""
_LIMIT = """\
  # A limit needs no baseline. Uncomment it, and choose the number from what the first run measured:
  # - suite: {suite}
  #   {kind}: {value}
"""
#: With the versions of the clone: its torch is the one that needs no GPU.
_INSTALL = f"pip install -c {SOURCE}/constraints.txt {SOURCE}"
#: Where the workflow of each CI service is written. It is made of ``ci_SERVICE.yaml``.
_WORKFLOWS = {"github": ".github/workflows/bias.yaml", "gitlab": ".gitlab/bias.yml"}


def carry_out(typed: Typed) -> int:
    """Print a schema; or write the files, and say what to type next. Nothing is written if one of them exists."""
    if typed.command == "schema":
        print(schema_text(typed.values["of"]))
        return 0
    folder, data = Path(typed.values["folder"]), cast("str | None", typed.flags.get("data"))
    spec = _named(typed.values["model"])
    files = {_GATES: gate_file(_first_gates(spec, data), spec, data)}
    if not (folder / _SCHEMA).exists():
        files[_SCHEMA] = schema_text("gates")
    if typed.values["ci"] in _WORKFLOWS:
        files[_WORKFLOWS[typed.values["ci"]]] = workflow(typed.values["ci"], spec, data)
    _write(folder, files)
    print_lines("\n".join(_next_steps(folder, list(files), spec, data)))
    return 0


def schema_text(of: str) -> str:
    """Return the schema of ``gates`` or of a ``report``."""
    return json_text(
        door("schema of a report")() if of == "report" else door("schema of gates")(door("schema of mitigations"))
    )


def gate_file(fits: Sequence[Fit], spec: ModelSpec | None, data: str | None) -> str:
    """Return the text of a gate file with a gate on each suite."""
    text = _HEAD.format(model=shlex.quote(_model(spec)), data=_data(data), schema=_SCHEMA)
    kind = "" if spec is None else _role(Runner(), spec).kind
    for fit in fits:
        suite = fit.suite
        question = suite.about.question.partition("?")[0] + "?"
        statistic, which = suite.main_statistic, ""
        if suite.name in FELT and kind == MASKED_LM:
            statistic, which = "slope", "\n    statistic: slope"  # it sees smaller doses of bias than the main one
        text += _GATE.format(title=suite.title, question=question, suite=suite.name, statistic=statistic, which=which)
        if settings := list(_settings(fit, spec, kind)):
            cases = f"   # of {fit.cases:,} cases" if settings[0].startswith("limit") else ""
            text += f"    settings: {{{', '.join(settings)}}}{cases}\n"
        elif kind == CAUSAL_LM:
            text += _OF_ONE
    first = fits[0].suite
    direction = first.statistics[first.main_statistic].direction
    limit = {"higher": "at_most", "lower": "at_least", "away": "within"}[direction]
    return text + _LIMIT.format(suite=first.name, kind=limit, value=0.5)


def _settings(fit: Fit, spec: ModelSpec | None, kind: str) -> Iterator[str]:
    if fit.cases is not None and fit.cases > 10 * _SAMPLE:
        yield f"limit: {_SAMPLE}"
    if spec is not None and spec.seeded:
        if fit.suite.name in FELT and kind == CAUSAL_LM:
            yield _OF_CAUSAL
        there = takewhile(lambda k: Path(spec.spec.replace(SEED, str(k))).exists(), range(_MOST))
        yield f"seeds: {max(_FEWEST, len(list(there)))}"


def _role(runner: Runner, spec: ModelSpec) -> Role:
    return runner.models.source(spec.for_seed(0)).role


def workflow(service: str, spec: ModelSpec | None, data: str | None) -> str:
    """Return the text of a workflow of a CI service that judges the gates of a model."""
    template = Path(__file__).with_name(f"ci_{service}.yaml").read_text(encoding="utf-8")
    arguments = f"{_GATES} {shlex.quote(f'--bias-model={_model(spec)}')}{_data(data)}"
    text = template.replace("SOURCE", SOURCE).replace("INSTALL", _INSTALL)
    return "\n".join(_with_arguments(line, arguments) for line in text.split("\n"))


def _with_arguments(line: str, arguments: str) -> str:
    """Return a line of a workflow with pytest's arguments, in quotes where YAML would read it as something else."""
    before, here, behind = line.partition("ARGUMENTS")
    if not here:
        return line
    key, pytest, _ = before.partition("pytest ")
    whole = pytest + arguments + behind
    return key + (json.dumps(whole, ensure_ascii=False) if ": " in whole or " #" in whole else whole)


def _first_gates(spec: ModelSpec | None, data: str | None) -> list[Fit]:
    """Return the suites that fit a model, those that decide most first.

    Raises:
        SettingError: no gate is known for such a model.
    """
    runner = Runner(data=data)
    if spec is None:
        return [Fit(runner.suites("lm-occupation"))]
    role = _role(runner, spec)
    if first := start_set(role.kind, lambda name: fit_of(runner, runner.suites(name), spec), spec.seeded):
        return first
    where = "without --data" if data is None else "with these data"
    raise SettingError(
        f"{spec.name} is {role.text}: {NONE_KNOWN}, {where}. Nothing was written; what fits, for a gate with a limit:"
        f" genderbias list {shlex.quote(spec.spec)}"
    )


def _named(text: str | None) -> ModelSpec | None:
    """Return the model, with a name of its own if the user gave none.

    Raises:
        ModelError, SettingError: it cannot be read, or stands in no file.
    """
    if text is None:
        return None
    if not text.isprintable():
        raise SettingError(f"the model cannot stand in a workflow: {text!r:.80} has characters that no line may have")
    spec = parse_spec(text)
    return spec if text == f"{spec.name}={spec.spec}" else parse_spec(f"{_NAME}={spec.spec}")


def _model(spec: ModelSpec | None) -> str:
    return f"{_NAME}=./checkpoint" if spec is None else f"{spec.name}={spec.spec}"


def _data(data: str | None) -> str:
    return "" if data is None else f" {shlex.quote(f'--bias-data={data}')}"


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write new files.

    Raises:
        SettingError: one of them exists; none is written then.
        WriteError: one cannot be written.
    """
    if there := [name for name in files if (folder / name).exists()]:
        raise SettingError(
            f"{folder / there[0]} exists, and is not overwritten; nothing was written. Move it, or name another"
            " --folder"
        )
    for name, text in files.items():
        write_whole(folder / name, text.encode())


def _next_steps(folder: Path, names: Sequence[str], spec: ModelSpec | None, data: str | None) -> Iterator[str]:
    """Yield what was written, and what to type."""
    for name in names:
        yield f"wrote {folder / name}"
    model, name = shlex.quote(f"--bias-model={_model(spec)}"), _model(spec).partition("=")[0]
    yield ""
    yield "1. accept what the model has now:"
    yield f"     pytest {_GATES} {model}{_data(data)} --bias-update-new"
    yield f"2. commit {', '.join(names)} and bias_baselines/"
    if any(name in names for name in _WORKFLOWS.values()):
        yield f"   CI installs from {SOURCE}, a clone, since no package index has the package; make it a submodule:"
        yield f"     git submodule add URL {SOURCE}"
    several = ", one checkpoint or several (NEXT/seed-{seed})" if spec is not None and spec.seeded else ""
    yield f"3. judge every later release by its name{several}:"
    yield f"     pytest {_GATES} {shlex.quote(f'--bias-model={name}=NEXT')}{_data(data)}"
