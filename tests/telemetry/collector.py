"""An OTLP/HTTP receiver on loopback, that decodes what it is sent with the published protobuf messages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector:
    def __init__(self) -> None:
        self.url = ""
        self.received: asyncio.Queue[ExportTraceServiceRequest] = asyncio.Queue()
        self.headers: list[dict[str, str]] = []

    async def take(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        self.received.put_nowait(ExportTraceServiceRequest.FromString(await request.read()))
        answer = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=answer, content_type="application/x-protobuf")

    async def describe(self, _: web.Request) -> web.Response:
        """What the logfire package asks before it sends."""
        return web.json_response({"project_name": "yard", "project_url": self.url})


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    running = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", running.take)
    app.router.add_get("/v1/info", running.describe)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    running.url = f"http://{host}:{port}"
    try:
        yield running
    finally:
        await runner.cleanup()
