"""Where each value of a tool goes: what `checking` judges a table by is what `requests` then does."""

from collections.abc import Mapping

from .placeholders import placeholders
from .table import WITH_BODY, Parameter, Place, Tool


def places(tool: Tool, parameters: Mapping[str, Parameter]) -> dict[str, Place]:
    """By the names of parameters; one that helps to find, filter or compare goes nowhere."""
    unsent = {name for also in tool.also.values() for name in also.replace.values()} | {*tool.filters}
    in_path, otherwise = {*placeholders(tool.path)}, usual_place(tool)
    found: dict[str, Place] = {}
    for name, parameter in parameters.items():
        if parameter.lookup or name in unsent:
            found[name] = "none"
        else:
            found[name] = parameter.place or ("path" if name in in_path else otherwise)
    return found


def usual_place(tool: Tool) -> Place:
    """Of what is always sent, and of parameters that do not say otherwise."""
    if tool.method not in WITH_BODY or tool.body == "raw":
        return "query"
    return "json" if tool.body == "json" else "form"
