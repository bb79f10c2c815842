"""Copies of a model with other weights, and files of mitigated models that give the same scores when they are
loaded.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import ModelError, SettingError
from pytest_genderbias.models.fingerprint import fingerprint_network, fingerprint_tokenizer
from pytest_genderbias.models.hidden_layers import save_projections
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES, WORD_VECTORS
from pytest_genderbias.models.source import READING, quiet_transformers
from pytest_genderbias.models.spec import parse_spec
from pytest_genderbias.models.vectors import WordVectors, read_vectors

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_Network = TypeVar("_Network", bound="PreTrainedModel")
_SENTENCE_FACTS = ("pooling", "max_length")  #: what the files of a sentence encoder add to a model's details


def with_network(model: Model, network: PreTrainedModel, mitigation: str) -> Model:
    """Return a model with another network, and with the fingerprint that its checkpoint would have."""
    facts = {key: value for key, value in model.details.items() if key in _SENTENCE_FACTS}
    fingerprint = fingerprint_network(network, fingerprint_tokenizer(model.backend.tokenizer), facts)
    details = {**model.details, "mitigation": mitigation}
    backend = replace(model.backend, network=network)
    return replace(model, fingerprint=fingerprint, details=details, backend=backend)


def with_matrix(model: Model, matrix: NDArray[np.float32], mitigation: str) -> Model:
    """Return a model of word vectors with another matrix, and a fingerprint that changes with it."""
    digest = hashlib.sha256(model.backend.fingerprint.encode())
    digest.update(np.ascontiguousarray(matrix).data)
    fingerprint, details = digest.hexdigest(), {**model.details, "mitigation": mitigation}
    backend = replace(model.backend, matrix=matrix, fingerprint=fingerprint)
    return replace(model, fingerprint=fingerprint, details=details, backend=backend)


def untie_output(network: PreTrainedModel) -> None:
    """Untie a network's output layer from its input embeddings, in place: it gets a copy of the weights that they
    shared.

    Every parameter that shares its storage with another gets a copy, except embeddings: those of an encoder and a
    decoder stay shared. So does the bias of a vocabulary head that is stored under two names: with
    ``tie_word_embeddings`` off, transformers (5.23) looks for both in a checkpoint and makes up the missing one. The
    second copy of such a bias is not read. The flag is turned off, so that ``tie_weights`` and
    ``resize_token_embeddings`` do not tie the weights again. A network whose output is not tied is left unchanged.
    """
    import torch

    inputs = network.get_input_embeddings().weight
    places = []
    for name, parameter in network.named_parameters(remove_duplicate=False):
        owner = network.get_submodule(name.rpartition(".")[0])
        if not isinstance(owner, torch.nn.Embedding):
            places.append((owner, name.rpartition(".")[2], parameter))
    if not any(parameter is inputs for _, _, parameter in places):
        return
    seen = {id(inputs)}
    for owner, name, parameter in places:
        if id(parameter) in seen:
            own = torch.nn.Parameter(parameter.detach().clone(), requires_grad=parameter.requires_grad)
            setattr(owner, name, own)
        seen.add(id(parameter))
    network.config.tie_word_embeddings = False
    if hasattr(network, "all_tied_weights_keys"):
        network.all_tied_weights_keys = network.get_expanded_tied_weights_keys(all_submodels=True)


def replace_input_embeddings(network: PreTrainedModel, matrix: ArrayLike) -> None:
    """Replace the input embeddings, in place. The output layer keeps its weights (:func:`untie_output`)."""
    import torch

    untie_output(network)
    weight = network.get_input_embeddings().get_parameter("weight")
    with torch.no_grad():
        weight.copy_(torch.as_tensor(np.asarray(matrix)))


def input_embeddings(network: PreTrainedModel) -> NDArray[np.floating]:
    """Return the input embeddings as an array (vocabulary, dim); half precision becomes float32."""
    import torch

    weight = network.get_input_embeddings().get_parameter("weight").detach().cpu()
    wide = weight if weight.dtype == torch.float64 else weight.float()
    return np.asarray(wide.numpy())


def copied(network: _Network) -> _Network:
    """Return a copy of a network, so that changes leave the original as it is."""
    return deepcopy(network)


def save_model(model: Model, path: str | Path) -> Path:
    """Save a mitigated model so that ``load_model`` reads it and gives the same scores, bit for bit.

    A network becomes an ordinary checkpoint with its tokenizer (and the files of a sentence encoder, and the bases of
    projected layers), word vectors become a ``.npz``, ``.txt``, ``.vec`` or ``.safetensors`` file, according to the
    name. The files are written under a temporary name, read again and compared with the model, parameter by parameter,
    before they get their name, so that no incomplete model is left under it.

    Args:
        model: what a mitigation returned.
        path: a new folder; or a new file for word vectors.

    Returns:
        The path.

    Raises:
        SettingError: the path exists, or the format of the name is unknown.
        ModelError: the saved model would differ from the model in memory, in the part that the message names.
        NotApplicableError: the model is neither a network nor word vectors.
    """
    model.require(HIDDEN_STATES, WORD_VECTORS, otherwise="is neither a network nor word vectors: it cannot be saved")
    target = Path(path)
    beside = (f"{target.stem}.vocab.txt", f"{target.stem}.vocab.json") if target.suffix == ".safetensors" else ()
    for taken in (target, *map(target.with_name, beside)):
        if taken.exists():
            raise SettingError(f"{taken} exists; give a new path, since nothing is overwritten")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".saving-") as folder:
        draft = Path(folder, target.name)
        if model.can(HIDDEN_STATES):
            _write_checkpoint(model, draft)
        else:
            _write_vectors(model.backend, draft)
        for written in sorted(Path(folder).iterdir(), key=lambda p: p == draft):  # a vocabulary before its matrix
            written.rename(target.with_name(written.name))
    return target


def _write_checkpoint(model: Model, folder: Path) -> None:
    network = model.backend.network
    problems = []
    flag = bool(getattr(network.config, "tie_word_embeddings", None))
    for tied in (flag, not flag):  # an encoder and a decoder that share their embeddings need it on
        network.config.tie_word_embeddings = tied
        try:
            with quiet_transformers():
                network.save_pretrained(folder)
                problem = _difference(network, folder)
        finally:
            network.config.tie_word_embeddings = flag
        if problem is None:
            break
        problems.append(problem)
        shutil.rmtree(folder)
    else:
        raise ModelError(
            f"{model.name} ({type(network).__name__}) changes when it is saved and loaded: {problems[0]}; nothing was"
            " saved: use the mitigated model in memory"
        )
    save_projections(network, folder)
    model.backend.tokenizer.save_pretrained(folder)
    if model.backend.pooling is not None:
        _copy_sentence_files(model, folder)


def _difference(network: PreTrainedModel, folder: Path) -> str | None:
    """Return the first difference between a network and its saved copy, or ``None``."""
    import torch

    with READING:
        again, info = cast(
            "tuple[PreTrainedModel, dict[str, list[object]]]",
            type(network).from_pretrained(folder, dtype=network.dtype, output_loading_info=True),
        )
    if info["missing_keys"]:
        return f"missing {', '.join(sorted(map(str, info['missing_keys'])))}"
    saved, loaded = dict(_tensors(network)), dict(_tensors(again))
    for name in sorted(saved.keys() | loaded.keys()):
        if name not in saved or name not in loaded:
            return f"{name} is only in {'the model' if name in saved else 'the checkpoint'}"
        if saved[name].dtype != loaded[name].dtype or not torch.equal(saved[name].cpu(), loaded[name].cpu()):
            return f"other numbers in {name}"
    return None


def _tensors(network: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    yield from network.named_parameters(remove_duplicate=False)
    yield from network.named_buffers(remove_duplicate=False)


def _copy_sentence_files(model: Model, folder: Path) -> None:
    """Copy the pooling and length files of a sentence encoder from the folder or the cache of its original."""
    from transformers.utils.hub import cached_file

    original = model.backend.files or parse_spec(model.spec)

    def copy(name: str) -> Path | None:
        with suppress(OSError):
            source = cached_file(original.target, name, local_files_only=True, revision=original.revision)
            if source:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                return Path(shutil.copyfile(source, folder / name))
        return None

    for name in ("sentence_bert_config.json", "config_sentence_transformers.json"):
        copy(name)
    modules = copy("modules.json")
    named = json.loads(modules.read_text(encoding="utf-8")) if modules else [{"path": "1_Pooling"}]
    if not [path for path in (copy(f"{part['path']}/config.json") for part in named if part["path"]) if path]:
        raise ModelError(
            f"{model.name} pools sentences as files beside its weights say, and these are not found at {model.spec}"
        )


def _write_vectors(vectors: WordVectors, path: Path) -> None:
    words = list(vectors.words)
    if list(vectors.words.values()) != list(range(len(words))):
        raise ModelError("the rows of the word vectors are not in the order of their words")
    matrix, form = np.asarray(vectors.matrix, np.float32), path.suffix.lower()
    if form == ".npz":
        np.savez(path, vectors=matrix, words=np.array(words, dtype=str))
    elif form in (".txt", ".vec"):
        rows = (" ".join(f"{x:.9g}" for x in row.tolist()) for row in matrix)  # nine digits give every float32 back
        with path.open("w", encoding="utf-8", newline="\n") as file:
            if path.suffix == ".vec":
                file.write(f"{len(words)} {matrix.shape[1]}\n")
            file.writelines(f"{word} {row}\n" for word, row in zip(words, rows, strict=True))
    elif form == ".safetensors":
        from safetensors.numpy import save_file

        save_file({"vectors": np.ascontiguousarray(matrix)}, path)
        path.with_name(f"{path.stem}.vocab.json").write_text(json.dumps(words, ensure_ascii=False), encoding="utf-8")
    else:
        raise SettingError(f"{path.name}: word vectors are saved as .npz, .txt, .vec, .safetensors")
    again = read_vectors(path)
    if list(again.words) != words or not np.array_equal(again.matrix, vectors.matrix):
        raise ModelError(f"{path.name} would not be read as it is written; choose .npz or .safetensors")


def described(what: Mapping[str, object]) -> str:
    """Return the settings of a mitigation as sorted JSON, for a model's details."""
    return json.dumps(dict(what), sort_keys=True)
