"""The eight tools: reads the pictures, asks the API or the client's model, and explains what went wrong."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ...kit import Context, InvalidParams, Long, McpError, Sample, Sampled, Server, ToolError, ToolResult
from ...kit.localization import LocalizedTool, add_localized_tool
from ...kit.schema.validation import schema_of
from ...pictures import PictureError, PictureFitter, PictureLimits
from ...workspace import Workspace, WorkspaceError, Workspaces
from .endpoint import VisionClient, VisionError
from .frames import FrameError, frames_of
from .prompts import system_prompt, user_prompt
from .settings import Settings
from .sources import Source, SourceError, SourceReader, source_of
from .texts import (
    ANALYZE_CHART,
    ANALYZE_IMAGE,
    ANALYZE_VIDEO,
    DIAGNOSE_ERROR,
    EXTRACT_TEXT,
    UI_DIFF,
    UI_TO_ARTIFACT,
    UNDERSTAND_DIAGRAM,
    VisionTexts,
)

MAX_PROMPT = 100_000
VIDEO_SIDE = 1024
_QUICKTIME = b"qt  "

OutputType = Literal["code", "prompt", "spec", "description"]
Text = Annotated[str, Meta(max_length=MAX_PROMPT)]


class SeenImage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    source: str
    mime_type: str = ""
    size: Annotated[int, Meta(description="Bytes that the model was sent")] = 0
    width: int = 0
    height: int = 0
    seconds: Annotated[float | None, Meta(description="The time of a picture in its video")] = None


class VisionAnswer(Struct, frozen=True, kw_only=True):
    text: str
    model: str
    answered_by: Annotated[Literal["api", "client"], Meta(description="The API, or the client's own model")]
    images: list[SeenImage]
    tokens: int | None
    truncated: bool
    notices: list[str]


class ShownMedia(Struct, frozen=True):
    """What the model is shown: an image or a whole video. `url` is empty where only the facts are known."""

    about: SeenImage
    data: bytes = b""
    url: str = ""
    is_video: bool = False


class Prepared(Struct, frozen=True):
    shown: list[ShownMedia]
    notices: list[str]


class VisionTools:
    def __init__(
        self,
        settings: Settings,
        client: VisionClient | None,
        reader: SourceReader,
        pictures: PictureFitter,
        workspaces: Workspaces,
        ffmpeg: str,
        texts: VisionTexts,
    ) -> None:
        """Without a client, the caller's model is asked; without ffmpeg, videos are sent whole or not."""
        self._settings = settings
        self._client = client
        self._reader = reader
        self._pictures = pictures
        self._workspaces = workspaces
        self._ffmpeg = ffmpeg
        self._texts = texts

    def add_to(self, server: Server) -> None:
        self._add(server, self.ui_to_artifact, UI_TO_ARTIFACT)
        self._add(server, self.extract_text_from_screenshot, EXTRACT_TEXT)
        self._add(server, self.diagnose_error_screenshot, DIAGNOSE_ERROR)
        self._add(server, self.understand_technical_diagram, UNDERSTAND_DIAGRAM)
        self._add(server, self.analyze_data_visualization, ANALYZE_CHART)
        self._add(server, self.ui_diff_check, UI_DIFF)
        self._add(server, self.analyze_image, ANALYZE_IMAGE)
        self._add(server, self.analyze_video, ANALYZE_VIDEO)

    def _add(
        self,
        server: Server,
        function: Callable[..., Awaitable[ToolResult]],
        localized: tuple[LocalizedTool, LocalizedTool],
    ) -> None:
        add_localized_tool(
            server,
            function,
            en=localized[0],
            pt=localized[1],
            output_schema=schema_of(VisionAnswer),
            read_only=True,
            destructive=False,
            idempotent=False,
            open_world=True,
            long=Long(),
        )

    async def ui_to_artifact(
        self, ctx: Context, image_source: str, output_type: OutputType, prompt: Text
    ) -> ToolResult:
        return await self._images(ctx, output_type, prompt, [image_source])

    async def extract_text_from_screenshot(
        self, ctx: Context, image_source: str, prompt: Text, programming_language: Text = ""
    ) -> ToolResult:
        return await self._images(ctx, "text", prompt, [image_source], ("language", programming_language))

    async def diagnose_error_screenshot(
        self, ctx: Context, image_source: str, prompt: Text, context: Text = ""
    ) -> ToolResult:
        return await self._images(ctx, "error", prompt, [image_source], ("context", context))

    async def understand_technical_diagram(
        self, ctx: Context, image_source: str, prompt: Text, diagram_type: Text = ""
    ) -> ToolResult:
        return await self._images(ctx, "diagram", prompt, [image_source], ("kind", diagram_type))

    async def analyze_data_visualization(
        self, ctx: Context, image_source: str, prompt: Text, analysis_focus: Text = ""
    ) -> ToolResult:
        return await self._images(ctx, "chart", prompt, [image_source], ("focus", analysis_focus))

    async def ui_diff_check(
        self, ctx: Context, expected_image_source: str, actual_image_source: str, prompt: Text
    ) -> ToolResult:
        return await self._images(ctx, "diff", prompt, [expected_image_source, actual_image_source])

    async def analyze_image(self, ctx: Context, image_source: str, prompt: Text) -> ToolResult:
        return await self._images(ctx, "image", prompt, [image_source])

    async def analyze_video(self, ctx: Context, video_source: str, prompt: Text) -> ToolResult:
        self._check_prompt(prompt)
        source = self._source(video_source)

        async def prepare() -> Prepared:
            return await self._prepared_video(ctx, source)

        return await self._answer(ctx, "video", prompt, (), prepare)

    async def _images(
        self, ctx: Context, task: str, prompt: str, given: Sequence[str], *facts: tuple[str, str]
    ) -> ToolResult:
        self._check_prompt(prompt)
        sources = [self._source(one) for one in given]

        async def prepare() -> Prepared:
            shown: list[ShownMedia] = []
            notices: list[str] = []
            for at, source in enumerate(sources):
                await ctx.report_progress(at, len(sources) + 1, self._texts.reading.format(source.shown))
                shown.append(await self._prepared_image(ctx, source, notices))
            return Prepared(shown, notices)

        return await self._answer(ctx, task, prompt, facts, prepare)

    def _check_prompt(self, prompt: str) -> None:
        if not prompt.strip():
            raise ToolError(self._texts.no_prompt)

    def _source(self, given: str) -> Source:
        try:
            return source_of(given)
        except SourceError as error:
            raise ToolError(self._texts.sources[error.problem].format(**error.facts)) from None

    # What the model is shown.

    async def _prepared_image(self, ctx: Context, source: Source, notices: list[str]) -> ShownMedia:
        if source.kind == "url" and self._settings.urls == "pass" and self._client is not None:
            return ShownMedia(SeenImage(source=source.shown), url=source.text)
        return await self._fitted(ctx, source.shown, await self._read(ctx, source), notices)

    async def _fitted(self, ctx: Context, name: str, data: bytes, notices: list[str]) -> ShownMedia:
        settings, texts = self._settings, self._texts
        limits = (
            PictureLimits(settings.image_bytes, settings.image_side)
            if self._client is not None
            else PictureLimits(settings.sample_bytes, settings.sample_side)
        )
        try:
            found = await self._pictures.fit(data, limits, ctx.caller.owner)
        except PictureError as error:
            text = texts.pictures[error.problem]
            raise ToolError(text.format(source=name, width=error.width, height=error.height)) from None
        if found.is_scaled:
            before, after = (found.original_width, found.original_height), (found.width, found.height)
            notices.append(texts.scaled.format(name, *before, *after))
        if found.format not in ("JPEG", "MPO", "PNG"):
            notices.append(texts.converted.format(name, found.format))
        if found.frames > 1 and found.format != "MPO":
            notices.append(texts.first_frame.format(name))
        about = SeenImage(
            source=name,
            mime_type=found.mime_type,
            size=len(found.data),
            width=found.width,
            height=found.height,
        )
        return ShownMedia(about, found.data)

    async def _prepared_video(self, ctx: Context, source: Source) -> Prepared:
        settings, texts = self._settings, self._texts
        whole = self._client is not None and settings.video != "frames"
        if source.kind == "url" and settings.urls == "pass" and whole:
            return Prepared([ShownMedia(SeenImage(source=source.shown), url=source.text, is_video=True)], [])
        await ctx.report_progress(0, 2, texts.reading.format(source.shown))
        data = await self._read(ctx, source)
        mime_type = _video_type(data)
        if whole and mime_type and len(data) <= settings.video_bytes:
            about = SeenImage(source=source.shown, mime_type=mime_type, size=len(data))
            return Prepared([ShownMedia(about, data, is_video=True)], [])
        if settings.video == "whole" or (whole and not self._ffmpeg):
            if mime_type:
                limit = settings.video_bytes // 1024**2
                raise ToolError(texts.video_too_large.format(source.shown, limit))
            raise ToolError(texts.not_a_video.format(source.shown))
        if not self._ffmpeg:
            raise ToolError(texts.no_ffmpeg)
        return await self._frames(source, data)

    async def _frames(self, source: Source, data: bytes) -> Prepared:
        try:
            side = min(VIDEO_SIDE, self._settings.sample_side)
            frames = await frames_of(self._ffmpeg, data, self._settings.frames, side)
        except FrameError:
            raise ToolError(self._texts.not_a_video.format(source.shown)) from None
        shown = [
            ShownMedia(
                SeenImage(
                    source=source.shown, mime_type="image/jpeg", size=len(frame.data), seconds=frame.seconds
                ),
                frame.data,
            )
            for frame in frames
        ]
        return Prepared(shown, [self._texts.as_frames.format(len(frames))])

    async def _read(self, ctx: Context, source: Source) -> bytes:
        try:
            workspace = await asyncio.to_thread(self._workspace, ctx)
            return await self._reader.read(source, workspace)
        except SourceError as error:
            raise ToolError(self._texts.sources[error.problem].format(**error.facts)) from None
        except WorkspaceError as error:
            raise ToolError(error.explain(self._settings.locale)) from None

    def _workspace(self, ctx: Context) -> Workspace:
        return self._workspaces.of(ctx.caller)

    # Who answers.

    async def _answer(
        self,
        ctx: Context,
        task: str,
        prompt: str,
        facts: Sequence[tuple[str, str]],
        prepare: Callable[[], Awaitable[Prepared]],
    ) -> ToolResult:
        system = system_prompt(self._settings.locale, task)
        if self._client is None:
            if not isinstance(ctx.caller.capabilities.get("sampling"), dict):
                raise ToolError(self._texts.no_model)
            return await self._sampled(ctx, system, prompt, facts, prepare)
        prepared = await prepare()
        text = user_prompt(self._settings.locale, prompt, [*_times(prepared), *facts])
        endpoint = self._client.endpoint
        count = len(prepared.shown)
        await ctx.report_progress(count, count + 1, self._texts.asking.format(endpoint.model))

        async def on_retry() -> None:
            await ctx.report_progress(count + 0.5, count + 1, self._texts.again)

        content = [*map(_part, prepared.shown), {"type": "text", "text": text}]
        try:
            reply = await self._client.ask(system, content, on_retry)
        except VisionError as error:
            raise ToolError(self._explain(error)) from None
        answer = VisionAnswer(
            text=reply.text,
            model=reply.model,
            answered_by="api",
            images=[one.about for one in prepared.shown],
            tokens=reply.tokens,
            truncated=reply.is_cut,
            notices=[*prepared.notices, *([self._texts.cut] if reply.is_cut else [])],
        )
        return _result(answer)

    async def _sampled(
        self,
        ctx: Context,
        system: str,
        prompt: str,
        facts: Sequence[tuple[str, str]],
        prepare: Callable[[], Awaitable[Prepared]],
    ) -> ToolResult:
        """Asks the client's model. A modern client calls again with the answer: nothing is read twice."""
        made: list[Prepared] = []

        async def facts_of_prepared() -> Any:
            made.append(await prepare())
            return msgspec.to_builtins(([one.about for one in made[0].shown], made[0].notices))

        remembered = await ctx.remember("pictures", facts_of_prepared)
        images, notices = msgspec.convert(remembered, tuple[list[SeenImage], list[str]])
        messages = [_message(one) for one in made[0].shown] if made else []
        times = [("frames", _listed(images))]
        text = user_prompt(self._settings.locale, prompt, [*times, *facts])
        messages.append({"role": "user", "content": {"type": "text", "text": text}})
        await ctx.report_progress(len(images), len(images) + 1, self._texts.asking_client)
        question = _PictureSample(messages, self._settings.sample_tokens, system, is_complete=bool(made))
        try:
            reply: Sampled = (await ctx.ask(answer=question))["answer"]
        except McpError as error:
            raise ToolError(self._texts.client_failed.format(error.message[:200])) from None
        if not reply.text.strip():
            raise ToolError(self._texts.client_empty)
        is_cut = reply.stop_reason == "maxTokens"
        answer = VisionAnswer(
            text=reply.text.strip(),
            model=reply.model[:100],
            answered_by="client",
            images=images,
            tokens=None,
            truncated=is_cut,
            notices=[*notices, *([self._texts.cut] if is_cut else [])],
        )
        return _result(answer)

    def _explain(self, error: VisionError) -> str:
        assert self._client is not None
        endpoint = self._client.endpoint
        wait = ""
        if error.wait is not None:
            wait = f" in {error.wait:g} s" if self._settings.locale == "en" else f" em {error.wait:g} s"
        text = self._texts.api[error.fault].format(
            host=endpoint.host,
            model=endpoint.model,
            status=error.status,
            seconds=endpoint.timeout,
            wait=wait,
        )
        return text + (self._texts.api_says.format(error.reason) if error.reason else "")


