"""What is used of the limits over HTTP, for a console and for `toolyard usage`: `GET /usage`.

Owns who sees which counter. The local user on the machine itself sees all of them. Others need the scope, and
see those of their tenant and those that they share with other tenants; servers and tools that do not exist
for them have no counters either. Counting and reading are in `limits`.
"""

from collections.abc import Awaitable, Callable

from ..catalogue.scope import VisibleCatalogue
from ..edge.request import Receive, Refused, Scope, Send
from ..limits import Limiter
from ..limits.usage import CounterFilter, UsageReport
from ..wire.call import Principal
from .operators import answer, require_method, require_scope

USAGE_PATH = "/usage"
USAGE_SCOPE = "usage"

AuthorizeReader = Callable[[Scope, Receive], Awaitable[CounterFilter | None]]
"""Says which counters the sender of a request sees, None for all; raises `Refused` if it may not ask."""


def filter_of(
    principal: Principal, catalogue_of: Callable[[Principal], VisibleCatalogue]
) -> CounterFilter | None:
    """Which counters a principal sees; None for all. Raises `Refused` for one without the scope."""
    require_scope(principal, USAGE_SCOPE)
    if principal.kind == "local":
        return None
    catalogue = catalogue_of(principal)

    def sees(per: str, names: tuple[str | None, ...]) -> bool:
        match per, names:
            case (("user" | "agent" | "tenant"), (tenant, *_)):
                return tenant == principal.tenant
            case "server", (str(server),):
                return server in catalogue.servers
            case "tool", (str(server), str(tool)):
                # Prompts and resources are counted under no name.
                return server in catalogue.servers and (not tool or catalogue.permits(server, tool))
            case _:
                return per == "all"

    return sees


class UsageApi:
    """An ASGI app for the path `/usage`. `limiter` is asked each time: a changed file may bring another."""

    def __init__(self, limiter: Callable[[], Limiter | None], authorize: AuthorizeReader) -> None:
        self._limiter = limiter
        self._authorize = authorize

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, self._report(scope, receive))

    async def _report(self, scope: Scope, receive: Receive) -> UsageReport:
        sees = await self._authorize(scope, receive)
        if scope["path"].rstrip("/") != USAGE_PATH:
            raise Refused(404, f"use GET {USAGE_PATH}")
        require_method(scope, "GET")
        limiter = self._limiter()
        if limiter is None:
            raise Refused(404, "this gateway has no limits")
        return await limiter.usage(sees)
