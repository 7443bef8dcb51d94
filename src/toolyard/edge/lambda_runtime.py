"""`python -m toolyard.edge.lambda_runtime`: takes events from Lambda's Runtime API, one after the other.

Stands in the place of AWS's own loop for Python, which can neither stream an answer nor let go of an event
before the next one has come. With TOOLYARD_STREAM=0 answers go back whole, for a URL that does not stream.
"""

import asyncio
import gc
import logging
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Protocol

import msgspec

from .lambda_api import ApiFailure, Invoked, RuntimeApi, Streaming
from .lambda_events import kind_of
from .lambda_outlets import Collected, Outlet

logger = logging.getLogger("toolyard.function")

API_VARIABLE, HANDLER_VARIABLE = "AWS_LAMBDA_RUNTIME_API", "_HANDLER"
FOLDER_VARIABLE, STREAM_VARIABLE = "LAMBDA_TASK_ROOT", "TOOLYARD_STREAM"


class Handler(Protocol):
    """What `toolyard.app.aws_lambda.function` makes."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    async def answer(self, event: Any, context: Any, outlet: Outlet) -> None: ...


Answer = Callable[[RuntimeApi, Handler, Invoked], Awaitable[None]]
"""Answers one event, in one of the two ways."""


class Context:
    """What the handler is told of an invocation."""

    def __init__(self, request_id: str, deadline_ms: int) -> None:
        self.aws_request_id = request_id
        self._deadline_ms = deadline_ms

    def get_remaining_time_in_millis(self) -> int:
        return max(0, self._deadline_ms - int(time.time() * 1000))


def main() -> None:
    api = RuntimeApi(os.environ[API_VARIABLE])
    try:
        handler = _handler(os.environ.get(HANDLER_VARIABLE, "function.handler"))
    except BaseException as error:  # whatever it was, AWS is to show it
        traceback.print_exc()
        asyncio.run(api.fail_init(told(error)))
        sys.exit(1)
    try:
        handler.loop.run_until_complete(_serve(api, handler, os.environ.get(STREAM_VARIABLE) != "0"))
    except ApiFailure as error:
        sys.exit(f"the Runtime API is gone: {error}")


def _handler(name: str) -> Handler:
    """`module.attribute`, as AWS names handlers."""
    sys.path.insert(0, os.environ.get(FOLDER_VARIABLE) or os.getcwd())
    module, _, attribute = name.rpartition(".")
    found = getattr(import_module(module.replace("/", ".")), attribute)
    if not hasattr(found, "answer"):
        raise TypeError(f"{name!r} is no handler that streams; make it with toolyard.app.aws_lambda.function")
    return found


async def _serve(api: RuntimeApi, handler: Handler, streams: bool) -> None:
    answer = _streamed if streams else _whole
    while True:
        # In a call of its own: when it returns, nothing here holds on to the event.
        await _answered(answer, api, handler, await api.next())


async def _answered(answer: Answer, api: RuntimeApi, handler: Handler, invoked: Invoked) -> None:
    try:
        await answer(api, handler, invoked)
        return
    except ApiFailure as error:  # such as when its caller has hung up: others will come
        logger.error("an answer was lost: %s", error)
    gc.collect()  # the error and the frames it came through hold each other, and one of them the event


async def _streamed(api: RuntimeApi, handler: Handler, invoked: Invoked) -> None:
    outlet = Streaming(api, invoked.id)
    try:
        event = msgspec.json.decode(invoked.event)
        await handler.answer(event, Context(invoked.id, invoked.deadline_ms), outlet)
        await outlet.end()
    except ApiFailure:
        raise
    except Exception as error:
        logger.error("an invocation failed", exc_info=error)
        await (outlet.break_off(told(error)) if outlet.started else api.fail(invoked.id, told(error)))


async def _whole(api: RuntimeApi, handler: Handler, invoked: Invoked) -> None:
    try:
        event = msgspec.json.decode(invoked.event)
        outlet = Collected(kind_of(event))
        await handler.answer(event, Context(invoked.id, invoked.deadline_ms), outlet)
        reply = msgspec.json.encode(outlet.reply())
    except Exception as error:
        logger.error("an invocation failed", exc_info=error)
        await api.fail(invoked.id, told(error))
    else:
        await api.respond(invoked.id, reply)


def told(error: BaseException) -> dict[str, Any]:
    """An error in the form that the Runtime API takes. Its words are for AWS's console, not for callers."""
    lines = traceback.format_tb(error.__traceback__)
    return {"errorType": type(error).__name__, "errorMessage": str(error), "stackTrace": lines}


if __name__ == "__main__":
    main()
