"""The page of ``--bias-report`` in a browser: by keyboard, on a phone, in the dark, for a screen reader, with many
gates.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.browser import chromium, violations, watch
from support.gated_reports import gated_report, judged, regressed
from support.hand_made import hand_made
from support.run_reports import WORST

from pytest_genderbias.gates.verdicts import Paragraph
from pytest_genderbias.reports.html_page import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDTHS = {"desktop": 1280, "phone": 360}
ROWS = "#gates-table tbody tr"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    judgements = [judged(name="limit", value=0.3), *(regressed(i, i / 100) for i in range(1, 4)), judged("better")]
    records = [{"item": f"item {i}", "score": i / 10, "slice": "all"} for i in range(20)]
    measured = hand_made(model="candidate", records=records, notes=("a note",), suite="tiny", signature=_SIGNATURE)
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(gated_report(judgements, [measured], failures=("unused entries",)), path)
    return path


_SIGNATURE = {**hand_made().signature, "definition": "nli/1"}


def shown(page: Page) -> list[str]:
    """Return the values of the gates that are shown, in their order."""
    return [row.locator("td").nth(2).inner_text().split("\n")[0] for row in page.locator(f"{ROWS}:visible").all()]


@pytest.mark.parametrize(("width", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_the_page_is_accessible_and_fits(browser: Browser, report: Path, width: str, scheme: str) -> None:
    page = browser.new_page(viewport={"width": WIDTHS[width], "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    troubles = watch(page)
    page.goto(report.as_uri())
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == WIDTHS[width]
    assert not violations(page)
    assert not troubles
    table = page.locator(ROWS).first.bounding_box()
    assert table is not None
    assert table["y"] < 800, "the first gate is on the first screen"
    page.close()


def test_tables_sort_and_filter_by_keyboard(browser: Browser, report: Path) -> None:
    page = browser.new_page()
    troubles = watch(page)
    page.goto(report.as_uri())
    assert shown(page) == ["0.26", "0.27", "0.28", "0.25", "0.3"]
    page.locator("#gates-table th", has_text="Value").get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert shown(page) == ["0.25", "0.26", "0.27", "0.28", "0.3"]
    assert page.locator("#gates-table th[aria-sort=ascending]").inner_text().startswith("Value")
    page.keyboard.press("Space")
    assert shown(page) == ["0.3", "0.28", "0.27", "0.26", "0.25"]
    page.get_by_role("searchbox", name="Filter: Verdicts of the gates").focus()
    page.keyboard.type("gate 2)")
    assert shown(page) == ["0.27"]
    assert page.locator("output").first.inner_text() == "1 of 5 shown"
    page.keyboard.press("Escape")
    assert len(shown(page)) == 5
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert shown(page) == ["0.28", "0.27", "0.26"]
    assert page.get_by_role("button", name="failed").get_attribute("aria-pressed") == "true"
    assert not troubles
    page.close()


def test_cards_on_a_phone_are_sorted_by_a_list(browser: Browser, report: Path) -> None:
    page = browser.new_page(viewport={"width": WIDTHS["phone"], "height": 800})
    page.goto(report.as_uri())
    order = page.get_by_label("Sort by")
    order.select_option("Value ↓")
    assert shown(page) == ["0.3", "0.28", "0.27", "0.26", "0.25"]
    order.select_option("Value ↑")
    assert shown(page) == ["0.25", "0.26", "0.27", "0.28", "0.3"]
    assert page.locator("#gates-table thead").is_hidden(), "no button takes the focus that cannot be seen"
    page.set_viewport_size({"width": WIDTHS["desktop"], "height": 800})
    assert order.is_hidden()
    page.close()


def test_links_lead_into_closed_details_and_paper_shows_all(browser: Browser, report: Path) -> None:
    page = browser.new_page()
    page.goto(report.as_uri())
    text = page.locator("#gate-1")
    assert not text.is_visible()
    page.locator('#gates-table a[href="#gate-1"]', has_text="pass").click()
    text.wait_for(state="visible")
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0
    page.close()


def test_texts_of_others_do_nothing_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    records = [{WORST: WORST, "score": 0.5}]
    measured = hand_made(suite=WORST, model=WORST, records=records, notes=(WORST,))
    judgements = [
        judged("regressed", "failed", suite=WORST, model=WORST, name=WORST, bound=WORST, shown=(Paragraph("", WORST),))
    ]
    path = tmp_path / "hostile.html"
    write_report(gated_report(judgements, [measured], failures=(WORST,)), path)
    page = browser.new_page(viewport={"width": 360, "height": 800})
    troubles = watch(page)
    page.on("dialog", lambda dialog: troubles.append(dialog.message))
    page.goto(path.as_uri())
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator("[onclick]").count() == 0
    assert not troubles
    page.close()


def test_a_thousand_gates_open_in_two_seconds(browser: Browser, tmp_path: Path) -> None:
    judgements = [regressed(i, i / 1000) if i % 3 else judged(name=f"gate {i}") for i in range(1000)]
    path = tmp_path / "many.html"
    write_report(gated_report(judgements), path)
    page = browser.new_page()
    assert any(seconds_to_open(page, path) < 2 for _ in range(4)), (
        "the fastest of four, on a machine that does other things too"
    )
    assert page.locator(ROWS).count() == 1000
    page.locator("#gates-table th", has_text="Change").get_by_role("button").click()
    assert "0.001 worse" in page.locator(ROWS).first.inner_text()
    page.close()


def seconds_to_open(page: Page, path: Path) -> float:
    """Open a report and return how long it takes until its first gate is shown."""
    start = time.perf_counter()
    page.goto(path.as_uri(), wait_until="load")
    page.locator(ROWS).first.wait_for()
    return time.perf_counter() - start
