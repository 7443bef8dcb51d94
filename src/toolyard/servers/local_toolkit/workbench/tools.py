"""The tools `workbench_download`, `workbench_upload` and `upload_to_composio`, and their results."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta, Struct

from ....composio import LOCAL_BYTES
from ....kit import Context, Long, Server, ToolError, ToolResult
from ....kit.localization import LocalizedTool, add_localized_tool
from ....kit.schema.validation import schema_of
from ....languages import Locale
from ....telemetry.events import Upload
from ....workbench import WorkbenchError
from ....workbench.composio import ComposioWorkbench
from ....workbench.files import FileWorkbench
from ....workspace import Workspace, WorkspaceError, Workspaces
from ..settings import Settings
from .places import WorkbenchPlace, choose_workbench
from .texts import ATTACH, DOWNLOAD, UPLOAD, explain, message

HOME = "/home/user"
Slug = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,200}$")]
MimeType = Annotated[str, Meta(pattern="^([A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100})?$")]


class WorkbenchDownload(Struct, kw_only=True):
    success: bool
    remote_path: str
    local_path: str
    size: Annotated[int, Meta(description="Bytes")]
    workbench: Annotated[str, Meta(description="local or composio")]


class WorkbenchUpload(Struct, kw_only=True):
    success: bool
    local_path: str
    remote_path: str
    size: Annotated[int, Meta(description="Bytes")]
    workbench: Annotated[str, Meta(description="local or composio")]


class ComposioAttachment(Struct, kw_only=True, omit_defaults=True):
    s3key: Annotated[str, Meta(description="What the tool's file argument names")]
    mimetype: str
    name: str
    local_path: str
    size: Annotated[int, Meta(description="Bytes")]
    md5: str
    tool_slug: str
    toolkit_slug: str
    s3_key: Annotated[str, Meta(description="The same as s3key, for older prompts")]
    s3_url: Annotated[
        str, Meta(description="The file's address without a signature: nothing can be read by it")
    ]
    remote_path: Annotated[str, Meta(description="The copy in the workbench, if a session was named")] = ""


class TransferTools:
    def __init__(
        self,
        server: Server,
        workspaces: Workspaces,
        place: WorkbenchPlace,
        locale: Locale,
        max_bytes: int,
    ) -> None:
        self._server = server
        self._workspaces = workspaces
        self._place = place
        self._locale: Locale = locale
        self._max_bytes = max_bytes

    async def download(
        self, ctx: Context, remote_path: str, local_path: str, session_id: str | None = None
    ) -> ToolResult:
        workspace = self._workspace(ctx)
        with self._errors():
            target = workspace.absolute(local_path)
            shown = message(self._locale, "downloading", name=remote_path[:200])
            async with _progress(ctx, shown) as report, _created(workspace, local_path) as file:
                bench = self._bench(ctx, report)
                found = await bench.read_file(
                    remote_path, file, session=session_id or None, max_bytes=self._max_bytes
                )
        done = WorkbenchDownload(
            success=True,
            remote_path=remote_path,
            local_path=target,
            size=found.size,
            workbench=self._place.kind,
        )
        return self._done("downloaded", remote_path, target, done)

    async def upload(
        self, ctx: Context, local_path: str, remote_path: str, session_id: str | None = None
    ) -> ToolResult:
        workspace = self._workspace(ctx)
        with self._errors():
            source = workspace.absolute(local_path)
            await self._prepare(ctx, workspace, local_path)
            shown = message(self._locale, "uploading", name=local_path[:200])
            async with _progress(ctx, shown) as report, _opened(workspace, local_path) as file:
                bench = self._bench(ctx, report)
                found = await bench.write_file(remote_path, file, session=session_id or None)
        self._note(local_path, f"{self._place.kind} workbench:{remote_path}", found.size)
        done = WorkbenchUpload(
            success=True,
            local_path=source,
            remote_path=remote_path,
            size=found.size,
            workbench=self._place.kind,
        )
        return self._done("uploaded", remote_path, source, done)

    async def attach(
        self,
        ctx: Context,
        path: str,
        tool_slug: Slug = "GMAIL_SEND_EMAIL",
        toolkit_slug: Slug = "gmail",
        mime_type: MimeType | None = None,
        session_id: str | None = None,
    ) -> ToolResult:
        try:
            return ToolResult(
                structured=await self._attach(ctx, path, tool_slug, toolkit_slug, mime_type, session_id)
            )
        except ToolError as error:
            # The seed's form: whoever parses the reply finds the reason in it.
            text = msgspec.json.encode({"error": str(error)}).decode()
            return ToolResult(content=[text], is_error=True)

    async def _attach(
        self, ctx: Context, path: str, tool: str, toolkit: str, mime_type: str | None, session: str | None
    ) -> ComposioAttachment:
        workspace, store = self._workspace(ctx), self._place.store
        with self._errors():
            source = workspace.absolute(path)
            await self._prepare(ctx, workspace, path)
            if store is None:
                raise ToolError(message(self._locale, "no_key"))
            remote = ""
            shown = message(self._locale, "uploading", name=path[:200])
            async with _progress(ctx, shown) as report, _opened(workspace, path) as file:
                stored = await store.upload(
                    file, source, mimetype=mime_type or "", tool=tool, toolkit=toolkit, report=report
                )
                if session:
                    file.seek(0)
                    copy = await self._bench(ctx, report).write_file(
                        f"{HOME}/{stored.name}", file, session=session
                    )
                    remote = copy.path
        self._note(path, f"composio:{stored.key}", stored.size)
        return ComposioAttachment(
            s3key=stored.key,
            mimetype=stored.mimetype,
            name=stored.name,
            local_path=source,
            size=stored.size,
            md5=stored.md5,
            tool_slug=tool,
            toolkit_slug=toolkit,
            s3_key=stored.key,
            s3_url=stored.url,
            remote_path=remote,
        )

    def _note(self, what: str, where: str, size: int) -> None:
        """Tell the operator of an upload."""
        name = self._server.name
        self._server.events.note(Upload(server=name, what=what[:200], where=where[:200], bytes=size))

    async def _prepare(self, ctx: Context, workspace: Workspace, path: str) -> None:
        """Check a file that is to be sent; a large one goes on as a task, if the client has tasks."""
        found = await asyncio.to_thread(workspace.stat, path)
        if found.kind != "file":
            raise WorkspaceError("not_a_file", path)
        if found.size > self._max_bytes:
            raise WorkspaceError("too_large", path, limit=self._max_bytes)
        if found.size > LOCAL_BYTES:
            await ctx.detach()

    def _workspace(self, ctx: Context) -> Workspace:
        with self._errors():
            return self._workspaces.of(ctx.caller)

    def _bench(self, ctx: Context, report: Callable[[int, int], None]) -> FileWorkbench:
        bench = self._place.workbenches.of(ctx.caller)
        if isinstance(bench, ComposioWorkbench):
            bench.report = report
        return bench

    def _done(self, kind: str, remote: str, local: str, structured: Struct) -> ToolResult:
        text = message(self._locale, kind, remote=remote, local=local)
        return ToolResult(content=[text], structured=structured)

    def _errors(self) -> "_Explained":
        return _Explained(self._locale, self._max_bytes)


class _Explained:
    """Turns the errors of workspace and workbench into sentences for the model."""

    def __init__(self, locale: Locale, max_bytes: int) -> None:
        self._locale: Locale = locale
        self._max_bytes = max_bytes

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, WorkspaceError):
            raise ToolError(error.explain(self._locale)) from None
        if isinstance(error, WorkbenchError):
            raise ToolError(explain(self._locale, error, self._max_bytes)) from None


@asynccontextmanager
async def _opened(workspace: Workspace, path: str) -> AsyncGenerator[BinaryIO]:
    file = await asyncio.to_thread(workspace.open_read, path)
    try:
        yield file
    finally:
        await asyncio.to_thread(file.close)


@asynccontextmanager
async def _created(workspace: Workspace, path: str) -> AsyncGenerator[BinaryIO]:
    """A file that takes its name if the block ends well; removed otherwise, also if the call is cancelled."""
    with ExitStack() as stack:
        opening = asyncio.create_task(asyncio.to_thread(stack.enter_context, workspace.create(path)))
        try:
            file = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])  # the thread goes on, and what it opens has to be closed
            raise
        yield file


@asynccontextmanager
async def _progress(ctx: Context, shown: str) -> AsyncGenerator[Callable[[int, int], None]]:
    """Reports what a transfer says about itself; skips steps if the client is slow."""
    latest, furthest = (0, 0), 0
    changed = asyncio.Event()

    def report(done: int, total: int) -> None:
        nonlocal latest
        latest = (done, total)
        changed.set()

    async def tell() -> None:
        nonlocal furthest
        if latest[0] > furthest:
            furthest = latest[0]
            await ctx.report_progress(latest[0], latest[1] or None, shown)

    async def follow() -> None:
        while True:
            await changed.wait()
            changed.clear()
            await tell()

    following = asyncio.create_task(follow())
    try:
        yield report
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    await tell()


def add_workbench_tools(server: Server, workspaces: Workspaces, settings: Settings) -> None:
    """The workbench is closed with the server."""
    locale, place = settings.locale, choose_workbench(settings, workspaces)
    tools = TransferTools(server, workspaces, place, locale, settings.transfer_bytes)
    remote = place.kind == "composio"

    def add(
        function: Callable[..., object],
        texts: dict[Locale, LocalizedTool],
        form: type,
        open: bool,
        replaces: bool,
    ) -> None:
        add_localized_tool(
            server,
            function,
            en=texts["en"],
            pt=texts["pt"],
            read_only=False,
            destructive=replaces,
            idempotent=True,
            open_world=open,
            output_schema=schema_of(form),
            long=Long(detach="by_hand"),
            bounded=True,
        )

    add(tools.download, DOWNLOAD, WorkbenchDownload, remote, True)
    add(tools.upload, UPLOAD, WorkbenchUpload, remote, True)
    add(tools.attach, ATTACH, ComposioAttachment, True, False)
    server.on_close(place.close, reopens=True)
