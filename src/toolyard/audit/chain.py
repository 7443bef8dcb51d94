"""The hash chain: each line of the audit has a number, the hash of the line before it, and its own hash.

A hash is over the bytes of the line up to it, so no byte of a line can change unseen. With a key, only
whoever has the key can make lines that pass. Owns lines and no files; `verify` checks whole chains.
"""

import hashlib
import os
import re
import secrets
import socket
from datetime import datetime
from functools import partial

import msgspec
from msgspec import Struct

from .._version import __version__
from .record import now

UNSIGNED = "unsigned"
"""Stands for the key's id in the id of a chain that was made without a key."""
CHAIN_ID = re.compile(r"(?:[0-9a-f]{12}|pruned)-(?:[0-9a-f]{8}|unsigned)")
_MARK = b',"hash":"'
_END = re.compile(rb'([0-9a-f]{64})"\}')


class ChainKey:
    """Signs lines. Its id is in the id of every chain that it signs, and says nothing of the key."""

    def __init__(self, key: bytes | None) -> None:
        self.id = UNSIGNED
        self._key = b""
        if key is not None:
            root = hashlib.blake2b(key, digest_size=32).digest()
            self._key = hashlib.blake2b(b"audit chain", key=root, digest_size=32).digest()
            self.id = hashlib.blake2b(b"audit key id", key=self._key, digest_size=4).hexdigest()

        self.sign = partial(hashlib.blake2b, key=self._key, digest_size=32)

    def hash(self, signed: bytes) -> str:
        return self.sign(signed).hexdigest()


class ChainHead(Struct, frozen=True):
    """A place in a chain: its last line, or the line that another chain saw last."""

    chain: str
    seq: int
    hash: str


class ChainStart(Struct, frozen=True, kw_only=True, tag_field="event", tag="start"):
    """The first line of a chain. `links` hold the chains that were there before it."""

    time: datetime
    host: str
    pid: int
    version: str
    links: list[ChainHead] = []


class ChainContinued(Struct, frozen=True, kw_only=True, tag_field="event", tag="continued"):
    """The first line of each further file of a chain."""

    time: datetime
    host: str
    pid: int
    file: int


class ChainEnd(Struct, frozen=True, kw_only=True, tag_field="event", tag="end"):
    """The last line of a chain whose process was not killed."""

    time: datetime


class RecordsLost(Struct, frozen=True, kw_only=True, tag_field="event", tag="lost"):
    """Calls went on while the store could not be written, and have no records."""

    time: datetime
    count: int
    since: datetime


class RecordsPruned(Struct, frozen=True, kw_only=True, tag_field="event", tag="pruned"):
    """In the journal of retention: the lines of a chain up to `last` were removed."""

    time: datetime
    last: ChainHead


def chain_start(links: list[ChainHead]) -> ChainStart:
    return ChainStart(
        time=now(), host=socket.gethostname(), pid=os.getpid(), version=__version__, links=links
    )


class Chain:
    """Makes the lines of one chain. A line counts when `advance` is called, after it was written."""

    def __init__(self, key: ChainKey, head: ChainHead | None = None) -> None:
        self.key = key
        self.head = head or ChainHead(f"{secrets.token_hex(6)}-{key.id}", -1, "")
        self._prefix = f'{{"chain":"{self.head.chain}","seq":'.encode()
        self._sign = key.sign

    @property
    def id(self) -> str:
        return self.head.chain

    def line(self, body: bytes, after: ChainHead | None = None) -> tuple[bytes, ChainHead]:
        """The next line for `body`, an encoded object, and the head of the chain with it."""
        last = after or self.head
        seq = last.seq + 1
        signed = b'%b%d,"prev":"%b",%b' % (self._prefix, seq, last.hash.encode(), body[1:-1])
        digest = self._sign(signed).hexdigest()
        return b'%b,"hash":"%b"}\n' % (signed, digest.encode()), ChainHead(last.chain, seq, digest)

    def advance(self, head: ChainHead) -> None:
        self.head = head


class ChainLine(Struct, frozen=True):
    """A line that was read: its place in the chain, and what a check of it needs."""

    chain: str
    seq: int
    prev: str
    hash: str
    event: str
    time: datetime
    signed: bytes

    @property
    def head(self) -> ChainHead:
        return ChainHead(self.chain, self.seq, self.hash)


class _Place(Struct):
    chain: str
    seq: int
    prev: str
    event: str
    time: datetime


_decode_place = msgspec.json.Decoder(_Place).decode


def read_line(line: bytes) -> ChainLine | None:
    """None for what is not a line of an audit, or is not whole."""
    text = line[:-1] if line.endswith(b"\n") else line
    signed, mark, rest = text.rpartition(_MARK)
    end = _END.fullmatch(rest)
    if not mark or end is None:
        return None
    try:
        place = _decode_place(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return ChainLine(place.chain, place.seq, place.prev, end[1].decode(), place.event, place.time, signed)
