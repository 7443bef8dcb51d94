"""`TifluxEmulator`: serves the emulated API on loopback to its tenants, and misbehaves as it is told."""

import re
from types import TracebackType

from aiohttp import web
from aiohttp.typedefs import Handler

from . import bodies, queries
from .asked import Asked, Reply, Request
from .endpoints import ENDPOINTS, Endpoint
from .faults import Fault, How
from .refusals import Refusal, forbidden, missing, unauthorised
from .seeding import seeded
from .tenant import Tenant

API_KEY = "tfx-key-of-the-first-tenant-0001"
BASE = "/api/v2"
MOST_BYTES = 512 * bodies.MIB
SEEN = web.RequestKey("seen", Request)


class TifluxEmulator:
    """`async with TifluxEmulator() as tiflux: … tiflux.url …`; its first tenant has the key `API_KEY`."""

    def __init__(self, port: int = 0, key: str = API_KEY) -> None:
        self.url = ""
        self.tenants: dict[str, Tenant] = {}
        """By key."""
        self.requests: list[Request] = []
        """Every one so far, those that were refused included."""
        self.faults: list[Fault] = []
        self._port = port
        if key:
            self.add_tenant(key)

    def add_tenant(
        self, key: str, seed: int | None = None, *, enable_mcp: bool = True, admin: bool = True
    ) -> Tenant:
        """Tenants with different seeds have different texts; by themselves the seeds are 1, 2, 3, …"""
        number = len(self.tenants) + 1 if seed is None else seed
        tenant = seeded(Tenant(key, number, enable_mcp=enable_mcp, admin=admin))
        self.tenants[key] = tenant
        return tenant

    @property
    def tenant(self) -> Tenant:
        """The first one."""
        return next(iter(self.tenants.values()))

    def misbehave(
        self,
        how: How,
        path: str = ".*",
        *,
        method: str = "",
        times: int = 1,
        after: int = 0,
        retry_after: str = "",
        message: str = "",
    ) -> Fault:
        """Let requests whose path matches go wrong: so many of them (-1: all), after so many good ones."""
        fault = Fault(how, re.compile(path), method, times, after, retry_after, message)
        self.faults.append(fault)
        return fault

    def behave(self) -> None:
        """Forget all faults; what is slow goes on."""
        for fault in self.faults:
            fault.release()
        self.faults.clear()

    def asked_for(self, path: str, method: str = "GET") -> list[Request]:
        return [request for request in self.requests if (request.method, request.path) == (method, path)]

    async def __aenter__(self) -> "TifluxEmulator":
        app = web.Application(middlewares=[self._answer], client_max_size=MOST_BYTES)
        app.add_routes([web.route(e.method, BASE + e.path, self._handler(e)) for e in ENDPOINTS])
        # Whoever waits for ever is not waited for.
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}{BASE}"
        return self

    async def __aexit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        seen = request[SEEN] = _seen(request)
        self.requests.append(seen)
        try:
            response = await self._with_faults(request, handler)
        except Refusal as refusal:
            response = web.json_response(refusal.shown, status=refusal.status)
        except (web.HTTPNotFound, web.HTTPMethodNotAllowed) as error:
            said = {"error_code": error.status * 100, "message": error.reason}
            response = web.json_response(said, status=error.status)
        seen.status = response.status
        return response

    async def _with_faults(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        seen = request[SEEN]
        await bodies.read(request, seen)
        for fault in self.faults:
            if fault.takes(seen.method, seen.path):
                reply = await fault.strike(request, seen.key)
                if reply is not None:
                    return reply
                break
        return await handler(request)

    def _handler(self, endpoint: Endpoint) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            seen = request[SEEN]
            tenant = self._tenant(seen)
            if endpoint.admin and not tenant.admin:
                raise forbidden("see or change users")
            asked = Asked(
                tenant,
                {name: _id(name, text) for name, text in request.match_info.items()},
                queries.checked(request.query, endpoint.query),
                bodies.checked(endpoint.body, request, seen),
                seen.files,
            )
            return _written(endpoint.answer(asked))

        return handle

    def _tenant(self, seen: Request) -> Tenant:
        """Only Bearer counts, and the header of the endpoint in front has no business here."""
        if "x-tiflux-api-key" in seen.headers:
            raise Refusal(400, "x-tiflux-api-key is no header of this API")
        accepted = seen.headers.get("accept", "*/*")
        if "application/json" not in accepted and "*/*" not in accepted:
            raise Refusal(406, "Only application/json is given")
        if seen.key not in self.tenants:
            raise unauthorised()
        return self.tenants[seen.key]


def _seen(request: web.Request) -> Request:
    headers = {name.lower(): value for name, value in request.headers.items()}
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return Request(
        request.method,
        request.rel_url.raw_path.removeprefix(BASE),
        list(request.query.items()),
        headers,
        key if scheme.lower() == "bearer" else "",
    )


def _id(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise missing(name, text)
    return int(text)


def _written(reply: Reply) -> web.Response:
    headers = {} if reply.total is None else {"X-Total-Items": str(reply.total)}
    if reply.status == 204:
        return web.Response(status=204)
    return web.json_response(reply.body, status=reply.status, headers=headers)
