"""Stores conversations from Python: one given as data, or those in files."""

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
    """Stores a conversation in place of any with the same id; returns how many messages it has.

    `session` is in the format `toolyard.sessions`, `url` as in the settings. Raises
    msgspec.ValidationError for a wrong member, ConversationStoreError if it cannot be stored.
    """
    form = session if isinstance(session, SessionForm) else msgspec.convert(dict(session), SessionForm)
    conversation = session_of(form)
    if not conversation.updated_at:
        now = moment(time.time())
        conversation = replace(conversation, created_at=conversation.created_at or now, updated_at=now)
    store = open_store(url, _ENCODER)
    try:
        return await store.replace(ConversationOwner(tenant, user), conversation)
    finally:
        await store.close()


async def import_files(
    paths: Sequence[Path], *, tenant: str = "local", user: str = "", url: str = ""
) -> ImportTally:
    """Imports what is new in folders and files, once. Reads files in this event loop."""
    store = open_store(url, _ENCODER)
    try:
        return await ConversationImporter(store, ConversationOwner(tenant, user), paths).scan()
    finally:
        await store.close()
