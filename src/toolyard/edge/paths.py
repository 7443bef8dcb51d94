"""Several endpoints on one server: `/mcp` for everything, `/mcp/NAME` for one upstream, pages beside them."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct

from ..wire.errors import InvalidRequest
from ..wire.messages import encode, encode_error
from .asgi import Receive, Scope, Send, send_json
from .http import HttpEdge

App = Callable[[Scope, Receive, Send], Awaitable[None]]
Shown = tuple[str, bytes]


class Page(Struct, frozen=True):
    """A page beside the endpoints: its content type and bytes, and those for whoever may not see it all."""

    whole: Callable[[], Shown | Awaitable[Shown]]
    brief: Callable[[], Shown | Awaitable[Shown]] | None = None


class Endpoint(Protocol):
    """What can be served: an edge, or several behind one."""

    @property
    def path(self) -> str: ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def close(self) -> None: ...


class Paths:
    """`open(name)` makes the edge of a name, or returns None when there is no such thing (any more).

    `routes` are apps of their own, by how the paths begin that they answer. They see to it whom they let in.
    """

    def __init__(
        self,
        path: str,
        main: HttpEdge,
        names: Callable[[], list[str]],
        open: Callable[[str, str], HttpEdge],
        pages: dict[str, Page],
        start: Callable[[], Any],
        stop: Callable[[], Any],
        routes: Mapping[str, App] = MappingProxyType({}),
    ) -> None:
        self.path = path
        self._main = main
        self._names = names
        self._open = open
        self._pages = pages
        self._start = start
        self._stop = stop
        self._routes = routes
        self._edges: dict[str, HttpEdge] = {}
        self._started = False
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        path: str = scope["path"]
        if path == self.path or scope["type"] != "http":
            await self._main(scope, receive, send)
            return
        page = self._pages.get(path)
        if page is not None and scope["method"] in ("GET", "HEAD"):
            await self._show(page, scope, receive, send)
            return
        route = next((app for start, app in self._routes.items() if path.startswith(start)), None)
        if route is not None:
            await route(scope, receive, send)
            return
        edge = await self._edge_of(path)
        if edge is None:
            error = InvalidRequest(f"Nothing at {path[:80]!r}; the MCP endpoint is {self.path!r}")
            await send_json(send, 404, encode_error(None, error), [])
        else:
            await edge(scope, receive, send)

    async def _show(self, page: Page, scope: Scope, receive: Receive, send: Send) -> None:
        """Those who would not be let in at the endpoint, or come by another name, see less or nothing."""
        if await self._main.admits(scope, receive):
            await _send_page(send, page.whole())
        elif page.brief is not None:
            await _send_page(send, page.brief())
        else:
            error = InvalidRequest("Not for you: the Host is not one of ours, or the credentials are missing")
            await send_json(send, 403, encode_error(None, error), [])

    async def _edge_of(self, path: str) -> HttpEdge | None:
        if path.rstrip("/") == self.path:
            return self._main
        start = f"{self.path}/"
        if not path.startswith(start):
            return None
        name = path.removeprefix(start).rstrip("/")
        names = self._names()
        for gone in [known for known in self._edges if known not in names]:
            await self._edges.pop(gone).close()
        if name not in names:
            return None
        if name not in self._edges:
            self._edges[name] = self._open(name, start + name)
        return self._edges[name]

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                await self.begin()
                await send({"type": "lifespan.startup.complete"})
            elif event["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def begin(self) -> None:
        if not self._started:
            self._started = True
            await self._start()

    async def close(self) -> None:
        """End open streams and background work, then what all of it stands on."""
        if self._closed:
            return
        self._closed = True
        for edge in [self._main, *self._edges.values()]:
            await edge.close()
        await self._stop()


async def _send_page(send: Send, shown: Shown | Awaitable[Shown]) -> None:
    content_type, body = await shown if inspect.isawaitable(shown) else shown
    head = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


def json_page(whole: Callable[[], Awaitable[Any]], brief: Callable[[Any], Any]) -> Page:
    """`brief` makes of the whole what everybody may see."""

    async def shown() -> Shown:
        return "application/json", encode(await whole())

    async def shortened() -> Shown:
        return "application/json", encode(brief(await whole()))

    return Page(shown, shortened)
