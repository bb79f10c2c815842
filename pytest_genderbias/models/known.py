"""Models that an earlier run loaded and checked, recognised by the content of their files, so that no network is built
to name them.

A record in the score cache holds what a run with stored scores asks of a model: fingerprint, role, details, and its
tokenizer. It is found by a hash over the bytes of all files of the checkpoint, the settings of loading, the versions of
the packages that load it, and the code of this package that does. So a model with another weight, or one that only
earlier code has checked, has no record, and is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from pytest_genderbias.errors import BiasError, ModelError
from pytest_genderbias.folders import RECORDS, distrusted, write_whole
from pytest_genderbias.models.checkpoints import pick_device, pooling_folder
from pytest_genderbias.models.config import quantisation_method
from pytest_genderbias.models.fingerprint import fingerprint_reading
from pytest_genderbias.models.model import (
    UNKNOWN_POOLING,
    BareTokenizer,
    Checkpoint,
    DeferredCheckpoint,
    Model,
    Origin,
    bare_content,
)
from pytest_genderbias.models.roles import Role
from pytest_genderbias.models.source import LoadSettings, ModelSource, explicit_weights, indexed_weights, snapshot_of
from pytest_genderbias.models.spec import ModelSpec

#: Packages that decide what the files of a checkpoint mean, if they are there. Quantised weights, which further ones
#: read, have no record.
_PACKAGES = (
    *("pytest-genderbias", "torch", "transformers", "tokenizers", "safetensors", "numpy", "accelerate"),
    *("huggingface-hub", "sentencepiece", "tiktoken", "protobuf", "mistral-common", "kernels"),
)
#: Files of a training, which no loading reads.
_UNREAD = ("optimizer.pt", "optimizer.bin", "scheduler.pt", "scaler.pt", "training_args.bin")
_MOST_FILES = 1_000  #: in the folder of one checkpoint
_MOST_BYTES = 1 << 28  #: of a record
_BLOCK = 1 << 22  #: bytes that are hashed at a time

_State = tuple[tuple[str, int, int, int], ...]  #: path, size, time of the last change and number of each file
#: Of the files of a checkpoint before they were loaded: the name of their record, which begins with a hash over what
#: decides the role; a hash over their bytes; and their state.
_Files: TypeAlias = tuple[str, str, _State]


class KnownModels:
    """The models whose files earlier runs loaded with the same settings.

    Args:
        cache: folder of the score cache; no model is known by one that is not trusted.
        settings: how models are loaded.
    """

    def __init__(self, cache: Path, settings: LoadSettings) -> None:
        """Keep the settings; nothing is read yet."""
        self._folder, self._settings = cache / RECORDS, settings
        self._has_records = not (distrusted(cache) or distrusted(self._folder) or settings.trust_remote_code)
        self._files: dict[str, _Files | None] = {}
        self._snapshots: dict[tuple[str, str | None], Path | None] = {}

    def source(self, spec: ModelSpec) -> ModelSource | None:
        """Return a located model with its role, from a record with its config; ``None`` if there is none. No weights
        are read.
        """
        local = self._local(spec)
        role = None if local is None else _role_hash(local, self._settings)
        if role is None:
            return None
        records = filter(None, map(_read, sorted(self._folder.glob(f"{role}*.json"))))
        return next((ModelSource(spec, self._role_of(record)) for record in records), None)

    def model(self, spec: ModelSpec, load: Callable[[], Model]) -> Model | None:
        """Return the model of the record of its files, ``None`` if there is none. All files are read.

        Args:
            spec: the model.
            load: loads it with all checks. It is called when the network is first needed, as for scores that are not
                stored.
        """
        local = self._local(spec)
        files = self._files[spec.target] = None if local is None else _files_of(local, self._settings)
        if files is None:
            return None
        name, content, _ = files
        record = _read(self._folder / name)
        if record is None or record["content"] != content:
            return None
        path, fingerprint, known = self._folder / name, record["fingerprint"], dict(record["known"])

        def loaded() -> Checkpoint:
            model = load()
            if model.fingerprint != fingerprint:
                with suppress(OSError):
                    path.unlink()
                raise ModelError(
                    f"{spec.name} changed while it was measured: the weights in {spec.target} are others than when the"
                    " run began; run again when nothing writes there"
                )
            backend: Checkpoint = model.backend
            return backend

        known["widths"] = tuple(known["widths"])
        if record["tokenizer"] is not None:
            known["word_tokenizer"] = BareTokenizer.of_text(record["tokenizer"], record["unk_token"])
        backend, origin = DeferredCheckpoint.of(known, loaded), Origin(spec, self._settings)
        return Model(spec.name, spec.spec, self._role_of(record), fingerprint, record["details"], backend, origin)

    def remember(self, spec: ModelSpec, model: Model) -> None:
        """Write the record of a model that was loaded and checked just now, unless its files changed since
        :meth:`model` hashed them.

        Quantised weights have none, since further libraries decide what they mean. A cache that cannot be written is no
        error: the model is also loaded in the next run.
        """
        local, files = self._local(spec), self._files.get(spec.target)
        if local is None or model.fingerprint is None or quantisation_method(model.backend.network.config) is not None:
            return
        if spec.kind == "hub":  # its files may have come while it was loaded, and those of a commit stay as they are
            complete = model.backend.pooling != UNKNOWN_POOLING  # offline the hub does not say what it lacks
            files = _files_of(local, self._settings) if complete else None
        if files is None:
            return
        name, content, state = files
        record = json.dumps({**_record_of(model), "content": content}, sort_keys=True)
        sealed = f"{hashlib.sha256(record.encode()).hexdigest()}\n{record}\n".encode()
        with suppress(OSError):
            if _state_of(Path(local.target)) == state:
                write_whole(self._folder / name, sealed)

    def _local(self, spec: ModelSpec) -> ModelSpec | None:
        """Return a model as the folder of its files: its own, or for one of the hub that of its commit in the hub's
        cache, which the revision then names. ``None`` where models have no records.
        """
        if not self._has_records or spec.kind not in ("directory", "hub"):
            return None
        if spec.kind == "directory":
            return spec
        key = (spec.target, spec.revision)
        if key not in self._snapshots:
            self._snapshots[key] = snapshot_of(spec)
        folder = self._snapshots[key]
        if folder is None:
            return None
        return replace(spec, kind="directory", target=str(folder), revision=f"{spec.revision} {folder.name}")

    def _role_of(self, record: dict[str, Any]) -> Role:
        role = Role(**record["role"])
        return replace(role, labels=tuple(role.labels)).writing(self._settings.samples)


# Files.


def _files_of(spec: ModelSpec, settings: LoadSettings) -> _Files | None:
    """Hash the files of a checkpoint; ``None`` where that does not say what is loaded."""
    folder = Path(spec.target)
    state, role = _state_of(folder), _role_hash(spec, settings)
    if state is not None and role is not None and _names_only(spec, {name for name, *_ in state}):
        with suppress(OSError):
            hashes = {name: file_sha256(folder / name) for name, *_ in state}
            content = hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()
            return f"{role}{content[:16]}.json", content, state
    return None


def _names_only(spec: ModelSpec, hashed: Collection[str]) -> bool:
    """Return whether config, indexes and the list of modules name hashed files only, and no hidden one, one of a
    training or one elsewhere.
    """
    folder = Path(spec.target)
    try:
        explicit, pooling = explicit_weights(folder), pooling_folder(spec)
        named = [file for _, file in indexed_weights(folder)]
        named += [] if explicit is None else [explicit]
        named += [] if pooling is None else [f"{PurePath(pooling).as_posix()}/config.json"]
        return all(name in hashed for name in named)
    except (BiasError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # loading says why
        return False


def _role_hash(spec: ModelSpec, settings: LoadSettings) -> str | None:
    """Hash a checkpoint's config, the sizes of its files, and all that decides how they are loaded; ``None`` where that
    is not known.
    """
    state, device = _state_of(Path(spec.target)), _device(settings)
    if state is None or device is None:
        return None
    sizes = [(name, size) for name, size, *_ in state]
    loading = (device, settings.dtype, settings.labels, spec.head, spec.revision, _versions(), _code())
    with suppress(OSError):
        text = json.dumps([file_sha256(Path(spec.target) / "config.json"), sizes, loading], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
    return None


def _state_of(folder: Path) -> _State | None:
    """Return the state of all files in a checkpoint's folder, sorted; ``None`` if it is no folder of plain files.

    Folders of other checkpoints inside (``checkpoint-500``), hidden files and the state of a training are left out: no
    loading reads them, unless a file names them (:func:`_names_only`).
    """
    state: list[tuple[str, int, int, int]] = []
    try:
        for path in _paths(folder):
            about = path.stat()
            if not stat.S_ISREG(about.st_mode) or len(state) == _MOST_FILES:
                return None
            state.append((path.relative_to(folder).as_posix(), about.st_size, about.st_mtime_ns, about.st_ino))
    except OSError:
        return None
    return tuple(sorted(state))


def _paths(folder: Path) -> Iterator[Path]:
    """Yield everything in a folder and below that is no folder. A link to a folder is yielded as it is."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith((".", "checkpoint-")):
                    yield from _paths(Path(entry.path))
            elif not entry.name.startswith((".", "rng_state")) and entry.name not in _UNREAD:
                yield Path(entry.path)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of the bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _device(settings: LoadSettings) -> str | None:
    """Return the device that a checkpoint is loaded to, ``None`` for one that only loading can check.

    Builds of torch for the CPU alone have no other, and say so in their version; it takes a second to ask others.
    """
    if settings.device not in ("cpu", "auto"):
        return None
    only_cpu = sys.platform == "darwin" or _versions().get("torch", "").endswith("+cpu")
    return "cpu" if settings.device == "cpu" or only_cpu else pick_device("auto")


