"""Addresses, connections, redirects, compression and limits: what a crawl reaches, and what it refuses."""

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web as http

from tests.crawler.crawling import Crawls
from tests.crawler.web import CODINGS, HTML, Web, article

Make = Callable[..., Crawls]


async def test_every_address_is_tried_once_and_counted(web: Web, crawls: Make):
    web.pages |= {"/a": article("A"), "/b": article("B")}
    crawl = crawls()
    summary = await crawl(web.url("/a"), web.url("/b#part"), web.url("/b"), web.url("/a"), web.url("/none"))
    assert (summary.total, summary.successful, summary.duplicates) == (3, 2, 2)
    assert [(one.code, one.detail) for one in summary.failures] == [("status", "404")]
    assert (web.hits["/a"], web.hits["/b"]) == (1, 1)
    assert sorted(done for done, _, _ in crawl.outcomes) == [1, 2, 3]
    assert all("Toolyard" in agent for agent in web.agents)


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("file:///etc/passwd", "scheme"),
        ("ftp://a.example/x", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("data:text/html,hello", "scheme"),
        ("http://user:secret@a.example/", "credentials"),
        ("http://user@a.example/", "credentials"),
        ("http://", "address"),
        ("", "address"),
        ("http://a b.example/", "address"),
        ("http://a.example:99999/", "address"),
        ("http://[::1/", "address"),
        ("http://a.example/" + "x" * 9000, "address"),
        ("http://127.0.0.1:1/", "private"),
        ("http://127.1:1/", "address"),
        ("http://localhost:1/", "private"),
        ("http://169.254.169.254/latest/meta-data/", "private"),
        ("http://[::ffff:169.254.169.254]/", "private"),
        ("http://[::1]/", "private"),
        ("http://10.0.0.1/", "private"),
        ("http://0.0.0.0/", "private"),
        ("http://100.100.100.200/latest/meta-data/", "private"),
        ("http://no-such-host.invalid/", "unknown_host"),
    ],
)
async def test_addresses_that_are_refused_are_refused_by_name(crawls: Make, address: str, code: str):
    failure = await crawls(retries=0).failure(address)
    assert failure.code == code


async def test_refused_addresses_do_not_stop_the_others(web: Web, crawls: Make):
    web.pages["/a"] = article()
    summary = await crawls()("file:///etc/passwd", web.url("/a"), "http://169.254.169.254/")
    assert (summary.successful, len(summary.failures)) == (1, 2)


async def test_a_name_that_changes_its_address_after_the_check_gains_nothing(web: Web, crawls: Make):
    web.pages |= {"/a": article(), "/b": article()}
    answers = [["127.0.0.1"], ["10.1.2.3"]]
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers[min(len(asked), 2) - 1]

    crawl = crawls(allow=("127.0.0.1/32",), resolve=rebinding, robots=False)
    first = await crawl(web.url("/a", "rebind.example"))
    assert first.successful == 1
    assert asked == ["rebind.example"]  # one look at the name: what was checked is what was connected to
    # Another crawler, because a connection that is kept alive needs no name.
    again = crawls(allow=("127.0.0.1/32",), resolve=rebinding, robots=False)
    second = await again.failure(web.url("/b", "rebind.example"))
    assert (second.code, web.hits["/b"]) == ("private", 0)


async def test_a_name_with_one_private_address_is_refused_whole(web: Web, crawls: Make):
    async def mixed(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "192.168.1.1"]

    failure = await crawls(allow=("127.0.0.1/32",), resolve=mixed).failure(web.url("/", "mixed.example"))
    assert (failure.code, failure.detail) == ("private", "mixed.example")


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:1/",
        "http://[::1]:8080/",
        "//10.0.0.1/",
        "http://inner.test/",
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_a_private_address_is_refused(web: Web, crawls: Make, target: str, status: int):
    async def resolve(host: str, port: int) -> list[str]:
        return ["192.168.7.7"] if host == "inner.test" else await web.resolve(host, port)

    failure = await crawls(resolve=resolve).failure(web.url(f"/to?status={status}&url={target}"))
    assert failure.code == "private"


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("file:///etc/passwd", "scheme"),
        ("http://u:p@a.example/", "credentials"),
        ("http://a_b:xx/", "address"),
    ],
)
async def test_a_redirect_is_checked_like_an_address(web: Web, crawls: Make, target: str, code: str):
    assert (await crawls().failure(web.url(f"/to?url={target}"))).code == code


