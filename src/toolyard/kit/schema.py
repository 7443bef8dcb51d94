"""From Python annotations to JSON Schema, and from JSON to checked Python values.

Two ways in, one interface out: a typed signature becomes a msgspec struct, an explicit schema a
compiled JSON Schema validator. Either way a wrong value raises `Mismatch` with a sentence that names
the field and what was expected.
"""

import copy
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import msgspec
from msgspec import NODEFAULT, Meta, Raw

from ..wire.types import BLOCKS
from .introspection import name_of, underlying

if TYPE_CHECKING:
    import jsonschema_rs

JsonSchema = dict[str, Any]

LONGEST = 600
"""Characters of a message about a value."""


class Mismatch(ValueError):
    """A value does not fit; the message names the field and what was expected."""


class Validator(Protocol):
    """Takes raw JSON or Python data and returns the checked value, or raises Mismatch."""

    schema: JsonSchema

    def __call__(self, value: Raw | Any) -> Any: ...


class TypedValidator:
    """Checks by decoding into a Python type."""

    def __init__(self, kind: Any, schema: JsonSchema, strict: bool = True) -> None:
        self.schema = schema
        self._kind = kind
        self._strict = strict
        self._decode = msgspec.json.Decoder(kind, strict=strict).decode

    def __call__(self, value: Raw | Any) -> Any:
        try:
            if isinstance(value, Raw | bytes):
                return self._decode(value)
            return msgspec.convert(value, self._kind, strict=self._strict)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Mismatch(explain(error)) from None


class Checked(JsonSchema):
    """A JSON Schema that somebody has seen to be usable already.

    It is compiled when it is first needed; any other when it is declared, so that a wrong one is found then.
    """


class Fitting(Checked):
    """The schema of results that are made to fit it, and need not be held against it each time."""


class NoValidator:
    """Takes what is made to fit as it is."""

    def __init__(self, schema: JsonSchema) -> None:
        self.schema = schema

    def __call__(self, value: Raw | Any) -> Any:
        return value


class SchemaValidator:
    """Checks against an explicit JSON Schema (2020-12 unless it says otherwise)."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = dict(schema)
        if not isinstance(schema, Checked):
            _ = self._validator

    @cached_property
    def _validator(self) -> "jsonschema_rs.Validator":
        import jsonschema_rs  # 4 to 23 ms of CPU, needed only by explicit schemas

        try:
            return jsonschema_rs.validator_for(self.schema, retriever=_refuse_remote)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise ValueError(f"not a usable JSON Schema: {error}") from None

    def __call__(self, value: Raw | Any) -> Any:
        if isinstance(value, Raw | bytes):
            try:
                value = msgspec.json.decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise Mismatch(explain(error)) from None
        for error in self._validator.iter_errors(value):
            where = ".".join(str(step) for step in error.instance_path)
            raise Mismatch(_bounded(f"field {where!r}: {error.message}" if where else error.message))
        return value


def _bounded(message: str) -> str:
    """It quotes the whole value at fault, which may be a file; what is wrong with it stands at the end."""
    if len(message) <= LONGEST:
        return message
    return f"{message[: LONGEST // 2]} … {message[-LONGEST // 2 :]}"


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"schemas may not refer to other documents ({uri!r})")


_AT_PATH = re.compile(r"(.*) - at `(?:key in )?\$\.?(.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


def explain(error: BaseException) -> str:
    """msgspec's message with the field first: `field 'a': expected `int`, got `str``."""
    text, path = str(error), ""
    if match := _AT_PATH.match(text):
        text, path = match[1], match[2]
    if match := _MISSING.match(text):
        return f"field {_join(path, match[1])!r} is required"
    if match := _UNKNOWN.match(text):
        return f"field {_join(path, match[1])!r} is not known here"
    text = text[:1].lower() + text[1:]
    return f"field {path!r}: {text}" if path else text


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def schema_of(kind: Any) -> JsonSchema:
    """The JSON Schema of a type, its own definition inlined at the root."""
    try:
        (schema,), defs = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise TypeError(
            f"{kind!r} cannot be described by a JSON Schema ({error}); "
            "use msgspec structs, dataclasses, TypedDict or builtin types, or pass a schema"
        ) from None
    root = dict(schema)
    ref = root.pop("$ref", None)
    if ref is not None:
        name = str(ref).removeprefix("#/$defs/")
        inlined = dict(defs[name])
        if not _refers_to(name, defs):
            defs = {key: value for key, value in defs.items() if key != name}
        root = {**inlined, **root}
    if defs:
        root["$defs"] = dict(defs)
    return root


