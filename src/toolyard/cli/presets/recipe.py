"""A recipe says how a server is started or reached, and what it wants to know first.

Recipes come from the catalogue and from `server.json` files. `fill` finds a value for every input, and
`fields_of` makes the entry for the configuration file. A secret is written as `${VARIABLE}`.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal

from msgspec import Struct

from ...config.errors import nearest_or_all
from ..ui.messages import CommandError, one_line
from .environments import Package

Words = tuple[str, ...]
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


class BilingualText(Struct, frozen=True):
    en: str
    pt: str


class Input(Struct, frozen=True):
    """A value that a person gives; `{name}` stands for it in arguments, variables, headers and URLs."""

    name: str
    about: BilingualText
    required: bool = False
    secret: bool = False
    default: str = ""
    choices: Words = ()
    repeated: bool = False
    path: bool = False
    """A path, relative to the current folder."""
    get: str = ""
    """The page where one gets it."""
    switch: str = ""
    """An argument that stands for `true`; nothing stands for `false`."""
    variable: str = ""
    """The environment variable that holds it, by default `name` if that could be one."""

    @property
    def in_environment(self) -> str:
        return self.variable or (self.name if _VARIABLE.fullmatch(self.name) else "")


class PackageStart(Struct, frozen=True):
    """A package, started from an environment of its own."""

    package: Package
    args: tuple[Words, ...] = ()
    """Groups of arguments: a group with an input that has no value is left out as a whole."""
    env: dict[str, str] = {}
    program: str = ""
    module: str = ""


class CommandStart(Struct, frozen=True):
    """Another program, such as docker."""

    command: str
    args: tuple[Words, ...] = ()
    env: dict[str, str] = {}
    before: Words = ()
    """The first arguments of a program that passes on only the variables that it is told of: `-e` and the
    name of each that has a value come next, and then `args`."""


class RemoteStart(Struct, frozen=True):
    url: str
    headers: dict[str, str] = {}
    transport: Literal["auto", "sse"] = "auto"


class ModuleStart(Struct, frozen=True):
    """A bundled server, in our own process."""

    module: str
    options: dict[str, str] = {}


Start = PackageStart | CommandStart | RemoteStart | ModuleStart


class ServerRecipe(Struct, frozen=True):
    name: str
    title: str
    about: BilingualText
    start: Start
    inputs: tuple[Input, ...] = ()
    note: BilingualText = BilingualText("", "")
    """What a person should know when adding it."""
    trusted: bool = False
    """Whether it may use variables of this machine without being told to: the catalogue may."""


class Value(Struct, frozen=True):
    text: str
    refers: bool = False
    """Whether `${NAME}` in it is a variable: a person wrote it, or we did."""


Values = dict[str, tuple[Value, ...]]
Ask = Callable[[Input], Words]
"""Asks a person for a value; nothing if there is none."""


class Filled(Struct, frozen=True):
    values: Values
    typed: dict[str, str]
    """Secrets that were typed, by variable: for the first try, and in no file."""


class FillOptions(Struct, frozen=True):
    given: Mapping[str, Words]
    environment: Mapping[str, str]
    ask: Ask | None = None
    """None where nobody can be asked."""
    later: bool = False
    """Whether a variable that is not set is left to be set later."""
    save_secrets: bool = False


def fill(recipe: ServerRecipe, options: FillOptions) -> Filled:
    """Find the value of each input. Raises CommandError for one that is missing, unknown or invalid."""
    for name in options.given:
        if name not in {one.name for one in recipe.inputs}:
            known = [one.name for one in recipe.inputs]
            advice = nearest_or_all(name, known) if known else "it has none"
            raise CommandError(f"{recipe.name!r} has no setting {name!r}", advice)
    values: Values = {}
    typed: dict[str, str] = {}
    for one in recipe.inputs:
        found = options.given.get(one.name) or _known(one, recipe, options)
        if not found and one.required and options.ask is not None:
            found = options.ask(one)
            if found and one.secret and not options.save_secrets and not _is_reference(found[0]):
                variable = secret_variable(one, recipe, options.environment)
                typed[variable] = found[0]
                found = (f"${{{variable}}}",)
        if not found and one.required and not one.default:
            found = _left_for_later(one, recipe, options)
        if one.switch:
            if (_checked(one, found[0]).text if found else one.default) == "true":
                values[one.name] = (Value(one.switch),)
        elif found:
            values[one.name] = tuple(_checked(one, text) for text in found)
        elif one.default:
            values[one.name] = (Value(_absolute(one.default) if one.path else one.default),)
    return Filled(values, typed)


def _known(one: Input, recipe: ServerRecipe, options: FillOptions) -> Words:
    """A reference to a variable that is set, unless the recipe comes from a stranger."""
    variable = one.in_environment
    wanted = one.secret or one.required
    if recipe.trusted and wanted and variable and options.environment.get(variable):
        return (f"${{{variable}}}",)
    return ()


def _left_for_later(one: Input, recipe: ServerRecipe, options: FillOptions) -> Words:
    """A reference to a variable that will be set; for a stranger's recipe only if the person saw its name."""
    variable = secret_variable(one, recipe, options.environment) if one.secret else one.in_environment
    if variable and (options.ask is not None or (options.later and recipe.trusted)):
        return (f"${{{variable}}}",)
    raise missing(one, recipe)


