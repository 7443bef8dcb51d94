"""The tools for files: write, read, list and compress.

Owns their results. What a path may be, and that a write is whole, is the workspace's business.
"""

import asyncio
import json
import os
import threading
import time
import zipfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from msgspec import UNSET, Meta, Struct, UnsetType

from ...kit import Context, Image, Server, ToolError, ToolResult
from ...kit.localization import add_localized_tool
from ...kit.schema.annotations import schema_name
from ...kit.schema.validation import schema_of
from ...languages import Locale
from ...workspace import Workspace, WorkspaceError, Workspaces
from .reading import IMAGES, LOOKED_AT, decoded, nature_of, whole_characters
from .settings import Settings
from .texts import COMPRESS, LIST, READ, WRITE, message

T = TypeVar("T")
MAX_ARCHIVED = 10_000
_CHUNK = 1024 * 1024


class Written(Struct, kw_only=True):
    path: Annotated[str, Meta(description="Relative to the workspace")]
    chars: int
    bytes: int
    uri: Annotated[str, Meta(description="The file as a resource")]


class FileRead(Struct, kw_only=True):
    path: Annotated[str, Meta(description="Relative to the workspace")]
    size: Annotated[int, Meta(description="Bytes of the whole file")]
    mime_type: str
    uri: Annotated[str, Meta(description="The file as a resource")]
    encoding: Annotated[str | None, Meta(description="null if the file is not text")]
    content: Annotated[str, Meta(description="The text, or the part of it that was read")] | UnsetType = UNSET
    start: int = 0
    end: Annotated[int, Meta(description="The first byte that was not read")] = 0
    next_start: Annotated[int | None, Meta(description="Where to read on; null at the end")] = None


@schema_name("DirectoryEntry")
class ListedFile(Struct, kw_only=True):
    name: str
    path: str
    kind: Annotated[
        Literal["file", "folder", "other"], Meta(description="other: a link or device, which is not opened")
    ]
    size: int
    modified: Annotated[str, Meta(description="ISO 8601, UTC")]


class Directory(Struct, kw_only=True):
    path: str
    entries: list[ListedFile]
    more: Annotated[bool, Meta(description="Whether the folder has more entries than are listed")]


@schema_name("ArchivedFile")
class ArchivedFile(Struct, kw_only=True):
    path: str
    name: Annotated[str, Meta(description="Its name in the archive")]


class Archive(Struct, kw_only=True):
    success: bool
    archive_path: str
    size_bytes: int
    files_included: int
    files: list[ArchivedFile]


def uri_of(path: str) -> str:
    """The resource of a file, by its path relative to the workspace."""
    return "workspace:///" + quote(path)


@contextmanager
def errors_as_tool_errors(locale: Locale) -> Generator[None]:
    """Raises an error of the workspace as one that the model reads."""
    try:
        yield
    except WorkspaceError as error:
        raise ToolError(message(locale, "error", reason=error.explain(locale))) from None


@contextmanager
def errors_as_failures(locale: Locale) -> Generator[None]:
    """The same in the seed's words for replies that are JSON: `{"success": false, "error": …}`."""
    try:
        yield
    except WorkspaceError as error:
        raise failure(error.explain(locale)) from None


def failure(reason: str) -> ToolError:
    return ToolError(json.dumps({"success": False, "error": reason}, ensure_ascii=False))


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Runs work on files in a thread. It should give up when the event is set: the caller has cancelled."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop)
    except asyncio.CancelledError:
        stop.set()
        raise


