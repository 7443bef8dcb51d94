"""Sentences that people wrote in English and another language: command pages, programs, voice skills."""

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree

from .sources import (
    CHATWOOT,
    CLOCK,
    CONTACTS,
    GITEA,
    JITSI,
    MAP_TAGS,
    MCP_SERVERS,
    ROCKET_CHAT,
    SETTINGS,
    SKILLS,
    SUPERSET,
    TLDR,
    ZULIP,
    Source,
)
from .tools import servers

Pair = tuple[str, str]
_MARKUP = re.compile(r"<[^>]+>|https?://\S+|\{\{?[^}]*\}?\}|%[\d$]*[sd]|%\([a-z_]+\)s|__\w+__|[*`_\\[\]]")


class Places(NamedTuple):
    """How each source names the languages: the folders and files of one language."""

    pages: tuple[str, ...]
    android: tuple[str, ...]
    clock: tuple[str, ...]
    gitea: tuple[str, ...]
    rocket: tuple[str, ...]
    short: tuple[str, ...]
    chatwoot: tuple[str, ...]
    zulip: tuple[str, ...]
    superset: tuple[str, ...]
    skills: str
    servers: str = ""


PLACES = {
    "pt": Places(
        pages=("pt_BR", "pt_PT"),
        android=("pt-rBR", "pt-rPT"),
        clock=("pt", "pt-rPT"),
        gitea=("pt-BR", "pt-PT"),
        rocket=("pt-BR", "pt"),
        short=("pt-BR", "pt"),
        chatwoot=("pt_BR", "pt"),
        zulip=("pt", "pt_PT"),
        superset=("pt", "pt_BR"),
        skills="pt-pt|pt-br",
        servers="README-pt_BR.md",
    ),
    **{
        short: Places(
            pages=(short,),
            android=(short, *more),
            clock=(short, *more),
            gitea=(f"{short}-{short.upper()}",),
            rocket=(short,),
            short=(short,),
            chatwoot=(short,),
            zulip=(short,),
            superset=(short,),
            skills=f"{short}-{short}",
        )
        for short, more in (("es", ("es-rUS",)), ("fr", ("fr-rCA",)), ("de", ()))
    },
}


def pairs(language: str = "pt") -> Iterator[dict[str, str]]:
    """All of them as {en, LANGUAGE, source}, cleaned; texts that stayed the same in both are left out."""
    seen: set[Pair] = set()
    for source, english, other in _everything(PLACES[language]):
        pair = (_clean(english), _clean(other))
        if pair in seen or pair[0].lower() == pair[1].lower():
            continue
        if all(2 < len(side) <= 240 and re.search(r"[a-zA-Z]{2}", side) for side in pair):
            seen.add(pair)
            yield {"en": pair[0], language: pair[1], "source": source.repository}


def _everything(at: Places) -> Iterator[tuple[Source, str, str]]:
    for source, found in (
        (TLDR, _command_pages(at.pages)),
        *((SETTINGS, _android(SETTINGS, place)) for place in at.android),
        *((CONTACTS, _android(CONTACTS, place)) for place in at.android),
        *((CLOCK, _android(CLOCK, place)) for place in at.clock),
        *((GITEA, _keyed(GITEA, "options/locale/locale_{}.json", "en-US", place)) for place in at.gitea),
        *((ROCKET_CHAT, _keyed(ROCKET_CHAT, _ROCKET, "en", place)) for place in at.rocket),
        *((JITSI, _keyed(JITSI, "lang/main{}.json", "", f"-{place}")) for place in at.short),
        *((MAP_TAGS, _keyed(MAP_TAGS, _MAP_TAGS, "en", place, True)) for place in at.short),
        *((CHATWOOT, _chatwoot(place)) for place in at.chatwoot),
        *((ZULIP, _catalogue(ZULIP, f"locale/{place}/LC_MESSAGES/django.po")) for place in at.zulip),
        *((ZULIP, iter(ZULIP.json(f"locale/{place}/translations.json").items())) for place in at.zulip),
        *((SUPERSET, _catalogue(SUPERSET, _SUPERSET.format(place))) for place in at.superset),
        *(((MCP_SERVERS, _servers(at.servers)),) if at.servers else ()),
        *((skill, _skill(skill, at.skills)) for skill in SKILLS),
    ):
        for english, other in found:
            yield source, english, other


