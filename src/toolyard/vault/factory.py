"""Opens the vault of a gateway: its store, and where its master key comes from."""

import os
from collections.abc import Mapping
from pathlib import Path

from ..config import Config
from ..file_access import is_missing
from ..state.factory import lasting_state
from ..state.memory import MemoryState
from ..state.store import State, StateError, file_of, is_shared, kind_of
from .base import VaultUnavailableError
from .envelope import KEY_BYTES, aes
from .master_keys import (
    EnvSource,
    FileSource,
    KeySource,
    MasterKeys,
    MemorySource,
    MissingSource,
    TextSource,
    source_of,
)
from .vault import Vault

KEY_FILE = "vault.key"
KEY_VARIABLE = "TOOLYARD_VAULT_KEY"


def open_vault(
    config: Config,
    folder: Path | None,
    state: State | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Vault:
    """Does no I/O yet. `state` is the gateway's store, if it is open already.

    Secrets outlive processes: with a store in memory they are in the SQLite file of the state folder. Only
    without such a folder, as in tests, are they in memory, with a key that ends with them.
    """
    current, previous = sources(config, folder, environ)
    keys = MasterKeys(current, previous)
    if kind_of(config.state.url) == "memory" and folder is None:
        return Vault(state or MemoryState(), keys, owns_state=state is None)
    try:
        found, is_own = lasting_state(config.state.url, folder, state, "secrets")
    except StateError as error:
        raise VaultUnavailableError(error.message, error.hint or "see [state]") from None
    return Vault(found, keys, owns_state=is_own)


def needs_vault(config: Config) -> bool:
    """Whether a gateway with this configuration keeps secrets, or refers to some, from its start on."""
    refers = any(reference.kind == "secret" for reference in config.references)
    return refers or any(server.auth is not None for server in config.servers)


def is_made(config: Config, folder: Path | None) -> bool:
    """Whether the store of the vault exists; opening it would make it."""
    kind = kind_of(config.state.url)
    if folder is None or kind not in ("sqlite", "memory"):
        return True
    return not is_missing(file_of(config.state.url if kind == "sqlite" else "sqlite:", folder))


async def check_vault(config: Config, folder: Path | None) -> None:
    """Raises VaultError if a gateway with this configuration would not start. Writes nothing."""
    if not is_made(config, folder):
        require_key(config, folder)
        return
    vault = open_vault(config, folder)
    try:
        await vault.check(make=False)
    finally:
        await vault.close()


def sources(
    config: Config, folder: Path | None, environ: Mapping[str, str] = os.environ
) -> tuple[KeySource, list[KeySource]]:
    """Where the master key comes from, and earlier ones."""
    previous = [source_of(one) for one in config.vault.previous]
    if config.vault.key:
        return source_of(config.vault.key), previous
    if environ.get(KEY_VARIABLE, "").strip():
        return EnvSource(KEY_VARIABLE, environ), previous
    if config.state.key:
        return TextSource(config.state.key), previous
    if is_shared(config.state.url):
        return _no_key("the vault is in a store that others share, and has no key"), previous
    if folder is None:
        if kind_of(config.state.url) == "memory":
            return MemorySource(), previous
        return _no_key("the vault has no key, and no folder to keep one in"), previous
    return FileSource(folder / KEY_FILE, makes_itself=True), previous


def _no_key(reason: str) -> MissingSource:
    return MissingSource(
        reason,
        f"set key in [vault], or the variable {KEY_VARIABLE}, to the same key for every gateway; "
        "`toolyard vault init --print` makes one",
    )


def require_key(config: Config, folder: Path | None, environ: Mapping[str, str] = os.environ) -> None:
    """Raises VaultError if no key is there and none can be made; for whoever is about to need the vault."""
    aes(bytes(KEY_BYTES))  # raises if the extra is not installed
    source, _ = sources(config, folder, environ)
    if source.exists() or not MasterKeys(source).makes_first:
        source.load()
