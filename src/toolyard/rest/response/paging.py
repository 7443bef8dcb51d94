"""Reads one response, one page of a list, or all pages of a list, and filters items where the API cannot."""

import re
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from typing import Any, cast
from urllib.parse import quote, unquote_plus

from msgspec import Struct

from ...kit import ToolError
from ..api import DecodedResponse, RestApi
from ..definition.model import Auth
from ..definition.plan import ToolPlan
from ..definition.schemas import position_name, shown_name
from ..request.arguments import whole
from ..request.auth import HIDDEN_IN_LINK
from ..request.builder import RequestDraft, draft, text, urlencoded
from ..request.lookups import folded
from ..texts import RestTexts
from .result import RestResult, at, extracted

Position = int | str
_LINK = r"<([^<>]*)>([^<]*)"
_QUERY = r"[\x21\x22\x24-\x7e]{0,4000}"


class PageCursor:
    """The position in a list, moved on with every part that was read."""

    def __init__(self, plan: ToolPlan, arguments: dict[str, Any], words: RestTexts, base: str) -> None:
        """Takes what belongs to paging out of the arguments."""
        assert plan.paging is not None
        self._paging = paging = plan.paging
        self._plan = plan
        self._base = base
        asked = _taken(plan, arguments, position_name(paging))
        self.position: Position | None = self._checked(asked, words)
        self.size = self._size(_taken(plan, arguments, paging.size), words)

    def _checked(self, asked: Any, words: RestTexts) -> Position | None:
        paging, name = self._paging, shown_name(self._plan, position_name(self._paging))
        if asked is None or asked == "":
            return paging.first if paging.kind in ("page", "offset") else None
        if paging.kind in ("page", "offset"):
            if not isinstance(asked, int) or asked < paging.first:
                raise ToolError(words.whole_number.format(name=name, least=paging.first))
            return asked
        if paging.kind == "link" and not re.fullmatch(_QUERY, text(asked)):
            raise ToolError(words.cursor.format(name=name))
        return text(asked)

    def _size(self, asked: Any, words: RestTexts) -> int:
        if self._plan.tool.all_pages:
            return self._paging.most
        if asked is None:
            return min(self._paging.default, self._paging.most)
        if not isinstance(asked, int) or asked < 1:
            name = shown_name(self._plan, self._paging.size)
            raise ToolError(words.whole_number.format(name=name, least=1))
        return min(asked, self._paging.most)

    def from_the_start(self) -> "PageCursor":
        """The same list in the biggest parts, from its beginning."""
        other = copy(self)
        other.size = self._paging.most
        other.position = self._paging.first if self._paging.kind in ("page", "offset") else None
        return other

    def cut(self, whole: RestResult) -> RestResult:
        """Our part of a list that was read as a whole, where position and size count its items."""
        if whole.items is None or self._paging.kind not in ("page", "offset"):
            return whole
        skipped = int(self.position or 0) - self._paging.first
        begin = skipped if self._paging.kind == "offset" else skipped * self.size
        items = whole.items[begin : begin + self.size]
        step = len(items) if self._paging.kind == "offset" else 1
        more = begin + self.size < len(whole.items)
        following = int(self.position or 0) + step if more else None
        return RestResult(items, items, len(whole.items), following, whole.truncated)

    def aimed(self, draft: RequestDraft) -> RequestDraft:
        """The draft for the part at our position."""
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
        """The query of a link. Callers hand it back to us, so what is always sent is not theirs to say."""
        auth = self._plan.table.auth
        always = [(name, value) for name, value in draft.query if name in self._plan.tool.fixed]
        ours = {name for name, _ in always} | ({auth.name} if auth.kind == "query" else set[str]())
        pairs = [pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) not in ours]
        return "&".join([*pairs, urlencoded(always)] if always else pairs)

    def total(self, answer: DecodedResponse) -> int | None:
        paging = self._paging
        said = answer.headers.get(paging.total_header.lower()) if paging.total_header else None
        if said is not None and said.strip().isdecimal():
            return int(said.strip()[:15])
        found = at(answer.value, paging.total) if paging.total else None
        return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None

    def after(self, answer: DecodedResponse, count: int, auth: Auth) -> Position | None:
        """Where the next part begins; None at the end."""
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
        """The query of the next link, if it is of the same list: elsewhere, it would carry the key there."""
        target = _next_target(header)
        if target is None:
            return None
        path, _, query = target.partition("#")[0].partition("?")
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
    """Of a Link header, the address whose relation is `next`. In one pass, however the header is written."""
    for target, about in re.findall(_LINK, header):
        for part in about.split(";"):
            name, _, value = part.partition("=")
            if name.strip().lower() == "rel" and "next" in value.strip(' \t",').lower().split():
                return target
    return None


