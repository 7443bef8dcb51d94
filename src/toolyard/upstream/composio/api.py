"""The seam: what can be asked of Composio, whichever of its endpoints answer.

Everything is done once, with the key of the project. UpstreamError when it does not work; `is_over` says
whether that was for the session's sake.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from .records import Account, Answer, Executed, Question, Session, ToolkitRecord, ToolRecord


class Api(Protocol):
    @property
    def needs_session(self) -> bool:
        """Whether a tool can be executed in a session only."""
        ...

    async def begin(self, user: str) -> Session: ...

    async def search(
        self, session: Session | None, user: str, questions: Sequence[Question], limit: int
    ) -> Answer: ...

    async def execute(
        self, session: Session | None, user: str, slug: str, arguments: dict[str, Any]
    ) -> Executed: ...

    async def tools(self, slugs: Sequence[str]) -> list[ToolRecord]:
        """By their names; the unknown are left out."""
        ...

    async def tools_of(self, toolkit: str, limit: int) -> list[ToolRecord]: ...

    async def toolkits(self, text: str, category: str, limit: int) -> list[ToolkitRecord]: ...

    async def toolkit(self, slug: str) -> ToolkitRecord | None: ...

    async def accounts(self, session: Session | None, user: str, toolkits: Sequence[str]) -> list[Account]:
        """Of these apps, one each; without any, those that are connected."""
        ...

    async def link(
        self,
        session: Session | None,
        user: str,
        toolkit: str,
        callback_url: str,
        alias: str,
        fields: dict[str, Any] | None,
    ) -> Account: ...
