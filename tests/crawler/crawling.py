"""A crawler in front of a test's web, and what it found."""

from pathlib import Path
from typing import Any

from tests.crawler.web import Web
from toolyard.chromium import Chromium
from toolyard.crawler.crawler import Crawler, CrawlLimits, CrawlRequest
from toolyard.crawler.outcomes import CrawledPage, CrawlFailure, CrawlSummary
from toolyard.egress import AddressRules, Resolve


class Crawls:
    def __init__(
        self,
        web: Web,
        folder: Path,
        *,
        allow: tuple[str, ...] | None = None,
        resolve: Resolve | None = None,
        chromium: str = "",
        **limits: Any,
    ) -> None:
        allowed = (f"127.0.0.1:{web.port}", f"*.example:{web.port}") if allow is None else allow
        given = {
            "delay": 0.0,
            "backoff": 0.01,
            "page_timeout": 20.0,
            "concurrency": 32,
            "per_host": 8,
            **limits,
        }
        self.crawler = Crawler(
            AddressRules(allowed),
            CrawlLimits(**given),
            cache_folder=folder,
            chromium=Chromium(chromium),
            resolve=resolve or web.resolve,
        )
        self.pages: dict[str, CrawledPage] = {}
        self.outcomes: list[tuple[int, str, CrawlFailure | None]] = []

    async def __call__(self, *urls: str, **options: Any) -> CrawlSummary:
        async def on_page(page: CrawledPage) -> None:
            self.pages[page.url] = page

        async def on_outcome(done: int, url: str, failure: CrawlFailure | None) -> None:
            self.outcomes.append((done, url, failure))

        return await self.crawler.crawl(CrawlRequest(urls=urls, **options), on_page, on_outcome)

    async def page(self, url: str, **options: Any) -> CrawledPage:
        """The page of an address that must succeed."""
        summary = await self(url, **options)
        assert summary.failures == [], summary.failures
        return self.pages[url]

    async def failure(self, url: str, **options: Any) -> CrawlFailure:
        """The failure of an address that must fail."""
        summary = await self(url, **options)
        assert len(summary.failures) == 1, self.pages
        return summary.failures[0]

    async def close(self) -> None:
        await self.crawler.close()
