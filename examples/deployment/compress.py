"""Write the copies of a checkpoint that a deployment may use: ``python compress.py SOURCE FOLDER``. SOURCE is a path, a
hub id or ``demo-nli``.

Most need a package more, and are left out without it: ``int8`` torchao, ``onnx`` and ``onnx-int8`` onnx and
onnxruntime, ``openvino`` (weights in float16, its default) openvino and onnx, ``q8.gguf`` and ``q4.gguf`` (of a Llama)
gguf.
"""

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import torch
import transformers

from pytest_genderbias.models.spec import parse_spec

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Logits(torch.nn.Module):
    """The logits of a network as a plain tensor, which is what a graph gives."""

    def __init__(self, network: transformers.PreTrainedModel, names: list[str]) -> None:
        super().__init__()
        self.network, self.names = network, names
        self.settings = {"use_cache": False} if "CausalLM" in type(network).__name__ else {}

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.network(**dict(zip(self.names, inputs, strict=True)), **self.settings).logits


def main(source: str, target: str) -> None:
    source, folder = parse_spec(source).target, Path(target)
    config = transformers.AutoConfig.from_pretrained(source)
    kind = getattr(transformers, config.architectures[0])
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)

    network = kind.from_pretrained(source, dtype=torch.bfloat16)
    network.save_pretrained(folder / "bfloat16")
    tokenizer.save_pretrained(folder / "bfloat16")
    if find_spec("torchao"):
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig

        settings = transformers.TorchAoConfig(Int8DynamicActivationInt8WeightConfig())
        kind.from_pretrained(source, quantization_config=settings, dtype=torch.float32).save_pretrained(folder / "int8")
        tokenizer.save_pretrained(folder / "int8")
    network = kind.from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()
    if find_spec("onnx") and find_spec("onnxruntime"):
        write_onnx(network, tokenizer, folder)
        if find_spec("openvino"):
            import openvino

            graph = openvino.Core().read_model(folder / "onnx" / "model.onnx")
            openvino.save_model(graph, folder / "openvino" / "openvino_model.xml")
            config.save_pretrained(folder / "openvino")
            tokenizer.save_pretrained(folder / "openvino")
    if find_spec("gguf") and config.model_type == "llama":
        from to_gguf import write_gguf

        for name, number_format in (("q8.gguf", "Q8_0"), ("q4.gguf", "Q4_0")):
            write_gguf(network, tokenizer, folder / name, number_format)
    print("written:", ", ".join(sorted(path.name for path in folder.iterdir())))


def write_onnx(
    network: transformers.PreTrainedModel, tokenizer: transformers.PreTrainedTokenizerBase, folder: Path
) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    names = [name for name in INPUTS if name in tokenizer.model_input_names]
    ids = torch.arange(4, 18).reshape(2, 7)
    mask = torch.tensor([[1] * 7, [1] * 5 + [0] * 2])  # with padding, so that the graph reads the mask
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    for name in ("onnx", "onnx-int8"):
        network.config.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # optimum-cli and torch.onnx.export(..., dynamo=True) need further packages
        torch.onnx.export(
            Logits(network, names).eval(),
            tuple(inputs[name] for name in names),
            str(folder / "onnx" / "model.onnx"),
            input_names=names,
            output_names=["logits"],
            dynamic_axes={key: {0: "batch", 1: "sequence"} for key in names},
            dynamo=False,
        )
    quantize_dynamic(
        folder / "onnx" / "model.onnx", folder / "onnx-int8" / "model_quantized.onnx", weight_type=QuantType.QInt8
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
