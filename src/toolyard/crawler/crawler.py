"""Fetches many pages at once and reads their main content; the outcomes go to whoever asked, page by page.

Follows one address from text to outcome: check, robots.txt, turn at its host, cache, request, redirects,
retries, reading in a worker, and the browser for pages that scripts make. Writes no files.
"""

import asyncio
import contextlib
import random
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urljoin, urlsplit, urlunsplit

import msgspec
from msgspec import Struct
from yarl import URL

from .._version import __version__
from ..chromium import Chromium
from ..egress import AddressRules, Resolve, UnfitAddressError, resolve, web_address
from ..workers.pool import WorkerError, WorkerPool
from .cache import ResponseCache
from .extraction.document import Body, Document
from .fetching import Fetcher, PageCookies, Response
from .outcomes import CrawledPage, CrawlError, CrawlFailure, CrawlSummary, FailureCode, PageNotSavedError
from .politeness import HostGates
from .rendering import Renderer
from .robots import RobotsRules

PRODUCT = "Toolyard"
USER_AGENT = f"Mozilla/5.0 (compatible; {PRODUCT}/{__version__}; +https://github.com/toolyard/toolyard)"
WORKER = "toolyard.crawler.extraction.worker"
READ_SECONDS = 20.0
MAX_ANSWER = 32 * 2**20
MAX_URL = 8_000
BATCH = 10
READERS = 3
"""Processes that read pages; one caller has at most all but one."""
_REPEATED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_REPEATED_CODES: frozenset[FailureCode] = frozenset({"unreachable", "broken"})
_INTERSTITIAL_STATUSES = frozenset({401, 403, 405, 406, 429, 451, 503})
_REFRESH = re.compile(
    rb"""<meta[^>]{0,100}http-equiv=["']?refresh["']?[^>]{0,100}content=["']?\s*(\d{1,3})\s*;\s*url=\s*['"]?([^"'>\s]{1,2000})""",
    re.IGNORECASE,
)
_REFRESH_BYTES = 20_000
_REFRESH_SECONDS = 10
_LOGIN_PATH = re.compile(
    r"/(?:log-?in|sign-?in|sso|auth|accounts?/login|users/sign_in|entrar|anmelden)\b", re.IGNORECASE
)
_LOGIN_WORDS = 120


class CrawlLimits(Struct, frozen=True, kw_only=True):
    """How a crawler behaves towards hosts, and what it takes from them."""

    concurrency: int = 16
    """Requests at a time, to all hosts."""
    per_host: int = 4
    """Requests at a time to one host."""
    delay: float = 0.25
    """Seconds between the starts of two requests to one host."""
    robots: bool = True
    """Whether robots.txt is obeyed."""
    page_timeout: float = 30.0
    """Seconds for one page with its redirects and retries, not counting its wait for a turn."""
    timeout: float = 300.0
    """Seconds for a whole crawl."""
    max_bytes: int = 10 * 2**20
    """Maximum size of a body, as it comes and as it becomes when decompressed."""
    redirects: int = 10
    retries: int = 2
    """How often a request is repeated after a failure that may pass."""
    backoff: float = 0.5
    """Seconds before the first repetition; doubled for each further one."""
    max_retry_after: float = 30.0
    """A host that asks for a longer pause is given up."""
    cache_bytes: int = 64 * 2**20
    """Maximum size of the cache of one owner; 0: no cache."""
    render: bool = True
    """Whether pages made by scripts are opened in a browser."""
    render_pages: int = 2
    """Pages open in the browser at a time."""


class CrawlRequest(Struct, frozen=True, kw_only=True):
    urls: Sequence[str]
    owner: str = ""
    batch_size: int = 0
    """Addresses that are crawled together before the next ones begin; 0: BATCH if `stop_after`, else all."""
    stop_after: int = 0
    """Ends the crawl at so many pages, and fetches none that would be one too many; 0: never."""
    fresh: bool = False
    """Whether to leave the cache aside."""


OnPage = Callable[[CrawledPage], Awaitable[None]]
"""Raises PageNotSavedError to count the page as failed."""
OnOutcome = Callable[[int, str, CrawlFailure | None], Awaitable[None]]
"""Gets the number of addresses done, the address, and its failure if it failed."""


