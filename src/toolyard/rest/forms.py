"""How fields and files are written into bodies and queries."""

import secrets
from urllib.parse import quote

from .files import File


def urlencoded(pairs: list[tuple[str, str]]) -> str:
    return "&".join(
        f"{quote(name, safe='[]', errors='replace')}={quote(value, safe='', errors='replace')}"
        for name, value in pairs
    )


def multipart(fields: list[tuple[str, str]], files: list[File]) -> tuple[bytes, str]:
    """The body, and its content type."""
    boundary = secrets.token_hex(16)
    pieces: list[bytes] = []
    for name, value in fields:
        pieces += [_head(boundary, name), b"\r\n", value.encode(errors="replace"), b"\r\n"]
    for file in files:
        extra = f'; filename="{file.filename}"\r\nContent-Type: {file.kind}\r\n'
        pieces += [
            _head(boundary, file.field)[:-2],
            extra.encode(errors="replace"),
            b"\r\n",
            file.content,
            b"\r\n",
        ]
    pieces.append(f"--{boundary}--\r\n".encode())
    return b"".join(pieces), f"multipart/form-data; boundary={boundary}"


def _head(boundary: str, name: str) -> bytes:
    safe = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    return f'--{boundary}\r\nContent-Disposition: form-data; name="{safe}"\r\n'.encode(errors="replace")
