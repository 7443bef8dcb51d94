"""Runs inside the box: takes cells from the gateway, runs one after the other, and keeps their variables.

Runs on whatever Python the box has, so it imports the standard library only, and little of it at the start.
It trusts the gateway. The gateway does not trust it: code of callers runs in this very process and can change
everything here, so nothing that must hold is decided here once the first cell has begun.
"""

import ast
import contextlib
import json
import linecache
import os
import queue
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, cast

from . import confinement

HEADER = struct.Struct("!II")
"""Before each message: the length of its JSON, and of the bytes that follow."""
CELL_NAME = "<cell {}>"
MESSAGE_BYTES = 16 * 1024**2
"""Of the JSON of a message, and of the bytes that follow. The gateway ends whoever sends more."""
TABLE_ROWS, TABLE_COLUMNS = 50, 40
MOST_IMAGES = 20
VALUE_CHARS = 100_000
ERROR_CHARS = 20_000
MOST_FRAMES = 30
_SHELL = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


class CalledToolError(Exception):
    """A tool failed, or may not be used. Code knows it as `ToolCallError`."""


CalledToolError.__module__, CalledToolError.__name__, CalledToolError.__qualname__ = (
    "builtins",
    "ToolCallError",
    "ToolCallError",
)


class ControlChannel:
    """Messages to and from the gateway, over a socket that was open from the start."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any], blob: bytes = b"") -> None:
        """Raises ValueError for what the gateway would not take for a message."""
        # Strict JSON: the gateway knows no NaN, and no half of a surrogate pair.
        errors = "strict" if message["type"] == "call" else "replace"
        text = json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", errors)
        if len(text) > MESSAGE_BYTES or len(blob) > MESSAGE_BYTES:
            size = max(len(text), len(blob))
            raise ValueError(f"{size} bytes are too many to hand over, at most {MESSAGE_BYTES}")
        with self._sending:
            self._connection.sendall(HEADER.pack(len(text), len(blob)) + text + blob)

    def receive(self) -> dict[str, Any] | None:
        """The next message; None if the gateway is gone."""
        head = self._exactly(HEADER.size)
        if head is None:
            return None
        length, _ = HEADER.unpack(head)
        text = self._exactly(length)
        return None if text is None else json.loads(text)

    def _exactly(self, size: int) -> bytes | None:
        pieces: list[bytes] = []
        while size:
            piece = self._connection.recv(min(size, 1 << 20))
            if not piece:
                return None
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


class Tools:
    """Calls of the caller's tools, from any thread of this process."""

    def __init__(self, channel: ControlChannel) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._last = 0
        self._waiting: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        if os.getpid() != self._pid:
            raise CalledToolError(
                "tools can be called from the cell's own process only, not from a child process"
            )
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with self._lock:
            self._last += 1
            number = self._last
            self._waiting[number] = answers
        try:
            self._channel.send({"type": "call", "call": number, "name": name, "arguments": arguments})
            answer = answers.get()
        finally:
            self._waiting.pop(number, None)
        if answer.get("error") is not None:
            raise CalledToolError(answer["error"])
        return answer.get("value")

    def answered(self, message: dict[str, Any]) -> None:
        answers = self._waiting.get(message["call"])
        if answers is not None:
            answers.put(message)

    def run_tool(self, name: str, /, **arguments: Any) -> Any:
        """Calls one of your tools by name. Returns its result as plain data; raises ToolCallError."""
        return self.call(name, arguments)

    def run_composio_tool(
        self, tool_slug: str, arguments: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], str | None]:
        """As Composio's helper of this name: returns the result and an error, one of them empty."""
        try:
            value = self.call(tool_slug, arguments or {})
        except CalledToolError as error:
            return {}, str(error)
        result: dict[str, Any] = {"data": value}
        if isinstance(value, dict) and "data" in value:
            result = cast(dict[str, Any], value)
        return {"successful": True, "error": None, **result}, None


