"""Checkpoints with quantised weights: the library that reads them, by the method that their config names."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.config_entries import entry
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

QUANTISED = "weights quantised by "  #: what the weights are called in errors, before the method
#: By method, the modules that transformers reads it with, each with the package that has it. Methods without an entry
#: need none, or a GPU.
_PACKAGES: dict[str, dict[str, str]] = {
    "bitsandbytes": {"bitsandbytes": "bitsandbytes", "accelerate": "accelerate"},
    "gptq": {"gptqmodel": "gptqmodel", "optimum": "optimum"},
    "awq": {"gptqmodel": "gptqmodel"},
    "torchao": {"torchao": "torchao"},
    "compressed-tensors": {"compressed_tensors": "compressed-tensors"},
    "quanto": {"optimum.quanto": "optimum-quanto"},
    "hqq": {"hqq": "hqq"},
    "eetq": {"kernels": "kernels"},
    "aqlm": {"aqlm": "aqlm[cpu,gpu]"},
    "vptq": {"vptq": "vptq"},
    "auto-round": {"auto_round": "auto-round"},
    "quark": {"quark": "amd-quark"},
}


def quantisation_method(config: PreTrainedConfig) -> str | None:
    """Return the method that a config says its weights were quantised by; ``None`` for weights that are not."""
    settings = entry(config, "quantization_config")
    if settings is None:
        return None
    known = settings if isinstance(settings, Mapping) else vars(settings)
    method = known.get("quant_method")
    if method is None and (known.get("load_in_8bit") or known.get("load_in_4bit")):
        return "bitsandbytes"  # which did not name itself at first
    return str(getattr(method, "value", method) or "a method that it does not name")


def require_library(config: PreTrainedConfig, name: str) -> None:
    """Refuse quantised weights whose library is not installed, or whose method transformers would ignore.

    Raises:
        ModelError: either.
    """
    method = quantisation_method(config)
    if method is None:
        return
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    named = f"{name} has weights that were quantised by {brief(method)} (quantization_config in config.json)"
    known = {*AUTO_QUANTIZATION_CONFIG_MAPPING, "bitsandbytes"}
    if method not in known:
        raise ModelError(
            f"{named}, which this transformers does not know, so that their numbers would be taken as they are;"
            f" expected one of {', '.join(sorted(known))}: give a checkpoint of another method, or an object that loads"
            " it (module:callable)"
        )
    missing = [package for module, package in _PACKAGES.get(method, {}).items() if not _is_installed(module)]
    if missing:
        raise ModelError(
            f"{named}, which transformers reads with {' and '.join(missing)}, not installed here: pip install"
            f" {' '.join(map(_quoted, missing))}"
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False


def _quoted(package: str) -> str:
    return f"'{package}'" if "[" in package else package
