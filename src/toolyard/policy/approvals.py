"""A call that a rule wants a person to confirm: asks the person, and says how the call goes on.

Three ways, in this order: it was approved for the whole conversation before; the client can ask its user (in
the legacy era on the call's stream, in the modern one by ending the call as `input_required`); or the call
waits in the state store until somebody decides (`pending`). A call that nobody decides is refused.

In the modern era a confirmation travels in `requestState`: it is signed, bound to the principal, the tool
and the arguments, has an end, and works once. If the upstream asks for input in turn, its own state travels
inside ours, so that the confirmation is not asked for again. What was approved for the conversation needs
none of that: the next round is approved like this one.

ConfirmationError            the call was not made
├── RefusedByUserError       a person said no, or the client could not ask
├── ApprovalTimeoutError     nobody decided in time
└── ApprovalUnavailableError the state store is needed for it, and is not available
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..kit.calls.content import ToolError, error_result
from ..kit.calls.input_requests import Elicit
from ..kit.schema.validation import MismatchError
from ..languages import said
from ..state.store import State, StateError
from ..upstream.base import Forward, Outcome
from ..wire.call import SERVER_KEY, Call, Caller, Principal, thread_of
from ..wire.errors import NOT_CONFIRMED, InvalidParams, McpError, MissingCapability
from ..wire.messages import decode_params, encode
from ..wire.seal import BrokenSeal, Sealer, digest
from ..wire.types import Implementation, InputRequiredResult
from .description import CallDescription, as_text, describe, own_outcome
from .pending import ConversationTool, PendingApproval, PendingApprovals, TooManyPendingError

logger = logging.getLogger("toolyard.policy")

CONFIRM_SECONDS = 300.0
ALWAYS_SECONDS = 8 * 3600.0
ROUNDS_SECONDS = 3600.0
"""How long a confirmed call may go on asking for input."""
SKEW_SECONDS = 86_400.0
"""How much longer than a confirmation its use is remembered: clocks differ, and may be set back."""
PROGRESS_SECONDS = 5.0
KEY = "approval"
"""Of our question among `inputRequests`."""
_PURPOSE = "confirm"
_ROUND = ("requestState", "inputResponses")

How = Literal["elicitation", "conversation", "approvals"]
APPROVE, ALWAYS, REFUSE = "approve", "always for this conversation", "refuse"
_IN_PORTUGUESE = {APPROVE: "aprovar", ALWAYS: "sempre nesta conversa", REFUSE: "recusar"}


class ConfirmationError(McpError, ToolError):
    """The call was not made. As a ToolError its text reaches the model where a meta tool called."""

    reason = ""

    def __init__(self, call: CallDescription, why: str, *, by: str = "", how: How | None = None) -> None:
        text = said(
            f"{call.tool!r} of the server {call.server!r} was not called: {why}",
            f"{call.tool!r} do servidor {call.server!r} não foi chamado: {why}",
        )
        super().__init__(NOT_CONFIRMED, text, {"rule": call.rule, "reason": self.reason})
        self.rule = call.rule
        self.by = by
        self.how: How | None = how

    def __str__(self) -> str:
        return self.message

    def outcome(self, caller: Caller, implementation: Implementation) -> Outcome:
        """The same as a failed result, for a model to read."""
        return own_outcome(caller, error_result(self.message), implementation)


class RefusedByUserError(ConfirmationError):
    reason = "refused"


class ApprovalTimeoutError(ConfirmationError):
    reason = "timeout"


class ApprovalUnavailableError(ConfirmationError):
    reason = "unavailable"


class Approval(Struct, frozen=True, eq=False):
    """A person's consent to one call."""

    by: str
    how: How
    forward: Forward
    """The call as it goes on, without what our question added to it."""
    passed: Callable[[Outcome], Outcome]
    """Call it with the outcome: what the upstream asks in turn gets a state that says it was confirmed."""


class _Confirmation(Struct, array_like=True):
    """What travels in `requestState`: that the user was asked, or who confirmed the call."""

    id: str
    principal: str
    request: str
    expires: float
    by: str | None = None
    """None until somebody confirmed."""
    how: How = "elicitation"
    inner: str | None = None
    """The upstream's own `requestState`, as JSON."""


class _Question(Struct, frozen=True):
    """One call that has to be confirmed."""

    forward: Forward
    call: CallDescription
    fingerprint: str
    tool: ConversationTool | None
    """None if the call belongs to no conversation."""

    @property
    def principal(self) -> Principal:
        return self.forward.call.caller.principal

    @property
    def user(self) -> str:
        """Who answers when the client asks its user."""
        return self.principal.user or said("the local user", "o usuário local")


