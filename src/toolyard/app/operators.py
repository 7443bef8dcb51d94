"""Requests of operators over HTTP, beside MCP: who may send one, and how errors are answered.

An operator is the local user on the machine itself, or a caller whose credential has the scope that the
request needs. Owns no request of its own: those are in `approvals` and `usage`.
"""

from collections.abc import Awaitable

from ..callers.authenticator import is_from_this_machine
from ..edge.http.app import HttpEdge
from ..edge.proxies import proxy_of
from ..edge.request import ClientDisconnectedError, Headers, Receive, Refused, Scope, Send, send_json
from ..state.store import StateError
from ..wire.call import Principal
from ..wire.errors import HeaderMismatch
from ..wire.headers import RequestHeaders
from ..wire.messages import encode


async def sender_of(edge: HttpEdge, scope: Scope, receive: Receive, needed: str) -> Principal:
    """Who sends a request, by the rules of `edge`. `needed` is the scope that a refusal names.

    Raises `Refused` and HeaderMismatch. `require_scope` asks for the scope.
    """
    principal = await edge.principal_of(scope, receive)
    peer: str = (scope.get("client") or ("",))[0]
    headers = RequestHeaders.of(scope["headers"])
    # Where nobody is asked who they are, everybody is the local user, but not the operator.
    if principal.kind == "local" and not is_from_this_machine(headers, peer, proxy_of(scope)):
        raise Refused(403, f"this is for the machine itself, or for a credential with the scope {needed!r}")
    return principal


def require_scope(principal: Principal, needed: str) -> None:
    """Refuse whoever has not the scope. The local user needs none, and a grant never has it."""
    if principal.kind == "local" or (principal.grant is None and needed in principal.scopes):
        return
    challenge = f'Bearer error="insufficient_scope", scope="{needed}"'
    raise Refused(403, f"this needs the scope {needed!r}", [(b"www-authenticate", challenge.encode())])


def require_method(scope: Scope, only: str) -> None:
    if scope["method"] != only:
        raise Refused(405, f"use {only}", [(b"allow", only.encode())])


async def answer(send: Send, reply: Awaitable[object]) -> None:
    """Send a reply as JSON, or `{"error": …}` if it was refused or the state store failed."""
    try:
        found = await reply
    except Refused as refused:
        await _fail(send, refused.status, refused.message, refused.headers)
    except HeaderMismatch as error:
        await _fail(send, error.http_status, error.message)
    except StateError as error:
        await _fail(send, 503, error.public_message)
    except ClientDisconnectedError:
        pass
    else:
        await send_json(send, 200, encode(found), [])


async def _fail(send: Send, status: int, message: str, headers: Headers | None = None) -> None:
    await send_json(send, status, encode({"error": message}), headers or [])
