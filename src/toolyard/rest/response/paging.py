"""Reads one response, one page of a list or all its pages, and filters items if the API cannot."""

import re
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from typing import Any, cast
from urllib.parse import quote, unquote_plus

from msgspec import Struct
from msgspec.structs import replace

from ...kit import ToolError
from ...wire.seal import BrokenSeal, Sealer
from ..api import DecodedResponse, RestApi
from ..definition.model import Auth
from ..definition.plan import ToolPlan
from ..definition.schemas import position_name, shown_name
from ..request.arguments import whole_number
from ..request.auth import HIDDEN_IN_LINK
from ..request.builder import RequestDraft, draft, text, urlencoded
from ..request.lookups import folded
from ..texts import RestTexts
from .result import MAX_VALUES, RestResult, aside, at, extracted

Position = int | str
_LINK = r"<([^<>]*)>([^<]*)"
_QUERY = r"[\x21\x22\x24-\x7e]{0,4000}"
_PURPOSE = "rest next link"
MAX_PATH = 2000
"""Characters in the path of a link."""


class LinkSeal(Struct, frozen=True):
    """Seals the query of a next link: callers send it back, and it would be a whole query of their own.

    `bound` is a digest of the call that got the link: the query counts for the same call only.
    """

    sealer: Sealer
    bound: str

    def seal(self, query: str) -> str:
        return self.sealer.seal((self.bound + query).encode(), _PURPOSE)

    def open(self, cursor: str, name: str, texts: RestTexts) -> str:
        try:
            opened = self.sealer.open(cursor, _PURPOSE).decode()
        except BrokenSeal:
            raise ToolError(texts.cursor.format(name=name)) from None
        if not opened.startswith(self.bound):
            raise ToolError(texts.cursor_elsewhere.format(name=name))
        return opened.removeprefix(self.bound)


