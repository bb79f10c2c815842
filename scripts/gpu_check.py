"""Check in ten minutes what the project says of one GPU: figures, memory, trainings and speed.

    python scripts/gpu_check.py --models FOLDER [--device cuda] [--out table.json] [--parts PART ...] [--quick]

FOLDER has ``minilm-mlm`` or ``bert-tiny-mlm``, and ``stories260k`` (docs/reference/data.md). It needs the project's
own dependencies and accelerate, no hub and no server: on a machine without a network, carry wheels of ``pytest>=9``,
``pluggy``, ``iniconfig``, ``transformers``, ``accelerate``, ``scipy``, ``pyyaml`` and ``tabulate`` beside its torch.
vLLM is tried where it is installed. Each line has OK, DIFF or SLOW, or why there is none. ``--device cpu --quick``
tries the script itself.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import torch
import transformers

from pytest_genderbias import Measurement, Model, load_model, measure
from pytest_genderbias.mitigation.harness.callback import BiasCallback
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.recipes.recipe import PLAIN

SUITES = {
    "minilm-mlm": ("pronoun-occupation", "lm-occupation", "disco-terms", "coref-occupation", "weat"),
    "bert-tiny-mlm": ("pronoun-occupation", "lm-occupation", "disco-terms", "coref-occupation", "weat"),
    "stories260k": ("pronoun-occupation", "lm-occupation", "coref-occupation", "weat"),
    "demo-nli": ("nli-occupation",),
}
CASES = 600
RANDOM = "random"  #: the name of models with random weights
SAME = 1e-4  #: largest difference of a figure in float32
#: Shapes of causal LMs that people run: SmolLM2-135M, Qwen2-0.5B and Llama 3 8B, with random weights.
CAUSAL = {
    "135M": (576, 1536, 30, 9, 3, 49152),
    "500M": (896, 4864, 24, 14, 2, 151936),
    "8B": (4096, 14336, 32, 32, 8, 128256),
}


class Check:
    """What was found, and how much time is left.

    Attributes:
        folder: the models.
        device: a torch device.
        quick: whether everything is small.
        seconds: until no other part begins.
    """

    def __init__(self, folder: Path, device: str, quick: bool, seconds: float) -> None:
        self.folder, self.device, self.quick, self.seconds = folder, device, quick, seconds
        self.begun = time.perf_counter()
        self.table: list[tuple[str, str, str]] = []
        self.on_gpu = device.startswith("cuda")

    def say(self, name: str, verdict: str, text: str) -> None:
        """Add a line, and print it."""
        self.table.append((name, verdict, text))
        print(f"[{time.perf_counter() - self.begun:4.0f} s] {verdict:5} {name}: {text}", flush=True)

    def compare(self, name: str, one: Measurement, other: Measurement, most: float = SAME) -> None:
        """Add a line that says how far two measurements are apart."""
        difference, figure = largest_difference(one, other)
        self.say(name, "OK" if difference <= most else "DIFF", f"at most {difference:.2g} apart ({figure})")

    def spec(self, model: str) -> str:
        """Return the spec of a model of SUITES."""
        return model if model.startswith("demo") else f"{model}={self.folder / model}"

    def models(self) -> list[str]:
        """Return the models that are there."""
        return [model for model in SUITES if model.startswith("demo") or (self.folder / model).is_dir()]

    def open(self, model: str, device: str | None = None, dtype: str = "float32") -> Model:
        """Load a model of SUITES."""
        return load_model(self.spec(model), device=device or self.device, dtype=dtype)

    def wait(self) -> None:
        """Wait until the GPU is done."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def peak(self) -> str:
        """Return the largest memory that was in use since the part began."""
        return f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if self.on_gpu else "not known"


def scored(suite: str, model: Model, limit: int | None = CASES, **options: object) -> Measurement:
    """Measure a model without a cache; one with random weights, too, which is not able."""
    ability = "none: random weights" if model.name == RANDOM else None
    return measure(suite, model, limit=limit, cache=None, ability=ability, **options)  # type: ignore[arg-type]


def largest_difference(one: Measurement, other: Measurement) -> tuple[float, str]:
    """Return by how much two measurements differ at most, and in which figure; infinity where one has no value."""

    def apart(name: str) -> float:
        values = [math.nan if found.values[name] is None else float(found.values[name] or 0) for found in (one, other)]
        if all(map(math.isnan, values)):
            return 0.0
        return math.inf if any(map(math.isnan, values)) else abs(values[0] - values[1])

    return max((apart(name), name) for name in one.values)