def missing(one: Input, recipe: ServerRecipe) -> CommandError:
    about = f": {one.about.en}" if one.about.en else ""
    hints = [f"get it at {one.get}"] if one.get else []
    if variable := one.in_environment:
        if recipe.trusted:
            hints.append(f"export {variable}=…, and the file will have ${{{variable}}}")
            hints.append(f"or --env {variable}=… here, or run this in a terminal, which asks for it")
        else:
            hints.append(f"--env '{variable}=${{{variable}}}' passes on your variable")
    else:
        hints.append(f"-o {one.name}=…, or run this in a terminal, which asks for it")
    return CommandError(f"{recipe.name!r} needs {one.name}{about}", *hints)


def secret_variable(one: Input, recipe: ServerRecipe, environment: Mapping[str, str] | None = None) -> str:
    """A variable for the secret; from the server's and the input's name if it has none.

    With the `environment`, one that will be set: a stranger's recipe gets none that is set for another.
    """
    taken: Mapping[str, str] = {} if environment is None or recipe.trusted else environment
    if one.in_environment and one.in_environment not in taken:
        return one.in_environment
    made = re.sub(r"[^A-Z0-9]+", "_", f"{recipe.name}_{one.name}".upper()).strip("_")
    while not _VARIABLE.fullmatch(made) or made in taken:
        made = f"SECRET_{made}"
    return made


def _is_reference(value: str) -> bool:
    return "${" in value


def _checked(one: Input, text: str) -> Value:
    if text in one.choices:
        return Value(text)  # the words of the recipe
    if one.choices and not _is_reference(text):
        choices = ", ".join(map(one_line, one.choices))
        raise CommandError(f"{one.name} cannot be {text!r}", f"one of {choices}")
    return Value(_absolute(text) if one.path and not _is_reference(text) else text, refers=True)


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


# From a recipe and values to an entry


def fields_of(
    recipe: ServerRecipe, values: Values, own_command: Sequence[str] = ("toolyard",)
) -> dict[str, Any]:
    """The entry of the configuration file. `own_command` starts Toolyard."""
    start = recipe.start
    if isinstance(start, ModuleStart):
        options = _filled_map(start.options, values)
        return {"module": start.module} | ({"options": options} if options else {})
    if isinstance(start, RemoteStart):
        headers = _filled_map(start.headers, values)
        fields: dict[str, Any] = {"url": _substituted(start.url, values)}
        fields |= {"headers": headers} if headers else {}
        return fields | ({"transport": start.transport} if start.transport == "sse" else {})
    args = [word for group in start.args for word in _filled_group(group, values)]
    env = _filled_map(start.env, values)
    if isinstance(start, CommandStart):
        told = [word for name in env if start.before for word in ("-e", name)]
        command, args = start.command, [*start.before, *told, *args]
    else:
        command, *before = own_command
        before += ["envs", "run"]
        before += ["--program", start.program] if start.program else []
        before += ["--module", start.module] if start.module else []
        args = [*before, str(start.package), *args]
    fields = {"command": command} | ({"args": args} if args else {})
    return fields | ({"env": env} if env else {})


def _filled_map(templates: Mapping[str, str], values: Values) -> dict[str, str]:
    """Without the entries whose inputs have no value."""
    return {
        key: _substituted(template, values)
        for key, template in templates.items()
        if all(name in values for name in placeholders(template))
    }


def _filled_group(group: Words, values: Values) -> Iterator[str]:
    names = [name for word in group for name in placeholders(word)]
    if any(name not in values for name in names):
        return
    times = max((len(values[name]) for name in names), default=1)
    for at in range(times):
        now = {name: (values[name][min(at, len(values[name]) - 1)],) for name in names}
        yield from (_substituted(word, now) for word in group)


def placeholders(template: str) -> list[str]:
    """The inputs of a template. `{{` and `}}` are braces."""
    return _PLACEHOLDER.findall(template.replace("{{", "").replace("}}", ""))


def _substituted(template: str, values: Values) -> str:
    """Fill in a template. Everything in it is text, but for the variables of values that may have them."""
    parts: list[Value] = []
    at = 0
    for found in re.finditer(r"\{\{|\}\}|\{([^{}]+)\}", template):
        parts.append(Value(template[at : found.start()]))
        at = found.end()
        parts += [Value(found[0][0])] if found[1] is None else values[found[1]]
    parts.append(Value(template[at:]))
    text = "".join(part.text for part in parts)
    # A dollar and a brace may also meet where two parts do, and then are no variable.
    whole = {
        start + inner.start()
        for part, start in zip(parts, accumulate((len(part.text) for part in parts), initial=0), strict=False)
        if part.refers
        for inner in re.finditer(r"\$\{", part.text)
    }
    return re.sub(r"\$\{", lambda found: found[0] if found.start() in whole else "$${", text)
