"""Runs in a process of its own: one order to yt-dlp, read from standard input; answers are lines of JSON.

Owns everything that is said to yt-dlp, and the walls around it: connections go to the given proxy only, the
only programs are ffmpeg and a JavaScript runtime, and files are written in the order's folder only. Started
by its path, so that it does not pay for the imports of the server. It ends, with the programs that it
started, when its parent does.
"""

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from toolyard.workers.process import limit_memory, restrict_process

PROGRESS_SECONDS = 0.25
PROBE_SECONDS = 60
MAX_HOPS = 20
"""How many pages may lead on to another one before there is a video."""
MAX_LINE = 300
MAX_WARNINGS = 20
NAME = "%(title).150B [%(id).60B].%(ext)s"
# Containers that only hold what is in them: a playlist could name other files of this machine.
CONTAINERS = (
    "aac,ac3,aiff,amr,ass,asf,avi,dts,eac3,flac,flv,gif,h264,hevc,image2,bmp_pipe,gif_pipe,jpeg_pipe,png_pipe,"
    "webp_pipe,m4a,matroska,mov,mp3,mp4,mpeg,mpegts,mpegvideo,ogg,srt,wav,webm,webvtt"
)
INPUT = ["-protocol_whitelist", "file,pipe", "-format_whitelist", CONTAINERS]
OVER_HTTP = (
    "m3u8",
    "m3u8_native",
    "f4m",
    "http_dash_segments",
    "http_dash_segments_generator",
    "ism",
    "mhtml",
)
UNFINISHED = (".part", ".ytdl", ".temp", ".tmp")
IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".avif")
SUBTITLES = (".vtt", ".srt", ".ass", ".ssa", ".ttml", ".srv3", ".json3", ".lrc", ".sbv")

Info = dict[str, Any]


def main() -> None:
    order: Info = json.loads(sys.stdin.buffer.readline())
    restrict_process(int(order["max_bytes"]))
    # Output that libraries print goes to stderr.
    answers = Answers(os.dup(1))
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # yt-dlp would use it for connections of its own, which the walls below do not see.
    sys.modules["curl_cffi"] = None  # pyright: ignore[reportArgumentType]
    job = Job(order, answers)
    limit_memory(int(order["max_memory"]))
    _build_walls(order)
    job.run()
    answers.send(kind="done")


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


class Answers:
    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def send(self, **answer: Any) -> None:
        left = memoryview(json.dumps(answer).encode() + b"\n")
        while left:
            left = left[os.write(self._pipe, left) :]


