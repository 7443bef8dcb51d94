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
    MAX_ARGUMENTS,
    MAX_TEXT,
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
# Claude Code's own additions to a person's message, for commands and reminders.
_CLIENT_MARKUP = re.compile(
    r"<(command-name|command-message|command-args|command-contents|local-command-stdout|local-command-stderr|"
    r"local-command-caveat|system-reminder|user-prompt-submit-hook)>.*?</\1>",
    re.DOTALL,
)
_MAX_SUMMARY = 1_000

Entry = Mapping[str, Any]


def is_entry(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("type"), str) and ("sessionId" in value or value["type"] == "summary")


def read_entry(entry: Entry, place: str) -> ConversationPart:
    """`place` is the id of an entry without one."""
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
    facts = _conversation_facts(entry)
    return ConversationAddition(_conversation(session_id, **facts)) if facts else NothingKept()


def _conversation_facts(entry: Entry) -> dict[str, Any]:
    """Facts about the conversation as a whole."""
    kind = entry["type"]
    if kind == "custom-title" and isinstance(entry.get("customTitle"), str):
        return {"title": line(entry["customTitle"]), "title_source": TitleSource.BY_A_PERSON}
    if kind == "ai-title" and isinstance(entry.get("aiTitle"), str):
        return {"title": line(entry["aiTitle"]), "title_source": TitleSource.BY_A_MODEL}
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
    text = _text(blocks)
    if entry.get("isCompactSummary") is True:
        summary = line(text, _MAX_SUMMARY)
        return ConversationAddition(_conversation(session_id, summary=summary, updated_at=time))
    if entry.get("isMeta") is True:
        return NothingKept()
    message = ConversationMessage(
        role=cast(Role, kind), text=text, id=_id(entry, place), time=time, thread=_thread(entry)
    )
    messages = list(_messages(message, blocks))
    if not messages:
        return NothingKept()
    return ConversationAddition(
        _conversation(session_id, created_at=time, updated_at=time, messages=tuple(messages))
    )


def _conversation(session_id: str, **facts: Any) -> Conversation:
    return Conversation(session_id=line(session_id), channel=CHANNEL, **facts)


def _messages(message: ConversationMessage, blocks: Sequence[Entry]) -> Iterable[ConversationMessage]:
    """The message with its tool calls, and each tool result as a message of its own."""
    tools = tuple(_call(block) for block in blocks if block.get("type") == "tool_use")
    if message.text or tools:
        yield replace(message, tools=tools)
    results = (block for block in blocks if block.get("type") == "tool_result")
    for number, block in enumerate(results):
        text = _text(_blocks(block.get("content")))
        if text:
            yield replace(message, role="tool", text=text, id=f"{message.id}/{number}")


def _call(block: Entry) -> CalledTool:
    name, given = block.get("name"), block.get("input")
    arguments = "" if given is None else msgspec.json.encode(given).decode()
    return CalledTool(line(name) if isinstance(name, str) else "?", tidy(arguments, MAX_ARGUMENTS))


def _blocks(content: object) -> list[Entry]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list):
        return [cast(Entry, block) for block in cast(list[Any], content) if isinstance(block, dict)]
    return []


def _text(blocks: Iterable[Entry]) -> str:
    texts = [block["text"] for block in blocks if block.get("type") == "text" and _is_text(block.get("text"))]
    joined = "\n\n".join(texts)[: MAX_TEXT * 2]
    return tidy(_CLIENT_MARKUP.sub("", joined).strip())


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
