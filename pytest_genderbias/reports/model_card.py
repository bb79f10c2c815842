"""The evaluation results of a Hugging Face model card: what the card says is kept, and only what came from here is
replaced.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.escaping import printable
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import describe_direction
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.fields import Figure, between, figures_of, largest
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.text.located_yaml import parse_map, plain
from pytest_genderbias.text.plain_files import read_whole
from pytest_genderbias.text.schema import LocatedMap

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

_SOURCE = "pytest-genderbias"  #: begins the type of our data sets, by which our results are found again
_KEY = "model-index"
#: Task of the Hub by the end of an architecture's name, the first that fits.
_TASKS = (
    ("ForMaskedLM", "fill-mask"), ("ForCausalLM", "text-generation"), ("LMHeadModel", "text-generation"),
    ("ForSequenceClassification", "text-classification"), ("ForTokenClassification", "token-classification"),
    ("Model", "feature-extraction"),
)  # fmt: skip
_LARGEST = 2**24  #: bytes of a card
_WIDE = 1_000_000  #: characters of a line of YAML, so that no text is broken
_LONGEST = 200  #: characters of a text
_REFERENCES = ("no_worse_than", "same_as")  #: settings that name a model beside the one that is measured
_METADATA = re.compile(r"\A(\s*---[ \t]*(?:\r\n|\r|\n))(.*?)((?:\r\n|\r|\n)---[ \t]*(?:\r\n|\r|\n|\Z))", re.DOTALL)
_BREAK = re.compile(r"\r\n|\r|\n")

Results = list[dict[str, object]]


def write_model_card(report: RunReport, path: Path) -> None:
    """Write the main statistics of a run, and those that it judged, into the metadata of a model card.

    Raises:
        OSError: the card cannot be read or written.
        SettingError: the run measured nothing, or several models, of which none is the reference of the others.
        DataFileError: the card's metadata cannot be read, or cannot be changed without a change of anything else.
    """
    model = card_model(report)
    card = read_whole(path, _LARGEST) if path.exists() else ""
    ours = _model_index(model, eval_results(report, model))
    write_whole(path, with_results(card, ours, str(path)).encode())


def write_eval_results(report: RunReport, folder: Path) -> None:
    """Write the same results as a file of the folder ``.eval_results`` of a model on the Hub.

    Raises:
        OSError: the file cannot be written.
        SettingError: as :func:`write_model_card`.
    """
    entries = [
        {
            "dataset": {"id": f"{_SOURCE}/{_text(figure.measurement.suite)}", "task_id": _text(figure.name)},
            "value": figure.value,
            "date": _text(report.run.date),
            "notes": "; ".join(_notes(figure, verdicts)),
        }
        for figure, verdicts in _shown(report, card_model(report))
    ]
    text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=_WIDE)
    write_whole(folder / f"{_SOURCE}.yaml", text.encode())


def _notes(figure: Figure, judged: Sequence[Judgement]) -> Iterator[str]:
    yield _text(figure.about.meaning)
    yield f"neutral is {figure.about.neutral:g}, {describe_direction(figure.about.direction)} is worse"
    if figure.interval is not None:
        yield f"95 % interval for other {_text(figure.interval.over)} {between(figure.interval)}"
    yield from (_text(f"{one.bound}: {one.in_words}") for one in judged)


def card_model(report: RunReport) -> str:
    """Return the name of the model that the card is of: the only one that the run measured, but for references.

    Raises:
        SettingError: there is none, or there are several.
    """
    references = {report.run.settings.get(name) for name in _REFERENCES}
    names = dict.fromkeys(measurement.model for measurement in report.measurements)
    models = [name for name in names if name not in references]
    if len(models) == 1:
        return models[0]
    if not models:
        raise SettingError("nothing was measured, so that the card stays as it is")
    raise SettingError(f"the card is of one model, and the run measured {', '.join(models[:5])}; measure one")


def eval_results(report: RunReport, model: str) -> list[EvalResult]:
    """Return the main statistic of each suite on a model, and each statistic that was judged, as Hugging Face's own
    class has them.
    """
    return [_result(figure, verdicts, report.run.version) for figure, verdicts in _shown(report, model)]


def _shown(report: RunReport, model: str) -> Iterator[tuple[Figure, Sequence[Judgement]]]:
    """Yield the main statistic of each suite on a model, and each that was judged, with its judgements."""
    judged: dict[tuple[str, str], list[Judgement]] = {}
    for settled in report.judgements:
        if settled.model == model:
            judged.setdefault((settled.suite, settled.statistic), []).append(settled)
    measured = largest((one for one in report.measurements if one.model == model), lambda one: one.suite)
    for figure in figures_of(measured):
        verdicts = judged.get((figure.measurement.suite, figure.name), [])
        is_shown = figure.name == figure.measurement.main or verdicts
        if is_shown and figure.value is not None and math.isfinite(figure.value):
            yield figure, verdicts


def _result(figure: Figure, judged: Sequence[Judgement], version: str) -> EvalResult:
    from huggingface_hub import EvalResult

    measurement, about, interval = figure.measurement, figure.about, figure.interval
    arguments: dict[str, object] = {"neutral": about.neutral, "worse": about.direction}
    if interval is not None and math.isfinite(interval.low) and math.isfinite(interval.high):
        arguments["interval_95"] = [interval.low, interval.high]
        arguments["interval_over"] = _text(interval.over)
    if measurement.ability:
        arguments["ability"] = _text(measurement.ability)
    if judged:
        arguments["verdicts"] = [_text(f"{one.bound}: {one.in_words}") for one in judged]
    if any(said := [{name: _text(text) for name, text in one.evidence.items()} for one in judged]):
        arguments["evidence"] = said
    suite = _text(measurement.suite)
    return EvalResult(
        task_type=_task(measurement),
        dataset_type=f"{_SOURCE}-{suite}",
        dataset_name=f"{suite} ({_SOURCE})",
        dataset_revision=_text(str(measurement.signature.get("digest", "")))[:12] or None,
        dataset_args={
            "cases": measurement.n,
            "cases_of_suite": measurement.n_total,
            "measured_by": f"{_SOURCE} {_text(version)}",
        },
        metric_type=_text(figure.name),
        metric_name=_text(about.meaning),
        metric_value=figure.value,
        metric_args=arguments,
    )


def _task(measurement: Measurement) -> str:
    architecture = str(measurement.signature["model"].get("architecture", ""))
    return next((task for ending, task in _TASKS if architecture.endswith(ending)), "other")


def _text(text: str) -> str:
    return printable(" ".join(text[: 2 * _LONGEST].split()))[:_LONGEST]


def _model_index(name: str, results: list[EvalResult]) -> Results:
    from huggingface_hub import ModelCardData

    index: Results = ModelCardData(model_name=_text(name), eval_results=results).to_dict()[_KEY]  # type: ignore[no-untyped-call]
    return index


def with_results(text: str, ours: Results, path: str) -> str:
    """Return the text of a card with our results in the place of earlier ones. All other lines are as they were.

    Args:
        text: of the card; empty without one.
        ours: the list of models with our results, which stand in the first model of the card if it has one.
        path: of the card, for messages.

    Raises:
        DataFileError: the metadata are no plain YAML, or no metadata of a card, or are written so that nothing can be
            replaced without a change of anything else.
    """
    match = _METADATA.match(text)
    before, metadata = (match[1], match[2]) if match else ("", "")
    content = _parsed(metadata, path)
    index = content.get(_KEY)
    if index is not None and not (isinstance(index, list) and all(map(_is_entry, index))):
        line = content.lines[_KEY] + len(_BREAK.findall(before))
        raise DataFileError(
            f"{path}:{line}: {_KEY}: expected a list of models, each a mapping with a list of results; fix or remove it"
        )
    known, end = plain(content), (_BREAK.search(text) or ["\n"])[0]
    merged = _merged(known.get(_KEY), ours)
    replaced = _replaced(metadata, content, merged, end)
    if plain(_parsed(replaced, path)) != {**known, _KEY: merged}:
        raise DataFileError(
            f"{path}: its metadata cannot be changed line by line; write a key a line, {_KEY} among them"
        )
    return before + replaced + text[match.end(2) :] if match else f"---{end}{replaced}{end}---{end}{text}"


def _parsed(metadata: str, path: str) -> LocatedMap:
    return parse_map(metadata, path) if metadata.strip() else LocatedMap(path, 1)


def _replaced(metadata: str, content: LocatedMap, index: Results, end: str) -> str:
    """Return the metadata with another list of results; all other lines are as they were."""
    ours = yaml.safe_dump({_KEY: index}, sort_keys=False, allow_unicode=True, width=_WIDE, line_break=end).rstrip(
        "\r\n"
    )
    if _KEY not in content:
        return metadata.rstrip("\r\n") + end + ours if metadata.strip() else ours
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", metadata)
    first = content.lines[_KEY] - 1
    last = min((line - 1 for line in content.lines.values() if line - 1 > first), default=len(lines))
    while last > first + 1 and (not lines[last - 1].strip() or lines[last - 1].startswith("#")):
        last -= 1  # comments and empty lines belong to what follows
    return "".join([*lines[:first], ours, end if last < len(lines) else "", *lines[last:]])


def _is_entry(entry: object) -> bool:
    """Return whether an element of the list of models has the form that the Hub knows."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("results", []), list):
        return False
    return all(isinstance(result, Mapping) for result in entry.get("results", []))


def _merged(index: Results | None, ours: Results) -> Results:
    """Return the models of a card with our results behind those of others, in the first of them."""
    if not index:
        return ours
    first, *others = (
        {**entry, "results": [r for r in _list(entry.get("results")) if not _is_ours(r)]} for entry in index
    )
    first["results"] = [*_list(first["results"]), *_list(ours[0]["results"])]
    return [first, *others]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _is_ours(result: object) -> bool:
    dataset = result.get("dataset") if isinstance(result, Mapping) else None
    kind = dataset.get("type") if isinstance(dataset, Mapping) else None
    return isinstance(kind, str) and kind.startswith(f"{_SOURCE}-")
