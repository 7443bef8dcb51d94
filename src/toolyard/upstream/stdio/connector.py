"""Starts an upstream's process and finds out which era it speaks."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from ...config import Stdio
from ...telemetry.redaction import redact
from ...wire.errors import McpError
from ...wire.text import clean
from ...wire.versions import Era
from ..connection import SILENT, ClientProfile, UpstreamInfo
from ..errors import ConnectionLostError, InvalidReplyError, NotReachedError, UpstreamError
from ..handshake import DISCOVER, initialize_params, read_discovery, read_initialized
from ..messages.router import MessagePipe
from .install import ANOTHER, Install, may_download, progress_environment, start_seconds
from .launch import StartError, prepare
from .process import OutputLine, Process, ProcessCongestedError, ProcessGoneError, SkippedLine

logger = logging.getLogger("toolyard.upstream")

PROBE_SECONDS = 3.0
"""A server that has not answered `server/discover` by then is sent `initialize` too: many ignore what they
do not know, and one that is slow to start cannot be told from those."""


class StdioConnection(MessagePipe):
    """A pipe to a process, which ends with it."""

    def __init__(self, server: str) -> None:
        super().__init__(server, self._put)
        self.process: Process | None = None
        self.spoke = False
        """It has written a message, so it runs and installs nothing any more."""
        self.dismissed = False
        self.on_death: Callable[[str], None] = lambda how: None
        """Told when it ended though nobody here ended it."""

    def _put(self, line: bytes) -> None:
        if self.process is None:
            raise NotReachedError(self.server, "it has not started")
        try:
            self.process.write(line)
        except (ProcessGoneError, ProcessCongestedError) as error:
            raise NotReachedError(self.server, str(error)) from None

    def hear(self, line: OutputLine) -> None:
        if isinstance(line, SkippedLine):
            self.noise(InvalidReplyError(self.server, line.reason), line.id)
        elif isinstance(line, bytes) and not line.lstrip().startswith(b"{"):
            # Many print a greeting or a warning there. One that says nothing else runs into its time limits.
            logger.debug("%s wrote on standard output what is no message: %r", self.server, line[:120])
        else:
            self.spoke = True
            self.take(line)

    def end(self, reason: str) -> None:
        super().end(reason)
        if self.about.version and not self.dismissed and self.process is not None:
            self.on_death(f"process {self.process.pid} {reason}")

    async def close(self) -> None:
        self.dismissed = True
        await super().close()
        if self.process is not None:
            await self.process.stop()


class StdioConnector:
    """A program has minutes to start, or as long as it was given: it may have to be downloaded first."""

    def __init__(
        self, server: str, where: Stdio, start_timeout: float | None, max_result: int, era: Era | None = None
    ) -> None:
        self._server = server
        self._where = where
        self._start_timeout = start_timeout
        self._max_result = max_result
        self._era = era
        self._opening: list[StdioConnection] = []
        self._installs: list[Install] = []
        self._death = ""
        """How the last one ended that nobody here ended, until another runs in its place."""

    @property
    def activity(self) -> str:
        if any(install.waits for install in self._installs):
            return ANOTHER
        process = self._opening[0].process if self._opening else None
        return "" if process is None else redact(clean(process.activity))

    def reconfigure(self, start_timeout: float | None) -> None:
        """For programs that are started from now on."""
        self._start_timeout = start_timeout

    async def open(self, profile: ClientProfile) -> StdioConnection:
        link = StdioConnection(self._server)
        link.on_death = self._died
        self._opening.append(link)
        seconds = self._start_timeout or start_seconds(self._where)
        try:
            async with asyncio.timeout(seconds):
                await self._start(link, profile)
        except TimeoutError:
            self._era = None
            words = f"it did not answer within {seconds:g} s of its start"
            raise NotReachedError(self._server, f"{words}; `start_timeout` can give it longer") from None
        except StartError as error:
            raise NotReachedError(self._server, str(error)) from None
        except ConnectionLostError as error:  # it ended while we spoke; nothing of the caller's was under way
            raise NotReachedError(self._server, error.reason) from None
        except BaseException:
            self._era = None  # should another server have taken its place, it is asked anew
            raise
        finally:
            self._opening.remove(link)
        self._era = link.about.era
        self._tell(link)
        return link

    def _died(self, how: str) -> None:
        self._death = how

    def _tell(self, link: StdioConnection) -> None:
        assert link.process is not None
        if self._death:
            how, self._death = redact(clean(self._death)), ""
            logger.info("%s: was started again as process %d: %s", self._server, link.process.pid, how)
        else:
            logger.info("%s: runs as process %d", self._server, link.process.pid)

    async def _start(self, link: StdioConnection, profile: ClientProfile) -> None:
        """Nothing is left of it when this fails, but for an install that is going on."""
        launch = prepare(self._where)
        install = Install(self._where, launch) if may_download(self._where) else None
        if install is None:
            await self._run(link, profile, None)
            return
        self._installs.append(install)
        try:
            await install.turn()
            await self._run(link, profile, install)
        finally:
            self._installs.remove(install)
            install.done(well=bool(link.about.version))

    async def _run(self, link: StdioConnection, profile: ClientProfile, install: Install | None) -> None:
        try:
            await self._spawn(link, install)
            link.about = await self._agree(link, profile)
        except asyncio.CancelledError:  # nobody waits for it any more, or its time is over
            if install is None or link.spoke or not await install.leave():
                await link.close()
            raise
        except BaseException:
            await link.close()
            raise

    async def _spawn(self, link: StdioConnection, install: Install | None) -> None:
        """Not to be cancelled half way: whoever is, leaves when the process is there and can be seen to."""
        working = asyncio.ensure_future(self._spawned(link, install))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            await working
            raise

    async def _spawned(self, link: StdioConnection, install: Install | None) -> None:
        where = replace(self._where, env={**progress_environment(self._where), **self._where.env})
        process = await Process.start(
            self._server, where, on_line=link.hear, on_end=link.end, limit=self._max_result
        )
        link.process = process
        if install is not None:
            await install.attend(process)

    async def _agree(self, link: StdioConnection, profile: ClientProfile) -> UpstreamInfo:
        if self._era == "legacy":
            return await self._initialize(link, profile)
        discovering = asyncio.ensure_future(self._discover(link))
        try:
            await asyncio.wait({discovering}, timeout=None if self._era == "modern" else PROBE_SECONDS)
            if discovering.done():
                return discovering.result() or await self._initialize(link, profile)
            return await self._either(link, profile, discovering)
        finally:
            discovering.cancel()
            with suppress(asyncio.CancelledError, UpstreamError):
                await discovering

    async def _either(
        self,
        link: StdioConnection,
        profile: ClientProfile,
        discovering: "asyncio.Future[UpstreamInfo | None]",
    ) -> UpstreamInfo:
        """Both questions are out; the first good answer counts."""
        initializing = asyncio.ensure_future(self._initialize(link, profile))
        try:
            await asyncio.wait({discovering, initializing}, return_when=asyncio.FIRST_COMPLETED)
            if discovering.done() and (found := discovering.result()) is not None:
                return found
            return await initializing
        finally:
            initializing.cancel()
            with suppress(asyncio.CancelledError, McpError):
                await initializing

    async def _discover(self, link: StdioConnection) -> UpstreamInfo | None:
        """None when it is not a modern server."""
        try:
            return read_discovery(self._server, await link.request("server/discover", DISCOVER, SILENT))
        except UpstreamError as error:
            if isinstance(error, InvalidReplyError) and not link.closed:
                return None
            raise
        except McpError:
            return None

    async def _initialize(self, link: StdioConnection, profile: ClientProfile) -> UpstreamInfo:
        link.ask_only(profile.askable)
        about = read_initialized(
            self._server, await link.request("initialize", initialize_params(profile), SILENT)
        )
        link.about = about
        await link.notify("notifications/initialized", {})
        return about
