"""Causal LMs beside bare transformers, llama.cpp and vLLM: ``python benchmarks/causal.py FOLDER DATA [--gguf FILE ...]
[--vllm]``.

FOLDER is a checkpoint that knows English, or the values of vLLM would not be proved; it is computed in float32. DATA
has CrowS-Pairs, whose texts ``pairs-pll`` reads. Each FILE is the same network for llama.cpp (``llama-cpp-python``).
With ``--vllm`` vLLM runs it as well, in this process and behind ``vllm serve``.

Times are those of the processor with one thread, the server's included, medians of turns, as tokens of the texts a
second.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import torch
from forward_passes import Batch, batches_of, forward_all, forward_packed
from rows import Row, ratio, table
from timing import count_processor_time, machine, medians

from pytest_genderbias import load_model, measure
from pytest_genderbias.scoring.packed_layers import PackedLayers

_BARE = "bare forward passes, the same batches, logits of all tokens"
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
_FEW = 32  #: texts that take little but the proof of the rows
Texts = list[list[int]]  #: token ids of each


def main() -> None:
    """Print a row for each way to score the same texts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("data", help="the folder of data sets, with CrowS-Pairs")
    parser.add_argument("--gguf", nargs="*", default=[], type=Path, metavar="FILE")
    parser.add_argument("--vllm", action="store_true")
    parser.add_argument("--limit", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    os.environ.update(_ONE_THREAD)
    count_processor_time(servers=True)

    def ours(model: Any, limit: int = options.limit) -> None:
        measure("pairs-pll", model, data=options.data, limit=limit, cache=None, ability="none: only the speed is asked")

    def add(name: str, way: Callable[[Texts], float]) -> None:
        total = way(texts[:8])
        assert abs(total / expected - 1) < 0.02, f"{name} gives {total} for ln P of the first texts, not {expected}"
        ways[name] = partial(way, texts)

    model = load_model(f"here={options.folder}", device="cpu")
    network = model.backend.network
    batches = batches_of(network, partial(ours, model))
    texts, few = _texts(batches), _texts(batches_of(network, partial(ours, model, _FEW)))
    expected = _one_a_call(network, texts[:8])
    ways: dict[str, Callable[[], Any]] = {
        "ours": partial(ours, model),
        _BARE: partial(forward_all, network, batches),
        "the same with packed layers": lambda: forward_packed(network, PackedLayers(network), batches),
    }
    add("bare forward passes, one text a call", partial(_one_a_call, network))
    for file in options.gguf:
        add(f"llama.cpp, {file.name}, one text a call", _llama(file, max(map(len, texts))))
    with _vllm(options.folder) if options.vllm else nullcontext({}) as engines:
        for name, asked in engines.items():
            add(f"{name}, the same texts", partial(_ask, asked.backend.source))
            ways |= {f"few in {name}": partial(ours, asked, _FEW), f"ours in {name}": partial(ours, asked)}
        times = medians(ways, options.repeats, warm_up=False)  # each way of add was asked for some texts
    print("; ".join(f"{name} {value}" for name, value in machine().items()), end="\n\n")
    print(table(_compared(times, list(engines), sum(map(len, texts)), sum(map(len, few)))))


def _texts(batches: list[Batch]) -> Texts:
    """Return the rows of batches without padding."""
    found = []
    for batch in batches:
        kept = batch.get("attention_mask", torch.ones_like(batch["input_ids"])).bool()
        found += [row[keep].tolist() for row, keep in zip(batch["input_ids"], kept, strict=True)]
    return found


@torch.inference_mode()
def _one_a_call(network: Any, texts: Texts) -> float:
    """Return the sum of ln P of all tokens that have one before them, as all ways here do."""
    return sum(_sum(network(input_ids=torch.tensor([text])).logits[0], text) for text in texts)


def _sum(logits: torch.Tensor, text: list[int]) -> float:
    return -float(torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(text[1:]), reduction="sum"))


def _llama(file: Path, longest: int) -> Callable[[Texts], float]:
    from llama_cpp import Llama

    llama = Llama(str(file), n_ctx=longest, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False)

    def one_a_call(texts: Texts) -> float:
        total = 0.0
        for text in texts:
            llama.reset()
            llama.eval(text)
            total += _sum(torch.from_numpy(llama.scores[: len(text)]), text)
        return total

    return one_a_call


def _ask(engine: Any, texts: Texts) -> float:
    return float(sum(np.nansum(answer.log_probabilities) for answer in engine.ask(texts)))


@contextmanager
def _vllm(folder: str) -> Iterator[dict[str, Any]]:
    """Run a checkpoint in vLLM, here and behind its server, inside a ``with`` block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = f"-m vllm.entrypoints.openai.api_server --model {folder} --served-model-name m --port {address[17:]}"
    settings = "--host 127.0.0.1 --dtype float32 --max-model-len 1024 --enforce-eager --no-enable-prefix-caching"
    server = subprocess.Popen([sys.executable, *command.split(), *settings.split()], stdout=subprocess.DEVNULL)
    try:
        while not _answers(f"{address}/v1/models"):
            assert server.poll() is None, "vllm serve ended"
            time.sleep(2)
        yield {
            "vLLM": load_model(f"there=vllm:{folder}"),
            "vllm serve": load_model(f"there={address}/v1#m", tokenizer=folder),
        }
    finally:
        server.terminate()
        server.wait(60)


def _answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=10):
            return True
    except OSError:
        return False


def _compared(times: Mapping[str, float], engines: list[str], tokens: int, few: int) -> list[Row]:
    """Return a row for each way; ours in an engine is compared with the same engine, after the first few texts."""
    rows = []
    for name, seconds in times.items():
        if not name.startswith(("ours in", "few in")) and name != "ours":
            wanted = 0.9 if name == _BARE else None
            rows.append(ratio(f"{tokens:,} tokens", tokens / times["ours"], tokens / seconds, name, "tokens/s", wanted))
    for name in engines:
        first, alone = times[f"few in {name}"], f"{name}, the same texts"
        label = f"ours in {name}, after {first:.0f} s with {few:,} tokens"
        rate = (tokens - few) / (times[f"ours in {name}"] - first)
        rows.append(ratio(label, rate, tokens / times[alone], alone, "tokens/s"))
    return rows


if __name__ == "__main__":
    main()
