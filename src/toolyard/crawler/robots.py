"""robots.txt of every site: fetched once a while, parsed, and asked whether an address may be fetched.

As RFC 9309 says: a missing file allows everything, a server that fails allows nothing. Protego parses it; the
standard library's parser knows neither wildcards nor the rule that the longest match wins.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from .fetching import Response
from .outcomes import CrawlError

MAX_BYTES = 512 * 1024
"""RFC 9309 wants at least 500 KiB to be read."""
KEPT_SECONDS = 3600.0
MAX_SITES = 1_000
MAX_CRAWL_DELAY = 60.0


class SiteRules(Struct, frozen=True):
    parsed: Any
    """Protego's, None if everything is allowed."""
    until: float

    def allows(self, url: str, agent: str) -> bool:
        return self.parsed is None or self.parsed.can_fetch(url, agent)

    def crawl_delay(self, agent: str) -> float:
        """Seconds between requests that the site asks for, within reason."""
        if self.parsed is None:
            return 0.0
        delay = self.parsed.crawl_delay(agent)
        rate = self.parsed.request_rate(agent)
        per_request = rate.seconds / rate.requests if rate is not None and rate.requests else 0.0
        return min(MAX_CRAWL_DELAY, max(float(delay or 0.0), per_request))


class RobotsRules:
    def __init__(self, fetch: Callable[[str, int], Awaitable[Response]]) -> None:
        """`fetch` gets an address and a limit of bytes, and follows redirects."""
        self._fetch = fetch
        self._sites: OrderedDict[str, asyncio.Task[SiteRules]] = OrderedDict()

    async def of(self, url: str) -> SiteRules:
        """Raises CrawlError if the site cannot be reached or fails."""
        parts = urlsplit(url)
        site = f"{parts.scheme}://{parts.netloc}"
        clock = asyncio.get_running_loop().time
        task = self._sites.get(site)
        if task is None or (
            task.done() and (task.cancelled() or task.exception() or task.result().until < clock())
        ):
            task = self._sites[site] = asyncio.create_task(self._read(f"{site}/robots.txt"))
            while len(self._sites) > MAX_SITES:
                self._sites.popitem(last=False)[1].cancel()
        # Others may wait for the same file, so a caller that leaves does not cancel it.
        return await asyncio.shield(task)

    async def close(self) -> None:
        for task in self._sites.values():
            task.cancel()
        await asyncio.gather(*self._sites.values(), return_exceptions=True)

    async def _read(self, address: str) -> SiteRules:
        until = asyncio.get_running_loop().time() + KEPT_SECONDS
        try:
            response = await self._fetch(address, MAX_BYTES)
        except CrawlError as error:
            if error.code in ("too_many_redirects", "redirect_loop", "too_large", "compression", "robots"):
                return SiteRules(None, until)
            raise
        if response.status == 429 or response.status >= 500:
            raise CrawlError("robots_unreachable", response.status)
        if response.status >= 400:
            return SiteRules(None, until)
        return SiteRules(parse_robots(response.body), until)


def parse_robots(body: bytes) -> Any:
    from protego import Protego  # 15 ms

    return Protego.parse(body.decode("utf-8-sig", "replace"))
