"""One order to yt-dlp in a process of its own: started, listened to, and ended with all that it started.

Owns the process, its scratch folder, its proxy and the limits. `process.py` runs inside it; what its answers
mean to a caller is the business of `tools`.
"""

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections import deque
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ...egress import AddressRules, ConnectionFailure, EgressProxy
from ...workers.pool import FairLimiter
from .settings import Settings

logger = logging.getLogger("toolyard.servers.youtube")

PROGRAM = Path(__file__).with_name("process.py")
LONGEST_ANSWER = 4 * 1024 * 1024
STDERR_LINES = 20
SPARE_BYTES = 16 * 1024 * 1024
_ENVIRONMENT = ("SYSTEMROOT", "LD_LIBRARY_PATH", "TZ", "PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")

Task = Literal["video", "audio", "playlist", "subtitles", "thumbnail", "metadata"]


class DownloadOrder(Struct, frozen=True, kw_only=True):
    """What to get. The rest of what `process.py` needs is added by `DownloadRunner`."""

    task: Task
    url: str
    quality: str = "best"
    container: str = "mp4"
    height: int = 0
    """In pixels; 0: the best there is."""
    codec: str = "mp3"
    bitrate: str = "192"
    languages: tuple[str, ...] = ()
    embed: bool = False
    start: int = 1
    end: int = 1


class FinishedFile(Struct, frozen=True):
    path: str
    kind: Literal["media", "subtitles", "thumbnail"]
    size: int
    language: str = ""
    automatic: bool = False
    codecs: list[str] = []
    duration: float | None = None
    width: int | None = None
    height: int | None = None


class DownloadProgress(Struct, frozen=True, tag="progress", tag_field="kind"):
    step: Literal["downloading", "converting"]
    title: str
    index: int
    done: int
    """Bytes of all files so far."""
    total: int | None = None
    speed: float | None = None
    eta: float | None = None


class DownloadedItem(Struct, frozen=True, tag="item", tag_field="kind", kw_only=True):
    """A finished item. Its files may be taken away."""

    index: int
    files: list[FinishedFile]
    id: str
    title: str
    uploader: str
    webpage_url: str
    extractor: str
    duration: float | None = None
    warnings: list[str] = []


class DownloadFailure(Struct, frozen=True, tag="failed", tag_field="kind", kw_only=True):
    """An item failed, or the order as a whole."""

    error: str
    message: str = ""
    status: int | None = None
    index: int = 0
    id: str = ""
    title: str = ""
    languages: list[str] = []
    automatic: list[str] = []


class PlaylistInfo(Struct, frozen=True, tag="playlist", tag_field="kind"):
    id: str
    title: str
    count: int | None = None


class MediaInfo(Struct, frozen=True, tag="info", tag_field="kind"):
    info: dict[str, Any]


class _Done(Struct, frozen=True, tag="done", tag_field="kind"):
    pass


DownloadEvent = DownloadProgress | DownloadedItem | DownloadFailure | PlaylistInfo | MediaInfo
_decoder: "msgspec.json.Decoder[DownloadEvent | _Done]" = msgspec.json.Decoder(DownloadEvent | _Done)


class DownloadTimeoutError(Exception):
    """The order took longer than a call may take."""


class DownloadCrashError(Exception):
    """The process ended without an answer."""


