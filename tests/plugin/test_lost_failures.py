"""A gate that fails in a thread, or in a task that nothing awaits, fails its test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from support.small_projects import model

HEAD = """
import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
import pytest
from pytest_genderbias import GateFailure, assert_at_least

def gate(m):
    assert_at_least(m, 0.99)

async def task(m):
    gate(m)

"""
#: Bodies of a test in which a failing gate reaches nobody.
LOST = {
    "a thread": "t = threading.Thread(target=gate, args=(m,)); t.start(); t.join()",
    "a future that is not asked": "with ThreadPoolExecutor() as pool:\n        pool.submit(gate, m)",
    "a lazy map": "with ThreadPoolExecutor() as pool:\n        pool.map(gate, [m])",
    "a task": (
        "async def main():\n        t = asyncio.create_task(task(m))\n        await asyncio.sleep(0.01)\n   "
        " asyncio.run(main())"
    ),
    "tasks whose exceptions are results": (
        "async def main():\n        await asyncio.gather(task(m), return_exceptions=True)\n    asyncio.run(main())"
    ),
    "an executor of a loop": (
        "async def main():\n        asyncio.get_running_loop().run_in_executor(None, gate, m)\n        await"
        " asyncio.sleep(0.1)\n    asyncio.run(main())"
    ),
    "a future that a thread asks": (
        "with ThreadPoolExecutor() as outer, ThreadPoolExecutor() as inner:\n        outer.submit(lambda:"
        " inner.submit(gate, m).result())"
    ),
    "a loop in a thread": "t = threading.Thread(target=lambda: asyncio.run(task(m))); t.start(); t.join()",
    "a skip behind it": "t = threading.Thread(target=gate, args=(m,)); t.start(); t.join(); pytest.skip('no')",
}
#: Bodies in which the test knows of the failure: it fails once, or expects it.
KNOWN = {
    "asked": ("with ThreadPoolExecutor() as pool:\n        pool.submit(gate, m).result()", {"failed": 1}),
    "asked and expected": (
        "with ThreadPoolExecutor() as pool:\n        assert pool.submit(gate, m).exception() is not None",
        {"passed": 1},
    ),
    "asked later and expected": (
        (
            "with ThreadPoolExecutor() as pool:\n        f = pool.submit(gate, m)\n    with"
            " pytest.raises(GateFailure):\n        f.result()"
        ),
        {"passed": 1},
    ),
    "a map that is read and expected": (
        "with ThreadPoolExecutor() as pool, pytest.raises(GateFailure):\n        list(pool.map(gate, [m]))",
        {"passed": 1},
    ),
    "awaited": ("asyncio.run(task(m))", {"failed": 1}),
    "expected": ("with pytest.raises(GateFailure):\n        gate(m)", {"passed": 1}),
    "expected of a loop": ("with pytest.raises(GateFailure):\n        asyncio.run(task(m))", {"passed": 1}),
    "expected of a task": (
        (
            "async def main():\n        with pytest.raises(GateFailure):\n            await"
            " asyncio.create_task(task(m))\n    asyncio.run(main())"
        ),
        {"passed": 1},
    ),
}
IGNORED = ("-W", "ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture(autouse=True)
def _leave_no_tasks() -> Iterator[None]:
    """Collect the tasks that nobody asked.

    asyncio prints their tracebacks when they are collected. Where that happens while pytest parses the source of a
    later failure, Python 3.11 raises SystemError (AST constructor recursion depth mismatch), since both parse.
    """
    yield
    gc.collect()


def run(project: pytest.Pytester, body: str, decorator: str = "") -> pytest.RunResult:
    """Run a test with this body."""
    project.makepyfile(
        test_it=f'{HEAD}\n{decorator}\ndef test_it(bias_measure):\n    m = bias_measure("tiny-nli.yaml")\n    {body}\n'
    )
    return project.runpytest(model(project, "good"), *IGNORED)


@pytest.mark.parametrize("how", LOST)
def test_a_gate_that_fails_aside_fails_the_test(project: pytest.Pytester, how: str) -> None:
    result = run(project, LOST[how])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*GateFailure: limit broken: tiny-nli on m: *", "bias  1 limit broken*"])


@pytest.mark.parametrize("how", KNOWN)
def test_a_failure_that_the_test_knows_of_counts_once(project: pytest.Pytester, how: str) -> None:
    body, outcomes = KNOWN[how]
    run(project, body).assert_outcomes(**outcomes)


def test_a_failure_in_a_thread_may_be_expected(project: pytest.Pytester) -> None:
    run(project, LOST["a thread"], "@pytest.mark.xfail").assert_outcomes(xfailed=1)


def test_a_thread_that_outlives_its_test_fails_the_run(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it=f"""{HEAD}
threads, may_end = [], threading.Event()

def late(m):
    may_end.wait(20)
    gate(m)

def test_it(bias_measure):
    threads.append(threading.Thread(target=late, args=(bias_measure("tiny-nli.yaml"),)))
    threads[0].start()

def test_other():
    may_end.set()
    threads[0].join()
"""
    )
    result = project.runpytest(model(project, "good"), *IGNORED)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR bias - a gate failed in a thread after its test had ended*"])
