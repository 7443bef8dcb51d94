"""Which conversation a call belongs to: what sessions, and tools found by a search, are kept by.

Owns where it is read from. What is kept by it is not decided here.
"""

import hashlib

import msgspec
from msgspec import Raw, Struct, field

from .call import Call

THREAD_KEY = "toolyard/thread"
THREAD_HEADER = b"x-toolyard-thread"
MAX_THREAD = 200


class _Meta(Struct):
    thread: str = field(default="", name=THREAD_KEY)


class _Params(Struct):
    meta: Raw = field(default=Raw(b"{}"), name="_meta")


_decode_params = msgspec.json.Decoder(_Params).decode
_decode_meta = msgspec.json.Decoder(_Meta).decode


def thread_of(call: Call) -> str:
    """The request's own word first, then what it says in `_meta`, then the legacy session; else "" for none.

    A session's id is a secret, so a hash of it stands for it.
    """
    thread = call.caller.thread or _in_meta(call)
    if thread:
        return thread[:MAX_THREAD]
    if call.session is not None and call.session.id:
        return "session-" + hashlib.blake2b(call.session.id.encode(), digest_size=12).hexdigest()
    return ""


def _in_meta(call: Call) -> str:
    # Few calls have it, and decoding `_meta` of every one of them to find out is not free.
    if THREAD_KEY.encode() not in bytes(call.params):
        return ""
    try:
        return _decode_meta(_decode_params(call.params).meta).thread
    except msgspec.DecodeError:
        return ""
