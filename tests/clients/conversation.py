"""The conversation that every client holds with the yard, topic by topic.

Owns what is asked and what must come of it. A client takes part through a `Peer`, which puts its own calls
into the words used here; a topic that a client has no means for is named, with the reason, where its peer
is defined.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from tests.waiting import PATIENCE

T = TypeVar("T")


async def soon(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE):
        return await awaitable


@dataclass
class Person:
    """Who sits at the client: answers what the server asks, and sees what it tells."""

    answer: dict[str, Any] = field(default_factory=lambda: {"action": "cancel"})
    thought: str = "Paris"
    folder: str = "file:///yard"
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The params of each question, as the protocol spells them."""
    progress: asyncio.Queue[tuple[float, float | None, str | None]] = field(default_factory=asyncio.Queue)
    lines: asyncio.Queue[tuple[str, str | None, Any]] = field(default_factory=asyncio.Queue)


@dataclass(frozen=True)
class Result:
    """What a tool call came to."""

    text: str
    structured: Any = None
    is_error: bool = False


class Peer(Protocol):
    """One connected client."""

    person: Person
    version: str
    """The revision of the protocol that the server should see."""

    async def instructions(self) -> str:
        """What the client knows of the server beside its tools."""
        ...

    async def tools(self) -> dict[str, dict[str, Any]]:
        """The listed tools by name, as the protocol spells them."""
        ...

    async def call(self, tool: str, /, **arguments: Any) -> Result: ...

    async def want_lines(self) -> None:
        """Ask for log lines from "info" upwards, where that takes a request of its own."""
        ...

    async def resources(self) -> list[str]:
        """The addresses of the listed resources."""
        ...

    async def read(self, uri: str) -> str: ...

    async def prompts(self) -> list[str]: ...

    async def prompt(self, name: str, **arguments: str) -> str:
        """The text of a prompt's only message."""
        ...

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]: ...

    def watching(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[None]]]:
        """Listen for changes of the list of tools; call what it gives to wait for one."""
        ...

    async def cancel_a_call(self, tool: str) -> None:
        """Call a tool, and cancel the call when the tool runs."""
        ...


async def speaks_its_version(peer: Peer) -> None:
    assert (await peer.call("version")).text == peer.version


async def reads_the_instructions(peer: Peer) -> None:
    assert "Add before you greet." in await peer.instructions()


async def lists_tools(peer: Peer) -> None:
    tools = await peer.tools()
    assert {"add", "bake", "walk", "greet"} <= set(tools)
    assert tools["add"]["description"] == "Add two numbers."
    schema = tools["add"]["inputSchema"]
    assert schema["properties"]["a"] == {"type": "integer", "description": "The first number"}
    assert schema["required"] == ["a", "b"]


async def lists_annotations(peer: Peer) -> None:
    tools = await peer.tools()
    assert tools["add"]["annotations"]["readOnlyHint"] is True
    assert tools["bake"]["annotations"]["destructiveHint"] is True
    assert not tools["walk"].get("annotations")


async def lists_output_schemas(peer: Peer) -> None:
    tools = await peer.tools()
    assert tools["add"]["title"] == "Addition"
    assert tools["add"]["outputSchema"]["properties"]["total"] == {"type": "integer"}
    assert "outputSchema" not in tools["walk"]


async def gets_a_structured_result(peer: Peer) -> None:
    result = await peer.call("add", a=1, b=2)
    assert result == Result('{"total":3,"note":null}', {"total": 3, "note": None})


async def reads_why_arguments_are_wrong(peer: Peer) -> None:
    result = await peer.call("add", a=1, b="two")
    assert result == Result(
        "Invalid arguments for tool 'add': field 'b': expected `int`, got `str`", is_error=True
    )


async def reads_the_error_of_a_tool(peer: Peer) -> None:
    assert await peer.call("bake") == Result("There is no flour.", is_error=True)


