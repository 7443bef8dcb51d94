"""`build`: makes a server of the kit from a definition and settings."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields, replace

from .._version import __version__
from ..kit import CallerKeys, Server
from ..kit.features.base import ToolOptions
from ..kit.loader import SettingsError
from ..kit.schema.validation import TrustedOutputSchema, TrustedSchema
from ..languages import Locale
from .api import RestApi
from .definition.model import ApiDefinition, ToolDefinition
from .definition.plan import ToolPlan
from .definition.schemas import input_schema, output_schema
from .engine import Finish, Prepare, RestEngine
from .gate import CallerGate
from .http.client import ApiOrigin, BaseUrlError, RestClient
from .request.arguments import Defaults
from .request.auth import Keyring
from .request.lookups import Lookups
from .texts import RestTexts, texts_for

HIDDEN = "•••"


class RestSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of every REST server; a server may add its own, for `setting` of parameters."""

    api_key: str = ""
    """The server's own key for the API. Callers over HTTP may send theirs."""
    base_url: str = ""
    """Replaces that of the definition."""
    locale: Locale = "en"
    verbosity: Literal["rich", "compact"] = "rich"
    require_caller_key: bool = False
    """Never use the server's own key."""
    gate: bool = True
    """Ask the API about callers' keys, if the definition has a gate."""
    timeout: float = 0.0
    """Seconds for one request; replaces that of the definition."""
    tools: str | tuple[str, ...] = ()
    """Only these tools, by their names and groups, as a list or a text with commas; empty: all."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"

    def __rich_repr__(self) -> Any:
        for field in fields(self):
            value = getattr(self, field.name)
            yield field.name, HIDDEN if field.name == "api_key" and value else value


def build(
    definition: ApiDefinition,
    settings: RestSettings,
    *,
    prepare: Mapping[str, Prepare] | None = None,
    finish: Mapping[str, Finish] | None = None,
) -> Server:
    """A server with the tools of the definition. `prepare` and `finish` are its own steps, by tool."""
    definition = replace(definition, tools=_chosen(definition, settings.tools))
    texts = texts_for(settings.locale)
    api = RestApi(definition, RestClient(_origin(definition, settings)), texts, settings.timeout)
    keyring = Keyring(definition.auth, settings.api_key, settings.require_caller_key, texts)
    gate = (
        CallerGate(definition.gate, definition, api)
        if definition.gate is not None and settings.gate
        else None
    )
    server = Server(
        definition.name,
        version=__version__,
        locale=settings.locale,
        title=definition.title or None,
        instructions=definition.instructions or None,
        website_url=definition.website or None,
        caller_keys=_caller_keys(definition, keyring, settings, gate),
        # All tools on one page: many clients do not ask for a second one.
        page_size=max(1, len(definition.tools)),
    )
    engine = RestEngine(
        api,
        keyring,
        Defaults(settings),
        Lookups(definition, texts),
        settings.verbosity,
        prepare or {},
        finish or {},
        lambda: server.sealer,
    )
    for name, tool in definition.tools.items():
        plan = ToolPlan(name, tool, definition)
        # Our own results always fit; results of an API or a server's own step are checked.
        schema = tool.output or output_schema(plan, texts)
        output = (
            TrustedSchema(schema) if tool.output or name in engine.finish else TrustedOutputSchema(schema)
        )
        server.add_tool(engine.function(plan), **_options(plan, texts, output))
    if gate is not None and any(tool.flag for tool in definition.tools.values()):
        server.show_tools(gate.viewer(keyring))
    server.on_close(api.client.close)
    return server


def _chosen(definition: ApiDefinition, wanted: str | tuple[str, ...]) -> dict[str, ToolDefinition]:
    """The tools with one of these names or groups; all if none is given."""
    parts = wanted.split(",") if isinstance(wanted, str) else wanted
    names = {part.strip() for part in parts} - {""}
    groups = {group: None for tool in definition.tools.values() for group in tool.groups}
    for name in sorted(names - {*groups, *definition.tools}):
        from ..config.errors import nearest  # only a mistake needs it

        hint = nearest(name, [*groups, *definition.tools]) or f"groups: {', '.join(groups) or 'none'}"
        raise SettingsError(f"'tools': {definition.name!r} has no tool or group {name!r}; {hint}")
    chosen = {name: tool for name, tool in definition.tools.items() if names & {name, *tool.groups}}
    return chosen or definition.tools


def _origin(definition: ApiDefinition, settings: RestSettings) -> ApiOrigin:
    try:
        return ApiOrigin.parse(settings.base_url or definition.base_url)
    except BaseUrlError as error:
        raise SettingsError(str(error)) from None


def _caller_keys(
    definition: ApiDefinition, keyring: Keyring, settings: RestSettings, gate: CallerGate | None
) -> CallerKeys | None:
    if definition.auth.kind == "none" or not definition.auth.caller:
        return None
    return CallerKeys(
        headers=definition.auth.caller,
        required=keyring.own is None or settings.require_caller_key,
        admit=None if gate is None else gate.admit,
    )


def _options(plan: ToolPlan, texts: RestTexts, output: TrustedSchema) -> ToolOptions:
    tool = plan.tool
    return {
        "name": plan.name,
        "title": tool.title or None,
        "description": tool.description,
        "input_schema": TrustedSchema(input_schema(plan, texts)),
        "output_schema": output,
        "open_world": True,
        **_hints(tool),
    }


def _hints(tool: ToolDefinition) -> ToolOptions:
    """The hints of the definition, or else those of the method."""
    reads = tool.method == "GET" if tool.read_only is None else tool.read_only
    if reads:
        return {"read_only": True, "destructive": False, "idempotent": True}
    destroys = tool.method == "DELETE" if tool.destructive is None else tool.destructive
    repeats = tool.method in ("PUT", "DELETE") if tool.idempotent is None else tool.idempotent
    return {"read_only": False, "destructive": destroys, "idempotent": repeats}
