"""Composio's workbench as a `Workbench`: cells over the tool router's sessions, and files in and out of it.

A file goes up in one cell, over `LOCAL_BYTES` through the session's mount, or in parts where there is none.
It comes down by CODEINTERPRETER_GET_FILE_CMD, whose reply has several known forms, or in parts. Either way
the workbench has to prove that it holds these very bytes: what a reply says about success decides nothing.
"""

import asyncio
import base64
import hashlib
import io
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, BinaryIO, TypeVar

import msgspec
from msgspec import Struct

from ...composio import (
    LOCAL_BYTES,
    NOT_FOUND,
    VERSIONS,
    ExecutedTool,
    UserIds,
    executed,
    items,
    members,
    text,
)
from ...composio import (
    path as joined,
)
from ...wire.call import Caller
from ..protocol import BashResult, CallTool, CellResult, OnOutput, WorkbenchError, WorkbenchFile
from .api import (
    CELL_SECONDS,
    CHUNK,
    ComposioAccess,
    ComposioApi,
    ComposioError,
    OnProgress,
    silent,
    too_large,
)
from .cell import Cell, CellAnswer, cell

T = TypeVar("T")

HOME = "/home/user"
WORKBENCH, BASH, GET_FILE = (
    "COMPOSIO_REMOTE_WORKBENCH",
    "COMPOSIO_REMOTE_BASH_TOOL",
    "CODEINTERPRETER_GET_FILE_CMD",
)
ROUTER_SESSION = "trs_"
"""How the ids of the tool router's sessions begin. Other ids name a workbench inside a session."""
MOUNT = "files"
PART_BYTES = 3_000_000
"""Of one append."""
MIN_PART_BYTES = 64 * 1024
READ_BYTES = 192 * 1024
"""Of one read: what a cell prints is cut where it gets long."""
MAX_SESSIONS = 4096
MAX_PATH = 4096
CLEANUP_SECONDS = 15.0
_EXPIRED = re.compile(
    r"\bsession\b.{0,80}\b(expired|not found|invalid|unknown|no longer|does not exist)\b", re.I
)


class _Session(Struct, frozen=True):
    id: str
    api: str