class FileTools:
    def __init__(self, workspaces: Workspaces, settings: Settings) -> None:
        self._workspaces = workspaces
        self._settings = settings
        self._locale: Locale = settings.locale

    async def write_local_file(self, ctx: Context, path: str, content: str) -> ToolResult:
        try:
            data = content.encode()
        except UnicodeEncodeError as error:
            raise self._refused("not_unicode", at=error.start) from None
        with errors_as_tool_errors(self._locale):
            workspace = self._workspaces.of(ctx.caller)
            entry = await in_thread(lambda _: workspace.write(path, data))
        written = Written(path=entry.path, chars=len(content), bytes=entry.size, uri=uri_of(entry.path))
        text = message(self._locale, "wrote", count=len(content), path=path)
        return ToolResult(content=[text], structured=written)

    async def read_local_file(
        self,
        ctx: Context,
        path: str,
        start: Annotated[int, Meta(ge=0)] = 0,
        size: Annotated[int, Meta(ge=0)] = 0,
    ) -> ToolResult:
        with errors_as_tool_errors(self._locale):
            workspace = self._workspaces.of(ctx.caller)
            return await in_thread(lambda _: self._read(workspace, path, start, size))

    def _read(self, workspace: Workspace, path: str, start: int, size: int) -> ToolResult:
        relative = workspace.relative(path)
        uri = uri_of(relative)
        with workspace.open_read(path) as file:
            whole = os.fstat(file.fileno()).st_size
            nature = nature_of(relative, file.read(LOOKED_AT))
            found = FileRead(
                path=relative, size=whole, mime_type=nature.mime_type, uri=uri, encoding=nature.encoding
            )
            if nature.encoding is None:
                shown = {"path": path, "mime_type": nature.mime_type, "size": whole, "uri": uri}
                if nature.mime_type in IMAGES and whole <= self._settings.image_bytes:
                    file.seek(0)
                    picture = Image(file.read(self._settings.image_bytes), nature.mime_type)
                    text = message(self._locale, "picture", **shown)
                    return ToolResult(content=[text, picture], structured=found)
                return ToolResult(content=[message(self._locale, "binary", **shown)], structured=found)
            if start > whole:
                raise self._refused("start_after", start=start, path=path, size=whole)
            most = min(size or self._settings.read_bytes, self._settings.read_bytes)
            file.seek(start)
            data = file.read(most)
            if start + len(data) < whole:
                data = data[: whole_characters(data, nature.encoding) or len(data)]
        end = start + len(data)
        # The mark of the encoding stands at the beginning only.
        found.content = decoded(data, nature.encoding if start == 0 else _plain(nature.encoding))
        found.start, found.end = start, end
        found.next_start = end if end < whole else None
        return ToolResult(content=[self._with_range(found)], structured=found)

    def _with_range(self, found: FileRead) -> str:
        content = found.content if isinstance(found.content, str) else ""
        if found.start == 0 and found.next_start is None:
            return content
        kind = "last_part" if found.next_start is None else "part"
        note = message(self._locale, kind, start=found.start, end=found.end, size=found.size)
        return f"{content}\n\n{note}"

    async def list_directory(self, ctx: Context, path: str = ".") -> ToolResult:
        limit = self._settings.list_limit
        with errors_as_tool_errors(self._locale):
            workspace = self._workspaces.of(ctx.caller)
            entries = await in_thread(lambda _: workspace.list(path, limit + 1))
            relative = workspace.relative(path)
        listed = [
            ListedFile(
                name=entry.name,
                path=entry.path,
                kind=entry.kind,
                size=entry.size,
                modified=datetime.fromtimestamp(entry.modified, UTC).isoformat(timespec="seconds"),
            )
            for entry in entries[:limit]
        ]
        # The text is the seed's: a JSON array of names.
        names = json.dumps([entry.name for entry in listed], ensure_ascii=False)
        found = Directory(path=relative, entries=listed, more=len(entries) > limit)
        return ToolResult(content=[names], structured=found)

    async def compress_files(
        self, ctx: Context, files: Annotated[list[str], Meta(max_length=MAX_ARCHIVED)], output_archive: str
    ) -> Archive:
        if not files:
            raise failure(message(self._locale, "nothing_to_compress"))
        loop = asyncio.get_running_loop()

        def report(done: int, path: str) -> None:
            text = message(self._locale, "compressing", count=done, total=len(files), path=path)
            asyncio.run_coroutine_threadsafe(ctx.report_progress(done, len(files), text), loop)

        with errors_as_failures(self._locale):
            workspace = self._workspaces.of(ctx.caller)
            return await in_thread(lambda stop: _compress(workspace, files, output_archive, stop, report))

    def _refused(self, kind: str, **values: Any) -> ToolError:
        reason = message(self._locale, kind, **values)
        return ToolError(message(self._locale, "error", reason=reason))


