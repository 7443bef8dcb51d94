"""ffmpeg as a part of a server: found, asked what it can do, and run in a box with limits.

Owns no tool. `program` finds it, `process` runs it, `media` says what is in a file, `filters` writes filter
graphs. A caller's text never reaches a command line or a graph by any other way.
"""

from .program import FfmpegMissingError, FfmpegProgram, find_ffmpeg

__all__ = ["FfmpegMissingError", "FfmpegProgram", "find_ffmpeg"]
