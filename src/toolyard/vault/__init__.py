"""Secrets at rest: sealed under keys of their tenants, shared by all replicas.

`factory.open_vault` opens the vault of a configuration.
"""

from .base import (
    SecretAddress,
    SecretKind,
    SecretStore,
    StoredSecret,
    VaultDamagedError,
    VaultError,
    VaultKeyError,
    VaultUnavailableError,
)

__all__ = [
    "SecretAddress",
    "SecretKind",
    "SecretStore",
    "StoredSecret",
    "VaultDamagedError",
    "VaultError",
    "VaultKeyError",
    "VaultUnavailableError",
]
