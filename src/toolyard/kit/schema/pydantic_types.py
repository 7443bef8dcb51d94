"""Pydantic types in arguments and results, for authors who use Pydantic.

Owns every use of Pydantic: for msgspec, models and other types that only Pydantic can check are custom types
with the hooks here. Pydantic is not a dependency: it is taken from `sys.modules`, so it costs nothing unless
the author's code has imported it.
"""

import functools
import re
import sys
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

if TYPE_CHECKING:
    import pydantic

JsonSchema = dict[str, Any]
Mode = Literal["validation", "serialization"]

_STANDARD = ("pathlib", "ipaddress", "fractions", "zoneinfo")
"""Modules of the standard library that Pydantic supports and msgspec does not."""
MOST_FAULTS = 3
"""How many faults of one value a message names."""

REQUIRED, NOT_KNOWN = "is required", "is not known here"


class PydanticMismatchError(ValueError):
    """Pydantic refuses a value; `faults` have a path inside it. msgspec passes the error on."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(text for _, text in faults))
        self.faults = faults


class ValidatorError(Exception):
    """A validator of the author has a bug; its cause is the exception."""


class _HoldsAnything(type):
    """For msgspec, which checks that the hook returned an instance of the custom type."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return True


class PydanticType(metaclass=_HoldsAnything):
    """The base of placeholder types for annotations that Pydantic checks as a whole."""

    adapter: "pydantic.TypeAdapter[Any]"
    lax: bool


def loaded() -> bool:
    """Whether the author's code has imported Pydantic 2."""
    module = sys.modules.get("pydantic")
    return module is not None and str(getattr(module, "VERSION", "1")).split(".")[0] != "1"


def is_model(kind: Any) -> bool:
    return loaded() and isinstance(kind, type) and issubclass(kind, sys.modules["pydantic"].BaseModel)


def is_custom(kind: Any) -> bool:
    """Whether Pydantic has rules for a class that is not a model: a URL, a secret, a JSON string, a path."""
    if not loaded() or not isinstance(kind, type) or is_model(kind):
        return False
    return hasattr(kind, "__get_pydantic_core_schema__") or kind.__module__.partition(".")[0] in _STANDARD


def is_dataclass(kind: Any) -> bool:
    """Whether it is a dataclass of Pydantic, whose rules msgspec would ignore."""
    return (
        loaded() and isinstance(kind, type) and "__pydantic_validator__" in vars(kind) and not is_model(kind)
    )


def stand_in(kind: Any, lax: bool) -> type[PydanticType]:
    """A custom type for msgspec in place of an annotation that Pydantic understands."""
    return _HoldsAnything("PydanticType", (PydanticType,), {"adapter": _new_adapter(kind), "lax": lax})


def schema(kind: Any, mode: Mode) -> JsonSchema:
    """msgspec's `schema_hook`: the schema of a custom type, with its own `$defs`."""
    if not _is_ours(kind):
        raise NotImplementedError
    adapter = _adapter(kind)
    try:
        found = adapter.json_schema(mode=mode, by_alias=True, schema_generator=_generator())
    except _definition_errors() as error:
        raise TypeError(_in_one_line(error)) from None
    return _as_definition(kind, found) if is_model(kind) and "$ref" not in found else found


def _as_definition(kind: type, found: JsonSchema) -> JsonSchema:
    """A model by reference, like structs, so that several parameters share one description."""
    defs: JsonSchema = found.pop("$defs", {})
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", kind.__name__)
    while name in defs:  # a definition inside it has that name
        name += "_"
    return {"$ref": f"#/$defs/{name}", "$defs": {**defs, name: found}}


def decode(kind: Any, value: Any, strict: bool) -> Any:
    """msgspec's `dec_hook`: an instance of a custom type; raises PydanticMismatchError."""
    if not _is_ours(kind):
        raise NotImplementedError
    adapter = _adapter(kind)
    try:
        return _validated(adapter, value, strict and not getattr(kind, "lax", False))
    except PydanticMismatchError:
        if strict or not isinstance(value, str):
            raise
        # Prompts have strings only: it may be the JSON of an object or an array.
        try:
            inside = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            inside = value
        if isinstance(inside, str):
            raise
        return _validated(adapter, inside, strict)


def _validated(adapter: "pydantic.TypeAdapter[Any]", value: Any, strict: bool) -> Any:
    import pydantic

    try:
        # As JSON: strict mode accepts strings for dates and arrays for tuples only there.
        text = msgspec.json.encode(value)
    except (UnicodeError, RecursionError) as error:
        raise PydanticMismatchError([("", f"it cannot be read as JSON: {error}")]) from None
    try:
        return adapter.validate_json(text, strict=strict)
    except pydantic.ValidationError as error:
        raise PydanticMismatchError(_faults(error, value)) from None
    except Exception as error:
        raise ValidatorError from error


def can_encode(value: Any) -> bool:
    return hasattr(value, "__pydantic_serializer__")


