"""From Python annotations to JSON Schema, and from JSON to checked Python values.

Two ways in, one interface out: a typed signature becomes a msgspec struct, an explicit schema a
compiled JSON Schema validator. Either way a wrong value raises `Mismatch` with a sentence that names
the field and what was expected.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import msgspec
from msgspec import Raw

from ...languages import current_locale, said
from ...wire.types import BLOCKS
from ..dependencies import Dependency
from . import pydantic_types
from .annotations import name_of, read_parameter, read_type, underlying
from .pydantic_types import JsonSchema

if TYPE_CHECKING:
    import jsonschema_rs


MAX_MESSAGE = 600
"""Characters of a message."""


class MismatchError(ValueError):
    """A value does not fit; the message names the field and the expected type."""


class Validator(Protocol):
    """Takes raw JSON or Python data and returns the checked value, or raises MismatchError."""

    schema: JsonSchema

    def __call__(self, value: Raw | Any) -> Any: ...


class TypedValidator:
    """Checks by decoding into a Python type."""

    def __init__(self, kind: Any, schema: JsonSchema, strict: bool = True) -> None:
        self.schema = schema
        self._kind = kind
        self._strict = strict
        self._hook = partial(_decode_custom, strict)
        self._decode = msgspec.json.Decoder(kind, strict=strict, dec_hook=self._hook).decode

    def __call__(self, value: Raw | Any) -> Any:
        try:
            if isinstance(value, Raw | bytes):
                return self._decode(value)
            return msgspec.convert(value, self._kind, strict=self._strict, dec_hook=self._hook)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MismatchError(explain(error)) from None


def _decode_custom(strict: bool, kind: Any, value: Any) -> Any:
    return pydantic_types.decode(kind, value, strict)


class TrustedSchema(JsonSchema):
    """A JSON Schema that is known to be valid.

    It is compiled when it is first needed; any other when it is declared, so that a wrong one is found then.
    """


class TrustedOutputSchema(TrustedSchema):
    """The schema of results that always fit, so that they need no check."""


class NoValidator:
    """Returns values unchecked."""

    def __init__(self, schema: JsonSchema) -> None:
        self.schema = schema

    def __call__(self, value: Raw | Any) -> Any:
        return value


class SchemaValidator:
    """Checks against an explicit JSON Schema (2020-12 by default)."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = dict(schema)
        if not isinstance(schema, TrustedSchema):
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
                raise MismatchError(explain(error)) from None
        for error in self._validator.iter_errors(value):
            where = ".".join(str(step) for step in error.instance_path)
            raise MismatchError(_bounded(_sentence(where, error.message)))
        return value


def _bounded(message: str) -> str:
    """Shorten a message, which quotes the whole value; the reason is at its end."""
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[: MAX_MESSAGE // 2]} … {message[-MAX_MESSAGE // 2 :]}"


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"schemas must not refer to other documents ({uri!r})")


