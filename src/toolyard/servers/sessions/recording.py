"""Storing a conversation from Python: what a program that holds conversations calls after each turn."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from .meanings import Encoder
from .model import Owner, moment
from .reading.own_form import SessionForm, session_of
from .stores.opening import open_keeper

_ENCODER = Encoder()


async def record(
    session: SessionForm | Mapping[str, Any], *, tenant: str = "local", user: str = "", database: str = ""
) -> int:
    """Keep a conversation, in the place of what was kept under its id; how many messages that is.

    `session` is in the form `toolyard.sessions`, `database` as in the settings. Raises
    msgspec.ValidationError when a member does not fit the form, StoreError when it cannot be kept.
    """
    form = session if isinstance(session, SessionForm) else msgspec.convert(dict(session), SessionForm)
    told = session_of(form)
    if not told.updated_at:
        now = moment(time.time())
        told = replace(told, created_at=told.created_at or now, updated_at=now)
    keeper = open_keeper(database, _ENCODER)
    try:
        return await keeper.replace(Owner(tenant, user), told)
    finally:
        await keeper.close()
