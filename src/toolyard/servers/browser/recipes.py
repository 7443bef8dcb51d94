"""Recipes: tools that an operator writes as steps, such as the login of a site.

Owns the format of a recipe and the redaction of its secrets. A text may name parameters of the call,
`{number}` or `{number:03}`, and environment variables, `{env.SHOP_PASSWORD}`; the latter are secrets and
reach only the page, except for the address that a `goto` begins with.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_origin
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

VERBS = ("goto", "fill", "click", "select", "press", "wait_for", "skip_if", "if_present")
_PLACE = re.compile(r"\{(env\.)?([A-Za-z_][A-Za-z0-9_]*)(?::(0?\d{1,2}))?\}")


class RecipeError(Exception):
    """`str()` names the recipe and the step."""


class RecipeParameter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["string", "integer", "number", "boolean"] = "string"
    description: str = ""
    default: str | int | float | bool | None = None
    """A parameter without a default is required."""


class RecipeStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One verb of VERBS, with its selector or address."""

    goto: str = ""
    fill: str = ""
    click: str = ""
    select: str = ""
    press: str = ""
    """A key such as Enter, pressed in the focused element or in `on`."""
    wait_for: str = ""
    skip_if: str = ""
    """Ends the recipe if the page has this: there is nothing left to do."""
    if_present: str = ""
    """Runs `steps` if the page has this."""
    value: str = ""
    on: str = ""
    steps: "tuple[RecipeStep, ...]" = ()
    seconds: Annotated[float, Meta(gt=0, le=600)] | None = None
    """How long to wait for the element."""

    @property
    def verb(self) -> str:
        return next(verb for verb in VERBS if getattr(self, verb))

    @property
    def object(self) -> str:
        return getattr(self, self.verb)


