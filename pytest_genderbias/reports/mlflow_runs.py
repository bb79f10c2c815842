"""Runs of MLflow (``--to mlflow=EXPERIMENT``): what a run measured on each model, as one MLflow run a model."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_genderbias.errors import WriteError
from pytest_genderbias.escaping import printable
from pytest_genderbias.reports.fields import FIGURE_COLUMNS, figures_of
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.reports.run_summary import broken_tests
from pytest_genderbias.text.printable import json_text

if TYPE_CHECKING:
    from mlflow import MlflowClient

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_\-. /]")  #: what MLflow takes in the name of a metric on every system
_LONGEST_NAME, _LONGEST_VALUE = 200, 4_000
_BATCH = 900  #: metrics that are sent at once; MLflow takes 1,000
_OF_FIGURE = {"": "value", ".low": "low", ".high": "high"}  #: columns by the end of a metric's name
_OUTCOMES = ("failed", "passed")


def logged(report: RunReport) -> list[str]:
    """Return the models that have a run of MLflow: those that a run measured, judged or failed on, in this order."""
    named = [measurement.model for measurement in report.measurements]
    named += [settled.model for settled in report.judgements]
    named += [test.model for test in broken_tests(report) if test.model]
    return list(dict.fromkeys(named))


def write_mlflow(report: RunReport, experiment: str) -> None:
    """Log a run to an experiment of MLflow, which is made if it is not there: an MLflow run for each model, with the
    report as artifact.

    The server is that of ``MLFLOW_TRACKING_URI``, as for everything that uses MLflow. Runs that are active stay as they
    are.

    Args:
        report: of the run.
        experiment: name of the experiment.

    Raises:
        WriteError: the server does not take it. An MLflow run that was begun is then marked as failed.
    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        client = MlflowClient()
        known = client.get_experiment_by_name(experiment)
        if known is not None and known.lifecycle_stage != "active":
            raise MlflowException("the experiment was deleted; restore it, or name another")
        place = client.create_experiment(experiment) if known is None else known.experiment_id
        for model in logged(report):
            _log(client, place, report, model)
    except (MlflowException, OSError) as error:
        message = " ".join(str(error).split())[:500]
        raise WriteError(None, message, f"MLflow's experiment {printable(experiment)}") from None


def _log(client: MlflowClient, experiment_id: str, report: RunReport, model: str) -> None:
    from mlflow.entities import Metric, Param, RunTag

    ended = report.run.moment_in_utc
    moment = int(1000 * (ended.timestamp() if ended else time.time()))
    began = max(0, moment - int(1000 * report.run.seconds))
    started = client.create_run(experiment_id, start_time=began, run_name=name_of_run(model))
    run_id, status = started.info.run_id, "FAILED"
    try:
        metrics = [Metric(name, value, moment, 0) for name, value in metrics_of(report, model).items()]
        params = [Param(name, value) for name, value in params_of(report, model).items()]
        tags = [RunTag(name, value) for name, value in tags_of(report, model).items()]
        client.log_batch(run_id, metrics[:_BATCH], params, tags)
        for start in range(_BATCH, len(metrics), _BATCH):
            client.log_batch(run_id, metrics[start : start + _BATCH])
        client.log_text(run_id, json_text(report.to_dict()) + "\n", "bias/report.json")
        client.log_text(run_id, _verdicts(report, model), "bias/verdicts.txt")
        status = "FINISHED"
    finally:
        client.set_terminated(run_id, status, moment)


def name_of_run(model: str) -> str:
    """Return the name of the MLflow run of a model."""
    return printable(model)[:_LONGEST_NAME] or "model"


def _verdicts(report: RunReport, model: str) -> str:
    texts = [settled.text for settled in report.judgements if settled.model == model]
    return printable("\n\n".join(texts) or "nothing was gated", keep="\n") + "\n"


def metrics_of(report: RunReport, model: str) -> dict[str, float]:
    """Return the figures of a model: ``SUITE/STATISTIC`` with ``.low`` and ``.high``, how much worse than its baseline
    a gate found it (``.worse``), ``gates/failed`` and ``gates/passed``, and ``gates/without_verdict``, the tests that
    failed without one.
    """
    counts = Counter(settled.outcome for settled in report.judgements if settled.model == model)
    ours: dict[str, str] = {}
    metrics = {f"gates/{outcome}": float(counts[outcome]) for outcome in _OUTCOMES}
    metrics["gates/without_verdict"] = float(sum(test.model == model for test in broken_tests(report)))
    for name, value in _figures(report, model):
        if value is not None and math.isfinite(value):
            metrics[_name_of(name, ours)] = float(value)
    return metrics


def params_of(report: RunReport, model: str) -> dict[str, str]:
    """Return what the figures of a model depend on."""
    spec = next((one.spec for one in report.run.models if one.name == model), "")
    settings = {name: str(value) for name, value in report.run.settings.items() if value is not None}
    fingerprints = {
        str(one.signature["model"].get("fingerprint") or "") for one in report.measurements if one.model == model
    }
    return _cut({"spec": spec, **settings, "fingerprint": ", ".join(sorted(fingerprints))})


def tags_of(report: RunReport, model: str) -> dict[str, str]:
    """Return commit, versions, and the verdicts on a model."""
    verdicts: dict[str, str] = {}
    for settled in (one for one in report.judgements if one.model == model):
        name = f"{settled.suite}.{settled.statistic}"
        verdicts[name] = f"{verdicts[name]}, {settled.in_words}" if name in verdicts else settled.in_words
    return _cut(
        {
            "mlflow.source.git.commit": report.run.commit,
            "pytest_genderbias.version": report.run.version,
            "pytest_genderbias.date": report.run.date,
            "pytest_genderbias.verdicts": json.dumps(verdicts, sort_keys=True),
        }
    )


def _figures(report: RunReport, model: str) -> Iterator[tuple[str, float | None]]:
    """Yield the names and values of all figures of a model."""
    for figure in figures_of(one for one in report.measurements if one.model == model):
        name = f"{figure.measurement.suite}/{figure.name}"
        yield from ((f"{name}{end}", FIGURE_COLUMNS[column].value(figure)) for end, column in _OF_FIGURE.items())
    for settled in report.judgements:
        if settled.model == model:
            yield f"{settled.suite}/{settled.statistic}.worse", settled.difference


def _name_of(name: str, ours: dict[str, str]) -> str:
    """Return a name for a figure that MLflow takes: the same, or one that ends in a digest of it if MLflow does not
    take it or another of ``ours`` has it.
    """
    safe = "/".join(part.strip(". ") or "_" for part in _NOT_IN_NAMES.sub("_", name).split("/"))
    if len(safe) > _LONGEST_NAME or ours.setdefault(safe, name) != name:
        safe = f"{safe[:_LONGEST_NAME]}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return safe


def _cut(texts: dict[str, str]) -> dict[str, str]:
    return {name: printable(text)[:_LONGEST_VALUE] for name, text in texts.items() if text}
