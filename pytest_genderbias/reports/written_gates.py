"""A first gate file (``--to release.bias.yaml``): limits that the measured models keep, each with what it was made
from.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from pytest_genderbias.errors import BiasError, GateError, WriteError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.limits import Limit
from pytest_genderbias.gates.verdicts import describe_direction, shortened
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.suites.family import Option
from pytest_genderbias.suites.suite import Suite, load_suite
from pytest_genderbias.text import packaged
from pytest_genderbias.text.located_yaml import Dumper
from pytest_genderbias.text.printable import format_bounds, format_number, format_share

_LEAST_MARGIN = 1e-3  #: of a gate on a value that is neutral, so that rounding does not break it
_SHARE = 0.1  #: of the distance from neutral: the margin where nothing is known of other items
_KEYS = {"higher": "at_most", "lower": "at_least", "away": "within"}
#: Flags that a run needs again, and keys of the ini file that its command line set.
_CONDITIONS = ("--bias-data", "--bias-dtype", "--bias-device", "--bias-labels")
_KEPT_KEYS = (
    "bias_tokenizer", "bias_endpoint_version", "bias_endpoint_timeout", "bias_trust_remote_code", "bias_allow_remote",
    "bias_samples", "bias_system_prompt", "bias_temperature", "bias_max_requests", "bias_max_tokens",
)  # fmt: skip
_HEAD = """# Gates that pytest-genderbias {version} wrote on {date} from what it measured.
# Each passes on the model that it was written from: its limit is the measured value and a margin.
# That is no statement on what is fair: read each gate, then move its limit or remove it. `genderbias list MODEL` names
# the gates on a baseline that are known to see a growth of 50 %, if there are some for such a model.
# What has no gate has a line that says why. Run it:
#
#   {command}
#
gates:
"""


def write_gates(report: RunReport, path: Path) -> None:
    """Write a gate for each suite and model of a report that a limit can judge.

    Args:
        report: of the run. What it measured on other models than its own, as on those of a mitigation, has no gate.
        path: of the new file, ``*.bias.yaml``.

    Raises:
        WriteError: the file exists, or cannot be written.
        GateError: there is nothing to gate.
    """
    if path.exists():
        raise WriteError(
            None, "it exists, and a gate file is never overwritten; name another file, or move this one away", str(path)
        )
    names = {model.name for model in report.run.models}
    measured = [measurement for measurement in report.measurements if measurement.model in names]
    subjects = list(_subjects(measured, report.run.settings.get("limit")))
    suites = _known_suites({measurement.suite for measurement in subjects}, report.run.arguments, path)
    several = len({measurement.model for measurement in subjects}) > 1
    entries = [_entry(measurement, suites, several) for measurement in subjects]
    if not any(line.startswith("  - ") for entry in entries for line in entry):
        unable = next((f"{one.model} {one.unable}" for one in subjects if one.unable), "")
        why = unable or "nothing was measured that a limit can judge; measure suites, as --bias-suite=all"
        raise GateError(f"{path} is not written: {why}")
    version, date = shortened(report.run.version, 100), shortened(report.run.date[:10])
    head = _HEAD.format(version=version, date=date, command=shortened(_command(report, path), 2000))
    body = "\n".join("\n".join(entry) + "\n" for entry in entries)
    write_whole(path, (head + body).encode())


def _command(report: RunReport, path: Path) -> str:
    """Return the command that runs the file on the models of a report, from the folder in which the report was made."""
    models = [f"--bias-model={model.name}={model.spec}" for model in report.run.models]
    return shlex.join(["pytest", os.path.relpath(path), *models, *_conditions(report.run.arguments)])


def _conditions(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of a run without which its models cannot be read, or give other figures; the settings of
    gates have the rest.
    """
    for argument, value in zip_longest(arguments, arguments[1:], fillvalue=""):
        flag, sign, _ = argument.partition("=")
        if flag in _CONDITIONS:
            yield argument if sign else f"{flag}={value}"
        key = value if argument == "-o" else argument.removeprefix("-o")
        if argument.startswith("-o") and key.startswith(_KEPT_KEYS):
            yield from ("-o", key)


