"""The definition of a REST API as data: `loader` reads it, `rules` checks it, the engine runs it.

Paths into JSON are written with dots (`data.items`); an empty path is the whole value. Texts are in English;
an `Overlay` has them in another language.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

ParameterLocation = Literal["", "path", "query", "header", "json", "form", "file", "body", "none"]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
WITH_BODY: tuple[Method, ...] = ("POST", "PUT", "PATCH")
"""Methods whose requests have a body by default; a DELETE may have one."""
BodyForm = Literal["json", "form", "multipart", "raw"]


class _Section(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One table of the file; an unknown key is an error."""


class Auth(_Section, frozen=True, kw_only=True):
    """How requests carry the key. The caller's key comes first, else the server's own."""

    kind: Literal["none", "bearer", "header", "query"] = "none"
    name: str = ""
    """The header or the query parameter; `bearer` needs none."""
    prefix: str = ""
    """The text before the key in a header."""
    caller: tuple[str, ...] = ()
    """Headers with callers' keys over HTTP; the first one sent counts. `authorization` means Bearer."""
    variable: str = ""
    """The environment variable with the server's own key."""


class Retry(_Section, frozen=True, kw_only=True):
    """Retries: repeatable requests on network failures, 429 and 5xx; others on 429 and if never sent."""

    most: int = 3
    """Retries after the first try; after a 5xx at most two."""
    pause: float = 1.0
    """Seconds before the first retry; doubled each time, with a jitter of up to half."""
    longest: float = 20.0
    """The longest `Retry-After`, in seconds, that is waited for."""


class Paging(_Section, frozen=True, kw_only=True):
    """How a list is read in pages. Tools show the parameters to the model unless they read `all_pages`."""

    kind: Literal["page", "offset", "cursor", "link"]
    position: str = ""
    """The query parameter with the page number, the offset or the cursor; `link` needs none."""
    first: int = 0
    """The number of the first page (usually 1), or the first offset (0)."""
    size: str = ""
    """The query parameter with the number of items on a page."""
    default: int = 20
    most: int = 200
    """The largest page."""
    total_header: str = ""
    total: str = ""
    """Where the response has the number of all items: a header, or a path in the body."""
    next: str = ""
    """For `cursor`: the path of the next cursor in the response. `link` reads rel=next of the Link header."""
    most_items: int = 2000
    """If all pages are read: stop here, and say so in the result."""


class ParameterDefinition(_Section, frozen=True, kw_only=True):
    type: str | tuple[str, ...] = "string"
    """Types of JSON Schema."""
    description: str = ""
    place: ParameterLocation = field(default="", name="in")
    """The default is `path` if the path has the name, else the body of a method with one, else `query`; with
    a raw body `query`. `body` is the whole body: any JSON, or the text of a raw body."""
    name: str = field(default="", name="as")
    """The name for the API, if different; dots make nested JSON."""
    required: bool = False
    default: Any | UnsetType = UNSET
    """Sent if the caller gives no value."""
    setting: str = ""
    """The server's setting that is sent if the caller gives no value and it is not empty."""
    schema: dict[str, Any] = {}
    """More of its JSON Schema: enum, minimum, maxLength, items, …"""
    ids: int = 0
    """Not 0: a list of at most so many ids, as an array or text with commas; sent with commas."""
    lookup: str = ""
    """The parameter is a name: this lookup finds the id for the parameter `gives`. If that one is a list of
    ids, it may be several names with commas. The name itself is not sent."""
    gives: str = ""
    max_files: int = 10
    max_bytes: int = 25 * 1024 * 1024
    """For `file` parameters, arrays of `{content, filename}` with base64: how many, and bytes of each."""


class Lookup(_Section, frozen=True, kw_only=True):
    """From a name to an id: reads a list, in which exactly one item must have the name."""

    path: str
    """May have `{parameters}` of the tool, such as `/desks/{desk_id}/stages`, which must have values."""
    query: dict[str, Any] = {}
    """`{name}` in a value is the name to look up."""
    items: str = ""
    match: tuple[str, ...] = ("name",)
    """Fields to compare with the name, without case and accents; else the only item that contains it."""
    id: str = "id"
    several: bool = False
    """Find all items with a field that contains the name; for lists of ids."""
    paging: str = ""
    """The name of a `[paging]` table, to read all pages within its limits. Without it, only one is read."""
    what: str = ""
    """The noun for messages, such as `desk`."""


class ResultDefinition(_Section, frozen=True, kw_only=True):
    """The part of a response that the model sees."""

    unwrap: str = ""
    """The path of the content in the response."""
    items: str = ""
    """For lists: the path of the list in it; a response that is an array needs none."""
    rich: tuple[str, ...] = ()
    compact: tuple[str, ...] = ()
    """The paths to keep of an object or each item, by verbosity; empty: all (compact: as rich)."""
    details: str = ""
    """The parameter that asks for whole objects: if true, all fields are kept."""
    said: str = ""
    """A sentence for responses without content, with `{parameters}`: `Ticket {ticket_number} was closed`."""


