"""What all upstreams share: `Upstream`, the `Forward` that goes to it, the `Outcome` that comes back.

A view makes the `Forward`: from there on the name is resolved and the params are decoded. An upstream makes
the `Outcome`: from there on nobody looks into a result to learn its kind, or whether it failed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..wire.call import Call, CallTool, Secret, StreamedResult
from ..wire.messages import encode
from ..wire.seal import Sealer
from .attribution import ServerChannel
from .connection import Params, StartProgress, UpstreamInfo

ResultKind = Literal["complete", "input_required", "task"]


class Forward(Struct, frozen=True, gc=False):
    """One request for one upstream."""

    call: Call
    """The client's call: who asks, its channel, id, progress token and session."""
    method: str
    params: Params
    """Under the upstream's own names. Values are still JSON; the transport encodes the whole."""
    name: str | None = None
    """The tool, prompt or resource, as the upstream calls it; None if it is not in the catalogue."""
    safe: bool = False
    """It may run twice."""
    read_hint: str = ""
    """How the caller reads on where a result is cut short, with {id} for the id of the whole result."""
    headers: Mapping[str, str] | None = None
    """What this request carries over HTTP besides: mirrored arguments, keys, the id of a session."""
    secrets: Mapping[str, Secret] | None = None
    """The keys of the caller that are for this upstream."""
    request_id: str = ""
    """Names the request in logs and the audit; empty until something needs it."""
    task_arguments: Raw | None = None
    """For `tasks/result`: the arguments of the call that began the task, with options for its result."""
    marks: bool = True
    """What the server says to the user is marked as its words: false where nobody else can speak."""
    permits: Callable[[str], bool] | None = None
    """Whether the caller may use another tool of this upstream by its own name; None: all of them."""

    @property
    def binds(self) -> bool:
        """Whether state that travels with clients is bound to its caller: unless one server speaks to callers
        whom nobody tells apart."""
        return self.marks or self.call.caller.principal.kind != "local"

    @classmethod
    def of(cls, call: Call) -> "Forward":
        """A call that needs no translation: one in the gateway's own name."""
        return cls(call, call.method, call.members(), secrets=call.secrets)

    def as_call(
        self, call_tool: CallTool | None = None, sealer: Sealer | None = None, server: str = ""
    ) -> Call:
        """The same request as a call, for a server in this process."""
        channel = self.call.channel
        return replace(
            self.call,
            channel=ServerChannel(channel, server) if server and self.marks else channel,
            method=self.method,
            params=Raw(encode(self.params)),
            secrets=self.secrets,
            param_headers=None,
            call_tool=call_tool,
            sealer=sealer,
        )


class Outcome(Struct, frozen=True, gc=False):
    """How a request ended, unless it raised."""

    body: Raw | StreamedResult
    size: int
    kind: ResultKind = "complete"
    """As a modern client has to read it; always `complete` for a legacy one."""
    is_error: bool = False
    """The tool says that it failed. Not looked for in results that lie on disk."""

    @classmethod
    def of(cls, body: bytes, kind: ResultKind = "complete", *, is_error: bool = False) -> "Outcome":
        return cls(Raw(body), len(body), kind, is_error)

    def with_body(self, body: Raw | StreamedResult) -> "Outcome":
        size = body.size if isinstance(body, StreamedResult) else len(memoryview(body))
        return replace(self, body=body, size=size)


class Upstream(ABC):
    """A server behind the gateway: remote, in this process, or Composio.

    Nothing here has a default, so that no upstream, and none that wraps another, can forget what it has to
    do. `StatelessUpstream` is for those that have nothing to do.
    """

    runs_named_tools: bool
    """Whether some of its tools run or show others that their arguments name."""

    @abstractmethod
    async def send(self, forward: Forward) -> Outcome:
        """Answer a request; McpError as the server said it, UpstreamError if it did not answer."""

    @abstractmethod
    async def info(self, call: Call | None = None) -> UpstreamInfo:
        """What it says about itself to the client of a call, or to the gateway."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def reset(self) -> None:
        """Close what is open; the next request begins anew."""

    @abstractmethod
    async def idle(self) -> None:
        """Wait until no call waits for answers from its client."""

    @abstractmethod
    def close_idle(self) -> None:
        """Close connections that nobody has used for a while."""

    @abstractmethod
    def starting(self) -> StartProgress | None:
        """How a first connection that is being opened gets on; None if none is."""

    # What a client does

    @abstractmethod
    def client_seen(self, call: Call) -> None:
        """A client introduced itself: what we ask in our own name, we ask as it would."""

    @abstractmethod
    def end_session(self, call: Call) -> None:
        """A legacy client ended its session: close what was opened for it alone."""

    @abstractmethod
    def is_own(self, call: Call) -> bool:
        """Whether the client of a call has a session of its own, in which nobody else speaks."""

    @abstractmethod
    async def notified(self, call: Call) -> None:
        """A client said something that wants no answer, such as that it has other folders open now."""

    @abstractmethod
    async def listen(self, call: Call) -> None:
        """Tell a legacy client what is said outside of calls in its own session; returns if it has none."""

    @abstractmethod
    def abandon(self, state: str) -> None:
        """Nobody will answer the questions of the call with this `requestState`."""


class StatelessUpstream(Upstream):
    """Opens nothing for a client and waits for none."""

    runs_named_tools = False

    async def reset(self) -> None:
        return

    async def idle(self) -> None:
        return

    def close_idle(self) -> None:
        return

    def starting(self) -> StartProgress | None:
        return None

    def client_seen(self, call: Call) -> None:
        return

    def end_session(self, call: Call) -> None:
        return

    def is_own(self, call: Call) -> bool:
        return False

    async def notified(self, call: Call) -> None:
        return

    async def listen(self, call: Call) -> None:
        return

    def abandon(self, state: str) -> None:
        return


class WrappedUpstream(Upstream):
    """Adds something to `send`, and passes everything else on."""

    def __init__(self, inner: Upstream) -> None:
        self._inner = inner
        self.runs_named_tools = inner.runs_named_tools

    async def info(self, call: Call | None = None) -> UpstreamInfo:
        return await self._inner.info(call)

    async def reset(self) -> None:
        await self._inner.reset()

    async def idle(self) -> None:
        await self._inner.idle()

    async def close(self) -> None:
        await self._inner.close()

    def close_idle(self) -> None:
        self._inner.close_idle()

    def starting(self) -> StartProgress | None:
        return self._inner.starting()

    def client_seen(self, call: Call) -> None:
        self._inner.client_seen(call)

    def end_session(self, call: Call) -> None:
        self._inner.end_session(call)

    def is_own(self, call: Call) -> bool:
        return self._inner.is_own(call)

    async def notified(self, call: Call) -> None:
        await self._inner.notified(call)

    async def listen(self, call: Call) -> None:
        await self._inner.listen(call)

    def abandon(self, state: str) -> None:
        self._inner.abandon(state)