def _subjects(measurements: Iterable[Measurement], limit: object) -> Iterable[Measurement]:
    """Yield each suite on each model once with the same options, in the order of the run.

    Of several samples, it is the one that the flags of the run ask for, and not that of a gate which stopped or has a
    limit of its own.
    """
    samples: dict[tuple[str, ...], list[Measurement]] = {}
    for measurement in measurements:
        signature = measurement.signature
        settings = json.dumps(signature["settings"], default=str)
        samples.setdefault((measurement.suite, measurement.model, signature["digest"], settings), []).append(
            measurement
        )

    def asked_for(measurement: Measurement) -> tuple[bool, bool, int]:
        most = measurement.n_total if not isinstance(limit, int) else min(limit, measurement.n_total)
        return not measurement.stopped, measurement.n == most, measurement.n

    for same in samples.values():
        yield max(same, key=asked_for)


def _entry(measurement: Measurement, suites: Mapping[str, tuple[str, Suite]], several: bool) -> list[str]:
    """Return the lines of a gate; or a comment that says why there is none."""
    suite = suites.get(str(measurement.signature["digest"]))
    name = next(
        (n for n, about in measurement.statistics.items() if not about.no_gate and measurement.values[n] is not None),
        None,
    )
    subject = f"{measurement.suite} on {measurement.model}"
    if suite is None:
        return _comment(
            f"{subject}: no gate, since it is not known where its suite file lies (write suite: ./FILE.yaml)"
        )
    if name is None:
        main = measurement.main
        why = measurement.statistics[main].no_gate or measurement.reasons.get(main, "it has no value")
        return _comment(f"{subject}: no gate on {main}: {why}")
    bounds, generalise = _judged_bounds(measurement, name)
    if bounds is None or not math.isfinite(bounds.low) or not math.isfinite(bounds.high):
        why = (
            measurement.reasons.get(name)
            or f"{measurement.n:,} of {measurement.n_total:,} cases do not bound the value of all"
        )
        return _comment(f"{subject}: no gate on {name} = {format_number(measurement.values[name])}: {why}")
    margin, source = _margin(measurement, name)
    key, limit = _limit(measurement, name, bounds, margin)
    try:
        bound: dict[str, Any] = {key: float(limit)}
        Limit(**bound).check_fits(name, suite[1].statistics[name])
    except GateError:
        why = f"a margin of {margin:.3g}, {source}, leaves no limit that a model could break"
        return _comment(f"{subject}: no gate on {name} = {format_number(measurement.values[name])}: {why}")
    settings = _settings(measurement, suite[1].family.options)
    return [
        *_comment(_measured(measurement, name, bounds)),
        *_comment(f"The margin {margin:.3g} is {source}."),
        f"  - suite: {_yaml(suite[0])}",
        f"    statistic: {_yaml(name)}",
        f"    {key}: {limit}",
        *(["    generalise: true"] if generalise else []),
        *([f"    settings: {_yaml(settings)}"] if settings else []),
        *([f"    models: {_yaml([measurement.model])}"] if several else []),
    ]


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        shortened(text, 400), 98, initial_indent="  # ", subsequent_indent="  #   ", break_long_words=False
    )


def _measured(measurement: Measurement, name: str, bounds: Interval) -> str:
    """Return in words what was measured: the value with its bounds, which way is worse, and what chance gives."""
    about = measurement.statistics[name]
    text = f"{measurement.suite} on {measurement.model}: {about.meaning}, {format_number(measurement.values[name])}"
    if bounds.low != bounds.high:
        text += f" ({format_bounds(bounds.low, bounds.high)} over {bounds.over})"
    text += f"; {describe_direction(about.direction)} is worse, neutral is {about.neutral:g}"
    null = measurement.null.get(name)
    return text if null is None else f"{text}, chance alone gives {format_bounds(null.low, null.high)}"


