"""The names that Suna gives to enabled tools.

A tool has a key, `custom_<server, lower case, blanks as _>_<tool>`, and its model is shown what follows the
key's second underscore, with `-` as `_`. So two tools can meet; then the one enabled first has the short
name, and the other is shown under its key. The key and the tool's own name lead to it as well.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

_FIT = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Named(Struct, frozen=True):
    server: str
    """What the toolkit is called."""
    own: str
    full: str

    @property
    def key(self) -> str:
        return f"custom_{self.server.lower().replace(' ', '_')}_{self.own}"

    @property
    def method(self) -> str:
        return self.key.split("_", 2)[2].replace("-", "_")


def shown_names(tools: Iterable[Named], taken: Iterable[str]) -> dict[str, Named]:
    """Each tool under one name; none for a tool that only its full name fits."""
    shown: dict[str, Named] = {}
    used = set(taken)
    each: dict[str, Named] = {}
    for tool in tools:
        each.setdefault(tool.full, tool)  # two profiles may have enabled the same
    for tool in each.values():
        for name in (tool.method, tool.key):
            if name not in used and _FIT.fullmatch(name):
                used.add(name)
                shown[name] = tool
                break
    return shown


def leads(tools: Iterable[Named], name: str) -> Named | None:
    """The tool that is meant: by the name it is shown under, by its key, or by its own name."""
    tools = list(tools)
    return (
        shown_names(tools, ()).get(name)
        or next((tool for tool in tools if tool.key == name), None)
        or next((tool for tool in tools if tool.own == name), None)
    )