def _build_walls(order: Info) -> None:
    """Refuses what yt-dlp should never be led to do by a site."""
    host, _, port = str(order["proxy"]).rpartition("://")[2].partition(":")
    proxy = (host, int(port))
    folder = os.path.realpath(order["folder"])
    programs = {os.path.realpath(path) for path in order["programs"]}

    def inspect(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            if tuple(arguments[1][:2]) != proxy:
                raise PermissionError(errno.EACCES, "connections go through the proxy only")
        elif event == "socket.getaddrinfo":
            if arguments[0] not in (host, None):
                raise PermissionError(errno.EACCES, "the proxy resolves names")
        elif event == "subprocess.Popen":
            if os.path.realpath(arguments[0]) not in programs:
                raise PermissionError(errno.EACCES, "this program is not allowed")
        elif event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                written = os.path.realpath(os.fsdecode(path))
                if written != os.devnull and not written.startswith(folder + os.sep):
                    raise PermissionError(errno.EACCES, "files are written in the folder of the order only")
        elif event in ("os.system", "os.exec", "os.posix_spawn", "pty.spawn"):
            raise PermissionError(errno.EACCES, "programs are not started this way")

    sys.addaudithook(inspect)


class Job:
    def __init__(self, order: Info, answers: Answers) -> None:
        # 0.7 s of CPU, which only a process of its own has to pay
        import yt_dlp
        from yt_dlp import downloader
        from yt_dlp.downloader.external import FFmpegFD
        from yt_dlp.downloader.hls import HlsFD
        from yt_dlp.networking.exceptions import UnsupportedRequest
        from yt_dlp.utils import DownloadCancelled, UnavailableVideoError

        self._order = order
        self._answers = answers
        self._folder = Path(order["folder"])
        self._task = str(order["task"])
        self._meter = Meter(order["max_bytes"], answers, DownloadCancelled)
        self.hops = 0
        self.stopped_for = ""
        self.warnings: list[str] = []

        def refuse(*_: Any) -> bool:
            raise UnavailableVideoError("live streams and streams over other protocols are not downloaded")

        # ffmpeg's own connections would not go through the proxy.
        cast(Any, FFmpegFD).real_download = refuse
        cast(Any, FFmpegFD).available = _nothing
        known = cast(dict[str, Any], vars(downloader)["PROTOCOL_MAP"])
        known["m3u8"] = HlsFD
        for protocol in known:
            if protocol not in OVER_HTTP:
                known[protocol] = FFmpegFD
        job = self

        class Downloader(yt_dlp.YoutubeDL):
            def extract_info(self, *arguments: Any, **options: Any) -> Any:
                job.hops += 1
                if job.hops > MAX_HOPS:
                    job.stopped_for = "endless"
                    raise DownloadCancelled("one page leads to another")
                return super().extract_info(*arguments, **options)

            def urlopen(self, req: Any) -> Any:
                address = str(req if isinstance(req, str) else req.url)
                if address.partition(":")[0].lower() not in ("http", "https", "data"):
                    raise UnsupportedRequest(f"unsupported url scheme: {address[:20]}")
                return super().urlopen(req)

            def process_video_result(self, info_dict: Any, download: bool = True) -> Any:
                job.begin(info_dict)
                found: Any = super().process_video_result(info_dict, download)
                if download and found:
                    job.finish(found)
                return found

            def process_subtitles(self, video_id: Any, normal_subtitles: Any, automatic_captions: Any) -> Any:
                if not self.params.get("writesubtitles"):
                    return None
                return job.choose_subtitles(normal_subtitles or {}, automatic_captions or {})

            def trouble(self, message: Any = None, tb: Any = None, is_error: bool = True) -> None:
                if is_error and self.params.get("ignoreerrors"):
                    job.fail(sys.exc_info()[1], str(message or ""))
                super().trouble(message, tb, is_error)

        self._index = 0
        self._current: Info = {}
        self._ydl: Any = Downloader(cast(Any, self._options()))

    def run(self) -> None:
        wanted = self._task != "metadata"
        try:
            found: Info | None = self._ydl.extract_info(self._order["url"], download=wanted)
        except BaseException as error:
            self.fail(error, str(error))
            return
        if found is None:
            return
        if not wanted:
            self._answers.send(
                kind="info", info=trimmed(self._ydl.sanitize_info(found), self._order["max_items"])
            )
        elif found.get("_type") in ("playlist", "multi_video"):
            count: Any = found.get("playlist_count")
            self._answers.send(
                kind="playlist",
                id=_text(found.get("id")),
                title=_text(found.get("title")),
                count=count if isinstance(count, int) else None,
            )

    # Items, as they come.

    def begin(self, info: Info) -> None:
        self.hops = 0
        self._index = int(info.get("playlist_index") or 1)
        self._current = info
        self._meter.begin(_text(info.get("title")) or _text(info.get("id")), self._index)

    def finish(self, info: Info) -> None:
        """Names the files of an item, which the parent may take away at once."""
        inside = self._folder / str(info.get("playlist_autonumber") or 1)
        subtitles = self._subtitle_files(info)
        files: list[Info] = []
        for path in sorted(inside.iterdir()) if inside.is_dir() else ():
            if path.suffix in UNFINISHED or not path.is_file():
                continue
            kind = "subtitles" if str(path) in subtitles or path.suffix in SUBTITLES else "media"
            kind = "thumbnail" if path.suffix in IMAGES else kind
            about = self._probed(path) if kind == "media" else subtitles.get(str(path), {})
            if about is None:
                self.fail(CorruptError(), "ffprobe finds no video and no sound in it")
                return
            files.append({"path": str(path), "kind": kind, "size": path.stat().st_size, **about})
        if files:
            self._answers.send(
                kind="item",
                index=self._index,
                files=files,
                warnings=self.warnings,
                duration=info.get("duration"),
                **{
                    name: _text(info.get(name))
                    for name in ("id", "title", "uploader", "webpage_url", "extractor")
                },
            )
            self.warnings = []

    def _probed(self, path: Path) -> Info | None:
        """What is in a media file; None if it cannot be played."""
        if not self._order["ffprobe"]:
            return {}
        command = [
            self._order["ffprobe"],
            "-v",
            "error",
            *INPUT,
            "-show_format",
            "-show_streams",
            "-of",
            "json",
        ]
        try:
            done = subprocess.run(
                [*command, f"file:{path}"], capture_output=True, timeout=PROBE_SECONDS, check=False
            )
            found: Info = json.loads(done.stdout or b"{}")
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None
        streams: list[Info] = found.get("streams") or []
        played = [one for one in streams if one.get("codec_type") in ("video", "audio")]
        if not played:
            return None
        about: Info = {"codecs": [_text(one.get("codec_name")) for one in played][:8]}
        with contextlib.suppress(KeyError, TypeError, ValueError):
            about["duration"] = round(float(found["format"]["duration"]), 3)
        for one in played:
            if one.get("width") and one.get("height"):
                about |= {"width": int(one["width"]), "height": int(one["height"])}
                break
        return about

    def fail(self, error: BaseException | None, message: str) -> None:
        kind, text, status = classify(error, message)
        if kind == "stopped":
            kind = self._meter.stopped_for or self.stopped_for or "other"
        self.hops = 0
        self._answers.send(
            kind="failed",
            error=kind,
            message=text,
            status=status,
            index=self._index,
            id=_text(self._current.get("id")),
            title=_text(self._current.get("title")),
        )

    # Subtitles.

    def choose_subtitles(self, written: Info, automatic: Info) -> Info:
        """One track for each wanted language: people's own before automatic, `en` before `en-US`."""
        chosen: Info = {}
        for wanted in self._order["languages"]:
            for tracks, is_automatic in ((written, False), (automatic, True)):
                language = _nearest(wanted, tracks)
                if language is not None:
                    formats = cast(list[Info], tracks[language] or [])
                    track = _readable(formats)
                    if track is not None and language not in chosen:
                        chosen[language] = {
                            **track,
                            "name": track.get("name") or language,
                            "_auto": is_automatic,
                        }
                    break
        if not chosen:
            self._answers.send(
                kind="failed",
                error="no_subtitles",
                message="",
                status=None,
                index=self._index,
                id=_text(self._current.get("id")),
                title=_text(self._current.get("title")),
                languages=sorted(map(str, written))[:100],
                automatic=sorted(map(str, automatic))[:200],
            )
        return chosen

    def _subtitle_files(self, info: Info) -> dict[str, Info]:
        found: dict[str, Info] = {}
        requested: dict[str, Info] = info.get("requested_subtitles") or {}
        for language, track in requested.items():
            if track.get("filepath"):
                found[str(track["filepath"])] = {"language": language, "automatic": bool(track.get("_auto"))}
        return found

    # What yt-dlp is told.

    def _options(self) -> Info:
        order, task = self._order, self._task
        start, end = int(order["start"]), int(order["end"])
        common: Info = {
            "logger": self,
            "quiet": True,
            "noprogress": True,
            "color": "no_color",
            "proxy": order["proxy"],
            "cachedir": False,
            "cookiefile": order["cookies"] or None,
            "socket_timeout": order["socket_seconds"],
            "retries": 3,
            "fragment_retries": 3,
            "extractor_retries": 1,
            "skip_unavailable_fragments": False,
            "overwrites": True,
            "continuedl": False,
            "updatetime": False,
            "windowsfilenames": True,
            "paths": {"home": str(self._folder)},
            "outtmpl": {"default": "%(playlist_autonumber|1)s/" + NAME},
            "hls_prefer_native": True,
            "enable_file_urls": False,
            "geo_bypass": False,
            "fixup": "detect_or_warn",
            "ffmpeg_location": order["ffmpeg"] or None,
            "postprocessor_args": {"ffmpeg_i": INPUT},
            "progress_hooks": [self._meter.downloaded],
            "postprocessor_hooks": [self._meter.processed],
            "noplaylist": task != "playlist",
            "lazy_playlist": True,
            "playlist_items": f"{start}:{end}" if task in ("playlist", "metadata") else "1",
            "ignoreerrors": task == "playlist",
            "skip_download": task in ("thumbnail", "subtitles") and not order["embed"],
            "postprocessors": [],
        }
        return common | getattr(self, f"_{task}")()

    def _video(self) -> Info:
        order = self._order
        container, has_ffmpeg = str(order["container"]), bool(order["ffmpeg"])
        worst = order["quality"] == "worst"
        separate, joined = ("wv*+wa", "w") if worst else ("bv*+ba", "b")
        codecs = {"mp4": ["vcodec:h264", "acodec:aac"], "webm": ["ext"]}.get(container, [])
        options: Info = {
            "format": f"{separate}/{joined}" if has_ffmpeg else joined,
            "format_sort": [f"res:{order['height']}", *codecs] if order["height"] else codecs,
        }
        if has_ffmpeg:
            copied = container in ("mp4", "mkv", "mov")
            options["merge_output_format"] = container if copied else f"{container}/mkv"
            key = "FFmpegVideoRemuxer" if copied else "FFmpegVideoConvertor"
            options["postprocessors"] = [{"key": key, "preferedformat": container}]
        return options

    def _playlist(self) -> Info:
        return self._video()

    def _audio(self) -> Info:
        order = self._order
        extract = {
            "key": "FFmpegExtractAudio",
            "preferredcodec": order["codec"],
            "preferredquality": order["bitrate"],
        }
        return {"format": "ba/b", "postprocessors": [extract] if order["ffmpeg"] else []}

    def _subtitles(self) -> Info:
        options: Info = {"writesubtitles": True, "ignore_no_formats_error": not self._order["embed"]}
        if self._order["embed"]:
            options |= self._video()
            embed = {"key": "FFmpegEmbedSubtitle", "already_have_subtitle": True}
            options["postprocessors"] = [*options.get("postprocessors", []), embed]
        return options

    def _thumbnail(self) -> Info:
        convert = {"key": "FFmpegThumbnailsConvertor", "format": "jpg", "when": "before_dl"}
        return {
            "writethumbnail": True,
            "ignore_no_formats_error": True,
            "postprocessors": [convert] if self._order["ffmpeg"] else [],
        }

    def _metadata(self) -> Info:
        return {"extract_flat": "in_playlist", "ignore_no_formats_error": True}

    # The logger of yt-dlp.

    def debug(self, message: str) -> None:
        pass

    def info(self, message: str) -> None:
        pass

    def warning(self, message: str) -> None:
        # yt-dlp warns of every page that it has no extractor of its own for.
        if len(self.warnings) < MAX_WARNINGS and not message.startswith("[generic]"):
            self.warnings.append(_line(message))

    def error(self, message: str) -> None:
        pass  # `fail` has it, with its cause


class CorruptError(Exception):
    """A downloaded file cannot be played."""


class Meter:
    """Counts bytes over all files of the order, reports them now and then, and stops what is too large."""

    def __init__(self, max_bytes: int, answers: Answers, stop: type[Exception]) -> None:
        self._max_bytes = max_bytes
        self._answers = answers
        self._stop = stop
        self._done: dict[str, int] = {}
        self._totals: dict[str, int] = {}
        self._title = ""
        self._index = 1
        self._said = 0.0
        self.stopped_for = ""

    def begin(self, title: str, index: int) -> None:
        self._title, self._index = title, index

    def downloaded(self, status: Info) -> None:
        name = str(status.get("filename"))
        total = int(status.get("total_bytes") or status.get("total_bytes_estimate") or 0)
        self._done[name] = int(status.get("downloaded_bytes") or total or self._done.get(name, 0))
        self._totals[name] = max(total, self._done[name])
        exact = int(status.get("total_bytes") or 0)
        done = sum(self._done.values())
        if done > self._max_bytes or done - self._done[name] + exact > self._max_bytes:
            self.stopped_for = "too_large"
            raise self._stop("it is larger than allowed")
        now = time.monotonic()
        if status.get("status") == "downloading" and now - self._said < PROGRESS_SECONDS:
            return
        self._said = now
        self._answers.send(
            kind="progress",
            step="downloading",
            title=self._title,
            index=self._index,
            done=done,
            total=sum(self._totals.values()) if total else None,
            speed=status.get("speed"),
            eta=status.get("eta"),
        )

    def processed(self, status: Info) -> None:
        if status.get("status") == "started" and status.get("postprocessor") != "MoveFiles":
            done = sum(self._done.values())
            self._answers.send(
                kind="progress", step="converting", title=self._title, index=self._index, done=done
            )


def _nothing(*_: Any) -> bool:
    return False


def _nearest(wanted: str, tracks: Iterable[str]) -> str | None:
    known = [language for language in tracks if language != "live_chat"]
    for language in known:
        if language.casefold() == wanted.casefold():
            return language
    begins = re.split(r"[-_]", wanted.casefold())[0]
    return next((one for one in known if re.split(r"[-_]", one.casefold())[0] == begins), None)


def _readable(formats: list[Info]) -> Info | None:
    for ending in ("vtt", "srt"):
        for track in reversed(formats):
            if track.get("ext") == ending:
                return track
    return formats[-1] if formats else None


_RULES = (
    ("scheme", r"file:// URLs are disabled|unsupported url scheme"),
    ("drm", r"\bDRM\b"),
    ("busy", r"not a bot|too many requests|rate.?limit"),
    ("geo", r"not (?:made )?(?:this video )?available in your "
    "(?:country|location|region)|geo.?restrict|blocked in"),
    ("login", r"private|sign in|log ?in|logged.?in|cookies|members.only|subscriber|registered users|password|"
     r"authenticat|confirm your age|age.restrict|premium"),
    ("live", r"live event|premieres? in|upcoming|not currently live|is offline|live stream"),
    ("no_media", r"no video formats|no formats|requested format is not available|no media found|"
     r"there is no video|does not contain any video|no thumbnails"),
    ("removed", r"removed|no longer available|unavailable|does not exist|terminated|deleted|not found"),
)  # fmt: skip
_COMPILED = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _RULES)
_STATUSES = {
    401: "login",
    402: "login",
    403: "forbidden",
    404: "removed",
    410: "removed",
    429: "busy",
    451: "geo",
}


