"""From what was found to what is answered: the typed answer, and beside it a text that reads well."""

from __future__ import annotations

from collections.abc import Sequence

from .answers import (
    AlikeTurn,
    AlikeTurns,
    FoundSession,
    FoundSessions,
    RecentSession,
    RecentSessions,
)
from .excerpt import LENGTH, excerpt, has
from .model import Kept, Said, line
from .stores.finding import Turn
from .stores.matching import Hit
from .texts import Texts
from .transcript import uri_of

_SUMMARY = 200


def found(hits: Sequence[Hit], asked: Sequence[str]) -> FoundSessions:
    sessions = [
        FoundSession(
            session_id=hit.session.session_id,
            title=hit.session.title,
            created_at=hit.session.created_at,
            updated_at=hit.session.updated_at,
            message_count=hit.session.message_count,
            channel=hit.session.channel,
            excerpt=_excerpt(hit.message, asked),
        )
        for hit in hits
    ]
    return FoundSessions(len(sessions), sessions)


def recent(kept: Sequence[Kept]) -> RecentSessions:
    sessions = [
        RecentSession(
            session_id=session.session_id,
            title=session.title,
            created_at=session.created_at,
            message_count=session.message_count,
            cost_usd=None if session.cost_usd is None else round(session.cost_usd, 6),
            summary=session.summary,
            topics=list(session.topics),
        )
        for session in kept
    ]
    return RecentSessions(len(sessions), sessions)


def alike(turns: Sequence[tuple[Turn, float]]) -> AlikeTurns:
    results = [_alike(turn, min(1.0, round(similarity, 4))) for turn, similarity in turns]
    return AlikeTurns(len(results), False, results)


def alike_by_words(hits: Sequence[Hit], asked: Sequence[str]) -> AlikeTurns:
    results: list[AlikeTurn] = []
    for hit in hits:
        shown = _excerpt(hit.message, asked)
        by_assistant = hit.message.role == "assistant"
        results.append(
            AlikeTurn(
                session_id=hit.session.session_id,
                title=hit.session.title,
                created_at=hit.session.created_at,
                similarity=None,
                user_content="" if by_assistant else shown,
                assistant_summary=shown if by_assistant else "",
            )
        )
    return AlikeTurns(len(results), True, results)


def _alike(turn: Turn, similarity: float) -> AlikeTurn:
    asked = [said.text for said in turn.said if said.role == "user"]
    answered = [said.text for said in turn.said if said.role == "assistant"]
    return AlikeTurn(
        session_id=turn.session.session_id,
        title=turn.session.title,
        created_at=turn.session.created_at,
        similarity=similarity,
        user_content=line(asked[0], LENGTH) if asked else "",
        # What an agent says last sums up what it did; before that it tells what it is about to do.
        assistant_summary=line(answered[-1], LENGTH) if answered else "",
    )


def _excerpt(message: Said, asked: Sequence[str]) -> str:
    in_tools = message.tools and not has(message.text, asked)
    return excerpt(message.tools if in_tools else message.text, asked)


# As text


def found_text(answer: FoundSessions, query: str, texts: Texts) -> str:
    if not answer.count:
        return texts.none_found.format(query=query)
    items: list[list[str]] = []
    for item in answer.sessions:
        about = [item.updated_at, texts.messages.format(count=item.message_count)]
        items.append([*_item(item.title, about, item.session_id, texts), f"  {item.excerpt}"])
    return _listed(texts.found.format(count=answer.count, query=query), items)


def recent_text(answer: RecentSessions, texts: Texts) -> str:
    if not answer.count:
        return texts.none_yet
    items: list[list[str]] = []
    for item in answer.sessions:
        about = [item.created_at, texts.messages.format(count=item.message_count)]
        summary = [f"  {line(item.summary, _SUMMARY)}"] if item.summary else []
        items.append([*_item(item.title, about, item.session_id, texts), *summary])
    return _listed(texts.recent.format(count=answer.count), items)


def alike_text(answer: AlikeTurns, query: str, texts: Texts) -> str:
    if not answer.count:
        return texts.fallback_none.format(query=query)
    heading = texts.fallback if answer.fallback_used else texts.alike
    items: list[list[str]] = []
    for item in answer.results:
        near = [] if item.similarity is None else [texts.similarity.format(similarity=item.similarity)]
        lines = _item(item.title, [item.created_at, *near], item.session_id, texts)
        said = (("user", item.user_content), ("assistant", item.assistant_summary))
        lines += [f"  {texts.roles[role]}: {text}" for role, text in said if text]
        items.append(lines)
    return _listed(heading.format(count=answer.count, query=query), items)


def _item(title: str, about: Sequence[str], session_id: str, texts: Texts) -> list[str]:
    told = " · ".join([*(part for part in about if part), texts.whole.format(uri=uri_of(session_id))])
    return [f"- {title or texts.untitled}", f"  {told}"]


def _listed(heading: str, items: Sequence[Sequence[str]]) -> str:
    return "\n".join([heading, *(line for item in items for line in item)])
