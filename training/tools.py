"""Tool definitions in one form: {server, name, description, parameters: [names]}."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from .sources import GORILLA, MCP_SERVERS, OPENAPI, PUBLIC_APIS

Tool = dict[str, Any]
LARGEST = 200_000
PER_FILE, PER_PROVIDER = 40, 240


def tool(server: str, name: str, description: str, parameters: Any) -> Tool:
    names = list(parameters)[:20] if isinstance(parameters, (dict, list)) else []
    return {"server": server, "name": name, "description": plain(description)[:600], "parameters": names}


def plain(text: str) -> str:
    text = re.sub(r"<[^>]+>|https?://\S+", " ", text or "")
    return " ".join(re.sub(r"[*`#|]", " ", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)).split())


def pool(path: Path) -> Iterator[Tool]:
    """The tools of real MCP servers (`tools.jsonl` of the mcp-pool set)."""
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        schema = entry["parameters"] or {}
        yield tool(entry["server"], entry["name"], entry["description"], schema.get("properties") or {})


def listed() -> Iterator[Tool]:
    """Two lists of what there is: web APIs, and MCP servers."""
    category = ""
    for line in PUBLIC_APIS.text("README.md").splitlines():
        if line.startswith("### "):
            category = line[4:]
        found = re.match(r"\| \[(.+?)\]\(.+?\) \| (.+?) \|", line)
        if found:
            yield tool(category, found[1], found[2], [])
    for name, description in servers("README.md").items():
        yield tool("", name.split("/")[-1], description, [])


def servers(path: str) -> dict[str, str]:
    found = re.findall(r"^- \[([\w./-]+)\]\(.+?\).*? [-\u2013] (.+)$", MCP_SERVERS.text(path), re.MULTILINE)
    return {name: plain(description)[:400] for name, description in found}


def zoo() -> Iterator[Tool]:
    paths = [path for path in GORILLA.paths("data/apizoo") if path.lower().endswith("json")]
    for _, text in GORILLA.texts(paths):
        for entry in _entries(text):
            server, _, name = str(entry.get("api_name", "")).partition(":")
            arguments = entry.get("api_arguments")
            yield tool(server, name.strip(), str(entry.get("functionality", "")), arguments)


def _entries(text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [e for e in (found if isinstance(found, list) else [found]) if isinstance(e, dict)]


def operations() -> Iterator[Tool]:
    """The operations of web APIs; at most a fair share of each provider, and no very large file."""
    taken: Counter[str] = Counter()
    for path, text in OPENAPI.texts(_newest(OPENAPI.paths("APIs"))):
        provider = path.split("/")[1]
        if len(text) <= LARGEST and taken[provider] < PER_PROVIDER:
            for found in _of(provider, text):
                taken[provider] += 1
                yield found


def _newest(paths: list[str]) -> list[str]:
    """The last version of each API; the two clouds with thousands of alike files are thinned out."""
    last = {path.rsplit("/", 2)[0]: path for path in sorted(paths) if path.endswith(".yaml")}
    thinned = [p for i, p in enumerate(last.values()) if "azure.com" not in p or i % 12 == 0]
    return [p for i, p in enumerate(thinned) if "amazonaws" not in p or i % 3 == 0]


def _of(provider: str, text: str) -> Iterator[Tool]:
    try:
        api = yaml.load(text, yaml.CBaseLoader)
    except yaml.YAMLError:
        return
    if not isinstance(api, dict):
        return
    server = f"{provider.split('.')[0]} {(api.get('info') or {}).get('title') or ''}"
    count = 0
    for route, methods in (api.get("paths") or {}).items():
        for method, operation in (methods if isinstance(methods, dict) else {}).items():
            if not isinstance(operation, dict) or method not in ("get", "post", "put", "delete", "patch"):
                continue
            summary, more = (str(operation.get(key) or "") for key in ("summary", "description"))
            name = str(operation.get("operationId") or f"{method} {route}")
            described = f"{summary}. {more}" if more != summary else summary
            if len(described) > 12 and count < PER_FILE:
                count += 1
                yield tool(server, name, described, [*_parameters(operation)])


def _parameters(operation: dict[str, Any]) -> Iterator[str]:
    for parameter in operation.get("parameters") or []:
        if isinstance(parameter, dict) and isinstance(parameter.get("name"), str):
            yield parameter["name"]
