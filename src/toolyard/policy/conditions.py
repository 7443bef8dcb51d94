"""Conditions in CEL on the arguments of a call, bounded in size and time.

Owns the library that evaluates CEL, the variables a condition may use, and the limits. A condition that
cannot be evaluated raises `ConditionError`; what that means for a call is decided in `access`.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

Verb = Literal["allow", "deny", "confirm", "preview"]


class ConditionError(Exception):
    """A condition could not be evaluated for this call."""


class Expression:
    """A compiled condition."""

    def __init__(self, text: str) -> None:
        self.text = text

    def holds(self, variables: Mapping[str, Any]) -> bool:
        raise ConditionError("conditions cannot be evaluated yet")


class Condition(Struct, frozen=True):
    """A rule that decides only if its expression holds for the arguments of the call."""

    verb: Verb
    rule: str
    expression: Expression
    scopes: tuple[str, ...] = ()
