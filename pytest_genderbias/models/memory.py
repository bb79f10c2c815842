"""Whether a network fits the memory of this machine, before its weights are read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.checkpoint_folder import weights_read
from pytest_genderbias.models.source import SPLIT, LoadSettings, ModelSource, folder_of

_GIB = 1 << 30
_MEMORY, _GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")  #: of Linux; no other system is asked


def refuse_memory(source: ModelSource, settings: LoadSettings) -> None:
    """Refuse a local checkpoint whose weights, in the number format that is asked for, are more than the free memory.

    Weights that keep their format stay in their file until they are read, and need no memory of their own.

    Raises:
        ModelError: naming both sizes, and what to do.
    """
    import torch

    folder, free = folder_of(source.spec), free_memory()
    stored = getattr(source.config, "dtype", None) or torch.float32
    if folder is None or free is None or settings.dtype == "auto" or settings.device == SPLIT:
        return
    wanted = getattr(torch, settings.dtype)
    size = sum(path.stat().st_size for path in weights_read(folder) if path.is_file())
    needed = size * wanted.itemsize // stored.itemsize
    if wanted != stored and needed > free:
        raise ModelError(
            f"{source.spec.name} needs about {needed / _GIB:.1f} GiB of memory in {settings.dtype}, and"
            f" {free / _GIB:.1f} GiB are free; keep its own number format, {size / _GIB:.1f} GiB in"
            f" {str(stored).removeprefix('torch.')} (--bias-dtype=auto), or spread it over the devices, the memory and"
            f" the files of the machine (--bias-device={SPLIT})"
        )


def free_memory() -> int | None:
    """Return how many bytes this process may still take: of the machine, with its swap, and of the container around
    it; ``None`` where nothing says so.
    """
    left = []
    with suppress(OSError, ValueError, KeyError):
        lines = (line.split() for line in _MEMORY.read_text().splitlines())
        sizes = {words[0]: int(words[1]) << 10 for words in lines if words[2:] == ["kB"]}
        left.append(sizes["MemAvailable:"] + sizes["SwapFree:"])
    with suppress(OSError, ValueError, KeyError):  # without a limit there is no number
        counts = dict(line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
        used = int((_GROUP / "memory.current").read_text()) - int(counts["inactive_file"])
        left.append(int((_GROUP / "memory.max").read_text()) - used)
    return min(left, default=None)