@cache
def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


@cache
def _code() -> str:
    """Return a hash over the code that loads and checks models: a record holds only for the checks that its model
    passed.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(f"{path.name} {file_sha256(path)}".encode())
    return digest.hexdigest()


# Records.


def _record_of(model: Model) -> dict[str, Any]:
    checkpoint: Checkpoint = model.backend
    content = bare_content(checkpoint.tokenizer)
    names = ("device", "max_length", "pooling", "batches", "widths", "vocabulary_size", "hidden_size")
    known = {name: getattr(checkpoint, name) for name in names}
    with suppress(AttributeError, NotImplementedError):  # a network without a table of embeddings
        known["input_width"] = checkpoint.input_width
    return {
        "fingerprint": model.fingerprint,
        "role": asdict(model.role),
        "details": model.details,
        "known": {**known, "reading": fingerprint_reading(checkpoint)},
        "tokenizer": content,
        "unk_token": None if content is None else checkpoint.tokenizer.unk_token,
    }


def _read(path: Path) -> dict[str, Any] | None:
    """Return a record and mark it as used; ``None`` if there is none, or its file is damaged."""
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_BYTES:
            return None
        digest, _, text = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    if hashlib.sha256(text.removesuffix(b"\n")).hexdigest().encode() != digest:
        return None
    with suppress(OSError):
        os.utime(path)
    record: dict[str, Any] = json.loads(text)
    return record
