"""tools/list, tools/call, and the tasks that calls become."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw
from msgspec.structs import replace

from ...wire.call import Call
from ...wire.eras import TASKS_EXTENSION
from ...wire.errors import InvalidParams, MissingCapability
from ...wire.headers import check_params
from ...wire.messages import decode_params
from ...wire.types import (
    CallToolParams,
    CallToolResult,
    ListToolsResult,
    Result,
    TaskParams,
    TaskState,
    TaskUpdateParams,
)
from ..asks import Notes
from ..context import Context
from ..rounds import Detached, InputRequired, settle
from ..tasks import Task, TaskAsker
from ..tool import Long, Tool
from .base import Methods, check_own

if TYPE_CHECKING:
    from ..server import Server


class ToolMethods(Methods):
    def __init__(self, server: "Server") -> None:
        super().__init__(server)
        self.shared = {"tools/list": self._list, "tools/call": self._call}
        self.modern = {
            "tasks/get": self._get_task,
            "tasks/update": self._update_task,
            "tasks/cancel": self._cancel_task,
        }

    async def _list(self, call: Call) -> ListToolsResult:
        self._need(call, "tools")
        listed = [tool for tool in self._server.tools.values() if tool.listed]
        shown = await self._server.shown_tools(call)
        if shown is not None:
            listed = [tool for tool in listed if shown(tool)]
        tools, cursor = self._page(call, listed)
        return self._cached(call, ListToolsResult(tools=[tool.info for tool in tools], next_cursor=cursor))

    async def _call(self, call: Call) -> Result:
        params = decode_params(call.params, CallToolParams)
        tool = self._server.tools.get(params.name)
        shown = await self._server.shown_tools(call)
        if tool is None or (shown is not None and not shown(tool)):
            raise InvalidParams(f"Unknown tool: {params.name[:80]!r}")
        if tool.param_headers and call.param_headers is not None:
            arguments = decode_params(params.arguments, dict[str, Any])
            check_params(tool.param_headers, arguments, call.param_headers())
        long = self._as_task(call, tool)
        if long is not None and long.detach == "at_once":
            return self._start(call, tool, long, params.arguments, Notes())
        context = None
        if tool.wants_context or params.request_state is not UNSET:
            context = self._context(call, params, params.name, params.arguments, long is not None)
        try:
            running = tool.run(params.arguments, context)
            return await (running if context is None else settle(running))
        except InputRequired as pending:
            check_own(pending, context)
            return pending.result
        except Detached as detached:
            check_own(detached, context)
            assert long is not None, "only a call that may become a task can be detached"
            return self._start(call, tool, long, params.arguments, detached.notes)
        finally:
            if context is not None:
                context.close()

    def _as_task(self, call: Call, tool: Tool) -> Long | None:
        """How this call becomes a task, if the tool is long and the client can follow one."""
        long = tool.long
        if long is None or call.caller.era == "legacy":
            return None
        if call.caller.supports(TASKS_EXTENSION):
            return long
        if long.required:
            raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})
        return None

    def _start(self, call: Call, tool: Tool, long: Long, arguments: Raw, notes: Notes) -> TaskState:
        call = replace(call, secrets=None)  # a task outlives the request, and the caller's key must not

        async def run(asker: TaskAsker, say: Callable[[str], None]) -> CallToolResult:
            context = Context(call, asker, say)
            try:
                result = await tool.run(arguments, context)
            finally:
                context.close()
            result.result_type = "complete"
            return result

        state = self._server.tasks.start(long, call.caller, notes, run).handle()
        state.result_type = "task"
        return state

    # Tasks

    def _task(self, call: Call, id: str) -> Task:
        return self._server.tasks.find(id, call.caller)

    def _need_tasks(self, call: Call) -> None:
        self._need(call, "tasks")
        if not call.caller.supports(TASKS_EXTENSION):
            raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})

    async def _get_task(self, call: Call) -> TaskState:
        self._need_tasks(call)
        return self._task(call, decode_params(call.params, TaskParams).task_id).state()

    async def _update_task(self, call: Call) -> Result:
        self._need_tasks(call)
        params = decode_params(call.params, TaskUpdateParams)
        self._server.tasks.update(self._task(call, params.task_id), params.input_responses)
        return Result()

    async def _cancel_task(self, call: Call) -> Result:
        self._need_tasks(call)
        self._server.tasks.cancel(self._task(call, decode_params(call.params, TaskParams).task_id))
        return Result()
