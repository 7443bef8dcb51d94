"""Reads untrusted JSON: an object or a list, or an empty one if the value is something else."""

from collections.abc import Mapping
from typing import Any, cast

JsonMapping = Mapping[str, Any]


def as_object(value: Any) -> JsonMapping:
    return cast(JsonMapping, value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []
