"""How often a release was tried: measurements of the same weights with other seeds, samples or settings."""

from __future__ import annotations

from dataclasses import replace

from pytest_genderbias.reports.run_report import Trace, TracePoint, tried

POINT = TracePoint("2026-11-01T00:00:00+00:00", "", "weights", "seed-0", 0.3)
TRACE = Trace("candidate", "lm-occupation", "{}", "aggregate_bias", True, "higher", 0.0, "", (POINT,))


def test_the_same_weights_measured_in_several_ways_are_said() -> None:
    again = replace(POINT, date="2026-11-02T00:00:00+00:00", comparable="seed-1")
    [line] = tried([replace(TRACE, points=(POINT, again)), replace(TRACE, options='{"order": "reversed"}')])
    assert line.startswith("candidate: lm-occupation was measured in 3 ways on the same weights")


def test_other_weights_and_repeated_runs_are_no_tries() -> None:
    other = replace(POINT, date="2026-11-02T00:00:00+00:00", fingerprint="next", comparable="seed-1")
    repeated = replace(POINT, date="2026-11-03T00:00:00+00:00")
    assert list(tried([replace(TRACE, points=(POINT, other))])) == []
    assert list(tried([replace(TRACE, points=(POINT, repeated))])) == []
    assert (
        list(
            tried(
                [
                    replace(
                        TRACE, points=(replace(POINT, fingerprint=""), replace(POINT, fingerprint="", comparable="x"))
                    )
                ]
            )
        )
        == []
    )
