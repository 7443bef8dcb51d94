"""Files as resources: the list of them, a file, a range of a file, completion of paths, and change notices.

A URI is the same for every caller and shows each their own files. So a notice goes only to callers that have
the workspace in which something changed; nobody hears of another's activity.
"""

import json
from collections.abc import Callable
from itertools import islice
from typing import Annotated

from msgspec import Meta

from ...kit import BlobContents, Caller, Context, Server, TextContents, ToolError
from ...languages import Locale
from ...workspace import Workspace, WorkspaceEntry, WorkspaceError, Workspaces, WorkspaceWatcher
from .files import errors_as_tool_errors, in_thread, uri_of
from .reading import LOOKED_AT, decoded, nature_of
from .settings import Settings
from .texts import message

INDEX = "workspace:///"
FILE = "workspace:///{+path}"
RANGE = "workspace:///{+path}?start={start}&size={size}"
_COMPLETED = 100


class FileResources:
    def __init__(self, workspaces: Workspaces, settings: Settings) -> None:
        self._workspaces = workspaces
        self._settings = settings
        self._locale: Locale = settings.locale

    async def index(self, ctx: Context) -> str:
        with errors_as_tool_errors(self._locale):
            workspace = self._workspaces.of(ctx.caller)
            entries = await in_thread(lambda _: self._files(workspace))
        files = [
            {"uri": uri_of(entry.path), "path": entry.path, "size": entry.size, "modified": entry.modified}
            for entry in entries
        ]
        limit = self._settings.list_limit
        return json.dumps({"files": files[:limit], "more": len(files) > limit}, ensure_ascii=False)

    def _files(self, workspace: Workspace) -> list[WorkspaceEntry]:
        files = (entry for entry in workspace.walk() if entry.kind == "file")
        return list(islice(files, self._settings.list_limit + 1))

    async def file(self, ctx: Context, path: str) -> TextContents | BlobContents:
        with errors_as_tool_errors(self._locale):
            workspace = self._workspaces.of(ctx.caller)
            return await in_thread(lambda _: self._contents(workspace, path, 0, None))

    async def part(
        self,
        ctx: Context,
        path: str,
        start: Annotated[int, Meta(ge=0)],
        size: Annotated[int, Meta(ge=1)],
    ) -> TextContents | BlobContents:
        with errors_as_tool_errors(self._locale):
            workspace = self._workspaces.of(ctx.caller)
            return await in_thread(lambda _: self._contents(workspace, path, start, size))

    def _contents(
        self, workspace: Workspace, path: str, start: int, size: int | None
    ) -> TextContents | BlobContents:
        relative = workspace.relative(path)
        uri = uri_of(relative)
        nature = nature_of(relative, workspace.read(path, 0, LOOKED_AT))
        if size is None:
            entry = workspace.stat(path)
            most = self._settings.resource_bytes
            if entry.size > most:
                reason = message(
                    self._locale, "resource_large", path=relative, size=entry.size, most=most, uri=uri
                )
                raise ToolError(message(self._locale, "error", reason=reason))
        else:
            uri += f"?start={start}&size={size}"
            size = min(size, self._settings.resource_bytes)
        data = workspace.read(path, start, size)
        # A part of a text may begin within a character: its bytes are exact, as those of anything else.
        if nature.encoding is None or size is not None:
            return BlobContents(uri, data, nature.mime_type)
        return TextContents(uri, decoded(data, nature.encoding), nature.mime_type)

    async def complete(self, value: str, context: dict[str, str], caller: Caller) -> list[str]:
        """Paths that begin with what was typed; a folder ends with a slash."""
        folder, slash, begun = value.rpartition("/")
        workspace = self._workspaces.of(caller)
        try:
            entries = await in_thread(lambda _: workspace.list(folder if slash else "."))
        except WorkspaceError:
            return []
        found = [entry for entry in entries if entry.kind != "other" and entry.name.startswith(begun)]
        return [entry.path + ("/" if entry.kind == "folder" else "") for entry in found[:_COMPLETED]]


class ChangeNotices:
    """Tells subscribers of changes in their own workspace, made by tools or by anybody else."""

    def __init__(self, server: Server, workspaces: Workspaces) -> None:
        self._server = server
        self._workspaces = workspaces
        self._watcher = WorkspaceWatcher(self._changed)
        self._keys: dict[str, tuple[str, str]] = {}
        self._ends: dict[str, Callable[[], None]] = {}

    def subscribed(self, uri: str, caller: Caller) -> None:
        if not uri.startswith(INDEX):
            return
        workspace = self._workspaces.of(caller)
        root = str(workspace.root)
        self._keys[root] = self._workspaces.key(caller)
        self._watcher.watch(workspace)
        if not self._watcher.is_immediate and root not in self._ends:
            # What is written in this process is told at once all the same.
            self._ends[root] = workspace.subscribe(lambda change: self._changed(workspace, change.path))

    async def close(self) -> None:
        self._watcher.close()
        for end in self._ends.values():
            end()
        self._ends.clear()
        self._keys.clear()

    def _changed(self, workspace: Workspace, path: str) -> None:
        """May be called from any thread."""
        key = self._keys.get(str(workspace.root))
        if key is None:
            return

        def concerns(caller: Caller) -> bool:
            return self._workspaces.key(caller) == key

        self._server.notify_resource_updated(uri_of(path), concerns)
        self._server.notify_resource_updated(INDEX, concerns)


def add_file_resources(server: Server, workspaces: Workspaces, settings: Settings) -> None:
    resources = FileResources(workspaces, settings)
    locale = settings.locale
    server.add_resource(
        resources.index,
        INDEX,
        name="workspace",
        title=message(locale, "index_title"),
        description=message(locale, "index_description"),
        mime_type="application/json",
    )
    # The range comes first: the other template would take a range for a part of the name.
    server.add_resource(
        resources.part,
        RANGE,
        name="workspace_range",
        title=message(locale, "range_title"),
        description=message(locale, "range_description"),
    )
    server.add_resource(
        resources.file,
        FILE,
        name="workspace_file",
        title=message(locale, "file_title"),
        description=message(locale, "file_description"),
    )
    for template in (FILE, RANGE):
        server.completion(resource=template, argument="path")(resources.complete)
    notices = ChangeNotices(server, workspaces)
    server.on_subscribe(notices.subscribed)
    server.on_close(notices.close)
