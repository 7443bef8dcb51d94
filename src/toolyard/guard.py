"""The stage in front of every forwarded request: may this caller have it, who has to agree, how much is left.

Owns the order of the questions and the one record of each request. Each question is answered elsewhere:
`policy` (access, approvals), `limits`, and `audit` keeps the record. What a caller may not see never comes
here: its name leads nowhere (`catalogue/scope.py`). The stage decides again all the same, because rules
may have changed since the name was looked up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, Protocol, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ._version import __version__
from .audit import AuditLog, AuditOutcome, AuditRecord, CallEnding, RecordTemplate, now
from .catalogue.items import PROMPTS, RESOURCES, TOOLS, ItemKind
from .dispatch import CallTarget
from .kit.calls.content import error_result
from .kit.features.base import unknown
from .languages import said
from .limits import Limiter, LimitExceededError, LimitPlan, MemoryMeter
from .pipeline import Handler, Stage
from .policy.access import AccessPolicy, Decision
from .policy.approvals import Approval, Approvals, ConfirmationError
from .policy.description import own_outcome, preview, read_arguments
from .telemetry.requests import new_request_id
from .upstream.base import Forward, Outcome
from .wire.call import Call, Principal, StreamedResult
from .wire.errors import InvalidParams, McpError
from .wire.messages import decode_params, encode
from .wire.types import CallToolResult, CompleteResult, Completion, Implementation

CHARACTERS_PER_TOKEN = 4
MAX_PLANS = 10_000
MAX_RECORDED_NAME = 1000
"""A caller chooses addresses of resources, names of tools that are not listed, and the name of its client."""
OWN_TOOLS = "toolyard"
"""Stands for a server in `[limits]`, for the gateway's own tools."""
TOOL_CALL = "tools/call"
COMPLETE = "completion/complete"
STORED = "results/read"
"""In records: a stored result was read, as a resource or by `read_result`."""
_ALLOWED = Decision("allow", "")
_KINDS: dict[str, tuple[ItemKind, str]] = {
    TOOL_CALL: (TOOLS, "name"),
    "prompts/get": (PROMPTS, "name"),
    "resources/read": (RESOURCES, "uri"),
}


class ScopeChallenge(Protocol):
    def __call__(self, principal: Principal, scopes: tuple[str, ...]) -> McpError:
        """The error that tells a client which scopes to ask for."""
        ...


class CallCounter(Protocol):
    async def admit(self, principal: Principal) -> None:
        """Count a call of a principal with a grant; McpError if the grant permits none any more."""
        ...


class Subject(Struct, frozen=True, gc=False):
    """What a request is about."""

    kind: ItemKind
    server: str
    own: str
    reads: bool | None


class RefusedByRuleError(InvalidParams):
    """A rule forbids this call with these arguments. The caller sees the tool, so the rule may be named."""

    def __init__(self, what: str, rule: str) -> None:
        super().__init__(
            said(
                f"{what!r} may not be used with these arguments: refused by {rule!r} of [access]",
                f"{what!r} não pode ser usado com estes argumentos: recusado por {rule!r} de [access]",
            )
        )
        self.rule = rule


class _CallPlan(Struct, frozen=True, gc=False):
    """What was decided on calls of one caller to one tool, while rules and limits stay as they are."""

    decision: Decision
    template: RecordTemplate
    meter: MemoryMeter | None = None
    limiter: Limiter | None = None
    limits: LimitPlan | None = None

    def book_late(self, lease: str, size: int, failed: bool) -> None:
        """Book a call that the meter let in and cannot book: its window has ended meanwhile."""
        assert self.limiter is not None
        assert self.limits is not None
        tokens = size // CHARACTERS_PER_TOKEN
        self.limiter.finish_metered(self.limits, lease, size, tokens, failed)


_PlanKey = tuple[Principal, str, str, str, bool | None]
"""Who calls, the name of its client, the server, the tool by its own name, and whether it only reads."""


