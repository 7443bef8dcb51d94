"""What is asked of Composio and what it answers, as the rest of Toolyard sees it."""

from typing import Any

from msgspec import Raw, Struct


class Question(Struct, frozen=True):
    """One thing to search tools for."""

    use_case: str
    known_fields: str = ""
    category: str = ""


class Session(Struct, frozen=True):
    id: str
    mcp_url: str = ""
    """Empty when it has none."""
    api: str = "v3.1"
    ttl: float | None = None


class FoundTool(Struct, frozen=True):
    """A tool that its search found."""

    slug: str
    toolkit: str
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    primary: bool = False


class Account(Struct, frozen=True):
    """How it stands with a user's account of an app."""

    toolkit: str
    status: str
    """`active`, `initiated`, `requires_parameters`, `failed` or `none`."""
    id: str = ""
    link: str = ""
    message: str = ""
    required: tuple[str, ...] = ()
    needs_none: bool = False
    """The app works without an account."""


class Answer(Struct, frozen=True):
    """To a search: the tools for each question, best first, or the apps where it knows nothing finer."""

    tools: tuple[tuple[FoundTool, ...], ...]
    accounts: dict[str, Account] = {}
    """By app."""
    guidance: tuple[str, ...] = ()


class ToolRecord(Struct, frozen=True):
    """A tool as the list of all tools has it."""

    slug: str
    toolkit: str
    name: str = ""
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    no_auth: bool = False
    tags: tuple[str, ...] = ()


class ToolkitRecord(Struct, frozen=True):
    slug: str
    name: str
    description: str = ""
    logo: str = ""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    auth_schemes: tuple[str, ...] = ()
    managed_auth_schemes: tuple[str, ...] = ()


class Executed(Struct, frozen=True):
    """What became of a tool: what it gave, and why it failed, if it did."""

    data: Raw = Raw(b"null")
    failure: str | None = None
