"""The controller's ledger: takes up what reports carry, and at the end writes what is to be written."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_genderbias.errors import BiasError
from pytest_genderbias.gates.policy import WARNED
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.outcomes import ARGUMENTS, ATTRIBUTE, measures, model_of, module_of
from pytest_genderbias.text.printable import printable

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_genderbias.gates.book import BaselineEntry
    from pytest_genderbias.gates.comparison import Comparison, LeftOut
    from pytest_genderbias.gates.judgement import SettledJudgement
    from pytest_genderbias.measurement.measurement import Measurement

Book = tuple[str, str]  # model name, module


class Ledger:
    """A plugin of its own, so that every hook knows the run it belongs to."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._settings = config, config.stash[SETTINGS]
        self._sent: dict[str, dict[str, object]] = {"measurements": {}, "judgements": {}}  # plain data, by its JSON
        self._measurements: list[Measurement] = []
        self._judgements: list[SettledJudgement] = []
        self._comparisons: list[Comparison] = []
        self._not_compared: list[LeftOut] = []
        self._entries: dict[Book, dict[str, list[dict[str, Any]]]] = {}  # by name, from each test that accepted it
        self._refused: dict[Book, set[str]] = {}  # entries with a worse value that nobody gave a reason for
        self._used: dict[Book, set[str]] = {}
        self._collected: Counter[Book] = Counter()
        self._settled: Counter[Book] = Counter()
        self._partial = False  # something was deselected, or a worker died: unused entries cannot be told
        self._whole: set[Book] = set()  # books whose tests all ran
        self._lines: list[tuple[str, str]] = []
        self._skipped: dict[tuple[str, str], dict[str, None]] = {}  # model, reason: suites, of flags and of gate files

    # What is collected and what was run.

    def collected(self, items: Iterable[pytest.Item]) -> None:
        """Count the tests of each model and module."""
        for item in items:
            model = model_of(item) if measures(item) else None
            if model is not None:
                self._collected[model, module_of(item)] += 1

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Remember that not all tests run."""
        self._partial = self._partial or any(measures(item) for item in items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take up what a test found."""
        found = getattr(report, ATTRIBUTE, None)
        if found is None or type(report) is not pytest.TestReport:
            return
        for kind, sent in self._sent.items():
            for data in found[kind]:
                sent.setdefault(json.dumps(data, sort_keys=True), data)
        suite = dict(report.user_properties).get("bias_suite")
        if suite is not None and report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ").removeprefix(str(suite)).lstrip(": ")
            self._skipped.setdefault((found["model"] or "", reason), {})[str(suite)] = None
        book = (found["model"] or "", found["module"])
        self._used.setdefault(book, set()).update(found["used"])
        self._refused.setdefault(book, set()).update(found["refused"])
        entries = self._entries.setdefault(book, {})
        for name, entry in found["entries"].items():
            entries.setdefault(name, []).append(entry)
        inapplicable = found["declared"] and report.outcome == "skipped"
        if report.when == "call" and (report.outcome == "passed" or found["judgements"] or inapplicable):
            self._settled[book] += 1

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker what the user typed, which its own arguments are not."""
        node.workerinput[ARGUMENTS] = [str(one) for one in self._config.invocation_params.args]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take up what a worker counted; one that died without a word leaves the run partial."""
        said = getattr(node, "workeroutput", {}).get(ATTRIBUTE)
        if said is None or error:
            self._partial = True
            return
        self._partial = self._partial or said["partial"]
        self._collected = Counter({(model, module): count for model, module, count in said["collected"]})

    # The end.

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Compare the models, write baselines and the JSON report; tell of unused entries."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            collected = [[model, module, count] for (model, module), count in self._collected.items()]
            output[ATTRIBUTE] = {"partial": self._partial, "collected": collected}
            return
        self._rebuild()
        whole = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        unused = self._unused(session) if whole else {}
        if self._settings.update != "no":
            self._write_baselines(session, unused, whole)
        elif unused:
            self._fail(
                session,
                "unused baseline entries: "
                + "; ".join(f"{path}: {', '.join(sorted(names))}" for path, names in unused.items()),
            )
            self._say("run with --bias-update to remove them", "red")
        if self._settings.compare:
            self._compare()
        if self._settings.json is not None:
            self._write_json(session)

    def _rebuild(self) -> None:
        """Rebuild measurements and judgements from what the reports carried."""
        if not any(self._sent.values()):
            return
        from pytest_genderbias.gates.judgement import SettledJudgement
        from pytest_genderbias.measurement.measurement import Measurement

        self._measurements = [Measurement.from_dict(data) for data in self._sent["measurements"].values()]
        self._judgements = [SettledJudgement.from_dict(data) for data in self._sent["judgements"].values()]

    def _compare(self) -> None:
        from pytest_genderbias.gates.comparison import compare_models

        order = [spec.name for spec in self._settings.models]
        self._comparisons, self._not_compared = compare_models(self._measurements, order)

    def _unused(self, session: pytest.Session) -> dict[Path, set[str]]:
        """Return stored entries that no test asked for, where all tests that could have asked did run."""
        option = self._config.option
        narrowed = self._partial or any("::" in str(arg) for arg in self._config.args)
        narrowed = (
            narrowed
            or any(getattr(option, name, False) for name in ("lf", "stepwise", "collectonly"))
            or bool(session.shouldstop)
        )
        if narrowed:
            return {}
        found: dict[Path, set[str]] = {}
        self._whole = {book for book, count in self._collected.items() if 0 < count == self._settled[book]}
        for spec in self._settings.models:
            for path in sorted((self._settings.baseline / spec.name).glob("*.json")):
                module, names = _module_and_names(path)
                book = (spec.name, module)
                gone = module != "packaged" and not (self._config.rootpath / module).exists()
                if module == "packaged" and not self._settings.selection.includes_all:
                    continue
                left = names - self._used.get(book, set())
                if left and (gone or book in self._whole):
                    found[path] = left
        return found

    def _write_baselines(self, session: pytest.Session, unused: dict[Path, set[str]], whole: bool) -> None:
        from pytest_genderbias.gates.book import (
            BaselineEntry,
            NewEntry,
            book_path,
            read_book,
            to_write,
            write_entries,
        )

        if not whole:
            self._say("the run was cut short: no baseline was written", "yellow")
            return
        remove = unused if self._settings.update == "all" else {}
        books = {
            book_path(self._settings.baseline, model, module): (model, module)
            for model, module in self._entries
            if model
        }
        for path in remove:
            books.setdefault(path, (path.parent.name, _module_and_names(path)[0]))
        for path, (model, module) in sorted(books.items()):
            try:
                stored = read_book(path)
                chosen = {}
                for name, one in self._agreed(session, (model, module), stored).items():
                    items = None if one["items"] is None else base64.b64decode(one["items"])
                    new = NewEntry(BaselineEntry.from_dict(one["content"]), items)
                    entry = to_write(path, name, new, stored.get(name))
                    if entry is not None:
                        chosen[name] = entry
                gone = frozenset(remove.get(path, set()))
                if chosen or gone:
                    write_entries(self._settings.baseline, model, module, chosen, gone)
                    self._list_changes(path, stored, {name: new.entry for name, new in chosen.items()}, gone)
            except BiasError as error:
                self._fail(session, str(error))

    def _agreed(
        self, session: pytest.Session, book: Book, stored: dict[str, BaselineEntry]
    ) -> dict[str, dict[str, Any]]:
        """Return the entries on which all tests agree: none refused a worse value, and all measured the same thing.

        Nor may one hold a worse value of a statistic whose own gate did not run, unless there is a reason.
        """
        found, refused = {}, self._refused.get(book, set())
        for name, several in self._entries.get(book, {}).items():
            one = _merged(several)
            if one is None:
                claim = (
                    f"two measurements of {book[1]} claim the baseline entry {name!r}; give one of them another name"
                )
                self._fail(session, claim)
            elif name in refused:
                self._say(f"not written: {name} of {book[1]}: another test refused a worse value of it", "yellow")
            elif self._settings.update == "all" or name not in stored:
                before = {} if book in self._whole or name not in stored else stored[name].gated
                entry, unseen = _with_gates(one, several, before)
                if unseen:
                    self._fail(session, f"not written: {name} of {book[1]}: {'; '.join(map(_unseen, unseen))}")
                else:
                    found[name] = entry
        return found

    def _list_changes(
        self, path: Path, stored: dict[str, BaselineEntry], chosen: dict[str, BaselineEntry], gone: frozenset[str]
    ) -> None:
        self._say(f"baseline written: {path}", "green")
        for name, entry in sorted(chosen.items()):
            old = stored[name].values if name in stored else {}
            for key, value in entry.values.items():
                was = "new" if key not in old else f"was {_number(old[key])}"
                if key not in old or _number(old[key]) != _number(value):
                    self._say(f"  {name}.{key}: {_number(value)} ({was})")
        for name in sorted(gone):
            self._say(f"  {name}: removed, no longer measured")

    def _write_json(self, session: pytest.Session) -> None:
        from pytest_genderbias.reports.json_report import write_json

        assert self._settings.json is not None
        try:
            write_json(
                self._settings.json, self._measurements, self._judgements, int(session.exitstatus), self._comparisons,
                self._not_compared,
            )  # fmt: skip
        except OSError as error:
            self._fail(session, f"--bias-json: {self._settings.json} cannot be written: {error.strerror or error}")

    def _accepted(self) -> list[str]:
        """Return the worse values that somebody accepted, and why, as long as they stand."""
        return list(
            dict.fromkeys(
                f"accepted on {note.date}: {judgement.suite}.{note.statistic} on {judgement.model} {_number(note.old)} -> "
                f"{_number(note.new)}: {note.reason}"
                for judgement in (settled.judgement for settled in self._judgements)
                for note in judgement.accepted
            )
        )

    def _fail(self, session: pytest.Session, text: str) -> None:
        self._say(text, "red")
        if session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _say(self, text: str, markup: str = "") -> None:
        self._lines.append((text, markup))

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print the table, then what was written or is wrong with baselines."""
        if not self._measurements and not self._judgements and not self._lines and not self._skipped:
            return
        from pytest_genderbias.reports.reduction import make_reduction_table
        from pytest_genderbias.reports.table import make_table

        terminalreporter.section("bias", sep="=")
        judgements = [settled.judgement for settled in self._judgements]
        table = make_table(self._measurements, judgements)
        if table:
            _write(terminalreporter, table)
        if reductions := make_reduction_table(judgements):
            _write(terminalreporter, f"\n{reductions}" if table else reductions)
        if self._settings.compare:
            self._print_comparisons(terminalreporter)
        for note in dict.fromkeys(
            f"{measurement.suite} on {measurement.model}: {note}"
            for measurement in self._measurements
            for note in measurement.notes
        ):
            _write(terminalreporter, f"note: {note}")
        for (model, reason), suites in self._skipped.items():
            where = f" on {model}" if model else ""
            _write(terminalreporter, f"skipped{where}: {', '.join(suites)}: {reason}")
        for settled in self._judgements:
            if settled.outcome == WARNED:
                _write(terminalreporter, settled.judgement.text.splitlines()[0], yellow=True)
        for line in self._accepted():
            _write(terminalreporter, line, yellow=True)
        for line, markup in self._lines:
            _write(terminalreporter, line, **({markup: True} if markup else {}))

    def _print_comparisons(self, terminalreporter: TerminalReporter) -> None:
        from pytest_genderbias.reports.comparison import comparison_notes, make_comparison_table

        table = make_comparison_table(self._comparisons)
        _write(terminalreporter, "")
        _write(terminalreporter, table or "--bias-compare: no suite was measured on two models")
        for line in comparison_notes(self._comparisons, self._not_compared):
            _write(terminalreporter, line)


def _write(terminalreporter: TerminalReporter, text: str, **markup: bool) -> None:
    """Print what may hold texts of files and flags: lines as they are, and no character that a terminal obeys."""
    terminalreporter.write_line(printable(text, keep="\n"), **markup)


def _merged(several: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return an entry that tests accepted, each a statistic of it, with all their reasons; ``None`` if they measured different things."""
    from pytest_genderbias.gates.agreement import MUST_AGREE

    last = several[-1]
    if any(one["content"][key] != last["content"][key] for one in several for key in MUST_AGREE):
        return None
    notes = {json.dumps(note, sort_keys=True): note for one in several for note in one["content"].get("accepted", ())}
    accepted = sorted(notes.values(), key=_by_date)
    return {**last, "content": {**last["content"], **({"accepted": accepted} if accepted else {})}}