class Guard:
    """Without a policy everybody may do everything; without a limiter, as often as they like."""

    def __init__(
        self,
        *,
        access: AccessPolicy | None = None,
        limiter: Limiter | None = None,
        approvals: Approvals | None = None,
        grants: CallCounter | None = None,
        audit: AuditLog | None = None,
        challenge: ScopeChallenge | None = None,
        implementation: Implementation = Implementation("toolyard", __version__),  # noqa: B008 (frozen)
    ) -> None:
        self.access = access
        self.limiter = limiter
        self.approvals = approvals
        self._grants = grants
        self._implementation = implementation
        self.audit = audit
        self._challenge = challenge
        self._plans: dict[_PlanKey, _CallPlan | None] = {}

    def reconfigure(self, access: AccessPolicy | None, limiter: Limiter | None) -> None:
        """Take over changed rules. Calls under way keep what was decided."""
        self.access = access
        self.limiter = limiter
        self._plans = {}

    def stage(self) -> Stage:
        def stage(inner: Handler) -> Handler:
            async def guard(target: CallTarget, forward: Forward) -> Outcome:
                """A call that is simply allowed, in one function: most are, and each frame costs them."""
                entry, mount, call, lease = target.entry, target.mount, forward.call, forward.request_id
                caller = call.caller
                if (
                    entry is None
                    or not lease
                    or forward.method != TOOL_CALL
                    or mount.upstream.runs_named_tools
                ):
                    return await self._run(target, forward, inner)
                key = (
                    caller.identity.principal,
                    caller.client.name,
                    mount.server,
                    target.own,
                    entry.item.reads,
                )
                try:
                    plan = self._plans[key]
                except KeyError:
                    plan = self._make_plan(key)
                if plan is None:
                    return await self._run(target, forward, inner)
                audit, meter = self.audit, plan.meter
                if audit is not None and audit.failing_since is not None:
                    await audit.ensure_writable()
                if meter is not None and not meter.take(lease):
                    return await self._run(target, forward, inner)
                started = perf_counter()
                try:
                    outcome = await inner(target, forward)
                except BaseException as error:
                    if meter is not None and not meter.give(lease, 0, 0, failed=True):
                        plan.book_late(lease, 0, failed=True)
                    if audit is not None:
                        await audit.append(self._failed(target, forward, plan, error, started))
                    raise
                size, failed = outcome.size, outcome.is_error
                if meter is not None and not meter.give(lease, size, size // CHARACTERS_PER_TOKEN, failed):
                    plan.book_late(lease, size, failed)
                if audit is None:
                    return outcome
                params = forward.params
                meta = params.get("_meta")
                ending = CallEnding(
                    "tool_error" if failed else "ok",
                    params.get("arguments"),
                    len(memoryview(call.params)),
                    size,
                    perf_counter() - started,
                    lease,
                    "" if meta is None or b"traceparent" not in bytes(meta) else _trace_id(forward),
                    caller.identity.thread,
                )
                # The answer waits for its record: whoever has an answer finds it in the audit.
                try:
                    written = audit.append_call(plan.template, ending)
                    if written is not None:
                        await written
                except BaseException:
                    if isinstance(outcome.body, StreamedResult):
                        outcome.body.close()
                    raise
                return outcome

            return guard

        return stage

    def _make_plan(self, key: "_PlanKey") -> "_CallPlan | None":
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        plan = self._plans[key] = self._planned(*key)
        return plan

    def _planned(
        self, principal: Principal, client: str, server: str, own: str, reads: bool | None
    ) -> "_CallPlan | None":
        """None if more has to be asked than a plan knows."""
        decision, limiter = _ALLOWED, self.limiter
        if self.access is not None:
            decision = self.access.rights(principal).decide(TOOLS, server, own, reads)
        is_plain = decision.verb == "allow" and not decision.scopes and not decision.conditions
        tool = own[:MAX_RECORDED_NAME]
        shared = _shared_fields(principal, client, server, tool, decision)
        template = RecordTemplate.of(method=TOOL_CALL, **shared)
        if not is_plain or template is None or (principal.grant is not None and self._grants is not None):
            return None
        limits = None if limiter is None else limiter.plan_of(principal, server, tool, reads)
        if limiter is None or limits is None:
            return _CallPlan(decision, template)
        meter = limits.meter
        return None if meter is None else _CallPlan(decision, template, meter, limiter, limits)

    async def _run(self, target: CallTarget, forward: Forward, inner: Handler) -> Outcome:
        audit = self.audit
        if audit is None:
            return await self._answer(target, forward, inner, _Notes())
        if audit.failing_since is not None:
            await audit.ensure_writable()
        if not forward.request_id:
            forward = replace(forward, request_id=new_request_id())
        started, notes, error, outcome = perf_counter(), _Notes(), None, None
        ending: AuditOutcome = "error"
        try:
            outcome = await self._answer(target, forward, inner, notes)
            ending = notes.ending or ("tool_error" if outcome.is_error else "ok")
            return outcome
        except asyncio.CancelledError:
            ending = "cancelled"
            raise
        except McpError as raised:
            error = raised
            ending = "refused" if notes.refused else "error"
            raise
        finally:
            # The answer waits for its record: whoever has an answer finds it in the audit.
            record = self._record(target, forward, notes, ending, outcome, error, started)
            try:
                await audit.append(record)
            except BaseException:
                if outcome is not None and isinstance(outcome.body, StreamedResult):
                    outcome.body.close()
                raise

    async def _answer(self, target: CallTarget, forward: Forward, inner: Handler, notes: "_Notes") -> Outcome:
        principal, access = forward.call.caller.identity.principal, self.access
        subject = notes.subject = _subject(target, forward)
        if subject is not None and access is not None:
            decision = access.rights(principal).decide(
                subject.kind, subject.server, subject.own, subject.reads
            )
            if decision.conditions:
                decision = access.resolve(
                    decision, principal, subject.server, subject.own, _arguments(forward)
                )
            notes.decision = decision
            if decision.verb == "deny":
                notes.refused = True
                return self._refused(subject, decision, forward)
            if decision.scopes:
                notes.refused = True
                raise self._lacking(principal, decision)
            if forward.method == COMPLETE and decision.verb in ("preview", "confirm"):
                # Nobody is asked about every letter that is typed, and values are not shown unasked.
                return own_outcome(
                    forward.call.caller, CompleteResult(completion=Completion([])), self._implementation
                )
            if decision.verb == "preview":
                item = None if target.entry is None else target.entry.item
                about = self._implementation
                return preview(forward, subject.server, subject.own, decision.rule, item, about)
            if decision.verb == "confirm":
                agreed = await self._confirm(subject, decision, forward, notes)
                if isinstance(agreed, Outcome):
                    notes.is_asked = not notes.refused
                    return agreed
                notes.approval, forward = agreed, agreed.forward
            if target.mount.upstream.runs_named_tools:
                forward = self._narrowed(principal, subject, forward)
        if subject is not None and principal.grant is not None and self._grants is not None:
            notes.refused = True
            await self._grants.admit(principal)
            notes.refused = False
        limiter = self.limiter
        if limiter is None:
            outcome = await inner(target, forward)
        elif subject is None:
            outcome = await self._of_task(limiter, target, forward, inner)
        else:
            notes.refused = True
            # A caller chooses the addresses of resources, so they get no counters of their own.
            tool = subject.own[:MAX_RECORDED_NAME] if subject.kind is TOOLS else ""
            try:
                admission = await limiter.admit(principal, subject.server, tool, subject.reads)
            except LimitExceededError as error:
                notes.decision = Decision("deny", f"limit {error.limit}".rstrip())
                raise
            notes.refused = False
            size, failed = 0, True
            try:
                outcome = await inner(target, forward)
                size, failed = outcome.size, outcome.is_error
            finally:
                await admission.finish(bytes=size, tokens=size // CHARACTERS_PER_TOKEN, failed=failed)
        if notes.approval is not None:
            outcome = notes.approval.passed(outcome)
        return outcome

    async def _confirm(
        self, subject: Subject, decision: Decision, forward: Forward, notes: "_Notes"
    ) -> Approval | Outcome:
        """An outcome is for the client: the question, or that a person refused."""
        if self.approvals is None:
            shown = subject.own[:80]
            raise InvalidParams(
                said(
                    f"{shown!r} needs a person's consent, and nobody can be asked here",
                    f"{shown!r} precisa do consentimento de uma pessoa, e aqui não há a quem perguntar",
                )
            )
        try:
            return await self.approvals.ask(forward, subject.server, subject.own, decision.rule)
        except ConfirmationError as error:
            notes.refused = True
            if subject.kind is not TOOLS:
                raise
            return error.outcome(forward.call.caller, self._implementation)  # for the model to read

    async def _of_task(
        self, limiter: Limiter, target: CallTarget, forward: Forward, inner: Handler
    ) -> Outcome:
        """The call that began the task was admitted. Its result counts as the call's own would have."""
        outcome = await inner(target, forward)
        entry = target.entry
        if forward.method in ("tasks/get", "tasks/result") and entry is not None:
            principal, tool = forward.call.caller.principal, target.own[:MAX_RECORDED_NAME]
            size, reads = outcome.size, entry.item.reads
            tokens = size // CHARACTERS_PER_TOKEN
            await limiter.book(principal, target.mount.server, tool, reads, bytes=size, tokens=tokens)
        return outcome

    # Decisions

    def _narrowed(self, principal: Principal, subject: Subject, forward: Forward) -> Forward:
        """The request with what its caller may name in it. A tool that has to be asked about is none of it:
        nobody would be asked."""
        access = self.access
        if access is None or (rights := access.rights(principal)).everything:
            return forward

        def permits(own: str) -> bool:
            decision = rights.decide(TOOLS, subject.server, own, None)
            return decision.verb == "allow" and not decision.scopes and not decision.conditions

        return replace(forward, permits=permits)

    def _refused(self, subject: Subject, decision: Decision, forward: Forward) -> Outcome:
        access, principal = self.access, forward.call.caller.principal
        assert access is not None
        if not access.rights(principal).sees(subject.kind, subject.server, subject.own, subject.reads):
            raise unknown(
                "tool" if subject.kind is TOOLS else "prompt" if subject.kind is PROMPTS else "resource",
                subject.own,
            )
        refusal = RefusedByRuleError(subject.own[:80], decision.rule)
        if subject.kind is not TOOLS:
            raise refusal
        # For the model to read.
        return own_outcome(forward.call.caller, error_result(refusal.message), self._implementation)

    def _lacking(self, principal: Principal, decision: Decision) -> McpError:
        if self._challenge is not None:
            return self._challenge(principal, decision.scopes)
        needed = " ".join(decision.scopes)
        return InvalidParams(
            said(
                f"The credential lacks a scope: this needs {needed}",
                f"Falta um escopo à credencial: isto exige {needed}",
            )
        )

    async def counted(
        self, call: Call, name: str, reads: bool, work: Callable[[], Awaitable[CallToolResult | Outcome]]
    ) -> CallToolResult | Outcome:
        """A search, or another meta tool that asks servers: limits count it as `toolyard/NAME`."""
        if self.limiter is None:
            return await work()
        try:
            admission = await self.limiter.admit(call.caller.principal, OWN_TOOLS, name, reads)
        except LimitExceededError as error:
            await self._note_own(call, name, "refused", Decision("deny", f"limit {error.limit}".rstrip()))
            raise
        size, failed = 0, True
        try:
            answer = await work()
            size = answer.size if isinstance(answer, Outcome) else len(encode(answer))
            failed = answer.is_error is True
        finally:
            await admission.finish(bytes=size, tokens=size // CHARACTERS_PER_TOKEN, failed=failed)
        return answer

    # The record

    async def note_answered(self, call: Call, name: str, failed: bool) -> None:
        """Record a call of a meta tool that the gateway answered by itself."""
        await self._note_own(call, name, "tool_error" if failed else "ok", _ALLOWED)

    async def _note_own(self, call: Call, name: str, outcome: AuditOutcome, decision: Decision) -> None:
        if self.audit is None:
            return
        arguments = call.members().get("arguments")
        await self.audit.append(
            AuditRecord(
                **_who(call),
                time=now(),
                outcome=outcome,
                method=call.method,
                tool=name,
                decision=decision.verb,
                rule=decision.rule,
                arguments_digest=self.audit.arguments.digest(arguments),
                arguments=self.audit.arguments.redacted(arguments),
                request_bytes=len(memoryview(call.params)),
                request_id=new_request_id(),
            )
        )

    async def note_refused(self, peer: str, reason: str) -> None:
        """Record a request that was turned away because of its credential."""
        if self.audit is not None:
            record = AuditRecord(
                time=now(),
                outcome="refused",
                method="authenticate",
                client=peer,
                decision="deny",
                rule=reason[:200],
                request_id=new_request_id(),
            )
            await self.audit.append(record)

    async def note_unknown(self, call: Call, name: str, subject: Subject | None) -> None:
        """Record that a caller asked for a name that leads nowhere. `subject`: what it is for others."""
        if self.audit is None:
            return
        decision = None
        if subject is not None and self.access is not None:
            decision = self.access.rights(call.caller.principal).decide(
                subject.kind, subject.server, subject.own, subject.reads
            )
        await self.audit.append(
            AuditRecord(
                **_who(call),
                time=now(),
                outcome="refused",
                method=call.method,
                server="" if subject is None else subject.server,
                tool=(name if subject is None else subject.own)[:MAX_RECORDED_NAME],
                decision="unknown" if decision is None else decision.verb,
                rule="" if decision is None else decision.rule,
                request_id=new_request_id(),
            )
        )

    async def note_stored(self, call: Call, server: str, tool: str, size: int | None) -> None:
        """Record that a caller read so many bytes of what a tool once returned; None: it got nothing."""
        if self.audit is None:
            return
        is_refused = size is None
        await self.audit.append(
            AuditRecord(
                **_who(call),
                time=now(),
                outcome="refused" if is_refused else "ok",
                method=STORED,
                server=server,
                tool=tool[:MAX_RECORDED_NAME],
                decision="unknown" if is_refused else "allow",
                response_bytes=size or 0,
                request_id=new_request_id(),
            )
        )

    def _failed(
        self, target: CallTarget, forward: Forward, plan: _CallPlan, error: BaseException, started: float
    ) -> AuditRecord:
        """The record of a call that ended with an exception."""
        notes = _Notes()
        notes.decision = plan.decision
        ending: AuditOutcome = "cancelled" if isinstance(error, asyncio.CancelledError) else "error"
        told = error if isinstance(error, McpError) else None
        return self._record(target, forward, notes, ending, None, told, started)

    def _record(
        self,
        target: CallTarget,
        forward: Forward,
        notes: "_Notes",
        ending: AuditOutcome,
        outcome: Outcome | None,
        error: McpError | None,
        started: float,
    ) -> AuditRecord:
        assert self.audit is not None
        arguments, subject, approval = forward.params.get("arguments"), notes.subject, notes.approval
        policy, decision = self.audit.arguments, notes.decision
        call = forward.call
        caller = call.caller
        identity = caller.identity
        principal = identity.principal
        tool = (target.own if subject is None else subject.own)[:MAX_RECORDED_NAME]
        return AuditRecord(
            **_shared_fields(principal, caller.client.name, target.mount.server, tool, decision),
            time=now(),
            outcome=ending,
            method=forward.method,
            confirmed_by="" if approval is None else approval.by,
            error_code=None if error is None else error.code,
            arguments_digest=policy.digest(arguments),
            arguments=policy.redacted(arguments) if policy.mode == "redacted" else None,
            request_bytes=len(memoryview(call.params)),
            response_bytes=0 if outcome is None else outcome.size,
            duration_ms=int((perf_counter() - started) * 1e6) / 1000,
            request_id=forward.request_id,
            trace_id=_trace_id(forward),
            thread=identity.thread,
        )


class _Notes:
    """What the record needs to know of the way through the stage."""

    __slots__ = ("approval", "decision", "is_asked", "refused", "subject")

    def __init__(self) -> None:
        self.subject: Subject | None = None
        self.decision = _ALLOWED
        self.approval: Approval | None = None
        self.refused = False
        self.is_asked = False

    @property
    def ending(self) -> AuditOutcome | None:
        """How a call ended that no server has answered."""
        return "refused" if self.refused else "asked" if self.is_asked else None


def _arguments(forward: Forward) -> dict[str, Any]:
    arguments = read_arguments(forward)
    if not isinstance(arguments, dict):
        raise InvalidParams(said("'arguments' must be a JSON object", "'arguments' deve ser um objeto JSON"))
    return cast(dict[str, Any], arguments)


def _subject(target: CallTarget, forward: Forward) -> Subject | None:
    """None for requests that have no item of their own, such as those about tasks."""
    method, server = forward.method, target.mount.server
    if method == TOOL_CALL:
        reads = None if target.entry is None else target.entry.item.reads
        return Subject(TOOLS, server, target.own, reads)
    if method == COMPLETE:
        return _completed(server, forward)
    known = _KINDS.get(method)
    if known is None:  # a method of an extension is judged by its name, as a tool is
        return None if method.startswith("tasks/") else Subject(TOOLS, server, target.own, None)
    kind, key = known
    own = target.own or decode_params(forward.params.get(key, Raw(b'""')), str)
    return Subject(kind, server, own, None)


class _Reference(Struct):
    type: str = ""
    name: str = ""
    uri: str = ""


def _completed(server: str, forward: Forward) -> Subject:
    reference = decode_params(forward.params.get("ref", Raw(b"{}")), _Reference)
    if reference.type == "ref/prompt":
        return Subject(PROMPTS, server, reference.name, None)
    return Subject(RESOURCES, server, reference.uri, None)


def _shared_fields(
    principal: Principal, client: str, server: str, tool: str, decision: Decision
) -> dict[str, str]:
    """The fields that are the same for every call of a caller to a tool."""
    return {
        **_identity_fields(principal, client),
        "server": server,
        "tool": tool,
        "decision": decision.verb,
        "rule": decision.rule,
    }


def _identity_fields(principal: Principal, client: str) -> dict[str, str]:
    return {
        "tenant": principal.tenant,
        "subject": principal.subject,
        "issuer": principal.issuer,
        "agent": principal.agent,
        "client": principal.client or client[:MAX_RECORDED_NAME],
        "credential_kind": principal.kind,
        "credential": principal.credential,
    }


def _who(call: Call) -> dict[str, Any]:
    caller = call.caller
    return {**_identity_fields(caller.principal, caller.client.name), "thread": caller.thread}


def _trace_id(forward: Forward) -> str:
    """Of the trace that the caller began, if it says so."""
    meta = forward.params.get("_meta")
    if meta is None or b"traceparent" not in bytes(meta):
        return ""
    try:
        members = cast(Mapping[str, Any], msgspec.json.decode(meta))
        parts = str(members.get("traceparent", "")).split("-")
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return ""
    return parts[1][:32] if len(parts) == 4 else ""
