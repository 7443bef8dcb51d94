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
    """Values for missing arguments: a setting of the server, or the default of the definition."""

    def __init__(self, settings: object) -> None:
        self._settings = settings

    def of(self, parameter: ParameterDefinition) -> Any:
        """UNSET if there is none."""
        if parameter.setting:
            value = getattr(self._settings, parameter.setting, None)
            if value not in (None, "", 0):
                return value
        return parameter.default


def normalized(plan: ToolPlan, arguments: Mapping[str, Any], texts: RestTexts) -> dict[str, Any]:
    """The arguments as they are sent, without empty ones."""
    kept: dict[str, Any] = {}
    for name, value in arguments.items():
        parameter = plan.parameters.get(name)
        if parameter is not None and parameter.ids:
            value = id_list(name, value, parameter.ids, texts)
            if not value:
                continue
        elif parameter is not None and parameter.place == "file" and not value:
            if parameter.required:
                raise ToolError(texts.empty.format(name=name))
            continue
        elif parameter is not None and parameter.lookup and not str(value or "").strip():
            continue
        kept[name] = whole_number(value)
    return kept


def check_needs(plan: ToolPlan, arguments: Mapping[str, Any], defaults: Defaults, texts: RestTexts) -> None:
    for group in plan.tool.needs:
        if not any(
            name in arguments  # also null, if the schema allows it: it clears a field
            or (name in plan.parameters and defaults.of(plan.parameters[name]) is not UNSET)
            for name in group
        ):
            raise ToolError(texts.needs.format(names=", ".join(group)))


def with_defaults(plan: ToolPlan, arguments: dict[str, Any], defaults: Defaults) -> dict[str, Any]:
    for name, parameter in plan.with_defaults.items():
        if name not in arguments and (value := defaults.of(parameter)) is not UNSET:
            arguments[name] = value
    return arguments


def id_list(name: str, value: Any, most: int, texts: RestTexts) -> str:
    """Ids with commas, from a text with commas, an array or a number; may be empty."""
    items = (
        cast(list[Any], value) if isinstance(value, list) else str("" if value is None else value).split(",")
    )
    found = [text for item in items if (text := str(whole_number(item)).strip())]
    for text in found:
        if not re.fullmatch(_ID, text):
            raise ToolError(texts.id_list.format(name=name, value=shortened(text)))
    found = list(dict.fromkeys(found))
    if len(found) > most:
        raise ToolError(texts.ids_most.format(name=name, most=most, count=len(found)))
    return ",".join(found)


def whole_number(value: Any) -> Any:
    """A float without a fraction as an int: a model that writes 5.0 does not mean `/tickets/5.0`."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
