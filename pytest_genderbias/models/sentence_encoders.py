"""What the files of a sentence encoder say beside those of transformers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.model import UNKNOWN_POOLING
from pytest_genderbias.models.source import LoadSettings, own_file
from pytest_genderbias.models.spec import ModelSpec

_MODULES, _LENGTHS = "modules.json", "sentence_bert_config.json"


#: What a sentence encoder may do after its network: pooling is done here, and a unit length changes no cosine.
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class SentenceFiles:
    """What the files of a sentence encoder say beside those of transformers; ``None`` where there are none."""

    pooling: str | None
    longest: int | None

    @property
    def facts(self) -> dict[str, str]:
        """What of it decides scores, by name; empty for any other checkpoint."""
        said = {"pooling": self.pooling, "max_length": self.longest}
        return {name: str(value) for name, value in said.items() if value not in (None, UNKNOWN_POOLING)}


def own_sentences(spec: ModelSpec, settings: LoadSettings) -> SentenceFiles:
    """Read the files that a sentence encoder has beside those of transformers."""
    pooling = _pooling(spec, settings)
    longest = (_read_own_json(spec, settings, _LENGTHS, dict) or {}).get("max_seq_length")
    if pooling is None and not _own_files_are_known(spec):
        pooling = UNKNOWN_POOLING
    return SentenceFiles(pooling, longest)


def _pooling(spec: ModelSpec, settings: LoadSettings) -> str | None:
    """Return how a sentence encoder's own files say that sentences are pooled, or nothing."""
    modes = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first", "pooling_mode_max_tokens": "max"}
    named = _pooling_folder(spec, settings)
    name = f"{named or '1_Pooling'}/config.json"
    config = _read_own_json(spec, settings, name, dict)
    if config is None and named is not None:
        raise ModelError(f"{spec.target}/{name} is not there, but modules.json names it; copy the encoder again, whole")
    if config is None:
        return None
    chosen = [modes[key] for key, on in config.items() if on is True and key in modes]
    if len(chosen) != 1:
        raise ModelError(
            f"{spec.target}/{name} names no pooling that is known here; expected one of {', '.join(modes)} to be true"
        )
    return chosen[0]


def _pooling_folder(spec: ModelSpec, settings: LoadSettings) -> str | None:
    """Return the folder that ``modules.json`` gives to the pooling, if any; refuse modules that would be left out."""
    modules = _read_own_json(spec, settings, _MODULES, list) or []
    try:
        folders = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
    except (TypeError, KeyError):
        raise ModelError(f"{spec.target}/{_MODULES} cannot be read: expected objects with 'type' and 'path'") from None
    others = [kind for kind in folders if kind not in _KNOWN_MODULES]
    if others:
        raise ModelError(
            f"{spec.name} is a sentence encoder with the module {', '.join(others)} ({_MODULES}); only {', '.join(_KNOWN_MODULES)} are "
            "applied here: give it as module:callable with encode(texts), or remove modules.json to measure its network alone"
        )
    return folders.get("Pooling")


def _read_own_json(spec: ModelSpec, settings: LoadSettings, name: str, kind: type) -> Any:
    """Return a file that a sentence encoder has beside those of transformers; nothing where there is none."""
    path = own_file(spec, settings, name)
    if path is None:
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, kind):
            raise ValueError(f"expected a JSON {'object' if kind is dict else 'array'}, got {content!r:.60}")
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}; copy or save the sentence encoder again, whole") from None
    return content


def _own_files_are_known(spec: ModelSpec) -> bool:
    """Tell whether a sentence encoder's files would have been found: a cache filled by transformers alone lacks them."""
    if spec.kind != "hub":
        return True
    from huggingface_hub import try_to_load_from_cache

    return all(try_to_load_from_cache(spec.target, name) is not None for name in (_MODULES, _LENGTHS))
