"""``agreement``: whether intrinsic bias goes with extrinsic bias over methods and seeds (orgad2022, table 2, figures 3
to 7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pytest_genderbias.errors import SettingError, UndefinedError, UnknownNameError
from pytest_genderbias.gates.judgement import AFTER, BEFORE
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import Stored
from pytest_genderbias.mitigation.harness.retraining import new_heads as run_with_new_heads
from pytest_genderbias.mitigation.harness.retraining import recipe_that_trains
from pytest_genderbias.mitigation.harness.run import MitigationRun, ModelOrSpec
from pytest_genderbias.statistics.agreement import RESAMPLES, Agreement
from pytest_genderbias.statistics.agreement import agreement as agreement_of_points
from pytest_genderbias.text.printable import markdown_table, refuse_unknown_name

NO_METHOD = "none"  #: the method of the models before a mitigation
OWN_HEAD, NEW_HEAD = "before retraining", "after retraining"
LEVEL = 0.05  #: a point with a p value counts below it (orgad2022, appendix A.4.3)


@dataclass(frozen=True)
class BiasFigure:
    """A statistic of a suite, and how it is measured.

    Attributes:
        suite: name or path of the suite.
        statistic: name of its statistic, or of a distance that ``coref-winobias`` has in its records
            (``independence_sum``).
        p_value: name of the suite's p value, where a point counts only if that is below .05; empty if all points count.
        settings: settings of ``measure``, as ``texts`` and ``data``.
        label: its name where a statistic is measured twice with other settings; by default suite and statistic.
    """

    suite: str
    statistic: str
    p_value: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    label: str = ""

    @property
    def name(self) -> str:
        """The label, or else suite and statistic, as ``bios/tpr_gap_sum``."""
        return self.label or f"{self.suite}/{self.statistic}"


#: The intrinsic figures of orgad2022. The paper leaves out points whose CEAT has p of .05 or more.
INTRINSIC = (BiasFigure("probe-compression", "compression"), BiasFigure("ceat", "combined_effect_size", "p_value"))
_GAPS = tuple(f"{rate}_gap_{figure}" for rate in ("tpr", "fpr", "precision") for figure in ("pearson", "sum"))
_DISTANCES = tuple(f"{name}_sum" for name in ("independence", "separation", "sufficiency"))
#: The extrinsic figures of orgad2022 on occupations, and on coreference.
OCCUPATIONS = tuple(BiasFigure("bios", name) for name in (*_GAPS, *_DISTANCES))
COREFERENCE = tuple(BiasFigure("coref-winobias", name) for name in ("f1_gap", *_GAPS, *_DISTANCES))


@dataclass(frozen=True)
class AgreementPoint:
    """The figures of one model, by name; ``None`` for one without a value.

    Attributes:
        method: the debiasing method; ``none`` for a model before it.
        seed: the seed of the model.
        intrinsic: the intrinsic figures; a new head changes none of them, since the encoder is the same.
        p_values: p values of intrinsic figures that have one.
        own_head: the extrinsic figures of the model as it is.
        new_head: those with a new head, trained on the original data while the encoder is frozen; empty if none was
            trained.
    """

    method: str
    seed: int
    intrinsic: Mapping[str, float | None]
    p_values: Mapping[str, float | None] = field(default_factory=dict)
    own_head: Mapping[str, float | None] = field(default_factory=dict)
    new_head: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def is_mitigated(self) -> bool:
        """Whether the model is not one of those before a mitigation."""
        return self.method != NO_METHOD

    def extrinsic(self, head: str) -> Mapping[str, float | None]:
        """Return the extrinsic figures before or after retraining."""
        return self.own_head if head == OWN_HEAD else self.new_head


@dataclass(frozen=True)
class AgreementRow:
    """Agreement of one intrinsic figure with one extrinsic figure.

    Attributes:
        intrinsic: name of the figure.
        extrinsic: name of the figure.
        head: ``before retraining`` or ``after retraining``.
        agreement: r, R squared and bounds; ``None`` if they are undefined.
        reason: why they are.
        insignificant: points that were left out because their p value is .05 or more, or is unknown.
        without_value: other points that were left out, because one of the figures has no value.
    """

    intrinsic: str
    extrinsic: str
    head: str
    agreement: Agreement | None
    reason: str = ""
    insignificant: int = 0
    without_value: int = 0


@dataclass(frozen=True)
class AgreementStudy(Stored):
    """All points, and the agreement of each pair of figures, before and after retraining."""

    form: ClassVar[int] = 1
    called: ClassVar[str] = "agreement"

    points: tuple[AgreementPoint, ...]
    rows: tuple[AgreementRow, ...]

    def row(self, intrinsic: str, extrinsic: str, head: str = OWN_HEAD) -> AgreementRow:
        """Return the agreement of two figures.

        Raises:
            UnknownNameError: they were not measured.
        """
        for row in self.rows:
            if (row.intrinsic, row.extrinsic, row.head) == (intrinsic, extrinsic, head):
                return row
        measured = dict.fromkeys(f"{row.intrinsic} with {row.extrinsic} {row.head}" for row in self.rows)
        raise UnknownNameError(
            f"the agreement of {intrinsic} with {extrinsic} {head} was not measured; there are"
            f" {', '.join(measured) or 'none'}"
        )

    def without(self, method: str) -> AgreementStudy:
        """Return the study of the points of all other methods, for the question whether one method makes the agreement.

        Args:
            method: the method that is left out; ``none`` leaves out the models before a mitigation.

        Raises:
            UnknownNameError: no point is of this method.
        """
        methods = dict.fromkeys(point.method for point in self.points)
        refuse_unknown_name(method, methods, f"no point is of the method {method!r}", "there are")
        rest = AgreementStudy(tuple(point for point in self.points if point.method != method), ())
        rows = (_row(rest, row.intrinsic, row.extrinsic, row.head) for row in self.rows)
        return AgreementStudy(rest.points, tuple(rows))

    def pairs(self, intrinsic: str, extrinsic: str, head: str = OWN_HEAD) -> list[tuple[AgreementPoint, float, float]]:
        """Return the points that :meth:`row` is about, each with both figures."""
        counted = [point for point in self.points if _is_significant(point, intrinsic)]
        figures = [(point, point.intrinsic.get(intrinsic), point.extrinsic(head).get(extrinsic)) for point in counted]
        return [(point, x, y) for point, x, y in figures if x is not None and y is not None]

    def table(self) -> str:
        """Return a markdown table: R squared with bounds, r, and the points left out, before and after retraining
        (table 2).
        """
        heads = list(dict.fromkeys(row.head for row in self.rows))
        cells: dict[tuple[str, str], dict[str, AgreementRow]] = {}
        for row in self.rows:
            cells.setdefault((row.intrinsic, row.extrinsic), {})[row.head] = row
        headers = ["intrinsic", "extrinsic", *(f"{what} {head}" for head in heads for what in ("R²", "r")), "left out"]
        body = [
            [*names, *(cell for head in heads for cell in _in_cells(by_head.get(head))), _left_out(by_head.values())]
            for names, by_head in cells.items()
        ]
        return markdown_table(headers, body)


def agreement(
    runs: Mapping[str, MitigationRun] | Sequence[MitigationRun] | Sequence[AgreementPoint],
    intrinsic: Sequence[BiasFigure] = INTRINSIC,
    extrinsics: Sequence[BiasFigure] = OCCUPATIONS,
    *,
    new_heads: bool = True,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> AgreementStudy:
    """Return how intrinsic figures of bias agree with extrinsic ones over several mitigations, before and after
    retraining.

    A point is a method and a seed. The models before a mitigation are the method ``none``; runs share them, and each
    model is measured once. Bounds are those of :func:`~pytest_genderbias.statistics.agreement.agreement`: few methods
    leave them wide.

    Args:
        runs: runs of different methods with one recipe, by the names of the methods; a list takes their own names. Or
            points that were measured before, with figures of these names.
        intrinsic: figures of the encoder.
        extrinsics: figures of the model with its head.
        new_heads: whether to train a new head on each frozen encoder, by the run's recipe, and measure the extrinsic
            figures again.
        resamples: number of resamples for the bounds.
        seed: seed of the resamples.

    Raises:
        SettingError: there is no run, two have one name or different models before, or one has no recipe for new heads.
        MitigationNotApplicableError: a suite does not apply to the models, or lacks its data.
    """
    points = tuple(one for one in runs if isinstance(one, AgreementPoint))
    if len(points) < len(runs) or not runs:
        named = runs if isinstance(runs, Mapping) else _by_method([r for r in runs if isinstance(r, MitigationRun)])
        points = tuple(measure_points(named, intrinsic, extrinsics, new_heads))
    heads = [OWN_HEAD, *([NEW_HEAD] if any(point.new_head for point in points) else [])]
    rows = [
        _row(AgreementStudy(points, ()), one, other.name, head, resamples, seed)
        for one in (figure.name for figure in intrinsic)
        for other in extrinsics
        for head in heads
    ]
    return AgreementStudy(points, tuple(rows))


def measure_points(
    runs: Mapping[str, MitigationRun],
    intrinsic: Sequence[BiasFigure],
    extrinsics: Sequence[BiasFigure],
    new_heads: bool = True,
) -> Iterator[AgreementPoint]:
    """Yield the points of runs one by one, so that they can be stored as they are measured. Arguments and errors as
    :func:`agreement`.
    """
    for name, run in runs.items() if new_heads else ():
        recipe_that_trains(run, f"the run of {name}")
    for method, alone in _models_of(runs):
        figures, p_values = _values(alone, intrinsic)
        new_head: dict[str, float | None] = {}
        if new_heads:
            with run_with_new_heads(alone) as renewed:  # one folder, and so the same held-out texts
                own_head, _ = _values(replace(alone, folder=renewed.folder), extrinsics)
                new_head, _ = _values(renewed, extrinsics)
        else:
            own_head, _ = _values(alone, extrinsics)
        yield AgreementPoint(method, alone.seeds[0], figures, p_values, own_head, new_head)


def _by_method(runs: Sequence[MitigationRun]) -> dict[str, MitigationRun]:
    """Return runs by the names of their methods.

    Raises:
        SettingError: a method occurs twice, or a run does not name its method.
    """
    names = []
    for run in runs:
        method = run.what.get("method")
        names.append(str(method["method"]) if isinstance(method, Mapping) and "method" in method else "")
    for name, times in Counter(names).items():
        if not name or times > 1:
            what = f"{times} runs have the method {name!r}" if name else "a run does not name its method"
            raise SettingError(f"{what}; give the runs by name, as agreement({{'oversampling': run, ...}})")
    return dict(zip(names, runs, strict=True))


def _models_of(runs: Mapping[str, MitigationRun]) -> Iterator[tuple[str, MitigationRun]]:
    """Yield each model once with its method, as a run that has this model on both sides.

    Raises:
        SettingError: there is no run, a name is ``none``, or the models before differ.
    """
    if not runs:
        raise SettingError("there is no run, and agreement is over models of several; give runs of different methods")
    if NO_METHOD in runs:
        raise SettingError(f"a run is named {NO_METHOD!r}, the name of the models before a mitigation; rename it")
    bases: dict[int, tuple[str, ModelOrSpec]] = {}
    for name, run in runs.items():
        for (model,), seed in zip(run.models(BEFORE), run.seeds, strict=True):
            first, base = bases.setdefault(seed, (name, model))
            if not _same_weights(run, base, model):
                raise SettingError(
                    f"the runs of {first} and {name} have different models before for seed {seed}; make both with one"
                    " recipe and one folder"
                )
    yielded: list[ModelOrSpec] = []  # one model before may serve all seeds
    for seed, (name, model) in bases.items():
        if not any(_is_same(model, other) for other in yielded):
            yielded.append(model)
            yield NO_METHOD, _alone(runs[name], model, seed)
    for name, run in runs.items():
        for (model,), seed in zip(run.models(AFTER), run.seeds, strict=True):
            yield name, _alone(run, model, seed)


def _alone(run: MitigationRun, model: ModelOrSpec, seed: int) -> MitigationRun:
    return replace(run, before=[model], after=[model], control=(), seeds=(seed,))


def _is_same(model: ModelOrSpec, other: ModelOrSpec) -> bool:
    return model is other or (isinstance(model, str) and model == other)


def _same_weights(run: MitigationRun, model: ModelOrSpec, other: ModelOrSpec) -> bool:
    """Return whether two models are one, by their specs or else by their weights."""
    if _is_same(model, other):
        return True
    first, second = (run.open(each).fingerprint for each in (model, other))
    return first is not None and first == second


def _values(
    alone: MitigationRun, figures: Sequence[BiasFigure]
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Return figures of the one model of a run, and their p values; a suite with equal settings is measured once."""
    measured: dict[str, Measurement] = {}
    values, p_values = {}, {}
    for figure in figures:
        key = f"{figure.suite} {sorted(figure.settings.items(), key=str)}"
        if key not in measured:
            measured[key] = alone.measure(BEFORE, figure.suite, **figure.settings)[0][0]
        measurement = measured[key]
        values[figure.name] = measurement.values[measurement.statistic(figure.statistic)]
        if figure.p_value:
            p_values[figure.name] = measurement.values[measurement.statistic(figure.p_value)]
    return values, p_values