def classify(error: BaseException | None, message: str) -> tuple[str, str, int | None]:
    """The kind of a failure, yt-dlp's own words, and the status of an HTTP response."""
    from yt_dlp.networking.exceptions import CertificateVerifyError, HTTPError, TransportError
    from yt_dlp.utils import (
        DownloadCancelled,
        GeoRestrictedError,
        PostProcessingError,
        UnsupportedError,
        UserNotLive,
    )

    text = _line(message)
    causes = _causes(error)
    for cause in causes:
        if isinstance(cause, CorruptError):
            return "corrupt", text, None
        if isinstance(cause, MemoryError):
            return "too_large", text, None
        if isinstance(cause, RecursionError):
            return "endless", text, None
        if isinstance(cause, DownloadCancelled):
            return "stopped", text, None
        if isinstance(cause, HTTPError):
            return (
                _STATUSES.get(cause.status, "failing" if cause.status >= 500 else "http"),
                text,
                cause.status,
            )
        for kind, types in (
            ("geo", GeoRestrictedError),
            ("unsupported", UnsupportedError),
            ("live", UserNotLive),
            ("conversion", PostProcessingError),
            ("certificate", CertificateVerifyError),
        ):
            if isinstance(cause, types):
                return kind, text, None
        if isinstance(cause, OSError) and cause.errno in (errno.EFBIG, errno.ENOSPC, errno.EDQUOT):
            return "too_large" if cause.errno == errno.EFBIG else "disk_full", text, None
    for kind, pattern in _COMPILED:
        if pattern.search(text):
            return kind, text, None
    is_network = any(isinstance(cause, TransportError | TimeoutError | ConnectionError) for cause in causes)
    if is_network or "Giving up after" in text:
        return "network", text, None
    return "other", text, None


