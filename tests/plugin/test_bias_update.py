"""``--bias-update`` and ``--bias-update-new``: nothing written without a flag, and nothing lost."""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex

import pytest
from support.baseline_books import TEST, book
from support.small_projects import WORKERS, model

from pytest_genderbias.gates import book_update
from pytest_genderbias.gates.item_file import load_stored


def test_the_life_of_a_baseline(gated: pytest.Pytester) -> None:
    result = gated.runpytest(model(gated, "good"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*cannot judge (no baseline): tiny-nli on m: no baseline entry 'tiny-nli' in *",
            "*pytest *--bias-update-new",
            "*  cannot judge (no baseline) *",
        ]
    )
    assert not book(gated).exists()

    result = gated.runpytest(model(gated, "good"), "--bias-update-new")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*  pass (stored) *", "baseline written: *test_gate.py.json", "*tiny-nli.net_neutral: 0.9 (new)*"]
    )
    accepted = book(gated).read_bytes()

    gated.runpytest(model(gated, "good")).assert_outcomes(passed=1)
    result = gated.runpytest(model(gated, "worse"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*worse: tiny-nli on m: net_neutral 0.9 -> 0.825: 0.075 worse, allowed 0.01",
            "* do *fix the model, or accept what is measured now:",
            "* pytest *--bias-model=m=*:worse *test_gate.py::test_neutral?m??* --bias-update --bias-reason=*",
        ]
    )
    gated.runpytest(model(gated, "worse"), "--bias-update-new").assert_outcomes(failed=1)
    assert book(gated).read_bytes() == accepted

    result = gated.runpytest(model(gated, "better"))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*  pass (better: refresh) *", "1 gate is better than its baseline (tiny-nli): refresh with --bias-update, *"]
    )

    result = gated.runpytest(model(gated, "worse"), "--bias-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*0.9 -> 0.825: 0.075 worse, and no reason is given"])
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


