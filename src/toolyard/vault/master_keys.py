"""Master keys: where they come from, and how they wrap the keys of tenants.

`[vault] key` names a source: a file, an environment variable, the system's keyring, a key of AWS KMS, or an
identity of age. A source is read when the vault first needs it, and again when a record names a master key
that is not known yet, so that a running gateway follows a rotation. No message contains a key.
"""

import asyncio
import base64
import binascii
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol

from ..config.files import state_home
from ..extras import install_command
from ..file_access import explain, is_missing
from ..file_lock import locked
from .base import VaultDamagedError, VaultError, VaultKeyError, VaultUnavailableError, tenant_words
from .envelope import KEY_BYTES, NONCE_BYTES, aes

MIN_TEXT = 16
"""Bytes of a text that a key is derived from."""
FORMS = "file:PATH, env:NAME, keyring:SERVICE/NAME, aws-kms:ARN or age:PATH"


class MasterKey(Protocol):
    """Wraps keys of tenants. `tenant` is bound to the result: it does not unwrap for another one."""

    @property
    def id(self) -> str: ...

    def wrap(self, tenant: str, key: bytes) -> bytes:
        """Blocks if the key is elsewhere, as all methods of sources do."""
        ...

    def unwrap(self, tenant: str, wrapped: bytes) -> bytes: ...


class KeySource(Protocol):
    @property
    def shown(self) -> str:
        """What the user wrote, or would write, in `[vault] key`."""
        ...

    def load(self) -> Sequence[MasterKey]:
        """All keys that it has, the current one first. Raises VaultKeyError if it has none."""
        ...

    def exists(self) -> bool: ...

    def create(self) -> MasterKey:
        """Makes a key where there is none. Raises VaultKeyError if that is not for us to do."""
        ...


class LocalKey:
    """A master key in this process's memory."""

    def __init__(self, key: bytes) -> None:
        self.id = hashlib.blake2b(key, person=b"vault key id", digest_size=6).hexdigest()
        self._key = key
        self._cipher = aes(key)

    def wrap(self, tenant: str, key: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, key, self._bound(tenant))

    def unwrap(self, tenant: str, wrapped: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], self._bound(tenant))
        except (InvalidTag, ValueError):
            raise damaged_key(tenant) from None

    def _bound(self, tenant: str) -> bytes:
        return b"toolyard tenant key 1\0" + tenant.encode(errors="surrogatepass")

    def as_text(self) -> str:
        return base64.urlsafe_b64encode(self._key).decode()

    def __repr__(self) -> str:
        return f"LocalKey({self.id})"


def damaged_key(tenant: str) -> VaultDamagedError:
    return VaultDamagedError(
        f"the key of {tenant_words(tenant)} is damaged, or belongs to another tenant",
        "restore the state store from its backup, or `toolyard vault import` an export; nothing was changed",
    )


def new_key() -> LocalKey:
    return LocalKey(secrets.token_bytes(KEY_BYTES))


def key_of(text: str) -> bytes | None:
    """The key that a text spells, as base64 or in hexadecimal; None if it spells none."""
    text = text.strip()
    try:
        if len(text) == 2 * KEY_BYTES:
            return bytes.fromhex(text)
        key = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None


