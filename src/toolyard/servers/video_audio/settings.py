"""The settings of the video_audio server."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...config.files import state_home
from ...languages import Locale

Megabytes = Annotated[int, Meta(ge=1, le=1_000_000)]


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of descriptions, messages and errors."""
    workspace: str = ""
    """The folder of the files; empty: $TOOLYARD_WORKSPACE, or `workspaces` in the state folder."""
    shared: bool = False
    """One workspace for all conversations of an owner."""
    ffmpeg: str = ""
    """Path of the ffmpeg program; empty: one on PATH, or the one of imageio-ffmpeg."""
    font: str = ""
    """Path of the font for texts and subtitles; empty: the system's default, or one in a Python package."""
    scratch: str = ""
    """The folder of unfinished files, best on the same disk as the workspace; empty: the state folder."""
    jobs: Annotated[int, Meta(ge=1, le=64)] = 2
    """Maximum number of ffmpeg processes at a time; others wait."""
    threads: Annotated[int, Meta(ge=0, le=256)] = 0
    """Threads of one process; 0: as many as there are processors."""
    seconds: Annotated[float, Meta(gt=0, le=86400)] = 1800.0
    """Time limit of one process."""
    cpu_seconds: Annotated[int, Meta(ge=1, le=1_000_000)] = 7200
    """Limit on the processor time of one process."""
    max_memory_mb: Annotated[int, Meta(ge=128, le=1_000_000)] = 4096
    """Memory limit of one process, in MiB; Linux only."""
    max_output_mb: Megabytes = 1024
    """Maximum size of a file that is written, in MiB."""
    max_side: Annotated[int, Meta(ge=16, le=16384)] = 8192
    """Maximum width and height of a video that is written, in pixels."""
    max_clips: Annotated[int, Meta(ge=1, le=500)] = 50
    """Maximum number of files, texts or clips in one call."""
    preset: Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow"] = "fast"
    """How much time H.264 and H.265 take to make a file small."""
    pictures: bool = True
    """Whether results have a contact sheet or a waveform as an image."""

    @property
    def scratch_folder(self) -> Path | None:
        """None: the system's folder of temporary files."""
        if self.scratch:
            return Path(self.scratch).expanduser()
        home = state_home()
        return None if home is None else home / "video_audio" / "scratch"