async def sees_progress(peer: Peer) -> None:
    assert (await peer.call("walk")).text == "walked"
    seen = [await soon(peer.person.progress.get()) for _ in range(3)]
    # A gateway in front of several servers says whose words they are.
    told = [(step, total, words.removeprefix("Server 'up': ")) for step, total, words in seen]
    assert told == [(1, 3, "left"), (2, 3, "right"), (3, 3, "left")]


async def sees_log_lines(peer: Peer) -> None:
    await peer.want_lines()
    assert (await peer.call("note_down")).text == "noted"
    level, logger, data = await soon(peer.person.lines.get())
    assert (level, data) == ("warning", {"what": "rain"})
    assert (logger or "").removeprefix("up/") == "weather"


async def accepts_a_form(peer: Peer) -> None:
    peer.person.answer = {"action": "accept", "content": {"name": "Ada"}}
    assert await peer.call("greet") == Result("Hello Ada")
    question = peer.person.asked[-1]
    assert question["message"].removeprefix("Server 'up' asks: ") == "What is your name?"
    assert question["requestedSchema"]["properties"] == {"name": {"type": "string"}}


async def declines_a_form(peer: Peer) -> None:
    peer.person.answer = {"action": "decline"}
    assert await peer.call("greet") == Result("Nobody: decline")


async def opens_a_page(peer: Peer) -> None:
    peer.person.answer = {"action": "accept"}
    assert await peer.call("visit") == Result("accept")
    assert peer.person.asked[-1]["url"] == "https://pay.example/7"


async def lends_its_model(peer: Peer) -> None:
    assert await peer.call("ponder") == Result("Paris")
    (message,) = peer.person.asked[-1]["messages"]
    assert message["content"]["text"] == "Capital of France?"


async def shows_its_folders(peer: Peer) -> None:
    assert await peer.call("look_around") == Result(peer.person.folder)


async def reads_resources(peer: Peer) -> None:
    assert await peer.resources() == ["yard://gate"]
    assert await peer.read("yard://gate") == "open"
    assert await peer.read("yard://plants/rose") == "a rose"


async def gets_prompts(peer: Peer) -> None:
    assert await peer.prompts() == ["invite"]
    assert await peer.prompt("invite", guest="Ada") == "Please come, Ada"


async def completes_arguments(peer: Peer) -> None:
    assert await peer.complete("invite", "guest", "A") == ["Ada", "Alan"]


async def notices_a_new_tool(peer: Peer) -> None:
    assert "late" not in await peer.tools()
    async with peer.watching() as changed:
        assert (await soon(peer.call("grow"))).text == "grown"
        await soon(changed())
        assert "late" in await peer.tools()
    assert await peer.call("late") == Result("better late")


async def cancels_a_call(peer: Peer) -> None:
    await soon(peer.cancel_a_call("wait"))
    # The connection goes on, and the tool has noticed.
    assert await soon(peer.call("until_stopped")) == Result("stopped")


Topic = Callable[[Peer], Awaitable[None]]

TOPICS: dict[str, Topic] = {
    topic.__name__: topic
    for topic in (
        speaks_its_version,
        reads_the_instructions,
        lists_tools,
        lists_annotations,
        lists_output_schemas,
        gets_a_structured_result,
        reads_why_arguments_are_wrong,
        reads_the_error_of_a_tool,
        sees_progress,
        sees_log_lines,
        accepts_a_form,
        declines_a_form,
        opens_a_page,
        lends_its_model,
        shows_its_folders,
        reads_resources,
        gets_prompts,
        completes_arguments,
        notices_a_new_tool,
        cancels_a_call,
    )
}


def topics(lacks: Mapping[str, str] | None = None) -> list[str]:
    """Every topic but those that a client has no means for, each given with the reason."""
    missing = dict(lacks or {})
    assert missing.keys() <= TOPICS.keys(), missing
    return [name for name in TOPICS if name not in missing]


async def converse(peer: Peer, lacks: Mapping[str, str] | None = None) -> None:
    """Every topic on one connection."""
    for name in topics(lacks):
        try:
            await TOPICS[name](peer)
        except Exception as error:
            error.add_note(f"in the topic {name!r}")
            raise