def test_unused_entries_are_told_where_other_gates_do_not_apply(project: pytest.Pytester) -> None:
    gates = project.path / "release.bias.yaml"
    gates.write_text(
        "gates:\n  - {suite: ./tiny-nli.yaml, baseline: true, margin: 0}\n  - {suite: ./tiny-lm.yaml, at_most: 9,"
        " models: [w]}\n"
    )
    project.runpytest(model(project, "good"), "--bias-update").assert_outcomes(passed=1, skipped=1)
    gates.write_text(
        "gates:\n  - {suite: ./tiny-nli.yaml, at_least: 0.01}\n  - {suite: ./tiny-lm.yaml, at_most: 9, models: [w]}\n"
    )
    result = project.runpytest(model(project, "good"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["unused baseline entries: *release.bias.yaml.json: tiny-nli"])


@pytest.mark.slow
def test_workers_write_nothing_and_the_controller_does(gated: pytest.Pytester) -> None:
    gated.makeini("[pytest]\nbias_ability = none: models made by hand\n")
    result = gated.runpytest_subprocess(
        *WORKERS, model(gated, "good"), "--bias-update-new", "--bias-suite=tiny-nli.yaml", "--bias-margin=0"
    )
    result.assert_outcomes(passed=2)
    assert book(gated).exists()
    assert book(gated, "packaged").exists()
    assert list(book(gated).parent.glob("test_gate.py.tiny-nli.*.npz"))
    gated.runpytest_subprocess(*WORKERS, model(gated, "good")).assert_outcomes(passed=1)
    data = json.loads(book(gated).read_text())
    data["entries"]["old-suite"] = data["entries"]["tiny-nli"]
    book(gated).write_text(json.dumps(data))
    result = gated.runpytest_subprocess(*WORKERS, model(gated, "good"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    printed = result.stdout.str()
    assert "old-suite" in printed.partition("unused baseline entries:")[2]


def test_a_killed_worker_loses_nothing(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    before = book(gated).read_bytes()
    gated.makepyfile(test_killed="import os, signal\ndef test_it(bias_model): os.kill(os.getpid(), signal.SIGKILL)")
    result = gated.runpytest("-p", "xdist", "-n1", model(gated, "good"))
    result.stdout.fnmatch_lines(["*crashed*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "unused" not in result.stdout.str()
    assert book(gated).read_bytes() == before


def test_an_interrupted_update_writes_nothing(gated: pytest.Pytester) -> None:
    gated.makepyfile(test_zz="def test_it(): raise KeyboardInterrupt")
    result = gated.runpytest_inprocess(model(gated, "good"), "--bias-update", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["the run was cut short: no baseline was written"])
    assert not book(gated).exists()


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
    (book(gated).parent / "test_gate.py.tiny-nli.0123abcd.npz").write_bytes(b"of a run that was killed")
    other = book(gated).parent / "test_other.py.tiny-nli.0123abcd.npz"
    other.write_bytes(b"of a book that is not here")
    gated.runpytest(model(gated, "better"), "--bias-update")
    after = set(files(gated)) - {other.name}
    assert len(before) == 2 and len(after) == 3 and before < after, "the items of the anchor stay"
    gated.runpytest(model(gated, "better"), "--bias-update", "--bias-reason=to hold on to it")
    assert len(set(files(gated)) - {other.name}) == 2
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


COMMAND = re.compile(r"^(?:E  )? +(pytest .*? --bias-update) --bias-reason=", re.MULTILINE)


@pytest.mark.slow
def test_the_command_that_is_printed_accepts_it(gated: pytest.Pytester) -> None:
    """As it was typed, with the flags that the figure hangs on, and this test alone."""
    gated.makeini("[pytest]\nbias_ability = none: models made by hand\n")
    gated.makepyfile(test_other=TEST)
    typed = ("--bias-suite=tiny-nli.yaml", "--bias-limit", "264", "--bias-option=as_printed= false ", "--bias-margin=0")
    gated.runpytest(model(gated, "good"), *typed, "--bias-update").assert_outcomes(passed=3)
    of_workers = gated.runpytest_subprocess(*WORKERS, "test_gate.py", model(gated, "worse"), *typed)
    result = gated.runpytest("test_gate.py", model(gated, "worse"), *typed, "--bias-update-new")
    result.assert_outcomes(failed=2)
    printed = [[shlex.split(text)[1:] for text in COMMAND.findall(one.stdout.str())] for one in (result, of_workers)]
    here, there = ({tuple(a for a in command if "basetemp" not in a) for command in commands} for commands in printed)
    assert {(*WORKERS, *command) for command in here} == there, "a worker says what was typed, too"
    assert {command[-2] for command in here} == {"test_gate.py::test_neutral[m]", "tiny-nli:m"}
    for command in here:
        gated.runpytest(*command, "--bias-reason=why").assert_outcomes(passed=1, deselected=int("-k" in command))
    gated.runpytest("test_gate.py", model(gated, "worse"), *typed).assert_outcomes(passed=2)


def test_only_a_reason_moves_the_anchor_and_every_run_says_how_far_a_value_has_come(gated: pytest.Pytester) -> None:
    """From .9 in steps that each pass: to .895, and to .885 with a reason only, since the margin is .01."""
    models = next(gated.path.glob("models_*.py"))
    models.write_text(
        models.read_text() + "\ndef at_0_895(): return Classifier(0.895)\ndef at_0_885(): return Classifier(0.885)\n"
    )
    gated.runpytest(model(gated, "good"), "--bias-update").assert_outcomes(passed=1)
    path = book(gated)
    path.write_text(path.read_text().replace(datetime.date.today().isoformat(), "2026-01-31"))
    step = gated.runpytest(model(gated, "at_0_895"), "--bias-update")
    step.assert_outcomes(passed=1)
    far = gated.runpytest(model(gated, "at_0_885"))
    far.assert_outcomes(failed=1)
    far.stdout.fnmatch_lines(
        [
            (
                "*worse: tiny-nli on m: against the anchor of 2026-01-31: net_neutral 0.9 -> 0.885: 0.015 worse,"
                " allowed 0.01"
            ),
            "baseline of m: accepted today",
            "since 2026-01-31: tiny-nli.net_neutral on m 0.9 -> 0.885, 0.015 worse",
        ]
    )
    refused = gated.runpytest(model(gated, "at_0_885"), "--bias-update")
    refused.stdout.fnmatch_lines(
        ["*worse (no reason given): *0.015 worse than the anchor of 2026-01-31, and no reason is given"]
    )
    accepted = gated.runpytest(model(gated, "at_0_885"), "--bias-update", "--bias-reason=a smaller model")
    accepted.assert_outcomes(passed=1)
    accepted.stdout.fnmatch_lines(["  tiny-nli: the anchor of 2026-01-31 moves: net_neutral 0.9 -> 0.885"])
    again = gated.runpytest(model(gated, "at_0_885"))
    again.assert_outcomes(passed=1)
    again.stdout.no_fnmatch_line("since 20*")


SECOND = "gates: [{suite: ./tiny-nli.yaml, name: second, baseline: true, margin: 0}]\n"
#: What keeps an update from being stored, beside an entry that could be: files, by what happens in them with the better
#: model.
SPOILERS = {
    "an error": ("test_other.py", "def test_other(bias_measure): 1 / 0\n"),
    "an error in a fixture": (
        "test_other.py",
        "import pytest\n@pytest.fixture\ndef broken(bias_measure): 1 / 0\ndef test_other(broken): pass\n",
    ),
    "a suite that does not apply": (
        "other.bias.yaml",
        "gates: [{suite: ./tiny-disco.yaml, baseline: true, margin: 0}]\n",
    ),
}


@pytest.mark.parametrize("update", ["--bias-update", "--bias-update-new"])
@pytest.mark.parametrize("spoiler", SPOILERS)
def test_an_update_is_stored_whole_or_not_at_all(gated: pytest.Pytester, spoiler: str, update: str) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update").assert_outcomes(passed=1)
    before = files(gated)
    gated.path.joinpath("second.bias.yaml").write_text(SECOND)
    name, content = SPOILERS[spoiler]
    gated.path.joinpath(name).write_text(content)
    result = gated.runpytest(model(gated, "better"), update)
    assert files(gated) == before
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["nothing was stored, since 1 test that measures failed (*", "bias * cannot judge (not stored)*"]
    )
    result.stdout.no_fnmatch_line("baseline written*")
    gated.path.joinpath(name).unlink()
    gated.runpytest(model(gated, "better"), update)
    assert files(gated).keys() > before.keys()


def test_a_broken_limit_keeps_no_update_out(gated: pytest.Pytester) -> None:
    gated.path.joinpath("limit.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.99}]\n")
    result = gated.runpytest(model(gated, "good"), "--bias-update-new")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*limit broken: tiny-nli on m: *", "baseline written*"])
    assert book(gated).exists()


def test_one_refused_entry_keeps_the_books_of_all_files_and_models_as_they_were(gated: pytest.Pytester) -> None:
    """A model that is better in one suite and worse in another, and a second model that is better."""
    gated.path.joinpath("second.bias.yaml").write_text(
        SECOND.replace("baseline", "statistic: threshold_0.7, baseline")
        + "  # the better share of a model that is worse\n"
    )
    both = model(gated, "worse"), model(gated, "good", "other")
    gated.runpytest(*both, "--bias-update").assert_outcomes(passed=4)
    before = {path: path.read_bytes() for path in gated.path.glob("bias_baselines/*/*")}
    models = next(gated.path.glob("models_*.py"))
    models.write_text(models.read_text() + "\ndef mixed(): return Classifier(0.8, 0.0)\n")
    result = gated.runpytest(model(gated, "mixed"), model(gated, "better", "other"), "--bias-update")
    result.stdout.fnmatch_lines(["*worse (no reason given): *", "nothing was stored, since *"])
    assert {path: path.read_bytes() for path in gated.path.glob("bias_baselines/*/*")} == before


def test_a_test_of_the_project_that_does_not_measure_keeps_no_update_out(gated: pytest.Pytester) -> None:
    gated.makepyfile(test_other="def test_other(): assert 0")
    result = gated.runpytest(model(gated, "good"), "--bias-update")
    result.assert_outcomes(passed=1, failed=1)
    assert book(gated).exists()


def test_a_disk_that_is_full_after_the_first_book_leaves_both_as_they_were(
    gated: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated.path.joinpath("second.bias.yaml").write_text(SECOND)
    gated.runpytest(model(gated, "good"), "--bias-update").assert_outcomes(passed=2)
    before = files(gated)
    write, books = book_update.write_place, []

    def full(path: os.PathLike[str], content: bytes) -> None:
        books.append(str(path).endswith(".json"))
        if sum(books) == 2 and books[-1]:
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(book_update, "write_place", full)
    result = gated.runpytest(model(gated, "better"), "--bias-update")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*cannot be written: No space left on device; nothing that was there is lost"])
    assert files(gated) == before


def test_a_new_definition_names_its_gates_and_one_command_for_all(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update-new").assert_outcomes(passed=1)
    data = json.loads(book(gated).read_text())
    now = data["entries"]["tiny-nli"]["definition"]
    data["entries"]["tiny-nli"]["definition"] = "nli/0"
    book(gated).write_text(json.dumps(data))
    result = gated.runpytest(model(gated, "good"))
    result.assert_outcomes(failed=1)
    said = next(line for line in result.outlines if "with a baseline of an earlier definition" in line)
    assert said.startswith(f"1 gate with a baseline of an earlier definition (nli/0 -> {now}): ")
    command = shlex.split(said.partition("To accept them all: ")[2])
    assert command[0] == "pytest" and "--bias-update" in command
    gated.runpytest(*command[1:]).assert_outcomes(passed=1)
    accepted = json.loads(book(gated).read_text())["entries"]["tiny-nli"]
    assert accepted["definition"] == now
    assert not any("earlier definition" in line for line in gated.runpytest(model(gated, "good")).outlines)
