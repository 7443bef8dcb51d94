"""The tools: from arguments to the workbench, and from its results to replies with a readable text.

Code that fails is a result like any other, with `successful` false: a traceback is what the model asked for.
"""

import base64
import binascii
import io
import mimetypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ...kit import Context, Image, Long, Server, ToolError, ToolResult
from ...kit.localization import LocalizedTool, add_localized_tool
from ...workbench import BashResult, CallTool, CellResult, OnOutput, ToolRefusedError, WorkbenchError
from ...workbench.local import LocalWorkbench, LocalWorkbenches
from .results import (
    BashData,
    BashReply,
    CellData,
    CellReply,
    ExecutedData,
    ExecutedReply,
    FileInfo,
    FileMade,
    ReadData,
    ReadReply,
    SandboxData,
    SandboxReply,
    SessionInfo,
    TerminalData,
    TerminalReply,
    WrittenData,
    WrittenReply,
    markdown,
    tables_of,
)
from .settings import Settings
from .texts import (
    BASH,
    CREATE,
    EXECUTE,
    GET_FILE,
    TERMINAL,
    UPLOAD,
    WORKBENCH,
    WRITE,
    WorkbenchTexts,
)

AS_TASK_SECONDS = 60.0
"""Code that may run longer becomes a task, if the client has tasks."""
FILES = "workbench://files/"
_KEPT = Meta(ge=0, le=3600)


class UploadedFile(Struct, frozen=True, kw_only=True):
    """A file in an argument. Composio's has a key of its storage, which exists there only."""

    name: str = ""
    mimetype: str = ""
    content_base64: str | None = None
    s3key: str | None = None


