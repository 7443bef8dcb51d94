"""Recipes from `server.json`, the format of the official MCP registry.

The format: https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json. Also read are an
answer of the registry's API, which has the file under `server`, and the spelling of July 2025
(`registry_type`, `is_required`).

Nobody has vouched for such a file: what it says is text, never a reference to a variable of this machine,
and what it wants of a runner is screened (`screening`).
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...config.errors import nearest_or_all
from ..json_values import JsonMapping, as_list, as_object
from ..ui.messages import CommandError, one_line
from .environments import Package, parse_package
from .recipe import BilingualText, CommandStart, Input, PackageStart, RemoteStart, ServerRecipe, Start, Words
from .screening import RUNNERS, check_package, check_variable, is_read_by_others, screened_options

MAX_TEXT = 300
OFFICIAL = {"npm": "npmjs.org", "pypi": "pypi.org", "nuget": "nuget.org"}
DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
_CURLY = re.compile(r"\{([^{}]+)\}")
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IMAGE = re.compile(
    # Podman would read these as places on this machine.
    r"(?!(?:dir|docker|docker-archive|docker-daemon|containers-storage|oci|oci-archive|sif|tarball):)"
    r"[a-z0-9][a-z0-9._-]*(?::\d+(?=/))?(?:/[a-z0-9][a-z0-9._-]*)*"
    r"(?P<version>:(?!latest$)\w[\w.-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?",
    re.A,
)
_NUGET = re.compile(r"[A-Za-z0-9_][\w.-]*@\d+(\.\d+){1,3}(-[A-Za-z0-9.-]+)?", re.A)


class _Collected(Struct):
    """The inputs of one start, as they are found."""

    inputs: dict[str, Input]

    def add(self, one: Input) -> str:
        """Add an input, and return its placeholder."""
        self.inputs.setdefault(one.name, one)
        return f"{{{one.name}}}"


def recipe_from(data: Any, shown: str, via: str = "", name: str = "") -> ServerRecipe:
    """The recipe in a file; `name` is ours for it. `via` says which of its ways."""
    server = _camel(_server(data, shown, name))
    given = server.get("name")
    if not isinstance(given, str) or not given:
        raise CommandError(
            f"{shown} is not a server.json: it has no 'name'", "the MCP registry has such files"
        )
    remotes = [as_object(one) for one in as_list(server.get("remotes"))]
    packages = [as_object(one) for one in as_list(server.get("packages"))]
    if not remotes and not packages:
        raise CommandError(f"{shown} has no packages and no remotes", "there is nothing to start or to reach")
    collected = _Collected({})
    start = _start(shown, remotes, packages, via, collected)
    others = [str(one.get("url")) for one in remotes if not via and not _is_sse(one)][1:]
    note = f"it has other addresses: --via {' or '.join(others)}" if others else ""
    about = one_line(str(server.get("description") or ""))[:MAX_TEXT]
    return ServerRecipe(
        name=name or _short_name(given),
        title=one_line(str(server.get("title") or given))[:MAX_TEXT],
        about=BilingualText(about, about),
        start=start,
        inputs=tuple(collected.inputs.values()),
        note=BilingualText(one_line(note)[:MAX_TEXT], ""),
    )


def _server(data: Any, shown: str, name: str) -> JsonMapping:
    """The server itself, out of an answer of the registry's API."""
    found = as_object(data)
    listed = [as_object(as_object(one).get("server") or one) for one in as_list(found.get("servers"))]
    if listed:
        names = [str(one.get("name") or "") for one in listed]
        matching = [one for one, full in zip(listed, names, strict=True) if name in (full, _short_name(full))]
        if len(listed) == 1 or matching:
            return (matching or listed)[0]
        advice = nearest_or_all(name, names) if name else f"add one by name: {', '.join(names[:10])}"
        raise CommandError(f"{shown} lists {len(listed)} servers", advice)
    return as_object(found.get("server")) or found


