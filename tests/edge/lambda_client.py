"""Talks to a Lambda edge in this process as `tests.serving.Client` does to a port."""

import json
from typing import Any

from tests.serving import Answer, Headers, encoded, modern, pairs_of
from toolyard.edge.aws.events import BufferedResponse, read_event
from toolyard.edge.aws.function import LambdaEdge

HOST = "abcdefghij.lambda-url.us-east-1.on.aws"


class LambdaClient:
    """Each request is an event of a Function URL; `seconds` is how long the function has."""

    def __init__(self, edge: LambdaEdge, seconds: float | None = None) -> None:
        self.edge = edge
        self.seconds = seconds

    async def ask(self, method: str, path: str, headers: Headers, body: bytes | None = None) -> Answer:
        event: dict[str, Any] = {
            "version": "2.0",
            "rawPath": path,
            "headers": {"host": HOST, **dict(pairs_of(headers))},
            "requestContext": {
                "http": {"method": method, "path": path},
                "stage": "$default",
                "domainName": HOST,
            },
            "isBase64Encoded": False,
        }
        if body is not None:
            event["body"] = body.decode("utf-8", "surrogateescape")
        outlet = BufferedResponse("v2")
        await self.edge.serve(read_event(event), outlet, self.seconds)
        reply = json.loads(json.dumps(outlet.reply()))
        return Answer(reply["statusCode"], reply["headers"], reply["body"].encode())

    async def post(self, headers: Headers, message: Any, path: str = "/mcp") -> Answer:
        return await self.ask("POST", path, headers, encoded(message))

    async def modern(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> Answer:
        return await self.post(*modern(method, params, **options))
