"""Transcripts of `toolyard agent` and `toolyard chat`: `transcript.jsonl` in the folder of a run.

Keeps what the user and the agents said, the tool calls, and their results. A sub-agent's messages belong to
the conversation, in a thread of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..model import MAX_ARGUMENTS, CalledTool, Conversation, ConversationMessage, Role, line, moment, tidy
from .parts import ConversationAddition, ConversationPart, NothingKept, UnknownFormatError

FORMAT = "toolyard.run"
TRANSCRIPT, RECORD = "transcript.jsonl", "run.json"
CHANNEL = "toolyard"


class _RunPart(Struct):
    """A part of a message, or of a tool result: whatever of it is text."""

    type: str = "text"
    text: str = ""
    name: str = ""
    arguments: Any = None


class _RunMessage(Struct):
    role: Role
    parts: list[_RunPart] = []


class _RunResult(Struct):
    parts: list[_RunPart] = []


class _RunLine(Struct):
    run: str
    time: float
    agent: str
    parent: str = ""
    message: _RunMessage | None = None
    result: _RunResult | None = None


def is_line(value: Mapping[str, Any]) -> bool:
    return value.get("format") == FORMAT


def read_line(value: object, place: str) -> ConversationPart:
    """`place` becomes the message's id. Raises UnknownFormatError with the member at fault."""
    try:
        found = msgspec.convert(value, _RunLine)
    except msgspec.ValidationError as error:
        raise UnknownFormatError(str(error)) from None
    message = _message(found, place)
    if message is None:
        return NothingKept()
    time = message.time
    return ConversationAddition(
        Conversation(
            session_id=line(found.run),
            channel=CHANNEL,
            created_at=time,
            updated_at=time,
            messages=(message,),
        )
    )


def _message(found: _RunLine, place: str) -> ConversationMessage | None:
    said = found.message if found.message is not None else found.result
    if said is None:
        return None
    text = tidy("\n\n".join(part.text for part in said.parts if part.type == "text" and part.text).strip())
    tools = tuple(_call(part) for part in said.parts if part.type == "tool_use")
    if not text and not tools:
        return None
    return ConversationMessage(
        role=said.role if isinstance(said, _RunMessage) else "tool",
        text=text,
        time=moment(found.time),
        tools=tools,
        id=place,
        thread=line(found.agent) if found.parent else "",
    )


def _call(part: _RunPart) -> CalledTool:
    return CalledTool(line(part.name), tidy(msgspec.json.encode(part.arguments).decode(), MAX_ARGUMENTS))
