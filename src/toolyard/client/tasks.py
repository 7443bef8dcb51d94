"""Tasks as a client follows them: calls that outlive their request, in the way of either era.

Modern: a call whose client can follow tasks may be answered with one; `tasks/get` shows all of it, questions
are answered by `tasks/update`. Legacy (2025-11-25): the client asks for a task, `tasks/result` waits for its
result and carries its questions.
"""

import asyncio
from contextlib import suppress
from typing import Any

from ..wire.errors import INTERNAL_ERROR, McpError
from .errors import ClientError, TaskError
from .types import CallResult, Json, Requester, number, object_of, tool_result

SHORTEST_POLL, LONGEST_POLL = 0.02, 10.0
OVER = ("completed", "failed", "cancelled")


class RemoteTask:
    """A call that goes on without its request. `state` is what the server last said of it."""

    def __init__(self, client: Requester, state: Json) -> None:
        self._client = client
        self.state = state
        self._answered: set[str] = set()

    @property
    def id(self) -> str:
        return str(self.state.get("taskId", ""))

    @property
    def status(self) -> str:
        """`working`, `input_required`, `completed`, `failed` or `cancelled`."""
        return str(self.state.get("status", ""))

    @property
    def message(self) -> str | None:
        """What it is doing, in the server's words."""
        found = self.state.get("statusMessage")
        return found if isinstance(found, str) else None

    @property
    def is_over(self) -> bool:
        return self.status in OVER

    async def refresh(self) -> "RemoteTask":
        """OutgoingRequest the server how it stands."""
        self.state = await self._client.request("tasks/get", {"taskId": self.id}, tasks=True)
        return self

    async def cancel(self) -> None:
        await self._client.request("tasks/cancel", {"taskId": self.id}, tasks=True)
        with suppress(McpError, ClientError):  # it is cancelled, whether it can still be seen or not
            await self.refresh()

    async def result(self) -> CallResult:
        """What it comes to, questions answered on the way; TaskError when it failed or was cancelled.

        Who is cancelled while waiting leaves the task running; `cancel` ends it.
        """
        return tool_result(await (self._by_polling() if self._client.era == "modern" else self._by_waiting()))

    async def _by_waiting(self) -> Json:
        try:
            result = await self._client.request("tasks/result", {"taskId": self.id}, timeout=None)
        except McpError as error:
            await self.refresh()
            if self.is_over:
                raise self._over(error) from error
            raise
        with suppress(McpError, ClientError):  # the result is there, whether the task is still shown or not
            await self.refresh()
        return result

    async def _by_polling(self) -> Json:
        while not self.is_over:
            asked = object_of(self.state.get("inputRequests"))
            fresh = {key: question for key, question in asked.items() if key not in self._answered}
            if fresh:
                answers = await self._client.answer({"inputRequests": fresh})
                self._answered |= fresh.keys()
                await self._client.request("tasks/update", {"taskId": self.id, **answers}, tasks=True)
            else:
                pause = (number(self.state.get("pollIntervalMs")) or 1000.0) / 1000
                await asyncio.sleep(min(max(pause, SHORTEST_POLL), LONGEST_POLL))
            await self.refresh()
        if self.status == "completed":
            return object_of(self.state.get("result"))
        error = object_of(self.state.get("error"))
        said = str(error.get("message") or self.message or "it does not say why")
        cause = McpError(_code(error), said, error.get("data"))
        raise self._over(cause) from cause

    def _over(self, error: McpError) -> TaskError:
        if self.status == "cancelled":
            return TaskError(f"task {self.id!r} was cancelled")
        return TaskError(f"task {self.id!r} failed: {error.message}")


class Finished(RemoteTask):
    """A call that was asked for as a task, and that the server answered at once."""

    def __init__(self, client: Requester, result: Json) -> None:
        super().__init__(client, {"taskId": "", "status": "completed", "result": result})

    async def refresh(self) -> RemoteTask:
        return self

    async def cancel(self) -> None:
        return None

    async def result(self) -> CallResult:
        return tool_result(object_of(self.state["result"]))


def _code(error: Json) -> int:
    code: Any = error.get("code")
    return code if isinstance(code, int) else INTERNAL_ERROR
