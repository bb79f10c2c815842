"""Debian's chromium without a window, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser, or skip where it or playwright is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def watch(page: Page) -> list[str]:
    """Return the list that errors of the page and requests to a network will be put into."""
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "request",
        lambda request: troubles.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
    )
    return troubles


def violations(page: Page, impacts: Collection[str] = ("critical", "serious", "moderate", "minor")) -> list[str]:
    """Return what axe-core finds in a page, one line a rule and element."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['impact']}: {one['id']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in impacts
        for node in one["nodes"]
    ]
