"""What an upstream says during a call, on its way to the caller."""

from msgspec import Raw

from ..upstream.link import Params
from ..wire.call import Call
from ..wire.eras import SUBSCRIPTION_KEY
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.messages import decode_params
from .members import meta_of, raw, with_meta

PROGRESS = "notifications/progress"
MESSAGE = "notifications/message"
PASSED_ON = (PROGRESS, MESSAGE, "notifications/elicitation/complete")
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class CallEar:
    """Speaks to the caller of one call, whose progress token it puts back."""

    __slots__ = ("call", "token")
    asks_at_once = True

    def __init__(self, call: Call, token: str | None) -> None:
        self.call = call
        self.token = token

    @property
    def principal(self) -> str:
        return self.call.caller.identity.principal

    async def notify(self, method: str, params: Raw) -> None:
        if method not in PASSED_ON:
            return
        if method == PROGRESS:
            if self.call.progress_token is None:
                return
            if self.token is not None:
                members = decode_params(params, dict[str, Raw])
                members["progressToken"] = raw(self.call.progress_token)
                await self.call.channel.notify(method, members)
                return
        elif method == MESSAGE and not self._wants(params):
            return
        await self.call.channel.notify(method, params)

    def _wants(self, params: Raw) -> bool:
        """A session's level is set for all of its calls; each caller has a level of their own."""
        call = self.call
        if call.caller.era == "modern":
            wanted = call.caller.log_level
            if wanted is None:
                return False
        else:
            wanted = (call.session.log_level if call.session is not None else None) or "debug"
        try:
            level = decode_params(decode_params(params, dict[str, Raw]).get("level", Raw(b'""')), str)
        except McpError:
            return False
        return level in LEVELS and LEVELS.index(level) >= LEVELS.index(wanted)

    async def ask(self, method: str, params: Raw) -> Raw:
        """Legacy callers only: the question goes to them as it is."""
        return await self.call.channel.ask(method, params)

    async def release(self, retry_ms: int | None) -> None:
        """What is good for us may be good for our own client: its connection is free meanwhile."""
        await self.call.channel.release(retry_ms)


class ListenEar:
    """Passes on what a subscription brings, under the caller's own subscription id."""

    asks_at_once = False
    principal = ""  # it is no call: nothing is asked or told in its name

    def __init__(self, call: Call) -> None:
        self._call = call

    async def notify(self, method: str, params: Raw) -> None:
        members = decode_params(params, dict[str, Raw])
        await self._call.channel.notify(method, marked(members, self._call))

    async def ask(self, method: str, params: Raw) -> Raw:
        raise McpError(METHOD_NOT_FOUND, "nobody can be asked on a subscription")

    async def release(self, retry_ms: int | None) -> None:
        return None


def marked(members: Params, call: Call) -> Params:
    return with_meta(members, meta_of(members) | {SUBSCRIPTION_KEY: raw(call.id)})
