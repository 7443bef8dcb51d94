"""Runs ffmpeg: without a shell, with limits, in a box, with progress, and never beyond its caller.

Inputs are open files that the process inherits; it works in a scratch folder and writes only there. However a
run ends, its processes have ended too: cancelled, out of time, or because this process was killed.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ..workers.pool import FairLimiter
from .program import FfmpegProgram

_LAUNCHER = str(Path(__file__).with_name("launch.py"))
_SYSTEM = (
    *(
        "/usr",
        "/bin",
        "/lib",
        "/lib32",
        "/lib64",
        "/nix/store",
        "/gnu/store",
        "/etc/alternatives",
        "/etc/fonts",
    ),
    *(
        "/etc/ld.so.cache",
        "/etc/ld.so.preload",
        "/var/cache/fontconfig",
        "/dev/null",
        "/dev/urandom",
        "/dev/fd",
    ),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/sys/fs/cgroup"),
)
"""What programs, libraries and fonts need to read."""
_WRITABLE = ("/dev/null",)
_CHUNK = 16 * 1024
_MAX_HEAD = 256 * 1024
_MAX_TAIL = 32 * 1024
_CANNOT_START = 126

OnProgress = Callable[[float], Awaitable[None]]
"""Called with the seconds of output so far."""


class FfmpegLimits(Struct, frozen=True, kw_only=True):
    """Of one process."""

    seconds: float = 1800.0
    cpu_seconds: int = 3600
    memory: int = 4 * 2**30
    """Bytes of data; enforced on Linux."""
    file_bytes: int = 2**30
    """Bytes of the file that it writes."""


class FfmpegError(Exception):
    """A run that has no result.

    FfmpegError
    ├── FfmpegFailedError   ffmpeg refused: `log` says why
    ├── FfmpegTimeoutError  it took longer than `seconds`
    ├── FfmpegLimitError    it reached the limit `what`: "cpu", "memory" or "file"
    └── FfmpegStartError    it could not be started
    """


class FfmpegFailedError(FfmpegError):
    def __init__(self, status: int, log: str) -> None:
        super().__init__(log.strip().splitlines()[-1] if log.strip() else f"exit status {status}")
        self.status = status
        self.log = log


class FfmpegTimeoutError(FfmpegError):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"ffmpeg took longer than {seconds:g} s")
        self.seconds = seconds


class FfmpegLimitError(FfmpegError):
    def __init__(self, what: str) -> None:
        super().__init__(f"ffmpeg reached its limit of {what}")
        self.what = what


class FfmpegStartError(FfmpegError):
    pass


class FfmpegRunner:
    """Runs one ffmpeg program, at most `jobs` processes at a time; callers get their turns fairly."""

    def __init__(self, program: FfmpegProgram, limits: FfmpegLimits, jobs: int = 2) -> None:
        self.program = program
        self.limits = limits
        self._home = os.path.dirname(os.path.realpath(program.ffmpeg))
        self._limiter = FairLimiter(jobs)
        self._running: set[asyncio.subprocess.Process] = set()

    async def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        inputs: Sequence[int] = (),
        on_progress: OnProgress | None = None,
        caller: str = "",
        may_fail: bool = False,
    ) -> str:
        """Runs ffmpeg in the folder and returns its log.

        `inputs` are the descriptors that arguments name as `input_url(descriptor)`. With `may_fail`, an exit
        status is no error: the log is all that is wanted.
        """
        async with self._limiter.slot(caller):
            process = await self._started(arguments, folder, inputs)
            log = _Log()
            try:
                async with asyncio.timeout(self.limits.seconds):
                    await asyncio.gather(_listen(process.stderr, log), _watch(process.stdout, on_progress))
                    status = await process.wait()
            except TimeoutError:
                raise FfmpegTimeoutError(self.limits.seconds) from None
            finally:
                await self._end(process)
        self._check(status, log.text, may_fail)
        return log.text

    async def ask(self, question: str, folder: Path) -> str:
        """The answer to an option such as `-encoders`, which ffmpeg prints on its standard output."""
        async with self._limiter.slot(""):
            process = await self._started([question], folder, ())
            try:
                async with asyncio.timeout(self.limits.seconds):
                    said, log = await process.communicate()
            except TimeoutError:
                raise FfmpegTimeoutError(self.limits.seconds) from None
            finally:
                await self._end(process)
        self._check(process.returncode or 0, log.decode("utf-8", "replace"), may_fail=False)
        return said.decode("utf-8", "replace")

    async def _started(
        self, arguments: Sequence[str], folder: Path, inputs: Sequence[int]
    ) -> asyncio.subprocess.Process:
        limits = self.limits
        options = [
            f"parent={os.getpid()}",
            f"cpu={limits.cpu_seconds}",
            f"file={limits.file_bytes}",
            f"memory={limits.memory}",
            *(f"read={path}" for path in (*_SYSTEM, self._home)),
            *(f"write={path}" for path in (*_WRITABLE, folder)),
            *(f"input={descriptor}" for descriptor in inputs),
        ]
        common = ["-hide_banner", "-nostdin", "-nostats", "-y"]
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _LAUNCHER, *options, "--"),
                *(self.program.ffmpeg, *common, *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
                env=_environment(folder),
                pass_fds=tuple(inputs),
                start_new_session=True,
            )
        except OSError as error:
            raise FfmpegStartError(str(error)) from None
        self._running.add(process)
        return process

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Kills what is left of it and waits until it is gone, also if this task is cancelled meanwhile."""
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        try:
            await asyncio.shield(process.wait())
        finally:
            self._running.discard(process)

    def _check(self, status: int, log: str, may_fail: bool) -> None:
        if status == _CANNOT_START:
            raise FfmpegStartError(log.strip())
        if "received signal 24" in log or status == -signal.SIGXCPU:
            raise FfmpegLimitError("cpu")
        if may_fail:
            return
        # Beyond these two it may still say that it succeeded, with a part of the result.
        if "File too large" in log or status == -signal.SIGXFSZ:
            raise FfmpegLimitError("file")
        if "Cannot allocate memory" in log:
            raise FfmpegLimitError("memory")
        if status != 0:
            raise FfmpegFailedError(status, log)

    async def close(self) -> None:
        """Ends every process; their runs fail."""
        for process in list(self._running):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def input_url(descriptor: int) -> str:
    """How an argument names an inherited file. `pipe:` cannot seek, and Debian 12's ffmpeg has no `fd:`."""
    return f"file:/dev/fd/{descriptor}"


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "FONTCONFIG_PATH") if name in os.environ}
    return {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C.UTF-8", **kept}


class _Log:
    """The first and the last part of what ffmpeg says: a broken file can make it say gigabytes."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""

    def add(self, said: bytes) -> None:
        room = _MAX_HEAD - len(self._head)
        self._head += said[:room]
        self._tail = (self._tail + said[room:])[-_MAX_TAIL:] if len(said) > room else self._tail

    @property
    def text(self) -> str:
        return (self._head + self._tail).decode("utf-8", "replace")


async def _listen(stream: asyncio.StreamReader | None, log: _Log) -> None:
    assert stream is not None
    while said := await stream.read(_CHUNK):
        log.add(said)


async def _watch(stream: asyncio.StreamReader | None, on_progress: OnProgress | None) -> None:
    """Reads the lines of `-progress pipe:1`."""
    assert stream is not None
    while line := await stream.readline():
        name, _, value = line.strip().partition(b"=")
        if name == b"out_time_us" and on_progress is not None and value.isdigit():
            await on_progress(int(value) / 1e6)
