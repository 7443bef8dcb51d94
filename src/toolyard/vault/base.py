"""What users of the vault need of it: addresses of secrets, and reading and replacing them."""

from typing import Literal, Protocol

from msgspec import Struct

SecretKind = Literal["token", "registration", "key", "profile", "named", "signing"]
"""Tokens and client registrations of OAuth, API keys, credential profiles, `${secret:NAME}`, our own keys."""


class SecretAddress(Struct, frozen=True):
    """Where a secret is. Every member is sealed in with it, so that none can be moved to another's place."""

    tenant: str
    kind: SecretKind
    upstream: str = ""
    """The server in the configuration; empty if it belongs to none."""
    principal: str = ""
    """The owner within the tenant (`Principal.owner`); empty if all of the tenant share it."""
    name: str = ""
    """Tells apart what would be at one address otherwise: an issuer, a profile, a secret's name."""


GATEWAY_TENANT = ""
"""The tenant of what belongs to the gateway itself, such as the secrets of its configuration."""


def tenant_words(tenant: str) -> str:
    """The tenant, for messages."""
    return f"tenant {tenant[:80]!r}" if tenant != GATEWAY_TENANT else "the gateway itself"


class StoredSecret(Struct, frozen=True):
    value: bytes
    version: str
    """Changes with every write; `replace` compares it."""

    def __repr__(self) -> str:
        return f"StoredSecret(version={self.version!r})"


class SecretStore(Protocol):
    """The vault. Raises VaultError (with a hint) if the key or the store is missing, wrong or damaged."""

    async def read(self, address: SecretAddress, max_age: float = 0.0) -> StoredSecret | None:
        """Reads from the store; with `max_age` also what this process read so many seconds ago at most."""
        ...

    async def replace(self, address: SecretAddress, value: bytes, seen: str | None) -> str | None:
        """Writes if the version is still `seen` (None: if there is nothing), and returns the new version.

        Returns None, and writes nothing, if somebody else was faster.
        """
        ...

    async def delete(self, address: SecretAddress, seen: str | None = None) -> bool:
        """Deletes; with `seen` only if that is still the version. Returns whether it did."""
        ...

    async def list(
        self, tenant: str, principal: str | None = None, kind: SecretKind | None = None
    ) -> list[SecretAddress]: ...


class VaultError(Exception):
    """The vault cannot be used. Neither text contains a secret.

    ├── VaultKeyError            the master key is missing, wrong, or was replaced by another
    ├── VaultDamagedError        a record was changed, moved or cut short
    └── VaultUnavailableError    the store does not answer now
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class VaultKeyError(VaultError):
    pass


class VaultDamagedError(VaultError):
    pass


class VaultUnavailableError(VaultError):
    pass
