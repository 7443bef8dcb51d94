"""A REST API as data: `loader` reads it, `rules` checks it, the engine runs it; and its error.

Paths into JSON are written with dots (`data.items`); an empty one is the whole. Texts are English here; an
`Overlay` has them in another language.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

ParameterLocation = Literal["", "path", "query", "header", "json", "form", "file", "body", "none"]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
WITH_BODY: tuple[Method, ...] = ("POST", "PUT", "PATCH")
"""Those whose requests have a body by themselves; a DELETE may be given one."""
BodyForm = Literal["json", "form", "multipart", "raw"]


class _Section(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One table of the file; whatever it does not know is a mistake."""


class Auth(_Section, frozen=True, kw_only=True):
    """How requests carry the key, and whose key it is: the caller's first, else our own."""

    kind: Literal["none", "bearer", "header", "query"] = "none"
    name: str = ""
    """Of the header or the query parameter; `bearer` needs none."""
    prefix: str = ""
    """What stands before the key in a header."""
    caller: tuple[str, ...] = ()
    """Headers in which callers over HTTP bring a key; the first counts, `authorization` is for Bearer."""
    variable: str = ""
    """The environment variable that has our own key."""


class Retry(_Section, frozen=True, kw_only=True):
    """What may be sent twice is, on network failures, 429 and 5xx; the rest on 429 and when it never left."""

    most: int = 3
    """Tries beside the first. On a 5xx at most two of them."""
    pause: float = 1.0
    """Seconds before the first; doubled each time, up to half of it more or less by chance."""
    longest: float = 20.0
    """Seconds that a `Retry-After` may ask for; beyond it, or beyond the call's deadline, we give up."""


class Paging(_Section, frozen=True, kw_only=True):
    """How a list is read in parts. Tools show its parameters to the model unless they read `all_pages`."""

    kind: Literal["page", "offset", "cursor", "link"]
    position: str = ""
    """The query parameter with the page's number, the offset or the cursor; `link` needs none."""
    first: int = 0
    """The number of the first page (usually 1), or the first offset (0)."""
    size: str = ""
    """The query parameter with the number of items in a part."""
    default: int = 20
    most: int = 200
    """Items in one part."""
    total_header: str = ""
    total: str = ""
    """Where the reply says how many there are in all: a header, or a path in the body."""
    next: str = ""
    """Of `cursor`: the path of the next cursor in the reply. `link` reads the Link header's rel=next."""
    most_items: int = 2000
    """When all pages are read: stop there, and say so."""


class ParameterDefinition(_Section, frozen=True, kw_only=True):
    type: str | tuple[str, ...] = "string"
    """As JSON Schema names types."""
    description: str = ""
    place: ParameterLocation = field(default="", name="in")
    """By itself: `path` when the path has it, else the body of a method that has one, else `query`; beside a
    raw body `query`. `body` is the whole body: any JSON, or the text of a raw one."""
    name: str = field(default="", name="as")
    """What the API calls it; dots make nested JSON. Without it, the same."""
    required: bool = False
    default: Any | UnsetType = UNSET
    """Sent when the caller gives nothing."""
    setting: str = ""
    """The server's setting that is sent when the caller gives nothing and it is not empty."""
    schema: dict[str, Any] = {}
    """More of its JSON Schema: enum, minimum, maxLength, items, …"""
    ids: int = 0
    """A list of ids, as text with commas or as an array; this many at most, sent with commas."""
    lookup: str = ""
    """It is a name: this lookup finds the id, which goes into the parameter `gives`. Where that one is a list
    of ids, it may be several names with commas. Never sent itself."""
    gives: str = ""
    max_files: int = 10
    max_bytes: int = 25 * 1024 * 1024
    """Of `file` parameters, which are arrays of `{content, filename}` with base64: how many, how big each."""


class Lookup(_Section, frozen=True, kw_only=True):
    """From a name to an id: a list is asked for, and exactly one item must have that name."""

    path: str
    """May have `{parameters}` of the tool, such as `/desks/{desk_id}/stages`; they must be known by then."""
    query: dict[str, Any] = {}
    """`{name}` in a value is the name that was given."""
    items: str = ""
    match: tuple[str, ...] = ("name",)
    """Fields that may have the name, but for case and accents; else the only item that contains it."""
    id: str = "id"
    several: bool = False
    """All items of which a field contains the name, instead of the one that has it; for lists of ids."""
    paging: str = ""
    """The name of a `[paging]` table: all pages are read within its limits. Without one, one reply is."""
    what: str = ""
    """What it is called in messages: `desk`."""


