"""A copy that no folder holds: torch quantises the linear layers when the model is loaded.
``--bias-model=NAME=dynamic_int8:make_model``.
"""

import os
import warnings

import torch
import transformers

from pytest_genderbias import Model, load_model
from pytest_genderbias.models.spec import parse_spec


def make_model() -> Model:
    source = parse_spec(os.environ.get("FLOAT32", "demo-nli")).target
    config = transformers.AutoConfig.from_pretrained(source)
    network = getattr(transformers, config.architectures[0]).from_pretrained(source, dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch recommends torchao
        network = torch.ao.quantization.quantize_dynamic(network, {torch.nn.Linear}, dtype=torch.qint8)
    return load_model(network, tokenizer=transformers.AutoTokenizer.from_pretrained(source))