class PageCursor:
    """The position in a list, which advances with every page."""

    def __init__(
        self,
        plan: ToolPlan,
        arguments: dict[str, Any],
        texts: RestTexts,
        base: str,
        seal: LinkSeal | None = None,
    ) -> None:
        """Removes the paging parameters from the arguments. Without a seal no caller can give a link."""
        assert plan.paging is not None
        self._paging = paging = plan.paging
        self._plan = plan
        self._base = base
        self._seal = seal
        position = _pop(plan, arguments, position_name(paging))
        self.position: Position | None = self._checked(position, texts)
        self.size = self._size(_pop(plan, arguments, paging.size), texts)

    def _checked(self, value: Any, texts: RestTexts) -> Position | None:
        paging, name = self._paging, shown_name(self._plan, position_name(self._paging))
        if value is None or value == "":
            return paging.first if paging.kind in ("page", "offset") else None
        if paging.kind in ("page", "offset"):
            if not isinstance(value, int) or value < paging.first:
                raise ToolError(texts.whole_number.format(name=name, least=paging.first))
            return value
        if paging.kind == "link":
            if self._seal is None:
                raise ToolError(texts.cursor.format(name=name))
            return self._seal.open(text(value), name, texts)
        return text(value)

    def _size(self, value: Any, texts: RestTexts) -> int:
        if self._plan.tool.all_pages:
            return self._paging.most
        if value is None:
            return min(self._paging.default, self._paging.most)
        if not isinstance(value, int) or value < 1:
            name = shown_name(self._plan, self._paging.size)
            raise ToolError(texts.whole_number.format(name=name, least=1))
        return min(value, self._paging.most)

    def restarted(self) -> "PageCursor":
        """A cursor at the beginning of the list, with the largest pages."""
        other = copy(self)
        other.size = self._paging.most
        other.position = self._paging.first if self._paging.kind in ("page", "offset") else None
        return other

    def slice(self, whole: RestResult) -> RestResult:
        """The page at this position of a list that was read as a whole."""
        if whole.items is None or self._paging.kind not in ("page", "offset"):
            return whole
        skipped = int(self.position or 0) - self._paging.first
        begin = skipped if self._paging.kind == "offset" else skipped * self.size
        items = whole.items[begin : begin + self.size]
        step = len(items) if self._paging.kind == "offset" else 1
        more = begin + self.size < len(whole.items)
        following = int(self.position or 0) + step if more else None
        return RestResult(items, items, len(whole.items), following, whole.truncated, whole.size)

    def advance(self, position: Position) -> None:
        self.position = position

    def shown(self, position: Position | None) -> Position | None:
        """The position as callers get it."""
        if self._seal is None or self._paging.kind != "link" or position is None:
            return position
        return self._seal.seal(str(position))

    def apply(self, draft: RequestDraft) -> RequestDraft:
        """Add position and size to the draft."""
        paging = self._paging
        if paging.kind == "link" and self.position:
            draft.raw_query = self._continued(str(self.position), draft)
            return draft
        if paging.size:
            draft.query = [*draft.query, (paging.size, str(self.size))]
        if paging.kind != "link" and self.position is not None:
            draft.query = [*draft.query, (paging.position, str(self.position))]
        return draft

    def _continued(self, query: str, draft: RequestDraft) -> str:
        """The query of a link, in which the fixed values stay as they are."""
        auth = self._plan.definition.auth
        always = [(name, value) for name, value in draft.query if name in self._plan.tool.fixed]
        ours = {name for name, _ in always} | ({auth.name} if auth.kind == "query" else set[str]())
        pairs = [pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) not in ours]
        return "&".join([*pairs, urlencoded(always)] if always else pairs)

    def total(self, answer: DecodedResponse) -> int | None:
        paging = self._paging
        header = answer.headers.get(paging.total_header.lower()) if paging.total_header else None
        if header is not None and header.strip().isdecimal():
            return int(header.strip()[:15])
        found = at(answer.value, paging.total) if paging.total else None
        return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None

    def next_position(self, answer: DecodedResponse, count: int, auth: Auth) -> Position | None:
        """The position of the next page; None at the end."""
        paging = self._paging
        if paging.kind == "cursor":
            found = at(answer.value, paging.next)
            following = text(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""
            return following if following and following != self.position else None
        if paging.kind == "link":
            following = self._linked(answer.headers.get("link", ""), auth)
            return following if following and following != self.position else None
        return self._counted(count, self.total(answer))

    def _counted(self, count: int, total: int | None) -> int | None:
        position, first = int(self.position or 0), self._paging.first
        if count == 0:
            return None
        if self._paging.kind == "offset":
            reached, following = position - first + count, position + count
        else:
            reached, following = (position - first + 1) * self.size, position + 1
        more = count >= self.size if total is None else reached < total
        return following if more else None

    def _linked(self, header: str, auth: Auth) -> str | None:
        """The query of the next link if it is for the same list: another address must not get the key."""
        target = _next_target(header)
        if target is None:
            return None
        path, _, query = target.partition("#")[0].partition("?")
        if len(path) > MAX_PATH:  # a pattern of several placeholders takes long for it
            return None
        if "://" in path:
            path = "/" + path.split("://", 1)[1].partition("/")[2]
        fixed = re.escape(quote(self._base, safe="/%")) + re.sub(
            r"\\\{[^{}]+\\\}", "[^/]+", re.escape(self._plan.tool.path)
        )
        if path and not re.fullmatch(f"(?:{fixed}|[^/]+)", path):
            return None
        following = "&".join(pair for pair in query.split("&") if not _has_key(pair, auth))
        return following if following and re.fullmatch(_QUERY, following) else None


def _next_target(header: str) -> str | None:
    """The address with the relation `next` in a Link header, in one pass."""
    for target, about in re.findall(_LINK, header):
        for part in about.split(";"):
            name, _, value = part.partition("=")
            if name.strip().lower() == "rel" and "next" in value.strip(' \t",').lower().split():
                return target
    return None


def _has_key(pair: str, auth: Auth) -> bool:
    """Whether a pair of a query is the key, which is added to every request anyway."""
    named = pair.partition("=")[0] in (auth.name, quote(auth.name, safe=""))
    return HIDDEN_IN_LINK in pair or (auth.kind == "query" and named)


def _pop(plan: ToolPlan, arguments: dict[str, Any], wire_name: str) -> Any:
    """Remove and return the argument with this name for the API; the tool may name it otherwise."""
    if not wire_name:
        return None
    name = shown_name(plan, wire_name)
    return whole_number(arguments.pop(name if name in arguments else wire_name, None))


class ItemFilter:
    """Filters items by arguments; false if there is nothing to filter by."""

    def __init__(self, plan: ToolPlan, arguments: Mapping[str, Any]) -> None:
        self._conditions = [
            (arguments[name], fields)
            for name, fields in plan.tool.filters.items()
            if arguments.get(name) not in (None, "")
        ]

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def fits(self, item: Any) -> bool:
        return all(
            any(_has(at(item, field), value) for field in fields) for value, fields in self._conditions
        )


def _has(found: Any, wanted: Any) -> bool:
    if isinstance(found, list):
        return any(_has(one, wanted) for one in cast(list[Any], found))
    if isinstance(wanted, str):
        return found is not None and folded(wanted) in folded(text(found))
    return (type(found) is not bool and found == wanted) or found is wanted


Progress = Callable[[float, float | None], Awaitable[None]]
"""Takes the number of items read, and of all items if known."""
MAX_PAGES = 200
"""The limit of requests for one list."""
MAX_LIST = 4
"""Of the largest responses: how much is kept of one list."""


class ResponseReader(Struct, frozen=True):
    plan: ToolPlan
    api: RestApi
    send: Callable[[RequestDraft], Awaitable[DecodedResponse]]
    select: Callable[[Any], Any]
    """Selects the fields of an object."""
    progress: Progress
    seal: LinkSeal | None = None

    async def read(self, arguments: dict[str, Any]) -> RestResult:
        item_filter = ItemFilter(self.plan, arguments)
        if self.plan.paging is None:
            answer = await self.send(self._draft(arguments))
            return (await aside(answer.size, self._page, answer, item_filter))[1]
        base = self.api.client.origin.base
        cursor = PageCursor(self.plan, arguments, self.api.texts, base, self.seal)
        if self.plan.tool.all_pages:
            return await self._read_all(cursor, arguments, item_filter)
        if item_filter:
            return cursor.slice(await self._read_all(cursor.restarted(), arguments, item_filter))
        answer = await self.send(cursor.apply(self._draft(arguments)))
        read, page = await aside(answer.size, self._page, answer, item_filter)
        if page.items is None:
            return page
        following = cursor.next_position(answer, read, self.api.definition.auth)
        return replace(page, total=cursor.total(answer), following=cursor.shown(following))

    async def _read_all(
        self, cursor: PageCursor, arguments: dict[str, Any], item_filter: ItemFilter
    ) -> RestResult:
        """Read a whole list within its limits; `truncated` says whether items are missing."""
        assert self.plan.paging is not None
        most, found, read = self.plan.paging.most_items, list[Any](), 0
        values = size = 0.0
        total: int | None = None
        truncated = True
        for _ in range(MAX_PAGES):
            answer = await self.send(cursor.apply(self._draft(arguments)))
            count, page = await aside(answer.size, self._page, answer, item_filter, most - read)
            if page.items is None:
                return page
            share = len(page.items) / max(count, 1)
            values, size = values + answer.values * share, size + answer.size * share
            if found and (values > MAX_VALUES or size > MAX_LIST * self.api.definition.max_reply):
                break
            total, surplus = cursor.total(answer), read + count > most
            found += page.items
            read += count
            following = cursor.next_position(answer, count, self.api.definition.auth)
            if following is None or read >= most:
                truncated = surplus or following is not None
                break
            await self.progress(read, None if total is None else min(total, most))
            cursor.advance(following)
        total = len(found) if item_filter else total
        return RestResult(found, found, total, truncated=truncated, size=int(size))

    def _page(
        self, answer: DecodedResponse, item_filter: ItemFilter, most: int | None = None
    ) -> tuple[int, RestResult]:
        """How many items a response has, and what is kept of its first ones; or of what is no list."""
        value, items = extracted(answer.value, self.plan.tool.result)
        if items is None:
            return 0, RestResult(self.select(value), size=answer.size)
        kept = [self.select(item) for item in items[:most] if item_filter.fits(item)]
        return len(items), RestResult(value, kept, size=answer.size)

    def _draft(self, arguments: dict[str, Any]) -> RequestDraft:
        return draft(self.plan, arguments, self.api.texts)
