"""Baselines: nothing without a flag, nothing lost, nothing compared that cannot be."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.small_projects import model

from pytest_genderbias import Baseline, assert_no_regression, measure
from pytest_genderbias.errors import BaselineError, GateError, GateFailure
from pytest_genderbias.gates.book import (
    BaselineEntry,
    NewEntry,
    book_path,
    entry_of,
    items_path,
    read_book,
    read_items,
    to_write,
    write_entries,
)
from pytest_genderbias.gates.item_file import MOST_ITEM_BYTES, load_stored, pack_items, pack_measured
from pytest_genderbias.statistics.inference.item_sums import mean_sums
from pytest_genderbias.statistics.inference.packed_sums import SumsByStatistic

EXAMPLES = Path(__file__).parents[2] / "examples" / "verdicts" / "bias_baselines"

TEST = """
from pytest_genderbias import assert_no_regression

def test_neutral(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, tolerance=0.01)
"""


@pytest.fixture
def gated(project: pytest.Pytester) -> pytest.Pytester:
    project.makepyfile(test_gate=TEST)
    return project


def book(project: pytest.Pytester, module: str = "test_gate.py", name: str = "m") -> Path:
    return project.path / "bias_baselines" / name / f"{module}.json"


def test_the_life_of_a_baseline(gated: pytest.Pytester) -> None:
    result = gated.runpytest(model(gated, "good"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*missing: tiny-nli on m: no baseline entry 'tiny-nli'*run with --bias-update-new*", "*| missing *|"]
    )
    assert not book(gated).exists()

    result = gated.runpytest(model(gated, "good"), "--bias-update-new")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*| updated *|", "baseline written: *test_gate.py.json", "*tiny-nli.net_neutral: 0.9 (new)*"]
    )
    accepted = book(gated).read_bytes()

    gated.runpytest(model(gated, "good")).assert_outcomes(passed=1)
    result = gated.runpytest(model(gated, "worse"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*regressed: tiny-nli on m: net_neutral 0.9 -> 0.825, 0.075 worse, tolerance 0.01*"
            "to accept it: pytest *--bias-model=m=*:worse *test_gate.py::test_neutral?m??* --bias-update --bias-reason=*",
        ]
    )
    gated.runpytest(model(gated, "worse"), "--bias-update-new").assert_outcomes(failed=1)
    assert book(gated).read_bytes() == accepted

    result = gated.runpytest(model(gated, "better"))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*| stale *|", "stale: *0.9 -> 0.95, 0.05 better*refresh it with --bias-update*"])

    result = gated.runpytest(model(gated, "worse"), "--bias-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*0.9 -> 0.825 is 0.075 worse and is not accepted without a reason*"])
    assert book(gated).read_bytes() == accepted
    reason = "--bias-reason=the new tokenizer splits names"
    result = gated.runpytest(model(gated, "worse"), "--bias-update", reason)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "accepted on ????-??-??: tiny-nli.net_neutral on m 0.9 -> 0.825: the new tokenizer*",
            "*tiny-nli.net_neutral: 0.825 (was 0.9)*",
        ]
    )
    result = gated.runpytest(model(gated, "worse"))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["accepted on *: the new tokenizer splits names"])  # as long as it stands
    gated.runpytest(model(gated, "good"), "--bias-update").assert_outcomes(passed=1)
    assert "accepted" not in book(gated).read_text()


def test_a_baseline_is_sorted_and_stable(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    first = {path.name: path.read_bytes() for path in book(gated).parent.iterdir()}
    gated.runpytest(model(gated, "good"), "--bias-update")
    assert {path.name: path.read_bytes() for path in book(gated).parent.iterdir()} == first
    data = json.loads(book(gated).read_text())
    assert book(gated).read_text() == json.dumps(data, indent=1, sort_keys=True) + "\n"
    assert data["schema"] == 1
    (path,) = book(gated).parent.glob("test_gate.py.tiny-nli.*.npz")
    assert path.name.split(".")[-2] == data["entries"]["tiny-nli"]["items_sha256"][:8]
    sums = load_stored(path.read_bytes(), {}).item_sums("net_neutral")
    assert sums.sums.shape == (3, 4, 2)
    assert sums.by_unit().sums[:, 1].sum() == 264


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--bias-limit=100"], "sample: "),
        (["--bias-seed=5"], "setting: "),
        (["--bias-option=unit=word_pair"], "setting: "),
    ],
)
def test_another_sample_or_setting_is_not_comparable(gated: pytest.Pytester, change: list[str], message: str) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    result = gated.runpytest(model(gated, "good"), *change)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"*not comparable: tiny-nli on m: the baseline in *{message}*--bias-update*", "*| not comparable *|"]
    )


def test_another_suite_digest_is_not_comparable(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    persons = gated.path / "persons.yaml"
    persons.write_text(persons.read_text().replace("nurse", "baker"))
    result = gated.runpytest(model(gated, "good"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*not comparable: *suite: * stored, * now*"])


def test_another_tokenizer_dtype_or_device_is_named_and_compared(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    data = json.loads(book(gated).read_text())
    data["entries"]["tiny-nli"]["model"]["dtype"] = "bfloat16"
    book(gated).write_text(json.dumps(data))
    result = gated.runpytest(model(gated, "worse"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*0.075 worse*changed: dtype bfloat16 -> None*"])


def test_an_unused_entry_fails_and_update_removes_it(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    data = json.loads(book(gated).read_text())
    data["entries"]["old-suite"] = data["entries"]["tiny-nli"]
    book(gated).write_text(json.dumps(data))
    result = gated.runpytest(model(gated, "good"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["unused baseline entries: *test_gate.py.json: old-suite", "run with --bias-update to remove them"]
    )
    gated.makepyfile(test_other="def test_other(bias_model): pass")
    for narrowed in (["-k", "neutral"], ["test_gate.py::test_neutral"], ["test_other.py"]):
        assert gated.runpytest(model(gated, "good"), *narrowed).ret == pytest.ExitCode.OK, narrowed
    result = gated.runpytest(model(gated, "good"), "--bias-update")
    result.stdout.fnmatch_lines(["*old-suite: removed, no longer measured"])
    assert set(json.loads(book(gated).read_text())["entries"]) == {"tiny-nli"}


def test_baselines_of_a_module_that_is_gone_are_unused(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    gated.path.joinpath("test_gate.py").rename(gated.path / "test_renamed.py")
    result = gated.runpytest(model(gated, "good"), "--bias-update-new")
    assert result.ret == pytest.ExitCode.OK
    result = gated.runpytest(model(gated, "good"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["unused baseline entries: *test_gate.py.json: tiny-nli"])
    gated.runpytest(model(gated, "good"), "--bias-update")
    assert not book(gated).exists()
    assert book(gated, "test_renamed.py").exists()


def test_next_months_checkpoint_meets_last_months_baseline(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good", "release"), "--bias-update")
    gated.runpytest(model(gated, "good", "other")).assert_outcomes(failed=1)
    gated.runpytest(model(gated, "better", "release")).assert_outcomes(passed=1)


def test_packaged_suites_gate_where_there_is_a_baseline(project: pytest.Pytester) -> None:
    suites = "--bias-suite=tiny-nli.yaml"
    project.runpytest(suites, model(project, "good")).assert_outcomes(passed=1)
    project.runpytest(suites, model(project, "good"), "--bias-update-new").assert_outcomes(passed=1)
    assert book(project, "packaged").exists()
    result = project.runpytest(suites, model(project, "worse"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*regressed: tiny-nli on m*"])


def test_yaml_gates_compare_with_a_baseline(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(
        "gates:\n  - suite: ./tiny-nli.yaml\n    baseline: true\n    tolerance: 0.1\n"
        "  - {suite: ./tiny-nli.yaml, statistic: threshold_0.7, baseline: true}\n"
    )
    project.runpytest(model(project, "good")).assert_outcomes(failed=2)
    project.runpytest(model(project, "good"), "--bias-update-new").assert_outcomes(passed=2)
    result = project.runpytest(model(project, "worse"))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*release.bias.yaml:5: regressed: *threshold_0.7 1 -> 0.75*"])


@pytest.mark.slow
def test_workers_write_nothing_and_the_controller_does(gated: pytest.Pytester) -> None:
    result = gated.runpytest_subprocess(
        "-n", "2", model(gated, "good"), "--bias-update-new", "--bias-suite=tiny-nli.yaml"
    )
    result.assert_outcomes(passed=2)
    assert book(gated).exists()
    assert book(gated, "packaged").exists()
    assert list(book(gated).parent.glob("test_gate.py.tiny-nli.*.npz"))
    gated.runpytest_subprocess("-n", "2", model(gated, "good")).assert_outcomes(passed=1)
    data = json.loads(book(gated).read_text())
    data["entries"]["old-suite"] = data["entries"]["tiny-nli"]
    book(gated).write_text(json.dumps(data))
    result = gated.runpytest_subprocess("-n", "2", model(gated, "good"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["unused baseline entries: *old-suite*"])


def test_a_killed_worker_loses_nothing(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    before = book(gated).read_bytes()
    gated.makepyfile(test_killed="import os, signal\ndef test_it(bias_model): os.kill(os.getpid(), signal.SIGKILL)")
    result = gated.runpytest_subprocess("-n", "2", model(gated, "good"))
    result.stdout.fnmatch_lines(["*crashed*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "unused" not in result.stdout.str()
    assert book(gated).read_bytes() == before


def test_an_interrupted_update_writes_nothing(gated: pytest.Pytester) -> None:
    gated.makepyfile(test_zz="def test_it(): raise KeyboardInterrupt")
    result = gated.runpytest_subprocess(model(gated, "good"), "--bias-update")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["the run was cut short: no baseline was written"])
    assert not book(gated).exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 1}', '{"schema": 99, "entries": {}}'])
def test_a_damaged_baseline_is_one_error_and_is_left_alone(gated: pytest.Pytester, content: str) -> None:
    book(gated).parent.mkdir(parents=True)
    book(gated).write_text(content)
    for flags in ([], ["--bias-update"]):
        result = gated.runpytest(model(gated, "good"), *flags)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*BaselineError: *test_gate.py.json *"])
        assert book(gated).read_text() == content


def test_a_folder_that_cannot_be_written_is_a_usage_error(gated: pytest.Pytester) -> None:
    gated.path.joinpath("bias_baselines").write_text("a file where the folder should be")
    result = gated.runpytest(model(gated, "good"), "--bias-update")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --bias-baseline: *bias_baselines cannot be written*"])


@pytest.mark.parametrize("room", [0, 1], ids=["for nothing", "for the items"])
def test_a_full_disk_fails_the_run_and_keeps_what_was_there(
    gated: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    before = {path: path.read_bytes() for path in book(gated).parent.iterdir()}

    fsync, written = os.fsync, []

    def full(handle: int) -> None:
        written.append(handle)
        if len(written) > room:
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    result = gated.runpytest(model(gated, "better"), "--bias-update", "--bias-no-cache")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*cannot be written: No space left on device; nothing that was there is lost"])
    assert {path: path.read_bytes() for path in book(gated).parent.iterdir()} == before


def files(project: pytest.Pytester) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in book(project).parent.iterdir()}


def test_an_update_sweeps_the_items_of_an_earlier_state(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    before = set(files(gated))
    for left in ("test_gate.py.tiny-nli.0123abcd.npz", "test_gate.py.tiny-nli.npz"):
        (book(gated).parent / left).write_bytes(b"of a run that was killed")
    other = book(gated).parent / "test_gate.py.tiny-nli-2.0123abcd.npz"
    other.write_bytes(b"another entry's")
    gated.runpytest(model(gated, "better"), "--bias-update")
    after = set(files(gated)) - {other.name}
    assert len(after) == 2 == len(before) and len(after & before) == 1
    assert other.exists()


def test_an_update_of_what_did_not_change_writes_nothing(gated: pytest.Pytester) -> None:
    """Not the last digits of another machine, nor its device, nor the folder of the checkpoint."""
    gated.runpytest(model(gated, "good"), "--bias-update")
    before = files(gated)
    result = gated.runpytest(model(gated, "nearly"), "--bias-update", "--bias-no-cache")
    result.assert_outcomes(passed=1)
    assert files(gated) == before
    assert "baseline written" not in result.stdout.str()
    (items,) = book(gated).parent.glob("*.npz")
    items.write_bytes(b"damaged")
    gated.runpytest(model(gated, "good"), "--bias-update").assert_outcomes(passed=1)
    assert files(gated) == before, "written anew"
    result = gated.runpytest(model(gated, "better"), "--bias-update")
    result.stdout.fnmatch_lines(["*tiny-nli.net_neutral: 0.95 (was 0.9)"])
    assert not re.search(r"tiny-nli\.\S+: (\S+) \(was \1\)", result.stdout.str()), "only what changed is listed"


def test_no_two_names_share_a_file(tmp_path: Path) -> None:
    modules = ["a/b.py", "a.b.py", "a/b.bias.yaml", "a.b.bias.yaml", "packaged", "packaged.x.py"]
    assert len({book_path(tmp_path, "m", module) for module in modules}) == len(modules)
    assert book_path(tmp_path, "m", "tests/test_a.py").name == "tests.test_a.py.json"
    assert book_path(tmp_path, "m", "tests/x.bias.yaml").name == "tests.x.bias.yaml.json"
    names = ["nli (a)", "nli [a]", "nli-a-", "nli-a"]
    assert len({items_path(tmp_path / "m" / "t.py.json", name, "0" * 64) for name in names}) == len(names)
    found = {
        name: measure("nli-religion", Neutral(0.5 + i / 10), limit=100, cache=None) for i, name in enumerate(names)
    }
    path = write_entries(tmp_path, "m", "t.py", {name: entry_of(one) for name, one in found.items()})
    for name, content in read_book(path).items():
        items = read_items(path, name, content)
        assert items is not None
        assert items.item_sums("net_neutral").sums.tolist() == found[name].item_sums("net_neutral").sums.tolist()


COMMAND = re.compile(r"to accept it: (pytest .*? --bias-update) --bias-reason=")


@pytest.mark.slow
def test_the_command_that_is_printed_accepts_it(gated: pytest.Pytester) -> None:
    """As it was typed, with the flags that the figure hangs on, and this test alone."""
    gated.makepyfile(test_other=TEST)
    typed = ("--bias-suite=tiny-nli.yaml", "--bias-limit", "264", "--bias-option=as_printed= false ")
    gated.runpytest(model(gated, "good"), *typed, "--bias-update").assert_outcomes(passed=3)
    of_workers = gated.runpytest_subprocess("-n", "2", "test_gate.py", model(gated, "worse"), *typed)
    result = gated.runpytest("test_gate.py", model(gated, "worse"), *typed, "--bias-update-new")
    result.assert_outcomes(failed=2)
    printed = [[shlex.split(text)[1:] for text in COMMAND.findall(one.stdout.str())] for one in (result, of_workers)]
    here, there = ({tuple(a for a in command if "basetemp" not in a) for command in commands} for commands in printed)
    assert {("-n", "2", *command) for command in here} == there, "a worker says what was typed, too"
    assert {command[-2] for command in here} == {"test_gate.py::test_neutral[m]", "tiny-nli:m"}
    for command in here:
        gated.runpytest(*command, "--bias-reason=why").assert_outcomes(passed=1, deselected=int("-k" in command))
    gated.runpytest("test_gate.py", model(gated, "worse"), *typed).assert_outcomes(passed=2)


def test_no_text_of_a_file_moves_the_cursor(gated: pytest.Pytester) -> None:
    bad = "ok\x1b[2K\x9b1A\u202egnp\x07"
    gated.runpytest(model(gated, "good"), "--bias-update")
    gated.runpytest(model(gated, "worse"), "--bias-update", f"--bias-reason={bad}").assert_outcomes(passed=1)
    data = json.loads(book(gated).read_text())
    (note,) = data["entries"]["tiny-nli"]["accepted"]
    assert note["reason"] == r"ok\x1b[2K\x9b1A\u202egnp\x07"
    note["reason"] = bad
    data["entries"]["tiny-nli"]["model"]["dtype"] = bad
    data["entries"][f"old{bad}"] = data["entries"]["tiny-nli"]
    book(gated).write_text(json.dumps(data))
    for flag in ((), ("--bias-update",)):
        result = gated.runpytest(model(gated, "worse"), *flag)
        assert not re.search("[\x1b\x9b\u202e\x07]", result.stdout.str()), flag
        assert r"ok\x1b[2K" in result.stdout.str()
    data["entries"]["tiny-nli"]["settings"]["unit"] = bad
    book(gated).write_text(json.dumps(data))
    result = gated.runpytest(model(gated, "worse"))
    result.assert_outcomes(failed=1)
    assert not re.search("[\x1b\x9b\u202e\x07]", result.stdout.str())


class Neutral:
    """A classifier with one probability for all."""

    labels = ("entailment", "neutral", "contradiction")

    def __init__(self, neutral: float) -> None:
        self.neutral = neutral

    def pair_probabilities(self, premises: list[str], hypotheses: list[str]) -> np.ndarray:
        same = np.array([a == b for a, b in zip(premises, hypotheses, strict=True)])[:, None]
        row = [(1 - self.neutral) / 2, self.neutral, (1 - self.neutral) / 2]
        return np.where(same, [1.0, 0.0, 0.0], row)


def test_two_measurements_cannot_claim_one_entry(tmp_path: Path) -> None:
    baseline = Baseline(tmp_path, "m", "test_x.py", update="all")
    first, second = (measure("nli-religion", Neutral(0.5), limit=n, cache=None) for n in (100, 200))
    assert_no_regression(first, baseline)
    assert_no_regression(first, baseline, statistic="fraction_neutral")
    with pytest.raises(GateError, match="give one of them another name="):
        assert_no_regression(second, baseline)
    assert_no_regression(second, baseline, name="nli-religion-200")
    assert set(baseline.measured) == {"nli-religion", "nli-religion-200"}


def test_tolerance_is_absolute_and_float_noise_is_none(tmp_path: Path) -> None:
    old = measure("nli-religion", Neutral(0.5), limit=100, cache=None)
    write_entries(tmp_path, "m", "t.py", {"nli-religion": entry_of(old)})
    baseline = Baseline(tmp_path, "m", "t.py")
    assert (
        assert_no_regression(measure("nli-religion", Neutral(0.5 - 5e-7), limit=100, cache=None), baseline).verdict
        == "pass"
    )
    worse = measure("nli-religion", Neutral(0.45), limit=100, cache=None)
    assert assert_no_regression(worse, baseline, tolerance=0.051).verdict == "pass"
    with pytest.raises(GateFailure, match=r"0\.05 worse, tolerance 0\.049"):
        assert_no_regression(worse, baseline, tolerance=0.049)
    assert (
        assert_no_regression(
            measure("nli-religion", Neutral(0.6), limit=100, cache=None), baseline, tolerance=0.05
        ).verdict
        == "stale"
    )
    with pytest.raises(GateError, match="tolerance"):
        assert_no_regression(worse, baseline, tolerance=-1)


def test_items_are_bounded() -> None:
    rng = np.random.default_rng(0)
    assert pack_items({"x": rng.random(10)}) is not None
    assert pack_items({"x": rng.random(MOST_ITEM_BYTES)}) is None


def test_an_item_file_holds_the_sums_of_every_statistic() -> None:
    measurement = measure("lm-occupation", "demo-lm", limit=600, cache=None)
    packed = pack_measured(measurement)
    assert packed is not None
    stored = load_stored(packed, {})
    assert "bias" not in stored.items
    for name, value in measurement.values.items():
        sums = stored.item_sums(name)
        assert sums.total == pytest.approx(value, rel=1e-12)
        assert sums.sums.tobytes() == measurement.item_sums(name).sums.tobytes() and sums.templates is not None


def test_raw_items_are_stored_where_their_sums_do_not_fit() -> None:
    measurement = measure("nli-religion", Neutral(0.5), limit=100, cache=None)
    many = np.random.default_rng(0).random(MOST_ITEM_BYTES // 4)
    large = mean_sums(np.arange(len(many)).astype(str), many, np.ones(len(many)), "premise words")
    packed = pack_measured(replace(measurement, sums=SumsByStatistic({"net_neutral": large})))
    assert packed is not None
    stored = load_stored(packed, measurement.signature)
    assert set(stored.items) == set(measurement.items)
    assert stored.item_sums("net_neutral").total == pytest.approx(0.5)


def test_a_baseline_of_raw_items_is_judged_as_one_of_sums(tmp_path: Path) -> None:
    """As versions before the sums wrote it; an update of what did not change leaves it as it is."""
    for suite, measured, other in (
        ("lm-occupation", "demo-lm", "demo-mlm"), ("nli-religion", Neutral(0.5), Neutral(0.4)), ("disco-terms", "demo-mlm", None),
    ):  # fmt: skip
        then = measure(suite, measured, limit=420, cache=None)
        now = then if other is None else measure(suite, other, limit=420, cache=None)
        new = entry_of(then)
        raw = pack_items(then.items)
        assert raw is not None and raw != new.items
        old = NewEntry(replace(new.entry, items_sha256=hashlib.sha256(raw).hexdigest()), raw)
        judged = []
        for folder, one in (("new", new), ("old", old)):
            path = write_entries(tmp_path / folder, "m", "t.py", {suite: one})
            judged.append(Baseline(tmp_path / folder, "m", "t.py").judge(now, statistic=then.main))
            assert to_write(path, suite, entry_of(then), read_book(path)[suite]) is None
        now_judged, before = (replace(judgement, text=judgement.text.replace("old", "new")) for judgement in judged)
        assert now_judged == before


@pytest.mark.parametrize("book", sorted(EXAMPLES.glob("*/*.json")), ids=lambda path: path.name)
def test_baselines_of_the_examples_give_their_values(book: Path) -> None:
    for name, entry in read_book(book).items():
        stored = read_items(book, name, entry)
        assert stored is not None
        if "restarts" in entry.settings:
            assert stored.items["restart.net_neutral"].mean() == pytest.approx(entry.values["net_neutral"])
            continue
        for statistic, value in entry.values.items():
            if value is not None:
                assert stored.item_sums(statistic).total == pytest.approx(value, rel=1e-9)


def test_an_entry_is_written_as_it_was_read(tmp_path: Path) -> None:
    """The examples' baselines give the same bytes again, and keys of a later version stay."""
    for path in sorted(EXAMPLES.glob("*/*.json")):
        data = json.loads(path.read_text())
        for name, content in data["entries"].items():
            assert json.dumps(BaselineEntry.from_dict(content).to_dict(), sort_keys=True) == json.dumps(
                content, sort_keys=True
            ), name
    later = {**content, "later": {"key": [1]}}
    assert BaselineEntry.from_dict(later).to_dict() == later
    assert BaselineEntry.from_dict(later).other == {"later": {"key": [1]}}


