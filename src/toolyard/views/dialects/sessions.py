"""The `session` argument in the shapes that these systems give it."""

import uuid
from typing import Any, cast

from ...wire.call import Call
from ...wire.threads import thread_of

SESSION: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "generate_id": {"type": "boolean"}},
    "description": "{generate_id: true} to begin, {id} to go on",
}
SESSION_ID: dict[str, Any] = {"type": "string", "description": "The session id of the search"}


def session_named(call: Call, session: Any) -> str | None:
    """`{id}`, `{session_id}` or the id itself. None: the conversation's own.

    `{generate_id: true}` means that one too; only a caller whose conversation has no name is given a new one.
    """
    if isinstance(session, dict):
        members = cast(dict[str, Any], session)
        session = members.get("id") or members.get("session_id")
        if not session and members.get("generate_id") is True and not thread_of(call):
            return f"generated-{uuid.uuid4()}"
    return session if isinstance(session, str) and session else None
