"""The results of the tools and resources: structs, the text beside them, excerpts and transcripts.

An excerpt is cut between words around the hit; a transcript is a conversation as Markdown, page by page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from msgspec import Struct

from ...kit.schema.annotations import schema_name
from .model import StoredConversation, StoredMessage, line
from .stores.queries import ConversationHit, Turn
from .texts import ConversationTexts
from .words import finders, plain


class FoundSession(Struct):
    session_id: str
    title: str
    created_at: str
    updated_at: str
    message_count: int
    channel: str
    excerpt: str


class FoundSessions(Struct):
    count: int
    sessions: list[FoundSession]


class RecentSession(Struct):
    session_id: str
    title: str
    created_at: str
    message_count: int
    cost_usd: float | None
    summary: str
    topics: list[str]


class RecentSessions(Struct):
    count: int
    sessions: list[RecentSession]


@schema_name("AlikeTurn")
class SimilarTurn(Struct):
    session_id: str
    title: str
    created_at: str
    similarity: float | None
    user_content: str
    assistant_summary: str


@schema_name("AlikeTurns")
class SimilarTurns(Struct):
    count: int
    fallback_used: bool
    results: list[SimilarTurn]


LENGTH = 300
_BEFORE = 100
_LONGEST_WORD = 40


def excerpt(text: str, wanted: Sequence[str], length: int = LENGTH) -> str:
    """Returns about `length` characters around the first hit, with ** on both sides of each hit.

    Cuts between words and marks cuts with dots. Without a hit it is the beginning of the text.
    """
    folded = plain(text) if wanted else ""
    look = _finder(folded, wanted)
    hit = look.search(folded) if look else None
    start, end = _window(text, hit.start() if hit else 0, length)
    hits = [found.span() for found in look.finditer(folded, start, end)] if look else []
    shown = " ".join(_marked(text, hits, start, end).split())
    return ("…" if start > 0 else "") + shown + ("…" if end < len(text) else "")


def has(text: str, wanted: Sequence[str]) -> bool:
    return _finder(plain(text), wanted) is not None


def _finder(folded: str, wanted: Sequence[str]) -> re.Pattern[str] | None:
    """Like the search: whole words first, then prefixes."""
    return next((look for look in finders(wanted) if look.search(folded)), None) if wanted else None


def _window(text: str, first: int, length: int) -> tuple[int, int]:
    start = max(0, min(first - _BEFORE, len(text) - length))
    end = min(len(text), start + length)
    if start > 0:
        start = _next_word(text, start, first)
    if end < len(text):
        end = _previous_word(text, end, max(first, start))
    return start, end


def _next_word(text: str, start: int, most: int) -> int:
    if text[start - 1].isspace():
        return start
    for place in range(start, min(most, start + _LONGEST_WORD)):
        if text[place].isspace():
            return place + 1
    return start


def _previous_word(text: str, end: int, least: int) -> int:
    if text[end].isspace():
        return end
    for place in range(end, max(least + 1, end - _LONGEST_WORD), -1):
        if text[place - 1].isspace():
            return place - 1
    return end


def _marked(text: str, hits: Sequence[tuple[int, int]], start: int, end: int) -> str:
    pieces: list[str] = []
    done = start
    for first, last in hits:
        pieces += [text[done:first], "**", text[first:last], "**"]
        done = last
    return "".join([*pieces, text[done:end]])


PAGE_CHARACTERS = 30_000
"""Approximate number of characters on a page."""
MAX_MESSAGE = 10_000
"""Characters shown of one message."""


def pages(lengths: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The ids of the messages on each page; at least one page."""
    found: list[list[int]] = [[]]
    room = PAGE_CHARACTERS
    for key, length in lengths:
        length = min(length, MAX_MESSAGE)
        if length > room and found[-1]:
            found.append([])
            room = PAGE_CHARACTERS
        found[-1].append(key)
        room -= length
    return found


def markdown(
    conversation: StoredConversation,
    messages: Sequence[StoredMessage],
    page: int,
    count: int,
    texts: ConversationTexts,
) -> str:
    about = [
        conversation.channel,
        conversation.created_at,
        texts.messages.format(count=conversation.message_count),
    ]
    lines = [f"# {conversation.title or texts.untitled}", "", " · ".join(part for part in about if part)]
    if count > 1:
        lines += ["", texts.page.format(page=page, pages=count)]
    thread = ""
    for message in messages:
        if message.thread != thread:
            thread = message.thread
            lines += ["", f"# {texts.thread.format(thread=thread)}"]
        lines += ["", *_message(message, texts)]
    if page < count:
        lines += ["", texts.next_page.format(uri=uri_of(conversation.session_id, page + 1))]
    return "\n".join(lines) + "\n"


def uri_of(session_id: str, page: int = 1) -> str:
    address = f"sessions://{quote(session_id, safe='')}"
    return address if page == 1 else f"{address}/{page}"


