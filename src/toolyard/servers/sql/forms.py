"""What a model is to fill in, and how its words are read when it answers with words instead."""

import json
import re
from typing import Any, cast

from msgspec import Struct

FENCED = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
STATEMENT = re.compile(r"\s*(select|with)\b", re.IGNORECASE)
MOST_BRACES = 20
"""Places in a text where an object may begin that are looked at."""


class Unreadable(Exception):
    """What the model said is no filled form."""

    def __init__(self, is_refusal: bool = False) -> None:
        super().__init__("refused" if is_refusal else "unreadable")
        self.is_refusal = is_refusal


class Form(Struct, frozen=True):
    name: str
    description: str
    schema: dict[str, Any]
    statement: str
    """The field that a text which is only SQL fills."""

    @property
    def fields(self) -> set[str]:
        return set(self.schema["properties"])


def read(text: str, form: Form) -> dict[str, Any]:
    """An object somewhere in the text with a field of the form; or SQL alone."""
    decoder = json.JSONDecoder()
    for at in _places(text):
        try:
            found = decoder.raw_decode(text, at)[0]
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and form.fields & set(cast(dict[str, Any], found)):
            return cast(dict[str, Any], found)
    fenced = FENCED.search(text)
    statement = fenced[1] if fenced else text
    if STATEMENT.match(statement):
        return {form.statement: statement.strip()}
    raise Unreadable


def _places(text: str) -> list[int]:
    return [found.start() for found in re.finditer(r"\{", text)][:MOST_BRACES]
