"""`python -m tests.app.program JOURNAL [HABIT …]`: a small server on standard input and output.

Everything it reads goes into JOURNAL, a line each; every process begins with a line of its own. Habits:

modern | legacy   the era it speaks; legacy unless told
deaf              says nothing to a method it does not know, and nothing at all before `initialize`
banner            prints a greeting first
noisy             prints what is no JSON between its answers
fleeting          ends as soon as the first words are exchanged
"""

import json
import os
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

MODERN, LEGACY = "2026-07-28", "2025-11-25"
PREFIX = "io.modelcontextprotocol/"

FIRST_WORDS = {"modern": ("server/discover",), "legacy": ("notifications/initialized",)}
READ_ONLY = {"annotations": {"readOnlyHint": True}}
TOOLS: list[dict[str, Any]] = [
    {"name": "echo"},
    {"name": "who"},
    {"name": "ask"},
    {"name": "hold"},
    {"name": "die"},
    {"name": "die_reading", **READ_ONLY},
    {"name": "change"},
    {"name": "big"},
    {"name": "steps"},
    {"name": "late"},
    {"name": "odd"},
]
for item in TOOLS:
    item["inputSchema"] = {"type": "object"}


class Program:
    def __init__(self, journal: Path, habits: list[str]) -> None:
        self._journal = journal
        self._habits = habits
        self._era = "modern" if "modern" in habits else "legacy"
        self._initialized = False
        self._ids = count(1)
        self._asked: dict[str, Any] = {}
        self._late: list[Any] = []
        self._writing = threading.Lock()

    def run(self) -> None:
        self._note({"process": os.getpid()})
        if "banner" in self._habits:
            sys.stdout.write("Welcome to the program!\nListening on stdio\n")
            sys.stdout.flush()
        for line in sys.stdin:
            message = json.loads(line)
            self._note(message)
            for answer in self._take(message):
                self._say(answer)
            if "fleeting" in self._habits and message.get("method") in FIRST_WORDS[self._era]:
                return

    def _note(self, what: Any) -> None:
        with self._journal.open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), "read": what}) + "\n")

    def _say(self, message: Any) -> None:
        with self._writing:
            if "noisy" in self._habits:
                sys.stdout.write("DEBUG: about to say something\n")
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def _take(self, message: Any) -> Iterator[Any]:
        method, id = message.get("method"), message.get("id")
        if method is None:
            yield from self._answered(message)
        elif id is None:
            return
        elif method == "server/discover" and self._era == "modern":
            info = {PREFIX + "serverInfo": {"name": "program", "version": "1"}}
            found = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "_meta": info}
            yield {"id": id, "result": {"resultType": "complete", **found}}
        elif method == "initialize" and self._era == "legacy":
            self._initialized = True
            found = {"protocolVersion": LEGACY, "capabilities": {"tools": {"listChanged": True}}}
            yield {"id": id, "result": {**found, "serverInfo": {"name": "program", "version": "1"}}}
        elif "deaf" in self._habits and not self._initialized:
            return
        elif method == "tools/list":
            yield self._result(id, {"tools": TOOLS})
        elif method == "tools/call":
            yield from self._call(id, message["params"])
        elif "deaf" not in self._habits:
            yield {"id": id, "error": {"code": -32601, "message": f"No {method}"}}

    def _result(self, id: Any, result: Any) -> Any:
        kind = {"resultType": "complete"} if self._era == "modern" else {}
        return {"id": id, "result": {**kind, **result}}

    def _text(self, id: Any, words: str) -> Any:
        return self._result(id, {"content": [{"type": "text", "text": words}]})

    def _call(self, id: Any, params: Any) -> Iterator[Any]:
        name, arguments = params["name"], params.get("arguments") or {}
        if name == "echo":
            yield from self._late
            self._late.clear()
            yield self._text(id, arguments.get("text", ""))
        elif name == "who":
            yield self._text(id, str(os.getpid()))
        elif name == "ask":
            question = f"question-{next(self._ids)}"
            self._asked[question] = id
            schema = {"type": "object", "properties": {}}
            told = {"message": arguments.get("text", "Sure?"), "requestedSchema": schema}
            yield {"id": question, "method": "elicitation/create", "params": told}
        elif name == "big":
            yield self._text(id, "é" + "x" * arguments["size"] + "\u2028")
        elif name == "steps":
            told = {"progressToken": params["_meta"]["progressToken"], "progress": 1}
            yield {"method": "notifications/progress", "params": {**told, "message": arguments["text"]}}
            yield self._text(id, arguments["text"])
        elif name == "odd":
            yield {"id": id, "result": 5}
        elif name == "late":
            self._late.append(self._text(id, "too late"))
        elif name == "change":
            yield {"method": "notifications/tools/list_changed"}
            yield self._text(id, "changed")
        elif name in ("die", "die_reading") and not Path(f"{self._journal}.well").exists():
            Path(f"{self._journal}.well").touch()
            os._exit(3)
        elif name != "hold":
            yield self._text(id, "alive")

    def _answered(self, message: Any) -> Iterator[Any]:
        id = self._asked.pop(message["id"], None)
        if id is not None:
            said = message.get("result") or message.get("error")
            yield self._text(id, json.dumps(said))


if __name__ == "__main__":
    Program(Path(sys.argv[1]), sys.argv[2:]).run()
