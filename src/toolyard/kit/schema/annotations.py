"""Reads annotations: types with limits, descriptions, defaults and aliases.

Understands msgspec's Meta, annotated-types, Pydantic's Field, Doc and plain strings, and rewrites them for
msgspec. Pydantic checks whole annotations that msgspec cannot. Anything else in an `Annotated` is an error at
definition, because a limit must not be ignored silently.
"""

import copy
import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import NODEFAULT, Meta, Struct

from . import pydantic_types

T = TypeVar("T")

_ADVICE = (
    "use msgspec.Meta, pydantic.Field, annotated-types, typing_extensions.Doc or a plain string, "
    "or leave it out of the annotation"
)
_LIMITS = {
    "Ge": "ge",
    "Gt": "gt",
    "Le": "le",
    "Lt": "lt",
    "MultipleOf": "multiple_of",
    "MinLen": "min_length",
    "MaxLen": "max_length",
}
"""Classes of annotated-types, and the name of the limit there and in Meta."""

_META_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")
_OF_NUMBERS = ("gt", "ge", "lt", "le", "multiple_of")
_OF_LENGTHS = ("min_length", "max_length")
_MISPLACED = {
    **dict.fromkeys((str, bytes, list, dict, tuple, set, frozenset), _OF_NUMBERS),
    **dict.fromkeys((int, float), (*_OF_LENGTHS, "pattern")),
    bool: (*_OF_NUMBERS, *_OF_LENGTHS, "pattern"),
}
"""Limits that a type cannot have. Pydantic would notice only during a call."""


class ParameterField(Struct, frozen=True):
    """One parameter as a field of a msgspec struct."""

    name: str
    """The name for callers."""
    kind: Any
    default: Any

    def field(self, attribute: str) -> tuple[str, Any, Any]:
        name = None if self.name == attribute else self.name
        if callable(self.default):
            return attribute, self.kind, msgspec.field(default_factory=self.default, name=name)
        return attribute, self.kind, msgspec.field(default=self.default, name=name)


def read_parameter(attribute: str, hint: Any, default: Any, strict: bool = True) -> ParameterField:
    """Raises TypeError, with advice, if the annotation is not supported."""
    kind, *extras = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
    if _is_field(default):
        extras.append(default)
        default = inspect.Parameter.empty
    elif type(default).__name__ == "FieldInfo":
        raise TypeError(f"{default!r} comes from Pydantic 1; use Pydantic 2")
    factory = None
    name = attribute
    for info in filter(_is_field, extras):
        name = _alias(info) or name
        if default is inspect.Parameter.empty and info.default is not _undefined():
            default = info.default
        if info.default_factory is not None:
            factory = _factory(info)
    if extras:
        kind = Annotated[kind, *extras]
    made = (factory or NODEFAULT) if default is inspect.Parameter.empty else _default(default)
    return ParameterField(name, read_type(kind, strict, of_parameter=True), made)


def read_type(hint: Any, strict: bool = True, of_parameter: bool = False) -> Any:
    """The type for msgspec, with limits and descriptions."""
    reader = _Reader(strict)
    kind = reader.read(hint, of_parameter)
    if reader.unknown:
        raise TypeError(f"Unknown annotation {reader.unknown[0]}; {_ADVICE}")
    if reader.misplaced:
        raise TypeError(reader.misplaced[0])
    refusal = None if reader.simple or reader.pydantic_only else _refusal(kind)
    if not reader.pydantic_only and refusal is None:
        return kind
    if not pydantic_types.loaded():
        if reader.pydantic_only:
            raise TypeError(
                f"{reader.pydantic_only[0]} can only be checked by Pydantic 2, which is not imported"
            )
        raise TypeError(refusal)
    if reader.class_limits:
        raise TypeError(
            f"{reader.class_limits[0]} is for msgspec, while {hint!r} must be checked by Pydantic; "
            "give both limits with pydantic.Field"
        )
    try:
        return _read_by_pydantic(hint, reader.lax)
    except TypeError as error:
        reasons = [*reader.pydantic_only, f"{hint!r}"]
        raise TypeError(f"{reasons[0]} can only be checked by Pydantic, and Pydantic says: {error}") from None


