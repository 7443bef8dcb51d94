"""Reading what strangers send: an object or a list, or an empty one where something else stands."""

from collections.abc import Mapping
from typing import Any, cast

Object = Mapping[str, Any]


def as_object(value: Any) -> Object:
    return cast(Object, value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []
