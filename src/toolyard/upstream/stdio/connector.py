"""Opens connections to a stdio upstream: starts its process and finds out which era it speaks."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from ...config import Stdio
from ...config.secrets import secret_values
from ...telemetry.redaction import redact
from ...wire.errors import INVALID_PARAMS, METHOD_NOT_FOUND, McpError
from ...wire.secrets import KnownSecrets
from ...wire.text import clean
from ...wire.versions import Era
from ..connection import SILENT, ClientProfile, UpstreamConnection, UpstreamInfo
from ..errors import ConnectionLostError, InvalidReplyError, NotReachedError, UpstreamError
from ..handshake import DISCOVER, discovery, initialize_params, read_discovery, read_initialized
from ..messages.router import MessagePipe
from .install import ANOTHER, Install, may_download, progress_environment, start_seconds
from .launch import StartError, prepare
from .process import OutputLine, Process, ProcessCongestedError, ProcessGoneError, SkippedLine

logger = logging.getLogger("toolyard.upstream")

PROBE_SECONDS = 3.0
"""A server that has not answered `server/discover` by then is sent `initialize` too: many servers ignore
unknown methods, and one that starts slowly looks the same."""


class StdioConnection(MessagePipe):
    """The standard input and output of a process; closing it stops the process."""

    def __init__(self, server: str, on_exit: Callable[[str], None]) -> None:
        """`on_exit` is called when the process ends and nobody here stopped it."""
        super().__init__(server, self._put)
        self.process: Process | None = None
        self.has_answered = False
        """It has written a message, so its install is complete."""
        self._closing = False
        self._on_exit = on_exit

    def attach(self, process: Process) -> None:
        self.process = process

    def _put(self, line: bytes) -> None:
        if self.process is None:
            raise NotReachedError(self.server, "it has not started")
        try:
            self.process.write(line)
        except (ProcessGoneError, ProcessCongestedError) as error:
            raise NotReachedError(self.server, str(error)) from None

    def receive_line(self, line: OutputLine) -> None:
        if isinstance(line, SkippedLine):
            self.receive_invalid(InvalidReplyError(self.server, line.reason), line.id)
        elif isinstance(line, bytes) and not line.lstrip().startswith(b"{"):
            # Many programs print a greeting or a warning. One that prints nothing else times out.
            logger.debug("%s wrote a line that is not JSON to standard output: %r", self.server, line[:120])
        else:
            self.has_answered = True
            self.receive(line)

    def end(self, reason: str) -> None:
        super().end(reason)
        if self.about.version and not self._closing and self.process is not None:
            self._on_exit(f"process {self.process.pid} {reason}")

    async def close(self) -> None:
        self._closing = True
        await super().close()
        if self.process is not None:
            await self.process.stop()


class StdioConnector:
    """Allows minutes for a start without `start_timeout`: a program may have to be downloaded."""

    def __init__(
        self,
        server: str,
        where: Stdio,
        start_timeout: float | None,
        max_result: int,
        era: Era | None = None,
        secret: str = "",
    ) -> None:
        """`secret` is in the program's environment for one caller, under whatever name."""
        self._server = server
        self._where = where
        self._start_timeout = start_timeout
        self._max_result = max_result
        self._era: Era | None = era
        self._secrets = KnownSecrets((*secret_values(where), secret))
        self._opening: list[StdioConnection] = []
        self._installs: list[Install] = []
        self._last_exit = ""
        """How the last process ended by itself, until another runs in its place."""

    @property
    def activity(self) -> str:
        if any(install.waits for install in self._installs):
            return ANOTHER
        process = self._opening[0].process if self._opening else None
        return "" if process is None else redact(clean(process.activity))

    def reconfigure(self, start_timeout: float | None) -> None:
        """For programs that are started from now on."""
        self._start_timeout = start_timeout

    async def open(self, profile: ClientProfile, era: Era | None = None) -> StdioConnection:
        connection = StdioConnection(self._server, self._exited)
        self._opening.append(connection)
        seconds = self._start_timeout or start_seconds(self._where)
        try:
            async with asyncio.timeout(seconds):
                await self._start(connection, profile, era or self._era)
        except TimeoutError as error:
            self._era = None
            reason = f"it did not answer within {seconds:g} s of its start"
            raise NotReachedError(self._server, f"{reason}; `start_timeout` can give it longer") from error
        except StartError as error:
            raise NotReachedError(self._server, str(error)) from error
        except ConnectionLostError as error:  # it ended during the handshake, before any call was sent
            raise NotReachedError(self._server, error.reason) from error
        except BaseException:
            self._era = None  # another server may be there now: find out its era again
            raise
        finally:
            self._opening.remove(connection)
        self._era = connection.about.era
        self._log_start(connection)
        return connection

    async def denies_modern(self, connection: UpstreamConnection) -> bool:
        """A program of both eras says that this session has the older one; others know no such method."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await connection.request("server/discover", DISCOVER, SILENT)
        except TimeoutError:
            return True
        except UpstreamError:
            return False
        except McpError as error:
            return error.code in (METHOD_NOT_FOUND, INVALID_PARAMS)
        return False

    def _exited(self, how: str) -> None:
        self._last_exit = how

    def _log_start(self, connection: StdioConnection) -> None:
        assert connection.process is not None
        if self._last_exit:
            how, self._last_exit = redact(clean(self._last_exit)), ""
            logger.info("%s: was started again as process %d: %s", self._server, connection.process.pid, how)
        else:
            logger.info("%s: runs as process %d", self._server, connection.process.pid)

    async def _start(self, connection: StdioConnection, profile: ClientProfile, era: Era | None) -> None:
        """Start the process and shake hands. A failed start leaves nothing behind but a running install."""
        launch = prepare(self._where)
        install = Install(self._where, launch) if may_download(self._where) else None
        if install is None:
            await self._run(connection, profile, era, None)
            return
        self._installs.append(install)
        try:
            await install.acquire()
            await self._run(connection, profile, era, install)
        finally:
            self._installs.remove(install)
            install.finish(succeeded=bool(connection.about.version))

    async def _run(
        self, connection: StdioConnection, profile: ClientProfile, era: Era | None, install: Install | None
    ) -> None:
        try:
            await self._spawn(connection, install)
            connection.about = await self._agree(connection, profile, era)
        except asyncio.CancelledError:  # no caller waits for it any more, or it timed out
            if install is None or connection.has_answered or not await install.detach():
                await connection.close()
            raise
        except NotReachedError as error:
            # It ended before it was asked anything; how, is known when it has.
            process = connection.process
            has_ended = process is not None and process.is_ending
            await connection.close()
            if process is not None and has_ended and process.reason:
                raise NotReachedError(self._server, process.reason) from error
            raise
        except BaseException:
            await connection.close()
            raise

    async def _spawn(self, connection: StdioConnection, install: Install | None) -> None:
        """Start the process. A cancellation takes effect when it has started and can be stopped."""
        working = asyncio.ensure_future(self._spawned(connection, install))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            await working
            raise

    async def _spawned(self, connection: StdioConnection, install: Install | None) -> None:
        where = replace(self._where, env={**progress_environment(self._where), **self._where.env})
        process = await Process.start(
            self._server,
            where,
            on_line=connection.receive_line,
            on_end=connection.end,
            limit=self._max_result,
            secrets=self._secrets,
        )
        connection.attach(process)
        if install is not None:
            await install.watch(process)

    async def _agree(
        self, connection: StdioConnection, profile: ClientProfile, era: Era | None
    ) -> UpstreamInfo:
        if era == "legacy":
            try:
                return await self._initialize(connection, profile)
            except UpstreamError:
                raise
            except McpError:
                found = await self._discover(connection, profile)
                if found is None:
                    raise
                return found
        discovering = asyncio.ensure_future(self._discover(connection, profile))
        try:
            await asyncio.wait({discovering}, timeout=None if self._era == "modern" else PROBE_SECONDS)
            if discovering.done():
                return discovering.result() or await self._initialize(connection, profile)
            return await self._either(connection, profile, discovering)
        finally:
            discovering.cancel()
            with suppress(asyncio.CancelledError, UpstreamError):
                await discovering

    async def _either(
        self,
        connection: StdioConnection,
        profile: ClientProfile,
        discovering: "asyncio.Future[UpstreamInfo | None]",
    ) -> UpstreamInfo:
        """Wait for `server/discover` and `initialize` at once; the first good answer counts."""
        initializing = asyncio.ensure_future(self._initialize(connection, profile))
        try:
            await asyncio.wait({discovering, initializing}, return_when=asyncio.FIRST_COMPLETED)
            if discovering.done() and (found := discovering.result()) is not None:
                return found
            return await initializing
        finally:
            initializing.cancel()
            with suppress(asyncio.CancelledError, McpError):
                await initializing

    async def _discover(self, connection: StdioConnection, profile: ClientProfile) -> UpstreamInfo | None:
        """Return None when it is not a modern server."""
        try:
            found = await connection.request("server/discover", discovery(profile), SILENT)
            return read_discovery(self._server, found)
        except UpstreamError as error:
            if isinstance(error, InvalidReplyError) and not connection.closed:
                return None
            raise
        except McpError:
            return None

    async def _initialize(self, connection: StdioConnection, profile: ClientProfile) -> UpstreamInfo:
        connection.allow_requests(profile.may_be_asked)
        about = read_initialized(
            self._server, await connection.request("initialize", initialize_params(profile), SILENT)
        )
        connection.about = about
        await connection.notify("notifications/initialized", {})
        return about