def _message(message: StoredMessage, texts: ConversationTexts) -> list[str]:
    who = texts.roles.get(message.role, message.role)
    lines = [f"## {who}" + (f" · {message.time}" if message.time else "")]
    if message.text:
        lines += ["", _cut(message.text)]
    if message.tools:
        lines += ["", *(f"- `{_cut(call).replace('`', chr(39))}`" for call in message.tools.split("\n"))]
    return lines


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"


_SUMMARY = 200


def found_answer(hits: Sequence[ConversationHit], terms: Sequence[str]) -> FoundSessions:
    sessions = [
        FoundSession(
            session_id=hit.conversation.session_id,
            title=hit.conversation.title,
            created_at=hit.conversation.created_at,
            updated_at=hit.conversation.updated_at,
            message_count=hit.conversation.message_count,
            channel=hit.conversation.channel,
            excerpt=_excerpt(hit.message, terms),
        )
        for hit in hits
    ]
    return FoundSessions(len(sessions), sessions)


def recent_answer(kept: Sequence[StoredConversation]) -> RecentSessions:
    sessions = [
        RecentSession(
            session_id=conversation.session_id,
            title=conversation.title,
            created_at=conversation.created_at,
            message_count=conversation.message_count,
            cost_usd=None if conversation.cost_usd is None else round(conversation.cost_usd, 6),
            summary=conversation.summary,
            topics=list(conversation.topics),
        )
        for conversation in kept
    ]
    return RecentSessions(len(sessions), sessions)


def similar_answer(turns: Sequence[tuple[Turn, float]]) -> SimilarTurns:
    results = [_similar_turn(turn, min(1.0, round(similarity, 4))) for turn, similarity in turns]
    return SimilarTurns(len(results), False, results)


def similar_by_words(hits: Sequence[ConversationHit], terms: Sequence[str]) -> SimilarTurns:
    results: list[SimilarTurn] = []
    for hit in hits:
        shown = _excerpt(hit.message, terms)
        by_assistant = hit.message.role == "assistant"
        results.append(
            SimilarTurn(
                session_id=hit.conversation.session_id,
                title=hit.conversation.title,
                created_at=hit.conversation.created_at,
                similarity=None,
                user_content="" if by_assistant else shown,
                assistant_summary=shown if by_assistant else "",
            )
        )
    return SimilarTurns(len(results), True, results)


def _similar_turn(turn: Turn, similarity: float) -> SimilarTurn:
    requests = [one.text for one in turn.messages if one.role == "user"]
    answered = [one.text for one in turn.messages if one.role == "assistant"]
    return SimilarTurn(
        session_id=turn.conversation.session_id,
        title=turn.conversation.title,
        created_at=turn.conversation.created_at,
        similarity=similarity,
        user_content=line(requests[0], LENGTH) if requests else "",
        # An agent's last message sums up what it did; earlier ones announce what it will do.
        assistant_summary=line(answered[-1], LENGTH) if answered else "",
    )


def _excerpt(message: StoredMessage, terms: Sequence[str]) -> str:
    in_tools = message.tools and not has(message.text, terms)
    return excerpt(message.tools if in_tools else message.text, terms)


def found_text(answer: FoundSessions, query: str, texts: ConversationTexts) -> str:
    if not answer.count:
        return texts.none_found.format(query=query)
    items: list[list[str]] = []
    for item in answer.sessions:
        about = [item.updated_at, texts.messages.format(count=item.message_count)]
        items.append([*_item(item.title, about, item.session_id, texts), f"  {item.excerpt}"])
    return _listed(texts.found.format(count=answer.count, query=query), items)


def recent_text(answer: RecentSessions, texts: ConversationTexts) -> str:
    if not answer.count:
        return texts.none_yet
    items: list[list[str]] = []
    for item in answer.sessions:
        about = [item.created_at, texts.messages.format(count=item.message_count)]
        summary = [f"  {line(item.summary, _SUMMARY)}"] if item.summary else []
        items.append([*_item(item.title, about, item.session_id, texts), *summary])
    return _listed(texts.recent.format(count=answer.count), items)


def similar_text(answer: SimilarTurns, query: str, texts: ConversationTexts) -> str:
    if not answer.count:
        return texts.fallback_none.format(query=query)
    heading = texts.fallback if answer.fallback_used else texts.similar
    items: list[list[str]] = []
    for item in answer.results:
        near = [] if item.similarity is None else [texts.similarity.format(similarity=item.similarity)]
        lines = _item(item.title, [item.created_at, *near], item.session_id, texts)
        parts = (("user", item.user_content), ("assistant", item.assistant_summary))
        lines += [f"  {texts.roles[role]}: {text}" for role, text in parts if text]
        items.append(lines)
    return _listed(heading.format(count=answer.count, query=query), items)


def _item(title: str, about: Sequence[str], session_id: str, texts: ConversationTexts) -> list[str]:
    details = " · ".join([*(part for part in about if part), texts.whole.format(uri=uri_of(session_id))])
    return [f"- {title or texts.untitled}", f"  {details}"]


def _listed(heading: str, items: Sequence[Sequence[str]]) -> str:
    return "\n".join([heading, *(line for item in items for line in item)])