def _judged_bounds(measurement: Measurement, name: str) -> tuple[Interval | None, bool]:
    """Return the bounds that a limit on the model is judged by, and whether they hold only with ``generalise``."""
    if measurement.restarts:
        return measurement.intervals[name], False
    if (bounds := measurement.bounds[name]) is not None:
        return bounds, False
    return (None if measurement.stopped else measurement.intervals[name]), True


def _margin(measurement: Measurement, name: str) -> tuple[float, str]:
    """Return how far a limit lies from what was measured, and where that comes from."""
    around = measurement.intervals[name]
    if around is not None and 0 < (half := (around.high - around.low) / 2) < math.inf:
        return (max(half, _LEAST_MARGIN), f"half of the {format_share(around.level)} interval for other {around.over}")
    distance = measurement.statistics[name].distance(measurement.values[name] or 0.0)
    return (
        max(_SHARE * abs(distance), _LEAST_MARGIN),
        f"{100 * _SHARE:g} % of the distance from neutral, {_LEAST_MARGIN:g} at least",
    )


def _limit(measurement: Measurement, name: str, bounds: Interval, margin: float) -> tuple[str, str]:
    """Return the key of the limit, and its number, rounded away from what was measured."""
    about = measurement.statistics[name]
    key = _KEYS[about.direction]
    if key == "at_least":
        return key, _rounded(bounds.low - margin, math.floor)
    if key == "at_most":
        return key, _rounded(bounds.high + margin, math.ceil)
    return key, _rounded(max(abs(bounds.low - about.neutral), abs(bounds.high - about.neutral)) + margin, math.ceil)


def _rounded(value: float, towards: Callable[[float], int]) -> str:
    """Return a number of three figures as YAML reads it, rounded up or down.

    >>> _rounded(0.28041, math.ceil), _rounded(-1.2349, math.floor)
    ('0.281', '-1.24')
    >>> _rounded(0.000012341, math.ceil), _rounded(12345, math.ceil)
    ('0.0000124', '12400')
    """
    if value == 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    steps = towards(value / unit)
    return np.format_float_positional(float(f"{steps * unit:.3g}"), trim="-")


def _settings(measurement: Measurement, options: Mapping[str, Option]) -> dict[str, object]:
    """Return the settings that make a gate measure what was measured: the sample, the seed, restarts, and options that
    are not the default.
    """
    asked = measurement.signature["settings"]
    settings = {"limit": measurement.n} if measurement.n < measurement.n_total else {}
    settings |= {"seed": asked["seed"]} if asked.get("seed") else {}
    settings |= {"seeds": measurement.restarts} if measurement.restarts else {}
    return settings | {name: of for name, of in asked.items() if name in options and of != options[name].default}


def _yaml(value: object) -> str:
    """Return a value as it stands in a line of YAML.

    >>> _yaml("lm-occupation"), _yaml("no"), _yaml("1e3"), _yaml({"limit": 9, "unit": None})
    ('lm-occupation', "'no'", "'1e3'", '{limit: 9, unit: null}')
    """
    text = yaml.dump(value, Dumper=Dumper, default_flow_style=True, sort_keys=False, width=math.inf)
    return text.removesuffix("...\n").rstrip()


def _known_suites(measured: set[str], arguments: Iterable[str], path: Path) -> dict[str, tuple[str, Suite]]:
    """Return suites by digest, each with how the gate file names it: packaged ones, and the files that the flags of the
    run name.
    """
    suites: dict[str, tuple[str, Suite]] = {}
    for name in sorted(measured & set(packaged.names("fixtures"))):
        suite = load_suite(name)
        suites |= dict.fromkeys(suite.digests, (name, suite))
    for argument in arguments:
        for part in argument.removeprefix("--bias-suite=").split(","):
            file = Path(part.strip())
            if file.suffix in (".yaml", ".yml") and not file.name.endswith(".bias.yaml") and file.is_file():
                try:
                    suite = load_suite(str(file))
                except BiasError:  # not a suite
                    continue
                relative = os.path.relpath(file.resolve(), path.resolve().parent)
                suites |= dict.fromkeys(suite.digests, (f"./{Path(relative).as_posix()}", suite))
    return suites
