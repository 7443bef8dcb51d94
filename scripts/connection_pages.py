"""Makes pictures of the pages that connect a server: `python scripts/connection_pages.py FOLDER`.

Each page, wide and narrow, in both languages, light and dark, opened in Chromium under its own policy; fails
if something is cut off or was refused. `--docs` makes those of docs/guides/connections.md instead.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from playwright.sync_api import Browser, Page, Route, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.connections.person import FLAGS  # noqa: E402
from toolyard.chromium import find_on_path  # noqa: E402
from toolyard.connections.pages import KeyForm, Language, PageKind, page, policy  # noqa: E402

IMAGES = ROOT / "docs" / "images"
ADDRESS = "http://gateway.example/oauth/connect/page"
WIDTHS = {"wide": 1280, "narrow": 375}
Scheme = Literal["light", "dark"]
DETAILS = {"user": "ana@example.com", "host": "mcp.linear.app", "scopes": "read write issues:create"}
LONG = {"user": "a" * 80, "host": "a-host-that-goes-on.example." * 4, "scopes": "scope:" * 60}
DOCUMENTED: dict[str, PageKind] = {"connect-page": "confirm", "key-page": "key"}


def shown(page_: Page, body: bytes) -> None:
    said: list[str] = []
    page_.on("console", lambda message: said.append(message.text))

    def answer(route: Route) -> None:
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy("'self'")}
        if route.request.url == ADDRESS:
            route.fulfill(body=body, headers=headers)
        else:  # its icon
            route.fulfill(status=404)

    page_.route("**/*", answer)
    page_.goto(ADDRESS)
    overflow = page_.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if overflow > 0 or any("Content Security Policy" in text for text in said):
        sys.exit(f"error: {overflow} pixels too wide, or refused: {said}")


def bodies(language: Language) -> Iterator[tuple[str, bytes]]:
    for kind in get_args(PageKind):
        details = DETAILS if kind in ("confirm", "key") else None
        form = KeyForm("token", help="https://linear.app/settings/api") if kind == "key" else None
        yield kind, page(kind, language, "linear", details, form)
    yield "key-refused", page("key", language, "linear", DETAILS, KeyForm("token", problem="refused", left=2))
    yield "long", page("confirm", language, "a-name-without-an-end-" * 6, LONG)


def every(browser: Browser, folder: Path) -> int:
    count = 0
    for width_name, width in WIDTHS.items():
        for scheme in get_args(Scheme):
            for language in get_args(Language):
                for kind, body in bodies(language):
                    page_ = browser.new_page(viewport={"width": width, "height": 720}, color_scheme=scheme)
                    shown(page_, body)
                    page_.screenshot(path=folder / f"{kind}-{width_name}-{scheme}-{language}.png")
                    page_.close()
                    count += 1
    return count


def documented(browser: Browser) -> None:
    for name, kind in DOCUMENTED.items():
        page_ = browser.new_page(viewport={"width": 620, "height": 560}, color_scheme="light")
        form = KeyForm("token", help="https://linear.app/settings/api") if kind == "key" else None
        details = {"user": DETAILS["user"], "place": DETAILS["host"]} if form else DETAILS
        shown(page_, page(kind, "en", "linear", details, form))
        page_.screenshot(path=IMAGES / f"{name}.png", full_page=True)
        print(f"docs/images/{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="where to put the pictures")
    parser.add_argument("--docs", action="store_true", help="make the pictures of the documentation")
    given = parser.parse_args()
    if (given.folder is None) == (not given.docs):
        parser.error("give a folder, or --docs")
    with sync_playwright() as drivers:
        browser = drivers.chromium.launch(executable_path=find_on_path(), args=FLAGS)
        if given.docs:
            documented(browser)
        else:
            given.folder.mkdir(parents=True, exist_ok=True)
            print(f"{every(browser, given.folder)} pictures in {given.folder}")
        browser.close()


if __name__ == "__main__":
    main()
