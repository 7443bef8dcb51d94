"""A web on loopback: several hundred pages with known text, and pages that are slow, broken or hostile.

Names under `.example` resolve to loopback by `Web.resolve`; no other name exists.
"""

import asyncio
import gzip
import json
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import brotli
from aiohttp import web
from backports import zstd

from tests.crawler.pages import KnownPage, known_pages
from tests.crawler.prose import Prose
from tests.waiting import PATIENCE

ENCODINGS = {
    "pt": "iso-8859-1",
    "de": "windows-1252",
    "fr": "iso-8859-15",
    "es": "iso-8859-1",
    "ru": "windows-1251",
    "el": "iso-8859-7",
    "zh": "gb2312",
    "ja": "shift_jis",
    "ko": "euc-kr",
    "ar": "windows-1256",
}
BOMB = 40 * 2**20
HTML = "text/html; charset=utf-8"


def article(title: str = "A quiet page", seed: int = 7, head: str = "") -> str:
    text = "".join(f"<p>{one}</p>" for one in Prose("en", seed).paragraphs(4))
    return f"<html lang=en><head><title>{title}</title>{head}</head><body><main><h1>{title}</h1>{text}</main></body></html>"


def pdf(*lines: str, title: str = "A paper") -> bytes:
    """A PDF of one page, written by hand."""
    shown = " ".join(f"({line}) Tj 0 -16 Td" for line in lines)
    stream = f"BT /F1 12 Tf 50 750 Td {shown} ET".encode("latin-1")
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Title ({title}) /Author (Rui Dias) /CreationDate (D:20260401120000Z) >>".encode("latin-1"),
    ]
    out, places = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count, start = len(parts) + 1, len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, table)
    return out + b"trailer << /Size %d /Root 1 0 R /Info 6 0 R >>\nstartxref\n%d\n%%%%EOF" % (count, start)


def _raw_deflate(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return engine.compress(data) + engine.flush()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "two-members": ("gzip", lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:])),
    "deflate": ("deflate", zlib.compress),
    "raw-deflate": ("deflate", _raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstd.compress),
    "zstd-frames": ("zstd", lambda data: zstd.compress(data[:100]) + zstd.compress(data[100:])),
    "gzip-in-br": ("gzip, br", lambda data: brotli.compress(gzip.compress(data))),
}

Answer = Callable[["Web", web.Request], Awaitable[web.StreamResponse]]


