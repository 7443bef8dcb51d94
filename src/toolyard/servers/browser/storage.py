"""The stored data of an owner: cookies and local storage, encrypted at rest, and downloads.

An owner is a tenant and an agent. Without a folder everything lasts as long as the server runs.
"""

import base64
import hashlib
import json
import logging
import os
import re
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...file_lock import locked

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


logger = logging.getLogger("toolyard.servers.browser")

MAX_STATE_BYTES = 4 * 1024 * 1024
"""Maximum size for one owner. Cookies are small; local storage that does not fit is dropped."""

LOCK_SECONDS = 1.0
"""Much longer than another process needs to save."""

StorageState = dict[str, Any]
"""In the shape of Playwright's `storage_state`: `cookies` and `origins`."""


class BrowserOwner(NamedTuple):
    tenant: str
    agent: str

    @property
    def mark(self) -> str:
        """The owner in file names."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()[:32]


class StateVault:
    def __init__(self, folder: Path | None, key: str) -> None:
        self._folder = folder
        self._key = key
        self._fernet: Fernet | None = None
        self._held: dict[BrowserOwner, bytes] = {}

    def load(self, owner: BrowserOwner) -> StorageState:
        """Returns an empty state if there is none, or none that this key decrypts."""
        try:
            sealed = self._held.get(owner) if self._folder is None else _read(self._path(owner))
        except OSError as error:
            logger.warning("the saved state of %s cannot be read: %s", owner.mark, error.strerror)
            sealed = None
        if sealed is None:
            return {"cookies": [], "origins": []}
        from cryptography.fernet import InvalidToken  # 30 ms

        try:
            found = json.loads(self._cipher().decrypt(sealed))
            if found["owner"] == list(owner):
                return cast(StorageState, found["memory"])
            logger.warning("the saved state of %s belongs to another owner; ignored", owner.mark)
        except (InvalidToken, OSError, ValueError, KeyError, TypeError):
            logger.warning("the saved state of %s cannot be decrypted with this key", owner.mark)
        return {"cookies": [], "origins": []}

    def save(self, owner: BrowserOwner, ours: StorageState, before: StorageState) -> None:
        """Saves what changed since `before`; other threads and processes of the owner save theirs.

        Logs a failure: the browser works without saved state.
        """
        try:
            with ExitStack() as stack:
                if self._folder is not None:
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    with suppress(OSError):  # not every disk has locks
                        lock = locked(self._path(owner).with_suffix(".lock"), patience=LOCK_SECONDS)
                        stack.enter_context(lock)
                self._save(owner, _merged(self.load(owner), ours, before))
        except (OSError, ValueError) as error:  # ValueError: an invalid key
            logger.warning("the state of %s cannot be saved: %s", owner.mark, error)

    def _save(self, owner: BrowserOwner, memory: StorageState) -> None:
        text = _serialized(owner, memory)
        if len(text) > MAX_STATE_BYTES:
            text = _serialized(owner, memory | {"origins": []})
        sealed = self._cipher().encrypt(text)
        if self._folder is None:
            self._held[owner] = sealed
        else:
            _write(self._path(owner), sealed)

    def _path(self, owner: BrowserOwner) -> Path:
        assert self._folder is not None
        return self._folder / f"{owner.mark}.memory"

    def _cipher(self) -> "Fernet":
        if self._fernet is None:
            from cryptography.fernet import Fernet

            self._fernet = Fernet(self._secret())
        return self._fernet

    def _secret(self) -> bytes:
        from cryptography.fernet import Fernet

        if self._key:
            stretched = hashlib.scrypt(
                self._key.encode(), salt=b"toolyard browser", n=2**14, r=8, p=1, dklen=32
            )
            return base64.urlsafe_b64encode(stretched)
        if self._folder is None:
            return Fernet.generate_key()
        path = self._folder / "key"
        found = _read(path)
        if found is None:
            _write_first(path, Fernet.generate_key())
            found = path.read_bytes()  # another process may have written it first
        return found


def _merged(stored: StorageState, ours: StorageState, before: StorageState) -> StorageState:
    """Applies our changes since `before` to the stored state, so that two threads keep both changes."""
    kept = {_cookie_key(cookie): cookie for cookie in stored["cookies"]}
    for cookie in before["cookies"]:
        kept.pop(_cookie_key(cookie), None)
    kept |= {_cookie_key(cookie): cookie for cookie in ours["cookies"]}
    origins = {origin["origin"]: origin for origin in [*stored["origins"], *ours["origins"]]}
    return {"cookies": list(kept.values()), "origins": list(origins.values())}


def _cookie_key(cookie: dict[str, Any]) -> tuple[str, str, str]:
    return cookie["name"], cookie["domain"], cookie["path"]


def _serialized(owner: BrowserOwner, memory: StorageState) -> bytes:
    return json.dumps({"owner": list(owner), "memory": memory}).encode()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write(path: Path, data: bytes) -> None:
    """Writes atomically, readable by the owner of the process only."""
    _beside(path, data).replace(path)


def _write_first(path: Path, data: bytes) -> None:
    """Like `_write`, unless the file exists."""
    new = _beside(path, data)
    try:
        os.link(new, path)
    except FileExistsError:
        pass
    finally:
        new.unlink()


def _beside(path: Path, data: bytes) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return new


_UNSAFE = re.compile(r"[^\w.()+ -]+")
MAX_NAME = 120
MAX_NAME_BYTES = 180


class DownloadFolder:
    """The downloads of all owners; without a folder they are deleted with the server."""

    def __init__(self, folder: Path | None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="toolyard-") if folder is None else None
        self._folder = Path(self._temporary.name) if self._temporary is not None else folder

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def place(self, owner: BrowserOwner, suggested: str) -> Path:
        """Creates an empty file to overwrite, with that name or a similar one."""
        folder = self._of(owner)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = safe_name(suggested)
        stem, _, suffix = name.rpartition(".")
        for number in range(1, 10_000):
            numbered = (
                name if number == 1 else f"{stem or suffix} ({number})" + (f".{suffix}" if stem else "")
            )
            try:
                (folder / numbered).touch(mode=0o600, exist_ok=False)
            except FileExistsError:
                continue
            return folder / numbered
        raise FileExistsError(name)

    def names(self, owner: BrowserOwner) -> list[str]:
        folder = self._of(owner)
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def read(self, owner: BrowserOwner, name: str) -> bytes | None:
        """Returns None if the owner has no file of that name; a path is not a name."""
        return (self._of(owner) / name).read_bytes() if name in self.names(owner) else None

    def _of(self, owner: BrowserOwner) -> Path:
        assert self._folder is not None
        readable = _UNSAFE.sub("_", "-".join(part for part in owner if part))[:40].strip(". ")
        return self._folder / f"{readable or 'local'}-{owner.mark[:12]}"


def safe_name(suggested: str) -> str:
    last = suggested.replace("\\", "/").rsplit("/", 1)[-1]
    name = _UNSAFE.sub("_", last).strip(". ")
    stem, dot, suffix = name.rpartition(".")
    if dot and len(suffix) <= 10:
        return (_short(stem, MAX_NAME - 11).rstrip(". ") or "download") + "." + suffix
    return _short(name, MAX_NAME) or "download"


def _short(name: str, most: int) -> str:
    """File systems limit a name to 255 bytes."""
    return name[:most].encode()[:MAX_NAME_BYTES].decode(errors="ignore")
