"""Connect this process to a Ray cluster: one that listens on the loopback interface only and ends with the process, or
one that is named.

Whoever reaches a Ray cluster can run code on it, so nothing is joined that was not named, and a local cluster is
reached by its own processes only: they know the token, which is in their environment and in no file.
"""

from __future__ import annotations

import importlib
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

from pytest_genderbias.errors import ExecutorError, SettingError, installing

LOCAL = "local"
#: Without it Ray takes the address of a network card for its node, and every process listens on all interfaces. This is
#: the one setting of Ray 2.60 that makes all of them listen on the loopback interface alone; Ray sets it itself on
#: macOS and Windows.
_ONLY_THIS_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
#: No usage statistics, and nothing on the terminal: what Ray says of lost workers, the measurement notes.
_QUIET: dict[str, str | None] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}
#: ``None``: not set. Ray then turns authentication on by itself, in this process and in those that it starts. The token
#: is in the environment of the cluster's processes, and in no file.
_ALONE: dict[str, str | None] = {
    _ONLY_THIS_MACHINE: "0",
    "RAY_ADDRESS": None,
    "RAY_AUTH_MODE": None,
    "RAY_AUTH_TOKEN_PATH": None,
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_worker_niceness": "0",  # workers do what this process would do otherwise
}
_PROBE_SECONDS = 5.0
_OBJECT_STORE = 100 << 20  #: bytes of shared memory: scores of a window take kilobytes
_LONGEST_FOLDER = 40  #: characters, since the path of a Unix socket below it may have 107
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")
_EXPECTED = "expected 'local', or HOST:PORT of a cluster that 'ray start --head' printed"


def check_address(address: str) -> str:
    """Return an address if it names a cluster: ``local``, or ``HOST:PORT``.

    Raises:
        SettingError: it does not. ``auto``, and no address, would join whatever cluster a file in the temporary folder
            names.
    """
    match = _ADDRESS.fullmatch(address)
    if address == LOCAL or (match and 0 < int(match["port"]) < 1 << 16):
        return address
    if address.startswith("ray://"):
        raise SettingError(
            f"{address} is an address for Ray's client, which this does not use; {_EXPECTED}, and run this on a machine"
            " of the cluster"
        )
    raise SettingError(f"{address!r} does not say which cluster is meant; {_EXPECTED}")


def import_ray() -> ModuleType:
    """Return the module ``ray``.

    Raises:
        ExecutorError: it is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ExecutorError(
            f"scoring with Ray needs the package ray, which cannot be imported ({error}); install it with:"
            f" {installing('ray')}"
        ) from None


@contextmanager
def joined_cluster(address: str, cpus: int = 1) -> Iterator[ModuleType]:
    """Start a cluster of this machine, or join the one at an address, and yield the module ``ray``. Leave it at the
    end: a local one ends then, and with it all its processes and files. A process is in one cluster at most.

    Args:
        address: ``local`` or ``HOST:PORT``.
        cpus: CPUs of a local cluster.

    Raises:
        ExecutorError: Ray is missing, nothing answers at the address, it has another version or wants a token, or the
            process is already in a cluster.
    """
    if address != LOCAL:
        _probe(address)
    variables = _QUIET if address != LOCAL else {**_QUIET, **_ALONE, "RAY_AUTH_TOKEN": _token()}
    with ExitStack() as until_left:
        until_left.enter_context(_environment(variables))
        ray = import_ray()
        if ray.is_initialized():
            raise ExecutorError(
                "this process is already connected to a Ray cluster that something else started; call ray.shutdown()"
                " before the run"
            )
        if address == LOCAL:
            usual = Path(tempfile.gettempdir())  # a folder that only this user can enter, short enough for sockets
            place = usual if len(str(usual)) <= _LONGEST_FOLDER - len("/gb-ray-12345678") else Path("/tmp")  # noqa: S108 - mkdtemp makes a name that is free
            folder = Path(tempfile.mkdtemp(prefix="gb-ray-", dir=place))
            until_left.callback(shutil.rmtree, folder, ignore_errors=True)
            until_left.callback(ray.shutdown)
            _start(ray, cpus, folder)
        else:
            until_left.callback(ray.shutdown)
            try:
                ray.init(address=address, log_to_driver=False, logging_level="error")
            except Exception as error:
                raise ExecutorError(_not_joined(address, error)) from None
        yield ray


def _start(ray: ModuleType, cpus: int, home: Path) -> None:
    """Start a cluster of this machine, and refuse it if it could be reached from another one."""
    # Ray reads the variable when it is imported, which may have been before.
    vars(importlib.import_module("ray._private.ray_constants"))["ENABLE_RAY_CLUSTER"] = False
    folder = home / "ray"  # Ray lets everyone write into it, so it lies in one that no other user can enter
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            object_store_memory=_OBJECT_STORE,
            _temp_dir=str(folder),
        )
    except Exception as error:  # Ray raises errors of many kinds
        said = f"{type(error).__name__}: {' '.join(str(error).split()):.300}"
        raise ExecutorError(
            f"a local Ray cluster cannot be started ({said}); score without bias_executor, or name a cluster with -o"
            " bias_ray=HOST:PORT"
        ) from None
    host = ray.util.get_node_ip_address()
    if host not in ("127.0.0.1", "::1"):
        raise ExecutorError(
            f"the local Ray cluster would listen on {host}, where others could run code on it, and was stopped; set"
            f" {_ONLY_THIS_MACHINE}=0 in the environment before the run, or use another version of ray"
            f" ({ray.__version__})"
        )


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables of the environment inside a ``with`` block; ``None`` removes one."""
    before = {name: os.environ.get(name) for name in variables}

    def set_to(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    set_to(variables)
    try:
        yield
    finally:
        set_to(before)


@cache
def _token() -> str:
    """Return a token that cannot be guessed; one for this process, since Ray keeps the first that it sees."""
    return secrets.token_hex(32)


def _probe(address: str) -> None:
    """Raise unless something listens at an address; Ray itself would try for a minute."""
    match = _ADDRESS.fullmatch(address)
    assert match is not None
    try:
        socket.create_connection((match["host"].strip("[]"), int(match["port"])), timeout=_PROBE_SECONDS).close()
    except OSError as error:
        raise ExecutorError(
            f"no Ray cluster answers at {address} ({error.strerror or error}); it may have ended, or its address is an"
            " old one: 'ray status' on its head node shows a cluster that runs, 'ray start --head' starts one"
        ) from None


def _not_joined(address: str, error: Exception) -> str:
    """Return why a cluster that answers cannot be joined, and what to do."""
    text = " ".join(str(error).split())
    if type(error).__name__ == "AuthenticationError" or "auth" in text.lower():
        return (
            f"the Ray cluster at {address} asks for a token, and this process has none or a wrong one; set"
            " RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH=FILE to the file with the cluster's token, which only you"
            " should be able to read"
        )
    if "ersion mismatch" in text:
        return (
            f"the Ray cluster at {address} has other versions than this process: {text:.300}; install the same ones"
            " here and on every node"
        )
    return (
        f"the Ray cluster at {address} cannot be joined ({type(error).__name__}: {text:.300}); run this on a machine of"
        f" the cluster ('ray start --address={address}' makes it one), with the cluster's version of ray"
        f" ({sys.modules['ray'].__version__} here)"
    )