class DownloadRunner:
    """Runs orders, a few at a time, fairly among owners."""

    def __init__(self, settings: Settings, rules: AddressRules, programs: "FoundPrograms") -> None:
        self._settings = settings
        self._rules = rules
        self._programs = programs
        self._limiter = FairLimiter(settings.downloads)
        self._processes: set[asyncio.subprocess.Process] = set()
        self._endings: set[asyncio.Task[None]] = set()

    @property
    def has_ffmpeg(self) -> bool:
        return bool(self._programs.ffmpeg)

    @contextlib.asynccontextmanager
    async def open(self, order: DownloadOrder, owner: str) -> AsyncGenerator["Download"]:
        """Waits for its turn. Leaving the context ends the process and removes its files."""
        async with self._limiter.slot(owner):
            # yt-dlp notices first that a file is too large, and then does not try again.
            proxy = EgressProxy(self._rules, self._settings.max_bytes + SPARE_BYTES)
            scratch = _scratch()
            process: asyncio.subprocess.Process | None = None
            try:
                try:
                    address = await proxy.open()
                    process = await self._start(scratch)
                    full = self._full(order, address, scratch)
                except OSError as error:
                    logger.error("yt-dlp's process cannot be started: %s", error)
                    raise DownloadCrashError("it cannot be started") from None
                download = Download(process, proxy, self._settings.timeout)
                await download.send(full)
                yield download
            finally:
                # A task of its own, because a caller may be cancelled once more while it waits for the end.
                ending = asyncio.create_task(self._clean_up(process, proxy, scratch))
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)
                await asyncio.shield(ending)

    async def close(self) -> None:
        await asyncio.gather(*map(self._end, list(self._processes)))
        await asyncio.gather(*self._endings)

    async def _clean_up(
        self, process: asyncio.subprocess.Process | None, proxy: EgressProxy, scratch: Path
    ) -> None:
        if process is not None:
            await self._end(process)
        await proxy.close()
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)

    def _full(self, order: DownloadOrder, proxy: str, scratch: Path) -> dict[str, Any]:
        settings, programs = self._settings, self._programs
        cookies = ""
        if settings.cookies:  # a copy, because yt-dlp writes to it
            cookies = str(scratch / "cookies.txt")
            shutil.copyfile(Path(settings.cookies).expanduser(), cookies)
        return {
            **msgspec.to_builtins(order),
            "proxy": proxy,
            "folder": str(scratch),
            "ffmpeg": programs.ffmpeg,
            "ffprobe": programs.ffprobe,
            "programs": programs.all,
            "cookies": cookies,
            "max_bytes": settings.max_bytes,
            "max_items": settings.max_items,
            "max_memory": settings.max_memory,
            "socket_seconds": settings.socket_timeout,
        }

    async def _start(self, scratch: Path) -> asyncio.subprocess.Process:
        kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        # Its home is empty: no settings, plugins, caches or logins of whoever runs the server.
        own = {"HOME": str(scratch), "TMPDIR": str(scratch), "YTDLP_NO_PLUGINS": "1", "PYTHONUTF8": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-s",
            str(PROGRAM),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=scratch,
            env={**kept, **own},
            limit=LONGEST_ANSWER,
            start_new_session=True,
        )
        self._processes.add(process)
        return process

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Ends the process and its children, such as ffmpeg, which are in its group."""
        with contextlib.suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        await process.wait()
        self._processes.discard(process)


def _scratch() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="toolyard-youtube-"))
    except OSError as error:
        logger.error("there is no folder for yt-dlp's files: %s", error)
        raise DownloadCrashError("it has no folder") from None


class Download:
    """A running order: its answers, as they come."""

    def __init__(self, process: asyncio.subprocess.Process, proxy: EgressProxy, seconds: float) -> None:
        self._process = process
        self._proxy = proxy
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)

    async def send(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        with contextlib.suppress(ConnectionError):  # it ended already; `events` says why
            await self._process.stdin.drain()

    async def events(self) -> AsyncGenerator[DownloadEvent]:
        """Raises DownloadTimeoutError or DownloadCrashError."""
        assert self._process.stdout is not None
        listening = asyncio.create_task(self._listen())
        try:
            while True:
                try:
                    async with asyncio.timeout_at(self._deadline):
                        line = await self._process.stdout.readline()
                except TimeoutError:
                    raise DownloadTimeoutError from None
                if not line:
                    await listening
                    raise self._crashed(await self._process.wait())
                event = _decoder.decode(line)
                if isinstance(event, _Done):
                    return
                yield event
        except (ValueError, msgspec.MsgspecError) as error:  # a line over the limit, or not of ours
            logger.error("yt-dlp's process gave an answer that cannot be read: %s", type(error).__name__)
            raise DownloadCrashError("its answer cannot be read") from None
        finally:
            listening.cancel()

    def connection_failures(self) -> list[ConnectionFailure]:
        """What the proxy refused or could not reach."""
        return self._proxy.take_failures()

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError):
            async for line in self._process.stderr:
                self._stderr.append(line.decode(errors="replace").rstrip()[:500])

    def _crashed(self, status: int) -> DownloadCrashError:
        logger.error("yt-dlp's process ended with %d: %s", status, "\n".join(self._stderr))
        return DownloadCrashError(f"it ended with {status}")


class FoundPrograms(Struct, frozen=True):
    """The programs that yt-dlp may start, by path; empty if there is none."""

    ffmpeg: str = ""
    ffprobe: str = ""
    deno: str = ""

    @property
    def all(self) -> list[str]:
        return [path for path in (self.ffmpeg, self.ffprobe, self.deno) if path]
