"""Tools: their definition, one run of the function, tools/list, tools/call and the tasks/* methods."""

import copy
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, Unpack

from msgspec import UNSET, Raw
from msgspec.structs import replace

from ...languages import said
from ...wire.call import TASKS_EXTENSION, Call
from ...wire.errors import McpError, MissingCapability
from ...wire.headers import check_params, param_headers
from ...wire.messages import decode_params
from ...wire.types import (
    CallToolParams,
    CallToolResult,
    ListToolsResult,
    Meta,
    Result,
    TaskParams,
    TaskState,
    TaskUpdateParams,
    ToolAnnotations,
    ToolInfo,
)
from ..calls.content import ToolError, ToolResult, error_result, to_result, to_wire
from ..calls.context import Context
from ..calls.files import AudioFile, File, ImageFile
from ..calls.input_requests import CallNotes, Detached, InputRequired, await_signals
from ..calls.tasks import Long, Task, TaskRequester
from ..components import Home, Kind, tags_of, with_tags
from ..schema.annotations import describe, name_of
from ..schema.pydantic_types import ValidatorError
from ..schema.validation import DictSignature, MismatchError, Signature, output_of
from .base import (
    BOUNDED,
    Feature,
    FeatureHost,
    TimedFunction,
    ToolOptions,
    author_function,
    check_options,
    icons_of,
    require_own,
    reraise_signals,
    unknown,
)

logger = logging.getLogger("toolyard.kit")

TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Tool:
    kind: Kind = "tool"
    home: Home | None = None
    serial = 0
    """Its place in lists, ascending in the order of declaration."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        lax: bool = False,
        bare_values: bool = False,
        **options: Unpack[ToolOptions],
    ) -> None:
        """`lax` and `bare_values`: as for the server."""
        check_options(options, ToolOptions, "a tool")
        self.name = options.get("name") or name_of(function)
        if not TOOL_NAME.fullmatch(self.name):
            raise ValueError(f"tool name {self.name!r} must be 1 to 128 of A-Z a-z 0-9 _ . -")
        self.original = self.name
        """Its name at `home`."""
        self.title_of: Callable[[str], str] | None = None
        """Makes its title of the name that it has."""
        self.tags = tags_of(options.get("tags"))
        self.listed = options.get("listed", True)
        long = options.get("long", False)
        self.long = (Long() if long else None) if isinstance(long, bool) else long
        schema = options.get("input_schema")
        try:
            self._signature = (
                Signature(function, Context, strict=not lax)
                if schema is None
                else DictSignature(function, Context, schema)
            )
            free = (ToolResult, ImageFile, AudioFile, File)
            self._output = output_of(function, options.get("output_schema"), free, bare_values)
        except TypeError as error:
            if self.name == name_of(function):
                raise
            raise TypeError(f"tool {self.name!r}: {error}") from None
        self._misfits = self._output.unchecked() if options.get("lenient_output", False) else None
        timeout = options.get("timeout")
        called = author_function(function, self._signature.context_name)
        self._function = called if timeout is None else TimedFunction(called, self.name, timeout)
        try:
            self.param_headers = param_headers(self._signature.validate.schema)
        except ValueError as error:
            raise ValueError(f"tool {self.name!r}: {error}") from None
        self.info = ToolInfo(
            name=self.name,
            title=options.get("title"),
            description=describe(function, options.get("description")),
            input_schema=self._signature.validate.schema,
            output_schema=self._output.schema,
            annotations=_annotations(options),
            icons=icons_of(options),
            meta=with_tags(_with_ui(_with_bound(options), options.get("ui")), self.tags),
        )

    @property
    def key(self) -> str:
        return self.name

    def under(self, namespace: str) -> "Tool":
        """Itself, as it is called where its server is mounted."""
        tool = copy.copy(self)
        tool.name = f"{namespace}_{self.name}"
        tool.original = self.name
        title = self.info.title if self.title_of is None else self.title_of(tool.name)
        tool.info = replace(self.info, name=tool.name, title=title)
        return tool

    @property
    def wants_context(self) -> bool:
        return self._function.wants_context

    def disable_tasks(self) -> None:
        """Run it within its call, however long it takes."""
        self.long = None

    def list_output_schema(self, schema: dict[str, Any]) -> None:
        """List this output schema instead of its own; results are still checked against its own."""
        self.info = replace(self.info, output_schema=schema)

    async def run(self, arguments: Raw | dict[str, Any], context: Context | None) -> CallToolResult:
        """Validate, call, and make the result. Failures that the model can correct become error results."""
        try:
            bound = self._signature.bind(arguments)
        except MismatchError as error:
            return error_result(
                said(
                    f"Invalid arguments for tool {self.name!r}: {error}",
                    f"Argumentos inválidos para a ferramenta {self.name!r}: {error}",
                )
            )
        except ValidatorError as error:
            return self._failed(error.__cause__ or error)
        try:
            return self._result(await self._function(bound, context))
        except ToolError as error:
            return error_result(str(error))
        except MismatchError as error:
            logger.error("tool %r returned a result that cannot be sent: %s", self.name, error)
            problem = (
                said("does not fit its output schema", "não cabe no seu esquema de saída")
                if self.info.output_schema
                else said("cannot be sent", "não pode ser enviado")
            )
            return error_result(
                said(
                    f"Tool {self.name!r} returned a result that {problem}: {error}",
                    f"A ferramenta {self.name!r} devolveu um resultado que {problem}: {error}",
                )
            )
        except McpError:
            raise
        except BaseException as error:  # an author's bug must not become a broken connection
            reraise_signals(error)
            return self._failed(error)

    def _result(self, value: Any) -> CallToolResult:
        try:
            return to_result(value, self._output)
        except MismatchError as error:
            if self._misfits is None:
                raise
            logger.error(
                "tool %r returned a result that does not fit its output schema: %s", self.name, error
            )
            return to_result(value, self._misfits)

    def _failed(self, error: BaseException) -> CallToolResult:
        """Log an unexpected exception; the caller gets a reference to the log line."""
        reference = secrets.token_hex(4)
        logger.error("tool %r failed (reference %s)", self.name, reference, exc_info=error)
        return error_result(
            said(
                f"Tool {self.name!r} failed unexpectedly (reference {reference} in the server's log)",
                f"A ferramenta {self.name!r} falhou inesperadamente (referência {reference} no log)",
            )
        )


def _annotations(options: ToolOptions) -> ToolAnnotations | None:
    given = options.get("annotations")
    if given is not None:
        return to_wire(given, ToolAnnotations, "annotations of a tool")
    annotations = ToolAnnotations(
        read_only_hint=options.get("read_only"),
        destructive_hint=options.get("destructive"),
        idempotent_hint=options.get("idempotent"),
        open_world_hint=options.get("open_world"),
    )
    return annotations if annotations != ToolAnnotations() else None


def _with_bound(options: ToolOptions) -> Meta | None:
    meta = options.get("meta")
    return {**(meta or {}), BOUNDED: True} if options.get("bounded", False) else meta


def _with_ui(meta: Meta | None, ui: str | None) -> Meta | None:
    if ui is None:
        return meta
    if not ui.startswith("ui://"):
        raise ValueError(f"ui must be a ui:// address, not {ui!r}")
    return {**(meta or {}), "ui": {**(meta or {}).get("ui", {}), "resourceUri": ui}}


class ToolHost(FeatureHost, Protocol):
    tools: Mapping[str, Tool]

    def visible_tools(self, call: Call) -> Awaitable[Callable[[Tool], bool] | None]:
        """A test whether the caller has a tool; None if every caller has all."""
        ...


class ToolFeature(Feature[ToolHost]):
    def __init__(self, host: ToolHost) -> None:
        super().__init__(host)
        self.shared = {"tools/list": self._list, "tools/call": self._call}
        self.modern = {
            "tasks/get": self._get_task,
            "tasks/update": self._update_task,
            "tasks/cancel": self._cancel_task,
        }

    async def _list(self, call: Call) -> ListToolsResult:
        self._require(call, "tools")
        listed = [tool for tool in self._host.tools.values() if tool.listed]
        is_visible = await self._host.visible_tools(call)
        if is_visible is not None:
            listed = [tool for tool in listed if is_visible(tool)]
        tools, cursor = self._page(call, listed)
        return self._cached(call, ListToolsResult(tools=[tool.info for tool in tools], next_cursor=cursor))

    async def _call(self, call: Call) -> Result:
        params = decode_params(call.params, CallToolParams)
        tool = self._host.tools.get(params.name)
        is_visible = await self._host.visible_tools(call)
        if tool is None or (is_visible is not None and not is_visible(tool)):
            raise unknown("tool", params.name)
        if tool.home is not None:
            return await tool.home.forward(call, "name", tool.original)
        if tool.param_headers and call.param_headers is not None:
            arguments = decode_params(params.arguments, dict[str, Any])
            check_params(tool.param_headers, arguments, call.param_headers())
        long = self._as_task(call, tool)
        if long is not None and long.detach == "at_once":
            return self._start(call, tool, long, params.arguments, CallNotes())
        context = None
        if tool.wants_context or params.request_state is not UNSET:
            context = self._context(call, params, params.name, params.arguments, long is not None)
        try:
            running = tool.run(params.arguments, context)
            return await (running if context is None else await_signals(running))
        except InputRequired as pending:
            require_own(pending, context)
            return pending.result
        except Detached as detached:
            require_own(detached, context)
            assert long is not None, "only a call that may become a task can be detached"
            return self._start(call, tool, long, params.arguments, detached.notes)
        finally:
            if context is not None:
                context.close()

    def _as_task(self, call: Call, tool: Tool) -> Long | None:
        """How this call becomes a task; None if the tool is not long or the client has no tasks."""
        long = tool.long
        if long is None or call.caller.era == "legacy":
            return None
        if call.caller.supports(TASKS_EXTENSION):
            return long
        if long.required:
            raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})
        return None

    def _start(self, call: Call, tool: Tool, long: Long, arguments: Raw, notes: CallNotes) -> TaskState:
        # A task outlives the request. The caller's keys must not, and tools that need them cannot be called.
        call = replace(call, secrets=None, call_tool=None if call.secrets else call.call_tool)

        async def run(requester: TaskRequester, set_message: Callable[[str], None]) -> CallToolResult:
            context = Context(call, requester, set_message, self._host)
            try:
                result = await tool.run(arguments, context)
            finally:
                context.close()
            result.result_type = "complete"
            return result

        state = self._host.tasks.start(long, call.caller, notes, run).handle()
        state.result_type = "task"
        return state

    def _task(self, call: Call, id: str) -> Task:
        return self._host.tasks.find(id, call.caller)

    def _require_tasks(self, call: Call) -> None:
        self._require(call, "tasks")
        if not call.caller.supports(TASKS_EXTENSION):
            raise MissingCapability({"extensions": {TASKS_EXTENSION: {}}})

    async def _get_task(self, call: Call) -> TaskState:
        self._require_tasks(call)
        return self._task(call, decode_params(call.params, TaskParams).task_id).state()

    async def _update_task(self, call: Call) -> Result:
        self._require_tasks(call)
        params = decode_params(call.params, TaskUpdateParams)
        self._host.tasks.update(self._task(call, params.task_id), params.input_responses)
        return Result()

    async def _cancel_task(self, call: Call) -> Result:
        self._require_tasks(call)
        self._host.tasks.cancel(self._task(call, decode_params(call.params, TaskParams).task_id))
        return Result()