class Shown:
    """What a cell shows besides text: tables and pictures."""

    def __init__(self, channel: ControlChannel) -> None:
        self._channel = channel
        self._images = 0

    def begin(self) -> None:
        self._images = 0

    def display(self, *values: Any) -> None:
        """Shows tables (pandas) and pictures (matplotlib, Pillow) as such, anything else as text."""
        for value in values:
            if not self.show(value):
                sys.stdout.write((value if isinstance(value, str) else repr(value)) + "\n")

    def show(self, value: Any) -> bool:
        """Whether the value was shown as a table or a picture."""
        kind = cast(type[Any], type(value))
        if "pandas" in sys.modules and kind.__name__ in ("DataFrame", "Series") and _is_from(kind, "pandas"):
            self._channel.send({"type": "table", **_table(value)})
            return True
        if _is_from(kind, "PIL") and hasattr(value, "save"):
            self._picture(lambda file: value.save(file, format="PNG"))
            return True
        if kind.__name__ == "Figure" and _is_from(kind, "matplotlib"):
            self._figure(value)
            return True
        return False

    def show_figures(self) -> None:
        """Every figure that the cell left open."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        for number in pyplot.get_fignums():
            self._figure(pyplot.figure(number))
        pyplot.close("all")

    def _figure(self, figure: Any) -> None:
        if figure.get_axes() or figure.texts:
            self._picture(lambda file: figure.savefig(file, format="png", bbox_inches="tight"))
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            pyplot.close(figure)

    def _picture(self, save: Callable[[Any], Any]) -> None:
        import io

        self._images += 1
        if self._images > MOST_IMAGES:
            return
        file = io.BytesIO()
        save(file)
        self._channel.send({"type": "image", "mime_type": "image/png"}, file.getvalue())


def _is_from(kind: type[Any], package: str) -> bool:
    return any(base.__module__.partition(".")[0] == package for base in kind.__mro__)


def _table(value: Any) -> dict[str, Any]:
    frame = value.to_frame() if type(value).__name__ == "Series" else value
    total = len(frame)
    part = frame.iloc[:TABLE_ROWS, :TABLE_COLUMNS]
    index = part.index
    plain = type(index).__name__ == "RangeIndex"
    columns = [str(name) for name in part.columns]
    rows = [[_cell(item) for item in row] for row in part.itertuples(index=not plain, name=None)]
    if not plain:
        columns.insert(0, str(index.name or ""))
    return {"columns": columns, "rows": rows, "total": total}


def _cell(value: Any) -> Any:
    if hasattr(value, "item") and not isinstance(value, str):
        try:
            value = value.item()
        except (ValueError, TypeError):
            return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None  # JSON has no infinity and no NaN
    return str(value)


class Cells:
    """Runs code in one module, and reports how it ended."""

    def __init__(self, channel: ControlChannel, tools: Tools, *, in_namespaces: bool) -> None:
        import types

        self._channel = channel
        self._in_namespaces = in_namespaces
        self._shown = Shown(channel)
        self._pid = os.getpid()
        self._running = False
        self._loop: Any = None
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self._names = module.__dict__
        self._names.update(
            run_tool=tools.run_tool,
            run_composio_tool=tools.run_composio_tool,
            ToolCallError=CalledToolError,
            display=self._shown.display,
        )

    def interrupt(self) -> None:
        """Called in another thread."""
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._running:
            raise KeyboardInterrupt

    def run(self, message: dict[str, Any]) -> None:
        done: dict[str, Any] = {"type": "done", "run": message["run"], "value": "", "error": None}
        try:
            signal.signal(signal.SIGINT, self._on_interrupt)
            self._running = True
            try:
                if message["kind"] == "bash":
                    done["exit_code"] = self._shell(message["code"])
                else:
                    done["value"] = self._python(message["code"], message["run"])
            finally:
                self._running = False
        except KeyboardInterrupt:
            done["error"], done["interrupted"] = "KeyboardInterrupt", True
        except BaseException as error:  # whatever code raises is its result
            done["error"] = _explained(error)
        if os.getpid() != self._pid:
            os._exit(0)  # a fork of the cell's process came to the end of the cell
        if done.get("interrupted") and self._in_namespaces:
            # What it started, however many; not itself and not the first process of the box.
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        _flush()
        self._channel.send(done)

    def _python(self, code: str, number: int) -> str:
        name = CELL_NAME.format(number)
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        # Not ast.parse, which would be a line of every traceback of a syntax error.
        tree = cast(ast.Module, compile(code, name, "exec", ast.PyCF_ONLY_AST))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        value: Any = None
        self._shown.begin()
        try:
            if tree.body:
                self._evaluate(compile(tree, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
            if last is not None:
                expression = ast.Expression(cast(ast.Expr, last).value)
                value = self._evaluate(
                    compile(expression, name, "eval", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                )
                if value is not None:
                    self._names["_"] = value
        finally:
            if os.getpid() == self._pid:
                self._shown.show_figures()
        if value is None:
            return ""
        self._shown.show(value)
        return repr(value)[:VALUE_CHARS]

    def _evaluate(self, code: CodeType) -> Any:
        found = eval(code, self._names)
        if code.co_flags & 0x80:  # CO_COROUTINE: it has an `await` outside of functions
            if self._loop is None:
                import asyncio  # 40 ms, and only such code needs it

                self._loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self._loop)
            return self._loop.run_until_complete(found)
        return found

    def _shell(self, command: str) -> int:
        import subprocess  # 8 ms

        group = 0 if self._in_namespaces else None
        with subprocess.Popen(
            [_SHELL, "-c", command], stdin=subprocess.DEVNULL, process_group=group
        ) as process:
            try:
                status = process.wait()
            except BaseException:
                if group is None:
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        return status if status >= 0 else 128 - status


def _explained(error: BaseException) -> str:
    """The traceback without our own frames."""
    told = traceback.TracebackException.from_exception(error, limit=-MOST_FRAMES)
    told.stack[:] = [frame for frame in told.stack if frame.filename != __file__]
    text = "".join(told.format()).rstrip()
    if len(text) <= ERROR_CHARS:
        return text
    half = ERROR_CHARS // 2 - 10
    return f"{text[:half]}\n[…]\n{text[-half:]}"


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the cell may have put anything in its place
            stream.flush()


class Relay:
    """Leads connections to a local port out of the box, to the gateway's proxy at a socket."""

    def __init__(self, path: str, port: int) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                far.connect(self._path)
            except OSError:
                near.close()
                far.close()
                continue
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        sink.close()


