"""The shapes of the protocol: content, definitions, params and results, under their own names.

Python names are snake_case, wire names camelCase; `meta` is `_meta`. Optional members are left out
when unset. Results say nothing of era; the server stamps that on.
"""

from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from .call import Level
from .errors import ErrorObject
from .messages import Id

Meta = dict[str, Any]
Role = Literal["user", "assistant"]
Uri = Annotated[str, msgspec.Meta(max_length=8192)]
"""An address as a client sends it. Long ones cost memory to remember and time to match."""


class Wire(Struct, rename="camel", omit_defaults=True, gc=False):
    """Base of everything that travels."""


class FrozenWire(Struct, rename="camel", omit_defaults=True, gc=False, frozen=True):
    """The same, for values that are shared."""


class Icon(FrozenWire, frozen=True):
    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: str | None = None


class Annotations(FrozenWire, frozen=True):
    """Hints on a piece of content: for whom it is, and how much it matters."""

    audience: list[Role] | None = None
    priority: float | None = None
    last_modified: str | None = None


class Text(Wire, tag_field="type", tag="text"):
    text: str
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class Image(Wire, tag_field="type", tag="image"):
    data: bytes
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class Audio(Wire, tag_field="type", tag="audio"):
    data: bytes
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ResourceLink(Wire, tag_field="type", tag="resource_link"):
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class TextContents(Wire):
    uri: str
    text: str
    mime_type: str | None = None
    meta: Meta | None = field(default=None, name="_meta")


class BlobContents(Wire):
    uri: str
    blob: bytes
    mime_type: str | None = None
    meta: Meta | None = field(default=None, name="_meta")


class EmbeddedResource(Wire, tag_field="type", tag="resource"):
    resource: TextContents | BlobContents
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


Block = Text | Image | Audio | ResourceLink | EmbeddedResource
BLOCKS = (Text, Image, Audio, ResourceLink, EmbeddedResource)


class Implementation(FrozenWire, frozen=True):
    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class ToolAnnotations(FrozenWire, frozen=True):
    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class Definition(Wire):
    """Base of what a list holds."""

    @property
    def tags(self) -> frozenset[str]:
        """Where FastMCP and the kit put them in `_meta`; the protocol has no place for them."""
        meta: Meta = getattr(self, "meta", None) or {}
        held: object = meta.get("fastmcp")
        tags: object = cast(Meta, held).get("tags") if isinstance(held, dict) else None
        given = cast(list[object], tags) if isinstance(tags, list) else []
        return frozenset(tag for tag in given if isinstance(tag, str))


class ToolInfo(Definition):
    name: str
    input_schema: dict[str, Any]
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ResourceInfo(Definition):
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ResourceTemplateInfo(Definition):
    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class PromptArgument(FrozenWire, frozen=True):
    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class PromptInfo(Definition):
    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = field(default=None, name="_meta")


class Message(Wire):
    """One message of a prompt."""

    role: Role
    content: Block


# Params


class InitializeParams(Wire):
    protocol_version: str
    capabilities: dict[str, Any] = {}
    client_info: dict[str, Any] = {}


class ListParams(Wire):
    cursor: str | None = None


class RoundTrip(Wire, kw_only=True):
    """What a retry of a multi round trip brings back."""

    input_responses: dict[str, Raw] | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class CallToolParams(RoundTrip, kw_only=True):
    name: str
    arguments: Raw = Raw(b"{}")


class GetPromptParams(RoundTrip, kw_only=True):
    name: str
    arguments: Raw = Raw(b"{}")


class ReadResourceParams(RoundTrip, kw_only=True):
    uri: Uri


class UriParams(Wire):
    uri: Uri


class SetLevelParams(Wire):
    level: Level


class CompleteArgument(Wire):
    name: str
    value: str


class CompleteContext(FrozenWire, frozen=True):
    arguments: dict[str, str] = {}


class PromptRef(Wire, tag_field="type", tag="ref/prompt"):
    name: str


class ResourceRef(Wire, tag_field="type", tag="ref/resource"):
    uri: Uri


class CompleteParams(Wire):
    ref: PromptRef | ResourceRef
    argument: CompleteArgument
    context: CompleteContext = CompleteContext()


class SubscriptionFilter(Wire):
    tools_list_changed: bool | UnsetType = UNSET
    prompts_list_changed: bool | UnsetType = UNSET
    resources_list_changed: bool | UnsetType = UNSET
    resource_subscriptions: list[Uri] | UnsetType = UNSET
    task_ids: list[str] | UnsetType = UNSET


class ListenParams(Wire):
    notifications: SubscriptionFilter


class TaskParams(Wire):
    task_id: str


class TaskUpdateParams(Wire):
    task_id: str
    input_responses: dict[str, Raw]


class CancelledParams(Wire):
    request_id: Id
    reason: str | None = None


# Results


class Result(Wire, kw_only=True):
    """Base of every result. `result_type` and `meta` are stamped for the modern era."""

    result_type: str | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class Cacheable(Result, kw_only=True):
    ttl_ms: int | UnsetType = UNSET
    cache_scope: Literal["public", "private"] | UnsetType = UNSET


class InitializeResult(Result, kw_only=True):
    protocol_version: str
    capabilities: dict[str, Any]
    server_info: Implementation
    instructions: str | None = None


class DiscoverResult(Cacheable, kw_only=True):
    supported_versions: list[str]
    capabilities: dict[str, Any]
    instructions: str | None = None


class CallToolResult(Result, kw_only=True):
    content: list[Block]
    structured_content: Any = UNSET
    is_error: bool = False


class ListToolsResult(Cacheable, kw_only=True):
    tools: list[ToolInfo]
    next_cursor: str | None = None


class ListResourcesResult(Cacheable, kw_only=True):
    resources: list[ResourceInfo]
    next_cursor: str | None = None


class ListTemplatesResult(Cacheable, kw_only=True):
    resource_templates: list[ResourceTemplateInfo]
    next_cursor: str | None = None


class ReadResourceResult(Cacheable, kw_only=True):
    contents: list[TextContents | BlobContents]


class ListPromptsResult(Cacheable, kw_only=True):
    prompts: list[PromptInfo]
    next_cursor: str | None = None


class GetPromptResult(Result, kw_only=True):
    messages: list[Message]
    description: str | None = None


class Completion(Wire):
    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result, kw_only=True):
    completion: Completion


class InputRequest(Wire):
    method: str
    params: Any


class InputRequiredResult(Result, kw_only=True):
    input_requests: dict[str, InputRequest]
    request_state: str


class TaskState(Result, kw_only=True):
    """A task as `tools/call`, `tasks/get` and `notifications/tasks` show it."""

    task_id: str
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int
    status_message: str | UnsetType = UNSET
    result: Any = UNSET
    error: ErrorObject | UnsetType = UNSET
    input_requests: dict[str, InputRequest] | UnsetType = UNSET
