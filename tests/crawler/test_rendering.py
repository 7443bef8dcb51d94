"""Pages that scripts make, through the real Chromium behind the guarding proxy."""

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web as http

from tests.crawler.crawling import Crawls
from tests.crawler.prose import Prose
from tests.crawler.web import SHELL, Web, article, text_of_shell
from tests.programs import needs
from tests.servers.browser.talking import browsers, until_gone

Make = Callable[..., Crawls]


def _with_shell(web: Web) -> None:
    web.pages |= {
        "/app": SHELL,
        "/api/text": http.Response(body=text_of_shell(), headers={"Content-Type": "application/json"}),
    }


@needs("chromium")
async def test_a_page_made_by_scripts_is_read_after_they_ran(web: Web, crawls: Make):
    _with_shell(web)
    web.pages["/plain"] = article("Plain")
    crawl = crawls()
    summary = await crawl(web.url("/app"), web.url("/plain"))
    assert summary.failures == []
    page = crawl.pages[web.url("/app")]
    assert (page.title, page.rendered) == ("Made by a script", True)
    assert Prose("en", 3).paragraphs(4)[2] in page.markdown
    assert not crawl.pages[web.url("/plain")].rendered
    running = browsers()
    assert running
    await crawl.close()
    await until_gone(running)


@needs("chromium")
async def test_the_browser_too_reaches_only_what_is_allowed(web: Web, crawls: Make):
    async with Web().open() as inside:
        inside.pages["/secret"] = http.Response(
            text="the secret", headers={"Access-Control-Allow-Origin": "*"}
        )
        web.pages["/spy"] = SHELL.replace("/api/text", inside.url("/secret"))
        web.pages["/jump"] = f"""<html><body><div id="root"></div><script>
location.href = "{inside.url("/secret")}";</script></body></html>"""
        crawl = crawls(page_timeout=15.0)
        summary = await crawl(web.url("/spy"), web.url("/jump"))
        assert sum(inside.hits.values()) == 0
        failures = {one.url.rpartition("/")[2]: one.code for one in summary.failures}
        assert failures == {"spy": "javascript", "jump": "private"}
        assert not any("secret" in page.markdown for page in crawl.pages.values())


@needs("chromium")
async def test_a_name_that_is_private_for_the_browser_is_refused(web: Web, crawls: Make):
    _with_shell(web)
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        """Public for the first two looks, of robots.txt and the page, and private for the browser."""
        asked.append(host)
        return ["127.0.0.1"] if len(asked) <= 1 else ["192.168.7.7"]

    crawl = crawls(allow=("127.0.0.1/32",), resolve=rebinding, robots=False)
    failure = await crawl.failure(web.url("/app", "rebind.example"))
    assert (failure.code, failure.detail) == ("private", "rebind.example")


@needs("chromium")
async def test_scripts_without_an_end_are_ended(web: Web, crawls: Make):
    _with_shell(web)
    web.pages["/stuck"] = '<html><body><div id="root"></div><script>while (true) {}</script></body></html>'
    web.pages["/popups"] = """<html><body><div id="root"></div><script>
for (let n = 0; n < 20; n++) window.open("/app"); alert("hello"); confirm("sure?");</script></body></html>"""
    crawl = crawls(page_timeout=10.0)
    failure = await crawl.failure(web.url("/stuck"))
    assert failure.code == "timeout"
    await crawl(web.url("/popups"))
    assert (await crawl.page(web.url("/app"))).rendered


async def test_without_a_browser_the_error_says_that_scripts_are_needed(web: Web, crawls: Make):
    _with_shell(web)
    web.pages["/some"] = SHELL.replace(
        '<div id="root">', f"<p>{Prose('en', 1).paragraph(1)}</p><div id='root'>"
    )
    crawl = crawls(chromium="/nowhere/chromium", page_timeout=10.0)
    failure = await crawl.failure(web.url("/app"))
    assert failure.code == "javascript"
    assert (await crawls(render=False).failure(web.url("/app"))).code == "javascript"


@needs("chromium")
async def test_cancelling_closes_the_page_in_the_browser(web: Web, crawls: Make):
    web.pages["/wait"] = """<html><body><div id="root"></div><script src="/silent"></script>
<script>1</script></body></html>"""
    crawl = crawls()
    running = asyncio.create_task(crawl(web.url("/wait")))
    await web.until(lambda: web.hits["/silent"] > 0)
    started = browsers()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await web.until(lambda: not web.open_requests)
    await crawl.close()
    await until_gone(started)
