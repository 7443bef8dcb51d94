"""An authenticator in software, of which a test controls every byte, and the browser that it belongs to."""

import base64
import hashlib
import html
import json
import re
import secrets
from typing import Any
from urllib.parse import urljoin

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.authserver.yard import Browser, Page

PRESENT, VERIFIED, CAN_SYNC, SYNCED, HAS_KEY = 0x01, 0x04, 0x08, 0x10, 0x40
_OPTIONS = re.compile(r'data-options="([^"]*)"')


def text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def options_of(page: Page) -> dict[str, Any]:
    """What a page asks the browser for."""
    found = _OPTIONS.search(page.text)
    assert found, (page.status, page.text[-2000:])
    return json.loads(html.unescape(found[1]))


class Authenticator:
    """Has one passkey. `counts`: whether it counts its signatures, as security keys do."""

    def __init__(self, origin: str, key: Any = None, counts: bool = False) -> None:
        self.origin = origin
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        self.credential = secrets.token_bytes(32)
        self.handle = ""
        self.count = 0
        self.counts = counts

    def public_key(self) -> bytes:
        return self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def create(self, options: dict[str, Any], **changed: Any) -> str:
        """The answer to `navigator.credentials.create`, as the page's script sends it."""
        self.handle = options["user"]["id"]
        model_and_id = bytes(16) + len(self.credential).to_bytes(2, "big") + self.credential
        data = self.data(options["rp"]["id"], PRESENT | VERIFIED | HAS_KEY) + model_and_id + b"\xa5 a key"
        answer = {
            "client_data": text(self.client_data("webauthn.create", options["challenge"])),
            "authenticator_data": text(data),
            "public_key": text(self.public_key()),
        }
        return json.dumps(answer | changed)

    def get(
        self,
        options: dict[str, Any],
        *,
        flags: int = PRESENT | VERIFIED,
        rp: str = "",
        client_data: bytes | None = None,
        **changed: Any,
    ) -> str:
        """The answer to `navigator.credentials.get`, signed after all that is changed but the last."""
        self.count += self.counts
        data = self.data(rp or options["rpId"], flags)
        said = client_data or self.client_data("webauthn.get", options["challenge"])
        answer = {
            "id": text(self.credential),
            "client_data": text(said),
            "authenticator_data": text(data),
            "signature": text(self.sign(data + hashlib.sha256(said).digest())),
            "handle": self.handle,
        }
        return json.dumps(answer | changed)

    def client_data(self, kind: str, challenge: str, **changed: Any) -> bytes:
        said = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(said | changed).encode()

    def data(self, rp: str, flags: int) -> bytes:
        return hashlib.sha256(rp.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")

    def sign(self, signed: bytes) -> bytes:
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            return self.key.sign(signed)
        if isinstance(self.key, rsa.RSAPrivateKey):
            return self.key.sign(signed, padding.PKCS1v15(), SHA256())
        return self.key.sign(signed, ec.ECDSA(SHA256()))


async def send(browser: Browser, page: Page, action: str, credential: str, **more: str) -> Page:
    """What the page's script does with an answer."""
    form = {"flow": page.hidden["flow"], "credential": credential, **more}
    return await browser.post(urljoin(page.url, action), form)


async def enrol(browser: Browser, link: str, authenticator: Authenticator, **more: str) -> Page:
    page = await browser.get(link)
    assert page.status == 200, page.text[-2000:]
    return await send(browser, page, "enrol", authenticator.create(options_of(page)), **more)
