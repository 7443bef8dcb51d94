"""One call of a tool, from its files to its result: opens and probes inputs, runs ffmpeg, saves, and looks.

Owns the scratch folders, which are removed however a call ends, and those of a killed process.
"""

import asyncio
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from ...ffmpeg.capabilities import FfmpegCapabilities, read_capabilities
from ...ffmpeg.media import MediaError, MediaStream, ProbedMedia, input_arguments, probe, read_description
from ...ffmpeg.process import (
    FfmpegError,
    FfmpegFailedError,
    FfmpegLimitError,
    FfmpegLimits,
    FfmpegRunner,
    FfmpegStartError,
    FfmpegTimeoutError,
    input_url,
)
from ...ffmpeg.program import FfmpegMissingError, find_ffmpeg
from ...kit import Context, Image, ToolError, ToolResult
from ...workspace import Workspace, WorkspaceError, Workspaces
from .arguments import ArgumentReader
from .fonts import FontFile, find_font
from .formats import FORMATS, CodecKind, ContainerFormat, Encoders, format_named
from .pictures import LONGEST_WAVE, PICTURE, sheet_arguments, waveform_arguments
from .results import MediaResult, stream_results
from .settings import Settings
from .texts import TOOLS, MediaTexts, texts_of

_KNOWN_FILES = 256
_LOCK = "lock"
_PREFIX = "toolyard-media-"
_CONTEXT = re.compile(r"^(?:\[[^\]]* @ 0x[0-9a-f]+\] )+")
_NOISE = re.compile(
    r"^(?:Conversion failed!|Error opening (?:output|input) files?\b|Error while (?:filtering|processing)|"
    r"Task finished|Terminating thread|Error sending frames|Nothing was written|Exiting with|"
    r"Could not open encoder)"
)
_DAMAGE = re.compile(
    r"partial file|Invalid data found|corrupt|[Ee]rror while decoding|Invalid NAL|[Tt]runcat|concealing|"
    r"Error submitting packet|decode_slice|Header missing|invalid new backstep"
)
FONT = "font.ttf"
_OUTPUT = "output"
_SLACK = 0.5
"""Seconds by which a result may be shorter than expected, which depends on the codec's frames."""


class MediaSource(Struct, frozen=True, eq=False):
    """An input of a call, open and probed."""

    path: str
    file: BinaryIO
    info: ProbedMedia

    @property
    def descriptor(self) -> int:
        return self.file.fileno()

    @property
    def arguments(self) -> list[str]:
        return input_arguments(input_url(self.descriptor))


class Render(Struct, frozen=True, kw_only=True):
    """One run of ffmpeg that writes the output."""

    inputs: Sequence[str]
    """Arguments up to the outputs."""
    output: Sequence[str]
    """Graph, maps and codecs."""
    form: ContainerFormat
    seconds: float | None
    """How long the result should be."""
    looks: CodecKind
    """What a person would look at."""
    size: tuple[int, int] | None = None
    """Of the picture; None if it is that of the first input."""
    notices: Sequence[str] = ()


