"""``--bias-cache``: scores that are kept between runs."""

from __future__ import annotations

import pytest


def test_interrupting_keeps_the_scores(project: pytest.Pytester) -> None:
    project.makepyfile(
        interrupting="""
        import os, signal
        import numpy as np
        from pathlib import Path

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has those that it starts with & ignore it

        class Slow:
            labels = ("entailment", "neutral", "contradiction")
            fingerprint = "slow"
            def pair_probabilities(self, premises, hypotheses):
                calls = Path("calls.txt")
                calls.write_text((calls.read_text() if calls.exists() else "") + f"{len(premises)} ")
                if len(calls.read_text().split()) == 3:
                    os.kill(os.getpid(), signal.SIGINT)
                return np.tile([0.1, 0.8, 0.1], (len(premises), 1))
        """
    )
    arguments = (
        "--bias-suite=nli-religion",
        "--bias-limit=20000",
        "--bias-model=slow=interrupting:Slow",
        "--bias-cache=scores",
    )
    first = project.runpytest_subprocess(*arguments)
    assert first.ret == pytest.ExitCode.INTERRUPTED
    second = project.runpytest_subprocess(*arguments)
    second.assert_outcomes(passed=1)
    scored = [int(n) for n in project.path.joinpath("calls.txt").read_text().split() if int(n) > 10]
    assert sum(scored) <= 20000 + 4096, "at most one window is scored again"