class Approvals:
    """`one_client`: all calls are one conversation, as over stdio."""

    def __init__(
        self,
        state: State,
        sealer: Sealer,
        implementation: Implementation,
        seconds: float = CONFIRM_SECONDS,
        *,
        always_seconds: float = ALWAYS_SECONDS,
        one_client: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.pending = PendingApprovals(state, now=now)
        self.seconds = seconds
        """How long a person has to decide. A new configuration may change it."""
        self._sealer = sealer
        self._implementation = implementation
        self._always_seconds = always_seconds
        # Not the same for the next process, which is another conversation.
        self._thread = f"process-{secrets.token_hex(8)}" if one_client else ""
        self._bindings: set[str] = set()
        """Who has approved something for the conversation that is this process."""
        self._now = now

    async def ask(self, forward: Forward, server: str, tool: str, rule: str) -> Approval | Outcome:
        """Have a call confirmed. An `Outcome` is the question, for the client; raises ConfirmationError."""
        question = self._question(forward, server, tool, rule)
        is_modern = forward.call.caller.era == "modern"
        state = forward.params.get("requestState") if is_modern else None
        confirmation = None if state is None else self._open(question, state)
        if confirmation is not None:
            return await self._resume(question, confirmation)
        by = await self._approved_before(question)
        if by is not None:
            return Approval(by, "conversation", forward, _unchanged)
        if state is not None:
            raise InvalidParams("requestState was not issued by this server, or was altered")
        if _can_be_asked(forward.call.caller):
            return self._input_required(question) if is_modern else await self._elicit(question)
        return await self._wait(question)

    async def end_session(self, call: Call) -> None:
        """A session has ended. It was the conversation, unless its client has named one."""
        thread = "" if call.caller.identity.thread else thread_of(call)
        if thread:
            await self._end(call.caller.principal.binding, thread)

    async def close(self) -> None:
        """Over stdio the conversation ends with the process."""
        for binding in self._bindings:
            await self._end(binding, self._thread)

    async def _end(self, binding: str, thread: str) -> None:
        try:
            await self.pending.end_conversation(binding, thread)
        except StateError as error:
            logger.warning("what was approved for a conversation outlives it for some hours: %s", error)

    def _question(self, forward: Forward, server: str, tool: str, rule: str) -> _Question:
        binding = forward.call.caller.principal.binding
        thread = thread_of(forward.call) or self._thread
        return _Question(
            forward,
            describe(forward, server, tool, rule),
            _fingerprint(forward, server, tool),
            ConversationTool(binding, thread, server, tool) if thread else None,
        )

    # Approved before

    async def _approved_before(self, question: _Question) -> str | None:
        if question.tool is None:
            return None
        try:
            return await self.pending.remembered(question.tool)
        except StateError as error:
            logger.warning("cannot read what was approved for a conversation; it is asked again: %s", error)
            return None

    async def _remember(self, question: _Question, by: str) -> None:
        if question.tool is None:
            return
        if question.tool.thread == self._thread:
            self._bindings.add(question.tool.principal)
        try:
            await self.pending.remember(question.tool, question.call, by, self._always_seconds)
        except StateError as error:
            logger.warning("an approval holds for one call only, not for its conversation: %s", error)

    # The client asks its user

    def _form(self, question: _Question) -> Elicit:
        call = question.call
        choices = [APPROVE, *([ALWAYS] if question.tool is not None else []), REFUSE]
        schema = {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": said("Decision", "Decisão"),
                    "enum": [said(choice, _IN_PORTUGUESE[choice]) for choice in choices],
                }
            },
            "required": ["decision"],
        }
        arguments = as_text(call.arguments)
        message = said(
            f"Toolyard asks: {call.who} wants to call {call.tool!r} of the server {call.server!r}."
            f" Rule {call.rule!r} wants a person to confirm it within {self.seconds:g} s."
            f"\n\nArguments:\n{arguments}",
            f"Toolyard pergunta: {call.who} quer chamar {call.tool!r} do servidor {call.server!r}."
            f" A regra {call.rule!r} quer que uma pessoa confirme em {self.seconds:g} s."
            f"\n\nArgumentos:\n{arguments}",
        )
        return Elicit(message, schema)

    async def _elicit(self, question: _Question) -> Approval:
        """A legacy client is asked while its call runs."""
        form = self._form(question)
        request = form.request("legacy")
        try:
            async with asyncio.timeout(self.seconds):
                raw = await question.forward.call.channel.ask(request.method, request.params)
            decision = _read_decision(form, raw)
        except TimeoutError:
            raise self._late(question) from None
        except MismatchError as error:
            raise _refused(
                question,
                said(
                    f"the client's answer cannot be used: {error}",
                    f"a resposta do cliente não pode ser usada: {error}",
                ),
            ) from None
        except McpError as error:
            raise _refused(
                question,
                said(
                    f"the client could not ask its user: {error.message}",
                    f"o cliente não pôde perguntar ao usuário: {error.message}",
                ),
            ) from None
        return await self._answered(question, decision, question.forward)

    def _input_required(self, question: _Question) -> Outcome:
        """A modern client asks its user and comes back."""
        result = InputRequiredResult(
            result_type="input_required",
            meta={SERVER_KEY: self._implementation},
            input_requests={KEY: self._form(question).request("modern")},
            request_state=self._sealed(question, self.seconds),
        )
        return Outcome.of(encode(result), "input_required")

    async def _resume(self, question: _Question, confirmation: _Confirmation) -> Approval | Outcome:
        """A modern client came back: with an answer to us, or to the upstream's own question."""
        params = question.forward.params
        if confirmation.expires <= self._now():
            raise self._late(question)
        if confirmation.by is not None:
            await self._use(question, confirmation)
            rest = {name: value for name, value in params.items() if name != "requestState"}
            if confirmation.inner is not None:
                rest["requestState"] = Raw(confirmation.inner.encode())
            forward = replace(question.forward, params=rest)
            return self._approval(question, confirmation.by, confirmation.how, forward)
        answers = decode_params(params.get("inputResponses", Raw(b"{}")), dict[str, Raw])
        if KEY not in answers:
            return self._input_required(question)
        try:
            decision = _read_decision(self._form(question), answers[KEY])
        except MismatchError as error:
            raise InvalidParams(f"inputResponses[{KEY!r}]: {error}") from None
        await self._use(question, confirmation)
        rest = {name: value for name, value in params.items() if name not in _ROUND}
        return await self._answered(question, decision, replace(question.forward, params=rest))

    async def _answered(self, question: _Question, decision: str, forward: Forward) -> Approval:
        if decision == REFUSE:
            by = question.user
            raise _refused(question, said(f"{by} refused it", f"{by} recusou"), by=by)
        if decision == ALWAYS:
            await self._remember(question, question.user)
        return self._approval(question, question.user, "elicitation", forward)

    # Nobody can be asked

    async def _wait(self, question: _Question) -> Approval:
        binding = question.principal.binding
        announce = _Announcer(question.forward.call, self.seconds)
        try:
            verdict = await self.pending.wait(
                question.call, binding, self.seconds, question.tool is not None, announce
            )
        except StateError as error:
            raise _unavailable(question, error) from None
        except TooManyPendingError as error:
            why = said(f"{error}; try again later", f"{error}; tente mais tarde")
            raise ApprovalUnavailableError(question.call, why) from None
        if verdict is None:
            raise self._late(question)
        if verdict.decision == "deny":
            raise RefusedByUserError(
                question.call,
                _wants_a_person(question, said(f"{verdict.by} refused it", f"{verdict.by} recusou")),
                by=verdict.by,
                how="approvals",
            )
        if verdict.always:
            await self._remember(question, verdict.by)
        return self._approval(question, verdict.by, "approvals", question.forward)

    def _late(self, question: _Question) -> ApprovalTimeoutError:
        return ApprovalTimeoutError(
            question.call,
            _wants_a_person(
                question,
                said(
                    f"nobody did within {self.seconds:g} s; call it again, and let the user answer the"
                    " question or an operator decide with `toolyard approvals`",
                    f"ninguém confirmou em {self.seconds:g} s; chame de novo, e deixe que o usuário responda"
                    " à pergunta ou que um operador decida com `toolyard approvals`",
                ),
            ),
        )

    # State that the client holds

    def _approval(self, question: _Question, by: str, how: How, forward: Forward) -> Approval:
        def passed(outcome: Outcome) -> Outcome:
            if outcome.kind != "input_required" or not isinstance(outcome.body, Raw):
                return outcome
            members = decode_params(outcome.body, dict[str, Raw])
            inner = members.get("requestState")
            state = self._sealed(
                question, ROUNDS_SECONDS, by, how, None if inner is None else bytes(inner).decode()
            )
            return outcome.with_body(Raw(encode({**members, "requestState": state})))

        return Approval(by, how, forward, passed)

    def _sealed(
        self,
        question: _Question,
        seconds: float,
        by: str | None = None,
        how: How = "elicitation",
        inner: str | None = None,
    ) -> str:
        confirmation = _Confirmation(
            secrets.token_urlsafe(12),
            question.principal.binding,
            question.fingerprint,
            self._now() + seconds,
            by,
            how,
            inner,
        )
        return self._sealer.seal(msgspec.json.encode(confirmation), _PURPOSE)

    def _open(self, question: _Question, state: Raw) -> _Confirmation | None:
        """None if the state is not ours: an upstream's own, or an altered one."""
        try:
            opened = self._sealer.open(decode_params(state, str), _PURPOSE)
            confirmation = msgspec.json.decode(opened, type=_Confirmation)
        except (BrokenSeal, msgspec.DecodeError):
            return None
        mine = (question.principal.binding, question.fingerprint)
        if (confirmation.principal, confirmation.request) != mine:
            raise InvalidParams("requestState belongs to another request")
        return confirmation

    async def _use(self, question: _Question, confirmation: _Confirmation) -> None:
        """One confirmation is for one call, however often it is sent and to whichever replica."""
        try:
            left = confirmation.expires - self._now()
            is_first = await self.pending.use(confirmation.id, left + SKEW_SECONDS)
        except StateError as error:
            raise _unavailable(question, error) from None
        if not is_first:
            raise InvalidParams("requestState was used already; start again without it")


