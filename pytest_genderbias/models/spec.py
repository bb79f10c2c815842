"""``[NAME=]SPEC``: what ``--bias-model`` takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from os import PathLike
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

from pytest_genderbias.errors import BiasError, DataFileError, ModelError, SettingError
from pytest_genderbias.models.checkpoint_folder import WHOLE_WEIGHTS, check_folder, graph_in, refuse_pointers
from pytest_genderbias.text.printable import brief, close_names, expected_instead

#: Data types of the weights that a run may ask for.
DTYPES = ("float32", "float16", "bfloat16", "float64", "auto")
#: Short names for the usual hub ids. A head is named for those whose config names none.
ALIASES = {
    "bert-tiny": "google/bert_uncased_L-2_H-128_A-2,head=masked-lm",
    "bert-mini": "google/bert_uncased_L-4_H-256_A-4,head=masked-lm",
    "bert-small": "google/bert_uncased_L-4_H-512_A-8,head=masked-lm",
    "bert-medium": "google/bert_uncased_L-8_H-512_A-8,head=masked-lm",
    "bert-base": "google-bert/bert-base-uncased",
    "bert-large": "google-bert/bert-large-uncased",
    "bert-base-cased": "google-bert/bert-base-cased",
    "bert-large-cased": "google-bert/bert-large-cased",
    "albert-base": "albert/albert-base-v2",
    "albert-large": "albert/albert-large-v2",
    "roberta-base": "FacebookAI/roberta-base",
    "roberta-large": "FacebookAI/roberta-large",
    "xlm-roberta-base": "FacebookAI/xlm-roberta-base",
    "distilbert": "distilbert/distilbert-base-uncased",
    "distilroberta": "distilbert/distilroberta-base",
    "deberta-v3-base": "microsoft/deberta-v3-base,head=encoder",
    "modernbert-base": "answerdotai/ModernBERT-base",
    "mpnet-base": "microsoft/mpnet-base",
    "gpt2": "openai-community/gpt2",
    "gpt2-medium": "openai-community/gpt2-medium",
    "distilgpt2": "distilbert/distilgpt2",
    "roberta-large-mnli": "FacebookAI/roberta-large-mnli",
    "bart-large-mnli": "facebook/bart-large-mnli",
}
DEMOS = {"demo-mlm": "mlm", "demo-lm": "lm", "demo-nli": "nli"}
DEMO_FOLDER = Path(__file__).resolve().parents[1] / "demo"
#: Heads that a spec can name after ``,head=``, for a checkpoint whose config names no architecture.
HEADS = ("masked-lm", "causal-lm", "classifier", "encoder")
_HEAD = re.compile(r"(.+),head=([^,/\\]*)")
_LONG = 300  #: characters of a spec that a message repeats
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
SERVED = "served"  #: kind of a model behind a server
CHAT, CHAT_PREFIX = "chat", "chat:"  #: kind of a system that answers in text behind one
GRAPHS = ("onnx", "openvino")  #: kinds of exported graphs, and names of extras
ADAPTER_PREFIX = "adapter:"
_URL = re.compile(rf"(?:{CHAT_PREFIX})?https?://.*", re.IGNORECASE)


class Engine(NamedTuple):
    """A kind of model that the room ``engines`` knows.

    ``module``: has ``inspect(spec, settings)`` and ``load(source, settings)``. ``spec``: how a user writes its specs,
    in a message: a prefix, which no other spec begins with, then the parts in capitals. ``ending``: ending of its
    files.
    """

    module: str
    spec: str = ""
    ending: str = ""

    @property
    def prefix(self) -> str:
        """Pattern of the beginning of its specs, which ``parse(spec)`` of the module reads."""
        return re.split("[A-Z]", self.spec)[0].replace("http://", "(?i:https?://)")


#: Engines by ``ModelSpec.kind``. A module is imported for the first model of its kind. Where a path follows the
#: prefix, :func:`portable_spec` has to shorten it.
ENGINES: Mapping[str, Engine] = {
    "adapter": Engine("engines.peft_adapters", spec=f"{ADAPTER_PREFIX}DIR[@BASE]"),
    "onnx": Engine("engines.exported", ending=".onnx"),
    "openvino": Engine("engines.exported", ending=".xml"),
    SERVED: Engine("engines.served", spec="http://HOST:PORT/v1#MODEL"),
    CHAT: Engine("engines.chat_endpoint", spec=f"{CHAT_PREFIX}http://HOST:PORT/v1#MODEL"),
    "vllm": Engine("engines.vllm_engine", spec="vllm:DIR"),
    "results": Engine("engines.results_files", spec="results:FILE"),
    "answers": Engine("engines.results_files", spec="answers:FILE"),
}
_ENDINGS = {".gguf": "gguf", **{engine.ending: name for name, engine in ENGINES.items() if engine.ending}}
_OBJECT = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*:[A-Za-z_]\w*(?:\.\w+)*")


_LONGEST_NAME = 128
#: Names that Windows gives to devices, in any case and with any ending.
_DEVICES = frozenset(("CON", "PRN", "AUX", "NUL", *(f"{port}{i}" for port in ("COM", "LPT") for i in range(10))))

SEED = "{seed}"  #: placeholder in a spec for the number of a restart


#: A file of the peft library: how to change the weights of another checkpoint, its base.
ADAPTER = "adapter_config.json"
#: What a hub id may look like.
HUB_ID = re.compile(r"[\w.-]+(?:/[\w.-]+)?")
#: Ids without an owner that the hub still knows, among those that look like an alias.
_WITHOUT_OWNER = frozenset(
    (
        "xlm-roberta-large",
        "distilbert-base-cased",
        "bert-base-chinese",
        "xlnet-base-cased",
        "xlnet-large-cased",
        *(target.rpartition("/")[2] for target in ALIASES.values()),
    )
)
_ALIKE = 0.8  #: share of the letters of an alias, from which on it is meant
_FEW_LETTERS = 2  #: by which the lengths of a misspelt alias and the alias differ at most
_REVISION = re.compile(r"\w[\w./-]*")  #: of a hub id: a branch, a tag or a commit


def check_name(name: str) -> str:
    """Return a model's name if tables and file names of every system can contain it.

    Raises:
        SettingError: it has other characters than letters, digits, dots, hyphens and underscores, is too long, or is no
            name of a folder on Windows.
    """
    if not re.fullmatch(_NAME, name):
        raise SettingError(
            "a model's name has letters, digits, '.', '_' and '-' only, and begins with none of the three; got"
            f" {name!r:.80}"
        )
    if trouble := _trouble_of_name(name):
        raise SettingError(f"a model cannot be called {name!r:.80}: {trouble}")
    return name


def _trouble_of_name(name: str) -> str:
    """Return why no folder of baselines can have a name; an empty text if one can."""
    if len(name) > _LONGEST_NAME:
        return f"its baselines are in a folder of this name, and a name has at most {_LONGEST_NAME} characters"
    if name.endswith("."):
        return "its baselines are in a folder of this name, and Windows takes away the dot at the end"
    if name.partition(".")[0].upper() in _DEVICES:
        return (
            f"its baselines are in a folder of this name, and on Windows {name.partition('.')[0].upper()} is a device"
        )
    return ""


def portable_spec(spec: str) -> str:
    """Return a spec as files of a project hold it: with the last part only of an absolute path, which says nothing on
    another machine.

    >>> [portable_spec(spec) for spec in ("/home/me/runs/bert", "text:/data/a.txt", "runs/bert", "C:\\\\a\\\\b")]
    ['bert', 'text:a.txt', 'runs/bert', 'b']
    >>> portable_spec("adapter:/home/me/lora@/models/bert"), portable_spec("adapter:runs/lora")
    ('adapter:lora@bert', 'adapter:runs/lora')
    >>> portable_spec("vllm:/models/chat")
    'vllm:chat'
    >>> portable_spec("http://127.0.0.1:8000/v1#/models/chat")
    'http://127.0.0.1:8000/v1#chat'
    >>> portable_spec("chat:http://127.0.0.1:8000/v1#/models/chat")
    'chat:http://127.0.0.1:8000/v1#chat'
    """
    if spec.startswith(ADAPTER_PREFIX):
        return ADAPTER_PREFIX + "@".join(
            map(portable_spec, filter(None, split_adapter(spec.removeprefix(ADAPTER_PREFIX))))
        )
    if _URL.fullmatch(spec):
        url, _, model = spec.partition("#")
        return f"{url}#{portable_spec(model)}"
    prefixes = ("text:", *(engine.prefix for engine in ENGINES.values() if engine.prefix))
    kind = next((prefix for prefix in prefixes if spec.startswith(prefix)), "")
    path = spec.removeprefix(kind)
    absolute = path.startswith(("/", "~")) or PureWindowsPath(path).is_absolute()
    return kind + PureWindowsPath(path).name if absolute else spec


@dataclass(frozen=True)
class ModelSpec:
    """A model's name (for tables and baselines), and where it comes from.

    ``kind`` says how it is loaded, not what it can be asked (:class:`~pytest_genderbias.models.roles.Role`):
    ``directory``, ``hub``, ``gguf``, ``object``, ``vectors``, ``predictions``, ``text``, or a name of :data:`ENGINES`.
    ``target`` is the path (of a folder with an exported graph: of
    the graph), the hub id, ``module:callable``, or ``URL#MODEL``. ``base``: what an adapter changes, where the spec
    says so; ``None`` for other kinds, and where the adapter's own file names it. ``head``: one of ``HEADS``, if the
    spec names it. ``revision``: branch, tag or commit of a hub id, as in ``org/model@v1.0``; ``None`` for its main
    branch.
    """

    name: str
    spec: str
    kind: str
    target: str
    base: ModelSpec | None = None
    head: str | None = None
    revision: str | None = None

    @property
    def seeded(self) -> bool:
        """Whether the spec contains ``{seed}``: one checkpoint for each restart of a training, as
        ``runs/seed-{seed}``.
        """
        return SEED in self.spec

    def for_seed(self, seed: int) -> ModelSpec:
        """Return the spec of one restart, under the same name; the spec itself where it has no restarts.

        Raises:
            ModelError: there is no checkpoint for this restart.
        """
        if not self.seeded:
            return self
        return replace(_parse(self.spec.replace(SEED, str(seed))), name=self.name)


def parse_spec(text: str) -> ModelSpec:
    """Parse one ``[NAME=]SPEC``. Files are looked up, the hub is not.

    >>> spec = parse_spec("candidate=bert-base")
    >>> spec.name, spec.spec, spec.kind, spec.target
    ('candidate', 'bert-base', 'hub', 'google-bert/bert-base-uncased')
    >>> parse_spec("org/old-bert,head=masked-lm").head
    'masked-lm'

    Raises:
        ModelError: the directory is missing, empty or without a checkpoint, the file is of an unknown kind, its first
            row cannot be read, no path can be made of the text (``~nosuchuser/x``, thousands of characters), or the
            name cannot be that of a folder.
    """
    try:
        match = re.fullmatch(rf"({_NAME})=(.+)", text.strip())
        spec = replace(_parse(match[2]), name=match[1]) if match else _parse(text.strip())
    except BiasError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no such user; ValueError: a NUL character
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ModelError(
            f"{brief(text)} cannot be looked up as a path: {reason}; expected [NAME=]SPEC, one of {_known()}"
        ) from None
    if trouble := _trouble_of_name(spec.name):
        raise ModelError(
            f"a model cannot be called {spec.name!r:.80}: {trouble}; give it another name:"
            f" --bias-model=OTHER={spec.spec:.80}"
        )
    return spec


def _parse(spec: str) -> ModelSpec:
    """Parse a spec, and make a name of it."""
    if not spec:
        raise ModelError("an empty model spec; expected [NAME=]SPEC, as in --bias-model=candidate=./checkpoint")
    if spec in DEMOS:
        return ModelSpec(spec, spec, "directory", str(DEMO_FOLDER / DEMOS[spec]))
    if spec in ALIASES:
        return replace(_parse(ALIASES[spec]), name=spec, spec=spec)
    if (named := _HEAD.fullmatch(spec)) and not Path(spec).expanduser().exists():
        return _with_head(_parse(named[1]), spec, named[2])
    if spec.startswith("text:"):
        path = Path(text := spec.removeprefix("text:")).expanduser()
        if not text or not path.exists():  # no name is no folder, either
            raise ModelError(
                f"no text {text or 'is named'}; expected text:FILE, a plain or .gz text, a .jsonl of documents, or a"
                " folder of them"
            )
        return ModelSpec(safe_name(path.name.partition(".")[0]), spec, "text", str(path.resolve()))
    if SEED in spec:  # the first restart determines the kind
        first = _parse(spec.replace(SEED, "0"))
        return replace(first, name=safe_name(Path(spec).name.replace(SEED, "")), spec=spec)
    own = next((engine for engine in ENGINES.values() if engine.prefix and re.match(engine.prefix, spec)), None)
    if own is not None:
        parsed: ModelSpec = import_module(f"pytest_genderbias.{own.module}").parse(spec)
        return parsed
    path = Path(spec).expanduser()
    if path.is_dir():
        kind, place = "directory", path
        if (path / ADAPTER).is_file():
            refuse_pointers(path)
            check_adapter_alone(path)
            kind = "adapter"
        else:
            check_folder(path)
            if graph := graph_in(path):
                kind, place = _ENDINGS[graph.suffix], graph
        return ModelSpec(safe_name(path.resolve().name), spec, kind, str(place.resolve()))
    if path.is_file():
        return ModelSpec(safe_name(path.name.partition(".")[0]), spec, _kind_of_file(path), str(path.resolve()))
    if path.exists():
        raise ModelError(
            f"{path} is neither a file nor a folder, but a device, a pipe or a socket; expected a file or a folder"
        )
    if _OBJECT.fullmatch(spec):
        return ModelSpec(safe_name(spec.rpartition(":")[2]), spec, "object", spec)
    parts = hub_parts(spec)
    if spec.startswith((".", "/", "~")) or parts is None:
        raise ModelError(
            f"no directory {spec if len(spec) < _LONG else brief(spec)}; expected a checkpoint's directory,"
            f" the file of a network ({', '.join(_ENDINGS)}), of vectors or of predictions, text:FILE, a hub id (ID or"
            " ID@REVISION), module:callable,"
            f" {', '.join(engine.spec for engine in ENGINES.values() if engine.spec)}, or one of {_known()}"
        )
    hub_id, revision = parts
    if hub_id in DEMOS:
        raise ModelError(f"{hub_id} comes with the package and has no revisions; leave out @{revision}")
    folder = ALIASES.get(hub_id, hub_id)
    if Path(folder).is_dir():  # transformers would load it, whatever the revision is
        raise ModelError(
            f"{folder} is a folder here, and @{revision} cannot choose a revision of it; give ./{folder} to measure"
            f" the folder, adapter:./{folder}@{revision} if that is an adapter and its base, or run elsewhere for the"
            " model of the hub"
        )
    if hub_id in ALIASES:  # at a revision
        return replace(_parse(ALIASES[hub_id]), name=hub_id, spec=spec, revision=revision)
    _refuse_misspelt(hub_id)
    return ModelSpec(safe_name(hub_id.rpartition("/")[2]), spec, "hub", hub_id, revision=revision)


def hub_parts(text: str) -> tuple[str, str | None] | None:
    """Return the hub id and the revision of ``ID[@REVISION]``, or ``None`` for any other text.

    >>> hub_parts("org/model@refs/pr/3"), hub_parts("org/model"), hub_parts("org/model/file")
    (('org/model', 'refs/pr/3'), ('org/model', None), None)
    """
    place, at, revision = text.partition("@")
    if not HUB_ID.fullmatch(place) or (at and not _REVISION.fullmatch(revision)):
        return None
    return place, revision or None


def _refuse_misspelt(spec: str) -> None:
    """Refuse a name that is nearly an alias, or means several models, before the hub is asked for it. Nearly all ids of
    the hub have an owner.

    Raises:
        ModelError: it is.
    """
    if "/" in spec or spec in _WITHOUT_OWNER:
        return
    if spec == "demo":
        raise ModelError(f"'demo' is all of the demo models; expected one of {', '.join(DEMOS)}")
    near = [
        one
        for one in close_names(spec, (*ALIASES, *DEMOS, "demo"), _ALIKE)
        if abs(len(one) - len(spec)) <= _FEW_LETTERS
    ]
    if near:
        raise ModelError(
            f"no directory and no alias {brief(spec)}; {expected_instead(spec, near)} An id of the hub begins with its "
            f"owner: OWNER/{spec:.80}"
        )


def _with_head(checkpoint: ModelSpec, spec: str, head: str) -> ModelSpec:
    """Return the spec of a checkpoint with the head that the user names."""
    if head not in HEADS:
        raise ModelError(f"head={brief(head)} in {brief(spec)} is not known; expected one of {', '.join(HEADS)}")
    if checkpoint.kind not in ("directory", "hub"):
        raise ModelError(
            f"head= belongs to a checkpoint's directory or a hub id, got {brief(spec)}, which is {checkpoint.kind}"
        )
    return replace(checkpoint, spec=spec, head=head)


def path_spec(path: PathLike[str]) -> str:
    """Return the spec of a path: absolute, so that a folder called ``lr=0.1`` is not read as ``NAME=SPEC``."""
    return str(Path(path).absolute())


def parse_specs(texts: Iterable[str]) -> list[ModelSpec]:
    """Parse every ``--bias-model``. ``demo`` stands for the three demo models. Two models may not have the same
    name.
    """
    specs = [parse_spec(name) for text in texts for name in (list(DEMOS) if text.strip() == "demo" else [text])]
    for i, spec in enumerate(specs):
        if any(other.name == spec.name for other in specs[:i]):
            raise ModelError(
                f"two models are called {spec.name!r}; give one another name: --bias-model=OTHER={spec.spec}"
            )
    return specs


def parse_checkpoint(text: str, what: str) -> ModelSpec:
    """Parse the spec of a checkpoint or an alias, that another kind of model runs or changes.

    Args:
        text: the spec.
        what: what names it, for the message.

    Raises:
        ModelError: it is neither a checkpoint's directory nor a hub id.
    """
    spec = _parse(text)
    if spec.kind not in ("directory", "hub"):
        raise ModelError(f"{what} a checkpoint's directory or a hub id, got {spec.kind}: {brief(text)}")
    return spec


def split_adapter(text: str) -> tuple[str, str]:
    """Return DIR and BASE of ``DIR[@BASE]``; BASE is empty without one. A folder may have ``@`` in its name."""
    ends = [*(place for place, character in enumerate(text) if character == "@"), len(text)]
    known = [end for end in ends if Path(text[:end]).expanduser().is_dir()]
    end = known[-1] if known else ends[0]
    return text[:end], text[end + 1 :]


def check_adapter_alone(path: Path) -> None:
    """Refuse a folder with an adapter beside whole weights: they may be its base, or the adapter may be merged into
    them already.
    """
    weights = next((file.name for pattern in WHOLE_WEIGHTS for file in sorted(path.glob(pattern))), None)
    if weights is not None:
        raise ModelError(
            f"{path} has an adapter ({ADAPTER}) beside weights of its own ({weights}); either give the base that the"
            f" adapter is applied to, --bias-model=adapter:{path}@BASE, or move {ADAPTER} away to measure the weights"
            " without it"
        )


def _kind_of_file(path: Path) -> str:
    from pytest_genderbias.datasets.files import read_lines
    from pytest_genderbias.models.predictions import looks_like_predictions
    from pytest_genderbias.models.vectors import looks_like_vectors

    refuse_pointers(path)
    if path.suffix in _ENDINGS:
        return _ENDINGS[path.suffix]
    try:
        if looks_like_predictions(path) is not None:  # the first row determines the kind
            return "predictions"
        if looks_like_vectors(path):
            return "vectors"
        if path.name.endswith((".txt", ".txt.gz")):
            next(read_lines(path), None)  # may be in another encoding, or damaged gzip
    except DataFileError as error:
        raise ModelError(str(error)) from None
    raise ModelError(
        f"{path} cannot be measured: the kind of the file is unknown; expected the directory of a checkpoint with its"
        " config.json, a .gguf file, an exported graph (.onnx, OpenVINO's .xml), vectors as text"
        " (.txt, .vec) or as arrays (.npz, .npy or .safetensors with a vocabulary), predictions (.csv, .tsv,"
        " .jsonl, .parquet), or a text as text:FILE"
    )


def safe_name(name: str) -> str:
    """Return a text as the name of a model: other characters than those of a name become hyphens."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"


def _known() -> str:
    return ", ".join([*ALIASES, *DEMOS, "demo"])