class Web:
    """`hits` counts the paths that were asked for; `busiest` is the most requests that a host had at a time."""

    def __init__(self) -> None:
        self.port = 0
        self.hits: Counter[str] = Counter()
        self.hosts: Counter[str] = Counter()
        self.agents: set[str] = set()
        self.busiest: Counter[str] = Counter()
        self._now: Counter[str] = Counter()
        self.open_requests = 0
        self.slow = 0.0
        self.robots: dict[str, str] = {}
        self.pages: dict[str, str | bytes | web.Response | Answer] = {}
        self.known: dict[str, KnownPage] = {}
        self._over = asyncio.Event()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def resolve(self, host: str, port: int) -> list[str]:
        if host.endswith(".example") or host == "localhost":
            return ["127.0.0.1"]
        raise OSError(f"no such host: {host}")

    def add_known(self, *seeds: int) -> dict[str, KnownPage]:
        """All known pages under their names; returns them by address. Every second one is in an old encoding."""
        for seed in seeds:
            for page in known_pages(seed=seed):
                self.known[f"/known/{page.name}"] = page
        return {
            self.url(path, f"site{n % 9}.example"): page for n, (path, page) in enumerate(self.known.items())
        }

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_so():  # noqa: ASYNC110 (any condition)
                await asyncio.sleep(0.01)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        host = request.host
        self.hits[request.path] += 1
        self.hosts[host] += 1
        self.agents.add(request.headers.get("User-Agent", ""))
        self._now[host] += 1
        self.busiest[host] = max(self.busiest[host], self._now[host])
        self.open_requests += 1
        try:
            if self.slow:
                await asyncio.sleep(self.slow)
            return await self._page(request)
        finally:
            self._now[host] -= 1
            self.open_requests -= 1

    async def _page(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path == "/robots.txt":
            rules = self.robots.get(request.host.partition(":")[0])
            if rules is None or rules.isdigit():  # a status instead of rules
                return web.Response(status=int(rules or "404"))
            return web.Response(text=rules)
        if path in self.known:
            return self._known(self.known[path], list(self.known).index(path))
        found = self.pages.get(path)
        if found is None:
            special = {
                "compressed": self._compressed,
                "bomb": self._bomb,
                "endless": self._endless,
                "trickle": self._trickle,
                "silent": self._silent,
                "to": self._redirect,
                "loop": self._loop,
                "count": self._count,
            }.get(path.split("/")[1])
            return (
                await special(request)
                if special is not None
                else web.Response(status=404, text="nothing here")
            )
        if isinstance(found, str):
            return web.Response(body=found.encode(), headers={"Content-Type": HTML})
        if isinstance(found, bytes):
            return web.Response(body=found)
        if isinstance(found, web.Response):
            return web.Response(body=found.body, status=found.status, headers=found.headers)
        return await found(self, request)

    def _known(self, page: KnownPage, number: int) -> web.Response:
        encoding = ENCODINGS.get(page.language, "utf-8") if number % 2 else "utf-8"
        declared = page.html.replace('<meta charset="utf-8">', f'<meta charset="{encoding}">')
        declared = declared.replace('<meta charset="utf-8"/>', f'<meta charset="{encoding}"/>')
        by_header = number % 4 < 2 or "charset=" not in declared
        kind = f"text/html; charset={encoding}" if by_header else "text/html"
        return web.Response(
            body=declared.encode(encoding, "xmlcharrefreplace"), headers={"Content-Type": kind}
        )

    async def _compressed(self, request: web.Request) -> web.Response:
        name, compress = CODINGS[request.path.split("/")[2]]
        return web.Response(
            body=compress(article("Compressed").encode()),
            headers={"Content-Type": HTML, "Content-Encoding": name},
        )

    async def _bomb(self, request: web.Request) -> web.Response:
        name, compress = CODINGS[request.path.split("/")[2]]
        body = compress(b"<p>" + b"a" * BOMB)
        return web.Response(body=body, headers={"Content-Type": HTML, "Content-Encoding": name})

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": HTML})
        await response.prepare(request)
        while not self._over.is_set():
            await response.write(b"<p>more and more and more</p>" * 1000)
        return response

    async def _trickle(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": HTML})
        await response.prepare(request)
        await response.write(b"<p>one")
        await self._over.wait()
        return response

    async def _silent(self, request: web.Request) -> web.StreamResponse:
        await self._over.wait()
        return web.Response()

    async def _redirect(self, request: web.Request) -> web.Response:
        status = int(request.query.get("status", "302"))
        return web.Response(status=status, headers={"Location": request.query["url"]})

    async def _loop(self, request: web.Request) -> web.Response:
        other = "/loop/b" if request.path.endswith("/a") else "/loop/a"
        return web.Response(status=302, headers={"Location": other})

    async def _count(self, request: web.Request) -> web.Response:
        number = int(request.path.rpartition("/")[2])
        return web.Response(status=302, headers={"Location": f"/count/{number + 1}"})

    @asynccontextmanager
    async def open(self, address: str = "127.0.0.1") -> AsyncIterator["Web"]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=1, handle_signals=False, handler_cancellation=True)
        await runner.setup()
        server = web.TCPSite(runner, address, 0)
        await server.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            self._over.set()
            await runner.cleanup()


RSS = """<?xml version="1.0" encoding="utf-8"?><rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel><title>Bridge news</title><language>en-gb</language><description>All about bridges</description>
<item><title>It opens</title><link>https://a.example/opens</link><pubDate>Tue, 03 Mar 2026 10:00:00 GMT</pubDate>
<description>short</description><content:encoded><![CDATA[<p>The bridge <b>opens</b> on Monday.</p>]]></content:encoded></item>
<item><title>It closes</title><link>https://a.example/closes</link><description>It closed again.</description></item>
</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>Notas</title><updated>2026-03-04T00:00:00Z</updated>
<entry><title>Primeira</title><link rel="alternate" href="https://b.example/1"/><author><name>Ana</name></author>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>A ponte abriu.</p></div></content></entry></feed>"""
LAUGHS = """<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "ha ha ha ha ha ha ha ha ha ha">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
<!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;"><!ENTITY e "&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;">
<!ENTITY f "&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;"><!ENTITY x SYSTEM "file:///etc/passwd">]>
<rss><channel><title>ha</title><item><title>&f;</title><description>&x; &f;</description></item></channel></rss>"""
SHELL = """<!doctype html><html lang="en"><head><title>App</title></head><body><div id="root"></div>
<noscript>You need to enable JavaScript to run this app.</noscript><script>
fetch("/api/text").then((one) => one.json()).then((found) => {
  document.title = found.title;
  document.getElementById("root").innerHTML = "<main><h1>" + found.title + "</h1>" +
    found.paragraphs.map((text) => "<p>" + text + "</p>").join("") + "</main>";
});</script></body></html>"""


def text_of_shell() -> bytes:
    return json.dumps({"title": "Made by a script", "paragraphs": Prose("en", 3).paragraphs(4)}).encode()
