"""Storing conversations from Python: one that a program holds, or those in files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from .importing import Importer
from .meanings import Encoder
from .model import Owner, moment
from .reading.files import Tally
from .reading.own_form import SessionForm, session_of
from .stores.opening import open_keeper

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
    keeper = open_keeper(url, _ENCODER)
    try:
        return await keeper.replace(Owner(tenant, user), told)
    finally:
        await keeper.close()


async def import_files(
    paths: Sequence[Path], *, tenant: str = "local", user: str = "", url: str = ""
) -> Tally:
    """Read what is new in folders and files, once; what became of it. Reading happens in this event loop."""
    keeper = open_keeper(url, _ENCODER)
    try:
        return await Importer(keeper, Owner(tenant, user), paths).look()
    finally:
        await keeper.close()
