"""The gateway as an ASGI app.

Its view is at `/mcp`, and at `/agents/NAME/mcp` for the holder of a grant; each upstream is at `/mcp/NAME`.
Beside them are /health, /metrics, downloads of stored results at /results/<token>, and for operators
/approvals and /usage. The MCP endpoints themselves are in `edge.http`.
"""

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from ..artifacts.store import (
    LINK_PATH,
    Artifact,
    ArtifactReader,
    ArtifactStore,
    ArtifactStoreError,
    ResultLinks,
)
from ..callers.resource import WELL_KNOWN
from ..config import GatewayConfig
from ..connections.oauth.client_document import DOCUMENT_PATH
from ..edge.http.app import (
    AGENTS_PATH,
    AgentPaths,
    HttpEdge,
    HttpPage,
    PageContent,
    PathRouter,
    Readiness,
    json_page,
)
from ..edge.http.front_page import CONTENT_TYPE as FRONT_PAGE_TYPE
from ..edge.http.front_page import front_page
from ..edge.request import App, Headers, Identify, Pace, Receive, Scope, Send, send_json
from ..languages import answering
from ..limits.usage import CounterFilter
from ..telemetry.metrics import CONTENT_TYPE
from ..wire.call import Service
from ..wire.errors import InvalidRequest
from ..wire.messages import encode_error
from .approvals import APPROVALS_PATH, APPROVE_SCOPE, ApprovalsApi, Approver, approver_of
from .gateway import Gateway
from .login_paths import CALLBACK_PATH, CONNECT_PATH, KEY_PATH
from .operators import sender_of
from .usage import USAGE_PATH, USAGE_SCOPE, UsageApi, filter_of

logger = logging.getLogger("toolyard.app")

CHUNK_BYTES = 256 * 1024
MIN_COMPRESSED = 1024
# The content comes from tools: a browser must not treat it as a page of ours.
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cache-control", b"private, no-store"),
    (b"referrer-policy", b"no-referrer"),
]


class Downloads:
    """Serves stored results at signed links."""

    def __init__(self, store: ArtifactStore, links: ResultLinks, headers: Headers | None = None) -> None:
        self._store = store
        self._links = links
        self._headers = [*_SECURITY_HEADERS, *(headers or [])]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await _refuse(send, 405, "use GET or HEAD", [(b"allow", b"GET, HEAD")])
            return
        found = self._links.open(unquote(scope["path"].removeprefix(LINK_PATH)))
        try:
            reading = None if found is None else await self._store.open(*found)
        except ArtifactStoreError as error:
            await _refuse(send, 503, f"the result cannot be read now: {error.reason}")
            return
        if reading is None:
            await _refuse(send, 404, "unknown or expired result")
            return
        try:
            await _send(reading, scope, receive, send, self._headers)
        except ArtifactStoreError as error:
            # The response stays incomplete, so that the client notices.
            logger.warning("the download of a result failed: %s", error.reason)
        finally:
            await reading.close()


async def _send(
    reading: ArtifactReader, scope: Scope, receive: Receive, send: Send, headers: Headers
) -> None:
    artifact = reading.artifact
    gzip = artifact.size > MIN_COMPRESSED and _accepts_gzip(scope)
    head = [*_content_headers(artifact, gzip), *headers]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    if scope["method"] == "GET":
        disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            async for piece in _compressed(_chunks(reading)) if gzip else _chunks(reading):
                if disconnected.done():
                    return
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            disconnected.cancel()
    await send({"type": "http.response.body", "body": b""})


def _accepts_gzip(scope: Scope) -> bool:
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept-encoding").lower()
    for one in accepted.split(b","):
        name, _, weight = one.partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


def _content_headers(artifact: Artifact, gzip: bool) -> Headers:
    """The length is known unless the response is compressed."""
    size = (b"content-encoding", b"gzip") if gzip else (b"content-length", b"%d" % artifact.size)
    kind = (b"content-type", artifact.content_type.encode())
    return [kind, size, (b"vary", b"accept-encoding")]


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _chunks(reading: ArtifactReader) -> AsyncIterator[bytes]:
    at = 0
    while at < reading.artifact.size:
        piece = await reading.read(at, CHUNK_BYTES)
        if not piece:
            raise ArtifactStoreError("the result ended early")
        yield piece
        at += len(piece)


