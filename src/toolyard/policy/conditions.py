"""Conditions in CEL on the arguments of a call, bounded in size and time.

Owns the library that evaluates CEL, the variables a condition may use, and the limits. A condition that
cannot be evaluated raises `ConditionError`; what that means for a call is decided in `access`.

The library gives up after 10,000 steps of `all`, `exists`, `map` and `filter` together, and its regular
expressions take linear time. It does not bound the bytes that a step touches, so they are bounded here.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct

from ..config.errors import ConfigError
from ..extras import install_command

if TYPE_CHECKING:
    from cel_expr_python import cel  # pyright: ignore[reportMissingTypeStubs]

Verb = Literal["allow", "deny", "confirm", "preview"]

TEXTS = ("tool", "server", "agent", "user", "tenant", "client")
LISTS = ("groups", "scopes")
MAX_EXPRESSION = 4096
MAX_LOOPS_NESTED = 2
MAX_BYTES = 256 * 1024
"""Of the arguments that a condition looks at."""
MAX_DEPTH = 64
MAX_STEPS = 10_000
"""As many as the library makes."""
MAX_TOUCHED = 50_000_000
"""Bytes that all steps of a condition may touch: about half a second."""
_TEXT = re.compile(
    r"""(?:[bB]?[rR]|[rR][bB])(?:"[^"]*"|'[^']*')|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL
)
_TRIPLE = re.compile(r"\"\"\"|'''")
_ARGUMENT = re.compile(r"""(?<!\w)args\b(?:\s*\.\s*(\w+)(?!\s*\(|\w)|\s*\[\s*(["'])(\w+)\2\s*\])?""")
# In a comment between name and parenthesis the name counts too.
_LOOP = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter|transform\w*)\s*(?:\(|(?=//))|[()]")
_REASONS = (
    ("Key not found", "an argument is missing"),
    ("No matching overloads", "a value is of another type"),
    ("Iteration budget", "it takes too many steps"),
    ("out of range", "a number is out of range"),
    ("divide by zero", "it divides by zero"),
    ("regular expression", "its regular expression is wrong"),
)
"""What the library says, and what we say: its own messages may quote a value of the call."""


class ConditionError(Exception):
    """A condition could not be evaluated for this call; the message says why, without a value of the call."""


class Expression:
    """A compiled condition. Raises ConfigError if it does not compile, or is too large to be bounded."""

    def __init__(self, text: str, where: str = "the condition") -> None:
        self.text = text
        if len(text) > MAX_EXPRESSION:
            raise ConfigError(f"{where} is over {MAX_EXPRESSION} characters", "cut it into several rules")
        self._program = _compile(text, where)
        self._loops, self._depth = _count_loops(text)
        if self._depth > MAX_LOOPS_NESTED:
            raise ConfigError(
                f"{where} nests all, exists, map or filter more than {MAX_LOOPS_NESTED} deep", "simplify it"
            )
        self._used = _arguments_used(text)
        self._items = text.count(",") + 1
        """No list that is written out in the expression is longer."""

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Whether it is true. `variables` are those of `TEXTS` and `LISTS`, and `args`."""
        given: Mapping[str, Any] = variables["args"]
        used = given if self._used is None else self._used & given.keys()
        args = {name: given[name] for name in used}
        self._check_size(args)
        try:
            found = self._program.eval(data={**variables, "args": args})
            kind, value = found.type().name(), found.value()
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            raise ConditionError(_reason(str(error))) from None
        if kind == "ERROR":
            raise ConditionError(_reason(str(value)))
        if not isinstance(value, bool):
            raise ConditionError(f"it gives {kind.lower()}, and not true or false")
        return value

    def _check_size(self, args: Mapping[str, Any]) -> None:
        size, largest = 0, self._items
        left: list[tuple[Any, int]] = [(args, 0)]
        while left:
            value, depth = left.pop()
            parts = _parts(value)
            size += 8
            if isinstance(value, str):
                size += len(value)
                # The library takes a text to end there, and the server would not.
                if "\0" in value:
                    raise ConditionError("an argument has a NUL character")
            if parts:
                largest = max(largest, len(parts))
                left += [(part, depth + 1) for part in parts]
            if size + 8 * len(left) > MAX_BYTES or depth > MAX_DEPTH:
                raise ConditionError("the arguments are too large")
        steps = min(MAX_STEPS, self._loops * largest**self._depth)
        if size * steps > MAX_TOUCHED:
            raise ConditionError(
                "the arguments are too large for a condition with all, exists, map or filter"
            )


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return [*members.keys(), *members.values()]
    return cast("list[Any]", value) if isinstance(value, list) else []


class Condition(Struct, frozen=True):
    """A rule that decides only if its expression holds for the arguments of the call."""

    verb: Verb
    rule: str
    expression: Expression
    scopes: tuple[str, ...] = ()


def _compile(text: str, where: str) -> "cel.Expression":
    try:
        program = _environment().compile(text)
    except ImportError:
        raise ConfigError(f"{where} needs the package cel-expr-python", install_command("policy")) from None
    except (RuntimeError, ValueError) as error:
        hint = f"it can use args, {', '.join((*TEXTS, *LISTS))}"
        raise ConfigError(f"{where} is no CEL: {_shortened(str(error))}", hint) from None
    kind = program.return_type().name()
    if kind not in ("BOOL", "DYN"):
        raise ConfigError(f"{where} gives {kind.lower()}, and not true or false", "compare it with something")
    return program


@cache
def _environment() -> "cel.Env":
    # Optional; the first environment takes 40 ms.
    from cel_expr_python import cel  # pyright: ignore[reportMissingTypeStubs]

    text = cel.Type.STRING
    return cel.NewEnv(
        variables={
            "args": cel.Type.Map(text, cel.Type.DYN),
            **dict.fromkeys(TEXTS, text),
            **dict.fromkeys(LISTS, cel.Type.List(text)),
        }
    )


def _reason(message: str) -> str:
    return next((reason for said, reason in _REASONS if said in message), "it cannot be evaluated")


def _shortened(message: str) -> str:
    """The first line of the library's message, without its codes and places."""
    line = message.partition("\n")[0]
    line = re.sub(r"^[A-Z_]+: |ERROR: <input>:-?\d+:-?\d+: |\s*\[[A-Z_]+\]$|\(in container ''\)", "", line)
    return re.sub(r"^[A-Z_]+: |ERROR: <input>:-?\d+:-?\d+: ", "", line).strip()[:200]


def _plain_text(text: str) -> str | None:
    """The expression without its texts; None if it has comments or texts that would take a parser."""
    plain = None if _TRIPLE.search(text) else _TEXT.sub('""', text)
    return None if plain is None or "//" in plain else plain


def _count_loops(text: str) -> tuple[int, int]:
    """How many macros loop, and how deep they are nested; where that is hard to tell, as deep as can be."""
    plain = _plain_text(text)
    open_loops, deepest, loops = list[bool](), 0, 0
    for found in _LOOP.finditer(text if plain is None else plain):
        is_loop = found[0] not in ("(", ")")
        loops += is_loop
        if found[0] == ")":
            del open_loops[-1:]
        else:
            open_loops.append(is_loop)
            deepest = max(deepest, sum(open_loops))
    return loops, loops if plain is None else deepest


def _arguments_used(text: str) -> frozenset[str] | None:
    """The arguments that the expression names; None if it may look at any.

    Others are not handed over: a file of a megabyte does not matter to a condition on its path.
    """
    if _plain_text(text) is None:
        return None
    names: set[str] = set()
    # `args` may stand in a text too: then one more is handed over, which does no harm.
    for found in _ARGUMENT.finditer(text):
        name = found[1] or found[3]
        if name is None:
            return None
        names.add(name)
    return frozenset(names)