class _StoppedError(Exception):
    """The caller has cancelled; the archive is given up."""


def _compress(
    workspace: Workspace,
    paths: list[str],
    output: str,
    stop: threading.Event,
    report: Callable[[int, str], None],
) -> Archive:
    for path in paths:  # so that a wrong name is found before work is done
        if workspace.stat(path).kind != "file":
            raise WorkspaceError("not_a_file", path)
    included: list[ArchivedFile] = []
    names: set[str] = set()
    with (
        workspace.create(output) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive,
    ):
        for path in paths:
            relative = workspace.relative(path)
            name = _free_name(relative.rpartition("/")[2], names)
            _add(workspace, path, archive, name, stop)
            included.append(ArchivedFile(path=relative, name=name))
            report(len(included), path)
    return Archive(
        success=True,
        archive_path=workspace.absolute(output),
        size_bytes=workspace.stat(output).size,
        files_included=len(included),
        files=included,
    )


def _add(workspace: Workspace, path: str, archive: zipfile.ZipFile, name: str, stop: threading.Event) -> None:
    with workspace.open_read(path) as source:
        found = os.fstat(source.fileno())
        info = zipfile.ZipInfo(name, _zip_time(found.st_mtime))
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o600 << 16
        info.file_size = found.st_size
        with archive.open(info, "w", force_zip64=found.st_size >= 2**31 - 1) as target:
            left = found.st_size  # a file that grows meanwhile is not followed for ever
            while left and (data := source.read(min(_CHUNK, left))):
                if stop.is_set():
                    raise _StoppedError
                target.write(data)
                left -= len(data)


def _free_name(name: str, taken: set[str]) -> str:
    """The name, or one with a number. Without regard to case, because some systems unpack without."""
    stem, dot, suffix = name.rpartition(".")
    stem, suffix = (stem, f".{suffix}") if dot and stem else (name, "")
    found, number = name, 1
    while found.casefold() in taken:
        number += 1
        found = f"{stem} ({number}){suffix}"
    taken.add(found.casefold())
    return found


def _zip_time(seconds: float) -> tuple[int, int, int, int, int, int]:
    """The years that a zip knows are 1980 to 2107."""
    moment = time.gmtime(min(max(seconds, 315_532_800), 4_354_819_198))
    return moment.tm_year, moment.tm_mon, moment.tm_mday, moment.tm_hour, moment.tm_min, moment.tm_sec


def _plain(encoding: str) -> str:
    return {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(encoding, encoding)


def add_file_tools(server: Server, workspaces: Workspaces, settings: Settings) -> None:
    tools = FileTools(workspaces, settings)
    rows: tuple[tuple[Callable[..., Awaitable[Any]], Any, type[Struct], bool], ...] = (
        (tools.write_local_file, WRITE, Written, False),
        (tools.read_local_file, READ, FileRead, True),
        (tools.list_directory, LIST, Directory, True),
        (tools.compress_files, COMPRESS, Archive, False),
    )
    for function, localized, result, read_only in rows:
        add_localized_tool(
            server,
            function,
            en=localized["en"],
            pt=localized["pt"],
            output_schema=schema_of(result),
            read_only=read_only,
            destructive=not read_only,  # an existing file is replaced
            idempotent=True,
            open_world=False,
            bounded=read_only,
        )