class Crawler:
    def __init__(
        self,
        rules: AddressRules,
        limits: CrawlLimits,
        *,
        cache_folder: Path | None = None,
        chromium: Chromium | None = None,
        resolve: Resolve = resolve,
        user_agent: str = USER_AGENT,
    ) -> None:
        self._limits = limits
        self._cache_folder = cache_folder
        self._gates = HostGates(limits.per_host, limits.delay)
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._fetcher = Fetcher(
            rules,
            resolve,
            user_agent=user_agent,
            connections=limits.concurrency,
            max_bytes=limits.max_bytes,
        )
        self._agent = PRODUCT if PRODUCT in user_agent else user_agent
        self._robots = RobotsRules(self._fetch_robots)
        self._readers = WorkerPool(WORKER, max_workers=READERS)
        self._renderer = Renderer(
            chromium or Chromium(),
            rules,
            resolve,
            user_agent=user_agent,
            pages=limits.render_pages,
            max_bytes=limits.max_bytes,
        )

    async def close(self) -> None:
        await self._robots.close()
        await self._fetcher.close()
        await self._readers.close()
        await self._renderer.close()

    async def crawl(
        self, request: CrawlRequest, on_page: OnPage, on_outcome: OnOutcome | None = None
    ) -> CrawlSummary:
        """Cancelling it ends everything that it started."""
        return await _Crawl(self, request, on_page, on_outcome).run()

    @property
    def limits(self) -> CrawlLimits:
        return self._limits

    def cache_of(self, owner: str) -> ResponseCache:
        return ResponseCache(self._cache_folder, owner, self._limits.cache_bytes)

    async def page(self, given: str, owner: str = "", fresh: bool = False) -> CrawledPage:
        """One page. Raises CrawlError."""
        url = checked_url(given)
        budget = _Budget(self._limits.page_timeout)
        cache = None if fresh else self.cache_of(owner)
        response = await self._follow(url, budget, cache)
        document = await self._read(response, owner)
        rendered = False
        final = response.url
        if self._limits.render and response.status < 400 and document.wants_scripts:
            document, final, rendered = await self._rendered(response, document, owner, budget)
        self._check(response.status, document, url, final)
        return _page(given, final, document, rendered=rendered, from_cache=response.from_cache)

    async def _rendered(
        self, response: Response, static: Document, owner: str, budget: "_Budget"
    ) -> tuple[Document, str, bool]:
        """The page after its scripts ran; the static one if it has a text and the browser fails."""
        gate = self._gates.of(_host(response.url))
        try:
            async with gate.turn():
                seconds = max(budget.left, self._limits.page_timeout / 2)
                found = await self._renderer.render(response.url, seconds)
            body = Body(
                url=found.url,
                data=found.html.encode("utf-8", "replace"),
                content_type="text/html; charset=utf-8",
                status=found.status,
                headers=response.headers,
                rendered=True,
            )
            document = await self._ask(body, owner)
        except CrawlError:
            if static.problem is None:
                return static, response.url, False
            raise
        if document.problem is not None and static.problem is None:
            return static, response.url, False
        return document, found.url, True

    def _check(self, status: int, document: Document, url: str, final: str) -> None:
        if document.problem in ("cloudflare", "captcha", "blocked", "login", "paywall") and (
            status < 400 or status in _INTERSTITIAL_STATUSES
        ):
            raise CrawlError(document.problem, _host(final))
        if status in (429, 503):
            raise CrawlError("rate_limited", status)
        if not 200 <= status < 300:
            raise CrawlError("status", status)
        if document.problem is not None:
            raise CrawlError(document.problem, _host(final))
        was_sent_to_login = _LOGIN_PATH.search(urlsplit(final).path) and not _LOGIN_PATH.search(
            urlsplit(url).path
        )
        if was_sent_to_login and document.word_count < _LOGIN_WORDS:
            raise CrawlError("login", _host(final))

    async def _read(self, response: Response, owner: str) -> Document:
        is_error = response.status >= 400
        if is_error and response.status not in _INTERSTITIAL_STATUSES:
            return Document()
        body = Body(
            url=response.url,
            data=response.body,
            content_type=response.headers.get("content-type", ""),
            status=response.status,
            headers=response.headers,
        )
        return await self._ask(body, owner)

    async def _ask(self, body: Body, owner: str) -> Document:
        try:
            answer = await self._readers.ask(
                msgspec.msgpack.encode(body), seconds=READ_SECONDS, max_bytes=MAX_ANSWER, caller=owner
            )
        except WorkerError as error:
            raise CrawlError("unreadable", error) from None
        return msgspec.msgpack.decode(answer, type=Document)

    async def _fetch_robots(self, address: str, max_bytes: int) -> Response:
        budget = _Budget(self._limits.page_timeout)
        return await self._follow(address, budget, None, max_bytes=max_bytes, is_robots=True)

    async def _follow(
        self,
        url: str,
        budget: "_Budget",
        cache: ResponseCache | None,
        *,
        max_bytes: int | None = None,
        is_robots: bool = False,
    ) -> Response:
        """The response after redirects, each of which is checked like the first address."""
        cookies = PageCookies()
        seen: set[tuple[str, str]] = set()
        for _ in range(self._limits.redirects + 1):
            # A site may send a browser back to the same address with a cookie.
            step = (url, repr(sorted(cookies.header(url).items())))
            if step in seen:
                raise CrawlError("redirect_loop", url[:200])
            seen.add(step)
            if not is_robots:
                await self._obey_robots(url)
            response = await self._get(url, budget, cache, cookies, max_bytes)
            target = response.location or ("" if is_robots else _refresh_target(response))
            if not target:
                return response
            url = checked_url(urljoin(url, target))
        raise CrawlError("too_many_redirects", self._limits.redirects)

    async def _obey_robots(self, url: str) -> None:
        if not self._limits.robots:
            return
        rules = await self._robots.of(url)
        if not rules.allows(url, self._agent):
            raise CrawlError("robots", _host(url))
        if delay := rules.crawl_delay(self._agent):
            self._gates.of(_host(url)).slow_down(delay)

    async def _get(
        self,
        url: str,
        budget: "_Budget",
        cache: ResponseCache | None,
        cookies: PageCookies,
        max_bytes: int | None,
    ) -> Response:
        stored = None if cache is None else await asyncio.to_thread(cache.get, url)
        if stored is not None and stored.is_fresh:
            return stored.response()
        extra = {} if stored is None else stored.validators
        response = await self._get_repeatedly(url, budget, cookies, extra, max_bytes)
        if cache is None:
            return response
        if stored is not None and response.status == 304:
            return await asyncio.to_thread(cache.renew, stored, response)
        await asyncio.to_thread(cache.put, response)
        return response

    async def _get_repeatedly(
        self, url: str, budget: "_Budget", cookies: PageCookies, extra: dict[str, str], max_bytes: int | None
    ) -> Response:
        gate = self._gates.of(_host(url))
        for attempt in range(self._limits.retries + 1):
            is_last = attempt == self._limits.retries
            try:
                async with gate.turn(), self._slots, budget.spending():
                    response = await self._fetcher.get(url, cookies=cookies, extra=extra, max_bytes=max_bytes)
            except CrawlError as error:
                if is_last or error.code not in _REPEATED_CODES:
                    raise
                pause = self._backoff(attempt)
            else:
                if response.status not in _REPEATED_STATUSES:
                    return response
                asked = _retry_after(response.headers.get("retry-after", ""))
                if asked > self._limits.max_retry_after:
                    raise CrawlError("rate_limited", f"{asked:.0f}")
                if asked:
                    gate.pause(asked)  # for every page of the host
                if is_last:
                    return response
                pause = 0.0 if asked else self._backoff(attempt)
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _backoff(self, attempt: int) -> float:
        return self._limits.backoff * 2**attempt * random.uniform(0.5, 1.0)


