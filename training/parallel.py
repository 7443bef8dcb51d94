"""Sentences that people wrote in both languages: command pages, the texts of programs, voice skills."""

import ast
import re
from collections.abc import Iterator
from typing import Any
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


def pairs() -> Iterator[dict[str, str]]:
    """All of them as {en, pt, source}, cleaned; texts that stayed the same in both are left out."""
    seen: set[Pair] = set()
    for source, english, portuguese in _everything():
        pair = (_clean(english), _clean(portuguese))
        if pair in seen or pair[0].lower() == pair[1].lower():
            continue
        if all(2 < len(side) <= 240 and re.search(r"[a-zA-Z]{2}", side) for side in pair):
            seen.add(pair)
            yield {"en": pair[0], "pt": pair[1], "source": source.repository}


def _everything() -> Iterator[tuple[Source, str, str]]:
    for source, found in (
        (TLDR, _command_pages()),
        *((SETTINGS, _android(SETTINGS, place)) for place in ("pt-rBR", "pt-rPT")),
        *((CONTACTS, _android(CONTACTS, place)) for place in ("pt-rBR", "pt-rPT")),
        *((CLOCK, _android(CLOCK, place)) for place in ("pt", "pt-rPT")),
        *((GITEA, _keyed(GITEA, "options/locale/locale_{}.json", "en-US", p)) for p in ("pt-BR", "pt-PT")),
        *((ROCKET_CHAT, _keyed(ROCKET_CHAT, _ROCKET, "en", place)) for place in ("pt-BR", "pt")),
        *((JITSI, _keyed(JITSI, "lang/main{}.json", "", place)) for place in ("-pt-BR", "-pt")),
        *((MAP_TAGS, _keyed(MAP_TAGS, "dist/translations/{}.json", "en", p, True)) for p in ("pt-BR", "pt")),
        *((CHATWOOT, _chatwoot(place)) for place in ("pt_BR", "pt")),
        *((ZULIP, _catalogue(ZULIP, f"locale/{p}/LC_MESSAGES/django.po")) for p in ("pt", "pt_PT")),
        *((ZULIP, iter(ZULIP.json(f"locale/{p}/translations.json").items())) for p in ("pt", "pt_PT")),
        *(
            (SUPERSET, _catalogue(SUPERSET, f"superset/translations/{p}/LC_MESSAGES/messages.po"))
            for p in ("pt", "pt_BR")
        ),
        (MCP_SERVERS, _servers()),
        *((skill, _skill(skill)) for skill in SKILLS),
    ):
        for english, portuguese in found:
            yield source, english, portuguese


_ROCKET = "packages/i18n/src/locales/{}.i18n.json"


def _clean(text: str) -> str:
    text = re.sub(r"\[(\w)\]", r"\1", text)  # tldr marks the letter of an option: [C]reate
    return " ".join(_MARKUP.sub(" ", text).replace("\\n", " ").split()).strip(" :;,.-")


def _command_pages() -> Iterator[Pair]:
    english = dict(TLDR.texts([p for p in TLDR.paths("pages") if p.endswith(".md")]))
    for place in ("pages.pt_BR", "pages.pt_PT"):
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


def _servers() -> Iterator[Pair]:
    english = servers("README.md")
    for name, description in servers("README-pt_BR.md").items():
        if name in english:
            yield english[name][:240], description[:240]


def _skill(source: Source) -> Iterator[Pair]:
    """A file of phrases has no line by line twin: each phrase is paired with a few of the others."""
    files = [p for p in source.paths() if re.search(r"/(en-us|pt-pt|pt-br)/.*\.(voc|intent|dialog)$", p)]
    texts = dict(source.texts(files))
    for path, text in texts.items():
        english = texts.get(re.sub(r"/(pt-pt|pt-br)/", "/en-us/", path))
        if english is None or "/en-us/" in path:
            continue
        ours, theirs = _phrases(english), _phrases(text)
        for i, phrase in enumerate(theirs):
            for j in range(min(3, len(ours))):
                yield ours[(i + j) % len(ours)], phrase


def _phrases(text: str) -> list[str]:
    return [line for line in re.sub(r"[()|]", " ", text).splitlines() if line and not line.startswith("#")]