_ROCKET = "packages/i18n/src/locales/{}.i18n.json"
_MAP_TAGS = "dist/translations/{}.json"
_SUPERSET = "superset/translations/{}/LC_MESSAGES/messages.po"


def _clean(text: str) -> str:
    text = re.sub(r"\[(\w)\]", r"\1", text)  # tldr marks the letter of an option: [C]reate
    return " ".join(_MARKUP.sub(" ", text).replace("\\n", " ").split()).strip(" :;,.-")


def _command_pages(places: tuple[str, ...]) -> Iterator[Pair]:
    english = dict(TLDR.texts([p for p in TLDR.paths("pages") if p.endswith(".md")]))
    for place in (f"pages.{name}" for name in places):
        for path, page in TLDR.texts([p for p in TLDR.paths(place) if p.endswith(".md")]):
            ours = _examples(page)
            for command, text in _examples(english.get(path.replace(place, "pages"), "")).items():
                if command in ours:
                    yield text, ours[command]


def _examples(page: str) -> dict[str, str]:
    """What each example does, by its command with the words inside braces, which are translated, removed."""
    found = re.findall(r"^- (.+?):?\n\n`(.+)`$", page, re.MULTILINE)
    return {re.sub(r"\{\{.*?\}\}", "", command): text for text, command in found}


def _android(source: Source, place: str) -> Iterator[Pair]:
    english = _strings(source.text("res/values/strings.xml"))
    for name, text in _strings(source.text(f"res/values-{place}/strings.xml")).items():
        if name in english:
            yield english[name], text


def _strings(xml: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ElementTree.fromstring(xml).iter("string"):
        found[node.get("name", "")] = "".join(node.itertext()).strip('" ').replace("\\'", "'")
    return found


def _keyed(source: Source, path: str, ours: str, theirs: str, unwrap: bool = False) -> Iterator[Pair]:
    english, portuguese = (source.json(path.format(place)) for place in (ours, theirs))
    if unwrap:
        english, portuguese = english[ours], portuguese[theirs]
    flat = dict(_leaves(portuguese, ""))
    for key, text in _leaves(english, ""):
        if key in flat and not key.endswith("terms"):
            yield text, flat[key]


def _leaves(node: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for name, child in node.items():
            yield from _leaves(child, f"{key}/{name}")
    elif isinstance(node, str):
        yield key, node


def _chatwoot(place: str) -> Iterator[Pair]:
    folder = "app/javascript/dashboard/i18n/locale"
    for path in CHATWOOT.paths(f"{folder}/en"):
        other = path.replace("/en/", f"/{place}/")
        if path.endswith(".json") and other in CHATWOOT.paths(f"{folder}/{place}"):
            yield from _keyed(CHATWOOT, path.replace("/en/", "/{}/"), "en", place)


def _catalogue(source: Source, path: str) -> Iterator[Pair]:
    for entry in source.text(path).split("\n\n"):
        if "#, fuzzy" in entry or "msgid_plural" in entry:
            continue
        found = re.search(r'^msgid ((?:".*"\n?)+)msgstr ((?:".*"\n?)+)', entry, re.MULTILINE)
        if found:
            yield _quoted(found[1]), _quoted(found[2])


def _quoted(lines: str) -> str:
    return "".join(ast.literal_eval(line) for line in lines.strip().splitlines())


def _servers(translated: str) -> Iterator[Pair]:
    english = servers("README.md")
    for name, description in servers(translated).items():
        if name in english:
            yield english[name][:240], description[:240]


def _skill(source: Source, places: str) -> Iterator[Pair]:
    """A file of phrases has no line by line twin: each phrase is paired with a few of the others."""
    files = [p for p in source.paths() if re.search(rf"/(en-us|{places})/.*\.(voc|intent|dialog)$", p)]
    texts = dict(source.texts(files))
    for path, text in texts.items():
        english = texts.get(re.sub(rf"/({places})/", "/en-us/", path))
        if english is None or "/en-us/" in path:
            continue
        ours, theirs = _phrases(english), _phrases(text)
        for i, phrase in enumerate(theirs):
            for j in range(min(3, len(ours))):
                yield ours[(i + j) % len(ours)], phrase


def _phrases(text: str) -> list[str]:
    return [line for line in re.sub(r"[()|]", " ", text).splitlines() if line and not line.startswith("#")]
