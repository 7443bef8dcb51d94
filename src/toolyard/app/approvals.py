"""Approvals over HTTP, for a console and for `toolyard approvals`.

`GET /approvals` lists the calls that wait, `POST /approvals/ID` decides one. Who may do that is up to a
function that is passed in; `approver_of` is the usual rule. Owns the form of requests and replies only:
what waits and what a decision does is in `policy.pending`.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from ..edge.request import (
    BodyTooLargeError,
    ClientDisconnectedError,
    Headers,
    Receive,
    Refused,
    Scope,
    Send,
    read_body,
    send_json,
)
from ..policy.pending import (
    AlreadyDecidedError,
    ApprovalError,
    DecisionWord,
    PendingApprovals,
    UnknownApprovalError,
)
from ..state.store import StateError
from ..wire.call import Principal
from ..wire.errors import HeaderMismatch
from ..wire.messages import encode

APPROVALS_PATH = "/approvals"
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
    if principal.kind == "local":
        return Approver("the local user")
    if principal.grant is not None or APPROVE_SCOPE not in principal.scopes:
        challenge = f'Bearer error="insufficient_scope", scope="{APPROVE_SCOPE}"'
        raise Refused(
            403, f"this needs the scope {APPROVE_SCOPE!r}", [(b"www-authenticate", challenge.encode())]
        )
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
        try:
            reply = await self._answer(scope, receive)
        except Refused as refused:
            await _fail(send, refused.status, refused.message, refused.headers)
        except HeaderMismatch as error:
            await _fail(send, error.http_status, error.message)
        except UnknownApprovalError as error:
            await _fail(send, 404, str(error))
        except AlreadyDecidedError as error:
            await _fail(send, 409, str(error))
        except ApprovalError as error:
            await _fail(send, 400, str(error))
        except StateError as error:
            await _fail(send, 503, error.public_message)
        except ClientDisconnectedError:
            pass
        else:
            await send_json(send, 200, encode(reply), [])

    async def _answer(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        approver = await self._authorize(scope, receive)
        method: str = scope["method"]
        rest: str = scope["path"].removeprefix(APPROVALS_PATH).rstrip("/")
        if not rest:
            _allow(method, "GET")
            now = self._now()
            return {"approvals": [one.as_row(now) for one in await self._pending.list(approver.tenant)]}
        if not rest.startswith("/") or "/" in rest[1:]:
            raise Refused(404, f"use GET {APPROVALS_PATH} or POST {APPROVALS_PATH}/ID")
        _allow(method, "POST")
        wanted = await _read(scope, receive)
        name = wanted.by.strip()[:MAX_BY]
        by = f"{name} (by {approver.name})" if name and name != approver.name else approver.name
        decided = await self._pending.decide(
            rest[1:], wanted.decision, by, always=wanted.always, tenant=approver.tenant
        )
        assert decided.verdict is not None
        return {"id": decided.id, **msgspec.structs.asdict(decided.verdict)}


def _allow(method: str, only: str) -> None:
    if method != only:
        raise Refused(405, f"use {only}", [(b"allow", only.encode())])


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


async def _fail(send: Send, status: int, message: str, headers: Headers | None = None) -> None:
    await send_json(send, status, encode({"error": message}), headers or [])
