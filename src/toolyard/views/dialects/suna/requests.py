"""The arguments of Suna's tools: its own forms, and those of the fork, `queries` with a session."""

from typing import Annotated, Any

from msgspec import Meta, Struct

NonEmptyText = Annotated[str, Meta(min_length=1)]
Limit = Annotated[int, Meta(ge=1, le=100)]


class SunaQuery(Struct):
    """A query of the fork: `use_case` (also called `query` or `text`) and filters."""

    use_case: str = ""
    query: str = ""
    text: str = ""
    category: str = ""
    app_slug: str = ""
    toolkit_slug: str = ""
    known_fields: str = ""
    filters: dict[str, Any] = {}

    def __post_init__(self) -> None:
        self.use_case = self.use_case or self.query or self.text
        self.app_slug = self.app_slug or self.toolkit_slug
        self.category = self.category or str(self.filters.get("category") or "")
        if not self.use_case:
            raise ValueError("each of `queries` needs a `use_case`")


class SearchServersRequest(Struct):
    queries: Annotated[list[SunaQuery], Meta(min_length=1)] | None = None
    session: Any = None
    query: str = ""
    category: str = ""
    limit: Limit = 10

    def __post_init__(self) -> None:
        if self.queries is None and not self.query and not self.category:
            raise ValueError("neither `queries` nor `query` is given")


class SearchForAgentRequest(SearchServersRequest):
    search_query: str = ""

    def __post_init__(self) -> None:
        self.query = self.query or self.search_query
        SearchServersRequest.__post_init__(self)


class ToolkitDetailsRequest(Struct):
    toolkit_slug: NonEmptyText


class ListProfilesRequest(Struct):
    toolkit_slug: str = ""


class CreateProfileRequest(Struct):
    toolkit_slug: NonEmptyText
    profile_name: NonEmptyText
    display_name: str = ""


class ProfileRequest(Struct):
    """Names a profile by its id or its name; versions of Suna differ in which they send."""

    profile_id: str = ""
    profile_name: str = ""

    def __post_init__(self) -> None:
        if not self.profile_id and not self.profile_name:
            raise ValueError("neither `profile_id` nor `profile_name` is given")


class ConfigureProfileRequest(ProfileRequest):
    enabled_tools: Annotated[list[str], Meta(min_length=1)] = []
    display_name: str = ""
    agent_id: str = ""

    def __post_init__(self) -> None:
        ProfileRequest.__post_init__(self)
        if not self.enabled_tools:
            raise ValueError("`enabled_tools` is empty or missing")
