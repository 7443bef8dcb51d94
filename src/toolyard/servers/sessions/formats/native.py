"""The documented format `toolyard.sessions`: one object is one conversation, in a file or on a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ..model import (
    MAX_ARGUMENTS,
    CalledTool,
    Conversation,
    ConversationMessage,
    Role,
    TitleSource,
    line,
    moment,
    tidy,
)
from .parts import UnknownFormatError, WholeConversation

FORMAT = "toolyard.sessions"
_MAX_SUMMARY = 1_000
_MAX_TOPICS = 20


class ToolForm(Struct, kw_only=True):
    name: str
    arguments: Any = None


class MessageForm(Struct, kw_only=True):
    role: Role
    text: str = ""
    time: str | float | None = None
    tools: list[ToolForm] = []
    id: str = ""


class SessionForm(Struct, kw_only=True):
    """The argument of `record`, and the content of files. Unknown members are ignored."""

    format: Literal["toolyard.sessions"] = FORMAT
    session_id: Annotated[str, Meta(min_length=1)]
    title: str = ""
    channel: str = ""
    created_at: str | float | None = None
    updated_at: str | float | None = None
    cost_usd: Annotated[float, Meta(ge=0)] | None = None
    summary: str = ""
    topics: list[str] = []
    messages: list[MessageForm] = []


def is_own(value: Mapping[str, Any]) -> bool:
    return value.get("format") == FORMAT


def read_session(value: object) -> WholeConversation:
    """Raises UnknownFormatError with the member at fault."""
    try:
        return WholeConversation(session_of(msgspec.convert(value, SessionForm)))
    except msgspec.ValidationError as error:
        raise UnknownFormatError(str(error)) from None


def session_of(form: SessionForm) -> Conversation:
    messages = tuple(_message(message, at) for at, message in enumerate(form.messages))
    times = [message.time for message in messages if message.time]
    return Conversation(
        session_id=line(form.session_id),
        title=line(form.title),
        title_source=TitleSource.BY_A_PERSON if form.title.strip() else TitleSource.BY_FIRST_WORDS,
        channel=line(form.channel) or "toolyard",
        created_at=moment(form.created_at) or min(times, default=""),
        updated_at=moment(form.updated_at) or max(times, default=""),
        cost_usd=form.cost_usd,
        summary=line(form.summary, _MAX_SUMMARY),
        topics=tuple(line(topic) for topic in form.topics[:_MAX_TOPICS]),
        messages=messages,
    )


def _message(form: MessageForm, at: int) -> ConversationMessage:
    return ConversationMessage(
        role=form.role,
        text=tidy(form.text.strip()),
        time=moment(form.time),
        tools=tuple(CalledTool(line(tool.name), _arguments(tool.arguments)) for tool in form.tools),
        # With the position: two messages with the same id in one file are different messages.
        id=f"{at}:{line(form.id)}",
    )


def _arguments(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return tidy(text, MAX_ARGUMENTS)