def devices(check: Check) -> None:
    """Compare figures in float32 with those of the CPU, and other number formats with them."""
    for model in check.models():
        on_cpu = {suite: scored(suite, check.open(model, "cpu")) for suite in SUITES[model]}
        for suite, expected in on_cpu.items():
            check.compare(
                f"{model} {suite}, float32, CPU and {check.device}", expected, scored(suite, check.open(model))
            )
        first, expected = next(iter(on_cpu.items()))
        for dtype in ("bfloat16", "float16"):
            found = scored(first, check.open(model, dtype=dtype))
            check.compare(f"{model} {first}, {dtype}", expected, found, most=0.1)
        with torch.autocast(check.device.partition(":")[0], dtype=torch.bfloat16):
            check.compare(f"{model} {first}, autocast", expected, scored(first, check.open(model)), most=0.1)


def batches(check: Check) -> None:
    """Compare figures of small and large batches."""
    for model in check.models():
        suite, opened = SUITES[model][0], check.open(model)
        small, large = (scored(suite, opened, batch_tokens=tokens) for tokens in (256, 65536))
        check.compare(f"{model} {suite}, batches of 256 and 65,536 tokens", small, large)


def out_of_memory(check: Check) -> None:
    """Measure with too little memory for a batch."""
    if not check.on_gpu:
        return check.say("a lack of memory", "-", "needs a GPU")
    model = random_classifier(check, torch.float32)
    plain, total = scored("nli-occupation", model, 4000), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    most = torch.cuda.memory_reserved() + 500 * 2**20
    torch.cuda.set_per_process_memory_fraction(min(1.0, most / total))
    try:
        found = scored("nli-occupation", model, 4000, batch_tokens=2**22)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    halved = [str(note) for note in found.notes if "halved" in str(note)]
    check.compare(f"batches halved: {halved or 'none were'}", plain, found)


def measured_beside(spec: str, suite: str, device: str) -> tuple[dict[str, float | None], float]:
    """Measure in a process of its own, and return the figures and seconds without loading."""
    model = load_model(spec, device=device)
    begun = time.perf_counter()
    return dict(scored(suite, model, None).values), time.perf_counter() - begun


def side_by_side(check: Check) -> None:
    """Measure two models on one device, in two processes, one after the other and at once."""
    tasks = [(check.spec(model), SUITES[model][0], check.device) for model in check.models()[:2]]
    with get_context("spawn").Pool(2) as pool:
        together = pool.starmap(measured_beside, tasks, chunksize=1)
        alone = [pool.apply(measured_beside, task) for task in tasks]
    same = [one[0] for one in alone] == [one[0] for one in together]
    seconds = [", ".join(f"{one:.1f} s" for _, one in found) for found in (alone, together)]
    verdict = "OK" if same else "DIFF"
    check.say("two models on one device", verdict, f"{seconds[0]} alone, {seconds[1]} at once; equal figures: {same}")


