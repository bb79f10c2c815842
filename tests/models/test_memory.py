"""A network that does not fit the memory is refused before its weights are read."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias import load_model
from pytest_genderbias.errors import ModelError
from pytest_genderbias.models import checkpoints


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A checkpoint in bfloat16 of 2 TiB, which take no room on the disk."""
    save_checkpoint("bert", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    header = json.dumps({"w": {"dtype": "BF16", "shape": [1 << 40], "data_offsets": [0, 1 << 41]}}).encode()
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + (1 << 41))
    return tmp_path


def test_a_network_that_does_not_fit_is_refused_with_what_to_do(large: Path) -> None:
    with pytest.raises(
        ModelError,
        match=r"^m needs about 4096\.0 GiB of memory in float32, and \d+\.\d GiB are free; "
        r"keep its own number format, 2048\.0 GiB in bfloat16 \(--bias-dtype=auto\)",
    ):
        load_model(f"m={large}")


@pytest.mark.parametrize(
    ("current", "most", "free"),
    [(3000, "10000", 8000), (3000, "max", None)],
    ids=["a container with a limit", "one without"],
)
def test_memory_of_a_container_is_what_its_limit_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, current: int, most: str, free: int | None
) -> None:
    for name, text in {"memory.stat": "anon 2000\ninactive_file 1000", "memory.current": current}.items():
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "memory.max").write_text(f"{most}\n")
    monkeypatch.setattr(checkpoints, "_GROUP", tmp_path)
    monkeypatch.setattr(checkpoints, "_MEMORY", tmp_path / "no-such-file")
    assert checkpoints.free_memory() == free


def test_memory_of_a_machine_is_what_is_available_and_its_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 4 kB\nSwapFree: 1 kB\nHugePages_Total: 0\n")
    monkeypatch.setattr(checkpoints, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(checkpoints, "_GROUP", tmp_path / "no-such-folder")
    assert checkpoints.free_memory() == 5 * 1024