class _PictureSample(Sample):
    """A question with pictures, which are not read again when the answer has come."""

    def __init__(
        self, messages: list[dict[str, Any]], max_tokens: int, system: str, *, is_complete: bool
    ) -> None:
        super().__init__(messages, max_tokens, system)
        self._is_complete = is_complete

    def request(self, era: str) -> Any:
        if not self._is_complete:
            raise InvalidParams("the model's answer is missing; call the tool again without requestState")
        return super().request(era)


def _part(shown: ShownMedia) -> dict[str, Any]:
    url = shown.url or f"data:{shown.about.mime_type};base64,{base64.b64encode(shown.data).decode()}"
    kind = "video_url" if shown.is_video else "image_url"
    return {"type": kind, kind: {"url": url}}


def _message(shown: ShownMedia) -> dict[str, Any]:
    """One message for each picture: before 2025-11-25 a message has one block of content."""
    data = base64.b64encode(shown.data).decode()
    return {"role": "user", "content": {"type": "image", "data": data, "mimeType": shown.about.mime_type}}


def _times(prepared: Prepared) -> list[tuple[str, str]]:
    return [("frames", _listed([one.about for one in prepared.shown]))]


def _listed(images: Sequence[SeenImage]) -> str:
    return ", ".join(f"{image.seconds:g} s" for image in images if image.seconds is not None)


def _video_type(data: bytes) -> str:
    """MP4, MOV and M4V by their first bytes; empty for others."""
    if data[4:8] != b"ftyp":
        return ""
    return "video/quicktime" if data[8:12] == _QUICKTIME else "video/mp4"


def _result(answer: VisionAnswer) -> ToolResult:
    return ToolResult(content=["\n".join([answer.text, *answer.notices])], structured=answer)
