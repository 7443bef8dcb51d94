"""The gateway as a resource server of OAuth: the addresses of its endpoints, and their metadata (RFC 9728).

Owns which URL an endpoint has for a client, which is also the audience that tokens must name. Accepts no
token: that is the work of `tokens` and `introspection`. The challenges are in `authenticator`.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from ..config.callers import AuthConfig
from ..config.errors import ConfigError
from ..edge.request import PUBLIC_JSON_HEADERS, Headers, Receive, Scope, Send, send_empty, send_json
from ..wire.errors import InvalidRequest
from ..wire.messages import encode, encode_error
from .issuer_client import LOOPBACK

WELL_KNOWN = "/.well-known/oauth-protected-resource"

MAX_URLS = 256
"""Addresses that are remembered: a client comes with the same one each time."""
_HOST = re.compile(r"([a-z0-9_.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:[0-9]{1,5})?")
_SEGMENT = r"[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,199}"
# Public, and read by clients in browsers of any origin, which may send their protocol version along.
_CORS: Headers = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, HEAD, OPTIONS"),
    (b"access-control-allow-headers", b"authorization, content-type, mcp-protocol-version"),
    (b"access-control-max-age", b"600"),
]


def check_address(auth: AuthConfig, public_url: str, hosts: Sequence[str], beyond_loopback: bool) -> None:
    """Raises ConfigError if tokens could be for no address that this server knows to be its own."""
    relies = [issuer.issuer for issuer in auth.issuers if not issuer.audiences]
    relies += [] if auth.server is None else ["[auth.server]"]
    if relies and beyond_loopback and not public_url and not set(hosts) - {"*"}:
        raise ConfigError(
            f"tokens of {relies[0]!r} must name this server, which does not know its address",
            "set public_url of [gateway], or audiences of the issuer",
        )


class ProtectedResource:
    """An ASGI app for the paths that begin with `WELL_KNOWN`, to which the challenges lead."""

    def __init__(
        self,
        auth: AuthConfig,
        *,
        public_url: str = "",
        hosts: Sequence[str] = (),
        endpoint: str = "/mcp",
    ) -> None:
        """`hosts` are the names under which clients may come; those of loopback need not be given."""
        self._scopes = auth.scopes
        self._issuers = [issuer.issuer for issuer in auth.issuers]
        self._is_issuer = auth.server is not None
        self._public = public_url.rstrip("/")
        public = urlsplit(public_url)
        self._public_scheme = public.scheme
        ours = {"*", public.netloc.lower(), public.hostname or "", *LOOPBACK, "[::1]"}
        self._hosts = frozenset(host.lower() for host in hosts) - ours
        self._endpoint = endpoint
        self._urls: dict[tuple[str, str, str], str] = {}
        under = re.escape(endpoint.rstrip("/"))
        self._paths = re.compile(rf"{under}(?:/{_SEGMENT})?/?|/agents/{_SEGMENT}{under}/?")

    def url(self, path: str, host: str, scheme: str = "http") -> str:
        """The URL of an endpoint as the client sees it, which is the `resource` of its tokens.

        Empty if it cannot be known. A Host that nobody named is not believed: with it a caller could choose
        the audience, and bring a token that was made for somebody else.
        """
        key = (path, host, scheme)
        found = self._urls.get(key)
        if found is None:
            found = self._url(path, host.lower(), scheme)
            if len(self._urls) < MAX_URLS:
                self._urls[key] = found
        return found

    def _url(self, path: str, host: str, scheme: str) -> str:
        known = _HOST.fullmatch(host)
        if known and (host in self._hosts or known[1] in self._hosts):
            return f"{self._public_scheme or scheme}://{host}{path}"
        if self._public:  # also for Host: 127.0.0.1, which many proxies send
            return self._public + path
        return f"{scheme}://{host}{path}" if known and known[1].strip("[]") in LOOPBACK else ""

    def metadata_url(self, resource: str) -> str:
        """Where the metadata of a resource are: the well-known part stands before its path."""
        if not resource:
            return ""
        if self._public and resource.startswith(f"{self._public}/"):
            return f"{self._public}{WELL_KNOWN}{resource.removeprefix(self._public)}"
        parts = urlsplit(resource)
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path}"

    def metadata(self, resource: str) -> dict[str, object]:
        """RFC 9728. Names no scope unless every token needs it: clients ask for all that they see here."""
        scopes = {"scopes_supported": list(self._scopes)} if self._scopes else {}
        return {
            "resource": resource,
            "authorization_servers": [*self._own_issuer(resource), *self._issuers],
            "bearer_methods_supported": ["header"],
            "resource_name": "Toolyard",
            **scopes,
        }

    def accepts(self, resource: str, base: str) -> bool:
        """Whether this is the URL of an endpoint below `base`, which is what `url` gives for no path."""
        return resource.startswith(f"{base}/") and bool(self._paths.fullmatch(resource.removeprefix(base)))

    def _own_issuer(self, resource: str) -> list[str]:
        """Our own server is the first, because many clients know one only."""
        if not self._is_issuer:
            return []
        if self._public and resource.startswith(f"{self._public}/"):
            return [self._public]
        parts = urlsplit(resource)
        return [f"{parts.scheme}://{parts.netloc}"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method: str = scope["method"]
        if method == "OPTIONS":
            await send_empty(send, 204, _CORS)
            return
        if method not in ("GET", "HEAD"):
            await _refuse(send, 405, "Only GET is allowed here", [(b"allow", b"GET, HEAD, OPTIONS")])
            return
        resource = self._resource_of(scope) if self._issuers or self._is_issuer else ""
        if not resource:
            await _refuse(send, 404, "There is no protected resource of that name", [])
            return
        body = encode(self.metadata(resource))
        await send_json(send, 200, body, [*_CORS, (b"vary", b"host")], PUBLIC_JSON_HEADERS)

    def _resource_of(self, scope: Scope) -> str:
        """The resource whose metadata are asked for; the root document is that of the main endpoint."""
        path: str = scope["path"].removeprefix(WELL_KNOWN)
        prefix = urlsplit(self._public).path
        if prefix and path.startswith(f"{prefix}/"):
            path = path.removeprefix(prefix)
        if path in ("", "/"):
            path = self._endpoint
        if not self._paths.fullmatch(path):
            return ""
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        return self.url(path.rstrip("/"), host, scope.get("scheme", "http"))


async def _refuse(send: Send, status: int, message: str, headers: Headers) -> None:
    await send_json(send, status, encode_error(None, InvalidRequest(message)), [*_CORS, *headers])