class Studio:
    """What all calls share: the program, what it can do, and what is known about files."""

    def __init__(self, settings: Settings, workspaces: Workspaces) -> None:
        self.settings = settings
        self.texts: MediaTexts = texts_of(settings.locale)
        self.arguments = ArgumentReader(self.texts, settings)
        self._workspaces = workspaces
        self._runner: FfmpegRunner | None = None
        self._known: OrderedDict[tuple[int, int, int, int], ProbedMedia] = OrderedDict()
        self._swept = False

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.close()

    def runner(self) -> FfmpegRunner:
        """Found at the first call, so that the server starts without ffmpeg."""
        if self._runner is None:
            settings = self.settings
            try:
                program = find_ffmpeg(settings.ffmpeg)
            except FfmpegMissingError as error:
                raise ToolError(self.texts.no_ffmpeg.format(reason=error)) from None
            limits = FfmpegLimits(
                seconds=settings.seconds,
                cpu_seconds=settings.cpu_seconds,
                memory=settings.max_memory_mb * 2**20,
                file_bytes=settings.max_output_mb * 2**20,
            )
            self._runner = FfmpegRunner(program, limits, settings.jobs)
        return self._runner

    @asynccontextmanager
    async def work(self, ctx: Context, tool: str) -> AsyncGenerator["MediaWork"]:
        """A call, with a scratch folder that lasts as long. Makes a ToolError of what a caller can mend."""
        runner = self.runner()
        try:
            workspace = self._workspaces.of(ctx.caller)
            with self._scratch() as folder:
                capabilities = await read_capabilities(runner, folder)
                work = MediaWork(self, ctx, tool, workspace, runner, capabilities, folder)
                try:
                    yield work
                finally:
                    work.close()
        except WorkspaceError as error:
            raise ToolError(error.explain(self.settings.locale)) from None
        except FfmpegError as error:
            raise ToolError(self.explain(error)) from None

    def _scratch(self) -> "_Scratch":
        home = self.settings.scratch_folder
        base = Path(tempfile.gettempdir()) if home is None else home
        if home is not None:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._swept:
            _sweep(base)
            self._swept = True
        return _Scratch(base)

    def known(self, file: os.stat_result) -> ProbedMedia | None:
        return self._known.get(_identity(file))

    def remember(self, file: os.stat_result, info: ProbedMedia) -> None:
        key = _identity(file)
        self._known[key] = info
        self._known.move_to_end(key)
        if len(self._known) > _KNOWN_FILES:
            self._known.popitem(last=False)

    def explain(self, error: FfmpegError, names: dict[str, str] | None = None) -> str:
        texts = self.texts
        if isinstance(error, FfmpegTimeoutError):
            return texts.timed_out.format(seconds=error.seconds)
        if isinstance(error, FfmpegLimitError):
            most = self.settings.max_output_mb
            return {"cpu": texts.cpu_limit, "memory": texts.memory_limit, "file": texts.file_limit}[
                error.what
            ].format(most=most)
        if isinstance(error, FfmpegStartError):
            return texts.not_started.format(reason=error)
        log = error.log if isinstance(error, FfmpegFailedError) else str(error)
        if "matches no streams" in log or "does not contain any stream" in log:
            return texts.nothing_written
        return texts.failed.format(reason=_reason(log, names or {}))