class FileSource:
    """A file of this user's alone: a key on each line, the current one first.

    `makes_itself`: the first one that needs it makes it, which is for the file that nobody named.
    """

    def __init__(self, path: Path, makes_itself: bool = False) -> None:
        self.path = path
        self.makes_itself = makes_itself

    @property
    def shown(self) -> str:
        return f"file:{self.path}"

    def exists(self) -> bool:
        return not is_missing(self.path)

    def load(self) -> list[LocalKey]:
        try:
            self._check_mode()
            lines = self.path.read_text().splitlines()
        except FileNotFoundError:
            raise VaultKeyError(
                f"the vault has no key: there is no file {str(self.path)!r}",
                "`toolyard vault init` makes it if there are no secrets yet; else restore it from a backup",
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            reason, hint = "it is not a text", "restore it from a backup"
            if isinstance(error, OSError):
                reason, hint = explain(error, self.path)
            raise VaultKeyError(
                f"the vault's key in {str(self.path)!r} cannot be read: {reason}", hint
            ) from None
        keys: list[LocalKey] = []
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.startswith("#"):
                found = key_of(line)
                if found is None:
                    raise VaultKeyError(
                        f"line {number} of the vault's key file {str(self.path)!r} is not a key",
                        "restore the file from a backup; a key is 32 bytes in base64",
                    )
                keys.append(LocalKey(found))
        if not keys:
            raise VaultKeyError(
                f"the vault's key file {str(self.path)!r} is empty", "restore the file from a backup"
            )
        return keys

    def create(self) -> LocalKey:
        made = new_key()
        self._make_folder()
        try:
            handle, draft = tempfile.mkstemp(dir=self.path.parent)  # readable by this user only
            try:
                _write(handle, [made])
                # Linked, so that two processes that start together agree on one key.
                os.link(draft, self.path)
            finally:
                os.unlink(draft)
            _keep_names(self.path.parent)
        except FileExistsError:
            return self.load()[0]
        except OSError as error:
            raise self._unwritable(error) from None
        return made

    @contextmanager
    def changing(self) -> Generator[None]:
        """For whoever reads the file, changes it and writes it: one at a time. Another one is refused."""
        with ExitStack() as stack:
            try:
                lock = self._beside(".lock")
                with suppress(FileExistsError):
                    os.close(self._make(lock))
                stack.enter_context(locked(lock, patience=0))
            except BlockingIOError:
                raise VaultKeyError(
                    f"another rotation is changing the vault's key in {str(self.path)!r}",
                    "wait until it has ended; `toolyard vault status` says whether something is left to do",
                ) from None
            except OSError as error:
                raise self._unwritable(error) from None
            yield

    def write(self, keys: Sequence[LocalKey]) -> None:
        """Replaces the file in one step, so that it is never half written. Only within `changing`."""
        try:
            draft = self._beside(".new")
            draft.unlink(missing_ok=True)  # of one that was killed
            try:
                _write(self._make(draft), keys)
                os.replace(draft, self._beside(""))
            except OSError:
                draft.unlink(missing_ok=True)
                raise
            # What the new key wraps may be in a store elsewhere, which does not share our power cut.
            _keep_names(draft.parent)
        except OSError as error:
            raise self._unwritable(error) from None

    def _beside(self, ending: str) -> Path:
        """Of the file itself: a link to it stays a link, and all its names have one lock."""
        file = Path(os.path.realpath(self.path))
        return file.with_name(file.name + ending)

    def _make(self, path: Path) -> int:
        """A new private file, which belongs to the owner of the key file even if root makes it."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            owner = self.path.stat()
            if os.name == "posix" and owner.st_uid != os.geteuid():
                os.fchown(handle, owner.st_uid, owner.st_gid)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> VaultKeyError:
        reason, hint = explain(error, self.path)
        return VaultKeyError(
            f"the vault's key cannot be written to {str(self.path)!r}: {reason}",
            f"{hint}; or name another source in [vault] key",
        )

    def _check_mode(self) -> None:
        if os.name == "posix" and stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            raise VaultKeyError(
                f"others can read the vault's key in {str(self.path)!r}", f"chmod 600 {self.path}"
            )


def _write(handle: int, keys: Sequence[LocalKey]) -> None:
    with os.fdopen(handle, "w") as file:
        file.write("# Master keys of Toolyard's vault, the current one first. Keep a copy elsewhere.\n")
        file.writelines(f"{key.as_text()}\n" for key in keys)
        file.flush()
        os.fsync(file.fileno())


def _keep_names(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where the file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class EnvSource:
    """An environment variable: 32 bytes in base64 or hexadecimal, or a longer text."""

    def __init__(self, name: str, environ: Mapping[str, str] = os.environ) -> None:
        self._name = name
        self._environ = environ

    @property
    def shown(self) -> str:
        return f"env:{self._name}"

    def exists(self) -> bool:
        return bool(self._environ.get(self._name, "").strip())

    def load(self) -> list[LocalKey]:
        text = self._environ.get(self._name, "").strip()
        if not text:
            raise VaultKeyError(
                f"the vault has no key: the variable {self._name} is not set",
                "set it to the same key for every gateway; `toolyard vault init --print` makes one",
            )
        return [LocalKey(_from_text(text, f"the variable {self._name}"))]

    def create(self) -> MasterKey:
        raise VaultKeyError(
            f"a variable such as {self._name} cannot be set from here",
            "`toolyard vault init --print` prints a new key; set the variable to it",
        )


class TextSource:
    """`[state] key`: where it is set already, the vault needs no other setting."""

    shown = "the key of [state]"

    def __init__(self, text: str) -> None:
        self._text = text

    def exists(self) -> bool:
        return True

    def load(self) -> list[LocalKey]:
        root = _from_text(self._text, "the key of [state]", MIN_TEXT // 2)
        # Not the key itself: credential profiles of earlier versions are encrypted with that.
        return [
            LocalKey(hashlib.blake2b(b"master", key=root, person=b"toolyard vault", digest_size=32).digest())
        ]

    def create(self) -> MasterKey:
        raise VaultKeyError("the vault has the key of [state] already", "nothing has to be done")


def _from_text(text: str, what: str, least: int = MIN_TEXT) -> bytes:
    found = key_of(text)
    if found is not None:
        return found
    if len(text.encode()) < least:
        raise VaultKeyError(
            f"{what} is too short for a key",
            "use 32 random bytes in base64: `toolyard vault init --print` makes them",
        )
    # The salt is fixed because every gateway must derive the same key. 50 ms, to slow down guessing.
    return hashlib.scrypt(text.encode(), salt=b"toolyard vault", n=1 << 14, r=8, p=1, dklen=KEY_BYTES)


class MemorySource:
    """A key of this process alone, for a store that ends with it too."""

    shown = "a key in memory"

    def __init__(self) -> None:
        self._key: LocalKey | None = None

    def exists(self) -> bool:
        return self._key is not None

    def load(self) -> list[LocalKey]:
        return [self.create()]

    def create(self) -> LocalKey:
        self._key = self._key or new_key()
        return self._key


class MissingSource:
    """There is no key, and none may be made: replicas would each make one of their own."""

    shown = "none"

    def __init__(self, reason: str, hint: str) -> None:
        self._error = VaultKeyError(reason, hint)

    def exists(self) -> bool:
        return False

    def load(self) -> list[LocalKey]:
        raise self._error

    def create(self) -> LocalKey:
        raise self._error


class KeyringSource:
    """The system's keyring: Keychain, Secret Service, the Windows credential store."""

    def __init__(self, place: str) -> None:
        self._service, _, self._name = place.rpartition("/")
        if not self._service or not self._name:
            raise VaultKeyError(
                f"{f'keyring:{place}'[:80]!r} names no entry of the keyring", "as in keyring:toolyard/vault"
            )

    @property
    def shown(self) -> str:
        return f"keyring:{self._service}/{self._name}"

    def exists(self) -> bool:
        return read_keyring(self._service, self._name) is not None

    def load(self) -> list[LocalKey]:
        text = read_keyring(self._service, self._name)
        if text is None:
            raise VaultKeyError(
                f"the vault has no key: the keyring has no {self._name!r} of {self._service!r}",
                "`toolyard vault init` makes it",
            )
        return [LocalKey(_from_text(text, f"{self._name!r} of {self._service!r} in the keyring"))]

    def create(self) -> LocalKey:
        """Another process may have made it since it was missing: keyrings replace what they have."""
        keyring = keyring_package()
        with self._lock():
            if self.exists():
                return self.load()[0]
            made = new_key()
            try:
                keyring.set_password(self._service, self._name, made.as_text())
            except Exception as error:  # each backend raises its own
                raise keyring_error(error) from None
            return made

    def _lock(self) -> AbstractContextManager[None]:
        folder = state_home()
        return locked(folder) if folder is not None and folder.is_dir() else nullcontext()


def keyring_package() -> Any:
    try:
        import keyring  # pyright: ignore
    except ImportError:
        raise VaultError(
            "the system's keyring needs a package that is not installed", install_command("keyring")
        ) from None
    return keyring  # pyright: ignore[reportUnknownVariableType]


def read_keyring(service: str, name: str) -> str | None:
    keyring = keyring_package()
    try:
        found = keyring.get_password(service, name)
    except Exception as error:  # each backend raises its own
        raise keyring_error(error) from None
    return found if isinstance(found, str) else None


def keyring_error(error: Exception) -> VaultError:
    return VaultUnavailableError(
        f"the system's keyring cannot be used: {type(error).__name__}",
        "unlock it, or use another source: " + FORMS,
    )


class KmsSource:
    """A key of AWS KMS. It never leaves there; KMS wraps and unwraps."""

    def __init__(self, arn: str) -> None:
        self._arn = arn

    @property
    def shown(self) -> str:
        return f"aws-kms:{self._arn}"

    def exists(self) -> bool:
        return True

    def load(self) -> "list[KmsKey]":
        return [KmsKey(self._arn)]

    def create(self) -> MasterKey:
        raise VaultKeyError(
            "a key of AWS KMS is made with AWS",
            "`aws kms create-key` makes one; put its ARN into [vault] key",
        )


class KmsKey:
    def __init__(self, arn: str) -> None:
        self.id = "kms-" + hashlib.blake2b(arn.encode(), digest_size=6).hexdigest()
        self._arn = arn

    def wrap(self, tenant: str, key: bytes) -> bytes:
        from .aws import call_aws

        found = call_aws(
            "kms", "encrypt", self._arn, KeyId=self._arn, Plaintext=key, EncryptionContext=self._bound(tenant)
        )
        return found["CiphertextBlob"]

    def unwrap(self, tenant: str, wrapped: bytes) -> bytes:
        from .aws import AwsRefusedError, call_aws

        try:
            found = call_aws(
                "kms", "decrypt", self._arn, KeyId=self._arn, CiphertextBlob=wrapped,
                EncryptionContext=self._bound(tenant),
            )  # fmt: skip
        except AwsRefusedError as error:
            if error.code in ("InvalidCiphertextException", "IncorrectKeyException"):
                raise damaged_key(tenant) from None
            raise
        return found["Plaintext"]

    def _bound(self, tenant: str) -> dict[str, str]:
        return {"toolyard": "vault", "tenant": tenant}


class AgeSource:
    """A file with an identity of age, as `age-keygen` makes it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def shown(self) -> str:
        return f"age:{self._path}"

    def exists(self) -> bool:
        return not is_missing(self._path)

    def load(self) -> "list[AgeKey]":
        try:
            lines = self._path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a text"
            raise VaultKeyError(
                f"the vault has no key: the age identity {str(self._path)!r} cannot be read: {reason}",
                "`toolyard vault init` makes one; if there are secrets, restore it",
            ) from None
        found = [line.strip() for line in lines if line.strip().upper().startswith("AGE-SECRET-KEY-1")]
        if not found:
            raise VaultKeyError(
                f"{str(self._path)!r} has no identity of age",
                "it has a line that begins with AGE-SECRET-KEY-1",
            )
        return [AgeKey(line) for line in found]

    def create(self) -> "AgeKey":
        identity = str(_age().x25519.Identity.generate())
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(f"{identity}\n")
        except OSError as error:
            raise VaultKeyError(
                f"the age identity {str(self._path)!r} cannot be written: {error.strerror}",
                "let this user write there",
            ) from None
        return AgeKey(identity)


class AgeKey:
    def __init__(self, text: str) -> None:
        age = _age()
        try:
            self._identity: Any = age.x25519.Identity.from_str(text)
        except Exception:
            raise VaultKeyError("the age identity is not valid", "`age-keygen` makes one") from None
        self._recipient: Any = self._identity.to_public()
        self.id = "age-" + hashlib.blake2b(str(self._recipient).encode(), digest_size=6).hexdigest()

    def wrap(self, tenant: str, key: bytes) -> bytes:
        # age authenticates no data besides, so the tenant is inside.
        return _age().encrypt(key + tenant.encode(errors="surrogatepass"), [self._recipient])

    def unwrap(self, tenant: str, wrapped: bytes) -> bytes:
        try:
            found: bytes = _age().decrypt(wrapped, [self._identity])
        except Exception:
            raise damaged_key(tenant) from None
        if found[KEY_BYTES:] != tenant.encode(errors="surrogatepass"):
            raise damaged_key(tenant)
        return found[:KEY_BYTES]


def _age() -> Any:
    try:
        import pyrage  # pyright: ignore
    except ImportError:
        raise VaultError("keys of age need a package that is not installed", install_command("age")) from None
    return pyrage  # pyright: ignore[reportUnknownVariableType]


def source_of(spec: str) -> KeySource:
    """The source that `[vault] key` names."""
    kind, colon, place = spec.partition(":")
    if colon and place.strip():
        match kind:
            case "file":
                return FileSource(Path(place).expanduser())
            case "env":
                return EnvSource(place)
            case "keyring":
                return KeyringSource(place)
            case "aws-kms":
                return KmsSource(place)
            case "age":
                return AgeSource(Path(place).expanduser())
            case _:
                pass
    # Only the kind is quoted: somebody may have written the key itself.
    what = (
        f"unknown kind {kind!r}"
        if colon and kind.replace("-", "").isalnum() and len(kind) < 20
        else "no kind"
    )
    raise VaultKeyError(f"[vault] key has {what}", f"use {FORMS}")


class MasterKeys:
    """The master keys that are known here: those of the current source, then those of earlier ones."""

    def __init__(self, current: KeySource, previous: Sequence[KeySource] = ()) -> None:
        self.source = current
        self.previous = tuple(previous)
        self._current: MasterKey | None = None
        self._known: dict[str, MasterKey] = {}
        self._reading = asyncio.Lock()

    async def current(self) -> MasterKey:
        """The key that wraps what is new."""
        if self._current is None:
            await self.read_again()
        assert self._current is not None
        return self._current

    async def find(self, id: str) -> MasterKey | None:
        if id not in self._known:
            await self.read_again()
        return self._known.get(id)

    @property
    def makes_first(self) -> bool:
        """Whether a key is missing and would be made by whoever needs the first one."""
        source = self.source
        return isinstance(source, MemorySource) or (
            isinstance(source, FileSource) and source.makes_itself and not source.exists()
        )

    @property
    def ids(self) -> list[str]:
        return list(self._known)

    async def read_again(self) -> None:
        async with self._reading:
            await asyncio.to_thread(self._load)

    def _load(self) -> None:
        keys = list(self.source.load())
        known = {key.id: key for source in self.previous for key in source.load()}
        self._known = {key.id: key for key in keys} | {
            id: known[id] for id in known if id not in {k.id for k in keys}
        }
        self._current = keys[0]
