"""The page of ``--bias-report`` as text: what it says, and that nothing in it comes from outside."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from support.gated_reports import RUN, gated_report, judged, regressed
from support.hand_made import hand_made

from pytest_genderbias.gates.judgement import AcceptedValue, Comparison
from pytest_genderbias.gates.verdicts import FinishedTest, NotJudged, Paragraph
from pytest_genderbias.measurement.variance import ValueVariance
from pytest_genderbias.reports.html_page import render_report
from pytest_genderbias.reports.picture import Axis, Panel, Picture, Series
from pytest_genderbias.reports.run_report import ReportedModel, RunReport
from pytest_genderbias.statistics.inference.intervals import Interval, Null
from pytest_genderbias.suites.statistic import Statistic

#: Markup in every place where a browser would obey it, escape codes, bidirectional controls, 100,000 characters.
HOSTILE = (
    "</script></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'` {{ 7*7 }} {% raw %}"
    " \x1b[31m\x9b\u202e\u2066 \ud800"
)
LONG = HOSTILE + "x" * 100_000
VOID = {"meta", "link", "input", "br"}


class Reader(HTMLParser):
    """Reads a page: its texts, elements and attributes, and that every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and self.open[-1] not in ("style", "script"):
            self.texts.append(data.strip())


def texts_of(report: RunReport) -> str:
    return "\n".join(Reader(render_report(report)).texts)


@pytest.mark.parametrize(
    ("judgements", "failures", "headline"),
    [
        ((regressed(), judged()), (), "1 of 2 gates failed"),
        ((judged(), judged()), (), "All 2 gates passed"),
        ((judged(),), (), "The gate passed"),
        ((judged("better"), judged()), (), "All 2 gates passed"),
        ((judged("regressed", "xfail"), judged()), (), "1 of 2 gates passed, 1 failed as expected"),
        ((judged(),), ("unused baseline entries: a",), "1 failure beside the tests"),
        ((), (), "1 measured, 0 gated: nothing here can fail yet"),
    ],
)
def test_the_headline_is_the_result_of_the_run(judgements: tuple, failures: tuple, headline: str) -> None:  # type: ignore[type-arg]
    report = gated_report(judgements, failures=failures)
    texts = texts_of(replace(report, run=replace(RUN, exit_status=0)))
    assert f"\n{headline}\n" in texts
    assert all(reason in texts for reason in failures)


def test_the_first_table_has_every_gate_with_its_figures_and_those_that_failed_first() -> None:
    accepted = AcceptedValue("share", "2026-09-01", 0.2, 0.25, "another corpus")
    failing = replace(regressed(), accepted=(accepted,))
    page = render_report(gated_report([judged(), failing]))
    table = page[page.index('id="gates-table"') : page.index("</table>")]
    rows = [Reader(row + "</tr>").texts for row in table.split("<tbody>")[1].split("</tr>")[:-1]]
    assert [row[3] for row in rows] == ["✕ worse", "✓ pass"]
    assert rows[0] == [
        "tiny (gate 1)", "share", "a share", "✕ worse", "candidate", "0.38", "baseline 0.25 + 0.01", "0.13 worse",
        "0.12 to 0.14", "higher", "neutral is 0", "baseline of 2026-10-22", "since 2026-08-01: 0.2 → 0.38, 0.18 worse",
        "accepted on 2026-09-01: another corpus",
    ]  # fmt: skip
    assert rows[1][4:] == ["candidate", "0.25", "0.2 to 0.3", "at most 0.4", "higher", "neutral is 0"]


def test_a_test_that_failed_without_a_verdict_counts_as_a_gate() -> None:
    broken = FinishedTest(
        "g.bias.yaml::x:candidate", "candidate", outcome="failed", text="not judged: x needs a masked LM"
    )
    page = render_report(gated_report([judged()], tests=(broken,)))
    texts = Reader(page).texts
    assert "1 test failed without a verdict" in texts
    assert texts.index("✕ no verdict") < texts.index("✓ pass")
    assert texts.count("not judged: x needs a masked LM") == 2
    assert "Not run, and why" not in texts
    assert "Nothing was measured" in texts_of(RunReport(replace(RUN, exit_status=5)))
    assert "None of 1 gate failed, but another test of the run failed" in texts_of(gated_report([judged()]))


