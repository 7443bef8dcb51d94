"""`WorkbenchBridge`: files to and from Composio's workbench in two calls, for programs without a server.

Owns how a program's own Composio client says who it is. What is sent and checked is `workbench.composio`'s.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from ..composio import BASE_URL, KEY_VARIABLE, UNKNOWN_OWNER, URL_VARIABLE, USER_VARIABLE
from .files import FileWorkbench
from .protocol import WorkbenchError, WorkbenchFile

Work = Callable[[FileWorkbench, str], Awaitable[WorkbenchFile]]
"""In the session with this id."""


class WorkbenchBridge:
    """Both ways of a file. The calls block, also inside an event loop; nothing stays open between them.

    `client` is a client of the package `composio`, an API key, or None for `$COMPOSIO_API_KEY`. Without
    `user_id` it is `$DEFAULT_USER_ID`. All calls without a `session_id` are in one session.
    """

    def __init__(self, client: Any = None, user_id: str | None = None) -> None:
        self.client = client
        self.user_id = user_id or os.environ.get(USER_VARIABLE, "") or UNKNOWN_OWNER
        self._session: str | None = None
        if client is None or isinstance(client, str):
            self._key = (client or os.environ.get(KEY_VARIABLE, "")).strip()
            self._url = os.environ.get(URL_VARIABLE, "") or BASE_URL
            if not self._key:
                raise ValueError(
                    f"WorkbenchBridge needs a client or a key of Composio; or set {KEY_VARIABLE}"
                )
        else:
            session = client.create(user_id=self.user_id, mcp=True)
            self._key = str(session.mcp.headers["x-api-key"])
            self._url = str(client.client.base_url)
            self._session = str(session.session_id)

    def upload(self, local_path: str, remote_path: str, session_id: str | None = None) -> dict[str, Any]:
        """Return `{success, local_path, remote_path, size}`, or `{success, error}`. Raises OSError never."""

        async def work(bench: FileWorkbench, session: str) -> WorkbenchFile:
            with open(local_path, "rb") as file:  # noqa: ASYNC230 (the loop is ours alone)
                return await bench.write_file(remote_path, file, session=session)

        return self._done(work, local_path, session_id)

    def download(self, remote_path: str, local_path: str, session_id: str | None = None) -> dict[str, Any]:
        """The same. Makes folders, and replaces a file when all of the new one is there."""

        async def work(bench: FileWorkbench, session: str) -> WorkbenchFile:
            target = Path(local_path)
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, unfinished = mkstemp(dir=target.parent, prefix=".download-")
            try:
                with os.fdopen(handle, "wb+") as file:
                    found = await bench.read_file(remote_path, file, session=session)
                os.replace(unfinished, target)
            except BaseException:
                os.unlink(unfinished)
                raise
            return found

        return self._done(work, local_path, session_id)

    def _done(self, work: Work, local_path: str, session_id: str | None) -> dict[str, Any]:
        try:
            with ThreadPoolExecutor(1, "toolyard-bridge") as thread:  # the caller's may have a loop that runs
                found = thread.submit(asyncio.run, self._run(work, session_id)).result()
        except (WorkbenchError, OSError) as error:
            return {"success": False, "error": str(error)}
        return {"success": True, "local_path": local_path, "remote_path": found.path, "size": found.size}

    async def _run(self, work: Work, session_id: str | None) -> WorkbenchFile:
        from .composio import ComposioAccess, ComposioWorkbench, ComposioWorkbenches

        benches = ComposioWorkbenches.at(ComposioAccess(api_key=self._key, base_url=self._url))
        try:
            bench = ComposioWorkbench(benches, self.user_id, ("", "", self.user_id))
            if session_id is not None:
                return await work(bench, session_id)
            if self._session is not None:
                try:
                    return await work(bench, self._session)
                except WorkbenchError as error:
                    if error.code != "no_session":
                        raise
            self._session = (await benches.begin(self.user_id)).id
            return await work(bench, self._session)
        finally:
            await benches.close()
