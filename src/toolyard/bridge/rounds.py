"""Doing for a legacy caller what a modern client does itself: answering in rounds, following a task."""

import asyncio
import secrets
from typing import Any

from msgspec import Raw, Struct

from ..upstream.errors import Garbled
from ..upstream.link import ASKED_BY, DEAF, Link, Params, Result, askable
from ..upstream.spool import Spooled
from ..wire.call import Call
from ..wire.errors import INTERNAL_ERROR, ErrorObject, McpError
from ..wire.messages import decode_params
from .ears import PROGRESS
from .members import raw

_NONE = Raw(b"{}")
SHORTEST_POLL = 0.02
LONGEST_POLL = 10.0


class _Question(Struct):
    method: str
    params: Raw = Raw(b"{}")


class _Asked(Struct, rename="camel"):
    input_requests: dict[str, _Question] = {}
    request_state: Raw = _NONE


class _Task(Struct, rename="camel"):
    task_id: str
    status: str
    poll_interval_ms: float | None = None
    status_message: str | None = None
    result: Raw = _NONE
    error: ErrorObject | None = None
    input_requests: dict[str, _Question] = {}


def check_questions(server: str, call: Call, result: Result) -> None:
    """An upstream may only ask what the client said it can be asked."""
    if isinstance(result, Spooled):
        raise Garbled(server, "its questions are too big")
    try:
        asked = decode_params(result, _Asked).input_requests
    except McpError as error:
        raise Garbled(server, f"its questions cannot be understood: {error.message}") from None
    _check(server, call, asked)


def _check(server: str, call: Call, questions: dict[str, _Question]) -> None:
    declared = askable(call.caller)
    for question in questions.values():
        if ASKED_BY.get(question.method) not in declared:
            raise Garbled(server, f"it asks {question.method[:80]!r}, which the client cannot be asked")


async def ask_all(call: Call, result: Raw) -> Params:
    """Put an upstream's questions to the client; what to send along with the next try."""
    asked = decode_params(result, _Asked)
    answers = await _answers(call, asked.input_requests)
    state = {} if asked.request_state is _NONE else {"requestState": Raw(bytes(asked.request_state))}
    return {"inputResponses": raw(answers), **state}


async def _answers(call: Call, questions: dict[str, _Question]) -> dict[str, Raw]:
    asking = [asyncio.create_task(_ask(call, question)) for question in questions.values()]
    try:
        return dict(zip(questions, await asyncio.gather(*asking), strict=True))
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def _ask(call: Call, question: _Question) -> Raw:
    params: Any = question.params
    if question.method == "elicitation/create" and b'"url"' in bytes(question.params):
        members = decode_params(params, dict[str, Raw])
        # The legacy era wants a name for a link; the modern one has none.
        members.setdefault("elicitationId", raw(secrets.token_urlsafe(12)))
        params = members
    return await call.channel.ask(question.method, params)


def _task(server: str, shown: Raw) -> _Task:
    try:
        return decode_params(shown, _Task)
    except McpError as error:
        raise Garbled(server, f"what it calls a task cannot be understood: {error.message}") from None


async def follow_task(link: Link, call: Call, result: Raw, meta: Params) -> Result:
    """Wait for a task as its client would, and return what it comes to."""
    task = _task(link.server, result)
    id = raw(task.task_id)
    answered: set[str] = set()
    said: str | None = None
    steps = 0
    try:
        while True:
            if task.status == "completed":
                if not bytes(task.result).lstrip().startswith(b"{"):
                    raise Garbled(link.server, "the result of its task is not an object")
                return Raw(bytes(task.result))
            if task.status == "failed":
                error = task.error or ErrorObject(INTERNAL_ERROR, "The task failed")
                raise McpError(error.code, error.message, error.data)
            if task.status == "cancelled":
                raise McpError(INTERNAL_ERROR, "The task was cancelled")
            if task.status_message and task.status_message != said and call.progress_token is not None:
                said, steps = task.status_message, steps + 1
                told = {"progressToken": call.progress_token, "progress": steps, "message": said}
                await call.channel.notify(PROGRESS, told)
            fresh = {key: item for key, item in task.input_requests.items() if key not in answered}
            if task.status == "input_required" and fresh:
                _check(link.server, call, fresh)
                answers = await _answers(call, fresh)
                answered |= fresh.keys()
                await link.request(
                    "tasks/update", {**meta, "taskId": id, "inputResponses": raw(answers)}, DEAF
                )
            else:
                pause = (task.poll_interval_ms or 1000) / 1000
                await asyncio.sleep(min(max(pause, SHORTEST_POLL), LONGEST_POLL))
            shown = await link.request("tasks/get", {**meta, "taskId": id}, DEAF)
            if isinstance(shown, Spooled):
                shown.close()
                raise McpError(INTERNAL_ERROR, "The task's result is too big to be passed on")
            task = _task(link.server, shown)
    except asyncio.CancelledError:
        cancelling = link.request("tasks/cancel", {**meta, "taskId": id}, DEAF)
        await asyncio.shield(asyncio.ensure_future(_quietly(cancelling)))
        raise


async def _quietly(request: Any) -> None:
    try:
        async with asyncio.timeout(2):
            await request
    except (McpError, TimeoutError):
        pass