def _listen(
    channel: ControlChannel, cells: Cells, tools: Tools, runs: "queue.SimpleQueue[dict[str, Any]]"
) -> None:
    """Takes messages while a cell runs. Without a gateway there is nothing left to do."""
    try:
        while (message := channel.receive()) is not None:
            if message["type"] == "run":
                runs.put(message)
            elif message["type"] == "interrupt":
                cells.interrupt()
            else:
                tools.answered(message)
    finally:
        os._exit(0)


def _confine(plan: dict[str, Any]) -> None:
    """Everything that must hold before code of a caller runs."""
    confinement.step_back()
    confinement.set_limits({name: limit for name, limit in plan["limits"].items() if name != "NPROC"})
    uid = plan["uid"]
    families = tuple(plan["families"])
    if plan["box"] == "bubblewrap":
        confinement.enter_workspace(plan["folder"])
        if uid is not None:
            confinement.become(uid, uid)
            confinement.enter_user_namespace(uid, uid)
        confinement.drop_capabilities()
    elif uid is not None:
        confinement.become(uid, uid)
    confinement.set_limits(
        {"NPROC": plan["limits"]["NPROC"] + (0 if plan["box"] == "bubblewrap" else _others())}
    )
    os.chdir(plan["home"])
    if plan["box"] == "landlock":
        confinement.restrict_files(plan["readable"], plan["writable"], plan["devices"], tuple(plan["ports"]))
    if plan["machine"]:
        own_pid = os.getpid() if plan["box"] == "landlock" and plan["filter_signals"] else None
        confinement.install_filter(
            confinement.filter_for(
                plan["machine"], families, in_namespaces=plan["box"] == "bubblewrap", own_pid=own_pid
            )
        )


def _others() -> int:
    """How many tasks this user has outside of the box: without namespaces the limit counts them too."""
    count, uid = 0, os.getuid()
    try:
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    except OSError:
        return 1000
    return count


def _supervise(cell: int, life: int, *, is_namespaced: bool) -> None:
    """The first process of the box: adopts orphans, and ends when the cell's process or the gateway does.

    It runs no code of a caller. The end of the first process of a namespace ends all others in it.
    """

    def end() -> None:
        if not is_namespaced:
            with contextlib.suppress(OSError):
                os.killpg(cell, signal.SIGKILL)

    def watch() -> None:
        while os.read(life, 1):
            pass
        end()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == cell:
            end()
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def main() -> None:
    """`guest.py SOCKET LIFE MODULE…`: two descriptors, and modules to import first.

    LIFE is a pipe that ends with the gateway. A signal at the parent's death would not do: the kernel sends
    none to a process that changed its user.
    """
    connection = socket.socket(fileno=int(sys.argv[1]))
    life = int(sys.argv[2])
    connection.set_inheritable(False)
    channel = ControlChannel(connection)
    for name in sys.argv[3:]:
        __import__(name)
    channel.send({"type": "ready", "python": sys.version.split()[0]})
    plan = channel.receive()
    if plan is None:
        os._exit(0)
    is_namespaced = plan["box"] == "bubblewrap"
    try:
        os.environ.update(plan["environment"])
        if is_namespaced:
            _confine(plan)
        else:
            confinement.adopt_orphans()
        confinement.hide_memory()
        cell = os.fork()
        if cell:
            connection.close()
            _supervise(cell, life, is_namespaced=is_namespaced)
        os.close(life)
        confinement.show_memory()
        if not is_namespaced:
            os.setpgid(0, 0)
            _confine(plan)
    except (confinement.ConfinementError, OSError) as error:
        channel.send({"type": "refused", "reason": str(error)})
        os._exit(1)
    _serve(channel, plan, is_namespaced=is_namespaced)


def _serve(channel: ControlChannel, plan: dict[str, Any], *, is_namespaced: bool) -> None:
    sys.argv = [""]
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] (a text stream)
    tools = Tools(channel)
    cells = Cells(channel, tools, in_namespaces=is_namespaced)
    if plan["relay"]:
        Relay(plan["relay"], plan["relay_port"])
    runs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, cells, tools, runs), daemon=True).start()
    channel.send({"type": "confined"})
    while True:
        try:
            cells.run(runs.get())
        except KeyboardInterrupt:  # it came after the end of the cell
            continue
