"""Callers who bring their own key: which headers it comes in, and what becomes of it.

A key is read from the request, handed on with the call, and forgotten with it. What stays behind is its keyed
hash, which is the caller's tenant: sessions, tasks, caches and logs know a caller by nothing else.
"""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ..wire.call import Identity
from ..wire.headers import Head
from ..wire.seal import Sealer
from ..wire.secret import AUTHORIZATION, Secret, is_usable
from .identity import Refused

Admit = Callable[[Secret], Awaitable[None]]
"""Asks whether whoever has this key may enter at all; raises `Refused` when not."""

_BEARER = "bearer "
_PURPOSE = "caller-key"
_CHALLENGE = (b"www-authenticate", b"Bearer")


class CallerKeys(Struct, frozen=True):
    """Where callers put their keys."""

    headers: tuple[str, ...]
    """Lower-case names. In `authorization`, the key stands behind `Bearer`."""
    required: bool = True
    """Whether a request without any is turned away; else it is served without a key."""
    every: bool = False
    """Whether each of the headers is a key of its own; else the one named first counts."""
    admit: Admit | None = None


class Tenants:
    """Reads the keys of requests."""

    def __init__(self, keys: Callable[[], CallerKeys | None], sealer: Sealer) -> None:
        self._keys = keys
        self._sealer = sealer

    async def enter(self, head: Head, identity: Identity) -> tuple[Identity, Mapping[str, Secret] | None]:
        """Whose request it is by its keys, and the keys; raises `Refused` when one is missing or unusable."""
        keys = self._keys()
        if keys is None:
            return identity, None
        found: dict[str, Secret] = {}
        for name in keys.headers:
            value = _value(head, name)
            if value is not None:
                found[name] = Secret(value, self._sealer.fingerprint(value, _PURPOSE))
                if not keys.every:
                    break
        if not found:
            if keys.required:
                raise Refused(401, _missing(keys.headers), [_CHALLENGE])
            return identity, None
        if keys.admit is not None:
            try:
                await keys.admit(next(iter(found.values())))
            except BaseException:
                forget(found)
                raise
        marks = "+".join(dict.fromkeys(secret.fingerprint for secret in found.values()))
        tenant = f"key:{marks}" if identity.tenant == Identity().tenant else f"{identity.tenant}/key:{marks}"
        return replace(identity, tenant=tenant), found


def forget(secrets: Mapping[str, Secret]) -> None:
    """The request is over, and so are its keys, whoever still holds them."""
    for secret in secrets.values():
        secret.forget()


def _value(head: Head, name: str) -> str | None:
    """A header's key, None when it is not there; what is there and cannot be a key is refused."""
    raw = name.encode()
    if raw not in head.raw:
        return None
    if sum(1 for known, _ in head.pairs if known == raw) > 1:
        raise Refused(400, f"The header {name!r} came more than once")
    value = head.get(raw) or ""
    if name == AUTHORIZATION:
        if value[: len(_BEARER)].lower() != _BEARER:
            return None  # of another scheme, and so not for us
        value = value[len(_BEARER) :].strip()
    if not value:
        return None
    if not is_usable(value):
        message = (
            f"The key in {name!r} cannot be used: one of printable ASCII is needed, without blanks or commas"
        )
        raise Refused(401, message, [_CHALLENGE])
    return value


def _missing(headers: tuple[str, ...]) -> str:
    ways = [f"'{name}: Bearer …'" if name == AUTHORIZATION else f"{name!r}" for name in headers]
    return f"Your key is missing: send it in the header {' or '.join(ways)}"
