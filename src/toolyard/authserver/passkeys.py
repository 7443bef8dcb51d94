"""Passkeys (WebAuthn): what a browser is asked for, and which of its answers count.

Owns the checks of the standard: address, challenge, presence and verification of the user, signature. Stores
nothing: passkeys are in the records of `users`, and what binds a challenge to a browser is in `server`.

No attestation is asked for, so nothing in a registration is signed. The browser hands over the public key in
DER beside the CBOR of the authenticator (WebAuthn, "Easily accessing credential data"), and no CBOR is read.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    PublicKey: TypeAlias = EllipticCurvePublicKey | Ed25519PublicKey | RSAPublicKey

MAX_ANSWER = 32 * 1024
MAX_CREDENTIAL_ID = 1023
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 8192
PROMPT_SECONDS = 300
"""How long a browser lets its user decide."""
_ES256, _EDDSA, _RS256 = -7, -8, -257
_PRESENT, _VERIFIED, _CAN_SYNC, _IS_SYNCED, _HAS_KEY = 0x01, 0x04, 0x08, 0x10, 0x40
_FIXED = 37
"""Bytes of authenticator data before the parts that may follow: hash of the RP id, flags, counter."""


class PasskeyError(Exception):
    """Why an answer does not count. For the log."""


class RelyingParty(Struct, frozen=True):
    """The gateway as browsers know it. A passkey is good for one `id` only."""

    id: str
    origin: str


class Passkey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A public key, and what is known of it."""

    credential: bytes
    key: bytes
    """DER of a SubjectPublicKeyInfo."""
    host: str
    """The id of the relying party that it was made for."""
    count: int = 0
    synced: bool = False
    """Whether its owner's devices share it."""
    name: str = ""
    created: float = 0.0
    used: float = 0.0
    went_back: float = 0.0
    """When its counter last went back, as it does if there is a copy."""

    @property
    def id(self) -> str:
        """Short, for people."""
        return hashlib.sha256(self.credential).hexdigest()[:12]

    def __repr__(self) -> str:
        return f"Passkey({self.id!r})"


class Assertion(Struct, frozen=True):
    """A browser's answer to `navigator.credentials.get`. Nothing of it is checked yet."""

    credential: bytes
    handle: str
    """Names the user."""
    client_data: bytes
    authenticator_data: bytes
    signature: bytes


class AssertedUse(Struct, frozen=True):
    """What an authenticator says of a passkey at a sign-in that counts."""

    count: int
    synced: bool


class _Registered(Struct):
    client_data: str
    authenticator_data: str
    public_key: str


class _Asserted(Struct):
    id: str
    client_data: str
    authenticator_data: str
    signature: str
    handle: str


_Answer = TypeVar("_Answer", _Registered, _Asserted)


class _ClientData(Struct):
    type: str
    challenge: str
    origin: str
    is_framed: bool = field(name="crossOrigin", default=False)


class _AuthenticatorData(Struct, frozen=True):
    flags: int
    count: int
    rest: bytes

    @property
    def is_synced(self) -> bool:
        return bool(self.flags & _IS_SYNCED)


def relying_party(base: str) -> RelyingParty | None:
    """None where browsers have no passkeys: http beyond localhost, and numbers instead of a host name."""
    parts = urlsplit(base)
    host = (parts.hostname or "").lower()
    is_local = host == "localhost" or host.endswith(".localhost")
    if not host or _is_number(host) or not (parts.scheme == "https" or (parts.scheme == "http" and is_local)):
        return None
    return RelyingParty(host, origin_of(base))


def origin_of(url: str) -> str:
    """As browsers write it: in small letters, without the port that goes without saying."""
    parts = urlsplit(url)
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{host.removesuffix(f':{usual}')}"


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def creation_options(
    party: RelyingParty,
    challenge: str,
    *,
    gateway: str,
    user: str,
    handle: str,
    known: tuple[Passkey, ...] = (),
) -> dict[str, object]:
    """For `navigator.credentials.create`, bytes as base64url. `known` are not made a second time."""
    return {
        "rp": {"id": party.id, "name": gateway},
        "user": {"id": handle, "name": user, "displayName": user},
        "challenge": challenge,
        "pubKeyCredParams": [{"type": "public-key", "alg": alg} for alg in (_ES256, _EDDSA, _RS256)],
        "excludeCredentials": [
            {"type": "public-key", "id": to_text(passkey.credential)}
            for passkey in known
            if passkey.host == party.id
        ],
        "authenticatorSelection": {
            "residentKey": "required",
            "requireResidentKey": True,
            "userVerification": "required",
        },
        "attestation": "none",
        "timeout": PROMPT_SECONDS * 1000,
    }


