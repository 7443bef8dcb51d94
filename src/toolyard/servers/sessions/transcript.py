"""A whole conversation as Markdown, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from .model import Kept, Said
from .texts import Texts

PAGE = 30_000
"""Characters on a page, about."""
MOST = 10_000
"""Characters shown of one message."""


def pages(lengths: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The ids of the messages on each page; one page at least."""
    found: list[list[int]] = [[]]
    room = PAGE
    for key, length in lengths:
        length = min(length, MOST)
        if length > room and found[-1]:
            found.append([])
            room = PAGE
        found[-1].append(key)
        room -= length
    return found


def markdown(session: Kept, said: Sequence[Said], page: int, count: int, texts: Texts) -> str:
    about = [session.channel, session.created_at, texts.messages.format(count=session.message_count)]
    lines = [f"# {session.title or texts.untitled}", "", " · ".join(part for part in about if part)]
    if count > 1:
        lines += ["", texts.page.format(page=page, pages=count)]
    thread = ""
    for message in said:
        if message.thread != thread:
            thread = message.thread
            lines += ["", f"# {texts.thread.format(thread=thread)}"]
        lines += ["", *_message(message, texts)]
    if page < count:
        lines += ["", texts.next_page.format(uri=uri_of(session.session_id, page + 1))]
    return "\n".join(lines) + "\n"


def uri_of(session_id: str, page: int = 1) -> str:
    address = f"sessions://{quote(session_id, safe='')}"
    return address if page == 1 else f"{address}/{page}"


def _message(message: Said, texts: Texts) -> list[str]:
    who = texts.roles.get(message.role, message.role)
    lines = [f"## {who}" + (f" · {message.time}" if message.time else "")]
    if message.text:
        lines += ["", _cut(message.text)]
    if message.tools:
        lines += ["", *(f"- `{_cut(call).replace('`', chr(39))}`" for call in message.tools.split("\n"))]
    return lines


def _cut(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}…"
