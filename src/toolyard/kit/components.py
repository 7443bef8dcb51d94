"""The tools, resources or prompts of a server: which are offered, which are disabled, and which are mounted.

What is offered stands ready in one mapping, in the order of lists, so that a call looks up one name. It is
made anew when something changes: a declaration, a rule, or what a mounted server offers.
"""

import copy
from collections.abc import Awaitable, Collection, Iterator
from typing import Any, Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from ..wire.call import Call
from ..wire.types import Meta

Kind = Literal["tool", "resource", "template", "prompt"]
KINDS: tuple[Kind, ...] = ("tool", "resource", "template", "prompt")
TAGS = "fastmcp"
"""The member of `_meta` whose `tags` clients of FastMCP read; the protocol has no place for them."""


class Home(Protocol):
    """The server that a mounted component is of, to which its requests go on."""

    def forward(self, call: Call, member: str, key: str) -> Awaitable[Any]:
        """Answer a request with the component's own name in that member."""
        ...


class Component(Protocol):
    serial: int
    home: Home | None
    tags: frozenset[str]

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def key(self) -> str:
        """The name, or the URI of a resource, under which it is found."""
        ...

    def under(self, namespace: str) -> Any:
        """Itself, under the names that it has where its server is mounted."""
        ...


C = TypeVar("C", bound=Component)

_MOUNTED = 1_000_000_000
"""What is mounted stands after what a server has itself, whenever that was declared."""


class Rule(Struct, frozen=True):
    """Enables or disables what has one of these names (or URIs) and tags, and is of these kinds."""

    enables: bool
    names: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    kinds: frozenset[Kind] | None = None

    def concerns(self, component: Component) -> bool:
        return (
            (self.names is None or bool(self.names & {component.name, component.key}))
            and (self.tags is None or bool(self.tags & component.tags))
            and (self.kinds is None or component.kind in self.kinds)
        )


class Components(Generic[C]):
    def __init__(self) -> None:
        self.offered: dict[str, C] = {}
        """By key, in the order of lists. Read only."""
        self._own: dict[str, C] = {}
        self._rules: list[Rule] = []
        self._mounts: list[_Mount[C]] = []
        self._parents: list[Components[C]] = []
        self._serial = 0

    def __contains__(self, key: object) -> bool:
        """Whether it is declared here, if only to be disabled."""
        return key in self._own

    def declared(self) -> Iterator[C]:
        yield from self._own.values()

    def add(self, component: C) -> None:
        self._serial += 1
        component.serial = self._serial
        self._own[component.key] = component
        if self._mounts or self._parents or self._rules:
            self._renew()
            return
        self.offered[component.key] = component

    def remove(self, key: str) -> None:
        del self._own[key]
        if self._mounts or self._parents:
            self._renew()
        else:
            self.offered.pop(key, None)

    def rule(self, rule: Rule) -> None:
        """Follow a rule; a later one goes before."""
        self._rules.append(rule)
        self._renew()

    def mount(self, other: "Components[C]", namespace: str, home: Home) -> None:
        self._mounts.append(_Mount(other, namespace, home))
        other._parents.append(self)
        self._renew()

    def _renew(self) -> None:
        self.offered.clear()
        for component in self._known():
            if component.key not in self.offered and self._is_enabled(component):
                self.offered[component.key] = component
        for parent in self._parents:
            parent._renew()

    def _known(self) -> Iterator[C]:
        yield from self._own.values()
        mounted = (component for mount in self._mounts for component in mount.components())
        for serial, component in enumerate(mounted, _MOUNTED):
            component.serial = serial
            yield component

    def _is_enabled(self, component: C) -> bool:
        found = (rule.enables for rule in reversed(self._rules) if rule.concerns(component))
        return next(found, True)


class _Mount(Generic[C]):
    def __init__(self, other: Components[C], namespace: str, home: Home) -> None:
        self._other = other
        self._namespace = namespace
        self._home = home

    def components(self) -> Iterator[C]:
        # Copies, since each has its place in the lists of each server.
        for component in self._other.offered.values():
            mounted = component.under(self._namespace) if self._namespace else copy.copy(component)
            mounted.home = self._home
            yield mounted


def tags_of(tags: Collection[str] | None) -> frozenset[str]:
    if isinstance(tags, str):
        raise TypeError(f"tags must be a set of strings, not {tags!r}; write {{{tags!r}}}")
    return frozenset(tags or ())


def with_tags(meta: Meta | None, tags: frozenset[str]) -> Meta | None:
    if not tags:
        return meta
    return {**(meta or {}), TAGS: {**(meta or {}).get(TAGS, {}), "tags": sorted(tags)}}


def selected(
    enables: bool,
    names: Collection[str] | None,
    tags: Collection[str] | None,
    kinds: Collection[Kind] | None,
) -> Rule:
    if kinds is not None and (wrong := set(kinds) - set(KINDS)):
        raise ValueError(f"unknown kinds {sorted(wrong)}; there are: {', '.join(KINDS)}")
    return Rule(
        enables,
        None if names is None else tags_of(names),
        None if tags is None else tags_of(tags),
        None if kinds is None else frozenset(kinds),
    )
