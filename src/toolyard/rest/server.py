"""`build`: a table and settings become a server of the kit."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from .. import __version__
from ..kit import CallerKeys, Server
from ..kit.languages import Locale
from ..kit.making import WrongSettings
from ..kit.options import ToolOptions
from ..kit.schema import Checked, Fitting
from .api import Api
from .arguments import Defaults
from .auth import Keyring
from .client import HttpClient
from .engine import Engine, Finish, Prepare
from .gate import Gatekeeper
from .lookups import Lookups
from .origin import Origin, WrongAddress
from .plan import Plan
from .schemas import input_schema, output_schema
from .table import Table, Tool
from .wording import Words, words

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
    table: Table,
    settings: RestSettings,
    *,
    prepare: Mapping[str, Prepare] | None = None,
    finish: Mapping[str, Finish] | None = None,
) -> Server:
    """A server with the tools of the table. `prepare` and `finish`: steps of its own, by names of tools."""
    said = words(settings.locale)
    api = Api(table, HttpClient(_origin(table, settings)), said, settings.timeout)
    keyring = Keyring(table.auth, settings.api_key, settings.require_caller_key, said)
    gate = Gatekeeper(table.gate, table, api) if table.gate is not None and settings.gate else None
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
    engine = Engine(api, keyring, Defaults(settings), Lookups(table, said), settings.verbosity, *own)
    for name, tool in table.tools.items():
        plan = Plan(name, tool, table)
        # What we make ourselves fits; what an API or a server's own step says is held against the schema.
        schema = tool.output or output_schema(plan, said)
        output = Checked(schema) if tool.output or name in engine.finish else Fitting(schema)
        server.add_tool(engine.function(plan), **_options(plan, said, output))
    if gate is not None and any(tool.flag for tool in table.tools.values()):
        server.show_tools(gate.viewer(keyring))
    server.on_close(api.client.close)
    return server


def _origin(table: Table, settings: RestSettings) -> Origin:
    try:
        return Origin.parse(settings.base_url or table.base_url)
    except WrongAddress as error:
        raise WrongSettings(str(error)) from None


def _caller_keys(
    table: Table, keyring: Keyring, settings: RestSettings, gate: Gatekeeper | None
) -> CallerKeys | None:
    if table.auth.kind == "none" or not table.auth.caller:
        return None
    return CallerKeys(
        headers=table.auth.caller,
        required=keyring.own is None or settings.require_caller_key,
        admit=None if gate is None else gate.admit,
    )


def _options(plan: Plan, said: Words, output: Checked) -> ToolOptions:
    tool = plan.tool
    return {
        "name": plan.name,
        "title": tool.title or None,
        "description": tool.description,
        "input_schema": Checked(input_schema(plan, said)),
        "output_schema": output,
        "open_world": True,
        **_nature(tool),
    }


def _nature(tool: Tool) -> ToolOptions:
    """What the table says of it, or else what its method means."""
    reads = tool.method == "GET" if tool.read_only is None else tool.read_only
    if reads:
        return {"read_only": True, "destructive": False, "idempotent": True}
    destroys = tool.method == "DELETE" if tool.destructive is None else tool.destructive
    repeats = tool.method in ("PUT", "DELETE") if tool.idempotent is None else tool.idempotent
    return {"read_only": False, "destructive": destroys, "idempotent": repeats}