def _with_gates(
    one: dict[str, Any], several: list[dict[str, Any]], before: Mapping[str, float]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return an entry with the tolerances of all its gates, and notes on worse values of gates that did not run and have no reason.

    Which gates there are a file says; of tests in Python those are known that ran, and from ``before`` those that did not.
    """
    judged: dict[str, float] = {}
    for other in several:
        for statistic, tolerance in other["content"].get("gated", {}).items():
            judged[statistic] = min(tolerance, judged.get(statistic, tolerance))
    others = before if one["gates"] is None else one["gates"]
    notes = {key: note for other in several for key, note in other["overlooked"].items()}
    worse = [note for key, note in sorted(notes.items()) if key not in judged and key in others]
    content = {**one["content"], "gated": {**others, **judged}}
    if worse and worse[0]["reason"]:
        content["accepted"] = sorted([*content.get("accepted", ()), *worse], key=_by_date)
    return {**one, "content": content}, [note for note in worse if not note["reason"]]


def _by_date(note: dict[str, Any]) -> tuple[str, str]:
    return note["date"], note["statistic"]


def _unseen(note: dict[str, Any]) -> str:
    return (
        f"{note['statistic']} {_number(note['old'])} -> {_number(note['new'])} is worse, and its gate did not run; run all gates of the "
        'entry, or accept it with --bias-update --bias-reason="why"'
    )


def _module_and_names(path: Path) -> tuple[str, set[str]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return str(data["module"]), set(data["entries"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", set()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