def trainings(check: Check) -> None:
    """Train twice with one seed, with a callback, and in bfloat16, and compare the weights."""
    steps, base = (4 if check.quick else 60), next(m for m in check.models() if m.endswith("-mlm"))
    with tempfile.TemporaryDirectory() as place:
        corpus = Path(place) / "corpus.txt"
        corpus.write_text("\n".join(f"The nurse said that he number {i} was tired." for i in range(2000)), "utf-8")

        def weights(name: str, bf16: bool = False, watched: bool = False) -> dict[str, torch.Tensor]:
            arguments = {"bf16": True} if bf16 else {}
            recipe = make_recipe("masked-lm", corpus=str(corpus), steps=steps, batch_size=16, arguments=arguments)
            model = check.open(base)
            callback = BiasCallback(["lm-occupation"], every=steps // 2, model=model, limit=64)
            training = replace(PLAIN, callbacks=(callback,) if watched else ())
            folder = Path(place) / name
            folder.mkdir()
            path = recipe.train(recipe.start(model, 0), recipe.rows(), 0, folder, training)
            return load_model(str(path), device="cpu").backend.network.state_dict()

        first = weights("first")
        for name, other in {
            "again": weights("again"),
            "with a BiasCallback": weights("watched", watched=True),
            "in bfloat16": weights("bf16", bf16=True),
        }.items():
            moved = max(float((first[key].float() - other[key].float()).abs().max()) for key in first)
            same = "OK" if moved == 0 or "bfloat16" in name else "DIFF"
            check.say(f"{base} trained {name}", same, f"weights at most {moved:.2g} apart")


@contextmanager
def recorded(network: torch.nn.Module) -> Iterator[list[tuple[int, ...]]]:
    """Yield the shapes of the batches that a network is given inside."""
    shapes: list[tuple[int, ...]] = []
    forward = network.forward

    def watched(*args: object, **kwargs: torch.Tensor) -> object:
        shapes.append(tuple(kwargs["input_ids"].shape))
        return forward(*args, **kwargs)

    with mock.patch.object(network, "forward", watched):
        yield shapes


def against_bare(check: Check, name: str, suite: str, model: Model, limit: int | None, **options: object) -> None:
    """Compare the time of a suite with that of bare passes of the same shapes."""
    network = model.backend.network
    scored(suite, model, limit, **options)  # a GPU loads its kernels when a shape is first seen
    check.wait()
    with recorded(network) as shapes:
        begun = time.perf_counter()
        found = scored(suite, model, limit, **options)
        check.wait()
        ours = time.perf_counter() - begun
    rows = {shape: torch.randint(5, 500, shape, device=check.device) for shape in set(shapes)}
    with torch.inference_mode():
        network(input_ids=rows[shapes[0]])
        check.wait()
        begun = time.perf_counter()
        for shape in shapes:
            network(input_ids=rows[shape])
        check.wait()
        bare = time.perf_counter() - begun
    tokens = sum(rows * columns for rows, columns in shapes)
    check.say(
        name,
        "OK" if bare / ours > 0.5 else "SLOW",
        f"{suite}, {found.n:,} cases in {ours:.1f} s ({tokens / ours:,.0f} tokens/s), {bare / ours:.2f} of bare"
        f" passes, {len(shapes)} batches; peak {check.peak()}",
    )


def random_classifier(check: Check, dtype: torch.dtype) -> Model:
    """Return an NLI classifier of the shape of BERT base with random weights."""
    tokenizer = check.open(next(m for m in check.models() if m.endswith("-mlm")), "cpu").backend.tokenizer
    small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    names = dict(enumerate(("entailment", "neutral", "contradiction")))
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        id2label=names,
        label2id={name: number for number, name in names.items()},
        **(small if check.quick else {}),
    )
    torch.manual_seed(0)
    network = transformers.BertForSequenceClassification(config).to(check.device, dtype).eval()
    return load_model(network, tokenizer=tokenizer, name=RANDOM)


def classifiers(check: Check) -> None:
    """Time an NLI classifier of the shape of BERT base with random weights."""
    for dtype in (torch.float32, torch.bfloat16):
        model = random_classifier(check, dtype)
        against_bare(check, f"BERT base, {dtype}", "nli-occupation", model, 1000 if check.quick else 100_000)