_AT_PATH = re.compile(r"(.*) - at `(?:key` in `)?\$\.?(.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


def explain(error: BaseException) -> str:
    """msgspec's message with the field first: `field 'a': expected `int`, got `str``."""
    text, path = str(error), ""
    if match := _AT_PATH.match(text):
        text, path = match[1], match[2]
    if isinstance(error.__cause__, pydantic_types.PydanticMismatchError):
        faults = [_sentence(_join(path, inner), text) for inner, text in error.__cause__.faults]
        return _bounded("; ".join(faults))
    if match := _MISSING.match(text):
        return _sentence(_join(path, match[1]), pydantic_types.REQUIRED)
    if match := _UNKNOWN.match(text):
        return _sentence(_join(path, match[1]), pydantic_types.NOT_KNOWN)
    return _sentence(path, text[:1].lower() + text[1:])


def reason_here(reason: str) -> str:
    """Return what a validator says, in the language in which we answer now."""
    if current_locale() == "en":
        return reason
    from .reasons import in_portuguese  # its patterns are for those who need them

    return in_portuguese(reason)


def _sentence(path: str, text: str) -> str:
    if path and text == pydantic_types.REQUIRED:
        return said(f"field {path!r} is required", f"o campo {path!r} é obrigatório")
    if path and text == pydantic_types.NOT_KNOWN:
        return said(f"field {path!r} is not known here", f"o campo {path!r} não é conhecido aqui")
    reason = reason_here(text)
    return said(f"field {path!r}: {reason}", f"campo {path!r}: {reason}") if path else reason


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name and not name.startswith("[") else path + name


def schema_of(kind: Any, mode: pydantic_types.Mode = "validation") -> JsonSchema:
    """The JSON Schema of a type, with its own definition at the root.

    `mode` is for Pydantic's models, whose input and output may have different forms.
    """
    hook = partial(_custom_schema, mode)
    try:
        (schema,), defs = msgspec.json.schema_components(
            [kind], schema_hook=hook, ref_template="#/$defs/{name}"
        )
    except TypeError as error:
        # The other lines are about msgspec's own arguments.
        reason = str(error).partition("\n")[0].removesuffix(" requires either:")
        raise TypeError(
            f"{kind!r} cannot be described by a JSON Schema ({reason}); "
            "use msgspec structs, dataclasses, TypedDict, builtin types or Pydantic models, or pass a schema"
        ) from None
    defs = dict(defs)
    root = cast(JsonSchema, _hoisted(dict(schema), defs))
    for name in list(defs):
        defs[name] = _hoisted(defs[name], defs)
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


_ANYTHING = "$anything"
"""A member for empty schemas, which msgspec would treat as missing."""


def _custom_schema(mode: pydantic_types.Mode, kind: Any) -> JsonSchema:
    return pydantic_types.schema(kind, mode) or {_ANYTHING: True}


def _hoisted(node: Any, defs: JsonSchema) -> Any:
    """The node, with the definitions of its parts moved to the root."""
    if isinstance(node, list):
        return [_hoisted(item, defs) for item in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    parts = dict(cast(JsonSchema, node))
    own: JsonSchema = parts.pop("$defs", {})
    parts.pop(_ANYTHING, None)
    names = {name: _free_name(name, schema, defs) for name, schema in own.items()}
    renamed = {name: new for name, new in names.items() if new != name}
    if own:
        parts = cast(JsonSchema, _renamed(parts, renamed))
        defs |= {names[name]: _renamed(schema, renamed) for name, schema in own.items()}
    return {key: _hoisted(value, defs) for key, value in parts.items()}


def _free_name(name: str, schema: JsonSchema, defs: JsonSchema) -> str:
    """A name that is not taken: two libraries may each have an `Address`."""
    free, count = name, 2
    while free in defs and defs[free] != schema:
        free, count = f"{name}{count}", count + 1
    return free


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    """Rename references, in `$ref` and in mappings of discriminators."""
    if not names:
        return node
    if isinstance(node, str) and node.startswith("#/$defs/"):
        name = node.removeprefix("#/$defs/")
        return f"#/$defs/{names.get(name, name)}"
    if isinstance(node, list):
        return [_renamed(item, names) for item in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    return {key: _renamed(value, names) for key, value in cast(JsonSchema, node).items()}


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
    """One field of a form: a primitive, a choice of strings, or several such choices."""
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
            f"{name!r} cannot be in a form, which has text, numbers, booleans and choices of strings"
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
    """The parameters of a function: their schema, and a call's arguments as keywords.

    Not strict for prompts and URIs, which have strings only: "5" is then a valid int.
    """

    def __init__(self, function: Callable[..., Any], context_type: type, strict: bool = True) -> None:
        self.context_name: str | None = None
        self.required: set[str] = set()
        """The names without a default."""
        fields: list[tuple[str, Any, Any]] = []
        self.names: list[str] = []
        hints = _hints(function)
        for name, parameter in inspect.signature(function).parameters.items():
            hint = hints.get(name, Any)
            if hint is context_type or context_type in typing.get_args(hint):
                self.context_name = name
                continue
            if isinstance(parameter.default, Dependency):
                continue
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(
                    f"{name_of(function)}: parameter {name!r} cannot be filled by name; "
                    "pass input_schema to take all arguments as one dict"
                )
            try:
                read = read_parameter(name, hint, parameter.default, strict)
            except TypeError as error:
                raise TypeError(f"{name_of(function)}: parameter {name!r}: {error}") from None
            if read.name in self.names:
                raise TypeError(f"{name_of(function)}: two parameters are named {read.name!r}")
            self.names.append(read.name)
            if read.default is msgspec.NODEFAULT:
                self.required.add(read.name)
            fields.append(read.field(name))
        title = "".join(part.capitalize() for part in name_of(function).split("_")) + "Arguments"
        struct = msgspec.defstruct(title, fields, forbid_unknown_fields=True, kw_only=True)
        schema = self._schema(struct, function, fields)
        schema.pop("title", None)
        schema.setdefault("properties", {})
        self.validate = TypedValidator(struct, schema, strict)

    def _schema(
        self, struct: type, function: Callable[..., Any], fields: list[tuple[str, Any, Any]]
    ) -> JsonSchema:
        try:
            return schema_of(struct)
        except TypeError:
            for name, kind, _ in fields:  # to name the parameter
                try:
                    schema_of(kind)
                except TypeError as error:
                    raise TypeError(f"{name_of(function)}: parameter {name!r}: {error}") from None
            raise

    def bind(self, arguments: Raw | dict[str, Any]) -> dict[str, Any]:
        return msgspec.structs.asdict(self.validate(arguments))


def context_parameter(function: Callable[..., Any], context_type: type) -> str | None:
    """The name of its parameter that takes the context."""
    hints = _hints(function)
    found = (
        name for name, hint in hints.items() if hint is context_type or context_type in typing.get_args(hint)
    )
    return next((name for name in found if name != "return"), None)


class DictSignature:
    """A function with an explicit schema: it takes one dict, and optionally a context."""

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
                f"(and optionally a Context), not {others!r}"
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


WRAPPED = "x-fastmcp-wrap-result"
"""Says in a schema that its value is under `result`; clients of FastMCP unwrap it."""
_BEFORE = b'{"result":'


def is_foreign(value: object) -> bool:
    """Whether it is content or a result of the SDK's types."""
    return _is_foreign_type(type(value))


def _is_foreign_type(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("mcp", "mcp_types") and kind.__name__ in _FOREIGN


_FOREIGN = (
    "TextContent",
    "ImageContent",
    "AudioContent",
    "ResourceLink",
    "EmbeddedResource",
    "CallToolResult",
)


class Output:
    """The form of a function's results, from its return annotation.

    `validator` is None if results are only content. A value that is not an object is sent as
    `{"result": value}`, because structured content must be an object.
    """

    def __init__(
        self,
        validator: Validator | None,
        wrapped: bool = False,
        encode: Callable[[Any], bytes] | None = None,
        bare: bool = False,
    ) -> None:
        """`bare`: the text of a wrapped value is the value's own."""
        self.validator = validator
        self.schema = validator.schema if validator is not None else None
        self.wrapped = wrapped
        self.bare = bare
        if bare and wrapped and self.schema is not None:
            self.schema = {**self.schema, WRAPPED: True}
        self._encode = encode or to_json

    def unchecked(self) -> "Output":
        """The same form, for results that need not fit it."""
        return Output(None, self.wrapped, self._encode, self.bare)

    def encode(self, value: Any) -> bytes:
        """The JSON of a result. Raises the errors of msgspec and Pydantic."""
        raw = self._encode(value)
        return _BEFORE + raw + b"}" if self.wrapped else raw

    def text(self, encoded: bytes) -> str | None:
        """What stands in the text beside structured content; None: nothing."""
        if not (self.bare and self.wrapped):
            return encoded.decode()
        value = encoded[len(_BEFORE) : -1]
        return None if value == b"null" else value.decode()


def to_json(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=pydantic_types.encode)


def output_of(
    function: Callable[..., Any],
    schema: Mapping[str, Any] | type | None,
    free: tuple[Any, ...],
    bare: bool = False,
) -> Output:
    """`free` are types without structured content, besides content blocks and, unless `bare`, str."""
    if isinstance(schema, Mapping):
        _must_be_object(schema)
        return Output(
            NoValidator(schema) if isinstance(schema, TrustedOutputSchema) else SchemaValidator(schema)
        )
    if schema is not None:
        output = _typed_output(schema, name_of(function), bare)
        if output.wrapped:
            _must_be_object(schema_of(read_type(schema), "serialization"))
        return output
    hint = _hints(function).get("return", Any)
    if _is_free(hint, (*free, *BLOCKS)) and not (bare and hint is str):
        return Output(None, bare=bare)
    return _typed_output(hint, name_of(function), bare)


def _must_be_object(schema: Mapping[str, Any]) -> None:
    if schema.get("type") != "object":
        raise ValueError(f"output_schema must have type 'object', not {schema.get('type')!r}")


def _typed_output(hint: Any, name: str, bare: bool = False) -> Output:
    try:
        kind = read_type(hint)
        written = schema_of(kind, "serialization")
    except TypeError as error:
        raise TypeError(f"{name}: its result: {error}") from None
    wrapped = written.get("type") != "object"
    wrapper = msgspec.defstruct("Result", [("result", kind)]) if wrapped else kind
    if wrapped:
        written = schema_of(wrapper, "serialization")
    stand_in = _stand_in(kind)
    if stand_in is None and not _has_models(kind):
        return Output(TypedValidator(wrapper, written), wrapped, bare=bare)
    # Pydantic may write a form that it does not read, so check against the schema instead.
    encode = partial(pydantic_types.dump, stand_in) if stand_in is not None else None
    return Output(SchemaValidator(TrustedSchema(written)), wrapped, encode, bare)


def _has_models(kind: Any) -> bool:
    """Whether Pydantic has to write a part of it."""
    try:
        msgspec.json.schema_components([kind])
    except TypeError:
        return True
    return False


def _stand_in(kind: Any) -> type[pydantic_types.PydanticType] | None:
    """The placeholder type, if the whole annotation was replaced by one."""
    bare = typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind
    is_one = isinstance(bare, type) and issubclass(bare, pydantic_types.PydanticType)
    return cast("type[pydantic_types.PydanticType]", bare) if is_one else None


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
    return hint in free or (isinstance(hint, type) and _is_foreign_type(hint))
