"""`python -m tests.faults.over_http FOLDER NAME:ERA…`: small servers over HTTP, each with a mood and a port.

FOLDER/NAME holds a mood; what reaches that server is noted in FOLDER/NAME.journal. Prints the ports as one
JSON object when all of them answer. HTTP is written by hand here, because what goes wrong has to be any bytes
at all.
"""

import asyncio
import json
import secrets
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from tests.faults import speech
from tests.faults.moods import BIG, DRIP_S, FLOOD_S, LATE_S, WELL, Journal, Mood, tells
from tests.faults.speech import Era, Message

LOOK_S = 0.03
BACK_S = 0.3
"""How long a server that died in the middle of a call is away."""

Headers = dict[str, str]


class Gone(Exception):
    """This connection has nothing more to say."""


class HttpProgram:
    def __init__(self, era: Era, mood: Mood, journal: Journal) -> None:
        self.era: Era = era
        self.mood = mood
        self.journal = journal
        # Holds the port while nobody listens on it: bound and not listening, it refuses connections.
        self._holder = _bound(0)
        self.port: int = self._holder.getsockname()[1]
        self._server: asyncio.Server | None = None
        self._sessions: set[str] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._listeners: dict[asyncio.StreamWriter, Any] = {}

    async def open(self) -> None:
        self.journal.note("start")
        self._server = await asyncio.start_server(self._connected, sock=_bound(self.port), limit=2**27)

    async def watch(self) -> None:
        """Does what a mood does without being asked."""
        last = WELL
        while True:
            mood = self.mood.now()
            if mood == "flood" or (mood != last and tells(mood)):
                for writer, subscription in list(self._listeners.items()):
                    writer.write(_chunk(_event(speech.changed(subscription))))
            last = mood
            if mood == "dead":
                self._die()
            elif self._server is None:
                await asyncio.sleep(BACK_S)
                await self.open()
            await asyncio.sleep(FLOOD_S if mood == "flood" else LOOK_S)

    def _die(self) -> None:
        """As the kernel does for a process that is killed: everything is closed, and everything forgotten."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()
        self._sessions.clear()
        self._listeners.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                await self._request(reader, writer)
        except (Gone, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            self._listeners.pop(writer, None)
            writer.transport.abort() if self._server is None else writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        match first.split(" ")[0]:
            case "POST":
                await self._post(writer, headers, json.loads(body))
            case "GET" if self.era == "legacy" and headers.get("mcp-session-id") in self._sessions:
                self.journal.note("GET")
                _start_stream(writer)
                self._listeners[writer] = None
                await self._hold(reader)
            case "DELETE":
                self._sessions.discard(headers.get("mcp-session-id", ""))
                _answer(writer, 200, b"{}")
            case _:
                _answer(writer, 405, b"{}")

    async def _post(self, writer: asyncio.StreamWriter, headers: Headers, message: Message) -> None:
        method = str(message.get("method"))
        self.journal.note(method)
        action = self.mood.does(method)
        if action == "hang":
            await asyncio.Event().wait()
        if refusal := self._refusal(headers, message):
            _answer(writer, *refusal)
            return
        if method == "tools/call":
            self.journal.note(speech.named(message))
        if method == "subscriptions/listen":
            _start_stream(writer)
            writer.write(_chunk(_event(speech.acknowledgement(message))))
            self._listeners[writer] = message["id"]
            await asyncio.Event().wait()
        reply = speech.reply_to(message, self.era)
        if reply is None:
            _answer(writer, 202, b"")
        elif action is not None:
            await self._misbehave(action, writer, reply)
        else:
            session: Headers = {}
            if method == "initialize":
                session["Mcp-Session-Id"] = secrets.token_hex(8)
                self._sessions.add(session["Mcp-Session-Id"])
            status = 404 if "error" in reply and self.era == "modern" else 200
            _answer(writer, status, json.dumps(reply).encode(), **session)

    def _refusal(self, headers: Headers, message: Message) -> tuple[int, bytes] | None:
        """What this request gets for being of the other era or of a session that is forgotten."""
        if self.era == "modern":
            bad = headers.get("mcp-protocol-version") != speech.MODERN
            code, text, status = -32022, "Unsupported protocol version", 400
        elif message.get("method") == "initialize":
            return None
        elif "mcp-session-id" not in headers:
            bad, code, text, status = True, -32000, "Bad Request: Missing session ID", 400
        else:
            bad = headers["mcp-session-id"] not in self._sessions
            code, text, status = -32001, "Session not found", 404
        error = {"code": code, "message": text, "data": {"supported": [speech.MODERN]}}
        reply = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        return (status, json.dumps(reply).encode()) if bad else None

    async def _hold(self, reader: asyncio.StreamReader) -> None:
        """Keep a stream open until the other side closes it."""
        await reader.read()
        raise Gone

    async def _misbehave(self, action: str, writer: asyncio.StreamWriter, reply: Message) -> None:
        data = json.dumps(reply).encode()
        match action:
            case "die":
                self._die()
                raise Gone
            case "die-once":
                self.mood.become(WELL)
                self._die()
                raise Gone
            case "late":
                await asyncio.sleep(LATE_S)
                _answer(writer, 200, data)
            case "drip":
                _head(writer, 200, {"Content-Type": "application/json", "Content-Length": str(len(data))})
                for byte in data:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(DRIP_S)
            case "not-json":
                _answer(writer, 200, b"Traceback: this is no JSON")
            case "not-rpc":
                _answer(writer, 200, b'{"hello": "world"}')
            case "wrong-id":
                _answer(writer, 200, json.dumps(reply | {"id": 987654321}).encode())
            case "html":
                _answer(writer, 200, b"<html><h1>Sign in</h1></html>", **{"Content-Type": "text/html"})
            case "binary":
                writer.write(bytes(range(256)))
                await writer.drain()
                raise Gone
            case "cut":
                _start_stream(writer)
                writer.write(_chunk(_event(reply)[:30]))
                await writer.drain()
                raise Gone
            case "twice":
                _start_stream(writer)
                writer.write(_chunk(_event(reply)) + _chunk(_event(reply)) + b"0\r\n\r\n")
            case _:
                await self._overfeed(action, writer, reply)

    async def _overfeed(self, action: str, writer: asyncio.StreamWriter, reply: Message) -> None:
        match action:
            case "another-list":
                _answer(writer, 200, json.dumps(speech.another_list(reply)).encode())
            case "endless-list":
                _answer(writer, 200, json.dumps(speech.endless_list(reply)).encode())
            case "huge-list":
                _answer(writer, 200, speech.huge_list(reply))
            case "big" | "eat":
                parts = list(speech.big_result(reply, BIG))
                size = str(sum(map(len, parts)))
                _head(writer, 200, {"Content-Type": "application/json", "Content-Length": size})
                for part in parts:
                    writer.write(part)
                    await writer.drain()
            case "endless-reply":
                _start_stream(writer)
                while True:
                    writer.write(_chunk(b"data: " + b"x" * 65536 + b"\n"))
                    await writer.drain()
            case _:
                raise AssertionError(action)


def _bound(port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind(("127.0.0.1", port))
    return found


def _head(writer: asyncio.StreamWriter, status: int, headers: Headers) -> None:
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))


def _answer(writer: asyncio.StreamWriter, status: int, body: bytes, **headers: str) -> None:
    _head(writer, status, {"Content-Type": "application/json", "Content-Length": str(len(body))} | headers)
    writer.write(body)


def _start_stream(writer: asyncio.StreamWriter) -> None:
    _head(writer, 200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})


def _event(message: Message) -> bytes:
    return b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def serve(folder: Path, names: list[str]) -> None:
    programs: dict[str, HttpProgram] = {}
    for name, era in (entry.split(":") for entry in names):
        journal = Journal(folder / f"{name}.journal")
        programs[name] = HttpProgram(cast(Era, era), Mood(folder / name), journal)
        await programs[name].open()
    print(json.dumps({name: program.port for name, program in programs.items()}), flush=True)
    await asyncio.gather(*(program.watch() for program in programs.values()))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(Path(sys.argv[1]), sys.argv[2:]))