def test_a_failure_says_what_moved_and_what_to_type() -> None:
    shown = (
        Paragraph("", "worse: tiny on candidate: share 0.25 -> 0.38: 0.13 worse, allowed 0.01"),
        Paragraph("moved", "all 12 items; most: nurse 0.2 -> 0.9"),
        Paragraph("do", "mend the model, or accept:"),
        Paragraph("", "pytest --bias-update --bias-reason='why'", is_command=True),
    )
    failing = replace(regressed(), shown=shown)
    texts = Reader(render_report(gated_report([failing]))).texts
    at = texts.index("share 0.25 -> 0.38: 0.13 worse, allowed 0.01")
    assert texts[at + 1 : at + 6] == ["moved", shown[1].text, "do", shown[2].text, shown[3].text]


def test_pictures_stand_in_the_section_of_their_suite() -> None:
    panel = Panel(Axis("score", neutral=0.0), Axis(words=("nurse",)), (Series("", "bars", x=(0.4,), y=(0.0,)),))
    own = Picture(
        "signed bars", "tiny", "candidate", "share", "<b>Bars</b>", "nurse is at 0.4", "right is worse", (panel,)
    )
    other = replace(own, kind="models", suite="", title="Two models", alt="they are alike")
    page = render_report(gated_report([judged()], pictures=(own, own, other)))
    elements = Reader(page).elements
    assert sum(tag == "figure" for tag, _ in elements) == 3
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert page.index("Two models") < page.index('<section class="suite"') < page.index("nurse is at 0.4")
    assert "&lt;b&gt;Bars&lt;/b&gt;" in page
    assert "<b>Bars" not in page
    assert "var(--figure-first" in page
    assert "--figure-first: #7cc0f8" in page, "its colour in the dark"


def test_the_page_says_what_ran_and_what_did_not() -> None:
    shuffled = hand_made(model="candidate", null={"share": Null("labels", 200, 0.1, 0.05, 0.15, 1 / 201)})
    missing = hand_made(suite="other", model="candidate", values={"share": None}, reasons={"share": "too few pairs"})
    missing = replace(missing, intervals={"share": None}, bounds={"share": None})
    report = gated_report(
        measurements=[shuffled, missing],
        comparisons=(Comparison("tiny", "share", True, "a", "b", 0.2, 0.1, -0.1),),
        variances=(ValueVariance("tiny", "candidate", "share", reason="no templates"),),
        not_judged=(NotJudged("bios:candidate", "candidate", "inapplicable", "bios needs a text classifier"),),
    )
    texts = texts_of(report)
    for words in (
        "pytest release.bias.yaml '--bias-model=candidate=./november run'",
        "2026-11-22 10:20 UTC+01:00",
        "0123456789ab",
        "0.05 to 0.15",
        "beyond chance: <= 0.5 % of shuffles are as bad",
        "no value",
        "too few pairs",
        "Models against each other",
        "no shares of variance: tiny on candidate: no templates",
        "bios needs a text classifier",
        "python 3.11.7, torch 2.13.0",
    ):
        assert words in texts, words
    assert "limit None" not in texts


def test_the_page_says_what_chance_gives_where_the_suite_has_its_own_test_of_it() -> None:
    about = Statistic("away", 0.0, "an effect size")
    values = {"effect_size": 1.6, "p_value": 0.0001}
    nothing = dict.fromkeys(values)
    words = hand_made(
        model="candidate", values=values, intervals=nothing, bounds=nothing, statistics=dict.fromkeys(values, about)
    )
    page = render_report(gated_report(measurements=[words]))
    assert re.search(
        r"p 0\.0001.{0,200}beyond chance: random splits of the words", re.sub(r"<[^>]*>", "", page), re.DOTALL
    )


def test_parallel_runs_give_the_same_page() -> None:
    judgements = [regressed(), judged(), judged(suite="of a mitigation"), judged(name="second")]
    measurements = [hand_made(suite=suite, model=model) for suite in ("tiny", "other") for model in ("b", "a")]
    pages = [render_report(gated_report(judgements[::step], measurements[::step])) for step in (1, -1)]
    one, other = (re.sub(r"gate-\d+", "gate", page) for page in pages)
    assert one == other


