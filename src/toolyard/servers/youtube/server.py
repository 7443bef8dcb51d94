"""Builds the server from its settings: rules for addresses, the programs of yt-dlp, the tools."""

import shutil
from pathlib import Path

from ..._version import __version__
from ...egress import AddressRules
from ...ffmpeg import FfmpegMissingError, find_ffmpeg
from ...kit import Server
from ...kit.loader import SettingsError, require_extra
from ...workspace import WorkspaceLimits, Workspaces
from .downloads import DownloadRunner, FoundPrograms
from .settings import Settings
from .texts import texts_of
from .tools import YoutubeTools


def build(settings: Settings) -> Server:
    require_extra("youtube", "youtube", "yt_dlp")
    try:
        rules = AddressRules(settings.allowed)
    except ValueError as error:
        raise SettingsError(f"allow: {error}") from None
    if settings.cookies and not Path(settings.cookies).expanduser().is_file():
        raise SettingsError(f"cookies: there is no file {settings.cookies!r}")
    texts = texts_of(settings.locale)
    server = Server(
        "youtube",
        version=__version__,
        locale=settings.locale,
        title=texts.server_title,
        instructions=texts.instructions,
    )
    downloads = DownloadRunner(settings, rules, _programs(settings))
    server.on_close(downloads.close)
    most = max(WorkspaceLimits().max_file_bytes, settings.max_bytes)
    limits = WorkspaceLimits(max_file_bytes=most)
    workspaces = Workspaces(settings.workspace, shared=settings.shared, limits=limits)
    YoutubeTools(downloads, workspaces, settings, texts).add_to(server)
    return server


def _programs(settings: Settings) -> FoundPrograms:
    """Without ffmpeg the server works with what sites offer as it is."""
    deno = shutil.which("deno") or ""
    try:
        found = find_ffmpeg(settings.ffmpeg)
    except FfmpegMissingError as error:
        if error.named:
            raise SettingsError(f"ffmpeg: {error}") from None
        return FoundPrograms(deno=deno)
    return FoundPrograms(found.ffmpeg, found.ffprobe or "", deno)