class _Crawl:
    """One crawl: its addresses, and what became of them."""

    def __init__(
        self, crawler: Crawler, request: CrawlRequest, on_page: OnPage, on_outcome: OnOutcome | None
    ) -> None:
        self._crawler = crawler
        self._request = request
        self._on_page = on_page
        self._on_outcome = on_outcome
        self._saved = 0
        self._failures: dict[str, CrawlFailure] = {}
        self._done = 0

    async def run(self) -> CrawlSummary:
        urls = distinct(self._request.urls)
        ended: set[str] = set()
        try:
            async with asyncio.timeout(self._crawler.limits.timeout):
                start = 0
                while batch := urls[start : start + self._next_size(len(urls))]:
                    await self._batch(batch, ended)
                    start += len(batch)
        except TimeoutError:
            for url in urls:
                if url not in ended:
                    await self._failed(CrawlFailure(url, "out_of_time", f"{self._crawler.limits.timeout:g}"))
                    ended.add(url)
        return CrawlSummary(
            total=len(urls),
            successful=self._saved,
            failures=[self._failures[url] for url in urls if url in self._failures],
            skipped=[url for url in urls if url not in ended],
            duplicates=len(self._request.urls) - len(urls),
        )

    def _next_size(self, total: int) -> int:
        """How many addresses come next: never more than pages are still wanted, since each may be good."""
        request = self._request
        if not request.stop_after:
            return request.batch_size or total
        return min(request.batch_size or BATCH, request.stop_after - self._saved)

    async def _batch(self, urls: Sequence[str], ended: set[str]) -> None:
        tasks = [asyncio.create_task(self._one(url, ended)) for url in urls]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()  # a fault of ours, or of the function that saves
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _one(self, url: str, ended: set[str]) -> None:
        request = self._request
        try:
            await self._on_page(await self._crawler.page(url, request.owner, request.fresh))
        except CrawlError as error:
            failure = CrawlFailure(url, error.code, error.detail)
        except PageNotSavedError as error:
            failure = CrawlFailure(url, "not_saved", str(error))
        else:
            ended.add(url)
            self._done += 1
            self._saved += 1
            if self._on_outcome is not None:
                await self._on_outcome(self._done, url, None)
            return
        ended.add(url)
        await self._failed(failure)

    async def _failed(self, failure: CrawlFailure) -> None:
        self._failures[failure.url] = failure
        self._done += 1
        if self._on_outcome is not None:
            await self._on_outcome(self._done, failure.url, failure)


