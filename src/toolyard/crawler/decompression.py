"""Undoes the compression of a body piece by piece, and stops where it becomes larger than allowed.

gzip, deflate (with and without the zlib header that servers forget), Brotli and Zstandard, also several of
them one after the other.
"""

import sys
import zlib
from importlib import import_module
from typing import Any, Protocol

ACCEPTED = "gzip, deflate, br, zstd"
MAX_CODINGS = 3
_WINDOW_LOG = 23
"""8 MiB, the largest window that HTTP allows for Zstandard (RFC 9659)."""


class CompressionError(Exception):
    """`unknown` (the coding is in the text), `broken` or `too_large`."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


class _Decoder(Protocol):
    def decode(self, data: bytes, most: int) -> bytes:
        """At most `most` bytes. Raises CompressionError if there are more."""
        ...


class Decompressor:
    def __init__(self, codings: str, max_bytes: int) -> None:
        names = [name for one in codings.lower().split(",") if (name := one.strip()) and name != "identity"]
        if len(names) > MAX_CODINGS:
            raise CompressionError("unknown", codings[:100])
        self._decoders = [_decoder(name) for name in reversed(names)]
        self._left = max_bytes

    def decode(self, data: bytes) -> bytes:
        for decoder in self._decoders:
            data = decoder.decode(data, self._left)
        self._left -= len(data)
        if self._left < 0:
            raise CompressionError("too_large")
        return data


def _decoder(name: str) -> _Decoder:
    if name in ("gzip", "x-gzip", "deflate", "x-deflate"):
        return _Zlib(is_gzip="gzip" in name)
    if name == "br":
        return _Brotli()
    if name == "zstd":
        return _Zstandard()
    raise CompressionError("unknown", name[:40])


class _Zlib:
    def __init__(self, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._engine: Any = zlib.decompressobj(16 + zlib.MAX_WBITS) if is_gzip else None

    def decode(self, data: bytes, most: int) -> bytes:
        if not data:
            return b""
        if self._engine is None:
            # RFC 9110 wants the zlib header (its low four bits are 8); some servers send none.
            has_header = data[0] & 0x0F == 8 and (len(data) < 2 or (data[0] * 256 + data[1]) % 31 == 0)
            self._engine = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
        found = b""
        try:
            while data:
                found += self._engine.decompress(data, most - len(found) + 1)
                if len(found) > most or self._engine.unconsumed_tail:
                    raise CompressionError("too_large")
                data = self._engine.unused_data
                if not data or not self._is_gzip or not data.startswith(b"\x1f\x8b"):
                    break  # trailing bytes that are no further member are ignored, as browsers do
                self._engine = zlib.decompressobj(16 + zlib.MAX_WBITS)
        except zlib.error:
            raise CompressionError("broken") from None
        return found


class _Brotli:
    def __init__(self) -> None:
        brotli: Any = import_module("brotli")  # 2 ms; untyped

        self._engine: Any = brotli.Decompressor()
        self._error: type[Exception] = brotli.error

    def decode(self, data: bytes, most: int) -> bytes:
        found = b""
        try:
            while True:
                found += self._engine.process(data, output_buffer_limit=most - len(found) + 1)
                if len(found) > most:
                    raise CompressionError("too_large")
                if self._engine.can_accept_more_data() or self._engine.is_finished():
                    return found
                data = b""
        except self._error:
            raise CompressionError("broken") from None


class _Zstandard:
    def __init__(self) -> None:
        name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        self._module: Any = import_module(name)  # 5 ms
        self._engine = self._fresh()

    def _fresh(self) -> Any:
        return self._module.ZstdDecompressor(
            options={self._module.DecompressionParameter.window_log_max: _WINDOW_LOG}
        )

    def decode(self, data: bytes, most: int) -> bytes:
        found = b""
        try:
            while data or not self._engine.needs_input:
                if self._engine.eof:  # several frames one after the other are one body
                    data = self._engine.unused_data + data
                    if not data:
                        break
                    self._engine = self._fresh()
                found += self._engine.decompress(data, most - len(found) + 1)
                data = b""
                if len(found) > most:
                    raise CompressionError("too_large")
        except self._module.ZstdError:
            raise CompressionError("broken") from None
        return found
