"""The key that signs session ids, kept in a file so that sessions survive a restart."""

import os
import stat
from pathlib import Path

from ...config.files import state_home
from ...file_access import explain, is_missing
from ...wire.seal import KEY_VARIABLE, MIN_KEY_BYTES
from ..ui.messages import CommandError, warn

CREATE_HINT = "create one: python -c 'import secrets; print(secrets.token_hex(32))'"


def check_key_variable() -> None:
    """Check TOOLYARD_KEY. Call it before a server or gateway is built, which read it without a hint."""
    value = os.environ.get(KEY_VARIABLE, "").encode()
    if value and len(value) < MIN_KEY_BYTES:
        problem = f"{KEY_VARIABLE} has {len(value)} bytes and needs at least {MIN_KEY_BYTES}"
        raise CommandError(problem, CREATE_HINT)


def session_key(file: Path | None) -> bytes | None:
    """The key: from `file`, TOOLYARD_KEY, or a file in the state folder; None for a random one."""
    if file is not None:
        try:
            return _from_file(file)
        except OSError as error:
            fault = explain(error, file)
            raise CommandError(f"--key-file {str(file)!r}: {fault.reason}", fault.hint) from None
        except ValueError as error:
            raise CommandError(f"--key-file {str(file)!r}: {error}", CREATE_HINT) from None
    if value := os.environ.get(KEY_VARIABLE, "").encode():
        return value
    advice = f"set {KEY_VARIABLE}, or name a file with --key-file"
    try:
        return _from_file(default_key_file())
    except OSError as error:
        reason, *hints = explain(error, default_key_file())
    except (ValueError, RuntimeError) as error:
        reason, hints = str(error), []
    warn(f"cannot store the session key: {reason}; sessions will end with this process", *hints, advice)
    return None


def default_key_file() -> Path:
    """Raises RuntimeError if this user has no home folder."""
    folder = state_home()
    if folder is None:
        raise RuntimeError("this user has no home folder")
    return folder / "key"


def _from_file(path: Path) -> bytes:
    if is_missing(path):
        _create(path)
    key = path.read_bytes().strip()
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"{path} has {len(key)} bytes and needs at least {MIN_KEY_BYTES}")
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        warn(f"others can read the session key in {path}", f"chmod 600 {path}")
    return key


def _create(path: Path) -> None:
    import secrets
    import tempfile  # 8 ms, and only when a key is created

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written to a temporary file and then linked, so that two processes that start together agree.
    handle, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_hex(32).encode())
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)
