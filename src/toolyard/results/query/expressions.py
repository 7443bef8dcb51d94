"""JMESPath over a stored value. Runs in the worker; the expression is untrusted.

JMESPath answers null for anything that is missing, and counts and sums of nothing look like real
numbers. So an answer carries a note if a name, an index or a comparison matched nothing at all.
"""

from typing import Any, cast

import jmespath
from jmespath.exceptions import ArityError, JMESPathError, JMESPathTypeError
from jmespath.visitor import TreeInterpreter

from ...languages import said
from ..formats.tables import cut, type_name
from .content import QueryFailedError, StoredValue, describe_value

LONGEST_TOLD = 200
MOST_NOTES = 3
Node = Any
"""A node of a parsed expression."""

_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_ORDER = frozenset({"lt", "lte", "gt", "gte"})
_SAME = {"integer": "number"}


def evaluate(text: str, value: StoredValue) -> tuple[Any, str]:
    """Returns the result of an expression, and a note on its parts that matched nothing."""
    try:
        expression: Any = jmespath.compile(text)
    except JMESPathError as error:
        where = _position(text, error)
        raise QueryFailedError(
            said(f"The JMESPath expression is wrong{where}", f"A expressão JMESPath está errada{where}")
        ) from None
    interpreter = _Interpreter(value)
    try:
        found: Any = interpreter.visit(expression.parsed, value.root)
    except (JMESPathError, TypeError, ValueError, ArithmeticError) as error:
        reason = " ".join(filter(None, [f"{_reason(error)}.", interpreter.note()]))
        data = describe_value(value.root)
        raise QueryFailedError(
            said(
                f"The JMESPath expression does not fit the data: {reason} The data is {data}",
                f"A expressão JMESPath não serve para os dados: {reason} Os dados são {data}",
            )
        ) from None
    if found is None or isinstance(found, str | int | float | bool | list | dict):
        return cast(Any, found), interpreter.note()
    raise QueryFailedError(
        said("The JMESPath expression gives no value", "A expressão JMESPath não dá nenhum valor")
    )