class Recipe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str = ""
    description: str = ""
    parameters: dict[str, RecipeParameter] = {}
    steps: tuple[RecipeStep, ...] = ()

    @property
    def input_schema(self) -> dict[str, Any]:
        required = [name for name, parameter in self.parameters.items() if parameter.default is None]
        return {
            "type": "object",
            "properties": {name: _property(parameter) for name, parameter in self.parameters.items()},
            "additionalProperties": False,
        } | ({"required": required} if required else {})

    @property
    def variables(self) -> list[str]:
        """The environment variables that the recipe uses."""
        return list(dict.fromkeys(name for env, name in _places(self.steps) if env))

    def secrets(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What no answer may show, by what it shows instead."""
        found: dict[str, str] = {}
        for step in _flat(self.steps):
            for place in _PLACE.finditer(f"{step.object}\n{step.value}\n{step.on}"):
                if not place[1]:
                    continue
                name, value = place[2], environ.get(place[2], "")
                begins = bool(step.goto) and place.start() == 0
                found |= _secrets_in_address(name, value) if begins else {name: value}
        return found


def recipes_of(setting: str | Mapping[str, Recipe]) -> Mapping[str, Recipe]:
    """Reads and checks the recipes of a setting; raises RecipeError."""
    found = _read(setting) if isinstance(setting, str) else setting
    for name, recipe in found.items():
        if not recipe.steps:
            raise RecipeError(f"recipe {name!r} has no steps")
        _check(name, recipe, recipe.steps)
        for env, place in _places(recipe.steps):
            if not env and place not in recipe.parameters:
                raise RecipeError(f"recipe {name!r} uses {place!r}, which is not one of its parameters")
    return found


def _read(path: str) -> Mapping[str, Recipe]:
    if not path:
        return {}
    try:
        tables = tomllib.loads(Path(path).expanduser().read_text("utf-8"))
        return msgspec.convert(tables.get("recipes", {}), dict[str, Recipe])
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise RecipeError(f"recipes {path!r}: {error}") from None


def _check(name: str, recipe: Recipe, steps: tuple[RecipeStep, ...]) -> None:
    for number, step in enumerate(steps, 1):
        verbs = [verb for verb in VERBS if getattr(step, verb)]
        where = f"step {number} of recipe {name!r}"
        if len(verbs) != 1:
            raise RecipeError(f"{where} needs exactly one of {', '.join(VERBS)}; it has {verbs or 'none'}")
        if step.value and verbs[0] not in ("fill", "select"):
            raise RecipeError(f"{where}: only fill and select take a value")
        if bool(step.steps) != (verbs[0] == "if_present"):
            raise RecipeError(f"{where}: if_present needs steps, and no other verb takes them")
        if step.on and verbs[0] != "press":
            raise RecipeError(f"{where}: only press takes `on`")
        _check(name, recipe, step.steps)


def _flat(steps: tuple[RecipeStep, ...]) -> Iterator[RecipeStep]:
    for step in steps:
        yield step
        yield from _flat(step.steps)


def _places(steps: tuple[RecipeStep, ...]) -> Iterator[tuple[str, str]]:
    for step in _flat(steps):
        for text in (step.object, step.value, step.on):
            yield from ((found[1] or "", found[2]) for found in _PLACE.finditer(text))


def filled(text: str, arguments: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Fills in the placeholders of a text."""

    def value(found: re.Match[str]) -> str:
        texts = environ[found[2]] if found[1] else _spelt(arguments[found[2]])
        width = found[3]
        return texts if width is None else texts.rjust(int(width), "0" if width.startswith("0") else " ")

    return _PLACE.sub(value, text)


def arguments_of(recipe: Recipe, given: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the defaults of missing arguments."""
    defaults = {name: parameter.default for name, parameter in recipe.parameters.items()}
    return {name: given.get(name, default) for name, default in defaults.items()}


def _spelt(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _property(parameter: RecipeParameter) -> dict[str, Any]:
    found: dict[str, Any] = {"type": parameter.type}
    if parameter.description:
        found["description"] = parameter.description
    if parameter.default is not None:
        found["default"] = parameter.default
    return found


MIN_LENGTH = 4
"""Shorter secrets, such as a two-letter code, would match inside other words."""


def redacted(value: Any, secrets: Mapping[str, str]) -> Any:
    """Replaces secrets by their names, in texts, JSON and results."""
    spellings = {
        way: name
        for name, secret in secrets.items()
        if len(secret) >= MIN_LENGTH
        for way in _spellings(secret)
    }
    # The longest first: a password may begin with the user name.
    hidden = {way: spellings[way] for way in sorted(spellings, key=len, reverse=True)}
    return _replace_secrets(value, hidden) if hidden else value


def _spellings(secret: str) -> set[str]:
    """The forms of a secret: as it is, in a URL (a form sent by GET), in JSON, on one line."""
    quoted = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    return {
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        " ".join(secret.split()),
        *quoted,
    }


def _secrets_in_address(name: str, url: str) -> dict[str, str]:
    """Of an address: user and password, the values of its query, and its fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return {name: url}
    if not parts.netloc:
        return {name: url}
    secret = {f"{name}: {key}": value for key, value in parse_qsl(parts.query)}
    for key in ("username", "password", "fragment"):
        if value := getattr(parts, key):
            secret[f"{name}: {key}"] = unquote(value)
    return secret


def _replace_secrets(value: Any, hidden: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for secret, name in hidden.items():
            value = value.replace(secret, f"[{name}]")
        return value
    if isinstance(value, Struct):  # our words, not the page's: names of fields, values of an enumeration
        return {
            field.encode_name: item if get_origin(field.type) is Literal else _replace_secrets(item, hidden)
            for field in fields(value)
            for item in (getattr(value, field.name),)
        }
    if isinstance(value, list):
        return [_replace_secrets(item, hidden) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {
            _replace_secrets(name, hidden): _replace_secrets(item, hidden) for name, item in members.items()
        }
    return value
