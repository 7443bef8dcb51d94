"""An upstream that each caller reaches with an account of its own, and what happens while one has none.

Connections, and whatever a server remembers in a session, are never shared between principals: each has an
inner upstream. A call that needs the caller's consent asks for it: by URL elicitation if the client can show
one, else the result says where to go.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..kit.calls.content import error_result
from ..kit.calls.input_requests import Answer, ElicitUrl
from ..kit.schema.validation import MismatchError
from ..languages import said
from ..upstream.accounts import AccountAuth, Accounts, ConsentLink
from ..upstream.base import Forward, Outcome, Upstream
from ..upstream.connection import GATEWAY_CALLER, StartProgress, UpstreamInfo
from ..upstream.errors import ConsentRequiredError, NotReachedError, UpstreamBusyError
from ..wire.call import Call, Caller, Principal
from ..wire.errors import InvalidParams, McpError, MissingCapability
from ..wire.messages import decode_params, encode
from ..wire.seal import BrokenSeal, Sealer, digest
from ..wire.types import InputRequiredResult
from .mount import PausingChannel

MAX_PRINCIPALS = 1000
IDLE_SECONDS = 900.0
BUSY_SECONDS = 5.0
WAIT_SECONDS = 40.0
"""How long a call waits for a user who has agreed to open the page; less than most clients wait."""
STATE_SECONDS = 900.0
KEY = "consent"
"""Of our question among `inputRequests`."""
_PURPOSE = "consent"


class _AskedState(Struct, array_like=True):
    """What travels in `requestState`: that this caller was asked, about this call."""

    principal: str
    request: str
    expires: float
    inner: str | None = None


class _Inner(Struct, eq=False):
    """What one principal uses."""

    upstream: Upstream
    used: float
    auth: AccountAuth | None = None
    """None if all share it."""
    calls: int = 0
    """How many are under way."""


class AccountUpstream(Upstream):
    """`open` makes the inner upstream of a principal; lists are read as `lister`.

    There are `most` of them at a time; those that nobody has used for `idle` seconds are closed. With
    `is_one` a single one serves all principals, because it tells them apart itself. It stays: `open` has no
    other.
    """

    runs_named_tools = False

    def __init__(
        self,
        accounts: Accounts,
        open: Callable[[Principal], Upstream],
        lister: Callable[[], Principal],
        sealer: Sealer,
        clock: Callable[[], float] = time.time,
        *,
        most: int = MAX_PRINCIPALS,
        idle: float = IDLE_SECONDS,
        is_one: bool = False,
    ) -> None:
        self.accounts = accounts
        self._server = accounts.server
        self._open = open
        self._lister = lister
        self._sealer = sealer
        self._clock = clock
        self._most = most
        self._idle = idle
        self._is_closed = False
        self._is_one = is_one
        self._inner: OrderedDict[tuple[str, ...], _Inner] = OrderedDict()
        self._last: tuple[Principal, _Inner] | None = None
        """The one that was asked for last: a call asks for its own twice."""
        self._closing: set[asyncio.Task[None]] = set()

    def _key(self, principal: Principal) -> tuple[str, ...]:
        return () if self._is_one else self.accounts.key(principal)

    def _find(self, principal: Principal) -> _Inner | None:
        """The principal's, if there is one; it is in use now."""
        last = self._last
        if last is not None and last[0] is principal:
            found = last[1]
        else:
            key = self._key(principal)
            if (known := self._inner.get(key)) is None:
                return None
            self._inner.move_to_end(key)
            self._last, found = (principal, known), known
        found.used = time.monotonic()
        return found

    def _of(self, principal: Principal) -> _Inner:
        found = self._find(principal)
        if found is None:
            if self._is_closed:  # as for a call that waited for its user meanwhile
                raise NotReachedError(self._server, "it is being unmounted")
            while len(self._inner) >= self._most:
                self._drop(self._unused())
            auth = None if self._is_one else self.accounts.authorizer(principal)
            found = self._inner[self._key(principal)] = _Inner(self._open(principal), time.monotonic(), auth)
        return found

    def _unused(self) -> tuple[str, ...]:
        """The one that was used longest ago and has no call under way."""
        found = next((key for key, inner in self._inner.items() if not inner.calls), None)
        if found is None:
            reason = said(
                f"{self._most} callers use it now, and each needs a connection of its own; try again",
                f"{self._most} usuários o usam agora, cada um por uma conexão própria; tente de novo",
            )
            raise UpstreamBusyError(self._server, reason, BUSY_SECONDS)
        return found

    async def _send(self, principal: Principal, forward: Forward) -> Outcome:
        inner = self._of(principal)
        inner.calls += 1
        try:
            return await inner.upstream.send(forward)
        finally:
            inner.calls -= 1

    def _drop(self, key: tuple[str, ...]) -> None:
        self._last = None
        task = asyncio.create_task(_finish(self._inner.pop(key).upstream))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # Calls

    def prepare(self, forward: Forward) -> Awaitable[object] | None:
        """What the caller's credential has to wait for, such as a refresh; it raises what `send` would."""
        caller = forward.call.caller
        if caller is GATEWAY_CALLER:
            return None
        if _is_resumed(forward):
            return self._prepare(forward)
        known = self._find(caller.identity.principal)
        if known is not None and known.auth is not None and known.auth.is_ready:
            return None
        return self._prepare(forward)

    async def _prepare(self, forward: Forward) -> None:
        with self.accounts.acting(forward.call):
            await self._wait_if_agreed(forward)
            await self.accounts.authorizer(forward.call.caller.identity.principal).prepare()

    def agreed(self, forward: Forward) -> Awaitable[object] | None:
        """The user at the page, if a modern client comes back with the answer to our question."""
        return self._wait_if_agreed(forward) if _is_resumed(forward) else None

    async def _wait_if_agreed(self, forward: Forward) -> None:
        if _is_resumed(forward) and self._asked(forward) is not None:
            answer = _answer(forward)
            if answer is not None and answer.accepted:
                await self.accounts.wait(forward.call.caller.identity.principal, WAIT_SECONDS)

    async def send(self, forward: Forward) -> Outcome:
        caller = forward.call.caller
        if caller is GATEWAY_CALLER:
            return await self._send(self._lister(), forward)
        with self.accounts.acting(forward.call):
            if _is_resumed(forward):
                asked = self._asked(forward)
                if asked is not None:
                    return await self._resume(forward, asked)
            try:
                return await self._send(caller.identity.principal, forward)
            except ConsentRequiredError as error:
                return await self._ask(forward, error)

    async def _ask(self, forward: Forward, error: ConsentRequiredError) -> Outcome:
        call = forward.call
        principal = call.caller.identity.principal
        link = await self.accounts.link(principal, error.scopes, error.earlier)
        question = ElicitUrl(
            said(f"Toolyard asks: {link.message}", f"Toolyard pergunta: {link.message}"), link.url
        )
        try:
            question.require(call.caller)
        except MissingCapability:
            return self._told(forward, link)
        if call.caller.era == "modern":
            return self._question(forward, question)
        try:
            params = {"mode": "url", "message": question.message, "url": link.url, "elicitationId": link.id}
            answer = question.read(await call.channel.ask("elicitation/create", params))
        except (McpError, MismatchError):
            return self._told(forward, link)
        if not answer.accepted:
            return self._told(forward, link, declined=True)
        if not await self._wait(call, principal):
            return self._told(forward, link)
        await call.channel.notify("notifications/elicitation/complete", {"elicitationId": link.id})
        return await self._send(principal, forward)

    async def _wait(self, call: Call, principal: Principal) -> bool:
        """Wait for the user at the page, and keep no slot of the server meanwhile."""
        if not isinstance(call.channel, PausingChannel):
            return await self.accounts.wait(principal, WAIT_SECONDS)
        async with call.channel.pausing():
            return await self.accounts.wait(principal, WAIT_SECONDS)

    def _question(self, forward: Forward, question: ElicitUrl) -> Outcome:
        """A modern client asks its user and comes back."""
        own = forward.params.get("requestState")
        state = _AskedState(
            forward.call.caller.identity.principal.binding,
            _fingerprint(forward),
            self._clock() + STATE_SECONDS,
            None if own is None else bytes(own).decode(),
        )
        result = InputRequiredResult(
            result_type="input_required",
            input_requests={KEY: question.request("modern")},
            request_state=self._sealer.seal(msgspec.json.encode(state), _PURPOSE),
        )
        return Outcome.of(encode(result), "input_required")

    def _asked(self, forward: Forward) -> _AskedState | None:
        """None if the state is not ours."""
        try:
            opened = self._sealer.open(decode_params(forward.params["requestState"], str), _PURPOSE)
            state = msgspec.json.decode(opened, type=_AskedState)
        except (BrokenSeal, msgspec.DecodeError, McpError):
            return None
        mine = (forward.call.caller.identity.principal.binding, _fingerprint(forward))
        if (state.principal, state.request) != mine or state.expires <= self._clock():
            raise InvalidParams("requestState belongs to another request, or has expired")
        return state

    async def _resume(self, forward: Forward, asked: _AskedState) -> Outcome:
        """The client came back with its user's answer to our question, and `prepare` waited for the user."""
        principal = forward.call.caller.identity.principal
        rest = {
            key: value
            for key, value in forward.params.items()
            if key not in ("requestState", "inputResponses")
        }
        if asked.inner is not None:
            rest["requestState"] = Raw(asked.inner.encode())
        again = replace(forward, params=rest)
        answer = _answer(forward)
        if answer is not None and not answer.accepted:
            return self._told(again, await self.accounts.link(principal), declined=True)
        try:
            return await self._send(principal, again)
        except ConsentRequiredError as error:
            return await self._ask(again, error)

    def _told(self, forward: Forward, link: ConsentLink, *, declined: bool = False) -> Outcome:
        """Tells where to go: a model reads the result of a tool, and everybody else an error."""
        refusal = (
            said("The user did not want to connect it now. ", "O usuário não quis conectá-lo agora. ")
            if declined
            else ""
        )
        text = said(
            f"{refusal}{link.message} {link.url} — then call again.",
            f"{refusal}{link.message} {link.url} — depois, chame de novo.",
        )
        if forward.method != "tools/call":
            raise ConsentRequiredError(self._server, text)
        return Outcome.of(encode(_result(forward.call.caller, text)), is_error=True)

    # Upstream

    async def info(self, call: Call | None = None) -> UpstreamInfo:
        whose = self._lister() if call is None else call.caller.identity.principal
        return await self._of(whose).upstream.info(call)

    async def reset(self) -> None:
        for inner in list(self._inner.values()):
            await inner.upstream.reset()

    async def idle(self) -> None:
        for inner in list(self._inner.values()):
            await inner.upstream.idle()

    def close_idle(self) -> None:
        now = time.monotonic()
        for key, inner in list(self._inner.items()):
            if now - inner.used > self._idle and not inner.calls and not self._is_one:
                self._drop(key)
            else:
                inner.upstream.close_idle()

    async def close(self) -> None:
        self._is_closed = True
        for key in list(self._inner):
            self._drop(key)
        if self._closing:
            await asyncio.wait(list(self._closing))
        await self.accounts.close()

    def starting(self) -> StartProgress | None:
        return None

    def client_seen(self, call: Call) -> None:
        return None

    def end_session(self, call: Call) -> None:
        inner = self._known(call)
        if inner is not None:
            inner.end_session(call)

    def is_own(self, call: Call) -> bool:
        inner = self._known(call)
        return inner is not None and inner.is_own(call)

    async def notified(self, call: Call) -> None:
        inner = self._known(call)
        if inner is not None:
            await inner.notified(call)

    async def listen(self, call: Call) -> None:
        inner = self._known(call)
        if inner is not None:
            await inner.listen(call)

    def abandon(self, state: str) -> None:
        for inner in self._inner.values():
            inner.upstream.abandon(state)

    def _known(self, call: Call) -> Upstream | None:
        found = self._inner.get(self._key(call.caller.identity.principal))
        return None if found is None else found.upstream


async def _finish(inner: Upstream) -> None:
    await inner.idle()
    await inner.close()


def _is_resumed(forward: Forward) -> bool:
    return "requestState" in forward.params and forward.call.caller.era == "modern"


def _answer(forward: Forward) -> Answer[None] | None:
    """The user's answer to our question."""
    answers = decode_params(forward.params.get("inputResponses", Raw(b"{}")), dict[str, Raw])
    if KEY not in answers:
        return None
    try:
        return ElicitUrl("", "").read(answers[KEY])
    except MismatchError as error:
        raise InvalidParams(f"inputResponses[{KEY!r}]: {error}") from None


def _fingerprint(forward: Forward) -> str:
    asked = {key: value for key, value in forward.params.items() if key in ("name", "arguments", "uri")}
    return digest(forward.method.encode(), msgspec.json.encode(asked))


def _result(caller: Caller, text: str) -> object:
    result = error_result(text)
    if caller.era == "modern":
        return replace(result, result_type="complete")
    return result
