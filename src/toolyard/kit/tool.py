"""A tool: its definition as clients see it, and one run of its function."""

import logging
import re
import secrets
from collections.abc import Callable
from typing import Any, Literal, Unpack

from msgspec import Raw, Struct

from ..wire.errors import McpError
from ..wire.headers import param_headers
from ..wire.types import CallToolResult, Meta, ToolAnnotations, ToolInfo
from .content import ToolError, ToolResult, error_result, to_result
from .context import Context
from .introspection import describe, name_of
from .options import BOUNDED, ToolOptions, check
from .pydantic_types import ValidatorError
from .running import Callee, reraise_signals
from .schema import DictSignature, Mismatch, Signature, output_of

logger = logging.getLogger("toolyard.kit")


TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
MAX_TTL = 7 * 24 * 3600.0


class Long(Struct, frozen=True, kw_only=True):
    """How a long tool becomes a task, for clients that declare the tasks extension.

    Others get the answer inline, unless `required`: then a modern client is told what to declare.
    """

    required: bool = False
    detach: Literal["at_once", "by_hand"] = "at_once"
    ttl: float = 3600.0
    """Seconds a task is kept, from its creation. A task still running then is stopped."""
    poll: float = 1.0
    """Seconds a client should wait between two looks."""

    def __post_init__(self) -> None:
        if self.detach not in ("at_once", "by_hand"):
            raise ValueError(f"detach must be 'at_once' or 'by_hand', not {self.detach!r}")
        if not 0 < self.ttl <= MAX_TTL:
            raise ValueError(f"ttl must be over 0 and at most {MAX_TTL:.0f} seconds, not {self.ttl!r}")
        if not 0 < self.poll <= MAX_TTL:
            raise ValueError(f"poll must be over 0 and at most {MAX_TTL:.0f} seconds, not {self.poll!r}")


class Tool:
    def __init__(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        check(options, ToolOptions, "a tool")
        self.name = options.get("name") or name_of(function)
        if not TOOL_NAME.fullmatch(self.name):
            raise ValueError(f"tool name {self.name!r} must be 1 to 128 of A-Z a-z 0-9 _ . -")
        self.serial = 0
        self.listed = options.get("listed", True)
        long = options.get("long", False)
        self.long = (Long() if long else None) if isinstance(long, bool) else long
        schema = options.get("input_schema")
        try:
            self._signature = (
                Signature(function, Context) if schema is None else DictSignature(function, Context, schema)
            )
            self._output = output_of(function, options.get("output_schema"), (ToolResult,))
        except TypeError as error:
            if self.name == name_of(function):
                raise
            raise TypeError(f"tool {self.name!r}: {error}") from None
        self._callee = Callee(function, self._signature.context_name)
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
            icons=options.get("icons"),
            meta=_with_ui(_with_bound(options), options.get("ui")),
        )

    @property
    def wants_context(self) -> bool:
        return self._callee.wants_context

    async def run(self, arguments: Raw | dict[str, Any], context: Context | None) -> CallToolResult:
        """Validate, call, and shape the result. What the model can mend comes back as an error result."""
        try:
            bound = self._signature.bind(arguments)
        except Mismatch as error:
            return error_result(f"Invalid arguments for tool {self.name!r}: {error}")
        except ValidatorError as error:
            return self._failed(error.__cause__ or error)
        try:
            return to_result(await self._callee(bound, context), self._output)
        except ToolError as error:
            return error_result(str(error))
        except Mismatch as error:
            logger.error("tool %r returned what cannot be sent: %s", self.name, error)
            wrong = "does not fit its output schema" if self.info.output_schema else "cannot be sent"
            return error_result(f"Tool {self.name!r} returned a result that {wrong}: {error}")
        except McpError:
            raise
        except BaseException as error:  # an author's bug must not become a broken connection
            reraise_signals(error)
            return self._failed(error)

    def _failed(self, error: BaseException) -> CallToolResult:
        """An unforeseen exception: the log gets all of it, the caller a reference to find it by."""
        reference = secrets.token_hex(4)
        logger.error("tool %r failed (reference %s)", self.name, reference, exc_info=error)
        return error_result(
            f"Tool {self.name!r} failed unexpectedly (reference {reference} in the server's log)"
        )


def _annotations(options: ToolOptions) -> ToolAnnotations | None:
    found = ToolAnnotations(
        read_only_hint=options.get("read_only"),
        destructive_hint=options.get("destructive"),
        idempotent_hint=options.get("idempotent"),
        open_world_hint=options.get("open_world"),
    )
    return found if found != ToolAnnotations() else None


def _with_bound(options: ToolOptions) -> Meta | None:
    meta = options.get("meta")
    return {**(meta or {}), BOUNDED: True} if options.get("bounded", False) else meta


def _with_ui(meta: Meta | None, ui: str | None) -> Meta | None:
    if ui is None:
        return meta
    if not ui.startswith("ui://"):
        raise ValueError(f"ui must be a ui:// address, not {ui!r}")
    return {**(meta or {}), "ui": {**(meta or {}).get("ui", {}), "resourceUri": ui}}
