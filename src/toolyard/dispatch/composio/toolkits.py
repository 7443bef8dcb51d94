"""The apps that Composio has, found by words."""

import time

from ...upstream.composio import Api, ToolkitRecord
from ...upstream.composio.words import best
from ..remote import Toolkit

ALL = 1000
FRESH_SECONDS = 600.0


class Toolkits:
    """`only` are the apps that may be used; all when there are none."""

    def __init__(self, api: Api, only: tuple[str, ...]) -> None:
        self._api = api
        self._only = frozenset(slug.lower() for slug in only)
        self._known: list[ToolkitRecord] = []
        self._read_at: float | None = None

    def has(self, slug: str) -> bool:
        return not self._only or slug.lower() in self._only

    async def get(self, slug: str) -> Toolkit | None:
        found = await self._api.toolkit(slug) if self.has(slug) else None
        return None if found is None else _shown(found)

    async def search(self, text: str, category: str, limit: int) -> list[Toolkit]:
        """By its own search, which wants the words as they are; else by the words that there are."""
        found = await self._api.toolkits(text, category, ALL if self._only else limit)
        found = [kit for kit in found if self.has(kit.slug)]
        if not found and text:
            known = [kit for kit in await self._all() if not category or category in kit.categories]
            found = best(known, _text, text, limit)
        return [_shown(kit) for kit in found[:limit]]

    async def _all(self) -> list[ToolkitRecord]:
        if self._read_at is None or time.monotonic() - self._read_at > FRESH_SECONDS:
            found = await self._api.toolkits("", "", ALL)
            self._known = [kit for kit in found if self.has(kit.slug)]
            self._read_at = time.monotonic()
        return self._known


def _text(kit: ToolkitRecord) -> str:
    return " ".join((kit.slug, kit.name, kit.description, *kit.tags, *kit.categories))


def _shown(kit: ToolkitRecord) -> Toolkit:
    return Toolkit(
        slug=kit.slug,
        name=kit.name,
        description=kit.description,
        logo=kit.logo,
        tags=kit.tags,
        categories=kit.categories,
        auth_schemes=kit.auth_schemes,
        managed_auth_schemes=kit.managed_auth_schemes,
    )
