"""The folder of a checkpoint: which of its files torch reads, and why one of them cannot be read."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Iterator
from pathlib import Path

from pytest_genderbias.errors import DataFileError, ModelError
from pytest_genderbias.text.plain_files import POINTER_ADVICE, is_pointer, parse_json, read_whole
from pytest_genderbias.text.printable import brief, brief_list

#: Weights under the names that transformers looks for, without those of single shards.
_TORCH_WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
#: The same with shards.
WHOLE_WEIGHTS = ("model*.safetensors", "model.safetensors.index.json", "pytorch_model*.bin")
#: Weights beside which a graph is not what the folder is for.
_NO_GRAPH = ("*.safetensors", "pytorch_model*.bin", "*.safetensors.index.json")
#: Weights that torch does not read, and the argument with which transformers 4 converts them; empty where it does not.
_FOREIGN_WEIGHTS = (
    ("*.h5", "TensorFlow", "from_tf"), ("*.ckpt.index", "TensorFlow", "from_tf"), ("saved_model.pb", "TensorFlow", ""),
    ("*.msgpack", "Flax", "from_flax"), ("*.ot", "Rust", ""), ("*.mlmodel", "Core ML", ""),
    ("*.tflite", "TensorFlow Lite", ""),
)  # fmt: skip
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")  #: endings of weights as torch.save writes them
_PACKED = (".gz", ".zip", ".tar", ".tgz", ".zst", ".xz", ".7z")
_UNFINISHED = (".part", ".incomplete", ".crdownload", ".download", ".aria2", ".tmp")
#: What a Trainer writes beside weights.
_NO_WEIGHTS = ("optimizer.", "scheduler.", "scaler.", "rng_state", "training_args.", "trainer_state.", "global_step")
_MOST_JSON = 1 << 26  #: bytes of a JSON file that are looked at
_LENGTH = 8  #: bytes at the beginning of a safetensors file, which say how long its header is
_MOST_HEADER = 100_000_000  #: bytes, as safetensors has it
#: How files begin that are no safetensors files, what they are, and what to do.
_BEGINNINGS = (
    (b"PK\x03\x04", "written by torch.save; rename it to pytorch_model.bin, or save it with save_pretrained()"),
    (b"\x80", "a pickle; rename it to pytorch_model.bin, or save it with save_pretrained()"),
    (b"GGUF", "a GGUF file; give it as SPEC, with the ending .gguf"),
    (b"\x1f\x8b", "a gzip file; unpack it"),
    (b"/annex/objects", "a pointer of git-annex; fetch the file: git annex get"),
    (b"# xet version", "a pointer of Xet; fetch the file: git xet pull"),
    (b"<", "an HTML or XML page, which a server sent in its place; download it again"),
    (b"", "no safetensors file: it has no header; copy it again"),
)


def check_folder(path: Path) -> None:
    """Refuse a folder that is no checkpoint for torch, and no exported graph.

    Raises:
        ModelError: it is empty, has checkpoints inside, or its config or weights are missing or for another library.
    """
    if not any(path.iterdir()):
        raise ModelError(
            f"{path} is empty; expected a checkpoint: config.json, weights (model.safetensors) and a tokenizer"
        )
    in_gguf = sorted(path.glob("*.gguf"))
    if in_gguf and not any((path / name).is_file() for name in _TORCH_WEIGHTS):
        names, graph = ", ".join(file.name for file in in_gguf[:4]), graph_in(path)
        beside, others = ("", "") if graph is None else (f" and in a graph ({graph.name})", f" or {graph}")
        raise ModelError(
            f"{path} has its weights in GGUF ({names}){beside}; give the file as SPEC: {in_gguf[0]}{others}"
        )
    refuse_pointers(path)
    has_config = (path / "config.json").is_file()
    weights = [p for pattern in WHOLE_WEIGHTS for p in path.glob(pattern)]
    inside = sorted(
        (folder.parent for folder in path.glob("*/config.json")),
        key=lambda folder: (int(number) if (number := folder.name.rpartition("-")[2]).isdecimal() else -1, folder.name),
    )
    if inside and not weights and (not has_config or inside[-1].name.startswith("checkpoint-")):
        others = f" (or one of {', '.join(f.name for f in inside[:-1][-4:])})" if len(inside) > 1 else ""
        raise ModelError(
            f"{path} has no {'weights' if has_config else 'config.json'} of its own, but checkpoints inside; give"
            f" {inside[-1]}{others}"
        )
    if not weights:
        _refuse_foreign(path)
    if not has_config:
        raise ModelError(f"{path} has no config.json; expected a checkpoint as save_pretrained() writes it")


def refuse_pointers(path: Path) -> None:
    """Refuse a file, or a folder with files, for which Git LFS left pointers.

    Raises:
        ModelError: it is one, or there are some in the folder or right below that would be read.
    """
    files = [path] if path.is_file() else sorted(file for pattern in ("*", "*/*") for file in path.glob(pattern))
    found = [file for file in files if is_pointer(file)]
    if found and path.is_dir() and (read := weights_read(path)):  # weights for other libraries need not be fetched
        found = [file for file in found if file in read or file.suffix in (".json", ".txt", ".model", ".jinja", ".py")]
    if found:
        raise ModelError(f"{found[0]} {POINTER_ADVICE}")


def graph_in(folder: Path) -> Path | None:
    """Return the graph of a folder without weights for torch, or ``None`` if it has weights or no graph.

    Raises:
        ModelError: the folder has several graphs.
    """
    if any(any(folder.glob(pattern)) for pattern in _NO_GRAPH):
        return None
    graphs = sorted(path for path in folder.iterdir() if path.suffix == ".onnx" or path.name == "openvino_model.xml")
    if len(graphs) > 1:
        raise ModelError(
            f"{folder} has {len(graphs)} graphs ({', '.join(path.name for path in graphs[:6])}); give the file of one"
            " as SPEC"
        )
    return graphs[0] if graphs else None


def damage_of(folder: Path, with_weights: bool) -> str:
    """Return what is wrong with the files of a checkpoint that could not be read, with advice; empty if nothing is
    found.

    Args:
        folder: the folder of the checkpoint.
        with_weights: whether its weights were read, and not only config or tokenizer.
    """
    try:
        return next(_damages(folder, with_weights), "")
    except OSError:
        return ""


def _damages(folder: Path, with_weights: bool) -> Iterator[str]:
    for file in sorted(folder.iterdir()):
        if file.is_symlink() and not file.exists():
            yield (
                f"{file.name!r} is a link to {brief(os.readlink(file))}, which is not there; copy the files that links"
                " name (cp -L), or fetch them (git annex get)"
            )
    for file in sorted(folder.glob("*.json")):
        try:
            parse_json(read_whole(file, _MOST_JSON), str(file), finite=False)
        except DataFileError as error:
            empty = "" if file.stat().st_size else f"{file} is empty"
            yield f"{empty or error}; copy the file again"
        if file.read_bytes()[:3] == codecs.BOM_UTF8:
            yield (
                f"{file} begins with a byte order mark, which transformers does not read; save it as UTF-8 without one"
            )
    if (config := folder / "config.json").is_file():
        entries = json.loads(config.read_text(encoding="utf-8"))
        if not isinstance(entries, dict):
            yield f"{config} has no entries; expected a mapping, as save_pretrained() writes it: copy the file again"
        elif not isinstance(entries.get("model_type"), str):
            yield f"{config} names no model_type; expected one, as bert: correct it, or copy the file again"
    if not with_weights or (folder / "adapter_config.json").is_file():
        return
    yield from _missing_weights(folder)
    for file in weights_read(folder):
        yield from _damages_of_weights(file)


def _missing_weights(folder: Path) -> Iterator[str]:
    """Yield that no weights are found under the names that transformers reads, and what to do with those that are
    there.
    """
    config = folder / "config.json"
    named = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    if any((folder / name).is_file() for name in _TORCH_WEIGHTS) or "transformers_weights" in named:
        for index in folder.glob("*.index.json"):
            content = json.loads(index.read_text(encoding="utf-8"))
            by_weight = content.get("weight_map") if isinstance(content, dict) else None
            if not isinstance(by_weight, dict) or not by_weight:
                yield f"{index.name!r} has no weight_map, which says where each weight is; copy it again"
                return
            shards = {str(name) for name in by_weight.values()}
            missing = sorted(name for name in shards if not (folder / name).is_file())
            if missing:
                yield (
                    f"{index.name!r} names {len(shards)} files of weights, and the folder lacks {len(missing)}: "
                    f"{brief_list(missing, 160)}; copy them, too"
                )
        return
    start = "it has no weights under a name that is read (model.safetensors or pytorch_model.bin)"
    files = sorted(file for pattern in ("*", "*/*") for file in folder.glob(pattern) if file.is_file())
    weights = [file for file in files if not {".safetensors", *_PICKLES}.isdisjoint(file.suffixes)]
    others = [file for file in weights if not file.name.startswith(_NO_WEIGHTS)]
    if not others:
        yield f"{start}, and no others; copy them into the folder"
        return
    names = brief_list([file.relative_to(folder).as_posix() for file in others], 160)
    yield f"{start}, but {names}; {_how_to_read(folder, others[0])}"


def _how_to_read(folder: Path, file: Path) -> str:
    """Return what to do with weights under a name that transformers does not look for."""
    if file.suffix in _UNFINISHED:
        return "its download is not complete: download it again"
    if file.suffix in _PACKED:
        return "unpack it"
    if file.name.startswith("adapter_model."):
        return (
            "that is an adapter: copy its adapter_config.json, too, and give adapter:DIR@BASE with the checkpoint that"
            " it changes"
        )
    if file.name.startswith("consolidated."):
        return (
            "consolidated files have the layout of their makers' own code: give the checkpoint that was converted for"
            " transformers, or convert it with the script of its model in transformers (convert_..._weights_to_hf.py)"
        )
    if file.parent != folder:
        return f"give {file.parent} if it is the whole checkpoint, or move the file into {folder}"
    if "-of-" in file.name:
        return f"shards need their index: copy {file.name.partition('-')[0]}{file.suffix}.index.json, too"
    plain = "model.safetensors" if ".safetensors" in file.suffixes else "pytorch_model.bin"
    return (
        f"if it holds the state dict of the network that config.json describes, rename it to {plain}; else load it in"
        " the code that saved it, and save the network with save_pretrained()"
    )


def _damages_of_weights(file: Path) -> Iterator[str]:
    """Yield why a file of weights is not what its name says."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        beginning = stream.read(64)
        length = int.from_bytes(beginning[:_LENGTH], "little")
        header = b"" if length > _MOST_HEADER else (beginning + stream.read(length))[_LENGTH : _LENGTH + length]
    is_safe = header.lstrip().startswith(b"{")
    if not size:
        yield f"{file.name!r} is empty; copy it again"
    elif file.suffix == ".safetensors" and not is_safe:
        yield f"{file.name!r} is {next(kind for start, kind in _BEGINNINGS if beginning.lstrip().startswith(start))}"
    elif is_safe and file.suffix != ".safetensors":
        yield f"{file.name!r} is a safetensors file; rename it to model.safetensors"
    elif is_safe and (needed := _bytes_needed(header, length)) > size:
        yield f"{file.name!r} is cut: it has {size:,} of {needed:,} bytes; copy it again"


