"""Extras: packages that only some parts need. What each is for, whether it is installed, and how it is.

`toolyard extras` shows and installs them. Whoever misses one names its `install_command`.
"""

import os
import re
import shlex
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

PURPOSES = {
    "age": "the vault's key, encrypted with age",
    "agent-sdk": "agents that Claude Code runs, and servers in applications of its SDK",
    "auth": "logins at servers, logins of people here, tokens of issuers",
    "aws": "the vault's key and secrets at AWS",
    "browser": "the server browser, and pages that scripts make in crawl_parallel",
    "crawl": "crawl_parallel of local_toolkit: web pages as Markdown",
    "deploy": "the check of the template in deploy lambda",
    "keyring": "the vault's key in the system's keyring",
    "media": "an ffmpeg of its own, for video_audio and youtube",
    "mysql": "databases of MySQL and MariaDB",
    "objects": "results in S3, Google Cloud Storage and Azure",
    "openapi": "YAML, in openapi and eval",
    "otel": "traces for OpenTelemetry",
    "policy": "conditions in rules of [access]",
    "postgres": "databases and stores in PostgreSQL",
    "profiles": "credential profiles of the dialects",
    "redis": "state in Redis",
    "sql": "the servers sql and schema, and SQL over results",
    "vault": "the vault: secrets, keys and tokens, sealed",
    "vision": "the server zai_vision",
    "workbench": "pandas and matplotlib for code in workbench",
    "youtube": "the server youtube",
}
"""The extras, and what each is for."""


def install_command(extra: str) -> str:
    """What installs an extra beside this installation, for a shell."""
    return f"{_program()} extras add {extra}"


def named_in(text: str) -> str | None:
    """The extra whose `install_command` is in a text, if it is one of ours and not installed."""
    for found in re.finditer(rf"{re.escape(_program())} extras add ([\w-]+)", text):
        if missing(found[1]):
            return found[1]
    return None


def _program() -> str:
    """How a shell starts the `toolyard` of this environment, and not of another."""
    python = sys.executable or "python"
    own = Path(python).with_name("toolyard")
    found = shutil.which("toolyard")
    if found is not None and os.path.abspath(found) == os.path.abspath(own):
        return "toolyard"
    return shlex.quote(str(own)) if own.exists() else f"{shlex.quote(python)} -m toolyard"


def requirements() -> dict[str, list[str]]:
    """What each extra asks for, as pip reads it; empty for a source tree that was never installed."""
    try:
        lines = requires("toolyard") or []
    except PackageNotFoundError:
        return {}
    found: dict[str, list[str]] = {}
    for line in lines:
        if (extra := re.search(r"(?: and |; *)extra == ['\"]([\w-]+)['\"]", line)) and extra[1] in PURPOSES:
            found.setdefault(extra[1], []).append(line.replace(extra[0], "").strip(" ;"))
    return found


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    names = [_name(text) for text in requirements().get(extra, ()) if _is_wanted(text)]
    return [name for name in names if not _is_installed(name)]


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    return found[0] if found else requirement


def _is_wanted(requirement: str) -> bool:
    """Whether this Python needs it; the only marker that ours have."""
    marker = re.search(r"python_version < ['\"](\d+)\.(\d+)['\"]", requirement)
    return marker is None or sys.version_info < (int(marker[1]), int(marker[2]))


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
