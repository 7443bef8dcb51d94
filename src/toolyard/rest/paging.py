"""Reading lists in parts: which part is asked for, how many there are in all, and what comes next."""

import re
from copy import copy
from typing import Any
from urllib.parse import quote, unquote_plus

from ..kit import ToolError
from .api import Answer
from .arguments import whole
from .auth import HIDDEN_IN_LINK
from .forms import urlencoded
from .plan import Plan
from .replies import at
from .requests import Draft, text
from .results import Part
from .schemas import position_name, shown_name
from .table import Auth
from .wording import Words

Position = int | str
_LINK = r"<([^<>]*)>([^<]*)"
_QUERY = r"[\x21\x22\x24-\x7e]{0,4000}"


class Parts:
    """The position in a list, moved on with every part that was read."""

    def __init__(self, plan: Plan, arguments: dict[str, Any], words: Words, base: str) -> None:
        """Takes what belongs to paging out of the arguments."""
        assert plan.paging is not None
        self._paging = paging = plan.paging
        self._plan = plan
        self._base = base
        asked = _taken(plan, arguments, position_name(paging))
        self.position: Position | None = self._checked(asked, words)
        self.size = self._size(_taken(plan, arguments, paging.size), words)

    def _checked(self, asked: Any, words: Words) -> Position | None:
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

    def _size(self, asked: Any, words: Words) -> int:
        if self._plan.tool.all_pages:
            return self._paging.most
        if asked is None:
            return min(self._paging.default, self._paging.most)
        if not isinstance(asked, int) or asked < 1:
            name = shown_name(self._plan, self._paging.size)
            raise ToolError(words.whole_number.format(name=name, least=1))
        return min(asked, self._paging.most)

    def from_the_start(self) -> "Parts":
        """The same list in the biggest parts, from its beginning."""
        other = copy(self)
        other.size = self._paging.most
        other.position = self._paging.first if self._paging.kind in ("page", "offset") else None
        return other

    def cut(self, whole: Part) -> Part:
        """Our part of a list that was read as a whole, where position and size count its items."""
        if whole.items is None or self._paging.kind not in ("page", "offset"):
            return whole
        skipped = int(self.position or 0) - self._paging.first
        begin = skipped if self._paging.kind == "offset" else skipped * self.size
        items = whole.items[begin : begin + self.size]
        step = len(items) if self._paging.kind == "offset" else 1
        more = begin + self.size < len(whole.items)
        following = int(self.position or 0) + step if more else None
        return Part(items, items, len(whole.items), following, whole.truncated)

    def aimed(self, draft: Draft) -> Draft:
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

    def _continued(self, query: str, draft: Draft) -> str:
        """The query of a link. Callers hand it back to us, so what is always sent is not theirs to say."""
        auth = self._plan.table.auth
        always = [(name, value) for name, value in draft.query if name in self._plan.tool.fixed]
        ours = {name for name, _ in always} | ({auth.name} if auth.kind == "query" else set[str]())
        pairs = [pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) not in ours]
        return "&".join([*pairs, urlencoded(always)] if always else pairs)

    def total(self, answer: Answer) -> int | None:
        paging = self._paging
        said = answer.headers.get(paging.total_header.lower()) if paging.total_header else None
        if said is not None and said.strip().isdecimal():
            return int(said.strip()[:15])
        found = at(answer.value, paging.total) if paging.total else None
        return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None

    def after(self, answer: Answer, count: int, auth: Auth) -> Position | None:
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


def _taken(plan: Plan, arguments: dict[str, Any], called: str) -> Any:
    """The argument that the API knows by this name, which the tool may call otherwise."""
    if not called:
        return None
    name = shown_name(plan, called)
    return whole(arguments.pop(name if name in arguments else called, None))