def _read_by_pydantic(hint: Any, lax: bool) -> Any:
    """A placeholder type for the whole annotation, with the description outside it."""
    kind, *extras = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
    found = _sort_extras(extras)
    inside = _for_pydantic(kind)
    whole = Annotated[inside, *found.ordered] if found.ordered else inside
    return _with_meta(pydantic_types.stand_in(whole, lax), found.doc)


def _for_pydantic(hint: Any) -> Any:
    """The type with Meta and plain strings rewritten for Pydantic."""
    if typing.get_origin(hint) is Annotated:
        kind, *extras = typing.get_args(hint)
        found = _sort_extras(extras)
        rewritten = [*found.ordered, *_as_field(found.doc)]
        return Annotated[_for_pydantic(kind), *rewritten] if rewritten else _for_pydantic(kind)
    return hint if _meaning(hint) is not None else _rebuilt(hint, _for_pydantic)


def _as_field(doc: dict[str, Any]) -> list[Any]:
    if not doc:
        return []
    import pydantic

    known = {key: value for key, value in doc.items() if key in ("title", "description", "examples")}
    return [pydantic.Field(**known, json_schema_extra=doc.get("extra_json_schema"))]


class _Extras:
    """The extras of one `Annotated`, by purpose."""

    def __init__(self) -> None:
        self.doc: dict[str, Any] = {}
        self.metas: dict[str, Any] = {}
        """Limits by their names in Meta."""
        self.patterns: dict[str, Any] = {}
        """Patterns of Pydantic, which are not Python's; Pydantic checks them in linear time."""
        self.pydantic: list[Any] = []
        """Extras that only Pydantic can check."""
        self.ordered: list[Any] = []
        """Limits and checks for Pydantic, in their order, since validators may come before limits."""
        self.unknown: list[Any] = []
        self.field_only: list[str] = []
        """Options of a parameter that have no meaning inside a type."""
        self.lax = False

    def limit(self, name: str, value: Any, extra: Any) -> None:
        self.ordered.append(extra)
        if name in self.metas and self.metas[name] != value:
            self.pydantic.append(extra)  # msgspec accepts only one of each kind
        else:
            self.metas[name] = value

    def check(self, extra: Any) -> None:
        self.ordered.append(extra)
        self.pydantic.append(extra)


def _sort_extras(extras: Iterable[Any]) -> _Extras:
    found = _Extras()
    for extra in extras:
        _sort(extra, found)
    return found


def _sort(extra: Any, found: _Extras) -> None:
    module = type(extra).__module__
    if extra is None:  # Pydantic's conint and similar functions leave these
        return
    if isinstance(extra, str):
        found.doc["description"] = extra
    elif isinstance(extra, Meta):
        _sort_meta(extra, found)
    elif _is_field(extra):
        _sort_field(extra, found)
    elif module in ("typing", "typing_extensions") and type(extra).__name__ == "Doc":
        found.doc["description"] = extra.documentation
    elif module == "annotated_types":
        _sort_annotated_type(extra, found)
    elif pydantic_types.loaded() and type(extra).__name__ == "Strict" and module.startswith("pydantic."):
        found.lax = not extra.strict
        found.check(extra)
    elif _is_pydantics(extra):
        found.check(extra)
        if (pattern := getattr(extra, "pattern", None)) is not None:
            found.patterns["pattern"] = pattern
    else:
        found.unknown.append(extra)


def _sort_meta(meta: Meta, found: _Extras) -> None:
    for name in ("title", "description", "examples"):
        if (value := getattr(meta, name)) is not None:
            found.doc[name] = value
    if meta.extra_json_schema:
        found.doc.setdefault("extra_json_schema", {}).update(meta.extra_json_schema)
    for name in _META_LIMITS:
        if (value := getattr(meta, name)) is not None:
            found.limit(name, value, _as_limit(name, value))
    if meta.extra:
        found.doc["extra"] = {**found.doc.get("extra", {}), **meta.extra}


