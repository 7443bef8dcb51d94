"""An MCP server behind OAuth and its authorization server, honest except where a test has it lie.

Honest, it does what the specification asks: PKCE, codes and refresh tokens that work once, redirects and
clients that have to match, `iss` in answers. `lie` changes members of a document, `answer` replaces a whole
reply. Whatever is secret in a login is collected in `secrets`, so that a test can look for it elsewhere.
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode

from tests.serving import serving
from toolyard.kit import Server

Document = Literal["resource", "authority", "registration", "token", "revocation", "authorize"]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
RESOURCE = "/.well-known/oauth-protected-resource"
AUTHORITY = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


@dataclass
class Reply:
    """An HTTP reply in place of an honest one; `endless` never stops sending, with a pause between."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    endless: bool = False
    pause: float = 0.0


@dataclass
class Seen:
    """A request that arrived."""

    method: str
    path: str
    query: dict[str, str]
    form: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Gate:
    """Holds a reply back: `arrived` when its request is there, until `open`."""

    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    open: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Code:
    client: str
    redirect: str
    challenge: str
    scope: str
    resource: str


class Hostile:
    """The server at `url`, and `issuer`, at one origin. `wanted` are the scopes that calls need."""

    path = "/mcp"

    def __init__(self, name: str = "as") -> None:
        self.name = name
        self.origin = ""
        self.wanted: tuple[str, ...] = ()
        self.challenge = ""
        """`WWW-Authenticate` of refusals, in the place of the honest one."""
        self.sends_issuer = True
        self.is_old = False
        """Whether it is of 2025-03-26: its own issuer, without metadata of the resource."""
        self.gates: dict[str, Gate] = {}
        """Documents that are held back until a test lets them go."""
        self.user = "ana"
        self.seen: list[Seen] = []
        self.secrets: set[str] = set()
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, Code] = {}
        self.tokens: dict[str, str] = {}
        """Access tokens that are valid, and their scopes."""
        self.refresh_tokens: dict[str, str] = {}
        """Those that are valid, and the client of each."""
        self.lifetime: int | None = 3600
        self._lies: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, Reply] = {}
        self._numbers = count(1)
        server = Server("guarded", key=b"0123456789abcdef")
        server.tool(self.whoami)
        self._edge = server.asgi()

    async def whoami(self) -> str:
        """Who calls?"""
        return self.user

    # What tests change

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    @property
    def issuer(self) -> str:
        return f"{self.origin}/" if self.is_old else self.endpoints

    @property
    def endpoints(self) -> str:
        """The address that all endpoints are below."""
        return f"{self.origin}/{self.name}"

    def lie(self, about: Document, **members: Any) -> None:
        """Change members of a document; one that is None is left out."""
        self._lies.setdefault(about, {}).update(members)

    def answer(self, about: Document, reply: Reply) -> None:
        self._answers[about] = reply

    def be_honest(self) -> None:
        self._lies, self._answers, self.challenge, self.wanted = {}, {}, "", ()

    def forget_clients(self) -> None:
        """Its storage is reset: nobody is known any more."""
        self.clients.clear()
        self.refresh_tokens.clear()
        self.tokens.clear()

    def requests(self, path: str) -> list[Seen]:
        return [one for one in self.seen if one.path == path]

    @property
    def token_requests(self) -> list[Seen]:
        return self.requests(f"/{self.name}/token")

    @property
    def registrations(self) -> list[Seen]:
        return self.requests(f"/{self.name}/register")

    # HTTP

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._edge(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path: str = scope["path"]
        if path == self.path and self._admits(headers.get("authorization", "")):
            await self._edge(scope, receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        query = dict(parse_qsl(scope["query_string"].decode()))
        is_form = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        form = dict(parse_qsl(body.decode())) if is_form else {}
        seen = Seen(scope["method"], path, query, form, headers, body)
        self.seen.append(seen)
        kind, make = self._route(path)
        if kind in self.gates:
            self.gates[kind].arrived.set()
            await self.gates[kind].open.wait()
        reply = self._answers.get(kind)
        if reply is None:
            made = make(seen)
            reply = made if isinstance(made, Reply) else self._json(kind, made)
        await self._send(receive, send, reply)

    async def close(self) -> None:
        await self._edge.close()

    def _route(self, path: str) -> tuple[str, Callable[[Seen], Any]]:
        at = f"/{self.name}"
        routes: dict[str, tuple[str, Callable[[Seen], Any]]] = {
            self.path: ("server", self._refuse),
            f"{RESOURCE}{self.path}": ("resource", self._resource),
            AUTHORITY if self.is_old else f"{AUTHORITY}{at}": ("authority", self._authority),
            f"{at}/authorize": ("authorize", self._authorize),
            f"{at}/token": ("token", self._token),
            f"{at}/register": ("registration", self._register),
            f"{at}/revoke": ("revocation", self._revoke),
        }
        if self.is_old:
            routes.pop(f"{RESOURCE}{self.path}")
        return routes.get(path, ("", lambda _: Reply(404)))

    def _json(self, kind: str, document: dict[str, Any]) -> Reply:
        status = document.pop("status", 200)
        members = {**document, **self._lies.get(kind, {})}
        members = {key: value for key, value in members.items() if value is not None}
        self.secrets |= {
            str(members[key]) for key in ("access_token", "refresh_token", "client_secret") if key in members
        }
        return Reply(status, json.dumps(members).encode())

    async def _send(self, receive: Receive, send: Send, reply: Reply) -> None:
        headers = {"content-type": "application/json", **reply.headers}
        head = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": reply.status, "headers": head})
        if reply.endless:
            gone = asyncio.ensure_future(receive())
            while not gone.done():
                await send(
                    {"type": "http.response.body", "body": reply.body or b" " * 4096, "more_body": True}
                )
                await asyncio.wait([gone], timeout=reply.pause)
        await send({"type": "http.response.body", "body": reply.body})

    # The protected server

    def _admits(self, authorization: str) -> bool:
        scopes = self.tokens.get(authorization.removeprefix("Bearer "))
        return scopes is not None and set(self.wanted) <= set(scopes.split())

    def _refuse(self, seen: Seen) -> Reply:
        known = seen.headers.get("authorization", "").removeprefix("Bearer ") in self.tokens
        words = [f'resource_metadata="{self.origin}{RESOURCE}{self.path}"']
        if self.wanted:
            words.append(f'scope="{" ".join(self.wanted)}"')
        if known:
            words.append('error="insufficient_scope"')
        challenge = self.challenge or ("Bearer" if self.is_old else f"Bearer {', '.join(words)}")
        return Reply(403 if known else 401, b"{}", {"www-authenticate": challenge})

    def _resource(self, seen: Seen) -> dict[str, Any]:
        return {"resource": self.url, "authorization_servers": [self.issuer]}

    # The authorization server

    def _authority(self, seen: Seen) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.endpoints}/authorize",
            "token_endpoint": f"{self.endpoints}/token",
            "registration_endpoint": f"{self.endpoints}/register",
            "revocation_endpoint": f"{self.endpoints}/revoke",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }

    def _register(self, seen: Seen) -> dict[str, Any]:
        asked = json.loads(seen.body)
        id = f"client-{self.name}-{next(self._numbers)}"
        self.clients[id] = asked
        return {**asked, "status": 201, "client_id": id}

    def _authorize(self, seen: Seen) -> Reply:
        """The user is logged in and agrees to everything."""
        asked = seen.query
        client, redirect = asked.get("client_id", ""), asked.get("redirect_uri", "")
        self.secrets |= {asked.get("state", "")}
        if redirect not in self.clients.get(client, {}).get("redirect_uris", []):
            return Reply(400, b"this client is not known", {"content-type": "text/plain"})
        code = f"code-{self.name}-{next(self._numbers)}-of-a-login"
        self.codes[code] = Code(
            client, redirect, asked["code_challenge"], asked.get("scope", ""), asked.get("resource", "")
        )
        answer = {"code": code, "state": asked["state"], **self._lies.get("authorize", {})}
        if self.sends_issuer:
            answer.setdefault("iss", self.issuer)
        answer = {key: value for key, value in answer.items() if value is not None}
        self.secrets.add(code)
        return Reply(302, b"", {"location": f"{redirect}?{urlencode(answer)}"})

    def _token(self, seen: Seen) -> dict[str, Any]:
        form = seen.form
        self.secrets |= {form[key] for key in ("code_verifier", "refresh_token") if key in form}
        if form.get("client_id") not in self.clients:
            return {"status": 401, "error": "invalid_client"}
        if form["grant_type"] == "refresh_token":
            if self.refresh_tokens.pop(form["refresh_token"], "") != form["client_id"]:
                return {"status": 400, "error": "invalid_grant"}
            return self._grant(form["client_id"], " ".join(self.wanted))
        code = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        given = (form.get("client_id"), form.get("redirect_uri"), proof, form.get("resource", ""))
        if code is None or given != (code.client, code.redirect, code.challenge, code.resource):
            return {"status": 400, "error": "invalid_grant"}
        return self._grant(code.client, code.scope)

    def _grant(self, client: str, scope: str) -> dict[str, Any]:
        number = next(self._numbers)
        granted = str(self._lies.get("token", {}).get("scope") or scope)
        token, refresh = f"access-{self.name}-{number}-token", f"refresh-{self.name}-{number}-token"
        self.tokens[token] = granted
        self.refresh_tokens[refresh] = client
        found: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "refresh_token": refresh}
        found |= {} if self.lifetime is None else {"expires_in": self.lifetime}
        return found | ({"scope": granted} if granted else {})

    def _revoke(self, seen: Seen) -> dict[str, Any]:
        self.refresh_tokens.pop(seen.form.get("token", ""), None)
        return {}


@asynccontextmanager
async def hostile(name: str = "as") -> AsyncIterator[Hostile]:
    server = Hostile(name)
    async with serving(server) as http:
        server.origin = http.url.removesuffix("/mcp")
        yield server
