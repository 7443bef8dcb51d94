"""The six tools: what a caller asks for, what yt-dlp is told, and what becomes of its files and failures."""

import asyncio
import mimetypes
import re
import unicodedata
from collections.abc import Awaitable, Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from ...egress import ConnectionFailure, UnfitAddressError, web_address
from ...kit import Context, Image, Long, Server, ToolError, ToolResult
from ...kit.localization import LocalizedTool, add_localized_tool
from ...kit.schema.validation import schema_of
from ...wire.text import normalized
from ...workspace import Workspace, WorkspaceError, Workspaces
from .downloads import (
    Download,
    DownloadCrashError,
    DownloadedItem,
    DownloadFailure,
    DownloadOrder,
    DownloadProgress,
    DownloadRunner,
    DownloadTimeoutError,
    FinishedFile,
    MediaInfo,
    PlaylistInfo,
)
from .results import (
    DownloadedEntries,
    DownloadedEntry,
    DownloadedMedia,
    DownloadedSubtitles,
    MediaFile,
    MediaMetadata,
    SubtitleTrack,
    media_text,
    metadata_text,
    playlist_text,
    subtitles_text,
)
from .settings import Settings
from .texts import AUDIO, METADATA, PLAYLIST, SUBTITLES, THUMBNAIL, VIDEO, YoutubeTexts, size_text
from .transcript import cues_of, transcript

Container = Literal["mp4", "mkv", "webm", "mov", "flv", "avi"]
Codec = Literal["mp3", "m4a", "aac", "opus", "vorbis", "flac", "alac", "wav", "best"]
Position = Annotated[int, Meta(ge=1, le=1_000_000)]

MAX_URL = 4096
MAX_LANGUAGES = 10
MAX_NAME_BYTES = 220
MAX_SHOWN_IMAGE = 1_000_000
MAX_SUBTITLES = 20_000_000
_FOLDERS = {"media": "videos", "subtitles": "subtitles", "thumbnail": "thumbnails"}
_RESOLUTIONS = {"8k": 4320, "4k": 2160, "2k": 1440, "best": 0, "": 0}
KeptFile = tuple[FinishedFile, str]
"""A file, and its path in the workspace."""
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8}){0,3}")
# The types that containers of media have; the system's table may lack some.
_TYPES = {
    ".avi": "video/x-msvideo",
    ".flac": "audio/flac",
    ".flv": "video/x-flv",
    ".m4a": "audio/mp4",
    ".mkv": "video/x-matroska",
    ".opus": "audio/ogg",
    ".srt": "application/x-subrip",
    ".vtt": "text/vtt",
    ".webm": "video/webm",
}


class Collected:
    """What an order has brought so far."""

    def __init__(self) -> None:
        self.items: list[tuple[DownloadedItem, list[KeptFile]]] = []
        """Each with its files in the workspace."""
        self.failures: list[DownloadFailure] = []
        self.playlist: PlaylistInfo | None = None
        self.info: dict[str, Any] | None = None
        self.notices: list[str] = []