class _OwnSession:
    """The session of one user and conversation; begun when it is first needed."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.current: _Session | None = None


class ComposioWorkbenches:
    """Implements `Workbenches`. A conversation has a session of its own, begun with its first request."""

    def __init__(self, api: ComposioApi) -> None:
        self._api = api
        self._users = UserIds(api.access.user_id, api.access.default_user)
        self._own: OrderedDict[tuple[str, str, str], _OwnSession] = OrderedDict()
        self._verified: OrderedDict[tuple[str, str], _Session] = OrderedDict()
        self._cleanups: set[asyncio.Task[None]] = set()

    @classmethod
    def at(cls, access: ComposioAccess) -> "ComposioWorkbenches":
        return cls(ComposioApi(access))

    def of(self, caller: Caller) -> "ComposioWorkbench":
        user = self._users.of(caller.owner, caller.tenant, caller.agent, caller.thread)
        # Code with the rights of one agent must not meet what another has prepared.
        return ComposioWorkbench(self, user, (caller.principal.binding, caller.thread, user))

    async def close(self) -> None:
        """End requests under way. Composio's sessions expire by themselves: another process may use them."""
        if self._cleanups:
            await asyncio.wait(self._cleanups, timeout=CLEANUP_SECONDS)
        for task in self._cleanups:
            task.cancel()
        await self._api.close()

    # Sessions

    def own(self, key: tuple[str, str, str]) -> _OwnSession:
        found = self._own.setdefault(key, _OwnSession())
        self._own.move_to_end(key)
        while len(self._own) > MAX_SESSIONS:
            self._own.popitem(last=False)
        return found

    async def begin(self, user: str) -> _Session:
        body = {"user_id": user, "workbench": {"auto_offload_threshold": LOCAL_BYTES}}
        for version in VERSIONS:
            try:
                reply = await self._api.post(f"/api/{version}/tool_router/session", body)
            except ComposioError as error:
                if error.status in NOT_FOUND and version != VERSIONS[-1]:
                    continue
                raise
            if id := text(self._api.decode(reply, dict[str, Any]).get("session_id")):
                return self._remember(_Session(id, version), user)
            break
        raise ComposioError("garbled", "its new session has no id")

    async def named(self, id: str, user: str) -> _Session:
        """Return a session by its id if it is this user's; another's is unknown."""
        if found := self._verified.get((id, user)):
            return found
        for version in VERSIONS:
            try:
                reply = await self._api.get(f"/api/{version}/tool_router/session{joined(id)}")
            except ComposioError as error:
                if error.status not in NOT_FOUND:
                    raise
                continue
            config = members(self._api.decode(reply, dict[str, Any]).get("config"))
            if config.get("user_id") != user:
                break
            return self._remember(_Session(id, version), user)
        raise WorkbenchError("no_session", "no such session, or another user's", id)

    def _remember(self, session: _Session, user: str) -> _Session:
        self._verified[session.id, user] = session
        while len(self._verified) > MAX_SESSIONS:
            self._verified.popitem(last=False)
        return session

    def forget(self, id: str, user: str) -> None:
        self._verified.pop((id, user), None)

    # Requests

    async def execute(self, session: _Session, slug: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Execute a tool in a session; return its data. Raises ComposioError if it failed."""
        where = f"/api/{session.api}/tool_router/session{joined(session.id)}"
        if slug.startswith("COMPOSIO_"):
            reply = await self._api.post(f"{where}/execute_meta", {"slug": slug, "arguments": arguments})
        else:
            reply = await self._api.post(f"{where}/execute", {"tool_slug": slug, "arguments": arguments})
        done = self._read(reply)
        if done.failure is not None:
            raise ComposioError("refused", self._api.redact(done.failure), status=200)
        return self._api.decode(bytes(done.data), dict[str, Any])

    def _read(self, reply: bytes) -> ExecutedTool:
        try:
            return executed(reply)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ComposioError("garbled", self._api.redact(str(error))) from None

    @property
    def api(self) -> ComposioApi:
        return self._api

    def clean_up(self, work: Awaitable[Any]) -> None:
        """Finish a removal though its caller is gone."""

        async def finish() -> None:
            try:
                async with asyncio.timeout(CLEANUP_SECONDS):
                    await work
            except (WorkbenchError, TimeoutError):
                pass  # an unfinished hidden file remains in the sandbox, which does not live long itself

        task = asyncio.create_task(finish())
        self._cleanups.add(task)
        task.add_done_callback(self._cleanups.discard)


class ComposioWorkbench:
    """Implements `Workbench` for one user and conversation."""

    def __init__(self, owner: ComposioWorkbenches, user: str, key: tuple[str, str, str]) -> None:
        self._owner = owner
        self._api = owner.api
        self._user = user
        self._key = key
        self.report: OnProgress = silent
        """Called while a file is on its way."""

    # Code

    async def run(
        self,
        code: str,
        *,
        session: str | None = None,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        call_tool: CallTool | None = None,
    ) -> CellResult:
        """Run Python. Composio's own `run_composio_tool` is there in place of `call_tool`.

        Output comes when the cell has ended. A cancelled cell goes on at Composio until its own limit.
        """
        try:
            async with asyncio.timeout(timeout or CELL_SECONDS):
                id, data = await self._tool(WORKBENCH, {"code_to_execute": code}, session)
        except TimeoutError:
            return CellResult(session or "", error=_timed_out(timeout), fault="timeout")
        error = text(data.get("error")) or None
        result = CellResult(
            id,
            stdout=text(data.get("stdout")),
            stderr=text(data.get("stderr")),
            value=_value(data.get("results")),
            error=error,
            fault="exception" if error else None,
            stdout_file=text(data.get("stdout_file_path")) or None,
            stderr_file=text(data.get("stderr_file_path")) or None,
        )
        await _show(result.stdout, result.stderr, on_output)
        return result

    async def bash(
        self,
        command: str,
        *,
        session: str | None = None,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
    ) -> BashResult:
        mark = f"toolyard-{secrets.token_hex(8)}:"
        packed = base64.b64encode(command.encode(errors="surrogateescape")).decode("ascii")
        # Composio does not say how a command ended, so the shell prints it.
        asked = f'bash -c "$(printf %s {packed} | base64 -d)"; printf "\\n{mark}%d\\n" "$?"'
        try:
            async with asyncio.timeout(timeout or CELL_SECONDS):
                id, data = await self._tool(BASH, {"command": asked}, session)
        except TimeoutError:
            error = _timed_out(timeout)
            return BashResult(session or "", exit_code=-1, error=error, fault="timeout")
        stdout, _, status = text(data.get("stdout")).rpartition("\n" + mark)
        error = None if status.strip().isdigit() else "the command ended without an exit code"
        result = BashResult(
            id,
            stdout=stdout if error is None else text(data.get("stdout")),
            stderr=text(data.get("stderr")),
            exit_code=int(status) if error is None else -1,
            error=error,
            stdout_file=text(data.get("stdout_file_path")) or None,
            stderr_file=text(data.get("stderr_file_path")) or None,
        )
        await _show(result.stdout, result.stderr, on_output)
        return result

    # Files

    async def write_file(
        self, path: str, source: BinaryIO, *, session: str | None = None, overwrite: bool = True
    ) -> WorkbenchFile:
        path = _checked(path)
        start = source.tell()
        nonce = secrets.token_hex(16)
        size, proof, md5 = await asyncio.to_thread(_measure, source, nonce, self._api.access.max_bytes)
        source.seek(start)
        upload = _Upload(path, secrets.token_hex(8), nonce, size, proof, md5, overwrite)
        try:
            await self._send(upload, source, start, session)
        except BaseException:
            # The target is untouched; only the unfinished file beside it may be there.
            discard = cell(path, ["discard"], id=upload.id)
            self._owner.clean_up(self._answer(discard, path, session))
            raise
        await self._verify(path, source, start, size, session)
        return WorkbenchFile(path, size)

    async def _send(self, upload: "_Upload", source: BinaryIO, start: int, session: str | None) -> None:
        if upload.size > LOCAL_BYTES and await self._send_by_mount(upload, source, session):
            return
        part = PART_BYTES if upload.size > LOCAL_BYTES else LOCAL_BYTES
        offset = 0
        while True:
            source.seek(start + offset)
            data = await asyncio.to_thread(_exactly, source, min(part, upload.size - offset))
            steps = ["append", "finish"] if offset + len(data) == upload.size else ["append"]
            try:
                await self._answer(upload.cell(steps, offset=offset, data=data), upload.path, session)
            except ComposioError as error:
                if part < MIN_PART_BYTES or not _is_too_long(error):
                    raise
                part //= 4  # how long code may be is not documented
                continue
            offset += len(data)
            self.report(offset, upload.size)
            if offset == upload.size:
                return

    async def _send_by_mount(self, upload: "_Upload", source: BinaryIO, session: str | None) -> bool:
        """Send a large file through the session's mount; False if the session has none."""

        async def place(current: _Session) -> dict[str, Any]:
            return await self._mount(current, "upload_url", upload.id, mimetype="application/octet-stream")

        try:
            granted = await self._in_session(session, place)
        except ComposioError as error:
            if error.status in (400, 403, *NOT_FOUND):
                return False
            raise
        url, prefix = text(granted.get("upload_url")), text(granted.get("sandbox_mount_prefix"))
        if not url or not prefix:
            return False
        try:
            await self._api.upload(
                url, source, upload.size, "application/octet-stream", md5=upload.md5, report=self.report
            )
            taken = upload.cell(["take", "finish"], source=f"{prefix}/{upload.id}")
            await self._answer(taken, upload.path, session)
            return True
        except WorkbenchError as error:
            # The store fails, or the sandbox does not see the mount.
            if error.code in ("missing", "unavailable"):
                return False
            raise
        finally:
            self._owner.clean_up(
                self._in_session(session, lambda current: self._mount(current, "delete", upload.id))
            )

    async def _mount(self, session: _Session, action: str, name: str, **more: str) -> dict[str, Any]:
        where = f"/api/{session.api}/tool_router/session{joined(session.id)}/mounts/{MOUNT}/{action}"
        reply = await self._api.post(where, {"mount_relative_path": name, **more})
        return self._api.decode(reply, dict[str, Any])

    async def _verify(self, path: str, source: BinaryIO, start: int, size: int, session: str | None) -> None:
        """Ask in a second call whether the file is there, under a new nonce."""
        nonce = secrets.token_hex(16)
        source.seek(start)
        _, proof, _ = await asyncio.to_thread(_measure, source, nonce, self._api.access.max_bytes)
        found = await self._answer(cell(path, ["check"], nonce=nonce), path, session)
        if (found.size, found.proof) != (size, proof):
            raise _mismatch(path, f"it has {found.size} bytes of {size}, or others")

    async def read_file(
        self, path: str, into: BinaryIO, *, session: str | None = None, max_bytes: int | None = None
    ) -> WorkbenchFile:
        path = _checked(path)
        most = min(max_bytes or self._api.access.max_bytes, self._api.access.max_bytes)
        nonce = secrets.token_hex(16)
        try:
            found = await self._answer(cell(path, ["check"], nonce=nonce), path, session)
        except WorkbenchError as error:
            # Sandboxes of the code interpreter are other places than the workbench.
            if error.code not in ("missing", "no_session") or _sandbox(session) is None:
                raise
            size = await self._fetch(path, into, hashlib.sha256(), session, most)
            if size is None:
                raise
            return WorkbenchFile(path, size)
        if found.size > most:
            raise too_large(most)
        start = into.tell()
        digest = hashlib.sha256(nonce.encode())
        size = await self._fetch(path, into, digest, session, most)
        if size is None or digest.hexdigest() != found.proof:
            # Text that was decoded on the way, a stale copy, or no such tool: the workbench itself has it.
            into.seek(start)
            into.truncate()
            await self._read_parts(path, into, found, nonce, session)
        return WorkbenchFile(path, found.size)

    async def _fetch(
        self, path: str, into: BinaryIO, digest: Any, session: str | None, most: int
    ) -> int | None:
        """Get a file by CODEINTERPRETER_GET_FILE_CMD; None if it gives none that we can take.

        A local path in the reply (`uri`) is where Composio's SDK puts what it downloads. No SDK is between us
        and the API, so such a path is not ours, and is never opened.
        """
        sandbox = _sandbox(session)
        asked = {"file_path": path} | ({"sandbox_id": sandbox} if sandbox else {})
        try:
            _, data = await self._tool(GET_FILE, asked, None if sandbox else session)
        except ComposioError as error:
            if error.fault != "refused":
                raise
            return None
        content, file = data.get("content"), members(data.get("file"))
        if isinstance(content, str):
            body = content.encode(errors="surrogatepass")
            if len(body) > most:
                raise too_large(most)
            digest.update(body)
            await asyncio.to_thread(into.write, body)
            return len(body)
        url = text(file.get("s3url"), file.get("uri"), file.get("url"))
        if not url.startswith(("https://", "http://")):
            return None
        return await self._api.download(url, into, digest, most, self.report)

    async def _read_parts(
        self, path: str, into: BinaryIO, found: CellAnswer, nonce: str, session: str | None
    ) -> None:
        if found.size > LOCAL_BYTES:
            raise ComposioError(
                "mismatch",
                f"{GET_FILE} did not give this file, and parts are for {LOCAL_BYTES} bytes at most",
            )
        digest = hashlib.sha256(nonce.encode())
        for offset in range(0, found.size, READ_BYTES):
            length = min(READ_BYTES, found.size - offset)
            answer = await self._answer(cell(path, ["read"], offset=offset, length=length), path, session)
            try:
                data = answer.bytes
            except ValueError:
                raise _mismatch(path, "a part of it is not readable") from None
            digest.update(data)
            await asyncio.to_thread(into.write, data)
            self.report(offset + len(data), found.size)
        if digest.hexdigest() != found.proof:
            raise _mismatch(path, "it changed while it was read")

    # Requests

    async def _answer(self, program: Cell, path: str, session: str | None) -> CellAnswer:
        """Run the program for files; raises WorkbenchError if it failed, or printed no answer."""
        _, data = await self._tool(WORKBENCH, {"code_to_execute": program.code}, session)
        answer = program.answer(text(data.get("stdout")))
        if answer is None:
            reason = self._api.redact(text(data.get("error"), data.get("stderr"))) or "it printed no answer"
            raise ComposioError("mismatch", f"the workbench did not do it: {reason[-300:]}", subject=path)
        if not answer.failed:
            return answer
        if answer.failed in ("mismatch", "offset"):
            raise _mismatch(path, "what arrived is not what was sent")
        code: Any = answer.failed if answer.failed in _KNOWN else "invalid"
        raise WorkbenchError(code, answer.why or answer.failed, path)

    async def _tool(
        self, slug: str, arguments: dict[str, Any], session: str | None
    ) -> tuple[str, dict[str, Any]]:
        """Execute a tool in the named session, or in the conversation's own; return the session's id."""
        if slug in (WORKBENCH, BASH) and session:
            arguments = {**arguments, "session_id": session}

        async def work(current: _Session) -> tuple[str, dict[str, Any]]:
            data = await self._owner.execute(current, slug, arguments)
            inner = text(members(data.get("session")).get("id"))
            return session or inner or current.id, data

        return await self._in_session(session, work)

    async def _in_session(self, session: str | None, work: Callable[[_Session], Awaitable[T]]) -> T:
        """Run work in a session. If the conversation's own has expired, run it once more in a new one."""
        if session is not None and session.startswith(ROUTER_SESSION):
            try:
                return await work(await self._owner.named(session, self._user))
            except ComposioError as error:
                if _is_expired(error):
                    self._owner.forget(session, self._user)
                    raise WorkbenchError("no_session", error.message, session) from None
                raise
        own = self._owner.own(self._key)
        current = await self._current(own, None)
        try:
            return await work(current)
        except ComposioError as error:
            if not _is_expired(error):
                raise
        return await work(await self._current(own, current))

    async def _current(self, own: _OwnSession, expired: _Session | None) -> _Session:
        async with own.lock:  # many calls at once begin one session
            if own.current is None or own.current == expired:
                own.current = await self._owner.begin(self._user)
            return own.current


class _Upload(Struct, frozen=True):
    path: str
    id: str
    nonce: str
    size: int
    proof: str
    md5: str
    overwrite: bool

    def cell(self, steps: list[str], **more: Any) -> Cell:
        return cell(
            self.path,
            steps,
            id=self.id,
            nonce=self.nonce,
            size=self.size,
            proof=self.proof,
            overwrite=self.overwrite,
            **more,
        )


_KNOWN = frozenset(("missing", "not_a_file", "exists", "outside", "denied", "too_large", "full"))


def _checked(path: str) -> str:
    """Return the absolute form of a path in the workbench; relative ones are in its home."""
    if not path.strip() or "\0" in path or len(path) > MAX_PATH or path.endswith("/"):
        raise WorkbenchError("outside" if "\0" in path else "not_a_file", "not the path of a file", path)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise WorkbenchError("outside", "not a path", path.encode(errors="replace").decode()) from None
    return path if path.startswith("/") else f"{HOME}/{path}"


def _sandbox(session: str | None) -> str | None:
    """The id of a code interpreter's sandbox, if a session may be one."""
    return session if session and not session.startswith(ROUTER_SESSION) else None


def _is_expired(error: ComposioError) -> bool:
    if error.status in (401, 410) or (error.status == 404 and "session" in error.message.lower()):
        return error.status != 410 or "tool" not in error.message.lower().replace("tool router", "")
    return (
        error.fault == "refused" and len(error.message) < 500 and _EXPIRED.search(error.message) is not None
    )


_TOO_LONG = re.compile(r"too (large|long|big)|characters|exceed|payload|max(imum)? (size|length)", re.I)


def _is_too_long(error: ComposioError) -> bool:
    """Whether a cell was refused unread for the length of its code."""
    return error.status == 413 or (error.fault == "refused" and _TOO_LONG.search(error.message) is not None)


def _measure(source: BinaryIO, nonce: str, max_bytes: int) -> tuple[int, str, str]:
    """Return the size, the proof under a nonce, and the MD5 of what is left of a file."""
    proof, md5, size = hashlib.sha256(nonce.encode()), hashlib.md5(usedforsecurity=False), 0
    while piece := source.read(CHUNK):
        size += len(piece)
        if size > max_bytes:
            raise too_large(max_bytes)
        proof.update(piece)
        md5.update(piece)
    return size, proof.hexdigest(), md5.hexdigest()


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = io.BytesIO()
    while size and (piece := source.read(size)):
        data.write(piece)
        size -= len(piece)
    if size:
        raise ComposioError("changed", "the file became shorter while it was read")
    return data.getvalue()


def _mismatch(path: str, reason: str) -> ComposioError:
    return ComposioError("mismatch", reason, subject=path)


def _timed_out(seconds: float | None) -> str:
    return f"it did not end within {seconds or CELL_SECONDS:g} s"


def _value(results: Any) -> str:
    if isinstance(results, str) or not results:
        return results or ""
    return "\n".join(map(_value, items(results))) or msgspec.json.encode(results).decode()


async def _show(stdout: str, stderr: str, on_output: OnOutput | None) -> None:
    if on_output is None:
        return
    if stdout:
        await on_output("stdout", stdout)
    if stderr:
        await on_output("stderr", stderr)