def test_entries_that_are_not_written_keep_their_bytes(tmp_path: Path) -> None:
    measurement = measure("nli-religion", Neutral(0.5), limit=100, cache=None)
    path = write_entries(tmp_path, "m", "t.py", {"one": entry_of(measurement)})
    data = json.loads(path.read_text())
    del data["entries"]["one"]["data"]  # as the first version wrote it
    path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
    block = json.dumps(data["entries"]["one"], indent=1, sort_keys=True)
    write_entries(tmp_path, "m", "t.py", {"two": entry_of(measurement)})
    assert json.dumps(json.loads(path.read_text())["entries"]["one"], indent=1, sort_keys=True) == block
    assert read_book(path)["one"].data == {}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("values", [], "entries.nli-religion.values: expected a mapping, got []"),
        ("values", {"net_neutral": "much"}, "entries.nli-religion.values.net_neutral: expected a number or null, got 'much'"),
        ("gated", {"net_neutral": None}, "entries.nli-religion.gated.net_neutral: expected a number, got None"),
        ("accepted", [{"date": "2026-01-01"}], "entries.nli-religion.accepted[0]: expected the keys statistic, date, old"),
    ],
)  # fmt: skip
def test_an_entry_of_another_form_is_one_error(tmp_path: Path, key: str, value: object, message: str) -> None:
    measurement = measure("nli-religion", Neutral(0.5), limit=100, cache=None)
    path = write_entries(tmp_path, "m", "t.py", {"nli-religion": entry_of(measurement)})
    data = json.loads(path.read_text())
    data["entries"]["nli-religion"][key] = value
    path.write_text(json.dumps(data))
    with pytest.raises(BaselineError) as caught:
        Baseline(tmp_path, "m", "t.py").judge(measurement)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "restore it from version control, or delete it and run with --bias-update" in str(caught.value)