class _Budget:
    """The seconds that one page may take; waiting for a turn costs nothing."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.left = seconds

    @contextlib.asynccontextmanager
    async def spending(self) -> AsyncGenerator[None]:
        began = time.monotonic()
        try:
            async with asyncio.timeout(max(0.001, self.left)):
                yield
        except TimeoutError:
            raise CrawlError("timeout", f"{self._seconds:g}") from None
        finally:
            self.left -= time.monotonic() - began


def distinct(urls: Sequence[str]) -> list[str]:
    """Each address once, as it was written first; fragments and the case of hosts make no difference."""
    found: dict[str, str] = {}
    for url in urls:
        try:
            key = checked_url(url)
        except CrawlError:
            key = url.strip()
        found.setdefault(key, url.strip())
    return list(found.values())


def checked_url(text: str) -> str:
    """An address of the web in its normal form, without fragment. Raises CrawlError for others."""
    try:
        address = web_address(text)
        parts = urlsplit(address)
        if parts.username is not None or parts.password is not None:
            raise CrawlError("credentials")
        if len(address) > MAX_URL or not parts.hostname:
            raise CrawlError("address")
        normal = URL(urlunsplit((parts.scheme.lower(), parts.netloc, parts.path or "/", parts.query, "")))
        if not normal.host or not 0 < (normal.port or 0) < 65536:
            raise CrawlError("address")
        return str(normal)
    except UnfitAddressError as error:
        raise CrawlError("scheme" if error.scheme else "address", error.scheme or "") from None
    except ValueError:
        raise CrawlError("address") from None


def _host(url: str) -> str:
    return urlsplit(url).netloc.lower()


def _refresh_target(response: Response) -> str:
    """Where a page that only says so sends its reader."""
    if response.status != 200 or len(response.body) > _REFRESH_BYTES:
        return ""
    found = _REFRESH.search(response.body)
    if found is None or int(found[1]) > _REFRESH_SECONDS:
        return ""
    target = found[2].decode("utf-8", "replace").replace("&amp;", "&")
    return "" if urljoin(response.url, target).partition("#")[0] == response.url else target


def _retry_after(text: str) -> float:
    """Seconds, from a number or a date; 0 if neither."""
    if re.fullmatch(r"\s*\d{1,9}\s*", text):
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time()) if text else 0.0
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0


def _page(given: str, final: str, document: Document, *, rendered: bool, from_cache: bool) -> CrawledPage:
    assert document.kind is not None
    names = (
        "kind",
        "title",
        "date",
        "author",
        "description",
        "site",
        "language",
        "encoding",
        "markdown",
        "links",
        "word_count",
        "is_cut",
    )
    return CrawledPage(
        url=given,
        final_url=final,
        rendered=rendered,
        from_cache=from_cache,
        **{name: getattr(document, name) for name in names},
    )
