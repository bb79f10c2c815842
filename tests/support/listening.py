"""Which processes belong to a run, and where they listen: from ``/proc``, for Linux."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_LISTEN = "0A"


def descendants(parent: int) -> set[int]:
    """Return the numbers of all processes below one."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int(folder.joinpath("stat").read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    while new := {pid for pid, above in parents.items() if above in {parent, *found}} - found:
        found |= new
    return found


def marked(mark: str) -> set[int]:
    """Return the numbers of the processes whose environment holds a text: those that one process began, and all below
    them.
    """
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in folder.joinpath("environ").read_bytes():
                found.add(int(folder.name))
    return found


def running(pids: Iterable[int]) -> set[tuple[int, int]]:
    """Return the numbers of those processes that run, each with the time of its start, so that another one with its
    number is not it.
    """
    found = set()
    for pid in pids:
        with suppress(OSError):
            facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if facts[0] != "Z":
                found.add((pid, int(facts[19])))
    return found


def listening(pids: set[int]) -> set[tuple[str, int]]:
    """Return the addresses and ports at which these processes wait for connections."""
    inodes = set()
    for pid in pids:
        with suppress(OSError):
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    target = os.readlink(handle)
                    if target.startswith("socket:["):
                        inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == _LISTEN and columns[9] in inodes:
                host, port = columns[1].split(":")
                found.add((_address(host), int(port, 16)))
    return found


def _address(text: str) -> str:
    """Return an address of ``/proc/net``: words of 32 bits in the byte order of the machine."""
    raw = b"".join(struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8))
    if len(raw) == 4:
        return socket.inet_ntop(socket.AF_INET, raw)
    return socket.inet_ntop(socket.AF_INET6, raw).removeprefix("::ffff:")
