"""Reloads the gateway when its configuration files change.

Polls them twice a second: cheap, and it works on every file system.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from ..config import Config, ConfigError, load
from .gateway import Gateway

logger = logging.getLogger("toolyard.app")

LOOK_EVERY = 0.5

_FileStamps = dict[Path, tuple[int, int, int] | None]


async def watch(
    gateway: Gateway,
    path: Path,
    read: Callable[[Path], Config] = load,
    again: asyncio.Event | None = None,
    look_every: float = LOOK_EVERY,
) -> None:
    """Runs until cancelled. Setting `again` has the files read at once, changed or not."""
    files = gateway.config.files or (path,)
    marks: _FileStamps = {}  # read once more at first: it may have changed since
    seen: _FileStamps = {}
    while True:
        forced = await _pause(again, look_every)
        now = _stamps(files)
        # What is wrong may be put right in a file that we do not know of, such as a missing include.
        if now == marks and not forced and gateway.config_fault is None:
            continue
        # One that is still being written may look whole, with half of its servers: wait until it rests.
        settled, seen = now == seen, now
        if not settled and not forced:
            continue
        try:
            config = read(path)
        except ConfigError as error:
            marks = now
            if gateway.config_fault != str(error):
                gateway.config_fault = str(error)
                logger.error("the changed configuration is not used: %s", error)
            continue
        gateway.config_fault = None
        if config != gateway.config:
            try:
                await gateway.reload(config)
            except Exception as error:  # whoever watches goes on watching
                logger.error("the changed configuration could not be taken over", exc_info=error)
            logger.info("the configuration was read again: %d servers", len(config.servers))
        # The marks are those from before reading: a change since then is read next time.
        files = config.files or (path,)
        marks = {file: now.get(file, _stamp(file)) for file in files}


async def _pause(again: asyncio.Event | None, seconds: float) -> bool:
    """Whether we were woken."""
    if again is None:
        await asyncio.sleep(seconds)
        return False
    try:
        async with asyncio.timeout(seconds):
            await again.wait()
    except TimeoutError:
        return False
    again.clear()
    return True


def _stamps(files: tuple[Path, ...]) -> _FileStamps:
    return {path: _stamp(path) for path in files}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
