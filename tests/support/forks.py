"""Copies of this process, which has loaded torch and transformers, where another process would load them again."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL


def forked(act: Callable[[], object], told: Path, seconds: float = 120) -> int:
    """Call a function in a copy of this process, which writes what it returns, or its error, to a file.

    Returns:
        The exit status: 0, 1 after an error, or -N where the signal N ended it.
    """
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            told.write_text(json.dumps(act()))
            status = 0
        except BaseException:
            told.write_text(traceback.format_exc())
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while (found := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(pid, SIGKILL)
            os.waitpid(pid, 0)
            raise TimeoutError(f"the copy of this process did not end in {seconds} s")
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(found[1])
