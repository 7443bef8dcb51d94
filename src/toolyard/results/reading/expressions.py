"""JMESPath over a value. Runs in the worker; a query is a stranger's."""

from collections.abc import Callable
from typing import Any, cast


class Failed(Exception):
    """The query cannot be answered; the message is for its author."""


def compiled(text: str) -> Callable[[Any], Any]:
    """What finds its answer in a value."""
    import jmespath  # 15 ms of CPU, in a process that mostly needs something else
    from jmespath.exceptions import JMESPathError

    try:
        expression: Any = jmespath.compile(text)
    except JMESPathError as error:
        raise Failed(f"The JMESPath expression is wrong{_place(text, error)}") from None

    def search(value: Any) -> Any:
        try:
            found = expression.search(value)
        except (JMESPathError, TypeError, ValueError, ArithmeticError) as error:
            raise Failed(f"The JMESPath expression does not fit the data: {str(error)[:500]}") from None
        return _shown(found)

    return search


def _shown(found: Any) -> Any:
    if found is None or isinstance(found, str | int | float | bool | list | dict):
        return cast(Any, found)
    raise Failed("The JMESPath expression gives no value")


def _place(text: str, error: Exception) -> str:
    told = str(getattr(error, "message", "") or error).splitlines()[0][:200]
    at = getattr(error, "lex_position", None)
    if not isinstance(at, int):
        return f": {told}"
    start = max(0, at - 40)
    shown = text[start : at + 40].replace("\n", " ")
    return f" at character {at + 1}: {told}\n{shown}\n{' ' * (at - start)}^"
