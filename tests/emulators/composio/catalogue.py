"""What the emulated Composio offers: toolkits, their tools, and how a tool answers.

Owns the forms in which the API shows them. What each app does is in `apps/`.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .schemas import Schema, boolean, nullable, opened, text

if TYPE_CHECKING:
    from .world import Account, World

VERSION = "20260801_00"
SINCE = "2025-05-02T09:30:00.000Z"
HINTS = {
    "read": ("readOnlyHint", "idempotentHint", "openWorldHint"),
    "create": ("createHint", "openWorldHint"),
    "update": ("updateHint", "idempotentHint", "openWorldHint"),
    "delete": ("destructiveHint", "openWorldHint"),
}


@dataclass(frozen=True)
class Deed:
    """One execution: in whose name, with which account, on what."""

    world: "World"
    user: str
    account: "Account | None"
    arguments: dict[str, Any]
    session: str = ""
    """In which session, if in one."""


class ToolFailed(Exception):
    """The app behind the tool said no: the reply has `successful: false` and this text."""


Answer = Callable[[Deed], dict[str, Any] | Awaitable[dict[str, Any]]]


@dataclass(frozen=True)
class Tool:
    slug: str
    name: str
    description: str
    input: Schema
    answer: Answer
    data: Schema = field(default_factory=lambda: {"type": "object", "additionalProperties": True})
    effect: str = "read"
    important: bool = False
    is_deprecated: bool = False
    scopes: tuple[str, ...] = ()
    toolkit: str = ""

    @property
    def tags(self) -> list[str]:
        return [*(("important",) if self.important else ()), *HINTS[self.effect]]

    @property
    def output(self) -> Schema:
        return opened(
            data_=self.data,
            error=nullable(text("Why it failed; null when it did not.")),
            successful_=boolean("Whether the action was done."),
        )


@dataclass(frozen=True)
class Toolkit:
    slug: str
    name: str
    description: str
    categories: tuple[str, ...]
    tools: tuple[Tool, ...]
    schemes: tuple[str, ...] = ("OAUTH2",)
    """How an account is authorised; none at all for a toolkit that needs no account."""
    managed: bool = True
    """Composio brings its own OAuth app."""
    fields: tuple[str, ...] = ()
    """What the user types in where no OAuth page asks for it."""

    @property
    def no_auth(self) -> bool:
        return not self.schemes

    @property
    def managed_schemes(self) -> list[str]:
        return [scheme for scheme in self.schemes if scheme == "OAUTH2"] if self.managed else []

    @property
    def logo(self) -> str:
        return f"https://logos.composio.dev/api/{self.slug}"


class Catalogue:
    def __init__(self, toolkits: Iterable[Toolkit]) -> None:
        self.toolkits = {kit.slug: kit for kit in toolkits}
        named = [replace(tool, toolkit=kit.slug) for kit in self.toolkits.values() for tool in kit.tools]
        self.tools = {tool.slug: tool for tool in named}

    def kit_of(self, tool: Tool) -> Toolkit:
        return self.toolkits[tool.toolkit]

    def tool_shown(self, tool: Tool) -> dict[str, Any]:
        """A tool as `GET /tools` has it."""
        kit = self.kit_of(tool)
        return {
            "slug": tool.slug,
            "name": tool.name,
            "description": tool.description,
            "toolkit": {"slug": kit.slug, "name": kit.name, "logo": kit.logo},
            "input_parameters": tool.input,
            "output_parameters": tool.output,
            "no_auth": kit.no_auth,
            "available_versions": ["00000000_00", VERSION],
            "version": VERSION,
            "scopes": list(tool.scopes),
            "tags": tool.tags,
            "is_deprecated": tool.is_deprecated,
            "deprecated": {
                "displayName": tool.name,
                "version": VERSION,
                "available_versions": ["00000000_00", VERSION],
                "is_deprecated": tool.is_deprecated,
                "toolkit": {"logo": kit.logo},
            },
        }

    def toolkit_shown(self, kit: Toolkit) -> dict[str, Any]:
        """A toolkit as `GET /toolkits` has it."""
        return {
            "slug": kit.slug,
            "name": kit.name,
            "auth_schemes": list(kit.schemes) or ["NO_AUTH"],
            "composio_managed_auth_schemes": kit.managed_schemes,
            "is_local_toolkit": False,
            "no_auth": kit.no_auth,
            "type": "native",
            "deprecated": {"toolkitId": f"{kit.slug}-0001"},
            "meta": self._meta(kit)
            | {"categories": [{"id": category_id(name), "name": name} for name in kit.categories]},
        }

    def toolkit_details(self, kit: Toolkit) -> dict[str, Any]:
        """A toolkit as `GET /toolkits/{slug}` has it."""
        return {
            "slug": kit.slug,
            "name": kit.name,
            "enabled": True,
            "type": "native",
            "is_local_toolkit": False,
            "composio_managed_auth_schemes": kit.managed_schemes,
            "composio_managed_auth": [
                {"mode": scheme, "scopes": {"available": []}} for scheme in kit.managed_schemes
            ],
            "auth_config_details": [_details(kit, scheme) for scheme in kit.schemes],
            "deprecated": {"toolkitId": f"{kit.slug}-0001", "rawProxyInfoByAuthSchemes": []},
            "meta": self._meta(kit)
            | {
                "categories": [{"slug": category_id(name), "name": name} for name in kit.categories],
                "available_versions": ["00000000_00", VERSION],
            },
        }

    def _meta(self, kit: Toolkit) -> dict[str, Any]:
        return {
            "created_at": SINCE,
            "updated_at": SINCE,
            "description": kit.description,
            "logo": kit.logo,
            "app_url": f"https://{kit.slug}.example.com",
            "triggers_count": 0,
            "tools_count": sum(not tool.is_deprecated for tool in kit.tools),
            "version": VERSION,
        }


def category_id(name: str) -> str:
    return name.lower().replace(" ", "-")


def _details(kit: Toolkit, scheme: str) -> dict[str, Any]:
    asked = [
        {
            "name": name,
            "displayName": name.replace("_", " ").title(),
            "type": "string",
            "description": f"The {name.replace('_', ' ')} of the account.",
            "required": True,
            "user_visible": True,
            "is_secret": True,
        }
        for name in kit.fields
    ]
    return {
        "mode": scheme,
        "name": f"{kit.slug}_{scheme.lower()}",
        "required_scopes": [],
        "fields": {
            "auth_config_creation": {"required": [], "optional": []},
            "connected_account_initiation": {"required": asked, "optional": []},
        },
    }
