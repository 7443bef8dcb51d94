"""Approvals over HTTP, for a console and for `toolyard approvals`.

`GET /approvals` lists the calls that wait, `POST /approvals/ID` decides one. `GET /approvals/standing` lists
what is approved for conversations, `DELETE /approvals/standing/ID` withdraws that. Who may do so is up to a
function that is passed in; `approver_of` is the usual rule. Owns the form of requests and replies only: what
waits and what a decision does is in `policy.pending`.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from ..edge.request import BodyTooLargeError, Receive, Refused, Scope, Send, read_body
from ..policy.pending import (
    AlreadyDecidedError,
    ApprovalError,
    DecisionWord,
    NotStandingError,
    PendingApprovals,
    UnknownApprovalError,
)
from ..wire.call import Principal
from .operators import answer, require_method, require_scope

APPROVALS_PATH = "/approvals"
STANDING = "/standing"
APPROVE_SCOPE = "approve"
MAX_BODY = 16 * 1024
MAX_BY = 200


class Approver(Struct, frozen=True):
    """Somebody who may decide: in one tenant, or in all of them."""

    name: str
    tenant: str | None = None


Authorize = Callable[[Scope, Receive], Awaitable[Approver]]
"""Says who sends a request; raises `Refused` if it may not decide."""


def approver_of(principal: Principal) -> Approver:
    """The local user decides everything, others what waits in their tenant, if they have the scope."""
    require_scope(principal, APPROVE_SCOPE)
    if principal.kind == "local":
        return Approver("the local user")
    return Approver(principal.user or principal.tenant, principal.tenant)


class _Decision(Struct, forbid_unknown_fields=True):
    decision: DecisionWord
    by: str = ""
    """The person, where a program sends the request for one."""
    always: bool = False


class ApprovalsApi:
    """An ASGI app for the paths that begin with `/approvals`."""

    def __init__(
        self, pending: PendingApprovals, authorize: Authorize, now: Callable[[], float] = time.time
    ) -> None:
        self._pending = pending
        self._authorize = authorize
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, self._answer(scope, receive))

    async def _answer(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        approver = await self._authorize(scope, receive)
        rest: str = scope["path"].removeprefix(APPROVALS_PATH).rstrip("/")
        if not rest:
            require_method(scope, "GET")
            now = self._now()
            return {"approvals": [one.as_row(now) for one in await self._pending.list(approver.tenant)]}
        if rest == STANDING or rest.startswith(f"{STANDING}/"):
            return await self._answer_standing(scope, approver, rest.removeprefix(STANDING))
        if not rest.startswith("/") or "/" in rest[1:]:
            raise Refused(404, f"use GET {APPROVALS_PATH} or POST {APPROVALS_PATH}/ID")
        require_method(scope, "POST")
        wanted = await _read(scope, receive)
        name = wanted.by.strip()[:MAX_BY]
        by = f"{name} (by {approver.name})" if name and name != approver.name else approver.name
        try:
            decided = await self._pending.decide(
                rest[1:], wanted.decision, by, always=wanted.always, tenant=approver.tenant
            )
        except ApprovalError as error:
            raise Refused(_status_of(error), str(error)) from None
        assert decided.verdict is not None
        return {"id": decided.id, **msgspec.structs.asdict(decided.verdict)}

    async def _answer_standing(self, scope: Scope, approver: Approver, rest: str) -> dict[str, Any]:
        now = self._now()
        if not rest:
            require_method(scope, "GET")
            found = await self._pending.list_standing(approver.tenant)
            return {"standing": [one.as_row(now) for one in found]}
        require_method(scope, "DELETE")
        try:
            return (await self._pending.withdraw(rest[1:], approver.tenant)).as_row(now)
        except ApprovalError as error:
            raise Refused(_status_of(error), str(error)) from None


def _status_of(error: ApprovalError) -> int:
    match error:
        case UnknownApprovalError() | NotStandingError():
            return 404
        case AlreadyDecidedError():
            return 409
        case _:
            return 400


async def _read(scope: Scope, receive: Receive) -> _Decision:
    kind = dict(scope["headers"]).get(b"content-type", b"").split(b";")[0].strip().lower()
    # A page of another site can send forms and plain text without asking, but not JSON.
    if kind != b"application/json":
        raise Refused(415, "send JSON: Content-Type: application/json")
    try:
        body = await read_body(await receive(), receive, MAX_BODY)
        return msgspec.json.decode(body, type=_Decision)
    except BodyTooLargeError:
        raise Refused(413, f"the body is over {MAX_BODY} bytes") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        example = '{"decision": "approve", "by": "anna", "always": false}'
        raise Refused(400, f"the body is not a decision: {error}; as in {example}") from None
