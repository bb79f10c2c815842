"""``genderbias list``: the suites that fit a model and the data, one line each, and why the others do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.command_lines import SHOWS
from support.small_projects import MODELS, model

from pytest_genderbias.suites.suite import suite_names
from pytest_genderbias.text import packaged


@pytest.fixture
def listing(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with a test that may not run, and an object as the model, so that no checkpoint is read."""
    pytester.makepyfile(test_nothing="def test_nothing(): assert False")
    pytester.makepyfile(objects_to_list=MODELS)
    pytester.syspathinsert()
    pytester.models = "objects_to_list"  # type: ignore[attr-defined]
    monkeypatch.setenv("COLUMNS", "80")
    return pytester


def listed(lines: list[str]) -> dict[str, str]:
    """Return the lines of suites that fit, by the suite."""
    start = lines.index(next(line for line in lines if line.startswith("  suite ")))
    end = next((i for i, line in enumerate(lines) if line.startswith("need ")), len(lines))
    return {line.split()[0]: line for line in lines[start + 1 : end] if line.startswith("  ")}


def test_suites_that_fit_have_one_line_each_and_nothing_runs(listing: pytest.Pytester) -> None:
    result = listing.runpytest(*SHOWS, "--bias-list", model(listing, "good"))
    assert result.ret == 0
    lines = result.outlines
    assert f"m is an NLI classifier: 3 of {len(suite_names())} suites fit" in lines
    suites = listed(lines)
    assert list(suites) == ["nli-occupation", "nli-demonym", "nli-religion"]
    at = [lines.index(title) for title in ("begin with these, as genderbias init does:", "others:")]
    assert at[0] < lines.index(suites["nli-occupation"]) < at[1] < lines.index(suites["nli-demonym"])
    assert "1,936,512" in suites["nli-occupation"]
    assert all(len(line) <= 80 for line in lines)
    result.stdout.no_fnmatch_line("*test session starts*")


def test_every_other_suite_is_named_once_with_the_reason(listing: pytest.Pytester) -> None:
    text = listing.runpytest(*SHOWS, "--bias-list", model(listing, "good")).stdout.str()
    for name in suite_names():
        assert len(re.findall(rf"(?<![\w-]){name}(?![\w-])", text)) >= 1, name
    assert "disco-names, disco-terms: a masked LM" in text


def test_missing_data_are_named_and_found_once_they_are_there(listing: pytest.Pytester) -> None:
    writer = model(listing, "writer")
    text = " ".join(listing.runpytest(*SHOWS, "--bias-list", writer).stdout.str().split())
    assert "need data (--bias-data=DIR" in text
    assert "pairs-pll: no CrowS-Pairs: expected crows_pairs/crows_pairs_anonymized.csv" in text
    folder = listing.mkdir("data") / "crows_pairs"
    folder.mkdir()
    rows = [",sent_more,sent_less,stereo_antistereo,bias_type,annotations,anon_writer,anon_annotators"]
    rows += [f"{n},She is {n} nurse.,He is {n} nurse.,stereo,gender,[],a,[]" for n in range(3)]
    (folder / "crows_pairs_anonymized.csv").write_text("\n".join(rows) + "\n")
    result = listing.runpytest(*SHOWS, "--bias-list", writer, "--bias-data=data")
    assert listed(result.outlines)["pairs-pll"].split()[1] == "6"


def test_options_and_suites_of_the_run_count(listing: pytest.Pytester) -> None:
    result = listing.runpytest(
        *SHOWS,
        "--bias-list",
        model(listing, "writer"),
        "--bias-suite=lm-occupation,nli-occupation",
        "--bias-option=lm-occupation:single_word_only=true",
        "--bias-option=nli-occupation:verbaliser=yes-maybe-no",
    )
    assert "m is a causal LM: 2 of 2 suites fit" in result.outlines
    assert listed(result.outlines)["lm-occupation"].split()[1] == "472"


def test_without_a_model_the_suites_are_listed_by_what_they_need(listing: pytest.Pytester) -> None:
    result = listing.runpytest(*SHOWS, "--bias-list")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["for a masked LM:", "  disco-names *DisCo, US first names"])
    names = {line.split()[0] for line in result.outlines if line.startswith("  ")}
    assert names >= set(suite_names())


def test_a_model_that_cannot_be_read_is_a_usage_error(listing: pytest.Pytester, tmp_path: Path) -> None:
    result = listing.runpytest(*SHOWS, "--bias-list", "--bias-model=objects_to_list:nothing_there")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert sum(bool(line) for line in result.errlines) == 1


def test_hostile_titles_reach_no_terminal(listing: pytest.Pytester) -> None:
    own = (packaged.folder("fixtures") / "lm-occupation.yaml").read_text(encoding="utf-8")
    own = own.replace("suite: lm-occupation", "suite: own")
    hostile = re.sub("(?m)^title: .*$", lambda _: r'title: "a \e[31m \u202e <b>' + "x" * 100_000 + '"', own)
    (listing.path / "own.yaml").write_text(hostile, encoding="utf-8")
    result = listing.runpytest(
        *SHOWS, "--bias-list", model(listing, "writer"), "--bias-suite=own.yaml", "--bias-show=own.yaml"
    )
    assert result.ret == 0
    text = result.stdout.str()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text) < 20_000
