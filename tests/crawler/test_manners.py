"""robots.txt, conditional requests and the cache: what a crawl asks a site, and how often."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web as http

from tests.crawler.crawling import Crawls
from tests.crawler.web import Web, article
from tests.waiting import PATIENCE
from toolyard.crawler.cache import ResponseCache
from toolyard.crawler.fetching import Response
from toolyard.crawler.robots import parse_robots

Make = Callable[..., Crawls]
ROBOTS = """User-agent: *
Disallow: /private/
Allow: /private/open$
Disallow: /*.secret

User-agent: Toolyard
Disallow: /ours/
Crawl-delay: 0.2
"""


async def test_robots_txt_is_obeyed_for_our_name(web: Web, crawls: Make):
    web.robots["a.example"] = ROBOTS
    web.pages |= {path: article(path) for path in ("/private/x", "/ours/x", "/free")}
    crawl = crawls()
    urls = [web.url(path, "a.example") for path in ("/private/x", "/ours/x", "/free")]
    summary = await crawl(*urls)
    # A group with our name counts instead of the one for everybody.
    assert [(one.url, one.code) for one in summary.failures] == [(urls[1], "robots")]
    assert (web.hits["/robots.txt"], web.hits["/ours/x"]) == (1, 0)


async def test_robots_txt_can_be_left_aside(web: Web, crawls: Make):
    web.robots["a.example"] = "User-agent: *\nDisallow: /"
    web.pages["/x"] = article()
    assert (await crawls().failure(web.url("/x", "a.example"))).code == "robots"
    assert (await crawls(robots=False).page(web.url("/x", "a.example"))).title == "A quiet page"


async def test_a_redirect_to_a_forbidden_page_is_forbidden(web: Web, crawls: Make):
    web.robots["b.example"] = "User-agent: *\nDisallow: /x"
    web.pages["/x"] = article()
    failure = await crawls().failure(web.url(f"/to?url={web.url('/x', 'b.example')}", "a.example"))
    assert (failure.code, web.hits["/x"]) == ("robots", 0)


async def test_a_site_whose_robots_txt_fails_is_left_alone(web: Web, crawls: Make):
    web.pages |= {"/x": article()}

    web.robots["127.0.0.1"] = "500"
    failure = await crawls(retries=0).failure(web.url("/x"))
    assert (failure.code, failure.detail, web.hits["/x"]) == ("robots_unreachable", "500", 0)


CASES = [
    # of RFC 9309 and of the files that sites have
    ("User-agent: *\nDisallow: /fish", "/fish.html", False),
    ("User-agent: *\nDisallow: /fish", "/Fish.html", True),
    ("User-agent: *\nDisallow: /*.php$", "/a.php", False),
    ("User-agent: *\nDisallow: /*.php$", "/a.php?x=1", True),
    ("User-agent: *\nDisallow: /\nAllow: /p", "/page", True),
    ("User-agent: *\nAllow: /p\nDisallow: /", "/page", True),
    ("User-agent: *\nAllow: /folder\nDisallow: /folder", "/folder/page", True),
    ("User-agent: *\nDisallow: /a%3cd.html", "/a%3Cd.html", False),
    ("User-agent: *\nDisallow: /caf\u00e9", "/caf%C3%A9", False),
    ("User-agent: *\nDisallow:", "/x", True),
    ("User-agent: other\nDisallow: /", "/x", True),
    ("User-agent: TOOLYARD\nDisallow: /x", "/x", False),
    ("User-agent: a\nUser-agent: toolyard\nDisallow: /x", "/x", False),
    ("User-agent: toolyard\nDisallow: /a\n\nUser-agent: toolyard\nDisallow: /b", "/b", False),
    ("User-agent: *\nDisallow: /x # a remark", "/x", False),
    ("\ufeffUser-agent: *\nDisallow: /x", "/x", False),
    ("<html>not found</html>", "/x", True),
]


@pytest.mark.parametrize(("text", "path", "allowed"), CASES)
def test_the_parser_of_robots_txt_reads_what_the_standard_says(text: str, path: str, allowed: bool):
    assert parse_robots(text.encode()).can_fetch(f"http://a.example{path}", "Toolyard") is allowed


async def test_a_page_that_is_the_same_is_not_sent_again(web: Web, crawls: Make):
    sent: list[int] = []

    async def tagged(opened: Web, request: http.Request) -> http.StreamResponse:
        if request.headers.get("If-None-Match") == '"v1"':
            sent.append(304)
            return http.Response(status=304, headers={"ETag": '"v1"'})
        sent.append(200)
        return http.Response(text=article("Tagged"), content_type="text/html", headers={"ETag": '"v1"'})

    web.pages["/tagged"] = tagged
    crawl = crawls()
    first, second = await crawl.page(web.url("/tagged")), await crawl.page(web.url("/tagged"))
    assert sent == [200, 304]
    assert (first.from_cache, second.from_cache) == (False, True)
    assert first.markdown == second.markdown
    await crawl.page(web.url("/tagged"), fresh=True)
    await crawl.page(web.url("/tagged"), owner="somebody else")
    assert sent == [200, 304, 200, 200]


async def test_dates_validate_too_and_fresh_pages_are_not_asked_for(web: Web, crawls: Make):
    asked: list[str | None] = []

    async def dated(opened: Web, request: http.Request) -> http.StreamResponse:
        asked.append(request.headers.get("If-Modified-Since"))
        if asked[-1]:
            return http.Response(status=304)
        headers = {"Last-Modified": "Tue, 03 Mar 2026 10:00:00 GMT"}
        return http.Response(text=article("Dated"), content_type="text/html", headers=headers)

    async def fresh(opened: Web, request: http.Request) -> http.StreamResponse:
        headers = {"Cache-Control": "max-age=600"}
        return http.Response(text=article("Fresh"), content_type="text/html", headers=headers)

    async def secret(opened: Web, request: http.Request) -> http.StreamResponse:
        headers = {"Cache-Control": "no-store, max-age=600", "ETag": "x"}
        return http.Response(text=article("Secret"), content_type="text/html", headers=headers)

    web.pages |= {"/dated": dated, "/fresh": fresh, "/secret": secret}
    crawl = crawls()
    for _ in range(2):
        summary = await crawl(*(web.url(path) for path in ("/dated", "/fresh", "/secret")))
        assert summary.successful == 3
    assert asked == [None, "Tue, 03 Mar 2026 10:00:00 GMT"]
    assert (web.hits["/fresh"], web.hits["/secret"]) == (1, 2)


def test_the_cache_is_bounded_too_when_many_write_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cache = ResponseCache(tmp_path, "ana", 100_000)

    def put(number: int) -> None:
        url = f"http://a.example/{number}"
        cache.put(Response(url, 200, {"cache-control": "max-age=600"}, os.urandom(20_000)))

    put(0)
    together, scandir = threading.Barrier(8, timeout=PATIENCE), os.scandir

    def at_the_same_moment(folder: Path) -> Any:
        with scandir(folder) as entries:
            found = list(entries)
        together.wait()
        return nullcontext(found)

    monkeypatch.setattr(os, "scandir", at_the_same_moment)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(1, 9)))
    monkeypatch.undo()
    sizes = [path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()]
    assert 0 < sum(sizes) <= 100_000


async def test_the_cache_is_bounded_private_and_survives_broken_files(web: Web, crawls: Make, tmp_path: Path):
    async def fresh(opened: Web, request: http.Request) -> http.StreamResponse:
        text = "".join(f"<p>{n} {request.path} {hash((n, request.path))}</p>" for n in range(2000))
        return http.Response(text=text, content_type="text/html", headers={"Cache-Control": "max-age=600"})

    web.pages |= {f"/p{n}": fresh for n in range(12)}
    crawl = crawls(cache_bytes=200_000)
    await crawl(*(web.url(f"/p{n}") for n in range(12)), owner="ana")
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert files
    assert sum(path.stat().st_size for path in files) <= 200_000
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    for path in files:
        path.write_bytes(b"broken")
    assert (await crawl(*(web.url(f"/p{n}") for n in range(12)), owner="ana")).successful == 12
