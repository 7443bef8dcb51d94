"""`ComposioEmulator`: serves the emulated Composio on loopback, in the event loop of whoever starts it."""

import asyncio
import socket
from types import TracebackType
from typing import Any, Literal, Self

import uvicorn

from tests.waiting import PATIENCE

from .apps import CATALOGUE
from .door import Door, can_be
from .endpoint import manager
from .faults import Fault, Faults
from .incoming import Record, Scope
from .sandbox import Sandbox
from .world import Account, Session, World

API_KEY = "ak_emulated_project_key"


class ComposioEmulator:
    """`async with ComposioEmulator() as composio: … composio.url …`

    `v31=False` leaves only the older API. `shape="2025"` makes searches reply in the form of November 2025.
    `storage` is where presigned addresses point, the emulator itself unless given; it answers for any other
    host too when it is the client's HTTP proxy. `knows_files` lets uploads be told that a file is there;
    `backend` is what the store claims to be. `file_form` is how the code interpreter gives files.
    """

    def __init__(
        self,
        *,
        api_key: str = API_KEY,
        port: int = 0,
        v31: bool = True,
        shape: Literal["2026", "2025"] = "2026",
        storage: str = "",
        knows_files: bool = False,
        backend: Literal["s3", "azure_blob_storage"] = "s3",
        file_form: Literal["s3url", "content", "uri", "local"] = "s3url",
    ) -> None:
        self.api_key = api_key
        self.world = World(CATALOGUE, knows_files)
        self.world.storage = storage
        self.world.backend = backend
        self.world.file_form = file_form
        self.faults = Faults()
        self._door = Door(self.world, api_key, self.faults, manager(), self._drop)
        self._door.apis = ("v3", "v3.1") if v31 else ("v3",)
        self._door.shape = shape
        self._port = port
        self._over = asyncio.Event()

    @property
    def url(self) -> str:
        return self._door.url

    @property
    def requests(self) -> list[Record]:
        """Every request so far: method, path, query, headers, body, operation."""
        return self._door.records

    @property
    def sessions(self) -> dict[str, Session]:
        return self.world.sessions

    @property
    def accounts(self) -> dict[str, Account]:
        return self.world.accounts

    @property
    def records(self) -> dict[str, list[dict[str, Any]]]:
        """What tools have made, by kind: `emails`, `issues`, …"""
        return self.world.records

    def asked(self, operation: str) -> list[Record]:
        """The requests of an operation, named as faults name it."""
        return [
            record
            for record in self.requests
            if operation in (record.operation, *record.operation.split("."))
        ]

    def fail(
        self,
        operation: str,
        status: int = 500,
        *,
        times: int = 1,
        retry_after: float | None = None,
        message: str = "",
    ) -> Fault:
        """Answer the next requests with an error; 429 says when to come back unless told otherwise."""
        retry_after = 1 if status == 429 and retry_after is None else retry_after
        return self._queue(Fault(operation, "status", times, status, message, retry_after))

    def slow(self, operation: str, *, times: int = 1) -> Fault:
        """Hold the next requests until `release()`; `arrived` is set when the first one is held."""
        return self._queue(Fault(operation, "slow", times))

    def empty(self, operation: str, *, times: int = 1) -> Fault:
        """Answer the next searches and lists well, with nothing found."""
        return self._queue(Fault(operation, "empty", times))

    def expired(self, operation: str, status: int = 410, *, times: int = 1) -> Fault:
        """Answer the next requests with an error that says the session has expired."""
        return self._queue(Fault(operation, "expired", times, status))

    def drop(self, operation: str, *, times: int = 1) -> Fault:
        """Cut the connection of the next requests without an answer."""
        return self._queue(Fault(operation, "drop", times))

    def garble(self, operation: str, *, times: int = 1) -> Fault:
        """Answer the next requests with something that is not JSON."""
        return self._queue(Fault(operation, "garbage", times))

    def cut(self, operation: str, *, times: int = 1) -> Fault:
        """Promise the whole reply of the next requests, send half of it and cut the connection."""
        return self._queue(Fault(operation, "cut", times))

    def corrupt(self, operation: str, *, times: int = 1) -> Fault:
        """Lose a byte of what the next requests of the store carry, as if on the way."""
        return self._queue(Fault(operation, "corrupt", times))

    def lie(self, operation: str, *, times: int = 1) -> Fault:
        """Let the next cells say that they wrote files, and keep something else."""
        return self._queue(Fault(operation, "lie", times))

    def stale(self, times: int = 1) -> None:
        """Let the next presigned addresses have expired before they are used."""
        self.world.stale += times

    @property
    def sandboxes(self) -> dict[tuple[str, str], Sandbox]:
        """By user and id."""
        return self.world.sandboxes

    def expire(self, session_id: str, status: int = 410) -> None:
        """End one session: whatever names it gets this status, or with 200 a good reply that says so."""
        self.world.sessions[session_id].expired_with = status

    def settle(self, account_id: str, status: str) -> None:
        """Change an account's status: ACTIVE, FAILED, EXPIRED, INACTIVE, …"""
        self.world.settle(self.world.accounts[account_id], status)

    def connect(self, user_id: str, toolkit: str) -> Account:
        """An account that the user has authorised already."""
        kit = self.world.toolkit(toolkit)
        account = self.world.new_account(self.world.default_auth_config(kit), user_id)
        self.world.settle(account, "ACTIVE")
        return account

    async def __aenter__(self) -> Self:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        self._door.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.world.storage = self.world.storage or self._door.url
        # h11, because httptools leaves white space at the end of a header, which the MCP SDK then refuses.
        config = uvicorn.Config(self._door, lifespan="off", log_level="critical", http="h11", ws="none")
        self._server = uvicorn.Server(config)
        config.load()
        self._server.lifespan = config.lifespan_class(config)
        await self._run_mcp()
        # What `Server.serve` does, less its loop that looks ten times a second whether to stop.
        await self._server.startup(sockets=[listener])
        self._listener = listener
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.faults.clear()
        connections: list[Any] = list(self._server.server_state.connections)
        for connection in connections:
            if connection.transport is not None:
                connection.transport.abort()
        self._over.set()
        await self._mcp
        async with asyncio.timeout(PATIENCE):
            await self._server.shutdown(sockets=[self._listener])
        await self.world.close()

    def _queue(self, fault: Fault) -> Fault:
        """A fault that no request can meet is a mistake of the test."""
        if not can_be(fault.operation):
            raise ValueError(f"no operation is called {fault.operation!r}; hint: see `OPERATIONS` in door.py")
        return self.faults.add(fault)

    async def _run_mcp(self) -> None:
        """In a task of its own: the SDK's task group must be left by the task that entered it, and a fixture
        enters and leaves in different ones."""
        ready = asyncio.Event()

        async def run() -> None:
            async with self._door.mcp.run():
                ready.set()
                await self._over.wait()

        self._mcp = asyncio.create_task(run())
        await ready.wait()

    def _drop(self, scope: Scope) -> None:
        connections: list[Any] = list(self._server.server_state.connections)
        for connection in connections:
            if connection.client == scope["client"] and connection.transport is not None:
                connection.transport.abort()
