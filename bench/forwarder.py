"""The floor of a gateway: `python -m bench.forwarder --port N --upstream URL`.

It does what any gateway on ASGI with an aiohttp client must do for one call, and nothing else: read the
request, know its id and method, post it over a kept connection, read the reply, answer under the
client's id. No names, no lists, no limits, no policy. It passes version and session headers through, so it
serves both eras without knowing them.
"""

import argparse
import gc
import importlib
from typing import Any

import msgspec

from bench.kit_servers import end_with_parent, serve

PASSED_ON = (b"mcp-protocol-version", b"mcp-session-id", b"mcp-method", b"mcp-name")


class Request(msgspec.Struct, omit_defaults=True):
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | str | None = None
    jsonrpc: str = ""


class Response(msgspec.Struct, omit_defaults=True):
    jsonrpc: str
    id: int | str | None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Forwarder:
    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._decode_request = msgspec.json.Decoder(Request).decode
        self._decode_response = msgspec.json.Decoder(Response).decode
        self._encode = msgspec.json.Encoder().encode
        self._count = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        request = self._decode_request(body)
        status, headers, reply = await self._forward(scope["headers"], request)
        headers.append((b"content-length", b"%d" % len(reply)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": reply})

    async def _forward(
        self, headers: list[tuple[bytes, bytes]], request: Request
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        wanted = request.id
        if wanted is not None:
            self._count += 1
            request.id = self._count
        sent = {name.decode(): value.decode() for name, value in headers if name in PASSED_ON}
        sent["content-type"] = "application/json"
        sent["accept"] = "application/json, text/event-stream"
        async with self._session.post(self._upstream, data=self._encode(request), headers=sent) as answer:
            reply = await answer.read()
            session = answer.headers.get("mcp-session-id")
        back = [(b"content-type", b"application/json")]
        if session:
            back.append((b"mcp-session-id", session.encode()))
        if wanted is not None:
            response = self._decode_response(reply)
            response.id = wanted
            reply = self._encode(response)
        return answer.status, back, reply

    async def _live(self, receive: Any, send: Any) -> None:
        import aiohttp

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=60),
            skip_auto_headers=("user-agent",),
        )
        async with self._session:
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.forwarder", description="Serve the bare forwarder."
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True)
    parser.add_argument(
        "--tuned", action="store_true", help="with the garbage collector set as the gateway's"
    )
    options = parser.parse_args()
    end_with_parent()
    if options.tuned:
        importlib.import_module("aiohttp")  # before the freeze, as in the gateway

        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
    # The gateway skips this too.
    serve(
        Forwarder(options.upstream),
        options.port,
        server_header=False,
        date_header=False,
        proxy_headers=False,
    )


if __name__ == "__main__":
    main()