class _Announcer:
    """Tells a waiting client, if it wants progress, how the call can be approved."""

    def __init__(self, call: Call, seconds: float) -> None:
        self._call = call
        self._seconds = seconds
        self._count = 0
        self._next = 0.0

    async def __call__(self, pending: PendingApproval) -> None:
        token, now = self._call.progress_token, time.monotonic()
        if token is None or now < self._next:
            return
        self._next = now + PROGRESS_SECONDS
        self._count += 1
        message = said(
            f"waits for up to {self._seconds:g} s until somebody decides:"
            f" toolyard approvals approve {pending.id}",
            f"espera até {self._seconds:g} s que alguém decida: toolyard approvals approve {pending.id}",
        )
        # Small steps: progress has to grow, and the tool's own begins when the call is made.
        progress: dict[str, Any] = {"progressToken": token, "progress": self._count / 10_000}
        await self._call.channel.notify("notifications/progress", {**progress, "message": message})


def _unchanged(outcome: Outcome) -> Outcome:
    return outcome


def _can_be_asked(caller: Caller) -> bool:
    try:
        Elicit("", {"type": "object"}).require(caller)
    except MissingCapability:
        return False
    return True


def _read_decision(form: Elicit, raw: Raw) -> str:
    """What the user chose; to decline or dismiss the form is to refuse."""
    answer = form.read(raw)
    if not answer.accepted:
        return REFUSE
    chosen = cast(dict[str, str], answer.content)["decision"]
    return next((choice for choice, other in _IN_PORTUGUESE.items() if other == chosen), chosen)


def _refused(question: _Question, why: str, by: str = "") -> RefusedByUserError:
    return RefusedByUserError(question.call, _wants_a_person(question, why), by=by, how="elicitation")


def _wants_a_person(question: _Question, why: str) -> str:
    rule = question.call.rule
    return said(
        f"rule {rule!r} wants a person to confirm it, and {why}",
        f"a regra {rule!r} quer que uma pessoa confirme, e {why}",
    )


def _unavailable(question: _Question, error: StateError) -> ApprovalUnavailableError:
    logger.error("a call cannot be confirmed: %s", error)
    return ApprovalUnavailableError(question.call, _wants_a_person(question, error.public_message))


def _fingerprint(forward: Forward, server: str, tool: str) -> str:
    """Hash a request without the params that change from round to round."""
    try:
        stable = {
            key: msgspec.json.decode(value)
            for key, value in forward.params.items()
            if key not in ("_meta", *_ROUND)
        }
    except (msgspec.DecodeError, RecursionError):
        raise InvalidParams("the params cannot be read") from None
    parts = (forward.method.encode(), server.encode(), tool.encode())
    return digest(*parts, msgspec.json.encode(stable, order="sorted"))