def _short_name(full: str) -> str:
    """`io.github.ada/weather-mcp` is `weather-mcp` here."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", full.rpartition("/")[2]).strip("-") or "server"


def _camel(value: Any) -> Any:
    """The keys of July 2025, such as `is_required`, as they are written now. Names under `variables` stay."""
    if isinstance(value, list):
        return [_camel(item) for item in as_list(value)]
    if not isinstance(value, dict):
        return value
    return {
        re.sub(r"(?<=[a-z0-9])_([a-z])", lambda found: found[1].upper(), key): (
            {name: _camel(inner) for name, inner in as_object(item).items()}
            if key == "variables"
            else item
            if key == "_meta"
            else _camel(item)
        )
        for key, item in as_object(value).items()
    }


# Which of its ways


def _start(
    shown: str, remotes: list[JsonMapping], packages: list[JsonMapping], via: str, collected: _Collected
) -> Start:
    """A remote if there is one, since it needs nothing installed; `via` says otherwise."""
    if via not in ("", "remote", "package"):
        remotes = [one for one in remotes if via == one.get("url")]
        packages = [one for one in packages if via in (one.get("registryType"), one.get("identifier"))]
        if not remotes and not packages:
            raise CommandError(
                f"{shown} has no {via!r}", "--via takes a URL, a package, or its kind, as in npm"
            )
    if via == "remote" and not remotes:
        raise CommandError(f"{shown} has no remotes", "--via package: it has one")
    if via == "package" and not packages:
        raise CommandError(f"{shown} has no packages", "--via remote: it has one")
    if remotes and via != "package":
        # The newer transport first; `sorted` keeps the file's order otherwise.
        return _remote(sorted(remotes, key=_is_sse)[0], shown, collected)
    reasons: list[str] = []
    for package in sorted(packages, key=_preference):
        reason = _obstacle(package)
        if not reason:
            return _package(package, shown, collected)
        reasons.append(reason)
    raise CommandError(f"no package of {shown} can be started here", *reasons)


def _is_sse(remote: JsonMapping) -> bool:
    return (remote.get("type") or remote.get("transportType")) == "sse"


def _preference(package: JsonMapping) -> int:
    order = ("npm", "pypi", "oci", "nuget")
    kind = package.get("registryType")
    return order.index(kind) if kind in order else len(order)


def _obstacle(package: JsonMapping) -> str:
    """Why a package cannot be started here; empty if it can."""
    kind, identifier = str(package.get("registryType") or ""), one_line(str(package.get("identifier") or ""))
    transport = str(as_object(package.get("transport")).get("type") or "stdio")
    if transport != "stdio":
        url = one_line(str(as_object(package.get("transport")).get("url") or "its address"))
        return f"{identifier} serves {transport} at {url}: start it yourself, then `toolyard add NAME URL`"
    base = str(package.get("registryBaseUrl") or "")
    if base and not _is_its_registry(base, kind, identifier):
        return f"{identifier} is in another registry ({one_line(base)})"
    if kind in ("npm", "pypi"):
        return ""
    if kind == "oci":
        return "" if _container_program() else f"{identifier} is a container image: install Docker or Podman"
    if kind == "nuget":
        return "" if shutil.which("dnx") else f"{identifier} is a .NET package: install the .NET 10 SDK (dnx)"
    if kind == "mcpb":
        return f"{identifier} is an MCP bundle (mcpb), which Toolyard does not unpack"
    return f"{identifier or 'a package'} is of the kind {kind!r}, which Toolyard does not know"


def _is_its_registry(base: str, kind: str, identifier: str) -> bool:
    """Whether it is the registry that is asked: a public one, or that of the image's own name."""
    host = re.fullmatch(r"https://([a-z0-9.-]+)/?(v3/index\.json)?", base)
    if host is None:
        return False
    if kind == "oci":
        return host[1] in DOCKER_HUB or identifier.startswith(f"{host[1]}/")
    return kind not in OFFICIAL or f".{host[1]}".endswith(f".{OFFICIAL[kind]}")


def _container_program() -> str:
    return next((name for name in ("docker", "podman") if shutil.which(name)), "")


