"""The presets: recipes of servers that people use, from `catalogue.toml`."""

import shutil
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...config.errors import nearest_or_all
from ..json_values import JsonMapping, as_list, as_object
from ..ui.messages import CommandError
from .environments import parse_package
from .recipe import BilingualText, Input, ModuleStart, PackageStart, RemoteStart, ServerRecipe, Start, Words

FILE = Path(__file__).with_name("catalogue.toml")
BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
CHROMIUM = "chromium"
"""The input that is looked for on this machine."""


class Preset(Struct, frozen=True):
    recipe: ServerRecipe
    needs: Words
    """What it needs besides a key: programs, extras."""


@cache
def catalogue() -> dict[str, Preset]:
    data: JsonMapping = tomllib.loads(FILE.read_text("utf-8"))
    return {name: _preset(name, as_object(fields)) for name, fields in data.items()}


def preset(name: str) -> ServerRecipe:
    known = catalogue()
    if name not in known:
        raise CommandError(f"no preset {name!r}", nearest_or_all(name, list(known)))
    return known[name].recipe


def _preset(name: str, fields: JsonMapping) -> Preset:
    inputs = [_input(key, as_object(item)) for key, item in as_object(fields.get("inputs")).items()]
    if f"{{{CHROMIUM}}}" in str(fields.get("args", "")):
        inputs.append(_chromium())
    recipe = ServerRecipe(
        name=name,
        title=str(fields["title"]),
        about=_text(fields["about"]),
        start=_start(fields),
        inputs=tuple(inputs),
        note=_text(fields["note"]) if "note" in fields else BilingualText("", ""),
        trusted=True,
    )
    return Preset(recipe, tuple(map(str, as_list(fields.get("needs")))))


def _start(fields: JsonMapping) -> Start:
    if "url" in fields:
        return RemoteStart(str(fields["url"]), _texts(fields.get("headers")))
    env = _texts(fields.get("env"))
    args = tuple(_group(item) for item in as_list(fields.get("args")))
    for registry in ("npm", "pypi"):
        if registry in fields:
            package = parse_package(f"{registry}:{fields[registry]}")
            module, program = str(fields.get("module", "")), str(fields.get("program", ""))
            return PackageStart(package, args, env, program, module)
    return ModuleStart(str(fields["module"]), _texts(fields.get("options")))


def _group(item: Any) -> Words:
    return tuple(map(str, as_list(item))) if isinstance(item, list) else (str(item),)


def _texts(value: Any) -> dict[str, str]:
    return {key: str(item) for key, item in as_object(value).items()}


def _text(value: Any) -> BilingualText:
    english, portuguese = map(str, as_list(value))
    return BilingualText(english, portuguese)


def _input(name: str, fields: JsonMapping) -> Input:
    return Input(
        name=name,
        about=_text(fields["about"]),
        required=fields.get("required") is True,
        secret=fields.get("secret") is True,
        default=str(fields.get("default", "")),
        repeated=fields.get("repeated") is True,
        path=fields.get("path") is True,
        get=str(fields.get("get", "")),
        choices=("true", "false") if "switch" in fields else (),
        switch=str(fields.get("switch", "")),
    )


def _chromium() -> Input:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), "")
    about = BilingualText("the browser's program", "o programa do navegador")
    return Input(name=CHROMIUM, about=about, default=found, path=True)