def request_options(party: RelyingParty, challenge: str) -> dict[str, object]:
    """For `navigator.credentials.get`: any passkey of this gateway, whoever's it is."""
    return {
        "rpId": party.id,
        "challenge": challenge,
        "allowCredentials": [],
        "userVerification": "required",
        "timeout": PROMPT_SECONDS * 1000,
    }


def verify_registration(answer: str, party: RelyingParty, challenge: str) -> Passkey:
    """The passkey that a browser has made. Raises PasskeyError."""
    made = _decode(answer, _Registered)
    _check_client_data(from_text(made.client_data), "webauthn.create", party, challenge)
    data = _read_authenticator_data(from_text(made.authenticator_data), party)
    key = from_text(made.public_key)
    _load_key(key)
    return Passkey(
        credential=_new_credential(data),
        key=key,
        host=party.id,
        count=data.count,
        synced=data.is_synced,
    )


def read_assertion(answer: str) -> Assertion:
    """Raises PasskeyError."""
    given = _decode(answer, _Asserted)
    return Assertion(
        from_text(given.id),
        given.handle,
        from_text(given.client_data),
        from_text(given.authenticator_data),
        from_text(given.signature),
    )


def verify_assertion(
    assertion: Assertion, passkey: Passkey, party: RelyingParty, challenge: str
) -> AssertedUse:
    """Raises PasskeyError unless the holder of this passkey has just signed this challenge here."""
    if assertion.credential != passkey.credential:
        raise PasskeyError("the answer is of another passkey")
    _check_client_data(assertion.client_data, "webauthn.get", party, challenge)
    data = _read_authenticator_data(assertion.authenticator_data, party)
    signed = assertion.authenticator_data + hashlib.sha256(assertion.client_data).digest()
    _verify_signature(_load_key(passkey.key), assertion.signature, signed)
    return AssertedUse(data.count, data.is_synced)


def _check_client_data(raw: bytes, kind: str, party: RelyingParty, challenge: str) -> None:
    try:
        said = msgspec.json.decode(raw, type=_ClientData)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise PasskeyError("the client data cannot be read") from None
    if said.type != kind:
        raise PasskeyError(f"the client data are of the type {said.type[:40]!r}")
    if not hmac.compare_digest(said.challenge.encode(), challenge.encode()):
        raise PasskeyError("the challenge is another one")
    if said.origin != party.origin:
        raise PasskeyError(f"the answer was made at {said.origin[:200]!r}, not at {party.origin!r}")
    if said.is_framed:
        raise PasskeyError("the answer was made in a frame of another site")


def _read_authenticator_data(raw: bytes, party: RelyingParty) -> _AuthenticatorData:
    if len(raw) < _FIXED:
        raise PasskeyError("the authenticator data are cut off")
    if not hmac.compare_digest(raw[:32], hashlib.sha256(party.id.encode()).digest()):
        raise PasskeyError(f"the passkey is not for {party.id!r}")
    flags = raw[32]
    if not flags & _PRESENT or not flags & _VERIFIED:
        raise PasskeyError("the authenticator has not verified its user")
    if flags & _IS_SYNCED and not flags & _CAN_SYNC:
        raise PasskeyError("the flags contradict each other")
    return _AuthenticatorData(flags, int.from_bytes(raw[33:_FIXED], "big"), raw[_FIXED:])


def _new_credential(data: _AuthenticatorData) -> bytes:
    """The id of a new credential: after the model of the authenticator, before the key."""
    size = int.from_bytes(data.rest[16:18], "big")
    credential = data.rest[18 : 18 + size]
    has_key = data.flags & _HAS_KEY and len(data.rest) > 18 + size
    if not has_key or not 1 <= size <= MAX_CREDENTIAL_ID:
        raise PasskeyError("the authenticator data have no new key")
    return credential


def _load_key(der: bytes) -> "PublicKey":
    """Raises PasskeyError for a key of another kind than was asked for."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        key = load_der_public_key(der)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise PasskeyError("the public key cannot be read") from None
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    if isinstance(key, rsa.RSAPublicKey) and MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
        return key
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    raise PasskeyError("the public key is neither of ES256, EdDSA nor RS256")


def _verify_signature(key: "PublicKey", signature: bytes, signed: bytes) -> None:
    """By the algorithm that belongs to the key; nothing in the answer chooses it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, signed, ec.ECDSA(SHA256()))
        elif isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, signed)
        else:
            key.verify(signature, signed, padding.PKCS1v15(), SHA256())
    except InvalidSignature:
        raise PasskeyError("the signature is not of this passkey") from None


def _decode(answer: str, type: type[_Answer]) -> _Answer:
    if len(answer) > MAX_ANSWER:
        raise PasskeyError("the answer is too long")
    try:
        return msgspec.json.decode(answer, type=type)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise PasskeyError("the answer cannot be read") from None


def to_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def from_text(text: str) -> bytes:
    """Raises PasskeyError if it is not base64url."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise PasskeyError("the answer is not base64url") from None
