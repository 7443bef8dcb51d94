"""The results of the tools: the structs of the output schemas, and the text beside them."""

from typing import Annotated

from msgspec import Meta, Struct

from ...kit.schema.annotations import schema_name
from .texts import YoutubeTexts, size_text
from .transcript import clock

Path = Annotated[str, Meta(description="In the workspace")]


class MediaFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: Path
    size: int
    mime_type: str
    duration: Annotated[float | None, Meta(description="In seconds")] = None
    width: int | None = None
    height: int | None = None
    codecs: list[str] = []


class DownloadedMedia(Struct, frozen=True, kw_only=True):
    url: str
    id: str
    title: str
    uploader: str | None
    duration: float | None
    extractor: str
    files: list[MediaFile]
    notices: list[str]


@schema_name("PlaylistItem")
class DownloadedEntry(Struct, frozen=True, kw_only=True):
    index: int
    id: str
    title: str
    files: list[MediaFile]
    error: str | None = None


@schema_name("DownloadedPlaylist")
class DownloadedEntries(Struct, frozen=True, kw_only=True):
    url: str
    title: str
    count: Annotated[int | None, Meta(description="All items of the playlist, if that is known")]
    start: int
    end: Annotated[int, Meta(description="The last item that was asked for, or that one call may get")]
    downloaded: int
    failed: int
    items: list[DownloadedEntry]
    notices: list[str]


class SubtitleTrack(Struct, frozen=True, kw_only=True):
    language: str
    automatic: Annotated[bool, Meta(description="Made by a machine")]
    path: Path
    transcript_path: Annotated[
        str | None, Meta(description="The text with times, as a file in the workspace")
    ]
    transcript: Annotated[str, Meta(description="The text with times, or its beginning")]
    lines: int
    truncated: bool


class DownloadedSubtitles(Struct, frozen=True, kw_only=True):
    url: str
    id: str
    title: str
    tracks: list[SubtitleTrack]
    files: Annotated[list[MediaFile], Meta(description="The video with the subtitles in it, if asked for")]
    notices: list[str]


class MediaFormat(Struct, frozen=True, kw_only=True, omit_defaults=True):
    format_id: str = ""
    ext: str = ""
    format_note: str = ""
    resolution: str = ""
    width: float | None = None
    height: float | None = None
    fps: float | None = None
    vcodec: str = ""
    acodec: str = ""
    tbr: float | None = None
    filesize: float | None = None
    filesize_approx: float | None = None
    protocol: str = ""
    language: str = ""


class Chapter(Struct, frozen=True):
    start: float | None
    end: float | None
    title: str


@schema_name("Entry")
class PlaylistEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str = ""
    title: str = ""
    url: str = ""
    webpage_url: str = ""
    duration: float | None = None
    uploader: str = ""
    channel: str = ""
    view_count: float | None = None


class MediaMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """With yt-dlp's names. What the site does not say is absent."""

    id: str = ""
    title: str = ""
    fulltitle: str = ""
    webpage_url: str = ""
    original_url: str = ""
    extractor: str = ""
    uploader: str = ""
    uploader_id: str = ""
    uploader_url: str = ""
    channel: str = ""
    channel_id: str = ""
    channel_url: str = ""
    channel_follower_count: float | None = None
    upload_date: str = ""
    timestamp: float | None = None
    release_date: str = ""
    duration: float | None = None
    duration_string: str = ""
    view_count: float | None = None
    like_count: float | None = None
    comment_count: float | None = None
    average_rating: float | None = None
    age_limit: float | None = None
    live_status: str = ""
    is_live: bool = False
    was_live: bool = False
    availability: str = ""
    media_type: str = ""
    language: str = ""
    location: str = ""
    license: str = ""
    artist: str = ""
    album: str = ""
    track: str = ""
    genre: str = ""
    series: str = ""
    season: str = ""
    season_number: float | None = None
    episode: str = ""
    episode_number: float | None = None
    width: float | None = None
    height: float | None = None
    fps: float | None = None
    resolution: str = ""
    ext: str = ""
    thumbnail: str = ""
    description: str = ""
    description_truncated: bool = False
    tags: list[str] = []
    categories: list[str] = []
    chapters: list[Chapter] = []
    formats: Annotated[list[MediaFormat], Meta(description="The best first, 30 at most")] = []
    formats_count: int = 0
    subtitles: Annotated[list[str], Meta(description="Languages")] = []
    automatic_captions: Annotated[list[str], Meta(description="Languages")] = []
    is_playlist: bool = False
    playlist_count: float | None = None
    entries: Annotated[list[PlaylistEntry], Meta(description="The first ones")] = []


def file_line(file: MediaFile, texts: YoutubeTexts) -> str:
    facts = [size_text(file.size), file.mime_type]
    if file.duration is not None:
        facts.append(clock(file.duration))
    if file.width and file.height:
        facts.append(f"{file.width}x{file.height}")
    return texts.saved.format(file.path, ", ".join(facts))


def media_text(found: DownloadedMedia, texts: YoutubeTexts) -> str:
    lines = [texts.title_line.format(found.title)]
    lines += [file_line(file, texts) for file in found.files]
    return "\n".join([*lines, *found.notices])


def playlist_text(found: DownloadedEntries, texts: YoutubeTexts) -> str:
    lines = [texts.playlist_line.format(found.title or found.url, found.downloaded, found.failed)]
    for item in found.items:
        if item.error is not None:
            lines.append(f"{item.index}. {item.title or item.id}: {item.error}")
        else:
            lines += [f"{item.index}. {file_line(file, texts)}" for file in item.files]
    return "\n".join([*lines, *found.notices])


def subtitles_text(found: DownloadedSubtitles, texts: YoutubeTexts) -> str:
    lines = [texts.title_line.format(found.title)]
    lines += [file_line(file, texts) for file in found.files]
    for track in found.tracks:
        kind = texts.automatic if track.automatic else texts.written
        lines.append(texts.track_line.format(track.language, kind, track.path))
        if track.transcript:
            lines.append(track.transcript.rstrip("\n"))
        if track.truncated:
            lines.append(texts.transcript_left.format(track.lines, track.transcript_path))
    return "\n".join([*lines, *found.notices])


def metadata_text(found: MediaMetadata, texts: YoutubeTexts) -> str:
    """A few lines; the structured content has the rest."""
    lines = [texts.title_line.format(found.title or found.id)]
    facts = (
        (texts.by, found.channel or found.uploader),
        (texts.date, found.upload_date),
        (texts.length, clock(found.duration) if found.duration is not None else ""),
        (texts.views, f"{found.view_count:g}" if found.view_count is not None else ""),
        (texts.address, found.webpage_url),
        (texts.best, " ".join((found.resolution, found.ext)).strip()),
        (texts.formats, str(found.formats_count) if found.formats_count else ""),
        (texts.subtitles, ", ".join(found.subtitles)),
        (texts.captions, ", ".join(found.automatic_captions[:20])),
        (texts.items, f"{found.playlist_count:g}" if found.playlist_count is not None else ""),
    )
    lines += [f"{name}: {value}" for name, value in facts if value]
    lines += [f"  [{clock(chapter.start or 0)}] {chapter.title}" for chapter in found.chapters[:20]]
    lines += [f"  {at}. {entry.title or entry.url}" for at, entry in enumerate(found.entries, 1)]
    if found.description:
        lines += ["", found.description[:1000]]
    return "\n".join(lines)
