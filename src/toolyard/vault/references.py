"""Resolves the references to secrets in a configuration: vault, keyring, AWS Secrets Manager, sops.

`load_resolved` is the one way to load a configuration with its secrets. It blocks; inside an event loop,
call it in a thread. References to files are resolved by `config` itself.

Every command loads a configuration, so what only references need is imported where they are.
"""

import os
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from ..config import Config, load
from ..config.files import state_folder
from ..config.references import (
    ReferenceKind,
    Resolution,
    SecretReference,
    SecretText,
    UnresolvedReference,
    path_of,
)
from .base import GATEWAY_TENANT, SecretAddress, VaultError, VaultUnavailableError

WATCHED: tuple[ReferenceKind, ...] = ("secret", "keyring", "aws-secret")
"""What may change without a change of a file."""
AWS_SECONDS = 300.0
"""AWS bills each request, so an answer is used for a while."""
SOPS_SECONDS = 30.0

T = TypeVar("T")
_Found = SecretText | UnresolvedReference
_aws_answers: dict[str, tuple[float, _Found]] = {}
_last_values: dict[tuple[str, SecretReference], SecretText] = {}
"""By the store's address: a server keeps its secret while the vault or the keyring does not answer."""


def load_resolved(path: Path, env: Mapping[str, str] = os.environ) -> Config:
    return load(path, env, resolve)


def named_secret(name: str) -> SecretAddress:
    """Where `${secret:NAME}` is."""
    return SecretAddress(GATEWAY_TENANT, "named", name=name)


def resolve(config: Config, references: Sequence[SecretReference]) -> Resolution:
    """Finds the values; for each that has none, why. One that fails does not affect the others."""
    found: dict[SecretReference, _Found] = {}
    by_kind: dict[ReferenceKind, list[SecretReference]] = {}
    for one in references:
        by_kind.setdefault(one.kind, []).append(one)
    if named := by_kind.get("secret"):
        found.update(_from_vault(config, named))
    for one in by_kind.get("keyring", ()):
        found[one] = _from_keyring(one)
    for one in by_kind.get("aws-secret", ()):
        found[one] = _from_aws(one)
    if sealed := by_kind.get("sops"):
        found.update(_from_sops(config, sealed))
    return found


def _from_vault(config: Config, references: Sequence[SecretReference]) -> Resolution:
    try:
        return _run(_read_vault(config, references))
    except VaultError as error:
        return {one: _failed(config.state.url, one, error) for one in references}


def _failed(store: str, reference: SecretReference, error: VaultError) -> _Found:
    known = _last_values.get((store, reference)) if isinstance(error, VaultUnavailableError) else None
    return known or UnresolvedReference(error.message, error.hint)


async def _read_vault(config: Config, references: Sequence[SecretReference]) -> Resolution:
    from .factory import open_vault  # 40 ms, most of it asyncio

    vault = open_vault(config, state_folder(config))
    found: dict[SecretReference, _Found] = {}
    try:
        for one in references:
            try:
                stored = await vault.read(named_secret(one.place))
            except VaultError as error:
                found[one] = _failed(config.state.url, one, error)
            else:
                found[one] = value = _absent_secret(one) if stored is None else _text(stored.value)
                if isinstance(value, SecretText):
                    _last_values[config.state.url, one] = value
    finally:
        await vault.close()
    return found


def _absent_secret(reference: SecretReference) -> UnresolvedReference:
    return UnresolvedReference(
        "the vault has no such secret", f"`toolyard secret set {reference.place[:80]}`"
    )


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Runs it on an event loop of its own, because the caller's thread may have one that runs."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "toolyard-secrets") as thread:
        return thread.submit(asyncio.run, work).result()


def _text(raw: bytes) -> _Found:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return UnresolvedReference("it is not a text", "a configuration can hold texts only")
    return (
        SecretText(text) if text and "\0" not in text else UnresolvedReference("it is empty", "set it again")
    )


