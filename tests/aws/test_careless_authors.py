"""What a function writes to its log when an author's code puts the key of its caller into everything."""

import asyncio
import base64
import io
import json
import logging
import traceback
from typing import Any, cast

from tests.serving import modern
from toolyard.edge.aws.events import BufferedResponse, EventRequest
from toolyard.edge.aws.function import LambdaEdge, LambdaRoute
from toolyard.edge.request import CallerKeys, Headers
from toolyard.telemetry.logs import JsonLines
from toolyard.wire.call import Call, Secret, Service
from toolyard.wire.seal import Sealer


class Careless:
    """A service and a gate that put the key of their caller into everything that goes wrong."""

    async def handle(self, call: Call) -> Any:
        key = next(iter((call.secrets or {}).values())).reveal()
        logging.getLogger("author").warning(
            "asking with %s and %s", key, base64.b64encode(key.encode()).decode()
        )
        if "cancelled" in str(bytes(call.params)):
            raise asyncio.CancelledError(f"not with {key}")
        raise RuntimeError(f"not with {key}")

    async def admit(self, key: Secret) -> None:
        if key.reveal().startswith("broken"):
            raise RuntimeError(f"no gate for {key.reveal()}")


class Deaf(BufferedResponse):
    """Takes no answer."""

    async def start(self, status: int, headers: Headers) -> None:
        raise ConnectionError("nobody takes it")


async def test_no_log_has_the_key_of_a_caller():
    careless = Careless()
    keys = CallerKeys(("x-key",), admit=careless.admit)
    edge = LambdaEdge({"/mcp": LambdaRoute("careless", cast(Service, careless), Sealer(b"0" * 16), keys)})
    written, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines())
    root.addHandler(handler)
    lost: list[str] = []
    try:
        for key, name in (("k3y/of-ana", "fails"), ("k3y/of-ana", "cancelled"), ("broken-k3y/of-ana", "x")):
            headers, message = modern("tools/call", {"name": name, "arguments": {}})
            told = (headers | {"x-key": key}).items()
            pairs = [(name.lower().encode(), value.encode()) for name, value in told]
            request = EventRequest("POST", "/mcp", pairs, json.dumps(message).encode(), "v2")
            outlet = BufferedResponse("v2")
            await edge.serve(request, outlet, None)
            assert "k3y" not in json.dumps(outlet.reply())
            try:
                await edge.serve(request, Deaf("v2"), None)
            except ConnectionError as error:
                lost.append("".join(traceback.format_exception(error)))
    finally:
        root.removeHandler(handler)
    # What becomes of those is another log's, which does not know the key any more.
    assert ["k3y" in said for said in lost] == [False] * 2
    log = written.getvalue()
    assert "k3y" not in log
    assert base64.b64encode(b"k3y/of-ana").decode()[:10] not in log
    for said in ("asking with *** and ", "RuntimeError: not with ***", "not with ***", "no gate for ***"):
        assert said in log