def _causes(error: BaseException | None) -> list[BaseException]:
    """The error and what led to it, outermost first."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < 20:
        one = waiting.pop(0)
        if one is None or one in found:
            continue
        found.append(one)
        inner: Any = getattr(one, "exc_info", None)
        waiting += [getattr(one, "cause", None), inner[1] if inner else None, one.__cause__, one.__context__]
    return found


_NOISE = re.compile(r"^(?:ERROR:\s*)+|\s*;? please report this issue on.*$|\s*\(caused by .*$", re.I | re.S)
_ADVICE = re.compile(
    r"\s*(?:Use --|See\s+https?://|Also see\s+https?://|Confirm you are on the latest).*$", re.S
)


def _line(text: str) -> str:
    """yt-dlp's words on one line, without its advice to people at a command line."""
    plain = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())  # blanks in a row take quadratic time
    plain = _ADVICE.sub("", _NOISE.sub("", _NOISE.sub("", plain)))
    return " ".join(plain.split())[:MAX_LINE]


def _text(value: Any) -> str:
    """A text of the web on one line, without characters that hide or turn others."""
    return _readable_text(str(value).replace("\n", " "), 500) if value is not None else ""


def _readable_text(text: str, most: int) -> str:
    return "".join(one for one in text[: 2 * most] if one.isprintable() or one == "\n")[:most]


