"""`build`: a table and settings become a server of the kit."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from .. import __version__
from ..kit import CallerKeys, Server
from ..kit.features.base import ToolOptions
from ..kit.loader import SettingsError
from ..kit.localization import Locale
from ..kit.schema.validation import TrustedOutputSchema, TrustedSchema
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
    """What any server that is a table can be told; each adds its own, which parameters name as `setting`."""

    api_key: str = ""
    """Our own key for the API. Callers over HTTP may bring theirs."""
    base_url: str = ""
    """In the place of the table's."""
    locale: Locale = "en"
    verbosity: Literal["rich", "compact"] = "rich"
    require_caller_key: bool = False
    """Never use our own key for anybody."""
    gate: bool = True
    """Ask the API about callers who bring a key, where the table says how."""
    timeout: float = 0.0
    """Seconds for one request, in the place of the table's."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"

    def __rich_repr__(self) -> Any:
        for field in fields(self):
            value = getattr(self, field.name)
            yield field.name, HIDDEN if field.name == "api_key" and value else value


def build(
    table: ApiDefinition,
    settings: RestSettings,
    *,
    prepare: Mapping[str, Prepare] | None = None,
    finish: Mapping[str, Finish] | None = None,
) -> Server:
    """A server with the tools of the table. `prepare` and `finish`: steps of its own, by names of tools."""
    said = texts_for(settings.locale)
    api = RestApi(table, RestClient(_origin(table, settings)), said, settings.timeout)
    keyring = Keyring(table.auth, settings.api_key, settings.require_caller_key, said)
    gate = CallerGate(table.gate, table, api) if table.gate is not None and settings.gate else None
    server = Server(
        table.name,
        version=__version__,
        title=table.title or None,
        instructions=table.instructions or None,
        website_url=table.website or None,
        caller_keys=_caller_keys(table, keyring, settings, gate),
        # All on one page: many clients, and people with curl, do not ask for a second one.
        page_size=max(1, len(table.tools)),
    )
    own = (prepare or {}, finish or {})
    engine = RestEngine(api, keyring, Defaults(settings), Lookups(table, said), settings.verbosity, *own)
    for name, tool in table.tools.items():
        plan = ToolPlan(name, tool, table)
        # What we make ourselves fits; what an API or a server's own step says is held against the schema.
        schema = tool.output or output_schema(plan, said)
        output = (
            TrustedSchema(schema) if tool.output or name in engine.finish else TrustedOutputSchema(schema)
        )
        server.add_tool(engine.function(plan), **_options(plan, said, output))
    if gate is not None and any(tool.flag for tool in table.tools.values()):
        server.show_tools(gate.viewer(keyring))
    server.on_close(api.client.close)
    return server


def _origin(table: ApiDefinition, settings: RestSettings) -> ApiOrigin:
    try:
        return ApiOrigin.parse(settings.base_url or table.base_url)
    except BaseUrlError as error:
        raise SettingsError(str(error)) from None


def _caller_keys(
    table: ApiDefinition, keyring: Keyring, settings: RestSettings, gate: CallerGate | None
) -> CallerKeys | None:
    if table.auth.kind == "none" or not table.auth.caller:
        return None
    return CallerKeys(
        headers=table.auth.caller,
        required=keyring.own is None or settings.require_caller_key,
        admit=None if gate is None else gate.admit,
    )


def _options(plan: ToolPlan, said: RestTexts, output: TrustedSchema) -> ToolOptions:
    tool = plan.tool
    return {
        "name": plan.name,
        "title": tool.title or None,
        "description": tool.description,
        "input_schema": TrustedSchema(input_schema(plan, said)),
        "output_schema": output,
        "open_world": True,
        **_nature(tool),
    }


def _nature(tool: ToolDefinition) -> ToolOptions:
    """What the table says of it, or else what its method means."""
    reads = tool.method == "GET" if tool.read_only is None else tool.read_only
    if reads:
        return {"read_only": True, "destructive": False, "idempotent": True}
    destroys = tool.method == "DELETE" if tool.destructive is None else tool.destructive
    repeats = tool.method in ("PUT", "DELETE") if tool.idempotent is None else tool.idempotent
    return {"read_only": False, "destructive": destroys, "idempotent": repeats}
