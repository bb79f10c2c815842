"""The files of a sentence encoder that transformers does not read: modules, pooling and length."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.model import UNKNOWN_POOLING
from pytest_genderbias.models.source import checkpoint_file
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.text.printable import brief

_MODULES, _LENGTHS = "modules.json", "sentence_bert_config.json"
#: Modules that a sentence encoder may have: pooling is applied here, and normalising changes no cosine.
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first", "pooling_mode_max_tokens": "max"}


@dataclass(frozen=True)
class SentenceFiles:
    """Pooling and length according to the files of a sentence encoder; ``None`` if the checkpoint has no such files."""

    pooling: str | None
    longest: object

    @property
    def facts(self) -> dict[str, str]:
        """The entries that decide scores, by name; empty for other checkpoints."""
        entries = {"pooling": self.pooling, "max_length": self.longest}
        return {name: str(value) for name, value in entries.items() if value not in (None, UNKNOWN_POOLING)}


def read_sentence_files(spec: ModelSpec) -> SentenceFiles:
    """Read the files that a sentence encoder has beside those of transformers.

    Raises:
        ModelError: a file cannot be read, or names modules or a pooling that are not supported.
    """
    pooling = _pooling(spec)
    longest = (_read_json(spec, _LENGTHS, dict) or {}).get("max_seq_length")
    if pooling is None and spec.kind == "hub":
        from huggingface_hub import try_to_load_from_cache

        # A cache that transformers alone has filled does not say whether these files are there.
        looked_up = [try_to_load_from_cache(spec.target, name, revision=spec.revision) for name in (_MODULES, _LENGTHS)]
        pooling = UNKNOWN_POOLING if None in looked_up else None
    return SentenceFiles(pooling, longest)


def _pooling(spec: ModelSpec) -> str | None:
    """Return the pooling according to the encoder's files, or ``None`` if it has none."""
    folder = pooling_folder(spec)
    name = f"{folder or '1_Pooling'}/config.json"
    content = _read_json(spec, name, dict)
    if content is None and folder is not None:
        raise ModelError(f"{spec.target}/{name} is missing, but modules.json names it; copy the whole encoder again")
    if content is None:
        return None
    modes = [_POOLINGS[key] for key, on in content.items() if on is True and key in _POOLINGS]
    if len(modes) != 1:
        raise ModelError(
            f"{spec.target}/{name} names no pooling that is supported; expected exactly one of {', '.join(_POOLINGS)}"
            " to be true"
        )
    return modes[0]


def pooling_folder(spec: ModelSpec) -> str | None:
    """Return the folder of the pooling in ``modules.json``, if any; refuse modules that would not be applied."""
    modules = _read_json(spec, _MODULES, list) or []
    try:
        folders = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
    except (TypeError, KeyError):
        raise ModelError(f"{spec.target}/{_MODULES} cannot be read: expected objects with 'type' and 'path'") from None
    others = [kind for kind in folders if kind not in _KNOWN_MODULES]
    if others:
        raise ModelError(
            f"{spec.name} is a sentence encoder with the module {', '.join(others)} ({_MODULES}); only"
            f" {', '.join(_KNOWN_MODULES)} are applied here: give it as module:callable with encode(texts), or remove"
            " modules.json to measure its network alone"
        )
    folder = folders.get("Pooling")
    if folder is not None and (PurePath(folder).is_absolute() or ".." in PurePath(folder).parts or "\\" in folder):
        raise ModelError(
            f"{spec.target}/{_MODULES} names the folder {brief(folder)}, which is outside the encoder; copy the whole"
            " encoder again"
        )
    return folder


def _read_json(spec: ModelSpec, name: str, kind: type) -> Any:
    """Return the object or array in a JSON file of the encoder, or ``None`` if there is no such file."""
    path = checkpoint_file(spec, name)
    if path is None:
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, kind):
            raise ValueError(f"expected a JSON {'object' if kind is dict else 'array'}, got {content!r:.60}")
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}; copy or save the whole sentence encoder again") from None
    return content