class YoutubeTools:
    def __init__(
        self, downloads: DownloadRunner, workspaces: Workspaces, settings: Settings, texts: YoutubeTexts
    ) -> None:
        self._downloads = downloads
        self._workspaces = workspaces
        self._settings = settings
        self._texts = texts

    def add_to(self, server: Server) -> None:
        long = Long(ttl=self._settings.timeout + 3600)
        self._add(server, self.download_video, VIDEO, DownloadedMedia, False, long)
        self._add(server, self.download_audio, AUDIO, DownloadedMedia, False, long)
        self._add(server, self.download_playlist, PLAYLIST, DownloadedEntries, False, long)
        self._add(server, self.download_subtitles, SUBTITLES, DownloadedSubtitles, False, long)
        self._add(server, self.download_thumbnail, THUMBNAIL, DownloadedMedia, False, False)
        self._add(server, self.get_metadata, METADATA, MediaMetadata, True, False)

    def _add(
        self,
        server: Server,
        function: Callable[..., Awaitable[ToolResult]],
        localized: tuple[LocalizedTool, LocalizedTool],
        kind: type[Struct],
        read_only: bool,
        long: Long | Literal[False],
    ) -> None:
        add_localized_tool(
            server,
            function,
            en=localized[0],
            pt=localized[1],
            output_schema=schema_of(kind),
            read_only=read_only,
            destructive=False,
            idempotent=True,
            open_world=True,
            bounded=True,
            long=long,
        )

    async def download_video(
        self,
        ctx: Context,
        url: str,
        quality: Literal["best", "worst"] = "best",
        format: Container = "mp4",
        resolution: str = "1080p",
    ) -> ToolResult:
        order = DownloadOrder(
            task="video",
            url=self._address(url),
            quality=quality,
            container=format,
            height=self._height(resolution),
        )
        found = await self._run(ctx, order, {"media": "videos"})
        if not self._downloads.has_ffmpeg:
            found.notices.append(self._texts.other_format)
        return self._media(found, order)

    async def download_audio(
        self, ctx: Context, url: str, codec: Codec = "mp3", quality: str = "192K"
    ) -> ToolResult:
        order = DownloadOrder(
            task="audio", url=self._address(url), codec=codec, bitrate=self._bitrate(quality)
        )
        if not self._downloads.has_ffmpeg and codec != "best":
            raise ToolError(self._texts.no_ffmpeg.format("download_audio"))
        return self._media(await self._run(ctx, order, {"media": "audio"}), order)

    async def download_thumbnail(self, ctx: Context, url: str) -> ToolResult:
        order = DownloadOrder(task="thumbnail", url=self._address(url))
        found = await self._run(ctx, order, {})
        if not found.items:
            raise ToolError(self._texts.no_thumbnail.format(order.url))
        if not self._downloads.has_ffmpeg:
            found.notices.append(self._texts.other_format)
        result = self._media(found, order)
        kept = found.items[0][1][0]
        if kept[0].size <= MAX_SHOWN_IMAGE:
            data = await asyncio.to_thread(self._workspace(ctx).read, kept[1])
            result.content.append(Image(data, _type_of(kept[1])))
        return result

    async def download_playlist(
        self, ctx: Context, url: str, start: Position = 1, end: Annotated[int, Meta(ge=0)] = 0
    ) -> ToolResult:
        if end and end < start:
            raise ToolError(self._texts.bad_range.format(end, start))
        most = start + self._settings.max_items - 1
        last = min(end or most, most)
        order = DownloadOrder(task="playlist", url=self._address(url), start=start, end=last)
        found = await self._run(ctx, order, {"media": "videos"})
        items = [_entry(item, kept) for item, kept in found.items]
        items += [self._failed_entry(failure) for failure in found.failures]
        if not found.items:
            raise ToolError("\n".join(self._playlist_errors(found)) or self._texts.nothing.format(order.url))
        count = found.playlist.count if found.playlist else None
        goes_on = count > last if count is not None else len(items) > last - start
        if goes_on and (not end or end > most):
            found.notices.append(self._texts.capped.format(self._settings.max_items, last + 1))
        answer = DownloadedEntries(
            url=order.url,
            title=found.playlist.title if found.playlist else "",
            count=count,
            start=start,
            end=last,
            downloaded=len(found.items),
            failed=len(found.failures),
            items=sorted(items, key=lambda item: item.index),
            notices=found.notices,
        )
        return ToolResult(content=[playlist_text(answer, self._texts)], structured=answer)

    async def download_subtitles(
        self, ctx: Context, url: str, lang: str = "en", embed: bool = False
    ) -> ToolResult:
        languages = tuple(one.strip() for one in lang.split(",") if one.strip())
        if not 0 < len(languages) <= MAX_LANGUAGES or not all(map(_LANGUAGE.fullmatch, languages)):
            raise ToolError(self._texts.bad_language.format(lang[:100]))
        if embed and not self._downloads.has_ffmpeg:
            raise ToolError(self._texts.no_ffmpeg.format("embed"))
        order = DownloadOrder(
            task="subtitles", url=self._address(url), languages=languages, embed=embed, height=1080
        )
        found = await self._run(ctx, order, {"media": "videos"})
        if not found.items:
            raise ToolError(self._texts.nothing.format(order.url))
        item, kept = found.items[0]
        workspace = self._workspace(ctx)
        tracks = [
            await asyncio.to_thread(self._track, workspace, file, path, found)
            for file, path in kept
            if file.kind == "subtitles"
        ]
        answer = DownloadedSubtitles(
            url=item.webpage_url or order.url,
            id=item.id,
            title=item.title,
            tracks=tracks,
            files=[_file(file, path) for file, path in kept if file.kind == "media"],
            notices=found.notices,
        )
        return ToolResult(content=[subtitles_text(answer, self._texts)], structured=answer)

    async def get_metadata(self, ctx: Context, url: str) -> ToolResult:
        order = DownloadOrder(task="metadata", url=self._address(url), end=self._settings.max_items)
        found = await self._run(ctx, order, {})
        if found.info is None:
            raise ToolError(self._texts.nothing.format(order.url))
        answer = msgspec.convert(found.info, MediaMetadata, strict=False)
        return ToolResult(content=[metadata_text(answer, self._texts)], structured=answer)

    # One order.

    async def _run(self, ctx: Context, order: DownloadOrder, folders: dict[str, str]) -> Collected:
        """Runs an order to its end; raises ToolError if it brought nothing but a failure."""
        found = Collected()
        workspace = await asyncio.to_thread(self._workspace, ctx)
        progress = _Progress(ctx, self._texts)
        await progress.say(self._texts.starting.format(order.url[:200]))
        try:
            async with self._downloads.open(order, ctx.caller.owner) as download:
                await self._collect(order, download, workspace, folders, progress, found)
                self._check(order, found, download)
        except DownloadCrashError:
            raise ToolError(self._texts.crashed) from None
        except WorkspaceError as error:
            raise ToolError(error.explain(self._settings.locale)) from None
        return found

    async def _collect(
        self,
        order: DownloadOrder,
        download: Download,
        workspace: Workspace,
        folders: dict[str, str],
        progress: "_Progress",
        found: Collected,
    ) -> None:
        try:
            async for event in download.events():
                match event:
                    case DownloadProgress():
                        await progress.show(event)
                    case DownloadedItem():
                        kept = await asyncio.to_thread(self._keep, workspace, event, folders, order.task)
                        found.items.append((event, kept))
                        found.notices += [self._texts.warning.format(one) for one in event.warnings[:5]]
                    case DownloadFailure():
                        found.failures.append(event)
                    case PlaylistInfo():
                        found.playlist = event
                    case MediaInfo():
                        found.info = event.info
        except DownloadTimeoutError:
            if not (order.task == "playlist" and found.items):
                raise ToolError(self._texts.timed_out.format(self._settings.timeout)) from None
            found.notices.append(self._texts.stopped.format(self._settings.timeout))

    def _check(self, order: DownloadOrder, found: Collected, download: Download) -> None:
        """Raises for a failure of the order as a whole, and explains those of items."""
        refused = next((self._connection(one) for one in download.connection_failures()), "")
        if order.task != "playlist" and found.failures and not found.items and found.info is None:
            raise ToolError(self._explain(found.failures[0], refused, order))
        if found.failures and refused:
            found.notices.append(refused)
        if order.task not in ("playlist", "metadata") and found.playlist and (found.playlist.count or 0) > 1:
            found.notices.append(self._texts.more_items.format(found.playlist.count))

    def _keep(
        self, workspace: Workspace, item: DownloadedItem, folders: dict[str, str], task: str
    ) -> list[KeptFile]:
        """Moves the files of an item into the workspace."""
        kept: list[KeptFile] = []
        for file in item.files:
            if task in ("video", "audio", "playlist") and file.kind != "media":
                continue
            folder = folders.get(file.kind, _FOLDERS[file.kind])
            entry = workspace.take(Path(file.path), f"downloads/{folder}/{safe_name(Path(file.path).name)}")
            kept.append((file, entry.path))
        return kept

    def _track(self, workspace: Workspace, file: FinishedFile, path: str, found: Collected) -> SubtitleTrack:
        text, written = "", None
        lines = 0
        if PurePosixPath(path).suffix in (".vtt", ".srt") and file.size <= MAX_SUBTITLES:
            cues = cues_of(workspace.read(path).decode("utf-8", "replace"))
            text, lines = transcript(cues), len(cues)
            written = workspace.write(str(PurePosixPath(path).with_suffix(".txt")), text.encode()).path
        else:
            found.notices.append(self._texts.no_transcript.format(path))
        shown = text[: self._settings.transcript_chars]
        if len(shown) < len(text):
            shown = shown[: shown.rfind("\n") + 1] or shown
        return SubtitleTrack(
            language=file.language,
            automatic=file.automatic,
            path=path,
            transcript_path=written,
            transcript=shown,
            lines=lines,
            truncated=len(shown) < len(text),
        )

    # Failures in words.

    def _explain(self, failure: DownloadFailure, refused: str, order: DownloadOrder | None = None) -> str:
        if refused:
            return refused
        if failure.error == "no_subtitles" and order is not None:
            wanted = ", ".join(order.languages)
            if not failure.languages and not failure.automatic:
                return self._texts.no_subtitles_at_all.format(wanted)
            there = [", ".join(some) or "-" for some in (failure.languages, failure.automatic)]
            return self._texts.no_subtitles.format(wanted, *there)
        texts = self._texts.errors
        text = texts.get(failure.error, texts["other"]).format(
            status=failure.status, max_bytes=size_text(self._settings.max_bytes)
        )
        # Our own words say enough about these.
        if not failure.message or failure.error in ("endless", "too_large", "corrupt", "scheme"):
            return text
        return f"{text} (yt-dlp: {failure.message})"

    def _connection(self, failure: ConnectionFailure) -> str:
        texts = self._texts
        if failure.kind == "refused":
            return texts.refused.format(failure.host, failure.port)
        if failure.kind == "unknown":
            return texts.unknown_host.format(failure.host)
        if failure.kind == "too_much":
            return texts.errors["too_large"].format(max_bytes=size_text(self._settings.max_bytes))
        return texts.unreachable.format(failure.host, failure.port)

    def _failed_entry(self, failure: DownloadFailure) -> DownloadedEntry:
        error = self._explain(failure, "")
        return DownloadedEntry(index=failure.index, id=failure.id, title=failure.title, files=[], error=error)

    def _playlist_errors(self, found: Collected) -> list[str]:
        texts = [self._explain(failure, "") for failure in found.failures[:5]]
        return list(dict.fromkeys([*found.notices, *texts]))

    # Arguments.

    def _workspace(self, ctx: Context) -> Workspace:
        try:
            return self._workspaces.of(ctx.caller)
        except WorkspaceError as error:
            raise ToolError(error.explain(self._settings.locale)) from None

    def _address(self, url: str) -> str:
        try:
            address = web_address(url)
            parts = urlsplit(address)
        except UnfitAddressError as error:
            if error.scheme:
                raise ToolError(self._texts.bad_scheme.format(error.scheme)) from None
            raise ToolError(self._texts.bad_url.format(url[:200])) from None
        if len(address) > MAX_URL:
            raise ToolError(self._texts.bad_url.format(url[:200]))
        if parts.username is not None or parts.password is not None:
            raise ToolError(self._texts.credentials)
        return address

    def _height(self, resolution: str) -> int:
        given = resolution.strip().lower()
        if given in _RESOLUTIONS:
            return _RESOLUTIONS[given]
        found = re.fullmatch(r"(?:\d{2,5}x)?(\d{2,5})p?\d{0,3}", given)
        if found is None:
            raise ToolError(self._texts.bad_resolution.format(resolution[:100]))
        return int(found[1])

    def _bitrate(self, quality: str) -> str:
        found = re.fullmatch(r"(\d{1,4})\s*k?(?:bps|bit/s)?", quality.strip().lower())
        if found is None or int(found[1]) > 1500:
            raise ToolError(self._texts.bad_bitrate.format(quality[:100]))
        return found[1]

    # Results.

    def _media(self, found: Collected, order: DownloadOrder) -> ToolResult:
        if not found.items:
            raise ToolError(self._texts.nothing.format(order.url))
        item, kept = found.items[0]
        answer = DownloadedMedia(
            url=item.webpage_url or order.url,
            id=item.id,
            title=item.title,
            uploader=item.uploader or None,
            duration=item.duration if item.duration is not None else _longest(item.files),
            extractor=item.extractor,
            files=[_file(file, path) for file, path in kept],
            notices=found.notices,
        )
        return ToolResult(content=[media_text(answer, self._texts)], structured=answer)


