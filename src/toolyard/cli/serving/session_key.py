"""The key that signs session ids, kept in a file so that sessions survive a restart."""

import os
import stat
from pathlib import Path

from ..ui.messages import CommandError, warn

VARIABLE = "TOOLYARD_KEY"
MIN_BYTES = 16
MAKE_ONE = "make one: python -c 'import secrets; print(secrets.token_hex(32))'"


def check_key_variable() -> None:
    """Every server reads TOOLYARD_KEY when it is made; say what is wrong with it before that."""
    value = os.environ.get(VARIABLE, "").encode()
    if value and len(value) < MIN_BYTES:
        raise CommandError(f"{VARIABLE} has {len(value)} bytes and needs at least {MIN_BYTES}", MAKE_ONE)


def session_key(file: Path | None) -> bytes | None:
    """The key to sign with: the file given, or TOOLYARD_KEY, or a file of ours; None for a random one."""
    if file is not None:
        try:
            return _from_file(file)
        except (OSError, ValueError) as error:
            raise CommandError(f"--key-file {str(file)!r}: {_reason(error)}", MAKE_ONE) from None
    if value := os.environ.get(VARIABLE, "").encode():
        return value
    try:
        return _from_file(_state_folder() / "key")
    except (OSError, ValueError, RuntimeError) as error:
        advice = f"set {VARIABLE}, or name a file with --key-file"
        warn(f"no place for the session key ({_reason(error)}); sessions will not outlive a restart", advice)
        return None


def _state_folder() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification says to ignore a relative one.
    base = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return base / "toolyard"


def _from_file(path: Path) -> bytes:
    if not path.exists():
        _create(path)
    key = path.read_bytes().strip()
    if len(key) < MIN_BYTES:
        raise ValueError(f"{path} has {len(key)} bytes and needs at least {MIN_BYTES}")
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        warn(f"others can read the session key in {path}", f"chmod 600 {path}")
    return key


def _create(path: Path) -> None:
    import secrets
    import tempfile  # with its own imports 8 ms, once in the life of a key

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written whole elsewhere and then linked, so that two processes that start together agree.
    handle, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_hex(32).encode())
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
