"""Works on video and audio with ffmpeg: converts, cuts, joins, overlays, and shows what became of it.

Owns the 27 tools, what their arguments may be, and the commands that they become. `toolyard.ffmpeg` runs
those; `toolyard.workspace` has the files.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_VIDEO_AUDIO_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