def encode(value: Any) -> Any:
    """msgspec's `enc_hook`: a model as plain data, by its aliases."""
    if not can_encode(value):
        raise TypeError(f"values of type {type(value).__qualname__} have no JSON form")
    return value.__pydantic_serializer__.to_python(value, mode="json", by_alias=True, warnings=False)


def dump(kind: type[PydanticType], value: Any) -> bytes:
    """The JSON of a result, by the serializers of its return annotation."""
    return kind.adapter.dump_json(value, by_alias=True, warnings=False)


def _is_ours(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, PydanticType) or is_model(kind))


def _adapter(kind: Any) -> "pydantic.TypeAdapter[Any]":
    return kind.adapter if issubclass(kind, PydanticType) else _adapter_of_class(kind)


@functools.lru_cache(maxsize=512)
def _adapter_of_class(kind: type) -> "pydantic.TypeAdapter[Any]":
    return _new_adapter(kind)


def _new_adapter(kind: Any) -> "pydantic.TypeAdapter[Any]":
    import pydantic

    try:
        return pydantic.TypeAdapter(kind)
    except _definition_errors() as error:
        raise TypeError(_in_one_line(error)) from None


def _definition_errors() -> tuple[type[Exception], ...]:
    import pydantic
    import pydantic_core

    return (
        pydantic.PydanticUserError,
        pydantic.errors.PydanticUndefinedAnnotation,
        pydantic_core.SchemaError,
        TypeError,
    )


def _in_one_line(error: Exception) -> str:
    """The reason. For an invalid pattern Pydantic gives it in the last line."""
    lines = str(error).strip().splitlines()
    return f"{lines[0]} {lines[-1].strip()}" if type(error).__name__ == "SchemaError" else lines[0]


@functools.cache
def _generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Omits titles that only repeat the name of a field, which cost tokens."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Untitled


_TYPES = {
    "int_type": "int",
    "int_from_float": "int",
    "float_type": "float",
    "bool_type": "bool",
    "string_type": "str",
    "none_required": "null",
    "list_type": "array",
    "tuple_type": "array",
    "set_type": "array",
    "frozen_set_type": "array",
    "dict_type": "object",
    "mapping_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
    "dataclass_type": "object",
}
_LIMITS = {
    "greater_than": "> {gt}",
    "greater_than_equal": ">= {ge}",
    "less_than": "< {lt}",
    "less_than_equal": "<= {le}",
    "multiple_of": "that's a multiple of {multiple_of}",
    "string_too_short": "of length >= {min_length}",
    "string_too_long": "of length <= {max_length}",
    "too_short": "of length >= {min_length}",
    "too_long": "of length <= {max_length}",
    "string_pattern_mismatch": "matching regex {pattern!r}",
}
_INPUT_SHOULD = re.compile(r"^Input should (?:be|have) ")


def _faults(error: "pydantic.ValidationError", value: Any) -> list[tuple[str, str]]:
    """The first few faults, each once: members of a union often report the same."""
    found = [_fault(cast(dict[str, Any], item), value) for item in error.errors(include_url=False)]
    return list(dict.fromkeys(found))[:MOST_FAULTS]


def _fault(error: dict[str, Any], value: Any) -> tuple[str, str]:
    kind, context = str(error["type"]), error.get("ctx", {})
    path = _path(error["loc"], value, kind == "missing")
    given = _type_name(error["input"])
    if kind == "missing":
        return path, REQUIRED
    if kind == "extra_forbidden":
        return path, NOT_KNOWN
    if kind in _TYPES:
        return path, f"expected `{_TYPES[kind]}`, got `{given}`"
    if kind in _LIMITS:
        # A decimal is a string in JSON, and the limit is not for strings.
        what = "a value" if given == "str" and not kind.startswith("string") else f"`{given}`"
        return path, f"expected {what} {_LIMITS[kind].format(**context)}"
    if kind in ("value_error", "assertion_error") and "error" in context:
        return path, str(context["error"]) or "this value is not allowed"
    text = _INPUT_SHOULD.sub("expected ", str(error["msg"]))
    return path, text[:1].lower() + text[1:]


def _path(steps: tuple[int | str, ...], value: Any, missing: bool) -> str:
    """The path in the value, without the members of unions, which Pydantic also names."""
    path = ""
    for at, step in enumerate(steps):
        if isinstance(step, int) and isinstance(value, list):
            path += f"[{step}]"
            items = cast(list[Any], value)
            value = items[step] if step < len(items) else None
        elif isinstance(value, dict) and (step in value or (missing and at == len(steps) - 1)):
            path = f"{path}.{step}" if path else str(step)
            value = cast(dict[Any, Any], value).get(step)
    return path


def _type_name(value: Any) -> str:
    """The name of a JSON type in msgspec's messages."""
    names = {"NoneType": "null", "list": "array", "dict": "object"}
    return names.get(type(value).__name__, type(value).__name__)