def random_causal(check: Check, name: str, folder: Path) -> float:
    """Write a causal LM of a shape with random weights in bfloat16, and return its parameters in billions."""
    hidden, inner, layers, heads, values, words = (64, 128, 2, 4, 2, 512) if check.quick else CAUSAL[name]
    tokenizer = check.open("stories260k", "cpu").backend.tokenizer
    config = transformers.LlamaConfig(
        vocab_size=words,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=values,
        tie_word_embeddings=name != "8B",
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    with torch.device(check.device):
        network = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(weight.numel() for weight in network.parameters()) / 1e9


def causal(check: Check) -> None:
    """Time causal LMs of usual sizes."""
    for name in ("135M", "500M"):
        with tempfile.TemporaryDirectory() as place:
            random_causal(check, name, Path(place))
            clear(check)
            model = load_model(place, name=RANDOM, device=check.device, dtype="bfloat16")
            against_bare(
                check, f"{name}, bfloat16", "pronoun-occupation", model, 200 if check.quick else None, items="wide"
            )


def large(check: Check) -> None:
    """Load and time a causal LM of eight billion parameters."""
    with tempfile.TemporaryDirectory() as place:
        billions = random_causal(check, "8B", Path(place))
        clear(check)
        begun = time.perf_counter()
        model = load_model(place, name=RANDOM, device=check.device, dtype="bfloat16")
        loaded = time.perf_counter() - begun
        check.say(f"{billions:.2f} billion parameters", "OK", f"loaded in {loaded:.0f} s, peak {check.peak()}")
        against_bare(check, "8B, bfloat16", "pronoun-occupation", model, 200 if check.quick else None)


def split(check: Check) -> None:
    """Split a causal LM between the GPU and the memory of the machine."""
    with tempfile.TemporaryDirectory() as place:
        billions = random_causal(check, "500M", Path(place))
        found: dict[str, tuple[str | None, Measurement]] = {}
        for device in (check.device, "split"):
            clear(check)
            with little_memory(check, 1.4 * billions if device == "split" else None):
                model = load_model(place, name=RANDOM, device=device, dtype="bfloat16")
            begun = time.perf_counter()
            found[device] = model.fingerprint, scored("pronoun-occupation", model, 100)
            seconds, places = time.perf_counter() - begun, places_of(model)
            whole = check.on_gpu and device == "split" and len(places) == 1
            check.say(
                f"{billions:.2f} billion parameters, {device}, {places}",
                "DIFF" if whole else "OK",
                f"100 cases in {seconds:.1f} s, peak {check.peak()}",
            )
            del model
        same = len({fingerprint for fingerprint, _ in found.values()}) == 1
        check.say("split: same fingerprint", "OK" if same else "DIFF", str(same))
        check.compare("split and whole", *(measurement for _, measurement in found.values()), most=0.01)


def places_of(model: Model) -> dict[str, int]:
    """Return how many modules of a network are at each place."""
    places = [str(place) for place in getattr(model.backend.network, "hf_device_map", {"": "one"}).values()]
    return {place: places.count(place) for place in dict.fromkeys(places)}


@contextmanager
def little_memory(check: Check, gib: float | None) -> Iterator[None]:
    """Let no more than so much memory of the GPU seem free inside."""
    if gib is None or not check.on_gpu:
        yield
        return
    free, total = int(gib * 2**30), torch.cuda.get_device_properties(0).total_memory
    with mock.patch("torch.cuda.mem_get_info", return_value=(free, total)):
        yield


def vllm(check: Check) -> None:
    """Compare vLLM with transformers."""
    if find_spec("vllm") is None:
        return check.say("vLLM", "-", "is not installed")
    spec = str(check.folder / "stories260k")
    check.compare(
        "vLLM", scored("lm-occupation", check.open("stories260k")), scored("lm-occupation", load_model(f"vllm:{spec}"))
    )
    return None


def clear(check: Check) -> None:
    """Free memory, and begin to note the peak."""
    gc.collect()
    if check.on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


#: The parts in their order, with the seconds that each should have left.
PARTS: tuple[tuple[Callable[[Check], None], float], ...] = (
    (classifiers, 40),
    (causal, 40),
    (large, 120),
    (split, 40),
    (devices, 60),
    (batches, 20),
    (out_of_memory, 10),
    (trainings, 40),
    (side_by_side, 40),
    (vllm, 60),
)


def main() -> int:
    """Run all parts, and return 1 if a figure differs or a part failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--quick", action="store_true", help="small networks, few cases")
    parser.add_argument("--parts", nargs="+", help=f"only these: {', '.join(part.__name__ for part, _ in PARTS)}")
    parser.add_argument("--out", type=Path)
    typed = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    check = Check(typed.models, typed.device, typed.quick, 60 * typed.minutes)
    card = torch.cuda.get_device_name(0) if check.on_gpu else "no GPU"
    check.say("versions", "-", f"{card}, torch {torch.__version__}, transformers {transformers.__version__}")
    for part, needed in PARTS:
        if typed.parts and part.__name__ not in typed.parts:
            continue
        if check.seconds - (time.perf_counter() - check.begun) < needed and not check.quick:
            check.say(part.__name__, "-", "no time is left")
            continue
        clear(check)
        try:
            part(check)
        except Exception as error:
            check.say(part.__name__, "ERROR", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
            traceback.print_exc(limit=6)
        if typed.out:
            typed.out.write_text(json.dumps(check.table, indent=1) + "\n", encoding="utf-8")
    return int(any(verdict in ("DIFF", "ERROR") for _, verdict, _ in check.table))


if __name__ == "__main__":
    sys.exit(main())