def _remote(remote: JsonMapping, shown: str, collected: _Collected) -> RemoteStart:
    url = remote.get("url")
    if not isinstance(url, str) or not url.lower().startswith(("http://", "https://")):
        raise CommandError(f"a remote of {shown} has no 'url' with http or https")
    template = _template(url, as_object(remote.get("variables")), collected, required=True)
    headers = dict(_key_values(remote.get("headers"), collected))
    return RemoteStart(template, headers, "sse" if _is_sse(remote) else "auto")


def _package(package: JsonMapping, shown: str, collected: _Collected) -> Start:
    kind, identifier = str(package["registryType"]), str(package.get("identifier") or "")
    version = str(package.get("version") or "")
    runner = tuple(_arguments(package.get("runtimeArguments"), collected))
    args = tuple(_arguments(package.get("packageArguments"), collected))
    env = dict(_key_values(list(_own_variables(package, shown)), collected))
    if kind == "oci":
        return _container(_image(identifier, version, shown), runner, args, env, collected, shown)
    hint = str(package.get("runtimeHint") or RUNNERS[kind])
    wanted = hint if hint == RUNNERS[kind] else one_line(hint)
    spellings = (identifier, f"{identifier}@{version}", f"{identifier}=={version}")
    needed = list(screened_options(runner, kind, wanted, spellings, collected.inputs, shown))
    check_package(identifier, shown)
    if kind == "nuget":
        pinned = f"{identifier}@{version}"
        if not _NUGET.fullmatch(pinned):
            raise _no_package(identifier, version, shown)
        rest = (("--",), *args) if args else ()
        return CommandStart("dnx", ((pinned, "--yes"), *rest), env)
    found = _exact(kind, identifier, version, shown)
    if needed:
        # The version of Python that it wants, which uvx finds.
        return CommandStart("uvx", (*needed, (f"{found.name}@{found.version}",), *args), env)
    return PackageStart(found, args, env)


def _own_variables(package: JsonMapping, shown: str) -> Iterator[JsonMapping]:
    """The variables of the package. One that others read is refused, or left out if nothing is said of it."""
    for item in map(as_object, as_list(package.get("environmentVariables"))):
        name = item.get("name")
        if isinstance(name, str) and name:
            if not _ENVIRONMENT.fullmatch(name):
                raise CommandError(f"{shown} has an environment variable {name!r}, which is no name of one")
            if (
                is_read_by_others(name)
                and not {"value", "default"} & set(item)
                and not item.get("isRequired")
            ):
                continue
            check_variable(name, shown)
        yield item


def _exact(kind: str, identifier: str, version: str, shown: str) -> Package:
    if not version or version == "latest":
        raise CommandError(f"{shown} does not say which version of {identifier!r}", "it has to be exact")
    try:
        return parse_package(f"{kind}:{identifier}{'@' if kind == 'npm' else '=='}{version}")
    except CommandError:
        raise _no_package(identifier, version, shown) from None


def _no_package(identifier: str, version: str, shown: str) -> CommandError:
    return CommandError(
        f"{shown} has a package that is none: {identifier!r} at {version!r}",
        "it has to be a name and an exact version",
    )


def _image(identifier: str, version: str, shown: str) -> str:
    """The image with its version, which the file has with its name or apart."""
    found = _IMAGE.fullmatch(identifier)
    if found is not None and version and not found["version"] and not found["digest"]:
        found = _IMAGE.fullmatch(f"{identifier}:{version}")
    if found is None or not (found["version"] or found["digest"]):
        raise CommandError(
            f"{shown} has a container image that is none: {identifier!r} at {version!r}",
            "it has to be a name with a version, or a digest",
        )
    return found[0]


