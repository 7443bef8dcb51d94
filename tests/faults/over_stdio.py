"""`python -m tests.faults.over_stdio ERA FILE`: a small server on standard input and output, with moods.

FILE holds its mood; what reaches it is noted in FILE.journal.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

from tests.faults import speech
from tests.faults.moods import BIG, DRIP_S, EATEN, FLOOD_S, LATE_S, WELL, Journal, Mood, tells
from tests.faults.speech import Era, Message

LOOK_S = 0.03


class StdioProgram:
    def __init__(self, era: Era, mood: Mood, journal: Journal) -> None:
        self.era: Era = era
        self.mood = mood
        self.journal = journal
        self._subscription: object = None
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._eaten: list[bytearray] = []

    async def run(self) -> None:
        self.journal.note("start")
        self._start(self._watch())
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=2**27)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            if self.mood.now() == "hang":
                await self._turn_stubborn()
            self._start(self._take(json.loads(line)))
        # At once: a thread may still be writing to somebody who does not read.
        os._exit(0)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self) -> None:
        """Does what a mood does without being asked."""
        last = WELL
        while True:
            mood = self.mood.now()
            if mood == "dead":
                os._exit(1)
            if mood != last and tells(mood):
                await self._say(speech.changed(self._subscription))
            last = mood
            if mood == "flood":
                await self._say(speech.changed(self._subscription))
                await asyncio.sleep(FLOOD_S)
            else:
                await asyncio.sleep(LOOK_S)

    async def _turn_stubborn(self) -> None:
        """Hangs as the worst do: for good, deaf to a polite end, with a child of its own.

        Getting well is for the next process, which somebody has to start.
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # The argument is there for the test that looks for what is left over.
        sleep = [sys.executable, "-c", "import signal; signal.pause()", sys.argv[2]]
        child = await asyncio.create_subprocess_exec(*sleep)
        self.journal.note(f"child {child.pid}")
        await asyncio.Event().wait()

    async def _take(self, message: Message) -> None:
        method = str(message.get("method"))
        self.journal.note(method)
        action = self.mood.does(method)
        if method == "tools/call":
            self.journal.note(speech.named(message))
        if method == "subscriptions/listen" and self.era == "modern":
            self._subscription = message["id"]
            await self._say(speech.acknowledgement(message))
            return
        reply = speech.reply_to(message, self.era)
        if reply is None:
            return
        if speech.is_foreign(message, self.era):
            reply = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Not here"}}
        if action is None:
            await self._say(reply)
        else:
            await self._misbehave(action, reply)

    async def _misbehave(self, action: str, reply: Message) -> None:
        match action:
            case "die":
                os._exit(1)
            case "die-once":
                self.mood.become(WELL)
                os._exit(1)
            case "hang":
                await asyncio.Event().wait()
            case "late":
                await asyncio.sleep(LATE_S)
                await self._say(reply)
            case "drip":
                await self._drip(json.dumps(reply).encode() + b"\n")
            case "not-json" | "html":
                await self._write(b"Traceback: this is no JSON\n")
            case "not-rpc":
                await self._write(b'{"hello": "world"}\n[1, 2, 3]\n"text"\n')
            case "wrong-id":
                await self._say(reply | {"id": 987654321})
            case "cut":
                await self._write(json.dumps(reply).encode()[:25])
                os._exit(1)
            case "binary":
                await self._write(bytes(range(256)) + b"\n")
            case "twice":
                await self._say(reply)
                await self._say(reply)
            case "another-list":
                await self._say(speech.another_list(reply))
            case "endless-list":
                await self._say(speech.endless_list(reply))
            case "huge-list":
                await self._write(speech.huge_list(reply) + b"\n")
            case "big":
                async with self._writing:
                    for part in speech.big_result(reply, BIG):
                        await asyncio.to_thread(_write_all, part)
            case "endless-reply":
                while True:
                    await self._write(b"x" * 65536)
            case "eat":
                await self._eat()
                await self._say(reply)
            case _:
                raise AssertionError(action)

    async def _eat(self) -> None:
        """Takes memory until it is ended for that; the answer is held back, and the next call takes more."""
        while sum(map(len, self._eaten)) < EATEN and self.mood.now() != WELL:
            self._eaten.append(bytearray(os.urandom(4096) * 8192))  # 32 MiB, really there
            await asyncio.sleep(LOOK_S)
        while self.mood.now() != WELL:  # noqa: ASYNC110  the mood is a file
            await asyncio.sleep(LOOK_S)

    async def _drip(self, data: bytes) -> None:
        async with self._writing:
            for place in range(len(data)):
                if self.mood.now() == WELL:
                    await asyncio.to_thread(_write_all, data[place:])
                    return
                await asyncio.to_thread(os.write, 1, data[place : place + 1])
                await asyncio.sleep(DRIP_S)

    async def _say(self, message: Message) -> None:
        await self._write(json.dumps(message).encode() + b"\n")

    async def _write(self, data: bytes) -> None:
        """In a thread, because a reader that does not read must not stop the watching."""
        async with self._writing:
            await asyncio.to_thread(_write_all, data)


def _write_all(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def main() -> None:
    era, file = sys.argv[1:]
    mood = Mood(Path(file))
    if mood.now() == "dead":
        sys.exit(1)
    asyncio.run(StdioProgram(cast(Era, era), mood, Journal(Path(file + ".journal"))).run())


if __name__ == "__main__":
    main()
