"""The arguments of Composio's meta tools."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

SlugList = Annotated[list[str], Meta(min_length=1)]


class UseCase(Struct):
    use_case: Annotated[str, Meta(min_length=1)]
    known_fields: str = ""


class SearchToolsRequest(Struct):
    queries: Annotated[list[UseCase], Meta(min_length=1)] = []
    session: Any = None
    session_id: str = ""
    limit: int | None = None

    def __post_init__(self) -> None:
        if not self.queries:
            raise ValueError("`queries` is empty or missing")


class ToolSchemasRequest(Struct):
    tool_slugs: SlugList
    session_id: str = ""


class ExecuteStep(Struct):
    tool_slug: str
    arguments: dict[str, Any] = {}


class MultiExecuteRequest(Struct):
    tools: Annotated[list[ExecuteStep], Meta(min_length=1, max_length=50)]
    session_id: str = ""


class ExecuteRequest(Struct):
    tool_slug: str
    arguments: dict[str, Any] = {}
    allow_destructive: bool = False
    session_id: str = ""


class ManagedToolkit(Struct):
    """An app, and what to do about its account."""

    name: str
    action: str = "add"
    alias: str = ""
    account_id: str = ""


class ManageConnectionsRequest(Struct):
    toolkits: Annotated[list[str | ManagedToolkit], Meta(min_length=1)]
    reinitiate_all: bool = False
    specify_custom_auth: dict[str, dict[str, Any]] = {}
    session_id: str = ""


class WaitForConnectionsRequest(Struct):
    toolkits: SlugList
    mode: Literal["any", "all"] = "all"
    timeout_seconds: Annotated[float, Meta(ge=0, le=600)] = 300.0
    session_id: str = ""


class ListToolkitsRequest(Struct):
    category: str = ""
    name_filter: str = ""
    min_tools: int = 0
    no_auth_only: bool = False
    size: Annotated[int, Meta(ge=1, le=1000)] = 10


class InitiateConnectionRequest(Struct):
    toolkit: str
    parameters: dict[str, Any] = {}


class RequiredParametersRequest(Struct):
    toolkit: str


class CreatePlanRequest(Struct):
    use_case: str
    primary_tool_slugs: SlugList
    related_tool_slugs: list[str] = []
    difficulty: str = ""
    reasoning: str = ""
    known_fields: str = ""
    session_id: str = ""