def _refers_to(name: str, node: Any) -> bool:
    if isinstance(node, Mapping):
        items = cast(Mapping[str, Any], node)
        return items.get("$ref") == f"#/$defs/{name}" or any(_refers_to(name, v) for v in items.values())
    return isinstance(node, list) and any(_refers_to(name, item) for item in cast(list[Any], node))


def flat_schema_of(kind: Any) -> JsonSchema:
    """The schema of a form: one level of primitive properties, as elicitation requires."""
    schema = schema_of(kind)
    defs: JsonSchema = schema.pop("$defs", {})
    properties: dict[str, JsonSchema] = schema.get("properties", {})
    flat = {name: _form_field(name, prop, defs) for name, prop in properties.items()}
    return {"type": "object", "properties": flat, "required": schema.get("required", [])}


def _form_field(name: str, prop: JsonSchema, defs: JsonSchema) -> JsonSchema:
    """One field of a form: a primitive, a choice of strings, or several of such choices."""
    field = _inlined(prop, defs)
    choices = [_inlined(choice, defs) for choice in field.pop("anyOf", []) if choice.get("type") != "null"]
    if len(choices) == 1:
        field |= choices[0]
    if field.get("default", 0) is None:
        del field["default"]
    if "enum" in field:
        field.setdefault("type", "string")
    if field.get("type") == "array":
        field["items"] = {"type": "string", **_inlined(field.get("items", {}), defs)}
    if not _fits_form(field):
        raise TypeError(
            f"a form has text, numbers, booleans and choices of strings; {name!r} is none of these"
        )
    return field


def _inlined(node: JsonSchema, defs: JsonSchema) -> JsonSchema:
    ref = node.get("$ref")
    if ref is None:
        return dict(node)
    rest = {key: value for key, value in node.items() if key != "$ref"}
    return {**defs[str(ref).removeprefix("#/$defs/")], **rest}


def _fits_form(field: JsonSchema) -> bool:
    if field.get("type") == "array":
        field = field["items"]
        if "enum" not in field:
            return False
    if "enum" in field:
        return all(isinstance(choice, str) for choice in field["enum"])
    return field.get("type") in ("string", "number", "integer", "boolean")


class Signature:
    """How a function takes its arguments: its schema, and a call's arguments as keywords.

    Not strict where the wire has strings only (prompts, addresses): "5" is then a good int.
    """

    def __init__(self, function: Callable[..., Any], context_type: type, strict: bool = True) -> None:
        self.context_name: str | None = None
        fields: list[tuple[str, Any, Any]] = []
        hints = _hints(function)
        for name, parameter in inspect.signature(function).parameters.items():
            hint = hints.get(name, Any)
            if hint is context_type or context_type in typing.get_args(hint):
                self.context_name = name
                continue
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(
                    f"{name_of(function)}: parameter {name!r} cannot be filled by name; "
                    "pass input_schema to take all arguments as one dict"
                )
            fields.append((name, described(hint), _default(parameter.default)))
        self.names = [name for name, _, _ in fields]
        title = "".join(part.capitalize() for part in name_of(function).split("_")) + "Arguments"
        struct = msgspec.defstruct(title, fields, forbid_unknown_fields=True, kw_only=True)
        schema = schema_of(struct)
        schema.pop("title", None)
        schema.setdefault("properties", {})
        self.validate = TypedValidator(struct, schema, strict)

    def bind(self, arguments: Raw | dict[str, Any]) -> dict[str, Any]:
        return msgspec.structs.asdict(self.validate(arguments))