async def test_redirects_lead_to_the_page(web: Web, crawls: Make):
    web.pages["/end"] = article("The end")
    web.pages["/refresh"] = '<html><head><meta http-equiv="refresh" content="0; url=/end"></head></html>'
    page = await crawls().page(web.url("/to?url=/to?url=/refresh"))
    assert (page.title, page.final_url) == ("The end", web.url("/end"))


async def test_redirects_without_an_end_are_given_up(web: Web, crawls: Make):
    crawl = crawls(redirects=5)
    loop, many = await crawl.failure(web.url("/loop/a")), await crawl.failure(web.url("/count/0"))
    assert (loop.code, many.code, many.detail) == ("redirect_loop", "too_many_redirects", "5")
    assert sum(web.hits[f"/count/{n}"] for n in range(20)) == 6


async def test_a_redirect_that_only_sets_a_cookie_is_no_loop_and_the_cookie_stays_with_its_page(
    web: Web, crawls: Make
):
    seen: list[str] = []

    async def guarded(_: Web, request: http.Request) -> http.StreamResponse:
        seen.append(request.headers.get("Cookie", ""))
        if "door=open" in request.headers.get("Cookie", ""):
            return http.Response(text=article("Inside"), content_type="text/html")
        return http.Response(
            status=302, headers={"Location": request.path, "Set-Cookie": "door=open; Path=/"}
        )

    web.pages |= {"/one": guarded, "/two": guarded}
    crawl = crawls()
    assert (await crawl.page(web.url("/one"))).title == "Inside"
    assert (await crawl.page(web.url("/two"))).title == "Inside"
    assert seen == ["", "door=open", "", "door=open"]


@pytest.mark.parametrize("name", CODINGS)
async def test_compressed_bodies_are_read(web: Web, crawls: Make, name: str):
    page = await crawls().page(web.url(f"/compressed/{name}"))
    assert page.title == "Compressed"
    assert page.word_count > 150


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd", "gzip-in-br"])
async def test_a_small_body_that_becomes_huge_is_stopped(web: Web, crawls: Make, name: str):
    failure = await crawls(max_bytes=1_000_000).failure(web.url(f"/bomb/{name}"))
    assert (failure.code, failure.detail) == ("too_large", "1000000")


@pytest.mark.parametrize(("coding", "code"), [("gzip", "compression"), ("br", "compression"), ("zstd", "compression"), ("rot13", "compression"), ("gzip, " * 9 + "gzip", "compression")])  # fmt: skip
async def test_broken_and_unknown_compression_is_named(web: Web, crawls: Make, coding: str, code: str):
    web.pages["/x"] = http.Response(
        body=b"not compressed", headers={"Content-Type": HTML, "Content-Encoding": coding}
    )
    assert (await crawls().failure(web.url("/x"))).code == code


async def test_bodies_and_answers_without_an_end_are_ended(web: Web, crawls: Make):
    crawl = crawls(max_bytes=300_000, page_timeout=5.0)
    summary = await crawl(web.url("/endless"), web.url("/trickle"), web.url("/silent"))
    assert {one.url.rpartition("/")[2]: one.code for one in summary.failures} == {
        "endless": "too_large",
        "trickle": "timeout",
        "silent": "timeout",
    }


async def test_a_body_that_announces_too_much_is_not_read(web: Web, crawls: Make):
    web.pages["/big"] = b"<p>" + b"x" * 200_000
    assert (await crawls(max_bytes=100_000).failure(web.url("/big"))).code == "too_large"


async def test_the_whole_crawl_has_a_limit_of_time(web: Web, crawls: Make):
    summary = await crawls(timeout=1.0)(web.url("/silent"), web.url("/trickle"), batch_size=1)
    assert [(one.code, one.detail) for one in summary.failures] == [("out_of_time", "1")] * 2
    await web.until(lambda: not web.open_requests)


async def test_failures_that_may_pass_are_tried_again(web: Web, crawls: Make):
    async def weak(opened: Web, request: http.Request) -> http.StreamResponse:
        if opened.hits[request.path] < 3:
            return http.Response(status=503)
        return http.Response(text=article("At last"), content_type="text/html")

    async def dropped(opened: Web, request: http.Request) -> http.StreamResponse:
        if opened.hits[request.path] < 3:
            assert request.transport is not None
            request.transport.abort()
        return http.Response(text=article("At last"), content_type="text/html")

    web.pages |= {"/weak": weak, "/dropped": dropped, "/dead": http.Response(status=500)}
    summary = await crawls(retries=2)(
        web.url("/weak"), web.url("/dropped"), web.url("/dead"), web.url("/none")
    )
    assert summary.successful == 2
    assert {one.detail for one in summary.failures} == {"500", "404"}
    assert (web.hits["/weak"], web.hits["/dropped"], web.hits["/dead"], web.hits["/none"]) == (3, 3, 3, 1)


