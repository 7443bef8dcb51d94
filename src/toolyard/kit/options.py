"""What can be said of a tool, a resource or a prompt when it is declared, beside its function."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from ..wire.types import Annotations, Icon, Meta

if TYPE_CHECKING:
    from .tool import Long


class _Described(TypedDict, total=False):
    name: str | None
    title: str | None
    description: str | None
    icons: list[Icon] | None
    meta: Meta | None


BOUNDED = "toolyard/bounded"
"""In the `_meta` of a tool or of a result, true: it is made for a model's context as it is."""


class ToolOptions(_Described, total=False):
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    input_schema: Mapping[str, Any] | None
    output_schema: "Mapping[str, Any] | type | None"
    """Or the type that it is made from; what is returned is then held against that."""
    long: "bool | Long"
    ui: str | None
    bounded: bool
    """Whether its results are made for a model's context as they are: a gateway then sends them whole."""
    listed: bool
    """Whether `tools/list` shows it; a call by its name is answered in any case."""


class ResourceOptions(_Described, total=False):
    mime_type: str | None
    size: int | None
    annotations: Annotations | None


class PromptOptions(_Described, total=False):
    pass


def check(options: Mapping[str, Any], known: type, what: str) -> None:
    """Python takes any keyword where options are a mapping; we do not."""
    names: frozenset[str] = vars(known)["__optional_keys__"]
    for name in options:
        if name not in names:
            raise TypeError(f"{what} has no option {name!r}; there are: {', '.join(sorted(names))}")
