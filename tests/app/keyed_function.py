"""A server whose callers bring keys, and a function of it that a test runs as a program."""

import asyncio
import json
import sys
from typing import Any

from toolyard.kit import CallerKeys, Context, Image, Secret, Server

FATAL = "tenant-with-a-key-that-breaks-it"


async def admit(key: Secret) -> None:
    """Fails in a way its author did not foresee, for one key."""
    if key.reveal() == FATAL:
        raise RuntimeError(f"not foreseen, with {key.reveal()}")


KEYS = CallerKeys(("x-tiflux-api-key",), required=False, admit=admit)
server = Server("keyed", version="1.0", caller_keys=KEYS)


@server.tool
async def fails(ctx: Context) -> str:
    """Fails in a way its author did not foresee."""
    key = ctx.secret("x-tiflux-api-key")
    raise RuntimeError(f"not foreseen, with {key!r}")


@server.tool
async def gives_up() -> str:
    """Cancels whatever it runs in."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


@server.tool(
    output_schema={"type": "object", "properties": {"items": {"type": "array"}}, "required": ["items"]}
)
async def much(megabytes: int) -> dict[str, Any]:
    """Answers with very many records."""
    return {"items": [{"number": number, "text": "x" * 1000} for number in range(megabytes * 1024)]}


@server.tool
async def picture(megabytes: int) -> Image:
    """Answers with what cannot be summarised."""
    return Image(b"\0" * megabytes * 1024 * 1024, "image/png")


@server.tool(long=True)
async def job() -> str:
    """Would be a task where there is somebody to go on with it."""
    return "done"


def main() -> None:
    """Answer the events that come on standard input, one a line."""
    from toolyard.app.aws_lambda import function

    handler = function(["tests.app.keyed_function:server"])
    for line in sys.stdin:
        print(json.dumps(handler(json.loads(line), Told())), flush=True)


class Told:
    aws_request_id = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


if __name__ == "__main__":
    main()