class DictSignature:
    """A function with an explicit schema: it takes one dict, and a context when it asks for one."""

    def __init__(self, function: Callable[..., Any], context_type: type, schema: Mapping[str, Any]) -> None:
        if schema.get("type") != "object":
            raise ValueError(f"input_schema must have type 'object', not {schema.get('type')!r}")
        hints = _hints(function)
        parameters = list(inspect.signature(function).parameters)
        contexts = [name for name in parameters if hints.get(name) is context_type]
        self.context_name = contexts[0] if contexts else None
        others = [name for name in parameters if name not in contexts]
        if len(others) != 1:
            raise TypeError(
                f"{name_of(function)}: with input_schema it must take one dict of arguments "
                f"(and a Context if it likes), not {others!r}"
            )
        self._name = others[0]
        self.validate = SchemaValidator(schema)

    def bind(self, arguments: Raw | dict[str, Any]) -> dict[str, Any]:
        return {self._name: self.validate(arguments)}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(underlying(function), include_extras=True)
    except NameError as error:
        raise TypeError(f"{name_of(function)}: cannot resolve its annotations: {error}") from None


def _default(value: Any) -> Any:
    if value is inspect.Parameter.empty:
        return NODEFAULT
    try:
        hash(value)
    except TypeError:  # mutable: each call gets its own
        return msgspec.field(default_factory=lambda: copy.deepcopy(value))
    return value


def described(hint: Any) -> Any:
    """`Annotated[int, "text"]` means the same as a Meta with that description."""
    if typing.get_origin(hint) is not Annotated:
        return hint
    kind, *extras = typing.get_args(hint)
    metas = [Meta(description=extra) if isinstance(extra, str) else extra for extra in extras]
    for meta in metas:
        kind = Annotated[kind, meta]
    return kind


class Output:
    """What a function's return annotation promises.

    `validator` is None when it promises nothing but content. A value that is not an object travels
    as `{"result": value}`, because structured content is an object in every revision we speak.
    """

    def __init__(self, validator: Validator | None, wrapped: bool = False) -> None:
        self.validator = validator
        self.wrapped = wrapped
        self.schema = validator.schema if validator is not None else None


def output_of(
    function: Callable[..., Any], schema: Mapping[str, Any] | type | None, free: tuple[Any, ...]
) -> Output:
    """`free` are the types beside str and content blocks that promise no structure."""
    if schema is not None:
        written = schema_of(schema) if isinstance(schema, type) else schema
        if written.get("type") != "object":
            raise ValueError(f"output_schema must have type 'object', not {written.get('type')!r}")
        if isinstance(schema, Fitting):
            return Output(NoValidator(schema))
        return Output(
            TypedValidator(schema, dict(written)) if isinstance(schema, type) else SchemaValidator(schema)
        )
    hint = _hints(function).get("return", Any)
    if _is_free(hint, (*free, *BLOCKS)):
        return Output(None)
    described_schema = schema_of(hint)
    if described_schema.get("type") == "object":
        return Output(TypedValidator(hint, described_schema))
    wrapper = msgspec.defstruct("Result", [("result", hint)])
    return Output(TypedValidator(wrapper, schema_of(wrapper)), wrapped=True)


def _is_free(hint: Any, free: tuple[Any, ...]) -> bool:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _is_free(typing.get_args(hint)[0], free)
    if origin in (list, tuple, typing.Union, types.UnionType):
        parts = [part for part in typing.get_args(hint) if part is not Ellipsis]
        if origin in (list, tuple):
            return any(_is_block(part, free) for part in parts)
        return any(_is_free(part, free) for part in parts if part is not type(None))
    return hint in (Any, None, type(None), str, list, object, inspect.Signature.empty) or _is_block(
        hint, free
    )


def _is_block(hint: Any, free: tuple[Any, ...]) -> bool:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(_is_block(part, free) for part in typing.get_args(hint))
    return hint in free