def _bytes_needed(header: bytes, length: int) -> int:
    """Return how many bytes a safetensors file has by its header; only those of the header if that is cut."""
    ends = [0]
    if len(header) == length:
        try:
            tensors = json.loads(header)
            ends += [int(one["data_offsets"][1]) for key, one in tensors.items() if key != "__metadata__"]
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            pass
    return _LENGTH + length + max(ends)


def weights_read(folder: Path) -> list[Path]:
    """Return the files from which transformers reads the weights of a folder: of safetensors, if there are any."""
    files = [
        [*folder.glob(f"{part}*")]
        for part in ("model*.safetensors", "adapter_model.safetensors", "pytorch_model*.bin", "adapter_model.bin")
    ]
    return next((of for of in files if of), [])


def _refuse_foreign(path: Path) -> None:
    """Refuse a checkpoint whose only weights belong to another library than torch."""
    from_torch = ("*.safetensors", "*.bin", "*.onnx", "*.xml", "*.gguf")
    if any(file for pattern in from_torch for file in path.glob(pattern)):
        return
    for pattern, library, argument in _FOREIGN_WEIGHTS:
        if (file := next(iter(sorted(path.glob(pattern))), None)) is not None:
            how = (
                f"; convert them where transformers 4 and {library} are installed, with the class of its head: "
                f"AutoModelForMaskedLM.from_pretrained({str(path)!r}, {argument}=True).save_pretrained({str(path)!r})"
                if argument
                else "; give a checkpoint that save_pretrained() of torch's class wrote"
            )
            raise ModelError(f"{path} has its weights for {library} ({file.name}), which torch does not read{how}")