def test_a_stored_report_gives_the_same_page() -> None:
    panel = Panel(Axis("score", neutral=0.0), Axis(words=("nurse",)), (Series("", "bars", x=(0.4,), y=(0.0,)),))
    picture = Picture(
        "signed bars", "tiny", "candidate", "share", "Bars", "nurse is at 0.4", "right is worse", (panel,)
    )
    report = gated_report(
        [regressed(), judged(interval=Interval(0.1, float("inf"), 0.95, "items", ""))], pictures=(picture,)
    )
    stored = RunReport.from_dict(json.loads(json.dumps(report.to_dict())))
    assert render_report(stored) == render_report(report)


def test_settings_tell_measurements_of_one_suite_apart() -> None:
    plain = hand_made(model="candidate")
    by_pair = replace(plain, signature={**plain.signature, "settings": {"seed": 0, "unit": "pair"}})
    smaller = replace(plain, n=5, values={"share": 0.777})
    texts = texts_of(gated_report(measurements=[smaller, plain, by_pair]))
    assert "candidate, unit=pair" in texts
    assert "0.777" not in texts, "of two samples the larger is shown"


def test_a_packaged_suite_and_a_suite_of_its_family_are_explained() -> None:
    own = hand_made(suite="ours", model="candidate")
    own = replace(own, signature={**own.signature, "definition": "nli/1"})
    texts = texts_of(gated_report(measurements=[own]))
    assert "It does not mean" in texts
    assert "Definition, criticism and source" in texts
    assert "It does not mean" not in texts_of(gated_report())


def test_texts_of_others_are_escaped_cut_and_made_printable() -> None:
    records = [{LONG: LONG, "score": 0.5, "slice": LONG}]
    measurement = hand_made(suite=LONG, model=LONG, records=records, notes=(LONG,), reasons={"share": LONG})
    measurement = replace(measurement, intervals={"share": None})
    failing = judged(
        "regressed",
        "failed",
        suite=LONG,
        model=LONG,
        name=LONG,
        bound=LONG,
        shown=(Paragraph("", LONG),),
        details=(Paragraph(LONG, LONG),),
    )
    run = replace(RUN, arguments=(LONG,), models=(ReportedModel(LONG, LONG),), commit=LONG, versions={LONG: LONG})
    panel = Panel(Axis(LONG, (LONG,)), Axis(LONG, (LONG,)), (Series(LONG, "bars", x=(0.4,), y=(0.0,), labels=(LONG,)),))
    report = gated_report(
        [failing],
        [measurement],
        pictures=(Picture("signed bars", LONG, LONG, LONG, LONG, LONG, LONG, (panel,)),),
        tests=(FinishedTest(LONG, LONG, outcome="failed", text=LONG),),
        failures=(LONG,),
        not_judged=(NotJudged(LONG, LONG, "inapplicable", LONG),),
        variances=(ValueVariance(LONG, LONG, LONG, reason=LONG),),
        comparisons=(Comparison(LONG, LONG, True, LONG, LONG, 0.2, 0.1, -0.1),),
    )
    page = render_report(replace(report, run=run))
    page.encode()
    assert len(page) < 2**20
    assert {c for c in set(page) if not c.isprintable()} <= {"\n"}
    read = Reader(page)
    assert [tag for tag, _ in read.elements].count("script") == 1
    assert not any(tag in ("img", "iframe", "object") for tag, _ in read.elements)
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)
    assert "</script></style><script>alert(1)" in "".join(read.texts)
    assert "{{ 7*7 }}" in "".join(read.texts)


def test_nothing_is_loaded_and_only_the_script_of_the_page_runs() -> None:
    page = render_report(gated_report([regressed(), judged(), judged(suite="of a mitigation")]))
    elements = Reader(page).elements
    (policy,) = [a["content"] for tag, a in elements if a.get("http-equiv") == "Content-Security-Policy"]
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    assert policy is not None
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    links = [a[name] or "" for _, a in elements for name in ("src", "href", "action") if name in a]
    assert links
    assert all(link.startswith(("#", "data:,")) for link in links)
    ids = [a["id"] for _, a in elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if len(link) > 1 and link[0] == "#"} <= set(ids)
