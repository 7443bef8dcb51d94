"""What the methods of every feature need: the server, pages, caching hints, and a net for authors' bugs."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw

from ...wire.call import Call
from ...wire.errors import INTERNAL_ERROR, InternalError, InvalidParams, McpError, MethodNotFound
from ...wire.messages import decode_params
from ...wire.types import Cacheable, ListParams, RoundTrip
from ..content import ToolError
from ..context import Context
from ..direct import Direct
from ..pages import N, page
from ..rounds import Detached, InputRequired, Rounds, fingerprint, settle
from ..running import reraise_signals
from ..schema import Mismatch
from ..tool import logger

if TYPE_CHECKING:
    from ..server import Server

T = TypeVar("T")
C = TypeVar("C", bound=Cacheable)

Answer = Callable[[Call], Awaitable[Any]]
Table = dict[str, Answer]


class Methods:
    """One feature. `shared` answers in both eras, `modern` and `legacy` in one."""

    shared: Table
    modern: Table
    legacy: Table

    def __init__(self, server: "Server") -> None:
        self._server = server
        self.shared, self.modern, self.legacy = {}, {}, {}

    def _need(self, call: Call, feature: str) -> None:
        """A feature that never had an item is one we did not declare, and so an unknown method."""
        if feature not in self._server.features:
            raise MethodNotFound(call.method)

    def _page(self, call: Call, items: Iterable[N]) -> tuple[list[N], str | None]:
        return page(items, decode_params(call.params, ListParams).cursor, self._server.page_size)

    def _cached(self, call: Call, result: C) -> C:
        if call.caller.era == "modern":
            result.ttl_ms = int(self._server.cache_ttl * 1000)
            result.cache_scope = self._server.cache_scope
        return result

    def _context(
        self, call: Call, trip: RoundTrip, name: str, arguments: Raw, may_detach: bool = False
    ) -> Context:
        if call.caller.era == "legacy":
            return Context(call, Direct(call))
        server = self._server
        rounds = Rounds(call, trip, fingerprint(name, arguments), server.sealer, server.state_ttl)
        rounds.may_detach = may_detach
        return Context(call, rounds)


def check_own(signal: InputRequired | Detached, context: Context | None) -> None:
    """Let a signal pass that belongs to another call, whose tool uses ours as a client."""
    if context is None:
        raise signal
    context.check_own(signal)


async def guarded(running: Awaitable[T], what: str) -> T:
    """Resources and prompts have no error result to put a failure in."""
    try:
        return await settle(running)
    except McpError:
        raise
    except Mismatch as error:
        raise InvalidParams(f"Invalid arguments for {what}: {error}") from None
    except ToolError as error:
        raise McpError(INTERNAL_ERROR, str(error)) from None
    except BaseException as error:
        reraise_signals(error)
        logger.error("%s failed", what, exc_info=error)
        raise InternalError() from None