def test_a_baseline_error_is_an_oserror(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("a file")
    measurement = measure("nli-religion", Neutral(0.5), limit=100, cache=None)
    with pytest.raises(BaselineError, match="cannot be"):
        write_entries(tmp_path, "m", "t.py", {"nli-religion": entry_of(measurement)})


def test_options_that_only_change_what_is_shown_do_not_keep_from_comparing(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    gated.runpytest(model(gated, "good"), "--bias-option=top=3", "--bias-option=slices=gendered").assert_outcomes(
        passed=1
    )


def test_unused_entries_are_told_where_other_gates_do_not_apply(project: pytest.Pytester) -> None:
    gates = project.path / "release.bias.yaml"
    gates.write_text("gates:\n  - {suite: ./tiny-nli.yaml, baseline: true}\n  - {suite: ./tiny-lm.yaml, at_most: 9}\n")
    project.runpytest(model(project, "good"), "--bias-update").assert_outcomes(passed=1, skipped=1)
    gates.write_text("gates:\n  - {suite: ./tiny-nli.yaml, at_least: 0}\n  - {suite: ./tiny-lm.yaml, at_most: 9}\n")
    result = project.runpytest(model(project, "good"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["unused baseline entries: *release.bias.yaml.json: tiny-nli"])


class Lengths:
    def pair_scores(self, firsts, seconds):
        return [len(a) / len(b) for a, b in zip(firsts, seconds, strict=True)]


def test_data_of_another_statistic_do_not_keep_this_one_from_being_compared(tmp_path: Path) -> None:
    """A baseline that was made without STS-B still holds for the bias when STS-B is there, and says nothing of accuracy."""
    (tmp_path / "stsb").mkdir()
    rows = ["sentence1\tsentence2\tscore", "A cat.\tA small cat.\t4", "Rain.\tA dog runs.\t0", "Snow.\tSnow falls.\t3"]
    (tmp_path / "stsb" / "dev.tsv").write_text("\n".join(rows) + "\n")
    how = {"cache": None, "templates": "own", "limit": 600}
    without = measure("sts-occupation", Lengths(), **how)
    write_entries(tmp_path, "m", "t", {"sts-occupation": entry_of(without)})
    baseline = Baseline(tmp_path, "m", "t")
    found = measure("sts-occupation", Lengths(), data=tmp_path, **how)
    assert found.values["accuracy"] is not None
    assert baseline.judge(found).verdict == "pass"
    assert baseline.judge(found, statistic="accuracy").verdict == "not comparable"
    other = measure("sts-occupation", Lengths(), cache=None, templates="own", limit=600, seed=1)
    assert Baseline(tmp_path, "m", "t").judge(other).verdict == "not comparable"


def test_a_stored_baseline_is_judged_without_the_families(tmp_path: Path) -> None:
    """In a process that knows the measurement as JSON, and imports no family of suites."""
    then, now = (measure("lm-occupation", model, limit=600, cache=None) for model in ("demo-lm", "demo-mlm"))
    write_entries(tmp_path / "b", "m", "t.py", {"lm-occupation": entry_of("lm-occupation", then)})
    (tmp_path / "now.json").write_text(json.dumps(now.to_dict()))
    code = (
        "import json, sys; from pathlib import Path\n"
        "from pytest_genderbias.gates.baseline import Baseline\n"
        "from pytest_genderbias.measurement.measurement import Measurement\n"
        "now = Measurement.from_dict(json.loads(Path(sys.argv[1], 'now.json').read_text()))\n"
        "print(json.dumps(Baseline(Path(sys.argv[1], 'b'), 'm', 't.py').judge(now).to_dict()))\n"
        "assert 'pytest_genderbias.suites.registry' not in sys.modules and 'pytest' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    here = Baseline(tmp_path / "b", "m", "t.py").judge(now)
    assert json.loads(done.stdout) == json.loads(json.dumps(here.to_dict()))
    assert here.over == "occupations"
