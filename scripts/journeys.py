"""Measure what a run takes by the shape of its model: seconds, memory, and requests to the hub.

    python scripts/journeys.py --models FOLDER --work FOLDER [--only NAME,...]

FOLDER of ``--models`` has ``bert-tiny-mlm`` and ``stories260k`` (docs/reference/data.md), whose tokenizers the networks
take. The networks have the layers, widths and vocabularies of the released ones, and random weights, so that their
figures mean nothing and no ability is asked. A server in the place of the hub gives their files and counts requests.
Each network is built, measured and removed; the largest takes 7 GiB in ``--work``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from tabulate import tabulate

CASES = 64
COMMIT = "a" * 40


class Shape(NamedTuple):
    """A network: what ``--bias-model`` names, its hub id, its class, its number format and its config."""

    spec: str
    hub_id: str
    network: str
    dtype: str
    config: dict[str, Any]


_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
#: Numbers of the configs on the hub. Of Mistral 7B there are 4 of 32 layers.
SHAPES = (
    Shape("bert-large", "google-bert/bert-large-uncased", "BertForMaskedLM", "float32",
          {**_LARGE, "vocab_size": 30522}),
    Shape("roberta-large", "FacebookAI/roberta-large", "RobertaForMaskedLM", "float32",
          {**_LARGE, "vocab_size": 50265, "max_position_embeddings": 514}),
    Shape("albert/albert-xxlarge-v2", "albert/albert-xxlarge-v2", "AlbertForMaskedLM", "float32",
          {"vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_hidden_layers": 12,
           "num_attention_heads": 64, "intermediate_size": 16384}),
    Shape("microsoft/deberta-v3-large", "microsoft/deberta-v3-large", "DebertaV2ForMaskedLM", "float32",
          {**_LARGE, "vocab_size": 128100, "relative_attention": True, "position_buckets": 256, "type_vocab_size": 0,
           "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": ["p2c", "c2p"],
           "position_biased_input": False, "max_relative_positions": -1}),
    Shape("modernbert-base", "answerdotai/ModernBERT-base", "ModernBertForMaskedLM", "float32",
          {"vocab_size": 50368, "hidden_size": 768, "num_hidden_layers": 22, "num_attention_heads": 12,
           "intermediate_size": 1152}),
    Shape("openai-community/gpt2-xl", "openai-community/gpt2-xl", "GPT2LMHeadModel", "float32",
          {"vocab_size": 50257, "n_embd": 1600, "n_layer": 48, "n_head": 25}),
    Shape("meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.2-1B", "LlamaForCausalLM", "bfloat16",
          {"vocab_size": 128256, "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 8, "intermediate_size": 8192, "tie_word_embeddings": True}),
    Shape("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B", "Qwen2ForCausalLM", "bfloat16",
          {"vocab_size": 151936, "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
           "num_key_value_heads": 2, "intermediate_size": 4864, "tie_word_embeddings": True}),
    Shape("google/gemma-3-270m", "google/gemma-3-270m", "Gemma3ForCausalLM", "bfloat16",
          {"vocab_size": 262144, "hidden_size": 640, "num_hidden_layers": 18, "num_attention_heads": 4,
           "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 2048}),
    Shape("mistralai/Mistral-7B-v0.3", "mistralai/Mistral-7B-v0.3", "MistralForCausalLM", "bfloat16",
          {"vocab_size": 32768, "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 32,
           "num_key_value_heads": 8, "intermediate_size": 14336}),
)  # fmt: skip


class Hub(BaseHTTPRequestHandler):
    """Gives the files of one network, as the hub does, and counts what is asked."""

    protocol_version = "HTTP/1.1"
    server: Files

    def do_HEAD(self) -> None:
        """Answer without the content."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer with a file, or that there is none."""
        self.server.requests += 1
        path = self.path.split("?")[0].strip("/")
        file = self.server.folder / path.partition(f"{self.server.hub_id}/resolve/")[2].partition("/")[2]
        if path.startswith(f"api/models/{self.server.hub_id}") and "/tree/" not in path:
            return self._send(b'{"siblings": []}', {"Content-Type": "application/json"})
        if "/resolve/" not in path or not file.is_file():
            return self._send(b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, 404)
        tag = hashlib.sha256(f"{file.name} {file.stat().st_size}".encode()).hexdigest()
        return self._send(file, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT})

    def _send(self, content: bytes | Path, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        for name, value in {**headers, "Content-Length": str(size)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if isinstance(content, bytes):
            self.wfile.write(content)
        else:
            with content.open("rb") as file:
                shutil.copyfileobj(file, self.wfile, 1 << 22)

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


class Files(ThreadingHTTPServer):
    """A server of the files of a folder."""

    daemon_threads = True

    def __init__(self, folder: Path, hub_id: str) -> None:
        super().__init__(("127.0.0.1", 0), Hub)
        self.folder, self.hub_id, self.requests = folder, hub_id, 0


@contextmanager
def hub_with(folder: Path, hub_id: str) -> Iterator[Files]:
    with Files(folder, hub_id) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


def build(shape: Shape, models: Path, folder: Path) -> int:
    """Write a random network with its tokenizer, and return its number of weights.

    A process of its own does it: the peak memory of a run would else be that of its parent.
    """
    import torch
    import transformers

    network = getattr(transformers, shape.network)
    causal = shape.network.endswith("CausalLM") or "LMHead" in shape.network
    words = transformers.AutoTokenizer.from_pretrained(models / ("stories260k" if causal else "bert-tiny-mlm"))
    special = {f"{name}_token_id": getattr(words, f"{name}_token_id") for name in ("pad", "bos", "eos", "cls", "sep")}
    torch.manual_seed(0)
    torch.set_default_dtype(getattr(torch, shape.dtype))
    built = network(network.config_class(**{**shape.config, **special}))
    torch.set_default_dtype(torch.float32)
    built.save_pretrained(folder)
    words.save_pretrained(folder)
    return sum(weight.numel() for weight in built.parameters())


def run(shape: Shape, home: Path, server: Files, *more: str, **environment: str) -> dict[str, Any]:
    """Measure once, and return seconds, peak memory in GiB, requests and the figure."""
    suite = "lm-occupation"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    places = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(home / "hub")}
    report, before, start = home / "run.json", server.requests, time.time()
    arguments = (
        f"-m pytest --bias-model=m={shape.spec} --bias-suite={suite} --bias-limit={CASES} --bias-json={report} -q"
        f" -p no:cacheprovider --rootdir={home} -c /dev/null"
    ).split()
    process = subprocess.Popen(
        [sys.executable, *arguments, "-o", "bias_ability=none: random weights", *more],
        env={**kept, **places, "XDG_CACHE_HOME": str(home / "cache"), **environment},
        stdout=(log := (home / "log").open("w+")), stderr=subprocess.STDOUT, cwd=home,
    )  # fmt: skip
    _, status, used = os.wait4(process.pid, 0)
    if status:
        log.seek(0)
        raise SystemExit(f"{shape.spec}: {log.read()}")
    (measured,) = json.loads(report.read_text())["measurements"]
    return {
        "seconds": time.time() - start,
        "processor": used.ru_utime + used.ru_stime,
        "memory": used.ru_maxrss / (1 << 20),
        "requests": server.requests - before,
        "figure": measured["values"]["aggregate_bias"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", default="")
    typed = parser.parse_args()
    rows = []
    for shape in SHAPES:
        if typed.only and not any(name in shape.spec for name in typed.only.split(",")):
            continue
        with tempfile.TemporaryDirectory(dir=typed.work) as place:
            home, files = Path(place), Path(place, "files")
            with get_context("spawn").Pool(1) as builder:
                count = builder.apply(build, (shape, typed.models, files))
            size = sum(path.stat().st_size for path in files.iterdir()) / (1 << 30)
            with hub_with(files, shape.hub_id) as server:
                first = run(shape, home, server)
                shutil.rmtree(files)
                own = run(shape, home, server, "--bias-dtype=auto", "--bias-no-cache", HF_HUB_OFFLINE="1")
                again = run(shape, home, server, HF_HUB_OFFLINE="1")
            assert again["figure"] == first["figure"] is not None, (shape.spec, first, again)
        rows.append((
            f"`{shape.spec}`", f"{count / 1e6:,.0f} M", f"{size:.1f} {shape.dtype}",
            f"{first['seconds']:.0f} s ({first['processor']:.0f})", f"{first['memory']:.1f} GiB", first["requests"],
            f"{own['memory']:.1f} GiB", f"{again['seconds']:.0f} s ({again['processor']:.0f})",
            f"{again['memory']:.1f} GiB", again["requests"],
        ))  # fmt: skip
        print(rows[-1], file=sys.stderr, flush=True)
    print(tabulate(rows, headers=(
        "model", "weights", "GiB on disk", "first run (processor)", "memory", "requests", "memory, own format",
        "again, stored, offline (processor)", "memory", "requests"), tablefmt="github"))  # fmt: skip


if __name__ == "__main__":
    main()