KEPT = (
    "id", "title", "fulltitle", "webpage_url", "original_url", "extractor", "uploader", "uploader_id",
    "uploader_url", "channel", "channel_id", "channel_url", "channel_follower_count", "upload_date",
    "timestamp", "release_date", "duration", "duration_string", "view_count", "like_count",
    "comment_count", "average_rating", "age_limit", "live_status", "is_live", "was_live",
    "availability", "media_type", "language", "location", "license", "artist", "album", "track",
    "genre", "series", "season", "season_number", "episode", "episode_number", "width", "height", "fps",
    "resolution", "ext", "thumbnail", "playlist_count",
)  # fmt: skip
FORMAT_KEPT = (
    "format_id", "ext", "format_note", "resolution", "width", "height", "fps", "vcodec", "acodec", "tbr",
    "filesize", "filesize_approx", "protocol", "language",
)  # fmt: skip
ENTRY_KEPT = ("id", "title", "url", "webpage_url", "duration", "uploader", "channel", "view_count")
MAX_DESCRIPTION = 5_000
MAX_FORMATS = 30
MAX_CHAPTERS = 200
MAX_TAGS = 50


def trimmed(info: Info, max_items: int) -> Info:
    """What a reader asks about, without signed addresses, headers, fragments and the long tail of formats."""
    found: Info = {name: _plain(info[name]) for name in KEPT if info.get(name) is not None}
    description = str(info.get("description") or "")
    found["description"] = _readable_text(description, MAX_DESCRIPTION)
    found["description_truncated"] = len(description) > MAX_DESCRIPTION
    for name in ("tags", "categories"):
        found[name] = [_text(one)[:100] for one in _items(info, name)][:MAX_TAGS]
    found["chapters"] = [
        {"start": one.get("start_time"), "end": one.get("end_time"), "title": _text(one.get("title"))}
        for one in _items(info, "chapters")[:MAX_CHAPTERS]
    ]
    formats = [
        one for one in reversed(_items(info, "formats")) if one.get("vcodec") != "none" or _has_audio(one)
    ]
    found["formats_count"] = len(formats)
    found["formats"] = [
        {name: _plain(one[name]) for name in FORMAT_KEPT if one.get(name) is not None}
        for one in formats[:MAX_FORMATS]
    ]
    for name, kept in (("subtitles", "subtitles"), ("automatic_captions", "automatic_captions")):
        tracks: Any = info.get(name) or {}
        found[kept] = sorted(map(str, tracks))[:200]
    entries = _items(info, "entries")
    if info.get("_type") in ("playlist", "multi_video"):
        found["is_playlist"] = True
        found["entries"] = [
            {name: _plain(one[name]) for name in ENTRY_KEPT if one and one.get(name) is not None}
            for one in entries[:max_items]
        ]
    return found


def _has_audio(one: Info) -> bool:
    return one.get("acodec") not in (None, "none")


def _items(info: Info, name: str) -> list[Any]:
    value: Any = info.get(name)
    return list(cast(list[Any], value)) if isinstance(value, list | tuple) else []


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | bool) else _text(value)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
