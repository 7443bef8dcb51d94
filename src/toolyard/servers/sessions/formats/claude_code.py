"""Claude Code's transcripts: `~/.claude/projects/<folder>/<session>.jsonl`, one entry a line.

Keeps what people and the model say and the tool calls. Skips the model's thinking and the program's own
entries; unknown types are skipped too, since every release adds some. Entries of a sub-agent (`isSidechain`)
belong to the conversation, in a thread of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from ..model import (
    MOST_ARGUMENTS,
    MOST_TEXT,
    CalledTool,
    Conversation,
    ConversationMessage,
    Role,
    TitleSource,
    line,
    moment,
    tidy,
)
from .parts import ConversationAddition, ConversationPart, ConversationTitle, NothingKept, UnknownFormatError

CHANNEL = "claude-code"
# What Claude Code itself puts into a person's message, around commands and reminders.
_ITS_OWN = re.compile(
    r"<(command-name|command-message|command-args|command-contents|local-command-stdout|local-command-stderr|"
    r"local-command-caveat|system-reminder|user-prompt-submit-hook)>.*?</\1>",
    re.DOTALL,
)
_MOST_SUMMARY = 1_000

Entry = Mapping[str, Any]


def is_entry(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("type"), str) and ("sessionId" in value or value["type"] == "summary")


def read_entry(entry: Entry, place: str) -> ConversationPart:
    """`place` is where the line is, for those that have no id of their own."""
    kind = entry["type"]
    if kind == "summary":
        leaf, title = entry.get("leafUuid"), entry.get("summary")
        if not isinstance(leaf, str) or not isinstance(title, str):
            raise UnknownFormatError("a summary without its text or message")
        return ConversationTitle(leaf, line(title))
    session_id = entry.get("sessionId")
    if not isinstance(session_id, str) or not session_id.strip():
        raise UnknownFormatError("no 'sessionId'")
    if kind in ("user", "assistant"):
        return _of_message(session_id, kind, entry, place)
    told = _told(entry)
    return ConversationAddition(_session(session_id, **told)) if told else NothingKept()


def _told(entry: Entry) -> dict[str, Any]:
    """What an entry says of the session as a whole."""
    kind = entry["type"]
    if kind == "custom-title" and isinstance(entry.get("customTitle"), str):
        return {"title": line(entry["customTitle"]), "named": TitleSource.BY_A_PERSON}
    if kind == "ai-title" and isinstance(entry.get("aiTitle"), str):
        return {"title": line(entry["aiTitle"]), "named": TitleSource.BY_A_MODEL}
    cost = entry.get("totalCostUSD")
    if kind == "cost-state" and isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0:
        return {"cost_usd": float(cost)}
    return {}


def _of_message(session_id: str, kind: str, entry: Entry, place: str) -> ConversationPart:
    body = entry.get("message")
    if not isinstance(body, dict):
        raise UnknownFormatError(f"a {kind!r} entry without a message")
    blocks = _blocks(cast(Entry, body).get("content"))
    time = moment(entry.get("timestamp"))
    said = _text(blocks)
    if entry.get("isCompactSummary") is True:
        return ConversationAddition(_session(session_id, summary=line(said, _MOST_SUMMARY), updated_at=time))
    if entry.get("isMeta") is True:
        return NothingKept()
    spoken = ConversationMessage(
        role=cast(Role, kind), text=said, id=_id(entry, place), time=time, thread=_thread(entry)
    )
    messages = list(_messages(spoken, blocks))
    if not messages:
        return NothingKept()
    return ConversationAddition(
        _session(session_id, created_at=time, updated_at=time, messages=tuple(messages))
    )


def _session(session_id: str, **told: Any) -> Conversation:
    return Conversation(session_id=line(session_id), channel=CHANNEL, **told)


def _messages(spoken: ConversationMessage, blocks: Sequence[Entry]) -> Iterable[ConversationMessage]:
    """What was said, with the tool calls in it, and each result of a tool as a message of its own."""
    tools = tuple(_call(block) for block in blocks if block.get("type") == "tool_use")
    if spoken.text or tools:
        yield replace(spoken, tools=tools)
    given = (block for block in blocks if block.get("type") == "tool_result")
    for number, block in enumerate(given):
        text = _text(_blocks(block.get("content")))
        if text:
            yield replace(spoken, role="tool", text=text, id=f"{spoken.id}/{number}")


def _call(block: Entry) -> CalledTool:
    name, given = block.get("name"), block.get("input")
    arguments = "" if given is None else msgspec.json.encode(given).decode()
    return CalledTool(line(name) if isinstance(name, str) else "?", tidy(arguments, MOST_ARGUMENTS))


def _blocks(content: object) -> list[Entry]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list):
        return [cast(Entry, block) for block in cast(list[Any], content) if isinstance(block, dict)]
    return []


def _text(blocks: Iterable[Entry]) -> str:
    texts = [block["text"] for block in blocks if block.get("type") == "text" and _is_text(block.get("text"))]
    joined = "\n\n".join(texts)[: MOST_TEXT * 2]
    return tidy(_ITS_OWN.sub("", joined).strip())


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _id(entry: Entry, place: str) -> str:
    own = entry.get("uuid")
    return line(own) if isinstance(own, str) and own.strip() else place


def _thread(entry: Entry) -> str:
    if entry.get("isSidechain") is not True:
        return ""
    agent = entry.get("agentId")
    return line(agent) if isinstance(agent, str) and agent.strip() else "sub-agent"
