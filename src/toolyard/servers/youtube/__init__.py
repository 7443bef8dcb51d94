"""Downloads videos, audio, subtitles and pictures from the web into the workspace. Uses yt-dlp.

Owns what a site may lead yt-dlp to do, and what becomes of its files. Titles and descriptions come from the
web.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_YOUTUBE_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