class _Progress:
    """Progress in bytes, which only grows."""

    def __init__(self, ctx: Context, texts: YoutubeTexts) -> None:
        self._ctx = ctx
        self._texts = texts
        self._furthest = -1.0

    async def say(self, text: str) -> None:
        await self._report(0, None, text)

    async def show(self, event: DownloadProgress) -> None:
        title = event.title[:80]
        if event.step == "converting":
            # The same number of bytes; a little more, since progress has to grow.
            await self._report(self._furthest + 0.001, None, self._texts.converting.format(title))
            return
        facts = [size_text(event.done)]
        if event.total:
            facts = [f"{size_text(event.done)} / {size_text(event.total)}"]
        if event.speed:
            facts.append(f"{size_text(event.speed)}/s")
        if event.eta:
            facts.append(f"{event.eta:.0f} s")
        text = self._texts.downloading.format(title, ", ".join(facts))
        await self._report(event.done, event.total, text)

    async def _report(self, done: float, total: float | None, text: str) -> None:
        if done > self._furthest:
            self._furthest = done
            await self._ctx.report_progress(done, total if total and total >= done else None, text)


def safe_name(name: str) -> str:
    """A file name without characters that hide, turn or end it, and not too long."""
    plain = normalized("NFC", name)
    plain = "".join(
        one for one in plain if unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    )
    plain = " ".join(re.sub(r"[/\\\u29f8\u29f9]", "_", plain).split()).lstrip("._- ")
    stem, ending = plain, ""
    found = re.search(r"(?:\.[A-Za-z0-9-]{1,12}){1,2}$", plain)
    if found is not None and found.start() > 0:
        stem, ending = plain[: found.start()], found[0]
    while len((stem + ending).encode()) > MAX_NAME_BYTES:
        stem = stem[:-1]
    return (stem.rstrip(". ") or "download") + ending


def _entry(item: DownloadedItem, kept: list[KeptFile]) -> DownloadedEntry:
    files = [_file(file, path) for file, path in kept]
    return DownloadedEntry(index=item.index, id=item.id, title=item.title, files=files)


def _file(file: FinishedFile, path: str) -> MediaFile:
    return MediaFile(
        path=path,
        size=file.size,
        mime_type=_type_of(path),
        duration=file.duration,
        width=file.width,
        height=file.height,
        codecs=file.codecs,
    )


def _type_of(path: str) -> str:
    ending = PurePosixPath(path).suffix.lower()
    return _TYPES.get(ending) or mimetypes.guess_type("x" + ending)[0] or "application/octet-stream"


def _longest(files: list[FinishedFile]) -> float | None:
    return max((file.duration for file in files if file.duration is not None), default=None)