class WorkbenchTools:
    def __init__(self, benches: LocalWorkbenches, settings: Settings, texts: WorkbenchTexts) -> None:
        self._benches = benches
        self._settings = settings
        self._texts = texts

    def add_to(self, server: Server) -> None:
        # Read-only, destructive, idempotent, open world.
        cells = (False, True, False, self._settings.network or self._settings.tools)
        commands = (False, True, False, self._settings.network)
        self._add(server, self.remote_workbench, WORKBENCH, CellReply, cells)
        self._add(server, self.remote_bash, BASH, BashReply, commands)
        self._add(server, self.create_sandbox, CREATE, SandboxReply, (False, False, False, False))
        self._add(server, self.execute_code, EXECUTE, ExecutedReply, cells)
        self._add(server, self.run_terminal, TERMINAL, TerminalReply, commands)
        self._add(server, self.get_file, GET_FILE, ReadReply, (True, False, True, False))
        self._add(server, self.upload_file, UPLOAD, WrittenReply, (False, True, True, False))
        self._add(server, self.write_file, WRITE, WrittenReply, (False, True, True, False))

    def _add(
        self,
        server: Server,
        function: Callable[..., Any],
        texts: tuple[LocalizedTool, LocalizedTool],
        reply: type,
        hints: tuple[bool, bool, bool, bool],
    ) -> None:
        is_long = function in (self.remote_workbench, self.execute_code)
        names = [texts[0].name]
        if texts[0].name.startswith("REMOTE_"):
            names.append(f"COMPOSIO_{texts[0].name}")
        for name in names:
            english, portuguese = (_named(one, name) for one in texts)
            shown = english if self._settings.locale == "en" else portuguese
            add_localized_tool(
                server,
                function,
                en=shown,
                pt=shown,
                output_schema=reply,
                read_only=hints[0],
                destructive=hints[1],
                idempotent=hints[2],
                open_world=hints[3],
                bounded=True,
                long=Long(detach="by_hand") if is_long else False,
            )
            if name != names[0]:
                server.tools[name].listed = False

    # Cells

    async def remote_workbench(
        self,
        ctx: Context,
        code_to_execute: str,
        session_id: str | None = None,
        file_path: str | None = None,
        timeout: Annotated[float, Meta(gt=0)] | None = None,  # noqa: ASYNC109 (a parameter of the tool)
        thought: str | None = None,
        current_step: str | None = None,
        current_step_metric: str | None = None,
        next_step: str | None = None,
    ) -> ToolResult:
        with self._errors():
            bench = self._benches.of(ctx.caller)
            await self._detach_if_long(ctx, timeout)
            result = await bench.run(
                code_to_execute,
                session=session_id or None,
                timeout=timeout,
                on_output=_progress(ctx),
                call_tool=self._call_tool(ctx),
            )
        error = self._error_of(result)
        data = CellData(
            stdout=result.stdout,
            stderr=result.stderr,
            results=result.value,
            error=error,
            stdout_file_path=result.stdout_file,
            stderr_file_path=result.stderr_file,
            session=self._session_of(result),
            tables=tables_of(result.tables),
            images=len(result.images),
            files=[FileMade(file.path, file.size) for file in result.files],
            fault=result.fault,
            variables_lost=result.variables_lost,
            box=bench.box.name,
        )
        reply = CellReply(data=data, error=error, successful=error is None)
        return self._cell_result(result, reply, error)

    async def remote_bash(self, ctx: Context, command: str, session_id: str | None = None) -> ToolResult:
        with self._errors():
            bench = self._benches.of(ctx.caller)
            result = await bench.bash(command, session=session_id or None, on_output=_progress(ctx))
        error = self._error_of(result)
        data = BashData(
            stdout=result.stdout,
            stderr=result.stderr,
            stdoutLines=result.stdout.splitlines(),
            stderrLines=result.stderr.splitlines(),
            exit_code=result.exit_code,
            error=error,
            stdout_file_path=result.stdout_file,
            stderr_file_path=result.stderr_file,
            session=self._session_of(result),
            fault=result.fault,
            box=bench.box.name,
        )
        reply = BashReply(data=data, error=error, successful=error is None)
        text = self._bash_text(result, error)
        return ToolResult(content=[text], structured=reply)

    # The code interpreter

    async def create_sandbox(self, ctx: Context, keep_alive: Annotated[int, _KEPT] = 300) -> ToolResult:
        with self._errors():
            bench = self._benches.of(ctx.caller)
            id = await bench.open(keep=float(keep_alive))
        reply = SandboxReply(data=SandboxData(id, bench.box.name))
        return ToolResult(content=[self._texts.sandbox.format(id)], structured=reply)

    async def execute_code(
        self,
        ctx: Context,
        code_to_execute: str,
        sandbox_id: str | None = None,
        timeout: Annotated[float, Meta(gt=0)] = 60.0,  # noqa: ASYNC109 (a parameter of the tool)
        keep_alive: Annotated[int, _KEPT] = 300,
    ) -> ToolResult:
        with self._errors():
            bench = self._benches.of(ctx.caller)
            session = self._sandbox(bench, sandbox_id, keep_alive)
            await self._detach_if_long(ctx, timeout)
            result = await bench.run(
                code_to_execute,
                session=session,
                timeout=timeout,
                on_output=_progress(ctx),
                call_tool=self._call_tool(ctx),
            )
        error = self._error_of(result)
        data = ExecutedData(
            stdout=result.stdout,
            stderr=result.stderr,
            results=result.value,
            error=error,
            sandbox_id=result.session_id,
            tables=tables_of(result.tables),
            images=len(result.images),
            files=[FileMade(file.path, file.size) for file in result.files],
        )
        reply = ExecutedReply(data=data, error=error, successful=error is None)
        return self._cell_result(result, reply, error)

    async def run_terminal(
        self,
        ctx: Context,
        command: str,
        sandbox_id: str | None = None,
        timeout: Annotated[float, Meta(gt=0)] | None = None,  # noqa: ASYNC109 (a parameter of the tool)
        keep_alive: Annotated[int, _KEPT] = 300,
    ) -> ToolResult:
        with self._errors():
            bench = self._benches.of(ctx.caller)
            session = self._sandbox(bench, sandbox_id, keep_alive)
            result = await bench.bash(command, session=session, timeout=timeout, on_output=_progress(ctx))
        error = self._error_of(result)
        data = TerminalData(
            stdout=result.stdout,
            stderr=result.stderr,
            exit_code=result.exit_code,
            sandbox_id=result.session_id,
        )
        reply = TerminalReply(data=data, error=error, successful=error is None)
        text = self._bash_text(result, error)
        return ToolResult(content=[text], structured=reply)

    # Files

    async def get_file(
        self,
        ctx: Context,
        file_path: str,
        sandbox_id: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (a parameter of the tool)
    ) -> ToolResult:
        data, file = await self.read(ctx, file_path, sandbox_id)
        try:
            content, encoding = data.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            content, encoding = base64.b64encode(data).decode("ascii"), "base64"
        reply = ReadReply(data=ReadData(file=file, content=content, encoding=encoding))
        binary = self._texts.binary.format(file.name, file.size, file.mimetype)
        return ToolResult(content=[content if encoding == "utf-8" else binary], structured=reply)

    async def read(self, ctx: Context, path: str, session: str | None = None) -> tuple[bytes, FileInfo]:
        into = io.BytesIO()
        with self._errors():
            bench = self._benches.of(ctx.caller)
            session = self._sandbox(bench, session)
            found = await bench.read_file(path, into, session=session, max_bytes=self._settings.read_bytes)
        name = found.path.rpartition("/")[2]
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        uri = FILES + _below_home(found.path)
        return into.getvalue(), FileInfo(name=name, mimetype=kind, uri=uri, size=found.size)

    async def upload_file(
        self,
        ctx: Context,
        destination_path: str,
        file: UploadedFile,
        sandbox_id: str | None = None,
        overwrite: bool = False,
    ) -> ToolResult:
        if file.content_base64 is None:
            raise ToolError(self._texts.no_content)
        data = self._from_base64(file.content_base64)
        return await self._write(ctx, destination_path, data, sandbox_id, overwrite=overwrite)

    async def write_file(
        self,
        ctx: Context,
        file_path: str,
        content: str,
        encoding: Literal["utf-8", "base64"] = "utf-8",
        sandbox_id: str | None = None,
        overwrite: bool = True,
    ) -> ToolResult:
        data = content.encode() if encoding == "utf-8" else self._from_base64(content)
        return await self._write(ctx, file_path, data, sandbox_id, overwrite=overwrite)

    async def _write(
        self, ctx: Context, path: str, data: bytes, session: str | None, *, overwrite: bool
    ) -> ToolResult:
        with self._errors():
            bench = self._benches.of(ctx.caller)
            session = self._sandbox(bench, session)
            written = await bench.write_file(path, io.BytesIO(data), session=session, overwrite=overwrite)
        reply = WrittenReply(data=WrittenData(file_path=written.path, success=True, size=written.size))
        return ToolResult(content=[self._texts.written.format(written.size, written.path)], structured=reply)

    def _from_base64(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ToolError(self._texts.no_base64.format(error)) from None

    # What they share

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except WorkbenchError as error:
            raise ToolError(self._texts.explain(error)) from None

    async def _detach_if_long(self, ctx: Context, seconds: float | None) -> None:
        if seconds is not None and seconds > AS_TASK_SECONDS:
            await ctx.detach()

    def _sandbox(self, bench: LocalWorkbench, id: str | None, keep: int | None = None) -> str | None:
        """A sandbox that was created; None for the conversation's own session."""
        if not id:
            return None
        if not bench.has(id):
            raise ToolError(self._texts.no_sandbox.format(id[:80]))
        if keep is not None:
            bench.keep(id, float(keep))
        return id

    def _call_tool(self, ctx: Context) -> CallTool | None:
        if not self._settings.tools:
            return None

        async def call(name: str, arguments: dict[str, Any]) -> Any:
            try:
                return await ctx.call_tool(name, arguments)
            except ToolError as error:
                raise ToolRefusedError(str(error)) from None

        return call

    def _error_of(self, result: CellResult | BashResult) -> str | None:
        """What went wrong, in words; None if nothing did."""
        texts, fault = self._texts, result.fault
        if fault is None:
            return None
        limits = self._settings
        why = {
            "exception": result.error or "",
            "interrupted": texts.interrupted,
            "timeout": texts.timed_out,
            "output": texts.too_much_output.format(limits.output_file_bytes),
            "memory": texts.out_of_memory.format(limits.memory),
            "disk": texts.out_of_disk.format(result.error),
            "ended": texts.ended.format(result.error),
        }[fault]
        after = texts.lost if result.variables_lost else "" if fault == "exception" else texts.kept
        return f"{why} {after}".strip()

    def _session_of(self, result: CellResult | BashResult) -> SessionInfo:
        return SessionInfo(result.session_id, self._texts.session.format(self._benches.box.name))

    def _cell_result(self, result: CellResult, reply: Any, error: str | None) -> ToolResult:
        texts = self._texts
        parts = [result.stdout.rstrip()]
        parts += [f"{texts.stderr}\n{result.stderr.rstrip()}"] if result.stderr.strip() else []
        for table in result.tables:
            more = table.total - len(table.rows)
            parts.append(markdown(table) + (f"\n{texts.more_rows.format(more)}" if more > 0 else ""))
        parts += [result.value] if result.value and not result.tables and not result.images else []
        files = ", ".join(f"{file.path} ({file.size})" for file in result.files)
        parts += [texts.files.format(files)] if files else []
        parts += [texts.all_output.format(path) for path in (result.stdout_file, result.stderr_file) if path]
        parts += [texts.images.format(len(result.images))] if result.images else []
        parts += [error] if error else []
        text = "\n\n".join(part for part in parts if part) or texts.nothing
        images = [Image(image.data, image.mime_type) for image in result.images]
        return ToolResult(content=[text, *images], structured=reply)

    def _bash_text(self, result: BashResult, error: str | None) -> str:
        parts = [result.stdout.rstrip()]
        parts += [f"{self._texts.stderr}\n{result.stderr.rstrip()}"] if result.stderr.strip() else []
        parts += [
            self._texts.all_output.format(path) for path in (result.stdout_file, result.stderr_file) if path
        ]
        parts += [self._texts.exit_code.format(result.exit_code)] if result.exit_code else []
        parts += [error] if error else []
        return "\n\n".join(part for part in parts if part) or self._texts.nothing


def _named(texts: LocalizedTool, name: str) -> LocalizedTool:
    return LocalizedTool(
        name=name, title=texts.title, description=texts.description, parameters=texts.parameters
    )


def _below_home(path: str) -> str:
    return path.removeprefix("/home/user/").lstrip("/")


def _progress(ctx: Context) -> OnOutput:
    """Reports the last line that was printed as progress."""
    count = 0

    async def report(stream: Literal["stdout", "stderr"], text: str) -> None:
        nonlocal count
        lines = text.strip().splitlines()
        if lines:
            count += 1
            await ctx.report_progress(count, message=lines[-1][:200])

    return report
