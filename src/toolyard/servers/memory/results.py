"""The structs that the tools return; field names follow the server's language."""

from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from ...kit.schema.annotations import schema_name
from ...kit.schema.pydantic_types import JsonSchema
from ...kit.schema.validation import schema_of
from ...languages import Locale

SuspectCount = Annotated[
    int, Meta(description="How many parts look like instructions to a model; each is shown as ⟦suspect: …⟧")
]
VersionNumber = Annotated[int, Meta(description="Number of the version, from 1 on")]


@schema_name("Item")
class FolderItem(Struct):
    name: str
    is_dir: bool


class Viewed(Struct, kw_only=True):
    path: str
    is_directory: bool
    content: str | UnsetType = UNSET
    items: list[FolderItem] | UnsetType = UNSET
    more: Annotated[bool, Meta(description="Whether a folder holds more than is shown")] | UnsetType = UNSET
    version: VersionNumber | UnsetType = UNSET
    suspect: SuspectCount | UnsetType = UNSET


class Similar(Struct):
    path: str
    similarity: Annotated[float, Meta(description="1 means the same")]


class Saved(Struct, kw_only=True):
    path: str
    action: str
    category: str
    importance: Annotated[float, Meta(description="From 0 to 1")]
    version: VersionNumber
    similar: Annotated[list[Similar], Meta(description="Other memories that say nearly the same")] = []
    suspect: SuspectCount = 0


class Updated(Struct, kw_only=True):
    path: str
    updated: bool
    version: VersionNumber
    suspect: SuspectCount = 0


class Deleted(Struct, kw_only=True):
    path: str
    type: Literal["file", "directory"]
    count: int
    declined: Annotated[bool, Meta(description="Whether the user said no; nothing was deleted then")] = False


@schema_name("Listed")
class ListedMemory(Struct):
    path: str
    kind: str
    domain: str
    level: str
    title: str
    scope: str


class Memories(Struct, kw_only=True):
    total: int
    memories: list[ListedMemory]
    shown: int
    by_kind: dict[str, int]
    by_domain: dict[str, int]


class Cleared(Struct, kw_only=True):
    count: int
    declined: Annotated[bool, Meta(description="Whether the user said no; nothing was deleted then")] = False


@schema_name("Hit")
class FoundMemory(Struct, kw_only=True):
    path: str
    title: str
    excerpt: str
    found_by: Annotated[list[Literal["text", "meaning"]], Meta(description="By which search it was found")]
    similarity: Annotated[float, Meta(description="Of meaning, up to 1")] | UnsetType = UNSET


@schema_name("Found")
class FoundMemories(Struct, kw_only=True):
    count: int
    results: list[FoundMemory]


@schema_name("Kept")
class HistoryEntry(Struct, kw_only=True):
    version: VersionNumber
    event: Literal["created", "updated", "restored"]
    changed_by: str
    at: Annotated[str, Meta(description="ISO 8601, UTC")]
    bytes: int
    preview: str
    current: bool


class History(Struct, kw_only=True):
    path: str
    deleted: bool
    count: int
    versions: list[HistoryEntry]


class Restored(Struct, kw_only=True):
    path: str
    restored: VersionNumber
    version: VersionNumber


NAMES: dict[Locale, dict[str, str]] = {
    "en": {},
    "pt": {
        "domain": "dominio",
        "level": "nivel",
        "title": "titulo",
        "scope": "escopo",
        "shown": "mostrados",
        "by_kind": "por_kind",
        "by_domain": "por_dominio",
    },
}
"""Names of fields that differ from the English ones."""

ACTIONS: dict[Locale, dict[str, str]] = {
    "en": {"created": "created", "updated": "updated", "duplicate_blocked": "duplicate_blocked"},
    "pt": {"created": "criado", "updated": "atualizado", "duplicate_blocked": "duplicate_blocked"},
}


def schemas(locale: Locale) -> dict[type[Struct], JsonSchema]:
    """The output schemas; names and the values of `action` depend on the language."""
    kinds = (Viewed, Saved, Updated, Deleted, Memories, Cleared, FoundMemories, History, Restored)
    found: dict[type[Struct], JsonSchema] = {kind: schema_of(kind) for kind in kinds}
    found[Saved]["properties"]["action"]["enum"] = list(ACTIONS[locale].values())
    return {kind: _renamed(schema, NAMES[locale]) for kind, schema in found.items()}


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(item, names) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    found = {key: _renamed(value, names) for key, value in cast(JsonSchema, schema).items()}
    if "properties" in found:
        found["properties"] = {names.get(name, name): value for name, value in found["properties"].items()}
        found["required"] = [names.get(name, name) for name in found.get("required", [])]
    return found


def named(value: Any, locale: Locale) -> Any:
    """A result with its fields in that language. Keys of dictionaries are data and stay."""
    if isinstance(value, list):
        return [named(item, locale) for item in cast(list[Any], value)]
    if not isinstance(value, Struct) or not NAMES[locale]:
        return value
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    names = NAMES[locale]
    return {names.get(name, name): named(item, locale) for name, item in fields.items() if item is not UNSET}