def _is_significant(point: AgreementPoint, intrinsic: str) -> bool:
    """Return whether a point counts: its p value is below .05, or the figure has none."""
    if intrinsic not in point.p_values:
        return True
    p = point.p_values[intrinsic]
    return p is not None and p < LEVEL


def _row(
    study: AgreementStudy, intrinsic: str, extrinsic: str, head: str, resamples: int = RESAMPLES, seed: int = 0
) -> AgreementRow:
    """Return the agreement of two figures, or the reason why it is undefined."""
    pairs = study.pairs(intrinsic, extrinsic, head)
    insignificant = sum(not _is_significant(point, intrinsic) for point in study.points)
    left_out = (insignificant, len(study.points) - insignificant - len(pairs))
    try:
        methods, x, y = [point.method for point, _, _ in pairs], [x for _, x, _ in pairs], [y for _, _, y in pairs]
        result = agreement_of_points(methods, x, y, resamples=resamples, seed=seed)
    except UndefinedError as reason:
        return AgreementRow(intrinsic, extrinsic, head, None, str(reason), *left_out)
    return AgreementRow(intrinsic, extrinsic, head, result, "", *left_out)


def _in_cells(row: AgreementRow | None) -> tuple[str, str]:
    """Return R squared and r with their bounds."""
    if row is None or row.agreement is None:
        return ("-", "-") if row is None else (f"undefined: {row.reason}", "-")
    result = row.agreement
    figures = ((result.r_squared, result.r_squared_bounds), (result.r, result.r_bounds))
    first, second = (f"{v:.2f}" + (f" ({b.low:.2f} to {b.high:.2f})" if b else "") for v, b in figures)
    return first, second


def _left_out(rows: Collection[AgreementRow]) -> str:
    """Return in words how many points were left out."""
    insignificant, without = (max(getattr(row, name) for row in rows) for name in ("insignificant", "without_value"))
    words = [f"{insignificant} with p ≥ {LEVEL:g}"] if insignificant else []
    return "; ".join([*words, *([f"{without} without a value"] if without else [])])
