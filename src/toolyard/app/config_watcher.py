"""Reloads the gateway when its configuration files, or the secrets that they refer to, change.

Polls files twice a second, which is cheap and works on every file system. Secrets that are not in files are
looked up every ten seconds, if there are any.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from ..config import Config, ConfigError
from ..config.references import path_of
from ..vault.references import WATCHED, load_resolved
from .gateway import Gateway

logger = logging.getLogger("toolyard.app")

POLL_SECONDS = 0.5
SECRET_SECONDS = 10.0

_FileStamps = dict[Path, tuple[int, int, int] | None]


async def watch(
    gateway: Gateway,
    path: Path,
    read: Callable[[Path], Config] = load_resolved,
    reload_now: asyncio.Event | None = None,
    interval: float = POLL_SECONDS,
    secret_interval: float = SECRET_SECONDS,
) -> None:
    """Run until cancelled. Setting `reload_now` reads the files at once, changed or not."""
    files = _files(gateway.config, path)
    loaded: _FileStamps = {}  # empty: the files may have changed since the gateway read them
    previous: _FileStamps = {}
    looked = time.monotonic()
    while True:
        forced = await _wait(reload_now, interval)
        if _has_remote_secrets(gateway.config) and time.monotonic() - looked >= secret_interval:
            forced = True
        now = _stamps(files)
        # An error may be fixed in a file that is not known yet, such as a missing include.
        if now == loaded and not forced and gateway.config_fault is None:
            continue
        # A file that is still being written may be valid with half of its servers: wait until it rests.
        is_at_rest, previous = now == previous, now
        if not is_at_rest and not forced:
            continue
        looked = time.monotonic()
        try:
            config = await asyncio.to_thread(read, path)
        except ConfigError as error:
            loaded = now
            if gateway.config_fault != str(error):
                gateway.set_config_fault(str(error))
                logger.error("the changed configuration is not used: %s", error)
            continue
        recovered = gateway.config_fault is not None
        gateway.set_config_fault(None)
        if config == gateway.config:
            if recovered:
                logger.info("the configuration can be used again, and is what is served")
        else:
            try:
                await gateway.reload(config)
            except ConfigError as error:
                loaded = now
                gateway.set_config_fault(str(error))
                logger.error("the changed configuration is not used: %s", error)
                continue
            except Exception as error:  # a supervisor: it goes on watching
                logger.error("the changed configuration could not be applied", exc_info=error)
            logger.info("the configuration was reloaded: %d servers", len(config.servers))
        # Stamps from before reading, so that a later change is read next time.
        files = _files(config, path)
        loaded = {file: now.get(file, _stamp(file)) for file in files}


def _files(config: Config, path: Path) -> tuple[Path, ...]:
    """Those of the configuration, and those with secrets."""
    folder = path.parent
    secrets = (path_of(one, folder).expanduser() for one in config.references if one.kind in ("file", "sops"))
    variables = () if config.env_file is None else (config.env_file.path,)
    return (*(config.files or (path,)), *variables, *secrets)


def _has_remote_secrets(config: Config) -> bool:
    return any(one.kind in WATCHED for one in config.references)


async def _wait(event: asyncio.Event | None, seconds: float) -> bool:
    """Whether the event was set."""
    if event is None:
        await asyncio.sleep(seconds)
        return False
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True


def _stamps(files: tuple[Path, ...]) -> _FileStamps:
    return {path: _stamp(path) for path in files}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
