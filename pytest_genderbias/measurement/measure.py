"""``measure(suite, model)``: one measurement, from Python."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_genderbias.measurement.carry_out import Until
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner, RunSettings, cache_folder
from pytest_genderbias.models.loading import load_model
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.objects import evaluation_mode
from pytest_genderbias.models.spec import path_spec
from pytest_genderbias.scoring.scorer import Progress
from pytest_genderbias.suites.suite import Suite

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def measure(
    suite: str | Path | Suite,
    model: str | PathLike[str] | Model | object,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    limit: int | None = None,
    seed: int = 0,
    batch_tokens: int | None = None,
    cache: str | Path | None = "default",
    data: str | Path | None = None,
    progress: Progress | None = None,
    until: Until | None = None,
    null: int = 0,
    seeds: int | None = None,
    ability: object = None,
    **options: object,
) -> Measurement:
    """Measure a suite on a model.

    Args:
        suite: a packaged suite's name, the path of a suite file, or a loaded suite.
        model: what :func:`~pytest_genderbias.models.loading.load_model` returns, or anything that it takes: a spec, a
            transformers network with its ``tokenizer``, a table of predictions, an object with the protocol of a role.
            A network is measured in evaluation mode; each of its modules then gets its mode back.
        tokenizer: the tokenizer of a network in memory.
        limit: score at most this many cases, the front of the random order (whole persons for DisCo).
        seed: seed of the random order, of the null control and of what is trained.
        batch_tokens: tokens in a batch; determined automatically by default.
        cache: folder of the score cache; ``"default"`` is the user's cache folder, ``None`` keeps nothing.
        data: folder of the user's data sets (``--bias-data``), in the layout of docs/reference/data.md.
        progress: shows how far scoring is.
        until: stop as soon as these statistics are decided; :func:`~pytest_genderbias.gates.limits.decided_by` makes it
            of limits.
        null: shuffles of the null control, as 200; none by default. The scores are shuffled, the model is not asked
            again.
        seeds: measure the mean over this many restarts, at least 2: of what the suite trains (a head), or of a model
            whose spec holds ``{seed}``, as ``runs/seed-{seed}``. For a suite with an option ``seeds`` of its own, that
            option.
        ability: control items by which the model shows that it can do the task: the packaged ones by default, the path
            of a file of your own, or ``"none: REASON"`` to ask none.
        options: options of the suite's family, as ``test="fisher"``; the paper's definition is the default.

    Raises:
        NotApplicableError: the suite needs another kind of model, or data that are missing.
        ScoreError: the model returns NaN or infinite scores.
        SettingError, UnknownNameError: a setting or option is wrong.
    """
    runner = Runner(
        score=RunSettings(limit, seed, batch_tokens, cache_folder(cache), null, progress, ability), data=data
    )
    settings = options if seeds is None else {**options, "seeds": seeds}
    if isinstance(model, PathLike):
        model = path_spec(model)
    if isinstance(model, str) and tokenizer is None:
        return runner.measure(suite, model, settings, until)
    with evaluation_mode(model):
        return runner.measure(suite, load_model(model, tokenizer=tokenizer), settings, until)
