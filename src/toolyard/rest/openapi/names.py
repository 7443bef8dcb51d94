"""Names that models and clients accept, each once."""

import re
from collections.abc import Container

LONGEST = 64
_WORDS = re.compile(r"[^A-Za-z0-9]+")
_TOOL = re.compile(r"[^A-Za-z0-9_-]+")
_PARAMETER = re.compile(r"[^A-Za-z0-9_.-]+")


def tool_name(operation_id: str, method: str, path: str, taken: Container[str]) -> str:
    """The operationId where it can be a name; else what the operation does, by its method and path."""
    name = _TOOL.sub("_", operation_id).strip("_-")
    if not name:
        spoken = re.sub(r"\{([^{}]*)\}", r"by_\1", path)
        name = f"{method}_{_WORDS.sub('_', spoken).strip('_')}".strip("_").lower()
    return unique(name[:LONGEST].rstrip("_-"), taken)


def parameter_name(name: str, taken: Container[str]) -> str:
    """As the API calls it, where a model may call it so: `filter[status]` becomes `filter_status`."""
    said = _PARAMETER.sub("_", name).strip("_.-") or "value"
    return unique(said[:LONGEST].rstrip("_.-"), taken)


def server_name(title: str) -> str:
    name = _WORDS.sub("_", title).strip("_").lower()
    return name.removesuffix("_api")[:30].rstrip("_") or "api"


def unique(name: str, taken: Container[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        end = f"_{number}"
        found = name[: LONGEST - len(end)] + end
    return found