class Also(_Section, frozen=True, kw_only=True):
    """A second request of the same tool with other parameters, whose result is added."""

    when: tuple[str, ...]
    """Only if the caller gave all of these parameters."""
    replace: dict[str, str]
    """Parameters and the parameters that replace them: `start_date = "compare_start_date"`."""


class ToolDefinition(_Section, frozen=True, kw_only=True):
    title: str = ""
    description: str
    method: Method = "GET"
    path: str
    body: BodyForm = "json"
    """`raw` sends one parameter unchanged: the text of one `in = "body"`, or the bytes of one file."""
    content_type: str = ""
    """Of a raw body; the default is text/plain, and for a file the type of its name, also for `image/*`. Of
    JSON: a type such as `application/merge-patch+json`."""
    use: tuple[str, ...] = ()
    """Names of `[shared]` parameters; they come after `parameters`."""
    parameters: dict[str, ParameterDefinition] = {}
    needs: tuple[tuple[str, ...], ...] = ()
    """At least one parameter of each group must be given: `[["desk_id", "desk_name"]]`."""
    filters: dict[str, tuple[str, ...]] = {}
    """Parameters that the API cannot filter by: if one is given, all pages are read within the limits, and
    items are kept in which one of these fields contains the text or equals the number. The parameters are not
    sent; position and size of the paging then count the kept items."""
    fixed: dict[str, Any] = {}
    """Always sent: query parameters of a method without a body, else members of the body."""
    paging: str = ""
    """The name of a `[paging]` table."""
    all_pages: bool = False
    """Read all pages within the limits, and do not show the paging to the model."""
    also: dict[str, Also] = {}
    """By the name of its result; the tool's own result is then `current`."""
    result: ResultDefinition = ResultDefinition()
    output: dict[str, Any] = {}
    """The output schema; the default is `{"data": …}`, or a list with its paging."""
    errors: dict[str, str] = {}
    """Messages by status (`"404"`); they precede those of the definition."""
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    """The defaults follow the method: GET reads; PUT and DELETE are idempotent; DELETE is destructive."""
    retry: bool | None = None
    """Whether a request may be sent twice, if the method does not decide it."""
    flag: str = ""
    """The tool is visible only to callers for whom this field of the gate's response is true."""
    groups: tuple[str, ...] = ()
    """Names by which the setting `tools` chooses it together with others."""
    timeout: float = 0.0


class Gate(_Section, frozen=True, kw_only=True):
    """The request about a caller's key: whether the caller has access, and to which tools."""

    path: str
    field: str
    """If it is not true, the caller gets 403."""
    seconds: float = 60.0
    """How long an answer is cached, by the keyed hash of the key. Failures are not cached."""
    denied: str = "This endpoint is not enabled for your account"


class ApiDefinition(_Section, frozen=True, kw_only=True):
    name: str
    base_url: str
    title: str = ""
    instructions: str = ""
    website: str = ""
    timeout: float = 30.0
    """Seconds for one request."""
    max_reply: int = 16 * 1024 * 1024
    headers: dict[str, str] = {}
    auth: Auth = Auth()
    retry: Retry = Retry()
    gate: Gate | None = None
    paging: dict[str, Paging] = {}
    errors: dict[str, str] = {}
    """Messages for the model, by status (`"404"`) or class (`"5xx"`); `{detail}` is the API's own message."""
    shared: dict[str, ParameterDefinition] = {}
    lookups: dict[str, Lookup] = {}
    tools: dict[str, ToolDefinition] = {}


class ToolTexts(_Section, frozen=True, kw_only=True):
    title: str = ""
    description: str = ""
    parameters: dict[str, str] = {}
    said: str = ""
    errors: dict[str, str] = {}


class Overlay(_Section, frozen=True, kw_only=True):
    """The texts of a definition in another language; missing ones stay in English."""

    title: str = ""
    instructions: str = ""
    denied: str = ""
    errors: dict[str, str] = {}
    shared: dict[str, str] = {}
    lookups: dict[str, str] = {}
    """The nouns of the lookups."""
    tools: dict[str, ToolTexts] = {}


SHOWN = 20

KeyPath = tuple[str | int, ...]
"""A place in the file: names of tables and keys, indices of items."""


class DefinitionProblem(Struct, frozen=True):
    key_path: KeyPath
    what: str
    hint: str = ""


class DefinitionError(Exception):
    """A definition with problems; `lines` has one for each, in the order of the file."""

    def __init__(self, file: Path, lines: Iterable[str], *, more: int = 0) -> None:
        self.file = file
        self.lines = tuple(lines)
        shown = [*self.lines, f"… and {more} more"] if more else self.lines
        super().__init__("\n".join(shown))


def format_path(key_path: KeyPath) -> str:
    """As text: `tools.get_ticket.needs[0]`."""
    text = ""
    for key in key_path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += f".{key}" if text else key
    return text
