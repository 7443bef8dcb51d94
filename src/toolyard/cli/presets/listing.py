"""`toolyard add --list`: the presets as a table, or as JSON."""

import os
from typing import Any

from ..ui.messages import CommandError, hint
from ..ui.output import print_json
from ..ui.tables import print_table
from .catalogue import Preset, catalogue
from .recipe import BilingualText, ModuleStart, PackageStart, RemoteStart

HEADINGS = {"en": ("name", "purpose", "from", "needs"), "pt": ("nome", "para quê", "de", "precisa de")}


def show(words: tuple[str, ...], as_json: bool) -> None:
    found = [one for one in catalogue().values() if _matches(one, words)]
    if not found and not as_json:
        raise CommandError(f"no preset has {' '.join(words)!r}", "toolyard add --list")
    if as_json:
        print_json([_described(one) for one in found])
        return
    language = _language()
    rows = [
        (one.recipe.name, _in(language, one.recipe.about), _source(one), ", ".join(_needs(one)))
        for one in found
    ]
    print_table(HEADINGS[language], rows)
    hint("`toolyard add NAME` adds one; `toolyard add NAME -- COMMAND` any other")


def _matches(one: Preset, words: tuple[str, ...]) -> bool:
    """Whether all words are in what is said about it, in either language."""
    about = one.recipe.about
    text = f"{one.recipe.name} {one.recipe.title} {about.en} {about.pt} {_source(one)}".casefold()
    return all(word.casefold() in text for word in words)


def _language() -> str:
    """Portuguese if the user's locale is; the rest of the command speaks English."""
    locale = next(
        (os.environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)), ""
    )
    return "pt" if locale.lower().startswith("pt") else "en"


def _in(language: str, text: BilingualText) -> str:
    return text.pt if language == "pt" else text.en


def _source(one: Preset) -> str:
    start = one.recipe.start
    if isinstance(start, PackageStart):
        return start.package.registry
    return "url" if isinstance(start, RemoteStart) else "toolyard"


def _needs(one: Preset) -> list[str]:
    """What a person has to have: required inputs without a default, then programs."""
    return [item.name for item in one.recipe.inputs if item.required and not item.default] + list(one.needs)


def _described(one: Preset) -> dict[str, Any]:
    recipe, start = one.recipe, one.recipe.start
    found: dict[str, Any] = {
        "name": recipe.name,
        "title": recipe.title,
        "about": {"en": recipe.about.en, "pt": recipe.about.pt},
    }
    if isinstance(start, PackageStart):
        found["package"] = str(start.package)
    elif isinstance(start, RemoteStart):
        found["url"] = start.url
    elif isinstance(start, ModuleStart):
        found["module"] = start.module
    found["needs"] = list(one.needs)
    found["inputs"] = [
        {
            "name": item.name,
            "about": {"en": item.about.en, "pt": item.about.pt},
            "required": item.required,
            "secret": item.secret,
            "default": item.default or None,
            "get": item.get or None,
        }
        for item in recipe.inputs
    ]
    return found