def _container(
    image: str,
    runner: tuple[Words, ...],
    args: tuple[Words, ...],
    env: dict[str, str],
    collected: _Collected,
    shown: str,
) -> CommandStart:
    rest: list[Words] = []
    for group in runner:
        option, _, joined = group[0].partition("=")
        pair = group[1] if len(group) == 2 else joined
        name, sign, value = pair.partition("=")
        if option not in ("-e", "--env") or not _ENVIRONMENT.fullmatch(name):
            rest.append(group)
        elif sign:
            check_variable(name, shown)
            env = {**env, name: value}  # on the command line every user of the machine could read it
        elif name not in env:  # `-e NAME` alone passes on a variable of this machine
            rest.append(group)
    spellings = (image, _untagged(image))
    needed = screened_options(rest, "oci", RUNNERS["oci"], spellings, collected.inputs, shown)
    return CommandStart(_container_program(), (*needed, (image,), *args), env, ("run", "-i", "--rm"))


def _untagged(image: str) -> str:
    folder, slash, name = image.partition("@")[0].rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}"


# Inputs


def _key_values(value: Any, collected: _Collected) -> Iterator[tuple[str, str]]:
    """Headers or environment variables, as templates by name."""
    for item in map(as_object, as_list(value)):
        name = item.get("name")
        if not isinstance(name, str) or not name:
            raise CommandError("a header or variable has no 'name'")
        yield name, _value(item, name, collected)


def _arguments(value: Any, collected: _Collected) -> Iterator[Words]:
    """Arguments, as groups of templates."""
    for number, item in enumerate(map(as_object, as_list(value)), 1):
        named = item.get("type") == "named" or "name" in item
        flag = str(item.get("name") or "")
        if named and not flag:
            raise CommandError(f"argument {number} has no 'name'")
        if named and not set(item) - {"type", "name", "isRequired"}:
            yield (_literal(flag),)  # a switch
            continue
        label = flag.lstrip("-") if named else str(item.get("valueHint") or f"argument_{number}")
        if named and item.get("format") == "boolean":
            yield from _switch(item, flag, label, collected)
            continue
        text = _value(item, label, collected)
        if not named:
            yield (text,)
        elif text:
            yield (_literal(flag), text)
        else:
            yield (_literal(flag),)


def _switch(item: JsonMapping, flag: str, label: str, collected: _Collected) -> Iterator[Words]:
    """A flag that is there or not, as docker and most programs want it."""
    fixed = item.get("value")
    if fixed is None:
        yield (collected.add(replace(_input(item, label), switch=flag, choices=("true", "false"))),)
    elif str(fixed).lower() == "true":
        yield (_literal(flag),)


def _value(item: JsonMapping, name: str, collected: _Collected) -> str:
    """The template of a value: fixed, with variables in it, or a value to ask for."""
    fixed = item.get("value")
    if isinstance(fixed, str):
        variables = as_object(item.get("variables"))
        return _template(fixed, variables, collected, required=item.get("isRequired") is True)
    return collected.add(_input(item, name))


def _template(text: str, variables: JsonMapping, collected: _Collected, required: bool) -> str:
    """`{name}` is a variable if `variables` has it; otherwise it stays, braces and all."""
    parts: list[str] = []
    at = 0
    for found in _CURLY.finditer(text):
        if found[1] not in variables:
            continue
        parts.append(_literal(text[at : found.start()]))
        parts.append(_variable(as_object(variables[found[1]]), found[1], required, collected))
        at = found.end()
    return "".join([*parts, _literal(text[at:])])


def _variable(item: JsonMapping, name: str, required: bool, collected: _Collected) -> str:
    if isinstance(item.get("value"), str):
        return _literal(str(item["value"]))
    return collected.add(_input({"isRequired": required, **item}, name))


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _input(item: Mapping[str, Any], name: str) -> Input:
    name = one_line(name)
    if not name or "{" in name or "}" in name:
        raise CommandError(f"{name!r} is no name of a value")
    about = one_line(str(item.get("description") or ""))[:MAX_TEXT]
    default = item.get("default")
    choices = tuple(str(choice) for choice in as_list(item.get("choices")))
    return Input(
        name=name,
        about=BilingualText(about, about),
        required=item.get("isRequired") is True,
        secret=item.get("isSecret") is True,
        default=""
        if default is None
        else str(default).lower()
        if isinstance(default, bool)
        else str(default),
        choices=choices,
        repeated=item.get("isRepeated") is True,
        path=item.get("format") == "filepath",
    )
