"""Makes the picture of a trace's page: `python scripts/trace_picture.py` writes docs/images/trace.png.

Plays a run over a gateway with two servers, writes its page with `toolyard trace`, and opens it in Chromium.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "trace.png"
CHROMIUM = "/usr/bin/chromium"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        for command in ("tests.telemetry.played_run", "toolyard trace last --html trace.html"):
            subprocess.run([sys.executable, "-m", *command.split()], cwd=folder, env=env, check=True)
        with sync_playwright() as drivers:
            browser = drivers.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1180, "height": 1300}, color_scheme="light")
            page.goto((Path(folder) / "trace.html").as_uri())
            page.locator(".row", has_text="desk/refund").click()
            page.screenshot(path=PICTURE)
            browser.close()
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
