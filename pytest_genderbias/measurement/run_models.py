"""``RunModels``: loads the models of a run, keeps one of them in memory, and reports each refused model in full
once.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

from pytest_genderbias.errors import BiasError, ModelError
from pytest_genderbias.models.loading import inspect, load
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.source import LoadSettings, ModelSource
from pytest_genderbias.models.spec import ModelSpec

if TYPE_CHECKING:
    from pytest_genderbias.models.known import KnownModels

T = TypeVar("T")


class RunModels:
    """The models of a run, by spec. One is in memory; the next one takes its place.

    Args:
        settings: how models are loaded.
        threads: threads that torch may use; its own default if ``None``.
        cache: folder of the score cache. A model that it knows by its files is loaded only when scores are missing.
    """

    def __init__(self, settings: LoadSettings, threads: int | None = None, cache: Path | None = None) -> None:
        """Keep the settings; nothing is loaded yet."""
        self.settings, self.threads = settings, threads
        self._known: KnownModels | None = None
        if cache is not None:
            from pytest_genderbias.models.known import KnownModels

            self._known = KnownModels(cache, settings)
        #: Held while the model in memory is used, so that no other thread replaces it.
        self.lock = RLock()
        #: Results that hold copies of the model in memory. They are dropped together with it.
        self.kept_with_model: dict[str, object] = {}
        self._sources: dict[ModelSpec, ModelSource] = {}
        self._refused: dict[ModelSpec, str | None] = {}  # the error, until it has been reported in full
        self._loaded: tuple[ModelSpec, Model] | None = None
        self._served: dict[ModelSpec, Model] = {}  # of other processes; each is proved once a run

    def source(self, spec: ModelSpec) -> ModelSource:
        """Locate a model and read its role, without loading its weights."""
        with self.lock:
            files = replace(spec, name="", spec="")  # another model may share them under another name
            if files not in self._sources:

                def located() -> ModelSource:
                    known = None if self._known is None else self._known.source(spec)
                    return known or inspect(spec, self.settings)

                self._sources[files] = self.refused_once(spec, located)
            return replace(self._sources[files], spec=spec)

    def model(self, spec: ModelSpec) -> Model:
        """Load a model and keep it in memory; the previous one is released first."""
        with self.lock:
            if self.source(spec).elsewhere:
                if spec not in self._served:
                    self._served[spec] = self.refused_once(spec, lambda: load(self.source(spec), self.settings))
                return self._served[spec]
            if self._loaded is None or self._loaded[0] != spec:
                self.release()
                source = self.source(spec)
                known = None if self._known is None else self._known.model(spec, partial(self._checked, spec))
                from_record = spec.kind in ("directory", "hub") and source.config is None  # which holds the role alone
                self._loaded = spec, known or self._checked(spec, None if from_record else source)
            self._limit_threads()
            return self._loaded[1]

    def _checked(self, spec: ModelSpec, source: ModelSource | None = None) -> Model:
        """Load a model with all checks, and let the next run know it by its files."""
        with self.lock:
            model = self.refused_once(spec, lambda: load(source or inspect(spec, self.settings), self.settings))
            if self._known is not None:
                self._known.remember(spec, model)
            self._limit_threads()
            return model

    def _limit_threads(self) -> None:
        """Let torch use ``threads`` threads, if it is loaded: an object of the user may need none, and it takes seconds
        to load.
        """
        if self.threads is not None and "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(self.threads)

    def load(self, spec: ModelSpec) -> Model:
        """Load a model that is not kept, so that it can stand beside the one in memory."""
        return load(inspect(spec, self.settings), self.settings)

    def release(self) -> None:
        """Release the model in memory, and all that was kept with it."""
        with self.lock:
            if self._loaded is not None:
                self._loaded = None
                self.kept_with_model.clear()
                gc.collect()

    def refused_once(self, spec: ModelSpec, load: Callable[[], T]) -> T:
        """Return what ``load`` gives. Its error is raised in full once, and in short for later requests of this
        model.
        """
        if spec in self._refused:
            message, self._refused[spec] = self._refused[spec], None
            raise ModelError(message or f"{spec.name} cannot be measured; the first error about it says why")
        try:
            return load()
        except BiasError:
            self._refused[spec] = None
            raise

    @contextmanager
    def unreported(self) -> Iterator[None]:
        """Suppress an error inside the ``with`` block. If a model was refused, the next request for it gets the full
        message.
        """
        reported = {spec for spec, message in self._refused.items() if message is None}
        try:
            yield
        except BiasError as error:
            for spec in self._refused.keys() - reported:
                if self._refused[spec] is None:
                    self._refused[spec] = str(error)
