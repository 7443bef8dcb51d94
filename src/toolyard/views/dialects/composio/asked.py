"""The arguments of Composio's meta tools, as they come."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Slugs = Annotated[list[str], Meta(min_length=1)]


class UseCase(Struct):
    use_case: Annotated[str, Meta(min_length=1)]
    known_fields: str = ""


class Search(Struct):
    queries: Annotated[list[UseCase], Meta(min_length=1)] = []
    session: Any = None
    session_id: str = ""
    limit: int | None = None
    use_case: str = ""
    """The oldest form: one query, not in a list."""
    known_fields: str = ""

    def __post_init__(self) -> None:
        if not self.queries and self.use_case:
            self.queries = [UseCase(self.use_case, self.known_fields)]
        if not self.queries:
            raise ValueError("`queries` is empty or missing")


class Schemas(Struct):
    tool_slugs: Slugs
    session_id: str = ""


class Step(Struct):
    tool_slug: str
    arguments: dict[str, Any] = {}


class MultiExecute(Struct):
    tools: Annotated[list[Step], Meta(min_length=1, max_length=50)]
    session_id: str = ""


class Execute(Struct):
    tool_slug: str
    arguments: dict[str, Any] = {}
    allow_destructive: bool = False
    session_id: str = ""


class Wanted(Struct):
    """An app, and what to do about its account."""

    name: str
    action: str = "add"
    alias: str = ""
    account_id: str = ""


class Manage(Struct):
    toolkits: Annotated[list[str | Wanted], Meta(min_length=1)]
    reinitiate_all: bool = False
    specify_custom_auth: dict[str, dict[str, Any]] = {}
    session_id: str = ""


class Wait(Struct):
    toolkits: Slugs
    mode: Literal["any", "all"] = "all"
    timeout_seconds: Annotated[float, Meta(ge=0, le=600)] = 300.0
    session_id: str = ""


class ListToolkits(Struct):
    category: str = ""
    name_filter: str = ""
    min_tools: int = 0
    no_auth_only: bool = False
    size: Annotated[int, Meta(ge=1, le=1000)] = 10


class Initiate(Struct):
    toolkit: str
    parameters: dict[str, Any] = {}


class Required(Struct):
    toolkit: str


class Plan(Struct):
    use_case: str
    primary_tool_slugs: Slugs
    related_tool_slugs: list[str] = []
    difficulty: str = ""
    reasoning: str = ""
    known_fields: str = ""
    session_id: str = ""
