"""Saves the catalogue on disk, one file per upstream, so that a restarted gateway can list at once."""

import asyncio
import hashlib
import logging
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from .._version import __version__
from ..config import ServerConfig
from ..file_access import explain
from .catalogue import ServerCatalogue, ServerIdentity
from .items import KINDS, UnusableItemError, item_json, read_item

logger = logging.getLogger("toolyard.catalogue")

FORMAT = 2


class _File(Struct):
    format: int
    by: str
    """The version that wrote the file; another version may read items differently."""
    where: str
    identity: ServerIdentity
    lists: dict[str, list[Raw]]
    digests: dict[str, bytes] = {}
    fault: str | None = None


class CatalogueStore:
    """Saves nothing if `folder` is None."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = None if folder is None else folder / "catalogue"
        self._warned = False

    def load(self, config: ServerConfig, server: ServerCatalogue) -> None:
        """Fill in the lists that were saved last. A file that cannot be read is ignored."""
        path = self._path(config.name)
        if path is None:
            return
        try:
            saved = msgspec.json.decode(path.read_bytes(), type=_File)
        except FileNotFoundError:
            return
        except OSError as error:
            self._warn("the lists of servers that were saved cannot be read", path, error)
            return
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            logger.warning("the saved catalogue of %r cannot be read: %s", config.name, error)
            return
        if saved.format != FORMAT or saved.by != __version__ or saved.where != _where(config):
            return
        try:
            lists = {
                kind: tuple(read_item(kind, raw) for raw in saved.lists.get(kind.name, [])) for kind in KINDS
            }
        except UnusableItemError as error:
            logger.warning("the saved catalogue of %r cannot be used: %s", config.name, error)
            return
        for kind, items in lists.items():
            server.replace_list(kind, items)
        server.identity = saved.identity
        server.digests = saved.digests
        server.fault = saved.fault
        server.was_read = bool(saved.identity.version)
        server.failed_before = not server.was_read

    async def save(self, config: ServerConfig, server: ServerCatalogue) -> None:
        path = self._path(config.name)
        if path is None:
            return
        lists = {
            kind.name: [Raw(item_json(kind, item, item.own)) for item in server.lists.get(kind.name, ())]
            for kind in KINDS
        }
        body = msgspec.json.encode(
            _File(FORMAT, __version__, _where(config), server.identity, lists, server.digests, server.fault)
        )
        try:
            await asyncio.to_thread(_write, path, body)
        except OSError as error:
            self._warn("the lists of servers cannot be saved", path, error)

    def _warn(self, what: str, path: Path, error: OSError) -> None:
        """Once: what is wrong with one file is wrong with all, as a rule."""
        if not self._warned:
            self._warned = True
            logger.warning("%s: %s", what, explain(error, path))

    def _path(self, server: str) -> Path | None:
        if self._folder is None:
            return None
        slug = re.sub(r"[^A-Za-z0-9-]+", "_", server)[:40]
        mark = hashlib.blake2b(server.encode(), digest_size=4).hexdigest()
        return self._folder / f"{slug}-{mark}.json"


def _where(config: ServerConfig) -> str:
    """A fingerprint of the upstream's address: lists of another one under the same name are not used."""
    where: Any = msgspec.to_builtins(config.where, enc_hook=str)
    place = msgspec.json.encode([type(config.where).__name__, where], order="sorted")
    return hashlib.blake2b(place, digest_size=16).hexdigest()


def _write(path: Path, body: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