class _Interpreter(TreeInterpreter):
    """Records for each part of an expression where it failed first, and whether it ever matched."""

    def __init__(self, value: StoredValue) -> None:
        super().__init__()
        self._value = value
        self._fitted: set[int] = set()
        self._missed: dict[int, str] = {}
        self._unordered: dict[int, tuple[str, int]] = {}

    def note(self) -> str:
        notes = [note for node, note in self._missed.items() if node not in self._fitted]
        notes += [
            said(f"{note} ({count} times)", f"{note} ({count} vezes)")
            for note, count in self._unordered.values()
        ]
        shown = notes[:MOST_NOTES]
        if len(notes) > MOST_NOTES:
            left = len(notes) - MOST_NOTES
            shown.append(said(f"and {left} more of this kind", f"e mais {left} deste tipo"))
        return "".join(f"{note}. " for note in shown).rstrip()

    def _miss(self, node: Node, note: str) -> None:
        self._missed.setdefault(id(node), note)

    def visit_field(self, node: Node, value: Any) -> Any:
        name = node["value"]
        place = self._place_of(name, value)
        if place is not None:
            self._fitted.add(id(node))
            return place[name]
        if value is not None and id(node) not in self._missed:
            self._miss(node, self._absent(name, value))
        return None

    def _place_of(self, name: str, value: Any) -> dict[str, Any] | None:
        """Returns the object that has a name: the value, or for the root the objects around it."""
        if isinstance(value, dict) and name in value:
            return cast(dict[str, Any], value)
        if value is not self._value.root:
            return None
        around = self._value.whole
        for step in self._value.path:
            if name in around:
                return around
            around = around[step]
        return None

    def _absent(self, name: str, value: Any) -> str:
        shown = cut(name, LONGEST_TOLD // 4)
        if isinstance(value, list):
            return said(
                f"A list has no {shown!r}: write [].{shown} for that of each item",
                f"Uma lista não tem {shown!r}: escreva [].{shown} para o de cada item",
            )
        kind = describe_value(value)
        return said(f"There is no {shown!r} in {kind}", f"Não há {shown!r} em {kind}")

    def visit_index(self, node: Node, value: Any) -> Any:
        if isinstance(value, list):
            length = len(cast(list[Any], value))
            if -length <= node["value"] < length:
                self._fitted.add(id(node))
            else:
                at = node["value"]
                self._miss(
                    node,
                    said(
                        f"There is no [{at}] in a list of {length}", f"Não há [{at}] numa lista de {length}"
                    ),
                )
        elif value is not None:
            at, kind = node["value"], describe_value(value)
            self._miss(
                node,
                said(
                    f"[{at}] was looked up in {kind}, which is no list",
                    f"[{at}] foi procurado em {kind}, que não é uma lista",
                ),
            )
        return super().visit_index(node, value)

    def visit_slice(self, node: Node, value: Any) -> Any:
        self._fits_list(node, value)
        return super().visit_slice(node, value)

    def visit_projection(self, node: Node, value: Any) -> Any:
        return super().visit_projection(self._of_list(node, value), value)

    def visit_filter_projection(self, node: Node, value: Any) -> Any:
        return super().visit_filter_projection(self._of_list(node, value), value)

    def visit_flatten(self, node: Node, value: Any) -> Any:
        return super().visit_flatten(self._of_list(node, value), value)

    def visit_value_projection(self, node: Node, value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if isinstance(base, dict):
            self._fitted.add(id(node))
        elif base is not None:
            kind = describe_value(base)
            self._miss(
                node,
                said(
                    f".* was asked of {kind}, which is no object",
                    f".* foi pedido a {kind}, que não é um objeto",
                ),
            )
        return super().visit_value_projection(_with_base(node, base), value)

    def _of_list(self, node: Node, value: Any) -> Node:
        base = self.visit(node["children"][0], value)
        self._fits_list(node, base)
        return _with_base(node, base)

    def _fits_list(self, node: Node, base: Any) -> None:
        if isinstance(base, list):
            self._fitted.add(id(node))
        elif base is not None:
            kind = describe_value(base)
            self._miss(
                node,
                said(f"A list was expected where there is {kind}", f"Esperava-se uma lista onde há {kind}"),
            )

    def visit_comparator(self, node: Node, value: Any) -> Any:
        left, right = (self.visit(child, value) for child in node["children"])
        kinds = _kind(left), _kind(right)
        if "null" in kinds or kinds[0] == kinds[1]:
            if kinds[0] == kinds[1]:
                self._fitted.add(id(node))
            answered: Node = {**node, "children": [_literal(left), _literal(right)]}
            return super().visit_comparator(answered, value)
        sign = node["value"]
        shown, one, other = _SIGNS[sign], _shown(left), _shown(right)
        if sign in _ORDER:
            note = said(
                f"{shown} compared {one} with {other}, which are in no order:"
                " a number is written `7`, a text '7'",
                f"{shown} comparou {one} com {other}, que não têm ordem entre si:"
                " um número se escreve `7`, um texto '7'",
            )
            _, count = self._unordered.get(id(node), ("", 0))
            self._unordered[id(node)] = (note, count + 1)
            return None
        note = said(
            f"{shown} compared {one} with {other}, which are never equal:"
            " a number is written `7`, a text '7'",
            f"{shown} comparou {one} com {other}, que nunca são iguais:"
            " um número se escreve `7`, um texto '7'",
        )
        self._miss(node, note)
        return sign == "ne"


def _literal(value: Any) -> Node:
    return {"type": "literal", "value": value, "children": []}


def _with_base(node: Node, base: Any) -> Node:
    """Returns a node whose first child is replaced by its value."""
    return {**node, "children": [_literal(base), *node["children"][1:]]}


def _kind(value: Any) -> str:
    name = type_name(value)
    return _SAME.get(name, name)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        text = cut(value, 20)
        return said(f"the text {text!r}", f"o texto {text!r}")
    if isinstance(value, list | dict):
        return describe_value(value)
    kind, text = _kind(value), cut(str(value), 20).lower()
    return said(f"the {kind} {text}", f"o valor {text} ({kind})")


def _reason(error: Exception) -> str:
    """Describes an error without quoting the value, which may be all of the data."""
    if isinstance(error, JMESPathTypeError):
        array_of = said("array of ", "array de ")
        kinds = [kind.replace("array-", array_of) for kind in error.expected_types]
        wanted, name, kind = (
            said(" or ", " ou ").join(kinds),
            error.function_name,
            describe_value(error.current_value),
        )
        return said(f"{name}() wants {wanted}, and got {kind}", f"{name}() quer {wanted}, e recebeu {kind}")
    return cut(str(error).partition("\n")[0], LONGEST_TOLD)


def _position(text: str, error: Exception) -> str:
    told = str(getattr(error, "message", "") or error).splitlines()[0][:LONGEST_TOLD]
    at = getattr(error, "lex_position", None)
    if not isinstance(at, int) or isinstance(error, ArityError):
        return f": {told}"
    start = max(0, at - 40)
    shown = text[start : at + 40].replace("\n", " ")
    place = said(f" at character {at + 1}", f" no caractere {at + 1}")
    return f"{place}: {told}\n{shown}\n{' ' * (at - start)}^"