async def _compressed(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(6, wbits=31)
    async for piece in pieces:
        packed = await asyncio.to_thread(packer.compress, piece)  # 256 KiB take 5 ms
        if packed:
            yield packed
    yield packer.flush()


async def _refuse(
    send: Send, status: int, message: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    await send_json(send, status, encode_error(None, InvalidRequest(message)), headers or [])


def asgi(
    gateway: Gateway,
    *,
    path: str = "/mcp",
    allowed_hosts: list[str] | None = None,
    allowed_origins: list[str] | None = None,
    identify: Identify | None = None,
    exposed: bool = False,
    open_to_all: bool = False,
    max_body: int = 4 * 1024 * 1024,
    pace: Pace | None = None,
    on_start: Callable[[], Awaitable[Any]] | None = None,
    on_stop: Callable[[], Awaitable[Any]] | None = None,
) -> PathRouter:
    """Build the app. `on_start` runs after the gateway has started, `on_stop` before it closes.

    Hosts and origins default to those of the configuration; the host of `public_url` is always allowed.
    Who calls is found out by `identify`, else as `[auth]` says. `exposed`: other machines reach the app, so
    that a caller from there needs a credential, whatever `[auth]` says, unless it is `open_to_all`.
    """
    settings = gateway.config.gateway
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    if not gateway.base_url:  # whoever listens knows better
        gateway.base_url = settings.public_url.rstrip("/") or f"http://{host}:{settings.port}"
    hosts = [*(settings.allowed_hosts if allowed_hosts is None else allowed_hosts), *_public_host(settings)]
    origins = list(settings.allowed_origins) if allowed_origins is None else allowed_origins
    if identify is None:
        gateway.callers.enforce(exposed=exposed, open_to_all=open_to_all, hosts=hosts, endpoint=path)
    knows_callers = identify is not None or gateway.callers.setting.authenticator is not None
    if knows_callers or gateway.caller_keys().keys is not None:
        gateway.serve_many_tenants()

    def edge(service: Service, at: str, name: str | None = None) -> HttpEdge:
        return HttpEdge(
            service,
            gateway.sealer,
            path=at,
            allowed_hosts=hosts,
            allowed_origins=origins,
            identify=identify,
            callers=gateway.callers.setting,
            exists_for=None if name is None else gateway.sees(name),
            shows_pages_to=None if gateway.policy is None else gateway.policy.is_unrestricted,
            main_path=path,
            keys=gateway.caller_keys(name),
            max_body=max_body,
            pace=pace,
            locale=settings.locale,
        )

    async def start() -> None:
        await gateway.start()
        gateway.storage.check_soon()
        if on_start is not None:
            await on_start()

    async def stop() -> None:
        if on_stop is not None:
            await on_stop()
        await gateway.close()

    pages = {"/health": json_page(gateway.checked_health, lambda health: {"status": health["status"]})}
    strict = _transport_security(settings)
    metrics = gateway.metrics
    if metrics is not None:
        pages["/metrics"] = HttpPage(lambda: PageContent(CONTENT_TYPE, metrics.render()))
    pages["/"] = HttpPage(lambda: _front_page(gateway, path), for_everybody=True)
    main = edge(gateway.view(), path)
    routes: dict[str, App] = {
        LINK_PATH: Downloads(gateway.storage.store, gateway.storage.links, strict),
        WELL_KNOWN: gateway.callers.serve_metadata,
        CONNECT_PATH: gateway.serve_logins,
        CALLBACK_PATH: gateway.serve_logins,
        DOCUMENT_PATH: gateway.serve_logins,
        KEY_PATH: gateway.serve_logins,
        AGENTS_PATH: AgentPaths(main),
    }
    routes |= gateway.callers.login_paths
    policy = gateway.policy
    if policy is not None:

        async def approver(scope: Scope, receive: Receive) -> Approver:
            return approver_of(await sender_of(main, scope, receive, APPROVE_SCOPE))

        async def reader(scope: Scope, receive: Receive) -> CounterFilter | None:
            return filter_of(await sender_of(main, scope, receive, USAGE_SCOPE), policy.scope_of)

        routes[APPROVALS_PATH] = ApprovalsApi(policy.approvals.pending, approver)
        routes[USAGE_PATH] = UsageApi(lambda: policy.guard.limiter, reader)
    return PathRouter(
        path,
        main,
        names=lambda: gateway.servers,
        open=lambda name, at: edge(gateway.bare(name), at, name),
        pages=pages,
        start=start,
        stop=stop,
        routes=routes,
        page_headers=strict,
        readiness=lambda: _readiness(gateway),
        proxies=settings.proxies,
    )


async def _readiness(gateway: Gateway) -> Readiness:
    """Calls need a state to write to: keys, limits and sessions are there. Some need an audit.

    Servers behind us need not answer. A configuration that cannot be used is no fault: the gateway goes on
    with the one before, and a typo in a file that all replicas read would take all of them away.
    """
    probes, policy = gateway.storage.probes, gateway.policy
    # Results are not waited for: calls go on without the store.
    for probe in probes.values():
        probe.begin()
    await asyncio.gather(*(probes[name].check() for name in ("state", "audit") if name in probes))
    down = {name for name, probe in probes.items() if probe.is_down}
    faults: list[str] = []
    warnings: list[str] = []
    if "state" in down:
        faults.append("the state store cannot be used")
    if "audit" in down and policy is not None and policy.audit is not None:
        closed = policy.audit.refuses_calls
        (faults if closed else warnings).append("the audit cannot be written")
    if "store" in down:
        warnings.append("results cannot be stored")
    if gateway.config_fault is not None:
        warnings.append("the configuration on disk cannot be used")
    return Readiness(tuple(faults), tuple(warnings))


def _front_page(gateway: Gateway, path: str) -> PageContent:
    settings = gateway.config.gateway
    header = ("Authorization", "Bearer ty_…") if gateway.config.auth.keys else None
    with answering(settings.locale):
        return PageContent(FRONT_PAGE_TYPE, front_page(settings.name, f"{gateway.base_url}{path}", header))


def _transport_security(settings: GatewayConfig) -> Headers:
    """Asks browsers that reached us by TLS never to try without. Their plain requests could be redirected."""
    is_tls = urlsplit(settings.public_url).scheme == "https"
    return [(b"strict-transport-security", b"max-age=31536000")] if is_tls else []


def _public_host(settings: GatewayConfig) -> list[str]:
    host = urlsplit(settings.public_url).hostname
    return [f"[{host}]" if ":" in host else host] if host else []
