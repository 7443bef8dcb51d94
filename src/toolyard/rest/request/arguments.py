"""Prepares the arguments of a call: checks id lists and fills in defaults."""

import re
from collections.abc import Mapping
from typing import Any, cast

from msgspec import UNSET

from ...kit import ToolError
from ..definition.model import ParameterDefinition
from ..definition.plan import ToolPlan
from ..texts import RestTexts, shortened

_ID = r"-?[0-9]{1,18}"


class Defaults:
    """What is sent when a caller gives nothing: a setting of the server, or the table's own value."""

    def __init__(self, settings: object) -> None:
        self._settings = settings

    def of(self, parameter: ParameterDefinition) -> Any:
        """UNSET when there is none."""
        if parameter.setting:
            value = getattr(self._settings, parameter.setting, None)
            if value not in (None, "", 0):
                return value
        return parameter.default


def normalized(plan: ToolPlan, arguments: Mapping[str, Any], words: RestTexts) -> dict[str, Any]:
    """The arguments in the form in which they are sent; what stands for nothing is left out."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        parameter = plan.parameters.get(name)
        if parameter is not None and parameter.ids:
            value = id_list(name, value, parameter.ids, words)
            if not value:
                continue
        elif parameter is not None and parameter.place == "file" and not value:
            if parameter.required:
                raise ToolError(words.empty.format(name=name))
            continue
        elif parameter is not None and parameter.lookup and not str(value or "").strip():
            continue
        found[name] = whole(value)
    return found


def check_needs(plan: ToolPlan, arguments: Mapping[str, Any], defaults: Defaults, words: RestTexts) -> None:
    for group in plan.tool.needs:
        if not any(
            name in arguments  # null too, where the schema lets it pass: it empties a field
            or (name in plan.parameters and defaults.of(plan.parameters[name]) is not UNSET)
            for name in group
        ):
            raise ToolError(words.needs.format(names=", ".join(group)))


def with_defaults(plan: ToolPlan, arguments: dict[str, Any], defaults: Defaults) -> dict[str, Any]:
    for name, parameter in plan.with_defaults.items():
        if name not in arguments and (value := defaults.of(parameter)) is not UNSET:
            arguments[name] = value
    return arguments


def id_list(name: str, value: Any, most: int, words: RestTexts) -> str:
    """Ids with commas, from such a text, an array or a number; empty when there are none."""
    items = (
        cast(list[Any], value) if isinstance(value, list) else str("" if value is None else value).split(",")
    )
    found = [text for item in items if (text := str(whole(item)).strip())]
    for text in found:
        if not re.fullmatch(_ID, text):
            raise ToolError(words.id_list.format(name=name, value=shortened(text)))
    found = list(dict.fromkeys(found))
    if len(found) > most:
        raise ToolError(words.ids_most.format(name=name, most=most, count=len(found)))
    return ",".join(found)


def whole(value: Any) -> Any:
    """5.0 is how some write 5, and `/tickets/5.0` is not what they mean."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