def _as_limit(name: str, value: Any) -> Any:
    if not pydantic_types.loaded():
        return None
    import pydantic

    if name == "tz":
        return sys.modules["annotated_types"].Timezone(... if value else None)
    return pydantic.Field(**{name: value})


def _sort_field(info: Any, found: _Extras) -> None:
    for name in ("title", "description", "examples"):
        if (value := getattr(info, name)) is not None:
            found.doc[name] = value
    extra: dict[str, Any] = {}
    if getattr(info, "deprecated", None):  # since 2.7
        extra["deprecated"] = True
    more: Any = info.json_schema_extra
    if isinstance(more, dict):
        extra |= cast(dict[str, Any], more)
    elif more is not None:
        found.unknown.append(more)
    if extra:
        found.doc.setdefault("extra_json_schema", {}).update(extra)
    if info.discriminator is not None:
        import pydantic

        found.check(pydantic.Field(discriminator=info.discriminator))
    for item in info.metadata:
        _sort(item, found)
    if _alias(info) is not None:
        found.field_only.append("alias")
    if info.default is not _undefined() or info.default_factory is not None:
        found.field_only.append("default")


def _sort_annotated_type(extra: Any, found: _Extras) -> None:
    name = type(extra).__name__
    if name in _LIMITS:
        limit = _LIMITS[name]
        value = getattr(extra, limit)
        if limit != "min_length" or value:
            found.limit(limit, value, extra)
    elif name == "DocInfo":
        found.doc["description"] = extra.documentation
    elif name == "Timezone" and extra.tz in (None, ...):
        found.limit("tz", extra.tz is ..., extra)
    elif isinstance(extra, Iterable):  # Interval and Len are groups of the above
        for item in cast(Iterable[Any], extra):
            _sort(item, found)
    elif name in ("Predicate", "Not", "Timezone"):
        found.check(extra)
    else:
        found.unknown.append(extra)


def _is_field(value: Any) -> bool:
    fields = sys.modules.get("pydantic.fields") if pydantic_types.loaded() else None
    return fields is not None and isinstance(value, fields.FieldInfo)


def _is_pydantics(extra: Any) -> bool:
    module = type(extra).__module__
    if not pydantic_types.loaded() or module.startswith("pydantic.v1"):
        return False
    return module.split(".")[0] in ("pydantic", "pydantic_core") or any(
        hasattr(extra, name) for name in ("__get_pydantic_core_schema__", "__get_pydantic_json_schema__")
    )


def _undefined() -> Any:
    return sys.modules["pydantic.fields"].PydanticUndefined


def _alias(info: Any) -> str | None:
    alias = info.validation_alias if info.validation_alias is not None else info.alias
    if alias is None or isinstance(alias, str):
        return alias
    raise TypeError(f"{alias!r}: a parameter has one name; use alias='…'")


def _factory(info: Any) -> Callable[[], Any]:
    if getattr(info, "default_factory_takes_validated_data", False):  # since 2.10
        raise TypeError("the default_factory of a parameter cannot take the other arguments")
    return info.default_factory


def _default(value: Any) -> Any:
    """A default for msgspec; mutable values are copied for each call."""
    try:
        hash(value)
    except TypeError:
        return lambda: copy.deepcopy(value)
    return (lambda: value) if callable(value) else value


def _with_meta(kind: Any, options: dict[str, Any]) -> Any:
    return Annotated[kind, Meta(**options)] if options else kind


def _refusal(kind: Any) -> str | None:
    """Why msgspec does not support the type."""
    try:
        msgspec.json.Decoder(kind, dec_hook=lambda kind, value: value)
    except (TypeError, ValueError, RecursionError) as error:
        return str(error)
    return None


class _Reader:
    """Rewrites a type for msgspec, and collects what msgspec does not support."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._seen: set[Any] = set()
        self.simple = True
        """Whether there are no limits or unions that only Pydantic might support."""
        self.unknown: list[str] = []
        self.pydantic_only: list[str] = []
        self.class_limits: list[str] = []
        self.misplaced: list[str] = []
        self.lax = False

    def read(self, hint: Any, of_parameter: bool = False) -> Any:
        if typing.get_origin(hint) is Annotated:
            kind, *extras = typing.get_args(hint)
            found = self._note(_sort_extras(extras), of_parameter)
            return self._annotated(self.read(kind), found)
        if isinstance(hint, type) or isinstance(typing.get_origin(hint), type):
            if pydantic_types.is_custom(hint):
                self.pydantic_only.append(f"Pydantic's type {hint!r}")
            self._check_class(hint)
        if _meaning(hint) is not None:
            self.simple = False
            if hint in self._seen:
                self.pydantic_only.append(f"{hint!r}, which is recursive,")
                return hint
            self._seen.add(hint)
            rebuilt = _rebuilt(hint, self.read)
            self._seen.discard(hint)
            return rebuilt
        return _rebuilt(hint, self.read)

    def _annotated(self, kind: Any, found: _Extras) -> Any:
        limits = {**found.metas, **found.patterns}
        if found.metas:
            self.simple = False
        for name, value in limits.items():
            if all(name in _MISPLACED.get(one, ()) for one in _members(kind)):
                self.misplaced.append(f"{name}={value!r} cannot limit {kind!r}")
        try:
            return _with_meta(self._limited(kind, found.metas), found.doc)
        except (TypeError, ValueError) as error:  # such as limits of dates, or beyond 64 bits
            self.pydantic_only.append(f"{found.metas!r} ({error})")
            return kind

    def _limited(self, kind: Any, limits: dict[str, Any]) -> Any:
        """The limits of a union apply to the members that can have them."""
        if not limits or typing.get_origin(kind) not in (typing.Union, types.UnionType):
            return _with_meta(kind, limits)
        members = typing.get_args(kind)
        return typing.Union[tuple(self._limited_member(member, limits) for member in members)]  # noqa: UP007

    def _limited_member(self, kind: Any, limits: dict[str, Any]) -> Any:
        if kind is type(None):
            return kind
        without = [name for one in _members(kind) for name in _MISPLACED.get(one, ())]
        return self._limited(kind, {name: value for name, value in limits.items() if name not in without})

    def _note(self, found: _Extras, of_parameter: bool) -> _Extras:
        self.unknown += [repr(extra) for extra in found.unknown]
        self.pydantic_only += [repr(extra) for extra in found.pydantic if not self._is_default(extra)]
        self.lax |= found.lax
        if found.field_only and not of_parameter:
            self.unknown.append(f"{found.field_only[0]}= of a pydantic.Field inside a type")
        return found

    def _is_default(self, extra: Any) -> bool:
        return self._strict and type(extra).__name__ == "Strict" and extra.strict

    def _check_class(self, hint: Any) -> None:
        """Check a class, which cannot be rewritten: msgspec itself must support its fields."""
        kind = cast(type, typing.get_origin(hint) or hint)
        if kind in self._seen:
            return
        self._seen.add(kind)
        if pydantic_types.is_dataclass(kind):
            self.pydantic_only.append(f"the Pydantic dataclass {kind.__qualname__!r}")
            return
        if pydantic_types.is_model(kind) or pydantic_types.is_custom(kind):
            self.simple = False
            return
        for name, field in _fields(kind):
            where = f" (of field {name!r} of {kind.__qualname__!r})"
            for annotated in _annotations_in(field):
                self._note_in_class(typing.get_args(annotated)[1:], kind, where)
            self._check_part(field)
        for name, default in _defaults(kind):
            if _is_field(default):
                self._note_in_class([default], kind, f" (of field {name!r} of {kind.__qualname__!r})")

    def _note_in_class(self, extras: Iterable[Any], kind: type, where: str) -> None:
        for extra in extras:
            found = _sort_extras([extra])
            self.unknown += [f"{item!r}{where}" for item in found.unknown]
            if isinstance(extra, Meta):
                self.class_limits += [f"{extra!r}{where}"] if found.metas else []
            elif issubclass(kind, Struct) and (found.metas or found.pydantic or _is_field(extra)):
                self.unknown.append(
                    f"{extra!r}{where}, a msgspec struct, which needs msgspec.Meta for limits,"
                )
            elif found.metas or found.pydantic or _is_field(extra):
                self.pydantic_only.append(f"{extra!r}{where}")

    def _check_part(self, hint: Any) -> None:
        """Check the classes that a field uses."""
        if typing.get_origin(hint) is Annotated:
            self._check_part(typing.get_args(hint)[0])
            return
        if isinstance(hint, type) or isinstance(typing.get_origin(hint), type):
            if pydantic_types.is_custom(hint):
                self.pydantic_only.append(f"Pydantic's type {hint!r}")
            self._check_class(hint)
        if _meaning(hint) is not None:
            self.simple = False
            if hint in self._seen:
                return
            self._seen.add(hint)
        for part in _parts(hint):
            self._check_part(part)


def _members(kind: Any) -> list[type]:
    """The types of a value that can have limits."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [one for member in typing.get_args(kind) for one in _members(member) if one is not type(None)]
    if typing.get_origin(kind) is Annotated:
        return _members(typing.get_args(kind)[0])
    if (meaning := _meaning(kind)) is not None:
        return _members(meaning)
    bare = typing.get_origin(kind) or kind
    return [bare] if isinstance(bare, type) else [object]


def _fields(kind: Any) -> Iterator[tuple[str, Any]]:
    """The annotated fields of a class that msgspec supports."""
    # A struct, a dataclass, a TypedDict (of typing or typing_extensions), a named tuple, a class of attrs.
    marks = (
        "__struct_fields__",
        "__dataclass_fields__",
        "__required_keys__",
        "_field_defaults",
        "__attrs_attrs__",
    )
    if not any(hasattr(kind, mark) for mark in marks):
        return
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:  # unresolved names: msgspec names them
        return
    yield from hints.items()


def _defaults(kind: Any) -> list[tuple[str, Any]]:
    if issubclass(kind, Struct):
        return [(field.name, field.default) for field in msgspec.structs.fields(kind)]
    if dataclasses.is_dataclass(kind):
        return [(field.name, field.default) for field in dataclasses.fields(kind)]
    return []


def _annotations_in(hint: Any) -> Iterator[Any]:
    if typing.get_origin(hint) is Annotated:
        yield hint
        yield from _annotations_in(typing.get_args(hint)[0])
        return
    for part in typing.get_args(hint):
        yield from _annotations_in(part)


def _parts(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) is typing.Literal:
        return ()
    if (value := _meaning(hint)) is not None:
        return (value,)
    return typing.get_args(hint)


def _meaning(hint: Any) -> Any:
    """The type behind a NewType or a `type` statement."""
    if isinstance(hint, typing.NewType):
        return hint.__supertype__
    if type(hint).__name__ == "TypeAliasType" and type(hint).__module__ in ("typing", "typing_extensions"):
        return hint.__value__
    return None


def _rebuilt(hint: Any, change: Callable[[Any], Any]) -> Any:
    """The type with its parts changed; the same object if none is."""
    parts = _parts(hint)
    changed = tuple(change(part) for part in parts)
    if all(new is old for new, old in zip(changed, parts, strict=True)):
        return hint
    if _meaning(hint) is not None:
        return changed[0]
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[changed]  # noqa: UP007
    return hint.copy_with(changed) if hasattr(hint, "copy_with") else origin[changed]


def underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    """The plain function that carries the annotations of a partial or of a callable object."""
    if isinstance(function, functools.partial):
        return underlying(function.func)
    return function if inspect.isroutine(function) else type(function).__call__


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", None) or underlying(function).__name__


def describe(function: Callable[..., Any], given: str | None) -> str | None:
    return given if given is not None else inspect.getdoc(underlying(function))


def schema_name(name: str) -> Callable[[type[T]], type[T]]:
    """Sets the name that a class has in JSON Schemas (`title`, `$defs`).

    Clients see that name, so a class that is renamed in Python keeps it.
    """

    def rename(cls: type[T]) -> type[T]:
        cls.__name__ = name
        return cls

    return rename