async def test_a_host_that_asks_for_a_pause_gets_it(web: Web, crawls: Make):
    clock = asyncio.get_running_loop().time
    times: list[float] = []

    async def busy(opened: Web, request: http.Request) -> http.StreamResponse:
        times.append(clock())
        if len(times) == 1:
            return http.Response(status=429, headers={"Retry-After": "1"})
        return http.Response(text=article("Now"), content_type="text/html")

    web.pages |= {"/busy": busy, "/closed": http.Response(status=429, headers={"Retry-After": "3600"})}
    crawl = crawls()
    assert (await crawl.page(web.url("/busy"))).title == "Now"
    assert times[1] - times[0] >= 0.95
    failure = await crawl.failure(web.url("/closed"))
    assert (failure.code, failure.detail, web.hits["/closed"]) == ("rate_limited", "3600", 1)


async def test_a_host_has_few_connections_and_waits_between_them(web: Web, crawls: Make):
    paths = [f"/p{n}" for n in range(12)]
    web.pages |= {path: article(path) for path in paths}
    web.slow = 0.05
    urls = [web.url(path, host) for host in ("one.example", "two.example") for path in paths]
    clock = asyncio.get_running_loop().time
    began = clock()
    summary = await crawls(per_host=3, delay=0.05, robots=False)(*urls)
    assert summary.successful == 24
    assert max(web.busiest.values()) <= 3
    assert clock() - began >= 11 * 0.05


async def test_cancelling_ends_requests_and_readers(web: Web, crawls: Make):
    crawl = crawls()
    running = asyncio.create_task(crawl(*(web.url(f"/silent?{n}") for n in range(5))))
    await web.until(lambda: web.hits["/silent"] == 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await crawl.close()
    await web.until(lambda: not web.open_requests)  # the web sees its readers leave


def _requested(web: Web, paths: list[str]) -> list[int]:
    return [web.hits[path] for path in paths]


async def test_batches_run_one_after_the_other_and_end_at_enough_pages(web: Web, crawls: Make):
    good = [f"/good{n}" for n in range(15)]
    web.pages |= {path: article(path) for path in good}
    paths = [path for n in range(15) for path in (good[n], f"/bad{n}")][:25]
    crawl = crawls()
    summary = await crawl(*(web.url(path) for path in paths), batch_size=10, stop_after=10)
    assert (summary.total, summary.successful, len(crawl.pages)) == (25, 10, 10)
    # The tenth good page is the nineteenth address: none after it can be needed.
    assert _requested(web, paths) == [1] * 19 + [0] * 6
    assert len(summary.failures) == 9
    assert summary.skipped == [web.url(path) for path in paths[19:]]


async def test_a_crawl_that_stops_at_ten_pages_requests_ten_if_all_are_good(web: Web, crawls: Make):
    paths = [f"/p{n}" for n in range(30)]
    web.pages |= {path: article(path) for path in paths}
    crawl = crawls()
    summary = await crawl(*(web.url(path) for path in paths), stop_after=10)
    assert _requested(web, paths) == [1] * 10 + [0] * 20
    assert (summary.successful, len(crawl.pages), len(summary.skipped), summary.failures) == (10, 10, 20, [])


async def test_a_second_batch_has_only_as_many_addresses_as_pages_are_missing(web: Web, crawls: Make):
    paths = [f"/p{n}" for n in range(30)]
    web.pages |= {path: article(path) for path in paths if path not in ("/p3", "/p7", "/p10")}
    summary = await crawls()(*(web.url(path) for path in paths), stop_after=10)
    assert _requested(web, paths) == [1] * 13 + [0] * 17
    assert [one.url for one in summary.failures] == [web.url(path) for path in ("/p3", "/p7", "/p10")]


async def test_a_stop_beyond_ten_pages_goes_on_in_batches_of_ten(web: Web, crawls: Make):
    paths = [f"/p{n}" for n in range(30)]
    may_end = asyncio.Event()

    async def slow(opened: Web, request: http.Request) -> http.StreamResponse:
        await may_end.wait()
        return http.Response(text=article("Slow"), content_type="text/html")

    web.pages |= {path: article(path) for path in paths} | {"/p9": slow}
    crawl = crawls()
    running = asyncio.create_task(crawl(*(web.url(path) for path in paths), stop_after=25))
    await web.until(lambda: len(crawl.outcomes) == 9 and web.hits["/p9"] == 1)
    assert _requested(web, paths[10:]) == [0] * 20
    may_end.set()
    assert (await running).successful == 25
    assert _requested(web, paths) == [1] * 25 + [0] * 5