class MediaWork:
    """The files and the scratch folder of one call."""

    def __init__(
        self,
        studio: Studio,
        ctx: Context,
        tool: str,
        workspace: Workspace,
        runner: FfmpegRunner,
        capabilities: FfmpegCapabilities,
        folder: Path,
    ) -> None:
        self.studio = studio
        self.texts = studio.texts
        self.arguments = studio.arguments
        self.capabilities = capabilities
        self.encoders = Encoders(capabilities)
        self.workspace = workspace
        self.folder = folder
        self._ctx = ctx
        self._tool = tool
        self._runner = runner
        self._began = time.monotonic()
        self._sources: dict[str, MediaSource] = {}

    def close(self) -> None:
        for source in self._sources.values():
            source.file.close()

    # Inputs.

    async def source(self, path: str, *needs: CodecKind) -> MediaSource:
        """Opens and probes a file; `needs` are the kinds of stream that it must have."""
        name = self.workspace.relative(path)
        found = self._sources.get(name)
        if found is None:
            await self._report(0.0, None, self.texts.reading.format(path=name))
            file = self.workspace.open_read(path)
            try:
                found = MediaSource(name, file, await self._probed(name, file.fileno()))
            except BaseException:
                file.close()
                raise
            self._sources[name] = found
        for kind in needs:
            self.need(found, kind)
        return found

    async def _probed(self, path: str, descriptor: int) -> ProbedMedia:
        file = os.fstat(descriptor)
        known = self.studio.known(file)
        if known is not None:
            return known
        try:
            info = await probe(self._runner, descriptor, self.folder, self._ctx.caller.owner)
        except MediaError as error:
            raise ToolError(self._problem(path, error)) from None
        self.studio.remember(file, info)
        return info

    def _problem(self, path: str, error: MediaError) -> str:
        texts = self.texts
        return {
            "empty": texts.empty,
            "playlist": texts.playlist,
            "svg": texts.svg,
            "text": texts.text_file,
            "truncated": texts.truncated,
            "not_media": texts.not_media,
            "refused": texts.refused,
            "too_large": texts.too_large_picture,
        }[error.problem].format(path=path, detail=error.detail)

    def need(self, source: MediaSource, kind: CodecKind) -> MediaStream:
        """The first stream of a kind; raises ToolError if there is none that can be decoded."""
        stream = source.info.video if kind == "video" else source.info.audio
        texts = self.texts
        if stream is None:
            streams = ", ".join(f"{one.kind} ({one.codec})" for one in source.info.streams)
            text = texts.no_video if kind == "video" else texts.no_audio
            raise ToolError(text.format(path=source.path, streams=streams))
        if stream.codec in ("none", "unknown") or (kind == "video" and not stream.width):
            raise ToolError(texts.no_decoder.format(path=source.path, kind=kind, codec=stream.codec))
        return stream

    def duration(self, source: MediaSource) -> float:
        if source.info.duration is None:
            raise ToolError(self.texts.no_duration.format(path=source.path))
        return source.info.duration

    def read(self, path: str, most: int) -> bytes:
        size = self.workspace.stat(path).size
        if size > most:
            raise ToolError(self.texts.long_subtitles.format(path=path, size=size, most=most))
        return self.workspace.read(path)

    def require_filter(self, *names: str) -> None:
        for name in names:
            if name not in self.capabilities.filters:
                raise ToolError(self.texts.no_filter.format(name=name))

    async def font(self) -> FontFile:
        """A font, copied into the scratch folder as FONT."""
        found = await asyncio.to_thread(find_font, self.studio.settings.font)
        if found is None:
            raise ToolError(self.texts.no_font)
        if not (self.folder / FONT).exists():
            shutil.copyfile(found.path, self.folder / FONT)
        return found

    async def is_boxed(self) -> bool:
        """Whether ffmpeg is kept from other files: it tries to read one that everybody may read."""
        trial = ["-loglevel", "error", "-i", "file:/etc/passwd"]
        return "Permission denied" in await self._runner.run(trial, self.folder, may_fail=True)

    # Outputs.

    def output_format(self, path: str, named: str | None, kind: CodecKind | None) -> ContainerFormat:
        """The container: of an argument, or of the ending. `kind` is what it must be for."""
        self.workspace.relative(path)
        ending = os.path.splitext(path)[1]
        form = format_named(ending if named is None else named)
        usable = [name for name, one in FORMATS.items() if one.muxer in self.capabilities.muxers]
        fit = [name for name in usable if kind is None or _fits(FORMATS[name], kind)]
        choices = ", ".join(fit)
        texts = self.texts
        if form is None or form.name not in usable:
            expected = (texts.expected_ending if named is None else texts.expected_format).format(
                choices=choices
            )
            name, value = ("output", path) if named is None else ("target_format", named)
            raise ToolError(texts.bad_argument.format(name=name, value=repr(value[:100]), expected=expected))
        if form.name not in fit:
            text = texts.not_video_format if kind == "video" else texts.not_audio_format
            raise ToolError(text.format(path=path, format=form.name, choices=choices))
        return form

    async def render(self, path: str, render: Render, **more: Any) -> ToolResult:
        """Runs ffmpeg, saves what it wrote under the path, and describes it."""
        threads = self.studio.settings.threads
        arguments = [
            *("-loglevel", "warning", "-progress", "pipe:1", "-stats_period", "0.3"),
            *(render.inputs),
            *render.output,
            *(("-threads", str(threads)) if threads else ()),
            *(
                "-max_muxing_queue_size",
                "4096",
                *render.form.options,
                "-f",
                render.form.muxer,
                f"file:{_OUTPUT}",
            ),
        ]
        log = await self._run(arguments, self._reporter(render.seconds))
        written = self.folder / _OUTPUT
        if not written.exists() or not written.stat().st_size:
            raise ToolError(self.texts.nothing_written)
        info, picture, problem = await self._look(render)
        notices = [*render.notices, *self._notices(path, render, log, info), *problem]
        self.studio.remember(written.stat(), info)
        entry = await asyncio.to_thread(self.workspace.take, written, path)
        result = MediaResult(
            success=True,
            output_path=entry.path,
            format=render.form.name,
            duration=info.duration,
            size=entry.size,
            streams=stream_results(info),
            elapsed_ms=round((time.monotonic() - self._began) * 1000),
            notices=notices,
            **more,
        )
        return ToolResult(content=[self._sentence(result), *picture], structured=result)

    async def listen(self, source: MediaSource, arguments: Sequence[str], message: str) -> str:
        """Runs ffmpeg over an input for what it says about it."""

        async def report(seconds: float) -> None:
            await self._report(seconds, source.info.duration, message)

        lead = ["-loglevel", "info", "-progress", "pipe:1", "-stats_period", "0.3"]
        return await self._run([*lead, *source.arguments, *arguments], report)

    async def _run(self, arguments: Sequence[str], on_progress: Callable[[float], Awaitable[None]]) -> str:
        inputs = [source.descriptor for source in self._sources.values()]
        try:
            return await self._runner.run(
                arguments, self.folder, inputs=inputs, on_progress=on_progress, caller=self._ctx.caller.owner
            )
        except FfmpegFailedError as error:
            raise ToolError(self.studio.explain(error, self._names())) from None

    def _names(self) -> dict[str, str]:
        """What callers call the files that ffmpeg knows by number."""
        found = {input_url(source.descriptor): source.path for source in self._sources.values()}
        return {**found, f"file:{_OUTPUT}": "output"}

    def _reporter(self, total: float | None) -> Callable[[float], Awaitable[None]]:
        async def report(seconds: float) -> None:
            done = seconds if total is None else min(seconds, total)
            shown = "?" if total is None else f"{total:.1f}"
            await self._report(done, total, self.texts.working.format(done=f"{done:.1f}", total=shown))

        return report

    async def _report(self, done: float, total: float | None, message: str) -> None:
        await self._ctx.report_progress(done, total, message)

    async def _look(self, render: Render) -> tuple[ProbedMedia, list[Image], list[str]]:
        """What is in the output, a picture of it if wanted, and why there is none."""
        await self._report(render.seconds or 0.0, render.seconds, self.texts.looking)
        url, picture = f"file:{_OUTPUT}", self.folder / PICTURE
        arguments = await self._picture_arguments(url, render) if self.studio.settings.pictures else None
        plain = ["-loglevel", "info", *input_arguments(url)]
        problem: list[str] = []
        log = await self._runner.run(arguments or plain, self.folder, may_fail=True)
        info = read_description(log)
        if info is None or (info.duration is None and not info.is_picture):
            info = await self._written()
        drawn = picture.read_bytes() if picture.exists() else b""
        if arguments is not None and not drawn:
            problem.append(self.texts.no_picture.format(reason=_reason(log, self._names())))
        return info, [Image(drawn, "image/jpeg")] if drawn else [], problem

    async def _written(self) -> ProbedMedia:
        """The output, if it takes more than a glance to know its duration."""
        descriptor = os.open(self.folder / _OUTPUT, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return await probe(self._runner, descriptor, self.folder)
        except MediaError:  # a header with nothing behind it
            raise ToolError(self.texts.nothing_written) from None
        finally:
            os.close(descriptor)

    async def _picture_arguments(self, url: str, render: Render) -> list[str] | None:
        if render.looks == "audio":
            return waveform_arguments(url) if (render.seconds or 0) <= LONGEST_WAVE else None
        font = None
        if "drawtext" in self.capabilities.filters:
            with suppress(ToolError):
                await self.font()
                font = FONT
        guess = self._guess(render)
        return None if guess is None else sheet_arguments(url, guess, font)

    def _guess(self, render: Render) -> ProbedMedia | None:
        """About what the output has: the size of the first input, and the duration that was asked for."""
        for source in self._sources.values():
            video = source.info.video
            if video is not None:
                if render.size is not None:
                    video = replace(video, width=render.size[0], height=render.size[1], sample_aspect=1.0)
                return replace(source.info, duration=render.seconds, streams=(video,))
        return None

    def _notices(self, path: str, render: Render, log: str, info: ProbedMedia) -> list[str]:
        texts = self.texts
        found: list[str] = []
        if _DAMAGE.search(log):
            named = [source.path for source in self._sources.values() if not source.info.is_picture]
            found.append(texts.damaged.format(path=", ".join(named)))
        if (
            render.seconds is not None
            and info.duration is not None
            and render.seconds - info.duration > _SLACK
        ):
            got, expected = f"{info.duration:.2f}", f"{render.seconds:.2f}"
            found.append(texts.shorter.format(got=got, expected=expected))
        if any(one.kind == "subtitle" for source in self._sources.values() for one in source.info.streams):
            found.append(texts.subtitles_left)
        ending = os.path.splitext(path)[1].lstrip(".").lower()
        if format_named(ending) is not None and format_named(ending) != render.form:
            found.append(texts.named_otherwise.format(path=path, format=render.form.name, ending=ending))
        return found

    def _sentence(self, result: MediaResult) -> str:
        """The sentence of success, the facts, and the notices."""
        texts = self.texts
        words = TOOLS[self._tool][0 if self.studio.settings.locale == "en" else 1]
        parts: list[str] = []
        for stream in result.streams:
            if stream.kind == "video":
                rate = f" {stream.frame_rate:g} fps" if stream.frame_rate else ""
                parts.append(
                    texts.video_fact.format(
                        codec=stream.codec, width=stream.width, height=stream.height, rate=rate
                    )
                )
            elif stream.kind == "audio":
                parts.append(
                    texts.audio_fact.format(
                        codec=stream.codec, rate=stream.sample_rate or "?", channels=stream.channels or "?"
                    )
                )
        duration = "" if result.duration is None else f", {result.duration:g} s"
        facts = texts.facts.format(
            format=result.format, parts=", ".join(parts), duration=duration, size=result.size
        )
        lines = [f"{words.done.format(path=result.output_path)} ({facts})"]
        return "\n".join([*lines, *(f"! {notice}" for notice in result.notices)])


class _Scratch:
    """A folder that is removed at the end. It is locked, so that another process knows it is in use."""

    def __init__(self, base: Path) -> None:
        self._path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        self._lock = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
        os.close(self._lock)


def _sweep(base: Path) -> None:
    """Removes what killed processes left."""
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _identity(file: os.stat_result) -> tuple[int, int, int, int]:
    """What changes when a file is written anew."""
    return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns


def _fits(form: ContainerFormat, kind: CodecKind) -> bool:
    """A format for video has video; one for sound has nothing else."""
    return bool(form.video) if kind == "video" else bool(form.audio)


def _reason(log: str, names: dict[str, str]) -> str:
    """The lines of a log that say something, without addresses in memory and with the callers' names."""
    lines: list[str] = []
    for line in log.splitlines():
        text = _CONTEXT.sub("", line).strip()
        for url, name in names.items():
            text = text.replace(url, name)
        if text and not _NOISE.match(text) and text not in lines:
            lines.append(text)
    return "; ".join(lines[-3:])[:600] or "?"