class ResultDefinition(_Section, frozen=True, kw_only=True):
    """What of a reply the model is shown."""

    unwrap: str = ""
    """The path of what matters in the reply."""
    items: str = ""
    """The path of the list in it, for lists; a reply that is an array needs none."""
    rich: tuple[str, ...] = ()
    compact: tuple[str, ...] = ()
    """Paths that are kept of an object, or of each item, in either verbosity; empty: all (compact: rich)."""
    details: str = ""
    """The parameter that asks for whole objects: where it is true, nothing is left out."""
    said: str = ""
    """A sentence for replies without content, with `{parameters}`: `Ticket {ticket_number} was closed`."""


class Also(_Section, frozen=True, kw_only=True):
    """One more request of the same tool: same method and path, other parameters. Its result stands beside."""

    when: tuple[str, ...]
    """Only when the caller gave all of these parameters."""
    replace: dict[str, str]
    """Which parameter takes the place of which: `start_date = "compare_start_date"`."""


class ToolDefinition(_Section, frozen=True, kw_only=True):
    title: str = ""
    description: str
    method: Method = "GET"
    path: str
    body: BodyForm = "json"
    """`raw` sends one parameter as it is: the text of one `in = "body"`, or the bytes of one file."""
    content_type: str = ""
    """Of a raw body: by itself text/plain, and for a file what its name says, also within `image/*`. Of JSON:
    one of its kinds, such as `application/merge-patch+json`."""
    use: tuple[str, ...] = ()
    """Parameters of `[shared]`, by name; those of `parameters` come first."""
    parameters: dict[str, ParameterDefinition] = {}
    needs: tuple[tuple[str, ...], ...] = ()
    """Of each of these groups one parameter at least must be given: `[["desk_id", "desk_name"]]`."""
    filters: dict[str, tuple[str, ...]] = {}
    """Parameters by which the API cannot search: when one is given, every page is read within the limits, and
    only those items are kept in which one of these fields contains the text, or is the number. They are not
    sent; the paging's position and size then count what was kept."""
    fixed: dict[str, Any] = {}
    """Sent always: query parameters of a method without body, else members of the body."""
    paging: str = ""
    """The name of a `[paging]` table."""
    all_pages: bool = False
    """Read every page within the limits, instead of showing the paging to the model."""
    also: dict[str, Also] = {}
    """By the name under which its result stands; the tool's own is then `current`."""
    result: ResultDefinition = ResultDefinition()
    output: dict[str, Any] = {}
    """Its output schema; without one, `{"data": …}` and what paging says of it."""
    errors: dict[str, str] = {}
    """Messages by status (`"404"`), before those of the server."""
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    """By themselves what the method says: GET reads; PUT and DELETE may be repeated; DELETE destroys."""
    retry: bool | None = None
    """Whether it may be sent twice when that is not what the method says."""
    flag: str = ""
    """Shown only to callers for whom this field of the gate's reply is true."""
    timeout: float = 0.0


class Gate(_Section, frozen=True, kw_only=True):
    """What is asked about callers who bring a key, before all else: may they, and which tools have they?"""

    path: str
    field: str
    """Must be true, else the caller is turned away with 403."""
    seconds: float = 60.0
    """How long the answer holds, by the keyed hash of the key; failures are not remembered."""
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
    """What the model is told, by status (`"404"`) or by class (`"5xx"`); `{detail}` is what the API said."""
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
    """The texts of a table in another language; what it does not say stays as it is."""

    title: str = ""
    instructions: str = ""
    denied: str = ""
    errors: dict[str, str] = {}
    shared: dict[str, str] = {}
    lookups: dict[str, str] = {}
    """What each lookup finds."""
    tools: dict[str, ToolTexts] = {}


SHOWN = 20

KeyPath = tuple[str | int, ...]
"""Where something stands in the file: names of tables and keys, numbers of items."""


class DefinitionProblem(Struct, frozen=True):
    keys: KeyPath
    what: str
    hint: str = ""


class DefinitionError(Exception):
    """A table that cannot be used; `lines` are its mistakes, one each, in the order of the file."""

    def __init__(self, file: Path, lines: Iterable[str], *, more: int = 0) -> None:
        self.file = file
        self.lines = tuple(lines)
        told = [*self.lines, f"… and {more} more"] if more else self.lines
        super().__init__("\n".join(told))


def format_path(keys: KeyPath) -> str:
    """As a reader of the file would say it: `tools.get_ticket.needs[0]`."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += f".{key}" if text else key
    return text