def _has_key(pair: str, auth: Auth) -> bool:
    """Whether a part of a query is the key: ours is added to every request anyway."""
    named = pair.partition("=")[0] in (auth.name, quote(auth.name, safe=""))
    return HIDDEN_IN_LINK in pair or (auth.kind == "query" and named)


def _taken(plan: ToolPlan, arguments: dict[str, Any], called: str) -> Any:
    """The argument that the API knows by this name, which the tool may call otherwise."""
    if not called:
        return None
    name = shown_name(plan, called)
    return whole(arguments.pop(name if name in arguments else called, None))


class ItemFilter:
    """What the arguments ask for; false when they ask for nothing."""

    def __init__(self, plan: ToolPlan, arguments: Mapping[str, Any]) -> None:
        self._wanted = [
            (arguments[name], fields)
            for name, fields in plan.tool.filters.items()
            if arguments.get(name) not in (None, "")
        ]

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def fits(self, item: Any) -> bool:
        return all(any(_has(at(item, field), value) for field in fields) for value, fields in self._wanted)


def _has(found: Any, wanted: Any) -> bool:
    if isinstance(found, list):
        return any(_has(one, wanted) for one in cast(list[Any], found))
    if isinstance(wanted, str):
        return found is not None and folded(wanted) in folded(text(found))
    return (type(found) is not bool and found == wanted) or found is wanted


Progress = Callable[[float, float | None], Awaitable[None]]
"""Is told how many items were read, and of how many."""
MAX_PAGES = 200
"""Requests for one list, however small its parts are."""


class ResponseReader(Struct, frozen=True):
    plan: ToolPlan
    api: RestApi
    ask: Callable[[RequestDraft], Awaitable[DecodedResponse]]
    kept: Callable[[Any], Any]
    """What is kept of an object."""
    progress: Progress

    async def part(self, arguments: dict[str, Any]) -> RestResult:
        wanted = ItemFilter(self.plan, arguments)
        if self.plan.paging is None:
            return self._single(await self.ask(self._draft(arguments)), wanted)
        parts = PageCursor(self.plan, arguments, self.api.words, self.api.client.origin.base)
        if self.plan.tool.all_pages:
            return await self._every(parts, arguments, wanted)
        if wanted:
            chosen = parts.from_the_start()
            return parts.cut(await self._every(chosen, arguments, wanted))
        answer = await self.ask(parts.aimed(self._draft(arguments)))
        value, items = extracted(answer.value, self.plan.tool.result)
        if items is None:
            return RestResult(self.kept(value))
        following = parts.after(answer, len(items), self.api.table.auth)
        return RestResult(value, self._kept(items, wanted), parts.total(answer), following)

    def _single(self, answer: DecodedResponse, wanted: ItemFilter) -> RestResult:
        value, items = extracted(answer.value, self.plan.tool.result)
        if items is None:
            return RestResult(self.kept(value))
        return RestResult(value, self._kept(items, wanted))

    async def _every(self, parts: PageCursor, arguments: dict[str, Any], wanted: ItemFilter) -> RestResult:
        """All of a list, within its limits; what was left out is said."""
        assert self.plan.paging is not None
        most, found, read = self.plan.paging.most_items, list[Any](), 0
        total: int | None = None
        for _ in range(MAX_PAGES):
            answer = await self.ask(parts.aimed(self._draft(arguments)))
            value, items = extracted(answer.value, self.plan.tool.result)
            if items is None:
                return RestResult(self.kept(value))
            total, surplus = parts.total(answer), read + len(items) > most
            found += self._kept(items[: most - read], wanted)
            read += len(items)
            following = parts.after(answer, len(items), self.api.table.auth)
            if following is None or read >= most:
                return self._whole(found, total, wanted, cut=surplus or following is not None)
            await self.progress(read, None if total is None else min(total, most))
            parts.position = following
        return self._whole(found, total, wanted, cut=True)

    def _whole(self, found: list[Any], total: int | None, wanted: ItemFilter, *, cut: bool) -> RestResult:
        return RestResult(found, found, len(found) if wanted else total, truncated=cut)

    def _kept(self, items: list[Any], wanted: ItemFilter) -> list[Any]:
        return [self.kept(item) for item in items if wanted.fits(item)]

    def _draft(self, arguments: dict[str, Any]) -> RequestDraft:
        return draft(self.plan, arguments, self.api.words)
