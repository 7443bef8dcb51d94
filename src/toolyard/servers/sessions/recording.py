"""Stores conversations from Python: one that a program holds, or those in files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from .embeddings import Encoder
from .formats.files import ImportTally
from .formats.native import SessionForm, session_of
from .importer import ConversationImporter
from .model import ConversationOwner, moment
from .stores.store import open_store

_ENCODER = Encoder()


async def record(
    session: SessionForm | Mapping[str, Any], *, tenant: str = "local", user: str = "", url: str = ""
) -> int:
    """Keep a conversation, in the place of what was kept under its id; how many messages that is.

    `session` is in the form `toolyard.sessions`, `url` as in the settings. Raises
    msgspec.ValidationError when a member does not fit the form, StoreError when it cannot be kept.
    """
    form = session if isinstance(session, SessionForm) else msgspec.convert(dict(session), SessionForm)
    told = session_of(form)
    if not told.updated_at:
        now = moment(time.time())
        told = replace(told, created_at=told.created_at or now, updated_at=now)
    keeper = open_store(url, _ENCODER)
    try:
        return await keeper.replace(ConversationOwner(tenant, user), told)
    finally:
        await keeper.close()


async def import_files(
    paths: Sequence[Path], *, tenant: str = "local", user: str = "", url: str = ""
) -> ImportTally:
    """Read what is new in folders and files, once; what became of it. Reading happens in this event loop."""
    keeper = open_store(url, _ENCODER)
    try:
        return await ConversationImporter(keeper, ConversationOwner(tenant, user), paths).look()
    finally:
        await keeper.close()