def _from_keyring(reference: SecretReference) -> _Found:
    service, _, name = reference.place.rpartition("/")
    if not service or not name:
        return UnresolvedReference("it names no entry", "as in ${keyring:SERVICE/NAME}")
    from .master_keys import read_keyring

    try:
        text = read_keyring(service, name)
    except VaultError as error:
        return _failed("", reference, error)
    if not text:
        hint = f"`keyring set {service} {name}` stores one"
        return UnresolvedReference("the system's keyring has no such entry", hint)
    _last_values["", reference] = found = SecretText(text)
    return found


# AWS Secrets Manager


def _from_aws(reference: SecretReference) -> _Found:
    name, _, member = reference.place.partition("#")
    known = _aws_answers.get(name)
    now = time.monotonic()
    if known is None or now - known[0] > AWS_SECONDS:
        answer = _ask_aws(name)
        if known is not None and isinstance(answer, UnresolvedReference):
            answer = known[1]  # the last value serves while AWS does not answer
        known = _aws_answers[name] = (now, answer)
        if isinstance(answer, UnresolvedReference):
            del _aws_answers[name]
    return _member(known[1], member, "the secret")


def _ask_aws(name: str) -> _Found:
    from .aws import call_aws

    try:
        found = call_aws("secretsmanager", "get_secret_value", name, SecretId=name)
    except VaultError as error:
        return UnresolvedReference(error.message, error.hint)
    text: Any = found.get("SecretString")
    if not isinstance(text, str):
        text = found.get("SecretBinary")
    return _text(text if isinstance(text, bytes) else str(text or "").encode())


def _member(found: _Found, member: str, what: str) -> _Found:
    """The value under a key of a JSON object, or the whole if no key is named."""
    if isinstance(found, UnresolvedReference) or not member:
        return found
    try:
        value: Any = msgspec.json.decode(found.encode())
    except msgspec.DecodeError:
        return UnresolvedReference(f"{what} is no JSON object", "leave out what is after the #")
    return _within(value, member, what)


def _within(value: Any, member: str, what: str) -> _Found:
    for step in member.split("."):
        members = cast(dict[str, Any], value) if isinstance(value, dict) else {}
        if step not in members:
            known = ", ".join(sorted(members)[:20]) or "none"
            return UnresolvedReference(f"{what} has no key {step[:80]!r}", f"it has {known}")
        value = members[step]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return UnresolvedReference(f"{member[:80]!r} of {what} is not a text", "name a key with a text")
    return _text(str(value).encode())


# sops


def _from_sops(config: Config, references: Sequence[SecretReference]) -> Resolution:
    folder = config.files[0].parent
    files: dict[Path, Any] = {}
    found: dict[SecretReference, _Found] = {}
    for one in references:
        member = one.place.partition("#")[2]
        path = path_of(one, folder).expanduser()
        if path not in files:
            files[path] = _decrypt(path)
        content = files[path]
        if isinstance(content, UnresolvedReference):
            found[one] = content
        elif not member:
            found[one] = UnresolvedReference(
                "it names no key of the file", "as in ${sops:secrets.yaml#api.key}"
            )
        else:
            found[one] = _within(content, member, "the file")
    return found


def _decrypt(path: Path) -> Any:
    """The content of a file, or why there is none. What sops says is not quoted: it may hold a value."""
    import shutil
    import subprocess

    program = shutil.which("sops")
    if program is None:
        return UnresolvedReference("the program sops is not on PATH", "install sops 3")
    if not path.is_file():
        return UnresolvedReference("there is no such file", f"looked for it at {path}")
    words = [program, "--decrypt", "--output-type", "json", str(path)]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=SOPS_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return UnresolvedReference(
            f"sops did not answer: {type(error).__name__}", f"`sops -d {path}` shows why"
        )
    if done.returncode != 0:
        return UnresolvedReference(
            f"sops cannot decrypt it (exit status {done.returncode})", f"`sops -d {path}` shows why"
        )
    try:
        return msgspec.json.decode(done.stdout)
    except msgspec.DecodeError:
        return UnresolvedReference("sops gave no JSON", "use a YAML, JSON, dotenv or INI file")
