"""Make docs/report.png, the first screen of a report of a real run.

    python scripts/report_picture.py

Two releases of the demo models are measured: the packaged ones, whose values become baselines, and copies with more
bias (``tests/support/snippets.py``). Playwright and Debian's chromium draw the page of the second run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.browser import CHROMIUM  # noqa: E402 - the tests are no package
from support.snippets import prepare  # noqa: E402

MODELS = (
    "<!-- models: october/nli=demo-nli october/lm=demo-lm november/nli=demo-nli-worse november/lm=demo-lm-worse -->"
)
GATES = """\
gates:
  - {suite: lm-occupation, baseline: true, models: [writer]}
  - {suite: lm-occupation, statistic: signed_bias, within: 0.5, models: [writer], name: both ways}
  - {suite: nli-occupation, at_least: 0.8, models: [candidate]}
  - {suite: nli-religion, at_least: 0.8, models: [candidate]}
  - {suite: nli-demonym, at_least: 0.75, models: [candidate]}
"""


def run(folder: Path, release: str, *flags: str) -> None:
    """Run the gates on a release. Whether they pass is what the picture shows."""
    command = [sys.executable, "-m", "pytest", "-q", f"--bias-model=writer={release}/lm"]
    subprocess.run([*command, f"--bias-model=candidate={release}/nli", *flags], cwd=folder, check=False)


def main() -> None:
    """Measure both releases in a temporary folder, and draw the report of the second."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for release in ("october", "november"):
            (folder / release).mkdir()
        prepare(folder, MODELS)
        (folder / "release.bias.yaml").write_text(GATES, encoding="utf-8")
        run(folder, "october", "--bias-update-new")
        run(folder, "november", "--bias-report=report.html")
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1200, "height": 760})
            page.goto((folder / "report.html").as_uri())
            drawn = Image.open(BytesIO(page.screenshot())).quantize(64)  # a third of the bytes
            drawn.save(ROOT / "docs" / "report.png", optimize=True)
            browser.close()


if __name__ == "__main__":
    main()
